//! The rows: the worker's, and those of the job.

use super::world::Broken;

/// Whose command ran, and under which fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    Due,
    Delayed,
    /// By the worker that is explored, in this turn.
    Running(u8),
    /// By the other one.
    Elsewhere,
    Done,
}

/// What became of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    Done,
    Later,
    GivenBack,
}

/// What a claimer sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Turn {
    pub worker: u8,
    pub number: u8,
    /// What has ended, and under which fence that ran: the server is not told the latter.
    pub ended: Option<(Outcome, u8)>,
    pub claims: bool,
}

/// What the server has.
#[derive(Debug, Clone, Hash)]
pub struct Server {
    /// The worker that is registered, and its last turn.
    pub worker: u8,
    pub turn: u8,
    /// Whether its lease is not over for good.
    pub lives: bool,
    /// Whether nobody may end it yet.
    pub is_renewed: bool,
    pub place: Place,
    pub fence: u8,
}

impl Server {
    /// Carries out a turn, as far as it counts.
    pub fn carry_out(&mut self, turn: Turn, broken: Option<Broken>) {
        let registered = self.worker == turn.worker && self.lives;
        let counts = registered && self.turn + 1 == turn.number;
        if counts {
            self.turn = turn.number;
            self.is_renewed = true;
        }
        // What the worker has it has by its number alone: after a rescue nothing.
        let passes = counts || broken == Some(Broken::LateTurnsCount) && registered;
        let has = matches!(self.place, Place::Running(_)) && passes
            || self.place == Place::Elsewhere && broken == Some(Broken::LateCompletionCounts);
        if let Some((outcome, fence)) = turn.ended.filter(|_| has) {
            self.place = match outcome {
                Outcome::Done => {
                    assert_eq!(fence, self.fence, "done by a claim that was over");
                    Place::Done
                }
                Outcome::Later => Place::Delayed,
                Outcome::GivenBack => Place::Due,
            };
        }
        if turn.claims && passes && self.turn == turn.number && self.place == Place::Due {
            self.place = Place::Running(turn.number);
            self.fence += 1;
        }
    }

    /// What a worker learns of its turn: its number, unless the worker is gone; and whether it has claimed the job in it.
    pub fn answer(&self, worker: u8, number: u8) -> (Option<u8>, bool) {
        let turn = (self.lives && self.worker == worker).then_some(self.turn);
        (turn, turn.is_some() && self.place == Place::Running(number))
    }
}

//! A worker of two processes, another worker, the server, and what may happen to them.

use super::server::{Outcome, Place, Server, Turn};
use crate::lock::explorer::Model;

/// A rule that is left out on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Broken {
    /// A turn hands in and claims whatever its number.
    LateTurnsCount,
    /// A turn whose answer was lost is taken as not carried out, and the next number comes next.
    LostIsNotAsked,
    /// A new claimer leaves alone what the one before has claimed and not told.
    UnknownIsKept,
    /// A new claimer goes on with the number of the one before, of which a turn may be on its way.
    NotTakenOver,
    /// Who asks what became of a turn believes that the lease lasts from then on.
    AskedIsRenewed,
    /// The lease is over while the command runs.
    RescuedTooSoon,
    /// A completion counts whoever has the job.
    LateCompletionCounts,
}

/// How often what may go wrong does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Budget {
    pub losses: u8,
    pub late: u8,
    pub crashes: u8,
    pub silences: u8,
    pub later: u8,
}

/// What the claimer is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Claimer {
    /// It waits for the coordinator.
    Ready,
    /// It has taken over, and knows neither its last turn nor what it has.
    New,
    /// A turn is to be sent, also once more.
    Sends(Turn),
    /// It asks what became of a turn.
    Asks(Turn),
    /// It has an answer to pass on: whether it has claimed the job.
    Answered(bool),
}

/// What may happen.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// The coordinator has the claimer take a turn.
    Begin,
    /// The turn is carried out, and answered.
    Answer,
    /// The turn is carried out, and the answer lost.
    LoseAnswer,
    /// The turn does not reach the server, yet.
    Delay,
    /// A turn that was given up reaches the server.
    Arrive,
    Ask,
    PassOn,
    Resume,
    Crash,
    Start,
    /// The server has not heard of the worker for long: the coordinator ends the command.
    Silence,
    Renew,
    Rescue,
    Promote,
    End(Outcome),
    OtherClaims,
    OtherEnds,
}

/// All of it.
#[derive(Debug, Clone, Hash)]
pub struct World {
    server: Server,
    /// Turns that were given up and are on their way.
    late: Vec<Turn>,
    claimer: Claimer,
    /// The worker's number, and that of its last turn.
    worker: u8,
    last: u8,
    /// The fence of a job that was claimed and not started.
    buffer: Option<u8>,
    /// The fence under which the command runs.
    command: Option<u8>,
    /// What has ended and is not known to be handed in.
    ended: Option<(Outcome, u8)>,
    /// Whether the lease may be over.
    is_silent: bool,
    budget: Budget,
    broken: Option<Broken>,
}

impl World {
    pub fn new(budget: Budget, broken: Option<Broken>) -> Self {
        Self {
            server: Server {
                worker: 0,
                turn: 0,
                lives: true,
                is_renewed: true,
                place: Place::Due,
                fence: 0,
            },
            late: Vec::new(),
            claimer: Claimer::Ready,
            worker: 0,
            last: 0,
            buffer: None,
            command: None,
            ended: None,
            is_silent: false,
            budget,
            broken,
        }
    }

    /// Takes notice of what the server says of a turn. Its answer renews the lease, that to a question does not.
    fn learn(&mut self, turn: Turn, renews: bool) {
        let (number, has_claimed) = self.server.answer(self.worker, turn.number);
        match number {
            None => self.lose(),
            Some(number) if number == turn.number => {
                self.last = number;
                self.is_silent &= !renews;
                self.claimer = Claimer::Answered(has_claimed);
            }
            // It was not carried out.
            Some(_) => self.claimer = Claimer::Sends(turn),
        }
    }

    /// Others have the job; the worker registers anew.
    fn lose(&mut self) {
        self.worker += 1;
        (self.server.worker, self.server.turn) = (self.worker, 0);
        (self.server.lives, self.server.is_renewed) = (true, true);
        (self.last, self.is_silent) = (0, false);
        (self.buffer, self.command, self.ended) = (None, None, None);
        self.claimer = Claimer::Ready;
    }

    /// Goes on with what another claimer has left.
    fn resume(&mut self) {
        if !self.server.lives {
            return self.lose();
        }
        if self.broken != Some(Broken::NotTakenOver) {
            self.server.turn += 1;
        }
        self.last = self.server.turn;
        (self.server.is_renewed, self.is_silent) = (true, false);
        let is_known = self.command.is_some() || self.buffer.is_some() || self.ended.is_some();
        let has = matches!(self.server.place, Place::Running(_));
        if has && !is_known && self.broken != Some(Broken::UnknownIsKept) {
            self.ended = Some((Outcome::GivenBack, self.server.fence));
        }
        self.claimer = Claimer::Ready;
    }

    /// After an answer that was lost.
    fn give_up(&mut self, turn: Turn) {
        self.claimer = if self.broken == Some(Broken::LostIsNotAsked) {
            self.last = turn.number;
            Claimer::Ready
        } else {
            Claimer::Asks(turn)
        };
    }

    fn is_over(&self) -> bool {
        self.server.place == Place::Done
    }
}

impl Model for World {
    type Event = Event;

    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        match self.claimer {
            Claimer::Ready => {
                // A turn in which nothing is due changes nothing but its number.
                let is_free = self.command.is_none() && self.buffer.is_none();
                if self.ended.is_some() || is_free && self.server.place == Place::Due {
                    events.push(Event::Begin);
                }
                if self.is_silent {
                    events.push(Event::Renew);
                }
            }
            Claimer::New => events.push(Event::Resume),
            Claimer::Sends(_) => {
                events.push(Event::Answer);
                if self.budget.losses > 0 {
                    events.push(Event::LoseAnswer);
                }
                if self.budget.late > 0 {
                    events.push(Event::Delay);
                }
            }
            Claimer::Asks(_) => events.push(Event::Ask),
            Claimer::Answered(_) => events.push(Event::PassOn),
        }
        if self.budget.crashes > 0 && self.claimer != Claimer::New {
            events.push(Event::Crash);
        }
        if !self.late.is_empty() {
            events.push(Event::Arrive);
        }
        if self.buffer.is_some() && !self.is_silent {
            events.push(Event::Start);
        }
        if self.command.is_some() {
            events.push(Event::End(Outcome::Done));
            if self.budget.later > 0 {
                events.push(Event::End(Outcome::Later));
            }
        }
        if self.budget.silences > 0 && !self.is_silent {
            events.push(Event::Silence);
        }
        if self.server.lives && !self.server.is_renewed {
            events.push(Event::Rescue);
        }
        match self.server.place {
            Place::Delayed => events.push(Event::Promote),
            Place::Due => events.push(Event::OtherClaims),
            Place::Elsewhere => events.push(Event::OtherEnds),
            _ => {}
        }
        events
    }

    fn apply(&mut self, event: Event) {
        match (event, self.claimer) {
            (Event::Begin, _) => {
                self.claimer = Claimer::Sends(Turn {
                    worker: self.worker,
                    number: self.last + 1,
                    ended: self.ended,
                    claims: self.command.is_none() && self.buffer.is_none(),
                });
            }
            (Event::Answer, Claimer::Sends(turn)) => {
                self.server.carry_out(turn, self.broken);
                self.learn(turn, self.server.is_renewed);
            }
            (Event::LoseAnswer, Claimer::Sends(turn)) => {
                self.budget.losses -= 1;
                self.server.carry_out(turn, self.broken);
                self.give_up(turn);
            }
            (Event::Delay, Claimer::Sends(turn)) => {
                self.budget.late -= 1;
                self.late.push(turn);
                self.give_up(turn);
            }
            (Event::Arrive, _) => {
                let turn = self.late.remove(0);
                self.server.carry_out(turn, self.broken);
            }
            (Event::Ask, Claimer::Asks(turn)) => {
                self.learn(turn, self.broken == Some(Broken::AskedIsRenewed));
            }
            (Event::PassOn, Claimer::Answered(has_claimed)) => {
                self.ended = None;
                self.buffer = has_claimed.then_some(self.server.fence).or(self.buffer);
                self.claimer = Claimer::Ready;
            }
            (Event::Start, _) => self.command = self.buffer.take(),
            (Event::Renew, _) => {
                if self.server.lives {
                    (self.server.is_renewed, self.is_silent) = (true, false);
                } else {
                    self.lose();
                }
            }
            (Event::Crash, _) => {
                self.budget.crashes -= 1;
                self.claimer = Claimer::New;
            }
            (Event::Resume, _) => self.resume(),
            (Event::Silence, _) => {
                self.budget.silences -= 1;
                (self.server.is_renewed, self.is_silent) = (false, true);
                if self.broken != Some(Broken::RescuedTooSoon) {
                    let fence = self.command.take();
                    self.ended = fence
                        .map(|fence| (Outcome::GivenBack, fence))
                        .or(self.ended);
                }
            }
            (Event::Rescue, _) => {
                self.server.lives = false;
                if matches!(self.server.place, Place::Running(_)) {
                    self.server.place = Place::Due;
                }
            }
            (Event::Promote, _) => self.server.place = Place::Due,
            (Event::End(outcome), _) => {
                if outcome == Outcome::Later {
                    self.budget.later -= 1;
                }
                self.ended = self.command.take().map(|fence| (outcome, fence));
            }
            (Event::OtherClaims, _) => {
                self.server.place = Place::Elsewhere;
                self.server.fence += 1;
            }
            (Event::OtherEnds, _) => self.server.place = Place::Done,
            _ => {}
        }
    }

    fn check(&self) {
        if let Some(fence) = self.command {
            let has = matches!(self.server.place, Place::Running(_)) && self.server.lives;
            assert!(
                has && self.server.fence == fence,
                "a command runs, and its worker does not have the job: {self:?}"
            );
        }
    }

    fn settles_by(&self, event: Event) -> bool {
        // The other worker may never come.
        !matches!(
            event,
            Event::LoseAnswer
                | Event::Delay
                | Event::Crash
                | Event::Silence
                | Event::Rescue
                | Event::OtherClaims
                | Event::End(Outcome::Later)
        )
    }

    fn is_at_rest(&self) -> bool {
        self.is_over()
            && self.claimer == Claimer::Ready
            && self.command.is_none()
            && self.buffer.is_none()
            && self.ended.is_none()
            && self.late.is_empty()
    }

    fn check_rest(&self) {}
}

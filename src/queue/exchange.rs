//! What a worker does until it knows what became of a turn. Decisions only, no server and no clock: the claimer carries them out, and
//! the model tries them in every order of events.

/// A turn whose outcome is not known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Exchange {
    number: u64,
    /// Whether an answer was lost: the turn may have been carried out.
    in_doubt: bool,
}

/// What to ask the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// To carry out the turn, on the condition that the one before was the last.
    CarryOut,
    /// What became of it.
    LookUp,
}

/// What follows from an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The turn was carried out: what it handed in is in, and what is running with its number was claimed.
    Done,
    /// The worker is gone, and has nothing any more.
    Lost,
    /// The server has lost turns that it had confirmed: it kept its commits in memory when it was killed, or it took over without them.
    Forgotten,
    /// Ask again.
    Again,
}

impl Exchange {
    /// The turn after this one.
    pub fn after(last: u64) -> Self {
        Self {
            number: last + 1,
            in_doubt: false,
        }
    }

    /// Its number.
    pub fn number(self) -> u64 {
        self.number
    }

    /// What to ask next.
    pub fn step(self) -> Step {
        if self.in_doubt {
            Step::LookUp
        } else {
            Step::CarryOut
        }
    }

    /// The number of the worker's last turn, as the answer says; `None`: the worker is gone.
    pub fn on_answer(&mut self, last: Option<u64>) -> Verdict {
        match last {
            None => Verdict::Lost,
            Some(last) if last == self.number => Verdict::Done,
            Some(last) if last + 1 < self.number => Verdict::Forgotten,
            // It was not carried out. If its session still does so, the condition keeps it from being carried out twice.
            Some(_) => {
                self.in_doubt = false;
                Verdict::Again
            }
        }
    }

    /// There was no answer, or one that leaves open what was done.
    pub fn on_silence(&mut self) {
        self.in_doubt = true;
    }
}

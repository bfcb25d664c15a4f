//! The first question of a caller on a session, until there is a clear answer. Decisions only, as in `queue`.

use super::queue::{Answer, Step};

/// What to do next on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Prepare the session to hold a lock, acquire the run id lock, and ask [`Starting::step`].
    First,
    /// Kill this older session of this dblock, which the server still keeps.
    EndGhost(u64),
    /// Nothing: this is the clear answer to this step.
    Over(Step, Answer),
}

/// The server's answer to an [`Ask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The older session is killed.
    Killed,
    /// The statements were interrupted, but the server may have run them.
    Unclear,
    /// The answer to the step, and the session that holds the run id lock.
    First(Answer, Option<u64>),
}

/// The beginning of a request on one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Starting {
    step: Step,
    may_have_ghost: bool,
    /// Whether nobody held the run id lock when it was asked last.
    was_unmarked: bool,
}

impl Starting {
    /// It begins with this step. `may_have_ghost`: an older session of this dblock may hold the run id lock.
    pub fn new(step: Step, may_have_ghost: bool) -> Self {
        Self {
            step,
            may_have_ghost,
            was_unmarked: false,
        }
    }

    /// The step to ask next.
    pub fn step(self) -> Step {
        self.step
    }

    /// What follows from a reply.
    pub fn next(&mut self, reply: Reply) -> Ask {
        if let Reply::First(answer, owner) = reply {
            match owner {
                _ if !self.may_have_ghost => return Ask::Over(self.step, answer),
                Some(own) if own == answer.connection_id => return Ask::Over(self.step, answer),
                Some(ghost) => {
                    self.was_unmarked = false;
                    return Ask::EndGhost(ghost);
                }
                // The older session has ended only after this one asked for the run id lock. A server that keeps one lock for each
                // session says the same each time.
                None if std::mem::replace(&mut self.was_unmarked, true) => {
                    return Ask::Over(self.step, answer);
                }
                None => {}
            }
        }
        // A session can acquire a lock twice, so it must ask what it holds.
        self.step = Step::Settle;
        Ask::First
    }
}

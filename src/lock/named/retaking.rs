//! Reacquiring a lost slot: what its holder does next on a new session. Decisions only, without server and clock, as in `queue`. The
//! model tries them in every order of events.

/// What one look at the server shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Look {
    /// The session that looks.
    pub own: u64,
    /// Whether it acquired the slot in this look.
    pub acquired: bool,
    /// Whether somebody kills a holder of the slot. Then the session has not tried to acquire it.
    pub killed: bool,
    /// The session that holds the run id lock.
    pub run_id_owner: Option<u64>,
    /// The session that holds the slot.
    pub holder: Option<u64>,
}

impl Look {
    /// The session that holds the slot, if no older session of this dblock holds the run id lock.
    pub fn stranger(self) -> Option<u64> {
        let is_open = !self.acquired && !self.killed && self.run_id_owner == Some(self.own);
        self.holder.filter(|_| is_open)
    }
}

/// What to do next on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Prepare the session to hold a lock, and acquire the run id lock.
    Open,
    /// As [`Ask::Open`], and then try to acquire the slot.
    Look,
    /// Ask who kills the lost holder. A killer of a later holder does not count.
    Killer,
    /// Announce that the command is ended for this killer.
    AnnounceTermination(u64),
    /// Announce that the slot is being reacquired, before the end of this older session.
    AnnounceReacquire(u64),
    /// Kill this older session of this dblock, which the server still keeps.
    EndGhost(u64),
    /// Withdraw the announcement that the slot is being reacquired.
    FinishReacquire,
    /// Nothing: it is decided.
    Over(Outcome),
}

/// The result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The slot is held.
    Held,
    /// Another session holds the slot.
    Taken,
    /// This session kills the holder.
    Killed(u64),
    /// Nobody kills the holder, and the slot was not asked for.
    NotRequested,
}

/// The server's answer to an [`Ask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Done,
    /// What the look shows. `patience_over`: its [`Look::stranger`] has held the slot for so long that it is neither an own session that is
    /// ending nor a waiter that is about to release the slot.
    Look { look: Look, patience_over: bool },
    /// The session that kills the lost holder, if there is one.
    Killer(Option<u64>),
}

/// One attempt to reacquire a lost slot, on one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Retaking {
    /// Whether it acquires the slot, or only searches for a killer.
    takes: bool,
    announced: bool,
    asked: Ask,
}

impl Retaking {
    /// An attempt to acquire the slot. With `announced`, the session has announced before that it does.
    pub fn begin(announced: bool) -> Self {
        Self {
            takes: true,
            announced,
            asked: Ask::Look,
        }
    }

    /// A search for the killer alone.
    pub fn search_for_killer() -> Self {
        Self {
            takes: false,
            announced: false,
            asked: Ask::Open,
        }
    }

    /// What to do first, and what was asked last.
    pub fn asked(self) -> Ask {
        self.asked
    }

    /// Whether waiters that are granted the slot meanwhile were asked to release it.
    pub fn has_announced(self) -> bool {
        self.announced
    }

    /// What follows from the answer to what was asked last.
    pub fn next(&mut self, answer: Answer) -> Ask {
        self.asked = match answer {
            Answer::Done => self.after_change(),
            Answer::Look {
                look,
                patience_over,
            } => self.after_look(look, patience_over),
            // From here on no dblock acquires the slot, even if the killer dies.
            Answer::Killer(Some(killer)) => Ask::AnnounceTermination(killer),
            Answer::Killer(None) if self.takes => Ask::Look,
            Answer::Killer(None) => Ask::Over(Outcome::NotRequested),
        };
        self.asked
    }

    fn after_look(&mut self, look: Look, patience_over: bool) -> Ask {
        if look.acquired {
            return if self.announced {
                Ask::FinishReacquire
            } else {
                Ask::Over(Outcome::Held)
            };
        }
        if look.killed {
            return Ask::Killer;
        }
        if look.stranger().is_some() && patience_over {
            return Ask::Over(Outcome::Taken);
        }
        match look.run_id_owner {
            // The older session holds the slot, or is about to lose it.
            Some(ghost) if ghost != look.own => {
                if std::mem::replace(&mut self.announced, true) {
                    Ask::EndGhost(ghost)
                } else {
                    Ask::AnnounceReacquire(ghost)
                }
            }
            _ => Ask::Look,
        }
    }

    fn after_change(&self) -> Ask {
        match self.asked {
            Ask::Open => Ask::Killer,
            Ask::AnnounceTermination(killer) => Ask::Over(Outcome::Killed(killer)),
            Ask::AnnounceReacquire(ghost) => Ask::EndGhost(ghost),
            Ask::EndGhost(_) => Ask::Look,
            Ask::FinishReacquire => Ask::Over(Outcome::Held),
            // These have another answer.
            Ask::Look | Ask::Killer | Ask::Over(_) => self.asked,
        }
    }
}

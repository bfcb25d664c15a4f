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

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The slot is held. If the reacquire was `announced`, withdraw that.
    Held { announced: bool },
    /// Another session holds the slot.
    Taken,
    /// Find the killer. If it means another holder, look again.
    AskKiller,
    /// Kill this older session of this dblock, which the server still keeps, and look again. With `announce`, announce first that its
    /// slot is being reacquired.
    EndGhost { ghost: u64, announce: bool },
    /// Look again.
    LookAgain,
}

/// One attempt to reacquire a lost slot, on one session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Retaking {
    announced: bool,
}

impl Retaking {
    /// It begins. It may have been `announced` before.
    pub fn begin(announced: bool) -> Self {
        Self { announced }
    }

    /// Whether waiters that are granted the slot meanwhile were asked to release it.
    pub fn has_announced(self) -> bool {
        self.announced
    }

    /// What follows from a look. `patience_over`: its [`Look::stranger`] has held the slot for so long that it is neither an own session
    /// that is ending nor a waiter that is about to release the slot.
    pub fn next(&mut self, look: Look, patience_over: bool) -> Action {
        if look.acquired {
            return Action::Held {
                announced: self.announced,
            };
        }
        if look.killed {
            return Action::AskKiller;
        }
        if look.stranger().is_some() && patience_over {
            return Action::Taken;
        }
        match look.run_id_owner {
            // The older session holds the slot, or is about to lose it.
            Some(ghost) if ghost != look.own => Action::EndGhost {
                ghost,
                announce: !std::mem::replace(&mut self.announced, true),
            },
            _ => Action::LookAgain,
        }
    }
}

/// What a caller with a lost session does about the first answer on a new one; `None`: the older session has ended.
pub fn after_opening(own: u64, acquired: bool, run_id_owner: Option<u64>) -> Option<Action> {
    match run_id_owner {
        Some(ghost) => (ghost != own).then_some(Action::EndGhost {
            ghost,
            announce: false,
        }),
        // The older session is ending, and may still hold the lock.
        None => (!acquired).then_some(Action::LookAgain),
    }
}

//! Reacquiring a lost slot: what its holder does next on a new session. Decisions only, without server and clock, as in `queue`: the
//! model explores them in every order of events.

/// What one look at the server shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Look {
    /// The session that looks.
    pub own: u64,
    /// Whether it acquired the slot.
    pub acquired: bool,
    /// Whether somebody ends a holder of the slot; then it was not asked for.
    pub killed: bool,
    /// The session that holds the lock of this run's id.
    pub run_id_owner: Option<u64>,
    /// The session that holds the slot.
    pub holder: Option<u64>,
}

impl Look {
    /// A session that holds the slot although no older one of this dblock holds the run id's lock.
    pub fn stranger(self) -> Option<u64> {
        let is_open = !self.acquired && !self.killed && self.run_id_owner == Some(self.own);
        self.holder.filter(|_| is_open)
    }
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The slot is held. An announcement must be withdrawn.
    Held { announced: bool },
    /// Another session holds the slot.
    Taken,
    /// Ask who ends the holder. If another holder is meant, look again.
    AskKiller,
    /// End this older session of this dblock, which the server still keeps, and look again. With `announce`, announce first that its
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
    /// Whether waiters that are granted the slot meanwhile were asked to release it.
    pub fn has_announced(self) -> bool {
        self.announced
    }

    /// What follows from a look. `patience_over`: its [`Look::stranger`] has held the slot for too long to be an own session that is
    /// ending, or a waiter that is about to release it.
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
            // It holds the slot, or is about to lose it.
            Some(ghost) if ghost != look.own => Action::EndGhost {
                ghost,
                announce: !std::mem::replace(&mut self.announced, true),
            },
            _ => Action::LookAgain,
        }
    }
}

/// What a caller that lost an older session does about the first answer on a new one; `None`: the older session has ended.
pub fn after_opening(own: u64, acquired: bool, run_id_owner: Option<u64>) -> Option<Action> {
    match run_id_owner {
        Some(ghost) => (ghost != own).then_some(Action::EndGhost {
            ghost,
            announce: false,
        }),
        // The older one is ending, and may still hold the lock.
        None => (!acquired).then_some(Action::LookAgain),
    }
}

//! Acquiring a lost slot again: what its holder does next on a new session. Decisions only, no server and no clock, as in `queue`:
//! the explorer tries them in every order of events.

/// What one look at the server shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Look {
    /// The session that looks.
    pub own: u64,
    /// Whether it acquired the slot.
    pub acquired: bool,
    /// Whether somebody is ending the holder of the slot, which therefore was not asked for.
    pub killed: bool,
    /// The session that has the lock of this run's id.
    pub run_id_owner: Option<u64>,
    /// The session that has the slot.
    pub holder: Option<u64>,
}

impl Look {
    /// A session that has the slot although no older one of this dblock has the run id's lock.
    pub fn stranger(self) -> Option<u64> {
        let is_open = !self.acquired && !self.killed && self.run_id_owner == Some(self.own);
        self.holder.filter(|_| is_open)
    }
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The slot is held; an announcement is taken back.
    Held { announced: bool },
    /// Another session has the slot.
    Taken,
    /// Ask who is ending the holder. If nobody is any more, look again.
    AskKiller,
    /// End this older session of this dblock, which the server has not missed yet; if so said, announce first that its slot is
    /// being reacquired. Then look again.
    EndGhost { ghost: u64, announce: bool },
    /// Look again.
    LookAgain,
}

/// One attempt to acquire a lost slot again, on one session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Retaking {
    announced: bool,
}

impl Retaking {
    /// Whether those who are granted the slot meanwhile were asked to release it.
    pub fn has_announced(self) -> bool {
        self.announced
    }

    /// What follows from a look. `patience_over`: its [`Look::stranger`] has had the slot for too long to be an own session that is
    /// ending, or a waiter's that is about to release it.
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
            // It has the slot, or is about to lose it.
            Some(ghost) if ghost != look.own => Action::EndGhost {
                ghost,
                announce: !std::mem::replace(&mut self.announced, true),
            },
            _ => Action::LookAgain,
        }
    }
}

/// What a caller that lost an older session does about the first answer on a new one; `None`: the older session is gone.
pub fn after_opening(own: u64, acquired: bool, run_id_owner: Option<u64>) -> Option<Action> {
    match run_id_owner {
        Some(ghost) => (ghost != own).then_some(Action::EndGhost {
            ghost,
            announce: false,
        }),
        // It is ending, perhaps with the lock.
        None => (!acquired).then_some(Action::LookAgain),
    }
}

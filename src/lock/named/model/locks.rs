//! The servers' locks: who has each, and who waits for it.

/// The number of a session. Each caller has numbers of its own, [`MOST_CALLERS`] apart.
pub type SessionId = u8;

pub const MOST_CALLERS: usize = 8;
pub const MOST_SLOTS: usize = 3;

/// The session of the one who ends a holder.
pub const KILLER: SessionId = 255;

/// Whose session this is.
pub fn caller_of(session: SessionId) -> usize {
    usize::from(session) % MOST_CALLERS
}

/// A named lock: who has it, and who waits for it in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lock {
    pub owner: Option<SessionId>,
    queue: [Option<SessionId>; MOST_CALLERS],
}

impl Lock {
    pub const FREE: Self = Self {
        owner: None,
        queue: [None; MOST_CALLERS],
    };

    pub fn enqueue(&mut self, session: SessionId) {
        let end = self.queue.iter_mut().find(|place| place.is_none());
        *end.expect("room for all") = Some(session);
    }

    pub fn leave_queue(&mut self, session: SessionId) {
        if let Some(at) = self.queue.iter().position(|&one| one == Some(session)) {
            self.queue[at..].rotate_left(1);
            self.queue[MOST_CALLERS - 1] = None;
        }
    }

    /// Frees it; who has it now.
    pub fn pass_on(&mut self) -> Option<SessionId> {
        self.owner = self.queue[0];
        self.queue.rotate_left(1);
        self.queue[MOST_CALLERS - 1] = None;
        self.owner
    }
}

/// The locks that nobody waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signs {
    pub run_ids: [Option<SessionId>; MOST_CALLERS],
    /// `x#back<i>`, `x#kill<i>` and `x#end<i>`.
    pub back: [Option<SessionId>; MOST_SLOTS],
    pub kill: [Option<SessionId>; MOST_SLOTS],
    pub end: [Option<SessionId>; MOST_SLOTS],
    /// Of `#kill<session>`: for which session the killer has it.
    pub victim: Option<SessionId>,
    /// `#gone<killer>`.
    pub gone: Option<SessionId>,
}

impl Signs {
    pub const FREE: Self = Self {
        run_ids: [None; MOST_CALLERS],
        back: [None; MOST_SLOTS],
        kill: [None; MOST_SLOTS],
        end: [None; MOST_SLOTS],
        victim: None,
        gone: None,
    };

    /// All those that have an owner in their place.
    pub fn all(&mut self) -> impl Iterator<Item = &mut Option<SessionId>> {
        let of_slots = [&mut self.back, &mut self.kill, &mut self.end];
        let of_slots = of_slots.into_iter().flatten();
        of_slots.chain(&mut self.run_ids).chain([&mut self.gone])
    }
}

/// Takes a lock if it is free.
pub fn take(lock: &mut Option<SessionId>, session: SessionId) {
    lock.get_or_insert(session);
}

/// Gives a lock back if it is held.
pub fn release(lock: &mut Option<SessionId>, session: SessionId) {
    lock.take_if(|owner| *owner == session);
}

/// Whether this session has a lock.
pub fn owns(lock: Option<SessionId>, session: SessionId) -> bool {
    lock == Some(session)
}

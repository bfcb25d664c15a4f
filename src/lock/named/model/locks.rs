//! The servers' locks, with their holders and waiters.

/// The id of a session. Each caller's ids are [`MOST_CALLERS`] apart.
pub type SessionId = u8;

pub const MOST_CALLERS: usize = 8;
pub const MOST_SLOTS: usize = 3;

/// The only server.
pub const SERVER: &str = "";

/// The killer's session.
pub const KILLER: SessionId = 255;

/// The caller that a session belongs to.
pub fn caller_of(session: SessionId) -> usize {
    usize::from(session) % MOST_CALLERS
}

/// A named lock: its holder, and its waiters in order.
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

    /// Releases the lock. Returns the next holder.
    pub fn pass_on(&mut self) -> Option<SessionId> {
        self.owner = self.queue[0];
        self.queue.rotate_left(1);
        self.queue[MOST_CALLERS - 1] = None;
        self.owner
    }
}

/// The locks without waiters: they are markers for other sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Markers {
    pub run_ids: [Option<SessionId>; MOST_CALLERS],
    /// `x#back<i>`, `x#kill<i>` and `x#end<i>`.
    pub reacquires: [Option<SessionId>; MOST_SLOTS],
    pub kills: [Option<SessionId>; MOST_SLOTS],
    pub terminations: [Option<SessionId>; MOST_SLOTS],
    /// The session whose `#kill<session>` the killer holds.
    pub victim: Option<SessionId>,
    /// `#gone<killer>`.
    pub ack: Option<SessionId>,
}

impl Markers {
    pub const FREE: Self = Self {
        run_ids: [None; MOST_CALLERS],
        reacquires: [None; MOST_SLOTS],
        kills: [None; MOST_SLOTS],
        terminations: [None; MOST_SLOTS],
        victim: None,
        ack: None,
    };

    /// All marker locks that store their owner.
    pub fn all(&mut self) -> impl Iterator<Item = &mut Option<SessionId>> {
        let of_slots = [
            &mut self.reacquires,
            &mut self.kills,
            &mut self.terminations,
        ];
        let of_slots = of_slots.into_iter().flatten();
        of_slots.chain(&mut self.run_ids).chain([&mut self.ack])
    }
}

/// Acquires a lock if it is free.
pub fn take(lock: &mut Option<SessionId>, session: SessionId) {
    lock.get_or_insert(session);
}

/// Releases a lock if this session holds it.
pub fn release(lock: &mut Option<SessionId>, session: SessionId) {
    lock.take_if(|owner| *owner == session);
}

/// Whether this session holds a lock.
pub fn owns(lock: Option<SessionId>, session: SessionId) -> bool {
    lock == Some(session)
}

//! What is reported of a lock: its holders and its waiters.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::db::Client;
use crate::lock::Durable;

/// One thing that was found.
#[derive(Debug, Serialize, Deserialize)]
pub enum Found {
    /// The holders and waiters that follow are this lock's.
    Lock(String),
    /// A slot that is held.
    Holding(Box<Holding>),
    /// A slot whose holder is being ended (`dblock kill`), and by whom. Another session may hold the slot meanwhile: a waiter that
    /// waits for that end.
    Ending(u32, Box<Client>),
    /// A waiter; they are reported in their order.
    Waiter(Box<Waiter>),
    /// What could not be seen, and what would show it.
    Unseen(String),
}

/// A holder of a slot.
#[derive(Debug, Serialize, Deserialize)]
pub struct Holding {
    /// Which slot, from 0.
    pub slot: u32,
    /// Who.
    pub client: Client,
    /// Whether it is a dblock's session: those hold their session marker lock.
    pub is_dblock: bool,
    /// For how long the lock is held; `None` if that is not known.
    pub held_for: Option<Duration>,
    /// How long ago its last statement ended; `None` if that cannot be seen, or a statement of it is under way.
    pub idle: Option<Duration>,
    /// What its row says, where it has one. Then the number of its session is 0 where that is not on this server.
    pub durable: Option<Durable>,
}

/// What was reported of a lock.
#[derive(Debug, Default)]
pub struct Reported {
    /// The sessions of which only the server can say whose they are.
    pub sessions: Vec<u64>,
    /// Whether a named lock is held without a row.
    pub has_named: bool,
}

/// Who waits for a lock.
#[derive(Debug, Serialize, Deserialize)]
pub struct Waiter {
    /// Who.
    pub client: Client,
    /// `None` if that is not known.
    pub waits_for: Option<Duration>,
}

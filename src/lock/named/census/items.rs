//! The report about a lock: its holders and its waiters.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::db::Client;
use crate::lock::Durable;

/// One item of the report.
#[derive(Debug, Serialize, Deserialize)]
pub enum CensusItem {
    /// The lock that the next holders and waiters belong to.
    Lock {
        /// Its name.
        name: String,
        /// The key by which it is known on PostgreSQL; `None`: its name says it.
        key: Option<String>,
    },
    /// A slot that is held.
    Holding(Box<Holding>),
    /// A slot whose holder is being killed (`dblock kill`), and the killer. Another session may hold the slot meanwhile: a waiter that
    /// waits for that end.
    Ending(u32, Box<Client>),
    /// A waiter. Waiters are reported in order.
    Waiter(Box<Waiter>),
    /// What could not be seen, and how to see it.
    Unseen(String),
}

/// A holder of a slot.
#[derive(Debug, Serialize, Deserialize)]
pub struct Holding {
    /// Which slot, from 0.
    pub slot: u32,
    /// The client.
    pub client: Client,
    /// Whether the session is dblock's: those hold their session marker lock.
    pub is_dblock: bool,
    /// The time since the lock was acquired; `None`: unknown.
    pub held_for: Option<Duration>,
    /// The time since the holder's last statement ended; `None`: that cannot be seen, or a statement is running.
    pub idle: Option<Duration>,
    /// What the row says, if there is one. Then the connection id is 0 if the session is not on this server.
    pub durable: Option<Durable>,
}

/// What was reported about a lock.
#[derive(Debug, Default)]
pub struct Reported {
    /// The sessions that only the server can identify.
    pub sessions: Vec<u64>,
    /// Whether a named lock is held without a row.
    pub has_named: bool,
}

/// A waiter for a lock.
#[derive(Debug, Serialize, Deserialize)]
pub struct Waiter {
    /// The client.
    pub client: Client,
    /// `None`: unknown.
    pub waits_for: Option<Duration>,
}

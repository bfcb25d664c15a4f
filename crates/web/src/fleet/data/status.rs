//! `dblock status --json`.

use serde::Deserialize;

/// The answer.
#[derive(Debug, Clone, Deserialize)]
pub struct Status {
    /// The server that was asked.
    pub server: String,
    /// All that this account can see.
    pub locks: Vec<Lock>,
    /// What this account does not see, and what would show it.
    pub not_visible: Vec<Box<str>>,
}

/// A lock.
#[derive(Debug, Clone, Deserialize)]
pub struct Lock {
    /// Its name.
    pub name: Box<str>,
    /// The key that it has on PostgreSQL; None: its name says it.
    pub key: Option<Box<str>>,
    /// Who ends the holder of which slot.
    pub killed_by: Vec<Killer>,
    /// None: the lock is free, unless somebody ends a holder.
    pub holders: Vec<Holder>,
    /// In their order.
    pub waiters: Vec<Waiter>,
}

/// A program that has a session with the server.
#[derive(Debug, Clone, Deserialize)]
pub struct Process {
    /// The server's number of its session; None: it has none on this server.
    pub connection: Option<u64>,
    /// Account and address; None: this account may not see it.
    pub address: Option<Box<str>>,
    /// What kind of program it says that it is.
    pub client: Option<Box<str>>,
    /// Its host's name.
    pub host: Option<Box<str>>,
    /// Its process there.
    pub pid: Option<u64>,
    /// The command's program, without folder and arguments.
    pub program: Option<Box<str>>,
    /// The OS user there.
    pub user: Option<Box<str>>,
    /// When it was started, by its own clock: what it says itself, which may be no moment.
    pub started: Option<Box<str>>,
}

/// Who ends a holder.
#[derive(Debug, Clone, Deserialize)]
pub struct Killer {
    /// Who it is.
    #[serde(flatten)]
    pub process: Process,
    /// Of which slot; counts from 0.
    pub slot: u32,
}

/// Who holds a lock.
#[derive(Debug, Clone, Deserialize)]
pub struct Holder {
    /// Who it is.
    #[serde(flatten)]
    pub process: Process,
    /// Which slot; counts from 0.
    pub slot: u32,
    /// For how long; None: nobody knows.
    pub held_seconds: Option<f64>,
    /// Whether it is proved to be a dblock.
    pub dblock: bool,
    /// Whether it is a durable lock.
    pub durable: bool,
    /// Of a durable lock: `run`, `token` of a script, or `token_run`.
    pub kind: Option<Box<str>>,
    /// The number of the grant, of a durable lock.
    pub fence: Option<u64>,
    /// Of `acquire --owner`.
    pub owner: Option<Box<str>>,
    /// When a durable lock expires unless it is renewed; None: it has expired, or is none.
    pub expires_in_seconds: Option<f64>,
    /// Whether a durable lock has expired, and nobody has released it.
    pub expired: bool,
}

/// Who waits for a lock.
#[derive(Debug, Clone, Deserialize)]
pub struct Waiter {
    /// Who it is.
    #[serde(flatten)]
    pub process: Process,
    /// None: nobody knows.
    pub waited_seconds: Option<f64>,
}

impl Holder {
    /// Whether it is a dblock, as it says or as its session shows. Of a durable lock it always is.
    pub fn is_dblock(&self) -> bool {
        self.durable || self.dblock || self.process.client.as_deref() == Some("dblock")
    }

    /// Whether a script holds it, without a command under its grant.
    pub fn is_of_script(&self) -> bool {
        self.kind.as_deref() == Some("token")
    }
}

impl Lock {
    /// Whether it is nothing but idle workers of a queue, which wait to be woken.
    pub fn is_idle_queue(&self) -> bool {
        let is_worker =
            |waiter: &Waiter| waiter.process.program.as_deref() == Some("dblock queue work");
        self.holders.is_empty() && self.killed_by.is_empty() && self.waiters.iter().all(is_worker)
    }
}

//! What `dblock run` asks the supervisor to do: the command, its lock and its limits.

use std::ffi::OsString;
use std::time::{Duration, SystemTime};

use crate::cron::Once;
use crate::db::ConnectOptions;
use crate::history::RunEnd;
use crate::lock::LockSpec;
use crate::lock::rows::Token;
use crate::supervise::program_of;

/// A command to run under a lock, and how it is ended.
#[derive(Debug)]
pub struct Job {
    /// The lock.
    pub lock: LockSpec,
    /// The servers that keep it.
    pub connection: ConnectOptions,
    /// The names of the slots, in their order; empty where they have none.
    pub slot_names: Vec<String>,
    /// How long the command may run, from its start; `None` without limit.
    pub timeout: Option<Duration>,
    /// From SIGTERM to SIGKILL when dblock ends the command; zero sends both at once.
    pub kill_after: Duration,
    /// The minimum time to hold the lock, from its acquisition.
    pub hold_at_least: Duration,
    /// How long a server may take to confirm the release and the record of the run.
    pub release_within: Duration,
    /// How much of the command's output is kept, in bytes; `None`: nothing.
    pub keep_output: Option<usize>,
    /// Variables that the command must not see.
    pub scrubbed: Vec<&'static str>,
    /// What to run: program and arguments, never empty.
    pub command: Vec<OsString>,
    /// When dblock was started.
    pub started: SystemTime,
    /// How the run uses dblock's tables; `None`: not at all.
    pub tables: Option<TableUse>,
}

impl Job {
    /// The name of the command's program, without its folder.
    pub fn program(&self) -> String {
        program_of(&self.command)
    }
}

/// How a run uses dblock's tables. It is recorded there in any case.
#[derive(Debug, Clone)]
pub struct TableUse {
    /// Whether the lock is a row, too.
    pub durable: bool,
    /// A script's grant that the run takes over.
    pub token: Option<Token>,
    /// The new TTL of that grant; `None`: unchanged.
    pub token_ttl: Option<Duration>,
    /// When the run is to be skipped.
    pub once: Option<Once>,
}

impl TableUse {
    /// Whether the lock is kept as a row.
    pub fn is_row(&self) -> bool {
        self.durable || self.token.is_some()
    }

    /// Whether this end, once it is recorded, keeps the job from being run again.
    pub fn counts(&self, end: &RunEnd) -> bool {
        end.succeeded && self.once.is_some()
    }
}

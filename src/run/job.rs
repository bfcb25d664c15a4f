//! What `dblock run` asks the supervisor to do: the command, its lock and its limits.

use std::ffi::OsString;
use std::time::{Duration, SystemTime};

use nix::unistd::getpid;

use super::task::{TableUse, Task};
use crate::base::log::Level;
use crate::db::ConnectOptions;
use crate::lock::{Introduction, LockSpec, Wait};
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

    /// What a keeper does for this job. All of its sessions have this `run_id`. `name_holder`: whether the user learns who holds the lock
    /// when it is taken.
    pub fn task<'a>(&'a self, run_id: &'a str, name_holder: bool, shown: Level) -> Task<'a> {
        Task {
            job: self,
            lock: &self.lock,
            run_id,
            introduction: Introduction {
                pid: getpid(),
                lock: Some(self.lock.name.clone()),
                command: self.program(),
                started: self.started,
                waits: self.lock.wait != Wait::For(Duration::ZERO),
                slots: self.lock.slots,
                ttl: self.lock.ttl,
            },
            names_holders: name_holder,
            shown,
            tick: None,
        }
    }
}

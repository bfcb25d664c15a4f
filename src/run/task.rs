//! What a keeper has to do.

use std::time::Duration;

use nix::unistd::getpid;

use super::job::Job;
use crate::base::log::Level;
use crate::lock::{Introduction, LockSpec, Wait};

/// The numbers on the board of a command that runs under the lock, and of one that runs without it.
pub const UNDER_LOCK: u64 = 1;
pub const WITHOUT_LOCK: u64 = 2;

/// What a keeper needs to acquire a lock.
pub struct Task<'a> {
    /// The job that the lock is for.
    pub job: &'a Job,
    /// Its lock, for which there may be less time by now.
    pub lock: &'a LockSpec,
    /// The name of a lock on the server that all sessions of this run hold, and no others.
    pub run_id: &'a str,
    /// What the sessions say of themselves.
    pub introduction: Introduction,
    /// Whether to find out who holds the lock when it was not acquired in time.
    pub names_holders: bool,
    /// The least important level that is shown.
    pub shown: Level,
    /// The tick that the run is for, as text, if a former keeper has found it.
    pub tick: Option<&'a str>,
}

impl Job {
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

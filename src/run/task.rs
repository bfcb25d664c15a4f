//! What a keeper has to do.

use std::time::Duration;

use super::job::Job;
use crate::base::log::Level;
use crate::cron::Once;
use crate::history::RunEnd;
use crate::lock::rows::Token;
use crate::lock::{Introduction, LockSpec};

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

//! The properties of jobs when they are put, and their states.

use std::time::Duration;

/// The error of a job whose worker has died.
pub const WORKER_DIED: &str = "its worker died, or lost the server";

/// Most jobs to put in one transaction, and so in one block.
pub const MOST_JOBS: usize = 1000;

/// Longest payload in bytes.
pub const LONGEST_PAYLOAD: usize = 16 * 1024 * 1024;

/// When jobs are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// When they are put.
    Now,
    /// This long after they are put, by the server's clock.
    After(Duration),
    /// At this moment, in microseconds since 1970, UTC, by the server's clock.
    At(i64),
}

/// The properties that jobs put together share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traits {
    /// When they are due.
    pub due: Due,
    /// Lower numbers come first.
    pub priority: i32,
    /// At most one unfinished job may have this key: a name by the rules of [`crate::lock::Name`].
    pub key: Option<String>,
    /// The period of a repeating job; `None`: it runs once.
    pub every: Option<Duration>,
}

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// A worker has claimed it.
    Running,
    /// The next worker may claim it.
    Due,
    /// It will be due later.
    Delayed,
    /// It has failed for good.
    Dead,
    /// It is done, and still kept.
    Done,
}

impl JobState {
    /// All of them, in the order of a list.
    pub const ALL: [Self; 5] = [
        Self::Running,
        Self::Due,
        Self::Delayed,
        Self::Dead,
        Self::Done,
    ];

    /// Its word on the command line and in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Due => "due",
            Self::Delayed => "delayed",
            Self::Dead => "dead",
            Self::Done => "done",
        }
    }
}

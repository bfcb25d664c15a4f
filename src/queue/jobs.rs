//! What jobs are put with, and which states they have.

use std::time::Duration;

/// The error of a job whose worker has died.
pub const WORKER_DIED: &str = "its worker died, or lost the server";

/// Jobs that are put in one transaction at most, and so the jobs of a block.
pub const MOST_JOBS: usize = 1000;

/// Bytes of a payload at most.
pub const LONGEST_PAYLOAD: usize = 16 * 1024 * 1024;

/// When jobs are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// As soon as they are put.
    Now,
    /// So long after they are put, by the server's clock.
    After(Duration),
    /// So many microseconds after the beginning of 1970, UTC, by the server's clock.
    At(i64),
}

/// What all jobs have that are put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traits {
    /// When they are due.
    pub due: Due,
    /// Those with a lower number come first.
    pub priority: i32,
    /// At most one job of this key that is not done is put: a name by the rules of [`crate::lock::Name`].
    pub key: Option<String>,
    /// They are due again so long after they were due; `None`: once.
    pub every: Option<Duration>,
}

/// What a job waits for, or what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum State {
    /// A worker has claimed it.
    Running,
    /// The next worker may claim it.
    Due,
    /// It will be due.
    Delayed,
    /// It is not tried any more.
    Dead,
    /// It is done, and kept for a while.
    Done,
}

impl State {
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

//! `dblock queue list --json`.

use jiff::Timestamp;
use serde::Deserialize;

/// The answer.
#[derive(Debug, Clone, Deserialize)]
pub struct QueueList {
    /// Those that are dead: the latest first.
    pub jobs: Vec<DeadJob>,
}

/// A job of a queue that failed for good.
#[derive(Debug, Clone, Deserialize)]
pub struct DeadJob {
    /// As put prints it.
    pub id: u64,
    /// When it died; None: unknown.
    pub state_since: Option<Timestamp>,
    /// How often it was tried.
    pub attempt: u32,
    /// Of `--key`: shown with `--show-data` alone.
    pub key: Option<Box<str>>,
    /// Of its last attempt: shown with `--show-data` alone.
    pub last_error: Option<Box<str>>,
}

//! `dblock history --json`.

use serde::Deserialize;

/// The answer.
#[derive(Debug, Clone, Deserialize)]
pub struct History {
    /// The server that was asked.
    pub server: String,
    /// For `--after`: the next page; None: there is none.
    pub cursor: Option<String>,
    /// The oldest first.
    pub runs: Vec<Run>,
}

/// A run, as the pages of a run and of the history show it.
#[derive(Debug, Clone, Deserialize)]
pub struct Run {
    /// Its number.
    pub run: String,
    /// The lock.
    pub name: String,
}

/// A run as the strips show it: small, because the poller keeps 50 for each job.
#[derive(Debug, Clone, Copy)]
pub struct Ended {}

impl From<&Run> for Ended {
    fn from(_run: &Run) -> Ended {
        Ended {}
    }
}

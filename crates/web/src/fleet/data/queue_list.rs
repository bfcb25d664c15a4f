//! `dblock queue list --json`.

use serde::Deserialize;

/// The answer.
#[derive(Debug, Clone, Deserialize)]
pub struct QueueList {
    /// The server that was asked.
    pub server: String,
}

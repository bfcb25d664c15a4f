//! `dblock queue status --json`.

use serde::Deserialize;

/// The answer.
#[derive(Debug, Clone, Deserialize)]
pub struct QueueStatus {
    /// The server that was asked.
    pub server: String,
}

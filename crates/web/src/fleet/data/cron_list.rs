//! `dblock cron list --json`.

use serde::Deserialize;

/// The answer.
#[derive(Debug, Clone, Deserialize)]
pub struct CronList {
    /// The server that was asked.
    pub server: String,
}

//! `dblock status --json`.

use serde::Deserialize;

/// The answer.
#[derive(Debug, Clone, Deserialize)]
pub struct Status {
    /// The server that was asked.
    pub server: String,
}

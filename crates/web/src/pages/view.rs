//! What a page must know besides what it shows.

use std::time::Duration;

use jiff::Timestamp;

/// How, and when, a page is looked at.
#[derive(Debug, Clone)]
pub struct View {
    /// Whether it has buttons.
    pub may_act: bool,
    /// Whether keys, errors and output are shown.
    pub show_data: bool,
    /// How often it is to be fetched again.
    pub refresh: Duration,
    /// By this host's clock.
    pub now: Timestamp,
}

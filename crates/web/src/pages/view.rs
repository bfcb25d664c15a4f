//! What a page must know besides what it shows.

use std::time::Duration;

use jiff::Timestamp;

/// The header by which the script asks for what is in `<main>` alone.
pub const MAIN_ONLY: &str = "x-dblock-main";

/// How, and when, a page is looked at.
#[derive(Debug, Clone)]
pub struct View {
    /// Whether it has buttons.
    pub may_act: bool,
    /// Whether keys, errors and output are shown.
    pub show_data: bool,
    /// Where a form goes that logs out; None: who looks has not logged in.
    pub log_out: Option<&'static str>,
    /// How often it is to be fetched again.
    pub refresh: Duration,
    /// By this host's clock.
    pub now: Timestamp,
    /// Whether `<main>` alone is wanted: the request has the header [`MAIN_ONLY`].
    pub main_only: bool,
}

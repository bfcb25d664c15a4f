//! The command line of `dblock web`.

use std::time::Duration;

/// What the command line says.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether the page may pause, resume, trigger, retry, cancel and kill.
    pub allow_actions: bool,
    /// Whether the page shows keys, errors and output.
    pub show_data: bool,
    /// How often the fleet is asked while somebody looks.
    pub refresh: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            allow_actions: false,
            show_data: false,
            refresh: Duration::from_secs(5),
        }
    }
}

//! A line at the right end of the terminal with how far dblock is: drawn over itself, and cleared before anything else is written to
//! stderr.

use std::io::{self, IsTerminal};
use std::time::Duration;

use super::clock::{Moment, is_over};
use super::log::{Level, Log, clear_status, draw_status};
use super::terminal::is_plain;

/// How often it is drawn.
const INTERVAL: Duration = Duration::from_secs(1);

/// The line. When this is dropped, it is cleared.
#[derive(Debug)]
pub struct ProgressLine {
    /// When to draw it again; `None`: nobody wants it.
    next: Option<Moment>,
}

impl ProgressLine {
    /// Whether somebody may want one: stderr is a terminal on which it can be drawn, and more is logged than errors.
    pub fn is_wanted(shown: Level) -> bool {
        io::stderr().is_terminal() && !is_plain() && shown > Level::Error
    }

    /// A line, if it `is_of_use` and [wanted](Self::is_wanted). It is drawn after a second for the first time.
    pub fn new(is_of_use: bool, log: Log) -> Self {
        let is_shown = is_of_use && Self::is_wanted(log.shown);
        Self {
            next: is_shown.then(|| Moment::now() + INTERVAL),
        }
    }

    /// When to draw it again; `None`: never.
    pub fn deadline(&self) -> Option<Moment> {
        self.next
    }

    /// Draws it if that is due.
    pub fn show(&mut self, line: impl FnOnce() -> String) {
        if is_over(self.next) {
            self.next = Some(Moment::now() + INTERVAL);
            draw_status(&line());
        }
    }

    /// Clears it, if there is one, for others who write to the terminal.
    pub fn clear() {
        clear_status();
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        Self::clear();
    }
}

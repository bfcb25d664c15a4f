//! The end of a process that runs many commands: no more of them start, and those that run may go on for a while.

use std::time::Duration;

use crate::base::clock::{Moment, is_over};
use crate::base::exit::Ending;

/// Whether the process is ending, and how it will.
#[derive(Debug, Default)]
pub struct Shutdown {
    /// Until when commands may run on; `None`: the process is not ending.
    pub until: Option<Moment>,
    /// How dblock will end, once that is known.
    conclusion: Option<anyhow::Result<Ending>>,
}

impl Shutdown {
    /// Commands may run on for this `grace` at most. An error replaces a success, but nothing replaces an error.
    pub fn begin(&mut self, grace: Duration, conclusion: anyhow::Result<Ending>) {
        let until = Moment::now() + grace;
        self.until = Some(self.until.map_or(until, |before| before.min(until)));
        if !self.has_failed() && (conclusion.is_err() || self.conclusion.is_none()) {
            self.conclusion = Some(conclusion);
        }
    }

    /// Whether the process is ending.
    pub fn has_begun(&self) -> bool {
        self.until.is_some()
    }

    /// Whether commands may not run on any more.
    pub fn ends_commands(&self) -> bool {
        is_over(self.until)
    }

    /// Whether it is known that dblock will end with an error.
    pub fn has_failed(&self) -> bool {
        matches!(self.conclusion, Some(Err(_)))
    }

    /// How dblock ends; `None`: it is not ending, or this was asked before.
    pub fn take_conclusion(&mut self) -> Option<anyhow::Result<Ending>> {
        self.conclusion.take()
    }
}

//! The end of a daemon: the results of its commands are recorded, and their output is passed on.

use std::time::Duration;

use super::super::message::ToScheduler;
use super::Coordinator;
use crate::base::clock::{Moment, is_over};
use crate::base::exit::Ending;
use crate::base::text::counted;
use crate::supervise::Asides;

/// How long the scheduler of an ending daemon may take between two records.
const LEAVE: Duration = Duration::from_secs(3);

/// What is not recorded runs again elsewhere. So with records left, an ending daemon waits for a server until its grace is over, but no
/// longer than this, and not after a second signal.
const LEAVE_WITH_ENDS: Duration = Duration::from_secs(30);

/// A scheduler that seeks a server says so more often.
const SEEKS: Duration = Duration::from_secs(10);

/// How long the mails of an ending daemon may take after that, and what is run at the end of its runs.
const LAST_ASIDES: Duration = Duration::from_secs(10);

impl Coordinator<'_> {
    /// Nothing runs any more: has the scheduler record the rest, and sends mails. Returns how dblock ends when that is done.
    pub(super) fn leave(&mut self) -> Option<anyhow::Result<Ending>> {
        if self.left.is_none() && self.has_left() {
            self.left = Some(Moment::now());
            self.send_last_mails();
            self.runner.peer.restarts.cancel();
            self.runner.peer.end();
            if !self.ended.is_empty() {
                let runs = counted(self.ended.len(), "run");
                self.runner.log.warning(format_args!(
                    "ends before a server has taken note of the end of {runs}: {}; other hosts find that out, at the latest when the TTL is over",
                    self.runner.last_note
                ));
            }
        }
        let left = self.left?;
        if self.runner.asides.is_empty() {
            return self.runner.shutdown.take_conclusion();
        }
        if self.is_hurried || is_over(Some(left + LAST_ASIDES)) {
            let rest = counted(self.runner.asides.len(), "program");
            self.runner.log.warning(format_args!(
                "ends before {rest} for mails, --on-failure or --on-end have ended"
            ));
            self.runner.asides.end();
            self.runner.asides = Asides::default();
            return self.runner.shutdown.take_conclusion();
        }
        None
    }

    /// Whether the server has all records, or cannot get them in time.
    fn has_left(&mut self) -> bool {
        if !self.runner.peer.is_expected() {
            return true;
        }
        let Some(since) = self.leaves_since else {
            self.leaves_since = Some(Moment::now());
            self.runner.peer.send(ToScheduler::Leave);
            return self.seeks_since().is_some();
        };
        is_over(Some(self.leaves_until(since))) || self.seeks_since().is_some()
    }

    /// Until when the scheduler may finish that has made its last record at this moment.
    fn leaves_until(&self, since: Moment) -> Moment {
        let waits = self.was_asked && !self.is_hurried && !self.ended.is_empty();
        let grace = self.runner.shutdown.until.filter(|_| waits);
        let hangs = self.runner.peer.heard_at + SEEKS;
        let grace = grace.map(|until| until.min(since + LEAVE_WITH_ENDS).min(hangs));
        grace.into_iter().fold(since + LEAVE, Moment::max)
    }

    /// The end of this run is recorded. As long as there is progress, nothing is cut off.
    pub(super) fn on_recorded(&mut self, run: &str) {
        self.ended.remove(run);
        self.outputs.take(run);
        self.leaves_since = self.leaves_since.map(|_| Moment::now());
        // A server works again, and its next answer will show that.
        self.runner.peer.restarts.date_fault_anew();
    }

    /// When [`Self::leave`] gives up waiting.
    pub(super) fn leave_deadline(&self) -> Option<Moment> {
        match self.left {
            Some(left) => Some(left + LAST_ASIDES),
            None => self.leaves_since.map(|since| self.leaves_until(since)),
        }
    }
}

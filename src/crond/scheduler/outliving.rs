//! What a scheduler does where its coordinator cannot: it kills the commands of one that is stopped before others may have their ticks, and
//! those of one that has died at once.

use std::thread::sleep;
use std::time::Duration;

use super::Scheduler;
use super::own::TickLock;
use crate::base::clock::Moment;
use crate::cron::{AttemptEnd, end_of_dead};
use crate::history::Outcome;

/// How long the server may take to hear of the ends of all of them. After that the others find out by themselves.
const LONGEST_END: Duration = Duration::from_secs(30);

impl Scheduler<'_> {
    /// The coordinator has died, and its commands are gone: returns all of its ticks.
    pub(super) fn return_ticks(&mut self) {
        for run in self.own.by_run.keys().cloned().collect::<Vec<_>>() {
            if !self.own.has_ended(&run) {
                self.end_of_the_dead(&run);
            }
        }
        let begun = Moment::now();
        while begun.elapsed() < LONGEST_END {
            let recorded = self.connect().and_then(|_| self.record_ends());
            if recorded.is_ok() && self.own.ended.is_empty() {
                let _ = self.take_leave();
                return;
            }
            sleep(self.connection.connector.pause());
        }
    }

    /// Notes how the attempt of a run has ended whose coordinator has died.
    fn end_of_the_dead(&mut self, run: &str) {
        let Some(mine) = self.own.by_run.get(run) else {
            return;
        };
        let ended = match &mine.state {
            TickLock::Killed(who, _) => {
                let line = format!("dblock was killed, and its command with it; ended by {who}");
                mine.ended(AttemptEnd::Over, "", Some((Outcome::Lost, line)))
            }
            TickLock::Sought(_) | TickLock::Released => {
                let end = end_of_dead(false, self.stopping.has_begun());
                mine.ended(end, "its dblock was killed", None)
            }
            TickLock::Held(_) | TickLock::Lost(_) if self.stopping.has_begun() => {
                let line =
                    "dblock was asked to end, and killed with its command before that had ended";
                let run_end = (Outcome::Interrupted, line.to_owned());
                mine.ended(end_of_dead(true, true), "", Some(run_end))
            }
            TickLock::Held(_) | TickLock::Lost(_) => {
                let line = "dblock was killed, and its command with it".to_owned();
                mine.ended(end_of_dead(true, false), "", Some((Outcome::Failed, line)))
            }
        };
        self.take_in(ended);
    }
}

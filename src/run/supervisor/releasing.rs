//! Releasing the lock: dblock waits for the server's answer, but not for long.

use std::time::Duration;

use super::super::message::{FromKeeper, ToKeeper};
use super::lock_state::LockState;
use super::phase::{Conclusion, Phase, Releasing};
use super::{LAST_CHANCE, Supervisor};
use crate::base::clock::{Moment, is_over};
use crate::base::exit::{CONFLICT, Ending, Failure};
use crate::base::log::Level;
use crate::history::RunEnd;
use crate::supervise::Received;

impl Supervisor<'_> {
    /// Has the keeper release the lock; the command is reaped. Waits for the server's answer until this `limit` at most.
    pub(super) fn begin_release(
        &mut self,
        limit: Duration,
        conclusion: anyhow::Result<Conclusion>,
    ) -> Phase {
        // The keeper may have lost or reacquired the lock just now. That belongs to the record of the run.
        while let Some(message) = self.pending_message() {
            self.update_at_the_end(&message);
        }
        let end = self.run_end(&conclusion);
        let mut limit = limit;
        // To tell a killer of the command's end, the keeper must log in first, as far away as the server is.
        if !self.asked_to_end && matches!(self.lock, LockState::Lost(..)) {
            limit *= 2;
        }
        // If a success is not recorded, another host runs the job again.
        if !self.asked_to_end && self.counts(end.as_deref()) {
            limit = limit.max(self.job.lock.ttl);
        }
        let peer = &mut self.runner.peer;
        peer.restarts.on_success();
        peer.restarts.cancel();
        let awaits_output = self.send_output() && end.is_some();
        let peer = &mut self.runner.peer;
        peer.send(ToKeeper::Release(end));
        if self.keeper.is_dismissed {
            limit = limit.min(LAST_CHANCE);
        }
        Phase::Releasing(Releasing {
            deadline: Moment::now() + limit,
            is_recorded: false,
            is_asked: !peer.is_closed(),
            is_released: false,
            awaits_output,
            conclusion,
        })
    }

    /// Sends the keeper what is to be kept of the output. Returns whether there is something.
    pub(super) fn send_output(&mut self) -> bool {
        let is_recorded = self.job.tables.is_some() && self.grant.is_some();
        let kept = self.output.kept.as_ref().filter(|_| is_recorded);
        for part in kept.iter().flat_map(|kept| kept.parts()) {
            self.runner.peer.send(ToKeeper::Output(part));
        }
        kept.is_some()
    }

    /// What the keeper must record about the end of the run; `None`: nothing.
    pub(super) fn run_end(&self, conclusion: &anyhow::Result<Conclusion>) -> Option<Box<RunEnd>> {
        let is_recorded = self.job.tables.is_some() && self.grant.is_some();
        let ended = match conclusion {
            Ok(Conclusion::Ran(ending)) => Ok(*ending),
            // None of these held the lock.
            Ok(_) => Ok(Ending::Code(CONFLICT)),
            Err(error) => Err(error),
        };
        is_recorded.then(|| Box::new(self.record.run_end(ended)))
    }

    /// Whether this end, once it is recorded, keeps the job from being run again.
    fn counts(&self, end: Option<&RunEnd>) -> bool {
        let tables = self.job.tables.as_ref();
        tables
            .zip(end)
            .is_some_and(|(tables, end)| tables.counts(end))
    }

    /// Ends the run if there is nothing more to wait for. After a loss dblock waits, too: a killer may be waiting for an answer, and the
    /// keeper may not know of it yet.
    pub(super) fn check_releasing(&mut self, mut releasing: Releasing) -> Phase {
        let holds_nothing = matches!(self.lock, LockState::None) && !self.keeper_claims();
        let is_finished = releasing.is_released && !releasing.awaits_output;
        if holds_nothing && releasing.awaits_output {
            self.warn_of_output("the lock is not held any more");
        }
        if holds_nothing && self.may_leave_row() {
            self.leave_row("the keeper is gone");
        }
        let is_over = is_finished
            || holds_nothing
            || self.has_no_keeper(&mut releasing)
            || self.is_too_late(&releasing);
        if is_over {
            self.runner.peer.end();
            return Phase::done(releasing.conclusion);
        }
        Phase::Releasing(releasing)
    }

    /// Whether the keeper is gone, and there is no other.
    fn has_no_keeper(&mut self, releasing: &mut Releasing) -> bool {
        if self.runner.peer.is_expected() || self.schedule_releasing_keeper(releasing) {
            return false;
        }
        if self.is_only_output_missing(releasing, "the keeper is gone") {
            return true;
        }
        let unrecorded = self.unrecorded(releasing);
        if self.lock.is_held() {
            self.end_without_release("the keeper is gone", unrecorded);
        } else if let Some((level, unrecorded)) = unrecorded {
            let line = in_one_line("the keeper is gone", [Some(unrecorded)]);
            self.runner.log.say(level, line);
        }
        true
    }

    /// Whether the server has had its time for an answer.
    fn is_too_late(&self, releasing: &Releasing) -> bool {
        if !is_over(Some(releasing.deadline)) {
            return false;
        }
        if self.is_only_output_missing(releasing, "the server did not answer") {
            return true;
        }
        let name = &self.job.lock.name;
        let frees = if self.lock.is_held() {
            Some(self.frees("it"))
        } else if self.keeper_claims() {
            Some(format!(
                "if it has granted {name}, it frees that when the TTL is over"
            ))
        } else {
            None
        };
        let unrecorded = self.unrecorded(releasing);
        if frees.is_some() || unrecorded.is_some() {
            let (level, unrecorded) = unrecorded.unzip();
            let line = in_one_line("the server did not answer", [frees, unrecorded]);
            let level = level.unwrap_or(Level::Warning);
            self.runner.log.say(level, line);
        }
        true
    }

    /// Whether all is done, but that nobody knows whether the output is kept. Then that is said, with the cause.
    fn is_only_output_missing(&self, releasing: &Releasing, cause: &str) -> bool {
        let is_only = releasing.is_released && releasing.awaits_output;
        if is_only {
            self.warn_of_output(cause);
        }
        is_only
    }

    fn warn_of_output(&self, cause: &str) {
        let log = self.runner.log;
        log.warning(format_args!("{cause}; the output may not be kept"));
    }

    pub(super) fn on_message_releasing(
        &mut self,
        mut releasing: Releasing,
        message: &FromKeeper,
    ) -> Phase {
        let (name, log) = (&self.job.lock.name, self.runner.log);
        match message {
            FromKeeper::Released => {
                if self.lock.is_held() {
                    log.info(format_args!("released {name}"));
                }
                releasing.is_released = true;
                // Only the output may still be waited for, which must not take as long as a success that counts.
                let limit = Moment::now() + self.job.release_within;
                releasing.deadline = releasing.deadline.min(limit);
            }
            FromKeeper::OutputKept(why) => {
                if let Some(why) = why {
                    log.warning(format_args!("the output is not kept: {why}"));
                }
                releasing.awaits_output = false;
            }
            // The row is nobody's or another's: what a keeper asked for before it died was carried out.
            FromKeeper::Lost(_) if self.keeper.may_be_released && self.lock.is_held() => {
                self.lock.lose();
                log.info(format_args!("released {name}"));
            }
            FromKeeper::Recorded(is_recorded) => {
                releasing.is_recorded = true;
                let end = self.run_end(&releasing.conclusion);
                if !is_recorded && self.counts(end.as_deref()) {
                    log.error(format_args!(
                        "this success is not recorded, and {name} is run again"
                    ));
                }
            }
            message => self.update_at_the_end(message),
        }
        Phase::Releasing(releasing)
    }

    /// The command has ended, and whoever signals dblock now does not want to wait for a slow server.
    pub(super) fn on_signal_releasing(
        &mut self,
        mut releasing: Releasing,
        received: Received,
    ) -> Phase {
        if self.runner.poller.signals.act_on(received.signal) {
            releasing.deadline = releasing.deadline.min(Moment::now() + LAST_CHANCE);
            self.hurry_output();
        }
        Phase::Releasing(releasing)
    }

    /// Follows the keeper's reports when no command runs any more.
    fn update_at_the_end(&mut self, message: &FromKeeper) {
        match message {
            FromKeeper::Lost(cause) if self.lock.is_held() => self.lost_at_the_end(cause),
            FromKeeper::Note(level, text) => self.runner.log.say(*level, text),
            FromKeeper::Held(..) | FromKeeper::Killed(_) => self.update(message),
            FromKeeper::Failed(failure) => self.note_fault_at_the_end(failure),
            _ => {}
        }
    }

    /// The keeper has died before it has released the lock, or recorded the run. Schedules another one to release a lock that outlives its
    /// keeper, or to record a success that counts. `false`: there is no other.
    fn schedule_releasing_keeper(&mut self, releasing: &Releasing) -> bool {
        let end = self.run_end(&releasing.conclusion);
        let is_to_record = self.counts(end.as_deref()) && !releasing.is_recorded;
        let is_to_release = self.lock.is_held() && self.grant_that_outlives().is_some();
        if !(is_to_record || is_to_release) {
            return false;
        }
        let peer = &mut self.runner.peer;
        if !releasing.is_asked {
            peer.restarts.start_now();
            return true;
        }
        self.keeper.may_be_released = true;
        let end = peer.how_it_ended();
        peer.restarts.replace(&end, self.runner.log).is_ok()
    }

    /// Starts the keeper that releases the lock, or records the run, in the place of one that died.
    pub(super) fn start_releasing_keeper(
        &mut self,
        releasing: &mut Releasing,
    ) -> Result<(), Failure> {
        self.replace_keeper()?;
        let end = self.run_end(&releasing.conclusion);
        releasing.awaits_output = self.send_output() && !releasing.is_released;
        self.runner.peer.send(ToKeeper::Release(end));
        releasing.is_asked = true;
        Ok(())
    }

    /// Reports once why no keeper can release the lock.
    fn note_fault_at_the_end(&mut self, failure: &Failure) {
        if self.runner.peer.restarts.note_fault(failure) {
            self.runner.log.warning(failure);
        }
    }

    /// The line, with its level, that no server has confirmed the record of this run, though it may be recorded. After a hold nobody can
    /// read it: stderr is closed.
    fn unrecorded(&self, releasing: &Releasing) -> Option<(Level, String)> {
        let end = self.run_end(&releasing.conclusion)?;
        if releasing.is_recorded {
            return None;
        }
        Some(if self.counts(Some(&end)) {
            let name = &self.job.lock.name;
            let line =
                format!("this success may not have been recorded, and then {name} is run again");
            (Level::Error, line)
        } else {
            let line = "the run may not have been recorded".to_owned();
            (Level::Warning, line)
        })
    }

    fn lost_at_the_end(&mut self, cause: &str) {
        self.lock.lose();
        let name = &self.job.lock.name;
        let when = match self.record.started {
            Some(_) => "while the command ran",
            None => "before the command was started",
        };
        let log = self.runner.log;
        log.error(format_args!("{name} was lost {when}: {cause}"));
    }

    /// The keeper is gone. With it the lock is gone, too, unless the lock outlives its keeper.
    fn end_without_release(&mut self, cause: &str, unrecorded: Option<(Level, String)>) {
        let (level, unrecorded) = unrecorded.unzip();
        if self.is_durable() {
            let line = in_one_line(cause, [Some(self.frees("the server")), unrecorded]);
            let level = level.unwrap_or(Level::Warning);
            self.runner.log.say(level, line);
        } else {
            self.lost_at_the_end(&in_one_line(cause, [unrecorded]));
        }
    }

    /// When the server, which the text calls `server`, frees a lock that was not released.
    fn frees(&self, server: &str) -> String {
        let name = &self.job.lock.name;
        let when = if self.is_durable() {
            "when the TTL is over"
        } else {
            "when it sees that dblock is gone"
        };
        format!("{server} frees {name} {when}")
    }
}

fn in_one_line<const N: usize>(cause: &str, rest: [Option<String>; N]) -> String {
    let parts = [Some(cause.to_owned())].into_iter().chain(rest);
    parts.flatten().collect::<Vec<_>>().join("; ")
}

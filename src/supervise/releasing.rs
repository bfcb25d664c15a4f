//! Releasing the lock: dblock waits for the server's answer, but not for long.

use std::time::Duration;

use super::child::Child;
use super::event::{Event, is_over};
use super::lock_state::LockState;
use super::phase::{Conclusion, Phase, Releasing};
use super::{LAST_CHANCE, Supervisor};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::history::RunEnd;
use crate::keeper::message::{FromKeeper, ToKeeper};

impl Supervisor<'_> {
    /// Has the keeper release the lock, and reaps the command. Waits for the server's answer until this `limit` at most.
    pub(super) fn begin_release(
        &mut self,
        child: Option<Child>,
        limit: Duration,
        conclusion: anyhow::Result<Conclusion>,
    ) -> Phase {
        // The keeper may have lost or reacquired the lock just now. That belongs to the record of the run.
        while let Some(message) = self.pending_message() {
            self.update_at_the_end(&message);
        }
        // The keeper learns of the end before the pid is free for another process, so it never kills a stranger.
        let end = self.run_end(&conclusion);
        self.keeper.restarts.on_success();
        self.keeper.restarts.cancel();
        let mut limit = limit;
        // If a success is not recorded, another host runs the job again.
        if !self.asked_to_end && self.counts(end.as_deref()) {
            limit = limit.max(self.job.lock.ttl);
        }
        self.keeper.send(ToKeeper::Release(end));
        if self.keeper.is_dismissed() {
            limit = limit.min(LAST_CHANCE);
        }
        if let Some(child) = child {
            self.zombie = child.into_zombie();
            self.reap_command();
        }
        Phase::Releasing(Releasing {
            deadline: Moment::now() + limit,
            is_recorded: false,
            finished: false,
            conclusion,
        })
    }

    /// What the keeper must record about the end of the run; `None`: nothing.
    pub(super) fn run_end(&self, conclusion: &anyhow::Result<Conclusion>) -> Option<Box<RunEnd>> {
        let is_recorded = self.job.tables.is_some() && self.grant.is_some();
        is_recorded.then(|| Box::new(self.record.run_end(conclusion)))
    }

    /// Whether this end, once it is recorded, keeps the job from being run again.
    fn counts(&self, end: Option<&RunEnd>) -> bool {
        let tables = self.job.tables.as_ref();
        tables
            .zip(end)
            .is_some_and(|(tables, end)| tables.counts(end))
    }

    /// Whether there is nothing more to wait for. After a loss dblock waits, too: a killer may be waiting for an answer, and the keeper
    /// may not know of it yet.
    pub(super) fn check_releasing(&mut self, releasing: &mut Releasing) -> bool {
        let holds_nothing = matches!(self.lock, LockState::None) && !self.keeper.claims();
        if releasing.finished || holds_nothing {
            return true;
        }
        if self.keeper.is_closed() {
            let is_replaced = self.keeper.restarts.next().is_some();
            if is_replaced || self.schedule_releasing_keeper(releasing) {
                return false;
            }
            let unrecorded = self.unrecorded(releasing);
            if self.lock.is_held() {
                self.end_without_release("the keeper is gone", unrecorded);
            } else if let Some((level, unrecorded)) = unrecorded {
                let line = in_one_line("the keeper is gone", [Some(unrecorded)]);
                self.log.say(level, line);
            }
            return true;
        }
        false
    }

    pub(super) fn on_event_releasing(&mut self, mut releasing: Releasing, event: Event) -> Phase {
        let name = &self.job.lock.name;
        match event {
            Event::Message(FromKeeper::Released) => {
                if self.lock.is_held() {
                    self.log.info(format_args!("released {name}"));
                }
                releasing.finished = true;
            }
            // The row is nobody's or another's: what a keeper asked for before it died was carried out.
            Event::Message(FromKeeper::Lost(_))
                if self.keeper.may_be_released && self.lock.is_held() =>
            {
                self.lock.lose();
                self.log.info(format_args!("released {name}"));
            }
            Event::Message(FromKeeper::Recorded(is_recorded)) => {
                releasing.is_recorded = true;
                let end = self.run_end(&releasing.conclusion);
                if !is_recorded && self.counts(end.as_deref()) {
                    self.log.error(format_args!(
                        "this success is not recorded, and {name} is run again"
                    ));
                }
            }
            Event::Message(message) => self.update_at_the_end(&message),
            // The command has ended, and whoever signals dblock now does not want to wait for a slow server.
            Event::Signal(received) => {
                if self.poller.signals.act_on(received.signal) {
                    releasing.deadline = releasing.deadline.min(Moment::now() + LAST_CHANCE);
                }
            }
            Event::Deadline if is_over(Some(releasing.deadline)) => {
                let frees = if self.lock.is_held() {
                    Some(self.frees("it"))
                } else if self.keeper.claims() {
                    Some(format!(
                        "if it has granted {name}, it frees that when the TTL is over"
                    ))
                } else {
                    None
                };
                let unrecorded = self.unrecorded(&releasing);
                if frees.is_some() || unrecorded.is_some() {
                    let (level, unrecorded) = unrecorded.unzip();
                    let line = in_one_line("the server did not answer", [frees, unrecorded]);
                    self.log.say(level.unwrap_or(Level::Warning), line);
                }
                releasing.finished = true;
            }
            // A deadline of a keeper that is due, too.
            Event::Deadline | Event::KeeperGone => {}
        }
        Phase::Releasing(releasing)
    }

    /// Follows the keeper's reports when no command runs any more.
    fn update_at_the_end(&mut self, message: &FromKeeper) {
        match message {
            FromKeeper::Lost(cause) if self.lock.is_held() => self.lost_at_the_end(cause),
            FromKeeper::Note(level, text) => self.log.say(*level, text),
            FromKeeper::Held(..) | FromKeeper::Killed(_) => self.update(message),
            FromKeeper::Failed(failure) => self.note_fault_at_the_end(failure),
            _ => {}
        }
    }

    /// The keeper has died before it has released the lock, or recorded the run. Schedules another one to release a lock that outlives its
    /// keeper, or to record a success that counts. `false`: there is no other.
    fn schedule_releasing_keeper(&mut self, releasing: &Releasing) -> bool {
        let has_died_before = !self.keeper.is_there();
        self.keeper.reap();
        let end = self.run_end(&releasing.conclusion);
        let is_to_record = self.counts(end.as_deref()) && !releasing.is_recorded;
        let is_to_release = self.lock.is_held() && self.grant_that_outlives().is_some();
        if !(is_to_record || is_to_release) {
            return false;
        }
        if has_died_before {
            self.keeper.restarts.start_now();
            return true;
        }
        self.keeper.may_be_released = true;
        let end = self.keeper.how_it_ended();
        self.keeper.restarts.replace(&end, self.log).is_ok()
    }

    /// Starts the keeper that releases the lock, or records the run, in the place of one that died.
    pub(super) fn start_releasing_keeper(&mut self, releasing: &Releasing) {
        let Some(grant) = self.grant else { return };
        match self.replace_keeper(grant, None) {
            Ok(()) => {
                let end = self.run_end(&releasing.conclusion);
                self.keeper.send(ToKeeper::Release(end));
            }
            Err(failure) => {
                self.note_fault_at_the_end(&failure);
                // Because of the fault it pauses.
                self.keeper.restarts.schedule();
            }
        }
    }

    /// Reports once why no keeper can release the lock.
    fn note_fault_at_the_end(&mut self, failure: &Failure) {
        if self.keeper.restarts.note_fault(failure) {
            self.log.warning(failure);
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
        self.log
            .error(format_args!("{name} was lost {when}: {cause}"));
    }

    /// The keeper is gone. With it the lock is gone, too, unless the lock outlives its keeper.
    fn end_without_release(&mut self, cause: &str, unrecorded: Option<(Level, String)>) {
        let (level, unrecorded) = unrecorded.unzip();
        if self.is_durable() {
            let line = in_one_line(cause, [Some(self.frees("the server")), unrecorded]);
            self.log.say(level.unwrap_or(Level::Warning), line);
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

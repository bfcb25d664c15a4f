//! Releasing the lock: dblock waits for the server's answer, but not for long.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::child::Child;
use super::event::Event;
use super::keeper_link::unexplained_end;
use super::lock_state::LockState;
use super::phase::{Conclusion, Phase, Releasing};
use super::{LAST_CHANCE, RECORD_LIMIT, Supervisor};
use crate::base::clock::Moment;
use crate::history::RunEnd;
use crate::keeper::message::{FromKeeper, ToKeeper};
use crate::keeper::{self, Work};

/// How many keepers may die while they release the lock, before dblock starts no more.
const MOST_KEEPERS: u32 = 3;

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
        self.replacing.cancel();
        let mut limit = limit;
        // If a success is not recorded, another host runs the job again.
        if !self.asked_to_end && self.counts(end.as_deref()) {
            limit = limit.max(self.job.lock.ttl);
        }
        self.keeper.send(&ToKeeper::Release(end));
        if let Some(former) = self.former_keeper.take() {
            self.keeper.end();
            self.keeper = former;
            limit = limit.min(LAST_CHANCE);
        }
        if let Some(child) = child {
            child.reap();
        }
        Phase::Releasing(Releasing {
            deadline: Moment::now() + limit,
            keepers: 1,
            only_records: false,
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
        if releasing.finished || holds_nothing && !releasing.only_records {
            return true;
        }
        if self.keeper.is_closed() {
            if self.replace_releasing_keeper(releasing) {
                return false;
            }
            let unrecorded = self.unrecorded(releasing);
            if self.lock.is_held() {
                self.end_without_release("the keeper is gone", unrecorded);
            } else if let Some(unrecorded) = unrecorded {
                let line = in_one_line("the keeper is gone", [Some(unrecorded)]);
                self.log.warning(line);
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
            Event::Message(FromKeeper::Recorded(is_recorded)) => {
                self.record.is_unrecorded |= !is_recorded;
                releasing.is_recorded = true;
            }
            Event::Message(message) => self.update_at_the_end(&message),
            // The command has ended, and whoever signals dblock now does not want to wait for a slow server.
            Event::Signal(received) => {
                if self.signals.act_on(received.signal) {
                    releasing.deadline = releasing.deadline.min(Moment::now() + LAST_CHANCE);
                }
            }
            Event::Deadline => {
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
                    let line = in_one_line("the server did not answer", [frees, unrecorded]);
                    self.log.warning(line);
                }
                releasing.finished = true;
            }
            Event::KeeperGone => {}
        }
        Phase::Releasing(releasing)
    }

    /// Follows the keeper's reports when no command runs any more.
    fn update_at_the_end(&mut self, message: &FromKeeper) {
        match message {
            FromKeeper::Lost(cause) if self.lock.is_held() => self.lost_at_the_end(cause),
            FromKeeper::Note(level, text) => self.log.say(*level, text),
            FromKeeper::Held(..) | FromKeeper::Killed(_) => self.update(message),
            FromKeeper::Failed(failure) if self.replacing.note_fault(failure) => {
                self.log.warning(failure);
            }
            _ => {}
        }
    }

    /// The keeper has died before it has released the lock, or recorded the run. Starts another one to release a lock that outlives its
    /// keeper, and to record the run.
    fn replace_releasing_keeper(&mut self, releasing: &mut Releasing) -> bool {
        let died = self.keeper.reap();
        if releasing.keepers == MOST_KEEPERS {
            return false;
        }
        let end = self.run_end(&releasing.conclusion);
        let is_to_record = self.counts(end.as_deref()) && !releasing.is_recorded;
        let held = self.lock.is_held().then(|| self.grant_that_outlives());
        let Some(grant) = held.flatten().or(self.grant.filter(|_| is_to_record)) else {
            return false;
        };
        let cause = unexplained_end(died);
        self.log.info(format_args!("{cause}; another one goes on"));
        releasing.keepers += 1;
        let is_replaced = self.replace_keeper(grant, None).is_ok();
        if is_replaced {
            self.keeper.send(&ToKeeper::Release(end));
        }
        is_replaced
    }

    /// The warning that no server has confirmed the record of this run, though it may be recorded. After a hold nobody can read it:
    /// stderr is closed.
    fn unrecorded(&mut self, releasing: &Releasing) -> Option<String> {
        let end = self.run_end(&releasing.conclusion)?;
        if releasing.is_recorded {
            return None;
        }
        self.record.is_unrecorded = true;
        Some(if self.counts(Some(&end)) {
            format!(
                "this success may not have been recorded, and then {} is run again",
                self.job.lock.name
            )
        } else {
            "the run may not have been recorded".to_owned()
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
    fn end_without_release(&mut self, cause: &str, unrecorded: Option<String>) {
        if self.is_durable() {
            let line = in_one_line(cause, [Some(self.frees("the server")), unrecorded]);
            self.log.warning(line);
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

    pub(super) fn end_releasing(&mut self, releasing: Releasing) -> Phase {
        self.keeper.end();
        match releasing.conclusion {
            Ok(Conclusion::Interrupted(signal)) if !releasing.only_records => {
                self.after_interruption(signal)
            }
            conclusion => Phase::Done(conclusion),
        }
    }

    /// A signal has ended the wait for the lock, and the keeper is gone: starts another one to record that. Records nothing if no server
    /// was reached.
    pub(super) fn after_interruption(&mut self, signal: Signal) -> Phase {
        let conclusion = Ok(Conclusion::Interrupted(signal));
        if self.job.tables.is_none() || self.record.server.is_none() {
            return Phase::Done(conclusion);
        }
        let task = self.job.task(self.run_id, false, self.log.shown);
        let line = format!("{signal} ended the wait");
        let work = Work::RecordInterruption(task, line, self.record.requested);
        let Ok(keeper) = keeper::fork_off(work) else {
            return Phase::Done(conclusion);
        };
        self.keeper.replace(keeper);
        // It was reported before that the lock could not be released.
        self.lock = LockState::None;
        Phase::Releasing(Releasing {
            deadline: Moment::now() + RECORD_LIMIT,
            keepers: MOST_KEEPERS,
            only_records: true,
            is_recorded: false,
            finished: false,
            conclusion,
        })
    }
}

fn in_one_line<const N: usize>(cause: &str, rest: [Option<String>; N]) -> String {
    let parts = [Some(cause.to_owned())].into_iter().chain(rest);
    parts.flatten().collect::<Vec<_>>().join("; ")
}

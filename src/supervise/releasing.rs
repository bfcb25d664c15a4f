//! Releasing the lock: the server's answer is waited for, but not for long.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::child::Child;
use super::event::Event;
use super::lock_state::LockState;
use super::phase::{Conclusion, Phase, Releasing};
use super::{LAST_CHANCE, RECORD_LIMIT, Supervisor};
use crate::base::clock::Moment;
use crate::history::RunEnd;
use crate::keeper::message::{FromKeeper, ToKeeper};
use crate::keeper::{self, Work};

/// How many keepers may die while they release a lock, before no other is tried.
const MOST_KEEPERS: u32 = 3;

impl Supervisor<'_> {
    /// Has the keeper release the lock, and reaps the command. The server's answer is waited for until this `limit` at most.
    pub(super) fn begin_release(
        &mut self,
        child: Option<Child>,
        limit: Duration,
        conclusion: anyhow::Result<Conclusion>,
    ) -> Phase {
        // A loss of just now belongs to the run. Or it has reacquired the lock.
        while let Some(message) = self.pending_message() {
            self.update_at_the_end(&message);
        }
        // The keeper learns of the end before the command's number is free for another process: it never kills a stranger.
        let end = self.run_end(&conclusion);
        self.keeper.send(&ToKeeper::Release(end));
        let mut limit = limit;
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
            finished: false,
            conclusion,
        })
    }

    /// What the keeper is to record of the end of the run; `None`: nothing.
    pub(super) fn run_end(&self, conclusion: &anyhow::Result<Conclusion>) -> Option<Box<RunEnd>> {
        let is_recorded = self.job.tables.is_some() && self.grant.is_some();
        is_recorded.then(|| Box::new(self.record.run_end(conclusion)))
    }

    /// Whether nothing more is to be waited for. Whoever ended the holder of a lock that was lost is waiting for an answer,
    /// and the keeper may not know of that yet: a lost lock is waited for, too.
    pub(super) fn check_releasing(&mut self, releasing: &mut Releasing) -> bool {
        let holds_nothing = matches!(self.lock, LockState::None) && !self.keeper.claims();
        if releasing.finished || holds_nothing && !releasing.only_records {
            return true;
        }
        if self.keeper.is_closed() {
            if self.replace_releasing_keeper(releasing) {
                return false;
            }
            if self.lock.is_held() {
                let unrecorded = self.unrecorded(&releasing.conclusion);
                self.end_without_release("the keeper is gone", unrecorded);
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
            Event::Message(message) => self.update_at_the_end(&message),
            // The command has ended; who wants dblock to end now does not want to wait for a slow server.
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
                let unrecorded = self.unrecorded(&releasing.conclusion);
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

    /// Follows what the keeper says when no command runs any more.
    fn update_at_the_end(&mut self, message: &FromKeeper) {
        match message {
            FromKeeper::Lost(cause) if self.lock.is_held() => self.lost_at_the_end(cause),
            FromKeeper::Note(level, text) => self.log.say(*level, text),
            FromKeeper::Held(..) | FromKeeper::Killed(_) => self.update(message),
            _ => {}
        }
    }

    /// The keeper has died before it has released the lock: one that does not end with it is released by another keeper.
    fn replace_releasing_keeper(&mut self, releasing: &mut Releasing) -> bool {
        let end = self.keeper.reap();
        if !self.lock.is_held() || releasing.keepers == MOST_KEEPERS {
            return false;
        }
        let Some(grant) = self.grant_that_outlives(end) else {
            return false;
        };
        releasing.keepers += 1;
        let is_replaced = self.replace_keeper(grant, None).is_ok();
        if is_replaced {
            let end = self.run_end(&releasing.conclusion);
            self.keeper.send(&ToKeeper::Release(end));
        }
        is_replaced
    }

    /// What is to be said of a run that was to be recorded, where no server has answered that it is; it may be all the same. After a
    /// hold there is nobody to hear it: stderr is closed.
    fn unrecorded(&mut self, conclusion: &anyhow::Result<Conclusion>) -> Option<String> {
        let end = self.run_end(conclusion)?;
        self.record.is_unrecorded = true;
        let once = self.job.tables.as_ref()?.once.as_ref();
        Some(match once.filter(|_| end.succeeded) {
            None => "the run may not have been recorded".to_owned(),
            Some(_) => format!(
                "this success may not have been recorded, and then {} is run again",
                self.job.lock.name
            ),
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

    /// The keeper is gone, and the lock with it, if it does not outlive that.
    fn end_without_release(&mut self, cause: &str, unrecorded: Option<String>) {
        if self.is_durable() {
            let line = in_one_line(cause, [Some(self.frees("the server")), unrecorded]);
            self.log.warning(line);
        } else {
            self.lost_at_the_end(&in_one_line(cause, [unrecorded]));
        }
    }

    /// When the server, which is called so, frees a lock that was not released.
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

    /// A signal has ended the wait for the lock, and the keeper is gone: another one records that, within a moment. Where no server
    /// was reached nothing is recorded.
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
        // That the lock could not be released has been said.
        self.lock = LockState::None;
        Phase::Releasing(Releasing {
            deadline: Moment::now() + RECORD_LIMIT,
            keepers: MOST_KEEPERS,
            only_records: true,
            finished: false,
            conclusion,
        })
    }
}

fn in_one_line<const N: usize>(cause: &str, rest: [Option<String>; N]) -> String {
    let parts = [Some(cause.to_owned())].into_iter().chain(rest);
    parts.flatten().collect::<Vec<_>>().join("; ")
}

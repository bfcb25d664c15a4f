//! Releasing the lock: the server's answer is waited for, but not for long.

use std::time::Duration;

use super::child::Child;
use super::event::Event;
use super::lock_state::LockState;
use super::phase::{Conclusion, Phase, Releasing};
use super::{LAST_CHANCE, Supervisor};
use crate::base::clock::Moment;
use crate::history::RunEnd;
use crate::keeper::message::{FromKeeper, ToKeeper};

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
        // It may just have reacquired the lock.
        while !self.lock.is_held()
            && let Some(message) = self.pending_message()
        {
            self.update(&message);
        }
        Phase::Releasing(Releasing {
            deadline: Moment::now() + limit,
            keepers: 1,
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
        if releasing.finished || matches!(self.lock, LockState::None) && !self.keeper.claims() {
            return true;
        }
        if self.keeper.is_closed() {
            if self.replace_releasing_keeper(releasing) {
                return false;
            }
            if self.lock.is_held() {
                self.end_without_release("the keeper is gone");
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
            Event::Message(FromKeeper::Lost(cause)) if self.lock.is_held() => {
                self.lost_at_the_end(&cause);
            }
            Event::Message(FromKeeper::Note(level, text)) => self.log.say(level, text),
            Event::Message(message @ (FromKeeper::Held(..) | FromKeeper::Killed(_))) => {
                self.update(&message);
            }
            // The command has ended; who wants dblock to end now does not want to wait for a slow server.
            Event::Signal(received) => {
                if self.signals.act_on(received.signal) {
                    releasing.deadline = releasing.deadline.min(Moment::now() + LAST_CHANCE);
                }
            }
            Event::Deadline => {
                if self.lock.is_held() {
                    self.say_unreleased("the server did not answer");
                } else if self.keeper.claims() {
                    self.log.warning(format_args!(
                        "the server did not answer; if it has granted {name}, it frees that when the TTL is over"
                    ));
                }
                releasing.finished = true;
            }
            Event::Message(_) | Event::KeeperGone => {}
        }
        Phase::Releasing(releasing)
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

    fn lost_at_the_end(&mut self, cause: &str) {
        self.lock.lose();
        self.log.error(format_args!(
            "{} was lost while the command ran: {cause}",
            self.job.lock.name
        ));
    }

    /// The keeper is gone, and the lock with it, if it does not outlive that.
    fn end_without_release(&mut self, cause: &str) {
        if self.is_durable() {
            self.say_unreleased(cause);
        } else {
            self.lost_at_the_end(cause);
        }
    }

    fn say_unreleased(&self, cause: &str) {
        let name = &self.job.lock.name;
        let when = if self.is_durable() {
            "when the TTL is over"
        } else {
            "when it sees that dblock is gone"
        };
        self.log
            .warning(format_args!("{cause}; the server frees {name} {when}"));
    }

    pub(super) fn end_releasing(&mut self, releasing: Releasing) -> Phase {
        self.keeper.end();
        Phase::Done(releasing.conclusion)
    }
}

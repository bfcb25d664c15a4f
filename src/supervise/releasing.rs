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
    pub(super) fn check_releasing(&mut self, releasing: &Releasing) -> bool {
        if releasing.finished || matches!(self.lock, LockState::None) && !self.keeper.claims() {
            return true;
        }
        if self.keeper.is_closed() {
            if self.lock.is_held() {
                let unrecorded = self.unrecorded(&releasing.conclusion);
                let causes = ["the keeper is gone".to_owned()].into_iter();
                let causes: Vec<String> = causes.chain(unrecorded).collect();
                self.lost_at_the_end(&causes.join("; "));
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
                let has_row = self.grant.is_some_and(|grant| grant.fence.is_some());
                let frees = match (self.lock.is_held(), has_row) {
                    (false, _) => None,
                    (true, true) => Some(format!("it frees {name} when the TTL is over")),
                    (true, false) => {
                        Some(format!("it frees {name} when it sees that dblock is gone"))
                    }
                };
                let unrecorded = self.unrecorded(&releasing.conclusion);
                let lines: Vec<String> = frees.into_iter().chain(unrecorded).collect();
                if !lines.is_empty() {
                    let lines = lines.join("; ");
                    self.log
                        .warning(format_args!("the server did not answer; {lines}"));
                }
                releasing.finished = true;
            }
            Event::Message(_) | Event::KeeperGone => {}
        }
        Phase::Releasing(releasing)
    }

    /// What is to be said of a run that was to be recorded, where no server has answered that it is; it may be all the same. After a
    /// hold there is nobody to hear it: stderr is closed.
    fn unrecorded(&self, conclusion: &anyhow::Result<Conclusion>) -> Option<String> {
        let end = self.run_end(conclusion)?;
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
        self.log.error(format_args!(
            "{} was lost while the command ran: {cause}",
            self.job.lock.name
        ));
    }

    pub(super) fn end_releasing(&mut self, releasing: Releasing) -> Phase {
        self.keeper.end();
        Phase::Done(releasing.conclusion)
    }
}

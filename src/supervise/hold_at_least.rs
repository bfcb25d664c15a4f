//! Holding the lock after the command's end (`--hold-at-least`), until the time is over or a signal asks dblock to end.

use std::os::fd::{AsRawFd, RawFd};

use nix::sys::signal::Signal;

use super::child::Child;
use super::event::Event;
use super::phase::{Conclusion, Holding, Phase};
use super::{LAST_CHANCE, Supervisor};
use crate::base::clock::Moment;
use crate::base::descriptors;
use crate::base::text::shown;
use crate::keeper::message::{FromKeeper, ToKeeper};

impl Supervisor<'_> {
    pub(super) fn begin_hold(
        &mut self,
        child: Child,
        until: Moment,
        conclusion: anyhow::Result<Conclusion>,
    ) -> Phase {
        self.log.info(format_args!(
            "holding {} for another {}",
            self.job.lock.name,
            shown(until.since(Moment::now()))
        ));
        // The keeper learns of the end before the pid is free for another process, so it never kills a stranger.
        let end = self.run_end(&conclusion);
        self.keeper.send(ToKeeper::Hold(end));
        self.zombie = child.into_zombie();
        self.reap_command();
        // Whoever reads the command's output through a pipe waits until the last copy of the pipe is closed, and dblock has inherited
        // one. So it closes stdin, stdout, stderr, and all else that it does not need.
        match descriptors::close_all_except(&self.own_descriptors()) {
            Ok(()) => Phase::Holding(Holding { until, conclusion }),
            Err(error) => self.begin_release(None, LAST_CHANCE, Err(error.into())),
        }
    }

    /// The descriptors that the supervisor still needs when its command has ended: all that it opened itself.
    fn own_descriptors(&self) -> Vec<RawFd> {
        let report = self.record.report_output.as_ref();
        let own = self.poller.descriptors().into_iter();
        own.chain(self.keeper.descriptors())
            .chain(report.map(AsRawFd::as_raw_fd))
            .collect()
    }

    pub(super) fn on_event_holding(&mut self, holding: Holding, event: Event) -> Phase {
        let limit = self.job.release_within;
        match event {
            Event::Signal(received) if received.signal == Signal::SIGCHLD => {
                self.reap_orphans(None);
            }
            Event::Signal(received) if self.poller.signals.asks_to_end(received.signal) => {
                self.asked_to_end = true;
                return self.begin_release(None, LAST_CHANCE.min(limit), holding.conclusion);
            }
            Event::Signal(received) => {
                self.poller.signals.act_on(received.signal);
            }
            // The supervisor keeps the session open for a while. A keeper that was still reacquiring is not replaced: another one would
            // have no better chance.
            Event::KeeperGone => {
                self.keeper.reap();
                if self.grant.is_some() && self.lock.is_held() {
                    if self.grant_that_outlives().is_none() {
                        self.lock.lose();
                    }
                    self.schedule_keeper();
                }
            }
            // The keeper reacquires a lost lock; that no longer concerns the command.
            Event::Message(message) => {
                self.update(&message);
                if let FromKeeper::Failed(failure) = &message {
                    self.on_keeper_fault(failure);
                }
                if self.killed {
                    return self.begin_release(None, limit, holding.conclusion);
                }
            }
            Event::Deadline => {}
        }
        Phase::Holding(holding)
    }
}

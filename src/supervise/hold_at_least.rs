//! Holding the lock after the command's end (`--hold-at-least`), until its time is over or a signal asks for the end.

use std::os::fd::{AsFd, AsRawFd, RawFd};

use nix::sys::signal::Signal;

use super::child::Child;
use super::event::Event;
use super::phase::{Conclusion, Holding, Phase};
use super::{LAST_CHANCE, Supervisor};
use crate::base::clock::Moment;
use crate::base::descriptors;
use crate::base::text::shown;
use crate::keeper::message::ToKeeper;

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
        // The keeper learns of the end before the command's number is free for another process: it never kills a stranger.
        let end = self.run_end(&conclusion);
        self.keeper.send(&ToKeeper::Hold(end));
        child.reap();
        // A reader of what the command wrote waits until the last copy of that pipe is closed, and dblock has inherited one:
        // it closes stdin, stdout, stderr and everything else that it does not need itself.
        match descriptors::close_all_except(&self.own_descriptors()) {
            Ok(()) => Phase::Holding(Holding { until, conclusion }),
            Err(error) => self.begin_release(None, LAST_CHANCE, Err(error.into())),
        }
    }

    /// What the supervisor still needs when its command has ended: all that it has opened itself.
    fn own_descriptors(&self) -> Vec<RawFd> {
        let report = self.record.report_output.as_ref();
        [self.signals.as_fd(), self.alarm.as_fd()]
            .map(|descriptor| descriptor.as_raw_fd())
            .into_iter()
            .chain(self.keeper.descriptors())
            .chain(report.map(AsRawFd::as_raw_fd))
            .collect()
    }

    pub(super) fn on_event_holding(&mut self, holding: Holding, event: Event) -> Phase {
        let limit = self.job.release_within;
        match event {
            Event::Signal(received) if received.signal == Signal::SIGCHLD => {
                self.reap_orphans(None);
            }
            Event::Signal(received) if self.signals.asks_to_end(received.signal) => {
                return self.begin_release(None, LAST_CHANCE.min(limit), holding.conclusion);
            }
            Event::Signal(received) => {
                self.signals.act_on(received.signal);
            }
            // Its session stays open here for a while. A keeper that was still reacquiring is not replaced: another would not do better.
            Event::KeeperGone => {
                self.keeper.reap();
                if let (Some(grant), true) = (self.grant, self.lock.is_held()) {
                    if grant.fence.is_none() {
                        self.lock.lose();
                    }
                    let _ = self.replace_keeper(grant, None);
                }
            }
            // A lost lock is reacquired by the keeper; the command is not concerned any more.
            Event::Message(message) => {
                self.update(&message);
                if self.killed {
                    return self.begin_release(None, limit, holding.conclusion);
                }
            }
            Event::Deadline => {}
        }
        Phase::Holding(holding)
    }
}

//! Holding the lock after the command's end (`--hold-at-least`), until the time is over or a signal asks dblock to end.

use std::os::fd::{AsRawFd, RawFd};

use super::super::message::{FromKeeper, ToKeeper};
use super::phase::{Conclusion, Holding, Phase};
use super::{LAST_CHANCE, Supervisor};
use crate::base::clock::Moment;
use crate::base::descriptors;
use crate::base::exit::Failure;
use crate::base::text::shown;
use crate::supervise::Received;

impl Supervisor<'_> {
    pub(super) fn begin_hold(
        &mut self,
        until: Moment,
        conclusion: anyhow::Result<Conclusion>,
    ) -> Phase {
        let log = self.runner.log;
        log.info(format_args!(
            "holding {} for another {}",
            self.job.lock.name,
            shown(until.since(Moment::now()))
        ));
        let end = self.run_end(&conclusion);
        self.runner.peer.send(ToKeeper::Hold(end));
        let shares = true;
        let holding = Holding {
            until,
            shares,
            conclusion,
        };
        if self.runner.outputs.are_passed_on() {
            self.let_go(holding)
        } else {
            Phase::Holding(holding)
        }
    }

    /// Closes what the command has shared, when all of its output is passed on.
    pub(super) fn let_go(&mut self, holding: Holding) -> Phase {
        self.runner.outputs.close();
        // Whoever reads the command's output through a pipe waits until the last copy of the pipe is closed, and dblock has inherited
        // one. So it closes stdin, stdout, stderr, and all else that it does not need.
        if let Err(error) = descriptors::close_all_except(&self.own_descriptors()) {
            // They wait, but the command has ended, and its lock is held.
            let log = self.runner.log;
            log.warning(Failure::refused(
                "close what the command has shared",
                &error,
            ));
        }
        Phase::Holding(Holding {
            shares: false,
            ..holding
        })
    }

    /// The descriptors that the supervisor still needs when its command has ended: all that it opened itself, and the one that names the
    /// file that another keeper reads the password from.
    fn own_descriptors(&self) -> Vec<RawFd> {
        let report = self.record.report_output.as_ref();
        let own = self.runner.poller.descriptors().into_iter();
        own.chain(self.runner.peer.descriptors())
            .chain(report.map(AsRawFd::as_raw_fd))
            .chain(self.job.connection.password.descriptor())
            .collect()
    }

    pub(super) fn on_signal_holding(&mut self, holding: Holding, received: Received) -> Phase {
        let signals = &mut self.runner.poller.signals;
        if signals.asks_to_end(received.signal) {
            self.asked_to_end = true;
            self.hurry_output();
            let limit = LAST_CHANCE.min(self.job.release_within);
            return self.begin_release(limit, holding.conclusion);
        }
        signals.act_on(received.signal);
        Phase::Holding(holding)
    }

    /// The supervisor keeps the session open for a while. A keeper that was still reacquiring is not replaced: another one would have no
    /// better chance.
    pub(super) fn on_keeper_gone_holding(&mut self) {
        if self.grant.is_some() && self.lock.is_held() {
            if self.grant_that_outlives().is_none() {
                self.lock.lose();
            }
            self.schedule_keeper();
        }
    }

    /// The keeper reacquires a lost lock; that no longer concerns the command.
    pub(super) fn on_message_holding(&mut self, holding: Holding, message: &FromKeeper) -> Phase {
        self.update(message);
        if let FromKeeper::Failed(failure) = message {
            self.on_keeper_fault(failure);
        }
        if self.killed {
            return self.begin_release(self.job.release_within, holding.conclusion);
        }
        Phase::Holding(holding)
    }
}

//! A worker's deadlines: the timeouts of commands, the end of the lease, the search for a server, and the worker's own end.

use super::super::Until;
use super::{ClaimerState, Coordinator};
use crate::base::clock::{Moment, is_over};
use crate::base::exit::{Failure, Reason};
use crate::base::text::{counted, shown};
use crate::db::none_takes_writes;
use crate::lock::Lease;
use crate::supervise::Cause;
use std::time::Duration;

/// How long a worker without jobs waits for the server to take its last counts and to deregister it.
const DEREGISTER_LIMIT: Duration = Duration::from_secs(5);

/// The same for a server that has not answered lately.
pub(super) const SILENT_LIMIT: Duration = Duration::from_millis(800);

impl Coordinator<'_> {
    /// Ends commands and waits that have reached their deadline.
    pub(super) fn check_deadlines(&mut self) {
        let (log, timeout) = (self.runner.log, self.spec.timeout);
        self.runner.end_late(|command, _| {
            log.info(format_args!(
                "job {} has run for {}; ending it",
                command.jobs(),
                shown(timeout.unwrap_or_default())
            ));
        });
        if is_over(self.stalled_at()) {
            self.return_ahead();
        }
        self.check_lease();
        self.check_end();
        if self.runner.has_passed(self.reach_by()) {
            let failure = self.unreachable();
            self.stop(Duration::ZERO, Err(failure.into()));
        }
    }

    /// The error when no server, or none that takes writes, was reached in time.
    fn unreachable(&self) -> Failure {
        if let Some(server) = &self.only_read_only {
            return none_takes_writes(server.clone());
        }
        let limit = shown(self.spec.connection.connect_timeout);
        let cause = self.fault.as_ref().map(|fault| &fault.line);
        let cause = cause.unwrap_or(&self.runner.last_note);
        let what = if self.server_answers() {
            "nothing could be recorded"
        } else {
            "no server could be reached"
        };
        let line = format!("{what} within {limit}: {cause}");
        Failure::new(Reason::Unreachable, line)
    }

    /// When a server must have been reached. `None`: no limit, as one was reached before, or none is needed.
    pub(super) fn reach_by(&self) -> Option<Moment> {
        if self.runner.shutdown.has_begun() || !self.runner.peer.is_expected() {
            return None;
        }
        // A worker that ends by itself does not wait without limit.
        let lease = self.lease.filter(|_| self.spec.until != Until::Stopped);
        let since = self.runner.begun.or(lease.map(Lease::over))?;
        Some(since + self.spec.connection.connect_timeout)
    }

    /// How long the claimer of an ending worker may take for its current step.
    pub(super) fn end_limit(&self) -> Duration {
        let connect_timeout = self.spec.connection.connect_timeout;
        match self.turns.claimer {
            _ if self.claims.has_unrecorded() => connect_timeout,
            // It may be claiming jobs that nobody else knows of.
            ClaimerState::TakingTurn(false) => connect_timeout,
            ClaimerState::TakingTurn(true) => self.ending.wait_limit,
            ClaimerState::Ready | ClaimerState::Deregistering if self.is_in_touch() => {
                DEREGISTER_LIMIT
            }
            ClaimerState::Ready | ClaimerState::Deregistering => SILENT_LIMIT,
        }
    }

    /// Whether the worker is registered, and its server has answered lately.
    pub(super) fn is_in_touch(&self) -> bool {
        self.registered.is_some() && self.fault.is_none() && !self.runner.is_silent
    }

    /// An ending worker does not wait for a server without limit.
    pub(super) fn check_end(&mut self) {
        let is_ending = self.runner.shutdown.has_begun() && self.runner.commands.is_empty();
        if !is_ending || !self.runner.peer.is_expected() {
            return;
        }
        let since = *self.ending.step_since.get_or_insert_with(Moment::now);
        let limit = self.end_limit();
        if !is_over(Some(since + limit)) {
            return;
        }
        if self.claims.has_unrecorded() && !self.runner.shutdown.has_failed() {
            let unrecorded = self.claims.unrecorded_jobs();
            let have = if unrecorded == 1 { "has" } else { "have" };
            let jobs = counted(unrecorded, "job");
            let (limit, because) = (shown(limit), self.because());
            let line = if self.server_answers() {
                format!("how {jobs} {have} ended could not be recorded within {limit}{because}")
            } else {
                format!(
                    "no server could be reached within {limit}, and how {jobs} {have} ended is not recorded{because}"
                )
            };
            let failure = Failure::new(Reason::Unreachable, line);
            self.runner
                .shutdown
                .begin(Duration::ZERO, Err(failure.into()));
        }
        self.runner.peer.end();
        self.runner.peer.restarts.cancel();
    }

    pub(super) fn check_lease(&mut self) {
        let Some(lease) = self.lease else { return };
        let over = lease.end_command(self.spec.kill_after);
        if self.runner.commands.is_empty() && is_over(Some(over)) {
            return self.say_silence(lease);
        }
        if !self.runner.grace.is_over(Some(over), || lease.grace()) {
            return;
        }
        let any = !self.runner.are_all_ending();
        for command in &mut self.runner.commands {
            command.running.end(Cause::LeaseOver, Some(lease));
        }
        if any {
            self.runner.is_silent = true;
            let span = shown(lease.proved.elapsed());
            let line = if self.server_answers() {
                format!(
                    "the lease could not be renewed for {span}{}",
                    self.because()
                )
            } else {
                format!("the server has not answered for {span}")
            };
            self.runner.log.error(format_args!(
                "{line}; ending the commands, whose jobs will be others'"
            ));
        }
    }

    /// Whether a server answers, so that failures have another cause.
    pub(super) fn server_answers(&self) -> bool {
        self.only_read_only.is_some() || self.fault.as_ref().is_some_and(|fault| fault.answers)
    }

    /// Logs once, while nothing runs, that no server answers or the lease cannot be renewed.
    pub(super) fn say_silence(&mut self, lease: Lease) {
        if !std::mem::replace(&mut self.runner.is_silent, true) {
            let what = if self.server_answers() {
                "the lease could not be renewed"
            } else {
                "no server has answered"
            };
            self.runner.log.warning(format_args!(
                "{what} for {}{}; trying again",
                shown(lease.proved.elapsed()),
                self.because()
            ));
        }
    }

    /// The reason why nothing is recorded, as the end of a line. Empty if the server is silent.
    fn because(&self) -> String {
        let because = self.fault.as_ref();
        let because = because.map(|fault| format!(": {}", fault.line));
        because.unwrap_or_default()
    }

    /// When to act next, unless an event comes first.
    pub(super) fn next_deadline(&self) -> Option<Moment> {
        let over = self
            .lease
            .map(|lease| lease.end_command(self.spec.kill_after));
        // Once all commands are ended in time for it, the lease needs no further check.
        let lease = over.filter(|_| !self.runner.are_all_gone_by(self.lease));
        let lease = lease.map(|over| self.runner.grace.deadline(over));
        let idle = self.runner.commands.is_empty() && !self.runner.is_silent;
        let silence = over.filter(|_| idle);
        let connect = self.reach_by();
        let complete = self.ending.step_since;
        let complete = complete.filter(|_| self.runner.peer.is_expected());
        let complete = complete.map(|since| since + self.end_limit());
        let look = match self.turns.claimer {
            ClaimerState::Ready
                if self.want() > 0 && self.registered.is_some() && self.runner.peer.is_there() =>
            {
                Some(self.turns.next_at)
            }
            _ => None,
        };
        let stalled = self
            .stalled_at()
            .filter(|_| self.claims.has_singles_ahead());
        let start = self.starts_late().then(Moment::now);
        let draw = self.progress.line.deadline();
        [
            lease, connect, complete, silence, look, stalled, start, draw,
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

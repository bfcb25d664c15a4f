//! A worker's deadlines: the timeouts of commands, the end of the lease, the search for a server, and the worker's own end.

use super::super::Until;
use super::super::command::Cause;
use super::{ClaimerState, Coordinator};
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::base::text::{counted, shown};
use crate::lock::Lease;
use crate::supervise::{Command, is_over};
use std::time::Duration;

/// How long a worker without jobs waits for the server to deregister it.
pub(super) const DEREGISTER_LIMIT: Duration = Duration::from_millis(800);

/// If the end of the lease is noticed this late, this process was stopped, or the machine slept.
pub(super) const OVERSLEPT: Duration = Duration::from_millis(500);

impl Coordinator<'_> {
    /// Ends commands and waits that have reached their deadline.
    pub(super) fn check_deadlines(&mut self) {
        let kill_after = self.spec.kill_after;
        for command in &mut self.commands {
            if command.running.is_late() {
                self.log.info(format_args!(
                    "job {} has run for {}; ending it",
                    command.jobs(),
                    shown(self.spec.timeout.unwrap_or_default())
                ));
                command.running.end(Cause::TimedOut, kill_after);
            }
        }
        if self.shutdown.ends_commands() {
            for command in &mut self.commands {
                command.running.end(Cause::Stopped, kill_after);
            }
        }
        if is_over(self.stalled_at()) {
            self.return_ahead();
        }
        self.check_lease();
        self.check_end();
        if is_over(self.reach_by()) {
            let failure = self.unreachable();
            self.stop(Duration::ZERO, Err(failure.into()));
        }
    }

    /// The error when no server, or none that takes writes, was reached in time.
    fn unreachable(&self) -> Failure {
        if let Some(server) = &self.only_read_only {
            let line = format!("{server}; name the server that takes writes");
            return Failure::new(Reason::Configuration, line);
        }
        let limit = shown(self.spec.connection.connect_timeout);
        let cause = self.fault.as_ref().map(|fault| &fault.line);
        let cause = cause.unwrap_or(&self.last_note);
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
        if self.shutdown.has_begun() || !self.claimer.is_there() {
            return None;
        }
        // A worker that ends by itself does not wait without limit.
        let lease = self.lease.filter(|_| self.spec.until != Until::Stopped);
        let since = self.begun.or(lease.map(Lease::over))?;
        Some(since + self.spec.connection.connect_timeout)
    }

    /// How many jobs and blocks have ended without a confirmed record.
    pub(super) fn unrecorded(&self) -> usize {
        self.ended.len() + self.handed.len()
    }

    /// How long the claimer of an ending worker may take for its current step.
    pub(super) fn end_limit(&self) -> Duration {
        let connect_timeout = self.spec.connection.connect_timeout;
        match self.claimer_state {
            _ if self.unrecorded() > 0 => connect_timeout,
            // It may be claiming jobs that nobody else knows of.
            ClaimerState::TakingTurn(false) => connect_timeout,
            ClaimerState::TakingTurn(true) => self.wait_limit,
            ClaimerState::Ready | ClaimerState::Deregistering => DEREGISTER_LIMIT,
        }
    }

    /// An ending worker does not wait for a server without limit.
    pub(super) fn check_end(&mut self) {
        if !self.shutdown.has_begun() || !self.commands.is_empty() || !self.claimer.is_there() {
            return;
        }
        let since = *self.shutdown_step_since.get_or_insert_with(Moment::now);
        let (limit, unrecorded) = (self.end_limit(), self.unrecorded());
        if !is_over(Some(since + limit)) {
            return;
        }
        if unrecorded > 0 && !self.shutdown.has_failed() {
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
            self.shutdown.begin(Duration::ZERO, Err(failure.into()));
        }
        self.claimer.end();
    }

    pub(super) fn check_lease(&mut self) {
        let Some(lease) = self.lease else { return };
        let over = lease.end_command(self.spec.kill_after);
        if !is_over(Some(over)) {
            self.grace = None;
            return;
        }
        if self.commands.is_empty() {
            self.say_silence(lease);
            return;
        }
        if over.elapsed() > OVERSLEPT && self.grace.is_none() {
            self.grace = Some(Moment::now() + lease.grace());
        }
        if self.grace.is_some_and(|grace| grace > Moment::now()) {
            return;
        }
        let kill_after = lease
            .kill_after(self.spec.kill_after)
            .min(lease.over().since(Moment::now()));
        let mut any = false;
        for command in &mut self.commands {
            any |= !command.running.is_ending();
            command.running.end(Cause::LeaseOver, kill_after);
        }
        if any {
            self.is_silent = true;
            let span = shown(lease.proved.elapsed());
            let line = if self.server_answers() {
                format!(
                    "the lease could not be renewed for {span}{}",
                    self.because()
                )
            } else {
                format!("the server has not answered for {span}")
            };
            self.log.error(format_args!(
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
        if !std::mem::replace(&mut self.is_silent, true) {
            let what = if self.server_answers() {
                "the lease could not be renewed"
            } else {
                "no server has answered"
            };
            self.log.warning(format_args!(
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

    pub(super) fn deadline(&self) -> Option<Moment> {
        let commands = self.commands.iter().map(|command| &command.running);
        let are_all_ending = commands.clone().all(Command::is_ending);
        let commands = commands.filter_map(Command::deadline).min();
        let lease = self.lease.filter(|_| !self.commands.is_empty());
        let lease = lease.map(|lease| {
            let over = lease.end_command(self.spec.kill_after);
            self.grace.unwrap_or(over)
        });
        // Once all commands are ending, the lease needs no further check.
        let lease = lease.filter(|_| !are_all_ending);
        let stop = self.shutdown.until.filter(|_| !are_all_ending);
        let connect = self.reach_by();
        let complete = self.shutdown_step_since.filter(|_| self.claimer.is_there());
        let complete = complete.map(|since| since + self.end_limit());
        let silence = self
            .lease
            .filter(|_| self.commands.is_empty() && !self.is_silent);
        let silence = silence.map(|lease| lease.end_command(self.spec.kill_after));
        let look = match self.claimer_state {
            ClaimerState::Ready
                if self.want() > 0 && self.registered.is_some() && self.claimer.is_there() =>
            {
                Some(self.turn_at)
            }
            _ => None,
        };
        let restart = self.claimer.restarts.next();
        let stalled = self.stalled_at().filter(|_| self.has_singles_ahead());
        let start = self.starts_late().then(Moment::now);
        [
            commands, lease, stop, connect, complete, silence, look, restart, stalled, start,
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

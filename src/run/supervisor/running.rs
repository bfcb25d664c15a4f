//! While the command runs: watches its end, its timeout and its lease, and forwards signals to it. Ends it when the timeout is over, or
//! when the lock is lost and the policy says so.

use std::time::{Duration, SystemTime};

use nix::sys::signal::Signal;

use super::super::message::{FromKeeper, ToKeeper};
use super::super::task::{UNDER_LOCK, WITHOUT_LOCK};
use super::Supervisor;
use super::lock_state::LockState;
use super::phase::{Conclusion, Phase, Running};
use crate::base::clock::{Moment, is_over};
use crate::base::exit::{Ending, Failure, Reason};
use crate::base::text::shown;
use crate::lock::{Grace, Grant, Lease, OnLockLost};
use crate::supervise::{
    Cause, Change, Child, Command, LockEventKind, Output, Received, RunOutcome, Started,
    Surroundings, change, of_grant,
};

impl Supervisor<'_> {
    /// Starts the command; without a grant it runs without the lock.
    pub(super) fn start_command(&mut self, grant: Option<Grant>) -> Phase {
        let acquired = Moment::now();
        self.grant = grant;
        if let Err(error) = self.runner.poller.signals.collect_all() {
            let failure = Failure::refused("collect signals", &error);
            return self.begin_release(self.job.release_within, Err(failure.into()));
        }
        let started = Moment::now();
        let number = grant.map_or(WITHOUT_LOCK, |_| UNDER_LOCK);
        let place = self.runner.board.take(number);
        let place = place.expect("there is no other command");
        let (command, signals) = (&self.job.command, &self.runner.poller.signals);
        let environment = self.environment();
        let (output, surroundings) = match self.job.keep_output.map(Output::copied) {
            None => (Output::none(), Surroundings::default()),
            Some(Ok((output, [stdout, stderr]))) => {
                let surroundings = Surroundings {
                    stdout,
                    stderr,
                    ..Surroundings::default()
                };
                (output, surroundings)
            }
            Some(Err(error)) => {
                drop(place);
                let failure = Failure::refused("make a pipe", &error);
                return self.begin_release(self.job.release_within, Err(failure.into()));
            }
        };
        let announce = place.announce();
        let child = match Child::spawn(command, environment, signals, surroundings, announce) {
            Ok(child) => child,
            Err(error) => {
                drop(place);
                return self.begin_release(self.job.release_within, Err(error.failure.into()));
            }
        };
        self.record.started = Some(SystemTime::now());
        let (timeout, kill_after) = (self.job.timeout, self.job.kill_after);
        self.runner.commands.push(Started {
            running: Command::new(child, started, timeout, kill_after, place),
            output,
            purpose: (),
        });
        Phase::Running(Running {
            hold_until: acquired + self.job.hold_at_least,
        })
    }

    /// The variables that describe the grant, and those that the command must not see.
    fn environment(&self) -> Vec<Change> {
        let (job, tick) = (self.job, self.record.tick.as_deref());
        let mut changes = of_grant(&job.lock.name, &job.slot_names, self.grant, tick);
        changes.extend(job.scrubbed.iter().map(|&name| change(name, None)));
        changes
    }

    /// When dblock must begin to end the command, unless the keeper confirms or reacquires the lock before. `None`: there is no lock, or
    /// its loss is ignored.
    pub(super) fn lease_over(&self) -> Option<Moment> {
        let lease = self.lock.lease()?;
        (self.job.lock.on_lost != OnLockLost::Ignore)
            .then(|| lease.end_command(self.job.kill_after))
    }

    /// Ends the command if its time or its lease is over. Checked in every turn: a flood of signals would come before any deadline.
    pub(super) fn check_command(&mut self) {
        if self.runner.are_all_ending() {
            return;
        }
        if self.runner.commands.iter().any(|one| one.running.is_late()) {
            return self.end_command(Cause::TimedOut, |this| {
                this.runner.log.warning(format_args!(
                    "the command has run for {}; ending it",
                    shown(this.job.timeout.unwrap_or_default())
                ));
            });
        }
        let (over, lease) = (self.lease_over(), self.lock.lease());
        let peer = &mut self.runner.peer;
        let is_over = self.runner.grace.is_over(over, || {
            peer.send(ToKeeper::Check);
            lease.map(Lease::grace).unwrap_or_default()
        });
        if is_over {
            self.end_command(Cause::LeaseOver, Self::abandon_lock);
        }
    }

    /// Begins to end the command. One that ignores SIGTERM must be gone before another host may get the lock. Only then it `says` why: a
    /// file system can keep this process in a write for ever.
    fn end_command(&mut self, cause: Cause, says: impl FnOnce(&mut Self)) {
        let lease = self.lock.lease();
        let lease = lease.filter(|_| self.job.lock.on_lost != OnLockLost::Ignore);
        let mut may_signal = true;
        for command in &mut self.runner.commands {
            may_signal &= command.running.end(cause, lease);
        }
        says(self);
        if !may_signal {
            let line = "cannot end the command: it runs as another user; waiting for its end";
            self.runner.log.warning(line);
        }
    }

    /// Handles a signal while there is a command. SIGCHLD is dblock's own; the others are forwarded to the command once.
    pub(super) fn on_signal_running(&mut self, received: Received) {
        let signal = received.signal;
        if signal == Signal::SIGCHLD {
            return;
        }
        let signals = &mut self.runner.poller.signals;
        self.asked_to_end |= signals.asks_to_end(signal);
        let mut shares_group = false;
        for command in &self.runner.commands {
            let child = &command.running.child;
            shares_group |= !child.processes.own_group;
            if received.is_for(child.processes) && !child.signal(signal as i32) {
                self.runner.log.warning(format_args!(
                    "cannot forward {signal} to the command: it runs as another user"
                ));
            }
        }
        // The shell waits until dblock is stopped, whoever has sent this: Ctrl-Z in an editor has the editor send it to its group. It was
        // forwarded before, for SIGCONT cancels it where it comes too late.
        if signal == Signal::SIGTSTP && shares_group {
            // The keeper stops renewing meanwhile: a stop for longer than the TTL gives the lock away.
            self.runner.peer.send(ToKeeper::Pause);
            signals.stop();
            // The lease may have been over before, and is renewed only now.
            self.runner.grace = Grace::default();
            self.runner.peer.send(ToKeeper::Check);
        }
    }

    /// Handles a message of the keeper while there is a command.
    pub(super) fn on_message_running(&mut self, message: FromKeeper) {
        if self.must_end_for(message) {
            self.end_command(Cause::LockLost, |_| {});
        }
    }

    /// Whether the command must end for a message of the keeper, which is logged.
    fn must_end_for(&mut self, message: FromKeeper) -> bool {
        let (before, was_killed) = (self.lock, self.killed);
        self.update(&message);
        let (name, log) = (&self.job.lock.name, self.runner.log);
        match message {
            FromKeeper::Lost(cause) => return self.report_loss(&cause),
            FromKeeper::Held(grant, _) => {
                let span = match before {
                    LockState::Lost(since, _) => since.elapsed(),
                    _ => Duration::ZERO,
                };
                log.warning(format_args!(
                    "{name} was reacquired after {}, on connection {}",
                    shown(span),
                    grant.connection_id
                ));
            }
            // Reported before: a keeper that replaces another one finds the kill again.
            FromKeeper::Killed(_) if was_killed => return true,
            FromKeeper::Killed(who) => {
                log.error(format_args!(
                    "{name} was ended by {who}; ending the command"
                ));
                return true;
            }
            // The end of a durable lock was reported when it was lost.
            FromKeeper::Abandoned(_) if self.is_durable() => {}
            FromKeeper::Abandoned(why) if self.job.lock.on_lost == OnLockLost::Reacquire => {
                log.error(format_args!("{name} {why}; ending the command"));
                return true;
            }
            // Only where the lock was lost: this keeper cannot even begin to reacquire it. A keeper that fails in a renewal is gone next,
            // which is handled there.
            FromKeeper::Failed(failure) if !before.is_held() => {
                let policy = self.job.lock.on_lost;
                let consequence = match policy {
                    OnLockLost::Reacquire | OnLockLost::Terminate => "ending the command",
                    OnLockLost::Ignore => "the command continues without it",
                };
                log.error(format_args!("{failure}; {consequence}"));
                return policy == OnLockLost::Reacquire;
            }
            FromKeeper::Failed(failure) => self.on_keeper_fault(&failure),
            FromKeeper::Note(level, text) => log.say(level, text),
            _ => {}
        }
        false
    }

    /// The keeper has died while the command runs. Another one reacquires the slot where the policy says so.
    pub(super) fn on_keeper_gone_running(&mut self) {
        if self.keeper.is_dismissed {
            return self.schedule_withdrawal();
        }
        // Without a lock there is nothing to lose. If the command has ended, too, the end of the run reports it.
        let mut commands = self.runner.commands.iter();
        let has_ended = commands.any(|one| one.running.child.ended().is_some());
        let outlives = self.grant_that_outlives().is_some();
        if self.runner.are_all_ending() {
            if outlives {
                self.schedule_keeper();
            }
            return;
        }
        if self.grant.is_none() || has_ended {
            return;
        }
        if !outlives && self.lock.is_held() {
            let cause = self.runner.peer.how_it_ended();
            self.lock.lose();
            self.record.lose(&cause);
            if self.report_loss(&cause) {
                return self.end_command(Cause::LockLost, |_| {});
            }
        }
        if self.replaces_keepers() && !self.schedule_keeper() && !outlives {
            self.end_command(Cause::LockLost, |_| {});
        }
    }

    /// Reports the loss. `true`: the command must end for it.
    fn report_loss(&self, cause: &str) -> bool {
        let policy = self.job.lock.on_lost;
        let is_durable = self.is_durable();
        let consequence = match policy {
            // Another run may have held the lock since.
            OnLockLost::Reacquire if is_durable => "ending the command",
            OnLockLost::Reacquire => "reacquiring it",
            OnLockLost::Terminate => "ending the command",
            OnLockLost::Ignore => "the command continues without it",
        };
        self.runner.log.error(format_args!(
            "{} was lost while the command runs: {cause}; {consequence}",
            self.job.lock.name
        ));
        policy == OnLockLost::Terminate || is_durable && policy == OnLockLost::Reacquire
    }

    /// Reports why the lease is over.
    fn abandon_lock(&mut self) {
        let why = match self.lock {
            LockState::Lost(since, _) => {
                format!("could not be reacquired within {}", shown(since.elapsed()))
            }
            LockState::Held(lease) => format!(
                "may be lost: the server has not renewed it for {}",
                shown(lease.proved.elapsed())
            ),
            LockState::None => return,
        };
        self.record.add(LockEventKind::Abandoned, &why);
        self.runner.log.error(format_args!(
            "{} {why}; ending the command",
            self.job.lock.name
        ));
    }

    /// A command was ended because its lease was over. Unless the lock was renewed since, there is nothing to release.
    pub(super) fn give_up_lock(&mut self) {
        while let Some(message) = self.pending_message() {
            self.must_end_for(message);
        }
        if !self.lock.is_held() || is_over(self.lease_over()) {
            self.lock = LockState::None;
        }
    }

    /// The command has ended, by itself or for this cause; or the system reported an error, and the command was killed. Holds the lock on
    /// until this moment, if that is still to come; otherwise releases it.
    pub(super) fn finish_command(
        &mut self,
        command: Command,
        hold_until: Moment,
        cause: Result<Option<Cause>, Failure>,
    ) -> Phase {
        let (ending, timed_out) = (command.child.ended(), command.timed_out());
        let late_failure = command.child.late_failure().map(|error| error.failure);
        if late_failure.is_some() {
            self.record.started = None;
        } else if let Some(ending) = ending {
            let ran = self.record.end_command(command.started, ending);
            let log = self.runner.log;
            log.info(format_args!("the command {ending} after {}", shown(ran)));
        }
        command.reap();
        let was_started = late_failure.is_none();
        let is_due = was_started && matches!(cause, Ok(None | Some(Cause::TimedOut)));
        let may_hold = is_due && self.grant.is_some() && !self.killed && !self.asked_to_end;
        let conclusion = match late_failure {
            Some(failure) => Err(failure.into()),
            None => cause
                .map_err(anyhow::Error::from)
                .and_then(|cause| self.conclude(cause, ending, timed_out)),
        };
        if may_hold && hold_until > Moment::now() {
            self.begin_hold(hold_until, conclusion)
        } else {
            self.begin_release(self.job.release_within, conclusion)
        }
    }

    fn conclude(
        &mut self,
        cause: Option<Cause>,
        ending: Option<Ending>,
        timed_out: Ending,
    ) -> anyhow::Result<Conclusion> {
        let ending = match cause {
            None | Some(Cause::Stopped) => ending
                .ok_or_else(|| Failure::new(Reason::Internal, "the command's end was not seen"))?,
            Some(Cause::TimedOut) => {
                self.record.outcome = RunOutcome::TimedOut;
                timed_out
            }
            Some(Cause::LockLost | Cause::LeaseOver) => {
                let line = format!(
                    "{} was lost, and the command was ended for it",
                    self.job.lock.name
                );
                return Err(Failure::new(Reason::LockLost, line).into());
            }
        };
        Ok(Conclusion::Ran(ending))
    }
}

//! While the command runs: watches its end, its timeout and its lease, and forwards signals to it. Ends it when the timeout is over, or
//! when the lock is lost and the policy says so.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nix::sys::signal::Signal;

use super::child::{Child, Surroundings};
use super::command::Command;
use super::event::{Event, is_over};
use super::grace::Grace;
use super::lock_state::LockState;
use super::phase::{Cause, Conclusion, Phase, Running};
use super::record::LockEventKind;
use super::signals::Received;
use super::{RunOutcome, Supervisor, environment};
use crate::base::clock::Moment;
use crate::base::exit::{Ending, Failure, Reason};
use crate::base::text::shown;
use crate::keeper::message::{FromKeeper, ToKeeper};
use crate::lock::{Grant, Lease, OnLockLost};

impl Supervisor<'_> {
    /// Starts the command; without a grant it runs without the lock.
    pub(super) fn start_command(&mut self, grant: Option<Grant>) -> Phase {
        let acquired = Moment::now();
        if let Err(error) = self.poller.signals.collect_all() {
            return Phase::Done(Err(error.into()));
        }
        self.grant = grant;
        let started = Moment::now();
        let environment = environment::changes(self.job, grant, self.record.tick.as_deref());
        // Without a lock no keeper has to know of the command: the leash ends it with dblock.
        let keeper = grant.map(|_| Arc::clone(self.keeper.link()));
        let announce = move |pid, own_group| match &keeper {
            Some(keeper) => keeper.send(&ToKeeper::Started { pid, own_group }),
            None => Ok(()),
        };
        let surroundings = Surroundings::default();
        let (command, signals) = (&self.job.command, &self.poller.signals);
        let child = match Child::spawn(command, environment, signals, surroundings, announce) {
            Ok(child) => child,
            Err(failure) => {
                let limit = self.job.release_within;
                return self.begin_release(None, limit, Err(failure.into()));
            }
        };
        self.record.started = Some(SystemTime::now());
        let (timeout, kill_after) = (self.job.timeout, self.job.kill_after);
        Phase::Running(Running {
            command: Command::new(child, started, timeout, kill_after, None),
            hold_until: acquired + self.job.hold_at_least,
            grace: Grace::default(),
        })
    }

    /// Checks the command's end and the clock. `Some`: stop watching the command, for this cause. The deadlines are checked here and not
    /// as events, because a flood of signals would always come before them.
    pub(super) fn check_running(&mut self, running: &mut Running) -> Option<Cause> {
        loop {
            if let Some(ending) = running.command.child.ended() {
                return Some(self.who_ended_it(ending));
            }
            if running.command.is_late() {
                self.log.warning(format_args!(
                    "the command has run for {}; ending it",
                    shown(self.job.timeout.unwrap_or_default())
                ));
                return Some(Cause::TimedOut);
            }
            let over = self.lease_over();
            // Reads the messages that the keeper has sent first.
            if is_over(over)
                && let Some(message) = self.pending_message()
            {
                if self.on_message(message) {
                    return Some(Cause::LockLost);
                }
                continue;
            }
            let (keeper, lease) = (&mut self.keeper, self.lock.lease());
            let is_over = running.grace.is_over(over, || {
                keeper.send(ToKeeper::Check);
                lease.map(Lease::grace).unwrap_or_default()
            });
            if !is_over {
                return None;
            }
            self.abandon_lock();
            return Some(Cause::LeaseOver);
        }
    }

    /// The keeper may have sent the SIGKILL while dblock was stopped.
    fn who_ended_it(&mut self, ending: Ending) -> Cause {
        while ending == Ending::Signal(libc::SIGKILL)
            && let Some(message) = self.pending_message()
        {
            if matches!(message, FromKeeper::EndsCommand) {
                // Others of its group may not be dead yet.
                return Cause::LockLost;
            }
            self.on_message(message);
        }
        Cause::OwnEnd
    }

    pub(super) fn on_event_running(&mut self, running: Running, event: Event) -> Phase {
        let cause = match event {
            Event::Signal(received) => {
                self.on_signal(received, &running.command.child);
                None
            }
            Event::Message(message) => self.on_message(message).then_some(Cause::LockLost),
            Event::KeeperGone => self.on_keeper_gone(&running.command.child),
            Event::Deadline => None,
        };
        match cause {
            Some(cause) => self.end_running(running, cause),
            None => Phase::Running(running),
        }
    }

    /// Starts the phase after [`Running`].
    pub(super) fn end_running(&mut self, running: Running, cause: Cause) -> Phase {
        match cause {
            Cause::OwnEnd => self.finish_command(running.command, running.hold_until, Ok(cause)),
            _ => self.begin_termination(running, cause),
        }
    }

    /// Handles a signal while there is a command. SIGCHLD is dblock's own; the others are forwarded to the command once.
    pub(super) fn on_signal(&mut self, received: Received, child: &Child) {
        let Received {
            signal,
            from_terminal,
            ..
        } = received;
        if signal == Signal::SIGCHLD {
            return self.reap_orphans(Some(child));
        }
        self.asked_to_end |= self.poller.signals.asks_to_end(signal);
        if signal == Signal::SIGTSTP && from_terminal {
            // The keeper stops renewing meanwhile: a stop for longer than the TTL gives the lock away.
            self.keeper.send(ToKeeper::Pause);
            self.poller.signals.stop();
            self.keeper.send(ToKeeper::Check);
        }
        if received.is_for(child.processes) && !child.signal(signal as i32) {
            self.log.warning(format_args!(
                "cannot forward {signal} to the command: it runs as another user"
            ));
        }
    }

    /// Handles a message of the keeper while there is a command. `true`: the command must end for it.
    pub(super) fn on_message(&mut self, message: FromKeeper) -> bool {
        let (before, was_killed) = (self.lock, self.killed);
        self.update(&message);
        let name = &self.job.lock.name;
        match message {
            FromKeeper::Lost(cause) => return self.report_loss(&cause),
            FromKeeper::Held(grant, _) => {
                let span = match before {
                    LockState::Lost(since, _) => since.elapsed(),
                    _ => Duration::ZERO,
                };
                self.log.warning(format_args!(
                    "{name} was reacquired after {}, on connection {}",
                    shown(span),
                    grant.connection_id
                ));
            }
            // Reported before: a keeper that replaces another one finds the kill again.
            FromKeeper::Killed(_) if was_killed => return true,
            FromKeeper::Killed(who) => {
                self.log.error(format_args!(
                    "{name} was ended by {who}; ending the command"
                ));
                return true;
            }
            // The end of a durable lock was reported when it was lost.
            FromKeeper::Abandoned(_) if self.is_durable() => {}
            FromKeeper::Abandoned(why) if self.job.lock.on_lost == OnLockLost::Reacquire => {
                self.log
                    .error(format_args!("{name} {why}; ending the command"));
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
                self.log.error(format_args!("{failure}; {consequence}"));
                return policy == OnLockLost::Reacquire;
            }
            FromKeeper::Failed(failure) => self.on_keeper_fault(&failure),
            // The command may not be dead yet. Whatever it dies of, the lost lock was the cause.
            FromKeeper::EndsCommand => return true,
            FromKeeper::Note(level, text) => self.log.say(level, text),
            _ => {}
        }
        false
    }

    /// The keeper has died while the command runs. Another one reacquires the slot where the policy says so.
    fn on_keeper_gone(&mut self, child: &Child) -> Option<Cause> {
        self.keeper.reap();
        // Without a lock there is nothing to lose. If the command has ended, too, the end of the run reports it.
        self.grant.filter(|_| child.ended().is_none())?;
        let outlives = self.grant_that_outlives().is_some();
        if !outlives && self.lock.is_held() {
            let cause = self.keeper.how_it_ended();
            self.lock.lose();
            self.record.lose(&cause);
            if self.report_loss(&cause) {
                return Some(Cause::LockLost);
            }
        }
        let is_over = self.replaces_keepers() && !self.schedule_keeper() && !outlives;
        is_over.then_some(Cause::LockLost)
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
        self.log.error(format_args!(
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
        self.log.error(format_args!(
            "{} {why}; ending the command",
            self.job.lock.name
        ));
    }

    /// The command has ended; or the system reported an error, and the command is killed so that it does not run on unwatched. Holds the
    /// lock on until this moment, if that is still to come; otherwise releases it.
    pub(super) fn finish_command(
        &mut self,
        command: Command<Cause>,
        hold_until: Moment,
        cause: io::Result<Cause>,
    ) -> Phase {
        let timed_out = command.timed_out();
        let Command { child, started, .. } = command;
        let ending = child.ended();
        let late_failure = child.late_failure();
        match ending {
            Some(_) if late_failure.is_some() => self.record.started = None,
            Some(ending) => {
                let ran = self.record.end_command(started, ending);
                self.log
                    .info(format_args!("the command {ending} after {}", shown(ran)));
            }
            None => {
                child.signal(libc::SIGKILL);
            }
        }
        let was_started = late_failure.is_none();
        let is_due = was_started && matches!(cause, Ok(Cause::OwnEnd | Cause::TimedOut));
        let may_hold = is_due && self.grant.is_some() && !self.killed && !self.asked_to_end;
        let conclusion = match late_failure {
            Some(failure) => Err(failure.into()),
            None => cause
                .map_err(anyhow::Error::from)
                .and_then(|cause| self.conclude(cause, ending, timed_out)),
        };
        if may_hold && hold_until > Moment::now() {
            self.begin_hold(child, hold_until, conclusion)
        } else {
            self.begin_release(Some(child), self.job.release_within, conclusion)
        }
    }

    fn conclude(
        &mut self,
        cause: Cause,
        ending: Option<Ending>,
        timed_out: Ending,
    ) -> anyhow::Result<Conclusion> {
        let ending = match cause {
            Cause::OwnEnd => ending
                .ok_or_else(|| Failure::new(Reason::Internal, "the command's end was not seen"))?,
            Cause::TimedOut => {
                self.record.outcome = RunOutcome::TimedOut;
                timed_out
            }
            Cause::LockLost | Cause::LeaseOver => {
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

//! While the command runs: its end, its time and its lease are watched, signals are forwarded to it, and it is
//! ended when its time is over, or when the keeper says that the lock is lost and the policy wants that.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nix::sys::signal::Signal;

use super::child::{Child, Surroundings};
use super::event::{Event, is_over};
use super::keeper_link::{describe, unexplained_end};
use super::lock_state::LockState;
use super::phase::{Cause, Command, Conclusion, Phase, Running};
use super::record::LockEventKind;
use super::signals::Received;
use super::{RunOutcome, Supervisor, environment};
use crate::base::clock::Moment;
use crate::base::exit::{Ending, Failure, Reason, TIMED_OUT, TIMED_OUT_KILLED};
use crate::base::processes::Processes;
use crate::base::text::shown;
use crate::keeper::message::{FromKeeper, ToKeeper};
use crate::keeper::{self, Task, Work};
use crate::lock::{Grant, OnLockLost};

/// A supervisor that finds the lease over so long after its time was stopped, or the machine slept.
const OVERSLEPT: Duration = Duration::from_millis(500);

impl Supervisor<'_> {
    /// Starts the command; without a grant it runs without the lock.
    pub(super) fn start_command(&mut self, grant: Option<Grant>) -> Phase {
        let acquired = Moment::now();
        if let Err(error) = self.signals.collect_all() {
            return Phase::Done(Err(error.into()));
        }
        self.grant = grant;
        let started = Moment::now();
        let environment = environment::changes(self.job, grant, self.tick.as_deref());
        let link = Arc::clone(self.keeper.link());
        let announce = move |pid, own_group| link.send(&ToKeeper::Started { pid, own_group });
        let surroundings = Surroundings {
            folder: self.job.folder.clone(),
            ..Surroundings::default()
        };
        let (command, signals) = (&self.job.command, &self.signals);
        let child = match Child::spawn(command, environment, signals, surroundings, announce) {
            Ok(child) => child,
            Err(failure) => {
                let limit = self.job.release_within;
                return self.begin_release(None, limit, Err(failure.into()));
            }
        };
        self.record.started = Some(SystemTime::now());
        Phase::Running(Running {
            command: Command {
                child,
                started,
                acquired,
            },
            time_over: self.job.timeout.map(|timeout| started + timeout),
            grace: None,
        })
    }

    /// Why the command is to be watched no longer, as far as that needs no event. By the clock, for signals come before a
    /// deadline, and there may be no end of them.
    pub(super) fn check_running(&mut self, running: &mut Running) -> Option<Cause> {
        loop {
            if let Some(ending) = running.command.child.ended() {
                return Some(self.who_ended_it(ending));
            }
            if is_over(running.time_over) {
                self.log.warning(format_args!(
                    "the command has run for {}; ending it",
                    shown(self.job.timeout.unwrap_or_default())
                ));
                return Some(Cause::TimedOut);
            }
            let Some(lease_over) = self.lease_over().filter(|&at| is_over(Some(at))) else {
                running.grace = None;
                return None;
            };
            // What the keeper has said meanwhile comes first.
            let Some(message) = self.pending_message() else {
                return self.check_grace(running, lease_over);
            };
            if self.on_message(message) {
                return Some(Cause::LockLost);
            }
        }
    }

    /// A command that died of SIGKILL may have been ended by the keeper, while dblock was stopped.
    fn who_ended_it(&mut self, ending: Ending) -> Cause {
        while ending == Ending::Signal(libc::SIGKILL)
            && let Some(message) = self.pending_message()
        {
            if matches!(message, FromKeeper::EndsCommand) {
                return Cause::EndedByKeeper;
            }
            self.on_message(message);
        }
        Cause::OwnEnd
    }

    /// The lease is over and the keeper says nothing: after a sleep it gets a moment to prove the lock.
    fn check_grace(&mut self, running: &mut Running, lease_over: Moment) -> Option<Cause> {
        if lease_over.elapsed() > OVERSLEPT && running.grace.is_none() {
            self.keeper.send(&ToKeeper::Check);
            running.grace = self.lock.lease().map(|lease| Moment::now() + lease.grace());
        }
        if running.grace.is_some_and(|grace| grace > Moment::now()) {
            return None;
        }
        self.abandon_lock();
        Some(Cause::LeaseOver)
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
            Some(cause) => self.end_running(running.command, cause),
            None => Phase::Running(running),
        }
    }

    /// The phase after [`Running`].
    pub(super) fn end_running(&mut self, command: Command, cause: Cause) -> Phase {
        match cause {
            Cause::OwnEnd | Cause::EndedByKeeper => self.finish_command(command, Ok(cause), false),
            _ => self.begin_termination(command, cause),
        }
    }

    /// A signal while there is a command: SIGCHLD is dblock's own, the others go on to the command, once.
    pub(super) fn on_signal(&mut self, received: Received, child: &Child) {
        let Received {
            signal,
            from_terminal,
            from_parent,
            ..
        } = received;
        if signal == Signal::SIGCHLD {
            return self.reap_orphans(Some(child));
        }
        self.asked_to_end |= self.signals.asks_to_end(signal);
        // Before the command gets it: whoever finds the end of the run learns that it counts as no attempt.
        if signal == Signal::SIGTERM && from_parent && self.job.has_daemon() {
            self.record.is_interrupted = true;
            self.keeper.send(&ToKeeper::Interrupt);
        }
        if signal == Signal::SIGTSTP && from_terminal {
            // Who stops for longer than the TTL gives the lock away.
            self.keeper.send(&ToKeeper::Pause);
            self.signals.stop();
            self.keeper.send(&ToKeeper::Check);
        }
        if received.is_for(child.processes) && !child.processes.signal(signal as i32) {
            self.log.warning(format_args!(
                "cannot forward {signal} to the command: it runs as another user"
            ));
        }
    }

    /// What the keeper says while there is a command. Whether the command is to be ended for it.
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
            // A keeper that goes on for another finds it out again.
            FromKeeper::Killed(_) if was_killed => return true,
            FromKeeper::Killed(who) => {
                self.log.error(format_args!(
                    "{name} was ended by {who}; ending the command"
                ));
                return true;
            }
            // The end of a durable lock was said when it was lost.
            FromKeeper::Abandoned(_) if self.is_durable() => {}
            FromKeeper::Abandoned(why) if self.job.lock.on_lost == OnLockLost::Reacquire => {
                self.log
                    .error(format_args!("{name} {why}; ending the command"));
                return true;
            }
            // A keeper that reacquires cannot even begin; what a renewal failed of is followed by the keeper's end.
            FromKeeper::Failed(failure) if !before.is_held() => {
                self.log
                    .error(format_args!("{failure}; ending the command"));
                return self.job.lock.on_lost == OnLockLost::Reacquire;
            }
            FromKeeper::Failed(failure) => self.log.error(failure),
            FromKeeper::Note(level, text) => self.log.say(level, text),
            _ => {}
        }
        false
    }

    /// The keeper has died while the command runs: another one takes the slot again, where that is wanted.
    fn on_keeper_gone(&mut self, child: &Child) -> Option<Cause> {
        let end = self.keeper.reap();
        // Without a lock there is nothing to lose, and what ended with the keeper's death is reported afterwards.
        let grant = self.grant.filter(|_| child.ended().is_none())?;
        let outlives = self.grant_that_outlives(end).is_some();
        if !outlives && self.lock.is_held() {
            let cause = unexplained_end(end);
            self.lock.lose();
            self.record.lose(&cause);
            if self.report_loss(&cause) {
                return Some(Cause::LockLost);
            }
        }
        let goes_on = outlives || self.job.lock.on_lost == OnLockLost::Reacquire;
        if goes_on && let Err(failure) = self.replace_keeper(grant, Some(child.processes)) {
            self.log
                .error(format_args!("{failure}; ending the command"));
            return Some(Cause::LockLost);
        }
        None
    }

    /// The grant, if it does not end with its keeper, which has ended so: another one is to go on with it.
    pub(super) fn grant_that_outlives(&self, end: Option<Ending>) -> Option<Grant> {
        let grant = self.grant.filter(|_| self.is_durable())?;
        let end = unexplained_end(end);
        self.log.info(format_args!("{end}; another one goes on"));
        Some(grant)
    }

    /// Starts another keeper, which takes the slot again, for the command if it still runs.
    pub(super) fn replace_keeper(
        &mut self,
        grant: Grant,
        command: Option<Processes>,
    ) -> Result<(), Failure> {
        let task = Task {
            tick: self.tick.as_deref(),
            ..self.job.task(self.run_id, false, self.log.shown)
        };
        self.keeper.replace(keeper::fork_off(Work::Resume(
            task,
            grant,
            self.lock.lease(),
            command,
        ))?);
        if self.record.is_interrupted {
            self.keeper.send(&ToKeeper::Interrupt);
        }
        Ok(())
    }

    /// Says that the lock was lost. Whether the command is to be ended for it.
    fn report_loss(&self, cause: &str) -> bool {
        let policy = self.job.lock.on_lost;
        let is_durable = self.is_durable();
        let consequence = match policy {
            // Others may have held it since.
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

    /// Says why the lease is over.
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

    /// The command has ended, or after an error of the system's is killed: no command runs on behind dblock's back. The lock
    /// is held on where that was asked for, or released.
    pub(super) fn finish_command(
        &mut self,
        command: Command,
        cause: io::Result<Cause>,
        killed: bool,
    ) -> Phase {
        let Command {
            child,
            started,
            acquired,
        } = command;
        let ending = child.ended();
        match ending {
            Some(ending) => {
                let ran = started.elapsed();
                self.record.ended = Some((SystemTime::now(), ending));
                self.record.ended_at = Some(Moment::now());
                self.record.ran = Some(ran);
                self.log.info(format_args!(
                    "the command {} after {}",
                    describe(ending),
                    shown(ran)
                ));
            }
            None => {
                child.processes.signal(libc::SIGKILL);
            }
        }
        let is_due = matches!(cause, Ok(Cause::OwnEnd | Cause::TimedOut));
        let may_hold = is_due && self.grant.is_some() && !self.killed && !self.asked_to_end;
        let conclusion = cause
            .map_err(anyhow::Error::from)
            .and_then(|cause| self.conclude(cause, ending, killed));
        let until = acquired + self.job.hold_at_least;
        if may_hold && until > Moment::now() {
            self.begin_hold(child, until, conclusion)
        } else {
            self.begin_release(Some(child), self.job.release_within, conclusion)
        }
    }

    fn conclude(
        &mut self,
        cause: Cause,
        ending: Option<Ending>,
        killed: bool,
    ) -> anyhow::Result<Conclusion> {
        let ending = match cause {
            Cause::OwnEnd => ending
                .ok_or_else(|| Failure::new(Reason::Internal, "the command's end was not seen"))?,
            Cause::TimedOut => {
                self.record.outcome = RunOutcome::TimedOut;
                Ending::Code(if killed { TIMED_OUT_KILLED } else { TIMED_OUT })
            }
            Cause::EndedByKeeper | Cause::LockLost | Cause::LeaseOver => {
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

//! The phases of a run. Each has its own data, and a supervisor is in exactly one.

use std::io;

use nix::sys::signal::Signal;

use super::Supervisor;
use super::command::Command;
use super::grace::Grace;
use crate::base::clock::Moment;
use crate::base::exit::Ending;
use crate::cron::AlreadyRan;
use crate::keeper::message::Answer;
use crate::lock::{Grant, Holders, OnLockLost};

/// What a supervisor is doing.
pub enum Phase {
    /// The keeper requests the lock.
    Acquiring(Acquiring),
    /// The command runs.
    Running(Running),
    /// The command is being ended: SIGTERM, then SIGKILL.
    Terminating(Terminating),
    /// The command has ended, and the lock is held on (`--hold-at-least`).
    Holding(Holding),
    /// The lock is being released.
    Releasing(Releasing),
    /// No command runs and no lock is held.
    Done(anyhow::Result<Conclusion>),
}

/// The result of a run that did not fail.
pub enum Conclusion {
    /// The command ran; how dblock will end.
    Ran(Ending),
    /// The lock was not acquired in time: these hold it.
    Taken(Holders),
    /// The run is not due: one has succeeded.
    AlreadyRan(AlreadyRan),
    /// A signal ended the wait for the lock.
    Interrupted(Signal),
}

/// While the keeper requests the lock.
pub struct Acquiring {
    pub begun: Moment,
    /// When the request has failed; `None`: never.
    pub deadline: Option<Moment>,
    /// Whether the server has reported that somebody else holds the lock.
    pub waiting: bool,
    /// Names a server while every server is read-only.
    pub only_read_only: Option<String>,
    /// Whether the server answers, and another session keeps the lock's row locked.
    pub row_is_locked: bool,
    /// What a server has answered, while the history is still read or written.
    pub answer: Option<Answer>,
    pub grant: Option<Grant>,
    /// The latest note, for the error when the deadline passes.
    pub last_note: String,
}

/// While the command runs.
pub struct Running {
    pub command: Command<Cause>,
    /// Until when the lock is held at least.
    pub hold_until: Moment,
    /// After a sleep of this process.
    pub grace: Grace,
}

/// While the command is being ended.
pub struct Terminating {
    pub command: Command<Cause>,
    pub cause: Cause,
    /// As in [`Running`].
    pub hold_until: Moment,
}

/// Why the supervisor stops watching a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It ended by itself.
    OwnEnd,
    /// Its `--timeout` is over.
    TimedOut,
    /// The lock was lost, or taken away by `dblock kill`.
    LockLost,
    /// The server has not confirmed the lock in time.
    LeaseOver,
}

/// While the lock is held after the command's end.
pub struct Holding {
    pub until: Moment,
    pub conclusion: anyhow::Result<Conclusion>,
}

/// While the lock is being released.
pub struct Releasing {
    /// How long dblock waits for the server's answer.
    pub deadline: Moment,
    /// Whether the end of the run is recorded, or the reason why not was reported.
    pub is_recorded: bool,
    /// Whether dblock waits for nothing more.
    pub finished: bool,
    pub conclusion: anyhow::Result<Conclusion>,
}

impl Supervisor<'_> {
    /// When a phase must act unless an event comes first; `None`: never.
    pub(super) fn deadline(&self, phase: &Phase) -> Option<Moment> {
        let own = match phase {
            Phase::Acquiring(acquiring) => acquiring.deadline,
            Phase::Running(running) => {
                let lease = self.lease_over().map(|over| running.grace.deadline(over));
                running.command.deadline().into_iter().chain(lease).min()
            }
            Phase::Terminating(terminating) => terminating.command.deadline(),
            Phase::Holding(holding) => Some(holding.until),
            Phase::Releasing(releasing) => Some(releasing.deadline),
            Phase::Done(_) => None,
        };
        own.into_iter().chain(self.keeper.restarts.next()).min()
    }

    /// When dblock must begin to end the command, unless the keeper confirms or reacquires the lock before. `None`: there is no lock, or
    /// its loss is ignored.
    pub(super) fn lease_over(&self) -> Option<Moment> {
        let lease = self.lock.lease()?;
        (self.job.lock.on_lost != OnLockLost::Ignore)
            .then(|| lease.end_command(self.job.kill_after))
    }

    /// The next phase after an error of the system while waiting for an event. No command runs on unwatched.
    pub(super) fn fail(&mut self, phase: Phase, error: io::Error) -> Phase {
        match phase {
            Phase::Acquiring(_) => self.end_acquiring(Err(error.into())),
            Phase::Running(Running {
                command,
                hold_until,
                ..
            })
            | Phase::Terminating(Terminating {
                command,
                hold_until,
                ..
            }) => {
                // Before the release is sent.
                command.child.kill_and_wait();
                self.finish_command(command, hold_until, Err(error))
            }
            Phase::Holding(_) => self.begin_release(None, super::LAST_CHANCE, Err(error.into())),
            Phase::Releasing(_) | Phase::Done(_) => Phase::Done(Err(error.into())),
        }
    }
}

//! The phases of a run. Each has its own data, and a supervisor is in exactly one.

use std::io;

use nix::sys::signal::Signal;

use super::Supervisor;
use super::child::Child;
use super::termination::Termination;
use crate::base::clock::Moment;
use crate::base::exit::Ending;
use crate::cron::AlreadyRan;
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
    /// The lock is being released, or the end of the wait for it is being recorded.
    Releasing(Releasing),
    /// No command runs and no lock is held.
    Done(anyhow::Result<Conclusion>),
}

/// What came of a run that did not fail.
pub enum Conclusion {
    /// The command ran; how dblock is to end.
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
    /// When the request has failed; `None` waits for ever.
    pub deadline: Option<Moment>,
    /// Whether the server has said that somebody else holds the lock.
    pub waiting: bool,
    /// Set as long as every server is read-only; names one.
    pub only_read_only: Option<String>,
    pub grant: Option<Grant>,
    /// What was under way last, for the error when the deadline passes.
    pub last_note: String,
}

/// A command that was started.
pub struct Command {
    pub child: Child,
    pub started: Moment,
    /// When the lock was acquired: `--hold-at-least` counts from here.
    pub acquired: Moment,
}

/// While the command runs.
pub struct Running {
    pub command: Command,
    /// When `--timeout` is over.
    pub time_over: Option<Moment>,
    /// Until when a lease that was found over on waking may turn out not to be.
    pub grace: Option<Moment>,
}

/// While the command is being ended.
pub struct Terminating {
    pub command: Command,
    pub cause: Cause,
    pub termination: Termination,
}

/// Why a command is no longer only watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It ended by itself.
    OwnEnd,
    /// The keeper killed it for the lost lock, while the supervisor was stopped.
    EndedByKeeper,
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
    /// How long the server's answer is waited for.
    pub deadline: Moment,
    /// How many keepers have been told to release it.
    pub keepers: u32,
    /// Whether there is no lock, and its keeper only records that a signal ended the wait for it.
    pub only_records: bool,
    /// Whether nothing more is waited for.
    pub finished: bool,
    pub conclusion: anyhow::Result<Conclusion>,
}

impl Supervisor<'_> {
    /// When a phase has something to do unless an event comes before; `None` if never.
    pub(super) fn deadline(&self, phase: &Phase) -> Option<Moment> {
        match phase {
            Phase::Acquiring(acquiring) => acquiring.deadline,
            Phase::Running(running) => {
                let lease = running.grace.or(self.lease_over());
                running.time_over.into_iter().chain(lease).min()
            }
            Phase::Terminating(terminating) => Some(terminating.termination.look_again),
            Phase::Holding(holding) => Some(holding.until),
            Phase::Releasing(releasing) => Some(releasing.deadline),
            Phase::Done(_) => None,
        }
    }

    /// When the end of the command must begin unless a renewal is confirmed, or the lock is reacquired, before. `None`
    /// where there is no lock, or its loss is to be ignored.
    pub(super) fn lease_over(&self) -> Option<Moment> {
        let lease = self.lock.lease()?;
        (self.job.lock.on_lost != OnLockLost::Ignore)
            .then(|| lease.end_command(self.job.kill_after))
    }

    /// The phase after one in which the system refused to wait for an event. No command runs on unwatched.
    pub(super) fn fail(&mut self, phase: Phase, error: io::Error) -> Phase {
        match phase {
            Phase::Acquiring(_) => self.end_acquiring(Err(error.into())),
            Phase::Running(Running { command, .. })
            | Phase::Terminating(Terminating { command, .. }) => {
                self.finish_command(command, Err(error), false)
            }
            Phase::Holding(_) => self.begin_release(None, super::LAST_CHANCE, Err(error.into())),
            Phase::Releasing(_) | Phase::Done(_) => Phase::Done(Err(error.into())),
        }
    }
}

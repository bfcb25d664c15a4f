//! The phases of a run. Each has its own data, and a supervisor is in exactly one.

use nix::sys::signal::Signal;

use super::super::job::Job;
use super::super::message::Answer;
use crate::base::clock::Moment;
use crate::base::exit::Ending;
use crate::cron::AlreadyRan;
use crate::lock::{Grant, Holders};

/// What a supervisor is doing.
pub enum Phase {
    /// The keeper requests the lock.
    Acquiring(Acquiring),
    /// The command runs, or is being ended.
    Running(Running),
    /// The command has ended, and the lock is held on (`--hold-at-least`).
    Holding(Holding),
    /// The lock is being released.
    Releasing(Releasing),
    /// No command runs and no lock is held. `None`: the conclusion was taken.
    Done(Option<anyhow::Result<Conclusion>>),
}

impl Phase {
    /// The first one.
    pub fn acquire(job: &Job) -> Self {
        let begun = Moment::now();
        Self::Acquiring(Acquiring {
            begun,
            deadline: Some(begun + job.connection.connect_timeout),
            waiting: false,
            only_read_only: None,
            row_is_locked: false,
            claimed: None,
            is_put_off: false,
            answer: None,
            grant: None,
        })
    }

    /// The last one.
    pub fn done(conclusion: anyhow::Result<Conclusion>) -> Self {
        Self::Done(Some(conclusion))
    }
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
    /// When the keeper has last begun to claim a row.
    pub claimed: Option<Moment>,
    /// Whether the deadline was put off for the answer to that. Once only, as the keeper may claim again and again.
    pub is_put_off: bool,
    /// What a server has answered, while the history is still read or written.
    pub answer: Option<Answer>,
    pub grant: Option<Grant>,
}

/// While the command runs, or is being ended.
pub struct Running {
    /// Until when the lock is held at least.
    pub hold_until: Moment,
}

/// While the lock is held after the command's end.
pub struct Holding {
    pub until: Moment,
    /// Whether dblock still has the files that it shares with the command.
    pub shares: bool,
    pub conclusion: anyhow::Result<Conclusion>,
}

/// While the lock is being released.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each may be so without the others"
)]
pub struct Releasing {
    /// How long dblock waits for the server's answer.
    pub deadline: Moment,
    /// Whether the end of the run is recorded, or the reason why not was reported.
    pub is_recorded: bool,
    /// Whether a keeper was told to release the lock.
    pub is_asked: bool,
    /// Whether the lock is free.
    pub is_released: bool,
    /// Whether a keeper has the output, and has not said that it is kept.
    pub awaits_output: bool,
    pub conclusion: anyhow::Result<Conclusion>,
}

//! The messages between a daemon's scheduler and coordinator, and from an attempt's process to the coordinator.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::cron::AttemptEnd;
use crate::history::RunEnd;

/// From the scheduler to the coordinator.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromScheduler {
    /// What it does now, or what has just failed.
    Note(Level, String),
    /// The daemon is registered, and its file is in force.
    Ready,
    /// The server has answered. The coordinator must reply with [`ToScheduler::Alive`].
    Answered,
    /// The server has answered again. Sent at most once a second, and needs no reply.
    Working,
    /// No server has answered, and the next one is tried.
    Seeking,
    /// Start an attempt.
    Start(Start),
    /// The end of this run is recorded.
    Recorded(String),
    /// The scheduler cannot continue.
    Failed(Failure),
    /// The daemon has deregistered.
    Left,
}

impl From<Failure> for FromScheduler {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// An attempt of a tick.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Start {
    /// The job, by its index in the file.
    pub job: usize,
    /// The tick, in microseconds since 1970, and as text.
    pub tick: i64,
    pub shown: String,
    /// The run's id.
    pub run: String,
    /// The number of the attempt, from 1, and how many earlier ones count as failed.
    pub attempt: u32,
    pub failures: u32,
    /// For how long no attempt of the tick could be started.
    pub unstarted_for: Duration,
}

/// The end of an attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ended {
    /// The job.
    pub name: String,
    /// The tick.
    pub tick: i64,
    /// The run.
    pub run: String,
    /// The delay of the next attempt; `None`: the tick is over.
    pub retry: Option<Duration>,
    /// How it ended, as far as that is known.
    pub end: AttemptEnd,
    /// As in [`Start`].
    pub unstarted_for: Duration,
    /// How many attempts count as failed now.
    pub failures: u32,
    /// The cause of a failure, if nothing more is known, and the attempt's own processes could not record it.
    pub why: Option<String>,
    /// How it ended, if those processes could not record that.
    pub unrecorded: Option<Box<RunEnd>>,
    /// When it ended.
    pub at: Moment,
    /// How many attempts counted as failed before, if its process could not report how it ended: its keeper may have recorded that.
    pub failures_before: Option<u32>,
}

/// To the scheduler.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToScheduler {
    /// The reply to [`FromScheduler::Answered`]: the coordinator is not stopped.
    Alive,
    /// This attempt has ended.
    Ended(Ended),
    /// Take no more ticks.
    Stop,
    /// Nothing runs any more: deregister.
    Leave,
}

/// From an attempt's process, before it ends.
#[derive(Debug, Serialize, Deserialize)]
pub struct Conclusion {
    /// How it ended.
    pub end: AttemptEnd,
    /// The end as text.
    pub words: String,
    /// The end for the history, if the attempt's own processes could not record it.
    pub unrecorded: Option<Box<RunEnd>>,
}

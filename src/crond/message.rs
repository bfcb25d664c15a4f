//! What crosses between the scheduler and the coordinator of a daemon, and from an attempt's process to the coordinator.

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
    /// What is being done or has just failed.
    Note(Level, String),
    /// The daemon is registered, and its file in force.
    Ready,
    /// The server has answered. It wants to hear [`ToScheduler::Alive`].
    Answered,
    /// It has answered again: not often, and whatever else is to be done before anything is heard.
    Working,
    /// No server has, and the next one is tried.
    Seeking,
    /// Start an attempt.
    Start(Start),
    /// The end of this run is recorded.
    Recorded(String),
    /// The scheduler cannot go on.
    Failed(Failure),
    /// The daemon has taken leave.
    Left,
}

/// An attempt of a tick.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Start {
    /// The job, by its place in the file.
    pub job: usize,
    /// The tick, in microseconds since 1970, and as it is shown.
    pub tick: i64,
    pub shown: String,
    /// The number of the run.
    pub run: String,
    /// Which attempt it is, from 1 on, and how many before count as failed.
    pub attempt: u32,
    pub failures: u32,
    /// For how long attempts of the tick could not be started.
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
    /// After how long it is to be tried again; `None`: it is over.
    pub retry: Option<Duration>,
    /// How it ended, as far as that is known.
    pub end: AttemptEnd,
    /// As in [`Start`].
    pub unstarted_for: Duration,
    /// What counts as failed now.
    pub failures: u32,
    /// Why it has failed, where that is all that is known, and its own processes could not write it.
    pub why: Option<String>,
    /// How it ended, where they could not write that.
    pub unrecorded: Option<Box<RunEnd>>,
    /// When it was over.
    pub at: Moment,
    /// How often it counted as failed before, where its process could not say how it ended: its keeper may have written that.
    pub failures_before: Option<u32>,
}

/// To the scheduler.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToScheduler {
    /// The coordinator takes notice of what it hears.
    Alive,
    /// This attempt has ended.
    Ended(Ended),
    /// Take no more ticks.
    Stop,
    /// Nothing runs any more: take leave.
    Leave,
}

/// From an attempt's process, before it ends.
#[derive(Debug, Serialize, Deserialize)]
pub struct Conclusion {
    /// How it ended.
    pub end: AttemptEnd,
    /// In words.
    pub words: String,
    /// What the history is to say of it, where its own processes could not write that.
    pub unrecorded: Option<Box<RunEnd>>,
}

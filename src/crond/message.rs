//! The messages between a daemon's scheduler and coordinator.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::cron::{AttemptEnd, Job, retry};
use crate::db::Client;
use crate::history::{OutputPart, RunEnd};
use crate::lock::{Grant, Lease};

/// From the scheduler to the coordinator.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromScheduler {
    /// What it does now, or what has just failed.
    Note(Level, String),
    /// A session is open. Its descriptor comes with the message: while the coordinator has it open, too, the scheduler's death alone does
    /// not end the session.
    Session,
    /// The file is in force.
    Published,
    /// The daemon is registered. Its file is in force, unless rows of jobs are locked.
    Ready,
    /// The server has answered. The coordinator must reply with [`ToScheduler::Alive`].
    Answered,
    /// The server has answered again. Sent at most once a second, and needs no reply.
    Working,
    /// No server has answered, and the next one is tried; with the line about one if all are read-only.
    Seeking(Option<String>),
    /// Start an attempt, under this lock.
    Start(Attempt, Grant, Lease),
    /// A renewal of this run's lock that was sent at this moment has succeeded.
    Confirmed(String, Moment),
    /// The lock of this run is lost, for this cause: its command must end. With whether somebody has ended the run by force.
    Lost(String, String, bool),
    /// This client ends this run (`dblock kill`): its command must end.
    Killed(String, Box<Client>),
    /// The host of this attempt has died; with whether another attempt follows.
    Died(Attempt, bool),
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
pub struct Attempt {
    /// The job, by its index in the file.
    pub job: usize,
    /// The tick, in microseconds since 1970, and as text.
    pub tick: i64,
    pub shown: String,
    /// The run's id.
    pub run: String,
    /// The number of the attempt, from 1, and how many earlier ones count as failed.
    pub number: u32,
    pub failures: u32,
    /// For how long no attempt of the tick could be started.
    pub unstarted_for: Duration,
}

impl Attempt {
    /// The number of its lease on the board of running commands: random bits of its run's id.
    pub fn lease_number(&self) -> u64 {
        let random = self.run.get(16..).unwrap_or_default();
        u64::from_str_radix(random, 16).unwrap_or_default().max(1)
    }

    /// How it has ended just now. `why` is for the history, if that gets nothing else; empty: it gets something.
    pub fn ended(
        &self,
        job: &Job,
        end: AttemptEnd,
        why: &str,
        run_end: Option<Box<RunEnd>>,
    ) -> EndedAttempt {
        let (retry, failures) = retry(&job.options, end, self.failures, self.unstarted_for);
        EndedAttempt {
            name: job.name.to_string(),
            tick: self.tick,
            run: self.run.clone(),
            retry,
            end,
            failures,
            why: (!why.is_empty()).then(|| format!("{}: {why}", job.name)),
            run_end,
            at: Moment::now(),
        }
    }
}

/// The end of an attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EndedAttempt {
    /// The job.
    pub name: String,
    /// The tick.
    pub tick: i64,
    /// The run.
    pub run: String,
    /// The delay of the next attempt; `None`: the tick is over.
    pub retry: Option<Duration>,
    /// How it ended.
    pub end: AttemptEnd,
    /// How many attempts count as failed now.
    pub failures: u32,
    /// Why no command was started, or ended, if the history has nothing else of that.
    pub why: Option<String>,
    /// How its command ended, for the history.
    pub run_end: Option<Box<RunEnd>>,
    /// When it ended.
    pub at: Moment,
}

/// To the scheduler.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToScheduler {
    /// A part of the output of this run that is to be kept. All parts come before its end.
    Output(String, OutputPart),
    /// The reply to [`FromScheduler::Answered`]: the coordinator is not stopped.
    Alive,
    /// Renew all locks now.
    Check,
    /// This attempt has ended.
    Ended(EndedAttempt),
    /// Take no more ticks.
    Stop,
    /// Nothing runs any more: deregister.
    Leave,
}

//! `dblock cron list --json`.

use jiff::Timestamp;
use serde::Deserialize;

use super::Ending;

/// The answer.
#[derive(Debug, Clone, Deserialize)]
pub struct CronList {
    /// The server that was asked.
    pub server: String,
    /// When it answered, by its own clock.
    pub now: Timestamp,
    /// By their names.
    pub jobs: Vec<Job>,
    /// Those that are alive, or were in the last day.
    pub daemons: Vec<Daemon>,
}

/// A job of the crontab.
#[derive(Debug, Clone, Deserialize)]
pub struct Job {
    /// By which it is known everywhere.
    pub name: Box<str>,
    /// That is in force.
    pub schedule: Box<str>,
    /// Of the schedule.
    pub time_zone: Box<str>,
    /// The next tick; None: there is none.
    pub next: Option<Timestamp>,
    /// Whether no daemon has had it in its file for a while.
    pub in_no_file: bool,
    /// How long the next tick has been due; None: it is not late.
    pub late_seconds: Option<f64>,
    /// None: it is not paused.
    pub paused_since: Option<Timestamp>,
    /// When somebody wanted it to run besides, and it has not yet.
    pub triggered: Option<Timestamp>,
    /// When a daemon last said that it has it in its file.
    pub seen: Option<Timestamp>,
    /// The host whose file changed it last.
    pub changed_by: Option<Box<str>>,
    /// Ticks that run, wait, or are to be tried again.
    pub under_way: Vec<Tick>,
    /// Its last run; None: the history has none.
    pub last: Option<LastRun>,
}

/// A tick that is under way.
#[expect(
    clippy::struct_field_names,
    reason = "the names are those of the schema"
)]
#[derive(Debug, Clone, Deserialize)]
pub struct Tick {
    /// When it was due.
    pub tick: Timestamp,
    /// The number of its latest attempt; 0: it waits for an earlier tick.
    pub attempt: u32,
    /// Where it runs; None: nowhere.
    pub host: Option<Box<str>>,
    /// When it is tried again; None: it runs, or waits.
    pub retry: Option<Timestamp>,
}

/// The last run of a job.
#[derive(Debug, Clone, Deserialize)]
pub struct LastRun {
    /// Its number in the history.
    pub run: Box<str>,
    /// Where it ran.
    pub host: Option<Box<str>>,
    /// When its lock was acquired.
    pub acquired: Option<Timestamp>,
    /// When its command was started; None: it was not, or it has not ended.
    pub started: Option<Timestamp>,
    /// None: it has not ended.
    pub ended: Option<Timestamp>,
    /// How long its command ran.
    pub ran_seconds: Option<f64>,
    /// How it ended.
    #[serde(flatten)]
    pub ending: Ending,
}

impl LastRun {
    /// When it was, as far as is known.
    pub fn at(&self) -> Option<Timestamp> {
        self.started.or(self.acquired).or(self.ended)
    }
}

/// A `dblock cron run`.
#[derive(Debug, Clone, Deserialize)]
pub struct Daemon {
    /// Its host.
    pub host: Option<Box<str>>,
    /// Its process there.
    pub pid: Option<u64>,
    /// When it last said that it is alive.
    pub renewed: Option<Timestamp>,
    /// Whether its lease is valid.
    pub alive: bool,
    /// Whether it takes no more ticks.
    pub leaving: bool,
    /// Jobs of which its file has another schedule than is in force.
    pub disagrees: Vec<Box<str>>,
    /// Jobs of which its file has another command, other options or variables.
    pub differs: Vec<Box<str>>,
}

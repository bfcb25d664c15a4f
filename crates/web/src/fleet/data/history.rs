//! `dblock history --json`.

use jiff::Timestamp;
use serde::Deserialize;

use super::Ending;

/// What stands in the place of the program of a lock that a script acquired.
const ACQUIRE: &str = "dblock acquire";

/// The answer.
#[derive(Debug, Clone, Deserialize)]
pub struct History {
    /// The server that was asked.
    pub server: String,
    /// For `--after`: the next page; None: there is none.
    pub cursor: Option<String>,
    /// The oldest first.
    pub runs: Vec<Run>,
}

/// A run, as the pages of a run and of the history show it.
#[expect(
    clippy::struct_field_names,
    reason = "the names are those of the schema"
)]
#[derive(Debug, Clone, Deserialize)]
pub struct Run {
    /// Its number.
    pub run: Box<str>,
    /// The lock, which is the job's name, too.
    pub name: Box<str>,
    /// When it was.
    #[serde(flatten)]
    pub times: RunTimes,
    /// Where it was.
    #[serde(flatten)]
    pub place: RunPlace,
    /// How it ended.
    #[serde(flatten)]
    pub ending: Ending,
    /// The line of a skip or an error; by what the lock was lost.
    pub message: Option<Box<str>>,
    /// The slot that was acquired, which counts from 0; None: none.
    pub slot: Option<u32>,
    /// Its name, with `--slots`.
    pub slot_name: Option<Box<str>>,
    /// The number of the grant, of a durable lock.
    pub fence: Option<u64>,
    /// When it was due.
    pub tick: Option<Timestamp>,
    /// 1, and more for a retry.
    pub attempt: Option<u32>,
    /// Whether some of its output is kept.
    #[serde(default)]
    pub has_output: bool,
}

/// When a run was, by the server's clock.
#[derive(Debug, Clone, Deserialize)]
pub struct RunTimes {
    /// When dblock was started.
    pub requested: Timestamp,
    /// When the lock was acquired; None: it was not.
    pub acquired: Option<Timestamp>,
    /// When the command was started; None: it was not, it has not ended, or nobody knows.
    pub started: Option<Timestamp>,
    /// When it had ended.
    pub ended: Option<Timestamp>,
    /// How long it waited for the lock.
    pub waited_seconds: Option<f64>,
    /// How long the command ran.
    pub ran_seconds: Option<f64>,
}

/// Where a run was.
#[derive(Debug, Clone, Deserialize)]
pub struct RunPlace {
    /// The host.
    pub host: Option<Box<str>>,
    /// dblock's process there.
    pub pid: Option<u64>,
    /// The OS user there.
    pub user: Option<Box<str>>,
    /// The command's program, without folder and arguments.
    pub program: Option<Box<str>>,
}

impl Run {
    /// When the command was started, or the run was requested, if it never was.
    pub fn at(&self) -> Timestamp {
        let times = &self.times;
        times.started.or(times.acquired).unwrap_or(times.requested)
    }
}

/// A run as the strips show it: small, because the poller keeps 50 for each job.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Its number.
    pub run: Box<str>,
    /// When dblock was started.
    pub requested: Timestamp,
    /// When it was started, or requested if it never was.
    pub at: Timestamp,
    /// When it had ended.
    pub until: Option<Timestamp>,
    /// How long the command ran, in seconds.
    pub ran_seconds: Option<f32>,
    /// The host.
    pub host: Option<Box<str>>,
    /// Whether it is a lock of `dblock acquire`, and no command.
    pub is_acquired: bool,
    /// How it ended.
    pub ending: Ending,
}

impl Ended {
    /// What it is, where it is of no job of the crontab: a command, or a lock; and of which command of dblock's.
    pub fn origin(&self) -> (&'static str, &'static str) {
        if self.is_acquired {
            ("lock", ACQUIRE)
        } else {
            ("command", "dblock run")
        }
    }

    /// When it ended, or what is known of it last.
    pub fn latest(&self) -> Timestamp {
        self.until.unwrap_or(self.at)
    }
}

impl From<&Run> for Ended {
    fn from(run: &Run) -> Ended {
        Ended {
            run: run.run.clone(),
            requested: run.times.requested,
            at: run.at(),
            until: run.times.ended,
            #[expect(clippy::cast_possible_truncation, reason = "a bar in a chart")]
            ran_seconds: run.times.ran_seconds.map(|seconds| seconds as f32),
            host: run.place.host.clone(),
            is_acquired: run.place.program.as_deref() == Some(ACQUIRE),
            ending: run.ending.clone(),
        }
    }
}

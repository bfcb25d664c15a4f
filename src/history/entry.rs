//! The runs of the history: what is asked for, and what a run is.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Outcome, RunCursor};
use crate::base::text::{ServerTime, Span};
use crate::lock::Name;

/// The rows of one query.
pub(super) const PAGE: usize = 500;

/// Which runs to list.
#[derive(Debug)]
pub struct Filter {
    /// Runs of these names; empty: of all names.
    pub names: Vec<Name>,
    /// Only those that failed.
    pub only_failed: bool,
    /// Only those requested since then, and before that.
    pub since: Option<TimeBound>,
    pub until: Option<TimeBound>,
    /// Only those on this host.
    pub host: Option<String>,
    /// Only those that ended so: one of [`RESULTS`].
    pub result: Option<&'static str>,
    /// Only the one of this number.
    pub run: Option<String>,
    /// Only those that are older than the last one of an earlier page.
    pub after: Option<RunCursor>,
    /// The most runs, the newest first; `None`: all.
    pub limit: Option<usize>,
}

impl Filter {
    /// Whether a statement cannot tell alone which runs are meant.
    pub(super) fn picks(&self) -> bool {
        let by_state = [Outcome::Lost.word(), RUNNING, UNKNOWN];
        self.only_failed || self.result.is_some_and(|word| by_state.contains(&word))
    }

    /// Whether a run is meant, as far as a statement cannot tell.
    pub(super) fn has(&self, run: &Entry) -> bool {
        let has_result = self.result.is_none_or(|result| run.outcome == result);
        has_result && (!self.only_failed || run.has_failed())
    }
}

/// A moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeBound {
    /// This long ago, by the server's clock.
    Ago(Duration),
    /// This many microseconds after the start of 1970, UTC.
    At(i64),
}

/// A run of the history, also for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub run: String,
    pub name: String,
    pub slot: Option<u32>,
    pub slot_name: Option<String>,
    pub fence: Option<u64>,
    pub tick: Option<ServerTime>,
    pub attempt: Option<u32>,
    pub host: Option<String>,
    pub pid: Option<u64>,
    pub user: Option<String>,
    pub program: Option<String>,
    pub connection: Option<u64>,
    pub requested: ServerTime,
    pub acquired: Option<ServerTime>,
    pub started: Option<ServerTime>,
    pub ended: Option<ServerTime>,
    /// Until the lock was acquired, or the request for it failed.
    #[serde(rename = "waited_seconds")]
    pub waited: Option<Span>,
    /// How long the command ran.
    #[serde(rename = "ran_seconds")]
    pub ran: Option<Span>,
    /// How it ended, or that it has not: one of [`RESULTS`], or the word of a newer dblock.
    pub outcome: String,
    pub exit_code: Option<u32>,
    pub signal: Option<String>,
    pub message: Option<String>,
    /// Whether some of its output is kept.
    pub has_output: bool,
}

/// A run, and for how long it has run so far if it runs.
pub type ListedRun = (Entry, Option<Duration>);

impl Entry {
    /// Whether the run should have run, and failed.
    fn has_failed(&self) -> bool {
        if self.outcome == Outcome::Ran.word() {
            return self.exit_code != Some(0) || self.signal.is_some();
        }
        FAILURES
            .iter()
            .any(|failure| failure.word() == self.outcome)
    }
}

/// A run that has the lock, as a word.
pub const RUNNING: &str = "running";

/// A run of which this server cannot tell whether it has ended, as a word.
pub const UNKNOWN: &str = "unknown";

/// The message of a run that has neither an end nor the lock.
pub(super) const VANISHED: &str = "unknown end: its host died or lost the server";

/// The message of an [`UNKNOWN`] run.
pub(super) const UNSEEN: &str = "this server does not see whether it still runs";

/// All words for how a run ended, or that it has not.
pub const RESULTS: [&str; 9] = [
    Outcome::Ran.word(),
    Outcome::TimedOut.word(),
    Outcome::Lost.word(),
    Outcome::Skipped.word(),
    Outcome::Interrupted.word(),
    Outcome::Failed.word(),
    Outcome::Released.word(),
    RUNNING,
    UNKNOWN,
];

/// The outcomes that are failures, whatever the command returned.
pub(super) const FAILURES: [Outcome; 3] = [Outcome::TimedOut, Outcome::Lost, Outcome::Failed];

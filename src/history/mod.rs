//! The history: what ran where, when, and how it ended, and the last success of each name. All times are the server's, in UTC: a host
//! says how long ago something was, and the server subtracts that from its own clock.

mod audit;
mod cursor;
mod entry;
mod journal;
mod kept;
mod latest;
mod list;
mod output;
mod page;
mod prune;
mod success;
#[cfg(test)]
mod tests;
mod token_end;
mod unused;

use std::time::Duration;

use nix::unistd::{Pid, gethostname};
use serde::{Deserialize, Serialize};

pub use audit::{Deed, RecordedDeed, VIA, list_deeds, prune_deeds};
pub use cursor::{RunCursor, is_run_id};
pub use entry::{Entry, Filter, ListedRun, RESULTS, RUNNING, TimeBound, UNKNOWN};
pub use latest::latest_successes;
pub use list::{list, reach};
pub use output::{
    KEPT, KeepOutput, KeptOutput, OutputPart, PendingOutputs, WhoseOutput, ask_output,
    delete_outputs_of_jobs, prune_outputs, size_to_keep,
};
pub use prune::{PRUNING_LIMIT, prune_beside, prunes_now};
pub use success::{LastSuccess, Successes, ask_last_success};
pub use token_end::{EXPIRED, KILLED, recorder_of_token_ends};

use crate::base::clock::Moment;
use crate::base::user::local_user;
use crate::lock::Name;
use crate::schema::Tables;

/// The message of an attempt whose host seems to have died, after the name of the job.
pub const DIED: &str = "its host gave no sign of life for the TTL";

/// How long a server may take for each answer when a run that was skipped is recorded.
pub const SKIP_LIMIT: Duration = Duration::from_secs(2);

/// How a run ended, with the words of the history and of `--report`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The command ended by itself.
    Ran,
    /// `--timeout` ended it.
    TimedOut,
    /// The command was ended because the lock was lost, or the lock was lost before the command was started.
    Lost,
    /// It was not started, because the lock was taken, or because the run was not due.
    Skipped,
    /// A signal ended the wait for the lock, which only a report tells; or the daemon of a crontab was stopped and ended the command.
    Interrupted,
    /// Anything else.
    Failed,
    /// A script released its lock.
    Released,
}

impl Outcome {
    /// The word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ran => "ran",
            Self::TimedOut => "timed_out",
            Self::Lost => "lost",
            Self::Skipped => "skipped",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
            Self::Released => "released",
        }
    }
}

/// The facts of a run that are known before it starts.
#[derive(Debug, Clone)]
pub struct RunFacts {
    /// The run's id: 32 hex digits. After `#` they are also the name of its run id lock on the server.
    pub run: String,
    /// The lock.
    pub name: String,
    /// The slot, if it is known before the grant.
    pub slot: Option<u32>,
    /// The slot's name, with `--slots`.
    pub slot_name: Option<String>,
    /// The tick that the run is for, in microseconds since 1970, UTC.
    pub tick: Option<i64>,
    /// The number of the attempt for that tick, from 1.
    pub attempt: u32,
    /// The host.
    pub host: String,
    /// The process that a user sees.
    pub pid: u32,
    /// The OS user.
    pub user: String,
    /// The command's program, without folder and arguments.
    pub program: String,
    /// The connection id, if it is known before the grant.
    pub connection: Option<u64>,
}

impl RunFacts {
    /// A run on this host, without a grant. `run_id` is the name of its run id lock on the server.
    pub fn here(run_id: &str, name: &Name, pid: Pid, program: &str) -> Self {
        Self {
            run: run_id.trim_start_matches('#').to_owned(),
            name: name.to_string(),
            slot: None,
            slot_name: None,
            tick: None,
            attempt: 1,
            host: gethostname()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            pid: pid.as_raw().unsigned_abs(),
            user: local_user(),
            program: program.to_owned(),
            connection: None,
        }
    }
}

/// The records of one run.
#[derive(Debug, Clone)]
pub struct Journal {
    /// The tables that it writes to.
    pub tables: Tables,
    /// What is known of the run.
    pub facts: RunFacts,
    /// When it was requested.
    pub requested: Moment,
    /// For how long after its start a success must be kept for those who ask with `--once-at` or `--once-per`; `None`: unknown.
    pub needed: Option<Duration>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    /// The outcome in one word.
    pub outcome: Outcome,
    /// dblock's exit code.
    pub exit_code: Option<u8>,
    /// The signal that the command died of, such as `SIGTERM`.
    pub signal: Option<String>,
    /// How long the command ran; `None`: it was not started.
    pub ran: Option<Duration>,
    /// The time since its end, or since the request was given up.
    pub ended_ago: Duration,
    /// The line of an error.
    pub message: Option<String>,
    /// Whether it counts as a success, for `--once-at` and `--once-per`.
    pub succeeded: bool,
}

impl RunEnd {
    /// The end of a run of whose command nothing is known, or that had none.
    pub fn of(outcome: Outcome, message: impl Into<String>) -> Self {
        Self {
            outcome,
            exit_code: None,
            signal: None,
            ran: None,
            ended_ago: Duration::ZERO,
            message: Some(message.into()),
            succeeded: false,
        }
    }
}

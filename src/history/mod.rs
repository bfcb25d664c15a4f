//! The history: what ran where, when, and how it ended, and the last success of each name. All times in it are the server's, in UTC:
//! a host says how long ago something was, and the server takes that off its own clock.

mod journal;
mod list;
mod prune;
mod success;
#[cfg(test)]
mod tests;
mod token_end;

use std::time::Duration;

use nix::unistd::{Pid, gethostname};
use serde::{Deserialize, Serialize};

pub use journal::Journal;
pub use list::{Entry, Filter, Since, State, list, reach};
pub use success::{AskLastSuccess, LastSuccess, Successes};
pub use token_end::{EXPIRED, recorder_of_token_ends};

use crate::base::user::local_user;
use crate::lock::Name;

/// How a run ended, in the words of the history and of `--report`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The command ended by itself.
    Ran,
    /// `--timeout` ended it.
    TimedOut,
    /// It was ended because the lock was lost, or the lock was lost before it was started.
    Lost,
    /// It was not started, because the lock was taken, or because there was nothing to do.
    Skipped,
    /// A signal ended the wait for the lock.
    Interrupted,
    /// Anything else.
    Failed,
    /// A lock that a script had acquired was released.
    Released,
}

impl Outcome {
    /// The word.
    pub fn word(self) -> &'static str {
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

/// What is known of a run before it starts.
#[derive(Debug, Clone)]
pub struct RunFacts {
    /// Its number: 32 hex digits, which are also the name of its own lock on the server, behind `#`.
    pub run: String,
    /// The lock.
    pub name: String,
    /// The slot, where it is known before it is granted.
    pub slot: Option<u32>,
    /// The slot's name, with `--slots`.
    pub slot_name: Option<String>,
    /// The tick that it is for, in microseconds since 1970, UTC.
    pub tick: Option<i64>,
    /// Which attempt of that it is, from 1 on.
    pub attempt: u32,
    /// The host.
    pub host: String,
    /// The process that a person sees.
    pub pid: u32,
    /// The OS user.
    pub user: String,
    /// The command's program, without folder and arguments.
    pub program: String,
    /// The session, where it is known before the lock is granted.
    pub connection: Option<u64>,
}

impl RunFacts {
    /// Of a run on this host, with nothing known of its grant. `run_id` is its own lock's name on the server.
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

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    /// In a word.
    pub outcome: Outcome,
    /// dblock's exit code, as a shell sees it.
    pub exit_code: Option<u8>,
    /// The signal that the command died of, as `SIGTERM`.
    pub signal: Option<String>,
    /// How long the command ran; `None`: it was not started.
    pub ran: Option<Duration>,
    /// How long ago it ended, or was given up.
    pub ended_ago: Duration,
    /// The line of an error.
    pub message: Option<String>,
    /// Whether it counts as a success, for `--once-at` and `--once-per`.
    pub succeeded: bool,
}

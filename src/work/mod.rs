//! `dblock queue work`: a worker. Its coordinator runs commands, each for one or more jobs. Its claimer, a separate process, has the
//! session. The coordinator knows no SQL and never waits for a server.

mod ahead;
mod claimer;
mod command;
mod coordinator;
mod message;
mod payload;

use std::ffi::OsString;
use std::time::Duration;

pub use coordinator::work;

use crate::base::hooks::Hooks;
use crate::db::ConnectOptions;
use crate::history::KeepOutput;

/// The settings of a worker.
#[derive(Debug)]
pub struct Spec {
    /// The queue's name, by the rules of [`crate::lock::Name`].
    pub queue: String,
    /// The server.
    pub connection: ConnectOptions,
    /// How many commands run at once, 1 to 1000.
    pub jobs: u32,
    /// How many jobs one command gets; `None`: one each.
    pub batch: Option<Batch>,
    /// How long a command may run; `None`: without limit. Never zero.
    pub timeout: Option<Duration>,
    /// From SIGTERM to SIGKILL when dblock ends a command; zero sends both at once.
    pub kill_after: Duration,
    /// When the worker ends by itself.
    pub until: Until,
    /// How long running commands may continue after the first signal that asks the worker to end.
    pub grace: Duration,
    /// Exit codes that make a job dead at once, each from 1 to 255 and only once; never 75.
    pub bury_on: Vec<u8>,
    /// Of which jobs the output is kept.
    pub keep_output: KeepOutput,
    /// What to run at the end of each command.
    pub hooks: Hooks,
    /// Variables that commands do not get.
    pub scrubbed: Vec<&'static str>,
    /// The program and its arguments, never empty. An argument `{}` is replaced by the payload.
    pub command: Vec<OsString>,
}

/// Several jobs for each command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Most jobs for a command, 1 to 10000.
    pub jobs: u32,
    /// The byte after each payload on the command's stdin: a line break or NUL.
    pub separator: u8,
}

/// When a worker ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Never: a signal stops it.
    Stopped,
    /// When nothing is due and nothing runs.
    Drained,
    /// When one command has run.
    Once,
}

/// How long the server keeps a silent claimer's session, until the queue's lease is known.
const SESSION_LIMIT: Duration = Duration::from_secs(60);

impl Spec {
    /// How many jobs a command gets at most.
    fn jobs_of_command(&self) -> u32 {
        self.batch.map_or(1, |batch| batch.jobs)
    }
}

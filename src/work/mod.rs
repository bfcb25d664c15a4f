//! `dblock queue work`: claims jobs of a queue, and runs a command for each.

use std::ffi::OsString;
use std::time::Duration;

use crate::base::exit::{Ending, Failure, Reason};
use crate::base::log::Log;
use crate::db::ConnectOptions;

/// What a worker is asked to do.
#[derive(Debug)]
#[allow(dead_code, reason = "the worker is yet to come")]
pub struct Spec {
    /// The queue: a name by the rules of [`crate::lock::Name`].
    pub queue: String,
    /// The server.
    pub connection: ConnectOptions,
    /// How many commands run at once, 1 to 1000.
    pub jobs: u32,
    /// Whether one command gets several jobs; `None`: each has a command of its own.
    pub batch: Option<Batch>,
    /// How long a command may run, from its start; `None` without limit. Never zero.
    pub timeout: Option<Duration>,
    /// From SIGTERM to SIGKILL when dblock ends a command; zero sends both at once.
    pub kill_after: Duration,
    /// When the worker ends by itself.
    pub until: Until,
    /// How long after the first signal that asks it to end its commands may go on.
    pub grace: Duration,
    /// The exit codes of a command that bury its job, each from 1 to 255 and once; 75 is never among them.
    pub bury_on: Vec<u8>,
    /// Variables that the commands do not get.
    pub scrubbed: Vec<&'static str>,
    /// What to run: program and arguments, never empty. An argument that is exactly `{}` stands for the payload.
    pub command: Vec<OsString>,
}

/// Several jobs for one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// So many at most, 1 to 10000.
    pub jobs: u32,
    /// What stands behind each payload on the command's stdin: a line break or NUL.
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

/// Works off a queue, and returns how dblock is to end.
///
/// # Errors
/// What kept it from that.
pub fn work(_: &Spec, _: Log) -> anyhow::Result<Ending> {
    Err(Failure::new(Reason::Internal, "unfinished").into())
}

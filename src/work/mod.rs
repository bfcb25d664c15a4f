//! `dblock queue work`: a worker. Its coordinator runs commands, each for a job or some; its claimer, a process of its own, has the
//! session. The coordinator knows no SQL and never waits for a server.

mod ahead;
mod claimer;
mod command;
mod coordinator;
mod message;
mod payload;
mod stderr;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

pub use coordinator::work;

use crate::db::ConnectOptions;

/// What a worker is asked to do.
#[derive(Debug)]
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

/// The server keeps a claimer's session for so long without a statement before it is known how long the queue's leases last.
const SESSION_LIMIT: Duration = Duration::from_secs(60);

impl Spec {
    /// The name of the command's program, without its folder.
    fn program(&self) -> String {
        let program = self.command.first().map(Path::new);
        let name = program.and_then(|path| path.file_name().or(Some(path.as_os_str())));
        name.unwrap_or_default().to_string_lossy().into_owned()
    }

    /// How many jobs a command gets at most.
    fn jobs_of_command(&self) -> u32 {
        self.batch.map_or(1, |batch| batch.jobs)
    }
}

//! `dblock queue work`: a worker. Its coordinator runs commands, each for a job or some; its claimer, a process of its own, has the
//! session. The coordinator knows no SQL and never waits for a server.

mod ahead;
mod claimer;
mod command;
mod coordinator;
mod message;
mod payload;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

pub use coordinator::work;

use crate::db::ConnectOptions;

/// What a worker is to do.
#[derive(Debug)]
pub struct Spec {
    /// The name of its queue.
    pub queue: String,
    /// The server.
    pub connection: ConnectOptions,
    /// How many commands run at once.
    pub jobs: u32,
    /// How one command gets several jobs; `None`: it gets one.
    pub batch: Option<Batch>,
    /// How long a command may run; `None` without limit.
    pub timeout: Option<Duration>,
    /// From SIGTERM to SIGKILL when dblock ends a command.
    pub kill_after: Duration,
    /// When to stop.
    pub until: Until,
    /// How long commands may run on when the worker is asked to end.
    pub grace: Duration,
    /// Exit codes after which a job is dead at once.
    pub bury_on: Vec<u8>,
    /// Variables that commands do not get.
    pub scrubbed: Vec<&'static str>,
    /// What to run: program and arguments, never empty.
    pub command: Vec<OsString>,
}

/// Several jobs for one command, on its stdin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// So many at most.
    pub jobs: u32,
    /// The byte that ends each.
    pub separator: u8,
}

/// When a worker stops by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Never.
    Stopped,
    /// When nothing is due.
    Drained,
    /// When it has run one command.
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

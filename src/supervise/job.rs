//! What `dblock run` asks the supervisor to do: the command, its lock and its limits.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::unistd::getpid;

use super::Change;
use crate::base::log::Level;
use crate::db::ConnectOptions;
use crate::keeper::{TableUse, Task};
use crate::lock::{Introduction, LockSpec, Wait};

/// A command to run under a lock, and how it is ended.
#[derive(Debug)]
pub struct Job {
    /// The lock.
    pub lock: LockSpec,
    /// The server that has it.
    pub connection: ConnectOptions,
    /// The names of the slots, in their order; empty where they have none.
    pub slot_names: Vec<String>,
    /// How long the command may run, from its start; `None` without limit.
    pub timeout: Option<Duration>,
    /// From SIGTERM to SIGKILL when dblock ends the command; zero sends both at once.
    pub kill_after: Duration,
    /// How long the lock is held at least, from when it was acquired.
    pub hold_at_least: Duration,
    /// How long a server may take to answer that the lock is released, and how the run ended.
    pub release_within: Duration,
    /// Variables that the command does not get.
    pub scrubbed: Vec<&'static str>,
    /// How its environment differs from dblock's besides.
    pub variables: Vec<Change>,
    /// Where it starts; `None`: where dblock is.
    pub folder: Option<PathBuf>,
    /// What to run: program and arguments, never empty.
    pub command: Vec<OsString>,
    /// When dblock was started.
    pub started: SystemTime,
    /// What it does with dblock's tables; `None`: it needs none.
    pub tables: Option<TableUse>,
    /// What others are told of the program; `None`: its own name.
    pub program: Option<String>,
}

impl Job {
    /// The name of the command's program, without its folder.
    pub fn program(&self) -> String {
        if let Some(program) = &self.program {
            return program.clone();
        }
        let program = self.command.first().map(Path::new);
        let name = program.and_then(|path| path.file_name().or(Some(path.as_os_str())));
        name.unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The tick of the fleet's crontab that it is for, as text.
    pub fn shown_tick(&self) -> Option<String> {
        let claim = self.tables.as_ref()?.claim.as_ref()?;
        Some(claim.shown.clone())
    }

    /// Whether it is an attempt of a daemon's.
    pub fn has_daemon(&self) -> bool {
        let tables = self.tables.as_ref();
        tables.is_some_and(|tables| tables.claim.is_some())
    }

    /// What a keeper is to do for it, on sessions that all have this `run_id`. `name_holder`: whether the user is told who
    /// holds the lock when it is taken.
    pub fn task<'a>(&'a self, run_id: &'a str, name_holder: bool, shown: Level) -> Task<'a> {
        Task {
            lock: &self.lock,
            connection: &self.connection,
            run_id,
            kill_after: self.kill_after,
            introduction: Introduction {
                pid: getpid(),
                lock: Some(self.lock.name.clone()),
                command: self.program(),
                started: self.started,
                waits: self.lock.wait != Wait::For(Duration::ZERO),
                slots: self.lock.slots,
                ttl: self.lock.ttl,
            },
            names_holders: name_holder,
            shown,
            tables: self.tables.as_ref(),
            tick: None,
        }
    }
}

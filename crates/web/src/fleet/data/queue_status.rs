//! `dblock queue status --json`.

use jiff::Timestamp;
use serde::Deserialize;

/// The answer.
#[derive(Debug, Clone, Deserialize)]
pub struct QueueStatus {
    /// By name.
    pub queues: Vec<Queue>,
}

/// A queue.
#[derive(Debug, Clone, Deserialize)]
pub struct Queue {
    /// Its name.
    pub name: Box<str>,
    /// None: it is not paused.
    pub paused_since: Option<Timestamp>,
    /// None: it is not being deleted.
    pub deleting_since: Option<Timestamp>,
    /// Jobs that are due.
    pub due: u64,
    /// Jobs whose time has not come.
    pub delayed: u64,
    /// Jobs that a worker has claimed.
    pub running: u64,
    /// Jobs that failed for good.
    pub dead: u64,
    /// The states of which there are more jobs than the number says.
    pub incomplete: Vec<Box<str>>,
    /// How long the job that is due longest has been due; None: none is.
    pub oldest_due_seconds: Option<f64>,
    /// Of the last five whole minutes.
    pub done_per_minute: f64,
    /// Attempts that failed, of the last five whole minutes.
    pub failed_per_minute: f64,
    /// Those that live, and those that died in the last day.
    pub workers: Vec<Worker>,
}

/// A `dblock queue work`.
#[derive(Debug, Clone, Deserialize)]
pub struct Worker {
    /// Its host.
    pub host: Option<Box<str>>,
    /// dblock's process there.
    pub pid: Option<u64>,
    /// The OS user there.
    pub user: Option<Box<str>>,
    /// The command's program, without folder and arguments.
    pub program: Option<Box<str>>,
    /// How many commands it runs at once.
    pub max_commands: u64,
    /// How many jobs it has claimed.
    pub running: u64,
    /// When it was started.
    pub started: Timestamp,
    /// When its lease was renewed last.
    pub renewed: Timestamp,
    /// Whether it has not ended, and its lease is not over.
    pub alive: bool,
}

impl Queue {
    /// A number of jobs in a state, with `+` if there are more.
    pub fn counted(&self, state: &str) -> String {
        let jobs = match state {
            "due" => self.due,
            "delayed" => self.delayed,
            "running" => self.running,
            _ => self.dead,
        };
        let more = self.incomplete.iter().any(|word| &**word == state);
        format!("{jobs}{}", if more { "+" } else { "" })
    }

    /// How many workers live.
    pub fn living_workers(&self) -> usize {
        self.workers.iter().filter(|worker| worker.alive).count()
    }
}

//! A queue of a test's own, and its workers.

use std::io::{Seek, Write};
use std::path::Path;

use mysql::prelude::{FromRow, Queryable};

use super::{Dblock, Output, Running, SOON, Server, Tables, children_of, eventually};

/// dblock's tables with the queue `q`.
#[derive(Debug)]
pub struct Jobs<'a> {
    /// Its tables.
    pub tables: Tables<'a>,
}

impl<'a> Jobs<'a> {
    /// A new queue, created with these options.
    #[track_caller]
    pub fn new(server: &'a Server, options: &[&str]) -> Self {
        let jobs = Self {
            tables: Tables::new(server),
        };
        jobs.does("create", options);
        jobs
    }

    /// `dblock queue COMMAND q ARGS`.
    pub fn queue(&self, command: &str, args: &[&str]) -> Dblock {
        self.tables.at("queue").args([command, "q"]).args(args)
    }

    /// The same, which succeeds without a word on stderr.
    #[track_caller]
    pub fn does(&self, command: &str, args: &[&str]) -> Output {
        let output = self.queue(command, args).output();
        output.expect_code(0).expect_silence();
        output
    }

    /// Puts jobs; their ids.
    #[track_caller]
    pub fn put(&self, args: &[&str]) -> Vec<u64> {
        ids(&self.does("put", args))
    }

    /// Puts what `dblock queue put q ARGS` reads; their ids.
    #[track_caller]
    pub fn feed(&self, args: &[&str], stdin: &[u8]) -> Vec<u64> {
        let mut file = tempfile::tempfile().expect("a scratch file");
        file.write_all(stdin).expect("it takes that");
        file.rewind().expect("it is a file");
        let output = self.queue("put", args).stdin(file).output();
        output.expect_code(0).expect_silence();
        ids(&output)
    }

    /// Puts a job for each number from 1; their ids. In a queue of blocks they are one, up to a thousand.
    #[track_caller]
    pub fn number(&self, jobs: usize) -> Vec<u64> {
        let lines: String = (1..=jobs).map(|number| number.to_string() + "\n").collect();
        self.feed(&["--lines"], lines.as_bytes())
    }

    /// `dblock queue work q ARGS`, in a session of its own, as from a service manager.
    pub fn work(&self, args: &[&str]) -> Dblock {
        self.queue("work", args).without_terminal()
    }

    /// The rows of a query.
    #[track_caller]
    pub fn rows<T: FromRow>(&self, query: &str) -> Vec<T> {
        let rows = self.tables.admin().query(query);
        rows.unwrap_or_else(|error| panic!("{query}: {error}"))
    }

    /// How many rows there are, `dblock_due WHERE attempt = 1`, say.
    #[track_caller]
    pub fn count(&self, what: &str) -> u64 {
        self.rows(&format!("SELECT COUNT(*) FROM {what}"))[0]
    }

    /// How many jobs or blocks are due, delayed, running and dead, all at one moment.
    #[track_caller]
    pub fn states(&self) -> [u64; 4] {
        let (due, delayed, running, dead) = self.rows(
            "SELECT (SELECT COUNT(*) FROM dblock_due), (SELECT COUNT(*) FROM dblock_delayed), \
             (SELECT COUNT(*) FROM dblock_running), (SELECT COUNT(*) FROM dblock_dead)",
        )[0];
        [due, delayed, running, dead]
    }

    /// Nothing is left: every job is done, and nothing of it is kept.
    #[track_caller]
    pub fn assert_empty(&self) {
        assert_eq!(self.states(), [0; 4]);
        for table in ["jobs", "job_parts", "job_keys"] {
            assert_eq!(self.count(&format!("dblock_{table}")), 0, "{table}");
        }
    }

    /// Workers whose lease is not over.
    #[track_caller]
    pub fn workers(&self) -> u64 {
        self.count("dblock_workers WHERE expires_at > UTC_TIMESTAMP(6)")
    }

    /// Waits until so many workers wait for jobs.
    #[track_caller]
    pub fn eventually_idle(&self, workers: usize) {
        let database = &self.tables.database;
        let query = format!(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE db = '{database}' AND user = 'dblock' \
             AND (state = 'User sleep' OR info LIKE '%GET_LOCK%')"
        );
        let mut admin = self.tables.admin();
        eventually(&format!("{workers} are idle"), SOON, || {
            let idle: Option<usize> = admin.query_first(&query).expect("a list of processes");
            idle >= Some(workers)
        });
    }
}

/// The ids that were printed.
#[track_caller]
fn ids(output: &Output) -> Vec<u64> {
    let ids = output.stdout.lines().map(str::parse);
    ids.map(|id| id.expect("an id")).collect()
}

/// What a process calls itself.
fn name_of(pid: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim().to_owned()
}

/// The claimer of the worker with this process id, if it has one.
pub fn claimer_of(worker: i32) -> Option<i32> {
    let mut children = children_of(worker).into_iter();
    children.find(|&pid| name_of(pid) == "dblock-claimer")
}

/// The commands of the worker with this process id.
pub fn commands_of(worker: i32) -> Vec<i32> {
    let mut children = children_of(worker);
    children.retain(|&pid| !name_of(pid).starts_with("dblock"));
    children
}

impl Running {
    /// The claimer of a worker.
    #[track_caller]
    pub fn claimer(&self) -> i32 {
        let mut found = None;
        eventually("the worker has a claimer", SOON, || {
            found = claimer_of(self.pid());
            found.is_some()
        });
        found.expect("it was just seen")
    }
}

/// The lines of a file to which commands write; none as long as it is not there.
pub fn lines(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

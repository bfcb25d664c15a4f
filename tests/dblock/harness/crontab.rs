//! A crontab of a test's own, and the daemons that run it.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use mysql::prelude::Queryable;
use nix::sys::signal::Signal;
use tempfile::TempDir;

use super::texts::FromTexts;
use super::{
    Dblock, Frozen, Kind, Output, Proxy, Running, SOON, Server, Tables, children_of, eventually,
    in_time, quoted, send, unique, within, write_program,
};

/// A daemon looks once a second.
const TWO_LOOKS: Duration = Duration::from_millis(2500);

/// dblock's tables, a crontab, and a file into which its commands write.
#[derive(Debug)]
pub struct Crontab<'a> {
    /// Its tables.
    pub tables: Tables<'a>,
    folder: TempDir,
    /// What stands in front of the name of each job: named locks are the server's, whatever the database.
    prefix: String,
}

impl<'a> Crontab<'a> {
    /// One with these lines, in UTC. `{}` stands for the file into which commands write. The jobs have names that no other test uses:
    /// [`Crontab::name`] says which.
    #[track_caller]
    pub fn new(server: &'a Server, lines: &str) -> Self {
        Self::with_prefix(server, lines, unique("of") + "-")
    }

    /// The same on a server that no other test uses: the names of the jobs are what they are.
    #[track_caller]
    pub fn alone(server: &'a Server, lines: &str) -> Self {
        Self::with_prefix(server, lines, String::new())
    }

    #[track_caller]
    fn with_prefix(server: &'a Server, lines: &str, prefix: String) -> Self {
        let crontab = Self {
            tables: Tables::new(server),
            folder: tempfile::tempdir().expect("a scratch folder"),
            prefix,
        };
        crontab.write(lines);
        crontab
    }

    /// What a job is called.
    pub fn name(&self, job: &str) -> String {
        format!("{}{job}", self.prefix)
    }

    /// Where commands write.
    pub fn record(&self) -> PathBuf {
        self.folder.path().join("record")
    }

    /// Another file of the test.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the crontab.
    #[track_caller]
    pub fn write(&self, lines: &str) {
        self.write_to("crontab", lines);
    }

    /// Writes another one.
    #[track_caller]
    pub fn write_to(&self, name: &str, lines: &str) {
        let text = format!("CRON_TZ=UTC\n{}\n", lines.trim_end());
        let text = text.replace("{}", &quoted(&self.record()));
        let text = text.replace("#: ", &format!("#: {}", self.prefix));
        fs::write(self.path(name), text).expect("it is written");
    }

    /// A stand-in for sendmail that does this. `{}` stands for the file into which commands write; the stand-in is `{}.sendmail`.
    #[track_caller]
    pub fn sendmail(&self, does: &str) -> PathBuf {
        let program = self.path("record.sendmail");
        let does = does.replace("{}", &quoted(&self.record()));
        write_program(&program, format!("#!/bin/sh\n{does}\n").as_bytes());
        program
    }

    /// `dblock cron run ARGS FILE`, as from a service manager.
    pub fn daemon(&self, args: &[&str]) -> Dblock {
        self.daemon_of("crontab", args)
    }

    /// The same with another file.
    pub fn daemon_of(&self, file: &str, args: &[&str]) -> Dblock {
        self.tables
            .at("cron")
            .arg("run")
            .args(args)
            .arg("-v")
            .arg(self.path(file))
            .env("DBLOCK_CONNECT_TIMEOUT", "20s")
            .without_terminal()
    }

    /// Starts it, and waits until its file is in force.
    #[track_caller]
    pub fn start(&self, args: &[&str]) -> Running {
        ready(self.daemon(args))
    }

    /// As [`Crontab::start`], with the server behind a proxy.
    #[track_caller]
    pub fn start_through(&self, proxy: &Proxy, args: &[&str]) -> Running {
        ready(self.daemon(args).env("DBLOCK_URL", proxy.url()))
    }

    /// `dblock cron COMMAND JOB`, which succeeds without a word on stderr.
    #[track_caller]
    pub fn does_to(&self, command: &str, job: &str) -> Output {
        self.does(command, &[&self.name(job)])
    }

    /// `dblock cron COMMAND ARGS`, which succeeds without a word on stderr.
    #[track_caller]
    pub fn does(&self, command: &str, args: &[&str]) -> Output {
        let output = self.tables.at("cron").arg(command).args(args).output();
        output.expect_code(0).expect_silence();
        output
    }

    /// Has a job be due now.
    #[track_caller]
    pub fn due(&self, name: &str) {
        self.due_since(name, "UTC_TIMESTAMP(6)");
    }

    /// Has a job be due since that moment, in SQL.
    #[track_caller]
    pub fn due_since(&self, name: &str, moment: &str) {
        self.tables.sql(&format!(
            "UPDATE dblock_cron_jobs SET next_at = {moment}, changed_at = UTC_TIMESTAMP(6) WHERE name = '{}'",
            self.name(name)
        ));
    }

    /// No full minute comes within the next 25 seconds: a job of each minute would have one more tick.
    #[track_caller]
    pub fn until_minute_is_young(&self) {
        eventually("the minute is young", SOON * 2, || {
            let second = "SELECT FLOOR(EXTRACT(SECOND FROM UTC_TIMESTAMP(6)))";
            self.rows::<u8>(second)[0] < 35
        });
    }

    /// The rows of a query.
    #[track_caller]
    pub fn rows<T: FromTexts>(&self, query: &str) -> Vec<T> {
        self.tables.rows(query)
    }

    /// The sessions of its daemons.
    #[track_caller]
    pub fn sessions(&self) -> Vec<u64> {
        self.rows(match self.tables.kind() {
            Kind::MariaDb | Kind::MySql => {
                "SELECT id FROM information_schema.processlist WHERE user = 'dblock' AND db = DATABASE()"
            }
            Kind::Postgres => {
                "SELECT s.pid FROM pg_stat_activity s WHERE split_part(s.application_name, ' ', 3) IN (SELECT pid::text FROM dblock_cron_daemons)"
            }
        })
    }

    /// The session that holds the lock on the server that has a job's name.
    pub fn holder(&self, job: &str) -> Option<u64> {
        self.tables.server.holder(&self.name(job))
    }

    /// The beginning of the minute so many minutes ago, in SQL.
    pub fn minutes_ago(&self, minutes: i32) -> String {
        let moment = format!("UTC_TIMESTAMP(6) - INTERVAL {minutes} MINUTE");
        match self.tables.kind() {
            Kind::MariaDb | Kind::MySql => format!("DATE_FORMAT({moment}, '%Y-%m-%d %H:%i:00')"),
            Kind::Postgres => format!("date_trunc('minute', {moment})"),
        }
    }

    /// The start of 1970, in SQL.
    pub fn epoch(&self) -> &'static str {
        match self.tables.kind() {
            Kind::MariaDb | Kind::MySql => "TIMESTAMP'1970-01-01 00:00:00'",
            Kind::Postgres => "timestamptz 'epoch'",
        }
    }

    /// The microseconds from then to a moment, in SQL.
    pub fn micros(&self, moment: &str) -> String {
        match self.tables.kind() {
            Kind::MariaDb | Kind::MySql => {
                format!("TIMESTAMPDIFF(MICROSECOND, {}, {moment})", self.epoch())
            }
            Kind::Postgres => format!("(extract(epoch FROM {moment}) * 1000000)::bigint"),
        }
    }

    /// The month and day of a moment of a row, in SQL.
    pub fn date(&self, column: &str) -> String {
        match self.tables.kind() {
            Kind::MariaDb | Kind::MySql => format!("DATE_FORMAT({column}, '%m-%d')"),
            Kind::Postgres => format!("to_char({column} AT TIME ZONE 'UTC', 'MM-DD')"),
        }
    }

    /// How many rows there are.
    #[track_caller]
    pub fn count(&self, what: &str) -> u64 {
        self.rows(&format!("SELECT COUNT(*) FROM {what}"))[0]
    }

    /// The lines that commands have written.
    pub fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(self.record()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until commands have written so many lines; which.
    #[track_caller]
    pub fn eventually_lines(&self, count: usize) -> Vec<String> {
        if !in_time(SOON, || self.lines().len() >= count) {
            let runs: Vec<(String, Option<String>, Option<String>)> =
                self.rows("SELECT name, outcome, message FROM dblock_runs ORDER BY requested_at");
            let ticks: Vec<(String, u32, Option<String>)> =
                self.rows("SELECT name, attempt, daemon FROM dblock_cron_ticks");
            panic!(
                "{count} lines are not written: {:?}; {runs:#?}; {ticks:?}",
                self.lines()
            );
        }
        let lines = self.lines();
        assert_eq!(lines.len(), count, "{lines:?}");
        lines
    }

    /// Waits until there is such a row.
    #[track_caller]
    pub fn eventually_row(&self, what: &str) {
        eventually(what, SOON, || self.count(what) > 0);
    }

    /// Waits until no tick is under way.
    #[track_caller]
    pub fn eventually_idle(&self) {
        eventually("no tick is under way", SOON, || {
            self.count("dblock_cron_ticks") == 0
        });
    }

    /// Commands have written so many lines, and write no more while each daemon looks twice.
    #[track_caller]
    pub fn lines_stay(&self, count: usize) {
        stays(&format!("there are {count} lines"), || {
            self.lines().len() == count
        });
    }
}

/// A job whose ticks are far away, with options and a command.
pub fn job(options: &str, command: &str) -> String {
    format!("#: job {options}\n0 0 1 1 * {command}")
}

/// It is so, and stays so while each daemon looks twice, and leaves what is another's its head start.
#[track_caller]
pub fn stays(what: &str, mut condition: impl FnMut() -> bool) {
    assert!(!within(TWO_LOOKS, || !condition()), "no more: {what}");
}

/// A daemon whose file is in force.
#[track_caller]
fn ready(daemon: Dblock) -> Running {
    let mut daemon = daemon.spawn();
    daemon.wait_stderr("dblock: ready: ", SOON);
    daemon
}

/// Ends a daemon, which it does in time.
#[track_caller]
pub fn end(mut host: Running) {
    host.signal(Signal::SIGTERM);
    host.wait_within(SOON).expect_code(0);
}

/// Kills a daemon and all that it runs, none of which sees that another has died.
#[track_caller]
pub fn lose_power(mut host: Running) {
    let all = commands_of(host.pid()).into_iter();
    let all = all.chain(scheduler_of(host.pid())).chain([host.pid()]);
    let stopped: Vec<(i32, Frozen)> = all.map(|pid| (pid, Frozen::new(pid))).collect();
    for (pid, _) in &stopped {
        send(*pid, Signal::SIGKILL);
    }
    host.wait_within(SOON).expect_signal(Signal::SIGKILL);
}

/// Statements that a server got until now.
pub fn questions(server: &Server) -> u64 {
    let status = "SHOW GLOBAL STATUS LIKE 'Questions'";
    let row: Option<(String, u64)> = server.admin().query_first(status).unwrap();
    row.unwrap().1
}

/// The scheduler of the daemon with this process id, if it has one.
pub fn scheduler_of(daemon: i32) -> Option<i32> {
    let mut children = children_of(daemon).into_iter();
    children.find(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.trim() == "dblock-cron"
    })
}

/// The commands of the daemon with this process id, and what sends its mails.
pub fn commands_of(daemon: i32) -> Vec<i32> {
    let scheduler = scheduler_of(daemon);
    let mut children = children_of(daemon);
    children.retain(|pid| Some(*pid) != scheduler);
    children
}

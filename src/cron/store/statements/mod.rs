//! The texts of the statements on the crontab's tables, for each kind of server. What is sent together, and how the answers are read, is the
//! same for all servers, and stands beside what is asked.

mod mysql;
mod postgres;

use std::time::Duration;

use super::attempts::{Abandon, Finish, Retake};
use super::daemons::{DaemonFacts, Register};
use super::look::Look;
use super::manage::Skipped;
use super::publish::{Definition, NewJob, Publish};
use super::settle::SettleStep;
use crate::db::Kind;
use crate::schema::{CRON_DAEMONS, CRON_JOBS, CRON_TICKS, RUNS, Tables};
use mysql::MySqlCron;
use postgres::PostgresCron;

/// The texts, without the names of the statements. Where several are returned, they follow one another in a transaction.
pub trait CronText {
    /// The server's time, in microseconds since 1970.
    fn now(&self) -> String;

    /// Writes a daemon's row. It is alive since this moment if its lease has run out.
    fn register(&self, register: &Register) -> String;

    /// How many earlier daemons of this host and user had the same file last. A daemon's file is the last one unless a later daemon has
    /// started after it was gone. A living daemon that has just started does not count as a successor: it started together with this one,
    /// as at a boot.
    fn file_before(&self, facts: &DaemonFacts, definition: &str) -> String;

    /// Renews a daemon's lease, for this many seconds. If it has run out, the daemon is alive since this moment.
    fn renew(&self, daemon: &str, lease: u64) -> String;

    /// Notes that a daemon takes no more ticks.
    fn stop_taking(&self, daemon: &str) -> String;

    /// Notes that a daemon is gone.
    fn leave(&self, daemon: &str) -> String;

    /// As [`retire`](super::retire). `start_at = tick` marks the ticks that are claimed, for the statements that follow. Of two daemons only
    /// one gets each tick.
    fn retire(&self, daemon: &DaemonFacts, after: u64) -> Vec<String>;

    /// As [`prune`](super::prune): deletes daemons, jobs and ticks.
    fn prune(&self) -> [String; 3];

    /// As [`Look`].
    fn look(&self, look: &Look) -> String;

    /// Reads the rows of all jobs.
    fn jobs(&self) -> String;

    /// Publishes one job. An older job with another schedule gets the new next tick, unless that tick was settled meanwhile. The next tick of
    /// the same schedule stays, unless there is none, because the job was in no file for a while, or it is after the latest plausible one, and
    /// was written while the server's clock was ahead: see [`JobRow::is_ahead`](super::JobRow::is_ahead).
    fn publish(&self, publish: &Publish, job: &NewJob) -> String;

    /// Notes that these jobs are in a file, if they were not noted for this long.
    fn touch(&self, jobs: &[&Definition], since: Duration) -> String;

    /// Settles ticks of one job: its row gets the step's id if that was done, and what follows is done only then. With
    /// [`is_alone`](crate::cron::Settlement::is_alone) no tick of the job may have a row.
    fn settle(&self, step: &SettleStep, daemon: &DaemonFacts) -> Vec<String>;

    /// Reads the rows of these jobs, with the id of the step that changed each last, and the server's time.
    fn settled(&self, names: &[&str]) -> String;

    /// As [`Retake`].
    fn retake(&self, retake: &Retake) -> Vec<String>;

    /// As [`Abandon`]. Of two daemons only one succeeds.
    fn abandon(&self, abandon: &Abandon) -> Vec<String>;

    /// As [`Finish`]: ends the run, if there is a reason, and the tick.
    fn finish(&self, finish: &Finish) -> Vec<String>;

    /// Notes that the command of a tick's run is about to start.
    fn start(&self, name: &str, tick: i64, run: &str) -> String;

    /// How many rows this tick has with this run.
    fn count_tick(&self, name: &str, tick: i64, run: &str) -> String;

    /// Reads the state of a run: whether it holds its job's lock, how it has ended, and whether its command was not about to start yet.
    fn run_state(&self, name: &str, run: &str) -> String;

    /// Pauses a job, unless it is paused.
    fn pause(&self, name: &str) -> String;

    /// Triggers a job, unless it is triggered.
    fn trigger(&self, name: &str) -> String;

    /// How many daemons are alive and take ticks, and whether the job was in no file for [`UNSEEN`](super::UNSEEN).
    fn runners(&self, name: &str) -> String;

    /// Reads a job's row and the server's time, and locks the row.
    fn lock_job(&self, name: &str) -> String;

    /// Resumes a job with this next tick, and this settled one if there is one.
    fn resume(&self, name: &str, next: Option<i64>, settled: Option<i64>) -> String;

    /// Records skipped ticks.
    fn record_skip(&self, skipped: &Skipped) -> String;

    /// Reads all jobs, each with its last run.
    fn listed_jobs(&self) -> String;

    /// Reads all ticks with a row.
    fn listed_ticks(&self) -> String;

    /// Reads the daemons that are not gone for long.
    fn listed_daemons(&self) -> String;
}

/// The texts for the servers of these tables.
pub fn text(tables: &Tables) -> Box<dyn CronText> {
    let names = Names::of(tables);
    match tables.kind() {
        Kind::MySql => Box::new(MySqlCron(names)),
        Kind::Postgres => Box::new(PostgresCron(names)),
    }
}

/// The names of the tables.
struct Names {
    jobs: String,
    ticks: String,
    daemons: String,
    runs: String,
    locks: String,
}

impl Names {
    fn of(tables: &Tables) -> Self {
        Self {
            jobs: tables.of(&CRON_JOBS),
            ticks: tables.of(&CRON_TICKS),
            daemons: tables.of(&CRON_DAEMONS),
            runs: tables.of(&RUNS),
            locks: tables.locks(),
        }
    }
}

/// This word stands for the outcome of a run that `dblock kill --force` has ended.
pub const OVER: &str = "over";

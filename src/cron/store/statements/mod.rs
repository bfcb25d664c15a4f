//! The texts of those statements on the crontab's tables that differ by the kind of server in more than its words, each with its server;
//! and what several statements have in common. The others stand beside how their answers are read.

mod mysql;
mod postgres;

use std::time::Duration;

use super::entry::{DaemonFacts, Definition, Look, NewJob, Publish};
use super::reasons::IN_NO_FILE;
use crate::base::text::printable;
use crate::db::Kind;
use crate::history::{DIED, Outcome};
use crate::schema::{CRON_DAEMONS, CRON_JOBS, CRON_TICKS, RUNS, Tables};
use mysql::MySqlCron;
use postgres::PostgresCron;

/// The texts for the servers of these tables.
pub fn text(tables: &Tables) -> Box<dyn CronText> {
    let names = Names::of(tables);
    match tables.kind() {
        Kind::MySql => Box::new(MySqlCron(names)),
        Kind::Postgres => Box::new(PostgresCron(names)),
    }
}

/// The texts, without the names of the statements. Where several are returned, they follow one another in a transaction.
pub trait CronText {
    /// What ends an INSERT of a tick that may be there already: then nothing changes.
    fn unless_there(&self) -> String;

    /// What follows one another in a transaction before a write of a job's row on the condition that no tick of the job has a row.
    fn before_alone(&self, job: &str) -> Option<String>;

    /// As [`retire`](super::retire). `start_at = tick` marks the ticks that are claimed, for the statements that follow. Of two daemons
    /// only one gets each tick.
    fn retire(&self, daemon: &DaemonFacts, after: u64) -> Vec<String>;

    /// As [`prune`](super::prune): deletes daemons, jobs and ticks.
    fn prune(&self) -> [String; 3];

    /// As [`Look`].
    fn look(&self, look: &Look) -> String;

    /// Publishes one job. An older job with another schedule gets the new next tick, unless that tick was settled meanwhile. The next tick
    /// of the same schedule stays, unless there is none, because the job was in no file for a while, or it is after the latest plausible
    /// one, and was written while the server's clock was ahead: see [`JobRow::is_ahead`](super::JobRow::is_ahead).
    fn publish(&self, publish: &Publish, job: &NewJob) -> String;

    /// Notes that these jobs are in a file, if they were not noted for this long, or were noted for a moment after `until`.
    fn touch(&self, jobs: &[&Definition], since: Duration, until: Option<i64>) -> String;

    /// Reads all jobs, each with its last run.
    fn listed_jobs(&self) -> String;
}

/// The names of the tables, and the words of their server.
pub struct Names {
    pub words: Kind,
    pub jobs: String,
    pub ticks: String,
    pub daemons: String,
    pub runs: String,
    pub locks: String,
}

impl Names {
    /// Those of these tables.
    pub fn of(tables: &Tables) -> Self {
        Self {
            words: tables.kind(),
            jobs: tables.of(&CRON_JOBS),
            ticks: tables.of(&CRON_TICKS),
            daemons: tables.of(&CRON_DAEMONS),
            runs: tables.of(&RUNS),
            locks: tables.locks(),
        }
    }

    /// Whether the daemon `n` started after `o`, of the same host and user, was gone.
    pub fn has_succeeded(&self) -> String {
        format!(
            "n.host = o.host AND n.{0} = o.{0} AND n.started_at > COALESCE(o.gone_at, o.renewed_at)",
            self.words.user()
        )
    }

    /// The columns of a job's row, each with its expression.
    fn job_values(&self) -> [(&'static str, String); 9] {
        [
            ("name", "name".to_owned()),
            ("next", self.words.micros("next_at")),
            ("settled", self.words.micros("settled_at")),
            ("triggered", self.words.micros("triggered_at")),
            ("is_paused", flag("paused_at IS NOT NULL")),
            ("schedule", "schedule".to_owned()),
            ("zone", "zone".to_owned()),
            ("definition", "definition".to_owned()),
            ("seen", self.words.micros("seen_at")),
        ]
    }

    /// The same as a list for a SELECT.
    pub fn job_columns(&self) -> String {
        self.job_values()
            .map(|(column, value)| format!("{value} AS {column}"))
            .join(", ")
    }

    /// The columns of a tick's row `t`, each with its expression.
    fn tick_values(&self, start_at: &str, is_orphan: String) -> [(&'static str, String); 10] {
        let micros = |moment| self.words.micros(moment);
        let own = |column| format!("t.{column}");
        [
            ("name", own("name")),
            ("run", own("run")),
            ("attempt", own("attempt")),
            ("failures", own("failures")),
            ("daemon", own("daemon")),
            ("tick", micros("t.tick")),
            ("start_at", micros(start_at)),
            ("started_at", micros("t.started_at")),
            ("unstarted_at", micros("t.unstarted_at")),
            ("is_orphan", is_orphan),
        ]
    }

    /// The condition that one of these jobs is to be noted, for [`CronText::touch`].
    fn is_to_be_noted(&self, jobs: &[&Definition], since: Duration, until: Option<i64>) -> String {
        let words = self.words;
        let each = jobs.iter().map(|job| {
            let texts = [&job.name, &job.schedule, &job.zone];
            format!("({})", words.literals(texts))
        });
        let later = until.map(|until| format!(" OR seen_at > {}", words.moment(until)));
        let since = words.seconds_ago(since.as_secs());
        format!(
            "(seen_at < {since}{}) AND (name, schedule, zone) IN ({})",
            later.unwrap_or_default(),
            each.collect::<Vec<_>>().join(", ")
        )
    }

    /// The columns of a run that a daemon requests, for the history.
    pub fn run_columns(&self) -> String {
        let user = self.words.user();
        format!("run, name, tick, attempt, host, pid, {user}, program, requested_at")
    }

    /// The values for these columns.
    pub fn run(
        &self,
        id: &str,
        (name, tick): (&str, i64),
        attempt: &str,
        daemon: &DaemonFacts,
        program: &str,
    ) -> String {
        let cut = |column, text: &str| self.words.literal(&RUNS.cut(column, text));
        [
            self.words.literal(id),
            self.words.literal(name),
            self.words.moment(tick),
            attempt.to_owned(),
            cut("host", &daemon.host),
            daemon.pid.to_string(),
            cut("user", &daemon.user),
            cut("program", &printable(program)),
            self.words.now().to_owned(),
        ]
        .join(", ")
    }

    /// The values for the end of a skipped run.
    pub fn skipped(&self, message: &str) -> String {
        format!(
            "{}, {}, {}",
            self.words.now(),
            self.words.literal(Outcome::Skipped.word()),
            self.words.literal(&RUNS.cut("message", message))
        )
    }

    /// Gives the ticks up that this daemon has marked, as [`CronText::retire`] does. `run` and `tick` are SQL for a new run's id and for
    /// the tick as text, of a tick's row `t`.
    fn give_up(&self, daemon: &DaemonFacts, run: &str, tick: &str) -> [String; 3] {
        let Self { ticks, runs, .. } = self;
        let (words, now, mine) = (self.words, self.words.now(), &*daemon.id);
        let cut = |column, text: &str| words.literal(&RUNS.cut(column, text));
        let [mine, skipped, failed] =
            [mine, Outcome::Skipped.word(), Outcome::Failed.word()].map(|text| words.literal(text));
        let of_mine = format!("FROM {ticks} t WHERE t.daemon = {mine} AND t.start_at = t.tick");
        let width = RUNS.width("message");
        [
            format!(
                "INSERT INTO {runs} ({}, ended_at, outcome, message) SELECT {run}, t.name, t.tick, t.attempt + 1, {}, {}, {}, 'dblock', \
                 {now}, {now}, {skipped}, LEFT(CONCAT(t.name, ': {IN_NO_FILE}; the tick ', {tick}, ' is abandoned'), {width}) {of_mine}",
                self.run_columns(),
                cut("host", &daemon.host),
                daemon.pid,
                cut("user", &daemon.user),
            ),
            format!(
                "UPDATE {runs} SET ended_at = {now}, outcome = {failed}, message = LEFT(CONCAT(name, ': {DIED}'), {width}) \
                 WHERE ended_at IS NULL AND run IN (SELECT t.run {of_mine})"
            ),
            format!("DELETE FROM {ticks} WHERE daemon = {mine} AND start_at = tick"),
        ]
    }

    /// The columns of a job of the list, `j`, and of its last run, `r`.
    fn listed_columns(&self) -> String {
        let moments = [
            ("j.next_at", "next"),
            ("j.paused_at", "paused"),
            ("j.triggered_at", "triggered"),
            ("j.seen_at", "seen"),
            ("r.tick", "tick"),
            ("r.acquired_at", "acquired"),
            ("r.started_at", "started"),
            ("r.ended_at", "ended"),
        ];
        let moments =
            moments.map(|(moment, name)| format!("{} AS {name}", self.words.micros(moment)));
        format!(
            "j.name, j.schedule, j.zone, j.changed_by, {}, r.run, r.attempt, r.host, r.outcome, r.exit_code, r.signal_name, j.jitter_seconds",
            moments.join(", ")
        )
    }
}

/// A condition as a number.
pub fn flag(condition: &str) -> String {
    format!("CASE WHEN {condition} THEN 1 ELSE 0 END")
}

/// The columns of the answer to a [`Look`], besides the kind.
const COLUMNS_OF_LOOK: &str = "name next settled triggered is_paused schedule zone definition seen now is_registered tick run attempt failures \
                       daemon start_at started_at unstarted_at is_orphan is_read_only";

/// The beginning of a SELECT of rows of one kind, which have these columns. `null` writes the NULL of a column.
fn select(kind: u8, columns: &[(&str, String)], null: impl Fn(&str) -> &'static str) -> String {
    let all = COLUMNS_OF_LOOK.split(' ').map(|column| {
        let given = columns.iter().find(|(name, _)| *name == column);
        let value = given.map_or_else(|| null(column), |(_, value)| value);
        format!(", {value} AS {column}")
    });
    format!("SELECT {kind} AS kind{}", all.collect::<String>())
}

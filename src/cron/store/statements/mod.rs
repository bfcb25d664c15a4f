//! The texts of the statements on the crontab's tables, for each kind of server. What is sent together, and how the answers are read, is
//! the same for all servers, and stands beside what is asked. A text that differs by the words of a server alone is here; the others are
//! with their server.

mod mysql;
mod postgres;

use std::time::Duration;

use super::entry::{
    DaemonFacts, Definition, Finish, Look, NewJob, NextAttempt, Publish, Register, SettleStep,
    Skipped, TickRow,
};
use super::reasons::IN_NO_FILE;
use crate::base::clock::micros;
use crate::base::text::printable;
use crate::cron::rules::{AttemptEnd, Fate, LARGEST_LAG};
use crate::db::Kind;
use crate::history::{DIED, KILLED, Outcome};
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

/// The names of the tables, and the words of their server.
pub struct Names {
    words: Kind,
    jobs: String,
    ticks: String,
    daemons: String,
    runs: String,
    locks: String,
}

impl Names {
    fn of(tables: &Tables) -> Self {
        Self {
            words: tables.kind(),
            jobs: tables.of(&CRON_JOBS),
            ticks: tables.of(&CRON_TICKS),
            daemons: tables.of(&CRON_DAEMONS),
            runs: tables.of(&RUNS),
            locks: tables.locks(),
        }
    }
}

/// The assignment for an attempt that is over: since when no command of the tick could be started stays as it is, unless this one was about
/// to be. It comes before `started_at` is assigned, as MySQL's assignments see those before them.
const UNSTARTED_SINCE: &str = "unstarted_at = CASE WHEN started_at IS NULL THEN unstarted_at END";

/// The texts, without the names of the statements. Where several are returned, they follow one another in a transaction.
pub trait CronText {
    /// The names of the tables, and the server's words.
    fn names(&self) -> &Names;

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

    /// The server's words.
    fn words(&self) -> Kind {
        self.names().words
    }

    /// Writes a daemon's row. It is alive since this moment if its lease has run out.
    fn register(&self, register: &Register) -> String {
        let (words, facts, now) = (self.words(), register.facts, self.words().now());
        let cut = |column, text: &str| words.literal(&CRON_DAEMONS.cut(column, text));
        let list = |names: &str| match names {
            "" => "NULL".to_owned(),
            names => words.literal(names),
        };
        let (count, definition) = (register.jobs.0, words.literal(register.jobs.1));
        let [disagrees, differs] = [register.disagrees, register.differs].map(list);
        format!(
            "INSERT INTO {} (daemon, host, pid, {}, slots, jobs, definition, disagrees, differs, started_at, renewed_at, expires_at, alive_since) \
             VALUES ({}, {}, {}, {}, {}, {count}, {definition}, {disagrees}, {differs}, {now}, {now}, {expires}, {now}) \
             {} alive_since = {}, jobs = {count}, definition = {definition}, disagrees = {disagrees}, differs = {differs}, renewed_at = {now}, \
             expires_at = {expires}",
            self.names().daemons,
            words.user(),
            words.literal(&facts.id),
            cut("host", &facts.host),
            facts.pid,
            cut("user", &facts.user),
            facts.slots,
            words.if_there("daemon"),
            // Before `expires_at` is assigned.
            self.alive_since(&format!("{}.", CRON_DAEMONS.name)),
            expires = words.after_seconds(register.lease)
        )
    }

    /// Reads the state of a run: whether it holds its job's lock, whether its command was not about to start yet, and how it has ended.
    fn run_state(&self, name: &str, run: &str) -> String {
        let Names {
            ticks, runs, locks, ..
        } = self.names();
        let [name, run] = [name, run].map(|text| self.words().literal(text));
        format!(
            "SELECT (SELECT COUNT(*) FROM {locks} WHERE name = {name} AND owner = {run} AND expires_at > {}) AS held, \
             (SELECT COUNT(*) FROM {ticks} WHERE name = {name} AND run = {run} AND started_at IS NULL) AS unstarted, \
             r.outcome, r.exit_code, {} AS is_killed FROM (SELECT 1 AS one) asked LEFT JOIN {runs} r ON r.run = {run} AND r.ended_at IS NOT NULL",
            self.words().now(),
            flag(&format!("r.message LIKE '{KILLED}%'"))
        )
    }

    /// Reads the server's time, in microseconds since 1970.
    fn clock(&self) -> String {
        format!("SELECT {}", self.words().micros(self.words().now()))
    }

    /// How many earlier daemons of this host and user had the same file last. A daemon's file is the last one unless a later daemon has
    /// started after it was gone. A living daemon that has just started does not count as a successor: it started together with this one,
    /// as at a boot.
    fn file_before(&self, facts: &DaemonFacts, definition: &str) -> String {
        let (daemons, id) = (&self.names().daemons, self.words().literal(&facts.id));
        format!(
            "SELECT COUNT(*) FROM {daemons} o WHERE o.daemon <> {id} AND o.host = {} AND o.{} = {} \
             AND o.definition = {} AND NOT EXISTS (SELECT 1 FROM {daemons} n WHERE {} AND n.daemon <> {id} \
             AND NOT (n.gone_at IS NULL AND n.expires_at > {} AND n.started_at > {}))",
            self.words().literal(&facts.host),
            self.words().user(),
            self.words().literal(&facts.user),
            self.words().literal(definition),
            self.has_succeeded(),
            self.words().now(),
            self.words().seconds_ago(60)
        )
    }

    /// Whether the daemon `n` started after `o`, of the same host and user, was gone.
    fn has_succeeded(&self) -> String {
        format!(
            "n.host = o.host AND n.{0} = o.{0} AND n.started_at > COALESCE(o.gone_at, o.renewed_at)",
            self.words().user()
        )
    }

    /// The start of the daemon's current life, from its row, which begins anew after its lease has run out.
    fn alive_since(&self, row: &str) -> String {
        let now = self.words().now();
        format!("CASE WHEN {row}expires_at < {now} THEN {now} ELSE {row}alive_since END")
    }

    /// Renews a daemon's lease, for this many seconds. If it has run out, the daemon is alive since this moment.
    fn renew(&self, daemon: &str, lease: u64) -> String {
        format!(
            "UPDATE {} SET alive_since = {}, renewed_at = {}, expires_at = {} WHERE daemon = {}",
            self.names().daemons,
            self.alive_since(""),
            self.words().now(),
            self.words().after_seconds(lease),
            self.words().literal(daemon)
        )
    }

    /// Notes that a daemon takes no more ticks.
    fn stop_taking(&self, daemon: &str) -> String {
        format!(
            "UPDATE {} SET leaving_at = COALESCE(leaving_at, {}) WHERE daemon = {}",
            self.names().daemons,
            self.words().now(),
            self.words().literal(daemon)
        )
    }

    /// Notes that a daemon is gone.
    fn leave(&self, daemon: &str) -> String {
        format!(
            "UPDATE {} SET leaving_at = COALESCE(leaving_at, {now}), gone_at = {now}, expires_at = {now} WHERE daemon = {}",
            self.names().daemons,
            self.words().literal(daemon),
            now = self.words().now()
        )
    }

    /// The columns of a job's row, each with its expression.
    fn job_values(&self) -> [(&'static str, String); 9] {
        [
            ("name", "name".to_owned()),
            ("next", self.words().micros("next_at")),
            ("settled", self.words().micros("settled_at")),
            ("triggered", self.words().micros("triggered_at")),
            ("is_paused", flag("paused_at IS NOT NULL")),
            ("schedule", "schedule".to_owned()),
            ("zone", "zone".to_owned()),
            ("definition", "definition".to_owned()),
            ("seen", self.words().micros("seen_at")),
        ]
    }

    /// The same as a list for a SELECT.
    fn job_columns(&self) -> String {
        self.job_values()
            .map(|(column, value)| format!("{value} AS {column}"))
            .join(", ")
    }

    /// The columns of a tick's row `t`, each with its expression.
    fn tick_values(&self, start_at: &str, is_orphan: String) -> [(&'static str, String); 10] {
        let micros = |moment| self.words().micros(moment);
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

    /// The condition that a job is to be noted, for [`CronText::touch`].
    fn is_to_be_noted(&self, since: Duration, until: Option<i64>) -> String {
        let words = self.words();
        let later = until.map(|until| format!(" OR seen_at > {}", words.moment(until)));
        let since = words.seconds_ago(since.as_secs());
        format!("(seen_at < {since}{})", later.unwrap_or_default())
    }

    /// Reads the rows of all jobs.
    fn jobs(&self) -> String {
        format!("SELECT {} FROM {}", self.job_columns(), self.names().jobs)
    }

    /// Settles ticks of one job: its row gets the step's id if that was done, and what follows is done only then. With
    /// [`is_alone`](crate::cron::Settlement::is_alone) no tick of the job may have a row.
    fn settle(&self, step: &SettleStep, daemon: &DaemonFacts) -> Vec<String> {
        let Names {
            jobs, ticks, runs, ..
        } = self.names();
        let (settlement, job, now) = (step.settlement, step.job, self.words().now());
        let [name, id, schedule, zone] =
            [&job.name, step.id, &job.schedule, &job.zone].map(|text| self.words().literal(text));
        let from = self.words().moment(settlement.from);
        let (change, condition) = if settlement.is_trigger {
            (
                format!("triggered_at = NULL, changed_at = {now}"),
                format!("triggered_at = {from}"),
            )
        } else {
            (
                format!(
                    "settled_at = {}, next_at = {}",
                    self.words().moment(settlement.settled),
                    self.words().optional_moment(settlement.next)
                ),
                format!("next_at = {from} AND next_at <= {now} AND paused_at IS NULL"),
            )
        };
        let (mut statements, mut alone) = (Vec::new(), String::new());
        if settlement.is_alone {
            statements.extend(self.before_alone(&job.name));
            alone = format!(" AND NOT EXISTS (SELECT 1 FROM {ticks} t WHERE t.name = {name})");
        }
        statements.push(format!(
            "UPDATE {jobs} SET change_id = {id}, {change} WHERE name = {name} AND {condition} AND schedule = {schedule} \
             AND zone = {zone}{alone}"
        ));
        let if_done = format!("FROM {jobs} WHERE name = {name} AND change_id = {id}");
        for (id, tick, message) in step.skips() {
            statements.push(format!(
                "INSERT INTO {runs} ({}, ended_at, outcome, message) SELECT {}, {} {if_done}",
                self.run_columns(),
                self.run(&id, (&job.name, tick), "1", daemon, &step.program),
                self.skipped(&message)
            ));
        }
        let insert = |tick: i64, attempt: u8, daemon: &str| {
            format!(
                "INSERT INTO {ticks} (name, tick, run, attempt, daemon, ttl_seconds) SELECT name, {}, {id}, {attempt}, {daemon}, {} {if_done} {}",
                self.words().moment(tick),
                step.ttl,
                self.unless_there()
            )
        };
        match settlement.fate {
            None => {}
            Some(Fate::Wait(tick)) => statements.push(insert(tick, 0, "NULL")),
            Some(Fate::Run(tick)) => {
                statements.push(insert(tick, 1, &self.words().literal(&daemon.id)));
                statements.push(format!(
                    "INSERT INTO {runs} ({}) SELECT {} {if_done}",
                    self.run_columns(),
                    self.run(step.id, (&job.name, tick), "1", daemon, &step.program)
                ));
            }
        }
        statements
    }

    /// Reads the rows of these jobs, with the id of the step that changed each last, and the server's time.
    fn settled(&self, names: &[&str]) -> String {
        let names = names.iter().map(|name| self.words().literal(name));
        format!(
            "SELECT {} AS server_time, change_id, {} FROM {} WHERE name IN ({})",
            self.words().micros(self.words().now()),
            self.job_columns(),
            self.names().jobs,
            names.collect::<Vec<_>>().join(", ")
        )
    }

    /// The condition on the key of a tick's row.
    fn key(&self, name: &str, tick: i64, run: &str) -> String {
        format!(
            "name = {} AND tick = {} AND run = {}",
            self.words().literal(name),
            self.words().moment(tick),
            self.words().literal(run)
        )
    }

    /// The condition that a tick's row is as it was read.
    fn is_as_seen(&self, seen: &TickRow) -> String {
        let daemon = seen
            .daemon
            .as_deref()
            .map(|daemon| self.words().literal(daemon));
        format!(
            "{} AND {} AND {}",
            self.key(&seen.name, seen.tick, &seen.run),
            self.words()
                .is_same("daemon", daemon.as_deref().unwrap_or("NULL")),
            self.words()
                .is_same("started_at", &self.words().optional_moment(seen.started_at))
        )
    }

    /// The columns of a run that a daemon requests, for the history.
    fn run_columns(&self) -> String {
        let user = self.words().user();
        format!("run, name, tick, attempt, host, pid, {user}, program, requested_at")
    }

    /// The values for these columns.
    fn run(
        &self,
        id: &str,
        (name, tick): (&str, i64),
        attempt: &str,
        daemon: &DaemonFacts,
        program: &str,
    ) -> String {
        let cut = |column, text: &str| self.words().literal(&RUNS.cut(column, text));
        [
            self.words().literal(id),
            self.words().literal(name),
            self.words().moment(tick),
            attempt.to_owned(),
            cut("host", &daemon.host),
            daemon.pid.to_string(),
            cut("user", &daemon.user),
            cut("program", &printable(program)),
            self.words().now().to_owned(),
        ]
        .join(", ")
    }

    /// The values for the end of a skipped run.
    fn skipped(&self, message: &str) -> String {
        format!(
            "{}, {}, {}",
            self.words().now(),
            self.words().literal(Outcome::Skipped.word()),
            self.words().literal(&RUNS.cut("message", message))
        )
    }

    /// Records how a run ended, if its own processes have not, and under another condition.
    fn end_run(&self, run: &str, outcome: Outcome, why: &str, condition: &str) -> String {
        format!(
            "UPDATE {} SET ended_at = {}, outcome = {}, message = {} WHERE run = {} AND ended_at IS NULL{condition}",
            self.names().runs,
            self.words().now(),
            self.words().literal(outcome.word()),
            self.words().literal(&RUNS.cut("message", why)),
            self.words().literal(run)
        )
    }

    /// As [`NextAttempt::take`].
    fn retake(&self, next: &NextAttempt, failures: u32, ttl: Duration) -> Vec<String> {
        let [run, daemon] = [next.run, &next.daemon.id].map(|text| self.words().literal(text));
        let take = format!(
            "run = {run}, daemon = {daemon}, ttl_seconds = {}, attempt = attempt + 1, failures = {failures}, start_at = NULL, \
             {UNSTARTED_SINCE}, started_at = NULL",
            ttl.as_secs()
        );
        let record = (String::new(), "attempt".to_owned(), String::new());
        self.go_on(next, &take, record)
    }

    /// As [`NextAttempt::abandon`]. Of two daemons only one succeeds.
    fn abandon(&self, next: &NextAttempt, message: &str) -> Vec<String> {
        let take = format!("run = {}", self.words().literal(next.run));
        let columns = ", ended_at, outcome, message".to_owned();
        let attempt = (next.seen.attempt + 1).to_string();
        let record = (columns, attempt, format!(", {}", self.skipped(message)));
        let mut statements = self.go_on(next, &take, record);
        let taken = self.key(&next.seen.name, next.seen.tick, next.run);
        statements.push(format!("DELETE FROM {} WHERE {taken}", self.names().ticks));
        statements
    }

    /// Changes a tick's row that is as it was read, and only then records the new run, with further columns and their values after those of
    /// the attempt, and how the one before has failed.
    fn go_on(
        &self,
        next: &NextAttempt,
        change: &str,
        (columns, attempt, values): (String, String, String),
    ) -> Vec<String> {
        let Names { ticks, runs, .. } = self.names();
        let seen = next.seen;
        let (taken, of) = (
            self.key(&seen.name, seen.tick, next.run),
            (&*seen.name, seen.tick),
        );
        let take = format!(
            "UPDATE {ticks} SET {change} WHERE {}",
            self.is_as_seen(seen)
        );
        let record = format!(
            "INSERT INTO {runs} ({}{columns}) SELECT {}{values} FROM {ticks} WHERE {taken}",
            self.run_columns(),
            self.run(next.run, of, &attempt, next.daemon, next.program)
        );
        let exists = format!(" AND EXISTS (SELECT 1 FROM {ticks} WHERE {taken})");
        let ends = next
            .why
            .map(|why| self.end_run(&seen.run, Outcome::Failed, why, &exists));
        [take, record].into_iter().chain(ends).collect()
    }

    /// Gives the ticks up that this daemon has marked, as [`CronText::retire`] does. `run` and `tick` are SQL for a new run's id and for
    /// the tick as text, of a tick's row `t`.
    fn give_up(&self, daemon: &DaemonFacts, run: &str, tick: &str) -> [String; 3] {
        let Names { ticks, runs, .. } = self.names();
        let (words, now, mine) = (self.words(), self.words().now(), &*daemon.id);
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

    /// As [`Finish`]: ends the run, if there is a reason, and the tick.
    fn finish(&self, finish: &Finish) -> Vec<String> {
        let ticks = &self.names().ticks;
        let key = self.key(finish.name, finish.tick, finish.run);
        let ends = finish
            .why
            .map(|why| self.end_run(finish.run, finish.outcome(), why, ""));
        let tick = match finish.retry {
            None => format!("DELETE FROM {ticks} WHERE {key}"),
            Some(delay) => format!(
                "UPDATE {ticks} SET {}, daemon = NULL, started_at = NULL, failures = {}, \
                 start_at = {} WHERE {key} AND daemon IS NOT NULL",
                match finish.end {
                    AttemptEnd::Unstarted => format!(
                        "unstarted_at = COALESCE(unstarted_at, {})",
                        self.words().now()
                    ),
                    _ => UNSTARTED_SINCE.to_owned(),
                },
                finish.failures,
                self.words().after(delay)
            ),
        };
        ends.into_iter().chain([tick]).collect()
    }

    /// Notes that the command of an attempt is about to start, unless an earlier one has succeeded: that of a host that was only suspended.
    fn start(&self, name: &str, tick: i64, run: &str, attempt: u32) -> String {
        let Names { ticks, runs, .. } = self.names();
        let key = self.key(name, tick, run);
        let mut unless_done = String::new();
        if attempt > 1 {
            unless_done = format!(
                " AND NOT EXISTS (SELECT 1 FROM {runs} r WHERE r.name = {} AND r.requested_at >= {} AND r.tick = {} \
                 AND r.attempt < {attempt} AND r.outcome = {} AND r.exit_code = 0)",
                self.words().literal(name),
                self.words().moment(tick - micros(LARGEST_LAG)),
                self.words().moment(tick),
                self.words().literal(Outcome::Ran.word())
            );
        }
        format!(
            "UPDATE {ticks} SET started_at = {} WHERE {key}{unless_done}",
            self.words().now()
        )
    }

    /// How many rows this tick has with this run.
    fn count_tick(&self, name: &str, tick: i64, run: &str) -> String {
        format!(
            "SELECT COUNT(*) FROM {} WHERE {}",
            self.names().ticks,
            self.key(name, tick, run)
        )
    }

    /// Sets this column of a job to now, unless it is set: pauses the job, or triggers it.
    fn change_once(&self, column: &str, name: &str) -> String {
        format!(
            "UPDATE {} SET {column} = COALESCE({column}, {now}), changed_at = {now} WHERE name = {}",
            self.names().jobs,
            self.words().literal(name),
            now = self.words().now()
        )
    }

    /// How many daemons are alive and take ticks.
    fn runners(&self) -> String {
        format!(
            "SELECT COUNT(*) FROM {} WHERE expires_at > {} AND leaving_at IS NULL",
            self.names().daemons,
            self.words().now()
        )
    }

    /// Reads a job's row and the server's time, and locks the row.
    fn lock_job(&self, name: &str) -> String {
        format!(
            "SELECT {} AS server_time, {} FROM {} WHERE name = {} FOR UPDATE",
            self.words().micros(self.words().now()),
            self.job_columns(),
            self.names().jobs,
            self.words().literal(name)
        )
    }

    /// Resumes a job with this next tick, and this settled one if there is one.
    fn resume(&self, name: &str, next: Option<i64>, settled: Option<i64>) -> String {
        format!(
            "UPDATE {} SET paused_at = NULL, changed_at = {}, next_at = {}, settled_at = COALESCE({}, settled_at) WHERE name = {}",
            self.names().jobs,
            self.words().now(),
            self.words().optional_moment(next),
            self.words().optional_moment(settled),
            self.words().literal(name)
        )
    }

    /// Records skipped ticks.
    fn record_skip(&self, skip: &Skipped) -> String {
        format!(
            "INSERT INTO {} ({}, ended_at, outcome, message) VALUES ({}, {})",
            self.names().runs,
            self.run_columns(),
            self.run(skip.id, (skip.name, skip.tick), "1", skip.by, "dblock"),
            self.skipped(&skip.message)
        )
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
            moments.map(|(moment, name)| format!("{} AS {name}", self.words().micros(moment)));
        format!(
            "j.name, j.schedule, j.zone, j.changed_by, {}, r.run, r.attempt, r.host, r.outcome, r.exit_code, r.signal_name, j.jitter_seconds",
            moments.join(", ")
        )
    }

    /// Reads all ticks with a row.
    fn listed_ticks(&self) -> String {
        format!(
            "SELECT t.name, {} AS tick_at, t.attempt, d.host, {} AS retry FROM {} t LEFT JOIN {} d ON d.daemon = t.daemon \
             ORDER BY t.name, t.tick",
            self.words().micros("t.tick"),
            self.words().micros("t.start_at"),
            self.names().ticks,
            self.names().daemons
        )
    }

    /// Reads the daemons that are not gone for long.
    fn listed_daemons(&self) -> String {
        format!(
            "SELECT host, pid, slots, jobs, definition, {} AS started, {} AS renewed, {} AS is_alive, {} AS is_leaving, \
             disagrees, differs FROM {} WHERE gone_at IS NULL AND expires_at > {} ORDER BY host, pid",
            self.words().micros("started_at"),
            self.words().micros("renewed_at"),
            flag(&format!("expires_at > {}", self.words().now())),
            flag("leaving_at IS NOT NULL"),
            self.names().daemons,
            self.words().seconds_ago(24 * 3600)
        )
    }
}

/// A condition as a number.
fn flag(condition: &str) -> String {
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

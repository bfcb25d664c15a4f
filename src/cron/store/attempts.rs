//! The attempts of a tick with a row: starts the next one, and ends one. Each change is conditional on the run of the previous attempt. If
//! two daemons take over the same tick, only one succeeds, and a late one changes nothing.

use std::time::Duration;

use super::super::rules::{AttemptEnd, RunState};
use super::daemons::{DaemonFacts, RUN};
use super::look::TickRow;
use super::reasons::too_late;
use super::settle::run;
use crate::db::sql::{after, moment, optional_moment, optional_text};
use crate::db::{Ask, Batch, ask, batch, named, text_literal};
use crate::history::{KILLED, Outcome};
use crate::schema::{CRON_TICKS, RUNS, Tables};

/// Takes a tick for another attempt by a daemon. Returns whether that succeeded.
pub struct Retake<'a> {
    /// dblock's tables.
    pub tables: &'a Tables,
    /// The daemon that takes it.
    pub daemon: &'a DaemonFacts,
    /// The tick as it was read.
    pub seen: &'a TickRow,
    /// The number of failures so far.
    pub failures: u32,
    /// The id of the new run.
    pub run: &'a str,
    /// The program that will start.
    pub program: &'a str,
    /// Why the previous attempt failed, if its own processes have not recorded that.
    pub why: Option<&'a str>,
}

/// The assignment for an attempt that is over: since when no command of the tick could be started stays as it is, unless this one was about
/// to be. It comes before `started_at` is assigned.
const UNSTARTED_SINCE: &str = "unstarted_at = IF(started_at IS NULL, unstarted_at, NULL)";

fn key(name: &str, tick: i64, run: &str) -> String {
    format!(
        "name = {} AND tick = {} AND run = {}",
        text_literal(name),
        moment(tick),
        text_literal(run)
    )
}

/// Records how a run ended, if its own processes have not.
fn end_run(tables: &Tables, run: &str, outcome: Outcome, why: &str, condition: &str) -> String {
    format!(
        "UPDATE {} SET ended_at = UTC_TIMESTAMP(6), outcome = {}, message = {} WHERE run = {} AND ended_at IS NULL{condition}",
        tables.of(&RUNS),
        text_literal(outcome.word()),
        RUNS.literal("message", why),
        text_literal(run)
    )
}

impl Retake<'_> {
    /// Whether it was taken.
    pub fn batch(&self) -> Batch<'static, bool> {
        let ticks = self.tables.of(&CRON_TICKS);
        let seen = self.seen;
        let daemon = optional_text(seen.daemon.as_deref());
        let taken = key(&seen.name, seen.tick, self.run);
        let mut statements = vec![
            "BEGIN".to_owned(),
            format!(
                "UPDATE {ticks} SET run = {}, daemon = {}, attempt = attempt + 1, failures = {}, start_at = NULL, \
                 {UNSTARTED_SINCE}, started_at = NULL \
                 WHERE {} AND daemon <=> {daemon} AND started_at <=> {}",
                text_literal(self.run),
                text_literal(&self.daemon.id),
                self.failures,
                key(&seen.name, seen.tick, &seen.run),
                optional_moment(seen.started_at)
            ),
            format!(
                "INSERT INTO {} ({RUN}) SELECT {} FROM {ticks} WHERE {taken}",
                self.tables.of(&RUNS),
                run(
                    self.run,
                    &seen.name,
                    seen.tick,
                    "attempt",
                    self.daemon,
                    self.program
                )
            ),
        ];
        let exists = format!(" AND EXISTS (SELECT 1 FROM {ticks} WHERE {taken})");
        let ends = self
            .why
            .map(|why| end_run(self.tables, &seen.run, Outcome::Failed, why, &exists));
        statements.extend(ends);
        statements.push("COMMIT".to_owned());
        statements.push(format!("SELECT COUNT(*) FROM {ticks} WHERE {taken}"));
        batch("cron take again", statements).read_last(|rows| Ok(rows.value::<u64>()? == Some(1)))
    }
}

/// Gives up a tick, because it is too late for the next attempt. The history records that.
pub struct Abandon<'a> {
    /// dblock's tables.
    pub tables: &'a Tables,
    /// The daemon that gives it up.
    pub daemon: &'a DaemonFacts,
    /// The tick as it was read.
    pub seen: &'a TickRow,
    /// The tick as text.
    pub shown: &'a str,
    /// The id of a new run, for the history.
    pub id: &'a str,
    /// The program that does not start.
    pub program: &'a str,
    /// Why the previous attempt failed, if its own processes have not recorded that.
    pub why: Option<&'a str>,
}

impl Abandon<'_> {
    /// The statements.
    pub fn batch(&self) -> Batch<'static, ()> {
        let ticks = self.tables.of(&CRON_TICKS);
        let seen = self.seen;
        let daemon = optional_text(seen.daemon.as_deref());
        let taken = key(&seen.name, seen.tick, self.id);
        let exists = format!(" AND EXISTS (SELECT 1 FROM {ticks} WHERE {taken})");
        let next = seen.attempt + 1;
        let message = format!("{}: {}", seen.name, too_late(next, self.shown));
        let mut statements = vec![
            "BEGIN".to_owned(),
            // Of two daemons only one succeeds.
            format!(
                "UPDATE {ticks} SET run = {} WHERE {} AND daemon <=> {daemon} AND started_at <=> {}",
                text_literal(self.id),
                key(&seen.name, seen.tick, &seen.run),
                optional_moment(seen.started_at)
            ),
            format!(
                "INSERT INTO {} ({RUN}, ended_at, outcome, message) SELECT {}, UTC_TIMESTAMP(6), {}, {} FROM {ticks} WHERE {taken}",
                self.tables.of(&RUNS),
                run(
                    self.id,
                    &seen.name,
                    seen.tick,
                    &next.to_string(),
                    self.daemon,
                    self.program
                ),
                text_literal(Outcome::Skipped.word()),
                RUNS.literal("message", &message),
            ),
        ];
        let ends = self
            .why
            .map(|why| end_run(self.tables, &seen.run, Outcome::Failed, why, &exists));
        statements.extend(ends);
        statements.push(format!("DELETE FROM {ticks} WHERE {taken}"));
        statements.push("COMMIT".to_owned());
        batch("cron give up", statements)
    }
}

/// Ends an attempt: the tick is over, or will be tried again after a delay. It can be repeated.
pub struct Finish<'a> {
    /// dblock's tables.
    pub tables: &'a Tables,
    /// The tick.
    pub name: &'a str,
    pub tick: i64,
    /// The run of the attempt.
    pub run: &'a str,
    /// The delay before the next attempt; `None`: the tick is over.
    pub retry: Option<Duration>,
    /// How the attempt ended.
    pub end: AttemptEnd,
    /// The number of failures so far.
    pub failures: u32,
    /// The reason, if the run's own processes have not recorded one.
    pub why: Option<&'a str>,
    /// Statements that record how its command ended, if nobody else has.
    pub records: &'a [String],
}

impl Finish<'_> {
    /// The statements, for a transaction.
    pub fn statements(&self) -> Vec<String> {
        let ticks = self.tables.of(&CRON_TICKS);
        let key = key(self.name, self.tick, self.run);
        let outcome = match self.end {
            AttemptEnd::Returned => Outcome::Interrupted,
            _ => Outcome::Failed,
        };
        let ends = self
            .why
            .map(|why| end_run(self.tables, self.run, outcome, why, ""));
        let tick = match self.retry {
            None => format!("DELETE FROM {ticks} WHERE {key}"),
            Some(delay) => format!(
                "UPDATE {ticks} SET {}, daemon = NULL, started_at = NULL, failures = {}, \
                 start_at = {} WHERE {key} AND daemon IS NOT NULL",
                match self.end {
                    AttemptEnd::Unstarted =>
                        "unstarted_at = COALESCE(unstarted_at, UTC_TIMESTAMP(6))",
                    _ => UNSTARTED_SINCE,
                },
                self.failures,
                after(delay)
            ),
        };
        let own = ends.into_iter().chain([tick]);
        let own = own.map(|sql| named("cron finish", sql));
        self.records.iter().cloned().chain(own).collect()
    }
}

/// These statements in one transaction.
pub fn in_transaction(name: &str, statements: Vec<String>) -> Batch<'static, ()> {
    let mut all = vec![named(name, "BEGIN")];
    all.extend(statements);
    all.push(named(name, "COMMIT"));
    Batch::written(all)
}

/// Asks for the state of a run of a job.
pub fn ask_run(tables: &Tables, name: &str, run: &str) -> Ask<'static, RunState> {
    let (name, run) = (text_literal(name), text_literal(run));
    let sql = format!(
        "SELECT (SELECT COUNT(*) FROM {} WHERE name = {name} AND owner = {run} AND expires_at > UTC_TIMESTAMP(6)) AS held, \
         (SELECT IF(COALESCE(message LIKE '{KILLED}%', FALSE), '{OVER}', CONCAT(outcome, ' ', COALESCE(exit_code, ''))) \
         FROM {} WHERE run = {run} AND ended_at IS NOT NULL) AS ended, \
         (SELECT COUNT(*) FROM {} WHERE name = {name} AND run = {run} AND started_at IS NULL) AS unstarted",
        tables.locks(),
        tables.runs(),
        tables.of(&CRON_TICKS)
    );
    ask("cron run", sql, |rows| {
        let row = rows.one()?;
        let ended: Option<String> = row.get("ended")?;
        let (held, unstarted): (u64, u64) = (row.get("held")?, row.get("unstarted")?);
        Ok(match (held, ended) {
            (1.., _) => RunState::Alive,
            (0, Some(ended)) => RunState::Ended(end_of(&ended)),
            (0, None) if unstarted == 1 => RunState::Unstarted,
            (0, None) => RunState::Gone,
        })
    })
}

/// This word stands for the outcome of a run that `dblock kill --force` has ended.
const OVER: &str = "over";

/// Decodes the outcome and the exit code from the history.
fn end_of(words: &str) -> AttemptEnd {
    let (outcome, code) = words.split_once(' ').unwrap_or((words, ""));
    let is = |known: Outcome| outcome == known.word();
    if is(Outcome::Ran) && code == "0" || is(Outcome::Skipped) || outcome == OVER {
        AttemptEnd::Over
    } else if is(Outcome::Ran) || is(Outcome::TimedOut) {
        AttemptEnd::Failed
    } else if is(Outcome::Interrupted) {
        AttemptEnd::Returned
    } else {
        // Its dblock was killed, and its keeper has recorded that.
        AttemptEnd::Lost
    }
}

/// The tick of a run, while the run still has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The tick.
    pub tick: i64,
    /// The tick as text.
    pub shown: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
}

impl Claim {
    /// Notes that the command is about to start, if this run still has the tick. Then the statement changes one row.
    pub fn confirm(&self, tables: &Tables, name: &str, run: &str) -> String {
        let start = format!(
            "UPDATE {} SET started_at = UTC_TIMESTAMP(6) WHERE {}",
            tables.of(&CRON_TICKS),
            key(name, self.tick, run)
        );
        named("cron start", start)
    }
}

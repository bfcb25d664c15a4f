//! The attempts of a tick with a row: starts the next one, and ends one. Each change is conditional on the run of the previous attempt. If
//! two daemons take over the same tick, only one succeeds, and a late one changes nothing.

use std::time::Duration;

use super::super::rules::{AttemptEnd, LARGEST_LAG, RunState};
use super::entry::{Finish, NextAttempt, TickRow};
use super::reasons::too_late;
use super::statements::{Names, flag};
use crate::base::clock::micros;
use crate::db::{Ask, Batch, Kind, Reply, ask, batch, named};
use crate::history::{KILLED, Outcome};
use crate::schema::{RUNS, Tables};

/// The assignment for an attempt that is over: since when no command of the tick could be started stays as it is, unless this one was about
/// to be. It comes before `started_at` is assigned, as MySQL's assignments see those before them.
const UNSTARTED_SINCE: &str = "unstarted_at = CASE WHEN started_at IS NULL THEN unstarted_at END";

impl NextAttempt<'_> {
    /// Takes the tick, of which so many attempts have failed, for a job with this TTL. Whether that succeeded.
    pub fn take(&self, failures: u32, ttl: Duration) -> Batch<'static, bool> {
        let names = Names::of(self.tables);
        let [run, daemon] = [self.run, &self.daemon.id].map(|text| names.words.literal(text));
        let change = format!(
            "run = {run}, daemon = {daemon}, ttl_seconds = {}, attempt = attempt + 1, failures = {failures}, start_at = NULL, \
             {UNSTARTED_SINCE}, started_at = NULL",
            ttl.as_secs()
        );
        let record = (String::new(), "attempt".to_owned(), String::new());
        let mut statements = vec!["BEGIN".to_owned()];
        statements.extend(self.go_on(&names, &change, record));
        statements.push("COMMIT".to_owned());
        statements.push(format!(
            "SELECT COUNT(*) FROM {} WHERE {}",
            names.ticks,
            self.taken(&names)
        ));
        batch("cron take again", statements)
            .read_last(|rows| Ok(rows.value::<u64>()? == Some(1)))
            .if_it_takes_writes(self.tables.kind())
    }

    /// Gives the tick up, which is `shown` as text, as it is too late for the attempt. The history records that. Whether that succeeded.
    pub fn abandon(&self, shown: &str) -> Batch<'static, bool> {
        let why = too_late(self.seen.attempt + 1, shown);
        let message = format!("{}: {why}", self.seen.name);
        let names = Names::of(self.tables);
        let change = format!("run = {}", names.words.literal(self.run));
        let columns = ", ended_at, outcome, message".to_owned();
        let attempt = (self.seen.attempt + 1).to_string();
        let record = (columns, attempt, format!(", {}", names.skipped(&message)));
        let mut statements = vec!["BEGIN".to_owned()];
        statements.extend(self.go_on(&names, &change, record));
        statements.push(format!(
            "DELETE FROM {} WHERE {}",
            names.ticks,
            self.taken(&names)
        ));
        statements.push("COMMIT".to_owned());
        batch("cron give up", statements)
            .read_all(|replies| Ok(has_changed_last(replies)))
            .if_it_takes_writes(self.tables.kind())
    }

    /// Changes the tick's row if it is as it was read, and only then records the new run, with further columns and their values after those
    /// of the attempt, and how the one before has failed. Of two daemons only one succeeds.
    fn go_on(
        &self,
        names: &Names,
        change: &str,
        (columns, attempt, values): (String, String, String),
    ) -> Vec<String> {
        let Names { ticks, runs, .. } = names;
        let (seen, taken) = (self.seen, self.taken(names));
        let of = (&*seen.name, seen.tick);
        let take = format!(
            "UPDATE {ticks} SET {change} WHERE {}",
            is_as_seen(names.words, seen)
        );
        let record = format!(
            "INSERT INTO {runs} ({}{columns}) SELECT {}{values} FROM {ticks} WHERE {taken}",
            names.run_columns(),
            names.run(self.run, of, &attempt, self.daemon, self.program)
        );
        let exists = format!(" AND EXISTS (SELECT 1 FROM {ticks} WHERE {taken})");
        let ends = self
            .why
            .map(|why| end_run(names, &seen.run, Outcome::Failed, why, &exists));
        [take, record].into_iter().chain(ends).collect()
    }

    /// The condition on the key of the tick's row once this attempt has it.
    fn taken(&self, names: &Names) -> String {
        key(names.words, &self.seen.name, self.seen.tick, self.run)
    }
}

impl Finish<'_> {
    /// The statements, for a transaction: they end the run, if there is a reason, and the tick.
    pub fn statements(&self) -> Vec<String> {
        let names = Names::of(self.tables);
        let (words, ticks) = (names.words, &names.ticks);
        let key = key(words, self.name, self.tick, self.run);
        let ends = self
            .why
            .map(|why| end_run(&names, self.run, self.outcome(), why, ""));
        let tick = match self.retry {
            None => format!("DELETE FROM {ticks} WHERE {key}"),
            Some(delay) => format!(
                "UPDATE {ticks} SET {}, daemon = NULL, started_at = NULL, failures = {}, \
                 start_at = {} WHERE {key} AND daemon IS NOT NULL",
                match self.end {
                    AttemptEnd::Unstarted =>
                        format!("unstarted_at = COALESCE(unstarted_at, {})", words.now()),
                    _ => UNSTARTED_SINCE.to_owned(),
                },
                self.failures,
                words.after(delay)
            ),
        };
        let own = ends.into_iter().chain([tick]);
        let own = own.map(|sql| named("cron finish", sql));
        self.records.iter().cloned().chain(own).collect()
    }
}

/// The condition on the key of a tick's row.
fn key(words: Kind, name: &str, tick: i64, run: &str) -> String {
    format!(
        "name = {} AND tick = {} AND run = {}",
        words.literal(name),
        words.moment(tick),
        words.literal(run)
    )
}

/// The condition that a tick's row is as it was read.
fn is_as_seen(words: Kind, seen: &TickRow) -> String {
    format!(
        "{} AND {} AND {}",
        key(words, &seen.name, seen.tick, &seen.run),
        words.is_same("daemon", &words.optional_literal(seen.daemon.as_deref())),
        words.is_same("started_at", &words.optional_moment(seen.started_at))
    )
}

/// Records how a run ended, if its own processes have not, and under another condition.
fn end_run(names: &Names, run: &str, outcome: Outcome, why: &str, condition: &str) -> String {
    let words = names.words;
    format!(
        "UPDATE {} SET ended_at = {}, outcome = {}, message = {} WHERE run = {} AND ended_at IS NULL{condition}",
        names.runs,
        words.now(),
        words.literal(outcome.word()),
        words.literal(&RUNS.cut("message", why)),
        words.literal(run)
    )
}

/// These statements in one transaction, on a server of this kind. Whether the last one has changed a row.
pub fn in_transaction(kind: Kind, name: &str, statements: Vec<String>) -> Batch<'static, bool> {
    let mut all = vec![named(name, "BEGIN")];
    all.extend(statements);
    all.push(named(name, "COMMIT"));
    Batch::written(all)
        .read_all(|replies| Ok(has_changed_last(replies)))
        .if_it_takes_writes(kind)
}

/// Whether the last statement before the commit has changed a row: that of the tick, which only one daemon changes.
fn has_changed_last(replies: &[Reply]) -> bool {
    matches!(replies, [.., tick, _commit] if tick.changed > 0)
}

/// Asks for the state of a run: whether it holds its job's lock, whether its command was not about to start yet, and how it has ended.
pub fn ask_run(tables: &Tables, name: &str, run: &str) -> Ask<'static, RunState> {
    let Names {
        words,
        ticks,
        runs,
        locks,
        ..
    } = Names::of(tables);
    let [name, run] = [name, run].map(|text| words.literal(text));
    let sql = format!(
        "SELECT (SELECT COUNT(*) FROM {locks} WHERE name = {name} AND owner = {run} AND expires_at > {}) AS held, \
         (SELECT COUNT(*) FROM {ticks} WHERE name = {name} AND run = {run} AND started_at IS NULL) AS unstarted, \
         r.outcome, r.exit_code, {} AS is_killed FROM (SELECT 1 AS one) asked LEFT JOIN {runs} r ON r.run = {run} AND r.ended_at IS NOT NULL",
        words.now(),
        flag(&format!("r.message LIKE '{KILLED}%'"))
    );
    ask("cron run", sql, |rows| {
        let row = rows.one()?;
        let outcome: Option<String> = row.get("outcome")?;
        let (held, unstarted): (u64, u64) = (row.get("held")?, row.get("unstarted")?);
        Ok(match (held, outcome) {
            (1.., _) => RunState::Alive,
            (0, Some(_)) if row.get("is_killed")? => RunState::Ended(AttemptEnd::Over),
            (0, Some(outcome)) => RunState::Ended(end_of(&outcome, row.get("exit_code")?)),
            (0, None) if unstarted == 1 => RunState::Unstarted,
            (0, None) => RunState::Gone,
        })
    })
}

/// What the outcome and the exit code in the history mean for the attempt.
fn end_of(outcome: &str, exit_code: Option<u32>) -> AttemptEnd {
    let is = |known: Outcome| outcome == known.word();
    if is(Outcome::Ran) && exit_code == Some(0) || is(Outcome::Skipped) {
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

/// Notes that the command of an attempt of a tick is about to start, if its run still has the tick, and no earlier one has succeeded: that
/// of a host that was only suspended. Then the statement changes one row.
pub fn confirm(tables: &Tables, name: &str, tick: i64, run: &str, attempt: u32) -> String {
    let Names {
        words, ticks, runs, ..
    } = Names::of(tables);
    let key = key(words, name, tick, run);
    let mut unless_done = String::new();
    if attempt > 1 {
        unless_done = format!(
            " AND NOT EXISTS (SELECT 1 FROM {runs} r WHERE r.name = {} AND r.requested_at >= {} AND r.tick = {} \
             AND r.attempt < {attempt} AND r.outcome = {} AND r.exit_code = 0)",
            words.literal(name),
            words.moment(tick - micros(LARGEST_LAG)),
            words.moment(tick),
            words.literal(Outcome::Ran.word())
        );
    }
    let sql = format!(
        "UPDATE {ticks} SET started_at = {} WHERE {key}{unless_done}",
        words.now()
    );
    named("cron start", sql)
}

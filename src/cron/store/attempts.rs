//! The attempts of a tick with a row: starts the next one, and ends one. Each change is conditional on the run of the previous attempt. If
//! two daemons take over the same tick, only one succeeds, and a late one changes nothing.

use std::time::Duration;

use super::super::rules::{AttemptEnd, RunState};
use super::daemons::DaemonFacts;
use super::look::TickRow;
use super::reasons::too_late;
use super::statements::{OVER, text};
use crate::db::{Ask, Batch, Reply, ask, batch, named};
use crate::history::Outcome;
use crate::schema::Tables;

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

impl Retake<'_> {
    /// Whether it was taken.
    pub fn batch(&self) -> Batch<'static, bool> {
        let (text, seen) = (text(self.tables), self.seen);
        let mut statements = vec!["BEGIN".to_owned()];
        statements.extend(text.retake(self));
        statements.push("COMMIT".to_owned());
        statements.push(text.count_tick(&seen.name, seen.tick, self.run));
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
    /// What the history says.
    pub(super) fn message(&self) -> String {
        let why = too_late(self.seen.attempt + 1, self.shown);
        format!("{}: {why}", self.seen.name)
    }

    /// The statements. Whether it was given up by them.
    pub fn batch(&self) -> Batch<'static, bool> {
        let mut statements = vec!["BEGIN".to_owned()];
        statements.extend(text(self.tables).abandon(self));
        statements.push("COMMIT".to_owned());
        batch("cron give up", statements).read_all(|replies| Ok(has_changed_last(replies)))
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
    /// How the run has ended.
    pub(super) fn outcome(&self) -> Outcome {
        match self.end {
            AttemptEnd::Returned => Outcome::Interrupted,
            _ => Outcome::Failed,
        }
    }

    /// The statements, for a transaction.
    pub fn statements(&self) -> Vec<String> {
        let own = text(self.tables).finish(self).into_iter();
        let own = own.map(|sql| named("cron finish", sql));
        self.records.iter().cloned().chain(own).collect()
    }
}

/// These statements in one transaction. Whether the last one has changed a row.
pub fn in_transaction(name: &str, statements: Vec<String>) -> Batch<'static, bool> {
    let mut all = vec![named(name, "BEGIN")];
    all.extend(statements);
    all.push(named(name, "COMMIT"));
    Batch::written(all).read_all(|replies| Ok(has_changed_last(replies)))
}

/// Whether the last statement before the commit has changed a row: that of the tick, which only one daemon changes.
fn has_changed_last(replies: &[Reply]) -> bool {
    matches!(replies, [.., tick, _commit] if tick.changed > 0)
}

/// Asks for the state of a run of a job.
pub fn ask_run(tables: &Tables, name: &str, run: &str) -> Ask<'static, RunState> {
    let sql = text(tables).run_state(name, run);
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
        let start = text(tables).start(name, self.tick, run);
        named("cron start", start)
    }
}

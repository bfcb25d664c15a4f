//! The attempts of a tick with a row: starts the next one, and ends one. Each change is conditional on the run of the previous attempt. If
//! two daemons take over the same tick, only one succeeds, and a late one changes nothing.

use std::time::Duration;

use super::super::rules::{AttemptEnd, RunState};
use super::entry::{Finish, NextAttempt};
use super::reasons::too_late;
use super::statements::text;
use crate::db::{Ask, Batch, Kind, Reply, ask, batch, named};
use crate::history::Outcome;
use crate::schema::Tables;

impl NextAttempt<'_> {
    /// Takes the tick, of which so many attempts have failed, for a job with this TTL. Whether that succeeded.
    pub fn take(&self, failures: u32, ttl: Duration) -> Batch<'static, bool> {
        let (text, seen) = (text(self.tables), self.seen);
        let mut statements = vec!["BEGIN".to_owned()];
        statements.extend(text.retake(self, failures, ttl));
        statements.push("COMMIT".to_owned());
        statements.push(text.count_tick(&seen.name, seen.tick, self.run));
        batch("cron take again", statements)
            .read_last(|rows| Ok(rows.value::<u64>()? == Some(1)))
            .if_it_takes_writes(self.tables.kind())
    }

    /// Gives the tick up, which is `shown` as text, as it is too late for the attempt. The history records that. Whether that succeeded.
    pub fn abandon(&self, shown: &str) -> Batch<'static, bool> {
        let why = too_late(self.seen.attempt + 1, shown);
        let message = format!("{}: {why}", self.seen.name);
        let mut statements = vec!["BEGIN".to_owned()];
        statements.extend(text(self.tables).abandon(self, &message));
        statements.push("COMMIT".to_owned());
        batch("cron give up", statements)
            .read_all(|replies| Ok(has_changed_last(replies)))
            .if_it_takes_writes(self.tables.kind())
    }
}

impl Finish<'_> {
    /// The statements, for a transaction.
    pub fn statements(&self) -> Vec<String> {
        let own = text(self.tables).finish(self).into_iter();
        let own = own.map(|sql| named("cron finish", sql));
        self.records.iter().cloned().chain(own).collect()
    }
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

/// Asks for the state of a run of a job.
pub fn ask_run(tables: &Tables, name: &str, run: &str) -> Ask<'static, RunState> {
    let sql = text(tables).run_state(name, run);
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

/// Notes that the command of an attempt of a tick is about to start, if its run still has the tick, and no earlier one has succeeded. Then
/// the statement changes one row.
pub fn confirm(tables: &Tables, name: &str, tick: i64, run: &str, attempt: u32) -> String {
    named("cron start", text(tables).start(name, tick, run, attempt))
}

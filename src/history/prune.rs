//! Pruning: from time to time a run deletes a few old runs of its own name, of another one, and of unused names with their other rows. So
//! the history stays as long as `dblock init --keep` says, and nobody ever has to delete much at once.

use std::time::Duration;

use super::Journal;
use super::kept::{BATCH, BY_KEY, Kept, WINDOW, delete_rows, limit_of_age};
use super::page::is_running;
use super::{output, unused};
use crate::base::clock::Moment;
use crate::db::{Ask, Fault, Kind, Session, ask, ask_value, ask_values, named};
use crate::schema::{CRON_JOBS, Tables};

/// The limit for all of it: no run waits long to prune.
pub(super) const LIMIT: Duration = Duration::from_millis(500);

/// One of this many runs prunes.
const PRUNES_ONE_IN: u32 = 16;

impl Journal {
    /// Prunes old history from time to time.
    pub fn prune_now_and_then(&self, session: &mut Session) {
        let is_chosen = getrandom::u32().is_ok_and(|chance| chance % PRUNES_ONE_IN == 0);
        if is_chosen {
            let _ = self.prune(session, LIMIT);
        }
    }

    /// Deletes some runs of this name and of another that are older than the history is kept. Keeps the newest ones that are always kept,
    /// and any run without an end that is less than a day old or still runs. Of names that were not used for as long it also deletes the
    /// newest runs, the rows of their locks, and their last success. It waits only for locks on rows that it deletes. It begins no further
    /// part when the `limit` is over, and waits for no answer longer than what is left of it. Afterwards the session may be unusable.
    ///
    /// # Errors
    /// Those of a statement. Nothing is lost by them: the next pruning run deletes the same.
    pub fn prune(&self, session: &mut Session, limit: Duration) -> Result<(), Fault> {
        let over = Moment::now() + limit;
        limit_until(over, session)?;
        let (tables, own) = (&self.tables, &self.facts.name);
        let Some(keep) = session.run(&ask_keep(tables))? else {
            return Ok(());
        };
        self.prune_name(own, keep, session)?;
        limit_until(over, session)?;
        // So that the names before all others are found, too.
        let chance = getrandom::u64().unwrap_or_default();
        let chance = if chance.is_multiple_of(8) { 0 } else { chance };
        let another = session.run(&ask_any_name(tables, chance))?;
        if let Some(name) = another.as_ref().filter(|name| *name != own) {
            self.prune_name(name, keep, session)?;
        }
        limit_until(over, session)?;
        let idle = session.run(&ask_idle(tables, chance, keep))?;
        self.delete(idle, session)?;
        limit_until(over, session)?;
        output::prune_outputs(tables, session)?;
        if tables.has_floor() {
            limit_until(over, session)?;
            let start = another.filter(|_| chance > 0).unwrap_or_default();
            unused::prune(tables, &start, keep, session)?;
        }
        Ok(())
    }

    fn prune_name(&self, name: &str, keep: Kept, session: &mut Session) -> Result<(), Fault> {
        let tables = &self.tables;
        let old = session.run(&ask_old(tables, name, keep))?;
        self.delete(old, session)
    }

    fn delete(&self, mut runs: Vec<String>, session: &mut Session) -> Result<(), Fault> {
        // In the same order everywhere: no two wait for each other.
        runs.sort_unstable();
        // In a transaction of its own: an account that may not do it still deletes the runs.
        output::delete_outputs(&self.tables, &runs, session)?;
        let table = self.tables.runs();
        let delete = runs.iter().map(|run| {
            let run = self.tables.kind().literal(run);
            named("prune", format!("DELETE FROM {table} WHERE run = {run}"))
        });
        delete_rows(delete.collect(), session)
    }
}

/// Limits each answer to what is left until then. If nothing is left, the rest is for another run.
fn limit_until(over: Moment, session: &Session) -> Result<(), Fault> {
    let left = over.since(Moment::now());
    if left.is_zero() {
        return Err(Fault::Interrupted("no time is left to prune".to_owned()));
    }
    session.answer_within(left)
}

/// Asks how long the history is kept.
pub(super) fn ask_keep(tables: &Tables) -> Ask<'_, Option<Kept>> {
    let sql = format!(
        "SELECT keep_seconds, keep_runs, version FROM {} WHERE id = 1",
        tables.meta()
    );
    ask("keep", sql, move |rows| {
        rows.optional(|row| {
            tables.note_version(row.get("version")?);
            Ok(Kept {
                seconds: row.get("keep_seconds")?,
                runs: row.get("keep_runs")?,
            })
        })
    })
}

/// Asks for the name of a random run. A name with many runs comes up often, and names that never run again come up, too.
fn ask_any_name(tables: &Tables, chance: u64) -> Ask<'static, Option<String>> {
    // Run ids are random.
    let sql = format!(
        "SELECT name FROM {} {} WHERE run >= '{chance:016x}' ORDER BY run LIMIT 1",
        tables.runs(),
        tables.kind().only_mysql(BY_KEY)
    );
    ask_value("any name", sql)
}

/// Otherwise MySQL may search the newest run of a name among those of all names.
const BY_NAME: &str = "FORCE INDEX (by_name)";

/// The start of the time that is kept, as runs are compared with it: PostgreSQL finds them by their key if it reads its clock once.
fn limit_of_runs(kind: Kind, keep: Kept) -> String {
    let age = limit_of_age(kind, keep);
    match kind {
        Kind::MySql => age,
        Kind::Postgres => format!("(SELECT {age})"),
    }
}

/// The ids of the oldest runs that need not be kept. It locks none of them, as a searching `DELETE` would.
fn ask_old(tables: &Tables, name: &str, keep: Kept) -> Ask<'static, Vec<String>> {
    let (kind, runs) = (tables.kind(), tables.runs());
    let (name, by_name) = (kind.literal(name), kind.only_mysql(BY_NAME));
    let sql = format!(
        "SELECT r.run FROM {runs} r {by_name} WHERE r.name = {name} AND r.requested_at < {} \
         AND r.requested_at < (SELECT requested_at FROM {runs} {by_name} WHERE name = {name} ORDER BY requested_at DESC LIMIT 1 OFFSET {}) \
         AND {} ORDER BY r.requested_at LIMIT {BATCH}",
        limit_of_runs(kind, keep),
        keep.runs.saturating_sub(1),
        is_over("r", tables)
    );
    ask_values("old runs", sql).up_to(BATCH)
}

/// The ids of runs of names that were not used for as long as the history is kept: their newest run was requested and has ended before
/// that. If a lock or a success of the name has a row, the newest run stays, so that the row is found later. A job of the crontab is not
/// unused, however rarely it is due.
fn ask_idle(tables: &Tables, chance: u64, keep: Kept) -> Ask<'static, Vec<String>> {
    let (kind, runs) = (tables.kind(), tables.runs());
    let age = limit_of_runs(kind, keep);
    // With the order by both columns MySQL reads only the newest run, from the end of the index. With `=` PostgreSQL may go through the runs
    // of all names in the order of their times.
    let is_of_name = match kind {
        Kind::MySql => "n.name = r.name",
        Kind::Postgres => "n.name BETWEEN r.name AND r.name",
    };
    let of_newest = |what: &str| {
        format!(
            "(SELECT {what} FROM {runs} n {} WHERE {is_of_name} ORDER BY n.name DESC, n.requested_at DESC LIMIT 1)",
            kind.only_mysql(BY_NAME)
        )
    };
    let is_unused = format!(
        "n.requested_at < {age} AND COALESCE(n.ended_at < {age}, NOT {})",
        is_running("n", tables)
    );
    // EXISTS must not become a join.
    let has_none =
        |table: &str| format!("(SELECT 1 FROM {table} o WHERE o.name = r.name LIMIT 1) IS NULL");
    // Version 3 added the crontab.
    let is_no_job = if tables.has_floor() {
        has_none(&tables.of(&CRON_JOBS))
    } else {
        "TRUE".to_owned()
    };
    let sql = format!(
        "SELECT r.run FROM (SELECT run, name, slot, requested_at, ended_at FROM {runs} {} \
         WHERE run >= '{chance:016x}' ORDER BY run LIMIT {WINDOW}) r WHERE r.requested_at < {age} AND {} AND {} \
         AND {is_no_job} AND ({} OR {} AND {}) LIMIT {BATCH}",
        kind.only_mysql(BY_KEY),
        is_over("r", tables),
        of_newest(&is_unused),
        of_newest("n.requested_at > r.requested_at"),
        has_none(&tables.locks()),
        has_none(&tables.successes()),
    );
    ask_values("idle names", sql).up_to(BATCH)
}

/// The condition that the run in the row with this alias has ended, or died without a record.
fn is_over(run: &str, tables: &Tables) -> String {
    format!(
        "({run}.ended_at IS NOT NULL OR {run}.requested_at < {} AND NOT {})",
        tables.kind().ago(Duration::from_secs(24 * 3600)),
        is_running(run, tables)
    )
}

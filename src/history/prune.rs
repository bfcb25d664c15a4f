//! Pruning: from time to time whoever records a run deletes a few old runs of its name, of another one, and of unused names with their
//! other rows. So the history stays as long as `dblock init --keep` says, and nobody ever has to delete much at once.

use std::time::Duration;

use super::Journal;
use super::kept::{BATCH, Kept, WINDOW, delete_rows, limit_of_age, some_time};
use super::page::is_running;
use super::{output, unused};
use crate::base::clock::{Moment, chance_below};
use crate::db::{Ask, Fault, Kind, Session, ask, ask_values, named};
use crate::schema::{CRON_JOBS, Tables};

/// After this time no further part of it begins: nobody waits long to prune.
pub const PRUNING_LIMIT: Duration = Duration::from_millis(500);

/// After one of this many recorded runs old history is pruned.
const PRUNES_ONE_IN: u32 = 16;

/// Whether to prune now that a run was recorded.
pub fn prunes_now() -> bool {
    getrandom::u32().is_ok_and(|chance| chance.is_multiple_of(PRUNES_ONE_IN))
}

/// As [`Journal::prune`] after a run of this name, on a session that is needed afterwards: an answer that takes longer than
/// [`PRUNING_LIMIT`] does not end the session, but one that takes longer than `answer_limit` does.
///
/// # Errors
/// [`Fault::Gone`].
pub fn prune_beside(
    tables: &Tables,
    name: &str,
    answer_limit: Duration,
    session: &mut Session,
) -> Result<(), Fault> {
    let now = Moment::now();
    let limits = Limits {
        parts: now + PRUNING_LIMIT.min(answer_limit),
        answers: now + answer_limit,
    };
    match prune_after(tables, name, limits, session) {
        Err(fault @ Fault::Gone(_)) => Err(fault),
        _ => Ok(()),
    }
}

impl Journal {
    /// Prunes old history from time to time.
    pub fn prune_now_and_then(&self, session: &mut Session) {
        if prunes_now() {
            let _ = self.prune(session, PRUNING_LIMIT);
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
        let limits = Limits {
            parts: over,
            answers: over,
        };
        prune_after(&self.tables, &self.facts.name, limits, session)
    }
}

/// How long pruning takes.
#[derive(Clone, Copy)]
struct Limits {
    /// From then on no further part begins.
    parts: Moment,
    /// Until then it waits for an answer. That is no earlier.
    answers: Moment,
}

impl Limits {
    /// Before a part: limits each answer to what is left. If nothing is left, the rest is for another run.
    fn begin(self, session: &Session) -> Result<(), Fault> {
        let now = Moment::now();
        if self.parts <= now {
            return Err(Fault::Interrupted("no time is left to prune".to_owned()));
        }
        session.answer_within(self.answers.since(now))
    }
}

fn prune_after(
    tables: &Tables,
    own: &str,
    limits: Limits,
    session: &mut Session,
) -> Result<(), Fault> {
    limits.begin(session)?;
    let Some(keep) = session.run(&ask_keep(tables))? else {
        return Ok(());
    };
    let mut pruning = Pruning {
        tables,
        own,
        keep,
        window: None,
    };
    for part in Part::from_any_on() {
        limits.begin(session)?;
        pruning.prune(part, session)?;
    }
    Ok(())
}

/// A part of pruning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Old runs of the name whose run was recorded.
    OwnName,
    /// Old runs of another name.
    AnotherName,
    /// Runs of unused names.
    IdleNames,
    /// Outputs whose runs or jobs are gone.
    Outputs,
    /// Other rows of unused names.
    UnusedRows,
}

impl Part {
    /// All parts in a circle, from any of them on: where the server is far away or slow, there may be time for the first one only.
    fn from_any_on() -> [Self; 5] {
        let mut all = [
            Self::OwnName,
            Self::AnotherName,
            Self::IdleNames,
            Self::Outputs,
            Self::UnusedRows,
        ];
        all.rotate_left(chance_below(5).into());
        all
    }
}

/// Where to look for other names than the own.
#[derive(Clone)]
struct Window {
    /// From which time on.
    begin: i64,
    /// A name with a run there; `None`: there is no run.
    another: Option<String>,
}

/// A pruning run.
struct Pruning<'a> {
    tables: &'a Tables,
    own: &'a str,
    keep: Kept,
    /// `None`: not looked for yet.
    window: Option<Window>,
}

impl Pruning<'_> {
    fn prune(&mut self, part: Part, session: &mut Session) -> Result<(), Fault> {
        let (tables, keep) = (self.tables, self.keep);
        match part {
            Part::OwnName => prune_name(tables, self.own, keep, session),
            Part::AnotherName => {
                let another = self.window(session)?.another;
                match another.filter(|name| name != self.own) {
                    Some(name) => prune_name(tables, &name, keep, session),
                    None => Ok(()),
                }
            }
            Part::IdleNames => {
                let begin = self.window(session)?.begin;
                let idle = session.run(&ask_idle(tables, begin, keep))?;
                delete(tables, idle, session)
            }
            Part::Outputs => output::prune_outputs(tables, session),
            Part::UnusedRows if tables.has_floor() => {
                // The names before all others are found, too.
                let another = self.window(session)?.another;
                let start = another.filter(|_| chance_below(8) > 0);
                unused::prune(tables, &start.unwrap_or_default(), keep, session)
            }
            Part::UnusedRows => Ok(()),
        }
    }

    fn window(&mut self, session: &mut Session) -> Result<Window, Fault> {
        if let Some(window) = &self.window {
            return Ok(window.clone());
        }
        let begin = session.run(&ask_ages(self.tables, self.keep))?;
        let begin = begin.unwrap_or_default().begin_of_window();
        let names = session.run(&ask_names(self.tables, begin))?;
        let place = chance_below(u16::try_from(names.len()).unwrap_or(u16::MAX));
        let another = names.into_iter().nth(place.into());
        Ok(self.window.insert(Window { begin, another }).clone())
    }
}

fn prune_name(tables: &Tables, name: &str, keep: Kept, session: &mut Session) -> Result<(), Fault> {
    let old = session.run(&ask_old(tables, name, keep))?;
    delete(tables, old, session)
}

fn delete(tables: &Tables, mut runs: Vec<String>, session: &mut Session) -> Result<(), Fault> {
    // In the same order everywhere: no two wait for each other.
    runs.sort_unstable();
    // In a transaction of its own: an account that may not do it still deletes the runs.
    output::delete_outputs(tables, &runs, session)?;
    let table = tables.runs();
    let delete = runs.iter().map(|run| {
        let run = tables.kind().literal(run);
        named("prune", format!("DELETE FROM {table} WHERE run = {run}"))
    });
    delete_rows(delete.collect(), session)
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

/// Moments in microseconds since 1970, by the server's clock.
#[derive(Default)]
struct Ages {
    /// When the oldest run was requested.
    oldest: i64,
    /// Since when the history is kept, if it is not kept for longer than a server can compute.
    kept_since: Option<i64>,
    now: i64,
}

impl Ages {
    /// From when on runs of all names are looked at: half of the time from the oldest one on, and otherwise from anywhere among those that
    /// need not be kept. There may be many at the beginning that stay.
    fn begin_of_window(&self) -> i64 {
        if chance_below(2) == 0 {
            return self.oldest;
        }
        let kept_since = self.kept_since.filter(|since| self.oldest < *since);
        some_time(self.oldest, kept_since.unwrap_or(self.now))
    }
}

/// Asks for the ages of the runs; `None`: there are none.
fn ask_ages(tables: &Tables, keep: Kept) -> Ask<'static, Option<Ages>> {
    let kind = tables.kind();
    let limit = limit_of_age(kind, keep);
    let [oldest, kept_since, now] =
        ["requested_at", &limit, kind.now()].map(|moment| kind.micros(moment));
    let sql = format!(
        "SELECT {oldest} AS oldest, {kept_since} AS kept_since, {now} AS server_time FROM {} {} ORDER BY requested_at LIMIT 1",
        tables.runs(),
        kind.only_mysql(BY_TIME)
    );
    ask("ages", sql, |rows| {
        rows.optional(|row| {
            Ok(Ages {
                // An application may have written a date that is none.
                oldest: row.get_or_default("oldest")?,
                kept_since: row.get("kept_since")?,
                now: row.get("server_time")?,
            })
        })
    })
}

/// The part of a statement that reads the runs from this moment on, in the order of their times. By their times those are found, too, whose
/// ids do not begin with the time, as older dblocks have made them, or begin with that of a host whose clock was wrong.
fn window(tables: &Tables, begin: i64) -> String {
    let kind = tables.kind();
    format!(
        "FROM {} {} WHERE requested_at >= {} ORDER BY requested_at LIMIT {WINDOW}",
        tables.runs(),
        kind.only_mysql(BY_TIME),
        kind.moment(begin)
    )
}

/// Asks for the names of the runs from this moment on. A name with many runs comes up often, and names that never run again come up, too.
fn ask_names(tables: &Tables, begin: i64) -> Ask<'static, Vec<String>> {
    let sql = format!("SELECT name {}", window(tables, begin));
    ask_values("names", sql).up_to(WINDOW)
}

/// Otherwise MySQL may search the newest run of a name among those of all names.
const BY_NAME: &str = "FORCE INDEX (by_name)";

/// Otherwise MySQL may read and sort all runs, as with [`BY_KEY`](super::kept::BY_KEY).
const BY_TIME: &str = "FORCE INDEX (by_time)";

/// The ids of the oldest runs that need not be kept. It locks none of them, as a searching `DELETE` would.
fn ask_old(tables: &Tables, name: &str, keep: Kept) -> Ask<'static, Vec<String>> {
    let (kind, runs) = (tables.kind(), tables.runs());
    let (name, by_name) = (kind.literal(name), kind.only_mysql(BY_NAME));
    let sql = format!(
        "SELECT r.run FROM {runs} r {by_name} WHERE r.name = {name} AND r.requested_at < {} \
         AND r.requested_at < (SELECT requested_at FROM {runs} {by_name} WHERE name = {name} ORDER BY requested_at DESC LIMIT 1 OFFSET {}) \
         AND {} ORDER BY r.requested_at LIMIT {BATCH}",
        kind.once(limit_of_age(kind, keep)),
        keep.runs.saturating_sub(1),
        is_over("r", tables)
    );
    ask_values("old runs", sql).up_to(BATCH)
}

/// The ids of runs of names that were not used for as long as the history is kept: their newest run was requested and has ended before
/// that. If a lock or a success of the name has a row, the newest run stays, so that the row is found later. A job of the crontab is not
/// unused, however rarely it is due.
fn ask_idle(tables: &Tables, begin: i64, keep: Kept) -> Ask<'static, Vec<String>> {
    let (kind, runs) = (tables.kind(), tables.runs());
    let age = kind.once(limit_of_age(kind, keep));
    // With the order by both columns MySQL reads only the newest run, from the end of the index. With `=` PostgreSQL may go through the
    // runs of all names in the order of their times.
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
        "SELECT r.run FROM (SELECT run, name, slot, requested_at, ended_at {}) r WHERE r.requested_at < {age} AND {} AND {} \
         AND {is_no_job} AND ({} OR {} AND {}) LIMIT {BATCH}",
        window(tables, begin),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_comes_first_some_time() {
        let first: Vec<Part> = (0..500).map(|_| Part::from_any_on()[0]).collect();
        for part in Part::from_any_on() {
            assert!(first.contains(&part), "{part:?}");
        }
    }
}

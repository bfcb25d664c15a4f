//! The jobs and workers of each queue.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::jobs::JobState;
use super::narrow::{TIME_HAS_COME, TIME_WILL_COME, by_key, jobs_in, jobs_of};
use super::queues::Queue;
use crate::base::list::omit;
use crate::base::text::ServerTime;
use crate::db::sql::{NOW, micros, micros_since, micros_until, span};
use crate::db::{Ask, Fault, Kind, LIST, Row, Session, ask};
use crate::schema::{QUEUE_MINUTES, QUEUES, RUNNING, Tables, WORKERS};

/// How many rows of a state are counted at most, unless the numbers are to be exact: whoever polls a queue reads a few pages of it, however
/// many jobs it has.
const MOST_COUNTED: usize = 10_000;

/// Rates are averages over this many whole minutes.
pub const MINUTES: u32 = 5;

/// What to report.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// The queues; empty: all.
    pub names: Vec<String>,
    /// Whether to count all jobs, however many there are.
    pub exact: bool,
    /// The most queues; `None`: no limit.
    pub limit: Option<usize>,
}

/// A number of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// How many were counted.
    pub jobs: u64,
    /// Whether there are more.
    pub more: bool,
}

/// The state of a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The queue.
    pub name: String,
    /// Since when it is paused.
    pub paused: Option<ServerTime>,
    /// Since when it is being deleted.
    pub deleted: Option<ServerTime>,
    /// Jobs that are due, also delayed ones whose time has come.
    pub due: Count,
    /// The other delayed ones.
    pub delayed: Count,
    pub running: Count,
    pub dead: Count,
    /// How long the oldest of the due jobs that were counted has been due.
    pub oldest_due: Option<Duration>,
    /// Jobs done and attempts failed in the last [`MINUTES`] whole minutes.
    pub done: u64,
    pub failed: u64,
}

/// A worker, also for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    /// Its number.
    pub id: u64,
    pub host: Option<String>,
    pub pid: Option<u64>,
    pub user: Option<String>,
    pub program: Option<String>,
    /// How many commands it runs at once.
    pub max_commands: u32,
    /// The number of jobs that it holds.
    pub running: u64,
    pub started: ServerTime,
    pub renewed: ServerTime,
    /// Whether it has not ended, and its lease is not over.
    pub alive: bool,
}

/// A worker, and the times since it was started and since it was renewed, by the server's clock.
pub type ListedWorker = (Worker, [Duration; 2]);

/// A finding: a queue, and after it each of its workers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum StatusItem {
    Queue(Box<Summary>),
    Worker(Box<ListedWorker>),
    /// There is no queue of this name.
    Missing(String),
}

/// Reports queues, by name. Returns how many are left out because of the limit.
///
/// # Errors
/// Those of a statement.
pub fn status(
    scope: &Scope,
    tables: &Tables,
    session: &mut Session,
    mut report: impl FnMut(StatusItem),
) -> Result<usize, Fault> {
    let mut queues = session.run(&ask_queues(tables, &scope.names))?;
    for name in &scope.names {
        if !queues.iter().any(|queue| queue.name == *name) {
            report(StatusItem::Missing(name.clone()));
        }
    }
    let omitted = omit(&mut queues, scope.limit);
    for QueueRow {
        id,
        name,
        paused,
        deleted,
    } in queues
    {
        let mut count = |parts: &[Part]| count_jobs(id, parts, scope.exact, tables, session);
        let (due, oldest_due) = count(&ALL_DUE)?;
        let (delayed, _) = count(&NOT_YET_DUE)?;
        let (running, _) = count(&[(JobState::Running, "")])?;
        let (dead, _) = count(&[(JobState::Dead, "")])?;
        let (done, failed) = session.run(&ask_minutes(tables, id))?;
        report(StatusItem::Queue(Box::new(Summary {
            name,
            paused,
            deleted,
            due,
            delayed,
            running,
            dead,
            oldest_due,
            done,
            failed,
        })));
        for worker in session.run(&ask_workers(tables, id))? {
            report(StatusItem::Worker(Box::new(worker)));
        }
    }
    Ok(omitted)
}

/// How many of a queue's jobs are due, without delayed ones.
pub fn ask_due(tables: &Tables, queue: &Queue) -> Ask<'static, Count> {
    let due = (JobState::Due, "");
    ask_first(tables, queue.id, due, MOST_COUNTED + 1).map(|first| add_up(&first).0)
}

struct QueueRow {
    id: u32,
    name: String,
    paused: Option<ServerTime>,
    deleted: Option<ServerTime>,
}

/// Queues by their names, or all.
fn ask_queues(tables: &Tables, names: &[String]) -> Ask<'static, Vec<QueueRow>> {
    let which = if names.is_empty() {
        String::new()
    } else {
        format!("WHERE name IN ({}) ", Kind::MySql.literals(names))
    };
    let sql = format!(
        "SELECT id, name, {} AS paused, {} AS deleted FROM {} {which}ORDER BY name",
        micros("paused_at"),
        micros("deleted_at"),
        tables.of(&QUEUES)
    );
    let queues = ask("queue status", sql, |rows| {
        rows.all(|row| {
            Ok(QueueRow {
                id: row.get("id")?,
                name: row.get("name")?,
                paused: row.get("paused")?,
                deleted: row.get("deleted")?,
            })
        })
    });
    queues.up_to(LIST)
}

/// Jobs that were counted: how many, and how long the oldest of them has been due.
type Counted = (Count, Option<Duration>);

/// Rows `n` that are counted: those of a state, and the SQL of a further condition on them.
type Part = (JobState, &'static str);

/// Jobs that are due. Of the delayed ones among them the oldest come first.
const ALL_DUE: [Part; 2] = [(JobState::Delayed, TIME_HAS_COME), (JobState::Due, "")];

/// The other delayed jobs.
const NOT_YET_DUE: [Part; 1] = [(JobState::Delayed, TIME_WILL_COME)];

/// Counts the jobs of a queue in these rows together: all of them, or the first ones.
fn count_jobs(
    queue: u32,
    parts: &[Part],
    exact: bool,
    tables: &Tables,
    session: &mut Session,
) -> Result<Counted, Fault> {
    if exact {
        let mut jobs = 0;
        let mut oldest = None;
        for part in parts {
            let (count, oldest_of_part) = session.run(&ask_all(tables, queue, *part))?;
            jobs += count.jobs;
            oldest = oldest_of_part.max(oldest);
        }
        return Ok((Count { jobs, more: false }, oldest));
    }
    let mut first = Vec::new();
    for part in parts {
        // One more than are counted shows that there are more.
        let limit = MOST_COUNTED + 1 - first.len();
        if limit > 0 {
            first.extend(session.run(&ask_first(tables, queue, *part, limit))?);
        }
    }
    Ok(add_up(&first))
}

/// All jobs of a queue in these rows, counted by the server.
fn ask_all(tables: &Tables, queue: u32, part: Part) -> Ask<'static, Counted> {
    let sql = format!(
        "SELECT CAST(COALESCE(SUM({}), 0) AS UNSIGNED) AS jobs, {} AS due_for FROM {}",
        jobs_of("n"),
        micros_since("MIN(n.due_at)"),
        rows_of(tables, queue, part)
    );
    ask("queue count", sql, |rows| {
        let row = rows.one()?;
        let (jobs, due_for): (u64, Option<i64>) = (row.get("jobs")?, row.get("due_for")?);
        let count = Count { jobs, more: false };
        Ok((count, due_for.map(span)))
    })
}

/// The first of these rows: of each how many jobs it is for, and in how many microseconds these are due. They are added up here. To add up
/// these alone, a server would write them to a temporary table, and so read each of them twice.
fn ask_first(
    tables: &Tables,
    queue: u32,
    part: Part,
    limit: usize,
) -> Ask<'static, Vec<(u32, Option<i64>)>> {
    // Of jobs in other states nobody asks for that.
    let due_in = match part {
        (JobState::Due | JobState::Delayed, _) => micros_until("n.due_at"),
        _ => "NULL".to_owned(),
    };
    let sql = format!(
        "SELECT n.jobs, {due_in} AS due_in FROM {} LIMIT {limit}",
        rows_of(tables, queue, part)
    );
    let first = ask("queue count", sql, |rows| {
        rows.all(|row| Ok((jobs_in(row)?, row.get("due_in")?)))
    });
    first.up_to(limit)
}

/// These rows `n` of a queue: the end of a statement.
fn rows_of(tables: &Tables, queue: u32, (state, besides): Part) -> String {
    match state {
        JobState::Running => format!(
            "{} w JOIN {} n ON n.worker = w.worker WHERE w.queue = {queue} AND w.expires_at IS NOT NULL{besides}",
            tables.of(&WORKERS),
            tables.of(&RUNNING)
        ),
        _ => format!(
            "{} WHERE n.queue = {queue}{besides}",
            by_key(tables, state.table(), "n")
        ),
    }
}

/// What the first rows say, which are as [`ask_first`] reads them.
fn add_up(first: &[(u32, Option<i64>)]) -> Counted {
    let more = first.len() > MOST_COUNTED;
    let jobs: u64 = first.iter().map(|(jobs, _)| u64::from(*jobs)).sum();
    let count = Count {
        jobs: jobs - u64::from(more),
        more,
    };
    // An application may have written no date. It comes before all others, as in the server's MIN.
    let due_in = first.iter().map(|(_, due_in)| *due_in).min().flatten();
    (count, due_in.map(|micros| span(micros.saturating_neg())))
}

/// A queue's jobs done and attempts failed in the last whole minutes.
fn ask_minutes(tables: &Tables, queue: u32) -> Ask<'static, (u64, u64)> {
    let this = "CAST(DATE_FORMAT(UTC_TIMESTAMP(), '%Y-%m-%d %H:%i:00') AS DATETIME)";
    let sql = format!(
        "SELECT CAST(COALESCE(SUM(done), 0) AS UNSIGNED) AS done, \
         CAST(COALESCE(SUM(failed), 0) AS UNSIGNED) AS failed FROM {} WHERE queue = {queue} AND minute >= {this} - INTERVAL {MINUTES} MINUTE \
         AND minute < {this}",
        tables.of(&QUEUE_MINUTES)
    );
    ask("queue minutes", sql, |rows| {
        let row = rows.one()?;
        Ok((row.get("done")?, row.get("failed")?))
    })
}

/// The workers of a queue that are registered, or died in the last day.
fn ask_workers(tables: &Tables, queue: u32) -> Ask<'static, Vec<ListedWorker>> {
    let sql = format!(
        "SELECT w.worker, w.host, w.pid, w.user, w.program, w.slots, {} AS started, {} AS renewed, {} AS renewed_ago, {} AS started_ago, \
         (SELECT CAST(COALESCE(SUM({}), 0) AS UNSIGNED) FROM {} r WHERE r.worker = w.worker) AS running, \
         w.expires_at IS NULL OR w.expires_at <= {NOW} AS is_gone FROM {} w FORCE INDEX (by_queue) WHERE w.queue = {queue} AND (w.expires_at IS NOT NULL \
         OR w.expires_at IS NULL AND w.died = 1 AND w.gone_at > {NOW} - INTERVAL 1 DAY)",
        micros("w.started_at"),
        micros("w.renewed_at"),
        micros_since("w.renewed_at"),
        micros_since("w.started_at"),
        jobs_of("r"),
        tables.of(&RUNNING),
        tables.of(&WORKERS)
    );
    let workers = ask("queue workers", sql, |rows| {
        let mut workers: Vec<ListedWorker> = rows.all(worker)?;
        workers.sort_by_key(|(worker, _)| worker.id);
        Ok(workers)
    });
    workers.up_to(LIST)
}

fn worker(row: &Row) -> Result<ListedWorker, Fault> {
    let ago = |column| Ok::<_, Fault>(span(row.get_or_default(column)?));
    let is_gone: bool = row.get("is_gone")?;
    let worker = Worker {
        id: row.get("worker")?,
        host: WORKERS.text("host", row)?,
        pid: row.get("pid")?,
        user: WORKERS.text("user", row)?,
        program: WORKERS.text("program", row)?,
        max_commands: row.get("slots")?,
        running: row.get("running")?,
        started: row.get_or_default("started")?,
        renewed: row.get_or_default("renewed")?,
        alive: !is_gone,
    };
    Ok((worker, [ago("started_ago")?, ago("renewed_ago")?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_more_rows_than_are_counted_the_last_says_only_that_there_are_more() {
        for (rows, jobs_of_each, jobs, more) in [
            (0, 1, 0, false),
            (MOST_COUNTED, 1, 10_000, false),
            (MOST_COUNTED + 1, 1, 10_000, true),
            // Blocks.
            (2, 500, 1000, false),
            (MOST_COUNTED + 1, 500, 5_000_499, true),
        ] {
            let (count, _) = add_up(&vec![(jobs_of_each, None); rows]);
            assert_eq!(count, Count { jobs, more }, "{rows} rows");
        }
    }

    #[test]
    fn the_oldest_job_is_the_one_that_has_been_due_longest() {
        let oldest = |all: &[Option<i64>]| {
            let rows: Vec<_> = all.iter().map(|due_in| (1, *due_in)).collect();
            add_up(&rows).1
        };
        let micros = |micros| Some(Duration::from_micros(micros));
        assert_eq!(oldest(&[]), None);
        assert_eq!(oldest(&[Some(-3), Some(-7), Some(5)]), micros(7));
        assert_eq!(oldest(&[Some(5)]), micros(0));
        assert_eq!(oldest(&[Some(i64::MIN)]), micros(i64::MAX.unsigned_abs()));
        // One without a date.
        assert_eq!(oldest(&[Some(-7), None]), None);
    }
}

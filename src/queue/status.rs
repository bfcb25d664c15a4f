//! The jobs and workers of each queue.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::entries::{micros, time};
use super::jobs::State;
use crate::db::{Fault, LIST, Row, Session, Statement, text_literal};
use crate::schema::{QUEUE_MINUTES, QUEUES, RUNNING, Tables, WORKERS};

/// How many rows of a state are counted at most.
pub const MOST_COUNTED: u64 = 1_000_000;

/// Rates are averages over this many whole minutes.
pub const MINUTES: u32 = 5;

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
    pub paused: Option<SystemTime>,
    /// Since when it is being deleted.
    pub deleted: Option<SystemTime>,
    pub due: Count,
    pub delayed: Count,
    pub running: Count,
    pub dead: Count,
    /// How long the oldest due job has been due.
    pub oldest_due: Option<Duration>,
    /// Jobs done and attempts failed in the last [`MINUTES`] whole minutes.
    pub done: u64,
    pub failed: u64,
}

/// A worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    /// Its number.
    pub number: u64,
    pub host: Option<String>,
    pub pid: Option<u64>,
    pub user: Option<String>,
    pub program: Option<String>,
    /// How many commands it runs at once.
    pub slots: u32,
    pub started: SystemTime,
    pub renewed: SystemTime,
    /// The times since then, by the server's clock.
    pub renewed_ago: Duration,
    pub started_ago: Duration,
    /// The number of jobs that it holds.
    pub running: u64,
    /// Whether its lease is over, or it died in the last day.
    pub gone: bool,
}

/// A finding: a queue, and after it each of its workers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Found {
    Queue(Box<Summary>),
    Worker(Box<Worker>),
    /// There is no queue of this name.
    Missing(String),
}

/// Reports some queues, or all of them.
///
/// # Errors
/// Those of a statement.
pub fn status(
    names: &[String],
    tables: &Tables,
    session: &mut Session,
    mut report: impl FnMut(Found),
) -> Result<(), Fault> {
    let queues = session.run(&AskQueues { tables, names })?;
    for name in names {
        if !queues.iter().any(|queue| queue.name == *name) {
            report(Found::Missing(name.clone()));
        }
    }
    for QueueRow {
        id,
        name,
        paused,
        deleted,
    } in queues
    {
        let (due, oldest_due) = session.run(&AskCount {
            tables,
            queue: id,
            state: State::Due,
        })?;
        let mut count = |state| {
            let asked = session.run(&AskCount {
                tables,
                queue: id,
                state,
            });
            asked.map(|(count, _)| count)
        };
        let (delayed, running, dead) = (
            count(State::Delayed)?,
            count(State::Running)?,
            count(State::Dead)?,
        );
        let (done, failed) = session.run(&AskMinutes { tables, queue: id })?;
        report(Found::Queue(Box::new(Summary {
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
        for worker in session.run(&AskWorkers { tables, queue: id })? {
            report(Found::Worker(Box::new(worker)));
        }
    }
    Ok(())
}

struct QueueRow {
    id: u32,
    name: String,
    paused: Option<SystemTime>,
    deleted: Option<SystemTime>,
}

/// Queues by their names, or all.
struct AskQueues<'a> {
    tables: &'a Tables,
    names: &'a [String],
}

impl Statement for AskQueues<'_> {
    type Answer = Vec<QueueRow>;

    const MOST_ROWS: usize = LIST;

    fn sql(&self) -> String {
        let names: Vec<_> = self.names.iter().map(|name| text_literal(name)).collect();
        let which = if names.is_empty() {
            String::new()
        } else {
            format!("WHERE name IN ({}) ", names.join(", "))
        };
        format!(
            "/* dblock queue status */ SELECT id, name, {}, {} FROM {} {which}ORDER BY name",
            micros("paused_at"),
            micros("deleted_at"),
            self.tables.of(&QUEUES)
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let mut queues = Vec::new();
        for row in rows {
            queues.push(QueueRow {
                id: row.old(0)?.unwrap_or_default(),
                name: row.text(1)?.unwrap_or_default(),
                paused: row.old(2)?.map(time),
                deleted: row.old(3)?.map(time),
            });
        }
        Ok(queues)
    }
}

/// The number of a queue's jobs in a state, up to the limit, and how long ago the first one was due.
struct AskCount<'a> {
    tables: &'a Tables,
    queue: u32,
    state: State,
}

impl Statement for AskCount<'_> {
    type Answer = (Count, Option<Duration>);

    fn sql(&self) -> String {
        let (queue, most) = (self.queue, MOST_COUNTED + 1);
        let table = self.tables.of(self.state.table());
        let from = match self.state {
            State::Running => format!(
                "{} w JOIN {table} n ON n.worker = w.worker WHERE w.queue = {queue} AND w.expires_at IS NOT NULL",
                self.tables.of(&WORKERS)
            ),
            _ => format!("{table} n WHERE n.queue = {queue}"),
        };
        format!(
            "/* dblock queue count */ SELECT CAST(COALESCE(SUM(jobs), 0) AS UNSIGNED), COUNT(*), {} FROM \
             (SELECT n.jobs, n.due_at FROM {from} LIMIT {most}) some",
            "TIMESTAMPDIFF(MICROSECOND, MIN(due_at), UTC_TIMESTAMP(6))"
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let Some(row) = rows.first() else {
            return Ok((
                Count {
                    jobs: 0,
                    more: false,
                },
                None,
            ));
        };
        let counted: u64 = row.old(1)?.unwrap_or_default();
        let count = Count {
            jobs: row.old(0)?.unwrap_or_default(),
            more: counted > MOST_COUNTED,
        };
        Ok((count, row.old(2)?.map(span)))
    }
}

/// A span from the server. Negative ones become zero.
fn span(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}

/// A queue's jobs done and attempts failed in the last whole minutes.
struct AskMinutes<'a> {
    tables: &'a Tables,
    queue: u32,
}

impl Statement for AskMinutes<'_> {
    type Answer = (u64, u64);

    fn sql(&self) -> String {
        let this = "CAST(DATE_FORMAT(UTC_TIMESTAMP(), '%Y-%m-%d %H:%i:00') AS DATETIME)";
        format!(
            "/* dblock queue minutes */ SELECT CAST(COALESCE(SUM(done), 0) AS UNSIGNED), \
             CAST(COALESCE(SUM(failed), 0) AS UNSIGNED) FROM {} WHERE queue = {} AND minute >= {this} - INTERVAL {MINUTES} MINUTE \
             AND minute < {this}",
            self.tables.of(&QUEUE_MINUTES),
            self.queue
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let Some(row) = rows.first() else {
            return Ok((0, 0));
        };
        Ok((
            row.old(0)?.unwrap_or_default(),
            row.old(1)?.unwrap_or_default(),
        ))
    }
}

/// The workers of a queue that are registered, or died in the last day.
struct AskWorkers<'a> {
    tables: &'a Tables,
    queue: u32,
}

impl Statement for AskWorkers<'_> {
    type Answer = Vec<Worker>;

    const MOST_ROWS: usize = LIST;

    fn sql(&self) -> String {
        let ago = |column: &str| format!("TIMESTAMPDIFF(MICROSECOND, {column}, UTC_TIMESTAMP(6))");
        format!(
            "/* dblock queue workers */ SELECT w.worker, w.host, w.pid, w.user, w.program, w.slots, {}, {}, {}, {}, \
             (SELECT CAST(COALESCE(SUM(r.jobs), 0) AS UNSIGNED) FROM {} r WHERE r.worker = w.worker), \
             w.expires_at IS NULL OR w.expires_at <= UTC_TIMESTAMP(6) FROM {} w FORCE INDEX (by_queue) WHERE w.queue = {} AND (w.expires_at IS NOT NULL \
             OR w.expires_at IS NULL AND w.died = 1 AND w.gone_at > UTC_TIMESTAMP(6) - INTERVAL 1 DAY)",
            micros("w.started_at"),
            micros("w.renewed_at"),
            ago("w.renewed_at"),
            ago("w.started_at"),
            self.tables.of(&RUNNING),
            self.tables.of(&WORKERS),
            self.queue
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let mut workers = Vec::new();
        for row in rows {
            let text = |column: usize, name: &str| {
                let cut = |text: String| text.chars().take(WORKERS.width(name)).collect::<String>();
                Ok::<_, Fault>(row.text(column)?.map(cut))
            };
            workers.push(Worker {
                number: row.old(0)?.unwrap_or_default(),
                host: text(1, "host")?,
                pid: row.old(2)?,
                user: text(3, "user")?,
                program: text(4, "program")?,
                slots: row.old(5)?.unwrap_or_default(),
                started: time(row.old(6)?.unwrap_or_default()),
                renewed: time(row.old(7)?.unwrap_or_default()),
                renewed_ago: span(row.old(8)?.unwrap_or_default()),
                started_ago: span(row.old(9)?.unwrap_or_default()),
                running: row.old(10)?.unwrap_or_default(),
                gone: row.old::<u8>(11)? == Some(1),
            });
        }
        workers.sort_by_key(|worker| worker.number);
        Ok(workers)
    }
}

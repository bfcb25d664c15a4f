//! Lists the jobs of a queue, in their order.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::entries::{Entry, ask_ids, ask_workers};
use super::jobs::JobState;
use super::narrow::{TIME_HAS_COME, TIME_WILL_COME};
use super::queues::Queue;
use crate::base::text::ServerTime;
use crate::db::sql::{moment, time};
use crate::db::{Ask, Fault, Row, Session, ask};
use crate::schema::{JOBS, Tables, WORKERS};

/// How many rows are read at once.
const PAGE: usize = 200;

/// How many rows all shards together may keep in memory.
const KEPT: usize = 20_000;

/// A job of a list, also for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    pub id: u64,
    pub state: JobState,
    pub priority: i32,
    /// When it is or was due; `None`: unknown.
    pub due_at: Option<ServerTime>,
    /// When it was due, claimed, died or was done; `None`: unknown, or it is to be due.
    pub state_since: Option<ServerTime>,
    /// How often it was started.
    pub attempt: u32,
    pub key: Option<String>,
    /// The host and process of its worker.
    pub host: Option<String>,
    pub pid: Option<u64>,
    /// Whether it will not run again.
    pub canceled: bool,
    pub last_error: Option<String>,
}

/// What the wide table says of a job, and the host and process of its worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wide {
    key: Option<String>,
    last_error: Option<String>,
    canceled: bool,
    pub host: Option<String>,
    pub pid: Option<u64>,
}

impl Listed {
    pub(super) fn new(id: u64, entry: &Entry, wide: Wide) -> Self {
        let at = |micros: i64| (micros > 0).then(|| ServerTime(time(micros)));
        let state = if entry.is_due {
            JobState::Due
        } else {
            entry.state
        };
        Self {
            id,
            state,
            priority: entry.priority,
            due_at: at(entry.due_at),
            state_since: at(entry.since).filter(|_| state != JobState::Delayed),
            attempt: entry.attempt,
            key: wide.key,
            host: wide.host,
            pid: wide.pid,
            canceled: wide.canceled,
            last_error: wide.last_error,
        }
    }
}

/// Reports the jobs of a queue in one state, or in all but done, in their order and up to `limit`.
///
/// # Errors
/// Those of a statement.
pub fn list(
    queue: &Queue,
    state: Option<JobState>,
    limit: Option<usize>,
    tables: &Tables,
    session: &mut Session,
    mut report: impl FnMut(Listed),
) -> Result<(), Fault> {
    // Delayed jobs whose time has come are due, and are listed behind the others that are.
    let parts = match state {
        None => vec![
            (JobState::Running, ""),
            (JobState::Due, ""),
            (JobState::Delayed, ""),
            (JobState::Dead, ""),
        ],
        Some(JobState::Due) => vec![(JobState::Due, ""), (JobState::Delayed, TIME_HAS_COME)],
        Some(JobState::Delayed) => vec![(JobState::Delayed, TIME_WILL_COME)],
        Some(state) => vec![(state, "")],
    };
    let mut left = limit.unwrap_or(usize::MAX);
    for part in parts {
        let mut cursors = cursors(queue, part, left, tables, session)?;
        while left > 0 {
            let mut next: Option<(usize, (i32, u64))> = None;
            for (number, cursor) in cursors.iter_mut().enumerate() {
                let Some((entry, _)) = cursor.front(queue, tables, session)? else {
                    continue;
                };
                // Due jobs of all shards are merged in this order. In other states the cursors follow one after the other.
                let rank = (entry.priority, entry.job);
                if cursor.shard.is_none() || next.is_none_or(|(_, first)| rank < first) {
                    next = Some((number, rank));
                    if cursor.shard.is_none() {
                        break;
                    }
                }
            }
            let Some((number, _)) = next else { break };
            let Some((entry, wide)) = cursors[number].rows.pop_front() else {
                break;
            };
            if !entry.is_block() {
                report(Listed::new(entry.job, &entry, wide));
                left -= 1;
                continue;
            }
            let mut first = entry.job;
            while left > 0 {
                let range = (first, entry.last_job);
                let ids = session.run(&ask_ids(tables, entry.block, range, PAGE.min(left)))?;
                let Some(&last) = ids.last() else { break };
                for id in ids {
                    let error = session.run(&ask_wide(tables, id))?;
                    let Some(of_job) = error else { continue };
                    let wide = Wide {
                        host: wide.host.clone(),
                        pid: wide.pid,
                        ..of_job
                    };
                    report(Listed::new(id, &entry, wide));
                    left -= 1;
                }
                first = last.saturating_add(1);
            }
        }
    }
    Ok(())
}

/// The position of a list in a table, or in one shard or one worker of it.
struct Cursor {
    state: JobState,
    /// The SQL of a further condition on the rows.
    besides: &'static str,
    shard: Option<u16>,
    worker: Option<u64>,
    page: usize,
    rows: VecDeque<(Entry, Wide)>,
    last: Option<Entry>,
    is_over: bool,
}

fn cursors(
    queue: &Queue,
    (state, besides): (JobState, &'static str),
    left: usize,
    tables: &Tables,
    session: &mut Session,
) -> Result<Vec<Cursor>, Fault> {
    let cursor = |shard: Option<u16>, worker| {
        let shards = if shard.is_some() {
            usize::from(queue.shards)
        } else {
            1
        };
        Cursor {
            state,
            besides,
            shard,
            worker,
            page: (KEPT / shards).clamp(10, PAGE).min(left.max(1)),
            rows: VecDeque::new(),
            last: None,
            is_over: false,
        }
    };
    Ok(match state {
        JobState::Due => (0..queue.shards)
            .map(|shard| cursor(Some(shard), None))
            .collect(),
        JobState::Running => {
            let workers = session.run(&ask_workers(tables, queue.id))?;
            workers
                .into_iter()
                .map(|worker| cursor(None, Some(worker)))
                .collect()
        }
        _ => vec![cursor(None, None)],
    })
}

impl Cursor {
    /// The next row, if any.
    fn front(
        &mut self,
        queue: &Queue,
        tables: &Tables,
        session: &mut Session,
    ) -> Result<Option<&(Entry, Wide)>, Fault> {
        if self.rows.is_empty() && !self.is_over {
            self.read(queue, tables, session)?;
        }
        Ok(self.rows.front())
    }

    /// Reads the next page: first the rows equal to the last one apart from the job, then the rows after it.
    fn read(&mut self, queue: &Queue, tables: &Tables, session: &mut Session) -> Result<(), Fault> {
        for which in self.conditions(queue.id) {
            let rows = session.run(&ask_page(tables, self.state, &which, self.page))?;
            if let Some((last, _)) = rows.last() {
                self.last = Some(*last);
                self.rows.extend(rows);
                return Ok(());
            }
        }
        self.is_over = true;
        Ok(())
    }

    /// The SQL after WHERE for each: which rows, and their order.
    fn conditions(&self, queue: u32) -> Vec<String> {
        let of_queue = format!("n.queue = {queue}{}", self.besides);
        // Which rows there are, what they are sorted by besides the job, and whether the greatest comes first.
        let (which, by, is_descending) = match self.state {
            JobState::Due => {
                let shard = self.shard.unwrap_or_default();
                let of_shard = format!("{of_queue} AND n.shard = {shard}");
                (of_shard, &["n.queue", "n.shard", "n.priority"][..], false)
            }
            JobState::Delayed => (of_queue, &["n.queue", "n.due_at"][..], false),
            JobState::Done => (of_queue, &["n.queue", "n.done_at"][..], true),
            JobState::Dead => (of_queue, &["n.queue"][..], true),
            JobState::Running => {
                let worker = self.worker.unwrap_or_default();
                (format!("n.worker = {worker}"), &["n.worker"][..], false)
            }
        };
        let (than, direction) = if is_descending {
            ("<", " DESC")
        } else {
            (">", "")
        };
        let order = [by, &["n.job"]].concat().join(&format!("{direction}, "));
        let order = format!("ORDER BY {order}{direction}");
        let Some(last) = &self.last else {
            return vec![format!("{which} {order}")];
        };
        let behind = format!("n.job {than} {}", last.job);
        let value = match self.state {
            JobState::Due => last.priority.to_string(),
            JobState::Delayed | JobState::Done => moment(last.since),
            JobState::Dead | JobState::Running => {
                return vec![format!("{which} AND {behind} {order}")];
            }
        };
        let column = by[by.len() - 1];
        vec![
            format!("{which} AND {column} = {value} AND {behind} {order}"),
            format!("{which} AND {column} {than} {value} {order}"),
        ]
    }
}

/// Some rows of a table, with the details of their jobs. `which` is the SQL after WHERE.
fn ask_page(
    tables: &Tables,
    state: JobState,
    which: &str,
    limit: usize,
) -> Ask<'static, Vec<(Entry, Wide)>> {
    let (worker, join) = match state {
        JobState::Running => (
            "w.host, w.pid",
            format!(
                "LEFT JOIN {} w ON w.worker = n.worker ",
                tables.of(&WORKERS)
            ),
        ),
        _ => (NO_WORKER, String::new()),
    };
    let sql = format!(
        "SELECT {}, j.job_key, j.last_error, j.canceled_at IS NOT NULL AS is_canceled, {worker} FROM {} n {join}\
         LEFT JOIN {} j ON j.id = n.job WHERE {which} LIMIT {limit}",
        state.columns(),
        tables.of(state.table()),
        tables.of(&JOBS)
    );
    let page = ask("queue list", sql, move |rows| {
        rows.all(|row| Ok((Entry::read(state, row)?, Wide::read(row)?)))
    });
    page.up_to(PAGE)
}

/// In place of the columns of a worker.
const NO_WORKER: &str = "NULL AS host, NULL AS pid";

/// The columns of the wide table that [`Wide::read`] reads.
pub(super) fn wide_columns() -> String {
    format!("job_key, last_error, canceled_at IS NOT NULL AS is_canceled, {NO_WORKER}")
}

impl Wide {
    /// Reads these columns.
    pub(super) fn read(row: &Row) -> Result<Self, Fault> {
        Ok(Self {
            key: JOBS.text("job_key", row)?,
            last_error: JOBS.text("last_error", row)?,
            canceled: row.get("is_canceled")?,
            host: WORKERS.text("host", row)?,
            pid: row.get("pid")?,
        })
    }
}

/// What the wide table says of a job.
fn ask_wide(tables: &Tables, id: u64) -> Ask<'static, Option<Wide>> {
    let sql = format!(
        "SELECT {} FROM {} WHERE id = {id}",
        wide_columns(),
        tables.of(&JOBS)
    );
    ask("queue list", sql, |rows| rows.optional(Wide::read))
}

//! The rows of the narrow tables: waiting, running, dead and done jobs. Each row is for one job or one block.

use std::fmt::Write;

use super::jobs::{JobState, MOST_JOBS};
use super::narrow::{LONGEST_BLOCK, NAMED, block_of, jobs_in};
use super::payloads::{MOST_PARTS, PIECE};
use crate::db::sql::{NOW, micros, moment, numbers};
use crate::db::{Ask, Fault, LIST, Row, Session, ask, ask_values, command};
use crate::schema::{DEAD, DELAYED, DONE, DUE, JOB_PARTS, JOBS, RUNNING, Table, Tables, WORKERS};

/// How many rows one statement deletes at most.
pub const MOST_DELETED: u64 = 500;

/// How many rows have their jobs deleted at once.
pub const MOST_ENTRIES: usize = NAMED;

/// Most jobs in a block.
const LARGEST_BLOCK: u64 = MOST_JOBS as u64;

/// The step from one id to the next may have been as long as this when a job was put, though it is shorter now: a cluster of so many nodes
/// has fewer now.
const FORMER_STEP: u64 = 16;

impl JobState {
    /// The table of this state.
    pub(super) fn table(self) -> &'static Table {
        match self {
            Self::Running => &RUNNING,
            Self::Due => &DUE,
            Self::Delayed => &DELAYED,
            Self::Dead => &DEAD,
            Self::Done => &DONE,
        }
    }

    /// The column with the start of this state.
    fn since(self) -> &'static str {
        match self {
            Self::Running => "claimed_at",
            Self::Due | Self::Delayed => "due_at",
            Self::Dead => "died_at",
            Self::Done => "done_at",
        }
    }

    /// The columns that are read of a row `n` of this state's table.
    pub(super) fn columns(self) -> String {
        let worker = match self {
            Self::Running => "n.worker",
            _ => "NULL",
        };
        let is_due = match self {
            Self::Delayed => format!("n.due_at <= {NOW}"),
            _ => "FALSE".to_owned(),
        };
        format!(
            "n.queue, n.shard, n.priority, n.job, n.last_job, n.block, n.jobs, n.attempt, n.fence, n.every_us, {} AS due, {} AS since, \
             {worker} AS worker, {is_due} AS is_due",
            micros("n.due_at"),
            micros(&format!("n.{}", self.since())),
        )
    }
}

/// A row of a narrow table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub state: JobState,
    pub queue: u32,
    pub shard: u16,
    pub priority: i32,
    /// The job, or the first of the block.
    pub job: u64,
    /// The last of the block; 0: a single job.
    pub last_job: u64,
    pub block: u64,
    pub jobs: u32,
    pub attempt: u32,
    pub fence: u64,
    pub every_us: Option<u64>,
    /// In microseconds since 1970, UTC, as all moments here.
    pub due_at: i64,
    /// When it was claimed, died or was done. For a waiting job, when it is due.
    pub since: i64,
    pub worker: Option<u64>,
    /// Whether it is a delayed job whose time has come.
    pub is_due: bool,
}

impl Entry {
    pub fn read(state: JobState, row: &Row) -> Result<Self, Fault> {
        let (last_job, block) = block_of(row)?;
        Ok(Self {
            state,
            queue: row.get("queue")?,
            shard: row.get("shard")?,
            priority: row.get("priority")?,
            job: row.get("job")?,
            last_job,
            block,
            jobs: jobs_in(row)?,
            attempt: row.get("attempt")?,
            fence: row.get("fence")?,
            every_us: row.get("every_us")?,
            // An application may have written a date that is none.
            due_at: row.get_or_default("due")?,
            since: row.get_or_default("since")?,
            worker: row.get("worker")?,
            is_due: row.get("is_due")?,
        })
    }

    /// Whether the row is for a block.
    pub fn is_block(&self) -> bool {
        self.last_job > 0
    }

    /// The condition on its primary key.
    pub fn key(&self) -> String {
        let (queue, job) = (self.queue, self.job);
        match self.state {
            JobState::Running => format!(
                "worker = {} AND job = {job}",
                self.worker.unwrap_or_default()
            ),
            JobState::Due => format!(
                "queue = {queue} AND shard = {} AND priority = {} AND job = {job}",
                self.shard, self.priority
            ),
            JobState::Delayed => {
                let is_due_then = is_at("due_at", self.due_at);
                format!("queue = {queue} AND {is_due_then} AND job = {job}")
            }
            JobState::Dead => format!("queue = {queue} AND job = {job}"),
            JobState::Done => {
                let was_done_then = is_at("done_at", self.since);
                format!("queue = {queue} AND {was_done_then} AND job = {job}")
            }
        }
    }
}

/// The condition that a column has this moment as it was read. An application may have written a date that is none.
fn is_at(column: &str, at: i64) -> String {
    match at {
        0 => format!("COALESCE({}, 0) = 0", micros(column)),
        _ => format!("{column} = {}", moment(at)),
    }
}

/// Rows of a narrow table. `which` is the SQL after `FROM … n`: conditions, order and limit.
pub(super) fn ask_entries(
    tables: &Tables,
    state: JobState,
    which: &str,
) -> Ask<'static, Vec<Entry>> {
    let sql = format!(
        "SELECT {} FROM {} n {which}",
        state.columns(),
        tables.of(state.table())
    );
    let entries = ask("queue entries", sql, move |rows| {
        rows.all(|row| Entry::read(state, row))
    });
    entries.up_to(LIST)
}

/// What the wide table says of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    pub id: u64,
    pub queue: u32,
    pub shard: u16,
    pub priority: i32,
    pub block: u64,
    pub key: Option<String>,
    /// The server's step from one id to the next.
    pub step: u64,
}

/// Finds a job of a queue.
pub(super) fn ask_job(tables: &Tables, queue: u32, id: u64) -> Ask<'static, Option<Job>> {
    let sql = format!(
        "SELECT shard, priority, block, job_key, @@auto_increment_increment AS step FROM {} \
         WHERE id = {id} AND queue = {queue}",
        tables.of(&JOBS)
    );
    ask("queue job", sql, move |rows| {
        rows.optional(|row| {
            Ok(Job {
                id,
                queue,
                shard: row.get("shard")?,
                priority: row.get("priority")?,
                block: row.get("block")?,
                key: row.get("job_key")?,
                step: row.get("step")?,
            })
        })
    })
}

impl Job {
    /// The condition on the row `n` of this job.
    fn is_it(&self) -> String {
        let (id, block) = (self.id, self.block);
        // A block's first job has an id at most this much smaller.
        let first = id.saturating_sub(LARGEST_BLOCK * self.step.max(FORMER_STEP));
        // As in `block_of`: what reaches further is no block.
        format!(
            "n.job BETWEEN {first} AND {id} AND (n.job = {id} OR n.block = {block} AND n.block > 0 AND n.last_job >= {id} AND n.last_job < n.job + {LONGEST_BLOCK})"
        )
    }

    /// The SQL after `FROM … n` for the row of this job in this state; `None`: there is no key for that.
    fn in_state(&self, state: JobState, tables: &Tables) -> Option<String> {
        let (queue, it) = (self.queue, self.is_it());
        Some(match state {
            JobState::Running => format!(
                "FORCE INDEX (PRIMARY) JOIN {} w FORCE INDEX (by_queue) ON w.worker = n.worker WHERE w.queue = {queue} AND w.expires_at IS NOT NULL AND n.queue = {queue} AND {it}",
                tables.of(&WORKERS)
            ),
            JobState::Due => format!(
                "WHERE n.queue = {queue} AND n.shard = {} AND n.priority = {} AND {it}",
                self.shard, self.priority
            ),
            JobState::Delayed => format!("FORCE INDEX (by_job) WHERE {it} AND n.queue = {queue}"),
            JobState::Dead => format!("WHERE n.queue = {queue} AND {it}"),
            JobState::Done => return None,
        })
    }

    /// The row of this job among the done ones, of which there is no key by job. Those that were done from this moment on are read, up to
    /// it; in microseconds since 1970, UTC.
    pub fn ask_done(&self, from: i64, tables: &Tables) -> Ask<'static, Option<Entry>> {
        let which = format!(
            "FORCE INDEX (PRIMARY) WHERE n.queue = {} AND n.done_at >= {} AND {} LIMIT 1",
            self.queue,
            moment(from),
            self.is_it()
        );
        ask_entries(tables, JobState::Done, &which).map(|found| found.into_iter().next())
    }

    /// Whether the job has a row in any of these states. This is one statement, which sees all tables as of one moment: between two
    /// statements the job may move.
    pub fn ask_is_in(&self, states: &[JobState], tables: &Tables) -> Ask<'static, bool> {
        let each = states.iter().filter_map(|state| {
            let which = self.in_state(*state, tables)?;
            let table = tables.of(state.table());
            Some(format!("(SELECT n.job FROM {table} n {which} LIMIT 1)"))
        });
        let sql = each.collect::<Vec<_>>().join(" UNION ALL ");
        let found = ask_values::<u64>("queue find state", sql);
        found.up_to(LIST).map(|found| !found.is_empty())
    }

    /// The row of this job in this state, if there is one. `locked`: until the end of the transaction. Never for done jobs.
    ///
    /// # Errors
    /// Those of a statement.
    pub fn entry(
        &self,
        state: JobState,
        tables: &Tables,
        session: &mut Session,
        locked: bool,
    ) -> Result<Option<Entry>, Fault> {
        let id = self.id;
        let Some(which) = self.in_state(state, tables) else {
            return Ok(None);
        };
        // The job's own row comes before that of a block. Do not lock the workers' rows: they are needed for renewals.
        let (order, lock) = match state {
            JobState::Running => ("", ""),
            _ if locked => (" ORDER BY n.job DESC", " FOR UPDATE"),
            _ => (" ORDER BY n.job DESC", ""),
        };
        let which = format!("{which}{order} LIMIT 1{lock}");
        let found = session.run(&ask_entries(tables, state, &which))?;
        let has_it = |entry: &Entry| entry.job == id || entry.last_job >= id;
        let Some(found) = found.into_iter().find(has_it) else {
            return Ok(None);
        };
        if !locked || state != JobState::Running {
            return Ok(Some(found));
        }
        let which = format!("WHERE {} FOR UPDATE", found.key());
        let again = session.run(&ask_entries(tables, state, &which))?;
        Ok(again.into_iter().next())
    }
}

/// Deletes the jobs of these rows, which are all of one table, and then the rows. Each statement deletes a few hundred, as a transaction of
/// its own. The row goes last, so that an interrupted deletion can be repeated.
///
/// # Errors
/// Those of a statement.
pub(super) fn delete_entries(
    entries: &[Entry],
    tables: &Tables,
    session: &mut Session,
) -> Result<(), Fault> {
    let (blocks, singles): (Vec<Entry>, Vec<Entry>) =
        entries.iter().partition(|entry| entry.is_block());
    for block in &blocks {
        delete_jobs_of_block(block, tables, session)?;
    }
    for singles in singles.chunks(MOST_ENTRIES) {
        let ids: Vec<u64> = singles.iter().map(|entry| entry.job).collect();
        delete_jobs(&ids, tables, session)?;
    }
    for entries in entries.chunks(MOST_ENTRIES) {
        let Some(first) = entries.first() else { break };
        let mut keys = String::new();
        for entry in entries {
            let or = if keys.is_empty() { "" } else { " OR " };
            let _ = write!(keys, "{or}({})", entry.key());
        }
        let table = tables.of(first.state.table());
        session.run(&command(
            "queue delete",
            format!("DELETE FROM {table} WHERE {keys}"),
        ))?;
    }
    Ok(())
}

/// Deletes jobs by their ids, with their payloads. A cluster takes no transaction of any size.
fn delete_jobs(ids: &[u64], tables: &Tables, session: &mut Session) -> Result<(), Fault> {
    let all = numbers(ids.iter().copied());
    let parts = format!(
        "DELETE FROM {} WHERE job IN ({all}) ORDER BY job, part LIMIT {MOST_PARTS}",
        tables.of(&JOB_PARTS)
    );
    let delete_parts = command("queue delete", parts);
    while session.change(&delete_parts)? >= MOST_PARTS {}
    let mut sized = session.run(&ask_sizes(tables, &all))?;
    while !sized.is_empty() {
        let mut bytes = 0u64;
        let fit = sized.iter().take_while(|(_, size)| {
            let is_first = bytes == 0;
            bytes = bytes.saturating_add(*size).max(1);
            is_first || bytes <= MOST_PARTS * PIECE
        });
        let fit = fit.count();
        let now = numbers(sized.drain(..fit).map(|(id, _)| id));
        session.run(&command(
            "queue delete",
            format!("DELETE FROM {} WHERE id IN ({now})", tables.of(&JOBS)),
        ))?;
    }
    Ok(())
}

/// The jobs that there are of these, and the bytes of the payload in each row.
fn ask_sizes(tables: &Tables, ids: &str) -> Ask<'static, Vec<(u64, u64)>> {
    let sql = format!(
        "SELECT id, LENGTH(payload) AS bytes FROM {} WHERE id IN ({ids})",
        tables.of(&JOBS)
    );
    let sizes = ask("queue sizes", sql, |rows| {
        rows.all(|row| Ok((row.get("id")?, row.get_or_default("bytes")?)))
    });
    sizes.up_to(LIST)
}

fn delete_jobs_of_block(
    block: &Entry,
    tables: &Tables,
    session: &mut Session,
) -> Result<(), Fault> {
    loop {
        let range = (block.job, block.last_job);
        let ids = session.run(&ask_ids(tables, block.block, range, MOST_ENTRIES))?;
        if ids.is_empty() {
            return Ok(());
        }
        delete_jobs(&ids, tables, session)?;
    }
}

/// Jobs of a block from the first to the last of these ids, in their order, and up to this many.
pub(super) fn ask_ids(
    tables: &Tables,
    block: u64,
    (first, last): (u64, u64),
    limit: usize,
) -> Ask<'static, Vec<u64>> {
    let sql = format!(
        "SELECT id FROM {} WHERE id BETWEEN {first} AND {last} AND block = {block} ORDER BY id LIMIT {limit}",
        tables.of(&JOBS)
    );
    ask_values("queue block", sql).up_to(LIST)
}

/// The workers of a queue that are not gone, in the order of registration.
pub(super) fn ask_workers(tables: &Tables, queue: u32) -> Ask<'static, Vec<u64>> {
    let sql = format!(
        "SELECT worker FROM {} WHERE queue = {queue} AND expires_at IS NOT NULL",
        tables.of(&WORKERS)
    );
    let workers = ask("queue workers", sql, |rows| {
        let mut workers: Vec<u64> = rows.values()?;
        workers.sort_unstable();
        Ok(workers)
    });
    workers.up_to(LIST)
}

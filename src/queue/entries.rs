//! The rows of the narrow tables: waiting, running, dead and done jobs. Each row is for one job or one block.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use super::jobs::{MOST_JOBS, State};
use super::narrow::NAMED;
use super::payloads::{MOST_PARTS, PIECE};
use crate::db::{Fault, LIST, Plain, Row, Session, Statement};
use crate::schema::{DEAD, DELAYED, DONE, DUE, JOB_PARTS, JOBS, RUNNING, Table, Tables, WORKERS};

/// How many rows one statement deletes at most.
pub const MOST_DELETED: u64 = 500;

/// How many rows have their jobs deleted at once.
pub const MOST_ENTRIES: usize = NAMED;

/// Most jobs in a block.
const LARGEST_BLOCK: u64 = MOST_JOBS as u64;

const EPOCH: &str = "TIMESTAMP'1970-01-01 00:00:00'";

/// SQL for the moment this many microseconds after the start of 1970, UTC.
pub(super) fn moment(micros: i64) -> String {
    format!("{EPOCH} + INTERVAL {micros} MICROSECOND")
}

/// SQL for the microseconds between the start of 1970, UTC, and a moment.
pub(super) fn micros(moment: &str) -> String {
    format!("TIMESTAMPDIFF(MICROSECOND, {EPOCH}, {moment})")
}

/// A time of the server. Times before 1970 become 1970.
pub(super) fn time(micros: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}

impl State {
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
        format!(
            "n.queue, n.shard, n.priority, n.job, n.last_job, n.block, n.jobs, n.attempt, n.fence, n.every_us, {}, {}, {worker}",
            micros("n.due_at"),
            micros(&format!("n.{}", self.since())),
        )
    }
}

/// The number of columns in [`State::columns`].
pub(super) const COLUMNS: usize = 13;

/// A row of a narrow table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub state: State,
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
}

impl Entry {
    pub fn read(state: State, row: &Row) -> Result<Self, Fault> {
        Ok(Self {
            state,
            queue: row.old(0)?.unwrap_or_default(),
            shard: row.old(1)?.unwrap_or_default(),
            priority: row.old(2)?.unwrap_or_default(),
            job: row.old(3)?.unwrap_or_default(),
            last_job: row.old(4)?.unwrap_or_default(),
            block: row.old(5)?.unwrap_or_default(),
            jobs: row.old(6)?.unwrap_or_default(),
            attempt: row.old(7)?.unwrap_or_default(),
            fence: row.old(8)?.unwrap_or_default(),
            every_us: row.old(9)?,
            due_at: row.old(10)?.unwrap_or_default(),
            since: row.old(11)?.unwrap_or_default(),
            worker: row.old(12)?,
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
            State::Running => format!(
                "worker = {} AND job = {job}",
                self.worker.unwrap_or_default()
            ),
            State::Due => format!(
                "queue = {queue} AND shard = {} AND priority = {} AND job = {job}",
                self.shard, self.priority
            ),
            State::Delayed => {
                format!(
                    "queue = {queue} AND due_at = {} AND job = {job}",
                    moment(self.due_at)
                )
            }
            State::Dead => format!("queue = {queue} AND job = {job}"),
            State::Done => {
                format!(
                    "queue = {queue} AND done_at = {} AND job = {job}",
                    moment(self.since)
                )
            }
        }
    }
}

/// Rows of a narrow table.
pub(super) struct AskEntries<'a> {
    pub tables: &'a Tables,
    pub state: State,
    /// The SQL after `FROM … n`: conditions, order and limit.
    pub which: String,
}

impl Statement for AskEntries<'_> {
    type Answer = Vec<Entry>;

    const MOST_ROWS: usize = LIST;

    fn sql(&self) -> String {
        format!(
            "/* dblock queue entries */ SELECT {} FROM {} n {}",
            self.state.columns(),
            self.tables.of(self.state.table()),
            self.which
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        rows.iter()
            .map(|row| Entry::read(self.state, row))
            .collect()
    }
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
pub(super) struct AskJob<'a> {
    pub tables: &'a Tables,
    pub queue: u32,
    pub id: u64,
}

impl Statement for AskJob<'_> {
    type Answer = Option<Job>;

    fn sql(&self) -> String {
        format!(
            "/* dblock queue job */ SELECT shard, priority, block, job_key, @@auto_increment_increment FROM {} \
             WHERE id = {} AND queue = {}",
            self.tables.of(&JOBS),
            self.id,
            self.queue
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        Ok(Some(Job {
            id: self.id,
            queue: self.queue,
            shard: row.old(0)?.unwrap_or_default(),
            priority: row.old(1)?.unwrap_or_default(),
            block: row.old(2)?.unwrap_or_default(),
            key: row.text(3)?,
            step: row.old(4)?.unwrap_or(1),
        }))
    }
}

impl Job {
    /// The row of this job in this state, if there is one. `locked`: until the end of the transaction. Never for done jobs.
    ///
    /// # Errors
    /// Those of a statement.
    pub fn entry(
        &self,
        state: State,
        tables: &Tables,
        session: &mut Session,
        locked: bool,
    ) -> Result<Option<Entry>, Fault> {
        let (queue, id, block) = (self.queue, self.id, self.block);
        // A block's first job has an id at most this much smaller.
        let first = id.saturating_sub(LARGEST_BLOCK * self.step);
        let it = format!(
            "n.job BETWEEN {first} AND {id} AND (n.job = {id} OR n.block = {block} AND n.block > 0 AND n.last_job >= {id})"
        );
        let which = match state {
            State::Running => format!(
                "FORCE INDEX (PRIMARY) JOIN {} w FORCE INDEX (by_queue) ON w.worker = n.worker WHERE w.queue = {queue} AND w.expires_at IS NOT NULL AND n.queue = {queue} AND {it}",
                tables.of(&WORKERS)
            ),
            State::Due => format!(
                "WHERE n.queue = {queue} AND n.shard = {} AND n.priority = {} AND {it}",
                self.shard, self.priority
            ),
            State::Delayed => format!("FORCE INDEX (by_job) WHERE {it} AND n.queue = {queue}"),
            State::Dead => format!("WHERE n.queue = {queue} AND {it}"),
            State::Done => return Ok(None),
        };
        // Do not lock the workers' rows: they are needed for renewals.
        let lock = match state {
            _ if !locked => "",
            State::Running => "",
            _ => " FOR UPDATE",
        };
        let found = session.run(&AskEntries {
            tables,
            state,
            which: format!("{which} LIMIT 1{lock}"),
        })?;
        let Some(found) = found.into_iter().next() else {
            return Ok(None);
        };
        if !locked || state != State::Running {
            return Ok(Some(found));
        }
        let again = AskEntries {
            tables,
            state,
            which: format!("WHERE {} FOR UPDATE", found.key()),
        };
        Ok(session.run(&again)?.into_iter().next())
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
        session.run(&Plain(format!(
            "/* dblock queue delete */ DELETE FROM {table} WHERE {keys}"
        )))?;
    }
    Ok(())
}

/// Deletes jobs by their ids, with their payloads. A cluster takes no transaction of any size.
fn delete_jobs(ids: &[u64], tables: &Tables, session: &mut Session) -> Result<(), Fault> {
    let all = list(ids.iter().copied());
    let parts = format!(
        "/* dblock queue delete */ DELETE FROM {} WHERE job IN ({all}) ORDER BY job, part LIMIT {MOST_PARTS}",
        tables.of(&JOB_PARTS)
    );
    while session.change(&Plain(parts.clone()))? >= MOST_PARTS {}
    let mut sized = session.run(&AskSizes { tables, ids: &all })?;
    while !sized.is_empty() {
        let mut bytes = 0u64;
        let fit = sized.iter().take_while(|(_, size)| {
            let is_first = bytes == 0;
            bytes = bytes.saturating_add(*size).max(1);
            is_first || bytes <= MOST_PARTS * PIECE
        });
        let fit = fit.count();
        let now = list(sized.drain(..fit).map(|(id, _)| id));
        session.run(&Plain(format!(
            "/* dblock queue delete */ DELETE FROM {} WHERE id IN ({now})",
            tables.of(&JOBS)
        )))?;
    }
    Ok(())
}

/// The jobs that there are of these, and the bytes of the payload in each row.
struct AskSizes<'a> {
    tables: &'a Tables,
    ids: &'a str,
}

impl Statement for AskSizes<'_> {
    type Answer = Vec<(u64, u64)>;

    const MOST_ROWS: usize = LIST;

    fn sql(&self) -> String {
        format!(
            "/* dblock queue sizes */ SELECT id, LENGTH(payload) FROM {} WHERE id IN ({})",
            self.tables.of(&JOBS),
            self.ids
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let size = |row: &Row| {
            let size = row.old(1)?.unwrap_or_default();
            Ok((row.old(0)?.unwrap_or_default(), size))
        };
        rows.iter().map(size).collect()
    }
}

fn delete_jobs_of_block(
    block: &Entry,
    tables: &Tables,
    session: &mut Session,
) -> Result<(), Fault> {
    loop {
        let ids = session.run(&AskIds {
            tables,
            block: *block,
            after: 0,
            limit: MOST_ENTRIES,
        })?;
        if ids.is_empty() {
            return Ok(());
        }
        delete_jobs(&ids, tables, session)?;
    }
}

/// Numbers, separated by commas.
pub(super) fn list(numbers: impl Iterator<Item = u64>) -> String {
    numbers.fold(String::new(), |mut list, number| {
        let comma = if list.is_empty() { "" } else { "," };
        let _ = write!(list, "{comma}{number}");
        list
    })
}

/// Jobs of a block, by their ids.
pub(super) struct AskIds<'a> {
    pub tables: &'a Tables,
    pub block: Entry,
    /// Only jobs after this one.
    pub after: u64,
    pub limit: usize,
}

impl Statement for AskIds<'_> {
    type Answer = Vec<u64>;

    const MOST_ROWS: usize = LIST;

    fn sql(&self) -> String {
        format!(
            "/* dblock queue block */ SELECT id FROM {} WHERE id BETWEEN {} AND {} AND block = {} ORDER BY id LIMIT {}",
            self.tables.of(&JOBS),
            self.block.job.max(self.after.saturating_add(1)),
            self.block.last_job,
            self.block.block,
            self.limit
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        rows.iter()
            .filter_map(|row| row.old(0).transpose())
            .collect()
    }
}

/// The workers of a queue that are not gone, in the order of registration.
pub(super) struct AskWorkers<'a> {
    pub tables: &'a Tables,
    pub queue: u32,
}

impl Statement for AskWorkers<'_> {
    type Answer = Vec<u64>;

    const MOST_ROWS: usize = LIST;

    fn sql(&self) -> String {
        format!(
            "/* dblock queue workers */ SELECT worker FROM {} WHERE queue = {} AND expires_at IS NOT NULL",
            self.tables.of(&WORKERS),
            self.queue
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let workers: Result<Vec<u64>, Fault> = rows
            .iter()
            .filter_map(|row| row.old(0).transpose())
            .collect();
        let mut workers = workers?;
        workers.sort_unstable();
        Ok(workers)
    }
}

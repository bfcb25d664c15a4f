//! The details of a job, and its payload.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::entries::{AskJob, Entry, micros, time};
use super::jobs::State;
use super::list::{Listed, Wide, wide};
use super::payloads::{ReadPiece, Stored};
use super::queues::Queue;
use crate::db::{Fault, Plain, Row, Session, Statement};
use crate::schema::{JOB_PARTS, JOBS, Tables, WORKERS};

/// The details of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// As in a list.
    pub listed: Listed,
    /// Its shard.
    pub shard: u16,
    /// The number of jobs in its block; `None`: it is a single job.
    pub block_jobs: Option<u32>,
    /// The number of its latest claim; 0: it was never claimed.
    pub fence: u64,
    /// The period of a repeating job.
    pub every: Option<Duration>,
    pub put: SystemTime,
    pub canceled: Option<SystemTime>,
    pub failed: Option<SystemTime>,
    /// The length of the payload in bytes.
    pub payload_bytes: u64,
}

/// Reports the details of a job, and then its payload in pieces. Returns whether there is such a job.
///
/// # Errors
/// Those of a statement.
pub fn show(
    queue: &Queue,
    id: u64,
    tables: &Tables,
    session: &mut Session,
    report: impl FnOnce(Details),
    mut piece: impl FnMut(&[u8]),
) -> Result<bool, Fault> {
    // Read everything as of one moment.
    session.run(&Plain(
        "/* dblock queue show */ START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY".to_owned(),
    ))?;
    let of_queue = queue.id;
    let job = session.run(&AskJob {
        tables,
        queue: of_queue,
        id,
    })?;
    let more = session.run(&AskMore { tables, id })?;
    let (Some(job), Some(more)) = (job, more) else {
        return Ok(false);
    };
    let mut found = None;
    for state in [State::Running, State::Due, State::Delayed, State::Dead] {
        if found.is_none() {
            found = job.entry(state, tables, session, false)?;
        }
    }
    // A job in no other state is done.
    let entry = found.unwrap_or(Entry {
        state: State::Done,
        queue: of_queue,
        shard: job.shard,
        priority: job.priority,
        job: id,
        last_job: 0,
        block: 0,
        jobs: 1,
        attempt: 0,
        fence: 0,
        every_us: None,
        due_at: 0,
        since: 0,
        worker: None,
    });
    let mut wide = more.wide;
    if let Some(worker) = entry.worker {
        (wide.host, wide.pid) = session.run(&AskHost { tables, worker })?;
    }
    report(Details {
        listed: Listed::new(id, &entry, wide),
        shard: job.shard,
        block_jobs: entry.is_block().then_some(entry.jobs),
        fence: entry.fence,
        every: entry.every_us.map(Duration::from_micros),
        put: more.put,
        canceled: more.canceled,
        failed: more.failed,
        payload_bytes: more.payload_bytes,
    });
    let payload = match more.parts {
        0 => Stored::InRow(more.payload_bytes),
        parts => Stored::InParts(parts),
    };
    for one in payload.pieces() {
        let job = id;
        let read = ReadPiece {
            tables,
            job,
            piece: one,
        };
        piece(&session.run(&read)?.unwrap_or_default());
    }
    Ok(true)
}

/// The details that are only in the wide table.
struct More {
    wide: Wide,
    put: SystemTime,
    canceled: Option<SystemTime>,
    failed: Option<SystemTime>,
    parts: u32,
    payload_bytes: u64,
}

struct AskMore<'a> {
    tables: &'a Tables,
    id: u64,
}

impl Statement for AskMore<'_> {
    type Answer = Option<More>;

    fn sql(&self) -> String {
        let [put, canceled, failed] = ["put_at", "canceled_at", "failed_at"].map(micros);
        format!(
            "/* dblock queue show */ SELECT job_key, last_error, canceled_at IS NOT NULL, NULL, NULL, {put}, {canceled}, {failed}, \
             parts, COALESCE(LENGTH(payload), (SELECT SUM(LENGTH(p.data)) FROM {} p WHERE p.job = {})) FROM {} WHERE id = {}",
            self.tables.of(&JOB_PARTS),
            self.id,
            self.tables.of(&JOBS),
            self.id
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        Ok(Some(More {
            wide: wide(row, 0)?,
            put: time(row.old(5)?.unwrap_or_default()),
            canceled: row.old(6)?.map(time),
            failed: row.old(7)?.map(time),
            parts: row.old(8)?.unwrap_or_default(),
            payload_bytes: row.old(9)?.unwrap_or_default(),
        }))
    }
}

/// The host and process of a worker.
struct AskHost<'a> {
    tables: &'a Tables,
    worker: u64,
}

impl Statement for AskHost<'_> {
    type Answer = (Option<String>, Option<u64>);

    fn sql(&self) -> String {
        format!(
            "/* dblock queue show */ SELECT host, pid FROM {} WHERE worker = {}",
            self.tables.of(&WORKERS),
            self.worker
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let Some(row) = rows.first() else {
            return Ok((None, None));
        };
        Ok((row.text(0)?, row.old(1)?))
    }
}

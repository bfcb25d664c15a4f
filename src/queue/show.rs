//! All about a job, and its payload.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::entries::{AskJob, Entry, micros, time};
use super::jobs::State;
use super::list::{Listed, Wide, wide};
use super::queues::Queue;
use crate::db::{Fault, Plain, Row, Session, Statement, first_value};
use crate::schema::{JOB_PARTS, JOBS, Tables, WORKERS};

/// All about a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// As in a list.
    pub listed: Listed,
    /// In which part of the queue it is.
    pub shard: u16,
    /// How many jobs are claimed together with it, itself included; `None`: it is in no block.
    pub block_jobs: Option<u32>,
    /// The number of its latest claim; 0: there was none.
    pub fence: u64,
    /// It is due again so long after it was due.
    pub every: Option<Duration>,
    pub put: SystemTime,
    pub canceled: Option<SystemTime>,
    pub failed: Option<SystemTime>,
    /// Bytes of the payload.
    pub payload_bytes: u64,
}

/// Reports all about a job, and then its payload in pieces. Whether there is such a job.
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
    // All of one moment.
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
    // It is in no other state.
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
    let parts = more.parts;
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
    if parts == 0 {
        piece(&session.run(&AskPayload {
            tables,
            id,
            part: None,
        })?);
    }
    for part in 0..parts {
        piece(&session.run(&AskPayload {
            tables,
            id,
            part: Some(part),
        })?);
    }
    Ok(true)
}

/// What only the wide table says of a job.
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
            put: time(row.get(5)?.unwrap_or_default()),
            canceled: row.get(6)?.map(time),
            failed: row.get(7)?.map(time),
            parts: row.get(8)?.unwrap_or_default(),
            payload_bytes: row.get(9)?.unwrap_or_default(),
        }))
    }
}

/// The host and the process of a worker.
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
        Ok((row.text(0)?, row.get(1)?))
    }
}

/// A payload, or a part of one.
struct AskPayload<'a> {
    tables: &'a Tables,
    id: u64,
    part: Option<u32>,
}

impl Statement for AskPayload<'_> {
    type Answer = Vec<u8>;

    fn sql(&self) -> String {
        let id = self.id;
        match self.part {
            None => format!(
                "/* dblock queue payload */ SELECT payload FROM {} WHERE id = {id}",
                self.tables.of(&JOBS)
            ),
            Some(part) => format!(
                "/* dblock queue payload */ SELECT data FROM {} WHERE job = {id} AND part = {part}",
                self.tables.of(&JOB_PARTS)
            ),
        }
    }

    fn decode(&self, rows: &[Row]) -> Result<Vec<u8>, Fault> {
        Ok(first_value(rows)?.unwrap_or_default())
    }
}

//! The details of a job, and its payload.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::entries::{Entry, ask_job};
use super::jobs::JobState;
use super::list::{Listed, Wide, wide_columns};
use super::payloads::{Stored, read_piece};
use super::queues::Queue;
use crate::base::text::{ServerTime, Span};
use crate::db::sql::micros;
use crate::db::{Ask, Fault, Session, ask, command};
use crate::schema::{JOB_PARTS, JOBS, Tables, WORKERS};

/// What a list does not have of a job, also for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// Its shard.
    pub shard: u16,
    /// The number of jobs in its block; `None`: it is a single job.
    pub block_jobs: Option<u32>,
    /// The number of its latest claim; 0: it was never claimed.
    pub fence: u64,
    /// The period of a repeating job.
    #[serde(rename = "every_seconds")]
    pub every: Option<Span>,
    pub put_at: ServerTime,
    pub canceled_at: Option<ServerTime>,
    pub failed_at: Option<ServerTime>,
    /// The length of the payload in bytes.
    pub payload_bytes: u64,
}

/// Reports a job as in a list, with its details, and then its payload in pieces. Returns whether there is such a job.
///
/// # Errors
/// Those of a statement.
pub fn show(
    queue: &Queue,
    id: u64,
    tables: &Tables,
    session: &mut Session,
    report: impl FnOnce((Listed, Details)),
    mut piece: impl FnMut(&[u8]),
) -> Result<bool, Fault> {
    // Read everything as of one moment.
    session.run(&command(
        "queue show",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    ))?;
    let of_queue = queue.id;
    let job = session.run(&ask_job(tables, of_queue, id))?;
    let more = session.run(&ask_more(tables, id))?;
    let (Some(job), Some(more)) = (job, more) else {
        return Ok(false);
    };
    let mut found = None;
    for state in [
        JobState::Running,
        JobState::Due,
        JobState::Delayed,
        JobState::Dead,
    ] {
        if found.is_none() {
            found = job.entry(state, tables, session, false)?;
        }
    }
    // A job in no other state is done.
    if found.is_none() {
        found = session.run(&job.ask_done(more.undone_until, tables))?;
    }
    // Its row is not found if the server's clock was set back since it was put.
    let entry = found.unwrap_or(Entry {
        state: JobState::Done,
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
        is_due: false,
    });
    let mut wide = more.wide;
    if let Some(worker) = entry.worker {
        (wide.host, wide.pid) = session.run(&ask_host(tables, worker))?;
    }
    let details = Details {
        shard: job.shard,
        block_jobs: entry.is_block().then_some(entry.jobs),
        fence: entry.fence,
        every: entry.every_us.map(Duration::from_micros).map(Span),
        put_at: more.put,
        canceled_at: more.canceled,
        failed_at: more.failed,
        payload_bytes: more.payload_bytes,
    };
    report((Listed::new(id, &entry, wide), details));
    let payload = match more.parts {
        0 => Stored::InRow(more.payload_bytes),
        parts => Stored::InParts(parts),
    };
    for one in payload.pieces() {
        let Some(bytes) = session.run(&read_piece(tables, id, one))? else {
            break;
        };
        piece(&bytes);
    }
    Ok(true)
}

/// The details that are only in the wide table.
struct More {
    wide: Wide,
    put: ServerTime,
    canceled: Option<ServerTime>,
    failed: Option<ServerTime>,
    /// Up to then it was not done, in microseconds since 1970, UTC. Clocks of servers that take over from one another differ a little.
    undone_until: i64,
    parts: u32,
    payload_bytes: u64,
}

fn ask_more(tables: &Tables, id: u64) -> Ask<'static, Option<More>> {
    let [put, canceled, failed] = ["put_at", "canceled_at", "failed_at"].map(micros);
    let undone_until = micros("GREATEST(put_at, COALESCE(failed_at, put_at)) - INTERVAL 1 MINUTE");
    let sql = format!(
        "SELECT {}, {put} AS put, {canceled} AS canceled, {failed} AS failed, {undone_until} AS undone_until, \
         parts, COALESCE(LENGTH(payload), (SELECT SUM(LENGTH(p.data)) FROM {} p WHERE p.job = {id})) AS payload_bytes FROM {} WHERE id = {id}",
        wide_columns(),
        tables.of(&JOB_PARTS),
        tables.of(&JOBS)
    );
    ask("queue show", sql, |rows| {
        rows.optional(|row| {
            Ok(More {
                wide: Wide::read(row)?,
                put: row.get_or_default("put")?,
                canceled: row.get("canceled")?,
                failed: row.get("failed")?,
                undone_until: row.get_or_default("undone_until")?,
                parts: row.get("parts")?,
                payload_bytes: row.get_or_default("payload_bytes")?,
            })
        })
    })
}

/// The host and process of a worker.
fn ask_host(tables: &Tables, worker: u64) -> Ask<'static, (Option<String>, Option<u64>)> {
    let sql = format!(
        "SELECT host, pid FROM {} WHERE worker = {worker}",
        tables.of(&WORKERS)
    );
    ask("queue show", sql, |rows| {
        let found = rows.optional(|row| Ok((row.get("host")?, row.get("pid")?)))?;
        Ok(found.unwrap_or_default())
    })
}

//! A worker's turn: one transaction in one packet, which records outcomes and claims due jobs. It increases the turn's number in the
//! worker's row by one, on the condition that the row has the number before it. So a turn whose answer was lost is carried out once, and
//! its number shows whether it was.
//!
//! Everything else in the transaction depends on that condition. If a turn reaches the server late, after its repetition, it changes
//! nothing, even if the worker has claimed the same jobs again.
//!
//! An outcome only applies to a row of running jobs with the same worker, job and fence. If a claimer dies before it reports a recorded
//! outcome, that is recorded a second time, and changes nothing, even if the worker has claimed the same job again. A rescue takes all jobs
//! of a dead worker at once, together with its lease. Then the turn changes nothing.

mod complete;
mod deletions;
mod moves;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Queue;
use super::marks::above;
use super::narrow::{block_of, by_key, carried, insert_into, running, running_by_turn};
use super::payloads::{Stored, bytes_of_parts};
use crate::db::sql::{NOW, after_seconds, id_literal, is_read_only, numbers};
use crate::db::{Ask, Batch, Fault, LIST, READ_ONLY, Row, Rows, ask, batch, named, no_answer};
use crate::schema::{DUE, JOBS, QUEUE_MINUTES, QUEUES, RUNNING, Tables, WORKERS};

/// How many characters of an error are kept.
pub const LONGEST_ERROR: usize = 1000;

/// One job or one block of jobs, which is claimed as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// The job, or the first of the block.
    pub job: u64,
    /// The last of the block; 0: a single job.
    pub last_job: u64,
    /// The number of the block; 0: a single job.
    pub block: u64,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// The number of the claim, which grows with each.
    pub fence: u64,
    /// Whether it is due again after it is done.
    pub repeats: bool,
    /// Whether a job of it may have a key.
    pub has_key: bool,
    /// Whether any payload of it is in parts.
    pub has_parts: bool,
    /// Bytes of its payloads, about. For a block this is only known once its jobs are read.
    pub bytes: u64,
}

/// The outcome of a job, or of all jobs of a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobEnd {
    /// It is done.
    Done,
    /// It has failed, and is due again after this delay; with the error.
    Retry(Duration, String),
    /// It asks to be started again after this delay. This does not count as an attempt.
    Later(Duration),
    /// It has failed for good; with the error.
    Dead(String),
    /// It was not started, or dblock ended it. It is due again, and this does not count as an attempt.
    Returned,
    /// Other jobs of the block are not over yet.
    Running,
}

/// The outcome of a unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedUnit {
    /// The claimed unit.
    pub unit: Unit,
    /// The outcome of its jobs, apart from `others`.
    pub outcome: JobEnd,
    /// Jobs of a block with other outcomes, by their ids.
    pub others: Vec<(u64, JobEnd)>,
}

impl EndedUnit {
    /// One whose jobs have all ended in this way.
    pub fn of(unit: Unit, outcome: JobEnd) -> Self {
        Self {
            unit,
            outcome,
            others: Vec::new(),
        }
    }
}

/// A worker's turn.
pub struct Turn<'a> {
    /// dblock's tables.
    pub tables: &'a Tables,
    /// The queue.
    pub queue: &'a Queue,
    /// The worker's number.
    pub worker: u64,
    /// Its id, as it registered.
    pub run: &'a str,
    /// The number of the turn.
    pub number: u64,
    /// The outcomes to record.
    pub ended: &'a [EndedUnit],
    /// Jobs done and attempts failed since the counts were last recorded.
    pub counts: (u64, u64),
    /// What to claim; `None`: nothing.
    pub want: Option<Want>,
    /// Whether the session has an idle worker's short timeout. The turn sets the longer one.
    pub was_idle: bool,
}

/// What to claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// How many jobs or blocks.
    pub limit: u32,
    /// The shard.
    pub shard: u16,
    /// Claims only these jobs, by priority and id. `None`: any that others have not locked (`SKIP LOCKED`).
    pub among: Option<Vec<(i32, u64)>>,
    /// With `SKIP LOCKED`: claims only jobs after these, by priority and id. See [`super::Marks`].
    pub above: Vec<(i32, u64)>,
}

/// The server's answer to a turn.
#[derive(Debug, Default)]
pub struct TurnAnswer {
    /// The worker's row.
    pub standing: WorkerStatus,
    /// The claimed units, with the payloads of single jobs; `None`: there is no such job. For a block it is the payload of its first job,
    /// and is not used.
    pub claimed: Vec<(Unit, Option<Stored>)>,
    /// The priority and first job of each.
    pub places: Vec<(i32, u64)>,
}

/// The state of a worker's row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerStatus {
    /// The number of its last turn; `None`: the worker is gone, and has no jobs any more.
    pub turn: Option<u64>,
    /// Whether the queue is paused.
    pub is_paused: bool,
    /// Whether the queue exists.
    pub has_queue: bool,
}

impl Turn<'_> {
    fn table(&self, table: &crate::schema::Table) -> String {
        self.tables.of(table)
    }

    fn count(&self) -> Option<String> {
        let (done, failed) = self.counts;
        (done + failed > 0).then(|| {
            format!(
                "INSERT INTO {} (queue, minute, worker, done, failed) SELECT {}, \
                 DATE_FORMAT(UTC_TIMESTAMP(), '%Y-%m-%d %H:%i:00'), {}, {done}, {failed} FROM DUAL WHERE @dblock_turn = 1 \
                 ON DUPLICATE KEY UPDATE done = {minutes}.done + {done}, failed = {minutes}.failed + {failed}",
                self.table(&QUEUE_MINUTES),
                self.queue.id,
                self.worker,
                minutes = QUEUE_MINUTES.name
            )
        })
    }

    fn claim(&self, want: &Want) -> [String; 2] {
        let Want {
            limit,
            shard,
            among,
            above: marks,
        } = want;
        let (which, skips) = match among {
            None => (above(marks), " SKIP LOCKED"),
            Some(jobs) => (format!(" AND ({})", among_jobs(jobs)), ""),
        };
        let (worker, turn) = (self.worker, self.number);
        // An application may have written any number there.
        let carried = carried("d").replace("d.fence", "LEAST(d.fence, 18446744073709551614) + 1");
        let values = ["LEAST(d.attempt, 4294967294) + 1", "d.every_us", "d.due_at"];
        let claimed = format!("{worker}, {turn}, {NOW}");
        let besides = Some(("worker, turn, claimed_at", claimed.as_str()));
        let running = RUNNING.name;
        [
            format!(
                // An application may have written several rows of a job: another one waits until this worker is done with it.
                "{} FROM {} w FORCE INDEX (PRIMARY) STRAIGHT_JOIN {} \
                 WHERE w.worker = {worker} AND w.turn = {turn} AND @dblock_turn = 1 AND @dblock_open = 1 AND d.queue = {} AND d.shard = {shard}{which} \
                 ORDER BY d.priority, d.job LIMIT {limit} FOR UPDATE{skips} ON DUPLICATE KEY UPDATE turn = {running}.turn",
                insert_into(&self.table(&RUNNING), &carried, values, besides),
                self.table(&WORKERS),
                by_key(self.tables, &DUE, "d"),
                self.queue.id
            ),
            format!(
                "DELETE d FROM {} STRAIGHT_JOIN {} ON d.queue = r.queue AND d.shard = r.shard AND d.priority = r.priority \
                 AND d.job = r.job WHERE r.worker = {worker} AND r.turn = {turn}",
                running_by_turn(self.tables),
                by_key(self.tables, &DUE, "d")
            ),
        ]
    }

    /// Asks whether the turn was carried out, and what it has claimed.
    fn outcome(&self) -> [String; 2] {
        [
            standing(self.tables, self.worker, self.run),
            // A block's payloads are read later. The first one is short enough to be sent twice.
            format!(
                "SELECT {UNIT}, {}, r.priority FROM {} LEFT JOIN {} j ON j.id = r.job WHERE r.worker = {} AND r.turn = {}",
                Stored::columns("j"),
                running_by_turn(self.tables),
                self.table(&JOBS),
                self.worker,
                self.number
            ),
        ]
    }
}

/// The condition on a worker's own row. A server that has lost its registration may give the number to another worker.
pub(super) fn own_row(worker: u64, run: &str) -> String {
    format!("worker = {worker} AND run = {}", id_literal(run))
}

/// Asks for the state of a worker's row, and whether the server takes no writes.
pub(super) fn standing(tables: &Tables, worker: u64, run: &str) -> String {
    format!(
        "SELECT w.turn, w.expires_at IS NOT NULL AS lives, q.paused_at IS NOT NULL AS is_paused, q.id IS NOT NULL AND q.deleted_at IS NULL AS has_queue, \
         {} AS is_read_only FROM {} w LEFT JOIN {} q ON q.id = w.queue WHERE {}",
        is_read_only(),
        tables.of(&WORKERS),
        tables.of(&QUEUES),
        own_row(worker, run)
    )
}

impl WorkerStatus {
    /// Reads the answer. A read-only server may not refuse what this account writes, and that counts for nothing on the one that takes
    /// writes.
    pub(super) fn read(rows: Rows) -> Result<Self, Fault> {
        let status = rows.optional(|row| {
            if row.get("is_read_only")? {
                return Err(Fault::ReadOnly(READ_ONLY.to_owned()));
            }
            let lives: bool = row.get("lives")?;
            let turn: u64 = row.get("turn")?;
            Ok(Self {
                turn: lives.then_some(turn),
                is_paused: row.get("is_paused")?,
                has_queue: row.get("has_queue")?,
            })
        })?;
        Ok(status.unwrap_or_default())
    }
}

impl Turn<'_> {
    /// Carries it out.
    pub fn batch(&self) -> Batch<'static, TurnAnswer> {
        let longer_timeout = self.was_idle.then(|| {
            let set = format!("SET SESSION wait_timeout = {}", self.queue.ttl.as_secs());
            named("queue session", set)
        });
        let mut statements: Vec<_> = longer_timeout.into_iter().collect();
        statements.extend([
            named("queue turn", "BEGIN"),
            format!(
                "UPDATE {} SET turn = {}, renewed_at = {NOW}, expires_at = {} \
                 WHERE {} AND turn = {} AND expires_at IS NOT NULL",
                self.table(&WORKERS),
                self.number,
                after_seconds("ttl_seconds"),
                own_row(self.worker, self.run),
                self.number - 1
            ),
        ]);
        statements.push(format!(
            "SET @dblock_turn = ROW_COUNT(), @dblock_open = (SELECT COUNT(*) FROM {} WHERE id = {} AND paused_at IS NULL \
             AND deleted_at IS NULL)",
            self.table(&QUEUES),
            self.queue.id
        ));
        statements.extend(self.complete());
        statements.extend(self.count());
        statements.extend(self.want.iter().flat_map(|want| self.claim(want)));
        statements.push("COMMIT".to_owned());
        let [standing, claimed] = self.outcome();
        statements.push(standing);
        let wants = self.want.is_some();
        statements.extend(wants.then_some(claimed));
        Batch::written(statements).read_all(move |replies| match replies {
            [.., standing, claimed] if wants => TurnAnswer::read(standing.rows(), claimed.rows()),
            [.., standing] => Ok(TurnAnswer {
                standing: WorkerStatus::read(standing.rows())?,
                ..TurnAnswer::default()
            }),
            [] => Err(no_answer()),
        })
    }

    /// Looks it up, after its answer was lost.
    pub fn look_up(&self) -> Batch<'static, TurnAnswer> {
        batch("queue ask turn", self.outcome().to_vec()).read_all(|replies| match replies {
            [standing, claimed] => TurnAnswer::read(standing.rows(), claimed.rows()),
            _ => Err(no_answer()),
        })
    }
}

/// Everything that a worker has claimed.
pub fn ask_running(tables: &Tables, worker: u64) -> Ask<'static, Vec<Unit>> {
    let sql = format!(
        "SELECT {UNIT} FROM {} LEFT JOIN {} j ON j.id = r.job WHERE r.worker = {worker}",
        running(tables),
        tables.of(&JOBS)
    );
    ask("queue ask running", sql, |rows| rows.all(Unit::read)).up_to(LIST)
}

/// The columns of a unit.
const UNIT: &str = "r.job, r.last_job, r.block, r.attempt, r.fence, r.every_us IS NOT NULL AS repeats, j.job_key IS NOT NULL AS has_key, \
     j.parts, LENGTH(j.payload) AS bytes";

impl Unit {
    fn read(row: &Row) -> Result<Self, Fault> {
        let (last_job, block) = block_of(row)?;
        let parts: Option<u32> = row.get("parts")?;
        let in_row: Option<u64> = row.get("bytes")?;
        let in_parts = bytes_of_parts(parts.unwrap_or_default());
        Ok(Self {
            job: row.get("job")?,
            last_job,
            block,
            attempt: row.get("attempt")?,
            fence: row.get("fence")?,
            repeats: row.get("repeats")?,
            has_key: row.get("has_key")?,
            // For a block this is only known once its jobs are read.
            has_parts: block != 0 || parts.is_some_and(|parts| parts > 0),
            bytes: in_row.unwrap_or_default().saturating_add(in_parts),
        })
    }
}

impl TurnAnswer {
    fn read(standing: Rows, claimed: Rows) -> Result<Self, Fault> {
        let mut units: Vec<(i32, Unit, Option<Stored>)> = claimed.all(|row| {
            let priority = row.get("priority")?;
            Ok((priority, Unit::read(row)?, Stored::read(row)?))
        })?;
        // Sorting on the server would include the payloads.
        units.sort_by_key(|(priority, unit, ..)| (*priority, unit.job));
        let places = units
            .iter()
            .map(|(priority, unit, ..)| (*priority, unit.job));
        let places = places.collect();
        let claimed = units.into_iter().map(|(_, unit, payload)| (unit, payload));
        Ok(Self {
            standing: WorkerStatus::read(standing)?,
            claimed: claimed.collect(),
            places,
        })
    }
}

fn among_jobs(jobs: &[(i32, u64)]) -> String {
    let mut priorities: Vec<i32> = jobs.iter().map(|(priority, _)| *priority).collect();
    priorities.sort_unstable();
    priorities.dedup();
    let each = priorities.iter().map(|priority| {
        let of = jobs.iter().filter(|(of, _)| of == priority);
        let of = of.map(|(_, job)| *job);
        format!("d.priority = {priority} AND d.job IN ({})", numbers(of))
    });
    each.collect::<Vec<_>>().join(" OR ")
}

//! A worker's turn: in one transaction and one packet it hands in what has ended and claims what is due. The number of the turn in the
//! worker's row grows by one with it, on the condition that it was one less: so a turn whose answer was lost is carried out once, and
//! by that number it is known whether it was.
//!
//! All else in the transaction is conditional on that: a turn that reaches the server late, when the one that was sent again in its place
//! is over, changes nothing, though the worker may have claimed the same jobs again meanwhile.
//!
//! What has ended is handed in by the rows that the worker still has in the table of running jobs, each by its job and its fence: what
//! is handed in twice, because a claimer died before it said that it was, changes nothing the second time, though the worker may have
//! claimed the same job again. Who gives a dead worker's jobs to
//! others takes all of them away at once, together with the worker's lease: then the turn changes nothing.

mod deletions;
mod hand_in;
mod moves;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::narrow::{carried, insert_into};
use super::{Claim, Queue};
use crate::db::{Batch, Fault, LIST, Reply, Row, Statement};
use crate::schema::{DUE, JOBS, QUEUE_MINUTES, QUEUES, RUNNING, Tables, WORKERS};

/// Characters of an error that are kept.
pub const LONGEST_ERROR: usize = 1000;

/// One job, or a block of jobs, that is claimed and handed in as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// The job, or the first of the block.
    pub job: u64,
    /// The last of the block; 0: it is a job on its own.
    pub last_job: u64,
    /// The number that the jobs of the block have; 0: it is a job on its own.
    pub block: u64,
    /// How often it was started, with this time.
    pub attempt: u32,
    /// Grows with every claim.
    pub fence: u64,
    /// Whether it is due again after it was done.
    pub repeats: bool,
    /// Whether a job of it may have a key.
    pub has_key: bool,
    /// Whether a payload of it is in parts.
    pub has_parts: bool,
}

/// What became of a job, or of all jobs of a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobEnd {
    /// It is done.
    Done,
    /// It has failed, and is due again after this time.
    Retry(Duration, String),
    /// It wants to be started again after this time; that counts as no attempt.
    Later(Duration),
    /// It has failed for good.
    Dead(String),
    /// It was not started, or ended by dblock itself: it is due again, and that counts as no attempt.
    GivenBack,
    /// The rest of a block still runs, or is still to run.
    Running,
}

/// What is handed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// What was claimed.
    pub unit: Unit,
    /// What became of its jobs, those apart that are named.
    pub outcome: JobEnd,
    /// Jobs of a block of which something else became, by their numbers.
    pub others: Vec<(u64, JobEnd)>,
}

/// A turn.
pub struct Turn<'a> {
    /// Where.
    pub tables: &'a Tables,
    /// The queue.
    pub queue: &'a Queue,
    /// The worker's number.
    pub worker: u64,
    /// The number of the turn.
    pub number: u64,
    /// What has ended.
    pub ended: &'a [Ended],
    /// How many jobs are done and have failed since that was last recorded.
    pub counts: (u64, u64),
    /// What to claim; `None`: nothing.
    pub want: Option<Want>,
    /// Whether the worker was idle before: the server keeps the session longer from then on.
    pub was_idle: bool,
}

/// What to claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// So many jobs or blocks.
    pub limit: u32,
    /// Of this shard.
    pub shard: u16,
    /// Of these jobs alone, by priority and number. `None`: those that nobody is about to claim (`SKIP LOCKED`).
    pub among: Option<Vec<(i32, u64)>>,
}

/// What the server says after a turn.
#[derive(Debug, Default)]
pub struct TurnOver {
    /// What the worker's row says.
    pub standing: Standing,
    /// What was claimed, in how many parts the payload of its first job is, and the payloads of jobs on their own; `None`: in parts, or of
    /// a block. Where the number of parts is `None`, the job is gone.
    pub claimed: Vec<(Unit, Option<u32>, Option<Vec<u8>>)>,
}

/// What a worker's row says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// The number of its last turn; `None`: the worker is gone, and has nothing any more.
    pub turn: Option<u64>,
    /// Whether the queue is paused.
    pub is_paused: bool,
    /// Whether the queue is there.
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
        } = want;
        let (which, skips) = match among {
            None => (String::new(), " SKIP LOCKED"),
            Some(jobs) => (format!(" AND ({})", among_jobs(jobs)), ""),
        };
        let (worker, turn) = (self.worker, self.number);
        let carried = format!("{} + 1", carried("d"));
        let values = ["d.attempt + 1", "d.every_us", "d.due_at"];
        let claimed = format!("{worker}, {turn}, UTC_TIMESTAMP(6)");
        let besides = Some(("worker, turn, claimed_at", claimed.as_str()));
        [
            format!(
                "{} FROM {} w STRAIGHT_JOIN {} d \
                 WHERE w.worker = {worker} AND w.turn = {turn} AND @dblock_turn = 1 AND @dblock_open = 1 AND d.queue = {} AND d.shard = {shard}{which} \
                 ORDER BY d.priority, d.job LIMIT {limit} FOR UPDATE{skips}",
                insert_into(&self.table(&RUNNING), &carried, values, besides),
                self.table(&WORKERS),
                self.table(&DUE),
                self.queue.id
            ),
            format!(
                "DELETE d FROM {} r STRAIGHT_JOIN {} d ON d.queue = r.queue AND d.shard = r.shard AND d.priority = r.priority \
                 AND d.job = r.job WHERE r.worker = {worker} AND r.turn = {turn}",
                self.table(&RUNNING),
                self.table(&DUE)
            ),
        ]
    }

    /// Asks what became of the turn, and for what was claimed in it.
    pub fn outcome(&self) -> [String; 2] {
        let payload = match self.queue.claim {
            Claim::Rows => "j.payload",
            // A block's payloads are read by its numbers.
            Claim::Blocks => "IF(r.block = 0, j.payload, NULL)",
        };
        [
            standing(self.tables, self.worker),
            format!(
                "SELECT {UNIT}, {payload}, r.priority FROM {} r LEFT JOIN {} j ON j.id = r.job WHERE r.worker = {} AND r.turn = {}",
                self.table(&RUNNING),
                self.table(&JOBS),
                self.worker,
                self.number
            ),
        ]
    }
}

/// Asks what a worker's row says.
pub(super) fn standing(tables: &Tables, worker: u64) -> String {
    format!(
        "SELECT w.turn, w.expires_at IS NOT NULL, q.paused_at IS NOT NULL, q.id IS NOT NULL AND q.deleted_at IS NULL \
         FROM {} w LEFT JOIN {} q ON q.id = w.queue WHERE w.worker = {worker}",
        tables.of(&WORKERS),
        tables.of(&QUEUES)
    )
}

impl Standing {
    /// Reads the row of an answer.
    pub(super) fn decode(rows: &[Row]) -> Result<Self, Fault> {
        let Some(row) = rows.first() else {
            return Ok(Self::default());
        };
        let lives = row.get::<u8>(1)? == Some(1);
        Ok(Self {
            turn: row.get(0)?.filter(|_| lives),
            is_paused: row.get::<u8>(2)? == Some(1),
            has_queue: row.get::<u8>(3)? == Some(1),
        })
    }
}

impl Batch for Turn<'_> {
    type Answer = TurnOver;

    fn statements(&self) -> Vec<String> {
        let longer_timeout = self.was_idle.then(|| {
            format!(
                "/* dblock queue session */ SET SESSION wait_timeout = {}",
                self.queue.ttl.as_secs()
            )
        });
        let mut statements: Vec<_> = longer_timeout.into_iter().collect();
        statements.extend([
            "/* dblock queue turn */ BEGIN".to_owned(),
            format!(
                "UPDATE {} SET turn = {}, renewed_at = UTC_TIMESTAMP(6), expires_at = UTC_TIMESTAMP(6) + INTERVAL ttl_seconds SECOND \
                 WHERE worker = {} AND turn = {} AND expires_at IS NOT NULL",
                self.table(&WORKERS),
                self.number,
                self.worker,
                self.number - 1
            ),
        ]);
        statements.push(format!(
            "SET @dblock_turn = ROW_COUNT(), @dblock_open = (SELECT COUNT(*) FROM {} WHERE id = {} AND paused_at IS NULL \
             AND deleted_at IS NULL)",
            self.table(&QUEUES),
            self.queue.id
        ));
        statements.extend(self.hand_in());
        statements.extend(self.count());
        statements.extend(self.want.iter().flat_map(|want| self.claim(want)));
        statements.push("COMMIT".to_owned());
        let [standing, claimed] = self.outcome();
        statements.push(standing);
        statements.extend(self.want.is_some().then_some(claimed));
        statements
    }

    fn decode(&self, replies: &[Reply], fault: Option<Fault>) -> Result<TurnOver, Fault> {
        if let Some(fault) = fault {
            return Err(fault);
        }
        let (claimed, before): (&[Row], _) = match (replies.split_last(), self.want.is_some()) {
            (Some((claimed, before)), true) => (&claimed.rows, before),
            _ => (&[], replies),
        };
        decode(before.last().map_or(&[], |reply| &reply.rows), claimed)
    }
}

/// Looks what became of a turn whose answer was lost.
pub struct AskTurn<'a>(pub &'a Turn<'a>);

impl Batch for AskTurn<'_> {
    type Answer = TurnOver;

    fn statements(&self) -> Vec<String> {
        let [standing, claimed] = self.0.outcome();
        vec![format!("/* dblock queue ask turn */ {standing}"), claimed]
    }

    fn decode(&self, replies: &[Reply], fault: Option<Fault>) -> Result<TurnOver, Fault> {
        match (replies, fault) {
            ([standing, claimed], None) => decode(&standing.rows, &claimed.rows),
            (_, fault) => Err(fault.unwrap_or_else(|| Fault::Gone("no answer".to_owned()))),
        }
    }
}

/// All that a worker has claimed.
pub struct AskRunning<'a> {
    /// Where.
    pub tables: &'a Tables,
    /// The worker's number.
    pub worker: u64,
}

impl Statement for AskRunning<'_> {
    type Answer = Vec<Unit>;

    const MOST_ROWS: usize = LIST;

    fn sql(&self) -> String {
        format!(
            "/* dblock queue ask running */ SELECT {UNIT} FROM {} r LEFT JOIN {} j ON j.id = r.job WHERE r.worker = {}",
            self.tables.of(&RUNNING),
            self.tables.of(&JOBS),
            self.worker
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        rows.iter().map(|row| Ok(decode_unit(row)?.0)).collect()
    }
}

/// The columns of a unit, and in how many parts its payload is.
const UNIT: &str = "r.job, r.last_job, r.block, r.attempt, r.fence, r.every_us IS NOT NULL, j.job_key IS NOT NULL, j.parts";

fn decode_unit(row: &Row) -> Result<(Unit, Option<u32>), Fault> {
    let parts: Option<u32> = row.get(7)?;
    let block = row.get(2)?.unwrap_or_default();
    let unit = Unit {
        job: row.get(0)?.unwrap_or_default(),
        last_job: row.get(1)?.unwrap_or_default(),
        block,
        attempt: row.get(3)?.unwrap_or(1),
        fence: row.get(4)?.unwrap_or_default(),
        repeats: row.get::<u8>(5)? == Some(1),
        has_key: row.get::<u8>(6)? == Some(1),
        // Of a block nobody knows before its jobs are read.
        has_parts: block != 0 || parts.is_some_and(|parts| parts > 0),
    };
    Ok((unit, parts))
}

fn decode(standing: &[Row], claimed: &[Row]) -> Result<TurnOver, Fault> {
    let mut units = Vec::new();
    for row in claimed {
        let (unit, parts) = decode_unit(row)?;
        let priority: i32 = row.get(9)?.unwrap_or_default();
        units.push((priority, unit, parts, row.get(8)?));
    }
    // The server would have to sort them, payloads and all.
    units.sort_by_key(|(priority, unit, ..)| (*priority, unit.job));
    let claimed = units
        .into_iter()
        .map(|(_, unit, parts, payload)| (unit, parts, payload));
    Ok(TurnOver {
        standing: Standing::decode(standing)?,
        claimed: claimed.collect(),
    })
}

fn among_jobs(jobs: &[(i32, u64)]) -> String {
    let mut priorities: Vec<i32> = jobs.iter().map(|(priority, _)| *priority).collect();
    priorities.sort_unstable();
    priorities.dedup();
    let each = priorities.iter().map(|priority| {
        let of = jobs.iter().filter(|(of, _)| of == priority);
        let of: Vec<u64> = of.map(|(_, job)| *job).collect();
        format!("d.priority = {priority} AND d.job IN ({})", numbers(&of))
    });
    each.collect::<Vec<_>>().join(" OR ")
}

fn numbers(jobs: &[u64]) -> String {
    let jobs: Vec<_> = jobs.iter().map(u64::to_string).collect();
    jobs.join(",")
}

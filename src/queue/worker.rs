//! A worker's row: one lease for all that it has claimed. What a dead worker had is found by any other when that lease is over.

use std::time::Duration;

use super::Queue;
use super::turn::{CARRIED, Standing, standing};
use crate::db::{Batch, Fault, Plain, Row, Session, Statement, first_value, text_literal};
use crate::schema::{DEAD, DELAYED, DUE, JOB_KEYS, JOBS, RUNNING, Tables, WORKERS};

/// What a worker says of itself.
#[derive(Debug, Clone)]
pub struct WorkerFacts {
    /// 32 hex digits that no other worker has.
    pub run: String,
    /// Its host.
    pub host: String,
    /// Its process there.
    pub pid: i32,
    /// The user of the operating system.
    pub user: String,
    /// The program that it runs.
    pub program: String,
    /// How many of them at once.
    pub slots: u32,
}

/// Registers a worker; its number.
#[derive(Clone, Copy)]
pub struct Register<'a> {
    /// Where.
    pub tables: &'a Tables,
    /// The queue.
    pub queue: &'a Queue,
    /// The worker.
    pub facts: &'a WorkerFacts,
}

impl Batch for Register<'_> {
    type Answer = u64;

    fn statements(&self) -> Vec<String> {
        let (workers, facts) = (self.tables.of(&WORKERS), self.facts);
        let run = text_literal(&facts.run);
        vec![
            format!(
                "/* dblock queue register */ INSERT INTO {workers} (run, queue, host, pid, user, program, slots, ttl_seconds, started_at, renewed_at, expires_at) \
                 VALUES ({run}, {}, {}, {}, {}, {}, {}, {ttl}, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), \
                 UTC_TIMESTAMP(6) + INTERVAL {ttl} SECOND)",
                self.queue.id,
                text_literal(&facts.host),
                facts.pid,
                text_literal(&facts.user),
                text_literal(&facts.program),
                facts.slots,
                ttl = self.queue.ttl.as_secs()
            ),
            "SELECT LAST_INSERT_ID()".to_owned(),
        ]
    }

    fn decode(&self, results: &[Vec<Row>], fault: Option<Fault>) -> Result<u64, Fault> {
        if let Some(fault) = fault {
            return Err(fault);
        }
        let number = results.last().map_or(Ok(None), |rows| first_value(rows))?;
        number.ok_or_else(|| Fault::Gone("no answer".to_owned()))
    }
}

/// Finds a registration whose answer was lost; its number.
pub struct FindRegistration<'a>(pub Register<'a>);

impl Statement for FindRegistration<'_> {
    type Answer = Option<u64>;

    fn sql(&self) -> String {
        let Register {
            tables,
            queue,
            facts,
        } = self.0;
        format!(
            "/* dblock queue find registration */ SELECT worker FROM {} WHERE queue = {} AND expires_at > UTC_TIMESTAMP(6) AND run = {} \
             AND turn = 0 LIMIT 1",
            tables.of(&WORKERS),
            queue.id,
            text_literal(&facts.run)
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Option<u64>, Fault> {
        first_value(rows)
    }
}

/// Has a worker's lease last longer.
pub struct Renew<'a> {
    /// Where.
    pub tables: &'a Tables,
    /// The worker's number.
    pub worker: u64,
    /// Whether another claimer goes on with it: what the one before has sent and is still to be carried out comes too late then.
    pub resumes: bool,
}

impl Batch for Renew<'_> {
    type Answer = Standing;

    fn statements(&self) -> Vec<String> {
        vec![
            format!(
                "/* dblock queue renew */ UPDATE {} SET turn = turn + {}, renewed_at = UTC_TIMESTAMP(6), \
                 expires_at = UTC_TIMESTAMP(6) + INTERVAL ttl_seconds SECOND WHERE worker = {} AND expires_at IS NOT NULL",
                self.tables.of(&WORKERS),
                u8::from(self.resumes),
                self.worker
            ),
            standing(self.tables, self.worker),
        ]
    }

    fn decode(&self, results: &[Vec<Row>], fault: Option<Fault>) -> Result<Standing, Fault> {
        match (results, fault) {
            ([_, rows], None) => Standing::decode(rows),
            (_, fault) => Err(fault.unwrap_or_else(|| Fault::Gone("no answer".to_owned()))),
        }
    }
}

/// Takes leave of a worker that has nothing any more.
pub fn leave(tables: &Tables, worker: u64) -> Plain {
    Plain(format!(
        "/* dblock queue leave */ UPDATE {} SET expires_at = NULL, gone_at = UTC_TIMESTAMP(6) \
         WHERE worker = {worker} AND expires_at IS NOT NULL",
        tables.of(&WORKERS)
    ))
}

/// Deletes what is left of a worker whose queue was deleted.
pub fn vanish(tables: &Tables, worker: u64) -> [Plain; 2] {
    [RUNNING, WORKERS].map(|table| {
        Plain(format!(
            "/* dblock queue vanish */ DELETE FROM {} WHERE worker = {worker}",
            tables.of(&table)
        ))
    })
}

/// Gives what dead workers had to others: the lease of each is over. How many workers that were.
///
/// # Errors
/// Those of a statement. Nothing is lost by them: whoever comes next does the same.
pub fn rescue(tables: &Tables, queue: &Queue, session: &mut Session) -> Result<u32, Fault> {
    let mut rescued = 0;
    while let Some(worker) = session.run(&FindDead { tables, queue })? {
        session.run_batch(&Rescue {
            tables,
            queue,
            worker,
        })?;
        rescued += 1;
    }
    Ok(rescued)
}

/// A worker whose lease is over.
struct FindDead<'a> {
    tables: &'a Tables,
    queue: &'a Queue,
}

impl Statement for FindDead<'_> {
    type Answer = Option<u64>;

    fn sql(&self) -> String {
        format!(
            "/* dblock queue find dead */ {}",
            find_dead(self.tables, self.queue)
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Option<u64>, Fault> {
        first_value(rows)
    }
}

pub(super) fn find_dead(tables: &Tables, queue: &Queue) -> String {
    format!(
        "SELECT worker FROM {} WHERE queue = {} AND expires_at <= UTC_TIMESTAMP(6) ORDER BY expires_at LIMIT 1",
        tables.of(&WORKERS),
        queue.id
    )
}

/// Gives what one worker had to others, unless its lease is not over or somebody else does it.
struct Rescue<'a> {
    tables: &'a Tables,
    queue: &'a Queue,
    worker: u64,
}

impl Batch for Rescue<'_> {
    type Answer = ();

    fn statements(&self) -> Vec<String> {
        let Self {
            tables,
            queue,
            worker,
        } = self;
        let (running, jobs) = (tables.of(&RUNNING), tables.of(&JOBS));
        // What follows the update of its row in the transaction counts only where that has ended the lease.
        let of = format!("r.worker = {worker} AND @dblock_rescued = 1");
        let is_used_up = format!("r.attempt >= {} AND r.every_us IS NULL", queue.max_attempts);
        let carried = CARRIED.replace(", ", ", r.");
        let canceled = format!(
            "FROM {running} r STRAIGHT_JOIN {jobs} j ON j.id = r.job LEFT JOIN {} k ON k.queue = r.queue AND k.job_key = j.job_key \
             AND k.job = j.id WHERE {of} AND r.block = 0 AND j.canceled_at IS NOT NULL",
            tables.of(&JOB_KEYS)
        );
        vec![
            "/* dblock queue rescue */ BEGIN".to_owned(),
            format!(
                "UPDATE {} SET expires_at = NULL, gone_at = UTC_TIMESTAMP(6), died = 1 WHERE worker = {worker} \
                 AND expires_at <= UTC_TIMESTAMP(6)",
                tables.of(&WORKERS)
            ),
            "SET @dblock_rescued = ROW_COUNT()".to_owned(),
            format!(
                "UPDATE {running} r STRAIGHT_JOIN {jobs} j ON j.id = r.job SET j.failed_at = UTC_TIMESTAMP(6), \
                 j.last_error = 'its worker died, or lost the server' WHERE {of} AND r.block = 0"
            ),
            format!("DELETE r, j, k {canceled}"),
            format!(
                "INSERT INTO {} ({CARRIED}, attempt, every_us, due_at, died_at) SELECT r.{carried}, r.attempt, r.every_us, r.due_at, \
                 UTC_TIMESTAMP(6) FROM {running} r WHERE {of} AND {is_used_up}",
                tables.of(&DEAD)
            ),
            format!(
                "INSERT INTO {} ({CARRIED}, attempt, every_us, due_at) SELECT r.{carried}, \
                 IF(r.attempt >= {}, 0, r.attempt), r.every_us, r.due_at FROM {running} r WHERE {of} AND NOT ({is_used_up})",
                tables.of(&DUE),
                queue.max_attempts
            ),
            format!("DELETE r FROM {running} r WHERE {of}"),
            "COMMIT".to_owned(),
        ]
    }

    fn decode(&self, _: &[Vec<Row>], fault: Option<Fault>) -> Result<(), Fault> {
        fault.map_or(Ok(()), Err)
    }
}

/// Has delayed jobs that are due by now be claimed, some hundreds at most; how many they were.
///
/// # Errors
/// Those of a statement. Nothing is lost by them: whoever comes next does the same.
pub fn promote(
    tables: &Tables,
    queue: &Queue,
    skips_locked: bool,
    session: &mut Session,
) -> Result<usize, Fault> {
    let due = session.run_batch(&LockDelayed {
        tables,
        queue,
        skips_locked,
    })?;
    session.run_batch(&Promote {
        tables,
        queue,
        jobs: &due,
    })?;
    Ok(due.len())
}

/// Delayed jobs that are moved at once.
const PROMOTED: usize = 500;

/// Locks delayed jobs that are due by now, in a transaction that stays open.
struct LockDelayed<'a> {
    tables: &'a Tables,
    queue: &'a Queue,
    skips_locked: bool,
}

impl Batch for LockDelayed<'_> {
    type Answer = Vec<u64>;

    fn statements(&self) -> Vec<String> {
        vec![
            "/* dblock queue promote */ BEGIN".to_owned(),
            format!(
                "SELECT job FROM {} WHERE queue = {} AND due_at <= UTC_TIMESTAMP(6) ORDER BY due_at, job LIMIT {PROMOTED} FOR UPDATE{}",
                self.tables.of(&DELAYED),
                self.queue.id,
                if self.skips_locked {
                    " SKIP LOCKED"
                } else {
                    ""
                }
            ),
        ]
    }

    fn decode(&self, results: &[Vec<Row>], fault: Option<Fault>) -> Result<Vec<u64>, Fault> {
        match (results, fault) {
            ([_, rows], None) => rows
                .iter()
                .map(|row| Ok(row.get(0)?.unwrap_or_default()))
                .collect(),
            (_, fault) => Err(fault.unwrap_or_else(|| Fault::Gone("no answer".to_owned()))),
        }
    }
}

/// Moves the jobs that are locked, and ends the transaction.
struct Promote<'a> {
    tables: &'a Tables,
    queue: &'a Queue,
    jobs: &'a [u64],
}

impl Batch for Promote<'_> {
    type Answer = ();

    fn statements(&self) -> Vec<String> {
        if self.jobs.is_empty() {
            return vec!["/* dblock queue promoted */ COMMIT".to_owned()];
        }
        let jobs: Vec<_> = self.jobs.iter().map(u64::to_string).collect();
        let delayed = self.tables.of(&DELAYED);
        let of = format!("job IN ({}) AND queue = {}", jobs.join(","), self.queue.id);
        vec![
            format!(
                "/* dblock queue promoted */ INSERT INTO {} ({CARRIED}, attempt, every_us, due_at) \
                 SELECT {CARRIED}, attempt, every_us, due_at FROM {delayed} FORCE INDEX (by_job) WHERE {of}",
                self.tables.of(&DUE)
            ),
            format!("DELETE x FROM {delayed} x FORCE INDEX (by_job) WHERE {of}"),
            "COMMIT".to_owned(),
        ]
    }

    fn decode(&self, _: &[Vec<Row>], fault: Option<Fault>) -> Result<(), Fault> {
        fault.map_or(Ok(()), Err)
    }
}

/// The shards of a queue in which something is due.
pub struct AskShards<'a> {
    /// Where.
    pub tables: &'a Tables,
    /// The queue.
    pub queue: &'a Queue,
}

impl Statement for AskShards<'_> {
    type Answer = Vec<u16>;

    const MOST_ROWS: usize = u16::MAX as usize;

    fn sql(&self) -> String {
        let due = self.tables.of(&DUE);
        let each = (0..self.queue.shards).map(|shard| {
            format!(
                "(SELECT shard FROM {due} WHERE queue = {} AND shard = {shard} LIMIT 1)",
                self.queue.id
            )
        });
        format!(
            "/* dblock queue shards */ {}",
            each.collect::<Vec<_>>().join(" UNION ALL ")
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Vec<u16>, Fault> {
        rows.iter()
            .map(|row| Ok(row.get(0)?.unwrap_or_default()))
            .collect()
    }
}

/// The jobs of a shard that come first, for servers on which those that others are about to claim cannot be skipped.
pub struct AskCandidates<'a> {
    /// Where.
    pub tables: &'a Tables,
    /// The queue.
    pub queue: &'a Queue,
    /// The shard.
    pub shard: u16,
    /// So many.
    pub limit: u32,
}

impl Statement for AskCandidates<'_> {
    type Answer = Vec<(i32, u64)>;

    const MOST_ROWS: usize = 100_000;

    fn sql(&self) -> String {
        format!(
            "/* dblock queue candidates */ SELECT priority, job FROM {} WHERE queue = {} AND shard = {} ORDER BY priority, job LIMIT {}",
            self.tables.of(&DUE),
            self.queue.id,
            self.shard,
            self.limit
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        rows.iter()
            .map(|row| {
                Ok((
                    row.get(0)?.unwrap_or_default(),
                    row.get(1)?.unwrap_or_default(),
                ))
            })
            .collect()
    }
}

/// A job of a block, or one whose payload is in parts.
#[derive(Debug)]
pub struct BlockJob {
    /// Its number.
    pub id: u64,
    /// In how many parts its payload is; 0: it is not.
    pub parts: u32,
    /// The payload, unless it is in parts.
    pub payload: Option<Vec<u8>>,
}

/// The jobs of a block that come after one, in order.
pub struct ReadBlock<'a> {
    /// Where.
    pub tables: &'a Tables,
    /// The first and the last job.
    pub jobs: (u64, u64),
    /// The number of the block.
    pub block: u64,
    /// So many.
    pub limit: usize,
}

impl Statement for ReadBlock<'_> {
    type Answer = Vec<BlockJob>;

    const MOST_ROWS: usize = 100_000;

    fn sql(&self) -> String {
        let (first, last) = self.jobs;
        format!(
            "/* dblock queue read block */ SELECT id, parts, payload FROM {} WHERE id BETWEEN {first} AND {last} AND block = {} \
             ORDER BY id LIMIT {}",
            self.tables.of(&JOBS),
            self.block,
            self.limit
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let job = |row: &Row| {
            Ok(BlockJob {
                id: row.get(0)?.unwrap_or_default(),
                parts: row.get(1)?.unwrap_or_default(),
                payload: row.get(2)?,
            })
        };
        rows.iter().map(job).collect()
    }
}

/// One part of a payload, from 0; `None`: there is no such.
pub struct ReadPart<'a> {
    /// Where.
    pub tables: &'a Tables,
    /// The job.
    pub job: u64,
    /// The part.
    pub part: u32,
}

impl Statement for ReadPart<'_> {
    type Answer = Option<Vec<u8>>;

    fn sql(&self) -> String {
        format!(
            "/* dblock queue read part */ SELECT data FROM {} WHERE job = {} AND part = {}",
            self.tables.of(&crate::schema::JOB_PARTS),
            self.job,
            self.part
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        first_value(rows)
    }
}

/// What an idle worker learns.
#[expect(clippy::struct_excessive_bools, reason = "columns of an answer")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Idle {
    /// Whether something is due.
    pub is_due: bool,
    /// Whether something that was delayed is due.
    pub is_delayed_due: bool,
    /// Whether another worker has died.
    pub has_dead: bool,
    /// Whether the queue is there and not being deleted.
    pub has_queue: bool,
    /// Whether nothing of it is to be claimed.
    pub is_paused: bool,
}

/// Looks whether there is something to do; where there is nothing it sleeps on the server until there may be, for a time at most. Who
/// puts something interrupts it by `KILL QUERY`. Looking and sleeping are one statement: what is put after it has looked interrupts
/// the sleep, and what was put before is seen.
pub struct LookOrSleep<'a> {
    /// Where.
    pub tables: &'a Tables,
    /// The queue.
    pub queue: &'a Queue,
    /// How long it sleeps at most.
    pub limit: Duration,
}

impl Statement for LookOrSleep<'_> {
    type Answer = Idle;

    fn sql(&self) -> String {
        let (tables, id) = (self.tables, self.queue.id);
        let micros = self.limit.as_micros();
        format!(
            "/* dblock queue idle */ SELECT is_due, delayed_for, has_dead, has_queue, IF(is_due OR delayed_for <= 0 OR has_dead \
             OR NOT has_queue, 0, SLEEP(LEAST({micros}, IFNULL(delayed_for, {micros})) / 1000000)), is_paused FROM (SELECT \
             EXISTS (SELECT 1 FROM {queues} WHERE id = {id} AND paused_at IS NULL) AND EXISTS (SELECT 1 FROM {due} WHERE queue = {id}) AS is_due, \
             (SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), due_at) FROM {delayed} WHERE queue = {id} ORDER BY due_at LIMIT 1) \
             AS delayed_for, EXISTS ({dead}) AS has_dead, \
             EXISTS (SELECT 1 FROM {queues} WHERE id = {id} AND deleted_at IS NULL) AS has_queue, \
             EXISTS (SELECT 1 FROM {queues} WHERE id = {id} AND paused_at IS NOT NULL) AS is_paused) look",
            queues = tables.of(&crate::schema::QUEUES),
            due = tables.of(&DUE),
            delayed = tables.of(&DELAYED),
            dead = find_dead(tables, self.queue)
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Idle, Fault> {
        let Some(row) = rows.first() else {
            return Err(Fault::Gone("no answer".to_owned()));
        };
        let is = |column| Ok::<_, Fault>(row.get::<u8>(column)? == Some(1));
        Ok(Idle {
            is_due: is(0)?,
            is_delayed_due: row.get::<i64>(1)?.is_some_and(|left| left <= 0),
            has_dead: is(2)?,
            has_queue: is(3)?,
            is_paused: is(5)?,
        })
    }
}

/// Waits for the place at the head of the idle workers. Its session is not kept for long without a statement from now on: who waits
/// behind a host that has vanished is not to wait for its lease.
pub struct AwaitHead<'a> {
    /// The named lock that the head holds.
    pub lock: &'a str,
    /// In whole seconds, for MySQL rounds.
    pub limit: u64,
}

/// How long the server keeps the session of an idle worker without a statement, in seconds.
const IDLE_SESSION: u32 = 5;

impl Batch for AwaitHead<'_> {
    type Answer = bool;

    fn statements(&self) -> Vec<String> {
        let lock = text_literal(self.lock);
        vec![
            format!("/* dblock queue await head */ SET SESSION wait_timeout = {IDLE_SESSION}"),
            format!(
                "SELECT IF(IFNULL(IS_USED_LOCK({lock}), 0) = CONNECTION_ID(), 1, GET_LOCK({lock}, {}))",
                self.limit
            ),
        ]
    }

    fn decode(&self, results: &[Vec<Row>], fault: Option<Fault>) -> Result<bool, Fault> {
        match (results, fault) {
            ([_, rows], None) => Ok(first_value::<u8>(rows)? == Some(1)),
            (_, fault) => Err(fault.unwrap_or_else(|| Fault::Gone("no answer".to_owned()))),
        }
    }
}

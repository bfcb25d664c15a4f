//! A worker's row, with one lease for everything that it has claimed. When the lease is over, any other worker may rescue the jobs.

use super::Queue;
use super::turn::{WorkerStatus, standing};
use crate::db::{Fault, OldBatch, Plain, Reply, Row, Statement, first_value, text_literal};
use crate::schema::{RUNNING, Tables, WORKERS};

/// The facts that a worker registers.
#[derive(Debug, Clone)]
pub struct WorkerFacts {
    /// An id of 32 hex digits, which no other worker has.
    pub run: String,
    /// Its host.
    pub host: String,
    /// Its process there.
    pub pid: i32,
    /// The user of the operating system.
    pub user: String,
    /// The program that it runs.
    pub program: String,
    /// How many commands it runs at once.
    pub slots: u32,
}

/// Registers a worker. Returns its number.
#[derive(Clone, Copy)]
pub struct Register<'a> {
    /// dblock's tables.
    pub tables: &'a Tables,
    /// The queue.
    pub queue: &'a Queue,
    /// The worker.
    pub facts: &'a WorkerFacts,
}

impl OldBatch for Register<'_> {
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

    fn decode(&self, replies: &[Reply], fault: Option<Fault>) -> Result<u64, Fault> {
        if let Some(fault) = fault {
            return Err(fault);
        }
        let number = replies
            .last()
            .map_or(Ok(None), |reply| first_value(&reply.rows))?;
        number.ok_or_else(|| Fault::Gone("no answer".to_owned()))
    }
}

/// Finds a registration whose answer was lost. Returns the worker's number.
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

/// Renews a worker's lease.
pub struct Renew<'a> {
    /// dblock's tables.
    pub tables: &'a Tables,
    /// The worker's number.
    pub worker: u64,
    /// Whether a new claimer takes over. This increases the turn's number by one, so that a late turn of the dead claimer changes nothing.
    pub takes_over: bool,
}

impl OldBatch for Renew<'_> {
    type Answer = WorkerStatus;

    fn statements(&self) -> Vec<String> {
        vec![
            format!(
                "/* dblock queue renew */ UPDATE {} SET turn = turn + {}, renewed_at = UTC_TIMESTAMP(6), \
                 expires_at = UTC_TIMESTAMP(6) + INTERVAL ttl_seconds SECOND WHERE worker = {} AND expires_at IS NOT NULL",
                self.tables.of(&WORKERS),
                u8::from(self.takes_over),
                self.worker
            ),
            standing(self.tables, self.worker),
        ]
    }

    fn decode(&self, replies: &[Reply], fault: Option<Fault>) -> Result<WorkerStatus, Fault> {
        match (replies, fault) {
            ([_, reply], None) => WorkerStatus::decode(&reply.rows),
            (_, fault) => Err(fault.unwrap_or_else(|| Fault::Gone("no answer".to_owned()))),
        }
    }
}

/// Deregisters a worker. If it unexpectedly still has jobs, its lease ends at once, so that others rescue them.
pub fn deregister(tables: &Tables, worker: u64) -> Plain {
    let has_some = format!(
        "EXISTS (SELECT 1 FROM {} WHERE worker = {worker})",
        tables.of(&RUNNING)
    );
    Plain(format!(
        "/* dblock queue deregister */ UPDATE {} SET expires_at = IF({has_some}, UTC_TIMESTAMP(6), NULL), gone_at = UTC_TIMESTAMP(6) \
         WHERE worker = {worker} AND expires_at IS NOT NULL",
        tables.of(&WORKERS)
    ))
}

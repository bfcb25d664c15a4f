//! A worker's row, with one lease for everything that it has claimed. When the lease is over, any other worker may rescue the jobs.

use super::Queue;
use super::turn::{WorkerStatus, own_row, standing};
use crate::db::sql::{NOW, after_seconds};
use crate::db::{Ask, Batch, ask_value, batch, command, no_answer, text_literal};
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
pub fn register(tables: &Tables, queue: &Queue, facts: &WorkerFacts) -> Batch<'static, u64> {
    let ttl = queue.ttl.as_secs();
    let insert = format!(
        "INSERT INTO {} (run, queue, host, pid, user, program, slots, ttl_seconds, started_at, renewed_at, expires_at) \
         VALUES ({}, {}, {}, {}, {}, {}, {}, {ttl}, {NOW}, {NOW}, \
         {})",
        tables.of(&WORKERS),
        text_literal(&facts.run),
        queue.id,
        text_literal(&facts.host),
        facts.pid,
        text_literal(&facts.user),
        text_literal(&facts.program),
        facts.slots,
        after_seconds(ttl)
    );
    let statements = vec![insert, "SELECT LAST_INSERT_ID()".to_owned()];
    batch("queue register", statements).read_last(|rows| rows.value()?.ok_or_else(no_answer))
}

/// Finds a registration whose answer was lost. Returns the worker's number.
pub fn find_registration(
    tables: &Tables,
    queue: &Queue,
    facts: &WorkerFacts,
) -> Ask<'static, Option<u64>> {
    let sql = format!(
        "SELECT worker FROM {} WHERE queue = {} AND expires_at > {NOW} AND run = {} \
         AND turn = 0 LIMIT 1",
        tables.of(&WORKERS),
        queue.id,
        text_literal(&facts.run)
    );
    ask_value("queue find registration", sql)
}

/// Renews a worker's lease. `takes_over`: a new claimer takes over. This increases the turn's number by one, so that a late turn of the
/// dead claimer changes nothing.
pub fn renew(
    tables: &Tables,
    worker: u64,
    run: &str,
    takes_over: bool,
) -> Batch<'static, WorkerStatus> {
    let update = format!(
        "UPDATE {} SET turn = turn + {}, renewed_at = {NOW}, \
         expires_at = {} WHERE {} AND expires_at IS NOT NULL",
        tables.of(&WORKERS),
        u8::from(takes_over),
        after_seconds("ttl_seconds"),
        own_row(worker, run)
    );
    let statements = vec![update, standing(tables, worker, run)];
    batch("queue renew", statements).read_last(WorkerStatus::read)
}

/// Deregisters a worker. If it unexpectedly still has jobs, its lease ends at once, so that others rescue them.
pub fn deregister(tables: &Tables, worker: u64, run: &str) -> Ask<'static, ()> {
    let has_some = format!(
        "EXISTS (SELECT 1 FROM {} WHERE worker = {worker})",
        tables.of(&RUNNING)
    );
    command(
        "queue deregister",
        format!(
            "UPDATE {} SET expires_at = IF({has_some}, {NOW}, NULL), gone_at = {NOW} \
         WHERE {} AND expires_at IS NOT NULL",
            tables.of(&WORKERS),
            own_row(worker, run)
        ),
    )
}

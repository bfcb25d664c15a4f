//! The jobs of a dead worker are found by any other when its lease is over, and given to others.

use super::Queue;
use super::jobs::WORKER_DIED;
use super::narrow::{carried, insert_into};
use crate::db::{Batch, Fault, Reply, Row, Session, Statement, first_value, text_literal};
use crate::schema::{DEAD, DUE, JOB_KEYS, JOB_PARTS, JOBS, RUNNING, Tables, WORKERS};

/// Gives the jobs of a dead worker to others: its lease is over. Whether there was one. The one that asks is left out: whether its own
/// lease is over a renewal says.
///
/// # Errors
/// Those of a statement. Nothing is lost by them: whoever comes next does the same.
pub fn rescue(
    tables: &Tables,
    queue: &Queue,
    own: u64,
    session: &mut Session,
) -> Result<bool, Fault> {
    let Some(worker) = session.run(&FindDead { tables, queue, own })? else {
        return Ok(false);
    };
    session.run_batch(&Rescue {
        tables,
        queue,
        worker,
    })?;
    Ok(true)
}

/// A worker whose lease is over, other than the one that asks.
struct FindDead<'a> {
    tables: &'a Tables,
    queue: &'a Queue,
    own: u64,
}

impl Statement for FindDead<'_> {
    type Answer = Option<u64>;

    fn sql(&self) -> String {
        format!(
            "/* dblock queue find dead */ {}",
            find_dead(self.tables, self.queue, self.own)
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Option<u64>, Fault> {
        first_value(rows)
    }
}

pub(super) fn find_dead(tables: &Tables, queue: &Queue, own: u64) -> String {
    format!(
        "SELECT worker FROM {} WHERE queue = {} AND expires_at <= UTC_TIMESTAMP(6) AND worker <> {own} \
         ORDER BY expires_at LIMIT 1",
        tables.of(&WORKERS),
        queue.id
    )
}

/// Gives the jobs of one worker to others, unless its lease is not over or somebody else does it.
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
        let dead_values = ["r.attempt", "r.every_us", "r.due_at"];
        let attempt = format!("IF(r.attempt >= {}, 0, r.attempt)", queue.max_attempts);
        let due_values = [attempt.as_str(), "r.every_us", "r.due_at"];
        let carried = carried("r");
        let canceled = format!(
            "FROM {running} r STRAIGHT_JOIN {jobs} j ON j.id = r.job LEFT JOIN {} k ON k.queue = r.queue AND k.job_key = j.job_key \
             AND k.job = j.id LEFT JOIN {} p ON p.job = j.id WHERE {of} AND r.block = 0 AND j.canceled_at IS NOT NULL",
            tables.of(&JOB_KEYS),
            tables.of(&JOB_PARTS)
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
                 j.last_error = {died} WHERE {of} AND r.block = 0",
                died = text_literal(WORKER_DIED)
            ),
            format!("DELETE r, j, k, p {canceled}"),
            format!(
                "{} FROM {running} r WHERE {of} AND {is_used_up}",
                insert_into(
                    &tables.of(&DEAD),
                    &carried,
                    dead_values,
                    Some(("died_at", "UTC_TIMESTAMP(6)"))
                )
            ),
            format!(
                "{} FROM {running} r WHERE {of} AND NOT ({is_used_up})",
                insert_into(&tables.of(&DUE), &carried, due_values, None)
            ),
            format!("DELETE r FROM {running} r WHERE {of}"),
            "COMMIT".to_owned(),
        ]
    }

    fn decode(&self, _: &[Reply], fault: Option<Fault>) -> Result<(), Fault> {
        fault.map_or(Ok(()), Err)
    }
}

//! Rescues the jobs of a dead worker: after the end of its lease any other worker moves them to the due, delayed or dead jobs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::entries::ask_ids;
use super::jobs::WORKER_DIED;
use super::narrow::{DIED_NOW, block_of, by_key, carried, insert_into, next_due, running};
use super::{Claim, Queue};
use crate::db::sql::NOW;
use crate::db::{Ask, Batch, Fault, Session, ask, ask_value, batch, no_answer, text_literal};
use crate::schema::{DEAD, DELAYED, DUE, JOB_KEYS, JOB_PARTS, JOBS, Tables, WORKERS};

/// The most jobs of a dead worker that are named.
const MOST_NAMED: usize = 100;

/// In the jobs of so many of its blocks the error is recorded. Each is a statement, and a packet may have as little as 64 KB.
const MOST_BLOCKS: usize = 50;

/// A block of several jobs: the first and the last one, and its number.
type Block = (u64, u64, u64);

/// What a dead worker had claimed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rescued {
    /// The first jobs, by their ids.
    pub jobs: Vec<u64>,
    /// The largest number of the attempts of these.
    pub attempt: u32,
    /// Whether any of these is tried again.
    pub will_retry: bool,
}

/// Rescues the jobs of one worker whose lease is over. Returns what it had; `None`: there was no such worker. The worker's `own` lease is
/// left out: its renewal finds out whether that is over.
///
/// # Errors
/// Those of a statement. Nothing is lost: the next worker that looks does the same.
pub fn rescue(
    tables: &Tables,
    queue: &Queue,
    own: u64,
    session: &mut Session,
) -> Result<Option<Rescued>, Fault> {
    let Some(worker) = session.run(&ask_dead(tables, queue, own))? else {
        return Ok(None);
    };
    let blocks = match queue.claim {
        Claim::Rows => Vec::new(),
        Claim::Blocks => session.run(&ask_blocks(tables, worker))?,
    };
    let mut ids = BTreeMap::new();
    for &(first, last, block) in &blocks {
        let of_block = ask_ids(tables, block, (first, last), MOST_NAMED);
        ids.insert(first, session.run(&of_block)?);
    }
    let mut rescued = session.run_batch(&return_jobs(tables, queue, worker, &blocks))?;
    // In place of the first job of a block all of them.
    let each = |first: &u64| ids.remove(first).unwrap_or_else(|| vec![*first]);
    let named = rescued.jobs.iter().flat_map(each);
    rescued.jobs = named.take(MOST_NAMED).collect();
    Ok(Some(rescued))
}

/// The first blocks of several jobs that a worker has claimed.
fn ask_blocks(tables: &Tables, worker: u64) -> Ask<'static, Vec<Block>> {
    let sql = format!(
        "SELECT r.job, r.last_job, r.block FROM {} WHERE r.worker = {worker} AND r.block > 0 AND r.last_job > r.job \
         ORDER BY r.job LIMIT {MOST_BLOCKS}",
        running(tables)
    );
    let blocks = ask("queue dead blocks", sql, |rows| {
        rows.all(|row| {
            let (last_job, block) = block_of(row)?;
            Ok((row.get("job")?, last_job, block))
        })
    });
    blocks.up_to(MOST_BLOCKS)
}

/// A worker other than this one whose lease is over.
fn ask_dead(tables: &Tables, queue: &Queue, own: u64) -> Ask<'static, Option<u64>> {
    let sql = find_dead(tables, queue, own);
    ask_value("queue find dead", sql)
}

pub(super) fn find_dead(tables: &Tables, queue: &Queue, own: u64) -> String {
    format!(
        "SELECT worker FROM {} WHERE queue = {} AND expires_at <= {NOW} AND worker <> {own} \
         ORDER BY expires_at LIMIT 1",
        tables.of(&WORKERS),
        queue.id
    )
}

/// The place of the statement that names the jobs.
const NAMED_AT: usize = 3;

/// Moves a worker's jobs to the due, delayed or dead ones, unless its lease is valid again or another worker has done this. The jobs of
/// these `blocks` say why, as single ones do.
fn return_jobs(
    tables: &Tables,
    queue: &Queue,
    worker: u64,
    blocks: &[Block],
) -> Batch<'static, Rescued> {
    let (running, jobs) = (running(tables), by_key(tables, &JOBS, "j"));
    // The following statements only have an effect if the update of the worker's row has ended its lease.
    let of = format!("r.worker = {worker} AND @dblock_rescued = 1");
    let is_used_up = format!("r.attempt >= {}", queue.max_attempts);
    let values = ["r.attempt", "r.every_us", "r.due_at"];
    let carried = carried("r");
    let canceled = format!(
        "FROM {running} STRAIGHT_JOIN {jobs} ON j.id = r.job LEFT JOIN {} ON k.queue = r.queue AND k.job_key = j.job_key \
             AND k.job = j.id LEFT JOIN {} ON p.job = j.id WHERE {of} AND r.block = 0 AND j.canceled_at IS NOT NULL",
        by_key(tables, &JOB_KEYS, "k"),
        by_key(tables, &JOB_PARTS, "p")
    );
    let failed = format!(
        "SET j.failed_at = {NOW}, j.last_error = {} WHERE {of}",
        text_literal(WORKER_DIED)
    );
    let mut statements = vec![
        "BEGIN".to_owned(),
        format!(
            "UPDATE {} SET expires_at = NULL, gone_at = {NOW}, died = 1 WHERE worker = {worker} \
                 AND expires_at <= {NOW}",
            tables.of(&WORKERS)
        ),
        "SET @dblock_rescued = ROW_COUNT()".to_owned(),
        format!(
            "SELECT r.job, r.attempt, {is_used_up} FROM {running} WHERE {of} ORDER BY r.job LIMIT {MOST_NAMED}"
        ),
        // A block of one job is as good as a single one.
        format!(
            "UPDATE {running} STRAIGHT_JOIN {jobs} ON j.id = r.job {failed} AND (r.block = 0 OR r.last_job = r.job)"
        ),
    ];
    statements.extend(blocks.iter().map(|(job, last_job, block)| {
        format!(
            "UPDATE {running} STRAIGHT_JOIN {jobs} {failed} AND r.job = {job} AND j.id BETWEEN {job} AND {last_job} AND j.block = {block}"
        )
    }));
    statements.extend([
        format!("DELETE r, j, k, p {canceled}"),
        format!(
            "{} FROM {running} WHERE {of} AND {is_used_up} AND r.every_us IS NULL",
            insert_into(&tables.of(&DEAD), &carried, values, DIED_NOW)
        ),
        // A job that repeats is never dead.
        format!(
            "{} FROM {running} WHERE {of} AND {is_used_up} AND r.every_us IS NOT NULL",
            insert_into(
                &tables.of(&DELAYED),
                &carried,
                ["0", "r.every_us", &next_due()],
                None
            )
        ),
        format!(
            "{} FROM {running} WHERE {of} AND NOT ({is_used_up})",
            insert_into(&tables.of(&DUE), &carried, values, None)
        ),
        format!("DELETE r FROM {running} WHERE {of}"),
        "COMMIT".to_owned(),
    ]);
    batch("queue rescue", statements).read_all(|replies| {
        let mut rescued = Rescued::default();
        for row in replies.get(NAMED_AT).ok_or_else(no_answer)?.rows().iter() {
            let (attempt, is_used_up): (u32, bool) = (row.at(1)?, row.at(2)?);
            rescued.jobs.push(row.at(0)?);
            rescued.attempt = rescued.attempt.max(attempt);
            rescued.will_retry |= !is_used_up;
        }
        Ok(rescued)
    })
}

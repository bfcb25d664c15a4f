//! Due jobs: moves delayed jobs whose time has come, and finds shards and candidates for claims.

use super::Queue;
use super::narrow::{CARRIED, NAMED, by_key, insert_into, rows};
use crate::db::sql::{NOW, numbers};
use crate::db::{Ask, Batch, Fault, Session, ask, ask_values, batch};
use crate::schema::{DELAYED, DUE, Tables};

/// Moves delayed jobs that are due to `dblock_due`, as many as one statement names at most. Returns how many rows.
///
/// # Errors
/// Those of a statement. Nothing is lost: the next worker that looks does the same.
pub fn promote(
    tables: &Tables,
    queue: &Queue,
    skips_locked: bool,
    session: &mut Session,
) -> Result<usize, Fault> {
    let due = session.run_batch(&lock_delayed(tables, queue, skips_locked))?;
    session.run_batch(&move_to_due(tables, queue, &due))?;
    Ok(due.len())
}

/// Locks delayed jobs that are due, in a transaction that stays open.
fn lock_delayed(tables: &Tables, queue: &Queue, skips_locked: bool) -> Batch<'static, Vec<u64>> {
    let locked = format!(
        "SELECT x.job FROM {} WHERE x.queue = {} AND x.due_at <= {NOW} ORDER BY x.due_at, x.job LIMIT {NAMED} FOR UPDATE{}",
        by_key(tables, &DELAYED, "x"),
        queue.id,
        if skips_locked { " SKIP LOCKED" } else { "" }
    );
    batch("queue promote", vec!["BEGIN".to_owned(), locked])
        .read_last(|rows| rows.all(|row| row.get("job")))
}

/// Moves the locked jobs, and ends the transaction.
fn move_to_due(tables: &Tables, queue: &Queue, jobs: &[u64]) -> Batch<'static, ()> {
    let commit = "COMMIT".to_owned();
    let [first, others @ ..] = jobs else {
        return batch("queue promoted", vec![commit]);
    };
    let delayed = tables.of(&DELAYED);
    let of = format!(
        "job IN ({}) AND queue = {}",
        numbers(jobs.iter().copied()),
        queue.id
    );
    let statements = vec![
        format!(
            "{} FROM {delayed} FORCE INDEX (by_job) WHERE {of}",
            insert_into(
                &tables.of(&DUE),
                CARRIED,
                ["attempt", "every_us", "due_at"],
                None
            )
        ),
        format!(
            "DELETE x FROM {} STRAIGHT_JOIN {delayed} x FORCE INDEX (by_job) ON x.job = old.job WHERE x.queue = {}",
            rows(format!("{first} AS job"), others.iter().map(u64::to_string)),
            queue.id
        ),
        commit,
    ];
    batch("queue promoted", statements)
}

/// The shards of a queue with due jobs.
pub fn ask_shards(tables: &Tables, queue: &Queue) -> Ask<'static, Vec<u16>> {
    let due = tables.of(&DUE);
    let each = (0..queue.shards).map(|shard| {
        format!(
            "(SELECT shard FROM {due} WHERE queue = {} AND shard = {shard} LIMIT 1)",
            queue.id
        )
    });
    let sql = each.collect::<Vec<_>>().join(" UNION ALL ");
    ask_values("queue shards", sql).up_to(u16::MAX.into())
}

/// The first due jobs of a shard, by priority and id, and up to this many: for servers without `SKIP LOCKED`.
pub fn ask_candidates(
    tables: &Tables,
    queue: &Queue,
    shard: u16,
    limit: u32,
) -> Ask<'static, Vec<(i32, u64)>> {
    let sql = format!(
        "SELECT priority, job FROM {} WHERE queue = {} AND shard = {shard} ORDER BY priority, job LIMIT {limit}",
        tables.of(&DUE),
        queue.id
    );
    let candidates = ask("queue candidates", sql, |rows| {
        rows.all(|row| Ok((row.get("priority")?, row.get("job")?)))
    });
    candidates.up_to(100_000)
}

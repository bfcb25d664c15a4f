//! Due jobs: moves delayed jobs whose time has come, and finds shards and candidates for claims.

use super::Queue;
use super::narrow::{CARRIED, NAMED, by_key, insert_into, rows};
use crate::db::{Fault, OldBatch, Reply, Row, Session, Statement};
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

/// Locks delayed jobs that are due, in a transaction that stays open.
struct LockDelayed<'a> {
    tables: &'a Tables,
    queue: &'a Queue,
    skips_locked: bool,
}

impl OldBatch for LockDelayed<'_> {
    type Answer = Vec<u64>;

    fn statements(&self) -> Vec<String> {
        vec![
            "/* dblock queue promote */ BEGIN".to_owned(),
            format!(
                "SELECT x.job FROM {} WHERE x.queue = {} AND x.due_at <= UTC_TIMESTAMP(6) ORDER BY x.due_at, x.job LIMIT {NAMED} FOR UPDATE{}",
                by_key(self.tables, &DELAYED, "x"),
                self.queue.id,
                if self.skips_locked {
                    " SKIP LOCKED"
                } else {
                    ""
                }
            ),
        ]
    }

    fn decode(&self, replies: &[Reply], fault: Option<Fault>) -> Result<Vec<u64>, Fault> {
        match (replies, fault) {
            ([_, reply], None) => reply
                .rows
                .iter()
                .map(|row| Ok(row.old(0)?.unwrap_or_default()))
                .collect(),
            (_, fault) => Err(fault.unwrap_or_else(|| Fault::Gone("no answer".to_owned()))),
        }
    }
}

/// Moves the locked jobs, and ends the transaction.
struct Promote<'a> {
    tables: &'a Tables,
    queue: &'a Queue,
    jobs: &'a [u64],
}

impl OldBatch for Promote<'_> {
    type Answer = ();

    fn statements(&self) -> Vec<String> {
        let [first, others @ ..] = self.jobs else {
            return vec!["/* dblock queue promoted */ COMMIT".to_owned()];
        };
        let jobs: Vec<_> = self.jobs.iter().map(u64::to_string).collect();
        let delayed = self.tables.of(&DELAYED);
        let of = format!("job IN ({}) AND queue = {}", jobs.join(","), self.queue.id);
        vec![
            format!(
                "/* dblock queue promoted */ {} FROM {delayed} FORCE INDEX (by_job) WHERE {of}",
                insert_into(
                    &self.tables.of(&DUE),
                    CARRIED,
                    ["attempt", "every_us", "due_at"],
                    None
                )
            ),
            format!(
                "DELETE x FROM {} STRAIGHT_JOIN {delayed} x FORCE INDEX (by_job) ON x.job = old.job WHERE x.queue = {}",
                rows(format!("{first} AS job"), others.iter().map(u64::to_string)),
                self.queue.id
            ),
            "COMMIT".to_owned(),
        ]
    }

    fn decode(&self, _: &[Reply], fault: Option<Fault>) -> Result<(), Fault> {
        fault.map_or(Ok(()), Err)
    }
}

/// The shards of a queue with due jobs.
pub struct AskShards<'a> {
    /// dblock's tables.
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
            .map(|row| Ok(row.old(0)?.unwrap_or_default()))
            .collect()
    }
}

/// The first due jobs of a shard, for servers without `SKIP LOCKED`.
pub struct AskCandidates<'a> {
    /// dblock's tables.
    pub tables: &'a Tables,
    /// The queue.
    pub queue: &'a Queue,
    /// The shard.
    pub shard: u16,
    /// How many at most.
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
                    row.old(0)?.unwrap_or_default(),
                    row.old(1)?.unwrap_or_default(),
                ))
            })
            .collect()
    }
}

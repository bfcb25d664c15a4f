//! An idle worker: it waits to be the head, and then sleeps on the server until something is due.

use super::Queue;
use super::rescue::find_dead;
use crate::db::sql::micros_until;
use crate::db::{Ask, Batch, ask, command, named, text_literal};
use crate::schema::{DELAYED, DUE, QUEUES, Tables};
use std::time::Duration;

/// The findings of an idle worker.
#[expect(clippy::struct_excessive_bools, reason = "columns of an answer")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Idle {
    /// Whether a job is due, in a queue that is not paused.
    pub is_due: bool,
    /// Whether a delayed job is due.
    pub is_delayed_due: bool,
    /// Whether another worker has died.
    pub has_dead: bool,
    /// Whether the queue exists and is not being deleted.
    pub has_queue: bool,
    /// Whether the queue is paused.
    pub is_paused: bool,
}

impl Idle {
    /// Whether there may be something to claim.
    pub fn has_work(self) -> bool {
        self.is_due || self.is_delayed_due && !self.is_paused || self.has_dead
    }
}

/// Looks for work. If there is none, it sleeps on the server until there may be some, up to a limit. `dblock queue put` interrupts the
/// sleep by `KILL QUERY`. Looking and sleeping are one statement, so jobs put before the look are seen, and jobs put after it interrupt the
/// sleep. The `worker`'s own lease is left out of the search for dead workers.
pub fn look_or_sleep(
    tables: &Tables,
    queue: &Queue,
    worker: u64,
    limit: Duration,
) -> Ask<'static, Idle> {
    let (id, micros) = (queue.id, limit.as_micros());
    let sql = format!(
        "SELECT is_due, delayed_for, has_dead, has_queue, IF(is_due OR delayed_for <= 0 AND NOT is_paused \
         OR has_dead OR NOT has_queue, 0, SLEEP(LEAST({micros}, IF(delayed_for > 0, delayed_for, {micros})) / 1000000)), is_paused FROM (SELECT \
         EXISTS (SELECT 1 FROM {queues} WHERE id = {id} AND paused_at IS NULL) AND EXISTS (SELECT 1 FROM {due} WHERE queue = {id} AND shard < {shards}) AS is_due, \
         (SELECT {left} FROM {delayed} WHERE queue = {id} ORDER BY due_at LIMIT 1) \
         AS delayed_for, EXISTS ({dead}) AS has_dead, \
         EXISTS (SELECT 1 FROM {queues} WHERE id = {id} AND deleted_at IS NULL) AS has_queue, \
         EXISTS (SELECT 1 FROM {queues} WHERE id = {id} AND paused_at IS NOT NULL) AS is_paused) look",
        queues = tables.of(&QUEUES),
        due = tables.of(&DUE),
        // An application may have written a shard that the queue does not have.
        shards = queue.shards,
        left = micros_until("due_at"),
        delayed = tables.of(&DELAYED),
        dead = find_dead(tables, queue, worker)
    );
    ask("queue idle", sql, |rows| {
        let row = rows.one()?;
        let delayed_for: Option<i64> = row.get("delayed_for")?;
        Ok(Idle {
            is_due: row.get("is_due")?,
            is_delayed_due: delayed_for.is_some_and(|left| left <= 0),
            has_dead: row.get("has_dead")?,
            has_queue: row.get("has_queue")?,
            is_paused: row.get("is_paused")?,
        })
    })
}

/// Releases the head's lock, before any other statement on the session. The holder is woken by `KILL QUERY`, and in a packet of several
/// statements that would lose answers. So this must be a single statement.
pub fn leave_head(lock: &str) -> Ask<'static, ()> {
    command(
        "queue leave head",
        format!("DO RELEASE_LOCK({})", text_literal(lock)),
    )
}

/// How long the server keeps an idle worker's silent session, in seconds.
const IDLE_SESSION: u32 = 5;

/// Waits to become the head of the idle workers, which holds this named lock, up to so many whole seconds, because MySQL rounds. Returns
/// whether it is the head. From then on the server ends the session after a short silence, so that the workers behind a vanished host need
/// not wait for its lease to end. `sets_timeout`: that timeout must be set first.
pub fn await_head(lock: &str, limit: u64, sets_timeout: bool) -> Batch<'static, bool> {
    let lock = text_literal(lock);
    let wait = format!(
        "SELECT IF(IFNULL(IS_USED_LOCK({lock}), 0) = CONNECTION_ID(), 1, GET_LOCK({lock}, {limit}))"
    );
    let mut statements = vec![named("queue await head", wait)];
    if sets_timeout {
        let set = format!("SET SESSION wait_timeout = {IDLE_SESSION}");
        statements.insert(0, named("queue idle session", set));
    }
    Batch::written(statements).read_last(|rows| Ok(rows.value::<u8>()? == Some(1)))
}

//! An idle worker: it waits to be the head, and then sleeps on the server until something is due.

use super::Queue;
use super::rescue::find_dead;
use crate::db::{Fault, OldBatch, Plain, Reply, Row, Statement, first_value, text_literal};
use crate::schema::{DELAYED, DUE, Tables};
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

/// Looks for work. If there is none, it sleeps on the server until there may be some, up to a limit. `dblock queue put` interrupts the
/// sleep by `KILL QUERY`. Looking and sleeping are one statement, so jobs put before the look are seen, and jobs put after it interrupt the
/// sleep.
pub struct LookOrSleep<'a> {
    /// dblock's tables.
    pub tables: &'a Tables,
    /// The queue.
    pub queue: &'a Queue,
    /// The worker's own number, which is left out of the search for dead workers.
    pub worker: u64,
    /// How long it sleeps at most.
    pub limit: Duration,
}

impl Statement for LookOrSleep<'_> {
    type Answer = Idle;

    fn sql(&self) -> String {
        let (tables, id) = (self.tables, self.queue.id);
        let micros = self.limit.as_micros();
        format!(
            "/* dblock queue idle */ SELECT is_due, delayed_for, has_dead, has_queue, IF(is_due OR delayed_for <= 0 AND NOT is_paused \
             OR has_dead OR NOT has_queue, 0, SLEEP(LEAST({micros}, IF(delayed_for > 0, delayed_for, {micros})) / 1000000)), is_paused FROM (SELECT \
             EXISTS (SELECT 1 FROM {queues} WHERE id = {id} AND paused_at IS NULL) AND EXISTS (SELECT 1 FROM {due} WHERE queue = {id}) AS is_due, \
             (SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), due_at) FROM {delayed} WHERE queue = {id} ORDER BY due_at LIMIT 1) \
             AS delayed_for, EXISTS ({dead}) AS has_dead, \
             EXISTS (SELECT 1 FROM {queues} WHERE id = {id} AND deleted_at IS NULL) AS has_queue, \
             EXISTS (SELECT 1 FROM {queues} WHERE id = {id} AND paused_at IS NOT NULL) AS is_paused) look",
            queues = tables.of(&crate::schema::QUEUES),
            due = tables.of(&DUE),
            delayed = tables.of(&DELAYED),
            dead = find_dead(tables, self.queue, self.worker)
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Idle, Fault> {
        let Some(row) = rows.first() else {
            return Err(Fault::Gone("no answer".to_owned()));
        };
        let is = |column| Ok::<_, Fault>(row.old::<u8>(column)? == Some(1));
        Ok(Idle {
            is_due: is(0)?,
            is_delayed_due: row.old::<i64>(1)?.is_some_and(|left| left <= 0),
            has_dead: is(2)?,
            has_queue: is(3)?,
            is_paused: is(5)?,
        })
    }
}

/// Waits to become the head of the idle workers. From then on the server ends the session after a short silence, so that the workers behind
/// a vanished host need not wait for its lease to end.
pub struct AwaitHead<'a> {
    /// The named lock that the head holds.
    pub lock: &'a str,
    /// In whole seconds, because MySQL rounds.
    pub limit: u64,
    /// Whether to set the session's short idle timeout first.
    pub sets_timeout: bool,
}

/// Releases the head's lock, before any other statement on the session. The holder is woken by `KILL QUERY`, and in a packet of several
/// statements that would lose answers. So this must be a single statement.
pub fn leave_head(lock: &str) -> Plain {
    Plain(format!(
        "/* dblock queue leave head */ DO RELEASE_LOCK({})",
        text_literal(lock)
    ))
}

/// How long the server keeps an idle worker's silent session, in seconds.
const IDLE_SESSION: u32 = 5;

impl OldBatch for AwaitHead<'_> {
    type Answer = bool;

    fn statements(&self) -> Vec<String> {
        let lock = text_literal(self.lock);
        let wait = format!(
            "/* dblock queue await head */ SELECT IF(IFNULL(IS_USED_LOCK({lock}), 0) = CONNECTION_ID(), 1, GET_LOCK({lock}, {}))",
            self.limit
        );
        if self.sets_timeout {
            let set = format!(
                "/* dblock queue idle session */ SET SESSION wait_timeout = {IDLE_SESSION}"
            );
            return vec![set, wait];
        }
        vec![wait]
    }

    fn decode(&self, replies: &[Reply], fault: Option<Fault>) -> Result<bool, Fault> {
        match (replies, fault) {
            ([.., reply], None) => Ok(first_value::<u8>(&reply.rows)? == Some(1)),
            (_, fault) => Err(fault.unwrap_or_else(|| Fault::Gone("no answer".to_owned()))),
        }
    }
}

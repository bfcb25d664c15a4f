//! Creating, pausing and deleting queues.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::entries::{AskEntries, AskWorkers, MOST_DELETED, MOST_ENTRIES, delete_entries};
use super::jobs::State;
use super::queues::{FindQueue, Properties};
use super::wake::wake;
use crate::base::text::shown;
use crate::db::{Fault, Plain, Row, Session, Statement, first_value, text_literal};
use crate::schema::{JOB_KEYS, QUEUE_MINUTES, QUEUES, Tables, WORKERS};

/// What came of the creation of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Created {
    /// It is new.
    New,
    /// It was there already, just so.
    Same,
    /// It is there with other properties: which, in words.
    Different(String),
    /// It is being deleted.
    Deleting,
}

/// Creates a queue, unless it is there.
///
/// # Errors
/// Those of a statement.
pub fn create(
    name: &str,
    properties: &Properties,
    tables: &Tables,
    session: &mut Session,
) -> Result<Created, Fault> {
    let queues = tables.of(&QUEUES);
    let insert = format!(
        "/* dblock queue create */ INSERT INTO {queues} (name, claim, shards, max_attempts, retry_delay_us, ttl_seconds, \
         keep_seconds, created_at) VALUES ({}, {}, {}, {}, {}, {}, {}, UTC_TIMESTAMP(6))",
        text_literal(name),
        text_literal(properties.claim.word()),
        properties.shards,
        properties.max_attempts,
        properties.retry_delay.as_micros(),
        properties.ttl.as_secs(),
        properties.keep.as_secs()
    );
    // One that is there is found without a write, which would use up a number.
    if let Some(found) = session.run(&FindQueue { tables, name })? {
        return Ok(compare(properties, &found.properties()));
    }
    match session.run(&Plain(insert)) {
        Ok(()) => return Ok(Created::New),
        Err(Fault::Exists(_)) => {}
        Err(fault) => return Err(fault),
    }
    match session.run(&FindQueue { tables, name })? {
        Some(found) => Ok(compare(properties, &found.properties())),
        None => Ok(Created::Deleting),
    }
}

fn compare(wanted: &Properties, found: &Properties) -> Created {
    let span = |span: Duration| shown(span).to_string();
    let all = [
        (
            "--claim",
            found.claim.word().to_owned(),
            wanted.claim.word().to_owned(),
        ),
        (
            "--shards",
            found.shards.to_string(),
            wanted.shards.to_string(),
        ),
        (
            "--max-attempts",
            found.max_attempts.to_string(),
            wanted.max_attempts.to_string(),
        ),
        (
            "--retry-delay",
            span(found.retry_delay),
            span(wanted.retry_delay),
        ),
        ("--ttl", span(found.ttl), span(wanted.ttl)),
        ("--keep", span(found.keep), span(wanted.keep)),
    ];
    let different = all.iter().filter(|(_, found, wanted)| found != wanted);
    let words = different.map(|(option, found, wanted)| format!("{option} {found}, not {wanted}"));
    let words: Vec<_> = words.collect();
    if words.is_empty() {
        Created::Same
    } else {
        Created::Different(words.join("; "))
    }
}

/// Has workers claim nothing, or claim again, which wakes one. Whether there is such a queue.
///
/// # Errors
/// Those of a statement.
pub fn pause(
    name: &str,
    pauses: bool,
    tables: &Tables,
    session: &mut Session,
) -> Result<bool, Fault> {
    if session.run(&FindQueue { tables, name })?.is_none() {
        return Ok(false);
    }
    let paused_at = if pauses {
        "COALESCE(paused_at, UTC_TIMESTAMP(6))"
    } else {
        "NULL"
    };
    session.run(&Plain(format!(
        "/* dblock queue pause */ UPDATE {} SET paused_at = {paused_at} WHERE name = {} AND deleted_at IS NULL",
        tables.of(&QUEUES),
        text_literal(name)
    )))?;
    if !pauses {
        wake_one(name, tables, session)?;
    }
    Ok(true)
}

/// Wakes an idle worker, if there is one.
///
/// # Errors
/// The session must be dropped.
pub(super) fn wake_one(name: &str, tables: &Tables, session: &mut Session) -> Result<(), Fault> {
    let woken = session.try_run(&Plain(wake(tables.database(), name)))?;
    // With nobody idle, or none that this account may wake, the server refuses it.
    let _ = woken;
    Ok(())
}

/// A queue, be it that it is being deleted.
struct AskId<'a> {
    tables: &'a Tables,
    name: &'a str,
}

impl Statement for AskId<'_> {
    type Answer = Option<u32>;

    fn sql(&self) -> String {
        format!(
            "/* dblock queue id */ SELECT id FROM {} WHERE name = {}",
            self.tables.of(&QUEUES),
            text_literal(self.name)
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        first_value(rows)
    }
}

/// Deletes a queue with all of its jobs, or goes on with that. Whether there was such a queue. It reports how many jobs it has deleted.
///
/// # Errors
/// Those of a statement. It may be done again.
pub fn delete(
    name: &str,
    tables: &Tables,
    session: &mut Session,
    mut report: impl FnMut(u64),
) -> Result<bool, Fault> {
    let Some(queue) = session.run(&AskId { tables, name })? else {
        return Ok(false);
    };
    let queues = tables.of(&QUEUES);
    let by_name = format!("WHERE name = {} AND id = {queue}", text_literal(name));
    // From here on nothing is put and nothing is claimed.
    session.run(&Plain(format!(
        "/* dblock queue delete */ UPDATE {queues} SET deleted_at = COALESCE(deleted_at, UTC_TIMESTAMP(6)) {by_name}"
    )))?;
    for worker in session.run(&AskWorkers { tables, queue })? {
        let which = format!("WHERE n.worker = {worker} ORDER BY n.worker, n.job");
        delete_all(State::Running, &which, tables, session, &mut report)?;
    }
    let of_queue = |order: &str| format!("WHERE n.queue = {queue} ORDER BY n.queue, {order}");
    // What a worker gives back that does not know it yet is due or delayed.
    for (state, order) in [
        (State::Dead, "n.job"),
        (State::Done, "n.done_at, n.job"),
        (State::Due, "n.shard, n.priority, n.job"),
        (State::Delayed, "n.due_at, n.job"),
        (State::Due, "n.shard, n.priority, n.job"),
    ] {
        delete_all(state, &of_queue(order), tables, session, &mut report)?;
    }
    for (table, order) in [(&JOB_KEYS, "job_key"), (&QUEUE_MINUTES, "minute, worker")] {
        let delete = format!(
            "/* dblock queue delete */ DELETE FROM {} WHERE queue = {queue} ORDER BY queue, {order} LIMIT {MOST_DELETED}",
            tables.of(table)
        );
        while session.change(&Plain(delete.clone()))? >= MOST_DELETED {}
    }
    // Those that live learn that the queue is gone.
    for over in ["expires_at IS NULL", "expires_at < UTC_TIMESTAMP(6)"] {
        let delete = format!(
            "/* dblock queue delete */ DELETE FROM {} WHERE queue = {queue} AND {over} ORDER BY queue, expires_at LIMIT {MOST_DELETED}",
            tables.of(&WORKERS)
        );
        while session.change(&Plain(delete.clone()))? >= MOST_DELETED {}
    }
    session.run(&Plain(format!(
        "/* dblock queue delete */ DELETE FROM {queues} {by_name} AND deleted_at IS NOT NULL"
    )))?;
    Ok(true)
}

/// Deletes the rows of a state, with their jobs, and reports how many jobs that were.
fn delete_all(
    state: State,
    which: &str,
    tables: &Tables,
    session: &mut Session,
    report: &mut impl FnMut(u64),
) -> Result<(), Fault> {
    loop {
        let which = format!("{which} LIMIT {MOST_ENTRIES}");
        let entries = session.run(&AskEntries {
            tables,
            state,
            which,
        })?;
        if entries.is_empty() {
            return Ok(());
        }
        delete_entries(&entries, tables, session)?;
        report(entries.iter().map(|entry| u64::from(entry.jobs)).sum());
    }
}

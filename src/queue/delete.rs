//! Deleting a queue with all of its jobs. It may be interrupted anywhere, and done again.

use super::entries::{AskEntries, AskWorkers, MOST_DELETED, MOST_ENTRIES, delete_entries};
use super::jobs::State;
use crate::db::{Fault, LIST, Plain, Row, Session, Statement, first_value, text_literal};
use crate::schema::{
    DEAD, DELAYED, DONE, DUE, JOB_KEYS, JOB_PARTS, JOBS, QUEUE_MINUTES, QUEUES, RUNNING, Tables,
    WORKERS,
};

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

/// Waits until the turns are over that the workers of a queue have begun.
struct AwaitTurns<'a> {
    tables: &'a Tables,
    queue: u32,
}

impl Statement for AwaitTurns<'_> {
    type Answer = ();

    const MOST_ROWS: usize = LIST;

    fn sql(&self) -> String {
        format!(
            "/* dblock queue await turns */ SELECT worker FROM {} WHERE queue = {} AND expires_at IS NOT NULL LOCK IN SHARE MODE",
            self.tables.of(&WORKERS),
            self.queue
        )
    }

    fn decode(&self, _: &[Row]) -> Result<(), Fault> {
        Ok(())
    }
}

/// Deletes a queue with all of its jobs, or goes on with that. Whether there was such a queue. It reports how many jobs it has deleted,
/// and none before the first of them: that there is such a queue.
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
    check_privileges(tables, session)?;
    let queues = tables.of(&QUEUES);
    let by_name = format!("WHERE name = {} AND id = {queue}", text_literal(name));
    report(0);
    // From here on nothing is put and nothing is claimed.
    session.run(&Plain(format!(
        "/* dblock queue delete */ UPDATE {queues} SET deleted_at = COALESCE(deleted_at, UTC_TIMESTAMP(6)) {by_name}"
    )))?;
    // A turn that began before that may still claim: its worker's row is locked until it is over.
    session.run(&AwaitTurns { tables, queue })?;
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
    delete_orphans(tables, session)?;
    Ok(true)
}

/// Deletes what a worker has left whose queue was deleted: what it had claimed, which nobody else can know of on a cluster, and its row.
///
/// # Errors
/// Those of a statement. It may be done again.
pub fn delete_worker(worker: u64, tables: &Tables, session: &mut Session) -> Result<(), Fault> {
    let which = format!("WHERE n.worker = {worker} ORDER BY n.worker, n.job");
    delete_all(State::Running, &which, tables, session, &mut |_| {})?;
    session.run(&Plain(format!(
        "/* dblock queue delete worker */ DELETE FROM {} WHERE worker = {worker}",
        tables.of(&WORKERS)
    )))
}

/// Deletes what workers have left that lived when their queue was deleted, and died before they knew of it.
fn delete_orphans(tables: &Tables, session: &mut Session) -> Result<(), Fault> {
    for worker in session.run(&AskOrphans(tables))? {
        delete_worker(worker, tables, session)?;
    }
    Ok(())
}

/// Workers whose lease is over and whose queue is gone.
struct AskOrphans<'a>(&'a Tables);

impl Statement for AskOrphans<'_> {
    type Answer = Vec<u64>;

    const MOST_ROWS: usize = LIST;

    fn sql(&self) -> String {
        format!(
            "/* dblock queue orphans */ SELECT w.worker FROM (SELECT DISTINCT queue FROM {workers}) some LEFT JOIN {} q ON q.id = some.queue \
             JOIN {workers} w ON w.queue = some.queue WHERE q.id IS NULL AND w.expires_at < UTC_TIMESTAMP(6)",
            self.0.of(&QUEUES),
            workers = self.0.of(&WORKERS)
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        rows.iter()
            .filter_map(|row| row.get(0).transpose())
            .collect()
    }
}

/// Fails before anything is deleted where the account may not delete all of it: no row has these values.
fn check_privileges(tables: &Tables, session: &mut Session) -> Result<(), Fault> {
    for (table, nothing) in [
        (&QUEUES, "name = ''"),
        (&JOBS, "id = 0"),
        (&JOB_PARTS, "job = 0"),
        (&DUE, "queue = 0"),
        (&DELAYED, "queue = 0"),
        (&RUNNING, "worker = 0"),
        (&DEAD, "queue = 0"),
        (&DONE, "queue = 0"),
        (&JOB_KEYS, "queue = 0"),
        (&WORKERS, "worker = 0"),
        (&QUEUE_MINUTES, "queue = 0"),
    ] {
        session.run(&Plain(format!(
            "/* dblock queue may delete */ DELETE FROM {} WHERE {nothing}",
            tables.of(table)
        )))?;
    }
    Ok(())
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

//! Deletes a queue with all of its jobs. It can be interrupted at any point, and continued later.

use super::entries::{AskEntries, AskWorkers, MOST_DELETED, MOST_ENTRIES, delete_entries};
use super::jobs::State;
use crate::db::{Fault, LIST, Plain, Row, Session, Statement, first_value, text_literal};
use crate::schema::{
    DEAD, DELAYED, DONE, DUE, JOB_KEYS, JOB_PARTS, JOBS, QUEUE_MINUTES, QUEUES, RUNNING, Tables,
    WORKERS,
};

/// A queue's id, even if the queue is being deleted.
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

/// Waits until the workers' current turns are over.
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

/// Deletes a queue with all of its jobs, or continues a deletion. Returns whether there was such a queue. Reports the number of deleted
/// jobs. The first report is 0, which shows that the queue was found.
///
/// # Errors
/// Those of a statement. It can be repeated.
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
    // From now on no job is put or claimed.
    session.run(&Plain(format!(
        "/* dblock queue delete */ UPDATE {queues} SET deleted_at = COALESCE(deleted_at, UTC_TIMESTAMP(6)) {by_name}"
    )))?;
    // An earlier turn may still be claiming. It locks its worker's row until its end.
    session.run(&AwaitTurns { tables, queue })?;
    for worker in session.run(&AskWorkers { tables, queue })? {
        let which = format!("WHERE n.worker = {worker} ORDER BY n.worker, n.job");
        delete_all(State::Running, &which, tables, session, &mut report)?;
    }
    let of_queue = |order: &str| format!("WHERE n.queue = {queue} ORDER BY n.queue, {order}");
    // Workers that do not know of the deletion may still return jobs, as due or delayed. Hence due jobs come twice.
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
    // Keep the rows of living workers: they still have to find out.
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

/// Deletes the claims and the row of a worker whose queue was deleted. On a cluster nobody else may know of these claims.
///
/// # Errors
/// Those of a statement. It can be repeated.
pub fn delete_worker(worker: u64, tables: &Tables, session: &mut Session) -> Result<(), Fault> {
    let which = format!("WHERE n.worker = {worker} ORDER BY n.worker, n.job");
    delete_all(State::Running, &which, tables, session, &mut |_| {})?;
    session.run(&Plain(format!(
        "/* dblock queue delete worker */ DELETE FROM {} WHERE worker = {worker}",
        tables.of(&WORKERS)
    )))
}

/// Deletes the workers that lived when their queue was deleted, and died before they noticed.
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
            .filter_map(|row| row.old(0).transpose())
            .collect()
    }
}

/// Fails early if the account may not delete everything. No row matches these conditions.
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

/// Deletes the rows of a state with their jobs, and reports the number of jobs.
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

//! Deletes a queue with all of its jobs. It can be interrupted at any point, and continued later.

use super::entries::{MOST_DELETED, MOST_ENTRIES, ask_entries, ask_workers, delete_entries};
use super::jobs::JobState;
use crate::db::sql::NOW;
use crate::db::{Ask, Fault, LIST, Session, ask_value, ask_values, command, text_literal};
use crate::schema::{
    DEAD, DELAYED, DONE, DUE, JOB_KEYS, JOB_PARTS, JOBS, QUEUE_MINUTES, QUEUES, RUNNING, Tables,
    WORKERS,
};

/// A queue's id, even if the queue is being deleted.
fn ask_id(tables: &Tables, name: &str) -> Ask<'static, Option<u32>> {
    let sql = format!(
        "SELECT id FROM {} WHERE name = {}",
        tables.of(&QUEUES),
        text_literal(name)
    );
    ask_value("queue id", sql)
}

/// Waits until the workers' current turns are over.
fn await_turns(tables: &Tables, queue: u32) -> Ask<'static, ()> {
    let sql = format!(
        "SELECT worker FROM {} WHERE queue = {queue} AND expires_at IS NOT NULL LOCK IN SHARE MODE",
        tables.of(&WORKERS)
    );
    command("queue await turns", sql).up_to(LIST)
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
    let Some(queue) = session.run(&ask_id(tables, name))? else {
        return Ok(false);
    };
    check_privileges(tables, session)?;
    let queues = tables.of(&QUEUES);
    let by_name = format!("WHERE name = {} AND id = {queue}", text_literal(name));
    report(0);
    // From now on no job is put or claimed.
    session.run(&command(
        "queue delete",
        format!("UPDATE {queues} SET deleted_at = COALESCE(deleted_at, {NOW}) {by_name}"),
    ))?;
    // An earlier turn may still be claiming. It locks its worker's row until its end.
    session.run(&await_turns(tables, queue))?;
    for worker in session.run(&ask_workers(tables, queue))? {
        let which = format!("WHERE n.worker = {worker} ORDER BY n.worker, n.job");
        delete_all(JobState::Running, &which, tables, session, &mut report)?;
    }
    let of_queue = |order: &str| format!("WHERE n.queue = {queue} ORDER BY n.queue, {order}");
    // Workers that do not know of the deletion may still return jobs, as due or delayed. Hence due jobs come twice.
    for (state, order) in [
        (JobState::Dead, "n.job"),
        (JobState::Done, "n.done_at, n.job"),
        (JobState::Due, "n.shard, n.priority, n.job"),
        (JobState::Delayed, "n.due_at, n.job"),
        (JobState::Due, "n.shard, n.priority, n.job"),
    ] {
        delete_all(state, &of_queue(order), tables, session, &mut report)?;
    }
    for (table, order) in [(&JOB_KEYS, "job_key"), (&QUEUE_MINUTES, "minute, worker")] {
        let delete = format!(
            "DELETE FROM {} WHERE queue = {queue} ORDER BY queue, {order} LIMIT {MOST_DELETED}",
            tables.of(table)
        );
        let delete = command("queue delete", delete);
        while session.change(&delete)? >= MOST_DELETED {}
    }
    // Keep the rows of living workers: they still have to find out.
    let expired = format!("expires_at < {NOW}");
    for over in ["expires_at IS NULL", &expired] {
        let delete = format!(
            "DELETE FROM {} WHERE queue = {queue} AND {over} ORDER BY queue, expires_at LIMIT {MOST_DELETED}",
            tables.of(&WORKERS)
        );
        let delete = command("queue delete", delete);
        while session.change(&delete)? >= MOST_DELETED {}
    }
    session.run(&command(
        "queue delete",
        format!("DELETE FROM {queues} {by_name} AND deleted_at IS NOT NULL"),
    ))?;
    delete_orphans(tables, session)?;
    Ok(true)
}

/// Deletes the claims and the row of a worker whose queue was deleted. On a cluster nobody else may know of these claims.
///
/// # Errors
/// Those of a statement. It can be repeated.
pub fn delete_worker(worker: u64, tables: &Tables, session: &mut Session) -> Result<(), Fault> {
    let which = format!("WHERE n.worker = {worker} ORDER BY n.worker, n.job");
    delete_all(JobState::Running, &which, tables, session, &mut |_| {})?;
    session.run(&command(
        "queue delete worker",
        format!(
            "DELETE FROM {} WHERE worker = {worker}",
            tables.of(&WORKERS)
        ),
    ))
}

/// Deletes the workers that lived when their queue was deleted, and died before they noticed.
fn delete_orphans(tables: &Tables, session: &mut Session) -> Result<(), Fault> {
    for worker in session.run(&ask_orphans(tables))? {
        delete_worker(worker, tables, session)?;
    }
    Ok(())
}

/// Workers whose lease is over and whose queue is gone.
fn ask_orphans(tables: &Tables) -> Ask<'static, Vec<u64>> {
    let sql = format!(
        "SELECT w.worker FROM (SELECT DISTINCT queue FROM {workers}) some LEFT JOIN {} q ON q.id = some.queue \
         JOIN {workers} w ON w.queue = some.queue WHERE q.id IS NULL AND w.expires_at < {NOW}",
        tables.of(&QUEUES),
        workers = tables.of(&WORKERS)
    );
    ask_values("queue orphans", sql).up_to(LIST)
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
        session.run(&command(
            "queue may delete",
            format!("DELETE FROM {} WHERE {nothing}", tables.of(table)),
        ))?;
    }
    Ok(())
}

/// Deletes the rows of a state with their jobs, and reports the number of jobs.
fn delete_all(
    state: JobState,
    which: &str,
    tables: &Tables,
    session: &mut Session,
    report: &mut impl FnMut(u64),
) -> Result<(), Fault> {
    loop {
        let which = format!("{which} LIMIT {MOST_ENTRIES}");
        let entries = session.run(&ask_entries(tables, state, &which))?;
        if entries.is_empty() {
            return Ok(());
        }
        delete_entries(&entries, tables, session)?;
        report(entries.iter().map(|entry| u64::from(entry.jobs)).sum());
    }
}

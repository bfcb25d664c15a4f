//! What people do to single jobs: retry them now, or cancel them. Each change is one transaction.

use serde::{Deserialize, Serialize};

use super::entries::{Entry, Job, MOST_ENTRIES, ask_entries, ask_job};
use super::jobs::JobState;
use super::narrow::{CARRIED, insert_into, jobs_of};
use super::queues::Queue;
use super::wake::wake_one;
use crate::base::text::counted;
use crate::db::sql::{NOW, micros, moment};
use crate::db::{Fault, Session, ask, command, text_literal};
use crate::history::Deed;
use crate::schema::{DEAD, JOB_KEYS, JOB_PARTS, JOBS, Tables};

/// The result of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Changed {
    /// The job is due now. It was in this state before.
    Retried(JobState),
    /// The job is deleted. It was in this state before.
    Deleted(JobState),
    /// The job is running, and will not run again.
    Canceled,
    /// The job is unchanged, because it is in this state.
    Not(JobState),
    /// The queue has no such job.
    Unknown,
}

/// The states in which a job can be changed, in the order in which it is looked for.
const OPEN: [JobState; 4] = [
    JobState::Dead,
    JobState::Delayed,
    JobState::Due,
    JobState::Running,
];

/// Makes a dead or delayed job due now, with its block.
///
/// # Errors
/// Those of a statement. [`Fault::Conflict`] and [`Fault::Interrupted`] allow another try.
pub fn retry(
    id: u64,
    queue: &Queue,
    tables: &Tables,
    session: &mut Session,
) -> Result<Changed, Fault> {
    transact(session, |session| {
        let entry = match find(id, queue, tables, session)? {
            Ok((_, entry)) => entry,
            Err(unchanged) => return Ok(unchanged),
        };
        if !matches!(entry.state, JobState::Dead | JobState::Delayed) {
            return Ok(Changed::Not(entry.state));
        }
        make_due(&[entry], tables, session)?;
        record("queue retry", id, queue, tables, session)?;
        Ok(Changed::Retried(entry.state))
    })
    .and_then(|changed| {
        if matches!(changed, Changed::Retried(_)) {
            wake_one(&queue.name, tables, session)?;
        }
        Ok(changed)
    })
}

/// Makes all jobs due that are dead now, a few hundred in each transaction, of which the first records that for all of them. Reports how
/// many.
///
/// # Errors
/// As [`retry`].
pub fn retry_dead(
    queue: &Queue,
    tables: &Tables,
    session: &mut Session,
    mut report: impl FnMut(u64),
) -> Result<(), Fault> {
    // Jobs that die meanwhile stay dead. The clock may have been set back since the last one died, so it is not asked for the time.
    let of_queue = format!("n.queue = {}", queue.id);
    let count = format!(
        "SELECT CAST(COALESCE(SUM({}), 0) AS UNSIGNED) AS jobs, {} AS latest FROM {} n WHERE {of_queue}",
        jobs_of("n"),
        micros("MAX(n.died_at)"),
        tables.of(&DEAD)
    );
    let count = ask("queue dead jobs", count, |rows| {
        let row = rows.one()?;
        // An application may have written dates that are none.
        Ok((row.get("jobs")?, row.get_or_default("latest")?))
    });
    let (all, latest): (u64, i64) = session.run(&count)?;
    let died = format!("{of_queue} AND n.died_at <= {}", moment(latest));
    let mut after = 0;
    loop {
        let moved = transact(session, |session| {
            let which = format!(
                "WHERE {died} AND n.job > {after} ORDER BY n.queue, n.job LIMIT {MOST_ENTRIES} FOR UPDATE"
            );
            let dead = session.run(&ask_entries(tables, JobState::Dead, &which))?;
            make_due(&dead, tables, session)?;
            if after == 0 && !dead.is_empty() {
                let detail = Some(counted(all, "dead job"));
                Deed::to(&queue.name, "queue retry", detail).record_with(tables, session)?;
            }
            Ok(dead)
        });
        let moved = match moved {
            Ok(moved) => moved,
            Err(Fault::Conflict(_)) => continue,
            Err(fault) => return Err(fault),
        };
        let Some(last) = moved.last() else {
            return Ok(());
        };
        after = last.job;
        report(moved.iter().map(|entry| u64::from(entry.jobs)).sum());
        wake_one(&queue.name, tables, session)?;
    }
}

/// Moves rows of one table to the due jobs. The attempts of dead jobs start again at 0.
fn make_due(entries: &[Entry], tables: &Tables, session: &mut Session) -> Result<(), Fault> {
    let Some(first) = entries.first() else {
        return Ok(());
    };
    let from = tables.of(first.state.table());
    let attempt = match first.state {
        JobState::Dead => "0",
        _ => "attempt",
    };
    let keys: Vec<_> = entries
        .iter()
        .map(|entry| format!("({})", entry.key()))
        .collect();
    let keys = keys.join(" OR ");
    session.run(&command(
        "queue retry",
        format!(
            "{} FROM {from} WHERE {keys}",
            insert_into(
                &tables.of(JobState::Due.table()),
                CARRIED,
                [attempt, "every_us", NOW],
                None
            )
        ),
    ))?;
    session.run(&command(
        "queue retry",
        format!("DELETE FROM {from} WHERE {keys}"),
    ))
}

/// Deletes a job that is waiting or dead. A running job will not run again.
///
/// # Errors
/// As [`retry`].
pub fn cancel(
    id: u64,
    queue: &Queue,
    tables: &Tables,
    session: &mut Session,
) -> Result<Changed, Fault> {
    transact(session, |session| {
        let (job, entry) = match find(id, queue, tables, session)? {
            Ok(found) => found,
            Err(unchanged) => return Ok(unchanged),
        };
        let jobs = tables.of(&JOBS);
        if let Some(key) = &job.key {
            session.run(&command(
                "queue cancel",
                format!(
                    "DELETE FROM {} WHERE queue = {} AND job_key = {} AND job = {id}",
                    tables.of(&JOB_KEYS),
                    queue.id,
                    text_literal(key)
                ),
            ))?;
        }
        if entry.state == JobState::Running {
            session.run(&command(
                "queue cancel",
                format!(
                    "UPDATE {jobs} SET canceled_at = COALESCE(canceled_at, {NOW}) WHERE id = {id}"
                ),
            ))?;
            record("queue cancel", id, queue, tables, session)?;
            return Ok(Changed::Canceled);
        }
        let narrow = tables.of(entry.state.table());
        let key = entry.key();
        let narrow_row = if entry.is_block() && entry.jobs > 1 {
            format!("UPDATE {narrow} SET jobs = jobs - 1 WHERE {key}")
        } else {
            format!("DELETE FROM {narrow} WHERE {key}")
        };
        session.run(&command("queue cancel", narrow_row))?;
        session.run(&command(
            "queue cancel",
            format!("DELETE FROM {} WHERE job = {id}", tables.of(&JOB_PARTS)),
        ))?;
        session.run(&command(
            "queue cancel",
            format!("DELETE FROM {jobs} WHERE id = {id}"),
        ))?;
        record("queue cancel", id, queue, tables, session)?;
        Ok(Changed::Deleted(entry.state))
    })
}

/// Records what somebody does to a job.
fn record(
    action: &'static str,
    id: u64,
    queue: &Queue,
    tables: &Tables,
    session: &mut Session,
) -> Result<(), Fault> {
    let detail = Some(format!("job {id}"));
    Deed::to(&queue.name, action, detail).record_with(tables, session)
}

/// Finds a job and the row of its state, and locks the row. `Err`: it cannot be changed, as it is not there, or is done and has none.
fn find(
    id: u64,
    queue: &Queue,
    tables: &Tables,
    session: &mut Session,
) -> Result<Result<(Job, Entry), Changed>, Fault> {
    let Some(job) = session.run(&ask_job(tables, queue.id, id))? else {
        return Ok(Err(Changed::Unknown));
    };
    for state in OPEN {
        if let Some(entry) = job.entry(state, tables, session, true)? {
            return Ok(Ok((job, entry)));
        }
    }
    if session.run(&job.ask_is_in(&OPEN, tables))? {
        let cause = format!("job {id} has moved from one state to another");
        return Err(Fault::Conflict(cause));
    }
    Ok(Err(Changed::Not(JobState::Done)))
}

/// Runs `work` in a transaction.
pub(super) fn transact<T>(
    session: &mut Session,
    work: impl FnOnce(&mut Session) -> Result<T, Fault>,
) -> Result<T, Fault> {
    session.run(&command("queue begin", "BEGIN"))?;
    let done = work(session).and_then(|done| {
        session.run(&command("queue commit", "COMMIT"))?;
        Ok(done)
    });
    if let Err(fault) = &done
        && !matches!(fault, Fault::Gone(_))
    {
        session.run(&command("queue rollback", "ROLLBACK"))?;
    }
    done
}

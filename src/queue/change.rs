//! What people do to single jobs: try them again now, or have them not run any more. Each is one transaction.

use serde::{Deserialize, Serialize};

use super::entries::{AskEntries, AskJob, Entry, Job, MOST_ENTRIES};
use super::jobs::State;
use super::manage::wake_one;
use super::narrow::{CARRIED, insert_into};
use super::queues::Queue;
use crate::db::{Fault, Plain, Row, Session, Statement, first_value, text_literal};
use crate::schema::{JOB_KEYS, JOB_PARTS, JOBS, Tables};

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Changed {
    /// It is due now, and was in this state.
    Retried(State),
    /// It is deleted, and was in this state.
    Deleted(State),
    /// It runs, and will not run again.
    Canceled,
    /// It is as it was, in this state.
    Not(State),
    /// The queue has no such job.
    Unknown,
}

/// How often a job is looked for that is in no state, for it may be on its way from one to another.
const LOOKS: u32 = 3;

/// Has a job be due now that is dead or delayed, with its block.
///
/// # Errors
/// Those of a statement; after [`Fault::Conflict`] and [`Fault::Interrupted`] it may be done again.
pub fn retry(
    id: u64,
    queue: &Queue,
    tables: &Tables,
    session: &mut Session,
) -> Result<Changed, Fault> {
    transact(session, |session| {
        let Some((_, entry)) = find(id, queue, tables, session)? else {
            return Ok(Changed::Unknown);
        };
        let Some(entry) = entry else {
            return Ok(Changed::Not(State::Done));
        };
        if !matches!(entry.state, State::Dead | State::Delayed) {
            return Ok(Changed::Not(entry.state));
        }
        make_due(&[entry], tables, session)?;
        Ok(Changed::Retried(entry.state))
    })
    .and_then(|changed| {
        if matches!(changed, Changed::Retried(_)) {
            wake_one(&queue.name, tables, session)?;
        }
        Ok(changed)
    })
}

/// Has all jobs of a queue be due that are dead by now, a few hundred with each transaction; reports how many.
///
/// # Errors
/// As [`retry`].
pub fn retry_dead(
    queue: &Queue,
    tables: &Tables,
    session: &mut Session,
    mut report: impl FnMut(u64),
) -> Result<(), Fault> {
    // Those that die again meanwhile stay dead.
    let now = session.run(&AskNow)?;
    let mut after = 0;
    loop {
        let moved = transact(session, |session| {
            let which = format!(
                "WHERE n.queue = {} AND n.job > {after} AND n.died_at <= {} ORDER BY n.queue, n.job LIMIT {MOST_ENTRIES} FOR UPDATE",
                queue.id,
                super::entries::moment(now)
            );
            let dead = session.run(&AskEntries {
                tables,
                state: State::Dead,
                which,
            })?;
            make_due(&dead, tables, session)?;
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

/// Moves rows of one table to those that are due now; a dead one has not been tried yet.
fn make_due(entries: &[Entry], tables: &Tables, session: &mut Session) -> Result<(), Fault> {
    let Some(first) = entries.first() else {
        return Ok(());
    };
    let from = tables.of(first.state.table());
    let attempt = match first.state {
        State::Dead => "0",
        _ => "attempt",
    };
    let keys: Vec<_> = entries
        .iter()
        .map(|entry| format!("({})", entry.key()))
        .collect();
    let keys = keys.join(" OR ");
    session.run(&Plain(format!(
        "/* dblock queue retry */ {} FROM {from} WHERE {keys}",
        insert_into(
            &tables.of(State::Due.table()),
            CARRIED,
            [attempt, "every_us", "UTC_TIMESTAMP(6)"],
            None
        )
    )))?;
    session.run(&Plain(format!(
        "/* dblock queue retry */ DELETE FROM {from} WHERE {keys}"
    )))
}

/// Deletes a job that waits or is dead; one that runs is not to run again.
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
        let Some((job, entry)) = find(id, queue, tables, session)? else {
            return Ok(Changed::Unknown);
        };
        let Some(entry) = entry else {
            return Ok(Changed::Not(State::Done));
        };
        let jobs = tables.of(&JOBS);
        if let Some(key) = &job.key {
            session.run(&Plain(format!(
                "/* dblock queue cancel */ DELETE FROM {} WHERE queue = {} AND job_key = {} AND job = {id}",
                tables.of(&JOB_KEYS),
                queue.id,
                text_literal(key)
            )))?;
        }
        if entry.state == State::Running {
            session.run(&Plain(format!(
                "/* dblock queue cancel */ UPDATE {jobs} SET canceled_at = COALESCE(canceled_at, UTC_TIMESTAMP(6)) WHERE id = {id}"
            )))?;
            return Ok(Changed::Canceled);
        }
        let narrow = tables.of(entry.state.table());
        let key = entry.key();
        session.run(&Plain(if entry.is_block() && entry.jobs > 1 {
            format!("/* dblock queue cancel */ UPDATE {narrow} SET jobs = jobs - 1 WHERE {key}")
        } else {
            format!("/* dblock queue cancel */ DELETE FROM {narrow} WHERE {key}")
        }))?;
        session.run(&Plain(format!(
            "/* dblock queue cancel */ DELETE FROM {} WHERE job = {id}",
            tables.of(&JOB_PARTS)
        )))?;
        session.run(&Plain(format!(
            "/* dblock queue cancel */ DELETE FROM {jobs} WHERE id = {id}"
        )))?;
        Ok(Changed::Deleted(entry.state))
    })
}

/// A job, and the row that says its state, which is locked; none of that: it is done. `None`: there is no such job.
fn find(
    id: u64,
    queue: &Queue,
    tables: &Tables,
    session: &mut Session,
) -> Result<Option<(Job, Option<Entry>)>, Fault> {
    let queue = queue.id;
    let Some(job) = session.run(&AskJob { tables, queue, id })? else {
        return Ok(None);
    };
    for _ in 0..LOOKS {
        for state in [State::Dead, State::Delayed, State::Due, State::Running] {
            if let Some(entry) = job.entry(state, tables, session, true)? {
                return Ok(Some((job, Some(entry))));
            }
        }
    }
    Ok(Some((job, None)))
}

/// Carries out a transaction.
fn transact<T>(
    session: &mut Session,
    work: impl FnOnce(&mut Session) -> Result<T, Fault>,
) -> Result<T, Fault> {
    session.run(&Plain("/* dblock queue begin */ BEGIN".to_owned()))?;
    let done = work(session).and_then(|done| {
        session.run(&Plain("/* dblock queue commit */ COMMIT".to_owned()))?;
        Ok(done)
    });
    if let Err(fault) = &done
        && !matches!(fault, Fault::Gone(_))
    {
        session.run(&Plain("/* dblock queue rollback */ ROLLBACK".to_owned()))?;
    }
    done
}

/// The server's time, in microseconds since 1970.
pub(super) struct AskNow;

impl Statement for AskNow {
    type Answer = i64;

    fn sql(&self) -> String {
        format!(
            "/* dblock queue now */ SELECT {}",
            super::entries::micros("UTC_TIMESTAMP(6)")
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<i64, Fault> {
        Ok(first_value(rows)?.unwrap_or_default())
    }
}

//! Deleting what nobody needs any more, a little at a time.

use super::entries::{AskEntries, MOST_DELETED, MOST_ENTRIES, delete_entries};
use super::jobs::State;
use super::queues::Queue;
use crate::db::{Fault, Plain, Session};
use crate::schema::{PUTS, QUEUE_MINUTES, Tables, WORKERS};

/// How long is kept what is only looked up.
const KEPT: &str = "INTERVAL 1 DAY";

/// Deletes, a few hundred rows each: jobs of the queue that are done and were kept for as long as it says, its counts of minutes and its
/// workers that are gone for more than a day, and the notes of all puts that are older than a day. Each statement is a transaction of
/// its own: there must be none under way. Whether there may be more.
///
/// # Errors
/// Those of a statement; nothing depends on it.
pub fn prune(tables: &Tables, queue: &Queue, session: &mut Session) -> Result<bool, Fault> {
    let id = queue.id;
    let which = format!(
        "WHERE n.queue = {id} AND n.done_at < UTC_TIMESTAMP(6) - INTERVAL {} SECOND ORDER BY n.queue, n.done_at, n.job \
         LIMIT {MOST_ENTRIES}",
        queue.keep.as_secs()
    );
    let mut done = session.run(&AskEntries {
        tables,
        state: State::Done,
        which,
    })?;
    let is_full = done.len() == MOST_ENTRIES;
    // A block has a thousand jobs.
    if done.iter().any(super::entries::Entry::is_block) {
        done.truncate(1);
    }
    let has_more = is_full || done.iter().any(super::entries::Entry::is_block);
    delete_entries(&done, tables, session)?;
    for statement in [
        format!(
            "DELETE FROM {} WHERE queue = {id} AND minute < UTC_TIMESTAMP() - {KEPT} ORDER BY queue, minute, worker",
            tables.of(&QUEUE_MINUTES)
        ),
        format!(
            "DELETE FROM {} WHERE put_at < UTC_TIMESTAMP(6) - {KEPT} ORDER BY put_at",
            tables.of(&PUTS)
        ),
        format!(
            "DELETE FROM {} WHERE queue = {id} AND expires_at IS NULL AND gone_at < UTC_TIMESTAMP(6) - {KEPT}",
            tables.of(&WORKERS)
        ),
    ] {
        session.run(&Plain(format!(
            "/* dblock queue prune */ {statement} LIMIT {MOST_DELETED}"
        )))?;
    }
    Ok(has_more)
}

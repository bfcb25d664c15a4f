//! Creating and pausing queues.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::change::transact;
use super::queues::{Properties, Queue, find_queue};
use super::wake::wake_one;
use crate::base::text::shown;
use crate::db::sql::NOW;
use crate::db::{Fault, Session, command, text_literal};
use crate::history::Deed;
use crate::schema::{QUEUES, Tables};

/// The result of creating a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Created {
    /// It is new.
    New,
    /// It already existed, with the same properties.
    Same,
    /// It exists with other properties; with the differences as text.
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
        "INSERT INTO {queues} (name, claim, shards, max_attempts, retry_delay_us, ttl_seconds, \
         keep_seconds, created_at) VALUES ({}, {}, {}, {}, {}, {}, {}, {NOW})",
        text_literal(name),
        text_literal(properties.claim.word()),
        properties.shards,
        properties.max_attempts,
        properties.retry_delay.as_micros(),
        properties.ttl.as_secs(),
        properties.keep.as_secs()
    );
    // Look first: a failed insert would use up a number.
    if let Some(found) = session.run(&find_queue(tables, name))? {
        return Ok(compare(properties, &found));
    }
    match session.run(&command("queue create", insert)) {
        Ok(()) => return Ok(Created::New),
        Err(Fault::Exists(_)) => {}
        Err(fault) => return Err(fault),
    }
    match session.run(&find_queue(tables, name))? {
        Some(found) => Ok(compare(properties, &found)),
        None => Ok(Created::Deleting),
    }
}

/// How a queue that is there differs from the one that is wanted.
fn compare(wanted: &Properties, found: &Queue) -> Created {
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

/// Pauses or resumes a queue. Resuming wakes an idle worker. Returns whether there is such a queue.
///
/// # Errors
/// Those of a statement.
pub fn pause(
    name: &str,
    pauses: bool,
    tables: &Tables,
    session: &mut Session,
) -> Result<bool, Fault> {
    if session.run(&find_queue(tables, name))?.is_none() {
        return Ok(false);
    }
    let (action, paused_at, now) = if pauses {
        ("queue pause", NOW, "NULL")
    } else {
        ("queue resume", "NULL", "NOT NULL")
    };
    transact(session, |session| {
        let sql = format!(
            "UPDATE {} SET paused_at = {paused_at} WHERE name = {} AND deleted_at IS NULL AND paused_at IS {now}",
            tables.of(&QUEUES),
            text_literal(name)
        );
        if session.change(&command("queue pause", sql))? == 0 {
            return Ok(());
        }
        Deed::to(name, action, None).record_with(tables, session)
    })?;
    if !pauses {
        wake_one(name, tables, session)?;
    }
    Ok(true)
}

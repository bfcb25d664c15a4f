//! A queue and its properties.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::db::{Ask, ask, text_literal};
use crate::schema::{QUEUES, Tables};

/// What a worker claims at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Claim {
    /// Single jobs.
    Rows,
    /// Blocks of jobs that were put together.
    Blocks,
}

impl Claim {
    /// All values.
    pub const ALL: [Self; 2] = [Self::Rows, Self::Blocks];

    /// Its word on the command line and in the table.
    pub fn word(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Blocks => "blocks",
        }
    }

    /// The value with this word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|claim| claim.word() == word)
    }
}

/// The properties of a new queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Properties {
    /// What a worker claims at once.
    pub claim: Claim,
    /// The number of its shards, 1 to 1024.
    pub shards: u16,
    /// The number of attempts before a job is dead, 1 or more.
    pub max_attempts: u32,
    /// The delay after the first failure. It doubles with each attempt.
    pub retry_delay: Duration,
    /// The lease of a worker, in whole seconds.
    pub ttl: Duration,
    /// How long done jobs are kept, in whole seconds; zero: they are deleted at once.
    pub keep: Duration,
}

/// A queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Its id in the tables.
    pub id: u32,
    /// What a worker claims at once.
    pub claim: Claim,
    /// The number of its shards, 1 or more. Jobs are only in order within a shard.
    pub shards: u16,
    /// The number of attempts before a job is dead.
    pub max_attempts: u32,
    /// The delay after the first failure. It doubles with each attempt.
    pub retry_delay: Duration,
    /// The lease of a worker.
    pub ttl: Duration,
    /// How long done jobs are kept; zero: they are deleted at once.
    pub keep: Duration,
}

/// Whether the queue is being deleted.
pub(super) fn ask_is_deleting(tables: &Tables, name: &str) -> Ask<'static, bool> {
    let sql = format!(
        "SELECT deleted_at IS NOT NULL FROM {} WHERE name = {}",
        tables.of(&QUEUES),
        text_literal(name)
    );
    ask("queue is deleting", sql, |rows| {
        Ok(rows.value()?.unwrap_or(false))
    })
}

/// Finds a queue by its name; `None`: it does not exist, or is being deleted.
pub fn find_queue<'a>(tables: &Tables, name: &'a str) -> Ask<'a, Option<Queue>> {
    let sql = format!(
        "SELECT id, claim, shards, max_attempts, retry_delay_us, ttl_seconds, keep_seconds FROM {} \
         WHERE name = {} AND deleted_at IS NULL",
        tables.of(&QUEUES),
        text_literal(name)
    );
    ask("queue find", sql, move |rows| {
        rows.optional(|row| {
            let claim: String = row.get("claim")?;
            Ok(Queue {
                name: name.to_owned(),
                id: row.get("id")?,
                claim: Claim::of_word(&claim).unwrap_or(Claim::Rows),
                shards: row.get::<u16>("shards")?.max(1),
                max_attempts: row.get("max_attempts")?,
                retry_delay: Duration::from_micros(row.get("retry_delay_us")?),
                ttl: Duration::from_secs(row.get("ttl_seconds")?),
                keep: Duration::from_secs(row.get("keep_seconds")?),
            })
        })
    })
}

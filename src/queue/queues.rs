//! A queue and its properties.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::db::{Fault, Row, Statement, first_value, text_literal};
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
    /// Whether it is paused.
    pub paused: bool,
}

impl Queue {
    /// What it was created with.
    pub fn properties(&self) -> Properties {
        Properties {
            claim: self.claim,
            shards: self.shards,
            max_attempts: self.max_attempts,
            retry_delay: self.retry_delay,
            ttl: self.ttl,
            keep: self.keep,
        }
    }
}

/// Whether the queue is being deleted.
pub(super) struct IsDeleting<'a> {
    pub tables: &'a Tables,
    pub name: &'a str,
}

impl Statement for IsDeleting<'_> {
    type Answer = bool;

    fn sql(&self) -> String {
        format!(
            "/* dblock queue is deleting */ SELECT deleted_at IS NOT NULL FROM {} WHERE name = {}",
            self.tables.of(&QUEUES),
            text_literal(self.name)
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<bool, Fault> {
        Ok(first_value::<u8>(rows)? == Some(1))
    }
}

/// Finds a queue by its name; `None`: it does not exist, or is being deleted.
pub struct FindQueue<'a> {
    /// dblock's tables.
    pub tables: &'a Tables,
    /// Its name.
    pub name: &'a str,
}

impl Statement for FindQueue<'_> {
    type Answer = Option<Queue>;

    fn sql(&self) -> String {
        format!(
            "/* dblock queue find */ SELECT id, claim, shards, max_attempts, retry_delay_us, ttl_seconds, keep_seconds, \
             paused_at IS NOT NULL FROM {} WHERE name = {} AND deleted_at IS NULL",
            self.tables.of(&QUEUES),
            text_literal(self.name)
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Option<Queue>, Fault> {
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let word = row.text(1)?.unwrap_or_default();
        Ok(Some(Queue {
            name: self.name.to_owned(),
            id: row.old(0)?.unwrap_or_default(),
            claim: Claim::of_word(&word).unwrap_or(Claim::Rows),
            shards: row.old(2)?.unwrap_or(1),
            max_attempts: row.old(3)?.unwrap_or(1),
            retry_delay: Duration::from_micros(row.old(4)?.unwrap_or_default()),
            ttl: Duration::from_secs(row.old(5)?.unwrap_or_default()),
            keep: Duration::from_secs(row.old(6)?.unwrap_or_default()),
            paused: row.old::<u8>(7)? == Some(1),
        }))
    }
}

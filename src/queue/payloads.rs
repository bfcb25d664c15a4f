//! Reading payloads: those of a block, and those that are in parts.

use crate::db::{Fault, Row, Statement, first_value};
use crate::schema::{JOBS, QUEUES, Tables};

/// A job of a block, or one whose payload is in parts.
#[derive(Debug)]
pub struct BlockJob {
    /// Its number.
    pub id: u64,
    /// In how many parts its payload is; 0: it is not.
    pub parts: u32,
    /// The payload, unless it is in parts.
    pub payload: Option<Vec<u8>>,
    /// Whether the queue was there when it was read.
    pub has_queue: bool,
}

/// The jobs of a block that come after one, in order. Not all of them, where the queue is being deleted.
pub struct ReadBlock<'a> {
    /// Where.
    pub tables: &'a Tables,
    /// The first and the last job.
    pub jobs: (u64, u64),
    /// The number of the block.
    pub block: u64,
    /// The queue, by its number.
    pub queue: u32,
    /// So many.
    pub limit: usize,
}

impl Statement for ReadBlock<'_> {
    type Answer = Vec<BlockJob>;

    const MOST_ROWS: usize = 100_000;

    fn sql(&self) -> String {
        let (first, last) = self.jobs;
        format!(
            "/* dblock queue read block */ SELECT id, parts, payload, \
             EXISTS (SELECT 1 FROM {} WHERE id = {} AND deleted_at IS NULL) FROM {} WHERE id BETWEEN {first} AND {last} AND block = {} AND canceled_at IS NULL \
             ORDER BY id LIMIT {}",
            self.tables.of(&QUEUES),
            self.queue,
            self.tables.of(&JOBS),
            self.block,
            self.limit
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let job = |row: &Row| {
            Ok(BlockJob {
                id: row.get(0)?.unwrap_or_default(),
                parts: row.get(1)?.unwrap_or_default(),
                payload: row.get(2)?,
                has_queue: row.get::<u8>(3)? == Some(1),
            })
        };
        rows.iter().map(job).collect()
    }
}

/// One part of a payload, from 0; `None`: there is no such.
pub struct ReadPart<'a> {
    /// Where.
    pub tables: &'a Tables,
    /// The job.
    pub job: u64,
    /// The part.
    pub part: u32,
}

impl Statement for ReadPart<'_> {
    type Answer = Option<Vec<u8>>;

    fn sql(&self) -> String {
        format!(
            "/* dblock queue read part */ SELECT data FROM {} WHERE job = {} AND part = {}",
            self.tables.of(&crate::schema::JOB_PARTS),
            self.job,
            self.part
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        first_value(rows)
    }
}

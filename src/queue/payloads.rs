//! Reads payloads: those of a block, those in parts, and those too long to be read with their row.

use crate::db::{Fault, Row, Statement, first_value};
use crate::schema::{JOB_PARTS, JOBS, QUEUES, Tables};

/// Up to this size in bytes a payload is read with the row of its job. A client takes rows of 1 MB, and only as many as it has memory for.
const SHORT: u32 = 16 * 1024;

/// How many bytes of a longer payload are read at once, and most bytes of a part.
pub(super) const PIECE: u64 = 256 * 1024;

/// The most payload parts in one transaction, about 16 MB. One job may exceed it.
pub(super) const MOST_PARTS: u64 = 64;

/// The most bytes in so many parts.
pub(super) fn bytes_of_parts(parts: u32) -> u64 {
    PIECE * u64::from(parts)
}

/// Where a payload is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    /// It was read with the row of its job.
    Read(Vec<u8>),
    /// In the row of its job, with this length in bytes. An application has put it there.
    InRow(u64),
    /// In this many rows of its own.
    InParts(u32),
}

impl Stored {
    /// The columns that [`Self::decode`] reads.
    pub(super) fn columns(jobs: &str) -> String {
        format!(
            "{jobs}.parts, IF(LENGTH({jobs}.payload) <= {SHORT}, {jobs}.payload, NULL), LENGTH({jobs}.payload)"
        )
    }

    /// Decodes these columns, starting with `first`. `None`: there is no such job.
    pub(super) fn decode(row: &Row, first: usize) -> Result<Option<Self>, Fault> {
        let parts: Option<u32> = row.old(first)?;
        let length = row.old(first + 2)?.unwrap_or_default();
        Ok(match parts {
            None => None,
            Some(0) if length > u64::from(SHORT) => Some(Self::InRow(length)),
            Some(0) => Some(Self::Read(row.old(first + 1)?.unwrap_or_default())),
            Some(parts) => Some(Self::InParts(parts)),
        })
    }

    /// How many bytes it has, about.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Read(bytes) => bytes.len() as u64,
            Self::InRow(length) => *length,
            Self::InParts(parts) => bytes_of_parts(*parts),
        }
    }

    /// The pieces that must still be read, in order.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + use<> {
        let (length, parts) = match self {
            Self::Read(_) => (0, 0),
            Self::InRow(length) => (*length, 0),
            Self::InParts(parts) => (0, *parts),
        };
        let in_row = (0..length.div_ceil(PIECE)).map(|number| Piece::FromByte(number * PIECE));
        in_row.chain((0..parts).map(Piece::Part))
    }
}

/// A job of a block.
#[derive(Debug)]
pub struct BlockJob {
    /// Its number.
    pub id: u64,
    /// Its payload.
    pub payload: Stored,
    /// Whether the queue existed when the job was read.
    pub has_queue: bool,
}

/// The jobs of a block in a range of ids, in order. If the queue is being deleted, some may be missing.
pub struct ReadBlock<'a> {
    /// dblock's tables.
    pub tables: &'a Tables,
    /// The first and the last id.
    pub jobs: (u64, u64),
    /// The number of the block.
    pub block: u64,
    /// The queue, by its number.
    pub queue: u32,
    /// How many at most.
    pub limit: usize,
}

impl Statement for ReadBlock<'_> {
    type Answer = Vec<BlockJob>;

    const MOST_ROWS: usize = 100_000;

    fn sql(&self) -> String {
        let (first, last) = self.jobs;
        format!(
            "/* dblock queue read block */ SELECT j.id, {}, \
             EXISTS (SELECT 1 FROM {} WHERE id = {} AND deleted_at IS NULL) FROM {} j WHERE j.id BETWEEN {first} AND {last} AND j.block = {} \
             AND j.canceled_at IS NULL ORDER BY j.id LIMIT {}",
            Stored::columns("j"),
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
                id: row.old(0)?.unwrap_or_default(),
                payload: Stored::decode(row, 1)?.unwrap_or(Stored::Read(Vec::new())),
                has_queue: row.old::<u8>(4)? == Some(1),
            })
        };
        rows.iter().map(job).collect()
    }
}

/// A part of a payload that is read at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// From the row of its job, starting with this byte.
    FromByte(u64),
    /// One of its parts, counted from 0.
    Part(u32),
}

/// Reads a piece of a payload; `None`: it does not exist.
pub struct ReadPiece<'a> {
    /// dblock's tables.
    pub tables: &'a Tables,
    /// The job.
    pub job: u64,
    /// The piece.
    pub piece: Piece,
}

impl Statement for ReadPiece<'_> {
    type Answer = Option<Vec<u8>>;

    fn sql(&self) -> String {
        match self.piece {
            Piece::FromByte(byte) => format!(
                "/* dblock queue read piece */ SELECT SUBSTRING(payload, {} + 1, {PIECE}) FROM {} WHERE id = {}",
                byte,
                self.tables.of(&JOBS),
                self.job
            ),
            Piece::Part(part) => format!(
                "/* dblock queue read part */ SELECT data FROM {} WHERE job = {} AND part = {part}",
                self.tables.of(&JOB_PARTS),
                self.job,
            ),
        }
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        first_value(rows)
    }
}

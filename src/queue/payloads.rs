//! Reads payloads: those of a block, those in parts, and those too long to be read with their row.

use crate::db::{Ask, Fault, Row, ask, ask_value};
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
    /// The columns that [`Self::read`] reads.
    pub(super) fn columns(jobs: &str) -> String {
        format!(
            "{jobs}.parts, IF(LENGTH({jobs}.payload) <= {SHORT}, {jobs}.payload, NULL) AS short_payload, LENGTH({jobs}.payload) AS bytes"
        )
    }

    /// Reads these columns. `None`: there is no such job.
    pub(super) fn read(row: &Row) -> Result<Option<Self>, Fault> {
        let length: u64 = row.get_or_default("bytes")?;
        let short: Option<Vec<u8>> = row.get("short_payload")?;
        let parts: Option<u32> = row.get("parts")?;
        Ok(parts.map(|parts| match parts {
            0 if length > u64::from(SHORT) => Self::InRow(length),
            0 => Self::Read(short.unwrap_or_default()),
            parts => Self::InParts(parts),
        }))
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

/// The jobs of a block from the first to the last id, in order, and up to this many. If the queue is being deleted, some may be missing.
pub fn read_block(
    tables: &Tables,
    queue: u32,
    block: u64,
    (first, last): (u64, u64),
    limit: usize,
) -> Ask<'static, Vec<BlockJob>> {
    let sql = format!(
        "SELECT j.id, {}, \
         EXISTS (SELECT 1 FROM {} WHERE id = {queue} AND deleted_at IS NULL) AS has_queue FROM {} j WHERE j.id BETWEEN {first} AND {last} AND j.block = {block} \
         AND j.canceled_at IS NULL ORDER BY j.id LIMIT {limit}",
        Stored::columns("j"),
        tables.of(&QUEUES),
        tables.of(&JOBS)
    );
    let jobs = ask("queue read block", sql, |rows| {
        rows.all(|row| {
            Ok(BlockJob {
                id: row.get("id")?,
                payload: Stored::read(row)?.unwrap_or(Stored::Read(Vec::new())),
                has_queue: row.get("has_queue")?,
            })
        })
    });
    jobs.up_to(100_000)
}

/// A part of a payload that is read at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// From the row of its job, starting with this byte.
    FromByte(u64),
    /// One of its parts, counted from 0.
    Part(u32),
}

/// Reads a piece of a job's payload; `None`: it does not exist.
pub fn read_piece(tables: &Tables, job: u64, piece: Piece) -> Ask<'static, Option<Vec<u8>>> {
    let (name, sql) = match piece {
        Piece::FromByte(byte) => (
            "queue read piece",
            format!(
                "SELECT SUBSTRING(payload, {byte} + 1, {PIECE}) FROM {} WHERE id = {job}",
                tables.of(&JOBS)
            ),
        ),
        Piece::Part(part) => (
            "queue read part",
            format!(
                "SELECT data FROM {} WHERE job = {job} AND part = {part}",
                tables.of(&JOB_PARTS)
            ),
        ),
    };
    ask_value(name, sql)
}

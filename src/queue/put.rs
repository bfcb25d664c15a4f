//! Puts jobs, some in each transaction, which is usually one packet. A row counts the transactions, and each is conditional on the count.
//! So a transaction with a lost answer can be recognized, and can be sent again at any time.

mod transaction;

use std::time::Duration;

use super::jobs::Traits;
use super::queues::Queue;
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::base::random;
use crate::db::{Ask, Fault, Session, ask, ask_value, command, text_literal};
use crate::schema::{JOB_KEYS, PUTS, Tables};

/// Most payload bytes in a transaction, unless it has only one payload. The packet has two digits for each byte.
pub const MOST_BYTES: usize = 192 * 1024;

/// Jobs that one transaction has put. Their ids are `step` apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Put {
    /// The first id.
    pub first: u64,
    /// The step from one id to the next.
    pub step: u32,
    /// How many jobs.
    pub jobs: u32,
}

impl Put {
    /// Their ids, in the order in which they were put.
    pub fn ids(self) -> impl Iterator<Item = u64> {
        (0..u64::from(self.jobs)).map(move |number| self.first + number * u64::from(self.step))
    }
}

/// The result of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The jobs are put.
    Put(Put),
    /// Nothing was put: this job has the key.
    HasKey(u64),
    /// Nothing was put: the queue is deleted.
    NoQueue,
    /// Nothing was put: the server has lost earlier commits.
    Forgotten,
}

/// Puts jobs into a queue.
pub struct Putter<'a> {
    tables: &'a Tables,
    queue: Queue,
    traits: &'a Traits,
    /// The key of its row in the table of puts: 32 hex digits.
    put: String,
    /// The number of committed transactions.
    turn: u64,
    /// The shard of the next job.
    shard: u16,
    /// The block number of the current transaction's jobs.
    block: u64,
    /// When the last transaction was committed.
    committed: Moment,
    /// Bytes in one part of a long payload. The parts in one packet have this much together, unless it is a single part.
    part: usize,
}

impl<'a> Putter<'a> {
    /// A putter that has put nothing yet.
    ///
    /// # Errors
    /// [`Reason::OsRefused`] if the system has no random bits.
    pub fn new(tables: &'a Tables, queue: Queue, traits: &'a Traits) -> Result<Self, Failure> {
        let shard = random::number()? % u64::from(queue.shards);
        Ok(Self {
            tables,
            traits,
            put: random::id()?,
            turn: 0,
            shard: u16::try_from(shard).unwrap_or_default(),
            block: new_block()?,
            committed: Moment::now(),
            part: transaction::PART,
            queue,
        })
    }

    /// Limits packets to this many bytes, which is what the server takes.
    pub fn limit_packets(&mut self, packet: usize) {
        self.part = transaction::part_of(packet);
    }

    /// Tries to put these payloads in one transaction, 1 to [`MOST_JOBS`](super::MOST_JOBS) of them.
    ///
    /// # Errors
    /// After [`Fault::Conflict`] and [`Fault::NoRoom`] nothing was put. After any other fault but [`Fault::Final`] that is unknown;
    /// [`Putter::look_up`] finds out.
    pub fn try_put(&mut self, session: &mut Session, payloads: &[&[u8]]) -> Result<Outcome, Fault> {
        let done = self.send(session, payloads);
        match done {
            Ok(put) => {
                self.commit(payloads.len())?;
                Ok(Outcome::Put(put))
            }
            Err(fault) => {
                // Roll back the rest of the transaction. A lost session has none.
                if !matches!(fault, Fault::Gone(_)) {
                    session.run(&command("queue rollback", "ROLLBACK"))?;
                }
                match fault {
                    Fault::Unmet(_) | Fault::Exists(_) => self.explain(session, fault, payloads),
                    fault => Err(fault),
                }
            }
        }
    }

    /// Whether the last payloads were put, after their answer was lost.
    ///
    /// # Errors
    /// Those of a statement.
    pub fn look_up(
        &mut self,
        session: &mut Session,
        payloads: &[&[u8]],
    ) -> Result<Option<Put>, Fault> {
        let found = session.run(&ask_put(self.tables, &self.put))?;
        match found {
            Some((turn, first, step)) if turn == self.turn + 1 => {
                self.commit(payloads.len())?;
                let jobs = u32::try_from(payloads.len()).unwrap_or(u32::MAX);
                Ok(Some(Put { first, step, jobs }))
            }
            _ => Ok(None),
        }
    }

    /// The unfinished job with the key, if the jobs have a key.
    ///
    /// # Errors
    /// Those of a statement.
    pub fn job_with_key(&self, session: &mut Session) -> Result<Option<u64>, Fault> {
        match &self.traits.key {
            None => Ok(None),
            Some(key) => session.run(&ask_key(self.tables, self.queue.id, key)),
        }
    }

    /// Why the transaction was refused: it was committed before, another job has the key, or the queue is gone.
    fn explain(
        &mut self,
        session: &mut Session,
        fault: Fault,
        payloads: &[&[u8]],
    ) -> Result<Outcome, Fault> {
        // The job with the key may be the one that was committed before, so it is read first.
        let holder = self.job_with_key(session)?;
        if let Some(put) = self.look_up(session, payloads)? {
            return Ok(Outcome::Put(put));
        }
        if let Some(job) = holder {
            return Ok(Outcome::HasKey(job));
        }
        let name = &self.queue.name;
        let found = session.run(&super::find_queue(self.tables, name))?;
        match (found, fault) {
            (Some(queue), fault) if queue.id == self.queue.id => match fault {
                // Its row was pruned, because the put was silent for so long.
                Fault::Unmet(cause) if self.committed.elapsed() > IDLE => {
                    self.put = random::id().map_err(Fault::Final)?;
                    self.turn = 0;
                    Err(Fault::Conflict(cause))
                }
                // Its last commit is missing: the server was restored from a backup, or took over without it.
                Fault::Unmet(_) if self.turn > 0 => Ok(Outcome::Forgotten),
                // The job with the key is done by now.
                Fault::Exists(cause) if self.traits.key.is_some() => Err(Fault::Conflict(cause)),
                fault => Err(Fault::Final(Failure::new(
                    Reason::Internal,
                    format!("{session} refused a statement: {fault}"),
                ))),
            },
            _ => Ok(Outcome::NoQueue),
        }
    }

    fn commit(&mut self, jobs: usize) -> Result<(), Fault> {
        self.turn += 1;
        self.committed = Moment::now();
        let shards = usize::from(self.queue.shards);
        let shard = (usize::from(self.shard) + jobs) % shards;
        self.shard = u16::try_from(shard).unwrap_or_default();
        self.block = new_block().map_err(Fault::Final)?;
        Ok(())
    }
}

/// After this time the row of a put may have been pruned.
const IDLE: Duration = Duration::from_secs(12 * 3600);

/// A number that no other block has. 0 means that there is no block.
fn new_block() -> Result<u64, Failure> {
    Ok(random::number()?.max(1))
}

/// The server's largest packet, in bytes.
pub fn ask_packet() -> Ask<'static, Option<usize>> {
    ask_value("queue packet", "SELECT @@max_allowed_packet")
}

/// The number of a put's transactions, with the first id and the step of the last one.
fn ask_put(tables: &Tables, put: &str) -> Ask<'static, Option<(u64, u64, u32)>> {
    let sql = format!(
        "SELECT turn, first_job, step FROM {} WHERE put = {}",
        tables.of(&PUTS),
        text_literal(put)
    );
    ask("queue put turn", sql, |rows| {
        rows.optional(|row| Ok((row.get("turn")?, row.get("first_job")?, row.get("step")?)))
    })
}

/// The unfinished job with a key.
fn ask_key(tables: &Tables, queue: u32, key: &str) -> Ask<'static, Option<u64>> {
    let sql = format!(
        "SELECT job FROM {} WHERE queue = {queue} AND job_key = {}",
        tables.of(&JOB_KEYS),
        text_literal(key)
    );
    ask_value("queue key", sql)
}

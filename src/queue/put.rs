//! Putting jobs: one transaction for some of them at a time, and as a rule one packet. A row counts the transactions, and each is
//! conditional on it: so one whose answer was lost is known again, and may be sent again at any time.

mod transaction;

use std::time::Duration;

use super::jobs::Traits;
use super::queues::Queue;
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::db::{Fault, Plain, Row, Session, Statement, first_value, text_literal};
use crate::schema::{JOB_KEYS, PUTS, Tables};

/// Bytes of the payloads of a transaction at most, unless there is one alone. The packet has two digits for each.
pub const MOST_BYTES: usize = 192 * 1024;

/// Jobs that were put by one transaction. Their ids are so far apart as the server says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Put {
    /// The id of the first.
    pub first: u64,
    /// From one id to the next.
    pub step: u32,
    /// How many.
    pub jobs: u32,
}

impl Put {
    /// Their ids, in the order in which they were put.
    pub fn ids(self) -> impl Iterator<Item = u64> {
        (0..u64::from(self.jobs)).map(move |number| self.first + number * u64::from(self.step))
    }
}

/// What came of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The jobs are put.
    Put(Put),
    /// Nothing is put: this job has the key.
    HasKey(u64),
    /// Nothing is put: the queue is deleted.
    NoQueue,
    /// Nothing is put: the server has lost what it had committed before.
    Forgotten,
}

/// Puts jobs into a queue.
pub struct Putter<'a> {
    tables: &'a Tables,
    queue: Queue,
    traits: &'a Traits,
    /// The number of its row: 32 hex digits.
    put: String,
    /// How many transactions were committed.
    turn: u64,
    /// Where the next job goes.
    shard: u16,
    /// The number of the jobs of the transaction that is under way.
    block: u64,
    /// When the last one was committed.
    committed: Moment,
    /// Bytes of a part of a long payload; so many of all parts of a packet, unless there is one alone.
    part: usize,
}

impl<'a> Putter<'a> {
    /// One that has put nothing yet.
    ///
    /// # Errors
    /// [`Reason::OsRefused`] when the system has no random bits.
    pub fn new(tables: &'a Tables, queue: Queue, traits: &'a Traits) -> Result<Self, Failure> {
        let shard = random()? % u64::from(queue.shards.max(1));
        Ok(Self {
            tables,
            traits,
            put: new_put()?,
            turn: 0,
            shard: u16::try_from(shard).unwrap_or_default(),
            block: new_block()?,
            committed: Moment::now(),
            part: transaction::PART,
            queue,
        })
    }

    /// From here on no packet has more than so many bytes, which is what the server takes.
    pub fn limit_packets(&mut self, packet: usize) {
        self.part = transaction::part_of(packet);
    }

    /// Tries to put these payloads, in one transaction, 1 to [`MOST_JOBS`](super::MOST_JOBS).
    ///
    /// # Errors
    /// After [`Fault::Conflict`] and [`Fault::NoRoom`] they are not put. After anything else but [`Fault::Final`] that is not known until
    /// [`Putter::look_up`] has said it.
    pub fn try_put(&mut self, session: &mut Session, payloads: &[&[u8]]) -> Result<Outcome, Fault> {
        let done = self.send(session, payloads);
        match done {
            Ok(put) => {
                self.commit(payloads.len())?;
                Ok(Outcome::Put(put))
            }
            Err(fault) => {
                // What is left of the transaction; a session that is gone has none.
                if !matches!(fault, Fault::Gone(_)) {
                    session.run(&Plain("/* dblock queue rollback */ ROLLBACK".to_owned()))?;
                }
                match fault {
                    Fault::Unmet(_) | Fault::Exists(_) => self.explain(session, fault, payloads),
                    fault => Err(fault),
                }
            }
        }
    }

    /// Whether the payloads are put that were sent last, and whose answer was lost.
    ///
    /// # Errors
    /// Those of a statement.
    pub fn look_up(
        &mut self,
        session: &mut Session,
        payloads: &[&[u8]],
    ) -> Result<Option<Put>, Fault> {
        let found = session.run(&AskPut {
            tables: self.tables,
            put: &self.put,
        })?;
        match found {
            Some((turn, first, step)) if turn == self.turn + 1 => {
                self.commit(payloads.len())?;
                let jobs = u32::try_from(payloads.len()).unwrap_or(u32::MAX);
                Ok(Some(Put { first, step, jobs }))
            }
            _ => Ok(None),
        }
    }

    /// The job that is not done and has the key, where there is a key.
    ///
    /// # Errors
    /// Those of a statement.
    pub fn job_with_key(&self, session: &mut Session) -> Result<Option<u64>, Fault> {
        match &self.traits.key {
            None => Ok(None),
            Some(key) => session.run(&AskKey {
                tables: self.tables,
                queue: self.queue.id,
                key,
            }),
        }
    }

    /// Why the transaction was refused: it is committed already, there is a job of the key, or the queue is gone.
    fn explain(
        &mut self,
        session: &mut Session,
        fault: Fault,
        payloads: &[&[u8]],
    ) -> Result<Outcome, Fault> {
        if let Some(put) = self.look_up(session, payloads)? {
            return Ok(Outcome::Put(put));
        }
        if let Some(job) = self.job_with_key(session)? {
            return Ok(Outcome::HasKey(job));
        }
        let name = &self.queue.name;
        let found = session.run(&super::FindQueue {
            tables: self.tables,
            name,
        })?;
        match (found, fault) {
            (Some(queue), fault) if queue.id == self.queue.id => match fault {
                // Its row was deleted, as those are that have not changed for long.
                Fault::Unmet(cause) if self.committed.elapsed() > IDLE => {
                    self.put = new_put().map_err(Fault::Final)?;
                    self.turn = 0;
                    Err(Fault::Conflict(cause))
                }
                // Its last commit is there no more, as on a server that was restored from a backup or took over without it.
                Fault::Unmet(_) if self.turn > 0 => Ok(Outcome::Forgotten),
                // The job that had the key is done meanwhile.
                Fault::Exists(cause) if self.traits.key.is_some() => Err(Fault::Conflict(cause)),
                fault => Err(Fault::Final(Failure::new(
                    Reason::Internal,
                    format!("the server refused a statement: {fault}"),
                ))),
            },
            _ => Ok(Outcome::NoQueue),
        }
    }

    fn commit(&mut self, jobs: usize) -> Result<(), Fault> {
        self.turn += 1;
        self.committed = Moment::now();
        let shards = usize::from(self.queue.shards.max(1));
        let shard = (usize::from(self.shard) + jobs) % shards;
        self.shard = u16::try_from(shard).unwrap_or_default();
        self.block = new_block().map_err(Fault::Final)?;
        Ok(())
    }
}

/// After so long the row of a put may have been deleted.
const IDLE: Duration = Duration::from_secs(12 * 3600);

fn new_put() -> Result<String, Failure> {
    let put = (u128::from(random()?) << 64) | u128::from(random()?);
    Ok(format!("{put:032x}"))
}

fn random() -> Result<u64, Failure> {
    getrandom::u64().map_err(|error| {
        let line = format!("cannot get random bits: {error}");
        Failure::new(Reason::OsRefused, line)
    })
}

/// A number that no other jobs have; 0 has another meaning.
fn new_block() -> Result<u64, Failure> {
    Ok(random()?.max(1))
}

/// Bytes of a packet that the server takes at most.
pub struct AskPacket;

impl Statement for AskPacket {
    type Answer = Option<usize>;

    fn sql(&self) -> String {
        "/* dblock queue packet */ SELECT @@max_allowed_packet".to_owned()
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        first_value(rows)
    }
}

/// How many transactions of a put were carried out, and the first id and the step of the last one.
struct AskPut<'a> {
    tables: &'a Tables,
    put: &'a str,
}

impl Statement for AskPut<'_> {
    type Answer = Option<(u64, u64, u32)>;

    fn sql(&self) -> String {
        format!(
            "/* dblock queue put turn */ SELECT turn, first_job, step FROM {} WHERE put = {}",
            self.tables.of(&PUTS),
            text_literal(self.put)
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let (turn, first, step) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(turn
            .zip(first)
            .zip(step)
            .map(|((turn, first), step)| (turn, first, step)))
    }
}

/// The job that is not done and has a key.
struct AskKey<'a> {
    tables: &'a Tables,
    queue: u32,
    key: &'a str,
}

impl Statement for AskKey<'_> {
    type Answer = Option<u64>;

    fn sql(&self) -> String {
        format!(
            "/* dblock queue key */ SELECT job FROM {} WHERE queue = {} AND job_key = {}",
            self.tables.of(&JOB_KEYS),
            self.queue,
            text_literal(self.key)
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Option<u64>, Fault> {
        first_value(rows)
    }
}

//! Putting jobs: one transaction for some of them at a time, and as a rule one packet. A row counts the transactions, and each is
//! conditional on it: so one whose answer was lost is known again, and may be sent again at any time.

use std::fmt::Write;
use std::time::Duration;

use super::entries::moment;
use super::jobs::{Due, Traits};
use super::queues::{Claim, Queue};
use super::wake::wake;
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::db::{Batch, Fault, Plain, Reply, Row, Session, Statement, first_value, text_literal};
use crate::schema::{DELAYED, DUE, JOB_KEYS, JOB_PARTS, JOBS, PUTS, QUEUES, Tables};

/// How long an idle worker sleeps at most.
const SLEEP: Duration = Duration::from_secs(1);

/// Bytes of the payloads of a transaction at most, unless there is one alone. The packet has two digits for each.
pub const MOST_BYTES: usize = 192 * 1024;

/// Bytes of a payload that stands in the row of its job.
const LONGEST_INLINE: usize = 16 * 1024;

/// Bytes of a part of a longer one.
const PART: usize = 256 * 1024;

/// Bytes of the parts of a packet, of which one may exceed it.
const PARTS_OF_PACKET: usize = PART;

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
            queue,
        })
    }

    /// Tries to put these payloads, in one transaction, 1 to [`MOST_JOBS`](super::MOST_JOBS).
    ///
    /// # Errors
    /// After [`Fault::Conflict`] they are not put. After anything else but [`Fault::Final`] that is not known until
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

    fn send(&self, session: &mut Session, payloads: &[&[u8]]) -> Result<Put, Fault> {
        let mut statements = self.begin(payloads);
        if payloads
            .iter()
            .any(|payload| payload.len() > LONGEST_INLINE)
        {
            send(session, statements)?;
            self.send_parts(session, payloads)?;
            statements = Vec::new();
        }
        statements.extend(self.end(payloads.len()));
        name(&mut statements);
        let commit = statements
            .iter()
            .position(|sql| sql == COMMIT)
            .unwrap_or_default();
        statements.push("SELECT @first, @step".to_owned());
        // An idle worker sleeps for a second at most, and until what it knows of is due.
        let is_soon = match self.traits.due {
            Due::Now | Due::At(_) => true,
            Due::After(delay) => delay < SLEEP,
        };
        if is_soon {
            statements.push(wake(self.tables.database(), &self.queue.name));
        }
        let jobs = u32::try_from(payloads.len()).unwrap_or(u32::MAX);
        session.run_batch(&LastPacket {
            statements,
            commit,
            jobs,
        })
    }

    /// Begins the transaction, and puts the jobs, apart from long payloads.
    fn begin(&self, payloads: &[&[u8]]) -> Vec<String> {
        let of_queue = format!(
            "SELECT IF(COUNT(*) = 1, 1, (SELECT 1 UNION SELECT 2)) FROM {} WHERE name = {} AND id = {} AND deleted_at IS NULL \
             LOCK IN SHARE MODE",
            self.tables.of(&QUEUES),
            text_literal(&self.queue.name),
            self.queue.id
        );
        let key = self.traits.key.as_deref();
        let key = key.map_or_else(|| "NULL".to_owned(), text_literal);
        let (queue, priority, block) = (self.queue.id, self.traits.priority, self.block);
        let mut insert = format!(
            "INSERT INTO {} (queue, shard, priority, block, payload, parts, job_key, put_at) VALUES ",
            self.tables.of(&JOBS)
        );
        for (number, payload) in payloads.iter().enumerate() {
            let shard = self.shard_of(number);
            let comma = if number == 0 { "" } else { "," };
            let _ = write!(insert, "{comma}({queue},{shard},{priority},{block},");
            if payload.len() <= LONGEST_INLINE {
                literal(&mut insert, payload);
                insert.push_str(",0");
            } else {
                let _ = write!(insert, "NULL,{}", payload.len().div_ceil(PART));
            }
            let _ = write!(insert, ",{key},UTC_TIMESTAMP(6))");
        }
        vec![
            "/* dblock queue put */ BEGIN".to_owned(),
            of_queue,
            insert,
            // The ids of rows that are listed in one statement follow one another by this step.
            "SET @first = LAST_INSERT_ID(), @step = @@auto_increment_increment".to_owned(),
        ]
    }

    /// Puts the parts of long payloads, some with each packet.
    fn send_parts(&self, session: &mut Session, payloads: &[&[u8]]) -> Result<(), Fault> {
        let begin = format!(
            "/* dblock queue put */ INSERT INTO {} (job, part, data) VALUES ",
            self.tables.of(&JOB_PARTS)
        );
        let (mut packet, mut bytes) = (String::new(), 0);
        for (number, payload) in payloads.iter().enumerate() {
            if payload.len() <= LONGEST_INLINE {
                continue;
            }
            for (part, data) in payload.chunks(PART).enumerate() {
                if bytes > 0 && bytes + data.len() > PARTS_OF_PACKET {
                    send(session, vec![std::mem::take(&mut packet)])?;
                    bytes = 0;
                }
                packet.push_str(if bytes == 0 { &begin } else { "," });
                let _ = write!(packet, "(@first + {number} * @step,{part},");
                literal(&mut packet, data);
                packet.push(')');
                bytes += data.len();
            }
        }
        send(session, vec![packet])
    }

    /// Says that this turn was carried out, unless it was before, has the jobs wait, and ends the transaction.
    fn end(&self, jobs: usize) -> Vec<String> {
        let mut statements = Vec::new();
        if let Some(key) = &self.traits.key {
            statements.push(format!(
                "INSERT INTO {} (queue, job_key, job) VALUES ({}, {}, @first)",
                self.tables.of(&JOB_KEYS),
                self.queue.id,
                text_literal(key)
            ));
        }
        let (puts, put) = (self.tables.of(&PUTS), text_literal(&self.put));
        if self.turn == 0 {
            statements.push(format!(
                "INSERT INTO {puts} (put, turn, jobs, first_job, step, put_at) \
                 VALUES ({put}, 1, {jobs}, @first, @step, UTC_TIMESTAMP(6))"
            ));
        } else {
            let (before, turn) = (self.turn, self.turn + 1);
            statements.push(format!(
                "UPDATE {puts} SET turn = {turn}, jobs = jobs + {jobs}, first_job = @first, step = @step, \
                 put_at = UTC_TIMESTAMP(6) WHERE put = {put} AND turn = {before}"
            ));
            statements.push("SELECT IF(ROW_COUNT() = 1, 1, (SELECT 1 UNION SELECT 2))".to_owned());
        }
        statements.push(self.narrow(jobs));
        statements.push(COMMIT.to_owned());
        statements
    }

    /// Has the jobs wait, each by itself or as a block.
    fn narrow(&self, jobs: usize) -> String {
        let (table, due_at) = match self.traits.due {
            Due::Now => (&DUE, "UTC_TIMESTAMP(6)".to_owned()),
            Due::After(span) => (
                &DELAYED,
                format!(
                    "UTC_TIMESTAMP(6) + INTERVAL {} MICROSECOND",
                    span.as_micros()
                ),
            ),
            Due::At(micros) => (&DELAYED, moment(micros)),
        };
        let every = self.traits.every;
        let every = every.map_or_else(|| "NULL".to_owned(), |span| span.as_micros().to_string());
        let into = format!(
            "INSERT INTO {} (queue, shard, priority, job, last_job, block, jobs, every_us, due_at)",
            self.tables.of(table)
        );
        let (last, block) = (jobs - 1, self.block);
        match self.queue.claim {
            // From their rows: to list them again would take the server longer than to put those.
            Claim::Rows => format!(
                "{into} SELECT queue, shard, priority, id, 0, 0, 1, {every}, {due_at} FROM {} \
                 WHERE id BETWEEN @first AND @first + {last} * @step AND block = {block}",
                self.tables.of(&JOBS)
            ),
            Claim::Blocks => {
                let (queue, priority, shard) =
                    (self.queue.id, self.traits.priority, self.shard_of(0));
                format!(
                    "{into} VALUES ({queue},{shard},{priority},@first,@first+{last}*@step,{block},{jobs},{every},{due_at})"
                )
            }
        }
    }

    /// The shard of a job of the transaction: one after the other, and of a block the first one's.
    fn shard_of(&self, number: usize) -> u16 {
        let number = match self.queue.claim {
            Claim::Rows => number,
            Claim::Blocks => 0,
        };
        let shard = (usize::from(self.shard) + number) % usize::from(self.queue.shards.max(1));
        u16::try_from(shard).unwrap_or_default()
    }
}

const COMMIT: &str = "COMMIT";

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

/// Bytes as an SQL literal.
fn literal(sql: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    sql.push_str("_binary x'");
    for byte in bytes {
        sql.push(char::from(DIGITS[usize::from(byte >> 4)]));
        sql.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    sql.push('\'');
}

/// Has a packet begin with its name.
fn name(statements: &mut [String]) {
    if let Some(first) = statements.first_mut()
        && !first.starts_with("/*")
    {
        first.insert_str(0, "/* dblock queue put */ ");
    }
}

/// Sends a packet that does not end the transaction.
fn send(session: &mut Session, statements: Vec<String>) -> Result<(), Fault> {
    session.run_batch(&Packet(statements))
}

struct Packet(Vec<String>);

impl Batch for Packet {
    type Answer = ();

    fn statements(&self) -> Vec<String> {
        self.0.clone()
    }

    fn decode(&self, _: &[Reply], fault: Option<Fault>) -> Result<(), Fault> {
        fault.map_or(Ok(()), Err)
    }
}

/// The packet with which the transaction ends.
struct LastPacket {
    statements: Vec<String>,
    /// Which of them commits.
    commit: usize,
    jobs: u32,
}

impl Batch for LastPacket {
    type Answer = Put;

    fn statements(&self) -> Vec<String> {
        self.statements.clone()
    }

    fn decode(&self, replies: &[Reply], fault: Option<Fault>) -> Result<Put, Fault> {
        // Behind the ids only somebody is woken.
        if let Some(row) = replies
            .get(self.commit + 1)
            .and_then(|reply| reply.rows.first())
        {
            let first = row.get(0)?.unwrap_or_default();
            let step = row.get(1)?.unwrap_or(1);
            return Ok(Put {
                first,
                step,
                jobs: self.jobs,
            });
        }
        // What is unknown is looked up.
        Err(fault.unwrap_or_else(|| Fault::Interrupted("the ids are missing".to_owned())))
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

//! The transaction of a put: its statements, and their packets.

use std::fmt::Write;
use std::time::Duration;

use super::{Put, Putter};
use crate::db::sql::{NOW, after, moment, optional_number, optional_text, write_bytes};
use crate::db::{Batch, Fault, Session, named, text_literal};
use crate::queue::jobs::Due;
use crate::queue::queues::Claim;
use crate::queue::wake::wake;
use crate::schema::{DELAYED, DUE, JOB_KEYS, JOB_PARTS, JOBS, PUTS, QUEUES};

/// How long an idle worker sleeps at most.
const SLEEP: Duration = Duration::from_secs(1);

/// Up to this size in bytes a payload is stored in the row of its job.
const LONGEST_INLINE: usize = 16 * 1024;

/// Bytes in one part of a longer payload.
pub(super) const PART: usize = 256 * 1024;

/// Bytes in a packet for each job without its payload, and for everything else, such as names and keys. Upper limits.
const ROW: usize = 100;
const REST: usize = 6 * 1024;

/// Bytes in one part of a payload, for a server with this packet limit.
pub(super) fn part_of(packet: usize) -> usize {
    (packet.saturating_sub(REST) / 2).clamp(512, PART)
}

/// The name of its statements.
const NAME: &str = "queue put";

const COMMIT: &str = "COMMIT";

impl Putter<'_> {
    /// Up to this size in bytes a payload is stored in the row of its job. Longer ones are put in parts.
    fn longest_inline(&self) -> usize {
        LONGEST_INLINE.min(self.part)
    }

    /// How many of these payloads fit into one transaction with packets up to this size; at least one.
    pub fn fitting(&self, payloads: &[&[u8]], packet: usize) -> usize {
        let mut bytes = REST;
        let fit = payloads.iter().take_while(|payload| {
            bytes += ROW;
            if payload.len() <= self.longest_inline() {
                bytes += 2 * payload.len();
            }
            bytes <= packet
        });
        fit.count().max(1)
    }

    /// Sends the transaction, usually in one packet.
    pub(super) fn send(&self, session: &mut Session, payloads: &[&[u8]]) -> Result<Put, Fault> {
        let mut statements = self.begin(payloads);
        if payloads
            .iter()
            .any(|payload| payload.len() > self.longest_inline())
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
        // An idle worker looks again after a second, or when the next job that it knows of is due.
        let is_soon = match self.traits.due {
            Due::Now | Due::At(_) => true,
            Due::After(delay) => delay < SLEEP,
        };
        if is_soon {
            statements.push(wake(self.tables.name(), &self.queue.name));
        }
        let jobs = u32::try_from(payloads.len()).unwrap_or(u32::MAX);
        session.run_batch(&last_packet(statements, commit, jobs))
    }

    /// Begins the transaction, and inserts the jobs without long payloads.
    fn begin(&self, payloads: &[&[u8]]) -> Vec<String> {
        let of_queue = format!(
            "SELECT IF(COUNT(*) = 1, 1, (SELECT 1 UNION SELECT 2)) FROM {} WHERE name = {} AND id = {} AND deleted_at IS NULL \
             LOCK IN SHARE MODE",
            self.tables.of(&QUEUES),
            text_literal(&self.queue.name),
            self.queue.id
        );
        let key = optional_text(self.traits.key.as_deref());
        let (queue, priority, block) = (self.queue.id, self.traits.priority, self.block);
        let mut insert = format!(
            "INSERT INTO {} (queue, shard, priority, block, payload, parts, job_key, put_at) VALUES ",
            self.tables.of(&JOBS)
        );
        for (number, payload) in payloads.iter().enumerate() {
            let shard = self.shard_of(number);
            let comma = if number == 0 { "" } else { "," };
            let _ = write!(insert, "{comma}({queue},{shard},{priority},{block},");
            if payload.len() <= self.longest_inline() {
                write_bytes(&mut insert, payload);
                insert.push_str(",0");
            } else {
                let _ = write!(insert, "NULL,{}", payload.len().div_ceil(self.part));
            }
            let _ = write!(insert, ",{key},{NOW})");
        }
        vec![
            named(NAME, "BEGIN"),
            of_queue,
            insert,
            self.ids(payloads.len()),
        ]
    }

    /// Notes the first id and the step: the ids of rows inserted by one statement are the same step apart. It is read from the rows. The
    /// server's variable may have another value by now, as a node of a Galera cluster sets it anew before each statement.
    fn ids(&self, jobs: usize) -> String {
        if jobs == 1 {
            return "SET @first = LAST_INSERT_ID(), @step = 1".to_owned();
        }
        // Without a second row the step is NULL, which the table of puts refuses.
        format!(
            "SELECT LAST_INSERT_ID(), (SELECT n.id FROM {} n FORCE INDEX (PRIMARY) WHERE n.id > LAST_INSERT_ID() AND n.block = {} \
             ORDER BY n.id LIMIT 1) - LAST_INSERT_ID() INTO @first, @step",
            self.tables.of(&JOBS),
            self.block
        )
    }

    /// Inserts the parts of long payloads, some in each packet.
    fn send_parts(&self, session: &mut Session, payloads: &[&[u8]]) -> Result<(), Fault> {
        let insert = format!(
            "INSERT INTO {} (job, part, data) VALUES ",
            self.tables.of(&JOB_PARTS)
        );
        let begin = named(NAME, insert);
        let (mut packet, mut bytes) = (String::new(), 0);
        for (number, payload) in payloads.iter().enumerate() {
            if payload.len() <= self.longest_inline() {
                continue;
            }
            for (part, data) in payload.chunks(self.part).enumerate() {
                if bytes > 0 && bytes + data.len() > self.part {
                    send(session, vec![std::mem::take(&mut packet)])?;
                    bytes = 0;
                }
                packet.push_str(if bytes == 0 { &begin } else { "," });
                let _ = write!(packet, "(@first + {number} * @step,{part},");
                write_bytes(&mut packet, data);
                packet.push(')');
                bytes += data.len();
            }
        }
        send(session, vec![packet])
    }

    /// Counts the transaction, unless it was already carried out, inserts the jobs' narrow rows, and commits.
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
                 VALUES ({put}, 1, {jobs}, @first, @step, {NOW})"
            ));
        } else {
            let (before, turn) = (self.turn, self.turn + 1);
            statements.push(format!(
                "UPDATE {puts} SET turn = {turn}, jobs = jobs + {jobs}, first_job = @first, step = @step, \
                 put_at = {NOW} WHERE put = {put} AND turn = {before}"
            ));
            statements.push("SELECT IF(ROW_COUNT() = 1, 1, (SELECT 1 UNION SELECT 2))".to_owned());
        }
        statements.push(self.narrow(jobs));
        statements.push(COMMIT.to_owned());
        statements
    }

    /// Inserts the jobs' narrow rows, one for each or one for the block.
    fn narrow(&self, jobs: usize) -> String {
        let (table, due_at) = match self.traits.due {
            Due::Now => (&DUE, NOW.to_owned()),
            Due::After(span) => (&DELAYED, after(span)),
            Due::At(micros) => (&DELAYED, moment(micros)),
        };
        let every = self.traits.every;
        let every = optional_number(every.map(|span| span.as_micros()));
        let into = format!(
            "INSERT INTO {} (queue, shard, priority, job, last_job, block, jobs, every_us, due_at)",
            self.tables.of(table)
        );
        let (last, block) = (jobs - 1, self.block);
        match self.queue.claim {
            // Copying them from the wide table is faster than listing them again.
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

    /// The shard of a job in the transaction. Single jobs go to one shard after the other, and a block to that of its first job.
    fn shard_of(&self, number: usize) -> u16 {
        let number = match self.queue.claim {
            Claim::Rows => number,
            Claim::Blocks => 0,
        };
        let shard = (usize::from(self.shard) + number) % usize::from(self.queue.shards);
        u16::try_from(shard).unwrap_or_default()
    }
}

/// Puts the transaction's name in front of a packet.
fn name(statements: &mut [String]) {
    if let Some(first) = statements.first_mut()
        && !first.starts_with("/*")
    {
        *first = named(NAME, &first);
    }
}

/// Sends a packet that is not the last of the transaction.
fn send(session: &mut Session, statements: Vec<String>) -> Result<(), Fault> {
    session.run_batch(&Batch::written(statements))
}

/// The last packet of a transaction that puts so many jobs, with the place of its COMMIT. The caller looks up what became of it if the
/// answer lacks the ids.
fn last_packet(statements: Vec<String>, commit: usize, jobs: u32) -> Batch<'static, Put> {
    Batch::written(statements).read(move |replies, fault| {
        // The statement after the ids only wakes a worker.
        let ids = replies.get(commit + 1);
        let put = ids.map(|ids| {
            ids.rows().optional(|row| {
                let (first, step) = row.columns()?;
                Ok(Put { first, step, jobs })
            })
        });
        match put.transpose()?.flatten() {
            Some(put) => Ok(put),
            None => {
                Err(fault.unwrap_or_else(|| Fault::Interrupted("the ids are missing".to_owned())))
            }
        }
    })
}

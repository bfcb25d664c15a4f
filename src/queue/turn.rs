//! A worker's turn: in one transaction and one packet it hands in what has ended and claims what is due. The number of the turn in the
//! worker's row grows by one with it, on the condition that it was one less: so a turn whose answer was lost is carried out once, and
//! by that number it is known whether it was.
//!
//! All else in the transaction is conditional on that: a turn that reaches the server late, when the one that was sent again in its place
//! is over, changes nothing, though the worker may have claimed the same jobs again meanwhile.
//!
//! What has ended is handed in by the rows that the worker still has in the table of running jobs. Who gives a dead worker's jobs to
//! others takes all of them away at once, together with the worker's lease: then the turn changes nothing.

use std::fmt::Write;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Claim, Queue};
use crate::db::{Batch, Fault, LIST, Row, Statement, text_literal};
use crate::schema::{
    DEAD, DELAYED, DONE, DUE, JOB_KEYS, JOB_PARTS, JOBS, QUEUE_MINUTES, QUEUES, RUNNING, Tables,
    WORKERS,
};

/// The columns that go with a job from one narrow table to the next; `attempt`, `every_us` and `due_at` besides.
pub(super) const CARRIED: &str = "queue, shard, priority, job, last_job, block, jobs, fence";

/// Characters of an error that are kept.
pub const LONGEST_ERROR: usize = 1000;

/// Repeating jobs that are late by more than a period leave out what they have missed, but for the last.
const NEXT_DUE: &str = "r.due_at + INTERVAL (r.every_us * GREATEST(1, GREATEST(0, TIMESTAMPDIFF(MICROSECOND, r.due_at, UTC_TIMESTAMP(6))) \
     DIV r.every_us)) MICROSECOND";

/// One job, or a block of jobs, that is claimed and handed in as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// The job, or the first of the block.
    pub job: u64,
    /// The last of the block; 0: it is a job on its own.
    pub last_job: u64,
    /// The number that the jobs of the block have; 0: it is a job on its own.
    pub block: u64,
    /// How often it was started, with this time.
    pub attempt: u32,
    /// Grows with every claim.
    pub fence: u64,
    /// Whether it is due again after it was done.
    pub repeats: bool,
    /// Whether a job of it may have a key.
    pub has_key: bool,
    /// Whether a payload of it is in parts.
    pub has_parts: bool,
}

/// What became of a job, or of all jobs of a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobEnd {
    /// It is done.
    Done,
    /// It has failed, and is due again after this time.
    Retry(Duration, String),
    /// It wants to be started again after this time; that counts as no attempt.
    Later(Duration),
    /// It has failed for good.
    Dead(String),
    /// It was not started, or ended by dblock itself: it is due again, and that counts as no attempt.
    GivenBack,
}

/// What is handed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// What was claimed.
    pub unit: Unit,
    /// What became of its jobs, those apart that are named.
    pub outcome: JobEnd,
    /// Jobs of a block of which something else became, by their numbers.
    pub others: Vec<(u64, JobEnd)>,
}

/// A turn.
pub struct Turn<'a> {
    /// Where.
    pub tables: &'a Tables,
    /// The queue.
    pub queue: &'a Queue,
    /// The worker's number.
    pub worker: u64,
    /// The number of the turn.
    pub number: u64,
    /// What has ended.
    pub ended: &'a [Ended],
    /// How many jobs are done and have failed since that was last recorded.
    pub counts: (u64, u64),
    /// What to claim; `None`: nothing.
    pub want: Option<Want>,
    /// Whether the worker was idle before: the server keeps the session longer from then on.
    pub awakes: bool,
    /// A named lock to release after it.
    pub release: Option<&'a str>,
}

/// What to claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// So many jobs or blocks.
    pub limit: u32,
    /// Of this shard.
    pub shard: u16,
    /// Of these jobs alone, by priority and number. `None`: those that nobody is about to claim (`SKIP LOCKED`).
    pub among: Option<Vec<(i32, u64)>>,
}

/// What the server says after a turn.
#[derive(Debug, Default)]
pub struct TurnOver {
    /// What the worker's row says.
    pub standing: Standing,
    /// What was claimed, and the payloads of jobs on their own; `None`: in parts, or of a block.
    pub claimed: Vec<(Unit, u32, Option<Vec<u8>>)>,
}

/// What a worker's row says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// The number of its last turn; `None`: the worker is gone, and has nothing any more.
    pub turn: Option<u64>,
    /// Whether the queue is paused.
    pub is_paused: bool,
    /// Whether the queue is there.
    pub has_queue: bool,
}

/// Jobs of a block.
#[derive(Clone, Copy)]
enum Which<'a> {
    All,
    Canceled,
    These(&'a [u64]),
}

impl Turn<'_> {
    /// Rows that the worker has, if its turn counts. They are those of the worker alone then: what is behind the update of its row in
    /// the transaction sees them unchanged.
    fn own(&self) -> String {
        format!("r.worker = {} AND @dblock_turn = 1", self.worker)
    }

    /// Those of these jobs.
    fn of_jobs(&self, units: &[&Ended]) -> String {
        let jobs = units.iter().map(|ended| ended.unit.job.to_string());
        format!(
            "{} AND r.job IN ({})",
            self.own(),
            jobs.collect::<Vec<_>>().join(",")
        )
    }

    fn table(&self, table: &crate::schema::Table) -> String {
        self.tables.of(table)
    }

    /// Takes rows out of the table of running jobs.
    fn take_out(&self, units: &[&Ended]) -> String {
        let of = self.of_jobs(units);
        format!("DELETE r FROM {} r WHERE {of}", self.table(&RUNNING))
    }

    /// Moves rows of running jobs to another table, with these values for `attempt`, `every_us`, `due_at` and what is named besides.
    fn put_into(
        &self,
        table: &crate::schema::Table,
        values: [&str; 3],
        besides: Option<(&str, &str)>,
        units: &[&Ended],
    ) -> String {
        let [attempt, every, due] = values;
        let (column, value) = besides.map_or((String::new(), String::new()), |(column, value)| {
            (format!(", {column}"), format!(", {value}"))
        });
        let carried = CARRIED.replace(", ", ", r.");
        format!(
            "INSERT INTO {} ({CARRIED}, attempt, every_us, due_at{column}) SELECT r.{carried}, {attempt}, {every}, {due}{value} \
             FROM {} r WHERE {}",
            self.table(table),
            self.table(&RUNNING),
            self.of_jobs(units)
        )
    }

    /// Notes the errors of jobs on their own.
    fn note_errors(&self, units: &[(&Ended, &str)]) -> String {
        let mut cases = String::new();
        for (ended, error) in units {
            let _ = write!(
                cases,
                " WHEN {} THEN {}",
                ended.unit.job,
                error_literal(error)
            );
        }
        let all: Vec<_> = units.iter().map(|(ended, _)| *ended).collect();
        format!(
            "UPDATE {} r STRAIGHT_JOIN {} j ON j.id = r.job SET j.failed_at = UTC_TIMESTAMP(6), j.last_error = CASE j.id{cases} END \
             WHERE {}",
            self.table(&RUNNING),
            self.table(&JOBS),
            self.of_jobs(&all)
        )
    }

    /// Notes the errors of jobs of a block that are started again with it.
    fn note_errors_in_block(&self, ended: &Ended) -> Vec<String> {
        let failed = ended
            .others
            .iter()
            .filter_map(|(job, outcome)| match outcome {
                JobEnd::Retry(_, error) | JobEnd::Dead(error) => Some((job, error)),
                _ => None,
            });
        failed
            .map(|(job, error)| {
                format!(
                    "UPDATE {} r STRAIGHT_JOIN {} j SET j.failed_at = UTC_TIMESTAMP(6), j.last_error = {} \
                     WHERE {} AND r.job = {} AND j.id = {job} AND j.block = r.block",
                    self.table(&RUNNING),
                    self.table(&JOBS),
                    error_literal(error),
                    self.own(),
                    ended.unit.job
                )
            })
            .collect()
    }

    /// Deletes what was canceled while it ran, of what would be started again.
    fn drop_canceled(&self, units: &[&Ended]) -> Vec<String> {
        let blocks = units.iter().filter(|ended| ended.unit.block != 0);
        let mut statements: Vec<String> = blocks
            .flat_map(|ended| self.delete_block(&ended.unit, Which::Canceled))
            .collect();
        let singles: Vec<_> = singles(units);
        if singles.is_empty() {
            return statements;
        }
        let canceled = format!("{} AND j.canceled_at IS NOT NULL", self.of_jobs(&singles));
        let (running, jobs) = (self.table(&RUNNING), self.table(&JOBS));
        statements.extend([
            format!(
                "DELETE k, p FROM {running} r STRAIGHT_JOIN {jobs} j ON j.id = r.job LEFT JOIN {} k ON k.queue = r.queue \
                 AND k.job_key = j.job_key AND k.job = j.id LEFT JOIN {} p ON p.job = j.id WHERE {canceled}",
                self.table(&JOB_KEYS),
                self.table(&JOB_PARTS)
            ),
            format!(
                "DELETE r, j FROM {running} r STRAIGHT_JOIN {jobs} j ON j.id = r.job WHERE {canceled}"
            ),
        ]);
        statements
    }

    /// Deletes what jobs on their own that are done leave beside their rows.
    fn drop_belongings(&self, units: &[&Ended], with_parts: bool) -> Vec<String> {
        let mut statements = Vec::new();
        let keyed: Vec<_> = units.iter().copied().filter(|u| u.unit.has_key).collect();
        if !keyed.is_empty() {
            statements.push(format!(
                "DELETE k FROM {} r STRAIGHT_JOIN {} j ON j.id = r.job STRAIGHT_JOIN {} k ON k.queue = r.queue \
                 AND k.job_key = j.job_key AND k.job = j.id WHERE {}",
                self.table(&RUNNING),
                self.table(&JOBS),
                self.table(&JOB_KEYS),
                self.of_jobs(&keyed)
            ));
        }
        let parted: Vec<_> = units.iter().copied().filter(|u| u.unit.has_parts).collect();
        if with_parts && !parted.is_empty() {
            statements.push(format!(
                "DELETE p FROM {} r STRAIGHT_JOIN {} p ON p.job = r.job WHERE {}",
                self.table(&RUNNING),
                self.table(&JOB_PARTS),
                self.of_jobs(&parted)
            ));
        }
        statements
    }

    /// Those whose jobs are all done.
    fn finish(&self, units: &[&Ended]) -> Vec<String> {
        let (repeating, once): (Vec<&Ended>, Vec<&Ended>) =
            units.iter().partition(|ended| ended.unit.repeats);
        let mut statements = self.repeat(&repeating);
        if once.is_empty() {
            return statements;
        }
        let (blocks, singles): (Vec<&Ended>, Vec<&Ended>) =
            once.iter().partition(|ended| ended.unit.block != 0);
        let is_kept = !self.queue.keep.is_zero();
        if !singles.is_empty() {
            statements.extend(self.drop_belongings(&singles, !is_kept));
        }
        if is_kept {
            let keep = ("done_at", "UTC_TIMESTAMP(6)");
            let values = ["r.attempt", "NULL", "r.due_at"];
            statements.push(self.put_into(&DONE, values, Some(keep), &once));
            statements.push(self.take_out(&once));
            return statements;
        }
        if !singles.is_empty() {
            statements.push(format!(
                "DELETE r, j FROM {} r STRAIGHT_JOIN {} j ON j.id = r.job WHERE {}",
                self.table(&RUNNING),
                self.table(&JOBS),
                self.of_jobs(&singles)
            ));
        }
        for block in blocks {
            statements.extend(self.delete_block(&block.unit, Which::All));
            statements.push(self.take_out(&[block]));
        }
        statements
    }

    /// Deletes jobs of a block.
    fn delete_block(&self, unit: &Unit, which: Which) -> Vec<String> {
        let all = format!("j.id BETWEEN {} AND {}", unit.job, unit.last_job);
        let which = match which {
            Which::All => all,
            Which::Canceled => format!("{all} AND j.canceled_at IS NOT NULL"),
            Which::These(jobs) => format!("j.id IN ({})", numbers(jobs)),
        };
        let of = format!(
            "{} AND r.job = {} AND {which} AND j.block = r.block",
            self.own(),
            unit.job
        );
        let (running, jobs) = (self.table(&RUNNING), self.table(&JOBS));
        let parts = unit.has_parts.then(|| {
            format!(
                "DELETE p FROM {running} r STRAIGHT_JOIN {jobs} j STRAIGHT_JOIN {} p ON p.job = j.id WHERE {of}",
                self.table(&JOB_PARTS)
            )
        });
        let jobs = format!("DELETE j FROM {running} r STRAIGHT_JOIN {jobs} j WHERE {of}");
        parts.into_iter().chain([jobs]).collect()
    }

    /// Moves what is left of a block to another table, as [`Self::put_into`] does: from its first job that is left on, with as many as
    /// there are. Nothing where none is.
    fn put_block(
        &self,
        table: &crate::schema::Table,
        values: [&str; 3],
        besides: Option<(&str, &str)>,
        unit: &Unit,
    ) -> String {
        let [attempt, every, due] = values;
        let (column, value) = besides.map_or((String::new(), String::new()), |(column, value)| {
            (format!(", {column}"), format!(", {value}"))
        });
        format!(
            "INSERT INTO {} ({CARRIED}, attempt, every_us, due_at{column}) SELECT r.queue, r.shard, r.priority, l.first, r.last_job, \
             r.block, l.jobs, r.fence, {attempt}, {every}, {due}{value} FROM {} r STRAIGHT_JOIN \
             (SELECT MIN(id) AS first, COUNT(*) AS jobs FROM {} WHERE id BETWEEN {} AND {} AND block = {}) l \
             WHERE {} AND r.job = {} AND l.jobs > 0",
            self.table(table),
            self.table(&RUNNING),
            self.table(&JOBS),
            unit.job,
            unit.last_job,
            unit.block,
            self.own(),
            unit.job
        )
    }

    /// Moves jobs on their own and what is left of blocks.
    fn put_all_into(
        &self,
        table: &crate::schema::Table,
        values: [&str; 3],
        units: &[&Ended],
    ) -> Vec<String> {
        let singles = singles(units);
        let mut statements = Vec::new();
        if !singles.is_empty() {
            statements.push(self.put_into(table, values, None, &singles));
        }
        let blocks = units.iter().filter(|ended| ended.unit.block != 0);
        statements.extend(blocks.map(|ended| self.put_block(table, values, None, &ended.unit)));
        statements
    }

    /// Those that are due again a period after they were.
    fn repeat(&self, units: &[&Ended]) -> Vec<String> {
        if units.is_empty() {
            return Vec::new();
        }
        let mut statements = self.drop_canceled(units);
        statements.extend(self.put_all_into(&DELAYED, ["0", "r.every_us", NEXT_DUE], units));
        statements.push(self.take_out(units));
        statements
    }

    /// Those that are started again: at once, or after a time.
    fn return_units(&self, units: &[&Ended]) -> Vec<String> {
        let mut statements = self.drop_canceled(units);
        let (given_back, delayed): (Vec<&Ended>, Vec<&Ended>) = units
            .iter()
            .partition(|ended| ended.outcome == JobEnd::GivenBack);
        if !given_back.is_empty() {
            let values = ["r.attempt - 1", "r.every_us", "r.due_at"];
            statements.extend(self.put_all_into(&DUE, values, &given_back));
            statements.push(self.take_out(&given_back));
        }
        if !delayed.is_empty() {
            let mut delays = String::new();
            let mut uncounted = vec![0];
            for ended in &delayed {
                let delay = match &ended.outcome {
                    JobEnd::Later(delay) => {
                        uncounted.push(ended.unit.job);
                        *delay
                    }
                    JobEnd::Retry(delay, _) => *delay,
                    _ => Duration::ZERO,
                };
                let _ = write!(
                    delays,
                    " WHEN {} THEN {}",
                    ended.unit.job,
                    delay.as_micros()
                );
            }
            let attempt = format!("r.attempt - (r.job IN ({}))", numbers(&uncounted));
            let due = format!("UTC_TIMESTAMP(6) + INTERVAL (CASE r.job{delays} END) MICROSECOND");
            statements.push(self.put_into(
                &DELAYED,
                [&attempt, "r.every_us", &due],
                None,
                &delayed,
            ));
            statements.push(self.take_out(&delayed));
        }
        statements
    }

    /// Those that have failed for good.
    fn bury(&self, units: &[&Ended]) -> Vec<String> {
        let mut statements = self.drop_canceled(units);
        let died = ("died_at", "UTC_TIMESTAMP(6)");
        let values = ["r.attempt", "r.every_us", "r.due_at"];
        statements.push(self.put_into(&DEAD, values, Some(died), units));
        statements.push(self.take_out(units));
        statements
    }

    /// A block of which some jobs ended otherwise than the rest: these become jobs of their own.
    fn split(&self, ended: &Ended) -> Vec<String> {
        let unit = &ended.unit;
        let running = self.table(&RUNNING);
        let own = format!("{} AND r.job = {}", self.own(), unit.job);
        let mut statements = Vec::new();
        let done: Vec<u64> = ended
            .others
            .iter()
            .filter(|(_, outcome)| *outcome == JobEnd::Done)
            .map(|(job, _)| *job)
            .collect();
        let is_kept = !self.queue.keep.is_zero();
        if !done.is_empty() && !is_kept {
            statements.extend(self.delete_block(unit, Which::These(&done)));
        }
        for (job, outcome) in &ended.others {
            let (table, attempt, due, besides) = match outcome {
                JobEnd::Done if !is_kept => continue,
                JobEnd::Done => (
                    &DONE,
                    "r.attempt",
                    "r.due_at".to_owned(),
                    Some(("done_at", "UTC_TIMESTAMP(6)")),
                ),
                JobEnd::Retry(delay, _) => (&DELAYED, "r.attempt", after(*delay), None),
                JobEnd::Later(delay) => (&DELAYED, "r.attempt - 1", after(*delay), None),
                JobEnd::Dead(_) => (
                    &DEAD,
                    "r.attempt",
                    "r.due_at".to_owned(),
                    Some(("died_at", "UTC_TIMESTAMP(6)")),
                ),
                JobEnd::GivenBack => (&DUE, "r.attempt - 1", "r.due_at".to_owned(), None),
            };
            let (column, value) = besides
                .map_or((String::new(), String::new()), |(column, value)| {
                    (format!(", {column}"), format!(", {value}"))
                });
            statements.push(format!(
                "INSERT INTO {} ({CARRIED}, attempt, every_us, due_at{column}) SELECT r.queue, r.shard, r.priority, {job}, 0, 0, 1, \
                 r.fence, {attempt}, NULL, {due}{value} FROM {running} r STRAIGHT_JOIN {} j WHERE {own} AND j.id = {job} \
                 AND j.block = r.block AND j.canceled_at IS NULL",
                self.table(table),
                self.table(&JOBS)
            ));
            let error = match outcome {
                JobEnd::Retry(_, error) | JobEnd::Dead(error) => format!(
                    ", j.failed_at = UTC_TIMESTAMP(6), j.last_error = {}",
                    error_literal(error)
                ),
                _ => String::new(),
            };
            statements.push(format!(
                "UPDATE {running} r STRAIGHT_JOIN {} j SET j.block = 0{error} WHERE {own} AND j.id = {job} AND j.block = r.block",
                self.table(&JOBS)
            ));
        }
        if ended.outcome == JobEnd::GivenBack {
            // The rest is a block again.
            statements.extend(self.delete_block(unit, Which::Canceled));
            let values = ["r.attempt - 1", "r.every_us", "r.due_at"];
            statements.push(self.put_block(&DUE, values, None, unit));
        } else if is_kept {
            let values = ["r.attempt", "NULL", "r.due_at"];
            let kept = Some(("done_at", "UTC_TIMESTAMP(6)"));
            statements.push(self.put_block(&DONE, values, kept, unit));
        } else {
            statements.extend(self.delete_block(unit, Which::All));
        }
        statements.push(self.take_out(&[ended]));
        statements
    }

    fn hand_in(&self) -> Vec<String> {
        let mut statements = Vec::new();
        let (mut finished, mut returned, mut dead, mut errors) = (vec![], vec![], vec![], vec![]);
        for ended in self.ended {
            if !ended.others.is_empty() {
                if !ended.unit.repeats {
                    statements.extend(self.split(ended));
                    continue;
                }
                statements.extend(self.note_errors_in_block(ended));
            }
            match &ended.outcome {
                JobEnd::Done => finished.push(ended),
                JobEnd::Retry(_, error) => {
                    errors.push((ended, error.as_str()));
                    returned.push(ended);
                }
                JobEnd::Later(_) | JobEnd::GivenBack => returned.push(ended),
                JobEnd::Dead(error) => {
                    errors.push((ended, error.as_str()));
                    // It is to repeat for ever.
                    if ended.unit.repeats {
                        finished.push(ended);
                    } else {
                        dead.push(ended);
                    }
                }
            }
        }
        if !errors.is_empty() {
            statements.push(self.note_errors(&errors));
        }
        for (units, act) in [
            (
                finished,
                Self::finish as fn(&Self, &[&Ended]) -> Vec<String>,
            ),
            (returned, Self::return_units),
            (dead, Self::bury),
        ] {
            if !units.is_empty() {
                statements.extend(act(self, &units));
            }
        }
        statements
    }

    fn count(&self) -> Option<String> {
        let (done, failed) = self.counts;
        (done + failed > 0).then(|| {
            format!(
                "INSERT INTO {} (queue, minute, worker, done, failed) SELECT {}, \
                 DATE_FORMAT(UTC_TIMESTAMP(), '%Y-%m-%d %H:%i:00'), {}, {done}, {failed} FROM DUAL WHERE @dblock_turn = 1 \
                 ON DUPLICATE KEY UPDATE done = {minutes}.done + {done}, failed = {minutes}.failed + {failed}",
                self.table(&QUEUE_MINUTES),
                self.queue.id,
                self.worker,
                minutes = QUEUE_MINUTES.name
            )
        })
    }

    fn claim(&self, want: &Want) -> [String; 2] {
        let Want {
            limit,
            shard,
            among,
        } = want;
        let (which, skips) = match among {
            None => (String::new(), " SKIP LOCKED"),
            Some(jobs) => (format!(" AND ({})", among_jobs(jobs)), ""),
        };
        let carried = CARRIED.replace(", fence", "").replace(", ", ", d.");
        let (worker, turn) = (self.worker, self.number);
        [
            format!(
                "INSERT INTO {} ({CARRIED}, attempt, every_us, due_at, worker, turn, claimed_at) SELECT d.{carried}, d.fence + 1, \
                 d.attempt + 1, d.every_us, d.due_at, {worker}, {turn}, UTC_TIMESTAMP(6) FROM {} w STRAIGHT_JOIN {} d \
                 WHERE w.worker = {worker} AND w.turn = {turn} AND @dblock_turn = 1 AND @dblock_open = 1 AND d.queue = {} AND d.shard = {shard}{which} \
                 ORDER BY d.priority, d.job LIMIT {limit} FOR UPDATE{skips}",
                self.table(&RUNNING),
                self.table(&WORKERS),
                self.table(&DUE),
                self.queue.id
            ),
            format!(
                "DELETE d FROM {} r STRAIGHT_JOIN {} d ON d.queue = r.queue AND d.shard = r.shard AND d.priority = r.priority \
                 AND d.job = r.job WHERE r.worker = {worker} AND r.turn = {turn}",
                self.table(&RUNNING),
                self.table(&DUE)
            ),
        ]
    }

    /// Asks what became of the turn, and for what was claimed in it.
    pub fn outcome(&self) -> [String; 2] {
        let payload = match self.queue.claim {
            Claim::Rows => "j.payload",
            // A block's payloads are read by its numbers.
            Claim::Blocks => "IF(r.block = 0, j.payload, NULL)",
        };
        [
            standing(self.tables, self.worker),
            format!(
                "SELECT {UNIT}, {payload} FROM {} r LEFT JOIN {} j ON j.id = r.job WHERE r.worker = {} AND r.turn = {} \
                 ORDER BY r.priority, r.job",
                self.table(&RUNNING),
                self.table(&JOBS),
                self.worker,
                self.number
            ),
        ]
    }
}

/// Asks what a worker's row says.
pub(super) fn standing(tables: &Tables, worker: u64) -> String {
    format!(
        "SELECT w.turn, w.expires_at IS NOT NULL, q.paused_at IS NOT NULL, q.id IS NOT NULL AND q.deleted_at IS NULL \
         FROM {} w LEFT JOIN {} q ON q.id = w.queue WHERE w.worker = {worker}",
        tables.of(&WORKERS),
        tables.of(&QUEUES)
    )
}

impl Standing {
    /// Reads the row of an answer.
    pub(super) fn decode(rows: &[Row]) -> Result<Self, Fault> {
        let Some(row) = rows.first() else {
            return Ok(Self::default());
        };
        let lives = row.get::<u8>(1)? == Some(1);
        Ok(Self {
            turn: row.get(0)?.filter(|_| lives),
            is_paused: row.get::<u8>(2)? == Some(1),
            has_queue: row.get::<u8>(3)? == Some(1),
        })
    }
}

impl Batch for Turn<'_> {
    type Answer = TurnOver;

    fn statements(&self) -> Vec<String> {
        let awake = self.awakes.then(|| {
            format!(
                "/* dblock queue awake */ SET SESSION wait_timeout = {}",
                self.queue.ttl.as_secs()
            )
        });
        let mut statements: Vec<_> = awake.into_iter().collect();
        statements.extend([
            "/* dblock queue turn */ BEGIN".to_owned(),
            format!(
                "UPDATE {} SET turn = {}, renewed_at = UTC_TIMESTAMP(6), expires_at = UTC_TIMESTAMP(6) + INTERVAL ttl_seconds SECOND \
                 WHERE worker = {} AND turn = {} AND expires_at IS NOT NULL",
                self.table(&WORKERS),
                self.number,
                self.worker,
                self.number - 1
            ),
        ]);
        statements.push(format!(
            "SET @dblock_turn = ROW_COUNT(), @dblock_open = (SELECT COUNT(*) FROM {} WHERE id = {} AND paused_at IS NULL \
             AND deleted_at IS NULL)",
            self.table(&QUEUES),
            self.queue.id
        ));
        statements.extend(self.hand_in());
        statements.extend(self.count());
        statements.extend(self.want.iter().flat_map(|want| self.claim(want)));
        statements.push("COMMIT".to_owned());
        statements.extend(
            self.release
                .map(|lock| format!("DO RELEASE_LOCK({})", text_literal(lock))),
        );
        let [standing, claimed] = self.outcome();
        statements.push(standing);
        statements.extend(self.want.is_some().then_some(claimed));
        statements
    }

    fn decode(&self, results: &[Vec<Row>], fault: Option<Fault>) -> Result<TurnOver, Fault> {
        if let Some(fault) = fault {
            return Err(fault);
        }
        let (claimed, before): (&[Row], _) = match (results.split_last(), self.want.is_some()) {
            (Some((claimed, before)), true) => (claimed, before),
            _ => (&[], results),
        };
        decode(before.last().map_or(&[], Vec::as_slice), claimed)
    }
}

/// Looks what became of a turn whose answer was lost.
pub struct AskTurn<'a>(pub &'a Turn<'a>);

impl Batch for AskTurn<'_> {
    type Answer = TurnOver;

    fn statements(&self) -> Vec<String> {
        let [standing, claimed] = self.0.outcome();
        vec![format!("/* dblock queue ask turn */ {standing}"), claimed]
    }

    fn decode(&self, results: &[Vec<Row>], fault: Option<Fault>) -> Result<TurnOver, Fault> {
        match (results, fault) {
            ([standing, claimed], None) => decode(standing, claimed),
            (_, fault) => Err(fault.unwrap_or_else(|| Fault::Gone("no answer".to_owned()))),
        }
    }
}

/// All that a worker has claimed.
pub struct AskRunning<'a> {
    /// Where.
    pub tables: &'a Tables,
    /// The worker's number.
    pub worker: u64,
}

impl Statement for AskRunning<'_> {
    type Answer = Vec<Unit>;

    const MOST_ROWS: usize = LIST;

    fn sql(&self) -> String {
        format!(
            "/* dblock queue ask running */ SELECT {UNIT} FROM {} r LEFT JOIN {} j ON j.id = r.job WHERE r.worker = {}",
            self.tables.of(&RUNNING),
            self.tables.of(&JOBS),
            self.worker
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        rows.iter().map(|row| Ok(decode_unit(row)?.0)).collect()
    }
}

/// The columns of a unit, and in how many parts its payload is.
const UNIT: &str = "r.job, r.last_job, r.block, r.attempt, r.fence, r.every_us IS NOT NULL, j.job_key IS NOT NULL, j.parts";

fn decode_unit(row: &Row) -> Result<(Unit, u32), Fault> {
    let parts: Option<u32> = row.get(7)?;
    let block = row.get(2)?.unwrap_or_default();
    let unit = Unit {
        job: row.get(0)?.unwrap_or_default(),
        last_job: row.get(1)?.unwrap_or_default(),
        block,
        attempt: row.get(3)?.unwrap_or(1),
        fence: row.get(4)?.unwrap_or_default(),
        repeats: row.get::<u8>(5)? == Some(1),
        has_key: row.get::<u8>(6)? == Some(1),
        // Of a block nobody knows before its jobs are read.
        has_parts: block != 0 || parts.is_some_and(|parts| parts > 0),
    };
    Ok((unit, parts.unwrap_or_default()))
}

fn decode(standing: &[Row], claimed: &[Row]) -> Result<TurnOver, Fault> {
    let mut units = Vec::new();
    for row in claimed {
        let (unit, parts) = decode_unit(row)?;
        units.push((unit, parts, row.get(8)?));
    }
    Ok(TurnOver {
        standing: Standing::decode(standing)?,
        claimed: units,
    })
}

fn singles<'a>(units: &[&'a Ended]) -> Vec<&'a Ended> {
    let mut singles = units.to_vec();
    singles.retain(|ended| ended.unit.block == 0);
    singles
}

fn after(delay: Duration) -> String {
    format!(
        "UTC_TIMESTAMP(6) + INTERVAL {} MICROSECOND",
        delay.as_micros()
    )
}

fn numbers(jobs: &[u64]) -> String {
    let jobs: Vec<_> = jobs.iter().map(u64::to_string).collect();
    jobs.join(",")
}

fn among_jobs(jobs: &[(i32, u64)]) -> String {
    let mut priorities: Vec<i32> = jobs.iter().map(|(priority, _)| *priority).collect();
    priorities.sort_unstable();
    priorities.dedup();
    let each = priorities.iter().map(|priority| {
        let of = jobs.iter().filter(|(of, _)| of == priority);
        let of: Vec<u64> = of.map(|(_, job)| *job).collect();
        format!("d.priority = {priority} AND d.job IN ({})", numbers(&of))
    });
    each.collect::<Vec<_>>().join(" OR ")
}

fn error_literal(error: &str) -> String {
    let cut: String = error.chars().take(LONGEST_ERROR).collect();
    text_literal(&cut)
}

//! The statements of a turn that hand in what has ended.

use super::super::narrow::{carried, insert_into};
use super::{Ended, JobEnd, LONGEST_ERROR, Turn, Unit};
use crate::db::text_literal;
use crate::schema::{DEAD, DELAYED, DONE, DUE, JOB_KEYS, JOB_PARTS, JOBS, RUNNING};
use std::fmt::Write;
use std::time::Duration;

/// Repeating jobs that are late by more than a period leave out what they have missed, but for the last.
pub(super) const NEXT_DUE: &str = "r.due_at + INTERVAL (r.every_us * GREATEST(1, GREATEST(0, TIMESTAMPDIFF(MICROSECOND, r.due_at, UTC_TIMESTAMP(6))) \
     DIV r.every_us)) MICROSECOND";

/// Jobs of a block.
#[derive(Clone, Copy)]
pub(super) enum Which<'a> {
    All,
    Canceled,
    These(&'a [u64]),
}

pub(super) fn singles<'a>(units: &[&'a Ended]) -> Vec<&'a Ended> {
    let mut singles = units.to_vec();
    singles.retain(|ended| ended.unit.block == 0);
    singles
}

pub(super) fn after(delay: Duration) -> String {
    format!(
        "UTC_TIMESTAMP(6) + INTERVAL {} MICROSECOND",
        delay.as_micros()
    )
}

pub(super) fn numbers(jobs: &[u64]) -> String {
    let jobs: Vec<_> = jobs.iter().map(u64::to_string).collect();
    jobs.join(",")
}

pub(super) fn error_literal(error: &str) -> String {
    let cut: String = error.chars().take(LONGEST_ERROR).collect();
    text_literal(&cut)
}

impl Turn<'_> {
    /// Rows that the worker has, if its turn counts. They are those of the worker alone then: what is behind the update of its row in
    /// the transaction sees them unchanged.
    pub(super) fn own(&self) -> String {
        format!("r.worker = {} AND @dblock_turn = 1", self.worker)
    }

    /// Those of these jobs.
    pub(super) fn of_jobs(&self, units: &[&Ended]) -> String {
        let jobs = units.iter().map(|ended| ended.unit.job.to_string());
        format!(
            "{} AND r.job IN ({})",
            self.own(),
            jobs.collect::<Vec<_>>().join(",")
        )
    }

    /// Takes rows out of the table of running jobs.
    pub(super) fn take_out(&self, units: &[&Ended]) -> String {
        let of = self.of_jobs(units);
        format!("DELETE r FROM {} r WHERE {of}", self.table(&RUNNING))
    }

    /// Moves rows of running jobs to another table, with these values for `attempt`, `every_us`, `due_at` and what is named besides.
    pub(super) fn put_into(
        &self,
        table: &crate::schema::Table,
        values: [&str; 3],
        besides: Option<(&str, &str)>,
        units: &[&Ended],
    ) -> String {
        format!(
            "{} FROM {} r WHERE {}",
            insert_into(&self.table(table), &carried("r"), values, besides),
            self.table(&RUNNING),
            self.of_jobs(units)
        )
    }

    /// Notes the errors of jobs on their own.
    pub(super) fn note_errors(&self, units: &[(&Ended, &str)]) -> String {
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
    pub(super) fn note_errors_in_block(&self, ended: &Ended) -> Vec<String> {
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
    pub(super) fn drop_canceled(&self, units: &[&Ended]) -> Vec<String> {
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

    /// Deletes what jobs that are done leave beside their rows: the keys, which a block of one job may have, too, and the parts of jobs on
    /// their own.
    pub(super) fn drop_belongings(&self, units: &[&Ended], with_parts: bool) -> Vec<String> {
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
        let mut parted = singles(units);
        parted.retain(|ended| ended.unit.has_parts);
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
    pub(super) fn finish(&self, units: &[&Ended]) -> Vec<String> {
        let (repeating, once): (Vec<&Ended>, Vec<&Ended>) =
            units.iter().partition(|ended| ended.unit.repeats);
        let mut statements = self.repeat(&repeating);
        if once.is_empty() {
            return statements;
        }
        let (blocks, singles): (Vec<&Ended>, Vec<&Ended>) =
            once.iter().partition(|ended| ended.unit.block != 0);
        let is_kept = !self.queue.keep.is_zero();
        statements.extend(self.drop_belongings(&once, !is_kept));
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
    pub(super) fn delete_block(&self, unit: &Unit, which: Which) -> Vec<String> {
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
    pub(super) fn put_block(
        &self,
        table: &crate::schema::Table,
        values: [&str; 3],
        besides: Option<(&str, &str)>,
        unit: &Unit,
    ) -> String {
        let carried = "r.queue, r.shard, r.priority, l.first, r.last_job, r.block, l.jobs, r.fence";
        format!(
            "{} FROM {} r STRAIGHT_JOIN (SELECT MIN(id) AS first, COUNT(*) AS jobs FROM {} WHERE id BETWEEN {} AND {} AND block = {}) l \
             WHERE {} AND r.job = {} AND l.jobs > 0",
            insert_into(&self.table(table), carried, values, besides),
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
    pub(super) fn put_all_into(
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
    pub(super) fn repeat(&self, units: &[&Ended]) -> Vec<String> {
        if units.is_empty() {
            return Vec::new();
        }
        let mut statements = self.drop_canceled(units);
        statements.extend(self.put_all_into(&DELAYED, ["0", "r.every_us", NEXT_DUE], units));
        statements.push(self.take_out(units));
        statements
    }

    /// Those that are due again at once.
    pub(super) fn give_back(&self, units: &[&Ended]) -> Vec<String> {
        let mut statements = self.drop_canceled(units);
        let values = ["r.attempt - 1", "r.every_us", "r.due_at"];
        statements.extend(self.put_all_into(&DUE, values, units));
        statements.push(self.take_out(units));
        statements
    }

    /// Those that are due again after a time, all of them jobs on their own: of a block only jobs that have become that.
    pub(super) fn delay(&self, units: &[&Ended]) -> Vec<String> {
        let mut statements = self.drop_canceled(units);
        let mut delays = String::new();
        let mut uncounted = vec![0];
        for ended in units {
            let job = ended.unit.job;
            let delay = match &ended.outcome {
                JobEnd::Later(delay) => {
                    uncounted.push(job);
                    delay
                }
                JobEnd::Retry(delay, _) => delay,
                _ => continue,
            };
            let _ = write!(delays, " WHEN {job} THEN {}", delay.as_micros());
        }
        let attempt = format!("r.attempt - (r.job IN ({}))", numbers(&uncounted));
        let due = format!("UTC_TIMESTAMP(6) + INTERVAL (CASE r.job{delays} END) MICROSECOND");
        let values = [attempt.as_str(), "r.every_us", &due];
        statements.push(self.put_into(&DELAYED, values, None, units));
        statements.push(self.take_out(units));
        statements
    }

    /// Those that have failed for good, all of them jobs on their own, as with [`Self::delay`].
    pub(super) fn bury(&self, units: &[&Ended]) -> Vec<String> {
        let mut statements = self.drop_canceled(units);
        let died = ("died_at", "UTC_TIMESTAMP(6)");
        let values = ["r.attempt", "r.every_us", "r.due_at"];
        statements.push(self.put_into(&DEAD, values, Some(died), units));
        statements.push(self.take_out(units));
        statements
    }

    /// A block of which some jobs ended otherwise than the rest: these become jobs of their own.
    pub(super) fn split(&self, ended: &Ended) -> Vec<String> {
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
                JobEnd::Running => continue,
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
            let carried = format!("r.queue, r.shard, r.priority, {job}, 0, 0, 1, r.fence");
            let values = [attempt, "NULL", due.as_str()];
            statements.push(format!(
                "{} FROM {running} r STRAIGHT_JOIN {} j WHERE {own} AND j.id = {job} AND j.block = r.block AND j.canceled_at IS NULL",
                insert_into(&self.table(table), &carried, values, besides),
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
                "UPDATE {running} r STRAIGHT_JOIN {} j SET j.block = 0{error} WHERE {own} AND j.id = {job} AND j.block = r.block \
                 AND j.canceled_at IS NULL",
                self.table(&JOBS)
            ));
        }
        if ended.outcome == JobEnd::Running {
            return statements;
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

    pub(super) fn hand_in(&self) -> Vec<String> {
        let mut statements = Vec::new();
        let (mut finished, mut given_back, mut delayed) = (vec![], vec![], vec![]);
        let (mut dead, mut errors) = (vec![], vec![]);
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
                JobEnd::Running => {}
                JobEnd::Retry(_, error) => {
                    errors.push((ended, error.as_str()));
                    delayed.push(ended);
                }
                JobEnd::Later(_) => delayed.push(ended),
                JobEnd::GivenBack => given_back.push(ended),
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
            (given_back, Self::give_back),
            (delayed, Self::delay),
            (dead, Self::bury),
        ] {
            if !units.is_empty() {
                statements.extend(act(self, &units));
            }
        }
        statements
    }
}

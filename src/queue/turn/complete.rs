//! Records outcomes: what becomes of the rows of jobs and blocks.

use super::super::narrow::{DIED_NOW, DONE_NOW, insert_into, next_due};
use super::deletions::Which;
use super::moves::{among_claims, claim_of, error_literal};
use super::{EndedUnit, JobEnd, Turn};
use crate::db::sql::{NOW, after, numbers};
use crate::schema::{DEAD, DELAYED, DONE, DUE, JOBS};
use std::fmt::Write;

impl Turn<'_> {
    /// The statements that record the outcomes.
    pub(super) fn complete(&self) -> Vec<String> {
        let mut statements = Vec::new();
        let (mut finished, mut returned, mut delayed) = (vec![], vec![], vec![]);
        let (mut dead, mut errors) = (vec![], vec![]);
        for ended in self.ended {
            if !ended.others.is_empty() {
                statements.extend(self.split(ended));
                continue;
            }
            match &ended.outcome {
                JobEnd::Done => finished.push(ended),
                JobEnd::Running => {}
                JobEnd::Retry(_, error) => {
                    errors.push((ended, error.as_str()));
                    delayed.push(ended);
                }
                JobEnd::Later(_) => delayed.push(ended),
                JobEnd::Returned => returned.push(ended),
                JobEnd::Dead(error) => {
                    errors.push((ended, error.as_str()));
                    // Repeating jobs never become dead.
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
                Self::finish as fn(&Self, &[&EndedUnit]) -> Vec<String>,
            ),
            (returned, Self::return_units),
            (delayed, Self::delay),
            (dead, Self::bury),
        ] {
            if !units.is_empty() {
                statements.extend(act(self, &units));
            }
        }
        statements
    }

    /// Units whose jobs are all done.
    pub(super) fn finish(&self, units: &[&EndedUnit]) -> Vec<String> {
        let (repeating, once): (Vec<&EndedUnit>, Vec<&EndedUnit>) =
            units.iter().partition(|ended| ended.unit.repeats);
        let mut statements = self.repeat(&repeating);
        if once.is_empty() {
            return statements;
        }
        let (blocks, singles): (Vec<&EndedUnit>, Vec<&EndedUnit>) =
            once.iter().partition(|ended| ended.unit.block != 0);
        let is_kept = !self.queue.keep.is_zero();
        statements.extend(self.drop_belongings(&once, !is_kept));
        if is_kept {
            let values = ["r.attempt", "NULL", "r.due_at"];
            statements.push(self.put_into(&DONE, values, DONE_NOW, &once));
            statements.push(self.take_out(&once));
            return statements;
        }
        if !singles.is_empty() {
            statements.push(format!(
                "DELETE r, j FROM {} STRAIGHT_JOIN {} ON j.id = r.job WHERE {}",
                self.running(),
                self.by_key(&JOBS, "j"),
                self.of_jobs(&singles)
            ));
        }
        for block in blocks {
            statements.extend(self.delete_block(&block.unit, Which::All));
            statements.push(self.take_out(&[block]));
        }
        statements
    }

    /// Repeating units, which are due again in their next period.
    pub(super) fn repeat(&self, units: &[&EndedUnit]) -> Vec<String> {
        if units.is_empty() {
            return Vec::new();
        }
        let mut statements = self.drop_canceled(units);
        statements.extend(self.put_all_into(&DELAYED, ["0", "r.every_us", &next_due()], units));
        statements.push(self.take_out(units));
        statements
    }

    /// Units that are due again at once.
    pub(super) fn return_units(&self, units: &[&EndedUnit]) -> Vec<String> {
        let mut statements = self.drop_canceled(units);
        let values = ["r.attempt - 1", "r.every_us", "r.due_at"];
        statements.extend(self.put_all_into(&DUE, values, units));
        statements.push(self.take_out(units));
        statements
    }

    /// Jobs that are due again after a delay. All are single jobs, some of them split from a block.
    pub(super) fn delay(&self, units: &[&EndedUnit]) -> Vec<String> {
        let mut statements = self.drop_canceled(units);
        let mut delays = String::new();
        let mut uncounted = Vec::new();
        for ended in units {
            let claim = claim_of(&ended.unit);
            let delay = match &ended.outcome {
                JobEnd::Later(delay) => {
                    uncounted.push(*ended);
                    delay
                }
                JobEnd::Retry(delay, _) => delay,
                _ => continue,
            };
            let _ = write!(delays, " WHEN {claim} THEN {}", delay.as_micros());
        }
        let mut attempt = "r.attempt".to_owned();
        if !uncounted.is_empty() {
            let _ = write!(attempt, " - ({})", among_claims(&uncounted));
        }
        let due = format!("{NOW} + INTERVAL (CASE{delays} END) MICROSECOND");
        let values = [attempt.as_str(), "r.every_us", &due];
        statements.push(self.put_into(&DELAYED, values, None, units));
        statements.push(self.take_out(units));
        statements
    }

    /// What has failed for good: single jobs, as in [`Self::delay`], and what is no block.
    pub(super) fn bury(&self, units: &[&EndedUnit]) -> Vec<String> {
        let mut statements = self.drop_canceled(units);
        let values = ["r.attempt", "r.every_us", "r.due_at"];
        statements.push(self.put_into(&DEAD, values, DIED_NOW, units));
        statements.push(self.take_out(units));
        statements
    }

    /// A block in which some jobs have another outcome than the rest. These become single jobs.
    pub(super) fn split(&self, ended: &EndedUnit) -> Vec<String> {
        let unit = &ended.unit;
        let running = self.running();
        let own = self.of_unit(unit);
        let mut statements = Vec::new();
        let (done, others): (Vec<_>, Vec<_>) = ended
            .others
            .iter()
            .partition(|(_, outcome)| *outcome == JobEnd::Done);
        let done: Vec<u64> = done.iter().map(|(job, _)| *job).collect();
        let is_kept = !self.queue.keep.is_zero();
        let mut moved: Vec<(String, &JobEnd)> = others
            .iter()
            .map(|(job, outcome)| (job.to_string(), outcome))
            .collect();
        // Hundreds may be done: they go together.
        if !done.is_empty() && (is_kept || unit.repeats) {
            moved.push((numbers(done), &JobEnd::Done));
        } else if !done.is_empty() {
            statements.extend(self.delete_block(unit, Which::These(&done)));
        }
        let carried = "r.queue, r.shard, r.priority, j.id, 0, 0, 1, r.fence";
        for (ids, outcome) in moved {
            let (table, attempt, due, besides) = match outcome {
                JobEnd::Running => continue,
                // Repeating jobs never become dead.
                JobEnd::Done | JobEnd::Dead(_) if unit.repeats => (&DELAYED, "0", next_due(), None),
                JobEnd::Done => (&DONE, "r.attempt", "r.due_at".to_owned(), DONE_NOW),
                JobEnd::Retry(delay, _) => (&DELAYED, "r.attempt", after(*delay), None),
                JobEnd::Later(delay) => (&DELAYED, "r.attempt - 1", after(*delay), None),
                JobEnd::Dead(_) => (&DEAD, "r.attempt", "r.due_at".to_owned(), DIED_NOW),
                JobEnd::Returned => (&DUE, "r.attempt - 1", "r.due_at".to_owned(), None),
            };
            let values = [attempt, "r.every_us", due.as_str()];
            let jobs = self.by_key(&JOBS, "j");
            let of = format!(
                "{own} AND j.id IN ({ids}) AND j.block = r.block AND j.canceled_at IS NULL"
            );
            // Locked, so that nobody cancels one of them before the next statement, which would leave it here and there.
            statements.push(format!(
                "{} FROM {running} STRAIGHT_JOIN {jobs} WHERE {of} FOR UPDATE",
                insert_into(&self.table(table), carried, values, besides)
            ));
            let error = match outcome {
                JobEnd::Retry(_, error) | JobEnd::Dead(error) => format!(
                    ", j.failed_at = {NOW}, j.last_error = {}",
                    error_literal(error)
                ),
                _ => String::new(),
            };
            statements.push(format!(
                "UPDATE {running} STRAIGHT_JOIN {jobs} SET j.block = 0{error} WHERE {of}"
            ));
        }
        if ended.outcome == JobEnd::Running {
            statements.push(self.count_again(unit));
            return statements;
        }
        if ended.outcome == JobEnd::Returned {
            // The rest becomes a block again.
            statements.extend(self.delete_block(unit, Which::Canceled));
            let values = ["r.attempt - 1", "r.every_us", "r.due_at"];
            statements.push(self.put_block(&DUE, values, None, unit));
        } else if unit.repeats {
            statements.extend(self.repeat(&[ended]));
            return statements;
        } else if is_kept {
            let values = ["r.attempt", "NULL", "r.due_at"];
            statements.push(self.put_block(&DONE, values, DONE_NOW, unit));
        } else {
            statements.extend(self.delete_block(unit, Which::All));
        }
        statements.push(self.take_out(&[ended]));
        statements
    }
}

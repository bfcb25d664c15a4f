//! The statements that delete done or canceled jobs, with everything that belongs to them.

use super::moves::singles;
use super::{EndedUnit, Turn, Unit};
use crate::db::sql::numbers;
use crate::schema::{JOB_KEYS, JOB_PARTS, JOBS};

/// Jobs of a block.
#[derive(Clone, Copy)]
pub(super) enum Which<'a> {
    All,
    Canceled,
    These(&'a [u64]),
}

impl Turn<'_> {
    /// Deletes the jobs that were canceled while they ran, instead of starting them again.
    pub(super) fn drop_canceled(&self, units: &[&EndedUnit]) -> Vec<String> {
        let blocks = units.iter().filter(|ended| ended.unit.block != 0);
        let mut statements: Vec<String> = blocks
            .flat_map(|ended| self.delete_block(&ended.unit, Which::Canceled))
            .collect();
        let singles: Vec<_> = singles(units);
        if singles.is_empty() {
            return statements;
        }
        let canceled = format!("{} AND j.canceled_at IS NOT NULL", self.of_jobs(&singles));
        let (running, jobs) = (self.running(), self.by_key(&JOBS, "j"));
        statements.extend([
            format!(
                "DELETE k, p FROM {running} STRAIGHT_JOIN {jobs} ON j.id = r.job LEFT JOIN {} ON k.queue = r.queue \
                 AND k.job_key = j.job_key AND k.job = j.id LEFT JOIN {} ON p.job = j.id WHERE {canceled}",
                self.by_key(&JOB_KEYS, "k"),
                self.by_key(&JOB_PARTS, "p")
            ),
            format!(
                "DELETE r, j FROM {running} STRAIGHT_JOIN {jobs} ON j.id = r.job WHERE {canceled}"
            ),
        ]);
        statements
    }

    /// Deletes what belongs to done jobs in other tables: keys, which a block with one job may have too, and the parts of single jobs.
    pub(super) fn drop_belongings(&self, units: &[&EndedUnit], with_parts: bool) -> Vec<String> {
        let mut statements = Vec::new();
        let keyed: Vec<_> = units.iter().copied().filter(|u| u.unit.has_key).collect();
        if !keyed.is_empty() {
            statements.push(format!(
                "DELETE k FROM {} STRAIGHT_JOIN {} ON j.id = r.job STRAIGHT_JOIN {} ON k.queue = r.queue \
                 AND k.job_key = j.job_key AND k.job = j.id WHERE {}",
                self.running(),
                self.by_key(&JOBS, "j"),
                self.by_key(&JOB_KEYS, "k"),
                self.of_jobs(&keyed)
            ));
        }
        let mut parted = singles(units);
        parted.retain(|ended| ended.unit.has_parts);
        if with_parts && !parted.is_empty() {
            statements.push(format!(
                "DELETE p FROM {} STRAIGHT_JOIN {} ON p.job = r.job WHERE {}",
                self.running(),
                self.by_key(&JOB_PARTS, "p"),
                self.of_jobs(&parted)
            ));
        }
        statements
    }

    /// Deletes jobs of a block.
    pub(super) fn delete_block(&self, unit: &Unit, which: Which) -> Vec<String> {
        let all = format!("j.id BETWEEN {} AND {}", unit.job, unit.last_job);
        let which = match which {
            Which::All => all,
            Which::Canceled => format!("{all} AND j.canceled_at IS NOT NULL"),
            Which::These(jobs) => format!("j.id IN ({})", numbers(jobs.iter().copied())),
        };
        let of = format!("{} AND {which} AND j.block = r.block", self.of_unit(unit));
        let (running, jobs) = (self.running(), self.by_key(&JOBS, "j"));
        let parts = unit.has_parts.then(|| {
            format!(
                "DELETE p FROM {running} STRAIGHT_JOIN {jobs} STRAIGHT_JOIN {} ON p.job = j.id WHERE {of}",
                self.by_key(&JOB_PARTS, "p")
            )
        });
        let jobs = format!("DELETE j FROM {running} STRAIGHT_JOIN {jobs} WHERE {of}");
        parts.into_iter().chain([jobs]).collect()
    }
}

//! The statements that move a worker's running jobs to other narrow tables, and record errors.

use super::super::narrow::{by_key, carried, insert_into, running};
use super::{EndedUnit, LONGEST_ERROR, Turn, Unit};
use crate::db::sql::{NOW, numbers};
use crate::db::text_literal;
use crate::schema::{JOBS, Table};
use std::fmt::Write;

/// The single jobs among these.
pub(super) fn singles<'a>(units: &[&'a EndedUnit]) -> Vec<&'a EndedUnit> {
    let mut singles = units.to_vec();
    singles.retain(|ended| ended.unit.block == 0);
    singles
}

/// The row of this claim. The worker may have claimed the same job again, if the outcome was recorded without its knowledge.
pub(super) fn claim_of(unit: &Unit) -> String {
    format!("r.job = {} AND r.fence = {}", unit.job, unit.fence)
}

/// The rows of these claims.
pub(super) fn among_claims(units: &[&EndedUnit]) -> String {
    let mut fences: Vec<u64> = units.iter().map(|ended| ended.unit.fence).collect();
    fences.sort_unstable();
    fences.dedup();
    let each = fences.iter().map(|fence| {
        let of = units.iter().filter(|ended| ended.unit.fence == *fence);
        let of = of.map(|ended| ended.unit.job);
        format!("r.fence = {fence} AND r.job IN ({})", numbers(of))
    });
    each.collect::<Vec<_>>().join(" OR ")
}

pub(super) fn error_literal(error: &str) -> String {
    let cut: String = error.chars().take(LONGEST_ERROR).collect();
    text_literal(&cut)
}

impl Turn<'_> {
    /// The worker's rows, if its turn counts. Since the update of the worker's row nobody else changes them.
    pub(super) fn own(&self) -> String {
        format!("r.worker = {} AND @dblock_turn = 1", self.worker)
    }

    /// The worker's rows of these claims.
    pub(super) fn of_jobs(&self, units: &[&EndedUnit]) -> String {
        format!("{} AND ({})", self.own(), among_claims(units))
    }

    /// The worker's row of this claim.
    pub(super) fn of_unit(&self, unit: &Unit) -> String {
        format!("{} AND {}", self.own(), claim_of(unit))
    }

    /// The running jobs as `r`, read by the worker: see [`by_key`].
    pub(super) fn running(&self) -> String {
        running(self.tables)
    }

    /// Another table with this alias, read by its primary key.
    pub(super) fn by_key(&self, table: &Table, alias: &str) -> String {
        by_key(self.tables, table, alias)
    }

    /// Deletes rows from the running jobs.
    pub(super) fn take_out(&self, units: &[&EndedUnit]) -> String {
        let of = self.of_jobs(units);
        format!("DELETE r FROM {} WHERE {of}", self.running())
    }

    /// Copies running jobs into another table, with these values for `attempt`, `every_us` and `due_at`, and further columns from
    /// `besides`.
    pub(super) fn put_into(
        &self,
        table: &Table,
        values: [&str; 3],
        besides: Option<(&str, &str)>,
        units: &[&EndedUnit],
    ) -> String {
        format!(
            "{} FROM {} WHERE {}",
            insert_into(&self.table(table), &carried("r"), values, besides),
            self.running(),
            self.of_jobs(units)
        )
    }

    /// Copies the rest of a block into another table, as [`Self::put_into`]: its first remaining job, and the number of remaining jobs.
    /// Does nothing if no job remains.
    pub(super) fn put_block(
        &self,
        table: &Table,
        values: [&str; 3],
        besides: Option<(&str, &str)>,
        unit: &Unit,
    ) -> String {
        let carried = "r.queue, r.shard, r.priority, l.first, r.last_job, r.block, l.jobs, r.fence";
        format!(
            "{} FROM {} STRAIGHT_JOIN (SELECT MIN(id) AS first, COUNT(*) AS jobs FROM {}) l WHERE {} AND l.jobs > 0",
            insert_into(&self.table(table), carried, values, besides),
            self.running(),
            self.in_block(unit),
            self.of_unit(unit)
        )
    }

    /// Copies single jobs, and the rest of each block.
    pub(super) fn put_all_into(
        &self,
        table: &Table,
        values: [&str; 3],
        units: &[&EndedUnit],
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

    /// Records the errors of single jobs.
    pub(super) fn note_errors(&self, units: &[(&EndedUnit, &str)]) -> String {
        let mut cases = String::new();
        for (ended, error) in units {
            let _ = write!(
                cases,
                " WHEN {} THEN {}",
                claim_of(&ended.unit),
                error_literal(error)
            );
        }
        let all: Vec<_> = units.iter().map(|(ended, _)| *ended).collect();
        format!(
            "UPDATE {} STRAIGHT_JOIN {} ON j.id = r.job SET j.failed_at = {NOW}, j.last_error = CASE{cases} END \
             WHERE {}",
            self.running(),
            self.by_key(&JOBS, "j"),
            self.of_jobs(&all)
        )
    }

    /// Counts the jobs of a running block, of which some have left it.
    pub(super) fn count_again(&self, unit: &Unit) -> String {
        format!(
            "UPDATE {} SET r.jobs = (SELECT COUNT(*) FROM {}) WHERE {}",
            self.running(),
            self.in_block(unit),
            self.of_unit(unit)
        )
    }

    /// The jobs `j` that are still in this block.
    fn in_block(&self, unit: &Unit) -> String {
        format!(
            "{} WHERE j.id BETWEEN {} AND {} AND j.block = {}",
            self.by_key(&JOBS, "j"),
            unit.job,
            unit.last_job,
            unit.block
        )
    }
}

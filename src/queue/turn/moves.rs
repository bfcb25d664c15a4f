//! The statements that move a worker's rows of running jobs to other narrow tables, and note why jobs have failed.

use super::super::narrow::{carried, insert_into};
use super::{Ended, JobEnd, LONGEST_ERROR, Turn, Unit, numbers};
use crate::db::text_literal;
use crate::schema::{JOBS, RUNNING, Table};
use std::fmt::Write;

/// Those that are jobs on their own.
pub(super) fn singles<'a>(units: &[&'a Ended]) -> Vec<&'a Ended> {
    let mut singles = units.to_vec();
    singles.retain(|ended| ended.unit.block == 0);
    singles
}

/// The row of this claim: of the same job the worker may have another since, if what it handed in was carried out and it does not know.
pub(super) fn claim_of(unit: &Unit) -> String {
    format!("r.job = {} AND r.fence = {}", unit.job, unit.fence)
}

/// The rows of these claims.
pub(super) fn among_claims(units: &[&Ended]) -> String {
    let mut fences: Vec<u64> = units.iter().map(|ended| ended.unit.fence).collect();
    fences.sort_unstable();
    fences.dedup();
    let each = fences.iter().map(|fence| {
        let of = units.iter().filter(|ended| ended.unit.fence == *fence);
        let of: Vec<u64> = of.map(|ended| ended.unit.job).collect();
        format!("r.fence = {fence} AND r.job IN ({})", numbers(&of))
    });
    each.collect::<Vec<_>>().join(" OR ")
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
        format!("{} AND ({})", self.own(), among_claims(units))
    }

    /// That of this job or block.
    pub(super) fn of_unit(&self, unit: &Unit) -> String {
        format!("{} AND {}", self.own(), claim_of(unit))
    }

    /// Takes rows out of the table of running jobs.
    pub(super) fn take_out(&self, units: &[&Ended]) -> String {
        let of = self.of_jobs(units);
        format!("DELETE r FROM {} r WHERE {of}", self.table(&RUNNING))
    }

    /// Moves rows of running jobs to another table, with these values for `attempt`, `every_us`, `due_at` and what is named besides.
    pub(super) fn put_into(
        &self,
        table: &Table,
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

    /// Moves what is left of a block to another table, as [`Self::put_into`] does: from its first job that is left on, with as many as
    /// there are. Nothing where none is.
    pub(super) fn put_block(
        &self,
        table: &Table,
        values: [&str; 3],
        besides: Option<(&str, &str)>,
        unit: &Unit,
    ) -> String {
        let carried = "r.queue, r.shard, r.priority, l.first, r.last_job, r.block, l.jobs, r.fence";
        format!(
            "{} FROM {} r STRAIGHT_JOIN (SELECT MIN(id) AS first, COUNT(*) AS jobs FROM {} WHERE id BETWEEN {} AND {} AND block = {}) l \
             WHERE {} AND l.jobs > 0",
            insert_into(&self.table(table), carried, values, besides),
            self.table(&RUNNING),
            self.table(&JOBS),
            unit.job,
            unit.last_job,
            unit.block,
            self.of_unit(unit)
        )
    }

    /// Moves jobs on their own and what is left of blocks.
    pub(super) fn put_all_into(
        &self,
        table: &Table,
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

    /// Notes the errors of jobs on their own.
    pub(super) fn note_errors(&self, units: &[(&Ended, &str)]) -> String {
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
            "UPDATE {} r STRAIGHT_JOIN {} j ON j.id = r.job SET j.failed_at = UTC_TIMESTAMP(6), j.last_error = CASE{cases} END \
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
                     WHERE {} AND j.id = {job} AND j.block = r.block",
                    self.table(&RUNNING),
                    self.table(&JOBS),
                    error_literal(error),
                    self.of_unit(&ended.unit)
                )
            })
            .collect()
    }
}

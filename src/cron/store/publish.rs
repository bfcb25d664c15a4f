//! Publishes the jobs of a file: the schedule that was read last is in force.

use std::collections::HashMap;
use std::time::Duration;

use super::entry::{Definition, JobRow, Publish, settled_until};
use super::statements::{Names, text};
use crate::cron::Schedule;
use crate::cron::rules::next_after;
use crate::db::{Ask, Batch, Fault, LIST, Row, ask, batch, command};
use crate::schema::Tables;

/// Reads a job's name and its row.
pub(super) fn read_job(row: &Row) -> Result<(String, JobRow), Fault> {
    let found = JobRow {
        next: row.get("next")?,
        settled: row.get("settled")?,
        triggered: row.get("triggered")?,
        is_paused: row.get("is_paused")?,
        schedule: row.get("schedule")?,
        zone: row.get("zone")?,
        definition: row.get("definition")?,
        seen: row.get_or_default("seen")?,
    };
    Ok((row.get("name")?, found))
}

/// Asks for the rows of all jobs, by their names.
pub fn ask_jobs(tables: &Tables) -> Ask<'static, HashMap<String, JobRow>> {
    let names = Names::of(tables);
    let sql = format!("SELECT {} FROM {}", names.job_columns(), names.jobs);
    ask("cron jobs", sql, |rows| rows.all(read_job)).up_to(LIST)
}

/// A job's first tick of a new schedule comes after this moment, so that no settled tick is taken again.
pub fn goes_on_after(now: i64, settled: Option<i64>) -> i64 {
    let counts = settled.filter(|settled| *settled <= settled_until(now));
    counts.map_or(now, |settled| settled.max(now))
}

/// The latest plausible moment for a job's next tick. A later one was computed when the server's clock was ahead, if [`JobRow::is_ahead`].
pub fn latest_next(schedule: &Schedule, now: i64) -> Option<i64> {
    next_after(schedule, settled_until(now))
}

impl Publish<'_> {
    /// The statements.
    pub fn batch(&self) -> Batch<'static, ()> {
        let text = text(self.tables);
        let each = self.jobs.iter().map(|job| text.publish(self, job));
        let begin = std::iter::once("BEGIN".to_owned());
        let all = begin.chain(each).chain(["COMMIT".to_owned()]);
        batch("cron publish", all.collect()).if_it_takes_writes(self.tables.kind())
    }
}

/// Notes that these jobs are in a daemon's file. Only updates rows with the same schedule that were not noted for this long, and with `now`
/// those of [`JobRow::is_seen_ahead`], whose next ticks must be right: a wrong one is known by that.
pub fn touch(
    tables: &Tables,
    jobs: &[&Definition],
    since: Duration,
    now: Option<i64>,
) -> Ask<'static, ()> {
    let touch = text(tables).touch(jobs, since, now.map(settled_until));
    command("cron seen", touch)
}

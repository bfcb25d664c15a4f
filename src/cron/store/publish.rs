//! Publishes the jobs of a file: the schedule that was read last is in force.

use std::collections::HashMap;
use std::time::Duration;

use super::statements::text;
use crate::cron::Schedule;
use crate::cron::rules::{LARGEST_LAG, Row as Facts, next_after};
use crate::db::{Ask, Batch, Fault, LIST, Row, ask, batch, command};
use crate::schema::Tables;

/// A job's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRow {
    /// As in [`Facts`].
    pub next: Option<i64>,
    /// The last settled tick.
    pub settled: Option<i64>,
    pub triggered: Option<i64>,
    pub is_paused: bool,
    /// The schedule in force.
    pub schedule: String,
    pub zone: String,
    pub definition: String,
    /// When it was last seen in a daemon's file.
    pub seen: i64,
}

impl JobRow {
    /// The part that the rules need.
    pub fn facts(&self) -> Facts {
        Facts {
            next: self.next,
            is_paused: self.is_paused,
            triggered: self.triggered,
        }
    }

    /// Whether it was last written while the server's clock was ahead. Otherwise a next tick that seems too late is that of another host,
    /// with newer rules for the time zone, or older ones.
    pub fn is_ahead(&self, now: i64) -> bool {
        self.settled.max(Some(self.seen)) > Some(settled_until(now))
    }
}

/// A job as defined in a file.
#[derive(Debug, Clone)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// The five fields, or the nickname, and the zone.
    pub schedule: String,
    pub zone: String,
    /// A hash of the whole definition.
    pub hash: String,
    /// The longest delay of a tick in seconds, rounded up.
    pub jitter: u64,
}

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
        seen: row.get::<Option<i64>>("seen")?.unwrap_or_default(),
    };
    Ok((row.get("name")?, found))
}

/// Asks for the rows of all jobs, by their names.
pub fn ask_jobs(tables: &Tables) -> Ask<'static, HashMap<String, JobRow>> {
    ask("cron jobs", text(tables).jobs(), |rows| rows.all(read_job)).up_to(LIST)
}

/// Up to which moment ticks may count as settled, seen from now, so that no tick is taken twice: see [`LARGEST_LAG`]. Beyond it only the
/// current clock counts, as otherwise the job would not run until then.
pub fn settled_until(now: i64) -> i64 {
    now.saturating_add(i64::try_from(LARGEST_LAG.as_micros()).unwrap_or(i64::MAX))
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

/// A job with its next tick, and the latest plausible one.
pub type NewJob<'a> = (&'a Definition, [Option<i64>; 2]);

/// Publishes new and changed jobs, each with its next tick. It can be repeated.
///
/// If that tick was settled meanwhile, the job stays unchanged: [`Publish::is_overtaken`].
pub struct Publish<'a> {
    /// dblock's tables.
    pub tables: &'a Tables,
    /// The host of the daemon.
    pub host: &'a str,
    /// The jobs in the order of their names, because several daemons may publish at the same time.
    pub jobs: Vec<NewJob<'a>>,
    /// When these ticks were computed.
    pub now: i64,
}

impl Publish<'_> {
    /// Whether a job with this next tick, computed at this moment, was left unchanged.
    pub fn is_overtaken(next: Option<i64>, now: i64, settled: Option<i64>) -> bool {
        let settled = settled.filter(|settled| *settled <= settled_until(now));
        settled.is_some_and(|settled| next.is_some_and(|next| settled >= next))
    }
}

impl Publish<'_> {
    /// The statements.
    pub fn batch(&self) -> Batch<'static, ()> {
        let text = text(self.tables);
        let each = self.jobs.iter().map(|job| text.publish(self, job));
        let begin = std::iter::once("BEGIN".to_owned());
        let all = begin.chain(each).chain(["COMMIT".to_owned()]);
        batch("cron publish", all.collect())
    }
}

/// Notes that these jobs are in a daemon's file. Only updates rows with the same schedule that were not noted for this long.
pub fn touch(tables: &Tables, jobs: &[&Definition], since: Duration) -> Ask<'static, ()> {
    command("cron seen", text(tables).touch(jobs, since))
}

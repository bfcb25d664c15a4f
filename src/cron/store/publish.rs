//! Publishes the jobs of a file: the schedule that was read last is in force.

use std::collections::HashMap;
use std::time::Duration;

use crate::cron::Schedule;
use crate::cron::rules::{LARGEST_LAG, Row as Facts, next_after};
use crate::db::sql::{micros, moment, optional_moment, seconds_ago};
use crate::db::{Ask, Batch, Fault, LIST, Row, ask, batch, command, text_literal};
use crate::schema::{CRON_JOBS, Tables};

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

/// The columns of a job's row that [`read_job`] reads, each with its expression.
pub(super) fn job_values() -> [(&'static str, String); 9] {
    [
        ("name", "name".to_owned()),
        ("next", micros("next_at")),
        ("settled", micros("settled_at")),
        ("triggered", micros("triggered_at")),
        ("is_paused", "paused_at IS NOT NULL".to_owned()),
        ("schedule", "schedule".to_owned()),
        ("zone", "zone".to_owned()),
        ("definition", "definition".to_owned()),
        ("seen", micros("seen_at")),
    ]
}

/// The same as a list for a SELECT.
pub(super) fn job_columns() -> String {
    job_values()
        .map(|(column, value)| format!("{value} AS {column}"))
        .join(", ")
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
    let sql = format!("SELECT {} FROM {}", job_columns(), tables.of(&CRON_JOBS));
    ask("cron jobs", sql, |rows| rows.all(read_job)).up_to(LIST)
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

/// Publishes new and changed jobs, each with its next tick. It can be repeated.
///
/// If that tick was settled meanwhile, the job stays unchanged: [`Publish::is_overtaken`].
pub struct Publish<'a> {
    /// dblock's tables.
    pub tables: &'a Tables,
    /// The host of the daemon.
    pub host: &'a str,
    /// The jobs in the order of their names, because several daemons may publish at the same time. Each has its next tick, and the latest
    /// plausible one.
    pub jobs: Vec<(&'a Definition, [Option<i64>; 2])>,
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
        let table = self.tables.of(&CRON_JOBS);
        let host = text_literal(self.host);
        let each = self.jobs.iter().map(|(job, [next, latest])| {
            let [name, schedule, zone, hash] =
                [&job.name, &job.schedule, &job.zone, &job.hash].map(|text| text_literal(text));
            let (next, jitter) = (optional_moment(*next), job.jitter);
            let is_same = format!("schedule = {schedule} AND zone = {zone}");
            let until = moment(settled_until(self.now));
            // A job without a next tick was in no file for a while. After the latest plausible moment it is wrong: see [`JobRow::is_ahead`].
            let is_right = latest.map_or_else(
                || "next_at IS NOT NULL".to_owned(),
                |latest| {
                    let latest = moment(latest);
                    format!("next_at IS NOT NULL AND (next_at <= {latest} OR seen_at <= {until} AND COALESCE(settled_at <= {until}, TRUE))")
                },
            );
            let is_kept = format!("{is_same} AND {is_right}");
            let is_whole = format!("{is_kept} AND definition = {hash}");
            let is_overtaken = format!("NOT ({is_kept}) AND COALESCE(settled_at >= {next} AND settled_at <= {until}, FALSE)");
            let unless_overtaken = |column: &str, value: &str| format!("{column} = IF({is_overtaken}, {column}, {value})");
            let (changed_at, changed_by) = (
                unless_overtaken("changed_at", &format!("IF({is_whole}, changed_at, UTC_TIMESTAMP(6))")),
                unless_overtaken("changed_by", &format!("IF({is_whole}, changed_by, {host})")),
            );
            let next_at = unless_overtaken("next_at", &format!("IF({is_kept}, next_at, {next})"));
            let others = [("jitter_seconds", &*jitter.to_string()), ("definition", &*hash), ("schedule", &*schedule), ("zone", &*zone)]
                .map(|(column, value)| unless_overtaken(column, value))
                .join(", ");
            // Columns that others are compared with come last, because the server may assign them one after the other.
            format!(
                "INSERT INTO {table} (name, schedule, zone, definition, jitter_seconds, next_at, changed_at, changed_by, seen_at) \
                 VALUES ({name}, {schedule}, {zone}, {hash}, {jitter}, {next}, UTC_TIMESTAMP(6), {host}, UTC_TIMESTAMP(6)) \
                 ON DUPLICATE KEY UPDATE {changed_at}, {changed_by}, {next_at}, {others}, seen_at = UTC_TIMESTAMP(6)"
            )
        });
        let begin = std::iter::once("BEGIN".to_owned());
        let all = begin.chain(each).chain(["COMMIT".to_owned()]);
        batch("cron publish", all.collect())
    }
}

/// Notes that these jobs are in a daemon's file. Only updates rows with the same schedule that were not noted for this long.
pub fn touch(tables: &Tables, jobs: &[&Definition], since: Duration) -> Ask<'static, ()> {
    let each = jobs.iter().map(|job| {
        let [name, schedule, zone] =
            [&job.name, &job.schedule, &job.zone].map(|text| text_literal(text));
        format!("({name}, {schedule}, {zone})")
    });
    command(
        "cron seen",
        format!(
            "UPDATE {} SET seen_at = UTC_TIMESTAMP(6) WHERE seen_at < {} \
         AND (name, schedule, zone) IN ({})",
            tables.of(&CRON_JOBS),
            seconds_ago(since.as_secs()),
            each.collect::<Vec<_>>().join(", ")
        ),
    )
}

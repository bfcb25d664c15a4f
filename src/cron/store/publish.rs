//! Jobs as a file has them: the schedule that was read last is in force.

use std::collections::HashMap;
use std::time::Duration;

use super::{micros, moment, optional};
use crate::cron::rules::Row as Facts;
use crate::db::{Batch, Fault, Plain, Reply, Row, Statement, text_literal};
use crate::schema::{CRON_JOBS, Tables};

/// What a job's row says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRow {
    /// As in [`Facts`].
    pub next: Option<i64>,
    /// The last tick that was settled.
    pub settled: Option<i64>,
    pub triggered: Option<i64>,
    pub is_paused: bool,
    /// What is in force.
    pub schedule: String,
    pub zone: String,
    pub definition: String,
    /// When a daemon last had it in its file.
    pub seen: i64,
}

impl JobRow {
    /// What the rules want to know.
    pub fn facts(&self) -> Facts {
        Facts {
            next: self.next,
            is_paused: self.is_paused,
            triggered: self.triggered,
        }
    }
}

/// What a file says of a job.
#[derive(Debug, Clone)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// The five fields, or the nickname, and the zone.
    pub schedule: String,
    pub zone: String,
    /// A hash of all of it.
    pub hash: String,
    /// By how many seconds a tick may be put off, rounded up.
    pub jitter: u64,
}

/// Asks for the rows of all jobs.
pub struct AskJobs<'a>(pub &'a Tables);

/// The columns of a job's row, as [`decode_job`] reads them from this column on.
pub(super) fn job_columns() -> String {
    format!(
        "name, {}, {}, {}, IF(paused_at IS NULL, 0, 1), schedule, zone, CONCAT(definition, ' ', {})",
        micros("next_at"),
        micros("settled_at"),
        micros("triggered_at"),
        micros("seen_at")
    )
}

pub(super) fn decode_job(row: &Row, from: usize) -> Result<Option<(String, JobRow)>, Fault> {
    let Some(name) = row.text(from)? else {
        return Ok(None);
    };
    let last = row.text(from + 7)?.unwrap_or_default();
    let (definition, seen) = last.split_once(' ').unwrap_or_default();
    let found = JobRow {
        next: row.get(from + 1)?,
        settled: row.get(from + 2)?,
        triggered: row.get(from + 3)?,
        is_paused: row.get::<u8>(from + 4)? == Some(1),
        schedule: row.text(from + 5)?.unwrap_or_default(),
        zone: row.text(from + 6)?.unwrap_or_default(),
        definition: definition.to_owned(),
        seen: seen.parse().unwrap_or_default(),
    };
    Ok(Some((name, found)))
}

impl Statement for AskJobs<'_> {
    type Answer = HashMap<String, JobRow>;

    const MOST_ROWS: usize = crate::db::LIST;

    fn sql(&self) -> String {
        format!(
            "/* dblock cron jobs */ SELECT {} FROM {}",
            job_columns(),
            self.0.of(&CRON_JOBS)
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let mut jobs = HashMap::new();
        for row in rows {
            jobs.extend(decode_job(row, 0)?);
        }
        Ok(jobs)
    }
}

/// The last tick that was settled may be later than the server's clock shows: after a fail-over to a server whose clock is behind, or
/// when it was set back. By up to so much it counts, and no tick up to it is taken again. When it is more the clock had been wrong: only
/// what the clock shows now counts, or a job would rest until then. In microseconds.
const LARGEST_LAG: i64 = 600 * 1_000_000;

/// Up to when, as seen at a moment, ticks count as settled.
pub fn settled_until(now: i64) -> i64 {
    now.saturating_add(LARGEST_LAG)
}

/// The moment after which a job's first tick by another schedule comes: none that was settled is taken again.
pub fn goes_on_after(now: i64, settled: Option<i64>) -> i64 {
    let counts = settled.filter(|settled| *settled <= settled_until(now));
    counts.map_or(now, |settled| settled.max(now))
}

/// Puts jobs in force that are new, or other than they were, each with its next tick. It may be carried out twice.
///
/// A job of which that tick was settled meanwhile stays as it is: [`Publish::is_overtaken`].
pub struct Publish<'a> {
    /// Where.
    pub tables: &'a Tables,
    /// The host of the daemon.
    pub host: &'a str,
    /// The jobs, by their names, for several daemons may do the same at once.
    pub jobs: Vec<(&'a Definition, Option<i64>)>,
    /// When that was found out.
    pub now: i64,
}

impl Publish<'_> {
    /// Whether a job stayed as it was that was to have this next tick, as found at this moment.
    pub fn is_overtaken(next: Option<i64>, now: i64, settled: Option<i64>) -> bool {
        let settled = settled.filter(|settled| *settled <= settled_until(now));
        settled.is_some_and(|settled| next.is_some_and(|next| settled >= next))
    }
}

impl Batch for Publish<'_> {
    type Answer = ();

    fn statements(&self) -> Vec<String> {
        let table = self.tables.of(&CRON_JOBS);
        let host = text_literal(self.host);
        let each = self.jobs.iter().map(|(job, next)| {
            let [name, schedule, zone, hash] =
                [&job.name, &job.schedule, &job.zone, &job.hash].map(|text| text_literal(text));
            let (next, jitter) = (optional(*next), job.jitter);
            let is_same = format!("schedule = {schedule} AND zone = {zone}");
            // Without a next tick it was in no file for a while.
            let is_kept = format!("{is_same} AND next_at IS NOT NULL");
            let is_whole = format!("{is_kept} AND definition = {hash}");
            let until = moment(settled_until(self.now));
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
            // What the others are compared with comes last, for the server may assign one column after the other.
            format!(
                "INSERT INTO {table} (name, schedule, zone, definition, jitter_seconds, next_at, changed_at, changed_by, seen_at) \
                 VALUES ({name}, {schedule}, {zone}, {hash}, {jitter}, {next}, UTC_TIMESTAMP(6), {host}, UTC_TIMESTAMP(6)) \
                 ON DUPLICATE KEY UPDATE {changed_at}, {changed_by}, {next_at}, seen_at = UTC_TIMESTAMP(6), {others}"
            )
        });
        let begin = "/* dblock cron publish */ BEGIN".to_owned();
        std::iter::once(begin)
            .chain(each)
            .chain(["COMMIT".to_owned()])
            .collect()
    }

    fn decode(&self, _: &[Reply], fault: Option<Fault>) -> Result<(), Fault> {
        fault.map_or(Ok(()), Err)
    }
}

/// Says that these jobs are in a daemon's file, where their row says the same and nobody has said it for so long.
pub fn touch(tables: &Tables, jobs: &[&Definition], since: Duration) -> Plain {
    let each = jobs.iter().map(|job| {
        let [name, schedule, zone] =
            [&job.name, &job.schedule, &job.zone].map(|text| text_literal(text));
        format!("({name}, {schedule}, {zone})")
    });
    Plain(format!(
        "/* dblock cron seen */ UPDATE {} SET seen_at = UTC_TIMESTAMP(6) WHERE seen_at < UTC_TIMESTAMP(6) - INTERVAL {} SECOND \
         AND (name, schedule, zone) IN ({})",
        tables.of(&CRON_JOBS),
        since.as_secs(),
        each.collect::<Vec<_>>().join(", ")
    ))
}

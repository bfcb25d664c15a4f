//! A daemon's look at the tables, once a second in one statement: due or changed jobs, ticks in progress, and living daemons.

use std::collections::{HashMap, HashSet};

use super::daemons::is_silent;
use super::publish::{JobRow, decode_job, job_columns};
use super::{micros, moment};
use crate::cron::rules::LARGEST_LAG;
use crate::db::{Fault, Row, Statement, text_literal};
use crate::schema::{CRON_DAEMONS, CRON_JOBS, CRON_TICKS, RUNS, Tables};

/// A tick's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TickRow {
    /// The job.
    pub name: String,
    /// The tick.
    pub tick: i64,
    /// The run of the latest attempt.
    pub run: String,
    /// The number of attempts, and how many of them count as failures.
    pub attempt: u32,
    pub failures: u32,
    /// The daemon that has it; `None`: none.
    pub daemon: Option<String>,
    /// When to try it again. If its daemon is silent, since when.
    pub start_at: Option<i64>,
    /// When its command was about to start, if it was.
    pub started_at: Option<i64>,
    /// Since when no attempt could start its command; `None`: the latest did, or there was none.
    pub unstarted_at: Option<i64>,
    /// Whether the tick may be taken over: the run does not hold its lock, and its daemon has been silent for the TTL, or has not recorded
    /// the run's end for a while.
    pub is_orphan: bool,
}

impl TickRow {
    /// Whether it waits for an earlier tick of its job.
    pub fn is_waiting(&self) -> bool {
        self.daemon.is_none() && self.start_at.is_none()
    }
}

/// The result of a look.
#[derive(Debug, Default)]
pub struct Seen {
    /// The server's time.
    pub now: i64,
    /// The jobs that are due or have changed.
    pub jobs: HashMap<String, JobRow>,
    /// The names of the due jobs.
    pub due: HashSet<String>,
    /// All ticks with a row.
    pub ticks: Vec<TickRow>,
    /// The daemons that are alive and take ticks.
    pub daemons: Vec<String>,
    /// Whether the daemon that asks has a row.
    pub is_registered: bool,
}

/// Looks at the tables.
pub struct Look<'a> {
    /// dblock's tables.
    pub tables: &'a Tables,
    /// The daemon that asks.
    pub daemon: &'a str,
    /// Only reads jobs that are due or have changed since this moment; `None`: all.
    pub since: Option<i64>,
}

/// A run's keeper records its end. Within this many seconds its daemon should then record what happens to the tick.
const UNRECORDED: u32 = 5;

const NOW: u8 = 0;
const JOB: u8 = 1;
const TICK: u8 = 2;
const DAEMON: u8 = 3;

impl Statement for Look<'_> {
    type Answer = Seen;

    const MOST_ROWS: usize = crate::db::LIST;

    fn sql(&self) -> String {
        let [jobs, ticks, daemons, runs] =
            [CRON_JOBS, CRON_TICKS, CRON_DAEMONS, RUNS].map(|table| self.tables.of(&table));
        let job = format!("SELECT {JOB}, {} FROM {jobs}", job_columns());
        let which = match self.since {
            None => job,
            Some(since) => format!(
                "{job} WHERE next_at <= UTC_TIMESTAMP(6) UNION ALL {job} WHERE changed_at >= {}",
                moment(since)
            ),
        };
        let (own, locks) = (text_literal(self.daemon), self.tables.locks());
        // The first SELECT decides the columns' types, so the jobs come first.
        format!(
            "/* dblock cron look */ {which} \
             UNION ALL SELECT {NOW}, NULL, {}, NULL, NULL, (SELECT COUNT(*) FROM {daemons} WHERE daemon = {own}), NULL, NULL, NULL \
             UNION ALL SELECT {TICK}, t.name, {}, {}, {}, t.daemon IS NOT NULL AND ({} OR COALESCE(r.ended_at < UTC_TIMESTAMP(6) - INTERVAL {UNRECORDED} SECOND, FALSE)) \
             AND NOT EXISTS (SELECT 1 FROM {locks} l WHERE l.name = t.name AND l.owner = t.run AND l.expires_at > UTC_TIMESTAMP(6)), \
             t.run, t.daemon, \
             CONCAT_WS(' ', t.attempt, t.failures, {}) FROM {ticks} t LEFT JOIN {daemons} d ON d.daemon = t.daemon \
             LEFT JOIN {runs} r ON r.run = t.run \
             UNION ALL SELECT {DAEMON}, daemon, NULL, NULL, NULL, 0, NULL, NULL, NULL FROM {daemons} \
             WHERE expires_at > UTC_TIMESTAMP(6) AND expires_at < UTC_TIMESTAMP(6) + INTERVAL {} SECOND AND leaving_at IS NULL",
            micros("UTC_TIMESTAMP(6)"),
            micros("t.tick"),
            micros(
                "IF(t.daemon IS NULL, t.start_at, COALESCE(r.ended_at, d.gone_at, d.renewed_at + INTERVAL t.ttl_seconds SECOND, t.started_at, t.tick))"
            ),
            micros("t.started_at"),
            is_silent(),
            micros("t.unstarted_at"),
            LARGEST_LAG.as_secs(),
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Seen, Fault> {
        let mut seen = Seen::default();
        for row in rows {
            match row.old(0)? {
                Some(NOW) => {
                    seen.now = row.old(2)?.unwrap_or_default();
                    seen.is_registered = row.old::<u8>(5)? == Some(1);
                }
                Some(JOB) => seen.jobs.extend(decode_job(row, 1)?),
                Some(TICK) => seen.ticks.extend(tick(row)?),
                Some(DAEMON) => seen.daemons.extend(row.text(1)?),
                _ => {}
            }
        }
        let due = seen
            .jobs
            .iter()
            .filter(|(_, job)| job.next.is_some_and(|next| next <= seen.now));
        seen.due = due.map(|(name, _)| name.clone()).collect();
        if seen.now == 0 {
            return Err(Fault::Gone("no answer".to_owned()));
        }
        Ok(seen)
    }
}

fn tick(row: &Row) -> Result<Option<TickRow>, Fault> {
    let (Some(name), Some(tick), Some(run)) = (row.text(1)?, row.old(2)?, row.text(6)?) else {
        return Ok(None);
    };
    let counts = row.text(8)?.unwrap_or_default();
    let mut counts = counts.split(' ');
    let mut count = || counts.next().and_then(|count| count.parse().ok());
    Ok(Some(TickRow {
        name,
        tick,
        start_at: row.old(3)?,
        started_at: row.old(4)?,
        is_orphan: row.old::<u8>(5)? == Some(1),
        run,
        daemon: row.text(7)?,
        attempt: count().unwrap_or_default(),
        failures: count().unwrap_or_default(),
        unstarted_at: counts.next().and_then(|at| at.parse().ok()),
    }))
}

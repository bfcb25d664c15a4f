//! A daemon's look at the tables, once a second in one statement: due or changed jobs, ticks in progress, and living daemons.

use std::collections::{HashMap, HashSet};

use super::daemons::is_silent;
use super::publish::{JobRow, job_columns, read_job};
use crate::cron::rules::LARGEST_LAG;
use crate::db::sql::{after_seconds, micros, moment, now_micros, seconds_ago};
use crate::db::{Ask, Fault, LIST, Row, Rows, ask, no_answer, text_literal};
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

impl Look<'_> {
    /// What there is to see.
    pub fn ask(&self) -> Ask<'static, Seen> {
        let [jobs, ticks, daemons, runs] =
            [CRON_JOBS, CRON_TICKS, CRON_DAEMONS, RUNS].map(|table| self.tables.of(&table));
        let job = format!("SELECT {JOB} AS kind, {} FROM {jobs}", job_columns());
        let which = match self.since {
            None => job,
            Some(since) => format!(
                "{job} WHERE next_at <= UTC_TIMESTAMP(6) UNION ALL {job} WHERE changed_at >= {}",
                moment(since)
            ),
        };
        let (own, locks) = (text_literal(self.daemon), self.tables.locks());
        // The first SELECT decides the columns' types and names, so the jobs come first.
        let sql = format!(
            "{which} \
             UNION ALL SELECT {NOW}, NULL, {}, NULL, NULL, (SELECT COUNT(*) FROM {daemons} WHERE daemon = {own}), NULL, NULL, NULL \
             UNION ALL SELECT {TICK}, t.name, {}, {}, {}, t.daemon IS NOT NULL AND ({} OR COALESCE(r.ended_at < {}, FALSE)) \
             AND NOT EXISTS (SELECT 1 FROM {locks} l WHERE l.name = t.name AND l.owner = t.run AND l.expires_at > UTC_TIMESTAMP(6)), \
             t.run, t.daemon, \
             CONCAT_WS(' ', t.attempt, t.failures, {}) FROM {ticks} t LEFT JOIN {daemons} d ON d.daemon = t.daemon \
             LEFT JOIN {runs} r ON r.run = t.run \
             UNION ALL SELECT {DAEMON}, daemon, NULL, NULL, NULL, 0, NULL, NULL, NULL FROM {daemons} \
             WHERE expires_at > UTC_TIMESTAMP(6) AND expires_at < {} AND leaving_at IS NULL",
            now_micros(),
            micros("t.tick"),
            micros(
                "IF(t.daemon IS NULL, t.start_at, COALESCE(r.ended_at, d.gone_at, d.renewed_at + INTERVAL t.ttl_seconds SECOND, t.started_at, t.tick))"
            ),
            micros("t.started_at"),
            is_silent(),
            seconds_ago(UNRECORDED),
            micros("t.unstarted_at"),
            after_seconds(LARGEST_LAG.as_secs()),
        );
        ask("cron look", sql, Seen::read).up_to(LIST)
    }
}

impl Seen {
    fn read(rows: Rows) -> Result<Self, Fault> {
        let mut seen = Self::default();
        for row in rows.iter() {
            match row.get("kind")? {
                NOW => {
                    let (_, _, now, _, _, own_rows): (
                        u8,
                        Option<String>,
                        i64,
                        Option<i64>,
                        Option<i64>,
                        u64,
                    ) = row.columns()?;
                    seen.now = now;
                    seen.is_registered = own_rows == 1;
                }
                JOB => seen.jobs.extend([read_job(row)?]),
                TICK => seen.ticks.extend(tick(row)?),
                DAEMON => seen.daemons.push(row.get("name")?),
                _ => {}
            }
        }
        let due = seen
            .jobs
            .iter()
            .filter(|(_, job)| job.next.is_some_and(|next| next <= seen.now));
        seen.due = due.map(|(name, _)| name.clone()).collect();
        if seen.now == 0 {
            return Err(no_answer());
        }
        Ok(seen)
    }
}

/// Reads a tick; `None`: its moment is no date. The columns are those of a job in name only.
fn tick(row: &Row) -> Result<Option<TickRow>, Fault> {
    let (_, name, tick, start_at, started_at): (u8, _, _, _, _) = row.columns()?;
    let Some(tick) = tick else {
        return Ok(None);
    };
    let is_orphan: Option<bool> = row.at(5)?;
    let (run, daemon, counts): (_, _, String) = (row.at(6)?, row.at(7)?, row.at(8)?);
    // The attempts, the failures and the moment, in one column.
    let mut counts = counts.split(' ');
    let mut count = || counts.next().and_then(|count| count.parse().ok());
    Ok(Some(TickRow {
        name,
        tick,
        start_at,
        started_at,
        is_orphan: is_orphan == Some(true),
        run,
        daemon,
        attempt: count().unwrap_or_default(),
        failures: count().unwrap_or_default(),
        unstarted_at: counts.next().and_then(|at| at.parse().ok()),
    }))
}

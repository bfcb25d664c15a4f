//! A daemon's look at the tables, once a second in one statement: due or changed jobs, ticks in progress, and living daemons.

use std::collections::{HashMap, HashSet};

use super::daemons::is_silent;
use super::publish::{JobRow, job_values, read_job};
use crate::cron::rules::LARGEST_LAG;
use crate::cron::rules::taken::TickFacts;
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
    /// What the rules need of it.
    pub fn facts(&self) -> TickFacts {
        TickFacts {
            tick: self.tick,
            failures: self.failures,
            start_at: self.start_at,
            unstarted_at: self.unstarted_at,
        }
    }

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

/// The kinds of rows in the answer, each with columns of its own; the others are NULL.
const NOW: u8 = 0;
const JOB: u8 = 1;
const TICK: u8 = 2;
const DAEMON: u8 = 3;

/// The columns of the answer, besides the kind.
const COLUMNS: &str = "name next settled triggered is_paused schedule zone definition seen now is_registered tick run attempt failures \
                       daemon start_at started_at unstarted_at is_orphan";

/// The beginning of a SELECT of rows of one kind, which have these columns.
fn select(kind: u8, columns: &[(&str, String)]) -> String {
    let all = COLUMNS.split(' ').map(|column| {
        let given = columns.iter().find(|(name, _)| *name == column);
        let value = given.map_or("NULL", |(_, value)| value);
        format!(", {value} AS {column}")
    });
    format!("SELECT {kind} AS kind{}", all.collect::<String>())
}

impl Look<'_> {
    /// What there is to see.
    pub fn ask(&self) -> Ask<'static, Seen> {
        let [jobs, ticks, daemons, runs] =
            [CRON_JOBS, CRON_TICKS, CRON_DAEMONS, RUNS].map(|table| self.tables.of(&table));
        let job = format!("{} FROM {jobs}", select(JOB, &job_values()));
        let which = match self.since {
            None => job,
            Some(since) => format!(
                "{job} WHERE next_at <= UTC_TIMESTAMP(6) UNION ALL {job} WHERE changed_at >= {}",
                moment(since)
            ),
        };
        let (own, locks) = (text_literal(self.daemon), self.tables.locks());
        let own_rows = format!("(SELECT COUNT(*) FROM {daemons} WHERE daemon = {own})");
        let now = select(NOW, &[("now", now_micros()), ("is_registered", own_rows)]);
        let start_at = "IF(t.daemon IS NULL, t.start_at, COALESCE(r.ended_at, d.gone_at, d.renewed_at + INTERVAL t.ttl_seconds SECOND, \
                        t.started_at, t.tick))";
        let is_orphan = format!(
            "t.daemon IS NOT NULL AND ({} OR COALESCE(r.ended_at < {}, FALSE)) \
             AND NOT EXISTS (SELECT 1 FROM {locks} l WHERE l.name = t.name AND l.owner = t.run AND l.expires_at > UTC_TIMESTAMP(6))",
            is_silent(),
            seconds_ago(UNRECORDED),
        );
        let [name, run, attempt, failures, daemon] =
            ["name", "run", "attempt", "failures", "daemon"]
                .map(|column| (column, format!("t.{column}")));
        let tick = select(
            TICK,
            &[
                name,
                run,
                attempt,
                failures,
                daemon,
                ("tick", micros("t.tick")),
                ("start_at", micros(start_at)),
                ("started_at", micros("t.started_at")),
                ("unstarted_at", micros("t.unstarted_at")),
                ("is_orphan", is_orphan),
            ],
        );
        let daemon = select(DAEMON, &[("daemon", "daemon".to_owned())]);
        let sql = format!(
            "{which} UNION ALL {now} \
             UNION ALL {tick} FROM {ticks} t LEFT JOIN {daemons} d ON d.daemon = t.daemon LEFT JOIN {runs} r ON r.run = t.run \
             UNION ALL {daemon} FROM {daemons} \
             WHERE expires_at > UTC_TIMESTAMP(6) AND expires_at < {} AND leaving_at IS NULL",
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
                    seen.now = row.get("now")?;
                    seen.is_registered = row.get("is_registered")?;
                }
                JOB => seen.jobs.extend([read_job(row)?]),
                TICK => seen.ticks.extend(read_tick(row)?),
                DAEMON => seen.daemons.push(row.get("daemon")?),
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

/// Reads a tick; `None`: its moment is no date.
fn read_tick(row: &Row) -> Result<Option<TickRow>, Fault> {
    let Some(tick) = row.get("tick")? else {
        return Ok(None);
    };
    let is_orphan: Option<bool> = row.get("is_orphan")?;
    Ok(Some(TickRow {
        name: row.get("name")?,
        tick,
        run: row.get("run")?,
        attempt: row.get("attempt")?,
        failures: row.get("failures")?,
        daemon: row.get("daemon")?,
        start_at: row.get("start_at")?,
        started_at: row.get("started_at")?,
        unstarted_at: row.get("unstarted_at")?,
        is_orphan: is_orphan == Some(true),
    }))
}

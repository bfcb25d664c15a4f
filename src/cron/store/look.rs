//! A daemon's look at the tables, once a second in one statement: due or changed jobs, ticks in progress, and living daemons.

use std::collections::{HashMap, HashSet};

use super::publish::{JobRow, read_job};
use super::statements::text;
use crate::cron::rules::taken::TickFacts;
use crate::db::{Ask, Fault, LIST, Row, Rows, ask, no_answer};
use crate::schema::Tables;

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
pub(super) const UNRECORDED: u32 = 5;

/// The kinds of rows in the answer, each with columns of its own; the others are NULL.
pub(super) const NOW: u8 = 0;
pub(super) const JOB: u8 = 1;
pub(super) const TICK: u8 = 2;
pub(super) const DAEMON: u8 = 3;

/// The columns of the answer, besides the kind.
const COLUMNS: &str = "name next settled triggered is_paused schedule zone definition seen now is_registered tick run attempt failures \
                       daemon start_at started_at unstarted_at is_orphan";

/// The beginning of a SELECT of rows of one kind, which have these columns. `null` writes the NULL of a column.
pub(super) fn select(
    kind: u8,
    columns: &[(&str, String)],
    null: impl Fn(&str) -> &'static str,
) -> String {
    let all = COLUMNS.split(' ').map(|column| {
        let given = columns.iter().find(|(name, _)| *name == column);
        let value = given.map_or_else(|| null(column), |(_, value)| value);
        format!(", {value} AS {column}")
    });
    format!("SELECT {kind} AS kind{}", all.collect::<String>())
}

impl Look<'_> {
    /// What there is to see.
    pub fn ask(&self) -> Ask<'static, Seen> {
        let sql = text(self.tables).look(self);
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

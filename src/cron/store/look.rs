//! A daemon's look at the tables, once a second in one statement: due or changed jobs, ticks in progress, and living daemons.

use std::collections::{HashMap, HashSet};

use super::entry::{CLOCK, DAEMON, JOB, JobRow, Look, TICK, TickRow};
use super::publish::read_job;
use super::statements::text;
use crate::db::{Ask, Fault, LIST, READ_ONLY, Row, Rows, ask, no_answer};

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
                CLOCK => {
                    // It may not refuse what this account writes, and that counts for nothing on the server that takes writes.
                    if row.get::<Option<bool>>("is_read_only")? == Some(true) {
                        return Err(Fault::ReadOnly(READ_ONLY.to_owned()));
                    }
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

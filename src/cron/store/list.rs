//! Lists all jobs, their ticks in progress, and the daemons.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::micros;
use crate::db::{Fault, LIST, Row, Session, Statement};
use crate::schema::{CRON_DAEMONS, CRON_JOBS, CRON_TICKS, RUNS, Tables};

/// A job. All moments are microseconds since 1970, by the server's clock.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListedJob {
    pub name: String,
    pub schedule: String,
    pub zone: String,
    /// The next tick; `None`: there is none.
    pub next: Option<i64>,
    pub paused: Option<i64>,
    /// When it was triggered by hand.
    pub triggered: Option<i64>,
    /// When it was last seen in a daemon's file.
    pub seen: Option<i64>,
    /// The longest delay of its ticks.
    pub jitter: Duration,
    /// The host whose file has last changed it.
    pub changed_by: Option<String>,
    /// Its last run.
    pub last: Option<LastRun>,
}

/// A run of a job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LastRun {
    pub run: String,
    pub tick: Option<i64>,
    pub attempt: u32,
    pub host: Option<String>,
    pub acquired: Option<i64>,
    pub started: Option<i64>,
    pub ended: Option<i64>,
    /// The outcome as in the history; `None`: it has not ended.
    pub outcome: Option<String>,
    pub exit_code: Option<u32>,
    pub signal: Option<String>,
}

/// A tick in progress.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListedTick {
    pub name: String,
    pub tick: i64,
    pub attempt: u32,
    /// Where it runs; `None`: it is not running.
    pub host: Option<String>,
    /// When it is tried again. If this is `None` too, it waits for an earlier tick.
    pub retry: Option<i64>,
}

/// A daemon.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListedDaemon {
    pub host: Option<String>,
    pub pid: Option<u64>,
    /// How many commands it runs at once, and the number of jobs in its file.
    pub slots: u32,
    pub jobs: u32,
    /// A hash of its file's jobs.
    pub file: String,
    pub started: Option<i64>,
    pub renewed: Option<i64>,
    pub is_alive: bool,
    pub is_leaving: bool,
    /// The jobs whose schedule in its file differs from the one in force.
    pub disagrees: Vec<String>,
    /// The jobs whose command, options or variables in its file differ from those read last.
    pub differs: Vec<String>,
}

/// An item of the list.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Listed {
    /// The server's time.
    Now(i64),
    Job(Box<ListedJob>),
    Tick(ListedTick),
    Daemon(ListedDaemon),
}

/// Reports all items.
///
/// # Errors
/// Those of a statement.
pub fn list(
    tables: &Tables,
    session: &mut Session,
    mut report: impl FnMut(Listed),
) -> Result<(), Fault> {
    report(Listed::Now(session.run(&AskNow)?));
    for job in session.run(&AskJobs(tables))? {
        report(Listed::Job(Box::new(job)));
    }
    session
        .run(&AskTicks(tables))?
        .into_iter()
        .map(Listed::Tick)
        .for_each(&mut report);
    session
        .run(&AskDaemons(tables))?
        .into_iter()
        .map(Listed::Daemon)
        .for_each(report);
    Ok(())
}

struct AskNow;

impl Statement for AskNow {
    type Answer = i64;

    fn sql(&self) -> String {
        format!(
            "/* dblock cron now */ SELECT {}",
            micros("UTC_TIMESTAMP(6)")
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<i64, Fault> {
        Ok(crate::db::first_value(rows)?.unwrap_or_default())
    }
}

struct AskJobs<'a>(&'a Tables);

impl Statement for AskJobs<'_> {
    type Answer = Vec<ListedJob>;

    const MOST_ROWS: usize = LIST;

    fn sql(&self) -> String {
        let runs = self.0.of(&RUNS);
        let moments = [
            "j.next_at",
            "j.paused_at",
            "j.triggered_at",
            "j.seen_at",
            "r.tick",
            "r.acquired_at",
            "r.started_at",
            "r.ended_at",
        ]
        .map(micros)
        .join(", ");
        format!(
            "/* dblock cron list */ SELECT j.name, j.schedule, j.zone, j.changed_by, {moments}, r.run, r.attempt, r.host, r.outcome, \
             r.exit_code, r.signal_name, j.jitter_seconds FROM {} j LEFT JOIN {runs} r ON r.run = (SELECT x.run FROM {runs} x WHERE x.name = j.name \
             AND x.acquired_at IS NOT NULL ORDER BY x.requested_at DESC LIMIT 1) ORDER BY j.name",
            self.0.of(&CRON_JOBS)
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        rows.iter().map(job).collect()
    }
}

fn job(row: &Row) -> Result<ListedJob, Fault> {
    let last = match row.text(12)? {
        None => None,
        Some(run) => Some(LastRun {
            run,
            tick: row.old(8)?,
            acquired: row.old(9)?,
            started: row.old(10)?,
            ended: row.old(11)?,
            attempt: row.old(13)?.unwrap_or(1),
            host: row.text(14)?,
            outcome: row.text(15)?,
            exit_code: row.old(16)?,
            signal: row.text(17)?,
        }),
    };
    Ok(ListedJob {
        name: row.text(0)?.unwrap_or_default(),
        schedule: row.text(1)?.unwrap_or_default(),
        zone: row.text(2)?.unwrap_or_default(),
        changed_by: row.text(3)?,
        next: row.old(4)?,
        paused: row.old(5)?,
        triggered: row.old(6)?,
        seen: row.old(7)?,
        jitter: Duration::from_secs(row.old(18)?.unwrap_or_default()),
        last,
    })
}

struct AskTicks<'a>(&'a Tables);

impl Statement for AskTicks<'_> {
    type Answer = Vec<ListedTick>;

    const MOST_ROWS: usize = LIST;

    fn sql(&self) -> String {
        format!(
            "/* dblock cron ticks */ SELECT t.name, {}, t.attempt, d.host, {} FROM {} t LEFT JOIN {} d ON d.daemon = t.daemon \
             ORDER BY t.name, t.tick",
            micros("t.tick"),
            micros("t.start_at"),
            self.0.of(&CRON_TICKS),
            self.0.of(&CRON_DAEMONS)
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let tick = |row: &Row| {
            Ok(ListedTick {
                name: row.text(0)?.unwrap_or_default(),
                tick: row.old(1)?.unwrap_or_default(),
                attempt: row.old(2)?.unwrap_or_default(),
                host: row.text(3)?,
                retry: row.old(4)?,
            })
        };
        rows.iter().map(tick).collect()
    }
}

struct AskDaemons<'a>(&'a Tables);

impl Statement for AskDaemons<'_> {
    type Answer = Vec<ListedDaemon>;

    const MOST_ROWS: usize = LIST;

    fn sql(&self) -> String {
        format!(
            "/* dblock cron daemons */ SELECT host, pid, slots, jobs, definition, {}, {}, expires_at > UTC_TIMESTAMP(6), \
             leaving_at IS NOT NULL, disagrees, differs FROM {} WHERE gone_at IS NULL \
             AND expires_at > UTC_TIMESTAMP(6) - INTERVAL 1 DAY ORDER BY host, pid",
            micros("started_at"),
            micros("renewed_at"),
            self.0.of(&CRON_DAEMONS)
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let daemon = |row: &Row| {
            let names = |list: Option<String>| {
                let list = list.unwrap_or_default();
                list.lines().map(str::to_owned).collect()
            };
            Ok(ListedDaemon {
                host: row.text(0)?,
                pid: row.old(1)?,
                slots: row.old(2)?.unwrap_or_default(),
                jobs: row.old(3)?.unwrap_or_default(),
                file: row.text(4)?.unwrap_or_default(),
                started: row.old(5)?,
                renewed: row.old(6)?,
                is_alive: row.old::<u8>(7)? == Some(1),
                is_leaving: row.old::<u8>(8)? == Some(1),
                disagrees: names(row.text(9)?),
                differs: names(row.text(10)?),
            })
        };
        rows.iter().map(daemon).collect()
    }
}

//! Lists all jobs, their ticks in progress, and the daemons.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::statements::{flag, text};
use crate::base::text::{ServerTime, Span};
use crate::db::{Ask, Fault, LIST, Row, Session, ask, ask_time};
use crate::history::Outcome;
use crate::schema::{CRON_DAEMONS, CRON_TICKS, Tables};

/// A job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListedJob {
    pub name: String,
    pub schedule: String,
    pub zone: String,
    /// The next tick; `None`: there is none.
    pub next: Option<ServerTime>,
    pub paused: Option<ServerTime>,
    /// When it was triggered by hand.
    pub triggered: Option<ServerTime>,
    /// When it was last seen in a daemon's file.
    pub seen: Option<ServerTime>,
    /// The longest delay of its ticks.
    pub jitter: Duration,
    /// The host whose file has last changed it.
    pub changed_by: Option<String>,
    /// Its last run.
    pub last: Option<LastRun>,
    /// The outcome of that as in the history; `None`: it has not ended.
    pub outcome: Option<String>,
    pub exit_code: Option<u32>,
    pub signal: Option<String>,
}

impl ListedJob {
    /// Whether the command of its last run exited with 0.
    pub fn has_succeeded(&self) -> bool {
        self.outcome.as_deref() == Some(Outcome::Ran.word())
            && self.exit_code == Some(0)
            && self.signal.is_none()
    }
}

/// A run of a job without how it ended, also for programs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LastRun {
    pub run: String,
    pub tick: Option<ServerTime>,
    pub attempt: u32,
    pub host: Option<String>,
    pub acquired: Option<ServerTime>,
    pub started: Option<ServerTime>,
    pub ended: Option<ServerTime>,
    /// How long the command ran.
    #[serde(rename = "ran_seconds")]
    pub ran: Option<Span>,
}

/// A tick in progress, also for programs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListedTick {
    pub tick: ServerTime,
    pub attempt: u32,
    /// Where it runs; `None`: it is not running.
    pub host: Option<String>,
    /// When it is tried again. If this is `None` too, it waits for an earlier tick.
    pub retry: Option<ServerTime>,
}

/// A daemon, also for programs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListedDaemon {
    pub host: Option<String>,
    pub pid: Option<u64>,
    /// How many commands it runs at once, and the number of jobs in its file.
    pub max_commands: u32,
    pub job_count: u32,
    /// A hash of its file's jobs.
    pub file_hash: String,
    pub started: Option<ServerTime>,
    pub renewed: Option<ServerTime>,
    pub alive: bool,
    pub leaving: bool,
    /// The jobs whose schedule in its file differs from the one in force.
    pub disagrees: Vec<String>,
    /// The jobs whose command, options or variables in its file differ from those read last.
    pub differs: Vec<String>,
}

/// An item of the list.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Listed {
    /// The server's time.
    Now(ServerTime),
    Job(Box<ListedJob>),
    /// A tick of the job of this name.
    Tick(String, ListedTick),
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
    report(Listed::Now(session.run(&ask_time(session.kind()))?));
    for job in session.run(&ask_jobs(tables))? {
        report(Listed::Job(Box::new(job)));
    }
    session
        .run(&ask_ticks(tables))?
        .into_iter()
        .map(|(job, tick)| Listed::Tick(job, tick))
        .for_each(&mut report);
    session
        .run(&ask_daemons(tables))?
        .into_iter()
        .map(Listed::Daemon)
        .for_each(report);
    Ok(())
}

fn ask_jobs(tables: &Tables) -> Ask<'static, Vec<ListedJob>> {
    let sql = text(tables).listed_jobs();
    ask("cron list", sql, |rows| rows.all(job)).up_to(LIST)
}

fn job(row: &Row) -> Result<ListedJob, Fault> {
    let last = match row.get("run")? {
        None => None,
        Some(run) => {
            let (started, ended) = (row.get("started")?, row.get("ended")?);
            Some(LastRun {
                run,
                tick: row.get("tick")?,
                acquired: row.get("acquired")?,
                started,
                ended,
                ran: ServerTime::between(started, ended).map(Span),
                attempt: row.get("attempt")?,
                host: row.get("host")?,
            })
        }
    };
    Ok(ListedJob {
        name: row.get("name")?,
        schedule: row.get("schedule")?,
        zone: row.get("zone")?,
        changed_by: row.get("changed_by")?,
        next: row.get("next")?,
        paused: row.get("paused")?,
        triggered: row.get("triggered")?,
        seen: row.get("seen")?,
        jitter: Duration::from_secs(row.get("jitter_seconds")?),
        last,
        outcome: row.get("outcome")?,
        exit_code: row.get("exit_code")?,
        signal: row.get("signal_name")?,
    })
}

/// Asks for all ticks with a row.
fn ask_ticks(tables: &Tables) -> Ask<'static, Vec<(String, ListedTick)>> {
    let words = tables.kind();
    let sql = format!(
        "SELECT t.name, {} AS tick_at, t.attempt, d.host, {} AS retry FROM {} t LEFT JOIN {} d ON d.daemon = t.daemon \
         ORDER BY t.name, t.tick",
        words.micros("t.tick"),
        words.micros("t.start_at"),
        tables.of(&CRON_TICKS),
        tables.of(&CRON_DAEMONS)
    );
    let tick = |row: &Row| {
        let tick = ListedTick {
            tick: row.get_or_default("tick_at")?,
            attempt: row.get("attempt")?,
            host: row.get("host")?,
            retry: row.get("retry")?,
        };
        Ok((row.get("name")?, tick))
    };
    ask("cron ticks", sql, move |rows| rows.all(tick)).up_to(LIST)
}

/// Asks for the daemons that are not gone for long.
fn ask_daemons(tables: &Tables) -> Ask<'static, Vec<ListedDaemon>> {
    let words = tables.kind();
    let sql = format!(
        "SELECT host, pid, slots, jobs, definition, {} AS started, {} AS renewed, {} AS is_alive, {} AS is_leaving, \
         disagrees, differs FROM {} WHERE gone_at IS NULL AND expires_at > {} ORDER BY host, pid",
        words.micros("started_at"),
        words.micros("renewed_at"),
        flag(&format!("expires_at > {}", words.now())),
        flag("leaving_at IS NOT NULL"),
        tables.of(&CRON_DAEMONS),
        words.seconds_ago(24 * 3600)
    );
    let daemon = |row: &Row| {
        let names = |column| {
            let list: Option<String> = row.get(column)?;
            let list = list.unwrap_or_default();
            Ok::<_, Fault>(list.lines().map(str::to_owned).collect())
        };
        Ok(ListedDaemon {
            host: row.get("host")?,
            pid: row.get("pid")?,
            max_commands: row.get("slots")?,
            job_count: row.get("jobs")?,
            file_hash: row.get("definition")?,
            started: row.get("started")?,
            renewed: row.get("renewed")?,
            alive: row.get("is_alive")?,
            leaving: row.get("is_leaving")?,
            disagrees: names("disagrees")?,
            differs: names("differs")?,
        })
    };
    ask("cron daemons", sql, move |rows| rows.all(daemon)).up_to(LIST)
}

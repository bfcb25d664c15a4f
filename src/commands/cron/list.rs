//! `dblock cron list`: each job, and the daemons that disagree.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::base::exit::Ending;
use crate::base::text::{in_seconds, json_printable, moment, printable, seconds};
use crate::commands::inquiry::ask_server_reached_by;
use crate::commands::{in_columns, print, to_the_second};
use crate::cron::{self, FRESH, LastRun, Listed, ListedDaemon, ListedJob, ListedTick, UNSEEN};
use crate::isolated::query::{self, Limits};
use crate::schema::Tables;
use crate::settings;
use crate::settings::cli::CommandLine;

/// All of it takes at most so many connect time-outs.
const WHOLE: u32 = 3;

const NOTHING: &str = "no dblock cron run has been here";
const NOBODY: &str = "no dblock cron run is alive";

/// What was found.
#[derive(Default)]
struct Found {
    now: i64,
    jobs: Vec<ListedJob>,
    ticks: Vec<ListedTick>,
    daemons: Vec<ListedDaemon>,
}

/// Asks the server, prints the answer, and returns how dblock is to end.
///
/// # Errors
/// What kept the server from being asked.
pub fn list(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (list, log) = settings::cron::list(command_line)?;
    let connect = list.connection.connect_timeout;
    let tables = Tables::new(&list.connection.database);
    let mut found = Found::default();
    let names = ("dblock cron list", c"dblock-list");
    let server = query::ask(
        names.0,
        |link, parent| {
            ask_server_reached_by::<Listed>(
                names,
                &list.connection,
                log.shown,
                (link, parent),
                |connector, _| cron::reach(connector, &tables, false).map(Into::into),
                |asker| {
                    let link = asker.link();
                    let listed = cron::list(&tables, &mut asker.inspector.session, |item| {
                        let _ = link.send(&query::Message::Item(item));
                    });
                    listed.map_err(|fault| tables.explain(fault))
                },
            )
        },
        Limits {
            connect,
            whole: Some(connect.saturating_mul(WHOLE)),
        },
        log,
        |item| match item {
            Listed::Now(now) => found.now = now,
            Listed::Job(job) => found.jobs.push(*job),
            Listed::Tick(tick) => found.ticks.push(tick),
            Listed::Daemon(daemon) => found.daemons.push(daemon),
        },
        |_| "what was found last".to_owned(),
    )?;
    print(&if list.json {
        found.as_json(&server)
    } else {
        found.as_table()
    })?;
    Ok(Ending::Code(0))
}

fn time(micros: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}

fn shown(micros: Option<i64>) -> Option<String> {
    micros.map(|at| to_the_second(time(at)))
}

fn text(micros: Option<i64>) -> Option<String> {
    micros.map(|at| moment(time(at)))
}

/// How a run ended, in a word; `None`: it has not.
fn ended(run: &LastRun) -> Option<String> {
    Some(
        match (run.outcome.as_deref()?, &run.signal, run.exit_code) {
            ("ran", Some(signal), _) => signal.clone(),
            ("ran", None, Some(code)) => format!("exit {code}"),
            (word, _, _) => word.replace('_', " "),
        },
    )
}

fn took(run: &LastRun, now: i64) -> Option<Duration> {
    let until = run.ended.unwrap_or(now);
    let span = until.saturating_sub(run.started.or(run.acquired)?);
    Some(Duration::from_micros(
        u64::try_from(span).unwrap_or_default(),
    ))
}

impl Found {
    /// Whether no daemon has had a job in its file for a while. Where no daemon is alive nobody knows.
    fn is_in_no_file(&self, job: &ListedJob) -> bool {
        let is_old = |seen: i64| {
            Duration::from_micros(self.now.saturating_sub(seen).unsigned_abs()) > UNSEEN
        };
        job.seen.is_some_and(is_old) && self.is_served()
    }

    /// Whether any daemon is alive.
    fn is_served(&self) -> bool {
        self.daemons.iter().any(|daemon| daemon.is_alive)
    }

    /// How late the next tick of a job is; `None`: it is not.
    fn late(&self, job: &ListedJob) -> Option<Duration> {
        let next = job.next?;
        // While daemons are alive one of those that have it in their files says so each minute. If none has since, it was taken out.
        if self.is_in_no_file(job) || self.is_served() && job.seen.is_none_or(|seen| seen < next) {
            return None;
        }
        let late = self.now.saturating_sub(next);
        let late = Duration::from_micros(u64::try_from(late).unwrap_or_default());
        (late > FRESH + job.jitter && job.paused.is_none()).then_some(late)
    }

    /// What a job does now.
    fn state(&self, job: &ListedJob) -> String {
        let mut parts = Vec::new();
        parts.extend(job.paused.map(|_| "paused".to_owned()));
        if self.is_in_no_file(job) {
            parts.push("in no file".to_owned());
        }
        parts.extend(
            self.late(job)
                .map(|late| format!("late by {}", in_seconds(late))),
        );
        parts.extend(job.triggered.map(|_| "triggered".to_owned()));
        for tick in self.ticks.iter().filter(|tick| tick.name == job.name) {
            parts.push(match (&tick.host, tick.retry) {
                (Some(host), _) => format!("runs on {host}"),
                (None, Some(retry)) => format!("again at {}", to_the_second(time(retry))),
                (None, None) => "a tick waits".to_owned(),
            });
        }
        if parts.is_empty() {
            return "-".to_owned();
        }
        parts.join(", ")
    }

    fn as_table(&self) -> String {
        if self.jobs.is_empty() && self.daemons.is_empty() {
            return format!("{NOTHING}\n");
        }
        let titles = [
            "NAME",
            "SCHEDULE",
            "ZONE",
            "NEXT (UTC)",
            "LAST (UTC)",
            "HOST",
            "RESULT",
            "TOOK",
            "NOW",
        ];
        let mut rows = vec![titles.map(str::to_owned).to_vec()];
        for job in &self.jobs {
            let last = job.last.as_ref();
            let cells = [
                Some(job.name.clone()),
                Some(job.schedule.clone()),
                Some(job.zone.clone()),
                shown(job.next),
                last.and_then(|run| shown(run.started.or(run.acquired))),
                last.and_then(|run| run.host.clone()),
                last.and_then(ended),
                last.and_then(|run| took(run, self.now))
                    .map(|span| in_seconds(span).to_string()),
                Some(self.state(job)),
            ];
            let cell =
                |cell: Option<String>| cell.map_or_else(|| "-".to_owned(), |text| printable(&text));
            rows.push(cells.into_iter().map(cell).collect());
        }
        let mut table = in_columns(&rows);
        for daemon in &self.daemons {
            let host = daemon.host.as_deref().unwrap_or("-");
            let pid = daemon.pid.unwrap_or_default();
            if !daemon.disagrees.is_empty() {
                let line = format!(
                    "{host}, pid {pid}, has another schedule for {}, and does not run them",
                    daemon.disagrees.join(", ")
                );
                let _ = writeln!(table, "{}", printable(&line));
            }
            if !daemon.differs.is_empty() {
                let line = format!(
                    "{host}, pid {pid}, has another command, other options or variables for {}, and runs them by its own file",
                    daemon.differs.join(", ")
                );
                let _ = writeln!(table, "{}", printable(&line));
            }
        }
        if !self.daemons.iter().any(|daemon| daemon.is_alive) {
            let _ = writeln!(table, "{NOBODY}");
        }
        table
    }

    fn as_json(&self, server: &str) -> String {
        let jobs: Vec<Value> = self.jobs.iter().map(|job| self.job(job)).collect();
        let daemons: Vec<Value> = self.daemons.iter().map(daemon).collect();
        let whole = json!({ "server": server, "now": text(Some(self.now)), "jobs": jobs, "daemons": daemons });
        format!("{}\n", json_printable(&format!("{whole:#}")))
    }

    fn job(&self, job: &ListedJob) -> Value {
        let ticks = self.ticks.iter().filter(|tick| tick.name == job.name);
        let ticks = ticks.map(|tick| {
            json!({
                "tick": text(Some(tick.tick)),
                "attempt": tick.attempt,
                "host": tick.host,
                "retry": text(tick.retry),
            })
        });
        let last = job.last.as_ref().map(|run| {
            json!({
                "run": run.run,
                "tick": text(run.tick),
                "attempt": run.attempt,
                "host": run.host,
                "started": text(run.started.or(run.acquired)),
                "ended": text(run.ended),
                "ran_seconds": took(run, self.now).map(seconds),
                "outcome": run.outcome,
                "exit_code": run.exit_code,
                "signal": run.signal,
            })
        });
        json!({
            "name": job.name,
            "schedule": job.schedule,
            "time_zone": job.zone,
            "next": text(job.next),
            "in_no_file": self.is_in_no_file(job),
            "late_seconds": self.late(job).map(seconds),
            "paused": text(job.paused),
            "triggered": text(job.triggered),
            "seen": text(job.seen),
            "changed_by": job.changed_by,
            "under_way": ticks.collect::<Vec<_>>(),
            "last": last,
        })
    }
}

fn daemon(daemon: &ListedDaemon) -> Value {
    json!({
        "host": daemon.host,
        "pid": daemon.pid,
        "slots": daemon.slots,
        "jobs": daemon.jobs,
        "file": daemon.file,
        "started": text(daemon.started),
        "renewed": text(daemon.renewed),
        "alive": daemon.is_alive,
        "leaving": daemon.is_leaving,
        "disagrees": daemon.disagrees,
        "differs": daemon.differs,
    })
}

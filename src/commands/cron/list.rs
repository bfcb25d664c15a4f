//! `dblock cron list`: each job, and the daemons that disagree.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

use super::question;
use crate::base::exit::Ending;
use crate::base::text::{ServerTime, in_seconds, printable, seconds};
use crate::commands::output::print_answer;
use crate::commands::question::Asker;
use crate::commands::table::{Table, Tone, result, to_the_second, tone_of};
use crate::commands::watch::{Watched, watch};
use crate::cron::{self, FRESH, LastRun, Listed, ListedDaemon, ListedJob, ListedTick, is_unseen};
use crate::history::{RUNNING, UNKNOWN};
use crate::settings::cli::CommandLine;
use crate::settings::{self, Color};

const NOTHING: &str = "no dblock cron run has been here";
const NOBODY: &str = "no dblock cron run is alive";

/// The answer of the server.
#[derive(Default)]
pub struct CronStatus {
    now: ServerTime,
    pub jobs: Vec<ListedJob>,
    /// The ticks, each with the name of its job.
    ticks: Vec<(String, ListedTick)>,
    pub daemons: Vec<ListedDaemon>,
}

/// Asks the server, prints the answer, and returns dblock's exit.
///
/// # Errors
/// Why the server could not be asked.
pub fn list(command_line: CommandLine) -> anyhow::Result<Ending> {
    let common = settings::common(command_line)?;
    let question = question("dblock cron list", false, &common);
    let work = |asker: &mut Asker<Listed>| {
        let session = &mut asker.inspector.session;
        cron::list(&asker.tables, session, |item| asker.answers.send(item))
    };
    if let Some(every) = common.watch {
        return Ok(watch::<CronStatus>(&question, every, work)?);
    }
    let mut found = CronStatus::default();
    let server = question.ask(work, |item| found.add(item))?;
    print_answer(
        common.json,
        || found.for_programs(&server),
        || found.as_table(common.color),
    )?;
    Ok(Ending::Code(0))
}

fn shown(at: Option<ServerTime>) -> Option<String> {
    at.map(|at| to_the_second(at.0))
}

impl CronStatus {
    /// Whether no daemon has had the job in its file for a while. Unknown, and thus `false`, if no daemon is alive.
    pub fn is_in_no_file(&self, job: &ListedJob) -> bool {
        let seen = job.seen;
        seen.is_some_and(|seen| is_unseen(seen.micros(), self.now.micros())) && self.is_served()
    }

    /// Whether any daemon is alive.
    fn is_served(&self) -> bool {
        self.daemons.iter().any(|daemon| daemon.alive)
    }

    /// The next tick of a job; `None`: there is none, or it was let pass, as the job is paused.
    pub fn next(&self, job: &ListedJob) -> Option<ServerTime> {
        let passes = |next: &ServerTime| job.paused.is_some() && *next <= self.now;
        job.next.filter(|next| !passes(next))
    }

    /// How late the next tick of a job is; `None`: it is not late.
    pub fn late(&self, job: &ListedJob) -> Option<Duration> {
        let next = job.next?;
        // Every minute some living daemon notes each job in its file. A job that was not noted since its tick has been removed.
        if self.is_in_no_file(job) || self.is_served() && job.seen.is_none_or(|seen| seen < next) {
            return None;
        }
        let late = self.now.since(next);
        (late > FRESH + job.jitter && job.paused.is_none()).then_some(late)
    }

    /// The ticks of a job that are in progress.
    pub fn ticks_of(&self, job: &ListedJob) -> impl Iterator<Item = &ListedTick> {
        let all = self.ticks.iter();
        all.filter(move |(name, _)| *name == job.name)
            .map(|(_, tick)| tick)
    }

    /// The outcome of a job's last run, as the word in JSON. A run without an end is running if a daemon that is alive has its tick.
    fn outcome<'a>(&self, job: &'a ListedJob, run: &LastRun) -> &'a str {
        let is_alive = |host: &Option<String>| {
            let mut daemons = self.daemons.iter();
            host.is_some() && daemons.any(|daemon| daemon.alive && daemon.host == *host)
        };
        let has_it = |tick: &ListedTick| (Some(tick.tick), tick.attempt) == (run.tick, run.attempt);
        match &job.outcome {
            Some(word) => word,
            None if self
                .ticks_of(job)
                .any(|tick| has_it(tick) && is_alive(&tick.host)) =>
            {
                RUNNING
            }
            None => UNKNOWN,
        }
    }

    /// The outcome of a job's last run and how long it took, for people.
    fn ended(&self, job: &ListedJob, run: &LastRun) -> (String, Option<String>) {
        let outcome = self.outcome(job, run);
        let result = result(outcome, job.signal.as_deref(), job.exit_code);
        let so_far = ServerTime::between(run.started.or(run.acquired), Some(self.now));
        let took = match outcome {
            RUNNING => so_far.map(|span| format!("{} so far", in_seconds(span))),
            _ => run.ran.map(|span| in_seconds(span.0).to_string()),
        };
        (result, took)
    }

    /// What the job is doing now; `None`: it waits for its next tick.
    fn state(&self, job: &ListedJob) -> Option<String> {
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
        for tick in self.ticks_of(job) {
            parts.push(match (&tick.host, tick.retry) {
                (Some(host), _) => format!("runs on {host}"),
                (None, Some(retry)) => format!("again at {}", to_the_second(retry.0)),
                (None, None) => "a tick waits".to_owned(),
            });
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    fn for_programs<'a>(&'a self, server: &'a str) -> CronListJson<'a> {
        CronListJson {
            server,
            now: self.now,
            jobs: self.jobs.iter().map(|job| self.job_json(job)).collect(),
            daemons: &self.daemons,
        }
    }

    fn job_json<'a>(&'a self, job: &'a ListedJob) -> CronJobJson<'a> {
        let last = job.last.as_ref().map(|run| LastRunJson {
            run,
            outcome: self.outcome(job, run),
            exit_code: job.exit_code,
            signal: job.signal.as_deref(),
        });
        CronJobJson {
            name: &job.name,
            schedule: &job.schedule,
            time_zone: &job.zone,
            next: self.next(job),
            in_no_file: self.is_in_no_file(job),
            late_seconds: self.late(job).map(seconds),
            paused_since: job.paused,
            triggered: job.triggered,
            seen: job.seen,
            changed_by: job.changed_by.as_deref(),
            under_way: self.ticks_of(job).collect(),
            last,
        }
    }
}

impl Watched for CronStatus {
    type Item = Listed;

    fn add(&mut self, item: Listed) {
        match item {
            Listed::Now(now) => self.now = now,
            Listed::Job(job) => self.jobs.push(*job),
            Listed::Tick(job, tick) => self.ticks.push((job, tick)),
            Listed::Daemon(daemon) => self.daemons.push(daemon),
        }
    }

    fn as_table(&self, color: Color) -> String {
        if self.jobs.is_empty() && self.daemons.is_empty() {
            return format!("{NOTHING}\n");
        }
        let mut jobs = Table::new(
            &[
                "NAME",
                "SCHEDULE",
                "ZONE",
                "NEXT (UTC)",
                "LAST (UTC)",
                "HOST",
                "RESULT",
                "TOOK",
                "NOW",
            ],
            &["SCHEDULE", "HOST", "NOW"],
        );
        for job in &self.jobs {
            let last = job.last.as_ref();
            let (result, took) = last.map(|run| self.ended(job, run)).unzip();
            jobs.row([
                Some(job.name.clone()),
                Some(job.schedule.clone()),
                Some(job.zone.clone()),
                shown(self.next(job)),
                last.and_then(|run| shown(run.started.or(run.acquired))),
                last.and_then(|run| run.host.clone()),
                result,
                took.flatten(),
                self.state(job),
            ]);
            let tone = last.and_then(|run| {
                let outcome = self.outcome(job, run);
                tone_of(outcome, job.signal.as_deref(), job.exit_code)
            });
            jobs.tone("RESULT", tone);
            jobs.tone("NOW", self.late(job).map(|_| Tone::Bad));
        }
        let mut table = jobs.in_color(color);
        // One that has ended may have had another file.
        for daemon in self.daemons.iter().filter(|daemon| daemon.alive) {
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
        if !self.is_served() {
            let _ = writeln!(table, "{NOBODY}");
        }
        table
    }
}

/// What `--json` prints, as `docs/cron-list.schema.json` says.
#[derive(Serialize)]
struct CronListJson<'a> {
    server: &'a str,
    now: ServerTime,
    jobs: Vec<CronJobJson<'a>>,
    daemons: &'a [ListedDaemon],
}

/// A job, for programs.
#[derive(Serialize)]
struct CronJobJson<'a> {
    name: &'a str,
    schedule: &'a str,
    time_zone: &'a str,
    next: Option<ServerTime>,
    in_no_file: bool,
    late_seconds: Option<f64>,
    paused_since: Option<ServerTime>,
    triggered: Option<ServerTime>,
    seen: Option<ServerTime>,
    changed_by: Option<&'a str>,
    under_way: Vec<&'a ListedTick>,
    last: Option<LastRunJson<'a>>,
}

/// A job's last run, for programs.
#[derive(Serialize)]
struct LastRunJson<'a> {
    #[serde(flatten)]
    run: &'a LastRun,
    outcome: &'a str,
    exit_code: Option<u32>,
    signal: Option<&'a str>,
}

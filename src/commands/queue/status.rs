//! `dblock queue status`: the jobs and workers of each queue.

use std::fmt::Write;

use serde::Serialize;

use super::long_question;
use crate::base::exit::{Ending, Reason};
use crate::base::text::{ServerTime, in_seconds, printable, seconds};
use crate::commands::output::print_answer;
use crate::commands::question::Asker;
use crate::commands::table::{Table, Tone};
use crate::commands::watch::{Watched, watch};
use crate::queue::{
    Count, For, ListedWorker, MINUTES, StatusItem, Summary, Worker, no_such_queue, status as ask,
};
use crate::settings::cli::CommandLine;
use crate::settings::{self, Color};

const NOTHING: &str = "there is no queue";

/// A queue and its workers.
pub type OfQueue = (Summary, Vec<ListedWorker>);

/// Adds a finding to the queues found before it. `Err`: there is no queue of this name.
///
/// # Errors
/// The name of a queue that does not exist.
pub fn add(found: StatusItem, queues: &mut Vec<OfQueue>) -> Result<(), String> {
    match (found, queues.last_mut()) {
        (StatusItem::Queue(queue), _) => queues.push((*queue, Vec::new())),
        (StatusItem::Worker(worker), Some((_, workers))) => workers.push(*worker),
        (StatusItem::Missing(name), _) => return Err(name),
        (StatusItem::Worker(_), None) => {}
    }
    Ok(())
}

/// What there is of the queues that were asked for.
#[derive(Default)]
struct Queues {
    queues: Vec<OfQueue>,
    /// The names of those that do not exist.
    missing: Vec<String>,
}

impl Watched for Queues {
    type Item = StatusItem;

    fn add(&mut self, found: StatusItem) {
        self.missing.extend(add(found, &mut self.queues).err());
    }

    fn as_table(&self, color: Color) -> String {
        let mut text = String::new();
        if !self.queues.is_empty() || self.missing.is_empty() {
            text += &as_table(&self.queues, color);
        }
        for name in &self.missing {
            let _ = writeln!(text, "{}", printable(&no_such_queue(name).line));
        }
        text
    }
}

/// Asks the server, prints the answer, and returns dblock's exit.
///
/// # Errors
/// Why the server could not be asked, or that there is no such queue.
pub fn status(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (scope, common) = settings::queue::status(command_line)?;
    let question = long_question("dblock queue status", For::Reading, &common);
    let work = |asker: &mut Asker<StatusItem>| {
        let (tables, session) = (&asker.tables, &mut asker.inspector.session);
        let mut found = Vec::new();
        ask(&scope, tables, session, |one| found.push(one))?;
        for one in found {
            asker.answers.send(one);
        }
        Ok(())
    };
    if let Some(every) = common.watch {
        return Ok(watch::<Queues>(&question, every, work)?);
    }
    let mut found = Queues::default();
    let server = question.ask(work, |one| found.add(one))?;
    let missing = found.missing.first().map(|name| no_such_queue(name));
    if !found.queues.is_empty() || missing.is_none() {
        print_answer(
            common.json,
            || QueueStatusJson {
                server: &server,
                queues: found.queues.iter().map(queue_json).collect(),
            },
            || as_table(&found.queues, common.color),
        )?;
    }
    if let Some(missing) = missing {
        common.log.error(missing);
        return Ok(Ending::Code(Reason::Configuration.code()));
    }
    Ok(Ending::Code(0))
}

/// The rate per minute.
pub fn rate(count: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "no queue is that fast")]
    let count = count as f64;
    (count * 10.0 / f64::from(MINUTES)).round() / 10.0
}

fn as_table(queues: &[OfQueue], color: Color) -> String {
    if queues.is_empty() {
        return format!("{NOTHING}\n");
    }
    let mut table = Table::new(
        &[
            "QUEUE", "STATE", "DUE", "DELAYED", "RUNNING", "DEAD", "OLDEST", "DONE", "FAILED",
            "WORKERS",
        ],
        &[],
    );
    let and_more = |more: bool| if more { "+" } else { "" };
    let count = |count: Count| Some(format!("{}{}", count.jobs, and_more(count.more)));
    for (queue, workers) in queues {
        let state = match (queue.deleted, queue.paused) {
            (Some(_), _) => "being deleted",
            (None, Some(_)) => "paused",
            (None, None) => "open",
        };
        let alive = workers.iter().filter(|(worker, _)| worker.alive).count();
        table.row([
            Some(queue.name.clone()),
            Some(state.to_owned()),
            count(queue.due),
            count(queue.delayed),
            count(queue.running),
            count(queue.dead),
            queue
                .oldest_due
                .map(|span| format!("{}{}", in_seconds(span), and_more(queue.due.more))),
            Some(format!("{}/min", rate(queue.done))),
            Some(format!("{}/min", rate(queue.failed))),
            Some(alive.to_string()),
        ]);
        table.tone("STATE", queue.paused.map(|_| Tone::Doubtful));
        table.tone("DEAD", (queue.dead.jobs > 0).then_some(Tone::Bad));
    }
    if queues.iter().all(|(_, workers)| workers.is_empty()) {
        return table.in_color(color);
    }
    format!(
        "{}\n{}",
        table.in_color(color),
        workers_as_table(queues).in_color(color)
    )
}

fn workers_as_table(queues: &[OfQueue]) -> Table {
    let mut table = Table::new(
        &[
            "QUEUE",
            "STATE",
            "HOST",
            "PID",
            "PROGRAM",
            "MAX COMMANDS",
            "RUNNING",
            "FOR",
            "RENEWED",
        ],
        &["HOST", "PROGRAM"],
    );
    let workers = queues
        .iter()
        .flat_map(|(queue, workers)| workers.iter().map(|worker| (&queue.name, worker)));
    for (queue, (worker, [started_ago, renewed_ago])) in workers {
        let state = if worker.alive { "alive" } else { "gone" };
        table.row([
            Some(queue.clone()),
            Some(state.to_owned()),
            worker.host.clone(),
            worker.pid.map(|pid| pid.to_string()),
            worker.program.clone(),
            Some(worker.max_commands.to_string()),
            Some(worker.running.to_string()),
            Some(in_seconds(*started_ago).to_string()),
            Some(format!("{} ago", in_seconds(*renewed_ago))),
        ]);
        table.tone("STATE", (!worker.alive).then_some(Tone::Bad));
    }
    table
}

/// What `--json` prints, as `docs/queue-status.schema.json` says.
#[derive(Serialize)]
struct QueueStatusJson<'a> {
    server: &'a str,
    queues: Vec<QueueJson<'a>>,
}

/// A queue, for programs.
#[derive(Serialize)]
struct QueueJson<'a> {
    name: &'a str,
    paused_since: Option<ServerTime>,
    deleting_since: Option<ServerTime>,
    due: u64,
    delayed: u64,
    running: u64,
    dead: u64,
    /// The states with more jobs than were counted.
    incomplete: Vec<&'static str>,
    oldest_due_seconds: Option<f64>,
    done_per_minute: f64,
    failed_per_minute: f64,
    workers: Vec<&'a Worker>,
}

fn queue_json((queue, workers): &OfQueue) -> QueueJson<'_> {
    let counts = [
        ("due", queue.due),
        ("delayed", queue.delayed),
        ("running", queue.running),
        ("dead", queue.dead),
    ];
    let incomplete = counts.into_iter().filter(|(_, count)| count.more);
    QueueJson {
        name: &queue.name,
        paused_since: queue.paused,
        deleting_since: queue.deleted,
        due: queue.due.jobs,
        delayed: queue.delayed.jobs,
        running: queue.running.jobs,
        dead: queue.dead.jobs,
        incomplete: incomplete.map(|(name, _)| name).collect(),
        oldest_due_seconds: queue.oldest_due.map(seconds),
        done_per_minute: rate(queue.done),
        failed_per_minute: rate(queue.failed),
        workers: workers.iter().map(|(worker, _)| worker).collect(),
    }
}

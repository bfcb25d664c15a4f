//! `dblock queue status`: the jobs and workers of each queue.

use serde::Serialize;

use super::Question;
use crate::base::exit::{Ending, Failure, Reason};
use crate::base::text::{in_seconds, moment, printable, seconds};
use crate::commands::{in_columns, in_json, print};
use crate::queue::{Count, For, Found, MINUTES, Summary, Worker, no_such_queue, status as ask};
use crate::settings;
use crate::settings::cli::CommandLine;

const NOTHING: &str = "there is no queue";

/// A queue and its workers.
type OfQueue = (Summary, Vec<Worker>);

/// Asks the server, prints the answer, and returns dblock's exit.
///
/// # Errors
/// Why the server could not be asked, or that there is no such queue.
pub fn status(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (status, log) = settings::queue::status(command_line)?;
    let question = Question {
        names: ("dblock queue status", c"dblock-status"),
        what_for: For::Reading,
        connection: &status.connection,
        is_long: true,
        log,
    };
    let mut queues: Vec<OfQueue> = Vec::new();
    let mut missing: Option<Failure> = None;
    let server = question.ask(
        |asker, tables| {
            let mut found = Vec::new();
            ask(
                &status.queues,
                tables,
                &mut asker.inspector.session,
                |one| {
                    found.push(one);
                },
            )?;
            for one in found {
                asker.report(one);
            }
            Ok(())
        },
        |found: Found| match (found, queues.last_mut()) {
            (Found::Queue(queue), _) => queues.push((*queue, Vec::new())),
            (Found::Worker(worker), Some((_, workers))) => workers.push(*worker),
            (Found::Missing(name), _) => {
                missing.get_or_insert(no_such_queue(&name));
            }
            (Found::Worker(_), None) => {}
        },
    )?;
    if !queues.is_empty() || missing.is_none() {
        print(&if status.json {
            as_json(&server, &queues)
        } else {
            as_table(&queues)
        })?;
    }
    if let Some(missing) = missing {
        log.error(missing);
        return Ok(Ending::Code(Reason::Configuration.code()));
    }
    Ok(Ending::Code(0))
}

/// The rate per minute.
fn rate(count: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "no queue is that fast")]
    let count = count as f64;
    (count * 10.0 / f64::from(MINUTES)).round() / 10.0
}

fn as_table(queues: &[OfQueue]) -> String {
    if queues.is_empty() {
        return format!("{NOTHING}\n");
    }
    let titles = [
        "QUEUE", "STATE", "DUE", "DELAYED", "RUNNING", "DEAD", "OLDEST", "DONE", "FAILED",
        "WORKERS",
    ];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    let count = |count: Count| format!("{}{}", count.jobs, if count.more { "+" } else { "" });
    for (queue, workers) in queues {
        let state = match (queue.deleted, queue.paused) {
            (Some(_), _) => "being deleted",
            (None, Some(_)) => "paused",
            (None, None) => "open",
        };
        let oldest = queue.oldest_due.map(|span| in_seconds(span).to_string());
        let alive = workers.iter().filter(|worker| !worker.gone).count();
        rows.push(vec![
            printable(&queue.name),
            state.to_owned(),
            count(queue.due),
            count(queue.delayed),
            count(queue.running),
            count(queue.dead),
            oldest.unwrap_or_else(|| "-".to_owned()),
            format!("{}/min", rate(queue.done)),
            format!("{}/min", rate(queue.failed)),
            alive.to_string(),
        ]);
    }
    let mut table = in_columns(&rows);
    if queues.iter().any(|(_, workers)| !workers.is_empty()) {
        let titles = [
            "QUEUE",
            "STATE",
            "HOST",
            "PID",
            "PROGRAM",
            "MAX COMMANDS",
            "RUNNING",
            "FOR",
            "RENEWED",
        ];
        let mut rows = vec![titles.map(str::to_owned).to_vec()];
        for (queue, workers) in queues {
            rows.extend(workers.iter().map(|worker| row(&queue.name, worker)));
        }
        table.push('\n');
        table += &in_columns(&rows);
    }
    table
}

fn row(queue: &str, worker: &Worker) -> Vec<String> {
    let text = |text: &Option<String>| text.as_deref().map_or_else(|| "-".to_owned(), printable);
    vec![
        printable(queue),
        if worker.gone { "gone" } else { "alive" }.to_owned(),
        text(&worker.host),
        worker
            .pid
            .map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
        text(&worker.program),
        worker.slots.to_string(),
        worker.running.to_string(),
        in_seconds(worker.started_ago).to_string(),
        format!("{} ago", in_seconds(worker.renewed_ago)),
    ]
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
    paused_since: Option<String>,
    deleting_since: Option<String>,
    due: u64,
    delayed: u64,
    running: u64,
    dead: u64,
    /// The states with more jobs than were counted.
    incomplete: Vec<&'static str>,
    oldest_due_seconds: Option<f64>,
    done_per_minute: f64,
    failed_per_minute: f64,
    workers: Vec<WorkerJson<'a>>,
}

/// A worker, for programs.
#[derive(Serialize)]
struct WorkerJson<'a> {
    id: u64,
    host: Option<&'a str>,
    pid: Option<u64>,
    user: Option<&'a str>,
    program: Option<&'a str>,
    max_commands: u32,
    running: u64,
    started: String,
    renewed: String,
    alive: bool,
}

fn as_json(server: &str, queues: &[OfQueue]) -> String {
    let queues = queues.iter().map(queue_json).collect();
    in_json(&QueueStatusJson { server, queues })
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
        paused_since: queue.paused.map(moment),
        deleting_since: queue.deleted.map(moment),
        due: queue.due.jobs,
        delayed: queue.delayed.jobs,
        running: queue.running.jobs,
        dead: queue.dead.jobs,
        incomplete: incomplete.map(|(name, _)| name).collect(),
        oldest_due_seconds: queue.oldest_due.map(seconds),
        done_per_minute: rate(queue.done),
        failed_per_minute: rate(queue.failed),
        workers: workers.iter().map(worker_json).collect(),
    }
}

fn worker_json(worker: &Worker) -> WorkerJson<'_> {
    WorkerJson {
        id: worker.number,
        host: worker.host.as_deref(),
        pid: worker.pid,
        user: worker.user.as_deref(),
        program: worker.program.as_deref(),
        max_commands: worker.slots,
        running: worker.running,
        started: moment(worker.started),
        renewed: moment(worker.renewed),
        alive: !worker.gone,
    }
}

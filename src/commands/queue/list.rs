//! `dblock queue list`: the jobs of a queue.

use serde::Serialize;

use super::{Question, find};
use crate::base::exit::Ending;
use crate::base::text::{moment, printable};
use crate::commands::{in_columns, in_json, print, to_the_second};
use crate::isolated::query::Message;
use crate::queue::{For, Listed, State, list as list_jobs};
use crate::settings;
use crate::settings::cli::CommandLine;

const NOTHING: &str = "there is no such job";

/// Asks the server, prints the answer, and returns dblock's exit.
///
/// # Errors
/// Why the server could not be asked.
pub fn list(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (list, log) = settings::queue::list(command_line)?;
    let question = Question {
        names: ("dblock queue list", c"dblock-list"),
        what_for: For::Reading,
        connection: &list.connection,
        is_long: true,
        log,
    };
    let mut jobs: Vec<Listed> = Vec::new();
    let server = question.ask(
        |asker, tables| {
            let link = asker.link();
            let session = &mut asker.inspector.session;
            let queue = find(&list.queue, tables, session)?;
            list_jobs(&queue, list.state, list.limit, tables, session, |job| {
                let _ = link.send(&Message::Item(job));
            })
        },
        |job: Listed| jobs.push(job),
    )?;
    print(&if list.json {
        in_json(&QueueListJson {
            server: &server,
            queue: &list.queue,
            jobs: jobs.iter().map(job_json).collect(),
        })
    } else {
        as_table(&jobs)
    })?;
    Ok(Ending::Code(0))
}

/// The worker of a running job.
pub fn worker(job: &Listed) -> Option<String> {
    let host = job.host.as_deref()?;
    Some(format!("{host}:{}", job.pid.unwrap_or_default()))
}

fn as_table(jobs: &[Listed]) -> String {
    if jobs.is_empty() {
        return format!("{NOTHING}\n");
    }
    let titles = [
        "ID",
        "STATE",
        "PRIORITY",
        "DUE (UTC)",
        "ATTEMPT",
        "KEY",
        "WORKER",
        "LAST ERROR",
    ];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    let dash = |text: Option<String>| text.map_or_else(|| "-".to_owned(), |text| printable(&text));
    for job in jobs {
        rows.push(vec![
            job.id.to_string(),
            state(job),
            job.priority.to_string(),
            dash(job.due.map(to_the_second)),
            job.attempt.to_string(),
            dash(job.key.clone()),
            dash(worker(job)),
            dash(job.last_error.clone()),
        ]);
    }
    in_columns(&rows)
}

/// The state as text, and whether the job was canceled.
pub fn state(job: &Listed) -> String {
    let word = job.state.word();
    if job.canceled {
        format!("{word}, canceled")
    } else {
        word.to_owned()
    }
}

/// What `--json` prints, as `docs/queue-list.schema.json` says.
#[derive(Serialize)]
struct QueueListJson<'a> {
    server: &'a str,
    queue: &'a str,
    jobs: Vec<JobJson<'a>>,
}

/// A job, for programs.
#[derive(Serialize)]
pub struct JobJson<'a> {
    id: u64,
    state: &'static str,
    priority: i32,
    due_at: Option<String>,
    state_since: Option<String>,
    attempt: u32,
    key: Option<&'a str>,
    host: Option<&'a str>,
    pid: Option<u64>,
    canceled: bool,
    last_error: Option<&'a str>,
}

pub fn job_json(job: &Listed) -> JobJson<'_> {
    // A delayed job has the moment when it is due, which is to come.
    let since = job.since.filter(|_| job.state != State::Delayed);
    JobJson {
        id: job.id,
        state: job.state.word(),
        priority: job.priority,
        due_at: job.due.map(moment),
        state_since: since.map(moment),
        attempt: job.attempt,
        key: job.key.as_deref(),
        host: job.host.as_deref(),
        pid: job.pid,
        canceled: job.canceled,
        last_error: job.last_error.as_deref(),
    }
}

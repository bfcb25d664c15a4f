//! `dblock queue list`: the jobs of a queue.

use serde::Serialize;

use super::{find, long_question};
use crate::base::exit::Ending;
use crate::base::text::moment;
use crate::commands::output::print_answer;
use crate::commands::table::{Table, to_the_second};
use crate::queue::{For, JobState, Listed, list as list_jobs};
use crate::settings;
use crate::settings::cli::CommandLine;

const NOTHING: &str = "there is no such job";

/// Asks the server, prints the answer, and returns dblock's exit.
///
/// # Errors
/// Why the server could not be asked.
pub fn list(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (list, common) = settings::queue::list(command_line)?;
    let mut jobs: Vec<Listed> = Vec::new();
    let server = long_question("dblock queue list", For::Reading, &common).ask(
        |asker| {
            let queue = find(&list.queue, asker)?;
            let (tables, session) = (&asker.tables, &mut asker.inspector.session);
            list_jobs(&queue, list.state, list.limit, tables, session, |job| {
                asker.answers.send(job);
            })
        },
        |job| jobs.push(job),
    )?;
    print_answer(
        common.json,
        || QueueListJson {
            server: &server,
            queue: &list.queue,
            jobs: jobs.iter().map(job_json).collect(),
        },
        || as_table(&jobs),
    )?;
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
    let mut table = Table::new(
        &[
            "ID",
            "STATE",
            "PRIORITY",
            "DUE (UTC)",
            "ATTEMPT",
            "KEY",
            "WORKER",
            "LAST ERROR",
        ],
        &["KEY", "WORKER", "LAST ERROR"],
    );
    for job in jobs {
        table.row([
            Some(job.id.to_string()),
            Some(state(job)),
            Some(job.priority.to_string()),
            job.due.map(to_the_second),
            Some(job.attempt.to_string()),
            job.key.clone(),
            worker(job),
            job.last_error.clone(),
        ]);
    }
    table.for_stdout()
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
    let since = job.since.filter(|_| job.state != JobState::Delayed);
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

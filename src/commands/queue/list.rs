//! `dblock queue list`: the jobs of a queue.

use serde::Serialize;

use super::{find, long_question};
use crate::base::exit::Ending;
use crate::commands::output::print_answer;
use crate::commands::table::{Table, to_the_second};
use crate::queue::{For, Listed, list as list_jobs};
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
            jobs: &jobs,
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
            job.due_at.map(|at| to_the_second(at.0)),
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
    jobs: &'a [Listed],
}

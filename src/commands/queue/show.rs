//! `dblock queue show`: the details of a job, or its payload.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::list::{state, worker};
use super::{find, long_question};
use crate::base::exit::{Ending, Failure, Reason};
use crate::base::text::{ServerTime, shown};
use crate::commands::output::{print_answer, print_bytes};
use crate::commands::table::{Table, to_the_second};
use crate::db::Fault;
use crate::queue::{Details, For, Listed, show as show_job};
use crate::settings;
use crate::settings::cli::CommandLine;

/// Bytes of a payload in each message to the process that prints.
const PIECE: usize = 12 * 1024;

/// How many characters of a payload are shown to people.
const LONGEST_SHOWN: usize = 500;

/// A message from the process that asks.
#[derive(Serialize, Deserialize)]
enum JobItem {
    Job(Box<(Listed, Details)>),
    /// A piece of the payload.
    Payload(Vec<u8>),
}

/// Asks the server, prints the answer, and returns dblock's exit.
///
/// # Errors
/// Why the server could not be asked, or that there is no such job.
pub fn show(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (show, common) = settings::queue::show(command_line)?;
    let mut job: Option<(Listed, Details)> = None;
    let mut payload: Vec<u8> = Vec::new();
    let server = long_question("dblock queue show", For::Reading, &common).ask(
        |asker| {
            let queue = find(&show.queue, asker)?;
            let is_there = show_job(
                &queue,
                show.job,
                &asker.tables,
                &mut asker.inspector.session,
                |job| asker.answers.send(JobItem::Job(Box::new(job))),
                |part| {
                    for piece in part.chunks(PIECE) {
                        asker.answers.send(JobItem::Payload(piece.to_vec()));
                    }
                },
            )?;
            if is_there {
                return Ok(());
            }
            let missing = format!("{} has no job {}", show.queue, show.job);
            Err(Fault::Final(Failure::new(Reason::Configuration, missing)))
        },
        |found: JobItem| match found {
            JobItem::Job(found) => job = Some(*found),
            JobItem::Payload(piece) => payload.extend(piece),
        },
    )?;
    let Some((listed, details)) = job else {
        return Ok(Ending::Code(0));
    };
    if show.only_payload {
        print_bytes(&payload)?;
    } else {
        print_answer(
            common.json,
            || QueueShowJson {
                server: &server,
                queue: &show.queue,
                job: &listed,
                details: &details,
                payload: match str::from_utf8(&payload) {
                    Ok(text) => PayloadJson::Text(text),
                    Err(_) => PayloadJson::Hex(hex(&payload)),
                },
            },
            || as_table(&show.queue, &listed, &details, &payload),
        )?;
    }
    Ok(Ending::Code(0))
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

fn as_table(queue: &str, listed: &Listed, job: &Details, payload: &[u8]) -> String {
    let text = String::from_utf8_lossy(payload);
    let cut: String = text.chars().take(LONGEST_SHOWN).collect();
    let more = if cut.len() < text.len() { " …" } else { "" };
    let time = |at: Option<ServerTime>| at.map(|at| format!("{} UTC", to_the_second(at.0)));
    let rows = [
        ("id", Some(listed.id.to_string())),
        ("queue", Some(queue.to_owned())),
        ("state", Some(state(listed))),
        ("priority", Some(listed.priority.to_string())),
        ("shard", Some(job.shard.to_string())),
        (
            "block of",
            job.block_jobs.map(|jobs| super::jobs(jobs.into())),
        ),
        ("put", time(Some(job.put_at))),
        ("due", time(listed.due_at)),
        ("every", job.every.map(|span| shown(span.0).to_string())),
        ("attempt", Some(listed.attempt.to_string())),
        ("fence", Some(job.fence.to_string())),
        ("key", listed.key.clone()),
        ("worker", worker(listed)),
        ("canceled", time(job.canceled_at)),
        ("failed", time(job.failed_at)),
        ("last error", listed.last_error.clone()),
        ("bytes", Some(job.payload_bytes.to_string())),
        ("payload", Some(cut + more)),
    ];
    let rows = rows.into_iter();
    let pairs = rows.filter_map(|(name, value)| Some((name, value?)));
    Table::of_pairs(pairs).for_stdout()
}

/// What `--json` prints, as `docs/queue-show.schema.json` says.
#[derive(Serialize)]
struct QueueShowJson<'a> {
    server: &'a str,
    queue: &'a str,
    #[serde(flatten)]
    job: &'a Listed,
    #[serde(flatten)]
    details: &'a Details,
    #[serde(flatten)]
    payload: PayloadJson<'a>,
}

/// A payload, for programs.
#[derive(Serialize)]
enum PayloadJson<'a> {
    #[serde(rename = "payload")]
    Text(&'a str),
    #[serde(rename = "payload_hex")]
    Hex(String),
}

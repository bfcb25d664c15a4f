//! `dblock history`: which runs there were, where and when, and how they ended.

use std::collections::VecDeque;
use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::output::print_answer;
use super::question::{Asker, Question};
use super::table::{Table, result, to_the_second, tone_of};
use super::watch::{Watched, watch};
use crate::base::exit::Ending;
use crate::base::text::{in_seconds, moment, seconds, shown};
use crate::history::{EXPIRED, Entry, RunCursor, RunStatus, list};
use crate::settings::cli::CommandLine;
use crate::settings::{self, Color};

/// Shorter runs are shown in milliseconds.
const SHORT: Duration = Duration::from_secs(10);

const NOTHING: &str = "no such run is recorded";
const VANISHED: &str = "unknown end: its host died or lost the server";
const UNKNOWN: &str = "this server does not see whether it still runs";

/// Asks the server, prints the answer, and returns dblock's exit.
///
/// # Errors
/// Why the server could not be asked.
pub fn history(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (filter, common) = settings::history(command_line)?;
    let question = Question {
        last: "the run that was found last",
        ..Question::about_history("dblock history", "the history", &common)
    };
    let work = |asker: &mut Asker<Entry>| {
        let session = &mut asker.inspector.session;
        list(&asker.tables, &filter, session, |run| {
            asker.answers.send(run);
        })
    };
    if let Some(every) = common.watch {
        return Ok(watch::<Runs>(&question, every, work)?);
    }
    let mut found = Runs::default();
    let server = question.ask(work, |run| found.add(run))?;
    let runs = &found.0;
    let is_whole_page = filter.limit.is_some_and(|limit| runs.len() >= limit);
    let oldest = runs.front().filter(|_| is_whole_page);
    let next = oldest.map(|run| RunCursor::of(run.requested, &run.run).to_string());
    print_answer(
        common.json,
        || HistoryJson {
            server: &server,
            runs: runs.iter().map(run_json).collect(),
            cursor: next.as_deref(),
        },
        || format!("{}{}", found.as_table(common.color), hint(next.as_deref())),
    )?;
    Ok(Ending::Code(0))
}

/// The runs, of which the oldest is the first. The server names the newest first.
#[derive(Default)]
struct Runs(VecDeque<Entry>);

impl Watched for Runs {
    type Item = Entry;

    const NEWEST_LAST: bool = true;

    fn add(&mut self, run: Entry) {
        self.0.push_front(run);
    }

    fn as_table(&self, color: Color) -> String {
        if self.0.is_empty() {
            return format!("{NOTHING}\n");
        }
        let mut table = Table::new(
            &[
                "NAME",
                "TIME (UTC)",
                "TOOK",
                "RESULT",
                "HOST",
                "PID",
                "PROGRAM",
                "SLOT",
                "FENCE",
                "TICK (UTC)",
                "WHY",
            ],
            &["HOST", "PROGRAM", "WHY"],
        );
        for run in &self.0 {
            table.row(cells(run));
            let tone = tone_of(run.result(), run.signal.as_deref(), run.exit_code);
            table.tone("RESULT", tone);
        }
        table.in_color(color)
    }
}

/// How a person gets the page after the table.
fn hint(next: Option<&str>) -> String {
    let mut text = String::new();
    if let Some(next) = next.filter(|_| io::stdout().is_terminal()) {
        text.push('\n');
        let _ = writeln!(text, "older runs: add --after {next}");
    }
    text
}

fn message(run: &Entry) -> Option<&str> {
    match run.state {
        RunStatus::Expired => Some(EXPIRED),
        RunStatus::Vanished => Some(VANISHED),
        RunStatus::Unknown => Some(UNKNOWN),
        RunStatus::Ended(_) | RunStatus::Running => run.message.as_deref(),
    }
}

fn between(from: Option<SystemTime>, to: Option<SystemTime>) -> Option<Duration> {
    Some(to?.duration_since(from?).unwrap_or_default())
}

fn cells(run: &Entry) -> [Option<String>; 11] {
    let took = match run.state {
        RunStatus::Running => between(run.started.or(run.acquired), Some(run.now))
            .map(|span| format!("{} so far", in_seconds(span))),
        _ => between(run.started, run.ended).map(|span| match span {
            span if span < SHORT => shown(span).to_string(),
            span => in_seconds(span).to_string(),
        }),
    };
    let slot = run.slot.map(|slot| slot.to_string());
    [
        Some(run.name.clone()),
        Some(to_the_second(run.started.unwrap_or(run.requested))),
        took,
        Some(result(run.result(), run.signal.as_deref(), run.exit_code)),
        run.host.clone(),
        run.pid.map(|pid| pid.to_string()),
        run.program.clone(),
        run.slot_name.clone().or(slot),
        run.fence.map(|fence| fence.to_string()),
        run.tick.map(to_the_second),
        message(run).map(str::to_owned),
    ]
}

/// What `--json` prints, as `docs/history.schema.json` says.
#[derive(Serialize)]
struct HistoryJson<'a> {
    server: &'a str,
    runs: Vec<RunJson<'a>>,
    cursor: Option<&'a str>,
}

/// A run, for programs.
#[derive(Serialize)]
struct RunJson<'a> {
    run: &'a str,
    name: &'a str,
    slot: Option<u32>,
    slot_name: Option<&'a str>,
    fence: Option<u64>,
    tick: Option<String>,
    attempt: Option<u32>,
    host: Option<&'a str>,
    pid: Option<u64>,
    user: Option<&'a str>,
    program: Option<&'a str>,
    connection: Option<u64>,
    requested: String,
    acquired: Option<String>,
    started: Option<String>,
    ended: Option<String>,
    waited_seconds: Option<f64>,
    ran_seconds: Option<f64>,
    outcome: &'a str,
    exit_code: Option<u32>,
    signal: Option<&'a str>,
    message: Option<&'a str>,
    has_output: bool,
}

fn run_json(run: &Entry) -> RunJson<'_> {
    let got = run.acquired.or(run.ended);
    RunJson {
        run: &run.run,
        name: &run.name,
        slot: run.slot,
        slot_name: run.slot_name.as_deref(),
        fence: run.fence,
        tick: run.tick.map(moment),
        attempt: run.attempt,
        host: run.host.as_deref(),
        pid: run.pid,
        user: run.user.as_deref(),
        program: run.program.as_deref(),
        connection: run.connection,
        requested: moment(run.requested),
        acquired: run.acquired.map(moment),
        started: run.started.map(moment),
        ended: run.ended.map(moment),
        waited_seconds: between(Some(run.requested), got).map(seconds),
        ran_seconds: between(run.started, run.ended).map(seconds),
        outcome: run.result(),
        exit_code: run.exit_code,
        signal: run.signal.as_deref(),
        message: message(run),
        has_output: run.has_output,
    }
}

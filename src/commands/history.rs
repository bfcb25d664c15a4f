//! `dblock history`: which runs there were, where and when, and how they ended.

use std::collections::VecDeque;
use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::time::Duration;

use serde::Serialize;

use super::output::print_answer;
use super::question::{Asker, Question};
use super::table::{Table, result, to_the_second, tone_of};
use super::watch::{Watched, watch};
use crate::base::exit::Ending;
use crate::base::text::{in_seconds, shown};
use crate::history::{Entry, ListedRun, RunCursor, list};
use crate::settings::cli::CommandLine;
use crate::settings::{self, Color};

/// Shorter runs are shown in milliseconds.
const SHORT: Duration = Duration::from_secs(10);

const NOTHING: &str = "no such run is recorded";

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
    let work = |asker: &mut Asker<ListedRun>| {
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
    let next = oldest.map(|(run, _)| RunCursor::of(run.requested, &run.run).to_string());
    print_answer(
        common.json,
        || HistoryJson {
            server: &server,
            runs: runs.iter().map(|(run, _)| run).collect(),
            cursor: next.as_deref(),
        },
        || format!("{}{}", found.as_table(common.color), hint(next.as_deref())),
    )?;
    Ok(Ending::Code(0))
}

/// The runs, of which the oldest is the first. The server names the newest first.
#[derive(Default)]
struct Runs(VecDeque<ListedRun>);

impl Watched for Runs {
    type Item = ListedRun;

    const NEWEST_LAST: bool = true;

    fn add(&mut self, run: ListedRun) {
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
        for (run, so_far) in &self.0 {
            table.row(cells(run, *so_far));
            let tone = tone_of(&run.outcome, run.signal.as_deref(), run.exit_code);
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

fn cells(run: &Entry, so_far: Option<Duration>) -> [Option<String>; 11] {
    let so_far = so_far.map(|span| format!("{} so far", in_seconds(span)));
    let ran = run.ran.map(|span| match span.0 {
        span if span < SHORT => shown(span).to_string(),
        span => in_seconds(span).to_string(),
    });
    let slot = run.slot.map(|slot| slot.to_string());
    [
        Some(run.name.clone()),
        Some(to_the_second(run.started.unwrap_or(run.requested).0)),
        so_far.or(ran),
        Some(result(&run.outcome, run.signal.as_deref(), run.exit_code)),
        run.host.clone(),
        run.pid.map(|pid| pid.to_string()),
        run.program.clone(),
        run.slot_name.clone().or(slot),
        run.fence.map(|fence| fence.to_string()),
        run.tick.map(|tick| to_the_second(tick.0)),
        run.message.clone(),
    ]
}

/// What `--json` prints, as `docs/history.schema.json` says.
#[derive(Serialize)]
struct HistoryJson<'a> {
    server: &'a str,
    runs: Vec<&'a Entry>,
    cursor: Option<&'a str>,
}

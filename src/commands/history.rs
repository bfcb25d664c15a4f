//! `dblock history`: which runs there were, where and when, and how they ended.

use std::rc::Rc;
use std::time::{Duration, SystemTime};

use nix::unistd::Pid;
use serde::Serialize;

use super::inquiry::ask_server_reached_by;
use super::{in_columns, in_json, print, to_the_second};
use crate::base::exit::{Ending, Failure};
use crate::base::log::Level;
use crate::base::text::{in_seconds, moment, printable, seconds, shown};
use crate::history::{EXPIRED, Entry, State, list, reach};
use crate::isolated::link::Link;
use crate::isolated::query::{self, Limits};
use crate::schema::Tables;
use crate::settings::cli::CommandLine;
use crate::settings::{self, History};

/// Limit for everything, as a multiple of the connect timeout.
const WHOLE: u32 = 3;

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
    let (history, log) = settings::history(command_line)?;
    let connect = history.connection.connect_timeout;
    let limits = Limits {
        connect,
        whole: Some(connect.saturating_mul(WHOLE)),
    };
    let mut runs: Vec<Entry> = Vec::new();
    let server = query::ask(
        "the history",
        |link, parent| read(&history, log.shown, &link, parent),
        limits,
        log,
        |run: Entry| runs.push(run),
        |_| "the run that was found last".to_owned(),
    )?;
    runs.reverse();
    print(&if history.json {
        as_json(&server, &runs)
    } else {
        as_table(&runs)
    })?;
    Ok(Ending::Code(0))
}

fn read(history: &History, shown: Level, link: &Rc<Link>, parent: Pid) -> Result<(), Failure> {
    let tables = Tables::new(&history.connection.database);
    ask_server_reached_by::<Entry>(
        ("dblock history", c"dblock-history"),
        &history.connection,
        shown,
        (Rc::clone(link), parent),
        |connector, _| reach(connector, &tables).map(Into::into),
        |asker| {
            list(
                &tables,
                &history.filter,
                &mut asker.inspector.session,
                |run| {
                    let _ = link.send(&query::Message::Item(run));
                },
            )
        },
    )
}

/// The outcome of a run, as the word in JSON.
fn outcome(run: &Entry) -> &str {
    match &run.state {
        State::Ended(word) => word,
        State::Running => "running",
        State::Expired | State::Vanished => "lost",
        State::Unknown => "unknown",
    }
}

fn message(run: &Entry) -> Option<&str> {
    match run.state {
        State::Expired => Some(EXPIRED),
        State::Vanished => Some(VANISHED),
        State::Unknown => Some(UNKNOWN),
        State::Ended(_) | State::Running => run.message.as_deref(),
    }
}

fn between(from: Option<SystemTime>, to: Option<SystemTime>) -> Option<Duration> {
    Some(to?.duration_since(from?).unwrap_or_default())
}

fn as_table(runs: &[Entry]) -> String {
    if runs.is_empty() {
        return format!("{NOTHING}\n");
    }
    let titles = [
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
    ];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    rows.extend(runs.iter().map(row));
    in_columns(&rows)
}

fn row(run: &Entry) -> Vec<String> {
    let took = match run.state {
        State::Running => between(run.started.or(run.acquired), Some(run.now))
            .map(|span| format!("{} so far", in_seconds(span))),
        _ => between(run.started, run.ended).map(|span| match span {
            span if span < SHORT => shown(span).to_string(),
            span => in_seconds(span).to_string(),
        }),
    };
    let result = match (outcome(run), &run.signal, run.exit_code) {
        ("ran", Some(signal), _) => signal.clone(),
        ("ran", None, Some(code)) => format!("exit {code}"),
        (word, _, _) => word.replace('_', " "),
    };
    let slot = run.slot.map(|slot| slot.to_string());
    let cells = [
        Some(run.name.clone()),
        Some(to_the_second(run.started.unwrap_or(run.requested))),
        took,
        Some(result),
        run.host.clone(),
        run.pid.map(|pid| pid.to_string()),
        run.program.clone(),
        run.slot_name.clone().or(slot),
        run.fence.map(|fence| fence.to_string()),
        run.tick.map(to_the_second),
        message(run).map(str::to_owned),
    ];
    cells
        .into_iter()
        .map(|cell| cell.map_or_else(|| "-".to_owned(), |text| printable(&text)))
        .collect()
}

/// What `--json` prints, as `docs/history.schema.json` says.
#[derive(Serialize)]
struct HistoryJson<'a> {
    server: &'a str,
    runs: Vec<RunJson<'a>>,
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
}

fn as_json(server: &str, runs: &[Entry]) -> String {
    let runs = runs.iter().map(run_json).collect();
    in_json(&HistoryJson { server, runs })
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
        outcome: outcome(run),
        exit_code: run.exit_code,
        signal: run.signal.as_deref(),
        message: message(run),
    }
}

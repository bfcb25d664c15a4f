//! `dblock check`: is a server fit to lock on, and how fast is it? What talks to the server is a process of its own; this
//! one keeps the time, and prints.

mod durable;
mod examiner;
mod finding;
mod servers;
mod survey;
mod words;

use super::print;
use crate::base::exit::{Ending, Reason};
use crate::isolated::query::{self, Limits};
use crate::settings;
use crate::settings::cli::CommandLine;
use examiner::examine;
use finding::{Finding, Findings, State};

/// All of it takes at most so many connect time-outs.
const WHOLE: u32 = 3;

/// Examines a server, prints what was found, and returns how dblock is to end.
///
/// # Errors
/// What kept the server from being examined.
pub fn check(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (check, log) = settings::check(command_line)?;
    let connect = check.connection.connect_timeout;
    let limits = Limits {
        connect,
        whole: Some(connect.saturating_mul(WHOLE)),
    };
    let mut found = Vec::new();
    let server = query::ask(
        "the check",
        |link, parent| examine(&check.connection, log.shown, &link, parent),
        limits,
        log,
        |finding: Finding| found.push(finding),
        Finding::label,
    )?;
    let findings = Findings::new(server, found);
    print(&if check.json {
        findings.json()
    } else {
        findings.table()
    })?;
    Ok(Ending::Code(match findings.verdict() {
        State::Unfit => Reason::Configuration.code(),
        State::Ok | State::Warning => 0,
    }))
}

//! `dblock check`: is a server fit to lock on, and how fast is it? What talks to the server is a process of its own; this
//! one keeps the time, and prints.

mod examiner;
mod finding;

use super::apart::{self, Limits};
use super::print;
use crate::cli::CheckArgs;
use crate::exit::{Ending, Reason};
use crate::settings;
use examiner::examine;
use finding::{Finding, Findings, State};

/// All of it takes at most so many connect time-outs.
const WHOLE: u32 = 3;

/// Examines a server, prints what was found, and returns how dblock is to end.
///
/// # Errors
/// What kept the server from being examined.
pub fn check(args: CheckArgs) -> anyhow::Result<Ending> {
    let (check, report) = settings::check(args)?;
    let connect = check.connection.connect_timeout;
    let limits = Limits {
        connect,
        whole: Some(connect.saturating_mul(WHOLE)),
    };
    let mut found = Vec::new();
    let server = apart::ask(
        "the check",
        |link, parent| examine(&check.connection, report.shown, link, parent),
        limits,
        report,
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

//! `dblock check`: tests whether a server is fit for locks, and how fast it is. A separate process talks to the server; this one limits the
//! time, and prints.

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
use finding::{Finding, Findings, Verdict};

/// Limit for everything, as a multiple of the connect timeout.
const WHOLE: u32 = 3;

/// Examines a server, prints the findings, and returns dblock's exit.
///
/// # Errors
/// Why the server could not be examined.
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
        Verdict::Unfit => Reason::Configuration.code(),
        Verdict::Ok | Verdict::Warning => 0,
    }))
}

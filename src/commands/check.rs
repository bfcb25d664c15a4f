//! `dblock check`: tests whether a server is fit for locks, and how fast it is. A separate process talks to the server; this one limits the
//! time, and prints.

mod durable;
mod examiner;
mod finding;
mod postgres;
mod servers;
mod survey;
mod words;

use super::output::print_answer;
use super::question::limits;
use crate::base::exit::{Ending, Reason};
use crate::isolated::query;
use crate::settings;
use crate::settings::cli::CommandLine;
use examiner::examine;
use finding::{Finding, Findings, Verdict};

/// Examines a server, prints the findings, and returns dblock's exit.
///
/// # Errors
/// Why the server could not be examined.
pub fn check(command_line: CommandLine) -> anyhow::Result<Ending> {
    let common = settings::common(command_line)?;
    let mut found = Vec::new();
    let server = query::ask(
        "the check",
        |link, parent| examine(&common.connection, common.log.shown, &link, parent),
        limits(&common.connection),
        common.log,
        |finding: Finding| found.push(finding),
        Finding::label,
    )?;
    let findings = Findings::new(server, found);
    print_answer(common.json, || findings.for_programs(), || findings.table())?;
    Ok(Ending::Code(match findings.verdict() {
        Verdict::Unfit => Reason::Configuration.code(),
        Verdict::Ok | Verdict::Warning => 0,
    }))
}

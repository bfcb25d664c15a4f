//! `dblock queue work`: runs a command for each job of a queue.

use crate::base::exit::Ending;
use crate::settings;
use crate::settings::cli::CommandLine;

/// Runs a worker, and returns dblock's exit.
///
/// # Errors
/// Why it could not continue.
pub fn work(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (spec, log) = settings::queue::work(command_line)?;
    crate::work::work(spec, log)
}

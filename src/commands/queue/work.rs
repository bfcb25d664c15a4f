//! `dblock queue work`: runs a command for each job of a queue.

use crate::base::exit::Ending;
use crate::settings;
use crate::settings::cli::CommandLine;

/// Works off the queue, and returns how dblock is to end.
///
/// # Errors
/// What kept it from that.
pub fn work(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (spec, log) = settings::queue::work(command_line)?;
    crate::work::work(spec, log)
}

//! `dblock cron run`.

use crate::base::exit::Ending;
use crate::crond;
use crate::settings;
use crate::settings::cli::CommandLine;

/// Runs the daemon, and returns how dblock is to end.
///
/// # Errors
/// What kept it from going on.
pub fn run(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (spec, log) = settings::cron::run(command_line)?;
    crond::run(&spec, log)
}

//! `dblock cron run`.

use crate::base::exit::Ending;
use crate::crond;
use crate::settings;
use crate::settings::cli::CommandLine;

/// Runs the daemon, and returns dblock's exit.
///
/// # Errors
/// Why it could not continue.
pub fn run(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (spec, log) = settings::cron::run(command_line)?;
    crond::run(&spec, log)
}

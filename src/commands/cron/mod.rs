//! `dblock cron`: one file for each subcommand.

mod check;
mod list;
mod manage;
mod run;

use crate::base::exit::Ending;
use crate::settings::cli::{CommandLine, Cron};

/// Runs the subcommand, and returns dblock's exit.
///
/// # Errors
/// Why it failed.
pub fn cron(action: Cron, command_line: CommandLine) -> anyhow::Result<Ending> {
    match action {
        Cron::Run => run::run(command_line),
        Cron::Check => check::check(command_line),
        Cron::List => list::list(command_line),
        Cron::Pause => manage::pause(command_line),
        Cron::Resume => manage::resume(command_line),
        Cron::Trigger => manage::trigger(command_line),
    }
}

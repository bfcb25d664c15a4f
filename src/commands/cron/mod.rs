//! `dblock cron`: one file a subcommand of it.

mod check;
mod list;
mod manage;
mod run;

use crate::base::exit::Ending;
use crate::settings::cli::{CommandLine, Cron};

/// Does what is asked for, and returns how dblock is to end.
///
/// # Errors
/// What kept it from that.
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

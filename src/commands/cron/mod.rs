//! `dblock cron`: one file for each subcommand.

mod check;
mod list;
mod manage;
mod run;

pub use list::CronStatus;

use super::question::Question;
use crate::base::exit::Ending;
use crate::cron::reach;
use crate::settings::Common;
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

/// A question to a server with the crontab's tables, one that takes writes if it `writes`.
fn question<'a>(command: &'static str, writes: bool, common: &'a Common) -> Question<'a> {
    Question::of_tables(command, common, move |connector, tables, reaching| {
        reach(connector, tables, writes, reaching.on_read_only)
    })
}

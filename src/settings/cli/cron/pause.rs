//! `dblock cron pause`: pauses a job.

use clap::Command;

use super::super::{Cron, Definition, Subcommand, args, connection, output};
use super::job;

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Cron(Cron::Pause),
    name: "pause",
    about: "Pause a job: its ticks are skipped until it is resumed",
    define,
    settings: &[output::VERBOSITY, connection::SETTINGS],
    arguments: &["name"],
};

fn define(command: Command) -> Command {
    command
        .args(args(DEFINITION.settings))
        .arg(job("The job"))
        .after_help(HELP)
}

const HELP: &str = "\
A run that has started goes on, with its retries. dblock cron trigger still runs the job. Skipped ticks are not run later.

Exit codes: 0 done; 69 no server in time; 77 the account was refused; 78 there is no such job, no tables, or bad
configuration; 64 bad usage; 70 internal error; 71 the system refused.

Examples:
  dblock cron pause report";

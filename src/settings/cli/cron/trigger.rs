//! `dblock cron trigger`: runs a job once, now.

use clap::Command;

use super::super::{Cron, Definition, Subcommand, args, connection, output};
use super::job;

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Cron(Cron::Trigger),
    name: "trigger",
    about: "Run a job once now, in addition to its ticks",
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
A daemon starts the job within about a second, even if it is paused. If the job is running already, its --overlap decides.

Exit codes: 0 done; 69 no server in time; 77 the account was refused; 78 there is no such job, no tables, or bad
configuration; 64 bad usage; 70 internal error; 71 the system refused.

Examples:
  dblock cron trigger report";

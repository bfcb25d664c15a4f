//! `dblock cron resume`: resumes a job that was paused.

use clap::Command;

use super::super::{Cron, Definition, Subcommand, args, connection, output};
use super::job;

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Cron(Cron::Resume),
    name: "resume",
    about: "Resume a paused job: it runs at its ticks again",
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
The ticks that were skipped are not run later. The history says how many there were.

Exit codes: 0 done; 69 no server in time; 77 the account was refused; 78 there is no such job, no tables, or bad
configuration; 64 bad usage; 70 internal error; 71 the system refused.

Examples:
  dblock cron resume report";

//! `dblock queue pause`: has workers claim nothing for now.

use clap::Command;

use super::super::{Definition, Queue, Subcommand, args, connection, output};
use super::queue;

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Queue(Queue::Pause),
    name: "pause",
    about: "Pause a queue: workers claim no more jobs",
    define,
    settings: &[output::VERBOSITY, connection::SETTINGS],
    arguments: &["queue"],
};

fn define(command: Command) -> Command {
    command
        .arg(queue("The queue"))
        .args(args(DEFINITION.settings))
        .after_help(HELP)
}

const HELP: &str = "\
Running jobs go on to their end, and jobs can still be put. A queue that is already paused stays paused.

Exit codes: 0; 69 no server in time; 77 the account was refused; 78 there is no such queue, no tables, or bad configuration;
64 bad usage; 70 internal error; 71 the system refused.";

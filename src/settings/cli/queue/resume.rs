//! `dblock queue resume`: has workers claim jobs again.

use clap::Command;

use super::super::{Definition, Queue, Subcommand, args, connection, output};
use super::queue;

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Queue(Queue::Resume),
    name: "resume",
    about: "Resume a queue: workers claim its jobs again",
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
A queue that is not paused stays as it is.

Exit codes: 0; 69 no server in time; 77 the account was refused; 78 there is no such queue, no tables, or bad configuration;
64 bad usage; 70 internal error; 71 the system refused.";

//! `dblock queue delete`: deletes a queue.

use clap::Command;

use super::super::{Definition, Queue, Subcommand, args, connection, output};
use super::queue;

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Queue(Queue::Delete),
    name: "delete",
    about: "Delete a queue with all of its jobs",
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
Jobs are deleted whatever their state. At once, no job can be put or claimed any more. A command that is running may take its
worker's --grace to end; then the worker exits with 78. If delete is interrupted, run it again.

Exit codes: 0; 69 no server in time; 77 the account was refused; 78 there is no such queue, no tables, or bad configuration;
64 bad usage; 70 internal error; 71 the system refused.";

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
Jobs are deleted whatever their state. A command that runs has its worker's --grace to end, and the worker exits with 78. From
the first moment on nothing is put or claimed any more. If delete is interrupted, run it again.

Exit codes: 0; 69 no server in time; 77 the account was refused; 78 there is no such queue, no tables, or bad configuration;
64 bad usage; 70 internal error; 71 the system refused.";

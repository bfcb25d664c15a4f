//! `dblock queue show`: all about a job.

use clap::Command;

use super::super::setting::{Files, SETTING, Setting};
use super::super::{Definition, Queue, Subcommand, args, connection, output};
use super::{id, queue};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Queue(Queue::Show),
    name: "show",
    about: "Show all about a job, or its payload",
    define,
    settings: &[
        SETTINGS,
        output::JSON,
        output::VERBOSITY,
        connection::SETTINGS,
    ],
    arguments: &["queue", "ids"],
};

/// Write the payload as it is.
pub const PAYLOAD: Setting = Setting {
    name: "payload",
    files: Files::No,
    help: "Write the payload to stdout as it is, and nothing else",
    conflicts: &["json"],
    ..SETTING
};

const SETTINGS: &[Setting] = &[PAYLOAD];

fn define(command: Command) -> Command {
    command
        .arg(queue("The queue"))
        .arg(id("The job, as dblock queue put has printed it"))
        .args(args(DEFINITION.settings))
        .after_help(HELP)
}

const HELP: &str = "\
The payload is cut in the table; --json has all of it, as payload where it is UTF-8, and else as payload_hex. It needs no more
than SELECT on dblock's tables; a replica will do.

Exit codes: 0; 69 no server in time; 77 the account was refused; 78 there is no such queue or job, no tables, or bad
configuration; 64 bad usage; 70 internal error; 71 the system refused.";

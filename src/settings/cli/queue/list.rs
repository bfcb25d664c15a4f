//! `dblock queue list`: the jobs of a queue.

use clap::Command;

use super::super::setting::{Files, SETTING, Setting, Takes};
use super::super::{Definition, Queue, Subcommand, args, connection, output};
use super::queue;

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Queue(Queue::List),
    name: "list",
    about: "Show the jobs of a queue",
    define,
    settings: &[
        SETTINGS,
        output::JSON,
        output::VERBOSITY,
        connection::SETTINGS,
    ],
    arguments: &["queue"],
};

/// Only jobs in this state.
pub const STATE: Setting = Setting {
    name: "state",
    takes: Takes::Value("due|delayed|running|dead|done"),
    files: Files::No,
    help: "Only jobs in this state; all but those that are done if not given",
    ..SETTING
};

/// At most so many.
pub const LIMIT: Setting = Setting {
    name: "limit",
    short: Some('n'),
    takes: Takes::Value("N"),
    files: Files::No,
    default: Some("20"),
    help: "At most N jobs; 0 is all",
    ..SETTING
};

const SETTINGS: &[Setting] = &[STATE, LIMIT];

fn define(command: Command) -> Command {
    command
        .arg(queue("The queue"))
        .args(args(DEFINITION.settings))
        .after_help(HELP)
}

const HELP: &str = "\
Those that come first stand first: what runs, what is due, by priority, what is delayed, by its time, and what is dead, the
latest first; of those that are done, the latest first. ATTEMPT is how often the job was started, but for the times that it was
given back or ended with 75. It needs no more than SELECT on dblock's tables; a replica will do.

Exit codes: 0, also when there is no such job; 69 no server in time; 77 the account was refused; 78 there is no such queue, no
tables, or bad configuration; 64 bad usage; 70 internal error; 71 the system refused.";

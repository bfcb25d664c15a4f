//! `dblock queue retry`: has jobs tried again.

use super::super::setting::{SETTING, Setting};
use super::super::{ASKS_A_SERVER, Argument, Definition, Number, Queue, Subcommand};
use super::QUEUE;

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Queue(Queue::Retry),
    name: "retry",
    about: "Try dead and delayed jobs now",
    settings: &[SETTINGS],
    usage: Some(
        "dblock queue retry [OPTIONS] <QUEUE> <ID>...\n       dblock queue retry [OPTIONS] <QUEUE> --dead",
    ),
    arguments: &[
        QUEUE,
        Argument::new("ids", "ID", Number::OneOrMoreUnless(DEAD.name), "The jobs"),
    ],
    help: HELP,
    ..ASKS_A_SERVER
};

/// All that are dead.
pub const DEAD: Setting = Setting {
    name: "dead",
    help: "All dead jobs of the queue",
    conflicts: &["ids"],
    ..SETTING
};

const SETTINGS: &[Setting] = &[DEAD];

const HELP: &str = "\
A dead job becomes due again, and its attempts are counted from 0. A delayed job becomes due now, and keeps its count. A due
job stays due. To retry a job of a block is to retry the whole block.

Exit codes: 0; 75 a job is running, and is left alone; 78 there is no such queue, a job does not exist or is done, no tables, or bad
configuration; 69 no server in time; 77 the account was refused; 64 bad usage; 70 internal error; 71 the system refused.";

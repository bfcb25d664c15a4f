//! `dblock queue cancel`: keeps jobs from running.

use super::super::{ASKS_A_SERVER, Argument, Definition, Number, Queue, Subcommand};
use super::QUEUE;

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Queue(Queue::Cancel),
    name: "cancel",
    about: "Delete jobs, and never retry those that are running",
    arguments: &[
        QUEUE,
        Argument::new("ids", "ID", Number::OneOrMore, "The jobs"),
    ],
    help: HELP,
    ..ASKS_A_SERVER
};

const HELP: &str = "\
A due, delayed or dead job is deleted. The command of a running job goes on to its end, but is not run again, whatever its
exit code; a line says so. A job in a block that is not running is removed from the block.

Exit codes: 0; 78 there is no such queue, a job does not exist or is done, no tables, or bad configuration; 69 no server in time; 77
the account was refused; 64 bad usage; 70 internal error; 71 the system refused.";

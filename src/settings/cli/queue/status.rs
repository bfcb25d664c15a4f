//! `dblock queue status`: how much there is to do, and who does it.

use clap::Command;

use super::super::{Definition, Queue, Subcommand, args, arguments, connection, output};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Queue(Queue::Status),
    name: "status",
    about: "Show how many jobs are due, and who works on them",
    define,
    settings: &[output::JSON, output::VERBOSITY, connection::SETTINGS],
    arguments: &["queues"],
};

fn define(command: Command) -> Command {
    command
        .arg(arguments("queues", "QUEUE").help("The queues; without any, all"))
        .args(args(DEFINITION.settings))
        .after_help(HELP)
}

const HELP: &str = "\
OLDEST is how long the job that is due longest has been due. DONE and FAILED are by the minute, of the last five whole minutes.
A state is counted to 1000000, and then 1000000+ is shown. A worker is gone when it has ended, or when its lease is over; one
that died is shown for a day. It needs no more than SELECT on dblock's tables; a replica will do.

Exit codes: 0; 69 no server in time; 77 the account was refused; 78 there is no such queue, no tables, or bad configuration;
64 bad usage; 70 internal error; 71 the system refused.";

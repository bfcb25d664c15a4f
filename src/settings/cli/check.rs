//! `dblock check`: whether a server is fit to lock on.

use clap::Command;

use super::{Definition, Subcommand, args, connection, output};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Check,
    name: "check",
    about: "Check whether a server is fit to lock on, and how fast it is",
    define,
    settings: &[output::JSON, output::VERBOSITY, connection::SETTINGS],
    arguments: &[],
};

fn define(command: Command) -> Command {
    command.args(args(DEFINITION.settings)).after_help(HELP)
}

const HELP: &str = "\
It acquires and releases a lock of its own, on two connections, and a durable one where dblock's tables are, and leaves nothing
behind. It says of each server that is named which locks exclude there. Each finding is ok, warning or unfit.

Exit codes: 0 fit, also with warnings, and for --durable alone; 78 unfit, or bad configuration; 69 no server in time; 77 the account was refused;
64 bad usage; 70 internal error; 71 the system refused.";

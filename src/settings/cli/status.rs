//! `dblock status`: who holds a lock.

use clap::Command;

use super::{Definition, Subcommand, args, arguments, connection, output};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Status,
    name: "status",
    about: "Show who holds a lock, who waits for it, and for how long",
    define,
    settings: &[output::JSON, output::VERBOSITY, connection::SETTINGS],
    arguments: &["names"],
};

fn define(command: Command) -> Command {
    command
        .arg(
            arguments("names", "NAME")
                .help("The locks to show; all that this account can see if not given"),
        )
        .args(args(DEFINITION.settings))
        .after_help(HELP)
}

const HELP: &str = "\
It acquires no lock. It says what the server hides from this account, and which privilege or setting would show it.

Exit codes: 0, also if nobody holds the lock; 69 no server in time; 77 the account was refused; 78 bad configuration;
64 bad usage; 70 internal error; 71 the system refused.";

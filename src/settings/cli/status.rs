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
                .help("The locks to show; without any, all that this account can see"),
        )
        .args(args(DEFINITION.settings))
        .after_help(HELP)
}

const HELP: &str = "\
It acquires no lock. It names what the server does not let this account see, and what would show it.

Exit codes: 0, also when nobody has the lock; 69 no server in time; 77 the account was refused; 78 bad configuration;
64 bad usage; 70 internal error; 71 the system refused.";

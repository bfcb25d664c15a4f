//! `dblock release`: release a lock of dblock acquire.

use clap::{ArgAction, Command};

use super::{Definition, Subcommand, args, arguments, connection, output};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Release,
    name: "release",
    about: "Release a lock that dblock acquire acquired",
    define,
    settings: &[output::VERBOSITY, connection::SETTINGS],
    arguments: &["token"],
};

fn define(command: Command) -> Command {
    command
        .override_usage("dblock release [OPTIONS] [TOKEN]")
        .arg(
            arguments("token", "TOKEN")
                .help("The token that dblock acquire printed; - reads it from stdin. Without one, DBLOCK_TOKEN gives it")
                .num_args(0..=1)
                .action(ArgAction::Set),
        )
        .args(args(DEFINITION.settings))
        .after_help(HELP)
}

const HELP: &str = "\
Exit codes: 0 released; 74 the token no longer holds the lock; 69 no server in time; 77 the account was refused; 78 no
tables, or bad configuration; 64 bad usage; 70 internal error; 71 the system refused.";

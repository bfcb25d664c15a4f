//! `dblock renew`: hold a lock of dblock acquire for longer.

use clap::{ArgAction, Command};

use super::setting::{Files, SETTING, Setting, Takes};
use super::{Definition, Subcommand, args, arguments, connection, output};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Renew,
    name: "renew",
    about: "Hold a lock of dblock acquire for longer",
    define,
    settings: &[SETTINGS, output::VERBOSITY, connection::SETTINGS],
    arguments: &["token"],
};

/// For how long from now on. An option file's `ttl` is that of a run, and is not read for it.
pub const TTL: Setting = Setting {
    name: "ttl",
    takes: Takes::Value("DURATION"),
    files: Files::No,
    help: "For how long from now on: whole seconds, 4s to 30d; as at dblock acquire if not given",
    ..SETTING
};

/// The settings of this subcommand alone.
pub const SETTINGS: &[Setting] = &[TTL];

fn define(command: Command) -> Command {
    command
        .override_usage("dblock renew [OPTIONS] [TOKEN]")
        .arg(
            arguments("token", "TOKEN")
                .help("What dblock acquire has printed; - reads it from stdin, and without one it is that of DBLOCK_TOKEN")
                .num_args(0..=1)
                .action(ArgAction::Set),
        )
        .args(args(DEFINITION.settings))
        .after_help(HELP)
}

const HELP: &str = "\
The lock is held for its TTL from now on, or for the one that is given here. It is renewed also when its TTL was over but
nobody has acquired it since.

Exit codes: 0 renewed; 74 the token does not hold the lock any more; 69 no server in time; 77 the account was refused; 78 no
tables, or bad configuration; 64 bad usage; 70 internal error; 71 the system refused.";

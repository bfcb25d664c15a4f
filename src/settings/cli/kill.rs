//! `dblock kill`: ends the holder of a lock.

use clap::{ArgAction, Command};

use super::setting::{Files, SETTING, Setting, Takes};
use super::{Definition, Subcommand, args, arguments, connection, output};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Kill,
    name: "kill",
    about: "End the holder of a lock, and its command",
    define,
    settings: &[SETTINGS, output::VERBOSITY, connection::SETTINGS],
    arguments: &["holder"],
};

/// How long to wait for the end of the command. An option file's `wait` is that of a run, and is not read for it.
pub const WAIT: Setting = Setting {
    name: "wait",
    short: Some('w'),
    takes: Takes::Value("DURATION"),
    files: Files::No,
    default: Some("30s"),
    help: "How long to wait until the command of the holder has ended: 0 does not wait, forever has no limit. A holder that \
           does not answer has the connect timeout to do so",
    ..SETTING
};

/// The settings of this subcommand alone.
pub const SETTINGS: &[Setting] = &[
    WAIT,
    Setting {
        name: "force",
        files: Files::No,
        help: "Take a durable lock from its holder at once, without asking it: its host is known to be dead",
        ..SETTING
    },
    Setting {
        name: "dry-run",
        help: "Show who would be ended, and end nobody",
        ..SETTING
    },
];

fn define(command: Command) -> Command {
    command
        .override_usage("dblock kill [OPTIONS] <NAME>[#<SLOT>]")
        .arg(
            arguments("holder", "NAME[#SLOT]")
                .help("The lock, and which of its slots where several are held: backup#2")
                .required(true)
                .num_args(1)
                .action(ArgAction::Set),
        )
        .args(args(DEFINITION.settings))
        .after_help(HELP)
}

const HELP: &str = "\
The holder's dblock ends its command, SIGTERM first, and exits with 74. Whatever its --on-lock-lost, it does not reacquire
the lock. Nobody gets the slot before the command has ended. A holder that is another program only loses its session.
A durable lock of a script, by its token, is freed at once, and so is one whose time is over.

Exit codes: 0, also when nobody has the lock; 75 the command was not known to have ended in time; 77 this account may not
end that session; 69 no server in time; 78 bad configuration; 64 bad usage; 70 internal error; 71 the system refused.";

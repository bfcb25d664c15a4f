//! `dblock history`: what ran where, when, and how it ended.

use clap::Command;

use super::setting::{Files, SETTING, Setting, Takes};
use super::{Definition, Subcommand, args, arguments, connection, output};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::History,
    name: "history",
    about: "Show what ran where, when, and how it ended",
    define,
    settings: &[
        SETTINGS,
        output::JSON,
        output::VERBOSITY,
        connection::SETTINGS,
    ],
    arguments: &["names"],
};

/// The settings of this subcommand alone.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "failed",
        files: Files::No,
        help: "Only runs that failed: the command's exit code was not 0, it died of a signal, its time was over, the lock was \
               lost, or nobody knows how it ended",
        ..SETTING
    },
    Setting {
        name: "since",
        takes: Takes::Value("DURATION|TIME"),
        files: Files::No,
        help: "Only runs that were requested since then: so long ago, as 2h; or a time, as 2026-11-22, '2026-11-22 08:30', both \
               UTC, or 2026-11-22T08:30:00+01:00",
        ..SETTING
    },
    Setting {
        name: "limit",
        short: Some('n'),
        takes: Takes::Value("N"),
        files: Files::No,
        default: Some("20"),
        help: "The newest N runs; 0 is all",
        ..SETTING
    },
];

fn define(command: Command) -> Command {
    command
        .arg(arguments("names", "NAME").help("The locks; without any, all"))
        .args(args(DEFINITION.settings))
        .after_help(HELP)
}

const HELP: &str = "\
The newest run comes last. All times are the server's, in UTC. TIME is when the command started, or else when the run was
requested. TOOK is how long it ran. RESULT is exit and a code, a signal, timed out, lost, skipped, interrupted, failed,
released or running. It needs dblock's tables (dblock init), and no more than SELECT there; a replica will do.

Exit codes: 0, also when there is no such run; 69 no server in time; 77 the account was refused; 78 no tables, or bad
configuration; 64 bad usage; 70 internal error; 71 the system refused.";

//! `dblock init`: creates dblock's tables, or upgrades them.

use clap::Command;

use super::setting::{Files, SETTING, Setting, Takes};
use super::{Definition, Subcommand, args, connection, output};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Init,
    name: "init",
    about: "Create dblock's tables, or upgrade them",
    define,
    settings: &[SETTINGS, output::VERBOSITY, connection::SETTINGS],
    arguments: &[],
};

/// The settings of this subcommand alone.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "print",
        files: Files::No,
        help: "Print the SQL and the grants that an account needs, and change nothing; no server is asked",
        conflicts: &["check"],
        ..SETTING
    },
    Setting {
        name: "check",
        files: Files::No,
        help: "Change nothing: exit with 0 when the tables are current, else with 78 and a line that says what is missing",
        ..SETTING
    },
    Setting {
        name: "keep",
        takes: Takes::Value("DURATION[,N]"),
        files: Files::No,
        help: "How long the history is kept, and the last N runs of each name at least, 100 if not given; 30d,100 in new tables",
        conflicts: &["check"],
        ..SETTING
    },
];

fn define(command: Command) -> Command {
    command.args(args(DEFINITION.settings)).after_help(HELP)
}

const HELP: &str = "\
Only what needs tables needs this, once: run --durable, --once-at, --once-per and --record, acquire, renew, release, history,
queue. It may be run again, by several hosts at once, and while other dblocks are at work. It needs CREATE and ALTER in
the database; all else needs SELECT, INSERT, UPDATE and DELETE there.

Exit codes: 0 the tables are current; 78 they are not (--check), are a newer dblock's or another program's, or bad
configuration; 77 the account may not create them; 69 no server in time; 64 bad usage; 70 internal error; 71 the system
refused.";

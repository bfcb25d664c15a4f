//! `dblock init`: creates dblock's tables, or upgrades them.

use super::setting::{SETTING, Setting, Takes};
use super::{ASKS_A_SERVER, Definition, Subcommand};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Init,
    name: "init",
    about: "Create dblock's tables, or upgrade them",
    settings: &[SETTINGS],
    help: HELP,
    ..ASKS_A_SERVER
};

/// The settings of this subcommand alone.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "print",
        help: "Print the SQL, with the grant for the account of --user. It changes nothing and connects to no server",
        conflicts: &["check"],
        ..SETTING
    },
    Setting {
        name: "check",
        help: "Change nothing. Exit with 0 if the tables are current, with 77 if the account may not read them, otherwise with 78 and a line that says what is missing",
        ..SETTING
    },
    Setting {
        name: "keep",
        takes: Takes::Value("DURATION[,N]"),
        help: "How long to keep the history. The last N runs of each name in use are kept even if they are older; N is 100 if not given. New tables have 30d,100",
        conflicts: &["check"],
        ..SETTING
    },
];

const HELP: &str = "\
Run it once before you use any of these: run with --durable, --once-at, --once-per, --record, --keep-output or --token, acquire,
renew, release, history, output, audit, cron, queue. Other locks need no table. You can run it again, on several hosts at once,
and while other dblocks work. Its account needs CREATE, SELECT, INSERT, UPDATE and DELETE on the database, and ALTER to upgrade
tables. Accounts that use the tables need SELECT, INSERT, UPDATE and DELETE there: init says what its own account lacks, and prints
the grant for the others. On PostgreSQL the tables are in the schema --schema of the database; whoever has created them upgrades
them.

Exit codes: 0 the tables are current; 78 they are not (--check), they belong to a newer dblock or another program, or bad
configuration; 77 the account may not create them (--check: not read them); 69 no server in time; 64 bad usage; 70 internal error; 71 the system
refused.";

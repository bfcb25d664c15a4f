//! `dblock history`: what ran where, when, and how it ended.

use super::setting::{Files, SETTING, Setting, Takes};
use super::{ASKS_A_SERVER, Argument, Definition, Number, Subcommand, output};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::History,
    name: "history",
    about: "Show what ran where, when, and how it ended",
    settings: &[SETTINGS, output::JSON, &[output::WATCH], output::COLOR],
    arguments: &[Argument::new(
        "names",
        "NAME",
        Number::Any,
        "The locks to show; all if not given",
    )],
    help: HELP,
    ..ASKS_A_SERVER
};

/// The settings of this subcommand alone.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "failed",
        help: "Only runs that failed: the command exited with another code than 0, died of a signal or timed out, the lock was \
               lost, or nobody knows how the run ended",
        ..SETTING
    },
    Setting {
        name: "since",
        takes: Takes::Value("DURATION|TIME"),
        help: "Only runs that were requested since then: a duration before now (2h), a time in UTC (2026-11-22 or '2026-11-22 \
               08:30'), or a time with its offset (2026-11-22T08:30:00+01:00)",
        ..SETTING
    },
    Setting {
        name: "until",
        takes: Takes::Value("DURATION|TIME"),
        help: "Only runs that were requested before then, given as for --since",
        ..SETTING
    },
    Setting {
        name: "on",
        takes: Takes::Value("HOST"),
        help: "Only runs on this host, named as the column HOST shows it",
        ..SETTING
    },
    Setting {
        name: "result",
        takes: Takes::Value(
            "ran|timed_out|lost|skipped|interrupted|failed|released|running|unknown",
        ),
        help: "Only runs that ended so. ran is any command that ended by itself, whatever it returned",
        ..SETTING
    },
    Setting {
        name: "run",
        takes: Takes::Value("RUN"),
        files: Files::No,
        help: "Only the run of this number, as --json has it",
        ..SETTING
    },
    Setting {
        name: "after",
        takes: Takes::Value("CURSOR"),
        help: "The next page: the runs that are older than those of the page that printed CURSOR",
        ..SETTING
    },
    Setting {
        name: "limit",
        short: Some('n'),
        takes: Takes::Value("N"),
        default: Some("20"),
        help: "Only the newest N runs; 0 shows all",
        ..SETTING
    },
];

const HELP: &str = "\
The newest run comes last. All times are in UTC, by the server's clock. TIME is when the command started, or when the run was
requested if the command never started. TOOK is how long the command ran. RESULT is exit and a code, a signal, timed out, lost,
skipped, interrupted, failed, released, running or, where the server cannot tell whether it has ended, unknown. If there may be
older runs, a terminal shows the CURSOR of the next page below the table, and --json has it, too. It needs dblock's tables
(dblock init). SELECT on them is enough, and a replica works, too.

Exit codes: 0, also if there is no such run; 69 no server in time; 77 the account was refused; 78 no tables, or bad
configuration; 64 bad usage; 70 internal error; 71 the system refused.";

//! `dblock queue work`: runs a command for each job of a queue.

use clap::Command;

use super::super::setting::{Files, SETTING, Setting, Takes};
use super::super::{Definition, Queue, Subcommand, args, arguments, connection, output};
use super::queue;

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Queue(Queue::Work),
    name: "work",
    about: "Run a command for each job of a queue",
    define,
    settings: &[SETTINGS, output::VERBOSITY, connection::SETTINGS],
    arguments: &["queue", "command"],
};

/// How many commands run at once.
pub const JOBS: Setting = Setting {
    name: "jobs",
    short: Some('j'),
    takes: Takes::Value("N"),
    files: Files::No,
    default: Some("1"),
    help: "How many commands run at once, 1 to 1000",
    ..SETTING
};

/// Up to so many jobs to one command.
pub const BATCH: Setting = Setting {
    name: "batch",
    takes: Takes::Value("N"),
    files: Files::No,
    help: "Up to N jobs, 1 to 10000, to one command, on its stdin; all of them are done, or none",
    ..SETTING
};

/// With a batch: each payload is a line.
pub const LINES: Setting = Setting {
    name: "lines",
    files: Files::No,
    help: "With --batch: each payload is a line; this is the default",
    conflicts: &["null"],
    ..SETTING
};

/// With a batch: each payload ends in NUL.
pub const NULL: Setting = Setting {
    name: "null",
    files: Files::No,
    help: "With --batch: each payload ends in NUL",
    ..SETTING
};

/// How long a command may run.
pub const TIMEOUT: Setting = Setting {
    name: "timeout",
    short: Some('t'),
    takes: Takes::Value("DURATION"),
    files: Files::No,
    help: "End a command when it has run longer: SIGTERM, then SIGKILL; the job has failed; 0 is no limit",
    ..SETTING
};

/// From SIGTERM to SIGKILL.
pub const KILL_AFTER: Setting = Setting {
    name: "kill-after",
    short: Some('k'),
    takes: Takes::Value("DURATION"),
    files: Files::No,
    default: Some("10s"),
    help: "From SIGTERM to SIGKILL when dblock ends a command; 0 is both at once",
    ..SETTING
};

/// Until nothing is due.
pub const DRAIN: Setting = Setting {
    name: "drain",
    files: Files::No,
    help: "Exit with 0 when nothing is due and its commands have ended; delayed jobs are left",
    conflicts: &["once"],
    ..SETTING
};

/// One command.
pub const ONCE: Setting = Setting {
    name: "once",
    files: Files::No,
    help: "Run one command, and exit as it does; with 75 if nothing is due",
    ..SETTING
};

/// How long commands may take to end after the first signal.
pub const GRACE: Setting = Setting {
    name: "grace",
    takes: Takes::Value("DURATION"),
    files: Files::No,
    default: Some("30s"),
    help: "How long after the first SIGTERM the commands that run may take to end; then they are ended, and their jobs given \
           back",
    ..SETTING
};

/// Exit codes at which a job is dead at once.
pub const BURY_ON: Setting = Setting {
    name: "bury-on",
    takes: Takes::List("CODE"),
    files: Files::No,
    help: "An exit code of the command, 1 to 255 but not 75, at which its job is dead at once; also several, with commas",
    ..SETTING
};

/// As at `dblock run`, and as an option file says it for that.
const SCRUB_ENV: Setting = Setting {
    name: "scrub-env",
    help: "Remove DBLOCK_URL and the other variables for the connection, and MYSQL_PWD, from the environment of the \
           commands",
    ..SETTING
};

const SETTINGS: &[Setting] = &[
    JOBS, BATCH, LINES, NULL, TIMEOUT, KILL_AFTER, DRAIN, ONCE, GRACE, BURY_ON, SCRUB_ENV,
];

fn define(command: Command) -> Command {
    command
        .override_usage("dblock queue work [OPTIONS] <QUEUE> [--] <COMMAND> [ARG]...")
        .args(args(DEFINITION.settings))
        .arg(queue("The queue"))
        .arg(
            arguments("command", "COMMAND")
                .help("The command to run for each job, and its arguments; one that is {} is replaced by the payload")
                .required(true)
                .num_args(1..)
                .trailing_var_arg(true),
        )
        .after_help(HELP)
}

const HELP: &str = "\
The command gets the payload on stdin, and in the place of an argument that is exactly {}; never through a shell. It finds
DBLOCK_QUEUE, DBLOCK_JOB_ID, DBLOCK_ATTEMPT and DBLOCK_FENCE in its environment. When it ends with 0, the job is done; with 75,
it is tried again later, and that counts as no attempt; with one of --bury-on, it is dead; with anything else, it is tried
again after the delay of the queue, and is dead after --max-attempts. The end of its stderr is kept as the error.

A job may run more than once, but never twice at the same time. When a worker is killed, others have its jobs after the --ttl of
the queue. SIGTERM and SIGINT: no more jobs are claimed, and dblock exits when the commands have ended, after --grace at the
latest. A second one ends them at once by SIGTERM, a third one by SIGKILL.

Exit codes: 0 stopped by a signal, or drained; with --once: the command's, 75 nothing is due, 74 the lease was lost; 69 no server
in time; 77 the account was refused; 78 there is no such queue, no tables, or bad configuration; 126, 127 the command cannot be
run, is not found; 64 bad usage; 70 internal error; 71 the system refused.

Examples:
  dblock queue work mails -j 4 -- /usr/local/bin/send-mail
  dblock queue work feeds --timeout 1m -- curl --fail --silent --output /dev/null {}
  dblock queue work orders --batch 500 -- /usr/local/bin/import-orders";

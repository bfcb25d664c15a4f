//! `dblock queue work`: runs a command for each job of a queue.

use super::super::setting::{Files, SETTING, Setting, Takes};
use super::super::{ASKS_A_SERVER, Argument, Definition, Number, Queue, Subcommand, run};
use super::QUEUE;

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Queue(Queue::Work),
    name: "work",
    about: "Run a command for each job of a queue",
    settings: &[SETTINGS],
    usage: Some("dblock queue work [OPTIONS] <QUEUE> [--] <COMMAND> [ARG]..."),
    arguments: &[
        QUEUE,
        Argument::new(
            "command",
            "COMMAND",
            Number::Command,
            "The command to run for each job, and its arguments. The payload replaces an argument {}",
        ),
    ],
    help: HELP,
    ..ASKS_A_SERVER
};

/// The most commands that run at once.
pub const JOBS: Setting = Setting {
    name: "jobs",
    short: Some('j'),
    takes: Takes::Value("N"),
    default: Some("1"),
    help: "How many commands run at once, 1 to 1000",
    ..SETTING
};

/// The most jobs for one command.
pub const BATCH: Setting = Setting {
    name: "batch",
    takes: Takes::Value("N"),
    help: "Give one command up to N jobs on its stdin, 1 to 10000; all of them are done, or none",
    ..SETTING
};

/// With a batch: each payload is a line.
pub const LINES: Setting = Setting {
    name: "lines",
    help: "With --batch: each payload is a line (the default)",
    conflicts: &["null"],
    ..SETTING
};

/// With a batch: each payload ends in NUL.
pub const NULL: Setting = Setting {
    name: "null",
    help: "With --batch: each payload ends in NUL",
    ..SETTING
};

/// How long a command may run.
pub const TIMEOUT: Setting = Setting {
    name: "timeout",
    short: Some('t'),
    takes: Takes::Value("DURATION"),
    files: Files::No,
    help: "End a command if it runs longer: SIGTERM, then SIGKILL. The job has failed. 0 is no limit",
    ..SETTING
};

/// The time between SIGTERM and SIGKILL.
pub const KILL_AFTER: Setting = Setting {
    name: "kill-after",
    short: Some('k'),
    takes: Takes::Value("DURATION"),
    files: Files::No,
    default: Some("10s"),
    help: "Time from SIGTERM to SIGKILL when dblock ends a command; 0 sends both at once",
    ..SETTING
};

/// Ends when nothing is due.
pub const DRAIN: Setting = Setting {
    name: "drain",
    help: "Exit with 0 when no job is due and all commands have ended. Delayed jobs stay",
    conflicts: &["once"],
    ..SETTING
};

/// Runs one command.
pub const ONCE: Setting = Setting {
    name: "once",
    help: "Run one command and exit with its exit code, or with 75 if no job is due",
    ..SETTING
};

/// How long commands may take to end after the first signal.
pub const GRACE: Setting = Setting {
    name: "grace",
    takes: Takes::Value("DURATION"),
    default: Some("30s"),
    help: "How long commands may still run after the first SIGTERM. Then dblock ends them and returns their \
           jobs",
    ..SETTING
};

/// Exit codes with which a job is dead at once.
pub const BURY_ON: Setting = Setting {
    name: "bury-on",
    takes: Takes::List("CODE"),
    help: "Exit code of the command that makes its job dead at once, 1 to 255 except 75; several with commas between them",
    ..SETTING
};

/// Of which jobs the output is kept.
pub const KEEP_OUTPUT: Setting = Setting {
    name: "keep-output",
    takes: Takes::Value("failed|all|none"),
    files: Files::No,
    default: Some("failed"),
    help: "Of which jobs to keep the first 4 kB and the last 60 kB of what the last command wrote to stdout and stderr, for dblock \
           output, as long as the job is there: of those that failed, of all (of a block only those that failed), or of none. To a terminal stdout goes as it is, and is \
           not kept",
    ..SETTING
};

const SETTINGS: &[Setting] = &[
    JOBS,
    BATCH,
    LINES,
    NULL,
    TIMEOUT,
    KILL_AFTER,
    DRAIN,
    ONCE,
    GRACE,
    BURY_ON,
    KEEP_OUTPUT,
    run::ON_FAILURE,
    run::ON_END,
    run::SCRUB_ENV,
];

const HELP: &str = "\
The command gets the payload on stdin, and in place of an argument that is exactly {}, but never through a shell. Its
environment has DBLOCK_QUEUE, DBLOCK_JOB_ID, DBLOCK_ATTEMPT and DBLOCK_FENCE. Its exit code decides about the job. 0: done.
75: retried later, which does not count as an attempt. A code of --bury-on: dead. Any other: retried after the retry delay of
the queue, and dead after --max-attempts. dblock keeps the end of its stderr as the job's error.

A job may run more than once, but never twice at the same time. If a worker is killed, other workers take its jobs after
the --ttl of the queue. SIGTERM and SIGINT: claim no more jobs, and exit when the commands have ended. After --grace dblock ends
them. A second signal ends them at once with SIGTERM, a third one with SIGKILL.

Exit codes: 0 stopped by a signal, or drained; with --once: the command's, 75 nothing is due, 74 the lease was lost; 69 no server
in time; 77 the account was refused; 78 there is no such queue, no tables, or bad configuration; 126, 127 the command cannot be
run, is not found; 64 bad usage; 70 internal error; 71 the system refused.

Examples:
  dblock queue work mails -j 4 -- /usr/local/bin/send-mail
  dblock queue work feeds --timeout 1m -- curl --fail --silent --proto =https --output /dev/null -- {}
  dblock queue work orders --batch 500 -- /usr/local/bin/import-orders";

//! `dblock run`: how a command is run. A new option is a row here, its meaning goes into `settings/run.rs`, and its field into the type
//! of the room that uses it.

use super::setting::{Files, SETTING, Setting, Takes};
use super::{ASKS_A_SERVER, Argument, Definition, Number, Subcommand};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Run,
    name: "run",
    about: "Run a command while holding a lock, and exit with its exit code",
    settings: &[WHICH_LOCK, SETTINGS],
    usage: Some("dblock run [OPTIONS] --name <NAME> [--] <COMMAND> [ARG]..."),
    arguments: &[Argument::new(
        "command",
        "COMMAND",
        Number::Command,
        "The command to run, and its arguments",
    )],
    help: HELP,
    ..ASKS_A_SERVER
};

/// The lock, and the part of it.
pub const WHICH_LOCK: &[Setting] = &[
    Setting {
        name: "name",
        short: Some('n'),
        takes: Takes::Value("NAME"),
        help: "The lock. Runs with the same name exclude each other on all hosts that use the same server",
        ..SETTING
    },
    Setting {
        name: "max-concurrency",
        short: Some('m'),
        takes: Takes::Value("N"),
        default: Some("1"),
        help: "Allow N holders at once, 1 to 1000",
        ..SETTING
    },
    Setting {
        name: "slots",
        takes: Takes::Value("A,B,C"),
        help: "A pool: one holder for each name. The command finds its name in DBLOCK_SLOT_NAME",
        conflicts: &["max-concurrency"],
        ..SETTING
    },
];

/// The key of another program's lock.
pub const KEY: Setting = Setting {
    name: "key",
    takes: Takes::Value("N|A,B"),
    files: Files::No,
    help: "PostgreSQL: the key of the advisory lock, as another program takes it by pg_advisory_lock(N) or pg_advisory_lock(A, B), \
           instead of one made of the name",
    ..SETTING
};

/// What is run when a run has failed.
pub const ON_FAILURE: Setting = Setting {
    name: "on-failure",
    takes: Takes::Value("COMMAND"),
    help: "Run this by /bin/sh -c after each run that failed, was lost or timed out, with the line of --report on its stdin. It \
           has DBLOCK_NAME, DBLOCK_RESULT and DBLOCK_EXIT_CODE, and 30 s, and changes no exit code",
    ..SETTING
};

/// What is run when a run has ended.
pub const ON_END: Setting = Setting {
    name: "on-end",
    takes: Takes::Value("COMMAND"),
    help: "As --on-failure, after each run that was not skipped",
    ..SETTING
};

/// What several commands do not get, as one of `dblock run`.
pub const SCRUB_ENV: Setting = Setting {
    name: "scrub-env",
    help: "Remove DBLOCK_URL, the other connection variables, MYSQL_PWD and, with PostgreSQL, PGPASSWORD from the environment of the \
           commands",
    ..SETTING
};

/// The settings of a run. `dblock config` has them, too.
pub const SETTINGS: &[Setting] = &[
    KEY,
    Setting {
        name: "wait",
        short: Some('w'),
        takes: Takes::Value("DURATION"),
        default: Some("0"),
        help: "How long to wait for the lock: 0 does not wait, forever has no limit",
        ..SETTING
    },
    Setting {
        name: "conflict-exit-code",
        short: Some('E'),
        takes: Takes::Value("CODE"),
        default: Some("75"),
        help: "Exit code if the lock was not acquired in time, 0 to 255; 0 makes a skip a success",
        ..SETTING
    },
    Setting {
        name: "timeout",
        short: Some('t'),
        takes: Takes::Value("DURATION"),
        help: "End the command if it runs longer: SIGTERM, then SIGKILL. Exit with 124, or 137 if SIGKILL was needed. 0 is \
               no limit",
        ..SETTING
    },
    Setting {
        name: "kill-after",
        short: Some('k'),
        takes: Takes::Value("DURATION"),
        default: Some("10s, or a quarter of the TTL if that is less"),
        help: "Time from SIGTERM to SIGKILL when dblock ends the command, at most a third of the TTL; 0 sends both at once",
        ..SETTING
    },
    Setting {
        name: "ttl",
        takes: Takes::Value("DURATION"),
        default: Some("5m"),
        help: "How long at most the server keeps the lock of a host that has vanished, and how long dblock tries to \
               reacquire a lost lock: whole seconds, 4s to 1d. Choose it longer than a fail-over takes",
        ..SETTING
    },
    Setting {
        name: "on-lock-lost",
        takes: Takes::Value("reacquire|terminate|ignore"),
        default: Some("reacquire"),
        help: "What to do if the lock is lost while the command runs. reacquire: try to reacquire it, and end the command if \
               that fails. terminate: end the command at once. ignore: let it run",
        ..SETTING
    },
    Setting {
        name: "hold-at-least",
        takes: Takes::Value("DURATION"),
        help: "Hold the lock for at least this long after it was acquired, even if the command ends sooner. A host \
               whose clock is late then finds it taken. dblock keeps running meanwhile, so what follows it after && is delayed. \
               TERM, INT, QUIT and HUP end the wait",
        ..SETTING
    },
    Setting {
        name: "durable",
        help: "Also keep the lock as a row in dblock's tables. It outlives its session, a restart of the server and a \
               fail-over, and excludes on clusters",
        ..SETTING
    },
    Setting {
        name: "once-at",
        takes: Takes::Value("CRON"),
        help: "Skip the run if a run of this name has already succeeded for this tick. The tick is the last time that CRON \
               names, by the server's clock; CRON has five fields as in a crontab",
        conflicts: &["once-per"],
        ..SETTING
    },
    Setting {
        name: "time-zone",
        takes: Takes::Value("ZONE"),
        default: Some("the host's"),
        help: "The time zone of --once-at, for example Europe/Berlin or UTC",
        ..SETTING
    },
    Setting {
        name: "once-per",
        takes: Takes::Value("DURATION"),
        help: "Skip the run if the last successful run of this name started less than this long ago",
        ..SETTING
    },
    Setting {
        name: "record",
        help: "Record the run for dblock history. A run that uses dblock's tables is always recorded",
        ..SETTING
    },
    Setting {
        name: "keep-output",
        takes: Takes::Optional("SIZE", "64k"),
        files: Files::No,
        help: "Keep the first 4 kB and the last 60 kB of what the command writes to stdout and stderr, for dblock output, and \
               record the run. SIZE is how much in all, 8k to 480k. Not with a terminal",
        ..SETTING
    },
    Setting {
        name: "token",
        takes: Takes::Value("TOKEN"),
        files: Files::No,
        help: "Run under a lock that dblock acquire acquired. dblock renews it while the command runs, and does not release it. \
               A token runs one command at a time. - reads the token from stdin; without --name, DBLOCK_TOKEN gives it",
        conflicts: &["max-concurrency", "wait", "durable", "hold-at-least"],
        ..SETTING
    },
    Setting {
        name: "if-unreachable",
        takes: Takes::Value("fail|run"),
        default: Some("fail"),
        help: "If no server is reached in time: fail with 69, or run the command without the lock and warn",
        ..SETTING
    },
    Setting {
        name: "allow-unfit-server",
        help: "Also lock on a server where the lock may not exclude (Galera, a replica): warn instead of exiting with 78",
        ..SETTING
    },
    Setting {
        name: "report",
        takes: Takes::Value("FILE"),
        help: "Append one line of JSON to this file at the end of each run, skips and failures included; - is stdout",
        ..SETTING
    },
    ON_FAILURE,
    ON_END,
    Setting {
        name: "scrub-env",
        help: "Remove DBLOCK_URL, the other connection variables, MYSQL_PWD and, with PostgreSQL, PGPASSWORD from the command's \
               environment",
        ..SETTING
    },
];

const HELP: &str = "\
Durations are 90s, 5m, 1h 30m; a bare number, also with a decimal point, is seconds.

Exit codes: the command's own; 75 the lock is taken (or what -E says); 69 no server in time; 64 bad usage;
70 internal error; 71 the system refused; 74 the lock was lost and the command was ended; 77 the account was refused;
78 bad configuration; 124 --timeout ended the command, 137 with SIGKILL; 126 the command is not executable;
127 not found. A command that died of a signal: 128 + n.

The command's environment has DBLOCK_NAME, DBLOCK_SLOT (0 to N-1), DBLOCK_SLOT_NAME (with --slots), DBLOCK_CONNECTION_ID,
DBLOCK_FENCE (with --durable and --token) and DBLOCK_TICK (with --once-at).

Examples: crontab lines, the same on every host:
  */5 * * * *  dblock run --name nightly-report -- /usr/local/bin/report
  0 1 * * *    dblock run --name backup -m 3 --wait 4h --timeout 2h -- /usr/local/bin/backup
  */2 * * * *  dblock run --name import --slots key1,key2 -- sh -c 'import --key \"$DBLOCK_SLOT_NAME\"'";

//! `dblock queue create`: creates a queue.

use clap::Command;

use super::super::setting::{Files, SETTING, Setting, Takes};
use super::super::{Definition, Queue, Subcommand, args, connection, output};
use super::queue;

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Queue(Queue::Create),
    name: "create",
    about: "Create a queue",
    define,
    settings: &[SETTINGS, output::VERBOSITY, connection::SETTINGS],
    arguments: &["queue"],
};

/// What a worker claims at once.
pub const CLAIM: Setting = Setting {
    name: "claim",
    takes: Takes::Value("rows|blocks"),
    files: Files::No,
    default: Some("rows"),
    help: "What a worker claims at once: single jobs; or all those that were put together, which is faster for many small \
           jobs, and one slow job holds up its block",
    ..SETTING
};

/// In how many parts the jobs are kept.
pub const SHARDS: Setting = Setting {
    name: "shards",
    takes: Takes::Value("N"),
    files: Files::No,
    default: Some("1"),
    help: "In how many parts the jobs are kept, 1 to 1024: more are faster with many workers, and then jobs are only about in \
           order",
    ..SETTING
};

/// How often a job is started before it is dead.
pub const MAX_ATTEMPTS: Setting = Setting {
    name: "max-attempts",
    takes: Takes::Value("N"),
    files: Files::No,
    default: Some("20"),
    help: "How often a job is tried before it is dead, 1 to 1000000",
    ..SETTING
};

/// From the first failure of a job to its next attempt.
pub const RETRY_DELAY: Setting = Setting {
    name: "retry-delay",
    takes: Takes::Value("DURATION"),
    files: Files::No,
    default: Some("10s"),
    help: "From the first failure of a job to its next attempt; it doubles with each, up to an hour",
    ..SETTING
};

/// The lease of a worker.
pub const TTL: Setting = Setting {
    name: "ttl",
    takes: Takes::Value("DURATION"),
    files: Files::No,
    default: Some("60s"),
    help: "After how long others have the jobs of a worker that has vanished: whole seconds, 4s to 1d. Longer than a fail-over \
           takes",
    ..SETTING
};

/// How long jobs are kept that are done.
pub const KEEP: Setting = Setting {
    name: "keep",
    takes: Takes::Value("DURATION"),
    files: Files::No,
    default: Some("0"),
    help: "How long jobs are kept that are done: whole seconds; 0 deletes them at once",
    ..SETTING
};

const SETTINGS: &[Setting] = &[CLAIM, SHARDS, MAX_ATTEMPTS, RETRY_DELAY, TTL, KEEP];

fn define(command: Command) -> Command {
    command
        .arg(queue("The queue: 1 to 200 bytes"))
        .args(args(DEFINITION.settings))
        .after_help(HELP)
}

const HELP: &str = "\
It may be run again, by several hosts at once: a queue that is there with the same properties is left alone. One with others
is refused, and the difference named: the properties of a queue cannot be changed.

Exit codes: 0 the queue is there; 69 no server in time; 77 the account was refused; 78 it is there with other properties, no
tables, or bad configuration; 64 bad usage; 70 internal error; 71 the system refused.";

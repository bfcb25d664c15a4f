//! `dblock queue create`: creates a queue.

use super::super::setting::{Files, SETTING, Setting, Takes};
use super::super::{ASKS_A_SERVER, Argument, Definition, Number, Queue, Subcommand};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Queue(Queue::Create),
    name: "create",
    about: "Create a queue",
    settings: &[SETTINGS],
    arguments: &[Argument::new(
        "queue",
        "QUEUE",
        Number::One,
        "The queue: 1 to 200 bytes",
    )],
    help: HELP,
    ..ASKS_A_SERVER
};

/// What a worker claims as a unit.
pub const CLAIM: Setting = Setting {
    name: "claim",
    takes: Takes::Value("rows|blocks"),
    default: Some("rows"),
    help: "What a worker claims at once. rows: single jobs. blocks: all jobs that were put together. Blocks are faster for many \
           small jobs, but one slow job delays its whole block",
    ..SETTING
};

/// The number of parts in which the jobs are kept.
pub const SHARDS: Setting = Setting {
    name: "shards",
    takes: Takes::Value("N"),
    default: Some("1"),
    help: "Into how many parts the queue is divided, 1 to 1024. More shards are faster with many workers, but then jobs run only \
           roughly in order",
    ..SETTING
};

/// How many times a job is started before it is dead.
pub const MAX_ATTEMPTS: Setting = Setting {
    name: "max-attempts",
    takes: Takes::Value("N"),
    default: Some("20"),
    help: "How often a job is tried before it is dead, 1 to 1000000",
    ..SETTING
};

/// The delay between a job's first failure and its next attempt.
pub const RETRY_DELAY: Setting = Setting {
    name: "retry-delay",
    takes: Takes::Value("DURATION"),
    default: Some("10s"),
    help: "Pause before the first retry of a job; it doubles with each retry, up to an hour",
    ..SETTING
};

/// The lease of a worker.
pub const TTL: Setting = Setting {
    name: "ttl",
    takes: Takes::Value("DURATION"),
    files: Files::No,
    default: Some("60s"),
    help: "How long before the jobs of a silent worker go to others: whole seconds, 4s to 1d. Choose it longer than a fail-over \
           takes",
    ..SETTING
};

/// How long finished jobs are kept.
pub const KEEP: Setting = Setting {
    name: "keep",
    takes: Takes::Value("DURATION"),
    files: Files::No,
    default: Some("0"),
    help: "How long to keep jobs that are done: whole seconds; 0 deletes them at once",
    ..SETTING
};

const SETTINGS: &[Setting] = &[CLAIM, SHARDS, MAX_ATTEMPTS, RETRY_DELAY, TTL, KEEP];

const HELP: &str = "\
You can run it again, also on several hosts at once. It leaves a queue alone that exists with the same properties. If the
properties differ it fails and names the difference, because the properties of a queue cannot be changed.

Exit codes: 0 the queue exists; 69 no server in time; 77 the account was refused; 78 it exists with other properties, no
tables, or bad configuration; 64 bad usage; 70 internal error; 71 the system refused.";

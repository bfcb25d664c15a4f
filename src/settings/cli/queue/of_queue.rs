//! `dblock queue pause`, `resume` and `delete`: rows, for they have the same arguments and settings.

use super::super::{ASKS_A_SERVER, Definition, Queue, Subcommand};
use super::QUEUE;

const OF_QUEUE: Definition = Definition {
    arguments: &[QUEUE],
    ..ASKS_A_SERVER
};

/// `dblock queue pause`
pub const PAUSE: Definition = Definition {
    subcommand: Subcommand::Queue(Queue::Pause),
    name: "pause",
    about: "Pause a queue: workers claim no more jobs",
    help: "\
Running jobs go on to their end, and jobs can still be put. A queue that is already paused stays paused.

Exit codes: 0; 69 no server in time; 77 the account was refused; 78 there is no such queue, no tables, or bad configuration;
64 bad usage; 70 internal error; 71 the system refused.",
    ..OF_QUEUE
};

/// `dblock queue resume`
pub const RESUME: Definition = Definition {
    subcommand: Subcommand::Queue(Queue::Resume),
    name: "resume",
    about: "Resume a queue: workers claim its jobs again",
    help: "\
A queue that is not paused stays as it is.

Exit codes: 0; 69 no server in time; 77 the account was refused; 78 there is no such queue, no tables, or bad configuration;
64 bad usage; 70 internal error; 71 the system refused.",
    ..OF_QUEUE
};

/// `dblock queue delete`
pub const DELETE: Definition = Definition {
    subcommand: Subcommand::Queue(Queue::Delete),
    name: "delete",
    about: "Delete a queue with all of its jobs",
    help: "\
Jobs are deleted whatever their state. At once, no job can be put or claimed any more. A command that is running may take its
worker's --grace to end; then the worker exits with 78. If delete is interrupted, run it again.

Exit codes: 0; 69 no server in time; 77 the account was refused; 78 there is no such queue, no tables, or bad configuration;
64 bad usage; 70 internal error; 71 the system refused.",
    ..OF_QUEUE
};

//! `dblock queue pause`, `resume` and `delete`: rows, for they have the same arguments and settings.

use super::super::{Definition, Queue, Subcommand, connection, output};
use super::QUEUE;

const fn of_queue(
    subcommand: Queue,
    name: &'static str,
    about: &'static str,
    help: &'static str,
) -> Definition {
    Definition {
        subcommand: Subcommand::Queue(subcommand),
        name,
        about,
        settings: &[output::VERBOSITY, connection::SETTINGS],
        usage: None,
        arguments: &[QUEUE],
        help,
    }
}

/// `dblock queue pause`
pub const PAUSE: Definition = of_queue(
    Queue::Pause,
    "pause",
    "Pause a queue: workers claim no more jobs",
    "\
Running jobs go on to their end, and jobs can still be put. A queue that is already paused stays paused.

Exit codes: 0; 69 no server in time; 77 the account was refused; 78 there is no such queue, no tables, or bad configuration;
64 bad usage; 70 internal error; 71 the system refused.",
);

/// `dblock queue resume`
pub const RESUME: Definition = of_queue(
    Queue::Resume,
    "resume",
    "Resume a queue: workers claim its jobs again",
    "\
A queue that is not paused stays as it is.

Exit codes: 0; 69 no server in time; 77 the account was refused; 78 there is no such queue, no tables, or bad configuration;
64 bad usage; 70 internal error; 71 the system refused.",
);

/// `dblock queue delete`
pub const DELETE: Definition = of_queue(
    Queue::Delete,
    "delete",
    "Delete a queue with all of its jobs",
    "\
Jobs are deleted whatever their state. At once, no job can be put or claimed any more. A command that is running may take its
worker's --grace to end; then the worker exits with 78. If delete is interrupted, run it again.

Exit codes: 0; 69 no server in time; 77 the account was refused; 78 there is no such queue, no tables, or bad configuration;
64 bad usage; 70 internal error; 71 the system refused.",
);

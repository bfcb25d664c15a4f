//! `dblock queue show`: all about one job.

use super::super::setting::{SETTING, Setting};
use super::super::{ASKS_A_SERVER, Argument, Definition, Number, Queue, Subcommand, output};
use super::QUEUE;

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Queue(Queue::Show),
    name: "show",
    about: "Show everything about a job, or its payload",
    settings: &[SETTINGS, output::JSON],
    arguments: &[
        QUEUE,
        Argument::new(
            "ids",
            "ID",
            Number::One,
            "The job's id, as dblock queue put printed it",
        ),
    ],
    help: HELP,
    ..ASKS_A_SERVER
};

/// Prints only the payload, unchanged.
pub const PAYLOAD: Setting = Setting {
    name: "payload",
    help: "Write only the payload to stdout, unchanged",
    conflicts: &["json"],
    ..SETTING
};

const SETTINGS: &[Setting] = &[PAYLOAD];

const HELP: &str = "\
The table shows the beginning of the payload. --json has all of it: as payload if it is UTF-8, otherwise as payload_hex. SELECT
on dblock's tables is enough, and a replica works, too.

Exit codes: 0; 69 no server in time; 77 the account was refused; 78 there is no such queue or job, no tables, or bad
configuration; 64 bad usage; 70 internal error; 71 the system refused.";

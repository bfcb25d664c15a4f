//! `dblock queue status`: how many jobs there are, and which workers run them.

use super::super::setting::{SETTING, Setting};
use super::super::{ASKS_A_SERVER, Argument, Definition, Number, Queue, Subcommand, output};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Queue(Queue::Status),
    name: "status",
    about: "Show how many jobs are due, and who works on them",
    settings: &[SETTINGS, output::JSON, &[output::WATCH], output::COLOR],
    arguments: &[Argument::new(
        "queues",
        "QUEUE",
        Number::Any,
        "The queues to show; all if not given",
    )],
    help: HELP,
    ..ASKS_A_SERVER
};

const SETTINGS: &[Setting] = &[Setting {
    name: "exact",
    help: "Count all jobs of each state, and not just the first 10000; with millions of jobs that takes seconds",
    ..SETTING
}];

const HELP: &str = "\
OLDEST is how long the oldest due job has been due. A delayed job whose time has come counts as due. DONE and FAILED are jobs a
minute, over the last five whole minutes. Jobs of a state beyond the first 10000 are not counted unless --exact is given: 10000+
are 10000 or more, and OLDEST is then the oldest of those that were counted. A worker is gone if it has ended or its lease has
expired; one that died is shown for a day. SELECT on dblock's tables is enough, and a replica works, too.

Exit codes: 0; 69 no server in time; 77 the account was refused; 78 there is no such queue, no tables, or bad configuration;
64 bad usage; 70 internal error; 71 the system refused.";

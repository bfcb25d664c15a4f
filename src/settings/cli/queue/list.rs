//! `dblock queue list`: the jobs of a queue.

use super::super::setting::{SETTING, Setting, Takes};
use super::super::{ASKS_A_SERVER, Definition, Queue, Subcommand, output};
use super::QUEUE;

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Queue(Queue::List),
    name: "list",
    about: "Show the jobs of a queue",
    settings: &[SETTINGS, output::JSON],
    arguments: &[QUEUE],
    help: HELP,
    ..ASKS_A_SERVER
};

/// Only jobs in this state.
pub const STATE: Setting = Setting {
    name: "state",
    takes: Takes::Value("due|delayed|running|dead|done"),
    help: "Only jobs in this state; if not given, all except those that are done",
    ..SETTING
};

/// The most jobs to show.
pub const LIMIT: Setting = Setting {
    name: "limit",
    short: Some('n'),
    takes: Takes::Value("N"),
    default: Some("20"),
    help: "At most N jobs; 0 shows all",
    ..SETTING
};

const SETTINGS: &[Setting] = &[STATE, LIMIT];

const HELP: &str = "\
Running jobs come first, then due ones by priority, delayed ones by time, and dead ones, latest first. The first of the delayed
ones are due if their time has come and no worker has looked since. With --state done, the latest come first. ATTEMPT is how
often the job was started; starts that were returned or ended with 75 do not count. SELECT on dblock's tables is enough, and a
replica works, too.

Exit codes: 0, also when there is no such job; 69 no server in time; 77 the account was refused; 78 there is no such queue, no
tables, or bad configuration; 64 bad usage; 70 internal error; 71 the system refused.";

//! `dblock queue`: jobs in tables, for which a command is run. One file for each subcommand, but for those of `of_queue`.

pub mod cancel;
pub mod create;
pub mod list;
mod of_queue;
pub mod put;
pub mod retry;
pub mod show;
pub mod status;
pub mod work;

use super::{Argument, Defined, Definition, Group, Number};

/// The subcommand.
pub const GROUP: Group = Group {
    name: "queue",
    about: "A queue of jobs: workers on all hosts run a command for each",
    subcommands: SUBCOMMANDS,
    help: HELP,
    define: |command| GROUP.define(command, Defined::WhenItRuns),
    define_one: |command| Definition::find(SUBCOMMANDS, command.get_name()).define(command),
};

const SUBCOMMANDS: &[Definition] = &[
    create::DEFINITION,
    put::DEFINITION,
    work::DEFINITION,
    status::DEFINITION,
    list::DEFINITION,
    show::DEFINITION,
    retry::DEFINITION,
    cancel::DEFINITION,
    of_queue::PAUSE,
    of_queue::RESUME,
    of_queue::DELETE,
];

/// The queue, which is the first argument.
const QUEUE: Argument = Argument::new("queue", "QUEUE", Number::One, "The queue");

const HELP: &str = "\
A job is a payload of any bytes. It is due as soon as it is put, or delayed until its time. A worker claims it and runs a
command for it: now the job is running. If the command exits with 0, the job is done, and is deleted unless --keep keeps it. If
the command fails, the job is delayed and retried. After --max-attempts it is dead, and is kept. If a worker dies, other workers
take its jobs. It needs dblock's tables (dblock init).

Exit codes: 0 done; 69 no server in time; 75 not now; 77 the account was refused; 78 there is no such queue or job, no tables,
or bad configuration; 64 bad usage; 70 internal error; 71 the system refused.

Examples:
  dblock queue create mails
  dblock queue put mails 'jane@example.org'
  dblock queue work mails -j 4 -- /usr/local/bin/send-mail";

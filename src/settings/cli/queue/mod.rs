//! `dblock queue`: jobs in tables, for which a command is run. One file for each subcommand.

pub mod cancel;
pub mod create;
pub mod delete;
pub mod list;
pub mod pause;
pub mod put;
pub mod resume;
pub mod retry;
pub mod show;
pub mod status;
pub mod work;

use clap::{Arg, ArgAction, value_parser};

use super::{Defined, Definition, Group, arguments};

/// The subcommand.
pub const GROUP: Group = Group {
    name: "queue",
    about: "A queue of jobs: workers on all hosts run a command for each",
    subcommands: SUBCOMMANDS,
    help: HELP,
    define: |command| GROUP.add_to(command, Defined::WhenItRuns),
    define_all: |command| GROUP.add_to(command, Defined::Now),
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
    pause::DEFINITION,
    resume::DEFINITION,
    delete::DEFINITION,
];

/// The queue, which is the first argument.
fn queue(help: &'static str) -> Arg {
    Arg::new("queue")
        .value_name("QUEUE")
        .value_parser(value_parser!(std::ffi::OsString))
        .required(true)
        .help(help)
}

/// The ids of jobs.
fn ids(help: &'static str) -> Arg {
    arguments("ids", "ID").help(help)
}

/// The id of one job.
fn id(help: &'static str) -> Arg {
    arguments("ids", "ID")
        .help(help)
        .required(true)
        .num_args(1)
        .action(ArgAction::Set)
}

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

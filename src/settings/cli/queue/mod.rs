//! `dblock queue`: jobs in tables, which a command works off. One file a subcommand of it.

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
    about: "A queue of jobs that a command works off, on all hosts",
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

/// The queue that is meant, in front of all other arguments.
fn queue(help: &'static str) -> Arg {
    Arg::new("queue")
        .value_name("QUEUE")
        .value_parser(value_parser!(std::ffi::OsString))
        .required(true)
        .help(help)
}

/// Numbers of jobs.
fn ids(help: &'static str) -> Arg {
    arguments("ids", "ID").help(help)
}

/// One number of a job.
fn id(help: &'static str) -> Arg {
    arguments("ids", "ID")
        .help(help)
        .required(true)
        .num_args(1)
        .action(ArgAction::Set)
}

const HELP: &str = "\
A job is a payload of any bytes. It is due when it is put, or delayed until its time. A worker claims it and runs a command for
it: it is running. When the command ends with 0, the job is done, and gone. When it fails, the job is delayed, and tried again; it
is dead after --max-attempts, and kept. When a worker dies, others have its jobs. It needs dblock's tables (dblock init).

Exit codes: 0 done; 69 no server in time; 75 not now; 77 the account was refused; 78 there is no such queue or job, no tables,
or bad configuration; 64 bad usage; 70 internal error; 71 the system refused.

Examples:
  dblock queue create mails
  dblock queue put mails 'jane@example.org'
  dblock queue work mails -j 4 -- /usr/local/bin/send-mail";

//! `dblock cron`: one crontab for all hosts. One file a subcommand of it.

pub mod check;
pub mod list;
pub mod pause;
pub mod resume;
pub mod run;
pub mod trigger;

use clap::{Arg, value_parser};

use super::{Defined, Definition, Group};

/// The subcommand.
pub const GROUP: Group = Group {
    name: "cron",
    about: "One crontab for all hosts",
    subcommands: SUBCOMMANDS,
    help: HELP,
    define: |command| GROUP.add_to(command, Defined::WhenItRuns),
    define_all: |command| GROUP.add_to(command, Defined::Now),
};

const SUBCOMMANDS: &[Definition] = &[
    run::DEFINITION,
    check::DEFINITION,
    list::DEFINITION,
    pause::DEFINITION,
    resume::DEFINITION,
    trigger::DEFINITION,
];

/// The crontab.
fn file(help: &'static str) -> Arg {
    Arg::new("file")
        .value_name("FILE")
        .value_parser(value_parser!(std::ffi::OsString))
        .required(true)
        .help(help)
}

/// A job.
fn job(help: &'static str) -> Arg {
    Arg::new("name")
        .value_name("NAME")
        .value_parser(value_parser!(std::ffi::OsString))
        .required(true)
        .help(help)
}

const HELP: &str = "\
A crontab is that of a user, as crontab(5) has it. A comment right above a line names the job, and gives it options:
  #: report --timeout 30m --retries 2
  */5 * * * *  /usr/local/bin/report

Options of a job:
  -t, --timeout DURATION      End the command when it has run longer: SIGTERM, then SIGKILL; 0 is no limit [default: 0]
  -k, --kill-after DURATION   From SIGTERM to SIGKILL; a third of the TTL at most [default: 10s, or a quarter of the TTL]
      --ttl DURATION          After how long a host that runs it and has vanished is taken for dead: 4s to 1d [default: 5m]
      --retries N             Try a run that fails again, up to N times, 0 to 1000 [default: 0]
      --retry-delay DURATION  From the first failure to the next attempt; it doubles with each, up to 1h [default: 10s]
      --missed once|skip|all  When no dblock ran at its time: run once for the latest time missed, not at all, or for each
                              [default: once]
      --deadline DURATION     How late a missed time, or a retry, may still run [default: 1h; with --missed all: any]
      --overlap skip|wait|allow
                              While its last run goes on: skip the tick, have one wait, or run both [default: skip]
      --jitter DURATION       Start up to so long after the tick, and no later than halfway to the next [default: 0]

Run dblock cron run on every host: each tick runs on one of them. It needs dblock's tables (dblock init).

Exit codes: 0 done; 69 no server in time; 77 the account was refused; 78 something is wrong in the crontab, no such job, no
tables, or bad configuration; 64 bad usage; 70 internal error; 71 the system refused.

Examples:
  dblock cron check /etc/dblock.crontab
  dblock cron run /etc/dblock.crontab
  dblock cron list";

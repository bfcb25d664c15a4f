//! `dblock cron`: one crontab for all hosts. One file a subcommand of it, but for those of `of_job`.

pub mod check;
pub mod list;
mod of_job;
pub mod run;

use super::{Defined, Definition, Group};

/// The subcommand.
pub const GROUP: Group = Group {
    name: "cron",
    about: "One crontab for all hosts",
    subcommands: SUBCOMMANDS,
    help: HELP,
    define: |command| GROUP.define(command, Defined::WhenItRuns),
    define_one: |command| Definition::find(SUBCOMMANDS, command.get_name()).define(command),
};

const SUBCOMMANDS: &[Definition] = &[
    run::DEFINITION,
    check::DEFINITION,
    list::DEFINITION,
    of_job::PAUSE,
    of_job::RESUME,
    of_job::TRIGGER,
];

const HELP: &str = "\
The format is that of a user's crontab, see crontab(5). A comment right above a line names the job and gives it options:
  #: report --timeout 30m --retries 2
  */5 * * * *  /usr/local/bin/report

Options of a job:
  -t, --timeout DURATION      End the command if it runs longer: SIGTERM, then SIGKILL; 0 is no limit [default: 0]
  -k, --kill-after DURATION   Time from SIGTERM to SIGKILL, at most a third of the TTL [default: 10s, or a quarter of the
                              TTL if that is less]
      --ttl DURATION          How long before a silent host counts as dead: 4s to 1d [default: 5m]
      --retries N             Retry a failed run up to N times, 0 to 1000 [default: 0]
      --retry-delay DURATION  Pause before the first retry; it doubles with each retry, up to 1h [default: 10s]
      --missed once|skip|all  If no dblock ran at its ticks: run once for the latest missed tick, not at all, or once for
                              each [default: once]
      --deadline DURATION     How late a missed tick or a retry may still start [default: 1h; with --missed all: no limit]
      --overlap skip|wait|allow
                              If the last run still runs: skip the tick, let one tick wait, or run both [default: skip]
      --jitter DURATION       Delay the start by up to this long, at most halfway to the next tick [default: 0]
      --keep-output failed|all|none
                              Of which runs to keep the output, instead of what dblock cron run was told
      --on-failure COMMAND, --on-end COMMAND
                              What to run at the end of an attempt, instead of what dblock cron run was told; '' is nothing

Run dblock cron run on every host. Each tick runs on one of them. It needs dblock's tables (dblock init).

Exit codes: 0 done; 69 no server in time; 77 the account was refused; 78 something is wrong in the crontab, no such job, no
tables, or bad configuration; 64 bad usage; 70 internal error; 71 the system refused.

Examples:
  dblock cron check /etc/dblock.crontab
  dblock cron run /etc/dblock.crontab
  dblock cron list";

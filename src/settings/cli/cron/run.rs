//! `dblock cron run`: the daemon.

use super::super::setting::{Files, SETTING, Setting, Takes};
use super::super::{ASKS_A_SERVER, Argument, Cron, Definition, Number, Subcommand, run};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Cron(Cron::Run),
    name: "run",
    about: "Run the jobs of a crontab, each tick on one host",
    settings: &[SETTINGS],
    usage: Some("dblock cron run [OPTIONS] <FILE>"),
    arguments: &[Argument::new("file", "FILE", Number::One, "The crontab")],
    help: HELP,
    ..ASKS_A_SERVER
};

/// The most commands that run at once.
pub const JOBS: Setting = Setting {
    name: "jobs",
    short: Some('j'),
    takes: Takes::Value("N"),
    default: Some("32"),
    help: "How many commands run at once on this host, 1 to 1000. Another host may take a tick that cannot start here within a second",
    ..SETTING
};

/// How long commands may take to end after the first signal.
pub const GRACE: Setting = Setting {
    name: "grace",
    takes: Takes::Value("DURATION"),
    default: Some("30s"),
    help: "How long commands may still run after SIGTERM. Then dblock ends them, and another host retries them",
    ..SETTING
};

/// Of which attempts the output is kept.
pub const KEEP_OUTPUT: Setting = Setting {
    name: "keep-output",
    takes: Takes::Value("failed|all|none"),
    files: Files::No,
    default: Some("failed"),
    help: "Of which runs to keep the first 4 kB and the last 60 kB of what the command writes to stdout and stderr, for dblock \
           output: of those that failed, of all, or of none",
    ..SETTING
};

const SETTINGS: &[Setting] = &[
    JOBS,
    GRACE,
    KEEP_OUTPUT,
    run::ON_FAILURE,
    run::ON_END,
    run::SCRUB_ENV,
];

const HELP: &str = "\
Run it with the same file on every host. Each tick of a job runs on one host, by the server's clock, under a durable lock with
the job's name. So dblock status, kill and history work for jobs, too, and dblock run with the same --name excludes the job.
dblock cron check shows what a file means.

A command gets the environment of dblock, the variables of the file, SHELL, LOGNAME and USER as cron sets them, HOME, and
DBLOCK_NAME, DBLOCK_TICK, DBLOCK_ATTEMPT and DBLOCK_FENCE. Its output goes to stdout and stderr with the job's name before each
line. If the file sets MAILTO and the host has a sendmail, the output is mailed instead.

SIGHUP: read FILE again; a file with errors changes nothing. SIGTERM and SIGINT: claim no more ticks, and exit when the commands
have ended. After --grace dblock ends them. A second signal ends them at once with SIGTERM, a third one with SIGKILL.
dblock tells systemd when it is ready (Type=notify) and that it is alive (WatchdogSec).

Exit codes: 0 stopped by a signal; 69 no server in time at the start; 77 the account was refused; 78 the crontab cannot be
read, or something is wrong in it, no tables, or bad configuration; 64 bad usage; 70 internal error; 71 the system refused.

Examples:
  dblock cron run /etc/dblock.crontab
  dblock cron run --jobs 4 --grace 5m /etc/dblock.crontab";

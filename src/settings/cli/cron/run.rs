//! `dblock cron run`: the daemon.

use clap::Command;

use super::super::setting::{Files, SETTING, Setting, Takes};
use super::super::{Cron, Definition, Subcommand, args, connection, output};
use super::file;

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Cron(Cron::Run),
    name: "run",
    about: "Run the jobs of a crontab, each tick on one of all hosts",
    define,
    settings: &[SETTINGS, output::VERBOSITY, connection::SETTINGS],
    arguments: &["file"],
};

/// How many commands run at once.
pub const JOBS: Setting = Setting {
    name: "jobs",
    short: Some('j'),
    takes: Takes::Value("N"),
    files: Files::No,
    default: Some("32"),
    help: "How many commands run at once on this host, 1 to 1000; what cannot start here within a second another host may take",
    ..SETTING
};

/// How long commands may take to end after the first signal.
pub const GRACE: Setting = Setting {
    name: "grace",
    takes: Takes::Value("DURATION"),
    files: Files::No,
    default: Some("30s"),
    help: "How long after SIGTERM the commands that run may take to end; then they are ended, and tried again on another host",
    ..SETTING
};

/// As at `dblock run`, and as an option file says it for that.
const SCRUB_ENV: Setting = Setting {
    name: "scrub-env",
    help: "Remove DBLOCK_URL and the other variables for the connection, and MYSQL_PWD, from the environment of the \
           commands",
    ..SETTING
};

const SETTINGS: &[Setting] = &[JOBS, GRACE, SCRUB_ENV];

fn define(command: Command) -> Command {
    command
        .override_usage("dblock cron run [OPTIONS] <FILE>")
        .args(args(DEFINITION.settings))
        .arg(file("The crontab"))
        .after_help(HELP)
}

const HELP: &str = "\
Run the same on every host. Each tick of a job runs on one of them, by the server's clock, under a durable lock of the job's
name: dblock status, kill and history know it, and dblock run --name excludes it. dblock cron check shows what a file says.

A command gets the environment of dblock with the variables of the file, SHELL, LOGNAME and USER as cron sets them, HOME, and
DBLOCK_NAME, DBLOCK_TICK, DBLOCK_ATTEMPT and DBLOCK_FENCE. What it writes goes to stdout and stderr with the job's name in
front, or by mail where the file sets MAILTO and there is a sendmail.

SIGHUP: read FILE again; one with errors changes nothing. SIGTERM and SIGINT: no more ticks are taken, and dblock exits when
the commands have ended, after --grace at the latest. A second one ends them at once by SIGTERM, a third one by SIGKILL.
It tells systemd when it is ready (Type=notify), and that it is alive (WatchdogSec).

Exit codes: 0 stopped by a signal; 69 no server in time at the start; 77 the account was refused; 78 the crontab cannot be
read, or something is wrong in it, no tables, or bad configuration; 64 bad usage; 70 internal error; 71 the system refused.

Examples:
  dblock cron run /etc/dblock.crontab
  dblock cron run --jobs 4 --grace 5m /etc/dblock.crontab";

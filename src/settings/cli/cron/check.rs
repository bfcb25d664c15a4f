//! `dblock cron check`: reads a crontab.

use super::super::setting::{Files, SETTING, Setting, Takes};
use super::super::{ASKS_A_SERVER, Argument, Cron, Definition, Number, Subcommand};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Cron(Cron::Check),
    name: "check",
    about: "Check a crontab, and show when its jobs are due",
    settings: &[SETTINGS],
    common: &[],
    arguments: &[Argument::new(
        "file",
        "FILE",
        Number::One,
        "The crontab; - is stdin",
    )],
    help: HELP,
    ..ASKS_A_SERVER
};

/// How many times are shown.
pub const NEXT: Setting = Setting {
    name: "next",
    short: Some('n'),
    takes: Takes::Value("N"),
    files: Files::No,
    default: Some("3"),
    help: "Show the next N times of each job, 0 to 1000",
    ..SETTING
};

const SETTINGS: &[Setting] = &[NEXT];

const HELP: &str = "\
Each error in the crontab is a line on stderr: FILE:LINE, and what is wrong. If there is none, each job is shown with its next
times, by this host's clock and in the job's time zone. It connects to no server, and runs no command.
dblock cron --help lists the options of a job.

Exit codes: 0 nothing is wrong; 78 the crontab cannot be read, or something is wrong in it; 64 bad usage; 70 internal error.

Examples:
  dblock cron check /etc/dblock.crontab
  crontab -l | dblock cron check - -n 1";

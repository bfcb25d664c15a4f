//! `dblock cron pause`, `resume` and `trigger`: rows, for they have the same arguments and settings.

use super::super::{ASKS_A_SERVER, Argument, Cron, Definition, Number, Subcommand};

/// The job.
const JOB: Argument = Argument::new("name", "NAME", Number::One, "The job");

const OF_JOB: Definition = Definition {
    arguments: &[JOB],
    ..ASKS_A_SERVER
};

/// `dblock cron pause`
pub const PAUSE: Definition = Definition {
    subcommand: Subcommand::Cron(Cron::Pause),
    name: "pause",
    about: "Pause a job: its ticks are skipped until it is resumed",
    help: "\
A run that has started goes on, with its retries. dblock cron trigger still runs the job. Skipped ticks are not run later.

Exit codes: 0 done; 69 no server in time; 77 the account was refused; 78 there is no such job, no tables, or bad
configuration; 64 bad usage; 70 internal error; 71 the system refused.

Examples:
  dblock cron pause report",
    ..OF_JOB
};

/// `dblock cron resume`
pub const RESUME: Definition = Definition {
    subcommand: Subcommand::Cron(Cron::Resume),
    name: "resume",
    about: "Resume a paused job: it runs at its ticks again",
    help: "\
The ticks that were skipped are not run later. The history says how many there were.

Exit codes: 0 done; 69 no server in time; 77 the account was refused; 78 there is no such job, no tables, or bad
configuration; 64 bad usage; 70 internal error; 71 the system refused.

Examples:
  dblock cron resume report",
    ..OF_JOB
};

/// `dblock cron trigger`
pub const TRIGGER: Definition = Definition {
    subcommand: Subcommand::Cron(Cron::Trigger),
    name: "trigger",
    about: "Run a job once now, in addition to its ticks",
    help: "\
A daemon starts the job within about a second, even if it is paused. If the job is running already, its --overlap decides.

Exit codes: 0 done; 69 no server in time; 77 the account was refused; 78 there is no such job, no tables, or bad
configuration; 64 bad usage; 70 internal error; 71 the system refused.

Examples:
  dblock cron trigger report",
    ..OF_JOB
};

//! `dblock cron pause`, `resume` and `trigger`: rows, for they have the same arguments and settings.

use super::super::{Argument, Cron, Definition, Number, Subcommand, connection, output};

/// The job.
const JOB: Argument = Argument::new("name", "NAME", Number::One, "The job");

const fn of_job(
    subcommand: Cron,
    name: &'static str,
    about: &'static str,
    help: &'static str,
) -> Definition {
    Definition {
        subcommand: Subcommand::Cron(subcommand),
        name,
        about,
        settings: &[output::VERBOSITY, connection::SETTINGS],
        usage: None,
        arguments: &[JOB],
        help,
    }
}

/// `dblock cron pause`
pub const PAUSE: Definition = of_job(
    Cron::Pause,
    "pause",
    "Pause a job: its ticks are skipped until it is resumed",
    "\
A run that has started goes on, with its retries. dblock cron trigger still runs the job. Skipped ticks are not run later.

Exit codes: 0 done; 69 no server in time; 77 the account was refused; 78 there is no such job, no tables, or bad
configuration; 64 bad usage; 70 internal error; 71 the system refused.

Examples:
  dblock cron pause report",
);

/// `dblock cron resume`
pub const RESUME: Definition = of_job(
    Cron::Resume,
    "resume",
    "Resume a paused job: it runs at its ticks again",
    "\
The ticks that were skipped are not run later. The history says how many there were.

Exit codes: 0 done; 69 no server in time; 77 the account was refused; 78 there is no such job, no tables, or bad
configuration; 64 bad usage; 70 internal error; 71 the system refused.

Examples:
  dblock cron resume report",
);

/// `dblock cron trigger`
pub const TRIGGER: Definition = of_job(
    Cron::Trigger,
    "trigger",
    "Run a job once now, in addition to its ticks",
    "\
A daemon starts the job within about a second, even if it is paused. If the job is running already, its --overlap decides.

Exit codes: 0 done; 69 no server in time; 77 the account was refused; 78 there is no such job, no tables, or bad
configuration; 64 bad usage; 70 internal error; 71 the system refused.

Examples:
  dblock cron trigger report",
);

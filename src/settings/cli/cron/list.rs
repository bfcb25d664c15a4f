//! `dblock cron list`: all jobs.

use clap::Command;

use super::super::{Cron, Definition, Subcommand, args, connection, output};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Cron(Cron::List),
    name: "list",
    about: "Show each job: when it is due, when and where it ran last, and how that ended",
    define,
    settings: &[output::JSON, output::VERBOSITY, connection::SETTINGS],
    arguments: &[],
};

fn define(command: Command) -> Command {
    command.args(args(DEFINITION.settings)).after_help(HELP)
}

const HELP: &str = "\
A job is late when its tick is due for more than a minute and nobody has taken it. A daemon whose file has another schedule
for a job than is in force is named below the table; it does not run that job. So is one whose file has another command, other
options or variables than were read last; it runs the job by its own file. Times are the server's, in UTC.

Exit codes: 0 done; 69 no server in time; 77 the account was refused; 78 no tables, or bad configuration; 64 bad usage;
70 internal error; 71 the system refused.

Examples:
  dblock cron list
  dblock cron list --json | jq -r '.jobs[] | select(.late_seconds) | .name'";

//! `dblock cron list`: all jobs.

use super::super::{ASKS_A_SERVER, Cron, Definition, Subcommand, output};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Cron(Cron::List),
    name: "list",
    about: "Show each job: its next tick, and when and where it ran last and how that ended",
    settings: &[output::JSON, &[output::WATCH], output::COLOR],
    help: HELP,
    ..ASKS_A_SERVER
};

const HELP: &str = "\
A job is late if its tick has been due for more than a minute and no daemon has claimed it. The lines below the table name
each daemon whose file differs. With another schedule than the one in force, a daemon does not run the job. With another
command, or other options or variables, it runs the job by its own file. Times are in UTC, by the server's clock.

Exit codes: 0 done; 69 no server in time; 77 the account was refused; 78 no tables, or bad configuration; 64 bad usage;
70 internal error; 71 the system refused.

Examples:
  dblock cron list
  dblock cron list --json | jq -r '.jobs[] | select(.late_seconds) | .name'";

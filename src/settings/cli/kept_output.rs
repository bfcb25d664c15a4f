//! `dblock output`: what a run or a job has written, as far as it is kept.

use super::{ASKS_A_SERVER, Argument, Definition, Number, Subcommand};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Output,
    name: "output",
    about: "Print what a command wrote, as far as it is kept",
    arguments: &[Argument::new(
        "of",
        "RUN|NAME|QUEUE#ID",
        Number::One,
        "The run, by its number in dblock history --json; or a name: its latest run with output, or the latest job of a queue; or a job of \
         a queue",
    )],
    help: HELP,
    ..ASKS_A_SERVER
};

const HELP: &str = "\
The output of a command is kept if dblock run --keep-output, dblock cron run or dblock queue work was told so, as long as its run
is in the history, or as long as its job is there. stdout and stderr are printed to stdout as they were written, together and
byte for byte; to a terminal, what would steer it is escaped. If something was left out in the middle, a line on stderr says how
much. It needs dblock's tables (dblock init). SELECT on them is enough, and a replica works, too.

Exit codes: 0; 75 there is none; 69 no server in time; 77 the account was refused; 78 no tables, or bad configuration; 64 bad
usage; 70 internal error; 71 the system refused.

Examples:
  dblock output nightly-report
  dblock output mails#4711 | less";

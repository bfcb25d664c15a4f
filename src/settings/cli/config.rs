//! `dblock config`: which settings are in force. It takes whatever `dblock run` takes.

use super::{ASKS_A_SERVER, Argument, Definition, Number, Subcommand, output, run};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Config,
    name: "config",
    about: "Print every setting in force and where it comes from",
    settings: &[output::JSON, run::WHICH_LOCK, run::SETTINGS],
    usage: Some("dblock config [OPTIONS] [--] [COMMAND] [ARG]..."),
    arguments: &[Argument::new(
        "command",
        "COMMAND",
        Number::CommandIfAny,
        "The command; it is not run",
    )],
    help: HELP,
    ..ASKS_A_SERVER
};

const HELP: &str = "\
A flag beats the environment, which beats [dblock] in a MySQL option file, which beats [client] there (PostgreSQL: a
service, and then variables as PGHOST), which beats the
default. Write config instead of run to see what that run would use. Passwords are shown as ***.

Exit codes: 0; 64 bad usage; 78 bad configuration. After 64 and 78, too, it prints what it could read.";

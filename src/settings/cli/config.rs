//! `dblock config`: which settings are in force. It takes whatever `dblock run` takes.

use clap::Command;

use super::{Definition, Subcommand, args, arguments, connection, output, run};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Config,
    name: "config",
    about: "Print every setting in force and where it comes from",
    define,
    settings: &[
        output::JSON,
        run::WHICH_LOCK,
        run::SETTINGS,
        output::VERBOSITY,
        connection::SETTINGS,
    ],
    arguments: &["command"],
};

fn define(command: Command) -> Command {
    command
        .override_usage("dblock config [OPTIONS] [--] [COMMAND] [ARG]...")
        .args(args(DEFINITION.settings))
        .arg(
            arguments("command", "COMMAND")
                .help("The command; it is not run")
                .trailing_var_arg(true),
        )
        .after_help(HELP)
}

const HELP: &str = "\
A flag beats the environment, which beats [dblock] in a MySQL option file, which beats [client] there, which beats the
default. Write config instead of run to see what that run would use. Passwords are shown as ***.

Exit codes: 0; 64 bad usage; 78 bad configuration. After 64 and 78, too, it prints what it could read.";

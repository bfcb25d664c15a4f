//! dblock: flock(1) for a fleet. Parses, dispatches, prints the one line of an error, and exits: nothing else exits, but for
//! the keeper, which is a process of its own.

mod base;
mod commands;
mod db;
mod isolated;
mod keeper;
mod lock;
#[cfg(test)]
mod manual;
mod settings;
mod supervise;

use std::fmt::Display;

use clap::Parser;
use clap::error::ErrorKind;

use base::exit::{Ending, Failure, Reason};
use base::log::{Level, Log};
use base::static_glibc;
use settings::cli::{Cli, Command};

/// Bytes that the heap grows by at a time. A run needs some hundred thousand, and each growth is a system call; what is not used
/// is no memory.
#[cfg(target_env = "gnu")]
const HEAP_STEP: libc::c_int = 1024 * 1024;

fn main() {
    static_glibc::load_no_modules();
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a number, and no other thread is there.
    unsafe {
        libc::mallopt(libc::M_TOP_PAD, HEAP_STEP);
    }
    let ending = match Cli::try_parse() {
        Ok(cli) => dispatch(cli),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            ) =>
        {
            // A reader that has seen enough, as `head`, is no error.
            let _ = error.print();
            Ending::Code(0)
        }
        Err(error) => {
            say(one_line(&error));
            Ending::Code(Reason::Usage.code())
        }
    };
    ending.exit()
}

fn dispatch(cli: Cli) -> Ending {
    let ended = match cli.command {
        Command::Run(args) => commands::run::run(args),
        Command::Status(args) => commands::status::status(args),
        Command::Kill(args) => commands::kill::kill(args),
        Command::Check(args) => commands::check::check(args),
        Command::Config(args) => commands::config::config(args),
    };
    ended.unwrap_or_else(|error| {
        say(format_args!("{error:#}"));
        let reason = error
            .downcast_ref::<Failure>()
            .map_or(Reason::Internal, |failure| failure.reason);
        Ending::Code(reason.code())
    })
}

/// The one line of an error, which is shown whatever was asked for.
fn say(error: impl Display) {
    let log = Log {
        shown: Level::Error,
    };
    log.error(error);
}

/// clap's error without its usage text, which spans lines; its advice only where it names an option that is meant.
fn one_line(error: &clap::Error) -> String {
    let whole = error.to_string();
    let paragraphs = whole.trim_start_matches("error: ").split("\n\n");
    let told = paragraphs
        .take_while(|text| !text.starts_with("Usage:") && !text.starts_with("For more information"))
        .filter(|text| !text.trim_start().starts_with("tip:") || text.contains("similar"))
        .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let told = told.collect::<Vec<_>>().join("; ");
    // A URL with a password may have landed in the place of something else.
    if told.contains('@') {
        return "that cannot be understood; see dblock --help".to_owned();
    }
    format!("{told}; see dblock --help")
}

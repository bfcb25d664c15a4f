//! dblock: flock(1) for a fleet. Parses, dispatches, prints the one line of an error, and exits: nothing else exits, but for
//! the keeper, which is a process of its own. A new subcommand is a file in `settings/cli`, a file in `commands`, and a line here.

mod base;
mod commands;
mod cron;
mod crond;
mod db;
mod history;
mod isolated;
mod keeper;
mod lock;
mod queue;
mod run;
mod schema;
mod settings;
mod supervise;
mod work;

use std::fmt::Display;

use clap::error::{ContextKind, ErrorKind};

use base::exit::{Ending, Failure, Reason};
use base::log::{Level, Log};
use base::static_glibc;
use base::value::may_have_password;
use commands::output::print;
use settings::cli::{self, CommandLine, Subcommand};

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
    let ending = match cli::parse() {
        Ok((subcommand, command_line)) => dispatch(subcommand, command_line),
        Err(error) => stopped_by_clap(&error),
    };
    ending.exit()
}

/// Prints the help or the version that was asked for, the help where nothing was, or what is wrong with the command line.
fn stopped_by_clap(error: &clap::Error) -> Ending {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Not by clap, which does not see that stdout is closed.
            if let Err(failure) = print(&error.render().to_string()) {
                log_error(&failure);
                return Ending::Code(failure.reason.code());
            }
            return Ending::Code(0);
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
        }
        _ => log_error(one_line(error)),
    }
    Ending::Code(Reason::Usage.code())
}

fn dispatch(subcommand: Subcommand, command_line: CommandLine) -> Ending {
    let ended = match subcommand {
        Subcommand::Run => commands::run::run(command_line),
        Subcommand::Status => commands::status::status(command_line),
        Subcommand::Kill => commands::kill::kill(command_line),
        Subcommand::Check => commands::check::check(command_line),
        Subcommand::Config => commands::config::config(command_line),
        Subcommand::Init => commands::init::init(command_line),
        Subcommand::Acquire => commands::acquire::acquire(command_line),
        Subcommand::Renew => commands::renew::renew(command_line),
        Subcommand::Release => commands::release::release(command_line),
        Subcommand::History => commands::history::history(command_line),
        Subcommand::Audit => commands::audit::audit(command_line),
        Subcommand::Output => commands::kept_output::kept_output(command_line),
        Subcommand::Metrics => commands::metrics::metrics(command_line),
        Subcommand::Web => commands::web::web(&command_line),
        Subcommand::Cron(action) => commands::cron::cron(action, command_line),
        Subcommand::Queue(action) => commands::queue::queue(action, command_line),
    };
    ended.unwrap_or_else(|error| {
        log_error(format_args!("{error:#}"));
        let reason = error
            .downcast_ref::<Failure>()
            .map_or(Reason::Internal, |failure| failure.reason);
        Ending::Code(reason.code())
    })
}

/// The one line of an error, which is shown whatever was asked for.
fn log_error(error: impl Display) {
    let log = Log {
        shown: Level::Error,
    };
    log.error(error);
}

/// clap's error without its usage text, which spans lines; its advice only where it names an option that is meant, and not to pass a
/// mistyped option to the command.
fn one_line(error: &clap::Error) -> String {
    let whole = error.to_string();
    let paragraphs = whole.trim_start_matches("error: ").split("\n\n");
    let is_meant = |line: &&str| !line.contains("tip:") || line.contains("similar");
    let sentences = paragraphs
        .take_while(|text| !text.starts_with("Usage:") && !text.starts_with("For more information"))
        .map(|text| text.lines().filter(is_meant).collect::<Vec<_>>().join(" "))
        .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|text| !text.is_empty());
    let line = sentences.collect::<Vec<_>>().join("; ");
    let usage = error.get(ContextKind::Usage).map(ToString::to_string);
    let command = command_of(usage.as_deref().unwrap_or("Usage: dblock"));
    // A URL with a password may have landed in the place of something else.
    if may_have_password(&line) {
        return format!("this command line cannot be understood; see {command} --help");
    }
    format!("{line}; see {command} --help")
}

/// The command that this is the usage of: the words before all that may be given to it.
fn command_of(usage: &str) -> String {
    let is_command = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase());
    let words = usage.trim_start_matches("Usage:").split_whitespace();
    words.take_while(is_command).collect::<Vec<_>>().join(" ")
}

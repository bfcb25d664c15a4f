//! The page of a fleet: who holds which lock, what ran and how it ended, how deep the queues are. It speaks to no database: it runs
//! `dblock … --json`, as a person would.

mod access;
mod actions;
mod assets;
mod base;
mod charts;
#[expect(
    dead_code,
    unused_imports,
    reason = "of dblock's command line, only that of the page is used here"
)]
#[path = "../../../src/settings/cli/mod.rs"]
mod cli;
mod cron;
mod fleet;
mod options;
mod pages;
mod serve;

use std::env;
use std::io;
use std::process::ExitCode;

use clap::error::ErrorKind;
use nix::sys::signal::{SigHandler, Signal, signal};

use base::exit::{Failure, Reason};
use base::text::in_words;
use options::Options;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            base::say(&failure.line);
            failure.reason.code().into()
        }
    }
}

fn run() -> Result<(), Failure> {
    let command_line = match cli::web::parse(env::args_os().skip(1)) {
        Ok(command_line) => command_line,
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            ) =>
        {
            return match error.print() {
                // A reader that has seen enough, as `head`, is no error.
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    let line = format!("cannot write to stdout: {}", in_words(&error));
                    Err(Failure::new(Reason::Internal, line))
                }
                _ => Ok(()),
            };
        }
        Err(error) => return Err(Failure::new(Reason::Usage, one_line(&error))),
    };
    let options = Options::of(command_line)?;
    // Who started this may have it ignored: then the end of no dblock could be waited for.
    // SAFETY: sets the default disposition, before there is a child.
    let _ = unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) };
    serve::run(&options)
}

/// clap's error without its usage text, which spans lines.
fn one_line(error: &clap::Error) -> String {
    let whole = error.to_string();
    let first = whole
        .trim_start_matches("error: ")
        .split("\n\n")
        .next()
        .unwrap_or_default();
    let words: Vec<_> = first.split_whitespace().collect();
    // A URL with a password may have landed in the place of something else.
    if first.contains('@') {
        return "this command line cannot be understood; see dblock web --help".to_owned();
    }
    format!("{}; see dblock web --help", words.join(" "))
}

//! One file for each subcommand.

pub mod check;
pub mod config;
pub mod run;

use std::io::{self, Write};

use crate::exit::{Failure, Reason};
use crate::report::in_words;

/// Prints what was asked for. A reader that has seen enough, as `head`, is no error.
fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let told = format!("cannot write to stdout: {}", in_words(&error));
            Err(Failure::new(Reason::Internal, told))
        }
        _ => Ok(()),
    }
}

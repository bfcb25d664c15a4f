//! One file for each subcommand; `inquiry`, which those share that question a server, and `of_token`, which `renew` and `release` share.

pub mod acquire;
pub mod check;
pub mod config;
pub mod cron;
pub mod history;
pub mod init;
mod inquiry;
pub mod kill;
mod of_token;
pub mod queue;
pub mod release;
pub mod renew;
pub mod run;
pub mod status;

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::SystemTime;

use nix::errno::Errno;

use crate::base::exit::{Failure, Reason};
use crate::base::text::{in_words, moment};
use crate::supervise::was_closed;

/// Prints what was asked for. A reader that has seen enough, as `head`, is no error; that stdout is closed is one, as for `ls`.
fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// As [`print`], for what need not be text.
fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    if was_closed(libc::STDOUT_FILENO) {
        return Err(cannot_write(&Errno::EBADF.into()));
    }
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(cannot_write(&error)),
        _ => Ok(()),
    }
}

/// Prints what must reach somebody: that stdout is closed, or that nobody reads it, is an error.
fn print_to_reader(text: &str) -> Result<(), Failure> {
    let written = if was_closed(libc::STDOUT_FILENO) {
        Err(Errno::EBADF.into())
    } else {
        // Not `Stdout`, to which a bad descriptor is as good as another.
        let stdout = io::stdout().as_fd().try_clone_to_owned();
        stdout.and_then(|stdout| File::from(stdout).write_all(text.as_bytes()))
    };
    written.map_err(|error| cannot_write(&error))
}

fn cannot_write(error: &io::Error) -> Failure {
    let line = format!("cannot write to stdout: {}", in_words(error));
    Failure::new(Reason::Internal, line)
}

/// Rows of as many cells each, in columns that are as wide as need be.
fn in_columns(rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).map(width).collect();
    let mut table = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        let _ = writeln!(table, "{}", line.trim_end());
    }
    table
}

/// A moment for people.
fn to_the_second(at: SystemTime) -> String {
    moment(at)
        .chars()
        .take(19)
        .collect::<String>()
        .replace('T', " ")
}

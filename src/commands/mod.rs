//! One file for each subcommand. `inquiry` is shared by those that ask a server, and `of_token` by `renew` and `release`.

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

use std::fmt::{Display, Write as _};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::SystemTime;

use nix::errno::Errno;
use serde::Serialize;
use serde_json::Value;

use crate::base::exit::{Failure, Reason};
use crate::base::log::{Level, Log};
use crate::base::text::{in_words, json_printable, moment, printable};
use crate::supervise::was_closed;

/// Prints an answer. A reader that stops early, such as `head`, is no error. A closed stdout is one, as for `ls`.
fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// As [`print`], for bytes that need not be text.
fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    write_stdout(bytes).map_err(|error| cannot_write(&error))
}

/// Prints one line with what was done, unless `--quiet`. If it cannot be written, that is a warning: the exit code must not say that
/// nothing was done.
fn print_done(log: Log, line: impl Display) {
    if log.shown == Level::Error {
        return;
    }
    if let Err(error) = write_stdout(format!("{}\n", printable(&line.to_string())).as_bytes()) {
        let why = in_words(&error);
        log.warning(format_args!("{line}; cannot write this to stdout: {why}"));
    }
}

/// Writes to stdout, unless its reader has gone.
fn write_stdout(bytes: &[u8]) -> io::Result<()> {
    if was_closed(libc::STDOUT_FILENO) {
        return Err(Errno::EBADF.into());
    }
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Prints something that must reach a reader. A closed stdout is an error, and so is a pipe without a reader.
fn print_to_reader(text: &str) -> Result<(), Failure> {
    let written = if was_closed(libc::STDOUT_FILENO) {
        Err(Errno::EBADF.into())
    } else {
        // Not through `Stdout`, which ignores a bad descriptor.
        let stdout = io::stdout().as_fd().try_clone_to_owned();
        stdout.and_then(|stdout| File::from(stdout).write_all(text.as_bytes()))
    };
    written.map_err(|error| cannot_write(&error))
}

fn cannot_write(error: &io::Error) -> Failure {
    let line = format!("cannot write to stdout: {}", in_words(error));
    Failure::new(Reason::Internal, line)
}

/// The output of `--json`: one object in several lines, with its members in alphabetical order.
fn in_json(answer: &impl Serialize) -> String {
    format!("{}\n", json_printable(&format!("{:#}", json_value(answer))))
}

/// The members of a [`Value`] are in alphabetical order.
fn json_value(answer: &impl Serialize) -> Value {
    serde_json::to_value(answer).expect("numbers, texts and lists of them")
}

/// Aligns rows with the same number of cells in columns.
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

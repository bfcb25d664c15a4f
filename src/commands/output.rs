//! What a subcommand writes to stdout: an answer, for people or as JSON, or a line that says what was done.

use std::env;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use nix::errno::Errno;
use serde::Serialize;
use serde_json::Value;

use crate::base::exit::{Failure, Reason};
use crate::base::log::{Level, Log};
use crate::base::terminal::{safe_to_show, size_of};
use crate::base::text::{in_words, json_printable, printable};
use crate::supervise::was_closed;

/// Prints an answer. A reader that stops early, such as `head`, is no error. A closed stdout is one, as for `ls`.
///
/// # Errors
/// It cannot be written.
pub fn print(text: &str) -> Result<(), Failure> {
    write_stdout(text.as_bytes()).map_err(|error| cannot_write(&error))
}

/// As [`print`], for bytes that others wrote, and that need not be text. A terminal is not steered by them; a pipe or a file gets them as
/// they are.
///
/// # Errors
/// As [`print`].
pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    if io::stdout().is_terminal() {
        return print(&safe_to_show(bytes));
    }
    write_stdout(bytes).map_err(|error| cannot_write(&error))
}

/// The width in columns of the terminal that stdout is: what `COLUMNS` says, as for `ps` and `systemctl`, or the real one. `None`: stdout
/// is no terminal, or it has no known width.
pub fn terminal_width() -> Option<usize> {
    let (_, real) = size_of(io::stdout().as_fd())?;
    let columns = env::var("COLUMNS").ok();
    let columns = columns.and_then(|columns| columns.parse().ok());
    let widths = [columns.unwrap_or_default(), real];
    widths.into_iter().find(|width| *width > 0)
}

/// Prints an answer, as JSON or for people.
///
/// # Errors
/// As [`print`].
pub fn print_answer<J: Serialize>(
    json: bool,
    for_programs: impl FnOnce() -> J,
    for_people: impl FnOnce() -> String,
) -> Result<(), Failure> {
    print(&if json {
        in_json(&for_programs())
    } else {
        for_people()
    })
}

/// Prints one line with what was done, unless `--quiet`. If it cannot be written, that is a warning: the exit code must not say that
/// nothing was done.
pub fn print_done(log: Log, line: impl Display) {
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
///
/// # Errors
/// It cannot be written.
pub fn print_to_reader(text: &str) -> Result<(), Failure> {
    let written = if was_closed(libc::STDOUT_FILENO) {
        Err(Errno::EBADF.into())
    } else {
        // Not through `Stdout`, which ignores a bad descriptor.
        let stdout = io::stdout().as_fd().try_clone_to_owned();
        stdout.and_then(|stdout| File::from(stdout).write_all(text.as_bytes()))
    };
    written.map_err(|error| cannot_write(&error))
}

/// The failure to write to stdout.
pub fn cannot_write(error: &io::Error) -> Failure {
    let line = format!("cannot write to stdout: {}", in_words(error));
    Failure::new(Reason::Internal, line)
}

/// The output of `--json`: one object in several lines, with its members in alphabetical order.
pub fn in_json(answer: &impl Serialize) -> String {
    format!("{}\n", json_printable(&format!("{:#}", json_value(answer))))
}

/// The members of a [`Value`] are in alphabetical order.
pub fn json_value(answer: &impl Serialize) -> Value {
    serde_json::to_value(answer).expect("numbers, texts and lists of them")
}

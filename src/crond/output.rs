//! What the commands of a daemon write: whole lines with the job's name in front go to dblock's own stdout and stderr; or all of it is
//! kept for a mail. Nothing here waits: what nobody reads stays in the pipe of the command.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::mail::Mail;
use crate::base::clock::Moment;
use crate::base::log::{PATIENCE, write_what_fits};

/// Bytes of a line at most: with the name in front it is less than `PIPE_BUF`, so that lines of several jobs do not mix.
const LONGEST_LINE: usize = 3500;

/// Bytes that are read, and written, at once: a pipe takes so many as a whole (`PIPE_BUF`).
const PIECE: usize = 4096;

/// Bytes of a stream that are passed on before another one has its turn. A pipe holds so many unless its command has enlarged it.
const MOST: usize = 64 * 1024;

/// One round in which streams are passed on: after it the daemon sees to its other business, however much they write.
#[derive(Debug, Clone, Copy)]
pub struct Round(Moment);

impl Round {
    /// One that begins now.
    pub fn begin() -> Self {
        Self(Moment::now() + PATIENCE)
    }

    /// Whether the rest is left to the next one.
    pub fn is_over(self) -> bool {
        self.0 <= Moment::now()
    }
}

/// dblock's own stdout or stderr.
#[derive(Debug)]
pub struct Outlet {
    is_stderr: bool,
    /// Whole lines, and how much of them is written.
    lines: Vec<u8>,
    written: usize,
    /// Why lines could not be written, and whether that was told.
    fault: Option<io::Error>,
    was_told: bool,
}

impl Outlet {
    /// stdout and stderr.
    pub fn both() -> [Self; 2] {
        [false, true].map(|is_stderr| Self {
            is_stderr,
            lines: Vec::new(),
            written: 0,
            fault: None,
            was_told: false,
        })
    }

    /// Whether all lines are written.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Whether it takes more: all lines are written, and the next one can be.
    pub fn has_room(&self) -> bool {
        self.is_empty() && self.is_writable()
    }

    /// Whether something can be written. What is closed, or broken, takes everything.
    pub fn is_writable(&self) -> bool {
        with_descriptor(self.is_stderr, |descriptor| {
            let mut descriptors = [PollFd::new(descriptor, PollFlags::POLLOUT)];
            !matches!(poll(&mut descriptors, PollTimeout::ZERO), Ok(0))
        })
    }

    /// Writes what there is room for; whether that was all.
    pub fn flush(&mut self) -> bool {
        while let rest @ [_, ..] = &self.lines[self.written..] {
            let piece = &rest[..rest.len().min(PIECE)];
            let end = piece.iter().rposition(|byte| *byte == b'\n');
            let piece = &piece[..end.map_or(piece.len(), |end| end + 1)];
            let written = with_descriptor(self.is_stderr, |to| write_what_fits(to, piece));
            match written {
                Ok(length @ 1..) => self.written += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    self.fault = Some(error);
                    break;
                }
                Ok(0) | Err(_) => return false,
            }
        }
        self.lines.clear();
        self.written = 0;
        true
    }

    /// Why lines are lost, the first time.
    pub fn lost(&mut self) -> Option<io::Error> {
        let fault = self.fault.take()?;
        (!std::mem::replace(&mut self.was_told, true)).then_some(fault)
    }

    fn add(&mut self, name: &str, line: &[u8]) {
        for part in [name.as_bytes(), b": ", line, b"\n"] {
            self.lines.extend_from_slice(part);
        }
    }
}

fn with_descriptor<T>(is_stderr: bool, use_it: impl FnOnce(BorrowedFd) -> T) -> T {
    if is_stderr {
        use_it(io::stderr().as_fd())
    } else {
        use_it(io::stdout().as_fd())
    }
}

/// Where the output of an attempt goes.
#[derive(Debug)]
pub enum Sink {
    /// To dblock's own stdout and stderr, with this in front of each line.
    Lines(String),
    /// Into a mail.
    Mail(Mail),
}

/// One of the two streams of an attempt.
#[derive(Debug)]
pub struct Stream {
    /// `None`: its end was read.
    pub file: Option<File>,
    is_stderr: bool,
    /// The beginning of a line.
    begun: Vec<u8>,
}

impl Stream {
    /// That of stdout or stderr, which can be read from here and never waits.
    pub fn new(file: File, is_stderr: bool) -> Self {
        Self {
            file: Some(file),
            is_stderr,
            begun: Vec::new(),
        }
    }

    /// Its file, if there is room for what it says.
    pub fn wanted(&self, sink: &Sink, has_room: [bool; 2]) -> Option<&File> {
        let is_wanted = matches!(sink, Sink::Mail(..)) || has_room[usize::from(self.is_stderr)];
        self.file.as_ref().filter(|_| is_wanted)
    }

    /// Passes on what is there, as far as there is room, up to a limit and the end of the round; whether that was all.
    pub fn pass_on(&mut self, sink: &mut Sink, outlets: &mut [Outlet; 2], round: Round) -> bool {
        let outlet = &mut outlets[usize::from(self.is_stderr)];
        let is_mail = matches!(sink, Sink::Mail(..));
        let mut bytes = [0; PIECE];
        let mut left = MOST;
        while left > 0 && !round.is_over() && (is_mail || outlet.has_room()) {
            let Some(file) = &mut self.file else {
                return true;
            };
            match file.read(&mut bytes) {
                Ok(length @ 1..) => {
                    left = left.saturating_sub(length);
                    self.take(&bytes[..length], sink, outlet);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Ok(0) | Err(_) => {
                    self.file = None;
                    self.end_line(sink, outlet);
                }
            }
            outlet.flush();
        }
        self.file.is_none()
    }

    /// Passes on what a command that has ended has written, also the beginning of a line that does not end. What there is no room for
    /// is left, but not of a mail.
    pub fn finish(&mut self, sink: &mut Sink, outlets: &mut [Outlet; 2]) {
        // A process that the command has left behind may write for ever.
        let round = Round::begin();
        let mut is_all = self.pass_on(sink, outlets, round);
        while !is_all && !round.is_over() && matches!(sink, Sink::Mail(..)) {
            is_all = self.pass_on(sink, outlets, round);
        }
        if is_all {
            let outlet = &mut outlets[usize::from(self.is_stderr)];
            self.end_line(sink, outlet);
            outlet.flush();
        }
    }

    fn end_line(&mut self, sink: &Sink, outlet: &mut Outlet) {
        if let (Sink::Lines(name), false) = (sink, self.begun.is_empty()) {
            outlet.add(name, &std::mem::take(&mut self.begun));
        }
    }

    fn take(&mut self, bytes: &[u8], sink: &mut Sink, outlet: &mut Outlet) {
        match sink {
            Sink::Mail(mail) => mail.add(bytes),
            Sink::Lines(name) => {
                for part in bytes.split_inclusive(|byte| *byte == b'\n') {
                    self.begun
                        .extend_from_slice(part.strip_suffix(b"\n").unwrap_or(part));
                    while part.ends_with(b"\n") || self.begun.len() >= LONGEST_LINE {
                        let rest = self.begun.split_off(self.begun.len().min(LONGEST_LINE));
                        outlet.add(name, &self.begun);
                        self.begun = rest;
                        if self.begun.is_empty() {
                            break;
                        }
                    }
                }
            }
        }
    }
}

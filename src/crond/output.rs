//! The output of a daemon's commands: whole lines, with the job's name in front, go to dblock's own stdout and stderr, or all of it is
//! kept for a mail. Nothing here waits: unread output stays in the command's pipe.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::mail::Mail;
use crate::base::clock::Moment;
use crate::base::log::{PATIENCE, write_what_fits};

/// The most bytes of a line. With the name in front it stays below `PIPE_BUF`, so that lines of several jobs do not mix.
const LONGEST_LINE: usize = 3500;

/// The bytes of one read or write: a pipe takes this many as a whole (`PIPE_BUF`).
const PIECE: usize = 4096;

/// The most bytes that are passed on from one stream before another one's turn. That is the size of a pipe, unless its command has
/// enlarged it.
const MOST: usize = 64 * 1024;

/// One round of passing output on. Its time is limited, so that the daemon does its other work, however much the streams write.
#[derive(Debug, Clone, Copy)]
pub struct Round(Moment);

impl Round {
    /// A round that begins now.
    pub fn begin() -> Self {
        Self(Moment::now() + PATIENCE)
    }

    /// Whether the rest must wait for the next round.
    pub fn is_over(self) -> bool {
        self.0 <= Moment::now()
    }
}

/// dblock's own stdout or stderr.
#[derive(Debug)]
pub struct Outlet {
    is_stderr: bool,
    /// Whole lines, and how many of their bytes are written.
    lines: Vec<u8>,
    written: usize,
    /// Why lines could not be written, and whether that was reported.
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

    /// Whether it accepts more: all lines are written, and another could be.
    pub fn has_room(&self) -> bool {
        self.is_empty() && self.is_writable()
    }

    /// Whether a write would succeed now. A closed or broken outlet accepts everything.
    pub fn is_writable(&self) -> bool {
        with_descriptor(self.is_stderr, |descriptor| {
            let mut descriptors = [PollFd::new(descriptor, PollFlags::POLLOUT)];
            !matches!(poll(&mut descriptors, PollTimeout::ZERO), Ok(0))
        })
    }

    /// Writes as much as fits. Returns whether that was all.
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

    /// Why lines are lost. Only the first time.
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

/// The destination of an attempt's output.
#[derive(Debug)]
pub enum Sink {
    /// dblock's own stdout and stderr, with this prefix for each line.
    Lines(String),
    /// A mail.
    Mail(Mail),
}

/// One of the two streams of an attempt.
#[derive(Debug)]
pub struct Stream {
    /// `None`: it was read to its end.
    pub file: Option<File>,
    is_stderr: bool,
    /// The start of an unfinished line.
    begun: Vec<u8>,
}

impl Stream {
    /// A stream that reads from this file, which must not block.
    pub fn new(file: File, is_stderr: bool) -> Self {
        Self {
            file: Some(file),
            is_stderr,
            begun: Vec::new(),
        }
    }

    /// Its file, if there is room for its output.
    pub fn wanted(&self, sink: &Sink, has_room: [bool; 2]) -> Option<&File> {
        let is_wanted = matches!(sink, Sink::Mail(..)) || has_room[usize::from(self.is_stderr)];
        self.file.as_ref().filter(|_| is_wanted)
    }

    /// Passes on what is there, as far as there is room, up to a limit and the end of the round. Returns whether that was all.
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

    /// Passes on the last output of a command that has ended, even an unfinished line. What has no room is left in the pipe, except for a
    /// mail.
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

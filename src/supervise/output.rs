//! The output of commands, and where it goes: through dblock's own stderr, or as whole lines with a name in front of each, or into a file.
//! Nothing here waits for long.

use std::collections::VecDeque;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read, Stderr, Stdout, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::LazyLock;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::pipe2;

use crate::base::clock::Moment;
use crate::base::log::{PATIENCE, write_stderr, write_what_fits};
use crate::base::text::printable;

/// The most bytes of a line. With the name in front it stays below `PIPE_BUF`, so that lines of several commands do not mix.
const LONGEST_LINE: usize = 3500;

/// The bytes of one read or write: a pipe takes this many as a whole (`PIPE_BUF`).
const PIECE: usize = 4096;

/// The most bytes that are passed on from one stream before another one's turn. A pipe holds this many, unless its command has enlarged it:
/// so nothing of an ended command remains.
const MOST: usize = 64 * 1024;

/// A pipe with a nonblocking read end, for a [`Stream`].
///
/// # Errors
/// As `pipe2(2)`.
pub fn pipe() -> io::Result<(File, OwnedFd)> {
    let (read, write) = pipe2(OFlag::O_CLOEXEC)?;
    fcntl(&read, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok((File::from(read), write))
}

/// One round of passing output on. Its time is limited, so that all else is done, however much the streams write. If the reader of dblock's
/// stderr is slow, a round waits hardly longer than one write does.
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

    /// Gives each its turn. If the time was too short for all, others come first the next time.
    pub fn give_turns<T>(self, all: &mut [T], turn: impl FnMut(&mut T)) {
        all.iter_mut().for_each(turn);
        if self.is_over() && !all.is_empty() {
            all.rotate_left(1);
        }
    }
}

static STDOUT: LazyLock<Stdout> = LazyLock::new(io::stdout);
static STDERR: LazyLock<Stderr> = LazyLock::new(io::stderr);

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
    fn has_room(&self) -> bool {
        self.is_empty() && self.is_writable()
    }

    /// Whether a write would succeed now. A closed or broken outlet accepts everything.
    pub fn is_writable(&self) -> bool {
        let mut descriptors = [PollFd::new(self.descriptor(), PollFlags::POLLOUT)];
        !matches!(poll(&mut descriptors, PollTimeout::ZERO), Ok(0))
    }

    /// Its descriptor.
    pub fn descriptor(&self) -> BorrowedFd<'static> {
        if self.is_stderr {
            STDERR.as_fd()
        } else {
            STDOUT.as_fd()
        }
    }

    /// Writes as much as fits. Returns whether that was all.
    pub fn flush(&mut self) -> bool {
        while let rest @ [_, ..] = &self.lines[self.written..] {
            let piece = &rest[..rest.len().min(PIECE)];
            let end = piece.iter().rposition(|byte| *byte == b'\n');
            let piece = &piece[..end.map_or(piece.len(), |end| end + 1)];
            match write_what_fits(self.descriptor(), piece) {
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

/// Where the output of a command goes.
#[derive(Debug)]
pub enum Sink {
    /// As it is to dblock's own stderr, whose reader is not waited for without limit: what does not fit is dropped. The last part is kept.
    Through(Tail),
    /// To dblock's own stdout and stderr, with this name in front of each line. What does not fit stays in the command's pipe.
    Lines(String),
    /// Into a file.
    File(Kept),
    /// Nowhere: the command has dblock's own stdout and stderr.
    None,
}

impl Sink {
    /// Whether it takes more now.
    fn has_room(&self, outlet: &Outlet) -> bool {
        !matches!(self, Self::Lines(_)) || outlet.has_room()
    }
}

/// The last part of an output.
#[derive(Debug)]
pub struct Tail {
    bytes: VecDeque<u8>,
    most: usize,
}

impl Tail {
    /// Keeps this many bytes at most.
    pub fn new(most: usize) -> Self {
        let bytes = VecDeque::new();
        Self { bytes, most }
    }

    fn add(&mut self, piece: &[u8]) {
        self.bytes.extend(piece);
        let excess = self.bytes.len().saturating_sub(self.most);
        self.bytes.drain(..excess);
    }

    /// The text, without white space around it.
    pub fn text(&self) -> String {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }
}

/// An output in a file in memory.
#[derive(Debug)]
pub struct Kept {
    file: File,
    length: u64,
    most: u64,
    /// Whether it was cut, and the write error, if that was the reason.
    is_cut: bool,
    why: Option<io::Error>,
}

impl Kept {
    /// Begins with this text. Keeps this many bytes at most, and drops the rest.
    ///
    /// # Errors
    /// As `memfd_create(2)` and `write(2)`.
    pub fn begin(text: &str, most: u64) -> io::Result<Self> {
        let mut file = File::from(memfd_create(c"dblock output", MFdFlags::MFD_CLOEXEC)?);
        file.write_all(text.as_bytes())?;
        Ok(Self {
            file,
            length: text.len() as u64,
            most,
            is_cut: false,
            why: None,
        })
    }

    /// Its length in bytes, with the text at the beginning. What was cut counts with one byte.
    pub fn length(&self) -> u64 {
        self.length + u64::from(self.is_cut)
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Adds as much as there is room for.
    fn add(&mut self, bytes: &[u8]) {
        let room = self.most.saturating_sub(self.length);
        let mut rest = &bytes[..bytes.len().min(usize::try_from(room).unwrap_or_default())];
        self.is_cut |= rest.len() < bytes.len();
        while !rest.is_empty() && self.why.is_none() {
            match self.file.write(rest) {
                Ok(length) => {
                    self.length += length as u64;
                    rest = &rest[length..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => (self.is_cut, self.why) = (true, Some(error)),
            }
        }
    }

    /// Ends it with this line, if it was cut. Returns the write error, if there was one.
    pub fn end(&mut self, line: &[u8]) -> Option<io::Error> {
        if self.is_cut && self.why.is_none() {
            self.why = self.file.write_all(line).err();
        }
        self.why.take()
    }
}

/// One of the streams of a command.
#[derive(Debug)]
struct Stream {
    /// `None`: it was read to its end.
    file: Option<File>,
    is_stderr: bool,
    /// The start of an unfinished line.
    begun: Vec<u8>,
}

impl Stream {
    /// Passes on what is there, as far as there is room, up to a limit and the end of the round. Returns whether that was all. `is_last`:
    /// the command has ended, so that what goes through is read also after the end of the round, but then dropped.
    fn pass_on(
        &mut self,
        sink: &mut Sink,
        outlet: &mut Outlet,
        round: Round,
        is_last: bool,
    ) -> bool {
        let reads_on = is_last && matches!(sink, Sink::Through(_));
        let mut is_read = true;
        let mut bytes = [0; PIECE];
        let mut left = MOST;
        while left > 0 && (reads_on || !round.is_over()) && sink.has_room(outlet) {
            let Some(file) = &mut self.file else {
                return true;
            };
            match file.read(&mut bytes) {
                Ok(length @ 1..) => {
                    left = left.saturating_sub(length);
                    let piece = &bytes[..length];
                    match sink {
                        Sink::Through(tail) => {
                            let waits = !is_last || !round.is_over();
                            is_read = is_read && write_stderr(piece, waits);
                            tail.add(piece);
                        }
                        Sink::Lines(name) => self.add_lines(piece, name, outlet),
                        Sink::File(kept) => kept.add(piece),
                        Sink::None => {}
                    }
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

    /// Passes on the last output of a command that has ended, even an unfinished line. What has no room is left in the pipe.
    fn finish(&mut self, sink: &mut Sink, outlet: &mut Outlet, round: Round) {
        let mut is_all = self.pass_on(sink, outlet, round, true);
        // A process that the command has left behind may write for ever.
        while !is_all && !round.is_over() && matches!(sink, Sink::File(_)) {
            is_all = self.pass_on(sink, outlet, round, true);
        }
        if is_all {
            self.end_line(sink, outlet);
            outlet.flush();
        }
    }

    fn end_line(&mut self, sink: &Sink, outlet: &mut Outlet) {
        if let (Sink::Lines(name), false) = (sink, self.begun.is_empty()) {
            outlet.add(name, &std::mem::take(&mut self.begun));
        }
    }

    fn add_lines(&mut self, bytes: &[u8], name: &str, outlet: &mut Outlet) {
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

/// The output of a command: its streams, and where they go.
#[derive(Debug)]
pub struct Output {
    streams: Vec<Stream>,
    /// Where they go.
    pub sink: Sink,
}

impl Output {
    /// The command writes to dblock's own stdout and stderr.
    pub fn none() -> Self {
        Self {
            streams: Vec::new(),
            sink: Sink::None,
        }
    }

    /// Reads stderr from this [`pipe`].
    pub fn of_stderr(file: File, sink: Sink) -> Self {
        Self {
            streams: vec![Stream {
                file: Some(file),
                is_stderr: true,
                begun: Vec::new(),
            }],
            sink,
        }
    }

    /// Reads stdout and stderr from these [`pipe`]s.
    pub fn of_both([stdout, stderr]: [File; 2], sink: Sink) -> Self {
        let mut output = Self::of_stderr(stderr, sink);
        let stdout = Stream {
            file: Some(stdout),
            is_stderr: false,
            begun: Vec::new(),
        };
        output.streams.insert(0, stdout);
        output
    }

    /// Adds a line of dblock's own about the command, where its output is not passed on as it is.
    pub fn say(&mut self, outlets: &mut [Outlet; 2], line: impl Display) {
        let line = format!("dblock: {}", printable(&line.to_string()));
        match &mut self.sink {
            Sink::Through(_) | Sink::None => {}
            Sink::Lines(name) => outlets[1].add(name, line.as_bytes()),
            Sink::File(kept) => kept.add(format!("{line}\n").as_bytes()),
        }
    }

    /// What to wait for: output that stdout and stderr have room for.
    pub fn wanted(&self, has_room: [bool; 2]) -> impl Iterator<Item = PollFd<'_>> {
        let takes_all = !matches!(self.sink, Sink::Lines(_));
        let streams = self.streams.iter();
        streams
            .filter(move |stream| takes_all || has_room[usize::from(stream.is_stderr)])
            .filter_map(|stream| stream.file.as_ref())
            .map(|file| PollFd::new(file.as_fd(), PollFlags::POLLIN))
    }

    /// Passes on what is there, as far as there is room, up to a limit and the end of the round.
    pub fn pass_on(&mut self, outlets: &mut [Outlet; 2], round: Round) {
        for stream in &mut self.streams {
            let outlet = &mut outlets[usize::from(stream.is_stderr)];
            stream.pass_on(&mut self.sink, outlet, round, false);
        }
    }

    /// Passes on the last output of the command, which has ended. Processes that it has left behind may write on.
    pub fn finish(&mut self, outlets: &mut [Outlet; 2], round: Round) {
        for stream in &mut self.streams {
            let outlet = &mut outlets[usize::from(stream.is_stderr)];
            stream.finish(&mut self.sink, outlet, round);
        }
    }

    /// Whether any process may still write.
    pub fn is_open(&self) -> bool {
        self.streams.iter().any(|stream| stream.file.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_keeps_nobody_waiting() {
        let endless = File::open("/dev/zero").unwrap();
        let kept = Kept::begin("", u64::MAX).unwrap();
        let mut output = Output::of_stderr(endless, Sink::File(kept));
        let mut outlets = Outlet::both();
        output.pass_on(&mut outlets, Round(Moment::now() + PATIENCE * 100));
        let Sink::File(kept) = &output.sink else {
            panic!("another sink");
        };
        assert_eq!(kept.length(), MOST as u64);
        assert!(output.is_open());
    }
}

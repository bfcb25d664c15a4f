//! The output of commands, and where it goes: through dblock's own stdout and stderr, or as whole lines with a name in front of each, or
//! into a file. A part of it may be kept besides. Nothing here waits for long.

use std::collections::VecDeque;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read, Stderr, Stdout, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::LazyLock;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::fstat;
use nix::unistd::pipe2;

use super::copies::{Copies, Transfer, TransferStep, enlarge, in_pipe, longest_write, look_into};
use super::inherited::was_closed;
use crate::base::clock::Moment;
use crate::base::log::{PATIENCE, write_stderr, write_what_fits};
use crate::base::text::printable;
use crate::history::KeptOutput;

/// The most bytes of a line. With the name in front it stays below `PIPE_BUF`, so that lines of several commands do not mix.
const LONGEST_LINE: usize = 3500;

/// The bytes of one read: a pipe takes this many as a whole (`PIPE_BUF`).
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
pub struct OutputRound(Moment);

impl OutputRound {
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
    /// Whether nothing more is passed on, because nobody reads it any more, or what is to go there cannot be read.
    is_broken: bool,
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
            is_broken: false,
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

    /// Nothing more is passed on. That nobody reads it, its writer learns as if it wrote there itself.
    fn break_off(&mut self, error: io::Error) {
        self.is_broken = true;
        self.was_told |= error.kind() == io::ErrorKind::BrokenPipe;
        self.fault = Some(error);
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
            let piece = first_lines(rest, longest_write(self.descriptor()));
            match write_what_fits(self.descriptor(), piece) {
                Ok(length @ 1..) => self.written += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    self.is_broken |= error.kind() == io::ErrorKind::BrokenPipe;
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

/// What is written at once: all, or as many whole lines as fit into the most bytes.
fn first_lines(all: &[u8], most: usize) -> &[u8] {
    if all.len() <= most {
        return all;
    }
    let end = all[..most].iter().rposition(|byte| *byte == b'\n');
    &all[..end.map_or(most, |end| end + 1)]
}

/// Where the output of a command goes.
#[derive(Debug)]
pub enum Sink {
    /// As it is to dblock's own stderr, whose reader is not waited for without limit: what does not fit is dropped. The last part is
    /// kept. And as it is to dblock's own stdout: there, what does not fit stays in the command's pipe.
    Through(Tail),
    /// As it is to dblock's own stdout and stderr, as if the command wrote there itself. What does not fit stays in the command's pipes.
    Copied(Copies),
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
        self.takes_all(outlet.is_stderr) || outlet.has_room()
    }

    /// Whether it takes all that is written to stdout, or to stderr, at any time.
    pub(super) fn takes_all(&self, is_stderr: bool) -> bool {
        match self {
            Self::Through(_) => is_stderr,
            Self::Lines(_) | Self::Copied(_) => false,
            Self::File(_) | Self::None => true,
        }
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
    /// How it is moved on, where it is not read.
    transfer: Transfer,
    /// How many bytes of a command that has ended are not read yet.
    rest: usize,
}

impl Stream {
    fn new(file: File, is_stderr: bool) -> Self {
        Self {
            file: Some(file),
            is_stderr,
            begun: Vec::new(),
            transfer: Transfer::default(),
            rest: 0,
        }
    }

    /// Moves on what is there, as far as there is room. Returns whether that was all. What cannot be written is lost, as on a full disk;
    /// what comes next is tried again.
    fn copy(
        &mut self,
        copies: &mut Copies,
        kept: &mut KeptOutput,
        outlet: &mut Outlet,
        round: OutputRound,
    ) -> bool {
        while !round.is_over() {
            let Some(file) = &mut self.file else {
                return true;
            };
            // Then the command gets SIGPIPE.
            if outlet.is_broken {
                self.file = None;
                return true;
            }
            if !self.transfer.splices(outlet.is_empty()) && !outlet.has_room() {
                return false;
            }
            let to = outlet.descriptor();
            match copies.step(file, &mut self.transfer, to, &mut outlet.lines, kept) {
                Ok(TransferStep::Moved) => {}
                Ok(TransferStep::Read) => {
                    outlet.flush();
                }
                Ok(TransferStep::Empty) => return true,
                Ok(TransferStep::Full) => return false,
                Ok(TransferStep::End) => self.file = None,
                Err(error) => outlet.break_off(error),
            }
        }
        self.file.is_none()
    }

    /// Passes on what is there, as far as there is room, up to a limit and the end of the round. Returns whether that was all. `is_last`:
    /// the command has ended, so that what goes through is read also after the end of the round, but then dropped.
    fn pass_on(
        &mut self,
        sink: &mut Sink,
        kept: &mut Option<KeptOutput>,
        outlet: &mut Outlet,
        round: OutputRound,
        is_last: bool,
    ) -> bool {
        if let Sink::Copied(copies) = sink {
            let kept = kept.get_or_insert_with(|| KeptOutput::new(0));
            return self.copy(copies, kept, outlet, round);
        }
        let reads_on = is_last && matches!(sink, Sink::Through(_)) && self.is_stderr;
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
                    let is_rest = (1..=length).contains(&self.rest);
                    self.rest = self.rest.saturating_sub(length);
                    let piece = &bytes[..length];
                    if let Some(kept) = kept {
                        kept.add(piece);
                    }
                    match sink {
                        Sink::Through(_) if !self.is_stderr => self.add_whole_lines(piece, outlet),
                        Sink::Through(tail) => {
                            let waits = !is_last || !round.is_over();
                            is_read = is_read && write_stderr(piece, waits);
                            tail.add(piece);
                        }
                        Sink::Lines(name) => self.add_lines(piece, name, outlet),
                        Sink::File(kept) => kept.add(piece),
                        Sink::Copied(_) | Sink::None => {}
                    }
                    if is_rest {
                        self.pass_on_begun(sink, outlet);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.pass_on_begun(sink, outlet);
                    return true;
                }
                Ok(0) | Err(_) => {
                    self.file = None;
                    self.end_line(sink, outlet);
                }
            }
            outlet.flush();
        }
        if let (Some(file), false) = (&self.file, self.begun.is_empty())
            && in_pipe(file) == 0
        {
            self.pass_on_begun(sink, outlet);
        }
        self.file.is_none()
    }

    /// Passes on the start of a line, where lines are passed on as they are, and the command has written no more of it.
    fn pass_on_begun(&mut self, sink: &Sink, outlet: &mut Outlet) {
        if let (Sink::Through(_), false) = (sink, self.begun.is_empty()) {
            outlet.lines.append(&mut self.begun);
            outlet.flush();
        }
    }

    /// Passes on the last output of a command that has ended, even an unfinished line. What has no room is left in the pipe.
    fn finish(
        &mut self,
        sink: &mut Sink,
        kept: &mut Option<KeptOutput>,
        outlet: &mut Outlet,
        round: OutputRound,
    ) {
        let mut is_all = self.pass_on(sink, kept, outlet, round, true);
        // A process that the command has left behind may write for ever.
        while !is_all && !round.is_over() && matches!(sink, Sink::File(_)) {
            is_all = self.pass_on(sink, kept, outlet, round, true);
        }
        if let (Some(file), false) = (&self.file, is_all || matches!(sink, Sink::Copied(_))) {
            self.rest = in_pipe(file);
            if let Some(kept) = kept {
                kept.add(&look_into(file).unwrap_or_default());
            }
        }
        if is_all {
            self.end_line(sink, outlet);
            outlet.flush();
        }
    }

    fn end_line(&mut self, sink: &Sink, outlet: &mut Outlet) {
        match sink {
            Sink::Lines(name) if !self.begun.is_empty() => {
                outlet.add(name, &std::mem::take(&mut self.begun));
            }
            sink => self.pass_on_begun(sink, outlet),
        }
    }

    /// Adds as many whole lines as there are: between two turns others may write. A line that is longer than a pipe takes as a whole may
    /// be cut, as it would be without dblock.
    fn add_whole_lines(&mut self, bytes: &[u8], outlet: &mut Outlet) {
        self.begun.extend_from_slice(bytes);
        let end = self.begun.iter().rposition(|byte| *byte == b'\n');
        let whole = match end {
            Some(end) => end + 1,
            None if self.begun.len() >= PIECE => self.begun.len(),
            None => 0,
        };
        outlet.lines.extend(self.begun.drain(..whole));
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
    /// What is kept besides; `None`: nothing.
    kept: Option<KeptOutput>,
}

impl Output {
    /// The command writes to dblock's own stdout and stderr.
    pub fn none() -> Self {
        Self {
            streams: Vec::new(),
            sink: Sink::None,
            kept: None,
        }
    }

    /// Reads stderr from this [`pipe`].
    pub fn of_stderr(file: File, sink: Sink) -> Self {
        Self {
            streams: vec![Stream::new(file, true)],
            sink,
            kept: None,
        }
    }

    /// Reads stdout and stderr from these [`pipe`]s.
    pub fn of_both([stdout, stderr]: [File; 2], sink: Sink) -> Self {
        let mut output = Self::of_stderr(stderr, sink);
        output.read_stdout(stdout);
        output
    }

    /// Reads stdout from this [`pipe`], too.
    pub fn read_stdout(&mut self, file: File) {
        self.streams.insert(0, Stream::new(file, false));
    }

    /// Copies what is written to stdout and stderr, to dblock's own, and keeps this many bytes of it. Also returns the ends for the
    /// command; `None`: dblock has none there either. If dblock's are the same file, it is one pipe, so that nothing changes its order.
    ///
    /// # Errors
    /// As `pipe2(2)`.
    pub fn copied(most: usize) -> io::Result<(Self, [Option<OwnedFd>; 2])> {
        let outlets = [STDOUT.as_fd(), STDERR.as_fd()];
        let files = outlets.map(|outlet| fstat(outlet).map(|stat| (stat.st_dev, stat.st_ino)));
        let is_open = [libc::STDOUT_FILENO, libc::STDERR_FILENO].map(|number| !was_closed(number));
        let (mut streams, mut ends) = (Vec::new(), [None, None]);
        for (number, outlet) in outlets.into_iter().enumerate() {
            let is_stderr = number == 1;
            if !is_open[number] {
                continue;
            }
            if is_stderr && is_open[0] && files[0].is_ok() && files[0] == files[1] {
                ends[1] = ends[0].as_ref().map(OwnedFd::try_clone).transpose()?;
                continue;
            }
            let (file, end) = pipe()?;
            enlarge(&end);
            ends[number] = Some(end);
            streams.push(Stream {
                transfer: Transfer::to(outlet),
                ..Stream::new(file, is_stderr)
            });
        }
        let output = Self {
            streams,
            sink: Sink::Copied(Copies::begin()?),
            kept: Some(KeptOutput::new(most)),
        };
        Ok((output, ends))
    }

    /// Keeps this many bytes of it.
    pub fn keep(&mut self, most: usize) {
        self.kept = Some(KeptOutput::new(most));
    }

    /// What is kept, when the output is [finished](Self::finish); `None`: nothing is, or nothing was written.
    pub fn take_kept(&mut self) -> Option<KeptOutput> {
        self.kept.take().filter(|kept| !kept.is_empty())
    }

    /// Adds a line of dblock's own about the command, where its output is not passed on as it is.
    pub fn say(&mut self, outlets: &mut [Outlet; 2], line: impl Display) {
        let line = format!("dblock: {}", printable(&line.to_string()));
        match &mut self.sink {
            Sink::Through(_) | Sink::Copied(_) | Sink::None => {}
            Sink::Lines(name) => outlets[1].add(name, line.as_bytes()),
            Sink::File(kept) => kept.add(format!("{line}\n").as_bytes()),
        }
    }

    /// What to wait for: output that stdout and stderr have room for.
    pub fn wanted(&self, has_room: [bool; 2]) -> impl Iterator<Item = PollFd<'_>> {
        let streams = self.streams.iter();
        streams
            .filter(move |stream| {
                self.sink.takes_all(stream.is_stderr) || has_room[usize::from(stream.is_stderr)]
            })
            .filter_map(|stream| stream.file.as_ref())
            .map(|file| PollFd::new(file.as_fd(), PollFlags::POLLIN))
    }

    /// Passes on what is there, as far as there is room, up to a limit and the end of the round.
    pub fn pass_on(&mut self, outlets: &mut [Outlet; 2], round: OutputRound) {
        for stream in &mut self.streams {
            let outlet = &mut outlets[usize::from(stream.is_stderr)];
            stream.pass_on(&mut self.sink, &mut self.kept, outlet, round, false);
        }
    }

    /// Passes on the last output of the command, which has ended. Processes that it has left behind may write on.
    pub fn finish(&mut self, outlets: &mut [Outlet; 2], round: OutputRound) {
        for stream in &mut self.streams {
            let outlet = &mut outlets[usize::from(stream.is_stderr)];
            stream.finish(&mut self.sink, &mut self.kept, outlet, round);
        }
        if let (Sink::Copied(copies), Some(kept)) = (&mut self.sink, &mut self.kept) {
            let streams = self.streams.iter_mut();
            let rests =
                streams.filter_map(|stream| Some((stream.file.as_ref()?, &mut stream.transfer)));
            copies.end(rests, kept);
            self.pass_on(outlets, round);
        }
    }

    /// Whether it may have to wait for room in dblock's own stdout and stderr.
    pub(super) fn waits(&self) -> bool {
        let mut streams = self.streams.iter();
        streams.any(|stream| stream.file.is_some() && !self.sink.takes_all(stream.is_stderr))
    }

    /// Whether something that was written waits for room. Of a command that has ended, what it has left behind is not waited for.
    pub(super) fn has_rest(&self) -> bool {
        let mut streams = self.streams.iter();
        streams.any(|stream| match (&stream.file, &self.sink) {
            (Some(_), Sink::Copied(_)) => stream.transfer.has_rest(),
            (Some(_), _) => stream.rest > 0,
            (None, _) => false,
        })
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
        output.pass_on(&mut outlets, OutputRound(Moment::now() + PATIENCE * 100));
        let Sink::File(kept) = &output.sink else {
            panic!("another sink");
        };
        assert_eq!(kept.length(), MOST as u64);
        assert!(output.is_open());
    }
}

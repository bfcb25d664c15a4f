//! The payloads of `dblock queue put`, a few at a time, as they arrive.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::base::exit::{Failure, Reason};
use crate::base::text::in_words;
use crate::isolated::link::Link;
use crate::queue::{LONGEST_PAYLOAD, MOST_BYTES, MOST_JOBS};
use crate::settings::queue::Source;

/// How many bytes are read at once.
const PIECE: usize = 64 * 1024;

/// The next payloads.
pub enum NextPayloads {
    /// There are some: those available, up to the limit of a transaction.
    Some,
    /// There are no more.
    End,
    /// The process that prints wants no more.
    Stopped,
}

/// The payloads to put.
pub struct Records {
    kind: Kind,
    /// The bytes that are read but not put yet, and the ranges of the next payloads in them.
    buffer: Vec<u8>,
    next: Vec<(usize, usize)>,
    /// The number of payloads before these.
    before: u64,
}

enum Kind {
    /// These arguments.
    Arguments(VecDeque<OsString>),
    /// The contents of these files.
    Files(VecDeque<PathBuf>),
    /// The bytes of a descriptor. `end`: the byte that ends a payload; `None`: all bytes are one payload.
    Stream { end: Option<u8>, is_over: bool },
}

impl Records {
    /// All payloads of a source.
    pub fn of(source: &Source) -> Self {
        let stream = |end| Kind::Stream {
            end,
            is_over: false,
        };
        Self {
            kind: match source {
                Source::Arguments(payloads) => Kind::Arguments(payloads.iter().cloned().collect()),
                Source::Files(files) => Kind::Files(files.iter().cloned().collect()),
                Source::Stdin => stream(None),
                Source::Records(end) => stream(Some(*end)),
            },
            buffer: Vec::new(),
            next: Vec::new(),
            before: 0,
        }
    }

    /// The payloads to put next.
    pub fn payloads(&self) -> Vec<&[u8]> {
        let next = self.next.iter();
        next.map(|&(from, to)| &self.buffer[from..to]).collect()
    }

    /// Moves on to the next payloads, after the previous ones were put.
    ///
    /// # Errors
    /// A payload is too long, or cannot be read. Those before it were put.
    pub fn advance(&mut self, link: &Link) -> Result<NextPayloads, Failure> {
        self.before += self.next.len() as u64;
        if link.is_readable() {
            return Ok(NextPayloads::Stopped);
        }
        match &mut self.kind {
            Kind::Arguments(payloads) => {
                self.buffer.clear();
                self.next.clear();
                while let Some(payload) = payloads.front() {
                    let is_room = self.buffer.is_empty() || fits(&self.buffer, payload.len());
                    if self.next.len() == MOST_JOBS || !is_room {
                        break;
                    }
                    let payload = payloads.pop_front().unwrap_or_default().into_vec();
                    let from = self.buffer.len();
                    self.buffer.extend(payload);
                    self.next.push((from, self.buffer.len()));
                }
                Ok(self.found())
            }
            Kind::Files(_) => self.read_files(link),
            Kind::Stream { end, .. } => {
                let end = *end;
                self.read_stream(end, link)
            }
        }
    }

    fn found(&self) -> NextPayloads {
        if self.next.is_empty() {
            NextPayloads::End
        } else {
            NextPayloads::Some
        }
    }

    fn read_files(&mut self, link: &Link) -> Result<NextPayloads, Failure> {
        self.buffer.clear();
        self.next.clear();
        let Kind::Files(files) = &mut self.kind else {
            return Ok(NextPayloads::End);
        };
        while self.next.len() < MOST_JOBS && fits(&self.buffer, 0) {
            let Some(path) = files.pop_front() else { break };
            let from = self.buffer.len();
            let read = open(&path).and_then(|file| read_file(&file, &mut self.buffer, link));
            let is_read = read.map_err(|error| cannot_read(&path.display().to_string(), &error))?;
            if !is_read {
                self.next.clear();
                return Ok(NextPayloads::Stopped);
            }
            let to = self.buffer.len();
            if to - from > LONGEST_PAYLOAD {
                return Err(too_long(&path.display().to_string()));
            }
            self.next.push((from, to));
        }
        Ok(self.found())
    }

    fn read_stream(&mut self, end: Option<u8>, link: &Link) -> Result<NextPayloads, Failure> {
        let (separator, skipped) = (end, usize::from(end.is_some()));
        let consumed = self.next.last().map_or(0, |&(_, to)| to + skipped);
        self.buffer.drain(..consumed.min(self.buffer.len()));
        self.next.clear();
        let Kind::Stream { is_over, .. } = &mut self.kind else {
            return Ok(NextPayloads::End);
        };
        let stdin = io::stdin();
        let (mut from, mut seen) = (0, 0);
        loop {
            if let Some(separator) = separator {
                let found = |bytes: &[u8]| bytes.iter().position(|&byte| byte == separator);
                while let Some(at) = found(&self.buffer[seen..]) {
                    let to = seen + at;
                    if to - from > LONGEST_PAYLOAD {
                        break;
                    }
                    self.next.push((from, to));
                    (from, seen) = (to + 1, to + 1);
                    if self.next.len() == MOST_JOBS || from > MOST_BYTES {
                        return Ok(NextPayloads::Some);
                    }
                }
                seen = seen.max(self.buffer.len());
            }
            if *is_over {
                let rest = self.buffer.len() - from.min(self.buffer.len());
                // After the last separator there is no further record. Without separators even empty input is a payload.
                let is_one = match separator {
                    Some(_) => rest > 0,
                    None => self.before == 0 && self.next.is_empty(),
                };
                if is_one && rest <= LONGEST_PAYLOAD {
                    self.next.push((from, self.buffer.len()));
                }
                return Ok(self.found());
            }
            if self.buffer.len() - from > LONGEST_PAYLOAD {
                if self.next.is_empty() {
                    return Err(too_long(&self.place(separator)));
                }
                return Ok(NextPayloads::Some);
            }
            match wait(stdin.as_fd(), link, self.next.is_empty()) {
                Ready::Input => {}
                Ready::Nothing => return Ok(NextPayloads::Some),
                Ready::Stop => {
                    self.next.clear();
                    return Ok(NextPayloads::Stopped);
                }
            }
            let read = read_piece(stdin.as_fd(), &mut self.buffer);
            *is_over = read.map_err(|error| cannot_read("stdin", &error))?;
        }
    }

    /// Which payload is being read, as text.
    fn place(&self, separator: Option<u8>) -> String {
        let number = self.before + 1;
        match separator {
            None => "stdin".to_owned(),
            Some(b'\n') => format!("line {number}"),
            Some(_) => format!("record {number}"),
        }
    }
}

/// Whether this many more bytes fit into the transaction.
fn fits(buffer: &[u8], more: usize) -> bool {
    buffer.len() + more <= MOST_BYTES
}

/// Which came first.
enum Ready {
    Input,
    Nothing,
    Stop,
}

/// Waits for input, or only checks for it.
fn wait(input: BorrowedFd, link: &Link, waits: bool) -> Ready {
    let timeout = if waits {
        PollTimeout::NONE
    } else {
        PollTimeout::ZERO
    };
    loop {
        let mut ready = [
            PollFd::new(input, PollFlags::POLLIN),
            PollFd::new(link.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut ready, timeout) {
            Ok(0) if waits => {}
            Ok(0) => return Ready::Nothing,
            Err(Errno::EINTR) => {}
            // The read will report the error.
            Err(_) => return Ready::Input,
            Ok(_) if waits && ready[1].any().unwrap_or(false) => return Ready::Stop,
            Ok(_) if ready[0].any().unwrap_or(true) => return Ready::Input,
            Ok(_) => return Ready::Nothing,
        }
    }
}

/// Checks that all files can be read and are not too long, before anything is put.
///
/// # Errors
/// Which file fails, and why.
pub fn check_files(files: &[PathBuf]) -> Result<(), Failure> {
    for path in files.iter().filter(|path| path.as_os_str() != "-") {
        let name = path.display().to_string();
        let metadata = std::fs::metadata(path).map_err(|error| cannot_read(&name, &error))?;
        if metadata.is_file() {
            File::open(path).map_err(|error| cannot_read(&name, &error))?;
            if metadata.len() > LONGEST_PAYLOAD as u64 {
                return Err(too_long(&name));
            }
        } else if metadata.is_dir() {
            return Err(cannot_read(&name, &io::Error::other("it is a directory")));
        }
    }
    Ok(())
}

/// Opens a file; a FIFO also while nobody writes to it.
fn open(path: &Path) -> io::Result<File> {
    if path.as_os_str() == "-" {
        return Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?));
    }
    let at_once = OFlag::O_NONBLOCK.bits();
    File::options().read(true).custom_flags(at_once).open(path)
}

/// Appends what a file has, up to one byte more than the longest payload. `false`: the process that prints wants no more.
fn read_file(file: &File, buffer: &mut Vec<u8>, link: &Link) -> io::Result<bool> {
    let most = buffer.len() + LONGEST_PAYLOAD + 1;
    while buffer.len() < most {
        if matches!(wait(file.as_fd(), link, true), Ready::Stop) {
            return Ok(false);
        }
        if read_piece(file.as_fd(), buffer)? {
            break;
        }
    }
    Ok(true)
}

/// Appends what can be read at once. `true`: there is no more.
fn read_piece(input: BorrowedFd, buffer: &mut Vec<u8>) -> io::Result<bool> {
    let length = buffer.len();
    buffer.try_reserve(PIECE)?;
    buffer.resize(length + PIECE, 0);
    let read = nix::unistd::read(input, &mut buffer[length..]);
    buffer.truncate(length + read.unwrap_or_default());
    match read {
        Ok(read) => Ok(read == 0),
        Err(Errno::EAGAIN | Errno::EINTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn cannot_read(what: &str, error: &io::Error) -> Failure {
    let line = format!("cannot read {what}: {}", in_words(error));
    Failure::new(Reason::Usage, line)
}

fn too_long(what: &str) -> Failure {
    let most = LONGEST_PAYLOAD / (1024 * 1024);
    let line = format!("{what} is longer than {most} MB, which is the longest payload");
    Failure::new(Reason::Usage, line)
}

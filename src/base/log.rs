//! The log on stderr: one line a message, up to a level. A full, stuck or closed stderr costs a line, and never blocks for ever.

use std::fmt::Display;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::rc::Rc;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, send};
use nix::sys::stat::{SFlag, fstat};
use serde::{Deserialize, Serialize};

use super::text::printable;

/// How much a line matters. The order is that of the flags: `-q`, none, `-v`, `-vv`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Level {
    /// Shown always.
    Error,
    /// Shown unless `--quiet`.
    Warning,
    /// What is done and how long it took: `-v`.
    Info,
    /// Every statement: `-vv`.
    Statement,
}

/// Told of each step and statement of a session: the level and the line.
pub type Listener = Rc<dyn Fn(Level, &str)>;

/// Writes lines to stderr, up to a level.
#[derive(Debug, Clone, Copy)]
pub struct Log {
    /// The least important level that is shown.
    pub shown: Level,
}

impl Log {
    /// Shows `line` if its level is asked for. What cannot be written is dropped.
    pub fn say(self, level: Level, line: impl Display) {
        if level <= self.shown {
            write_stderr(format!("dblock: {}\n", printable(&line.to_string())).as_bytes());
        }
    }

    /// A line that is shown even with `--quiet`.
    pub fn error(self, line: impl Display) {
        self.say(Level::Error, line);
    }

    /// A line that is shown unless `--quiet`.
    pub fn warning(self, line: impl Display) {
        self.say(Level::Warning, line);
    }

    /// A line that is shown with `-v`.
    pub fn info(self, line: impl Display) {
        self.say(Level::Info, line);
    }
}

/// What cannot be written is dropped.
fn write_stderr(bytes: &[u8]) {
    let _ = write_at_once(io::stderr().as_fd(), bytes);
}

/// Writes without ever blocking for long. The descriptor is shared with the command and with the caller, so it must not
/// be made non-blocking itself. How much was written.
///
/// # Errors
/// As `write(2)`; and when there is no room within a tenth of a second.
pub fn write_at_once(descriptor: BorrowedFd, bytes: &[u8]) -> io::Result<usize> {
    if !writable(descriptor) {
        return Err(io::Error::other("nobody reads it"));
    }
    let stat = fstat(descriptor)?;
    let plain = || Ok(nix::unistd::write(descriptor, bytes)?);
    match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
        SFlag::S_IFSOCK => {
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
            Ok(send(descriptor.as_raw_fd(), bytes, flags)?)
        }
        // Between the question and the write the command may fill a pipe: a descriptor of our own does not block.
        SFlag::S_IFIFO => {
            let own = std::fs::OpenOptions::new()
                .write(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
            match own {
                Ok(mut pipe) => pipe.write(bytes),
                Err(_) => plain(),
            }
        }
        _ => plain(),
    }
}

/// Whether a write would go through within a tenth of a second. A terminal may be stopped with Ctrl-S.
fn writable(descriptor: BorrowedFd) -> bool {
    let mut descriptors = [PollFd::new(descriptor, PollFlags::POLLOUT)];
    poll(&mut descriptors, PollTimeout::from(100u8)).is_ok_and(|ready| ready > 0)
}

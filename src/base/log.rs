//! The log on stderr: one line for each message, up to a level. A full, stuck or closed stderr costs a line, and never blocks dblock for
//! long.

use std::fmt::Display;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::poll::PollFlags;
use nix::sys::socket::{MsgFlags, send};
use nix::sys::stat::{SFlag, fstat};
use serde::{Deserialize, Serialize};

use super::poll::is_ready_within;
use super::terminal::{cut, is_in_background, size_of};
use super::text::{printable, width};

/// The importance of a line. The order is that of the flags: `-q`, none, `-v`, `-vv`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Level {
    /// Shown always.
    Error,
    /// Shown unless `--quiet`.
    Warning,
    /// What dblock does, and how long that took: `-v`.
    Info,
    /// Every statement: `-vv`.
    Statement,
    /// What is waited for from now on. It is shown as the cause where that takes too long, and never by itself.
    Step,
}

impl Level {
    /// Whether a line of this level says what is under way.
    pub fn is_step(self) -> bool {
        matches!(self, Self::Info | Self::Step)
    }
}

/// Gets each step and statement of a session: the level and the line.
pub type Listener = Rc<dyn Fn(Level, &str)>;

/// Writes lines to stderr, up to a level.
#[derive(Debug, Clone, Copy)]
pub struct Log {
    /// The least important level that is shown.
    pub shown: Level,
}

impl Log {
    /// Shows `line` if its level is shown. A line that cannot be written is dropped.
    pub fn say(self, level: Level, line: impl Display) {
        if level <= self.shown {
            write_stderr(
                format!("dblock: {}\n", printable(&line.to_string())).as_bytes(),
                true,
            );
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

/// How long a write waits for a full stderr.
pub const PATIENCE: Duration = Duration::from_millis(100);

/// Whether stderr was full for that long. Until it has room again, no other write waits.
static IS_STUCK: AtomicBool = AtomicBool::new(false);

/// Whether a line that is to be drawn over stands on the terminal that stderr is.
static HAS_STATUS: AtomicBool = AtomicBool::new(false);

/// Whether what was written to stderr last ended its line.
static IS_AT_START: AtomicBool = AtomicBool::new(true);

/// The columns of a terminal that does not know how many it has.
const USUAL_COLUMNS: usize = 80;

/// Draws a line on the terminal that stderr is, over the last one. It is [cleared](clear_status) before anything else is written there. It
/// is not drawn into a line that is not complete, nor in the background, where others have the terminal.
///
/// It stands at the right end, as a shell's right prompt, and the cursor stays where it was: what a command writes to that terminal by
/// itself begins at the left, and is not mixed with it.
pub fn draw_status(line: &str) {
    if IS_AT_START.load(Ordering::Relaxed) && !is_in_background(io::stderr().as_fd()) {
        HAS_STATUS.store(true, Ordering::Relaxed);
        let drawn = status(&printable(line), size_of(io::stderr().as_fd()));
        let _ = write_within(io::stderr().as_fd(), drawn.as_bytes(), Duration::ZERO);
    }
}

/// What draws a line at the right end of a terminal of this size, but for the last column, behind which a terminal may begin another line.
fn status(line: &str, size: Option<(usize, usize)>) -> String {
    let columns = size.map_or(0, |(_, columns)| columns);
    let columns = if columns > 0 { columns } else { USUAL_COLUMNS };
    let (line, _) = cut(line, columns - 1);
    let column = columns - width(&line);
    format!("\x1b7\x1b[K\x1b[{column}G{line}\x1b8")
}

/// Clears the line of [`draw_status`], if there is one. In the background others have written since, where it was.
pub fn clear_status() {
    if HAS_STATUS.swap(false, Ordering::Relaxed) && !is_in_background(io::stderr().as_fd()) {
        let _ = write_at_once(io::stderr().as_fd(), b"\x1b[K");
    }
}

/// Writes to stderr if it has room now, or, with `waits`, within a tenth of a second. Without room all of it is dropped. Returns whether
/// it was written.
pub fn write_stderr(bytes: &[u8], waits: bool) -> bool {
    clear_status();
    let waits = waits && !IS_STUCK.load(Ordering::Relaxed);
    let patience = if waits { PATIENCE } else { Duration::ZERO };
    let is_written = write_within(io::stderr().as_fd(), bytes, patience).is_ok();
    if is_written && let Some(last) = bytes.last() {
        IS_AT_START.store(*last == b'\n', Ordering::Relaxed);
    }
    if is_written || waits {
        IS_STUCK.store(!is_written, Ordering::Relaxed);
    }
    is_written
}

/// Writes without blocking for long, and returns how much was written. The descriptor itself must not be made non-blocking, as the
/// command and the caller share it.
///
/// # Errors
/// As `write(2)`. Also if there is no room within a tenth of a second.
pub fn write_at_once(descriptor: BorrowedFd, bytes: &[u8]) -> io::Result<usize> {
    write_within(descriptor, bytes, PATIENCE)
}

fn write_within(descriptor: BorrowedFd, bytes: &[u8], patience: Duration) -> io::Result<usize> {
    if !writable(descriptor, patience) {
        return Err(io::Error::other("nobody reads it"));
    }
    write_now(descriptor, bytes)
}

/// Writes as much as fits now, and returns how much that was.
///
/// # Errors
/// As `write(2)`; [`io::ErrorKind::WouldBlock`] if there is no room at all.
pub fn write_what_fits(descriptor: BorrowedFd, bytes: &[u8]) -> io::Result<usize> {
    if !writable(descriptor, Duration::ZERO) {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    write_now(descriptor, bytes)
}

fn write_now(descriptor: BorrowedFd, bytes: &[u8]) -> io::Result<usize> {
    let stat = fstat(descriptor)?;
    let plain = || Ok(nix::unistd::write(descriptor, bytes)?);
    match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
        SFlag::S_IFSOCK => {
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
            Ok(send(descriptor.as_raw_fd(), bytes, flags)?)
        }
        // Between the check and the write the command may fill a pipe, and a terminal with room for a byte may not have room for a line.
        // A descriptor of our own can be non-blocking.
        SFlag::S_IFIFO | SFlag::S_IFCHR => {
            let own = std::fs::OpenOptions::new()
                .write(true)
                .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
                .open(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
            match own {
                Ok(mut file) => file.write(bytes),
                Err(_) => plain(),
            }
        }
        _ => plain(),
    }
}

/// Whether a write would succeed within this time. Ctrl-S may have stopped a terminal.
fn writable(descriptor: BorrowedFd, patience: Duration) -> bool {
    is_ready_within(descriptor, PollFlags::POLLOUT, patience)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_ends_before_the_last_column() {
        let size = |columns| Some((24, columns));
        assert_eq!(status("3 done", size(10)), "\x1b7\x1b[K\x1b[4G3 done\x1b8");
        assert_eq!(status("3 done", size(7)), "\x1b7\x1b[K\x1b[1G3 done\x1b8");
        assert_eq!(status("3 done", size(6)), "\x1b7\x1b[K\x1b[1G3 do…\x1b8");
        assert_eq!(status("3 done", size(1)), "\x1b7\x1b[K\x1b[1G\x1b8");
        for unknown in [None, size(0)] {
            assert_eq!(status("3 done", unknown), "\x1b7\x1b[K\x1b[74G3 done\x1b8");
        }
    }
}

//! Appends the report of a run to a file (`--report`): one line, written whole, which never changes how dblock ends.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::base::clock::Moment;
use crate::base::log::write_at_once;
use crate::settings::ReportTo;
use crate::supervise::{Report, was_closed};

/// How long to wait for others that write to the same file, and the pause between tries.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(1);

/// Appends a report. `stdout`: [`own_stdout`].
///
/// # Errors
/// As `open(2)` and `write(2)`, or that only a part was written.
pub fn append(to: &ReportTo, report: &Report, stdout: Option<&OwnedFd>) -> io::Result<()> {
    let line = report.line();
    match (to, stdout) {
        (ReportTo::File(path), _) => {
            let open = |reads: bool| {
                // Do not wait for a pipe's reader.
                let mut options = File::options();
                options.read(reads).append(true).create(true);
                options
                    .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
                    .open(path)
            };
            // A full disk may have left an incomplete line, which must not spoil this one.
            let is_regular = path.metadata().is_ok_and(|file| file.is_file());
            let file = open(is_regular).or_else(|_| open(false))?;
            if !is_regular {
                return write_whole(file.as_fd(), &line);
            }
            let file = alone(file);
            let line = if is_torn(&file) {
                format!("\n{line}")
            } else {
                line
            };
            write_whole(file.as_fd(), &line)
        }
        (ReportTo::Stdout, Some(stdout)) => {
            let written = write_whole(stdout.as_fd(), &line);
            // A reader that stops early, such as `head`, is no error.
            written.or_else(|error| match error.kind() {
                io::ErrorKind::BrokenPipe => Ok(()),
                _ => Err(error),
            })
        }
        (ReportTo::Stdout, None) => Err(io::Error::from_raw_os_error(libc::EBADF)),
    }
}

/// dblock's stdout, on a separate descriptor that no program inherits. `None`: it is closed.
pub fn own_stdout() -> Option<OwnedFd> {
    if was_closed(libc::STDOUT_FILENO) {
        return None;
    }
    io::stdout().as_fd().try_clone_to_owned().ok()
}

/// Locks the file against other dblocks, if that is possible soon. Otherwise a line that another one is still writing could look like the
/// rest of a line from a full disk.
fn alone(file: File) -> Alone {
    let deadline = Moment::now() + PATIENCE;
    let mut file = file;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(alone) => return Alone::Locked(alone),
            Err((shared, Errno::EWOULDBLOCK | Errno::EINTR)) if Moment::now() < deadline => {
                file = shared;
                sleep(PAUSE);
            }
            // Some file systems have no such locks.
            Err((shared, _)) => return Alone::Shared(shared),
        }
    }
}

enum Alone {
    Locked(Flock<File>),
    Shared(File),
}

impl Deref for Alone {
    type Target = File;

    fn deref(&self) -> &File {
        match self {
            Self::Locked(file) => file,
            Self::Shared(file) => file,
        }
    }
}

/// Whether the last line of the file is incomplete.
fn is_torn(file: &File) -> bool {
    let length = file.metadata().map_or(0, |file| file.len());
    let mut last = [b'\n'];
    length > 0 && file.read_exact_at(&mut last, length - 1).is_ok() && last != [b'\n']
}

/// Writes all with one write(2), so that lines of others come before or after it.
fn write_whole(descriptor: BorrowedFd, line: &str) -> io::Result<()> {
    if write_at_once(descriptor, line.as_bytes())? < line.len() {
        return Err(io::Error::other("only a part of it could be written"));
    }
    Ok(())
}

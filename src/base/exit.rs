//! dblock's own exit codes, and how dblock ends as its command ended.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::time::Duration;

use nix::sys::prctl;
use serde::{Deserialize, Serialize};

use super::text::{in_words, shown};

/// A reason with its own exit code. The codes are those of `sysexits.h` where it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// Unknown option, bad name, bad duration: `EX_USAGE`.
    Usage,
    /// No server could be reached in time: `EX_UNAVAILABLE`.
    Unreachable,
    /// An error of dblock itself, or a server that does not speak the protocol: `EX_SOFTWARE`.
    Internal,
    /// The operating system refused a fork or a pipe: `EX_OSERR`.
    OsRefused,
    /// The lock was lost while the command ran, and so the command was ended: `EX_IOERR`.
    LockLost,
    /// The server refused the account: `EX_NOPERM`.
    AccountRefused,
    /// No server named, an unreadable file, or a server without named locks: `EX_CONFIG`.
    Configuration,
    /// The command was found but cannot be run, as in a shell and in `timeout(1)`.
    NotExecutable,
    /// The command was not found, as in a shell and in `timeout(1)`.
    NotFound,
}

/// The exit code when a lock was not acquired in time (`EX_TEMPFAIL`), unless `-E` sets another.
pub const CONFLICT: u8 = 75;

/// The exit code when `--timeout` ended the command, as in `timeout(1)`.
pub const TIMED_OUT: u8 = 124;

/// The exit code when the command had to be killed after `--timeout`: 128 + SIGKILL.
pub const TIMED_OUT_KILLED: u8 = 137;

impl Reason {
    /// The exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Usage => 64,
            Self::Unreachable => 69,
            Self::Internal => 70,
            Self::OsRefused => 71,
            Self::LockLost => 74,
            Self::AccountRefused => 77,
            Self::Configuration => 78,
            Self::NotExecutable => 126,
            Self::NotFound => 127,
        }
    }
}

/// An error that ends dblock: the reason, and the message.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[error("{line}")]
pub struct Failure {
    /// Sets the exit code.
    pub reason: Reason,
    /// What is wrong and what to do, without `dblock: ` and line breaks.
    pub line: String,
}

impl Failure {
    /// A failure for this `reason`, with this message.
    pub fn new(reason: Reason, line: impl Into<String>) -> Self {
        let line = line.into();
        Self { reason, line }
    }

    /// The system refused to do this.
    pub fn refused(what: &str, error: &io::Error) -> Self {
        let line = format!("cannot {what}: {}", in_words(error));
        Self::new(Reason::OsRefused, line)
    }

    /// No server was reached within this limit. The cause is what was tried last.
    pub fn unreachable(limit: Duration, cause: &str) -> Self {
        let limit = shown(limit);
        let line = format!("no server could be reached within {limit}: {cause}");
        Self::new(Reason::Unreachable, line)
    }
}

/// How dblock ends: with a code, or by the signal that its command died of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// `exit(code)`.
    Code(u8),
    /// Death by this signal, which a shell shows as 128 + n.
    Signal(i32),
}

impl Ending {
    /// Ends the process. No destructor runs, so everything must have been released before.
    pub fn exit(self) -> ! {
        match self {
            Self::Code(code) => std::process::exit(code.into()),
            Self::Signal(signal) => {
                // The command has dumped its own core, so dblock must not dump another. A core limit of zero does not stop a core that is
                // piped to a collector; being undumpable does.
                let _ = prctl::set_dumpable(false);
                // SAFETY: plain libc calls on this single-threaded process and on a set initialised here.
                unsafe {
                    libc::signal(signal, libc::SIG_DFL);
                    let mut only = std::mem::zeroed();
                    libc::sigemptyset(&raw mut only);
                    libc::sigaddset(&raw mut only, signal);
                    libc::sigprocmask(libc::SIG_UNBLOCK, &raw const only, std::ptr::null_mut());
                    libc::raise(signal);
                }
                // Process 1 of a container does not die of its own signals.
                std::process::exit(128 + signal)
            }
        }
    }
}

/// As the end of a sentence about a process.
impl Display for Ending {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "ended with {code}"),
            Self::Signal(signal) => write!(f, "died of signal {signal}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Reason::*;

    #[test]
    fn the_codes_are_those_of_the_manual() {
        let codes = [
            Usage,
            Unreachable,
            Internal,
            OsRefused,
            LockLost,
            AccountRefused,
            Configuration,
            NotExecutable,
            NotFound,
        ]
        .map(super::Reason::code);
        assert_eq!(codes, [64, 69, 70, 71, 74, 77, 78, 126, 127]);
    }
}

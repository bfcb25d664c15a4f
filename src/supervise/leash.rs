//! A tie between the supervisor's life and the command's: when the supervisor is gone the kernel kills the command's
//! processes, and only then closes the session that the supervisor has open.
//!
//! The keeper does the same, but it may be killed together with the supervisor, and a parent-death signal reaches the direct
//! child alone, after the descriptors of the dead have been closed. A socket can send a signal when its other end closes
//! (`F_SETSIG`, fcntl(2)); a process that ends closes its latest descriptors first, and this pair is later than the session.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

/// Where its descriptors begin.
const HIGH: i32 = 128;

/// fcntl(2) on every architecture of Linux; the libc crate does not have it.
const F_SETSIG: i32 = 10;

/// Without effect until it is tied to a process, and again when it is dropped.
pub struct Leash([OwnedFd; 2]);

impl Leash {
    /// No other program inherits it.
    ///
    /// # Errors
    /// As `socketpair(2)`.
    pub fn new() -> nix::Result<Self> {
        let (family, kind) = (AddressFamily::Unix, SockType::Stream);
        let (one, other) = socketpair(family, kind, None, SockFlag::SOCK_CLOEXEC)?;
        // Behind every session that is still to come, unless that is more than this process may have open.
        let behind = |end: OwnedFd| match fcntl_dup(&end) {
            Ok(higher) => higher,
            Err(_) => end,
        };
        Ok(Self([behind(one), behind(other)]))
    }

    /// Ties a process, or its group when the number is negative. Done by the new process itself, before it becomes the
    /// command: what it does to the pair that it shares with the supervisor lasts when its own copy is closed.
    ///
    /// # Errors
    /// As `fcntl(2)`.
    pub fn tie(&self, target: i32) -> nix::Result<()> {
        for end in &self.0 {
            fcntl(end, libc::F_SETOWN, target)?;
            fcntl(end, F_SETSIG, libc::SIGKILL)?;
            fcntl(end, libc::F_SETFL, libc::O_ASYNC)?;
        }
        Ok(())
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        for end in &self.0 {
            let _ = fcntl(end, libc::F_SETFL, 0);
        }
    }
}

fn fcntl_dup(end: &OwnedFd) -> nix::Result<OwnedFd> {
    // SAFETY: makes a descriptor of this process's, which nobody else owns.
    unsafe {
        let higher = libc::fcntl(end.as_raw_fd(), libc::F_DUPFD_CLOEXEC, HIGH);
        Errno::result(higher).map(|higher| OwnedFd::from_raw_fd(higher))
    }
}

fn fcntl(descriptor: &OwnedFd, command: i32, argument: i32) -> nix::Result<()> {
    // SAFETY: these commands take a number and touch no memory.
    Errno::result(unsafe { libc::fcntl(descriptor.as_raw_fd(), command, argument) }).map(drop)
}

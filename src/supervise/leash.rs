//! Ties the command's life to the supervisor's: when the supervisor dies the kernel kills the command's processes, and only then closes
//! the session that the supervisor has open.
//!
//! The keeper kills the command, too, but may be killed together with the supervisor. A parent-death signal reaches only the direct
//! child, and only after the dead process's descriptors were closed. A socket can send a signal when its other end closes (`F_SETSIG`,
//! fcntl(2)). A process that ends closes its highest descriptors first, and this pair is higher than the session.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

/// The lowest number for its descriptors.
const HIGH: i32 = 128;

/// fcntl(2) on every architecture of Linux; the libc crate does not have it.
const F_SETSIG: i32 = 10;

/// A pair of sockets. It has an effect only while it is tied to a process, and not dropped.
pub struct Leash([OwnedFd; 2]);

impl Leash {
    /// Makes a pair that no other program inherits.
    ///
    /// # Errors
    /// As `socketpair(2)`.
    pub fn new() -> nix::Result<Self> {
        let (family, kind) = (AddressFamily::Unix, SockType::Stream);
        let (one, other) = socketpair(family, kind, None, SockFlag::SOCK_CLOEXEC)?;
        // Above every session that will be opened, unless the process may not have that many open.
        let behind = |end: OwnedFd| match fcntl_dup(&end) {
            Ok(higher) => higher,
            Err(_) => end,
        };
        Ok(Self([behind(one), behind(other)]))
    }

    /// Ties a process, or its group if the number is negative. The new process does this itself, before it becomes the command: it shares
    /// the pair with the supervisor, and what it sets stays when its own copy is closed.
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
    // SAFETY: makes a new descriptor of this process, which nothing else owns.
    unsafe {
        let higher = libc::fcntl(end.as_raw_fd(), libc::F_DUPFD_CLOEXEC, HIGH);
        Errno::result(higher).map(|higher| OwnedFd::from_raw_fd(higher))
    }
}

fn fcntl(descriptor: &OwnedFd, command: i32, argument: i32) -> nix::Result<()> {
    // SAFETY: these commands take a number and touch no memory.
    Errno::result(unsafe { libc::fcntl(descriptor.as_raw_fd(), command, argument) }).map(drop)
}

//! Looks at one descriptor by poll(2).

use std::os::fd::BorrowedFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Whether one of these events comes within this time, or an end, which counts with any events. `false` also if a signal interrupts the
/// wait, or if the system refuses it.
pub fn is_ready_within(descriptor: BorrowedFd, events: PollFlags, limit: Duration) -> bool {
    let millis = u16::try_from(limit.as_millis()).unwrap_or(u16::MAX);
    let mut descriptors = [PollFd::new(descriptor, events)];
    matches!(poll(&mut descriptors, PollTimeout::from(millis)), Ok(1..))
}

/// Whether nobody is at the other end of a pipe or a terminal any more.
pub fn has_hung_up(descriptor: BorrowedFd) -> bool {
    is_ready_within(descriptor, PollFlags::empty(), Duration::ZERO)
}

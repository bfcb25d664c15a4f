//! What dblock has below everything else, as far as this program needs it, too: exit codes, and texts for people.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

#[expect(dead_code, reason = "no command's end is handed on here")]
#[path = "../../../src/base/exit.rs"]
pub mod exit;
#[expect(dead_code, reason = "formats that no page has")]
#[path = "../../../src/base/text.rs"]
pub mod text;

/// Writes a line to stderr. Without a reader, as after the end of a terminal, it is lost; so it is behind one that reads nothing, as no page
/// is served while it is waited for.
pub fn say(line: &str) {
    let line = format!("dblock: {}\n", text::printable(line));
    let mut stderr = io::stderr();
    let mut room = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    if poll(&mut room, PollTimeout::ZERO) != Ok(0) {
        let _ = stderr.write_all(line.as_bytes());
    }
}

/// What a mutex has, also after a panic of somebody who had it.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use jiff::Timestamp;

    #[test]
    fn the_latest_moment_that_dblock_writes_can_be_read_here() {
        let far = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
        assert!(super::text::moment(far).parse::<Timestamp>().is_ok());
    }
}

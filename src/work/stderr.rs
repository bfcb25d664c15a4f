//! What commands say is wrong, which is passed on to dblock's own stderr.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};

use crate::base::log::write_at_once;

/// Bytes that are passed on at once: a pipe takes so many as a whole (`PIPE_BUF`).
const PIECE: usize = 4096;

/// Bytes that are passed on before something else has its turn. A pipe holds so many: of a command that has ended nothing is left.
const MOST: usize = 64 * 1024;

/// Passes on what there is by now, up to a limit, and has each piece kept; whether it was the end. The file must not block.
pub fn pass_on(stderr: &mut File, keep: impl FnMut(&[u8])) -> bool {
    pass_on_to(io::stderr().as_fd(), stderr, keep)
}

fn pass_on_to(to: BorrowedFd, stderr: &mut File, mut keep: impl FnMut(&[u8])) -> bool {
    let mut bytes = [0; PIECE];
    let mut left = MOST;
    // Each attempt to write what nobody reads takes a while.
    let mut is_read = true;
    while left > 0 {
        match stderr.read(&mut bytes) {
            Ok(0) => return true,
            Ok(length) => {
                let piece = &bytes[..length];
                is_read = is_read && write_at_once(to, piece).is_ok();
                keep(piece);
                left = left.saturating_sub(length);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_keeps_nobody_waiting() {
        let mut endless = File::open("/dev/zero").unwrap();
        let null = File::options().write(true).open("/dev/null").unwrap();
        let mut passed_on = 0;
        let is_end = pass_on_to(null.as_fd(), &mut endless, |piece| passed_on += piece.len());
        assert!(!is_end);
        assert_eq!(passed_on, MOST);
    }
}

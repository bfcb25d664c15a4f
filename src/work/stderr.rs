//! The stderr of commands, which is copied to dblock's own.

use std::fs::File;
use std::io::{self, Read};

use crate::base::clock::Moment;
use crate::base::log::{PATIENCE, write_stderr};

/// Bytes that are copied at once: a pipe takes this many as a whole (`PIPE_BUF`).
const PIECE: usize = 4096;

/// Bytes that are copied before anything else is handled. A pipe holds this many, so that nothing of an ended command remains.
const MOST: usize = 64 * 1024;

/// One round of copying. If the reader of dblock's stderr is slow, a round waits hardly longer than one write does.
#[derive(Debug, Clone, Copy)]
pub struct Round(Moment);

impl Round {
    /// A round that begins now.
    pub fn begin() -> Self {
        Self(Moment::now() + PATIENCE)
    }

    /// Whether the round's time is over. The rest is left to the next round.
    pub fn is_over(self) -> bool {
        self.0 <= Moment::now()
    }

    /// Copies available bytes, up to a limit and the end of the round, and passes each piece to `keep`. Returns whether the stream has
    /// ended. The file must be nonblocking.
    pub fn pass_on(self, stderr: &mut File, keep: impl FnMut(&[u8])) -> bool {
        pass_on_to(
            |piece| write_stderr(piece, true),
            || self.is_over(),
            stderr,
            keep,
        )
    }

    /// As [`Round::pass_on`] for an ended command: copies the rest, but waits for the reader only until the end of the round.
    pub fn pass_on_rest(self, stderr: &mut File, keep: impl FnMut(&[u8])) -> bool {
        pass_on_to(
            |piece| write_stderr(piece, !self.is_over()),
            || false,
            stderr,
            keep,
        )
    }
}

fn pass_on_to(
    mut write: impl FnMut(&[u8]) -> bool,
    stops: impl Fn() -> bool,
    stderr: &mut File,
    mut keep: impl FnMut(&[u8]),
) -> bool {
    let mut bytes = [0; PIECE];
    let mut left = MOST;
    let mut is_read = true;
    while left > 0 && !stops() {
        match stderr.read(&mut bytes) {
            Ok(0) => return true,
            Ok(length) => {
                let piece = &bytes[..length];
                is_read = is_read && write(piece);
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
        let mut passed_on = 0;
        let is_end = pass_on_to(
            |_| true,
            || false,
            &mut endless,
            |piece| passed_on += piece.len(),
        );
        assert!(!is_end);
        assert_eq!(passed_on, MOST);
    }
}

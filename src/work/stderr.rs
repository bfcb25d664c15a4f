//! What commands say is wrong, which is passed on to dblock's own stderr.

use std::fs::File;
use std::io::{self, Read};

use crate::base::clock::Moment;
use crate::base::log::{PATIENCE, write_stderr};

/// Bytes that are passed on at once: a pipe takes so many as a whole (`PIPE_BUF`).
const PIECE: usize = 4096;

/// Bytes that are passed on before something else has its turn. A pipe holds so many: of a command that has ended nothing is left.
const MOST: usize = 64 * 1024;

/// One round in which streams are passed on. All of it waits hardly longer for whoever reads dblock's stderr than a single write does.
#[derive(Debug, Clone, Copy)]
pub struct Round(Moment);

impl Round {
    /// One that begins now.
    pub fn begin() -> Self {
        Self(Moment::now() + PATIENCE)
    }

    /// Whether it has taken so long that the rest is left to the next one.
    pub fn is_over(self) -> bool {
        self.0 <= Moment::now()
    }

    /// Passes on what there is by now, up to a limit and the end of the round, and has each piece kept; whether it was the end. The file
    /// must not block.
    pub fn pass_on(self, stderr: &mut File, keep: impl FnMut(&[u8])) -> bool {
        pass_on_to(
            |piece| write_stderr(piece, true),
            || self.is_over(),
            stderr,
            keep,
        )
    }

    /// As [`Round::pass_on`] for a command that has ended: nothing is left to another round, but after this one nothing waits.
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

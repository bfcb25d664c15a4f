//! The output of a command on its way to dblock's own stdout and stderr, of which a part is kept. As little as possible is copied: tee(2)
//! lets a second pipe share what is in the command's, splice(2) moves it on, and only the end of it is read. What goes into a file or a
//! socket must be copied. Nothing here waits.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice, tee};
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::pipe2;

use crate::base::poll::has_hung_up;
use crate::history::KeptOutput;

/// The size of the pipes, if the system grants it: the larger they are, the more is moved at once. A user may have some hundred such pipes.
const LARGE: libc::c_int = 256 * 1024;

/// The most bytes that are shared or moved at once.
const AT_ONCE: usize = 1024 * 1024;

/// As much as a pipe takes as a whole (`PIPE_BUF`).
const PIECE: usize = 4096;

/// As much as is written into a file at once.
const LARGE_PIECE: usize = 256 * 1024;

/// What the kept part is taken from.
#[derive(Debug)]
pub struct Copies {
    /// The second pipe, and how many bytes are in it.
    read: File,
    write: OwnedFd,
    held: usize,
    /// How many bytes the second pipe can hold.
    capacity: usize,
    /// Where goes what is not kept.
    nowhere: File,
    /// Whether the command has ended, so that nothing more is kept.
    is_over: bool,
}

/// How one of the streams of a command is moved on.
#[derive(Debug, Default)]
pub struct Transfer {
    /// How many of the next bytes in the command's pipe the second one has, too.
    ahead: usize,
    /// Whether they cannot be spliced.
    must_copy: bool,
}

/// What became of one step of a transfer.
#[derive(Debug)]
pub enum TransferStep {
    /// Some bytes were moved on.
    Moved,
    /// Some were read, and are to be written.
    Read,
    /// There is nothing now.
    Empty,
    /// There is no room for them.
    Full,
    /// There is nothing more to come.
    End,
}

impl Transfer {
    /// Whether there is no need to ask first whether there is room, as splice(2) finds out. It must not pass what is read already.
    pub fn splices(&self, nothing_is_before: bool) -> bool {
        nothing_is_before && !self.must_copy
    }

    /// Whether something is kept that is not moved on yet.
    pub fn has_rest(&self) -> bool {
        self.ahead > 0
    }

    /// That to a descriptor. A socket could let splice(2) wait. In a file it does not lock the position: of two programs that share that,
    /// each would write over what the other one has written meanwhile.
    pub fn to(descriptor: BorrowedFd) -> Self {
        Self {
            ahead: 0,
            must_copy: !matches!(kind_of(descriptor), SFlag::S_IFIFO | SFlag::S_IFCHR),
        }
    }
}

impl Copies {
    /// Nothing was written yet.
    ///
    /// # Errors
    /// As `pipe2(2)`, and if there is no `/dev/null`.
    pub fn begin() -> io::Result<Self> {
        let (read, write) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        enlarge(&write);
        let capacity = fcntl(&write, FcntlArg::F_GETPIPE_SZ)?;
        Ok(Self {
            read: File::from(read),
            write,
            held: 0,
            capacity: usize::try_from(capacity).unwrap_or_default(),
            nowhere: OpenOptions::new().write(true).open("/dev/null")?,
            is_over: false,
        })
    }

    /// Moves some bytes from a command's pipe on to a descriptor that has room, or reads them where they cannot be moved.
    ///
    /// # Errors
    /// Nobody reads them any more, or they cannot be read.
    pub fn step(
        &mut self,
        from: &mut File,
        transfer: &mut Transfer,
        to: BorrowedFd,
        read: &mut Vec<u8>,
        kept: &mut KeptOutput,
    ) -> io::Result<TransferStep> {
        // A process of the command may have read some of it.
        transfer.ahead = transfer.ahead.min(in_pipe(from));
        if transfer.ahead == 0 {
            if self.is_over {
                return Ok(TransferStep::End);
            }
            match self.share(from, kept)? {
                Ok(0) => return Ok(TransferStep::End),
                Ok(shared) => transfer.ahead = shared,
                Err(Empty) => return Ok(TransferStep::Empty),
            }
        }
        if transfer.must_copy {
            let most = transfer.ahead.min(longest_write(to));
            read.reserve(most);
            transfer.ahead -= from.take(most as u64).read_to_end(read)?;
            return Ok(TransferStep::Read);
        }
        match splice(&*from, None, to, None, transfer.ahead, nonblocking()) {
            Ok(0) | Err(Errno::EAGAIN) => Ok(TransferStep::Full),
            Ok(moved) => {
                transfer.ahead -= moved;
                Ok(TransferStep::Moved)
            }
            Err(Errno::EINTR) => Ok(TransferStep::Moved),
            Err(Errno::EPIPE) => Err(Errno::EPIPE.into()),
            // A device that knows no splice(2), for one. What else there may be, a write tells.
            Err(_) => {
                transfer.must_copy = true;
                Ok(TransferStep::Moved)
            }
        }
    }

    /// Lets the second pipe share what is in a command's. Returns how many bytes; 0: nobody can write any more.
    fn share(&mut self, from: &File, kept: &mut KeptOutput) -> io::Result<Result<usize, Empty>> {
        loop {
            match tee(from, &self.write, AT_ONCE, nonblocking()) {
                Ok(shared) => {
                    self.held += shared;
                    return Ok(Ok(shared));
                }
                Err(Errno::EINTR) => {}
                // Also where the second pipe is full, which hides the end of the command's.
                Err(Errno::EAGAIN)
                    if self.held == 0 || in_pipe(from) == 0 && !has_hung_up(from.as_fd()) =>
                {
                    return Ok(Err(Empty));
                }
                Err(Errno::EAGAIN) => self.make_room(kept)?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Empties the second pipe, but for what may be the end of the output.
    fn make_room(&mut self, kept: &mut KeptOutput) -> io::Result<()> {
        self.keep(kept, self.held.min(kept.lacks()))?;
        if self.held > kept.room() && kept.room() <= self.capacity / 2 {
            self.leave_out(kept)
        } else {
            self.keep(kept, self.held)
        }
    }

    /// Drops what is not kept in any case.
    fn leave_out(&mut self, kept: &mut KeptOutput) -> io::Result<()> {
        let excess = self.held.saturating_sub(kept.room());
        self.discard(excess)?;
        if excess > 0 {
            kept.leave_out(excess);
        }
        Ok(())
    }

    /// Drops the next bytes of the second pipe.
    fn discard(&mut self, count: usize) -> io::Result<()> {
        let mut left = count;
        while left > 0 {
            match splice(&self.read, None, &self.nowhere, None, left, nonblocking()) {
                Ok(dropped @ 1..) => left -= dropped,
                Err(Errno::EINTR) => {}
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) => return Err(error.into()),
            }
        }
        self.held -= count;
        Ok(())
    }

    /// Reads the next bytes of the second pipe.
    fn keep(&mut self, kept: &mut KeptOutput, count: usize) -> io::Result<()> {
        let mut bytes = [0; PIECE];
        let mut left = count;
        while left > 0 {
            let piece = &mut bytes[..left.min(PIECE)];
            self.read.read_exact(piece)?;
            left -= piece.len();
            kept.add(piece);
        }
        self.held -= count;
        Ok(())
    }

    /// The command has ended: what is still in its pipes is kept, too.
    pub fn end<'a>(
        &mut self,
        rests: impl Iterator<Item = (&'a File, &'a mut Transfer)>,
        kept: &mut KeptOutput,
    ) {
        let _ = self.finish(kept);
        for (from, transfer) in rests {
            let _ = self
                .take_rest(from, transfer)
                .and_then(|()| self.finish(kept));
        }
        self.is_over = true;
    }

    /// Keeps all that is in the second pipe, or its end.
    fn finish(&mut self, kept: &mut KeptOutput) -> io::Result<()> {
        self.keep(kept, self.held.min(kept.lacks()))?;
        self.leave_out(kept)?;
        self.keep(kept, self.held)
    }

    /// Shares what is in a command's pipe, but for what was shared before. The second pipe must be empty.
    fn take_rest(&mut self, from: &File, transfer: &mut Transfer) -> io::Result<()> {
        let known = transfer.ahead;
        // Whatever is kept of it, all of it is passed on.
        transfer.ahead = known.max(in_pipe(from));
        enlarge_to(from, &self.write);
        match tee(from, &self.write, AT_ONCE, nonblocking()) {
            Ok(shared) => self.held = shared,
            Err(Errno::EAGAIN) => {}
            Err(error) => return Err(error.into()),
        }
        self.discard(known.min(self.held))
    }
}

/// Nothing is in a pipe.
struct Empty;

/// Makes a pipe larger, if the system grants that.
pub fn enlarge(pipe: impl AsFd) {
    let _ = fcntl(pipe, FcntlArg::F_SETPIPE_SZ(LARGE));
}

/// Makes a second pipe as large as a command's, if the system grants that: the command may have enlarged its own.
fn enlarge_to(from: &File, pipe: &OwnedFd) {
    let sizes = [
        fcntl(from, FcntlArg::F_GETPIPE_SZ),
        fcntl(pipe, FcntlArg::F_GETPIPE_SZ),
    ];
    if let [Ok(size), Ok(own)] = sizes
        && size > own
    {
        let _ = fcntl(pipe, FcntlArg::F_SETPIPE_SZ(size));
    }
}

/// What is in a command's pipe now. It stays there.
///
/// # Errors
/// As `pipe2(2)` and `tee(2)`.
pub fn look_into(from: &File) -> io::Result<Vec<u8>> {
    let (read, write) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    enlarge_to(from, &write);
    let length = match tee(from, &write, AT_ONCE, nonblocking()) {
        Ok(length) => length,
        Err(Errno::EAGAIN) => 0,
        Err(error) => return Err(error.into()),
    };
    let mut bytes = vec![0; length];
    File::from(read).read_exact(&mut bytes)?;
    Ok(bytes)
}

fn nonblocking() -> SpliceFFlags {
    SpliceFFlags::SPLICE_F_NONBLOCK
}

/// What kind of file a descriptor is.
fn kind_of(descriptor: BorrowedFd) -> SFlag {
    let mode = fstat(descriptor).map(|stat| stat.st_mode);
    SFlag::from_bits_truncate(mode.unwrap_or_default()) & SFlag::S_IFMT
}

/// How many bytes are written to a descriptor at once.
pub fn longest_write(descriptor: BorrowedFd) -> usize {
    match kind_of(descriptor) {
        SFlag::S_IFREG => LARGE_PIECE,
        _ => PIECE,
    }
}

/// How many bytes are in a pipe.
pub fn in_pipe(pipe: &File) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: writes one number.
    let asked = unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    if asked == 0 {
        usize::try_from(bytes).unwrap_or_default()
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn no_more_is_kept_than_asked_for_and_all_else_is_counted_at_each_edge() {
        let all: Vec<u8> = (0..900_000_u32).map(|n| (n % 251) as u8).collect();
        let most = 16 * 1024;
        for length in [most - 1, most, most + 1, 300_000, all.len()] {
            let (read, write) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).unwrap();
            let (mut from, mut write) = (File::from(read), File::from(write));
            let (mut copies, mut kept) = (Copies::begin().unwrap(), KeptOutput::new(most));
            let mut transfer = Transfer::default();
            let to = tempfile::tempfile().unwrap();
            // Less than a pipe holds.
            for piece in all[..length].chunks(50_000) {
                write.write_all(piece).unwrap();
                loop {
                    match copies.step(
                        &mut from,
                        &mut transfer,
                        to.as_fd(),
                        &mut Vec::new(),
                        &mut kept,
                    ) {
                        Ok(TransferStep::Moved | TransferStep::Read) => {}
                        Ok(TransferStep::Empty) => break,
                        other => panic!("{other:?}"),
                    }
                }
            }
            copies.end(std::iter::once((&from, &mut transfer)), &mut kept);
            let (head, omitted, tail) = kept.pieces();
            let sizes = (head.len() + tail.len(), omitted);
            let left_out = length.saturating_sub(most);
            assert_eq!(sizes, (length - left_out, left_out as u64));
            assert!(all.starts_with(head) && all[..length].ends_with(tail));
        }
    }

    #[test]
    fn the_rest_in_a_pipe_that_the_command_has_enlarged_is_passed_on_and_kept() {
        let (read, write) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).unwrap();
        let mut from = File::from(read);
        fcntl(&write, FcntlArg::F_SETPIPE_SZ(4 * LARGE)).unwrap();
        let all: Vec<u8> = (0..900_000_u32).map(|n| (n % 251) as u8).collect();
        File::from(write).write_all(&all).unwrap();
        let (mut copies, mut kept) = (Copies::begin().unwrap(), KeptOutput::new(64 * 1024));
        let to = tempfile::tempfile().unwrap();
        let mut transfer = Transfer::to(to.as_fd());
        copies.end(std::iter::once((&from, &mut transfer)), &mut kept);
        let mut passed_on = Vec::new();
        while !matches!(
            copies.step(
                &mut from,
                &mut transfer,
                to.as_fd(),
                &mut passed_on,
                &mut kept
            ),
            Ok(TransferStep::End)
        ) {}
        assert!(passed_on == all, "{} of {}", passed_on.len(), all.len());
        let (head, omitted, tail) = kept.pieces();
        assert_eq!((head.len(), omitted), (4096, 900_000 - 64 * 1024));
        assert!(all.starts_with(head) && all.ends_with(tail));
    }

    #[test]
    fn what_a_process_of_the_command_has_read_itself_is_not_waited_for() {
        let (read, write) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).unwrap();
        let mut from = File::from(read);
        drop(write);
        let to = tempfile::tempfile().unwrap();
        let (mut copies, mut kept) = (Copies::begin().unwrap(), KeptOutput::new(4096));
        for must_copy in [false, true] {
            let mut transfer = Transfer {
                ahead: 10,
                must_copy,
            };
            let step = copies.step(
                &mut from,
                &mut transfer,
                to.as_fd(),
                &mut Vec::new(),
                &mut kept,
            );
            assert!(matches!(step, Ok(TransferStep::End)), "{step:?}");
        }
    }
}

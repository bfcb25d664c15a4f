//! Payloads, in files in memory: one file for each message of claims, and one as the stdin of each command.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use nix::sys::memfd::{MFdFlags, memfd_create};

/// The payload of one job.
#[derive(Debug, Clone)]
pub struct Payload {
    /// The file, which payloads may share.
    pub file: Rc<File>,
    /// Where the payload starts, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
}

/// An empty file.
///
/// # Errors
/// As `memfd_create(2)`.
pub fn file() -> io::Result<File> {
    let file = memfd_create(c"dblock payload", MFdFlags::MFD_CLOEXEC)?;
    Ok(File::from(file))
}

/// Bytes that are copied at once.
const PIECE: u64 = 256 * 1024;

impl Payload {
    /// The whole payload, as an argument of a command.
    ///
    /// # Errors
    /// As `read(2)`.
    pub fn as_argument(&self) -> io::Result<OsString> {
        let mut bytes = vec![0; usize::try_from(self.length).unwrap_or(usize::MAX)];
        self.file.read_exact_at(&mut bytes, self.offset)?;
        Ok(OsString::from_vec(bytes))
    }

    /// Whether the payload contains this byte.
    ///
    /// # Errors
    /// As `read(2)`.
    pub fn contains(&self, byte: u8) -> io::Result<bool> {
        let mut contains = false;
        self.read(|piece| {
            contains |= piece.contains(&byte);
            Ok(())
        })?;
        Ok(contains)
    }

    fn copy_to(&self, mut to: &File) -> io::Result<()> {
        self.read(|piece| to.write_all(piece))
    }

    /// Reads the payload, a piece at a time.
    fn read(&self, mut on_piece: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut at = 0;
        while at < self.length {
            let piece = (self.length - at).min(PIECE);
            let mut bytes = vec![0; usize::try_from(piece).unwrap_or_default()];
            self.file.read_exact_at(&mut bytes, self.offset + at)?;
            on_piece(&bytes)?;
            at += piece;
        }
        Ok(())
    }
}

/// Payloads of several messages, copied into one file. There may be thousands of messages, too many to keep a file open for each.
pub struct Gathered {
    file: Rc<File>,
    length: u64,
}

/// From this size in bytes on, payloads keep their own file, and a file takes no more payloads.
const MUCH: u64 = 16 * 1024 * 1024;

impl Gathered {
    /// Adds payloads to the shared file. Returns their new place, or `None` if they stay where they are.
    pub fn add(gathered: &mut Option<Self>, payloads: &Payload) -> Option<Payload> {
        if payloads.length >= MUCH {
            return None;
        }
        let mut to = match gathered.take().filter(|there| there.length < MUCH) {
            Some(there) => there,
            None => Self {
                file: Rc::new(file().ok()?),
                length: 0,
            },
        };
        // After a failed copy it is unknown how much was written, so the file is not used again.
        payloads.copy_to(&to.file).ok()?;
        let offset = to.length;
        to.length += payloads.length;
        let now = Payload {
            file: Rc::clone(&to.file),
            offset,
            length: payloads.length,
        };
        *gathered = Some(to);
        Some(now)
    }
}

/// A command's stdin: the payloads, each followed by the byte `end`, if there is one.
///
/// # Errors
/// As `memfd_create(2)` and `write(2)`.
pub fn stdin(payloads: &[Payload], end: Option<u8>) -> io::Result<OwnedFd> {
    let mut input = file()?;
    for payload in payloads {
        payload.copy_to(&input)?;
        if let Some(end) = end {
            input.write_all(&[end])?;
        }
    }
    input.seek(SeekFrom::Start(0))?;
    Ok(input.into())
}

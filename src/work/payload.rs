//! Payloads, in files that only memory has: of what was claimed together in one, and of each command in one of its own, its stdin.

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
    /// Where it stands, with others.
    pub file: Rc<File>,
    /// From this byte on.
    pub offset: u64,
    /// So many bytes.
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
    /// All of it, as an argument of a command.
    ///
    /// # Errors
    /// As `read(2)`.
    pub fn as_argument(&self) -> io::Result<OsString> {
        let mut bytes = vec![0; usize::try_from(self.length).unwrap_or(usize::MAX)];
        self.file.read_exact_at(&mut bytes, self.offset)?;
        Ok(OsString::from_vec(bytes))
    }

    /// Whether it has this byte.
    ///
    /// # Errors
    /// As `read(2)`.
    pub fn contains(&self, byte: u8) -> io::Result<bool> {
        let mut at = 0;
        while at < self.length {
            let piece = (self.length - at).min(PIECE);
            let mut bytes = vec![0; usize::try_from(piece).unwrap_or_default()];
            self.file.read_exact_at(&mut bytes, self.offset + at)?;
            if bytes.contains(&byte) {
                return Ok(true);
            }
            at += piece;
        }
        Ok(false)
    }

    fn copy_to(&self, to: &mut File) -> io::Result<()> {
        let mut at = 0;
        while at < self.length {
            let piece = (self.length - at).min(PIECE);
            let mut bytes = vec![0; usize::try_from(piece).unwrap_or_default()];
            self.file.read_exact_at(&mut bytes, self.offset + at)?;
            to.write_all(&bytes)?;
            at += piece;
        }
        Ok(())
    }
}

/// What a command reads: the payloads, each with the byte behind it that ends it, where there is one.
///
/// # Errors
/// As `memfd_create(2)` and `write(2)`.
pub fn stdin(payloads: &[Payload], end: Option<u8>) -> io::Result<OwnedFd> {
    let mut input = file()?;
    for payload in payloads {
        payload.copy_to(&mut input)?;
        if let Some(end) = end {
            input.write_all(&[end])?;
        }
    }
    input.seek(SeekFrom::Start(0))?;
    Ok(input.into())
}

//! Reading a file that somebody named: it never waits for a pipe's writer, touches no device, and always finishes.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use zeroize::Zeroizing;

/// Bytes of a file at most: a thousand times what any of them needs.
pub const LARGEST: u64 = 1024 * 1024;

/// Everything that a regular file has, wiped from memory when it is dropped, and what the file is.
///
/// # Errors
/// As `open(2)` and `read(2)`; and that it is not a regular file, or larger than [`LARGEST`].
pub fn read(path: &Path) -> io::Result<(Zeroizing<Vec<u8>>, Metadata)> {
    let (file, metadata) = open(path)?;
    Ok((all_of(file, metadata.len())?, metadata))
}

/// Everything that stdin has, until its end.
///
/// # Errors
/// As `read(2)`; and that it is more than [`LARGEST`].
pub fn read_stdin() -> io::Result<Zeroizing<Vec<u8>>> {
    all_of(io::stdin().lock(), LARGEST)
}

fn all_of(reader: impl Read, length: u64) -> io::Result<Zeroizing<Vec<u8>>> {
    // More than it says, for a buffer that grows, or is nearly full, leaves some bytes behind elsewhere.
    let expected = usize::try_from(length.min(LARGEST) + 64).unwrap_or_default();
    let mut bytes = Zeroizing::new(Vec::with_capacity(expected));
    reader.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(bytes)
}

fn open(path: &Path) -> io::Result<(File, Metadata)> {
    // Asked before it is opened: opening some devices has effects.
    regular(fs::metadata(path)?)?;
    // Something else may have come to that name since; opening a pipe would wait for its writer.
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    let metadata = regular(file.metadata()?)?;
    Ok((file, metadata))
}

/// Whether this user can read a regular file of that name.
///
/// # Errors
/// As `open(2)`, and that it is not a regular file.
pub fn can_be_read(path: &Path) -> io::Result<()> {
    open(path).map(drop)
}

fn regular(metadata: Metadata) -> io::Result<Metadata> {
    if metadata.is_file() {
        Ok(metadata)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

//! Reading a file that a user named: never waits for a pipe's writer, never opens a device, and always ends.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use zeroize::Zeroizing;

/// The most bytes of a file: a thousand times what any of them needs.
pub const LARGEST: u64 = 1024 * 1024;

/// The contents of a regular file, wiped from memory when dropped, and its metadata.
///
/// # Errors
/// As `open(2)` and `read(2)`. Also if it is not a regular file, or larger than [`LARGEST`].
pub fn read(path: &Path) -> io::Result<(Zeroizing<Vec<u8>>, Metadata)> {
    let (file, metadata) = open(path)?;
    Ok((all_of(file, metadata.len())?, metadata))
}

/// Reads stdin to its end.
///
/// # Errors
/// As `read(2)`. Also if there is more than [`LARGEST`].
pub fn read_stdin() -> io::Result<Zeroizing<Vec<u8>>> {
    all_of(io::stdin().lock(), LARGEST)
}

fn all_of(reader: impl Read, length: u64) -> io::Result<Zeroizing<Vec<u8>>> {
    // Larger than the file: a buffer that has to grow leaves a copy of its bytes in memory.
    let expected = usize::try_from(length.min(LARGEST) + 64).unwrap_or_default();
    let mut bytes = Zeroizing::new(Vec::with_capacity(expected));
    reader.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(bytes)
}

fn open(path: &Path) -> io::Result<(File, Metadata)> {
    // Checked before opening, as opening a device may have effects.
    regular(fs::metadata(path)?)?;
    // The name may be another file by now, and opening a pipe would wait for its writer.
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
/// As `open(2)`. Also if it is not a regular file.
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

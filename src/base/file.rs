//! Reading a file that a user named: never waits for a pipe's writer, never opens a device, and always ends. Replacing one.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::random;

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

/// Everybody may read it, its owner may write it.
const FOR_READERS: u32 = 0o644;

/// Gives a file these contents in one step: whoever reads it meanwhile gets the old ones or the new ones. Everybody can read it.
///
/// # Errors
/// As `open(2)`, `write(2)` and `rename(2)`; also if there is something of that name that is no regular file, such as a link. Then
/// nothing has changed, and nothing is left behind.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    // A link may lead to a device, or to where a shell has sent the output of this process.
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        found => {
            regular(found?)?;
        }
    }
    let beside = beside(path)?;
    let replaced = write_new(&beside, contents).and_then(|()| fs::rename(&beside, path));
    if replaced.is_err() {
        let _ = fs::remove_file(&beside);
    }
    replaced
}

/// A name in the folder of a file that nobody else uses, and that no pattern for the file's own kind fits.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::other("it is not a regular file"));
    };
    let mut hidden = OsString::from(".");
    hidden.push(name);
    // Whoever could guess it could keep the name occupied, where others may write to the folder.
    let random = random::number().map_err(|failure| io::Error::other(failure.line))?;
    hidden.push(format!(".{random:016x}"));
    Ok(path.with_file_name(hidden))
}

fn write_new(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(FOR_READERS)
        .open(path)?;
    // Whatever the umask is.
    file.set_permissions(Permissions::from_mode(FOR_READERS))?;
    file.write_all(contents)
}

fn regular(metadata: Metadata) -> io::Result<Metadata> {
    if metadata.is_file() {
        Ok(metadata)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_can_keep_the_name_occupied_that_is_written_first() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        // What this process may not remove, as where it is another user's.
        let guessed = format!(".file.{}", std::process::id());
        fs::create_dir(folder.path().join(guessed)).unwrap();
        for contents in ["old", "new"] {
            replace(&file, contents.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), contents);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}

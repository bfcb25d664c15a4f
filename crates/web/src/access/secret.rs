//! Secrets: 128 random bits, and a password in a file. They are compared in a time that says nothing of where they differ.

use std::fmt::{self, Debug, Formatter};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

use crate::base::exit::{Failure, Reason};
use crate::base::text::in_words;

/// The longest file: no password needs more.
const LARGEST: u64 = 64 * 1024;

/// 128 random bits, as 32 hexadecimal digits.
pub struct Secret(String);

impl Secret {
    /// A new one.
    ///
    /// # Errors
    /// The system has no random bits.
    pub fn new() -> Result<Self, Failure> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)
            .map_err(|error| Failure::new(Reason::Internal, format!("no random bits: {error}")))?;
        Ok(Self(format!("{:032x}", u128::from_be_bytes(bytes))))
    }

    /// Its digits.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether it is this text.
    pub fn is(&self, text: &str) -> bool {
        self.0.as_bytes().ct_eq(text.as_bytes()).into()
    }
}

impl Debug for Secret {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        f.write_str("…")
    }
}

/// A password, of which no more than a digest is kept: equally long, whatever the password.
pub struct Digest([u8; 32]);

impl Digest {
    /// That of a password.
    pub fn of(password: &[u8]) -> Self {
        Self(Sha256::digest(password).into())
    }
}

impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Debug for Digest {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        f.write_str("…")
    }
}

/// The first line of a file.
///
/// # Errors
/// It cannot be read, others can read it, or the line is empty.
pub fn password_in(path: &Path) -> Result<Digest, Failure> {
    let refused = |why: &str| {
        let line = format!("cannot use the password file {}: {why}", path.display());
        Failure::new(Reason::Configuration, line)
    };
    let bytes = read(path).map_err(|error| refused(&in_words(&error)))?;
    let line = bytes
        .split(|&byte| byte == b'\n')
        .next()
        .unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        return Err(refused("its first line is empty"));
    }
    Ok(Digest::of(line))
}

/// Opens a regular file. Nobody is served meanwhile, and opening a pipe would wait for its writer.
///
/// # Errors
/// As `open(2)`. Also if it is another kind of file.
pub fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let file = File::options()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok((file, metadata))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let (file, metadata) = open(path)?;
    if metadata.len() > LARGEST {
        return Err(io::Error::other("it is larger than 64 KiB"));
    }
    refuse_public(&metadata)?;
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Refuses a file with a secret if anybody besides its user and its group can read or write it. Its group may: distributions have one for
/// keys, and the volume of a Kubernetes secret has one for the container's user.
///
/// # Errors
/// What is to be done about it, in words.
pub fn refuse_public(file: &Metadata) -> io::Result<()> {
    if file.mode() & 0o006 == 0 {
        Ok(())
    } else {
        Err(io::Error::other("others can read it; chmod 600 it"))
    }
}

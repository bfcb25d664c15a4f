//! The password: given, or read from where an option says.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use zeroize::Zeroizing;

use crate::base::exit::{Failure, Reason};
use crate::base::file;
use crate::base::log::{Level, Listener};
use crate::base::text::in_words;
use crate::db::target::{Password, Target};

/// The password for each of these servers, in their order; `None`: there is none for it.
///
/// # Errors
/// As [`read`].
pub fn read_all(
    settings: &Password,
    targets: &[Target],
    listener: &Listener,
) -> Result<Vec<Option<Zeroizing<String>>>, Failure> {
    match (settings, targets.first()) {
        (Password::Deferred(_), _) | (_, None) => {
            let each = targets.iter();
            each.map(|target| read(settings, target, listener))
                .collect()
        }
        // All have the same one, and a warning about its file is given once.
        (_, Some(first)) => Ok(vec![read(settings, first, listener)?; targets.len()]),
    }
}

/// Reads the password for this server; `None`: there is none.
///
/// # Errors
/// [`Reason::Configuration`] when its file cannot be used.
pub fn read(
    settings: &Password,
    target: &Target,
    listener: &Listener,
) -> Result<Option<Zeroizing<String>>, Failure> {
    let (text, place) = match settings {
        Password::None => return Ok(None),
        Password::Given(password) => return Ok(Some(password.clone())),
        Password::File(path) => {
            let place = format!("the password file {}", path.display());
            (password_in(path, &place, listener), place)
        }
        Password::Deferred(deferred) => match (deferred.read)(target) {
            Ok(None) => return Ok(None),
            Ok(Some(bytes)) => (Ok(bytes), deferred.place.clone()),
            Err(why) => (Err(why), deferred.place.clone()),
        },
    };
    let refused = |why: &str| {
        let line = format!("cannot read {place}: {why}");
        Failure::new(Reason::Configuration, line)
    };
    let mut bytes = text.map_err(|why| refused(&why))?;
    let text = String::from_utf8(std::mem::take(&mut *bytes)).map(Zeroizing::new);
    let text = text.map_err(|_| refused("it is not UTF-8"))?;
    Ok(Some(text))
}

/// The first line of a password's file, without its line break.
fn password_in(
    path: &Path,
    place: &str,
    listener: &Listener,
) -> Result<Zeroizing<Vec<u8>>, String> {
    let (mut bytes, metadata) = file::read(path).map_err(|error| in_words(&error))?;
    if metadata.mode() & 0o006 != 0 {
        let line = format!("{place} can be read by others; chmod 600 it");
        listener(Level::Warning, &line);
    }
    if let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
        bytes.truncate(end);
    }
    while bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err("it begins with a byte order mark; save it as UTF-8 without one".to_owned());
    }
    if bytes.contains(&0) {
        return Err("the password has a byte 0".to_owned());
    }
    // A secret that was not put there, or not yet. An account without a password needs no file.
    if bytes.is_empty() {
        return Err("its first line is empty".to_owned());
    }
    Ok(bytes)
}

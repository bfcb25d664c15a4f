//! The password file: `host:port:database:user:password` in each line, as libpq reads it (`passwordFromFile`).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use zeroize::Zeroizing;

use super::files;
use super::hosts::host_and_port;
use crate::base::file;
use crate::base::user::os_user;
use crate::db::{DeferredPassword, Password, Target};
use crate::settings::sources::Sources;

/// The folder that libpq is built to look for local sockets in, as distributions build it. Written so, it is `localhost` in the file.
const USUAL_FOLDER: &str = "/var/run/postgresql";

/// Whose password is looked for.
struct Login {
    /// `None` is the OS user's name.
    user: Option<String>,
    database: String,
}

/// The password file in force, if there is one that libpq would use. The process that logs in reads it.
pub fn password(
    sources: &mut Sources,
    targets: &[Target],
    user: Option<&str>,
    database: &str,
) -> Password {
    let given = sources.given("passfile").cloned();
    let (path, place) = match &given {
        Some(given) => (Some(given.path()), given.place()),
        None => (files::existing_at_home(".pgpass"), "default".to_owned()),
    };
    let Some(path) = path else {
        sources.record("password", None, "default");
        return Password::None;
    };
    sources.record("passfile", Some(&path.to_string_lossy()), &place);
    if let Some(why) = why_ignored(&path) {
        sources.warn(format!(
            "the password file {} is ignored: {why}",
            path.display()
        ));
    }
    let login = Login {
        user: user.map(str::to_owned),
        database: database.to_owned(),
    };
    // Otherwise only the process that logs in reads passwords.
    if sources.is_lenient {
        let found = targets.iter().find_map(|target| login.find(&path, target));
        match found {
            Some((line, _)) => {
                let place = format!("{}:{line}", path.display());
                sources.record("password", Some("***"), &place);
            }
            None => sources.record("password", None, "default"),
        }
    }
    Password::Deferred(deferred(path, login))
}

fn deferred(path: PathBuf, login: Login) -> DeferredPassword {
    DeferredPassword {
        place: format!("the password in {}", path.display()),
        read: Rc::new(move |target| Ok(login.find(&path, target).map(|(_, password)| password))),
    }
}

/// Why libpq, and so dblock, ignores a file that is there.
fn why_ignored(path: &Path) -> Option<&'static str> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_file() {
        return Some("it is not a plain file");
    }
    let is_public = metadata.mode() & 0o077 != 0;
    is_public.then_some("its group or others have access to it; chmod 600 it")
}

impl Login {
    /// The password for a server, and its line, from 1. A file that cannot be read has none, as in libpq.
    fn find(&self, path: &Path, target: &Target) -> Option<(usize, Zeroizing<Vec<u8>>)> {
        if why_ignored(path).is_some() {
            return None;
        }
        let (bytes, _) = file::read(path).ok()?;
        let user = match &self.user {
            Some(user) => user.clone(),
            None => os_user().ok()?,
        };
        let (mut host, port) = host_and_port(target);
        if host == USUAL_FOLDER {
            "localhost".clone_into(&mut host);
        }
        let port = port.to_string();
        find(&bytes, [&host, &port, &self.database, &user])
    }
}

/// The password of the first line whose fields match, and the line.
fn find(bytes: &[u8], fields: [&str; 4]) -> Option<(usize, Zeroizing<Vec<u8>>)> {
    let lines = (1..).zip(bytes.split(|&byte| byte == b'\n'));
    let mut lines = lines.filter(|(_, line)| !line.starts_with(b"#"));
    lines.find_map(|(number, line)| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let mut fields = fields.iter();
        let rest = fields.try_fold(line, |rest, field| after_field(rest, field.as_bytes()))?;
        Some((number, unescaped(rest)))
    })
}

/// What follows the first field of a line, if that is a `*` or this text, in which a backslash precedes any character.
fn after_field<'a>(line: &'a [u8], expected: &[u8]) -> Option<&'a [u8]> {
    if let Some(rest) = line.strip_prefix(b"*:") {
        return Some(rest);
    }
    let mut expected = expected.iter();
    let mut bytes = line.iter();
    while let Some(&byte) = bytes.next() {
        let byte = match byte {
            b':' if expected.as_slice().is_empty() => return Some(bytes.as_slice()),
            b'\\' => bytes.next().copied(),
            byte => Some(byte),
        };
        if expected.next().copied() != byte {
            return None;
        }
    }
    None
}

/// A password, up to a colon, without its backslashes.
fn unescaped(text: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut password = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        match (byte, bytes.as_slice().first()) {
            (b':', _) => break,
            (b'\\', Some(_)) => password.extend(bytes.next()),
            _ => password.push(byte),
        }
    }
    password
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(text: &str) -> Option<(usize, String)> {
        let (line, password) = find(text.as_bytes(), ["h", "5432", "d", "u"])?;
        Some((line, String::from_utf8(password.to_vec()).unwrap()))
    }

    proptest! {
        #[test]
        fn what_is_escaped_survives_the_round_trip(host in "[^\\x00\\n\\r]{1,9}", password in "[^\\x00\\n\\r]{0,9}") {
            let escaped = |text: &str| text.replace('\\', "\\\\").replace(':', "\\:").replace('*', "\\*");
            let host_field = escaped(&host);
            prop_assume!(!host_field.starts_with('#'));
            let line = format!("{host_field}:5432:*:u:{}", escaped(&password));
            let found = find(line.as_bytes(), [&host, "5432", "d", "u"]);
            prop_assert_eq!(found, Some((1, Zeroizing::new(password.into_bytes()))));
        }

        #[test]
        fn any_file_is_read(text in "[h5432du:*#\\\\\\r\\n]{0,40}") {
            let _ = found(&text);
        }
    }

    #[test]
    fn the_first_line_that_matches_counts() {
        for (text, expected) in [
            ("h:5432:d:u:p", Some((1, "p"))),
            ("# h\nx:*:*:*:a\n*:*:*:*:b\nh:5432:d:u:c\n", Some((3, "b"))),
            ("#h:5432:d:u:a\nh:5432:d:u:b\r\n", Some((2, "b"))),
            ("h:5432:d:u:a\\:b\\\\c:rest\n", Some((1, "a:b\\c"))),
            ("h:5432:d:u:a\\", Some((1, "a\\"))),
            ("h:5432:d:u:", Some((1, ""))),
            ("h:5433:d:u:a\nhh:*:*:*:b\n:*:*:*:c\n", None),
            ("h*:*:*:*:a\nh:5432:d:u\n", None),
            ("", None),
        ] {
            let expected = expected.map(|(line, password)| (line, password.to_owned()));
            assert_eq!(found(text), expected, "{text:?}");
        }
    }
}

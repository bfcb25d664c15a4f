//! Reads the options of some groups from option files, and from files that those include.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, absolute};
use std::rc::Rc;

use zeroize::Zeroizing;

use super::line::{is_loose, option, without_comment};
use super::{Entry, FileStatus, Place, Places, Value, error_at, expanded, file_error, folder};
use crate::base::exit::Failure;
use crate::base::file;
use crate::base::text::in_words;
use crate::settings::server_url::password_in;

/// The files that every client reads first.
const GLOBAL: [&str; 2] = ["/etc/my.cnf", "/etc/mysql/my.cnf"];

/// How deep includes may be nested; the client ignores deeper ones.
const DEEPEST: usize = 10;

/// The most files and bytes in total: a loop of includes doubles with each level.
const MOST_FILES: usize = 500;
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// What was found in the option files.
#[derive(Debug, Default)]
pub struct FoundOptions {
    /// The options of the groups, in reading order: later ones win.
    pub entries: Vec<Entry>,
    /// Every file that was looked for, with its status.
    pub files: Vec<(Rc<Path>, FileStatus)>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    bytes: usize,
}

/// Reads the value of the option in this place. If the file has several options of that name in the same group, the last one counts, so
/// the option is found even if the file was changed since.
///
/// # Errors
/// There is no such option any more, or the file cannot be read. The error ends a sentence.
pub fn value_at(place: &Place, key: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    let (bytes, _) = file::read(&place.file).map_err(|error| in_words(&error))?;
    let mut found = FoundOptions::default();
    // Included files have other options.
    let groups = [place.group.to_string()];
    let read = found.add_lines(&place.file, &bytes, false, &groups, DEEPEST);
    read.map_err(|failure| failure.line)?;
    let last = found.entries.iter().rfind(|entry| entry.key == key);
    let line = last.and_then(|entry| bytes.split(|&byte| byte == b'\n').nth(entry.place.line - 1));
    let (_, value) = option(line.unwrap_or_default().trim_ascii_start());
    value.ok_or_else(|| "it is no longer there".to_owned())
}

impl FoundOptions {
    /// Reads the groups of these names, in lower case, from the files of these places.
    ///
    /// # Errors
    /// A configuration failure for a file that the user named and that cannot be read, or for a malformed line, with file and line.
    /// Options that were found before are kept.
    pub fn read(&mut self, places: &Places, groups: &[String]) -> Result<(), Failure> {
        if places.none {
            return Ok(());
        }
        if let Some(path) = &places.only {
            return self.add_required(path, groups);
        }
        for path in GLOBAL {
            self.add_default(Path::new(path), groups, 0)?;
        }
        // MariaDB's clients read MARIADB_HOME only if it is set, and otherwise MYSQL_HOME.
        let folders = ["MARIADB_HOME", "MYSQL_HOME"];
        if let Some(folder) = folders.into_iter().find_map(folder) {
            self.add_default(&folder.join("my.cnf"), groups, 0)?;
        }
        if let Some(path) = &places.extra {
            self.add_required(path, groups)?;
        }
        match folder("HOME") {
            Some(home) => self.add_default(&home.join(".my.cnf"), groups, 0),
            None => Ok(()),
        }
    }

    /// Reads a file that the user named.
    fn add_required(&mut self, path: &Path, groups: &[String]) -> Result<(), Failure> {
        let at = self.files.len();
        self.add(path, groups, 0)?;
        match self.files[at].1.why_not_read() {
            Some(why) => Err(file_error(path, why)),
            None => Ok(()),
        }
    }

    /// Reads a file that every client reads, or that a folder contains, if it exists.
    fn add_default(&mut self, path: &Path, groups: &[String], depth: usize) -> Result<(), Failure> {
        let at = self.files.len();
        self.add(path, groups, depth)?;
        match &self.files[at].1 {
            // Otherwise a weaker file would decide.
            FileStatus::Unusable(why) => return Err(file_error(path, why)),
            FileStatus::Untrusted => {
                let path = path.display();
                let line = format!("the option file {path} is ignored: every user can write to it");
                self.warn(line);
            }
            FileStatus::Read | FileStatus::Absent | FileStatus::Unreadable => {}
        }
        Ok(())
    }

    /// Reads a file if it exists, and records its status.
    fn add(&mut self, path: &Path, groups: &[String], depth: usize) -> Result<(), Failure> {
        // The empty path has no absolute form.
        let file: Rc<Path> = Rc::from(absolute(path).unwrap_or_default());
        if self.files.len() == MOST_FILES {
            return Err(file_error(path, "more than 500 option files are included"));
        }
        let place = self.files.len();
        self.files.push((Rc::clone(&file), FileStatus::Read));
        let (bytes, metadata) = match file::read(path) {
            Ok(read) => read,
            Err(error) => {
                self.files[place].1 = match error.kind() {
                    io::ErrorKind::NotFound
                    | io::ErrorKind::NotADirectory
                    | io::ErrorKind::InvalidInput => FileStatus::Absent,
                    io::ErrorKind::PermissionDenied => FileStatus::Unreadable,
                    _ => FileStatus::Unusable(in_words(&error)),
                };
                return Ok(());
            }
        };
        if metadata.mode() & 0o002 != 0 {
            self.files[place].1 = FileStatus::Untrusted;
            return Ok(());
        }
        self.bytes += bytes.len();
        if self.bytes > MOST_BYTES {
            return Err(file_error(path, "the option files have more than 4 MiB"));
        }
        let public = metadata.mode() & 0o004 != 0;
        self.add_lines(&file, &bytes, public, groups, depth)
    }

    fn add_lines(
        &mut self,
        file: &Rc<Path>,
        bytes: &[u8],
        public: bool,
        groups: &[String],
        depth: usize,
    ) -> Result<(), Failure> {
        let mut group: Rc<str> = Rc::default();
        let mut has_group = false;
        for (line, number) in bytes.split(|&byte| byte == b'\n').zip(1..) {
            let place = || Place {
                file: Rc::clone(file),
                line: number,
                group: Rc::clone(&group),
            };
            let line = line.trim_ascii_start();
            match line.first() {
                None | Some(b'#' | b';') => {}
                _ if line.contains(&0) => return Err(error_at(&place(), "it contains a NUL byte")),
                Some(b'!') => self.include(line, &place(), groups, depth)?,
                Some(b'[') => {
                    let end = line.iter().position(|&byte| byte == b']');
                    let name =
                        end.ok_or_else(|| error_at(&place(), "a group's name ends with ]"))?;
                    let name = line[1..name].trim_ascii_end();
                    group = Rc::from(String::from_utf8_lossy(name).to_ascii_lowercase());
                    has_group = true;
                }
                Some(_) => {
                    if !has_group {
                        let why = if line.starts_with(b"\xef\xbb\xbf") {
                            "the file begins with a byte order mark; save it as UTF-8 without one"
                        } else {
                            "an option comes before the first [group]"
                        };
                        return Err(error_at(&place(), why));
                    }
                    if groups.iter().any(|wanted| **wanted == *group) {
                        self.add_entry(line, place(), public)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn add_entry(&mut self, line: &[u8], place: Place, public: bool) -> Result<(), Failure> {
        let is_loose = is_loose(line);
        let (key, value) = option(line);
        if key.is_empty() {
            return Err(error_at(&place, "there is no option before the ="));
        }
        let value = match value {
            Some(value) if key == "password" && !value.is_empty() => {
                self.warn_of_password(public, &place.file);
                Value::Withheld
            }
            Some(value) => {
                if key == "url" && has_password(&value) {
                    self.warn_of_password(public, &place.file);
                }
                Value::Text(value)
            }
            None => Value::None,
        };
        self.entries.push(Entry {
            key,
            is_loose,
            value,
            place,
        });
        Ok(())
    }

    /// `!include FILE` or `!includedir FOLDER`, also with white space behind the `!`. A relative path starts at the working directory.
    fn include(
        &mut self,
        line: &[u8],
        place: &Place,
        groups: &[String],
        depth: usize,
    ) -> Result<(), Failure> {
        let line = line[1..].trim_ascii_start();
        let (word, path) = match line.iter().position(u8::is_ascii_whitespace) {
            Some(end) => line.split_at(end),
            None => (line, &b""[..]),
        };
        let path = without_comment(path).trim_ascii();
        let path = &expanded(OsStr::from_bytes(path).to_owned());
        let is_folder = word == b"includedir";
        if !is_folder && word != b"include" {
            // As in the client.
            return Ok(());
        }
        if path.as_os_str().is_empty() {
            return Err(error_at(place, "it does not say what to include"));
        }
        if depth == DEEPEST {
            let line =
                format!("{place}: ignored: files include one another more than {DEEPEST} deep");
            self.warn(line);
            return Ok(());
        }
        if !is_folder {
            let at = self.files.len();
            self.add(path, groups, depth + 1)?;
            if let Some(why) = self.files[at].1.why_not_read() {
                let line = format!("cannot include {}: {why}", path.display());
                if let FileStatus::Unusable(_) = &self.files[at].1 {
                    return Err(error_at(place, &line));
                }
                self.warn(format!("{place}: {line}"));
            }
            return Ok(());
        }
        let names = names_in(path).map_err(|error| {
            let why = format!(
                "cannot read the folder {}: {}",
                path.display(),
                in_words(&error)
            );
            error_at(place, &why)
        })?;
        for name in names {
            self.add_default(&path.join(name), groups, depth + 1)?;
        }
        Ok(())
    }

    fn warn_of_password(&mut self, public: bool, file: &Path) {
        if public {
            let file = file.display();
            let line = format!(
                "the option file {file} has a password and can be read by others; chmod 600 it"
            );
            self.warn(line);
        }
    }

    fn warn(&mut self, line: String) {
        if !self.warnings.contains(&line) {
            self.warnings.push(line);
        }
    }
}

/// The names that end in `.cnf`, in byte order, without folders, from which the client reads nothing.
fn names_in(folder: &Path) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)?.take(100 * MOST_FILES) {
        let entry = entry?;
        let name = entry.file_name();
        if name.as_bytes().ends_with(b".cnf") && !entry.path().is_dir() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Whether this URL has a password, also if something else is wrong with it.
fn has_password(url: &[u8]) -> bool {
    let before_at = url.split(|&byte| byte == b'@').next().unwrap_or_default();
    let account = before_at.rsplit(|&byte| byte == b'/').next();
    let is_with_account = account.is_some_and(|account| account.contains(&b':'));
    let of_parameter = || password_in(str::from_utf8(url).ok()?);
    url.contains(&b'@') && is_with_account
        || of_parameter().is_some_and(|password| !password.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Bytes with a high share of meaningful ones.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let meaningful: Vec<Vec<u8>> =
            "[client] [ ] # ; ! = \" ' \\ _ - password user !include !includedir"
                .split(' ')
                .map(|word| word.as_bytes().to_vec())
                .chain([b"\n".to_vec(), b"\r\n".to_vec(), b" ".to_vec(), vec![0]])
                .collect();
        let piece = prop_oneof![
            4 => proptest::sample::select(meaningful),
            1 => vec(any::<u8>(), 0..9),
        ];
        vec(piece, 0..60).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_file_is_read_or_refused_with_file_and_line(bytes in bytes()) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("my.cnf");
            fs::write(&path, &bytes).unwrap();
            let places = Places { only: Some(path.clone()), ..Places::default() };
            let mut found = FoundOptions::default();
            match found.read(&places, &["client".to_owned()]) {
                Ok(()) => {
                    for (at, entry) in found.entries.iter().enumerate() {
                        prop_assert!(!entry.key.is_empty() && &*entry.place.group == "client");
                        let is_last = found.entries[at + 1..].iter().all(|later| later.key != entry.key);
                        if let Value::Text(value) = &entry.value && is_last {
                            prop_assert_eq!(value_at(&entry.place, &entry.key), Ok(value.clone()));
                        }
                    }
                }
                Err(failure) => {
                    let line = failure.line.strip_prefix(&format!("{}:", path.display()));
                    let line = line.and_then(|line| line.split(':').next()?.parse::<usize>().ok());
                    let lines = bytes.split(|&byte| byte == b'\n').count();
                    prop_assert!(line.is_some_and(|line| (1..=lines).contains(&line)), "{}", failure.line);
                }
            }
        }
    }
}

//! MySQL option files: text in, options out, as the `mysql` client reads them (`mysys/my_default.cc`).

mod line;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf, absolute};
use std::rc::Rc;

use zeroize::Zeroizing;

use crate::base::exit::{Failure, Reason};
use crate::base::file;
use crate::base::text::in_words;
use line::{is_loose, option, without_comment};

/// Where every client looks first.
const GLOBAL: [&str; 2] = ["/etc/my.cnf", "/etc/mysql/my.cnf"];

/// How many files may include one another; the client passes over what is deeper.
const DEEPEST: usize = 10;

/// Files and bytes at most, all together: a loop of includes doubles with each level.
const MOST_FILES: usize = 500;
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// Which files are read.
#[derive(Debug, Default)]
pub struct Places {
    /// Only this one.
    pub only: Option<PathBuf>,
    /// This one before that of the home folder.
    pub extra: Option<PathBuf>,
    /// None at all.
    pub none: bool,
}

/// Where an option stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, by a path from the root.
    pub file: Rc<Path>,
    /// The line, from 1.
    pub line: usize,
    /// The group in which that is, without the brackets and in small letters; empty before the first one.
    pub group: Rc<str>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// An option as it stands in a file.
#[derive(Debug)]
pub struct Entry {
    /// Its name in small letters, with dashes, and without `loose-`.
    pub key: String,
    /// Whether it begins with `loose-`: then it is no error that nobody knows it.
    pub is_loose: bool,
    /// What stands behind the `=`.
    pub value: Value,
    /// Where it stands.
    pub place: Place,
}

/// The value of an option.
#[derive(Debug)]
pub enum Value {
    /// There is no `=`.
    None,
    /// It is this, without quotes and escapes.
    Text(Zeroizing<Vec<u8>>),
    /// It is a password, and left where it stands: [`value_at`] reads it where it is needed.
    Withheld,
}

/// What was found in the files.
#[derive(Debug, Default)]
pub struct Found {
    /// The options of the groups that were asked for, in the order in which they were read: later ones win.
    pub entries: Vec<Entry>,
    /// Every file that was looked for, and what became of it.
    pub files: Vec<(Rc<Path>, Outcome)>,
    /// What the user should know.
    pub warnings: Vec<String>,
    bytes: usize,
}

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was read.
    Read,
    /// There is none.
    Absent,
    /// This user may not read it; the client says nothing of that either.
    Unreadable,
    /// Every user can write to it, so anybody could have written it; the client passes it over with a warning.
    Untrusted,
    /// It cannot be read; why.
    Unusable(String),
}

impl Outcome {
    /// Why it was not read.
    fn trouble(&self) -> Option<&str> {
        match self {
            Self::Read => None,
            Self::Absent => Some("no such file"),
            Self::Unreadable => Some("permission denied"),
            Self::Untrusted => Some("every user can write to it"),
            Self::Unusable(why) => Some(why),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Read => f.write_str("read"),
            Self::Absent => f.write_str("absent"),
            outcome => write!(f, "not read: {}", outcome.trouble().unwrap_or_default()),
        }
    }
}

/// The value of the option that was found in this place. It is that of the last one of its name in the same group, so that it
/// is found again where the file has been changed since.
///
/// # Errors
/// That there is none any more, or that the file cannot be read; as the end of a sentence.
pub fn value_at(place: &Place, key: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    let (bytes, _) = file::read(&place.file).map_err(|error| in_words(&error))?;
    let mut found = Found::default();
    // What it includes is another file's.
    let groups = [place.group.to_string()];
    let read = found.lines(&place.file, &bytes, false, &groups, DEEPEST);
    read.map_err(|failure| failure.line)?;
    let last = found.entries.iter().rfind(|entry| entry.key == key);
    let line = last.and_then(|entry| bytes.split(|&byte| byte == b'\n').nth(entry.place.line - 1));
    let (_, value) = option(line.unwrap_or_default().trim_ascii_start());
    value.ok_or_else(|| "it stands there no more".to_owned())
}

/// A folder that a variable names.
fn folder(variable: &str) -> Option<PathBuf> {
    let folder = env::var_os(variable).filter(|folder| !folder.is_empty())?;
    Some(PathBuf::from(folder))
}

/// A path with the home folder in the place of a leading `~`, which the shell leaves as it is in `--option=~/file`.
pub fn expanded(path: OsString) -> PathBuf {
    let path = PathBuf::from(path);
    match (path.strip_prefix("~"), folder("HOME")) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path,
    }
}

impl Found {
    /// Reads the groups of these names, in small letters, from the files of these places.
    ///
    /// # Errors
    /// [`Reason::Configuration`] when a file that was named cannot be read, and for a line that is none, with file and line.
    /// What was found before that is there.
    pub fn read(&mut self, places: &Places, groups: &[String]) -> Result<(), Failure> {
        if places.none {
            return Ok(());
        }
        if let Some(path) = &places.only {
            return self.add_named(path, groups);
        }
        for path in GLOBAL {
            self.add_unasked(Path::new(path), groups, 0)?;
        }
        // MariaDB's clients look at the first one only if it is set.
        let folders = ["MARIADB_HOME", "MYSQL_HOME"];
        if let Some(folder) = folders.into_iter().find_map(folder) {
            self.add_unasked(&folder.join("my.cnf"), groups, 0)?;
        }
        if let Some(path) = &places.extra {
            self.add_named(path, groups)?;
        }
        match folder("HOME") {
            Some(home) => self.add_unasked(&home.join(".my.cnf"), groups, 0),
            None => Ok(()),
        }
    }

    /// Reads a file that somebody asked for.
    fn add_named(&mut self, path: &Path, groups: &[String]) -> Result<(), Failure> {
        let at = self.files.len();
        self.add(path, groups, 0)?;
        match self.files[at].1.trouble() {
            Some(why) => Err(wrong_file(path, why)),
            None => Ok(()),
        }
    }

    /// Reads a file that nobody named, if it is there.
    fn add_unasked(&mut self, path: &Path, groups: &[String], depth: usize) -> Result<(), Failure> {
        let at = self.files.len();
        self.add(path, groups, depth)?;
        match &self.files[at].1 {
            // A weaker file would decide in its place.
            Outcome::Unusable(why) => return Err(wrong_file(path, why)),
            Outcome::Untrusted => {
                let path = path.display();
                let told =
                    format!("the option file {path} is passed over: every user can write to it");
                self.warn(told);
            }
            Outcome::Read | Outcome::Absent | Outcome::Unreadable => {}
        }
        Ok(())
    }

    /// Reads a file if it is there.
    fn add(&mut self, path: &Path, groups: &[String], depth: usize) -> Result<(), Failure> {
        // The empty path has none.
        let file: Rc<Path> = Rc::from(absolute(path).unwrap_or_default());
        if self.files.len() == MOST_FILES {
            return Err(wrong_file(path, "more than 500 option files are included"));
        }
        let place = self.files.len();
        self.files.push((Rc::clone(&file), Outcome::Read));
        let (bytes, metadata) = match file::read(path) {
            Ok(read) => read,
            Err(error) => {
                self.files[place].1 = match error.kind() {
                    io::ErrorKind::NotFound
                    | io::ErrorKind::NotADirectory
                    | io::ErrorKind::InvalidInput => Outcome::Absent,
                    io::ErrorKind::PermissionDenied => Outcome::Unreadable,
                    _ => Outcome::Unusable(in_words(&error)),
                };
                return Ok(());
            }
        };
        if metadata.mode() & 0o002 != 0 {
            self.files[place].1 = Outcome::Untrusted;
            return Ok(());
        }
        self.bytes += bytes.len();
        if self.bytes > MOST_BYTES {
            return Err(wrong_file(path, "the option files have more than 4 MiB"));
        }
        let public = metadata.mode() & 0o004 != 0;
        self.lines(&file, &bytes, public, groups, depth)
    }

    fn lines(
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
                _ if line.contains(&0) => return Err(wrong(&place(), "a byte 0 stands in it")),
                Some(b'!') => self.directive(line, &place(), groups, depth)?,
                Some(b'[') => {
                    let end = line.iter().position(|&byte| byte == b']');
                    let name = end.ok_or_else(|| wrong(&place(), "a group's name ends with ]"))?;
                    let name = line[1..name].trim_ascii_end();
                    group = Rc::from(String::from_utf8_lossy(name).to_ascii_lowercase());
                    has_group = true;
                }
                Some(_) => {
                    if !has_group {
                        let why = if line.starts_with(b"\xef\xbb\xbf") {
                            "the file begins with a byte order mark; save it as UTF-8 without one"
                        } else {
                            "an option stands before the first [group]"
                        };
                        return Err(wrong(&place(), why));
                    }
                    if groups.iter().any(|wanted| **wanted == *group) {
                        self.entry(line, place(), public)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn entry(&mut self, line: &[u8], place: Place, public: bool) -> Result<(), Failure> {
        let is_loose = is_loose(line);
        let (key, value) = option(line);
        if key.is_empty() {
            return Err(wrong(&place, "no option stands before the ="));
        }
        let value = match value {
            Some(value) if key == "password" && !value.is_empty() => {
                self.warn_of_password(public, &place.file);
                Value::Withheld
            }
            Some(value) => {
                let account = value.split(|&byte| byte == b'@').next().unwrap_or_default();
                let has_password = account.rsplit(|&byte| byte == b'/').next();
                if key == "url" && has_password.is_some_and(|account| account.contains(&b':')) {
                    self.warn_of_password(public && value.contains(&b'@'), &place.file);
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

    /// `!include FILE` or `!includedir FOLDER`. A relative path is relative to the working folder.
    fn directive(
        &mut self,
        line: &[u8],
        place: &Place,
        groups: &[String],
        depth: usize,
    ) -> Result<(), Failure> {
        let (word, path) = match line.iter().position(u8::is_ascii_whitespace) {
            Some(end) => line.split_at(end),
            None => (line, &b""[..]),
        };
        let path = without_comment(path).trim_ascii();
        let path = &expanded(OsStr::from_bytes(path).to_owned());
        let is_folder = word == b"!includedir";
        if !is_folder && word != b"!include" {
            // As the client does.
            return Ok(());
        }
        if path.as_os_str().is_empty() {
            return Err(wrong(place, "it does not say what to include"));
        }
        if depth == DEEPEST {
            let told =
                format!("{place}: passed over: files include one another more than {DEEPEST} deep");
            self.warn(told);
            return Ok(());
        }
        if !is_folder {
            let at = self.files.len();
            self.add(path, groups, depth + 1)?;
            if let Some(why) = self.files[at].1.trouble() {
                let told = format!("cannot include {}: {why}", path.display());
                if let Outcome::Unusable(_) = &self.files[at].1 {
                    return Err(wrong(place, &told));
                }
                self.warn(format!("{place}: {told}"));
            }
            return Ok(());
        }
        let names = names_in(path).map_err(|error| {
            let why = format!(
                "cannot read the folder {}: {}",
                path.display(),
                in_words(&error)
            );
            wrong(place, &why)
        })?;
        for name in names {
            self.add_unasked(&path.join(name), groups, depth + 1)?;
        }
        Ok(())
    }

    fn warn_of_password(&mut self, public: bool, file: &Path) {
        if public {
            let file = file.display();
            let told = format!(
                "the option file {file} has a password and can be read by others; chmod 600 it"
            );
            self.warn(told);
        }
    }

    fn warn(&mut self, line: String) {
        if !self.warnings.contains(&line) {
            self.warnings.push(line);
        }
    }
}

/// The names that end in `.cnf`, in the order of their bytes, without those of folders, in which the client reads nothing.
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

/// What is wrong with a line.
pub fn wrong(place: &Place, why: &str) -> Failure {
    Failure::new(Reason::Configuration, format!("{place}: {why}"))
}

fn wrong_file(path: &Path, why: &str) -> Failure {
    let line = format!("cannot read the option file {}: {why}", path.display());
    Failure::new(Reason::Configuration, line)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Bytes among which those that mean something are frequent.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let telling: Vec<Vec<u8>> =
            "[client] [ ] # ; ! = \" ' \\ _ - password user !include !includedir"
                .split(' ')
                .map(|word| word.as_bytes().to_vec())
                .chain([b"\n".to_vec(), b"\r\n".to_vec(), b" ".to_vec(), vec![0]])
                .collect();
        let piece = prop_oneof![
            4 => proptest::sample::select(telling),
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
            let mut found = Found::default();
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

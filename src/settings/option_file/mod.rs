//! MySQL option files: text in, options out, as the `mysql` client reads them (`mysys/my_default.cc`).

mod line;
mod reader;

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use zeroize::Zeroizing;

use crate::base::exit::{Failure, Reason};

pub use reader::{FoundOptions, value_at};

/// The option files to read.
#[derive(Debug, Default)]
pub struct Places {
    /// Only this file.
    pub only: Option<PathBuf>,
    /// This file, before the one in the home folder.
    pub extra: Option<PathBuf>,
    /// No file at all.
    pub none: bool,
}

/// The place of an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, as an absolute path.
    pub file: Rc<Path>,
    /// The line, from 1.
    pub line: usize,
    /// The option's group, without brackets and in lower case; empty before the first group.
    pub group: Rc<str>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// An option in a file.
#[derive(Debug)]
pub struct Entry {
    /// The name in lower case, with dashes, and without `loose-`.
    pub key: String,
    /// Whether the name begins with `loose-`: then an unknown option is not an error.
    pub is_loose: bool,
    /// The text after the `=`.
    pub value: Value,
    /// The option's place.
    pub place: Place,
}

/// The value of an option.
#[derive(Debug)]
pub enum Value {
    /// There is no `=`.
    None,
    /// This text, without quotes and escapes.
    Text(Zeroizing<Vec<u8>>),
    /// A password, which is not kept here: [`value_at`] reads it when it is needed.
    Withheld,
}

/// What happened with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileStatus {
    /// It was read.
    Read,
    /// The file does not exist.
    Absent,
    /// This user may not read it. The client does not report that, either.
    Unreadable,
    /// Every user can write to it, so its contents cannot be trusted. The client ignores it with a warning.
    Untrusted,
    /// It cannot be read, for this reason.
    Unusable(String),
}

impl FileStatus {
    /// Why it was not read.
    fn why_not_read(&self) -> Option<&str> {
        match self {
            Self::Read => None,
            Self::Absent => Some("no such file"),
            Self::Unreadable => Some("permission denied"),
            Self::Untrusted => Some("every user can write to it"),
            Self::Unusable(why) => Some(why),
        }
    }
}

impl fmt::Display for FileStatus {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Read => f.write_str("read"),
            Self::Absent => f.write_str("absent"),
            outcome => write!(
                f,
                "not read: {}",
                outcome.why_not_read().unwrap_or_default()
            ),
        }
    }
}

/// The folder in a variable.
pub fn folder(variable: &str) -> Option<PathBuf> {
    let folder = env::var_os(variable).filter(|folder| !folder.is_empty())?;
    Some(PathBuf::from(folder))
}

/// A path with the home folder in place of a leading `~`, which the shell does not expand in `--option=~/file`.
pub fn expanded(path: OsString) -> PathBuf {
    let path = PathBuf::from(path);
    match (path.strip_prefix("~"), folder("HOME")) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path,
    }
}

/// The error for a malformed line.
pub fn error_at(place: &Place, why: &str) -> Failure {
    Failure::new(Reason::Configuration, format!("{place}: {why}"))
}

fn file_error(path: &Path, why: &str) -> Failure {
    let line = format!("cannot read the option file {}: {why}", path.display());
    Failure::new(Reason::Configuration, line)
}

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

pub use reader::{Found, value_at};

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

/// Where an option is written.
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

/// An option as a file has it.
#[derive(Debug)]
pub struct Entry {
    /// Its name in small letters, with dashes, and without `loose-`.
    pub key: String,
    /// Whether it begins with `loose-`: then it is no error that nobody knows it.
    pub is_loose: bool,
    /// What follows the `=`.
    pub value: Value,
    /// Where it is written.
    pub place: Place,
}

/// The value of an option.
#[derive(Debug)]
pub enum Value {
    /// There is no `=`.
    None,
    /// It is this, without quotes and escapes.
    Text(Zeroizing<Vec<u8>>),
    /// It is a password, which is not kept here: [`value_at`] reads it when it is needed.
    Withheld,
}

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileStatus {
    /// It was read.
    Read,
    /// There is none.
    Absent,
    /// This user may not read it; the client says nothing of that either.
    Unreadable,
    /// Every user can write to it, so anybody could have written it; the client ignores it with a warning.
    Untrusted,
    /// It cannot be read; why.
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

/// A folder that a variable names.
fn folder(variable: &str) -> Option<PathBuf> {
    let folder = env::var_os(variable).filter(|folder| !folder.is_empty())?;
    Some(PathBuf::from(folder))
}

/// A path with the home folder instead of a leading `~`, which the shell leaves as it is in `--option=~/file`.
pub fn expanded(path: OsString) -> PathBuf {
    let path = PathBuf::from(path);
    match (path.strip_prefix("~"), folder("HOME")) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path,
    }
}

/// The error that a line is wrong.
pub fn error_at(place: &Place, why: &str) -> Failure {
    Failure::new(Reason::Configuration, format!("{place}: {why}"))
}

fn file_error(path: &Path, why: &str) -> Failure {
    let line = format!("cannot read the option file {}: {why}", path.display());
    Failure::new(Reason::Configuration, line)
}

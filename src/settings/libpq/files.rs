//! Where libpq looks for its files.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::base::user::local_home;
use crate::settings::option_file::folder;

/// The path of this file in the home folder, which is that of `HOME`, or else the OS user's.
pub fn at_home(name: &str) -> Option<PathBuf> {
    let home = folder("HOME").or_else(|| local_home().map(PathBuf::from))?;
    Some(home.join(name))
}

/// As [`at_home`], if there is such a file.
pub fn existing_at_home(name: &str) -> Option<PathBuf> {
    at_home(name).filter(|path| path.exists())
}

/// Whether there is a socket of this name.
pub fn is_socket(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

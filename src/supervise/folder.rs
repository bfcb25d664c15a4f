//! The folder in which a command starts. Only the command's own process changes to it: the file server that has it may hang.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use nix::unistd::chdir;

use crate::base::text::printable;

/// A folder, and how the line begins that says why nobody can change to it.
pub struct Folder {
    path: CString,
    complaint: String,
}

impl Folder {
    /// This folder, which need not exist.
    pub fn new(path: PathBuf) -> Self {
        let shown = path.display().to_string();
        let complaint = format!("cannot change to the folder {}: ", printable(&shown));
        // Nobody can change to one without a name either.
        let path = CString::new(path.into_os_string().into_vec()).unwrap_or_default();
        Self { path, complaint }
    }

    /// Changes to the folder. If that cannot be, says so on stderr, and changes to the root directory. For the command's process, between
    /// fork and exec: this allocates nothing, and takes no lock.
    ///
    /// # Errors
    /// As `chdir(2)`, for the root directory.
    pub fn enter(&self) -> io::Result<()> {
        let Err(error) = chdir(self.path.as_c_str()) else {
            return Ok(());
        };
        for part in [
            "dblock: ",
            &*self.complaint,
            error.desc(),
            "; starting in /",
            "\n",
        ] {
            // SAFETY: reads as many bytes as there are. What cannot be written is lost.
            unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
        }
        Ok(chdir(c"/")?)
    }
}

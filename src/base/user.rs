//! The OS user that dblock runs as.

use nix::unistd::{User, geteuid};

use super::exit::{Failure, Reason};
use super::file;

/// The OS user's name from this host's own file, else the uid. No directory service is asked, as that may take long.
pub fn local_user() -> String {
    local_field(0).unwrap_or_else(|| geteuid().to_string())
}

/// The OS user's home folder, from the same file.
pub fn local_home() -> Option<String> {
    local_field(5).filter(|home| !home.is_empty())
}

/// A field of the OS user's line in this host's own file.
fn local_field(place: usize) -> Option<String> {
    let number = geteuid().to_string();
    let (bytes, _) = file::read("/etc/passwd".as_ref()).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines().map(|line| line.split(':'));
    let mut line = lines.find(|line| line.clone().nth(2) == Some(&*number))?;
    line.nth(place).map(str::to_owned)
}

/// The default account for the login. It may ask a directory service, which may take long.
///
/// # Errors
/// [`Reason::Configuration`] for a user without a name.
pub fn os_user() -> Result<String, Failure> {
    match User::from_uid(geteuid()) {
        Ok(Some(user)) => Ok(user.name),
        _ => Err(Failure::new(
            Reason::Configuration,
            format!(
                "the OS user {} has no name; give the account with --user or DBLOCK_USER",
                geteuid()
            ),
        )),
    }
}

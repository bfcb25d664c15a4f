//! The OS user that dblock runs as.

use nix::unistd::{User, geteuid};

use super::exit::{Failure, Reason};
use super::file;

/// The OS user's name from this host's own file, else the uid. No directory service is asked, as that may take long.
pub fn local_user() -> String {
    let number = geteuid().to_string();
    let file = file::read("/etc/passwd".as_ref());
    let file = file.map(|(bytes, _)| String::from_utf8_lossy(&bytes).into_owned());
    let name = file.unwrap_or_default().lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1) == Some(&*number)).then(|| name.to_owned())
    });
    name.unwrap_or(number)
}

/// The OS user's home folder, from the same file.
pub fn local_home() -> Option<String> {
    let number = geteuid().to_string();
    let (bytes, _) = file::read("/etc/passwd".as_ref()).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let line = text
        .lines()
        .find(|line| line.split(':').nth(2) == Some(&*number))?;
    let home = line.split(':').nth(5).filter(|home| !home.is_empty());
    home.map(str::to_owned)
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

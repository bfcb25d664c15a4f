//! The environment of a job's command, as in cron: the daemon's own, with the variables of the file, and with cron's own for those that
//! the file does not set.

use std::ffi::OsString;
use std::path::PathBuf;

use super::notify;
use crate::base::user::{local_home, local_user};
use crate::cron::Job;
use crate::supervise::{Change, change};

/// Cron's shell, unless the file names another.
const SHELL: &str = "/bin/sh";

/// The default if neither the file nor the daemon's environment sets it.
const PATH: &str = "/usr/bin:/bin";

/// The value that the file gives to a variable.
pub fn variable<'a>(job: &'a Job, name: &str) -> Option<&'a str> {
    let found = job.variables.iter().find(|(known, _)| &**known == name);
    found.map(|(_, value)| &**value)
}

/// The shell that runs the command.
pub fn shell(job: &Job) -> &str {
    variable(job, "SHELL")
        .filter(|shell| !shell.is_empty())
        .unwrap_or(SHELL)
}

/// The folder in which the command is started.
pub fn home(job: &Job) -> PathBuf {
    let named = variable(job, "HOME").map(PathBuf::from);
    named
        .or_else(|| own_home().map(PathBuf::from))
        .unwrap_or_else(|| PathBuf::from(users_home()))
}

/// dblock's own, which need not be UTF-8.
fn own_home() -> Option<OsString> {
    std::env::var_os("HOME").filter(|home| !home.is_empty())
}

fn users_home() -> String {
    local_home().unwrap_or_else(|| "/".to_owned())
}

/// How the environment of the command differs from the daemon's. `attempt` counts from 1.
pub fn changes(job: &Job, scrubbed: &[&'static str], attempt: u32) -> Vec<Change> {
    let user = local_user();
    let mut changes = vec![
        change("SHELL", Some(SHELL)),
        change("LOGNAME", Some(&user)),
        change("USER", Some(&user)),
    ];
    if own_home().is_none() {
        changes.push(change("HOME", Some(&users_home())));
    }
    if std::env::var_os("PATH").is_none() {
        changes.push(change("PATH", Some(PATH)));
    }
    let removed = notify::VARIABLES.iter().chain(scrubbed);
    changes.extend(removed.map(|name| change(name, None)));
    let own = job
        .variables
        .iter()
        .map(|(name, value)| change(name, Some(value)));
    changes.extend(own);
    changes.push(change("DBLOCK_ATTEMPT", Some(&attempt.to_string())));
    changes
}

//! What is run at the end of a run: the commands of `--on-failure` and `--on-end`. What becomes of them changes no exit code.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::memfd::{MFdFlags, memfd_create};

use super::aside::Aside;
use super::environment::Change;
use super::inherited::was_closed;
use super::report::Report;
use super::signals::Signals;
use crate::base::hooks::Hooks;
use crate::base::log::{Level, Log};
use crate::base::text::in_words;

/// How long such a command may run.
const LIMIT: Duration = Duration::from_secs(30);

/// Starts what this run asks for, with these changes of dblock's own environment. What cannot be started is logged.
pub fn start(
    hooks: &Hooks,
    report: &Report,
    environment: &[Change],
    signals: &Signals,
    log: Log,
) -> Vec<Aside> {
    let Some(has_failed) = report.has_failed() else {
        return Vec::new();
    };
    let on_failure = hooks.on_failure.as_ref().filter(|_| has_failed);
    let wanted = [
        ("--on-failure", on_failure),
        ("--on-end", hooks.on_end.as_ref()),
    ];
    let wanted = wanted
        .into_iter()
        .filter_map(|(option, command)| Some((option, command?)));
    let started = wanted.filter_map(|(option, command)| {
        let name = report.name();
        let changes = environment.iter().cloned().chain(report.variables());
        let aside = input(&report.line()).and_then(|input| {
            let command = shell(command, changes.collect())?;
            let complaint = format!("{name}: the command of {option}");
            let complaint = (name, Level::Warning, complaint);
            Aside::start(command, input, LIMIT, complaint, signals, log)
        });
        aside
            .inspect_err(|error| {
                let why = in_words(error);
                log.warning(format_args!(
                    "{name}: cannot start the command of {option}: {why}"
                ));
            })
            .ok()
    });
    started.collect()
}

/// A file with this text.
fn input(text: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create(c"dblock report", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

/// The command, in a shell. Its stdout goes to stderr: dblock's stdout is that of the run's command.
fn shell(command: &str, changes: Vec<Change>) -> io::Result<Command> {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command);
    shell.stdout(if was_closed(libc::STDERR_FILENO) {
        Stdio::null()
    } else {
        Stdio::from(io::stderr().as_fd().try_clone_to_owned()?)
    });
    for (name, value) in changes {
        let name = OsStr::from_bytes(name.as_bytes());
        match value {
            Some(value) => shell.env(name, OsStr::from_bytes(value.as_bytes())),
            None => shell.env_remove(name),
        };
    }
    Ok(shell)
}

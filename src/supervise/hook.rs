//! What is run at the end of a run: the commands of `--on-failure` and `--on-end`. What becomes of them changes no exit code.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::memfd::{MFdFlags, memfd_create};

use super::aside::Aside;
use super::environment::Change;
use super::inherited::was_closed;
use super::output::{Output, Sink, pipe};
use super::report::Report;
use super::signals::Signals;
use crate::base::hooks::Hooks;
use crate::base::log::{Level, Log};
use crate::base::text::in_words;

/// How long such a command may run.
const LIMIT: Duration = Duration::from_secs(30);

/// A command that is to be run at the end of a run.
pub struct Hook {
    option: &'static str,
    /// The run's name.
    run: String,
    command: String,
    /// Changes of dblock's own environment.
    changes: Vec<Change>,
    /// The report of the run, which it reads.
    line: String,
    /// Whether what it prints has the run's name in front.
    is_named: bool,
}

/// What this run asks for, with these changes of dblock's own environment.
pub fn wanted(hooks: &Hooks, report: &Report, environment: &[Change]) -> Vec<Hook> {
    let Some(has_failed) = report.has_failed() else {
        return Vec::new();
    };
    let on_failure = hooks.on_failure.as_ref().filter(|_| has_failed);
    let wanted = [
        ("--on-failure", on_failure),
        ("--on-end", hooks.on_end.as_ref()),
    ];
    let wanted = wanted.into_iter().filter_map(|(option, command)| {
        let changes = environment.iter().cloned().chain(report.variables());
        Some(Hook {
            option,
            run: report.name().to_owned(),
            command: command?.clone(),
            changes: changes.collect(),
            line: report.line(),
            is_named: false,
        })
    });
    wanted.collect()
}

impl Hook {
    /// The same, of a process with many runs: what it prints has the run's name in front of each line, as the output of the run.
    pub fn named(self) -> Self {
        Self {
            is_named: true,
            ..self
        }
    }

    /// Starts it. Returns what it prints, too; `None`: it cannot be started, and that was logged.
    pub fn start(self, signals: &Signals, log: Log) -> Option<(Aside, Output)> {
        let Self { option, run, .. } = &self;
        let started = input(&self.line).and_then(|input| {
            let (output, end) = if self.is_named {
                let (file, end) = pipe()?;
                let sink = Sink::Lines(run.clone());
                (Output::of_stderr(file, sink), Some(end))
            } else {
                (Output::none(), None)
            };
            let command = shell(&self.command, &self.changes, end)?;
            let complaint = format!("{run}: the command of {option}");
            let complaint = (&**run, Level::Warning, complaint);
            let limit = (LIMIT, false);
            let aside = Aside::start(command, input, limit, complaint, signals, log)?;
            Ok((aside, output))
        });
        started
            .inspect_err(|error| {
                let why = in_words(error);
                log.warning(format_args!(
                    "{run}: cannot start the command of {option}: {why}"
                ));
            })
            .ok()
    }
}

/// A file with this text.
fn input(text: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create(c"dblock report", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

/// The command, in a shell. What it prints goes to this end of a pipe, or to stderr: dblock's stdout is that of the run's command.
fn shell(command: &str, changes: &[Change], end: Option<OwnedFd>) -> io::Result<Command> {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command);
    match end {
        Some(end) => {
            shell.stdout(end.try_clone()?).stderr(end);
        }
        None if was_closed(libc::STDERR_FILENO) => {
            shell.stdout(Stdio::null());
        }
        None => {
            shell.stdout(io::stderr().as_fd().try_clone_to_owned()?);
        }
    }
    for (name, value) in changes {
        let name = OsStr::from_bytes(name.as_bytes());
        match value {
            Some(value) => shell.env(name, OsStr::from_bytes(value.as_bytes())),
            None => shell.env_remove(name),
        };
    }
    Ok(shell)
}

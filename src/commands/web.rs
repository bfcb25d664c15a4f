//! `dblock web`: becomes `dblock-web`, a program of its own, so that what keeps locks has no byte of a web server in it.

use std::env;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::base::exit::{Ending, Failure, Reason};
use crate::base::text::in_words;
use crate::settings::cli::CommandLine;

const PROGRAM: &str = "dblock-web";

/// Executes the one beside this program, or else the first in `PATH`, with the arguments as they were typed.
///
/// # Errors
/// Neither can be executed.
pub fn web(command_line: &CommandLine) -> anyhow::Result<Ending> {
    let beside = env::current_exe().map(|own| own.with_file_name(PROGRAM));
    let beside = beside.into_iter().filter(|path| path.exists());
    let program = beside
        .chain([PathBuf::from(PROGRAM)])
        .next()
        .expect("the last is always there");
    let error = Command::new(&program).args(&command_line.arguments).exec();
    let failure = if error.kind() == io::ErrorKind::NotFound {
        let line = "dblock web needs dblock-web, which is neither beside dblock nor in PATH: the Debian package dblock-web has it";
        Failure::new(Reason::NotFound, line)
    } else {
        let line = format!("cannot run {}: {}", program.display(), in_words(&error));
        Failure::new(Reason::NotExecutable, line)
    };
    Err(failure.into())
}

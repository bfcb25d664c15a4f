//! The source of a token: an argument, stdin for `-`, or `DBLOCK_TOKEN`.

use std::ffi::OsString;
use std::io::Read;

use super::sources::{Given, Origin, Sources, TOKEN};
use super::value;
use crate::base::exit::{Failure, Reason};
use crate::base::text::{in_words, printable};
use crate::lock::Name;
use crate::lock::rows::Token;

/// The most bytes of a line with a token.
const LONGEST: usize = 4096;

/// What stands for a token on stdin.
const STDIN: &[u8] = b"-";

/// The token in the argument, or in the environment if there is no argument.
///
/// # Errors
/// [`Reason::Usage`]: it is not a token, or there is none.
pub fn read(argument: Option<OsString>) -> Result<Token, Failure> {
    let given = match argument {
        Some(argument) => Given::new("TOKEN", argument, Origin::Argument),
        None => Given::from_variable("TOKEN", TOKEN).ok_or_else(|| {
            let line = "no token is given; name what dblock acquire has printed";
            Failure::new(Reason::Usage, line)
        })?,
    };
    read_given(&given)
}

/// The token that a run uses; `None`: it acquires its own lock. The environment counts if no lock is named.
///
/// # Errors
/// [`Reason::Usage`]: it is not a token, or it belongs to another lock than the named one.
pub fn of_run(sources: &Sources, named: Option<&Name>) -> Result<Option<Token>, Failure> {
    let Some(given) = given_to_run(sources) else {
        return Ok(None);
    };
    let token = read_given(&given)?;
    check_name(&given, &token, named, sources)?;
    Ok(Some(token))
}

/// As [`of_run`], and records that it is in force. One on stdin is not read: it is the run's.
///
/// # Errors
/// As [`of_run`], unless reading continues after errors.
pub fn of_config(sources: &mut Sources, named: Option<&Name>) -> Result<Option<Token>, Failure> {
    let Some(given) = given_to_run(sources) else {
        return Ok(None);
    };
    let place = given.place();
    if *given.value == *STDIN {
        sources.record("token", Some("***"), &place);
        return Ok(None);
    }
    let token = read_given(&given);
    let shown = if token.is_ok() { "***" } else { "(malformed)" };
    sources.record("token", Some(shown), &place);
    match token.and_then(|token| check_name(&given, &token, named, sources).map(|()| token)) {
        Ok(token) => {
            sources.correct_from("name", &printable(&token.name.to_string()), &place);
            Ok(Some(token))
        }
        Err(failure) => {
            sources.stop_unless_lenient(failure)?;
            Ok(None)
        }
    }
}

/// What a run is given for a token.
fn given_to_run(sources: &Sources) -> Option<Given> {
    let is_named = sources.given("name").is_some();
    let of_variable = || Given::from_variable("token", TOKEN).filter(|_| !is_named);
    sources.given("token").cloned().or_else(of_variable)
}

/// Refuses a token of another lock than the one that the same command line names.
fn check_name(
    given: &Given,
    token: &Token,
    named: Option<&Name>,
    sources: &Sources,
) -> Result<(), Failure> {
    match named {
        Some(name) if *name != token.name && sources.is_from_command_line("name") => {
            Err(given.wrong(&format!("the token is of another lock than {name}")))
        }
        _ => Ok(()),
    }
}

fn read_given(given: &Given) -> Result<Token, Failure> {
    if *given.value == *STDIN {
        let line = first_line().map_err(|error| {
            let line = format!("cannot read a token from stdin: {}", in_words(&error));
            Failure::new(Reason::Usage, line)
        })?;
        return given.with(&line).read(value::token);
    }
    given.read(value::token)
}

/// Reads the first line of stdin, and nothing after it: the rest is for the command.
fn first_line() -> std::io::Result<Vec<u8>> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    let mut stdin =
        std::fs::File::from(std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned()?);
    while line.len() < LONGEST && stdin.read(&mut byte)? == 1 && byte != *b"\n" {
        line.push(byte[0]);
    }
    Ok(line)
}

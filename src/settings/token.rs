//! The source of a token: an argument, stdin for `-`, or `DBLOCK_TOKEN`.

use std::ffi::OsString;
use std::io::Read;

use super::sources::{Given, Origin, Sources, TOKEN};
use super::value;
use crate::base::exit::{Failure, Reason};
use crate::base::text::in_words;
use crate::lock::rows::Token;

/// The most bytes of a line with a token.
const LONGEST: usize = 4096;

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
pub fn of_run(sources: &mut Sources) -> Result<Option<Token>, Failure> {
    let named = sources.given("name").is_some();
    let of_variable = || Given::from_variable("token", TOKEN).filter(|_| !named);
    let Some(given) = sources.given("token").cloned().or_else(of_variable) else {
        return Ok(None);
    };
    let token = read_given(&given)?;
    if let Some(name) = super::name(sources)?
        && name != token.name
        && sources.is_from_command_line("name")
    {
        return Err(given.wrong(&format!("the token is of another lock than {name}")));
    }
    Ok(Some(token))
}

fn read_given(given: &Given) -> Result<Token, Failure> {
    if *given.value == *b"-" {
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

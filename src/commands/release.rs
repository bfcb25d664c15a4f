//! `dblock release`: releases a lock of `dblock acquire`.

use super::of_token::act_on;
use crate::base::exit::{Ending, Failure, Reason};
use crate::settings;
use crate::settings::cli::CommandLine;

/// Releases it, and returns how dblock is to end.
///
/// # Errors
/// What kept it from being released.
pub fn release(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (of_token, log) = settings::of_token(command_line)?;
    act_on(&of_token, "dblock release", log, |lock| {
        match lock.release_token(&[]) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let line = "the token does not hold its lock any more";
                Err(Failure::new(Reason::LockLost, line))
            }
            Err(failure) => Err(failure),
        }
    })?;
    Ok(Ending::Code(0))
}

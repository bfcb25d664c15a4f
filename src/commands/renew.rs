//! `dblock renew`: holds a lock of `dblock acquire` for longer.

use super::of_token::act_on;
use crate::base::exit::Ending;
use crate::lock::{Attempt, Backend};
use crate::settings;
use crate::settings::cli::CommandLine;

/// Renews it, and returns how dblock is to end.
///
/// # Errors
/// What kept it from being renewed.
pub fn renew(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (of_token, log) = settings::of_token(command_line)?;
    act_on(&of_token, "dblock renew", log, |lock, caller, _| {
        // Its first renewal is how a process gets to know whether it holds the lock.
        Ok(match lock.try_acquire(caller)? {
            Attempt::Retry(pause) => Some(pause),
            Attempt::Acquired(..) | Attempt::Taken(_) => None,
        })
    })?;
    log.info(format_args!("renewed {}", of_token.token.name));
    Ok(Ending::Code(0))
}

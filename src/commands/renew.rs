//! `dblock renew`: renews a lock of `dblock acquire`.

use super::of_token::act_on;
use crate::base::exit::Ending;
use crate::lock::{Attempt, Backend};
use crate::settings;
use crate::settings::cli::CommandLine;

/// Renews the lock, and returns dblock's exit.
///
/// # Errors
/// Why it could not be renewed.
pub fn renew(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (of_token, common) = settings::of_token(command_line)?;
    act_on(&of_token, "dblock renew", &common, |lock, caller, _| {
        // A process finds out by its first renewal whether it holds the lock.
        Ok(match lock.try_acquire(caller)? {
            Attempt::Retry(pause) => Some(pause),
            Attempt::Acquired(..) | Attempt::Taken(_) => None,
        })
    })?;
    common
        .log
        .info(format_args!("renewed {}", of_token.token.name));
    Ok(Ending::Code(0))
}

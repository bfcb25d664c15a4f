//! `dblock renew`: holds a lock of `dblock acquire` for longer.

use super::of_token::act_on;
use crate::base::exit::Ending;
use crate::settings;
use crate::settings::cli::CommandLine;

/// Renews it, and returns how dblock is to end.
///
/// # Errors
/// What kept it from being renewed.
pub fn renew(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (of_token, log) = settings::of_token(command_line)?;
    // To find out whether the token holds the lock is to renew it.
    act_on(&of_token, "dblock renew", log, |_| Ok(()))?;
    Ok(Ending::Code(0))
}

//! `dblock release`: releases a lock of `dblock acquire`.

use super::of_token::act_on;
use crate::base::exit::Ending;
use crate::settings;
use crate::settings::cli::CommandLine;

/// Releases the lock, and returns dblock's exit.
///
/// # Errors
/// Why it could not be released.
pub fn release(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (of_token, common) = settings::of_token(command_line)?;
    act_on(
        &of_token,
        "dblock release",
        &common,
        |lock, caller, journal| {
            let record = journal.facts.slot.map(|slot| journal.released(slot));
            lock.release_token(caller, record.as_slice())
        },
    )?;
    common
        .log
        .info(format_args!("released {}", of_token.token.name));
    Ok(Ending::Code(0))
}

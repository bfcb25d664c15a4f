//! Random bits, which nobody can guess.

use super::exit::{Failure, Reason};

/// Fills these bytes.
///
/// # Errors
/// [`Reason::OsRefused`] when the system has no random bits.
pub fn fill(bytes: &mut [u8]) -> Result<(), Failure> {
    getrandom::fill(bytes).map_err(|error| {
        let line = format!("cannot get random bits: {error}");
        Failure::new(Reason::OsRefused, line)
    })
}

/// A number of 64 bits.
///
/// # Errors
/// As [`fill`].
pub fn number() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    fill(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// 32 hex digits that nobody has chosen before.
///
/// # Errors
/// As [`fill`].
pub fn id() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

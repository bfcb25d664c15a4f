//! The key of another program's lock, on PostgreSQL.

use super::sources::Sources;
use crate::base::exit::Failure;
use crate::db::Kind;
use crate::lock::{Key, Name};

/// The name, for the lock with the key that is given with `--key`, if one is. `slots`: how many slots the lock has.
///
/// # Errors
/// The key is malformed; or it cannot be used: for several slots, or on another server than PostgreSQL.
pub fn keyed(name: Name, slots: u32, sources: &mut Sources) -> Result<Name, Failure> {
    // In a file it is the option of another command.
    if !sources.is_from_command_line("key") {
        return Ok(name);
    }
    let read = |text: &str| match Key::parse(text) {
        Ok(_) if slots > 1 => {
            Err("it is the key of one lock, and cannot be combined with several slots".to_owned())
        }
        read => read,
    };
    let Some(key) = sources.optional("key", read)? else {
        return Ok(name);
    };
    if sources.kind()? != Kind::Postgres {
        sources.refuse("key", "is for PostgreSQL, whose locks have keys")?;
    }
    Ok(name.with_key(Some(key)))
}

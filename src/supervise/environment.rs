//! How the command's environment differs from dblock's.

use std::ffi::CString;
use std::io;

use nix::errno::Errno;

use crate::lock::{Grant, Name};

/// A variable of the command: its value, or `None` to remove it.
pub type Change = (CString, Option<CString>);

/// The variables that describe a grant of this lock, and the tick of the run; `None`: the command runs without the lock.
///
/// # Panics
/// Where a text has a NUL, which neither an argument nor a name of a lock can have.
pub fn of_grant(
    name: &Name,
    slot_names: &[String],
    grant: Option<Grant>,
    tick: Option<&str>,
) -> Vec<Change> {
    let slot = grant.map(|grant| grant.slot);
    let slot_name = slot.and_then(|slot| slot_names.get(slot as usize).cloned());
    let connection_id = grant.map(|grant| grant.connection_id.to_string());
    let fence = grant.and_then(|grant| grant.fence);
    [
        ("DBLOCK_NAME", Some(name.to_string())),
        ("DBLOCK_SLOT", slot.map(|slot| slot.to_string())),
        ("DBLOCK_SLOT_NAME", slot_name),
        ("DBLOCK_CONNECTION_ID", connection_id),
        ("DBLOCK_TICK", tick.map(str::to_owned)),
        ("DBLOCK_FENCE", fence.map(|fence| fence.to_string())),
    ]
    .into_iter()
    .map(|(name, value)| change(name, value.as_deref()))
    .collect()
}

/// A variable to set; `None` removes it.
///
/// # Panics
/// Where a text has a NUL.
pub fn change(name: &str, value: Option<&str>) -> Change {
    let text = |text: &str| CString::new(text).expect("a setting has no NUL");
    (text(name), value.map(text))
}

/// Changes the command's environment. For the command's process, between fork and exec. Unlike `Command::env` this keeps the order, and
/// keeps entries that are not `name=value`.
///
/// # Errors
/// As `setenv(3)`.
pub fn apply(changes: &[Change]) -> io::Result<()> {
    for (name, value) in changes {
        // SAFETY: this process has no threads. std's functions would block: their lock is held since before the fork.
        let result = unsafe {
            match value {
                Some(value) => libc::setenv(name.as_ptr(), value.as_ptr(), 1),
                // An outer dblock may have set it.
                None => libc::unsetenv(name.as_ptr()),
            }
        };
        Errno::result(result)?;
    }
    Ok(())
}

//! How long a lock may be kept without a renewal, and how long a command may take to end before that is over.

use std::time::Duration;

use super::LONGEST_TTL;
use crate::base::text::shown;
use crate::base::value::{duration, shown_safely};

/// The shortest that may be said of a TTL.
pub const SHORTEST_TTL: Duration = Duration::from_secs(4);

/// From SIGTERM to SIGKILL where nothing gives it, or a quarter of the TTL where that is less.
const DEFAULT_KILL_AFTER: Duration = Duration::from_secs(10);

/// A TTL as people write it: whole seconds, for that is what servers take.
///
/// # Errors
/// The end of a sentence about the value.
pub fn ttl(text: &str) -> Result<Duration, String> {
    let ttl = duration(text)?;
    if ttl.subsec_nanos() == 0 && (SHORTEST_TTL..=LONGEST_TTL).contains(&ttl) {
        Ok(ttl)
    } else {
        Err(format!(
            "{} is not whole seconds from 4s to 1d",
            shown_safely(text)
        ))
    }
}

/// From SIGTERM to SIGKILL, as people write it, for a lock of this TTL.
///
/// # Errors
/// The end of a sentence about the value: it is no duration, or more than a third of the TTL.
pub fn kill_after(text: &str, ttl: Duration) -> Result<Duration, String> {
    let most = ttl / 3;
    match duration(text)? {
        span if span <= most => Ok(span),
        span => Err(format!(
            "{} is more than a third of the TTL, which is {}; the command must have ended before the server gives its lock \
             away",
            shown(span),
            shown(ttl)
        )),
    }
}

/// From SIGTERM to SIGKILL where nothing gives it.
pub fn default_kill_after(ttl: Duration) -> Duration {
    DEFAULT_KILL_AFTER.min(ttl / 4)
}

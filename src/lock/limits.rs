//! How long a lock may be held without a renewal, and how much of that a command may take to end.

use std::time::Duration;

use super::LONGEST_TTL;
use crate::base::text::shown;
use crate::base::value::{duration, shown_safely};

/// The shortest TTL that may be set.
const SHORTEST_TTL: Duration = Duration::from_secs(4);

/// The default time between SIGTERM and SIGKILL, or a quarter of the TTL if that is less.
const DEFAULT_KILL_AFTER: Duration = Duration::from_secs(10);

/// Parses a TTL. It must be whole seconds, as servers take nothing else.
///
/// # Errors
/// The end of a sentence about the value.
pub fn ttl(text: &str) -> Result<Duration, String> {
    ttl_up_to(LONGEST_TTL, "1d", text)
}

/// The same with another longest TTL, which the error calls so.
///
/// # Errors
/// Likewise.
pub fn ttl_up_to(longest: Duration, called: &str, text: &str) -> Result<Duration, String> {
    let ttl = duration(text)?;
    if ttl.subsec_nanos() == 0 && (SHORTEST_TTL..=longest).contains(&ttl) {
        Ok(ttl)
    } else {
        Err(format!(
            "{} is not whole seconds from 4s to {called}",
            shown_safely(text)
        ))
    }
}

/// Parses the time between SIGTERM and SIGKILL, for a lock of this TTL.
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

/// The default time between SIGTERM and SIGKILL.
pub fn default_kill_after(ttl: Duration) -> Duration {
    DEFAULT_KILL_AFTER.min(ttl / 4)
}

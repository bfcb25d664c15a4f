//! The pause between attempts, which grows.

use std::thread::sleep;
use std::time::Duration;

/// The first pause.
pub const SHORTEST_PAUSE: Duration = Duration::from_millis(2);

/// The longest pause.
pub const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// Sleeps, and returns the next pause.
pub fn sleep_longer(pause: Duration) -> Duration {
    sleep(pause);
    (2 * pause).min(LONGEST_PAUSE)
}

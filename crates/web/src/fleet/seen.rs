//! What pages are made from: the last answer of each command, when it came, and what went wrong since.

use std::collections::HashMap;

use jiff::Timestamp;
use tokio::time::Instant;

use super::data;

/// The age of an answer up to which it counts as one of now, in seconds: the fleet is asked one thing after another.
pub const FRESH: i64 = 60;

/// One answer of a dblock command.
#[derive(Debug, Clone)]
pub struct Part<T> {
    /// The last that was answered; None: nothing was yet.
    pub value: Option<T>,
    /// When that was, by this host's clock.
    pub at: Option<Timestamp>,
    /// The line of the command that failed since; None: the value is the latest there is.
    pub error: Option<String>,
    /// Whether it failed because no server answered.
    pub is_away: bool,
}

impl<T> Default for Part<T> {
    fn default() -> Part<T> {
        Part {
            value: None,
            at: None,
            error: None,
            is_away: false,
        }
    }
}

impl<T> Part<T> {
    /// Whether it was answered no longer than [`FRESH`] ago.
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        self.at
            .is_some_and(|at| now.duration_since(at).as_secs() <= FRESH)
    }
}

/// All that the poller knows.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Of `cron list`.
    pub cron: Part<data::CronList>,
    /// Of `queue status`.
    pub queues: Part<data::QueueStatus>,
    /// Of `status`.
    pub locks: Part<data::Status>,
    /// The last 50 runs of each job, by its name, the oldest first; of `history`.
    pub runs: Part<HashMap<String, Vec<data::Ended>>>,
    /// Until then nobody waits for something newer; None: something is old.
    pub new_until: Option<Instant>,
}

impl Seen {
    /// Whether all of it was asked for lately, or in vain.
    pub fn is_new(&self) -> bool {
        self.new_until.is_some_and(|until| until > Instant::now())
    }

    /// Whether a part of it says what is there now, and not what was there before.
    pub fn says_what_is<T>(&self, part: &Part<T>, now: Timestamp) -> bool {
        self.is_new() && part.value.is_some() && part.error.is_none() && part.is_fresh(now)
    }

    /// The server's time now: as it was at its last answer, and how long ago that was by this host's clock.
    pub fn server_now(&self, now: Timestamp) -> Timestamp {
        match (&self.cron.value, self.cron.at) {
            (Some(cron), Some(at)) => cron.now + now.duration_since(at),
            _ => now,
        }
    }
}

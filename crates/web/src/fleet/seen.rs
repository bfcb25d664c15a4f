//! What pages are made from: the last answer of each command, when it came, and what went wrong since.

use std::collections::HashMap;

use jiff::Timestamp;
use tokio::time::Instant;

use super::data::{self, Daemon, Ended, Job, Lock, Queue};

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
    /// What was answered then.
    pub fn new(value: T, at: Timestamp) -> Self {
        Self {
            value: Some(value),
            at: Some(at),
            ..Self::default()
        }
    }

    /// The same with another value.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Part<U> {
        Part {
            value: self.value.map(change),
            at: self.at,
            error: self.error,
            is_away: self.is_away,
        }
    }

    /// What was answered, or why nothing was.
    ///
    /// # Errors
    /// The line of the command that failed.
    pub fn into_value(self) -> Result<Option<T>, String> {
        self.error.map_or(Ok(self.value), Err)
    }

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
    pub runs: Part<HashMap<String, Vec<Ended>>>,
    /// Whether something may have failed in the last day that is not among the runs.
    pub lacks_failures: bool,
    /// Until then nobody waits for something newer; None: something is old. By two clocks of this host: the first stands still while it
    /// sleeps, and the other may be set back.
    pub new_until: Option<(Instant, Timestamp)>,
}

impl Seen {
    /// Whether all of it was asked for lately, or in vain.
    pub fn is_new(&self) -> bool {
        self.new_until
            .is_some_and(|(awake, until)| awake > Instant::now() && until > Timestamp::now())
    }

    /// Whether a part of it says what is there now, and not what was there before.
    pub fn says_what_is<T>(&self, part: &Part<T>, now: Timestamp) -> bool {
        self.is_new() && part.value.is_some() && part.error.is_none() && part.is_fresh(now)
    }

    /// The server that was asked; empty: none has answered.
    pub fn server(&self) -> &str {
        let locks = self.locks.value.as_ref().map(|status| &status.server);
        let cron = self.cron.value.as_ref().map(|cron| &cron.server);
        locks.or(cron).map_or("", String::as_str)
    }

    /// The jobs of the crontab that are known.
    pub fn jobs(&self) -> &[Job] {
        self.cron.value.as_ref().map_or(&[], |cron| &cron.jobs)
    }

    /// One of them.
    pub fn job(&self, name: &str) -> Option<&Job> {
        self.jobs().iter().find(|job| *job.name == *name)
    }

    /// The daemons that are known.
    pub fn daemons(&self) -> &[Daemon] {
        self.cron.value.as_ref().map_or(&[], |cron| &cron.daemons)
    }

    /// Those that are alive.
    pub fn living_daemons(&self) -> impl Iterator<Item = &Daemon> + Clone {
        self.daemons().iter().filter(|daemon| daemon.alive)
    }

    /// The queues that are known.
    pub fn all_queues(&self) -> &[Queue] {
        let queues = self.queues.value.as_ref();
        queues.map_or(&[], |status| &status.queues)
    }

    /// One of them.
    pub fn queue(&self, name: &str) -> Option<&Queue> {
        self.all_queues().iter().find(|queue| *queue.name == *name)
    }

    /// The locks that are known.
    pub fn all_locks(&self) -> &[Lock] {
        self.locks
            .value
            .as_ref()
            .map_or(&[], |status| &status.locks)
    }

    /// The runs of a name that are known.
    pub fn runs_of(&self, name: &str) -> &[Ended] {
        let runs = self.runs.value.as_ref().and_then(|runs| runs.get(name));
        runs.map_or(&[], Vec::as_slice)
    }

    /// The server's time now: as it was at its last answer, and how long ago that was by this host's clock.
    pub fn server_now(&self, now: Timestamp) -> Timestamp {
        match (&self.cron.value, self.cron.at) {
            (Some(cron), Some(at)) => {
                // It may say that it is the last moment that there is.
                let later = cron.now.saturating_add(now.duration_since(at));
                later.unwrap_or(cron.now)
            }
            _ => now,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn a_server_at_the_last_moment_that_there_is_stays_there() {
        let latest = r#"{"server":"db1","now":"9999-12-30T22:00:00.000Z","jobs":[],"daemons":[]}"#;
        let at = Timestamp::UNIX_EPOCH;
        let seen = Seen {
            cron: Part::new(serde_json::from_str(latest).unwrap(), at),
            ..Seen::default()
        };
        let now = at + SignedDuration::from_hours(1);
        assert_eq!(seen.server_now(now), Timestamp::MAX);
    }

    #[test]
    fn what_was_new_before_this_host_slept_is_old() {
        let hour = SignedDuration::from_hours(1);
        let soon = Instant::now() + Duration::from_secs(3600);
        let is_new = |until: Timestamp| {
            let seen = Seen {
                new_until: Some((soon, until)),
                ..Seen::default()
            };
            seen.is_new()
        };
        assert!(is_new(Timestamp::now() + hour));
        assert!(!is_new(Timestamp::now() - hour));
    }
}

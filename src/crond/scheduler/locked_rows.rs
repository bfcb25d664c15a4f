//! The rows that other sessions keep locked.

use std::collections::HashMap;
use std::time::Duration;

use crate::base::clock::Moment;

/// The pause before a job with a locked row is settled again. It doubles each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The locked rows that statements have met.
#[derive(Default)]
pub(super) struct LockedRows {
    /// Whether the last statement waited for another's lock in vain.
    pub was_met: bool,
    /// Jobs with locked rows: when they are settled again, and how long the pause was.
    jobs: HashMap<String, (Moment, Duration)>,
}

impl LockedRows {
    /// When a job with a locked row is settled again; `None`: it has none, or the pause is over.
    pub fn until(&self, job: &str) -> Option<Moment> {
        let until = self.jobs.get(job).map(|(at, _)| *at);
        until.filter(|at| *at > Moment::now())
    }

    /// Whether the row of a job was locked the last time.
    pub fn has(&self, job: &str) -> bool {
        self.jobs.contains_key(job)
    }

    /// The row of a job is locked: it is settled again after a pause, which is longer than the one before.
    pub fn put_off(&mut self, job: String) {
        let before = self.jobs.get(&job).map(|(_, pause)| *pause * 2);
        let pause = before.unwrap_or(FIRST_PAUSE).min(LONGEST_PAUSE);
        self.jobs.insert(job, (Moment::now() + pause, pause));
    }

    /// A job was settled.
    pub fn forget(&mut self, job: &str) {
        self.jobs.remove(job);
    }
}

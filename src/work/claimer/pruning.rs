//! Deletes expired jobs: two for each completed one, and all of them while the worker is idle.

use std::time::Duration;

use super::super::Until;
use super::super::message::ToClaimer;
use super::{Claimer, Stop};
use crate::base::clock::{Moment, chance_below};
use crate::keeper::{SHORTEST_PAUSE, sleep_longer};
use crate::queue::{self, Pruned, look_or_sleep};

/// The interval between checks for expired rows, if the last check found no more.
pub(super) const PRUNE_INTERVAL: Duration = Duration::from_secs(10);

/// How long a worker with jobs to run goes on deleting after such a check.
const LONGEST_PRUNE: Duration = Duration::from_millis(200);

/// How long a worker that has drained its queue deletes what it still owes, before it ends.
const LONGEST_PAYMENT: Duration = Duration::from_secs(30);

/// How long an idle worker deletes before it checks whether a job is due.
const IDLE_PRUNE: Duration = Duration::from_millis(20);

/// Checks take at most one part in this many of the time: beside a backup they wade through deleted rows.
const PART_OF_TIME: u32 = 20;

/// How many jobs are deleted for each completed one.
const PACE: u64 = 2;

/// The most deletions for each completed job in one turn, so that outcomes are recorded without delay.
const MOST_PACE: u64 = 2 * PACE;

/// The largest debt of deletions that is counted.
const MOST_OWED: u64 = 50_000;

/// Of workers that end by themselves, one in this many prunes, even if it ran no job: each worker leaves a row.
const PRUNES_ONE_IN: u16 = 16;

/// When a worker prunes that may end before the interval is over. There may be no other worker: cron may start short ones only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EarlyPrune {
    /// Not early.
    No,
    /// Before its last look for a job, if it has claimed one.
    AfterClaim,
    /// Before its next look for a job.
    Now,
}

impl EarlyPrune {
    pub(super) fn of(until: Until) -> Self {
        match until {
            Until::Stopped => Self::No,
            _ if chance_below(PRUNES_ONE_IN) == 0 => Self::Now,
            Until::Drained => Self::AfterClaim,
            // It completes one job, and never looks again.
            Until::Once => Self::No,
        }
    }

    pub(super) fn once_claimed(self) -> Self {
        match self {
            Self::AfterClaim => Self::Now,
            other => other,
        }
    }
}

/// A worker's pruning.
#[derive(Debug)]
pub(super) struct Pruning {
    /// When it last checked, beginning with the oldest rows.
    pub(super) begun: Moment,
    /// The time from that check to the next.
    interval: Duration,
    /// The next deletion starts at jobs completed at this moment, in microseconds since 1970.
    reached: Option<i64>,
    /// Whether there may be more expired rows.
    pub(super) is_behind: bool,
    /// How many deletions are owed for completed jobs.
    owed: u64,
    /// How many jobs were completed since the last deletion.
    done: u64,
    /// Whether to prune before the interval is over.
    pub(super) early: EarlyPrune,
}

impl Pruning {
    pub(super) fn new(early: EarlyPrune) -> Self {
        Self {
            begun: Moment::now(),
            interval: PRUNE_INTERVAL,
            reached: None,
            is_behind: false,
            owed: 0,
            done: 0,
            early,
        }
    }

    pub(super) fn is_due(&self) -> bool {
        self.early == EarlyPrune::Now || self.begun.elapsed() > self.interval
    }

    /// Notes one deletion. `None`: rows were locked, so there may be more.
    fn note(&mut self, pruned: Option<Pruned>) {
        self.is_behind = pruned.is_none_or(|pruned| pruned.has_more);
        if let Some(pruned) = pruned {
            self.reached = pruned.reached.or(self.reached);
            let paid = pruned.jobs.max(pruned.puts).max(1);
            self.owed = self.owed.saturating_sub(paid);
        }
        if !self.is_behind {
            self.owed = 0;
        }
    }

    /// Notes that this many jobs were completed.
    pub(super) fn count(&mut self, done: u64) {
        self.owed = (self.owed + PACE * done).min(MOST_OWED);
        self.done += done;
    }
}

impl Claimer<'_> {
    /// Deletes expired rows for a while; an idle worker until none are left or a job is due.
    pub(super) fn prune(&mut self, is_idle: bool) -> Result<(), Stop> {
        let begun = Moment::now();
        if self.pruning.is_due() {
            self.begin_to_prune()?;
        }
        let mut round = begun;
        while self.pruning.is_behind {
            let is_over = if is_idle {
                round.elapsed() > IDLE_PRUNE
                    && (self.coordinator.has_message() || self.is_something_due()?)
            } else {
                round.elapsed() > LONGEST_PRUNE
            };
            if is_over {
                break;
            }
            if is_idle && round.elapsed() > IDLE_PRUNE {
                round = Moment::now();
            }
            if !self.prune_some()? {
                break;
            }
        }
        Ok(())
    }

    /// Deletes what keeps pace with the completed jobs; the rest of the debt follows after later turns.
    pub(super) fn keep_pace(&mut self) -> Result<(), Stop> {
        if self.pruning.is_due() {
            self.prune(false)?;
        }
        let done = std::mem::take(&mut self.pruning.done);
        let rest = self.pruning.owed.saturating_sub(MOST_PACE * done);
        while self.pruning.is_behind && self.pruning.owed > rest {
            if self.coordinator.has_said(ToClaimer::is_about_the_end) || !self.prune_some()? {
                break;
            }
        }
        Ok(())
    }

    /// Deletes what is still owed, before a worker ends that has drained its queue.
    pub(super) fn pay_debt(&mut self) -> Result<(), Stop> {
        let begun = Moment::now();
        let mut pause = SHORTEST_PAUSE;
        while self.pruning.is_behind && self.pruning.owed > 0 && begun.elapsed() < LONGEST_PAYMENT {
            if self.coordinator.has_said(ToClaimer::is_about_the_end) {
                break;
            }
            if self.prune_some()? {
                pause = SHORTEST_PAUSE;
            } else {
                pause = sleep_longer(pause);
            }
        }
        Ok(())
    }

    fn begin_to_prune(&mut self) -> Result<(), Stop> {
        let begun = Moment::now();
        self.pruning.early = EarlyPrune::No;
        self.pruning.reached = None;
        let queue = self.worker()?.queue.clone();
        self.ask(|session| queue::prune_records(self.tables, &queue, session))?;
        self.prune_some()?;
        self.pruning.begun = begun;
        self.pruning.interval = PRUNE_INTERVAL.max(begun.elapsed() * PART_OF_TIME);
        Ok(())
    }

    /// Deletes one batch. `false`: rows were locked.
    fn prune_some(&mut self) -> Result<bool, Stop> {
        let queue = self.worker()?.queue.clone();
        self.ensure_session()?;
        let skips = self.skips_locked();
        let from = self.pruning.reached;
        let pruned = self.ask(|session| queue::prune(self.tables, &queue, skips, from, session))?;
        self.pruning.note(pruned);
        // One batch can take longer than the time between two renewals.
        self.keep_lease()?;
        Ok(pruned.is_some())
    }

    fn is_something_due(&mut self) -> Result<bool, Stop> {
        let (worker, queue) = (self.worker()?.number, self.worker()?.queue.clone());
        let look = look_or_sleep(self.tables, &queue, worker, Duration::ZERO);
        let idle = self.ask(|session| session.run(&look))?;
        Ok(idle.is_none_or(|idle| idle.has_work() || !idle.has_queue))
    }
}

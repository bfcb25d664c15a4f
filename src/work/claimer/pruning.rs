//! Deletion of what is too old keeps pace with what is done: as long as there is more, a worker deletes two jobs for each that it has done,
//! and all that there is while it is idle.

use std::time::Duration;

use super::super::Until;
use super::exchange::chance_below;
use super::{Claimer, SHORTEST_PAUSE, Stop, sleep_longer};
use crate::base::clock::Moment;
use crate::queue::{self, Idle, LookOrSleep, Pruned};

/// From one look whether there is something to delete to the next, where there was nothing more.
pub(super) const PRUNE_INTERVAL: Duration = Duration::from_secs(10);

/// How long a worker deletes that has jobs to run, beyond what keeps pace.
const LONGEST_PRUNE: Duration = Duration::from_millis(200);

/// How long a worker that has drained its queue deletes before it ends.
const LONGEST_PAYMENT: Duration = Duration::from_secs(30);

/// How long an idle worker deletes before it looks whether something is due.
const IDLE_PRUNE: Duration = Duration::from_millis(20);

/// A look takes no more than this part of the time: what others have deleted is in its way as long as a backup may read it.
const PART: u32 = 20;

/// Jobs that are deleted for each that is done.
const PACE: u64 = 2;

/// A debt is paid with so many times as many, a little with each turn: what has ended is not to wait for it.
const MOST_PACE: u64 = 2 * PACE;

/// Jobs done for which something is still to be deleted, at most, while it is not known whether there is something.
const MOST_OWED: u64 = 50_000;

/// One in so many workers that end by themselves deletes what is too old, whether it has something to do or not: each leaves a row.
const PRUNES_ONE_IN: u16 = 16;

/// When a worker that may end before it has pruned does it. There may be no other: cron starts one that ends, again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EarlyPrune {
    /// It does not.
    No,
    /// When it looks whether there is more to do, once it had something.
    AfterClaim,
    /// When it looks the next time.
    Now,
}

impl EarlyPrune {
    pub(super) fn of(until: Until) -> Self {
        match until {
            Until::Stopped => Self::No,
            _ if chance_below(PRUNES_ONE_IN) == 0 => Self::Now,
            // What it has done may be many jobs; of one it is not said that nothing more is due.
            Until::Drained => Self::AfterClaim,
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

/// How far a worker has come with that.
#[derive(Debug)]
pub(super) struct Pruning {
    /// When it last began from the oldest.
    pub(super) begun: Moment,
    /// How long after that it does so again.
    interval: Duration,
    /// What it has deleted up to, since then.
    reached: Option<i64>,
    /// Whether there is more.
    pub(super) is_behind: bool,
    /// How many are to be deleted for what was done.
    owed: u64,
    /// How many were done since it last deleted.
    done: u64,
    /// Whether it is to begin sooner, as a worker that may end soon.
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

    /// What was deleted. `None`: others were in the way, and there may be more.
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

    /// So many jobs were done.
    pub(super) fn count(&mut self, done: u64) {
        self.owed = (self.owed + PACE * done).min(MOST_OWED);
        self.done += done;
    }
}

impl Claimer<'_> {
    /// Deletes what is too old, for a while; an idle worker until nothing is left or something is due.
    pub(super) fn prune(&mut self, is_idle: bool) -> Result<(), Stop> {
        let begun = Moment::now();
        if self.pruning.is_due() {
            self.begin_to_prune()?;
        }
        let mut round = begun;
        while self.pruning.is_behind {
            let is_over = if is_idle {
                round.elapsed() > IDLE_PRUNE && (self.has_message() || self.is_something_due()?)
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

    /// Deletes as much as keeps pace with what was done, the rest after the next turn where that is asked for.
    pub(super) fn keep_pace(&mut self) -> Result<(), Stop> {
        if self.pruning.is_due() {
            self.prune(false)?;
        }
        let done = std::mem::take(&mut self.pruning.done);
        let rest = self.pruning.owed.saturating_sub(MOST_PACE * done);
        while self.pruning.is_behind && self.pruning.owed > rest {
            if self.is_to_end() || !self.prune_some()? {
                break;
            }
        }
        Ok(())
    }

    /// Deletes what is still to be deleted for what was done, before a worker ends that has drained its queue.
    pub(super) fn pay_debt(&mut self) -> Result<(), Stop> {
        let begun = Moment::now();
        let mut pause = SHORTEST_PAUSE;
        while self.pruning.is_behind && self.pruning.owed > 0 && begun.elapsed() < LONGEST_PAYMENT {
            if self.is_to_end() {
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
        let (tables, queue) = (self.tables.clone(), self.worker()?.queue.clone());
        self.ask(|session| queue::prune_records(&tables, &queue, session))?;
        self.prune_some()?;
        self.pruning.begun = begun;
        self.pruning.interval = PRUNE_INTERVAL.max(begun.elapsed() * PART);
        Ok(())
    }

    /// Whether it could. Where others were in the way, there may be more.
    fn prune_some(&mut self) -> Result<bool, Stop> {
        let (tables, queue) = (self.tables.clone(), self.worker()?.queue.clone());
        self.session()?;
        let opened = self.opened.as_ref();
        let skips = opened.is_some_and(|opened| opened.skips_locked);
        let from = self.pruning.reached;
        let pruned = self.ask(|session| queue::prune(&tables, &queue, skips, from, session))?;
        self.pruning.note(pruned);
        // It may be much.
        self.keep_lease()?;
        Ok(pruned.is_some())
    }

    fn is_something_due(&mut self) -> Result<bool, Stop> {
        let (worker, queue) = (self.worker()?.number, self.worker()?.queue.clone());
        let tables = self.tables.clone();
        let look = LookOrSleep {
            tables: &tables,
            queue: &queue,
            worker,
            limit: Duration::ZERO,
        };
        let idle = self.ask(|session| session.run(&look))?;
        Ok(idle.is_none_or(|idle| {
            let Idle {
                is_due,
                is_delayed_due,
                has_dead,
                has_queue,
                is_paused,
            } = idle;
            is_due || is_delayed_due && !is_paused || has_dead || !has_queue
        }))
    }
}

//! What a worker does that has nothing to do: it waits until something is due, and looks after delayed jobs, dead workers and what is too old.

use super::super::Until;
use super::super::message::FromClaimer;
use super::exchange::chance_below;
use super::{Claimer, Head, LONGEST_WAIT, LOOK_INTERVAL, Timeout, Turned};
use crate::base::clock::{Moment, by_chance};
use crate::base::log::Level;
use crate::base::text::counted;
use crate::db::{Fault, Session};
use crate::queue::{self, AwaitHead, Idle, LookOrSleep};
use std::time::Duration;

/// From one deletion of what is too old to the next, and how long it takes at most.
pub(super) const PRUNE_INTERVAL: Duration = Duration::from_secs(10);

pub(super) const LONGEST_PRUNE: Duration = Duration::from_millis(200);

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

impl Claimer<'_> {
    /// Looks after delayed jobs and dead workers; whether there may be something to claim.
    pub(super) fn look(&mut self) -> Turned<bool> {
        if self.renewal_due().is_some_and(|due| due <= Moment::now()) {
            self.renew()?;
        }
        self.looked = Moment::now();
        let (worker, queue) = (self.worker()?.number, self.worker()?.queue.clone());
        let tables = self.tables.clone();
        let look = LookOrSleep {
            tables: &tables,
            queue: &queue,
            worker,
            limit: Duration::ZERO,
        };
        let Some(idle) = self.ask(|session| session.run(&look))? else {
            return Ok(true);
        };
        self.act_on(idle)?;
        if idle.is_paused && self.spec.until != Until::Stopped && !self.has_said_paused {
            self.has_said_paused = true;
            let line = format!("the queue {} is paused", self.spec.queue);
            self.say(&FromClaimer::Note(Level::Warning, line));
        }
        Ok(idle.is_due || idle.is_delayed_due && !idle.is_paused || idle.has_dead)
    }

    pub(super) fn act_on(&mut self, idle: Idle) -> Turned<()> {
        self.check_queue(idle.has_queue)?;
        if idle.has_dead || idle.is_delayed_due || self.is_prune_due() {
            self.leave_head()?;
        }
        let (worker, queue) = (self.worker()?.number, self.worker()?.queue.clone());
        let tables = self.tables.clone();
        let mut dead = 0;
        while idle.has_dead
            && self.ask(|session| queue::rescue(&tables, &queue, worker, session))? == Some(true)
        {
            dead += 1;
            // They may be many, with many jobs.
            self.keep_lease()?;
        }
        if dead > 0 {
            let line = format!("gave back the jobs of {}", counted(dead, "dead worker"));
            self.link
                .send_if_heard(&FromClaimer::Note(Level::Info, line));
        }
        if idle.is_delayed_due {
            let skips = self
                .opened
                .as_ref()
                .is_some_and(|opened| opened.skips_locked);
            self.ask(|session| queue::promote(&tables, &queue, skips, session))?;
        }
        if self.is_prune_due() {
            self.pruned = Moment::now();
            self.early_prune = EarlyPrune::No;
            let mut prune = || self.ask(|session| queue::prune(&tables, &queue, session));
            let begun = Moment::now();
            while prune()? == Some(true) && begun.elapsed() < LONGEST_PRUNE {}
        }
        Ok(())
    }

    fn is_prune_due(&self) -> bool {
        self.early_prune == EarlyPrune::Now || self.pruned.elapsed() > PRUNE_INTERVAL
    }

    /// Gives up the place at the head: nobody wakes this session from then on.
    pub(super) fn leave_head(&mut self) -> Turned<()> {
        let leave = queue::leave_head(&self.lock);
        // A session that is over holds no lock.
        while matches!(self.head, Head::Holds | Head::Unknown) && self.session.is_some() {
            let left = self.ask(|session| match session.run(&leave) {
                Err(Fault::NoNamedLocks(_)) => Ok(()),
                left => left,
            })?;
            if left.is_some() {
                break;
            }
        }
        self.head = Head::No;
        Ok(())
    }

    /// Waits until there may be something to claim, or a moment; whether there may be.
    pub(super) fn await_work(&mut self) -> Turned<bool> {
        let (worker, queue) = (self.worker()?.number, self.worker()?.queue.clone());
        let tables = self.tables.clone();
        let due = self.renewal_due().unwrap_or_else(Moment::now);
        let left = due.since(Moment::now());
        if left.is_zero() {
            self.leave_head()?;
            self.renew()?;
            return Ok(false);
        }
        if !matches!(self.head, Head::Holds | Head::WithoutLock) {
            let lock = self.lock.clone();
            let head = AwaitHead {
                lock: &lock,
                limit: left.min(LONGEST_WAIT).as_secs().max(1),
                sets_timeout: self.timeout != Timeout::Short,
            };
            self.head = Head::Unknown;
            if head.sets_timeout {
                self.timeout = Timeout::Unknown;
            }
            let waited = self.ask(|session| match session.run_batch(&head) {
                // Each looks for itself, where there are no such locks.
                Err(Fault::NoNamedLocks(_)) => Ok(None),
                waited => waited.map(Some),
            })?;
            if waited.is_some() {
                self.timeout = Timeout::Short;
            }
            self.head = match waited {
                None => Head::Unknown,
                Some(None) => Head::WithoutLock,
                Some(Some(false)) => Head::No,
                Some(Some(true)) => Head::Holds,
            };
            if self.session.is_none() || matches!(self.head, Head::No | Head::Unknown) {
                // It is the head that looks: who waits behind it asks for nothing else.
                return Ok(false);
            }
            if self.pruned.elapsed() > PRUNE_INTERVAL {
                // One before it may have pruned just now: all of them together are to prune once in that time.
                self.pruned =
                    Moment::now() - by_chance(PRUNE_INTERVAL * 2).saturating_sub(PRUNE_INTERVAL);
            }
        }
        let look = LookOrSleep {
            tables: &tables,
            queue: &queue,
            worker,
            limit: LOOK_INTERVAL.min(left),
        };
        let look = |session: &mut Session| match session.run(&look) {
            // Nothing is under way that would be to be rolled back.
            Err(Fault::Interrupted(_)) => Ok(None),
            idle => idle.map(Some),
        };
        let Some(idle) = self.ask(look)?.flatten() else {
            // It was woken, or the session is lost.
            return Ok(self.session.is_some());
        };
        self.act_on(idle)?;
        Ok(idle.is_due || idle.is_delayed_due && !idle.is_paused || idle.has_dead)
    }
}

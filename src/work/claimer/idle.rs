//! An idle worker: it waits until something is due, promotes delayed jobs, rescues the jobs of dead workers, and prunes old jobs.

use super::super::Until;
use super::super::message::FromClaimer;
use super::pruning::PRUNE_INTERVAL;
use super::{Claimer, Head, LONGEST_WAIT, LOOK_INTERVAL, Stop, Timeout};
use crate::base::clock::{Moment, by_chance};
use crate::base::log::Level;
use crate::base::text::counted;
use crate::db::{Fault, Session};
use crate::queue::{self, Idle, await_head, look_or_sleep};
use std::time::Duration;

impl Claimer<'_> {
    /// Promotes delayed jobs and rescues the jobs of dead workers. Returns whether there may be something to claim.
    pub(super) fn look(&mut self) -> Result<bool, Stop> {
        if self.renewal_due().is_some_and(|due| due <= Moment::now()) {
            self.renew()?;
        }
        self.looked = Moment::now();
        let (worker, queue) = (self.worker()?.number, self.worker()?.queue.clone());
        let tables = self.tables.clone();
        let look = look_or_sleep(&tables, &queue, worker, Duration::ZERO);
        let Some(idle) = self.ask(|session| session.run(&look))? else {
            return Ok(true);
        };
        self.act_on(idle, false)?;
        if idle.is_paused && self.spec.until != Until::Stopped && !self.has_said_paused {
            self.has_said_paused = true;
            let line = format!("the queue {} is paused", self.spec.queue);
            self.say(&FromClaimer::Note(Level::Warning, line));
        }
        Ok(idle.is_due || idle.is_delayed_due && !idle.is_paused || idle.has_dead)
    }

    /// Acts on what a look has found. A worker that `is_idle` also prunes old jobs.
    fn act_on(&mut self, idle: Idle, is_idle: bool) -> Result<(), Stop> {
        self.check_queue(idle.has_queue)?;
        let prunes = self.pruning.is_due() || is_idle && self.pruning.is_behind;
        if idle.has_dead || idle.is_delayed_due || prunes {
            self.leave_head()?;
        }
        let (worker, queue) = (self.worker()?.number, self.worker()?.queue.clone());
        let tables = self.tables.clone();
        if idle.has_dead || idle.is_delayed_due {
            self.marks.forget();
        }
        let mut dead = 0;
        while idle.has_dead
            && self.ask(|session| queue::rescue(&tables, &queue, worker, session))? == Some(true)
        {
            dead += 1;
            // There may be many dead workers, each with many jobs.
            self.keep_lease()?;
        }
        if dead > 0 {
            let line = format!("returned the jobs of {}", counted(dead, "dead worker"));
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
        if prunes {
            self.prune(is_idle && !idle.is_delayed_due && dead == 0)?;
        }
        Ok(())
    }

    /// Releases the head's lock, so that nobody interrupts the next statements.
    pub(super) fn leave_head(&mut self) -> Result<(), Stop> {
        let leave = queue::leave_head(&self.lock);
        // A lost session holds no lock.
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

    /// Waits for a while, or until there may be something to claim. Returns whether there may be.
    pub(super) fn await_work(&mut self) -> Result<bool, Stop> {
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
            let limit = left.min(LONGEST_WAIT).as_secs().max(1);
            let sets_timeout = self.timeout != Timeout::Short;
            let head = await_head(&self.lock, limit, sets_timeout);
            self.head = Head::Unknown;
            if sets_timeout {
                self.timeout = Timeout::Unknown;
            }
            let waited = self.ask(|session| match session.run_batch(&head) {
                // Without named locks each worker looks for itself.
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
                // Only the head looks; the workers behind it wait.
                return Ok(false);
            }
            if !self.pruning.is_behind && self.pruning.begun.elapsed() > PRUNE_INTERVAL {
                // An earlier head may have pruned just now. All heads together should prune once in this interval.
                self.pruning.begun =
                    Moment::now() - by_chance(PRUNE_INTERVAL * 2).saturating_sub(PRUNE_INTERVAL);
            }
        }
        let look = look_or_sleep(&tables, &queue, worker, LOOK_INTERVAL.min(left));
        let look = |session: &mut Session| match session.run(&look) {
            // No transaction is open, so there is nothing to roll back.
            Err(Fault::Interrupted(_)) => Ok(None),
            idle => idle.map(Some),
        };
        let Some(idle) = self.ask(look)?.flatten() else {
            // It was woken. Without a session, it was lost instead.
            return Ok(self.session.is_some());
        };
        self.act_on(idle, !idle.is_due)?;
        Ok(idle.is_due || idle.is_delayed_due && !idle.is_paused || idle.has_dead)
    }
}

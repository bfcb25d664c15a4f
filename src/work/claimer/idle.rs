//! An idle worker: it waits until something is due, promotes delayed jobs, rescues the jobs of dead workers, and prunes old jobs.

use super::super::Until;
use super::super::message::FromClaimer;
use super::pruning::PRUNE_INTERVAL;
use super::{COUNT_INTERVAL, Claimer, LONGEST_WAIT, LOOK_INTERVAL, Stop};
use crate::base::clock::{Moment, by_chance};
use crate::base::hooks::Hooks;
use crate::base::log::Level;
use crate::base::text::counted;
use crate::db::{Fault, Session};
use crate::queue::{self, Idle, await_head, look_or_sleep};
use std::time::Duration;

/// A worker's part among the idle workers.
pub(super) struct Head {
    /// The named lock that the head of the idle workers holds.
    pub lock: String,
    /// Whether this worker is the head.
    pub state: HeadState,
    /// How long the server keeps the session without a statement.
    pub timeout: Timeout,
}

/// Whether this worker is the head of the idle workers, which is the next to be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeadState {
    /// It is not.
    No,
    /// Its session holds the head's lock.
    Holds,
    /// The server has no named locks: each worker looks for itself.
    WithoutLock,
    /// It may hold the lock; the answer is not known.
    Unknown,
}

/// How long the server keeps a session without a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timeout {
    /// As long as the lease lasts.
    OfLease,
    /// Either of the two: the answer to the statement that sets it is not known.
    Unknown,
    /// Short, as for an idle worker.
    Short,
}

impl Head {
    /// This worker is not the head, whose lock this is.
    pub fn new(lock: String) -> Self {
        Self {
            lock,
            state: HeadState::No,
            timeout: Timeout::OfLease,
        }
    }

    /// The session is another one.
    pub fn forget(&mut self) {
        (self.state, self.timeout) = (HeadState::No, Timeout::OfLease);
    }
}

/// A worker's looks at its queue, besides its turns.
pub(super) struct Looks {
    /// When it last looked for delayed jobs and dead workers.
    looked: Moment,
    /// When it last counted the jobs that are due; `None`: nobody wants to know.
    due_counted: Option<Moment>,
    /// Whether a worker that ends by itself has logged that its queue is paused.
    has_said_paused: bool,
}

impl Looks {
    /// There was none yet. The jobs that are due are counted only if somebody wants to know.
    pub fn new(counts_due: bool) -> Self {
        Self {
            looked: Moment::START,
            due_counted: counts_due.then_some(Moment::START),
            has_said_paused: false,
        }
    }

    /// Whether to look for delayed jobs and dead workers.
    pub fn is_due(&self) -> bool {
        self.looked.elapsed() > LOOK_INTERVAL
    }

    /// Whether to count the jobs that are due. If so, the next count is due one interval from now.
    pub fn begins_count(&mut self) -> bool {
        let is_due = |counted: Moment| counted.elapsed() > COUNT_INTERVAL;
        let begins = self.due_counted.is_some_and(is_due);
        if begins {
            self.due_counted = Some(Moment::now());
        }
        begins
    }

    /// Whether to log that the queue is paused: the first time.
    fn says_paused(&mut self) -> bool {
        !std::mem::replace(&mut self.has_said_paused, true)
    }
}

impl Claimer<'_> {
    /// Promotes delayed jobs and rescues the jobs of dead workers. Returns whether there may be something to claim.
    pub(super) fn look(&mut self) -> Result<bool, Stop> {
        let due = self.workers.renewal_due();
        if due.is_some_and(|due| due <= Moment::now()) {
            self.renew()?;
        }
        self.looks.looked = Moment::now();
        let (worker, queue) = (self.worker()?.number, self.worker()?.queue.clone());
        let look = look_or_sleep(self.tables, &queue, worker, Duration::ZERO);
        let Some(idle) = self.ask(|session| session.run(&look))? else {
            return Ok(true);
        };
        self.act_on(idle, false)?;
        if idle.is_paused && self.spec.until != Until::Stopped && self.looks.says_paused() {
            let line = format!("the queue {} is paused", self.spec.queue);
            self.coordinator.note(Level::Warning, &line);
        }
        Ok(idle.has_work())
    }

    /// Acts on what a look has found. A worker that `is_idle` also prunes old jobs.
    fn act_on(&mut self, idle: Idle, is_idle: bool) -> Result<(), Stop> {
        self.check_queue(idle.has_queue)?;
        let prunes = self.pruning.is_due() || is_idle && self.pruning.is_behind;
        if idle.has_dead || idle.is_delayed_due || prunes {
            self.leave_head()?;
        }
        let (worker, queue) = (self.worker()?.number, self.worker()?.queue.clone());
        if idle.has_dead || idle.is_delayed_due {
            self.claiming.marks.forget();
        }
        let mut dead = 0;
        while idle.has_dead
            && let Some(Some(rescued)) =
                self.ask(|session| queue::rescue(self.tables, &queue, worker, session))?
        {
            dead += 1;
            if !rescued.jobs.is_empty() && self.spec.hooks != Hooks::default() {
                self.coordinator.say(FromClaimer::Rescued(rescued));
            }
            // There may be many dead workers, each with many jobs.
            self.keep_lease()?;
        }
        if dead > 0 {
            let line = format!("returned the jobs of {}", counted(dead, "dead worker"));
            self.coordinator
                .say_if_heard(&FromClaimer::Note(Level::Info, line));
        }
        if idle.is_delayed_due {
            let skips = self.skips_locked();
            self.ask(|session| queue::promote(self.tables, &queue, skips, session))?;
        }
        if prunes {
            self.prune(is_idle && !idle.is_delayed_due && dead == 0)?;
        }
        Ok(())
    }

    /// Releases the head's lock, so that nobody interrupts the next statements.
    pub(super) fn leave_head(&mut self) -> Result<(), Stop> {
        let leave = queue::leave_head(&self.head.lock);
        // A lost session holds no lock.
        while matches!(self.head.state, HeadState::Holds | HeadState::Unknown)
            && self.connection.session().is_some()
        {
            let left = self.ask(|session| match session.run(&leave) {
                Err(Fault::NoNamedLocks(_)) => Ok(()),
                left => left,
            })?;
            if left.is_some() {
                break;
            }
        }
        self.head.state = HeadState::No;
        Ok(())
    }

    /// Waits for a while, or until there may be something to claim. Returns whether there may be.
    pub(super) fn await_work(&mut self) -> Result<bool, Stop> {
        let (worker, queue) = (self.worker()?.number, self.worker()?.queue.clone());
        let due = self.workers.renewal_due().unwrap_or_else(Moment::now);
        let left = due.since(Moment::now());
        if left.is_zero() {
            self.leave_head()?;
            self.renew()?;
            return Ok(false);
        }
        if !matches!(self.head.state, HeadState::Holds | HeadState::WithoutLock) {
            let limit = left.min(LONGEST_WAIT).as_secs().max(1);
            let sets_timeout = self.head.timeout != Timeout::Short;
            let head = await_head(&self.head.lock, limit, sets_timeout);
            self.head.state = HeadState::Unknown;
            if sets_timeout {
                self.head.timeout = Timeout::Unknown;
            }
            let waited = self.ask(|session| match session.run_batch(&head) {
                // Without named locks each worker looks for itself.
                Err(Fault::NoNamedLocks(_)) => Ok(None),
                waited => waited.map(Some),
            })?;
            if waited.is_some() {
                self.head.timeout = Timeout::Short;
            }
            self.head.state = match waited {
                None => HeadState::Unknown,
                Some(None) => HeadState::WithoutLock,
                Some(Some(false)) => HeadState::No,
                Some(Some(true)) => HeadState::Holds,
            };
            if self.connection.session().is_none()
                || matches!(self.head.state, HeadState::No | HeadState::Unknown)
            {
                // Only the head looks; the workers behind it wait.
                return Ok(false);
            }
            if !self.pruning.is_behind && self.pruning.begun.elapsed() > PRUNE_INTERVAL {
                // An earlier head may have pruned just now. All heads together should prune once in this interval.
                self.pruning.begun =
                    Moment::now() - by_chance(PRUNE_INTERVAL * 2).saturating_sub(PRUNE_INTERVAL);
            }
        }
        let look = look_or_sleep(self.tables, &queue, worker, LOOK_INTERVAL.min(left));
        let look = |session: &mut Session| match session.run(&look) {
            // No transaction is open, so there is nothing to roll back.
            Err(Fault::Interrupted(_)) => Ok(None),
            idle => idle.map(Some),
        };
        let Some(idle) = self.ask(look)?.flatten() else {
            // It was woken. Without a session, it was lost instead.
            return Ok(self.connection.session().is_some());
        };
        self.act_on(idle, !idle.is_due)?;
        Ok(idle.has_work())
    }
}

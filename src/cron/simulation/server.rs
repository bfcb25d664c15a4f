//! The server of the simulation. One host at a time changes its state, in the same way as the SQL statements do.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::Duration;

use super::super::crontab::Overlap;
use super::super::rules::taken::{TickFacts, unsettled};
use super::super::rules::{AttemptEnd, Fate, JobFacts, LARGEST_LAG, RunState, Settlement, resume};
use super::attempt::Attempt;
use super::check::{Event, Record, Skipped};
use super::{Job, SECOND};
use crate::base::clock::micros;

/// How long a daemon counts as alive after its last renewal.
const LEASE: i64 = 30 * SECOND;

/// Rows that changed this long before the last look are read again.
const LOOK_BACK: i64 = 5 * SECOND;

/// Within this time after a run has ended its daemon should record what happens to the tick.
const UNRECORDED: i64 = 5 * SECOND;

/// How many runs of a job may overlap, if overlaps are allowed.
const OVERLAPPING: usize = 100;

/// A tick with a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) job: usize,
    pub(super) tick: i64,
    pub(super) run: u64,
    pub(super) attempt: u32,
    pub(super) failures: u32,
    pub(super) daemon: Option<u64>,
    pub(super) start_at: Option<i64>,
    pub(super) started_at: Option<i64>,
    pub(super) unstarted_at: Option<i64>,
    /// Whether it may be taken over. Only a look computes that.
    pub(super) is_orphan: bool,
}

impl Entry {
    pub(super) fn is_waiting(&self) -> bool {
        self.daemon.is_none() && self.start_at.is_none()
    }

    pub(super) fn facts(&self) -> TickFacts {
        TickFacts {
            tick: self.tick,
            failures: self.failures,
            start_at: self.start_at,
            started_at: self.started_at,
            unstarted_at: self.unstarted_at,
        }
    }
}

/// A daemon's row.
#[derive(Default)]
struct Daemon {
    renewed: i64,
    is_leaving: bool,
    gone_at: Option<i64>,
}

/// The result of an attempt to acquire a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tried {
    Held,
    Taken,
}

/// A settlement has changed nothing.
#[derive(Debug)]
pub(super) struct InVain;

/// The state of the server.
#[derive(Default)]
pub(super) struct Server {
    pub(super) now: i64,
    pub(super) is_up: bool,
    pub(super) rows: Vec<JobFacts>,
    /// When each row was changed by other things than its schedule.
    pub(super) changed: Vec<i64>,
    pub(super) ticks: Vec<Entry>,
    /// Which runs hold the lock of each job, and until when. There may be several if ticks may overlap.
    pub(super) locks: Vec<Vec<(u64, i64)>>,
    daemons: BTreeMap<u64, Daemon>,
    /// Those that are alive and take ticks, as of the current second.
    pub(super) alive: Rc<[String]>,
    /// How and when runs have ended, as far as that is recorded.
    ends: HashMap<u64, (i64, AttemptEnd)>,
    /// What happened to each job, for the checker.
    pub(super) records: Vec<Record>,
    /// The last id.
    pub(super) ids: u64,
}

impl Server {
    pub(super) fn new(now: i64, rows: Vec<JobFacts>) -> Self {
        let jobs = rows.len();
        Self {
            now,
            is_up: true,
            rows,
            changed: vec![now; jobs],
            locks: vec![Vec::new(); jobs],
            records: (0..jobs).map(|_| Record::default()).collect(),
            ..Self::default()
        }
    }

    pub(super) fn new_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// `dblock cron trigger`.
    pub(super) fn trigger(&mut self, at: usize) {
        if self.rows[at].triggered.is_none() {
            // No schedule has ticks at half seconds.
            let wanted = self.now - SECOND / 2;
            (self.rows[at].triggered, self.changed[at]) = (Some(wanted), self.now);
            self.records[at].triggers.push(wanted);
        }
    }

    /// `dblock cron pause`.
    pub(super) fn pause(&mut self, at: usize) {
        (self.rows[at].is_paused, self.changed[at]) = (true, self.now);
        self.records[at].pauses.push((self.now, None));
    }

    /// `dblock cron resume`.
    pub(super) fn resume(&mut self, at: usize, job: &Job) {
        let (held_back, next) = resume(&job.schedule, self.rows[at].next, self.now);
        (self.rows[at].is_paused, self.rows[at].next) = (false, next);
        self.changed[at] = self.now;
        let record = &mut self.records[at];
        record.held_back.extend(held_back);
        let pause = record.pauses.last_mut().expect("it was paused");
        pause.1 = Some(self.now);
    }

    /// Renews a daemon's row. `is_leaving`: it takes no more ticks.
    pub(super) fn renew_daemon(&mut self, id: u64, is_leaving: bool) {
        let now = self.now;
        let daemon = self.daemons.entry(id).or_default();
        (daemon.renewed, daemon.is_leaving) = (now, is_leaving);
    }

    /// A daemon is gone, and runs nothing any more.
    pub(super) fn leave(&mut self, id: u64) {
        let now = self.now;
        let daemon = self.daemons.entry(id).or_default();
        (daemon.is_leaving, daemon.gone_at) = (true, Some(now));
    }

    /// Lists the daemons that are alive and take ticks.
    pub(super) fn list_alive(&mut self) {
        let alive = self.daemons.iter().filter(|(_, daemon)| {
            let since = self.now - daemon.renewed;
            since < LEASE && since > -micros(LARGEST_LAG) && !daemon.is_leaving
        });
        self.alive = alive.map(|(id, _)| id.to_string()).collect();
    }

    /// Looks at the job rows that are due, or have changed since the last look. `looked`: when that was; `None`: all are read.
    pub(super) fn look_at_rows(&self, jobs: &[Job], rows: &mut Vec<JobFacts>, looked: Option<i64>) {
        let Some(looked) = looked else {
            rows.clone_from(&self.rows);
            return;
        };
        for (at, seen) in rows.iter_mut().enumerate() {
            let row = self.rows[at];
            if row.next.is_some_and(|next| next <= self.now)
                || self.changed[at] >= looked - LOOK_BACK
            {
                *seen = row;
            } else {
                seen.next = unsettled(&jobs[at].schedule, seen.next, self.now);
            }
        }
    }

    /// Looks at the ticks with a row.
    pub(super) fn look_at_ticks(&self, jobs: &[Job]) -> Vec<Entry> {
        let mut ticks = self.ticks.clone();
        for tick in &mut ticks {
            let Some(daemon) = tick.daemon else {
                continue;
            };
            let daemon = &self.daemons[&daemon];
            let ttl = micros(jobs[tick.job].options.ttl);
            let is_silent = daemon.gone_at.is_some()
                || daemon.renewed + ttl < self.now
                || daemon.renewed > self.now + micros(LARGEST_LAG);
            let ended_at = self.ends.get(&tick.run).map(|(at, _)| *at);
            let is_unrecorded = ended_at.is_some_and(|at| at < self.now - UNRECORDED);
            tick.is_orphan = (is_silent || is_unrecorded) && !self.holds(tick.job, tick.run);
            let since = ended_at.or(daemon.gone_at);
            let since = since.unwrap_or(daemon.renewed + ttl);
            tick.start_at = Some(since).max(self.held_until(tick.job, tick.run));
        }
        ticks
    }

    /// Until when the lock of a run is held, or was; `None`: it was released, or is another's.
    fn held_until(&self, job: usize, run: u64) -> Option<i64> {
        let own = self.locks[job].iter().find(|(owner, _)| *owner == run);
        own.map(|(_, until)| *until)
    }

    fn holds(&self, job: usize, run: u64) -> bool {
        let until = self.held_until(job, run);
        until.is_some_and(|until| until > self.now)
    }

    /// The state of a run whose daemon is silent.
    pub(super) fn state_of(&self, tick: &Entry) -> RunState {
        let unstarted = |other: &Entry| other.run == tick.run && other.started_at.is_none();
        if self.holds(tick.job, tick.run) {
            RunState::Alive
        } else if let Some((_, end)) = self.ends.get(&tick.run) {
            RunState::Ended(*end)
        } else if self.ticks.iter().any(unstarted) {
            RunState::Unstarted
        } else {
            RunState::Gone
        }
    }

    /// The conditional UPDATE of the job's row, and its effects. Returns the tick that runs or waits, if there is one.
    pub(super) fn settle(
        &mut self,
        at: usize,
        job: &Job,
        daemon: u64,
        settlement: &Settlement,
    ) -> Result<Option<Entry>, InVain> {
        let is_free = self.ticks.iter().all(|tick| tick.job != at);
        let row = &mut self.rows[at];
        let from = if settlement.is_trigger {
            row.triggered
        } else {
            row.next.filter(|next| *next <= self.now && !row.is_paused)
        };
        if from != Some(settlement.from) || settlement.is_alone && !is_free {
            return Err(InVain);
        }
        if settlement.is_trigger {
            (row.triggered, self.changed[at]) = (None, self.now);
        } else {
            assert!(
                settlement.next > Some(settlement.from),
                "a row moves forward"
            );
            row.next = settlement.next;
        }
        for skip in &settlement.skips {
            self.records[at].skips.push(Skipped {
                first: skip.ticks.0,
                last: skip.ticks.1,
                count: skip.count.number,
                why: skip.why,
                at: self.now,
            });
        }
        let (tick, attempt, daemon) = match settlement.fate {
            None => return Ok(None),
            Some(Fate::Run(tick)) => (tick, 1, Some(daemon)),
            Some(Fate::Wait(tick)) => (tick, 0, None),
        };
        let entry = Entry {
            job: at,
            tick,
            run: self.new_id(),
            attempt,
            failures: 0,
            daemon,
            start_at: None,
            started_at: None,
            unstarted_at: None,
            is_orphan: false,
        };
        assert!(job.options.overlap != Overlap::Skip || is_free);
        self.records[at].spans.insert(tick, (self.now, None));
        let is_same = |other: &Entry| (other.job, other.tick) == (at, tick);
        if !self.ticks.iter().any(is_same) {
            self.ticks.push(entry.clone());
        }
        let waiting = self.ticks.iter().filter(|other| other.job == at);
        let record = &mut self.records[at];
        record.both_waited |= waiting.filter(|tick| tick.is_waiting()).count() > 1;
        Ok(Some(entry))
    }

    /// The tick of a run, as long as the run has it.
    fn tick_of(&mut self, tick: i64, run: u64) -> Option<&mut Entry> {
        let mut ticks = self.ticks.iter_mut();
        ticks.find(|other| other.run == run && other.tick == tick)
    }

    /// The tick as it was read, unless that has changed.
    fn unchanged(&mut self, seen: &Entry) -> Option<&mut Entry> {
        let tick = self.tick_of(seen.tick, seen.run);
        tick.filter(|tick| tick.daemon == seen.daemon && tick.started_at == seen.started_at)
    }

    /// Takes a tick for another attempt. `lost`: the run before it has ended without a record of that.
    pub(super) fn retake(
        &mut self,
        daemon: u64,
        seen: &Entry,
        failures: u32,
        lost: bool,
    ) -> Option<Entry> {
        let run = self.new_id();
        let tick = self.unchanged(seen)?;
        (tick.run, tick.daemon, tick.failures) = (run, Some(daemon), failures);
        if tick.started_at.is_some() {
            tick.unstarted_at = None;
        }
        (tick.start_at, tick.started_at) = (None, None);
        tick.attempt += 1;
        let taken = tick.clone();
        if lost {
            self.record(seen.run, AttemptEnd::Lost);
        }
        Some(taken)
    }

    /// Abandons a tick whose next attempt is too late.
    pub(super) fn abandon(&mut self, seen: &Entry) {
        if self.unchanged(seen).is_some() {
            let since = seen.facts().startable_since().expect("it is too late");
            let given_up = (since, self.now);
            self.records[seen.job].given_up.insert(seen.tick, given_up);
            self.end_tick(seen);
        }
    }

    fn end_tick(&mut self, tick: &Entry) {
        let now = self.now;
        self.ticks.retain(|other| other.run != tick.run);
        let span = self.records[tick.job].spans.get_mut(&tick.tick);
        span.expect("it was taken").1 = Some(now);
    }

    /// Records how the attempt of a run has ended, and when the next one follows.
    pub(super) fn finish(
        &mut self,
        (tick, run): (i64, u64),
        end: AttemptEnd,
        (delay, failures): (Option<Duration>, u32),
    ) {
        self.record(run, end);
        let now = self.now;
        let Some(found) = self.tick_of(tick, run) else {
            return;
        };
        match delay {
            None => {
                let over = found.clone();
                self.end_tick(&over);
            }
            Some(delay) if found.daemon.is_some() => {
                if end == AttemptEnd::Unstarted {
                    found.unstarted_at.get_or_insert(now);
                } else if found.started_at.is_some() {
                    found.unstarted_at = None;
                }
                (found.daemon, found.started_at, found.failures) = (None, None, failures);
                found.start_at = Some(now + micros(delay));
            }
            Some(_) => {}
        }
    }

    /// Releases the lock of a run, if it has it.
    pub(super) fn release(&mut self, job: usize, run: u64) {
        self.locks[job].retain(|(owner, _)| *owner != run);
    }

    /// Records the end of a run, unless that is done. One whose command was not started counts as that of a lost host.
    pub(super) fn record(&mut self, run: u64, end: AttemptEnd) {
        let end = match end {
            AttemptEnd::Unstarted => AttemptEnd::Lost,
            end => end,
        };
        self.ends.entry(run).or_insert((self.now, end));
    }

    /// When and how a run has ended, as far as that is recorded.
    pub(super) fn end_of(&self, run: u64) -> Option<(i64, AttemptEnd)> {
        self.ends.get(&run).copied()
    }

    /// Acquires the lock of an attempt, and notes that its command is about to start.
    pub(super) fn acquire(&mut self, job: &Job, attempt: &Attempt) -> Tried {
        let (now, ttl) = (self.now, micros(job.options.ttl));
        let locks = &mut self.locks[attempt.job];
        let places = match job.options.overlap {
            Overlap::Allow => OVERLAPPING,
            Overlap::Skip | Overlap::Wait => 1,
        };
        // A free place is better than an expired one.
        if let Some(own) = locks.iter_mut().find(|(owner, _)| *owner == attempt.run) {
            own.1 = now + ttl;
        } else if locks.len() < places {
            locks.push((attempt.run, now + ttl));
        } else if let Some(expired) = locks.iter_mut().find(|(_, until)| *until <= now) {
            *expired = (attempt.run, now + ttl);
        } else {
            return Tried::Taken;
        }
        if self.may_start(attempt)
            && let Some(tick) = self.tick_of(attempt.tick, attempt.run)
        {
            tick.started_at = Some(now);
            let granted = Event::Granted {
                attempt: attempt.number,
                at: now,
            };
            self.note(attempt, granted);
        }
        Tried::Held
    }

    /// Renews the lock of a run, which may have expired. Returns whether it is still that run's.
    pub(super) fn renew_lock(&mut self, job: &Job, attempt: &Attempt) -> bool {
        let until = self.now + micros(job.options.ttl);
        let mut locks = self.locks[attempt.job].iter_mut();
        let own = locks.find(|(owner, _)| *owner == attempt.run);
        own.map(|own| own.1 = until).is_some()
    }

    /// Whether a run still has its tick, and no earlier one has succeeded.
    pub(super) fn may_start(&mut self, attempt: &Attempt) -> bool {
        let events = self.records[attempt.job].events.get(&attempt.tick);
        let mut ran = events.into_iter().flatten();
        let has_succeeded = ran.any(|event| match event {
            Event::Started { run, .. } => {
                *run != attempt.run && matches!(self.end_of(*run), Some((_, AttemptEnd::Over)))
            }
            _ => false,
        });
        !has_succeeded && self.tick_of(attempt.tick, attempt.run).is_some()
    }

    /// Somebody runs a command by hand under the lock of a job until then, if nobody has it.
    pub(super) fn run_by_hand(&mut self, at: usize, until: i64) {
        let now = self.now;
        if self.locks[at].iter().all(|(_, until)| *until <= now) {
            self.locks[at].clear();
            let run = self.new_id();
            self.locks[at].push((run, until));
            self.records[at].by_hand.push((self.now, until));
        }
    }

    pub(super) fn note(&mut self, attempt: &Attempt, event: Event) {
        let events = &mut self.records[attempt.job].events;
        events.entry(attempt.tick).or_default().push(event);
    }
}

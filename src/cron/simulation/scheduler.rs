//! What the scheduler of a simulated host does, by the rules that the program's scheduler has.

use std::rc::Rc;
use std::time::Duration;

use super::super::rules::taken::{
    Further, Rescue, further, is_for, is_gone, is_missed, made_up_from, may_rescue, rescue,
    search_limit,
};
use super::super::rules::{AttemptEnd, Decision, Fate, Now, RunState, UnderWay, decide, retry};
use super::SECOND;
use super::attempt::{Attempt, AttemptState};
use super::check::Event;
use super::host::{Phase, Turn};
use super::server::{Entry, Tried};
use crate::base::clock::micros;

/// How often a scheduler reads everything.
const MAINTENANCE: i64 = 60 * SECOND;

impl Turn<'_> {
    /// Records the ends of attempts, and releases their locks.
    pub(super) fn record_ends(&mut self) {
        for attempt in std::mem::take(&mut self.host.attempts) {
            let AttemptState::Ended(end) = attempt.state else {
                self.host.attempts.push(attempt);
                continue;
            };
            let (run, job) = (attempt.run, &self.jobs[attempt.job]);
            // A row of the tick is locked for a while. To free the lock matters more.
            let was_locked = self.server.end_of(run).is_some();
            let is_locked = if was_locked {
                self.has_trouble && self.random.u8(..8) > 0
            } else {
                self.happens(50)
            };
            if is_locked {
                self.server.record(run, end);
                self.server.release(attempt.job, run);
                self.host.attempts.push(attempt);
                continue;
            }
            let next = retry(&job.options, end, attempt.failures, attempt.unstarted_for);
            self.server.finish((attempt.tick, run), end, next);
            self.server.release(attempt.job, run);
            // The answer may be lost.
            if self.happens(20) {
                self.host.attempts.push(attempt);
            } else {
                self.host.over.insert(run);
                self.host.ticks.retain(|tick| tick.run != run);
            }
        }
    }

    /// Reads what has changed.
    pub(super) fn look(&mut self) {
        let now = self.server.now;
        let (host, server) = (&mut *self.host, &*self.server);
        // The clock was ahead, or it is time to read everything.
        let is_known = |looked: &i64| *looked <= now && now / MAINTENANCE == *looked / MAINTENANCE;
        let looked = host.looked.filter(is_known);
        server.look_at_rows(self.jobs, &mut host.rows, looked);
        host.ticks = server.look_at_ticks(self.jobs);
        for tick in &host.ticks {
            let span = UnderWay::extended(host.spans.get(&tick.job).copied(), now);
            host.spans.insert(tick.job, span);
        }
        host.daemons = Rc::clone(&server.alive);
        host.looked = Some(now);
        host.stale.clear();
        let ticks = &host.ticks;
        host.orphans.retain(|run, _| {
            let mut orphans = ticks.iter().filter(|tick| tick.is_orphan);
            orphans.any(|tick| tick.run == *run)
        });
    }

    /// The second half of a turn: the scheduler takes ticks, and seeks their locks. `is_fresh`: it has looked just before.
    pub(super) fn act(&mut self, is_fresh: bool) {
        if self.host.phase == Phase::Works && self.host.looked.is_some() && !self.is_deaf() {
            let has_changed = self.take_again();
            self.settle(is_fresh && !has_changed);
        }
        self.seek_locks();
    }

    fn is_for_me(&self, at: usize, tick: i64) -> bool {
        let all = self.host.daemons.iter().map(String::as_str);
        is_for(&self.host.name, &self.jobs[at].name, tick, all)
    }

    /// The daemon's state, as a tick needs it.
    fn here(&self, at: usize, tick: i64) -> Now {
        let host = &self.host;
        Now {
            at: self.server.now,
            is_preferred: self.is_for_me(at, tick),
            could_not_start: false,
            has_room: host.busy() < host.slots,
            back_at: host.back_at,
            made_up_from: made_up_from(
                &self.jobs[at].name,
                host.back_at,
                host.missed.unwrap_or_default(),
            ),
        }
    }

    /// Whether a run is under way here, or has ended.
    fn knows(&self, run: u64) -> bool {
        let mut all = self.host.attempts.iter();
        all.any(|one| one.run == run) || self.host.over.contains(&run)
    }

    /// Begins an attempt of a tick of this daemon.
    fn begin(&mut self, tick: &Entry, is_just_taken: bool) {
        self.host.attempts.push(Attempt {
            job: tick.job,
            tick: tick.tick,
            run: tick.run,
            number: tick.attempt,
            failures: tick.failures,
            unstarted_for: tick.facts().unstarted_for(self.server.now),
            state: AttemptState::Sought {
                since: self.clock,
                is_just_taken: is_just_taken && tick.attempt == 1,
            },
        });
    }

    /// Takes ticks that have a row. Returns whether it has changed what it has read.
    fn take_again(&mut self) -> bool {
        let seen = self.host.ticks.clone();
        for tick in &seen {
            if tick.daemon == Some(self.host.id) {
                if !self.knows(tick.run) {
                    // It was taken without an answer.
                    self.begin(tick, false);
                }
                continue;
            }
            if tick.daemon.is_some() {
                if tick.is_orphan {
                    let here = self.here(tick.job, tick.tick);
                    let since = *self.host.orphans.entry(tick.run).or_insert(self.clock);
                    let spans = [
                        self.host.heard_since,
                        since.max(self.host.outage_ended),
                        since,
                    ];
                    let [heard, silent, seen] = spans.map(|since| self.since(since));
                    if is_gone(heard, silent) && may_rescue(here.is_preferred, seen) {
                        self.rescue(tick, here);
                    }
                }
                continue;
            }
            let options = &self.jobs[tick.job].options;
            let here = Now {
                could_not_start: tick.unstarted_at.is_some() && self.knows(tick.run),
                ..self.here(tick.job, tick.tick)
            };
            let all = seen.iter().filter(|other| other.job == tick.job);
            let all = all.map(|other| (other.tick, other.is_waiting()));
            match further(options, &tick.facts(), all, here) {
                Further::Rest(_) => {}
                Further::Take => self.retake(tick, tick.failures, false),
                Further::Abandon => self.abandon(tick),
            }
        }
        let is_same = |(one, other): (&Entry, &Entry)| one.run == other.run;
        let same = seen
            .iter()
            .zip(&self.host.ticks)
            .filter(|pair| is_same(*pair));
        same.count() < seen.len()
    }

    fn since(&self, moment: i64) -> Duration {
        Duration::from_micros((self.clock - moment).unsigned_abs())
    }

    fn rescue(&mut self, tick: &Entry, here: Now) {
        for other in &mut self.host.ticks {
            other.is_orphan &= other.run != tick.run;
        }
        let state = self.server.state_of(tick);
        match rescue(&self.jobs[tick.job].options, &tick.facts(), state, here) {
            Rescue::Leave => {}
            Rescue::Take { failures } => {
                let is_unrecorded = !matches!(state, RunState::Ended(_));
                self.retake(tick, failures, is_unrecorded);
            }
            Rescue::Abandon => self.abandon(tick),
            Rescue::Finish {
                end,
                delay,
                failures,
            } => {
                self.server
                    .finish((tick.tick, tick.run), end, (delay, failures));
                self.host.ticks.retain(|other| other.run != tick.run);
            }
        }
    }

    fn abandon(&mut self, tick: &Entry) {
        self.server.abandon(tick);
        self.host.ticks.retain(|other| other.run != tick.run);
    }

    fn retake(&mut self, tick: &Entry, failures: u32, is_unrecorded: bool) {
        let taken = self
            .server
            .retake(self.host.id, tick, failures, is_unrecorded);
        self.host.ticks.retain(|other| other.run != tick.run);
        match taken {
            // If the answer is lost, the next look finds the tick.
            Some(_) if self.happens(20) => {}
            Some(taken) => {
                self.begin(&taken, true);
                self.host.ticks.push(taken);
            }
            // Another daemon has it, or it is over. No tick that waits for it is free before the next look.
            None => self.host.ticks.push(Entry {
                daemon: Some(0),
                is_orphan: false,
                ..tick.clone()
            }),
        }
    }

    /// Settles ticks that are due.
    fn settle(&mut self, is_fresh: bool) {
        let (now, host) = (self.server.now, &mut *self.host);
        let rows = &host.rows;
        host.missed.get_or_insert_with(|| {
            let nexts = rows.iter().filter_map(|row| row.next);
            nexts.filter(|next| is_missed(*next, now)).count()
        });
        for (at, job) in self.jobs.iter().enumerate() {
            let row = self.host.rows[at];
            let is_due = row.triggered.is_some() || row.next.is_some_and(|next| next <= now);
            if !is_due || self.host.stale.contains(&at) {
                continue;
            }
            let ticks = self.host.ticks.iter().filter(|tick| tick.job == at);
            let under_way = UnderWay {
                span: self.host.spans.get(&at).copied(),
                ..UnderWay::of(ticks.map(Entry::is_waiting))
            };
            let key = row.triggered.or(row.next).unwrap_or_default();
            let here = self.here(at, key);
            let of_job = (&*job.name, &job.schedule, &job.options);
            let Decision::Settle(settlement) = decide(of_job, &row, under_way, here) else {
                continue;
            };
            if settlement.needs_look(self.host.looked.unwrap_or_default(), now) {
                continue;
            }
            let settled = self.server.settle(at, job, self.host.id, &settlement);
            assert!(
                settled.is_ok() || !is_fresh,
                "a daemon settles in vain what it has just read, {}: {settlement:?}",
                job.name
            );
            // If the answer is lost, the next look shows the result.
            if self.happens(20) {
                self.host.stale.insert(at);
                continue;
            }
            self.host.rows[at] = self.server.rows[at];
            if settled.is_err() && self.host.rows[at] == row {
                self.host.stale.insert(at);
            }
            if let (Some(Fate::Run(_)), Ok(Some(tick))) = (settlement.fate, settled) {
                self.begin(&tick, true);
                self.host.ticks.push(tick);
            }
        }
    }

    /// Seeks the locks that are sought.
    fn seek_locks(&mut self) {
        if self.host.phase == Phase::Works && self.is_deaf() {
            return;
        }
        for at in 0..self.host.attempts.len() {
            let AttemptState::Sought {
                since,
                is_just_taken,
            } = self.host.attempts[at].state
            else {
                continue;
            };
            if self.host.phase != Phase::Works {
                self.host.attempts[at].state = AttemptState::Ended(AttemptEnd::Returned);
            } else if !self.happens(8) {
                // Otherwise something else takes long.
                self.seek(at, since, is_just_taken);
            }
        }
    }

    /// Makes one attempt to acquire a lock, and has the coordinator start the command.
    fn seek(&mut self, at: usize, since: i64, is_just_taken: bool) {
        let attempt = self.host.attempts[at].clone();
        let job = &self.jobs[attempt.job];
        let limit = search_limit(&job.options, attempt.number);
        let is_over = limit.is_some_and(|limit| self.clock - since >= micros(limit));
        match self.server.acquire(job, &attempt) {
            Tried::Taken if is_over => self.refuse(at),
            Tried::Taken => {}
            // The answer is lost.
            Tried::Held if self.happens(20) => {}
            Tried::Held => {
                let half = micros(job.options.ttl) / 2;
                let is_recent = is_just_taken && since == self.clock;
                let is_mine = is_recent && self.clock - self.host.renewed < half;
                if !is_mine && !self.server.may_start(&attempt) {
                    self.host.attempts[at].state = AttemptState::Ended(AttemptEnd::Over);
                } else if self.host.stopped.is_some() {
                    self.host.attempts[at].state = AttemptState::Granted {
                        confirmed: self.clock,
                    };
                } else {
                    self.start(at, self.clock);
                }
            }
        }
    }

    /// Others hold the lock for too long: the tick is not run.
    fn refuse(&mut self, at: usize) {
        let attempt = &mut self.host.attempts[at];
        attempt.state = AttemptState::Ended(AttemptEnd::Over);
        self.server.note(attempt, Event::Refused { at: self.clock });
    }
}

//! The server of the simulation. One host at a time changes its state, in the same way as the SQL statements do.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::crontab::Overlap;
use super::super::rules::{AttemptEnd, Fate, Row, Settlement, Why, next_after, retry};
use super::{Command, Host, Job, World, micros};

/// A tick with a row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) job: usize,
    pub(super) tick: i64,
    pub(super) run: u64,
    pub(super) attempt: u32,
    pub(super) failures: u32,
    pub(super) daemon: Option<u64>,
    pub(super) start_at: Option<i64>,
    pub(super) started: bool,
}

impl Entry {
    pub(super) fn is_waiting(&self) -> bool {
        self.daemon.is_none() && self.start_at.is_none()
    }
}

/// An event for the checker.
#[derive(Debug, Clone)]
pub(super) enum Event {
    Started { attempt: u32, at: i64 },
    Ended { run: u64, end: AttemptEnd, at: i64 },
}

#[derive(Debug, Clone)]
pub(super) struct Skipped {
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) count: usize,
    pub(super) why: Why,
    pub(super) at: i64,
}

/// The state of the server.
#[derive(Default)]
pub(super) struct Server {
    pub(super) now: i64,
    pub(super) is_up: bool,
    pub(super) rows: Vec<Row>,
    pub(super) ticks: Vec<Entry>,
    /// Which runs hold the lock of each job, and until when. There may be several if ticks may overlap.
    pub(super) locks: Vec<Vec<(u64, i64)>>,
    pub(super) renewed: BTreeMap<u64, i64>,
    pub(super) events: Vec<BTreeMap<i64, Vec<Event>>>,
    pub(super) skips: Vec<Vec<Skipped>>,
    /// When each taken tick was in progress, from start to end.
    pub(super) spans: Vec<BTreeMap<i64, (i64, Option<i64>)>>,
    /// Ticks whose next attempt nobody could make in time: since when that was possible, and when they were given up.
    pub(super) given_up: Vec<BTreeMap<i64, (i64, i64)>>,
    /// When each job was triggered by hand.
    pub(super) triggers: Vec<Vec<i64>>,
    /// The ranges of ticks that were held back by a pause of each job.
    pub(super) paused: Vec<Vec<(i64, i64)>>,
    pub(super) runs: u64,
}

impl Server {
    /// Resumes a paused job with its next tick.
    pub(super) fn resume(&mut self, at: usize, job: &Job) {
        let row = &mut self.rows[at];
        row.is_paused = false;
        if let Some(next) = row.next.filter(|next| *next <= self.now) {
            self.paused[at].push((next, self.now));
            row.next = next_after(&job.schedule, self.now);
        }
    }

    /// The conditional UPDATE of the job's row, and its effects.
    pub(super) fn settle(
        &mut self,
        at: usize,
        job: &Job,
        daemon: u64,
        settlement: &Settlement,
    ) -> Option<Entry> {
        let is_free = self.ticks.iter().all(|tick| tick.job != at);
        let row = &mut self.rows[at];
        let from = if settlement.is_trigger {
            row.triggered
        } else {
            row.next.filter(|_| !row.is_paused)
        };
        if from != Some(settlement.from) || settlement.is_alone && !is_free {
            return None;
        }
        assert!(settlement.from <= self.now);
        if settlement.is_trigger {
            row.triggered = None;
        } else {
            assert!(
                settlement.next > Some(settlement.from),
                "a row moves forward"
            );
            row.next = settlement.next;
        }
        for skip in &settlement.skips {
            self.skips[at].push(Skipped {
                first: skip.ticks.0,
                last: skip.ticks.1,
                count: skip.count.number,
                why: skip.why,
                at: self.now,
            });
        }
        self.runs += 1;
        let mut tick = Entry {
            job: at,
            tick: 0,
            run: self.runs,
            attempt: 1,
            failures: 0,
            daemon: Some(daemon),
            start_at: None,
            started: false,
        };
        match settlement.fate? {
            Fate::Run(moment) => tick.tick = moment,
            Fate::Wait(moment) => (tick.tick, tick.attempt, tick.daemon) = (moment, 0, None),
        }
        assert!(job.options.overlap != Overlap::Skip || is_free);
        self.spans[at].insert(tick.tick, (self.now, None));
        self.ticks.push(tick.clone());
        tick.daemon.map(|_| tick)
    }

    pub(super) fn retake(&mut self, host: &mut Host, seen: &Entry, failures: u32) {
        self.runs += 1;
        let (run, id) = (self.runs, host.id);
        if let Some(tick) = self.ticks.iter_mut().find(|tick| *tick == seen) {
            (tick.run, tick.daemon, tick.start_at, tick.started) = (run, Some(id), None, false);
            (tick.attempt, tick.failures) = (seen.attempt + 1, failures);
            let tick = tick.clone();
            World::start(host, &tick, self.now);
        }
    }

    pub(super) fn set(&mut self, seen: &Entry, delay: Option<Duration>, failures: u32) {
        let now = self.now;
        let Some(at) = self
            .ticks
            .iter()
            .position(|tick| tick.run == seen.run && tick.tick == seen.tick)
        else {
            return;
        };
        match delay {
            None => {
                let over = self.ticks.remove(at);
                let span = self.spans[over.job].get_mut(&over.tick);
                span.expect("it was taken").1 = Some(now);
            }
            Some(delay) if self.ticks[at].daemon.is_some() => {
                let tick = &mut self.ticks[at];
                (tick.daemon, tick.started, tick.failures) = (None, false, failures);
                tick.start_at = Some(now + micros(delay));
            }
            Some(_) => {}
        }
    }

    pub(super) fn abandon(&mut self, seen: &Entry, since: i64) {
        if self.ticks.contains(seen) {
            self.given_up[seen.job].insert(seen.tick, (since, self.now));
            self.set(seen, None, seen.failures);
        }
    }

    pub(super) fn finish(&mut self, job: &Job, command: &Command, end: AttemptEnd) {
        let (delay, failures) = retry(&job.options, end, command.failures, Duration::ZERO);
        let seen = self
            .ticks
            .iter()
            .find(|tick| tick.run == command.run && tick.tick == command.tick)
            .cloned();
        if let Some(seen) = seen {
            self.set(&seen, delay, failures);
        }
    }

    /// Acquires the lock, and notes that the command is about to start. `None`: it waits. `false`: another run has the tick.
    pub(super) fn start(&mut self, job: &Job, command: &Command, until: i64) -> Option<bool> {
        let now = self.now;
        let locks = &mut self.locks[command.job];
        locks.retain(|(_, until)| *until > now);
        if !locks.is_empty() && job.options.overlap != Overlap::Allow {
            return None;
        }
        let Some(tick) = self
            .ticks
            .iter_mut()
            .find(|tick| tick.run == command.run && tick.tick == command.tick)
        else {
            return Some(false);
        };
        tick.started = true;
        locks.push((command.run, until));
        let (attempt, at) = (command.attempt, self.now);
        self.of(command).push(Event::Started { attempt, at });
        Some(true)
    }

    pub(super) fn of(&mut self, command: &Command) -> &mut Vec<Event> {
        self.events[command.job].entry(command.tick).or_default()
    }

    /// Records how the command of a run ended, as its keeper does.
    pub(super) fn note(&mut self, command: &Command, end: AttemptEnd) {
        let (run, at) = (command.run, self.now);
        self.of(command).push(Event::Ended { run, end, at });
    }

    pub(super) fn end_of(&self, tick: &Entry) -> Option<AttemptEnd> {
        let events = self.events[tick.job].get(&tick.tick)?;
        events.iter().find_map(|event| match event {
            Event::Ended { run, end, .. } if *run == tick.run => Some(*end),
            _ => None,
        })
    }
}

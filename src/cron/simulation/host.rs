//! A host of the simulation, with the two processes of its daemon. The coordinator runs commands and ends them; the scheduler has the
//! session. Each may die or be stopped without the other.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::super::rules::taken::{CommandState, OUTAGE, SILENCE, end_of_dead, is_renewed};
use super::super::rules::{AttemptEnd, JobFacts};
use super::attempt::{Attempt, AttemptState};
use super::check::Event;
use super::server::{Entry, Server};
use super::{Job, SECOND};
use crate::base::clock::micros;

/// A scheduler whose coordinator does not answer for this long takes no ticks.
const DEAF: i64 = 5 * SECOND;

/// How long a scheduler may take to tell a server that its coordinator has died.
const LONGEST_END: i64 = 30 * SECOND;

/// How long a daemon that ends lets its commands run, and how long it waits for a server after that.
const GRACE: i64 = 10 * SECOND;
const LONGEST_LEAVE: i64 = 30 * SECOND;

/// The longest interval of renewals.
const RENEWAL: i64 = 10 * SECOND;

/// What becomes of a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Works,
    /// It was asked to end then, and takes no more ticks.
    Ends(i64),
    /// Its coordinator has died then, and its scheduler returns its ticks.
    Returns(i64),
    Dead,
}

/// The trouble that a host may have.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trouble {
    /// Both processes are killed, and its commands with them.
    Death,
    /// The coordinator is killed.
    CoordinatorKilled,
    /// The scheduler is killed, and replaced.
    SchedulerKilled,
    /// The daemon is asked to end.
    Terminated,
    /// The coordinator is stopped for so long.
    CoordinatorStopped(i64),
    /// The whole host is stopped for so long.
    Frozen(i64),
    /// It cannot reach the server for so long.
    CutOff(i64),
}

/// All moments are by the host's own clock, unless they are the server's.
pub(super) struct Host {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) phase: Phase,
    pub(super) cut_until: i64,
    pub(super) frozen_until: i64,
    /// Since when its coordinator is stopped, and until when.
    pub(super) stopped: Option<(i64, i64)>,
    /// What its scheduler has read at its last look, and when by the server's clock; `None`: it has to read everything.
    pub(super) rows: Vec<JobFacts>,
    pub(super) ticks: Vec<Entry>,
    pub(super) daemons: Rc<[String]>,
    pub(super) looked: Option<i64>,
    /// Over which span each job has had ticks under way, as far as it has looked.
    pub(super) spans: HashMap<usize, (i64, i64)>,
    /// Jobs whose rows must be read again.
    pub(super) stale: HashSet<usize>,
    /// Since when it has seen that the daemon of a run is silent.
    pub(super) orphans: HashMap<u64, i64>,
    /// When the server last answered, since when it does without a silence, and when the last outage has ended; also by the server's clock.
    seen: Option<i64>,
    pub(super) heard_since: i64,
    pub(super) outage_ended: i64,
    pub(super) back_at: i64,
    /// How many jobs have missed ticks because of it; `None`: that is not counted.
    pub(super) missed: Option<usize>,
    pub(super) renewed: i64,
    renew_at: i64,
    pub(super) slots: usize,
    pub(super) attempts: Vec<Attempt>,
    /// Runs whose ends are recorded.
    pub(super) over: HashSet<u64>,
}

impl Host {
    pub(super) fn new(id: u64, slots: usize) -> Self {
        Self {
            id,
            name: id.to_string(),
            phase: Phase::Works,
            cut_until: 0,
            frozen_until: 0,
            stopped: None,
            rows: Vec::new(),
            ticks: Vec::new(),
            daemons: Rc::default(),
            looked: None,
            spans: HashMap::new(),
            stale: HashSet::new(),
            orphans: HashMap::new(),
            seen: None,
            heard_since: 0,
            outage_ended: 0,
            back_at: 0,
            missed: None,
            renewed: 0,
            renew_at: 0,
            slots,
            attempts: Vec::new(),
            over: HashSet::new(),
        }
    }

    /// How many commands run, or are about to.
    pub(super) fn busy(&self) -> usize {
        let busy = self.attempts.iter().filter(|one| !one.has_ended());
        busy.count()
    }

    /// The scheduler has been replaced, and knows only what the coordinator has.
    fn forget(&mut self) {
        self.attempts.retain(|attempt| !attempt.is_sought());
        *self = Self {
            phase: self.phase,
            cut_until: self.cut_until,
            attempts: std::mem::take(&mut self.attempts),
            ..Self::new(self.id, self.slots)
        };
    }
}

/// A host's turn, and what it needs for it.
pub(super) struct Turn<'a> {
    pub(super) host: &'a mut Host,
    pub(super) jobs: &'a [Job],
    pub(super) server: &'a mut Server,
    pub(super) random: &'a mut fastrand::Rng,
    /// The host's own clock.
    pub(super) clock: i64,
    /// Whether answers get lost, and commands cannot be started.
    pub(super) has_trouble: bool,
}

impl Turn<'_> {
    pub(super) fn is_connected(&self) -> bool {
        self.server.is_up && self.host.cut_until <= self.clock
    }

    /// Whether nothing happens on the host.
    pub(super) fn is_frozen(&self) -> bool {
        self.host.frozen_until > self.clock
    }

    /// Whether the scheduler knows that its coordinator is stopped.
    pub(super) fn is_deaf(&self) -> bool {
        self.host
            .stopped
            .is_some_and(|(since, _)| self.clock - since > DEAF)
    }

    /// Whether this happens, in one of so many cases.
    pub(super) fn happens(&mut self, one_in: u32) -> bool {
        self.has_trouble && self.random.u32(..one_in) == 0
    }

    /// Something happens to the host.
    pub(super) fn suffer(&mut self, trouble: Trouble) {
        let clock = self.clock;
        match trouble {
            Trouble::Death => {
                self.end_commands(AttemptEnd::Lost);
                self.host.attempts.clear();
                self.host.phase = Phase::Dead;
            }
            Trouble::CoordinatorKilled => {
                let is_stopped = matches!(self.host.phase, Phase::Ends(_));
                self.end_commands(AttemptEnd::Lost);
                for attempt in &mut self.host.attempts {
                    if !attempt.has_ended() {
                        let end = end_of_dead(!attempt.is_sought(), is_stopped);
                        attempt.state = AttemptState::Ended(end);
                    }
                }
                (self.host.phase, self.host.stopped) = (Phase::Returns(clock), None);
            }
            Trouble::SchedulerKilled => {
                if self.host.phase == Phase::Works && self.host.stopped.is_none() {
                    self.host.forget();
                }
            }
            Trouble::Terminated => {
                if self.host.phase == Phase::Works {
                    self.host.phase = Phase::Ends(clock);
                }
            }
            Trouble::CoordinatorStopped(span) => self.host.stopped = Some((clock, clock + span)),
            Trouble::Frozen(span) => {
                self.host.frozen_until = clock + span;
                // Nothing of it happens meanwhile.
                for attempt in &mut self.host.attempts {
                    if let AttemptState::Runs { until, .. } = &mut attempt.state
                        && *until > clock
                    {
                        *until += span;
                    }
                }
                if let Some((_, until)) = &mut self.host.stopped {
                    *until += span;
                }
            }
            Trouble::CutOff(span) => self.host.cut_until = self.host.cut_until.max(clock + span),
        }
    }

    /// The commands are gone at once.
    fn end_commands(&mut self, end: AttemptEnd) {
        for at in 0..self.host.attempts.len() {
            self.end_command(at, self.clock, end);
        }
    }

    /// A command ends then in this way, unless it has ended by itself before. `end` is what its daemon knows of it.
    fn end_command(&mut self, at: usize, when: i64, end: AttemptEnd) {
        let attempt = &mut self.host.attempts[at];
        let AttemptState::Runs {
            until, end: own, ..
        } = attempt.state
        else {
            return;
        };
        let (when, how) = if until <= when {
            (until, own)
        } else {
            (when, end)
        };
        attempt.state = AttemptState::Ended(end);
        let ended = Event::Ended {
            run: attempt.run,
            end: how,
            at: when,
        };
        self.server.note(attempt, ended);
    }

    /// The first half of a turn: commands end, leases are renewed, and what has ended is recorded.
    pub(super) fn live(&mut self) {
        if self
            .host
            .stopped
            .is_some_and(|(_, until)| until <= self.clock)
        {
            // The other daemons may count this one as gone.
            (self.host.stopped, self.host.renew_at) = (None, 0);
        }
        if self.host.stopped.is_none() {
            self.read_grants();
            self.reap();
        }
        if self.is_connected() {
            self.note_answer();
            self.renew();
        }
        self.check_leases();
        if self.is_connected() {
            self.record_ends();
        }
        self.end();
    }

    /// The coordinator reads what was granted while it was stopped.
    fn read_grants(&mut self) {
        for at in 0..self.host.attempts.len() {
            if let AttemptState::Granted { confirmed } = self.host.attempts[at].state {
                self.start(at, confirmed);
            }
        }
    }

    /// The coordinator starts the command of an attempt whose lock was confirmed then.
    pub(super) fn start(&mut self, at: usize, confirmed: i64) {
        let attempt = self.host.attempts[at].clone();
        let job = &self.jobs[attempt.job];
        let is_late = self.clock - confirmed > micros(job.options.ttl) / 2;
        self.host.attempts[at].state = if self.host.phase != Phase::Works || is_late {
            AttemptState::Ended(AttemptEnd::Returned)
        } else if self.happens(100) {
            // No process can be started.
            AttemptState::Ended(AttemptEnd::Unstarted)
        } else {
            let (run, number, host) = (attempt.run, attempt.number, self.host.id);
            let started = Event::Started {
                run,
                attempt: number,
                host,
                at: self.clock,
            };
            self.server.note(&attempt, started);
            let fails = self.random.u32(..job.fails) == 0;
            AttemptState::Runs {
                confirmed,
                until: self.clock + self.random.i64(1..=job.takes.max(SECOND + 1)),
                end: if fails {
                    AttemptEnd::Failed
                } else {
                    AttemptEnd::Over
                },
            }
        };
    }

    /// The coordinator reaps commands that have ended, and ends those of a daemon that ends.
    fn reap(&mut self) {
        let (clock, phase) = (self.clock, self.host.phase);
        for attempt in &mut self.host.attempts {
            if matches!(attempt.state, AttemptState::Killed) {
                attempt.state = AttemptState::Ended(AttemptEnd::Lost);
            }
        }
        for at in 0..self.host.attempts.len() {
            let AttemptState::Runs { until, end, .. } = self.host.attempts[at].state else {
                continue;
            };
            if until <= clock {
                self.end_command(at, clock, end);
            } else if matches!(phase, Phase::Ends(since) if clock - since > GRACE) {
                self.end_command(at, clock, AttemptEnd::Returned);
            }
        }
    }

    fn note_answer(&mut self) {
        let (host, clock) = (&mut *self.host, self.clock);
        let silent = host.seen.map_or(i64::MAX, |seen| clock - seen);
        if silent > micros(OUTAGE) {
            (host.outage_ended, host.back_at, host.missed) = (clock, self.server.now, None);
        }
        if silent > micros(SILENCE) {
            host.heard_since = clock;
            host.renew_at = clock;
        }
        host.seen = Some(clock);
        // The clock was ahead.
        if self.server.now < host.back_at {
            (host.back_at, host.missed) = (self.server.now, None);
        }
    }

    /// The scheduler renews the leases: the daemon's, and those of its attempts.
    fn renew(&mut self) {
        let is_deaf = self.is_deaf();
        let is_leaving = self.host.phase != Phase::Works;
        if self.host.renew_at > self.clock || matches!(self.host.phase, Phase::Returns(_)) {
            return;
        }
        let shortest = self.jobs.iter().map(|job| micros(job.options.ttl)).min();
        let renewal = shortest.map_or(RENEWAL, |ttl| RENEWAL.min(ttl / 4));
        self.host.renew_at = self.clock + renewal;
        if !is_deaf {
            self.server.renew_daemon(self.host.id, is_leaving);
            self.host.renewed = self.clock;
        }
        for at in 0..self.host.attempts.len() {
            let attempt = &self.host.attempts[at];
            let job = &self.jobs[attempt.job];
            let command = match attempt.state {
                AttemptState::Granted { .. } => CommandState::Unstarted,
                AttemptState::Runs { .. } => CommandState::Started,
                AttemptState::Killed => CommandState::Killed,
                AttemptState::Sought { .. } | AttemptState::Ended(_) => continue,
            };
            if !is_renewed(command, is_deaf) {
                continue;
            }
            let is_held = self.server.renew_lock(job, attempt);
            let (ttl, run) = (micros(job.options.ttl), attempt.run);
            match &mut self.host.attempts[at].state {
                AttemptState::Runs { confirmed, .. } if is_held => {
                    let expired = *confirmed + ttl;
                    *confirmed = self.clock;
                    if expired < self.clock {
                        let expired = Event::Expired { run, at: expired };
                        self.server.note(&self.host.attempts[at], expired);
                    }
                }
                AttemptState::Runs { .. } => self.lose(at),
                AttemptState::Granted { confirmed } if !is_held => *confirmed = 0,
                AttemptState::Granted { .. }
                | AttemptState::Sought { .. }
                | AttemptState::Killed
                | AttemptState::Ended(_) => {}
            }
        }
    }

    /// Ends a command whose lock is lost, or whose lease is over. If its host was frozen, it has done nothing since. If its coordinator is
    /// stopped, the scheduler kills it.
    fn lose(&mut self, at: usize) {
        let attempt = &self.host.attempts[at];
        if let AttemptState::Runs { confirmed, .. } = attempt.state {
            let over = confirmed + micros(self.jobs[attempt.job].options.ttl) * 9 / 10;
            self.end_command(at, self.clock.min(over), AttemptEnd::Lost);
            if self.host.stopped.is_some() {
                self.host.attempts[at].state = AttemptState::Killed;
            }
        }
    }

    fn check_leases(&mut self) {
        for at in 0..self.host.attempts.len() {
            let attempt = &self.host.attempts[at];
            let ttl = micros(self.jobs[attempt.job].options.ttl);
            if let AttemptState::Runs { confirmed, .. } = attempt.state
                && self.clock - confirmed > ttl * 9 / 10 - SECOND
            {
                self.lose(at);
            }
        }
    }

    /// A daemon ends when all is recorded, or when it has waited for a server for too long.
    fn end(&mut self) {
        let (clock, is_idle) = (self.clock, self.host.attempts.is_empty());
        let is_connected = self.is_connected();
        let until = match self.host.phase {
            Phase::Works | Phase::Dead => return,
            Phase::Ends(since) => since + GRACE + LONGEST_LEAVE,
            Phase::Returns(since) => since + LONGEST_END,
        };
        if is_idle && is_connected {
            self.server.leave(self.host.id);
        } else if clock < until {
            return;
        } else {
            self.end_commands(AttemptEnd::Lost);
        }
        self.host.attempts.clear();
        self.host.phase = Phase::Dead;
    }
}

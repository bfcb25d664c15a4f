//! The ticks of a daemon, from when each is taken until its end is recorded.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use super::super::message::{Attempt, EndedAttempt};
use super::{LOOK, LOOK_AGAIN};
use crate::base::clock::Moment;
use crate::cron::{AttemptEnd, Job};
use crate::db::Client;
use crate::history::{Journal, Outcome, PendingOutputs, RunEnd};
use crate::keeper::{Lateness, Vigil};
use crate::lock::Lease;
use crate::lock::named::HOLD_BACK;
use crate::lock::rows::RowLock;

/// How many ended runs are remembered, so that old data from a lagging cluster node does not start them again.
const REMEMBERED: usize = 1000;

/// The first pause between two attempts to acquire a lock.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// A tick of this daemon, from when it is taken until the end of the attempt is recorded.
pub(super) struct OwnTick {
    pub job: Rc<Job>,
    pub attempt: Attempt,
    pub lock: RowLock,
    pub journal: Journal,
    pub state: TickLock,
    /// Watches by when its command must be gone.
    pub vigil: Vigil,
    /// When the coordinator was told to start its command, or has started it.
    pub started: Option<Moment>,
}

/// The lock of a tick.
pub(super) enum TickLock {
    /// It is sought.
    Sought(Search),
    /// It is held, as far as this lease says.
    Held(Lease),
    /// It is held, and this client ends the run. The command must be gone by this moment.
    Killed(Box<Client>, Moment),
    /// It is lost. The command must be gone by this moment.
    Lost(Moment),
    /// It is released, and the end of the attempt is not recorded yet.
    Released,
}

/// A search for a lock.
pub(super) struct Search {
    pub begun: Moment,
    /// Until when others may hold it; `None`: for as long as they do.
    pub until: Option<Moment>,
    pub next: Moment,
    pub pause: Duration,
    /// Whether the tick was taken just before, with an answer.
    pub is_just_taken: bool,
}

impl Search {
    /// It begins now. The tick may have been taken just before.
    pub fn begin(until: Option<Moment>, is_just_taken: bool) -> Self {
        let now = Moment::now();
        Self {
            begun: now,
            until,
            next: now,
            pause: FIRST_PAUSE,
            is_just_taken,
        }
    }

    /// Whether it ends where others hold the lock now.
    pub fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until <= Moment::now())
    }

    /// Whether nothing was tried yet.
    pub fn is_first(&self) -> bool {
        self.pause == FIRST_PAUSE
    }

    /// Whether the tick was taken so short a time ago that no other daemon can have taken it since. They do when this one has been silent
    /// for the tick's TTL.
    pub fn is_recent(&self, ttl: Duration) -> bool {
        self.is_just_taken && self.is_first() && self.begun.elapsed() < ttl / 4
    }
}

impl OwnTick {
    /// When its lock was confirmed last; `None`: it does not hold it.
    pub fn proved(&self) -> Option<Moment> {
        match &self.state {
            TickLock::Held(lease) => Some(lease.proved),
            _ => None,
        }
    }

    /// By when its command must be gone, unless the lock is confirmed before; `None`: it has none, or it is over.
    pub fn command_until(&self) -> Option<Moment> {
        match &self.state {
            TickLock::Held(lease) => Some(lease.over()),
            TickLock::Killed(_, until) | TickLock::Lost(until) => Some(*until),
            TickLock::Sought(_) | TickLock::Released => None,
        }
    }

    /// How late its command is, if it has one.
    pub fn lateness(&mut self) -> Lateness {
        let until = self.command_until();
        self.vigil.lateness(until, self.job.options.ttl)
    }

    /// When to look whether its command must be killed, as far as that is still to come.
    fn looks(&self) -> impl Iterator<Item = Moment> + use<> {
        let (vigil, ttl) = (self.vigil, self.job.options.ttl);
        let until = self.command_until();
        until
            .map(|until| vigil.looks(until, ttl))
            .into_iter()
            .flatten()
    }

    /// The search for its lock, while it is sought.
    pub fn search(&self) -> Option<&Search> {
        match &self.state {
            TickLock::Sought(search) => Some(search),
            _ => None,
        }
    }

    /// On a new session holders that lost theirs reacquire first.
    pub fn hold_back(&mut self) {
        if let TickLock::Sought(search) = &mut self.state
            && !search.is_first()
        {
            search.next = search.next.max(Moment::now() + HOLD_BACK);
        }
    }

    /// Whether the row of its lock may be this run's, so that it must be released.
    pub fn may_have_row(&self) -> bool {
        !matches!(self.state, TickLock::Released)
    }

    /// Whether the row of its lock is this run's, as far as is known.
    pub fn has_row(&self) -> bool {
        matches!(self.state, TickLock::Held(_) | TickLock::Killed(..))
    }

    /// The lock may have been granted without an answer.
    pub fn suppose_held(&mut self) {
        self.state = TickLock::Held(Lease {
            ttl: self.job.options.ttl,
            proved: Moment::now(),
        });
    }

    /// How the attempt has ended, as the coordinator does not say it. For the history: the end of its run, or if that has none `why`.
    pub fn ended(
        &self,
        end: AttemptEnd,
        why: &str,
        run_end: Option<(Outcome, String)>,
    ) -> EndedAttempt {
        let run_end = run_end.map(|(outcome, message)| {
            let ran = self.started.map(Moment::elapsed);
            Box::new(RunEnd {
                ran,
                ..RunEnd::of(outcome, message)
            })
        });
        self.attempt.ended(&self.job, end, why, run_end)
    }
}

pub(super) struct OwnTicks {
    /// All, by run id.
    pub by_run: HashMap<String, OwnTick>,
    /// The ends that are not recorded.
    pub ended: Vec<EndedAttempt>,
    /// How many of these, the first, could not be recorded yet.
    tried: usize,
    /// When it is tried to record them, and how long the pause after that is.
    record_at: Moment,
    record_pause: Duration,
    /// What is to be kept of the outputs of runs whose ends are not recorded yet.
    pub outputs: PendingOutputs<String>,
    /// The last runs whose ends are recorded.
    over: VecDeque<[u8; 32]>,
}

impl OwnTicks {
    /// There are none yet, only these outputs of those that another scheduler has started.
    pub fn new(outputs: PendingOutputs<String>) -> Self {
        Self {
            by_run: HashMap::new(),
            ended: Vec::new(),
            tried: 0,
            record_at: Moment::START,
            record_pause: LOOK_AGAIN,
            outputs,
            over: VecDeque::with_capacity(REMEMBERED),
        }
    }

    /// How many commands run, or are about to.
    pub fn busy(&self) -> usize {
        self.by_run.len().saturating_sub(self.ended.len())
    }

    /// When to look whether a command must be killed, as far as that is still to come.
    pub fn looks(&self) -> impl Iterator<Item = Moment> {
        self.by_run.values().flat_map(OwnTick::looks)
    }

    /// The end of an attempt is to be recorded.
    pub fn take_in(&mut self, ended: EndedAttempt) {
        self.record_at = Moment::START;
        self.ended.push(ended);
    }

    /// Whether the attempt has ended, and that is not recorded.
    pub fn has_ended(&self, run: &str) -> bool {
        self.ended.iter().any(|ended| ended.run == run)
    }

    /// When it is tried to record ends; `None`: there are none.
    pub fn record_at(&self) -> Option<Moment> {
        (!self.ended.is_empty()).then_some(self.record_at)
    }

    /// Takes the ends that are not recorded: those that could not be, and the new ones.
    pub fn take_ended(&mut self) -> (Vec<EndedAttempt>, Vec<EndedAttempt>) {
        let mut tried = std::mem::take(&mut self.ended);
        let new = tried.split_off(std::mem::take(&mut self.tried));
        (tried, new)
    }

    /// These ends could not be recorded: it is tried again soon.
    pub fn record_later(&mut self, mut later: Vec<EndedAttempt>) {
        if later.is_empty() {
            self.record_pause = LOOK_AGAIN;
        } else {
            self.record_at = Moment::now() + self.record_pause;
            self.record_pause = (self.record_pause * 2).min(LOOK);
        }
        self.tried = later.len();
        later.append(&mut self.ended);
        self.ended = later;
    }

    /// The end of a run is recorded.
    pub fn forget(&mut self, run: &str) {
        self.by_run.remove(run);
        if self.over.len() == REMEMBERED {
            self.over.pop_front();
        }
        self.over.extend(<[u8; 32]>::try_from(run.as_bytes()));
    }

    /// Whether a run is under way here, or has ended.
    pub fn knows(&self, run: &str) -> bool {
        self.by_run.contains_key(run) || self.is_over(run)
    }

    /// Whether the end of a run is recorded.
    pub fn is_over(&self, run: &str) -> bool {
        self.over.iter().any(|over| over[..] == *run.as_bytes())
    }
}

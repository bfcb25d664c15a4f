//! An attempt of a tick of this daemon: its lock, from what its job asks for, and what is recorded of it.

use std::rc::Rc;
use std::time::Duration;

use super::super::message::Attempt;
use super::super::program;
use super::own::{OwnTick, Search, TickLock};
use super::view::shown;
use super::{Kept, Scheduler};
use crate::base::clock::Moment;
use crate::cron::{Job, Overlap, TickRow, confirm, search_limit};
use crate::history::{Journal, RunFacts};
use crate::keeper::Vigil;
use crate::lock::rows::{RowLock, RowSpec};
use crate::lock::{HolderKind, Lease, LockSpec, OnLockLost, Wait};

/// How many runs of a job may overlap, if overlaps are allowed.
const OVERLAPPING: u32 = 100;

impl Scheduler<'_> {
    /// Begins an attempt of a tick of this daemon: seeks the job's lock. It was taken just before, or was found in the tables.
    pub(super) fn begin(&mut self, at: usize, tick: &TickRow, is_just_taken: bool) {
        let job = Rc::clone(&self.view.jobs[at].job);
        let attempt = self.attempt(at, tick);
        let now = Moment::now();
        let limit = search_limit(&job.options, attempt.number);
        let until = limit.map(|limit| now + limit);
        // A host that seemed to be gone may have ended the attempt before this one well.
        let search = Search::begin(until, is_just_taken && attempt.number == 1);
        self.add(job, attempt, (TickLock::Sought(search), None), |lock| lock);
    }

    /// The attempt of a tick of this job of the file.
    pub(super) fn attempt(&self, at: usize, tick: &TickRow) -> Attempt {
        Attempt {
            job: at,
            tick: tick.tick,
            shown: shown(&self.view.jobs[at].job, tick.tick),
            run: tick.run.clone(),
            number: tick.attempt,
            failures: tick.failures,
            unstarted_for: self.view.unstarted_for(tick),
        }
    }

    /// Goes on with an attempt that another scheduler has started.
    pub(super) fn resume(&mut self, kept: Kept) {
        let state = match (kept.lease, &kept.ended) {
            // Whether the row is still held, its release says.
            (_, Some(_)) => TickLock::Held(Lease {
                ttl: kept.job.options.ttl,
                proved: Moment::now(),
            }),
            (Some(lease), None) => TickLock::Held(lease),
            // The coordinator ends its command.
            (None, None) => TickLock::Lost(Moment::now() + kept.job.options.kill_after),
        };
        self.add(kept.job, kept.attempt, (state, kept.started), |lock| {
            lock.resumed(kept.grant)
        });
        if let Some(ended) = kept.ended {
            self.take_in(ended);
        }
    }

    fn add(
        &mut self,
        job: Rc<Job>,
        attempt: Attempt,
        (state, started): (TickLock, Option<Moment>),
        prepare: impl FnOnce(RowLock) -> RowLock,
    ) {
        let journal = Journal {
            tables: self.tables.clone(),
            facts: RunFacts {
                run: attempt.run.clone(),
                name: job.name.to_string(),
                slot: None,
                slot_name: None,
                tick: Some(attempt.tick),
                attempt: attempt.number,
                host: self.facts.host.clone(),
                pid: self.facts.pid.unsigned_abs(),
                user: self.facts.user.clone(),
                program: program(&job),
                connection: None,
            },
            requested: Moment::now(),
            needed: Some(Duration::ZERO),
        };
        let spec = LockSpec {
            name: job.name.clone(),
            slots: match job.options.overlap {
                Overlap::Allow => OVERLAPPING,
                Overlap::Skip | Overlap::Wait => 1,
            },
            wait: Wait::For(Duration::ZERO),
            ttl: job.options.ttl,
            on_lost: OnLockLost::Reacquire,
            allow_unfit_server: false,
        };
        let record = journal.on_grant(&attempt.run, &[]);
        let (name, run) = (&journal.facts.name, &attempt.run);
        let confirm = confirm(self.tables, name, attempt.tick, run, attempt.number);
        let row = RowSpec {
            tables: self.tables.clone(),
            owner: attempt.run.clone(),
            kind: HolderKind::Run,
            command_run: None,
            owner_name: None,
            token: None,
            ttl: Some(job.options.ttl),
            on_grant: Box::new(move |slot, connection| {
                let mut statements = record(slot, connection);
                statements.push(confirm.clone());
                statements
            }),
            on_token_end: journal.on_token_end(),
            on_withdrawal: Vec::new(),
        };
        let (connector, marker) = (Rc::clone(&self.connection.connector), self.marker());
        let lock = RowLock::sharing(connector, &spec, &marker, self.shared.limit, row);
        let run = attempt.run.clone();
        let mine = OwnTick {
            job,
            attempt,
            lock: prepare(lock),
            journal,
            state,
            vigil: Vigil::default(),
            started,
        };
        self.own.by_run.insert(run, mine);
        self.coordinator.process.outlive();
    }
}

//! What a keeper writes into the history and reads from it: that the lock was granted, whether the run is due, and how it ended.

use std::time::Duration;

use super::super::job::TableUse;
use super::super::task::Task;
use crate::base::clock::Moment;
use crate::cron::{AlreadyRan, Once, Tick, tick_in_micros};
use crate::db::{Ask, Fault, Session};
use crate::history::{Journal, KeptOutput, Outcome, RunEnd, RunFacts, Successes, ask_last_success};
use crate::lock::rows::RecordTokenEnd;
use crate::lock::{Backend, Grant};
use crate::schema::{self, Tables};

/// Records one run.
pub struct Recorder<'a> {
    journal: Journal,
    /// How the run uses the tables.
    pub tables: &'a TableUse,
    slot_names: &'a [String],
    /// Whether the backend records the grant itself, in one transaction with it.
    is_row: bool,
    /// When the supervisor was told to start its command; `None`: it was not, or by another keeper.
    pub granted: Option<Moment>,
}

impl<'a> Recorder<'a> {
    /// For the run of a task.
    pub fn new(task: &Task<'a>, tables: &'a TableUse) -> Self {
        let introduction = &task.introduction;
        let (pid, program) = (introduction.pid, &introduction.command);
        let facts = RunFacts {
            tick: task.tick.and_then(tick_in_micros),
            ..RunFacts::here(task.run_id, &task.lock.name, pid, program)
        };
        Self {
            journal: Journal {
                tables: Tables::of_connection(&task.job.connection),
                facts,
                requested: Moment::now(),
                // With `once`, `find_tick` sets this. A keeper that replaces a dead one does not call that: then it stays unknown.
                needed: tables.once.is_none().then_some(Duration::ZERO),
            },
            tables,
            slot_names: &task.job.slot_names,
            is_row: tables.is_row(),
            granted: None,
        }
    }

    /// Sets when the run was requested.
    pub fn requested_at(mut self, requested: Moment) -> Self {
        self.journal.requested = requested;
        self
    }

    /// The statements that record a grant, from the slot and the session's connection id, for a row with this `owner`.
    pub fn on_grant(&self, owner: &str) -> impl Fn(u32, u64) -> Vec<String> + use<> {
        self.journal.on_grant(owner, self.slot_names)
    }

    /// The tables that it writes to.
    pub fn tables(&self) -> Tables {
        self.journal.tables.clone()
    }

    /// The run's id.
    pub fn run(&self) -> &str {
        &self.journal.facts.run
    }

    /// Keeps the output of the run, whose end is recorded.
    ///
    /// # Errors
    /// It is not kept.
    pub fn keep_output(&self, output: &KeptOutput, session: &mut Session) -> Result<(), Fault> {
        let tables = &self.journal.tables;
        if !tables.has_outputs() {
            // A keeper that replaces another one may not know yet.
            tables.check_outputs(session)?;
        }
        let statement = output.of_run(tables, self.run());
        let kept = session.run(&Ask::written(statement));
        kept.map_err(|fault| tables.explain(fault))
    }

    /// Records that a script has lost its lock to this run, or together with its command.
    pub fn on_token_end(&self) -> RecordTokenEnd {
        self.journal.on_token_end()
    }

    /// The statement that removes the record of a run that was granted the lock and never started.
    pub fn withdrawal(&self) -> String {
        self.journal.withdrawal()
    }

    /// Records the grant on the backend's session. Returns the tick of a run that is due, or why it is not.
    ///
    /// # Errors
    /// The server has not answered. [`Fault::Final`]: the tables cannot be used.
    pub fn begin(
        &mut self,
        grant: Grant,
        session: &mut Session,
    ) -> Result<Result<Option<Tick>, Box<AlreadyRan>>, Fault> {
        let tables = self.journal.tables.clone();
        if !self.is_row {
            schema::prepare(session)?;
            tables.check(session)?;
        }
        let due = match &self.tables.once {
            None => Ok(None),
            Some(once) => {
                let found = self.find_tick(once, session)?;
                once.judge(&found, self.journal.requested.elapsed())
            }
        };
        let facts = &mut self.journal.facts;
        facts.slot_name = self.slot_names.get(grant.slot as usize).cloned();
        if !self.is_row && due.is_ok() {
            let start = self.journal.start(grant.slot, grant.connection_id, None);
            session
                .run(&Ask::written(start))
                .map_err(|fault| tables.explain(fault))?;
        }
        Ok(due)
    }

    /// Reads the last success, and notes the tick that the run is for.
    fn find_tick(&mut self, once: &Once, session: &mut Session) -> Result<Successes, Fault> {
        let (tables, name) = (&self.journal.tables, &self.journal.facts.name);
        let found = session.run(&ask_last_success(tables, name));
        let found = found.map_err(|fault| self.journal.tables.explain(fault))?;
        let tick = once.tick(found.now, self.journal.requested.elapsed());
        self.journal.facts.tick = tick.map(|tick| tick.at().as_microsecond());
        self.journal.needed = Some(once.needed(found.now, tick));
        Ok(found)
    }

    /// Records a run that did not start, on a session that was not granted the lock.
    ///
    /// # Errors
    /// It is not recorded. [`Fault::Final`]: the tables cannot be used.
    pub fn record_skip(&mut self, message: &str, session: &mut Session) -> Result<(), Fault> {
        if !self.is_row {
            schema::prepare(session)?;
            self.journal.tables.check(session)?;
        }
        if let Some(once @ Once::At(_)) = &self.tables.once {
            self.find_tick(once, session)?;
        }
        self.carry_out(&[self.journal.skip(message, Outcome::Skipped)], session)
    }

    /// Records how the run ended, on the session that holds the lock.
    ///
    /// # Errors
    /// It is not recorded.
    pub fn record_end(&self, end: &RunEnd, session: &mut Session) -> Result<(), Fault> {
        self.carry_out(&self.end(end), session)
    }

    fn carry_out(&self, statements: &[String], session: &mut Session) -> Result<(), Fault> {
        let mut statements = statements.iter();
        statements
            .try_for_each(|statement| session.run(&Ask::written(statement)))
            .map_err(|fault| self.journal.tables.explain(fault))
    }

    /// The statements that record a run that was granted the lock and did not run.
    pub fn skip(&self, message: &str) -> Vec<String> {
        if self.is_row {
            return self.end(&RunEnd::of(Outcome::Skipped, message));
        }
        vec![self.journal.skip(message, Outcome::Skipped)]
    }

    /// The statements that record how the run ended.
    pub fn end(&self, end: &RunEnd) -> Vec<String> {
        self.journal.end(end)
    }

    /// The statements that record the end of a run whose supervisor has died.
    pub fn end_of_the_dead(&self) -> Vec<String> {
        let message = "dblock was killed, and its command with it";
        self.end(&RunEnd {
            ran: self.granted.map(Moment::elapsed),
            ..RunEnd::of(Outcome::Failed, message)
        })
    }

    /// Prunes old history from time to time.
    pub fn prune_now_and_then(&self, backend: &mut dyn Backend) {
        if let Some(session) = backend.session() {
            self.journal.prune_now_and_then(session);
        }
    }
}

//! The session, which the locks of all ticks share, and statements on it.

use std::collections::HashMap;
use std::time::Duration;

use super::super::message::FromScheduler;
use super::{LOOK, Scheduler};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::cron::open;
use crate::db::{Fault, Session};
use crate::isolated::link::{cut, with_cut_line};
use crate::keeper::{Duty, NoAnswer, capped};
use crate::lock::named::{Request, follow, number_of_shared};
use crate::lock::rows::{RowLock, SharedServer};
use crate::lock::{run_lock_of, shared_session_lock};

/// The answer limit; after that the session is given up.
const ANSWER: Duration = Duration::from_secs(20);

/// The least answer limit, however many servers there are. The server waits 2 s for a locked row, and counts whole seconds.
const SHORTEST_ANSWER: Duration = Duration::from_secs(5);

/// What the session is to the locks on it.
#[derive(Default)]
pub(super) struct SharedSession {
    /// What its server is; `None`: there was no session yet.
    pub server: Option<SharedServer>,
    /// The line about one server, if the latest round found only read-only ones.
    pub only_read_only: Option<String>,
    /// Whether no lock was renewed on it yet.
    pub is_new: bool,
    /// Whether it holds the daemon's own lock, so that no older session of the daemon is left.
    pub is_only: bool,
    /// How long the server keeps it when this process is silent: no longer than the shortest TTL.
    pub limit: Duration,
}

impl Scheduler<'_> {
    /// Makes one attempt to get a session. Returns whether there is one.
    pub(super) fn connect(&mut self) -> Result<bool, Failure> {
        if self.connection.session().is_some() && !self.connection.has_ended() {
            return Ok(true);
        }
        let (tables, idle) = (self.tables, self.shared.limit);
        let limit = self.answer_limit();
        let timeline = self.coordinator.board.timeline;
        let opened = self.connection.open(limit, |session| {
            let number = number_of_shared(timeline, session)?;
            open(tables, idle.as_secs(), session)?;
            let server = SharedServer::ask(tables, limit, session)?;
            // It takes writes, and may have been a standby when it told its timeline first.
            follow(timeline, session)?;
            let mark = shared_session_lock(number);
            without_named_locks(Request::mark(&mark, session))?;
            Ok(server)
        });
        match opened {
            Ok(server) => {
                for mine in self.own.by_run.values_mut() {
                    mine.lock.forget_session();
                    mine.hold_back();
                }
                self.shared = SharedSession {
                    server: Some(server),
                    only_read_only: None,
                    is_new: true,
                    is_only: false,
                    ..self.shared
                };
                self.view.looked = None;
                self.registration.has_touched = false;
                self.timetable.look_at = Moment::START;
                Ok(true)
            }
            Err(Fault::Final(failure)) => Err(failure),
            Err(fault) => {
                self.shared.only_read_only = fault.read_only().map(cut);
                Ok(false)
            }
        }
    }

    /// Whether the session is kept though the server refuses what is asked of the tables: it has the named locks of commands, which keep
    /// callers without rows out, and the server ends it when it is silent. In a cluster another node may not refuse it.
    pub(super) fn needs_session(&self) -> bool {
        let excludes = self.shared.server.is_some_and(SharedServer::excludes);
        let runs = self.coordinator.board.has(|_| true);
        excludes && runs && self.connection.session().is_some()
    }

    /// Has the coordinator say what the server refuses. Returns when to ask again.
    pub(super) fn stay(&mut self, failure: &Failure) -> Moment {
        let failed = FromScheduler::Failed(with_cut_line(failure));
        self.coordinator.say_if_heard(&failed);
        // The next look that is answered says that this is over.
        self.registration.is_ready = false;
        Moment::now() + LOOK
    }

    /// Ends an older session of this daemon that the server may still keep, with what it holds. The locks of ticks are on this one by now.
    pub(super) fn be_the_only_session(&mut self) -> Result<(), Failure> {
        let marker = self.marker();
        let taken =
            self.ask(|session| without_named_locks(Request::take_over(&marker, session)))?;
        self.shared.is_only = taken.is_some();
        Ok(())
    }

    /// The lock on the server by which this daemon knows its own sessions.
    pub(super) fn marker(&self) -> String {
        run_lock_of(&self.facts.id)
    }

    /// How long a server may take for an answer.
    pub(super) fn answer_limit(&self) -> Duration {
        let limit = self.connection.connector.attempt_limit().min(ANSWER);
        capped(limit.max(SHORTEST_ANSWER), self.own.looks())
    }

    /// The server has answered.
    pub(super) fn note_answer(&mut self) {
        self.outage.note_answer();
        self.report_answer();
    }

    /// Before a statement, which may take long: ends what must have ended, and limits the wait for the answer.
    pub(super) fn prepare_to_ask(&mut self) {
        self.end_late_commands();
        self.connection.limit_answer(self.answer_limit());
    }

    /// Runs a statement; `None`: it did nothing, or its effect is unknown. Drops a lost session.
    pub(super) fn ask<T>(
        &mut self,
        ask: impl FnOnce(&mut Session) -> Result<T, Fault>,
    ) -> Result<Option<T>, Failure> {
        self.prepare_to_ask();
        let no_answer = match self.connection.ask(ask) {
            Ok(answer) => {
                self.note_answer();
                return Ok(Some(answer));
            }
            Err(no_answer) => no_answer,
        };
        self.locked_rows.was_met = matches!(no_answer, NoAnswer::RolledBack(Fault::Conflict(_)));
        match (no_answer, self.connection.session()) {
            (NoAnswer::Refused(failure), _) => return Err(failure),
            (NoAnswer::RolledBack(fault), Some(session)) => {
                self.outage.note_heard();
                session.tell(Level::Info, &format!("{session}: {fault}"));
            }
            _ => {}
        }
        Ok(None)
    }

    /// Lends the session to the lock of a run. `None`: there is no session, or no such run.
    pub(super) fn on_lock<T>(
        &mut self,
        run: &str,
        work: impl FnOnce(&mut RowLock) -> T,
    ) -> Option<T> {
        self.prepare_to_ask();
        let server = self.shared.server?;
        let lock = &mut self.own.by_run.get_mut(run)?.lock;
        let done = self
            .connection
            .lend(|session| lock.on(session, server, work));
        if self.connection.session().is_some() {
            self.outage.note_heard();
        }
        done
    }

    /// Lends the session to the locks of these runs, in this order. `None`: there is no session, or it has ended.
    pub(super) fn on_locks<T>(
        &mut self,
        runs: &[String],
        work: impl FnOnce(&mut [&mut RowLock], SharedServer, &mut Session) -> Result<T, Fault>,
    ) -> Option<T> {
        self.prepare_to_ask();
        let server = self.shared.server?;
        let mut found = HashMap::new();
        for (run, mine) in &mut self.own.by_run {
            if runs.contains(run) {
                found.insert(run, &mut mine.lock);
            }
        }
        let in_order = runs.iter().filter_map(|run| found.remove(run));
        let mut locks: Vec<&mut RowLock> = in_order.collect();
        let done = self
            .connection
            .lend_until_fault(|session| work(&mut locks, server, session));
        if done.is_some() {
            self.outage.note_heard();
        }
        done
    }
}

/// A server may have no named locks.
pub(super) fn without_named_locks(taken: Result<(), Fault>) -> Result<(), Fault> {
    match taken {
        Err(Fault::NoNamedLocks(_)) => Ok(()),
        taken => taken,
    }
}

//! The session, and statements on it.

use std::os::fd::AsFd;
use std::time::Duration;

use super::super::message::FromScheduler;
use super::Scheduler;
use super::holding::Mine;
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::base::text::in_words;
use crate::cron::open;
use crate::db::{Fault, Session, command};
use crate::lock::named::Request;
use crate::lock::rows::SharedServer;
use crate::lock::shared_session_lock;

/// The answer limit; after that the session is given up.
const ANSWER: Duration = Duration::from_secs(20);

/// The least answer limit, however many servers there are. The server waits 2 s for a locked row, and counts whole seconds.
const SHORTEST_ANSWER: Duration = Duration::from_secs(5);

/// The least answer limit where a command must be gone soon.
const SHORTEST_CAP: Duration = Duration::from_millis(50);

impl Scheduler<'_> {
    /// Makes one attempt to get a session. Returns whether there is one.
    pub(super) fn connect(&mut self) -> Result<bool, Failure> {
        if self.has_lost_session() {
            self.session = None;
        }
        if self.session.is_some() {
            return Ok(true);
        }
        let limit = self.connector.attempt_limit().min(ANSWER);
        let limit = self.limit_by_leases(limit.max(SHORTEST_ANSWER));
        let (tables, marker, idle) = (&self.tables, self.marker(), self.session_limit);
        let opened = self.connector.connect_within(limit, |session| {
            let limited = session.answer_within(limit);
            limited.map_err(|error| Fault::Gone(in_words(&error)))?;
            open(tables, idle.as_secs(), session)?;
            let server = SharedServer::ask(tables, limit, session)?;
            for lock in [&marker, &shared_session_lock(session.handshake_id())] {
                match Request::mark(lock, session) {
                    Ok(()) | Err(Fault::NoNamedLocks(_)) => {}
                    Err(fault) => return Err(fault),
                }
            }
            Ok(server)
        });
        match opened {
            Ok((session, server)) => {
                let _ = self
                    .link
                    .try_send(&FromScheduler::Session, Some(session.as_fd()));
                self.session = Some(session);
                for mine in self.mine.values_mut() {
                    mine.lock.forget_session();
                }
                (self.server, self.is_new_session) = (Some(server), true);
                self.looked = None;
                self.has_touched = false;
                self.look_at = Moment::START;
                Ok(true)
            }
            Err(Fault::Final(failure)) => Err(failure),
            Err(_) => Ok(false),
        }
    }

    /// Shortens a limit to the moment when a running command must be gone, since the coordinator may be stopped by then.
    fn limit_by_leases(&self, limit: Duration) -> Duration {
        let untils = self.mine.values().filter_map(Mine::command_until);
        let left = untils.map(|until| until.since(Moment::now()));
        let left = left.filter(|left| !left.is_zero()).min();
        left.map_or(limit, |left| limit.min(left.max(SHORTEST_CAP)))
    }

    /// The server has answered.
    pub(super) fn note_answer(&mut self) {
        self.last_seen = Some(Moment::now());
        self.request_acknowledgement();
        self.report_working();
    }

    /// Limits the session's wait for the next answer to what is left of the leases.
    pub(super) fn cap_answer(&mut self) {
        let limit = self.connector.attempt_limit().min(ANSWER);
        let limit = self.limit_by_leases(limit.max(SHORTEST_ANSWER));
        if self.answer_limit != Some(limit)
            && let Some(session) = &self.session
        {
            // If this fails, the session has ended, and the statement reports it.
            let _ = session.answer_within(limit);
            self.answer_limit = Some(limit);
        }
    }

    /// Runs a statement; `None`: it did nothing, or its effect is unknown. Drops a lost session.
    pub(super) fn ask<T>(
        &mut self,
        ask: impl FnOnce(&mut Session) -> Result<T, Fault>,
    ) -> Result<Option<T>, Failure> {
        self.end_commands_of_the_stopped();
        self.cap_answer();
        let Some(session) = &mut self.session else {
            return Ok(None);
        };
        let fault = match ask(session) {
            Ok(answer) => {
                self.note_answer();
                return Ok(Some(answer));
            }
            Err(fault) => self.tables.explain(fault),
        };
        self.met_lock = matches!(fault, Fault::Conflict(_));
        let rolls_back = command("cron roll back", "ROLLBACK");
        match fault {
            Fault::Final(failure) => Err(failure),
            Fault::Conflict(_) | Fault::Interrupted(_) | Fault::NoRoom(_)
                if session.run(&rolls_back).is_ok() =>
            {
                session.tell(Level::Info, &format!("{session}: {fault}"));
                Ok(None)
            }
            fault => {
                let line = format!("lost the session with {session}: {fault}");
                session.tell(Level::Info, &line);
                if let Some(session) = self.session.take() {
                    self.connector.try_last(&session);
                }
                Ok(None)
            }
        }
    }
}

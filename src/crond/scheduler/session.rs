//! The session, and statements on it.

use std::time::Duration;

use super::{SESSION_LIMIT, Scheduler};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::base::text::in_words;
use crate::cron::open;
use crate::db::{Fault, Session, command};

/// The answer limit; after that the session is given up.
const ANSWER: Duration = Duration::from_secs(20);

/// The least answer limit, however many servers there are. The server waits 2 s for a locked row, and counts whole seconds.
const SHORTEST_ANSWER: Duration = Duration::from_secs(5);

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
        let opened = self.connector.connect(|session| {
            let limited = session.answer_within(limit.max(SHORTEST_ANSWER));
            limited.map_err(|error| Fault::Gone(in_words(&error)))?;
            open(&self.tables, SESSION_LIMIT.as_secs(), session)
        });
        match opened {
            Ok((session, ())) => {
                self.session = Some(session);
                self.looked = None;
                self.has_touched = false;
                self.look_at = Moment::START;
                Ok(true)
            }
            Err(Fault::Final(failure)) => Err(failure),
            Err(_) => Ok(false),
        }
    }

    /// Runs a statement; `None`: it did nothing, or its effect is unknown. Drops a lost session.
    pub(super) fn ask<T>(
        &mut self,
        ask: impl FnOnce(&mut Session) -> Result<T, Fault>,
    ) -> Result<Option<T>, Failure> {
        let Some(session) = &mut self.session else {
            return Ok(None);
        };
        let fault = match ask(session) {
            Ok(answer) => {
                self.last_seen = Some(Moment::now());
                self.request_acknowledgement();
                self.report_working();
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

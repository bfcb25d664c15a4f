//! The one session of a process that keeps something on a server, and the way to another one when it is lost.

use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::Duration;

use nix::poll::PollFlags;
use serde::Serialize;

use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::base::poll::is_ready_within;
use crate::db::{Connector, Fault, Session, roll_back};
use crate::isolated::link::Link;
use crate::lock::Lease;
use crate::schema::Tables;

/// A session, if there is one, and the servers.
pub struct Connection<'a> {
    /// The servers.
    pub connector: Rc<Connector>,
    tables: &'a Tables,
    session: Option<Session>,
    /// How long the session waits for an answer, as it was set last; `None`: unknown.
    answer_limit: Option<Duration>,
}

/// Why a statement was not carried out, as far as is known.
pub enum NoAnswer {
    /// The transaction was rolled back after this fault, and the session goes on.
    RolledBack(Fault),
    /// There is no session.
    NoSession,
    /// The session is lost, for this cause. What the statement did is unknown.
    Lost(String),
    /// The server refuses the statement. The session goes on.
    Refused(Failure),
}

impl<'a> Connection<'a> {
    /// Without a session.
    pub fn new(connector: Connector, tables: &'a Tables) -> Self {
        Self {
            connector: Rc::new(connector),
            tables,
            session: None,
            answer_limit: None,
        }
    }

    /// The session; `None`: there is none.
    pub fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// Makes one attempt to open a session, in place of one that may be there. The servers get this limit together, and then each answer.
    ///
    /// # Errors
    /// As [`Connector::connect`].
    pub fn open<T>(
        &mut self,
        limit: Duration,
        mut prepare: impl FnMut(&mut Session) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.close();
        let (session, prepared) = self.connector.connect_within(limit, |session| {
            session.answer_within(limit)?;
            prepare(session)
        })?;
        (self.session, self.answer_limit) = (Some(session), None);
        Ok(prepared)
    }

    /// Gives the other process the session's descriptor, with this message. While it is open there, the death of this process alone does
    /// not end the session. If the link is full, it is not sent.
    pub fn pass_on(&self, link: &Link, message: &impl Serialize) {
        if let Some(descriptor) = self.descriptor() {
            let _ = link.try_send(message, Some(descriptor));
        }
    }

    /// The session's descriptor. Between statements it becomes readable only when the server has ended the session.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.session.as_ref().map(AsFd::as_fd)
    }

    /// Whether the server has ended the session.
    pub fn has_ended(&self) -> bool {
        has_ended(self.descriptor())
    }

    /// Closes the session, if there is one.
    pub fn close(&mut self) {
        self.session = None;
    }

    /// Closes a session that is of no more use, and logs why. Its server is tried last.
    pub fn give_up(&mut self, why: &str) {
        if let Some(session) = self.session.take() {
            session.tell(Level::Info, why);
            self.connector.try_last(&session);
        }
    }

    /// Limits the wait for the next answer.
    pub fn limit_answer(&mut self, limit: Duration) {
        if let Some(session) = &self.session
            && self.answer_limit != Some(limit)
        {
            // If this fails, the session has ended, and the statement reports it.
            let _ = session.answer_within(limit);
            self.answer_limit = Some(limit);
        }
    }

    /// A statement has set a limit of its own: that is not the limit of the next one.
    pub fn forget_limit(&mut self) {
        self.answer_limit = None;
    }

    /// Runs a statement on the session.
    ///
    /// # Errors
    /// It has no effect, or that is unknown.
    pub fn ask<T>(
        &mut self,
        ask: impl FnOnce(&mut Session) -> Result<T, Fault>,
    ) -> Result<T, NoAnswer> {
        let Some(session) = &mut self.session else {
            return Err(NoAnswer::NoSession);
        };
        ask(session).map_err(|fault| self.no_answer(fault))
    }

    /// What follows from the fault of a statement.
    fn no_answer(&mut self, fault: Fault) -> NoAnswer {
        let Some(session) = &mut self.session else {
            return NoAnswer::NoSession;
        };
        match self.tables.explain(fault) {
            Fault::Final(failure) => {
                // Whoever goes on all the same is in no transaction.
                let _ = session.run(&roll_back());
                NoAnswer::Refused(failure)
            }
            fault @ (Fault::Conflict(_) | Fault::Interrupted(_) | Fault::NoRoom(_))
                if session.run(&roll_back()).is_ok() =>
            {
                NoAnswer::RolledBack(fault)
            }
            fault => {
                let line = format!("lost the session with {session}: {fault}");
                self.give_up(&line);
                NoAnswer::Lost(line)
            }
        }
    }

    /// Lends the session for `work`, which returns it unless it has ended. `None`: there is none.
    pub fn lend<T>(&mut self, work: impl FnOnce(Session) -> (T, Option<Session>)) -> Option<T> {
        let session = self.session.take()?;
        let line = format!("lost the session with {session}");
        let (done, session) = work(session);
        // The borrower may have set limits of its own.
        (self.session, self.answer_limit) = (session, None);
        if self.session.is_none() {
            self.connector.tell(Level::Info, &line);
        }
        Some(done)
    }

    /// As [`Self::lend`], for `work` after whose faults the session is of no more use. `None`: there is none any more.
    pub fn lend_until_fault<T>(
        &mut self,
        work: impl FnOnce(&mut Session) -> Result<T, Fault>,
    ) -> Option<T> {
        let connector = Rc::clone(&self.connector);
        let done = self.lend(|mut session| match work(&mut session) {
            Ok(done) => (Some(done), Some(session)),
            Err(fault) => {
                session.tell(Level::Info, &format!("{session}: {fault}"));
                connector.try_last(&session);
                (None, None)
            }
        });
        done.flatten()
    }
}

/// Whether the server has ended the session of this descriptor, which is between statements; `None`: there is no session.
pub fn has_ended(session: Option<BorrowedFd>) -> bool {
    session.is_some_and(|descriptor| is_ready_within(descriptor, PollFlags::POLLIN, Duration::ZERO))
}

/// This limit, or what is left until the next of the running commands must be gone: the process that ends it may be stopped by then, and
/// this one must be there.
pub fn capped(limit: Duration, commands_until: impl IntoIterator<Item = Moment>) -> Duration {
    let now = Moment::now();
    let next = commands_until
        .into_iter()
        .filter(|until| *until > now)
        .min();
    next.map_or(limit, |until| limit.min(Lease::time_until(until)))
}

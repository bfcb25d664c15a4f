//! The `Backend` of a named lock: it lives on one session at a time, and on a new one when that is lost.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread::sleep;
use std::time::Duration;

use super::acquire::{Decision, Opening};
use super::reacquire::Retake;
use super::request::{PAUSE, Request, Verbosity, carry_out};
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::base::log::Level;
use crate::db::{Client, Connector, Fault, Plain, Session};
use crate::lock::{Attempt, Backend, Caller, Grant, LockSpec, Name, Reattempt, Refusal, Renewal};

/// Before a caller that waited asks again on a new session: holders that lost theirs reacquire first.
const HOLD_BACK: Duration = Duration::from_secs(2);

/// How long an answer may take when the killer learns through the server that the command has ended.
const ACK_LIMIT: Duration = Duration::from_secs(2);

/// While a lost lock is reacquired a server gets this part of the TTL for an answer, so that the next server is tried in time.
const SHARE_OF_TTL: u32 = 8;

/// The cause of a loss that the server reports.
const NOT_HELD: &str = "the server says that it is not held";

/// One caller's named lock.
pub struct NamedLock {
    connector: Connector,
    request: Request,
    name: Name,
    /// The slot that is held or was lost, and its session. Not read before there is one.
    grant: Grant,
    /// The session that holds the slot.
    session: Option<Session>,
    /// Who ends the holder, and the session on which that was found.
    killed: Option<(Session, Client)>,
    /// The session on which the lock was last asked for, until it is acquired.
    asked_on: Option<u64>,
    /// What the caller was last notified of: that every server is read-only.
    only_read_only: Option<String>,
}

impl NamedLock {
    /// A lock on the servers of `connector`. Each session acquires the lock of this run's id first.
    pub fn new(connector: Connector, spec: &LockSpec, run_id: &str, verbosity: Verbosity) -> Self {
        Self {
            connector,
            request: Request::new(spec, run_id, verbosity),
            name: spec.name.clone(),
            grant: Grant::default(),
            session: None,
            killed: None,
            asked_on: None,
            only_read_only: None,
        }
    }

    /// For a slot that another process held and lost.
    pub fn lost(self, grant: Grant) -> Self {
        Self { grant, ..self }
    }

    /// One round of all servers for a session that the lock may live on; `None`: try again after a pause.
    fn open(&mut self, caller: &dyn Caller) -> Result<Option<(Session, Opening)>, Failure> {
        let request = &mut self.request;
        let accepts = request.accepts_read_only();
        let opened = self.connector.connect(|session| {
            if request.has_waited {
                sleep(HOLD_BACK);
            }
            request.open(session)
        });
        let read_only = match opened {
            Ok(opened) => return Ok(Some(opened)),
            Err(Fault::Final(failure)) => return Err(failure),
            Err(Fault::ReadOnly(_)) if accepts => {
                request.accept_read_only();
                return self.open(caller);
            }
            Err(Fault::ReadOnly(line)) => Some(line),
            Err(_) => None,
        };
        if read_only != self.only_read_only {
            caller.on_read_only(read_only.as_deref());
            self.only_read_only = read_only;
        }
        Ok(None)
    }

    /// Carries out statements of others on a new session, however long that lasts.
    fn carry_out_elsewhere(&self, also: &[String]) {
        while !also.is_empty() {
            let done = self.connector.connect(|session| {
                let done = carry_out_all(also, session);
                if let Err(fault @ Fault::Final(_)) = &done {
                    tell_unrecorded(fault, session);
                }
                done
            });
            if matches!(done, Ok(_) | Err(Fault::Final(_))) {
                return;
            }
            sleep(self.connector.pause());
        }
    }

    fn hold(&mut self, session: Session, grant: Grant) {
        self.grant = grant;
        self.asked_on = None;
        self.session = Some(session);
    }
}

fn carry_out_all(statements: &[String], session: &mut Session) -> Result<(), Fault> {
    statements
        .iter()
        .try_for_each(|statement| carry_out(session, &Plain(statement.clone())))
}

fn tell_unrecorded(fault: &Fault, session: &Session) {
    session.tell(Level::Warning, &format!("cannot record the run: {fault}"));
}

impl Backend for NamedLock {
    fn try_acquire(&mut self, caller: &dyn Caller) -> Result<Attempt, Failure> {
        let Some((mut session, opening)) = self.open(caller)? else {
            return Ok(Attempt::Retry(self.connector.pause()));
        };
        caller.on_server(&session.to_string());
        // A killer may mean this waiter: the server granted it the slot before the session was lost, unproved.
        if let Some(lost) = self.asked_on
            && let Ok(Some(killer)) = Request::killer_of_waiter(lost, &mut session)
        {
            let line = format!("{} was ended by {killer}", self.name);
            return Err(Failure::new(Reason::LockLost, line));
        }
        self.asked_on = Some(opening.connection_id());
        match self.request.take(&mut session, &opening, caller, None) {
            Ok(Decision::Held(grant, lease)) => {
                self.hold(session, grant);
                Ok(Attempt::Acquired(grant, lease))
            }
            Ok(Decision::Taken(holders)) => {
                self.session = Some(session);
                Ok(Attempt::Taken(holders))
            }
            Err(Fault::Final(failure)) => Err(failure),
            Err(fault) => {
                let line = format!("lost the session with {session}: {fault}");
                session.tell(Level::Info, &line);
                Ok(Attempt::Retry(PAUSE))
            }
        }
    }

    fn renew(&mut self) -> Renewal {
        let Some(session) = &mut self.session else {
            return Renewal::Lost(NOT_HELD.to_owned());
        };
        let sent = Moment::now();
        let cause = match self.request.renew(self.grant.slot, session) {
            Ok(true) => return Renewal::Confirmed(sent),
            Ok(false) => NOT_HELD.to_owned(),
            Err(Fault::ReadOnly(cause)) => format!("{session} {cause}"),
            Err(fault) => fault.to_string(),
        };
        self.session = None;
        Renewal::Lost(cause)
    }

    fn outlives_session(&self) -> bool {
        false
    }

    fn on_session_end(&mut self) -> Option<String> {
        Some("the server ended the session".to_owned())
    }

    fn try_reacquire(&mut self, take: bool) -> Reattempt {
        let (grant, request) = (self.grant, &mut self.request);
        let retaken = self.connector.connect(|session| {
            if take {
                return request.retake(grant, session).map(Some);
            }
            let killer = request.find_killer(grant, session)?;
            Ok(killer.map(Retake::Killed))
        });
        match retaken {
            Ok((session, Some(Retake::Held(grant, lease)))) => {
                self.hold(session, grant);
                Reattempt::Acquired(grant, lease)
            }
            Ok((session, Some(Retake::Killed(killer)))) => {
                self.killed = Some((session, killer.clone()));
                Reattempt::Killed(killer)
            }
            Ok((_, Some(Retake::Taken(holders)))) => Reattempt::Refused(Refusal::Taken(holders)),
            Ok((_, None)) => Reattempt::NotRequested,
            Err(Fault::Final(failure)) => Reattempt::Refused(Refusal::Failed(failure)),
            Err(Fault::ReadOnly(_)) if request.accepts_read_only() => {
                request.accept_read_only();
                Reattempt::Failed
            }
            Err(_) => Reattempt::Failed,
        }
    }

    fn find_kill(&mut self) -> Option<Client> {
        match self.try_reacquire(false) {
            Reattempt::Killed(killer) => Some(killer),
            _ => None,
        }
    }

    fn ack_kill(&mut self) -> bool {
        let Some((mut session, killer)) = self.killed.take() else {
            return false;
        };
        let _ = session.answer_within(ACK_LIMIT);
        let acked = self
            .request
            .ack_kill(self.grant.slot, killer.connection, &mut session);
        acked.is_ok()
    }

    fn release(&mut self, also: &dyn Fn() -> Vec<String>) -> Result<bool, Option<String>> {
        let Some(mut session) = self.session.take() else {
            self.carry_out_elsewhere(&also());
            return Err(None);
        };
        match carry_out_all(&also(), &mut session) {
            Ok(()) => {}
            Err(fault @ Fault::Gone(_)) => {
                self.carry_out_elsewhere(&also());
                return Err(Some(fault.to_string()));
            }
            Err(fault) => tell_unrecorded(&fault, &session),
        }
        let released = self.request.release(self.grant.slot, &mut session);
        self.session = Some(session);
        released.map_err(|fault| Some(fault.to_string()))
    }

    fn release_for_the_dead(&mut self, also: &[String]) {
        if let Some(session) = &mut self.session {
            let _ = carry_out_all(also, session);
        }
    }

    fn session(&mut self) -> Option<&mut Session> {
        self.session.as_mut()
    }

    fn drop_held(&mut self) {
        self.session = None;
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.session.as_ref().map(AsFd::as_fd)
    }

    fn server(&self) -> String {
        self.session
            .as_ref()
            .map(Session::to_string)
            .unwrap_or_default()
    }

    fn answer_within(&mut self, limit: Duration) -> io::Result<()> {
        self.connector.cap_attempts(limit / SHARE_OF_TTL);
        self.session
            .as_ref()
            .map_or(Ok(()), |session| session.answer_within(limit))
    }

    fn pause(&self) -> Duration {
        self.connector.pause()
    }
}

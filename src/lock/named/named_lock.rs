//! The `Backend` of a named lock. The lock lives on one session at a time; if that is lost, it moves to a new one.

use std::os::fd::{AsFd, BorrowedFd};
use std::thread::sleep;
use std::time::Duration;

use super::acquire::{Decision, Opening};
use super::fitness::follow;
use super::line::ANSWER_LIMIT;
use super::own_killers::OwnKillers;
use super::reacquire::Retake;
use super::request::{PAUSE, Request, Verbosity};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::db::server_facts::{is_read_only, why_read_only};
use crate::db::{Ask, Client, Connector, Fault, Kind, LatestTimeline, REFUSED_PAUSE, Session};
use crate::lock::{
    Attempt, Backend, Caller, Grant, Lease, LockSpec, Name, Reattempt, Refusal, Release, Renewal,
};
use crate::schema;

/// A caller that waited pauses this long before it asks on a new session: holders that lost their sessions reacquire first.
pub const HOLD_BACK: Duration = Duration::from_secs(2);

/// The answer limit while a kill is acknowledged.
const ACK_LIMIT: Duration = Duration::from_secs(2);

/// How long to try to record the end of a run whose supervisor has died. Its lock is held until then.
const DEAD_LIMIT: Duration = Duration::from_secs(2);

/// While a lost lock is reacquired, a server gets this part of the TTL for an answer. The next server is then tried in time.
const SHARE_OF_TTL: u32 = 8;

/// The cause of a loss that the server reports.
const NOT_HELD: &str = "the server says that it is not held";

/// One caller's named lock.
pub struct NamedLock {
    connector: Connector,
    request: Request,
    name: Name,
    /// The slot that is held or was lost, and its session. Meaningless before the first grant.
    grant: Grant,
    /// The session that holds the slot.
    session: Option<Session>,
    /// The killer of this holder, and the session on which it was found.
    killed: Option<(Session, Client)>,
    /// Who has killed this caller while it had no command, also after a grant.
    killers: OwnKillers,
    /// The caller's latest notice that every server is read-only.
    only_read_only: Option<String>,
    /// How long the session that holds the slot may take for an answer; `None`: without limit.
    answer_limit: Option<Duration>,
}

impl NamedLock {
    /// A lock on the servers of `connector`. Each of its sessions acquires the run id lock first.
    pub fn new(connector: Connector, spec: &LockSpec, run_id: &str, verbosity: Verbosity) -> Self {
        Self {
            request: Request::new(connector.kind(), spec, run_id, verbosity),
            connector,
            name: spec.name.clone(),
            grant: Grant::default(),
            session: None,
            killed: None,
            killers: OwnKillers::default(),
            only_read_only: None,
            answer_limit: None,
        }
    }

    /// With the latest timeline that other processes know, too.
    pub fn following(mut self, timeline: LatestTimeline) -> Self {
        self.request.timeline = timeline;
        self
    }

    /// For a request of another process, which has died.
    pub fn requested_before(self) -> Self {
        Self {
            request: self.request.made_before(),
            ..self
        }
    }

    /// For a slot that another process held and lost.
    pub fn lost(self, grant: Grant) -> Self {
        Self { grant, ..self }
    }

    /// Asks all servers in turn for a session that may hold the lock; `None`: try again after a pause. One that says nothing after the
    /// login is passed over.
    fn open(&mut self, caller: &dyn Caller) -> Result<Option<(Session, Opening)>, Failure> {
        let request = &mut self.request;
        let (accepts, limit) = (request.accepts_read_only(), self.connector.attempt_limit());
        let opened = self.connector.connect(|session| {
            if request.has_waited {
                // One that cannot be used is passed over at once.
                request.refuse(session)?;
                sleep(HOLD_BACK);
            }
            // No statement before the answer waits for a lock. Afterwards one may, for hours, on MySQL.
            session.answer_within(limit)?;
            let opening = request.open(session)?;
            session.answer_within(match session.kind() {
                Kind::MySql => Duration::ZERO,
                Kind::Postgres => ANSWER_LIMIT,
            })?;
            Ok(opening)
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

    /// Runs the statements of others on a new session, however long it takes to reach a server. `false`: they failed, and that was
    /// reported.
    fn carry_out_elsewhere(&self, also: &dyn Fn() -> Vec<String>, patience: Duration) -> bool {
        let begun = Moment::now();
        loop {
            if also().is_empty() {
                return true;
            }
            match self.carry_out_anew(also) {
                Ok(()) => return true,
                Err(fault) if begun.elapsed() < patience && fault.refuses_for_now() => {
                    sleep(REFUSED_PAUSE);
                }
                Err(fault) if self.is_final(&fault) => {
                    self.tell_unrecorded(&fault);
                    return false;
                }
                Err(_) => sleep(self.connector.pause()),
            }
        }
    }

    /// Whether another session would meet this fault again. Of several servers the one with the tables may be away.
    fn is_final(&self, fault: &Fault) -> bool {
        match fault {
            Fault::Final(_) => true,
            Fault::NoSuchTable(_) => self.connector.targets().len() == 1,
            _ => false,
        }
    }

    /// Runs the statements of others on the session that holds the lock. On a read-only server it tries another session, too. `false`:
    /// they failed, and that was reported. The error is the loss of the session.
    fn carry_out_on(
        &self,
        session: &mut Session,
        also: &dyn Fn() -> Vec<String>,
        patience: Duration,
    ) -> Result<bool, Fault> {
        let begun = Moment::now();
        // Only what must not be lost is tried for some time.
        let must_count = !patience.is_zero() && !self.request.accepts_read_only();
        loop {
            let done = if must_count {
                carry_out_where_it_counts(also, session)
            } else {
                carry_out_all(also, session)
            };
            match done {
                Ok(()) => return Ok(true),
                Err(fault @ Fault::Gone(_)) => return Err(fault),
                Err(fault) if begun.elapsed() < patience && fault.refuses_for_now() => {
                    sleep(REFUSED_PAUSE);
                    if matches!(fault, Fault::ReadOnly(_)) && self.carry_out_anew(also).is_ok() {
                        return Ok(true);
                    }
                }
                Err(fault) => {
                    self.tell_unrecorded(&fault);
                    return Ok(false);
                }
            }
        }
    }

    /// Runs the statements of others on a new session.
    fn carry_out_anew(&self, also: &dyn Fn() -> Vec<String>) -> Result<(), Fault> {
        self.write_on_new_session(&|session: &mut Session| carry_out_all(also, session))
    }

    /// Writes on a new session, on a server that takes writes. Some accounts may write to a replica, but nobody reads those records.
    fn write_on_new_session(
        &self,
        write: &dyn Fn(&mut Session) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let written = self.connector.connect(|session| {
            let limit = self.answer_limit.unwrap_or_default();
            session.answer_within(limit)?;
            schema::prepare(session)?;
            if is_read_only(session)? {
                return Err(Fault::ReadOnly(why_read_only(session).to_owned()));
            }
            follow(self.request.timeline, session)?;
            write(session)
        });
        written.map(drop)
    }

    fn tell_unrecorded(&self, fault: &Fault) {
        let line = format!("cannot record the run: {fault}");
        self.connector.tell(Level::Warning, &line);
    }

    fn hold(&mut self, session: Session, grant: Grant) {
        self.grant = grant;
        self.session = Some(session);
        self.killed = None;
    }
}

/// Runs the statements of others, until they are not interrupted and in no conflict. Those that were carried out before may be repeated.
fn carry_out_all(also: &dyn Fn() -> Vec<String>, session: &mut Session) -> Result<(), Fault> {
    loop {
        let mut statements = also().into_iter();
        match statements.try_for_each(|statement| session.run(&Ask::written(statement))) {
            Err(Fault::Interrupted(_) | Fault::Conflict(_)) => sleep(PAUSE),
            done => return done,
        }
    }
}

/// As [`carry_out_all`], unless the server is read-only. It does not refuse every account, and nobody reads what was written there.
fn carry_out_where_it_counts(
    also: &dyn Fn() -> Vec<String>,
    session: &mut Session,
) -> Result<(), Fault> {
    if is_read_only(session)? {
        return Err(Fault::ReadOnly(why_read_only(session).to_owned()));
    }
    carry_out_all(also, session)
}

/// Runs these statements as far as that is possible soon: to free the lock matters more than to record the run.
fn record_for_the_dead(also: &[String], session: &mut Session) {
    let begun = Moment::now();
    for statement in also {
        loop {
            let left = DEAD_LIMIT.saturating_sub(begun.elapsed());
            if left.is_zero() || session.answer_within(left).is_err() {
                return;
            }
            match session.run(&Ask::written(statement)) {
                Ok(()) => break,
                Err(Fault::Interrupted(_) | Fault::Conflict(_)) => sleep(PAUSE),
                Err(_) => return,
            }
        }
    }
}

impl Backend for NamedLock {
    fn try_acquire(&mut self, caller: &dyn Caller) -> Result<Attempt, Failure> {
        let Some((mut session, opening)) = self.open(caller)? else {
            return Ok(Attempt::Retry(self.connector.pause()));
        };
        caller.on_server(&session.to_string());
        // A killer may mean this waiter: the server may have granted it the slot just before a session was lost.
        let (killers, request) = (&mut self.killers, &mut self.request);
        let is_meant = killers.ack_kills(&self.name, &opening, &mut session);
        match is_meant.and_then(|()| request.take_first(&mut session, &opening, caller, None)) {
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

    fn after_grant(&mut self) {
        if let Some(session) = &mut self.session {
            // If this fails, the next renewal does it, or shows that the session has ended.
            let _ = self.request.wake_next(session);
        }
    }

    fn renew(&mut self, until: Option<Moment>) -> Renewal {
        let limit = self.answer_limit;
        let Some(session) = &mut self.session else {
            return Renewal::Lost(NOT_HELD.to_owned());
        };
        let sent = Moment::now();
        let mut is_capped = false;
        let mut cap_answer = |session: &Session| {
            let cap = until.map(Lease::time_until);
            if let Some(cap) = cap.filter(|cap| limit.is_none_or(|limit| *cap < limit)) {
                is_capped = true;
                // If this fails, the session has ended, and its next statement fails.
                let _ = session.answer_within(cap);
            }
        };
        cap_answer(session);
        let woken = self.request.wake_next(session);
        cap_answer(session);
        let renewed = woken.and_then(|()| self.request.renew(self.grant.slot, session));
        // That says nothing about the lock, as where the server has no memory for an answer. The end of the session would free it.
        let is_refused = renewed
            .as_ref()
            .is_err_and(|fault| fault.refuses_for_now() && session.survives(fault));
        if is_capped && (is_refused || matches!(renewed, Ok(true))) {
            let _ = session.answer_within(limit.unwrap_or_default());
        }
        let cause = match renewed {
            Ok(true) => return Renewal::Confirmed(sent),
            Err(fault) if is_refused => return Renewal::Unanswered(fault.to_string()),
            Ok(false) => NOT_HELD.to_owned(),
            Err(Fault::ReadOnly(cause)) => format!("{session} {cause}"),
            Err(fault) => fault.to_string(),
        };
        self.session = None;
        Renewal::Lost(cause)
    }

    /// That its command is being ended is announced on a session, which the server ends after a TTL without a statement. On a server that
    /// takes no writes any more this keeps nobody out, so it counts as lost. But the session stays: the killer may still wait there for the
    /// command's end.
    fn renew_killed(&mut self, until: Option<Moment>) -> Renewal {
        let Some((session, _)) = &mut self.killed else {
            return Renewal::Lost(NOT_HELD.to_owned());
        };
        let sent = Moment::now();
        let most = self.connector.attempt_limit();
        session.answer_each_within(move || {
            until.map_or(most, |until| most.min(Lease::time_until(until)))
        });
        let announced = self.request.renew_announcement(self.grant.slot, session);
        let cause = match announced {
            Ok(true) => return Renewal::Confirmed(sent),
            // An older session still does. That may end at any moment.
            Ok(false) => return Renewal::Unanswered(NOT_HELD.to_owned()),
            // As in a renewal: the end of the session would let others have the slot.
            Err(fault) if session.survives(&fault) => {
                return Renewal::Unanswered(fault.to_string());
            }
            Err(Fault::ReadOnly(cause)) => return Renewal::Lost(format!("{session} {cause}")),
            Err(fault) => fault.to_string(),
        };
        self.killed = None;
        Renewal::Lost(cause)
    }

    fn outlives_session(&self) -> bool {
        false
    }

    fn on_session_end(&mut self) -> Option<String> {
        let Some(session) = &mut self.session else {
            // Nothing keeps others out of the slot of a holder that is killed: its next renewal sees to that.
            if let Some((session, _)) = &mut self.killed
                && session.last_words().is_some()
            {
                self.killed = None;
            }
            return None;
        };
        let cause = session.last_words();
        if cause.is_none() {
            // If this fails, the session has ended, and its next statement fails.
            let _ = session.answer_within(self.answer_limit.unwrap_or_default());
        }
        cause
    }

    fn try_reacquire(&mut self, take: bool, until: Option<Moment>) -> Reattempt {
        let (grant, request) = (self.grant, &mut self.request);
        let (connector, announcing) = (&self.connector, &mut self.killed);
        let retake = |session: &mut Session| {
            match until {
                // It is asked several things, one after the other.
                Some(until) => {
                    let most = connector.answer_limit(Lease::time_until(until));
                    session.answer_each_within(move || most.min(Lease::time_until(until)));
                }
                None => session.answer_within(connector.attempt_limit())?,
            }
            if take {
                // What an older session announces would be in the way of a new one on the same server. But on one that takes no writes
                // nothing is acquired, and the killer may still wait for the command's end where that is announced.
                if announcing.is_some() && (request.accepts_read_only() || !is_read_only(session)?)
                {
                    *announcing = None;
                }
                return request.retake(grant, false, until, session).map(Some);
            }
            let killer = request.find_killer(grant, until, session)?;
            Ok(killer.map(Retake::Killed))
        };
        let retaken = match until.map(Lease::time_until) {
            Some(limit) => connector.connect_within(limit, retake),
            None => connector.connect(retake),
        };
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

    fn known_killer(&self) -> Option<Client> {
        let (_, killer) = self.killed.as_ref()?;
        Some(killer.clone())
    }

    fn find_kill(&mut self, until: Option<Moment>) -> Option<Client> {
        match self.try_reacquire(false, until) {
            Reattempt::Killed(killer) => Some(killer),
            _ => None,
        }
    }

    /// On the session on which the killer was found, which has a limit of its own.
    fn ack_kill(&mut self, _until: Option<Moment>) -> bool {
        let Some((mut session, killer)) = self.killed.take() else {
            return false;
        };
        let _ = session.answer_within(ACK_LIMIT);
        let acked = self
            .request
            .ack_kill(self.grant.slot, killer.connection, &mut session);
        acked.is_ok()
    }

    fn release(&mut self, also: &dyn Fn() -> Vec<String>, patience: Duration) -> Release {
        let elsewhere = |lock: &Self, cause| Release {
            also_done: lock.carry_out_elsewhere(also, patience),
            was_held: Err(cause),
        };
        let Some(mut session) = self.session.take() else {
            return elsewhere(self, None);
        };
        let also_done = match self.carry_out_on(&mut session, also, patience) {
            Ok(done) => done,
            Err(fault) => return elsewhere(self, Some(fault.to_string())),
        };
        let woken = self.request.wake_next(&mut session);
        let released = woken.and_then(|()| self.request.release(self.grant.slot, &mut session));
        self.session = Some(session);
        Release {
            also_done,
            was_held: released.map_err(|fault| Some(fault.to_string())),
        }
    }

    fn release_for_the_dead(&mut self, also: &[String]) {
        let Some(session) = &mut self.session else {
            return;
        };
        record_for_the_dead(also, session);
        // On PostgreSQL the end of a session wakes nobody.
        if session.kind() == Kind::Postgres && session.answer_within(DEAD_LIMIT).is_ok() {
            let _ = self.request.release(self.grant.slot, session);
        }
    }

    fn write_anew(
        &mut self,
        write: &dyn Fn(&mut Session) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.session = None;
        self.write_on_new_session(write)
    }

    fn session(&mut self) -> Option<&mut Session> {
        self.session.as_mut()
    }

    fn drop_held(&mut self) {
        self.session = None;
    }

    fn current_session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        let killed = self.killed.as_ref().map(|(session, _)| session);
        self.session.as_ref().or(killed).map(AsFd::as_fd)
    }

    fn answer_within(&mut self, limit: Duration) -> Result<(), Fault> {
        self.connector.cap_attempts(limit / SHARE_OF_TTL);
        self.answer_limit = Some(limit);
        self.session
            .as_ref()
            .map_or(Ok(()), |session| session.answer_within(limit))
    }

    fn pause(&self) -> Duration {
        self.connector.pause()
    }
}

//! Row locks that share one session, as the ticks of a daemon do. Whoever has the session lends it to a lock for each call. Nothing here
//! waits for a holder, and no call keeps the session from others for long.

use std::rc::Rc;
use std::time::Duration;

use super::acquire::Claimed;
use super::claim::Claim;
use super::prepare::{fit_for_lock, prepare};
use super::row_lock::{Queue, RowLock, RowSpec};
use super::state::SlotState;
use super::statements::Statements;
use crate::db::{Ask, Connector, Fault, Kind, Session};
use crate::lock::named::{Verbosity, take_locks_now};
use crate::lock::{Grant, Holders, Lease, LockSpec, Nobody, Renewal, Wait, run_lock_of};
use crate::schema::Tables;

/// What a shared session's server is to the locks on it.
#[derive(Debug, Clone, Copy)]
pub struct SharedServer {
    queue: Queue,
}

impl SharedServer {
    /// Finds that out. The server gets at most `limit` for a later answer.
    ///
    /// # Errors
    /// The server takes no writes, or has not the tables; any fault of a statement.
    pub fn ask(tables: &Tables, limit: Duration, session: &mut Session) -> Result<Self, Fault> {
        let prepared = prepare(tables, limit, session);
        let prepared = fit_for_lock(tables, prepared, session)?;
        // The named locks of a node exclude nobody on another node.
        let queue = if prepared.is_cluster {
            Queue::None
        } else {
            Queue::Excludes
        };
        Ok(Self { queue })
    }

    /// Whether the named locks of the session exclude callers without rows.
    pub fn excludes(self) -> bool {
        self.queue == Queue::Excludes
    }
}

/// The result of an attempt to acquire a lock at once.
pub enum Tried {
    /// It is held.
    Held(Grant, Lease),
    /// These hold it.
    Taken(Holders),
}

impl RowLock {
    /// A lock for a session that has other uses, too. That is kept without a statement for `session_limit`, and holds the lock `marker` on
    /// the server, by which it is known as this process's own. The wait of `spec` is the caller's.
    pub fn sharing(
        connector: Rc<Connector>,
        spec: &LockSpec,
        marker: &str,
        session_limit: Duration,
        row: RowSpec,
    ) -> Self {
        let named = LockSpec {
            ttl: session_limit,
            wait: Wait::For(Duration::ZERO),
            ..spec.clone()
        };
        let verbosity = Verbosity {
            when_waiting: false,
            when_taken: true,
        };
        Self {
            wanted: spec.clone(),
            shares_session: true,
            ..Self::new(connector, &named, marker, verbosity, row)
        }
    }

    /// Lends it the session for what `work` does. Returns the session, unless that has ended.
    pub fn on<T>(
        &mut self,
        session: Session,
        server: SharedServer,
        work: impl FnOnce(&mut Self) -> T,
    ) -> (T, Option<Session>) {
        self.use_server(server);
        self.session = Some(session);
        let done = work(self);
        (done, self.session.take())
    }

    /// The session that it is lent is one with this server.
    pub(super) fn use_server(&mut self, server: SharedServer) {
        self.server.queue = server.queue;
    }

    /// Acquires it, unless others hold it. With `names`, finds out who they are, for which the server goes through all its sessions.
    /// `None`: there is no session.
    ///
    /// # Errors
    /// Any fault of a statement; after [`Fault::Gone`] and [`Fault::ReadOnly`] there is no session any more.
    pub fn try_at_once(&mut self, names: bool) -> Result<Option<Tried>, Fault> {
        self.on_session(|lock, session| lock.try_on(names, session))
    }

    /// Does this on the session, which is kept unless it has ended, or its server takes no writes. `None`: there is none.
    fn on_session<T>(
        &mut self,
        work: impl FnOnce(&mut Self, &mut Session) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        let Some(mut session) = self.session.take() else {
            return Ok(None);
        };
        let done = work(self, &mut session);
        if !matches!(done, Err(Fault::Gone(_) | Fault::ReadOnly(_))) {
            self.session = Some(session);
        }
        done.map(Some)
    }

    /// The lock on the server that a shared session holds together with the slot: it says whose the slot is.
    pub(super) fn mark(&self) -> Option<String> {
        self.shares_session.then(|| run_lock_of(&self.spec.owner))
    }

    /// The condition that a row is this lock's, by its latest grant.
    fn own_row(&self) -> String {
        let Grant { slot, fence, .. } = self.grant;
        self.statements.is_own(slot, fence.unwrap_or_default())
    }

    fn try_on(&mut self, names: bool, session: &mut Session) -> Result<Tried, Fault> {
        self.forget_grant();
        // The session may hold the named locks of other slots, and would be granted each of them again.
        let looks = self.wanted.slots > 1 || self.claim.may_hold;
        let mut rows = if looks {
            session.run(&self.statements.look())?
        } else {
            Vec::new()
        };
        let is_own = |row: &SlotState| row.owner.as_deref() == Some(&self.spec.owner);
        if rows.iter().any(is_own) {
            let next = self.advance(&[], &Nobody, |claim, _| claim.find())?;
            let claimed = self.carry_out(next, &[], None, session, &Nobody)?;
            if let Claimed::Held(grant, lease) = claimed {
                self.grant = grant;
                if self.server.named_slot.is_none() {
                    self.regain_named_lock(session);
                }
                return Ok(Tried::Held(self.grant, lease));
            }
        }
        // Of an earlier attempt. It would be granted once more, and be released once only.
        if let Some(slot) = self.server.named_slot.take() {
            self.request
                .release_with(slot, self.mark().as_deref(), session)?;
        }
        for slot in 0..self.wanted.slots {
            let row = rows.iter().find(|row| row.slot == slot);
            if row.is_some_and(|row| row.is_owned() && !row.has_expired()) {
                continue;
            }
            if self.server.queue == Queue::Excludes {
                match self.request.try_slot(slot, self.mark().as_deref(), session) {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(Fault::NoNamedLocks(_)) => self.server.queue = Queue::None,
                    Err(fault) => return Err(self.without_named_lock(slot, fault, session)),
                }
            }
            let next = self.advance(&[slot], &Nobody, Claim::take)?;
            let claimed = self.carry_out(next, &[slot], None, session, &Nobody);
            if let Ok(Claimed::Held(grant, lease)) = claimed {
                self.grant = grant;
                self.server.named_slot = (self.server.queue == Queue::Excludes).then_some(slot);
                return Ok(Tried::Held(grant, lease));
            }
            if self.server.queue == Queue::Excludes && !matches!(claimed, Err(Fault::Gone(_))) {
                self.request
                    .release_with(slot, self.mark().as_deref(), session)?;
            }
            if let Claimed::Taken(seen) = claimed? {
                rows = seen;
            }
        }
        let is_held = |row: &SlotState| row.is_owned() && !row.has_expired();
        if rows.iter().any(is_held) {
            return Ok(Tried::Taken(self.holders(&rows)));
        }
        if names {
            return self.request.holders(session).map(Tried::Taken);
        }
        Ok(Tried::Taken(self.request.unnamed_holders()))
    }

    /// Another session is lent from now on: with the one before its named locks have ended.
    pub fn forget_session(&mut self) {
        (self.server.named_slot, self.server.has_announced) = (None, false);
    }

    /// A fault that the session has survived may have come after the grant.
    fn without_named_lock(&self, slot: u32, fault: Fault, session: &mut Session) -> Fault {
        if !matches!(fault, Fault::Gone(_)) {
            let mark = self.mark();
            let _ = self.request.release_with(slot, mark.as_deref(), session);
        }
        fault
    }

    /// Whether it is held without the named lock that keeps callers without rows out: on this session another one had that.
    pub fn lacks_named_lock(&self) -> bool {
        let is_granted = self.grant.fence.is_some();
        is_granted && self.server.queue == Queue::Excludes && self.server.named_slot.is_none()
    }

    /// Takes the named lock if it is free by now.
    ///
    /// # Errors
    /// Any fault of a statement; after [`Fault::Gone`] and [`Fault::ReadOnly`] there is no session any more.
    pub fn try_named_lock(&mut self) -> Result<(), Fault> {
        let taken = self.on_session(|lock, session| {
            let (slot, mark) = (lock.grant.slot, lock.mark());
            let taken = lock.request.try_slot(slot, mark.as_deref(), session);
            if taken.map_err(|fault| lock.without_named_lock(slot, fault, session))? {
                lock.server.named_slot = Some(slot);
                lock.grant.connection_id = session.handshake_id();
            }
            Ok(())
        });
        taken.map(drop)
    }

    /// Renews it, by itself: that says why it is not held any more. On a new session it takes the named lock again.
    pub fn renew_on(&mut self, is_new: bool) -> Renewal {
        let renewed = match self.renew_row() {
            Ok(renewed) => renewed,
            Err(fault) => Renewal::Unanswered(fault.to_string()),
        };
        if is_new && let Some(mut session) = self.session.take() {
            match renewed {
                Renewal::Confirmed(_) => {
                    self.regain_named_lock(&mut session);
                }
                // Until its command has ended.
                Renewal::Killed(_) if self.server.queue == Queue::Excludes => {
                    let slot = self.grant.slot;
                    let _ = self.request.announce_termination(slot, &mut session);
                }
                _ => self.withdraw_announcements(&mut session),
            }
            self.session = Some(session);
        }
        renewed
    }

    /// The name on the server of the lock by which a new session announces that it takes the slot of this lock again. Whoever is granted
    /// that when an older session ends releases it.
    fn announce(&mut self, server: SharedServer) -> Option<String> {
        self.server.has_announced = server.queue == Queue::Excludes && self.grant.fence.is_some();
        let slot = self.grant.slot;
        let announced = self.server.has_announced;
        announced.then(|| self.wanted.name.reacquire_on_server(slot))
    }

    /// Releases the named lock of a row that is not held any more: on its session the next owner of the row would wait for it for ever.
    ///
    /// # Errors
    /// As [`RowLock::release_with`].
    pub fn leave_queue(&mut self) -> Result<(), Fault> {
        let Some(slot) = self.server.named_slot else {
            return Ok(());
        };
        let released = self.on_session(|lock, session| {
            let mark = lock.mark();
            lock.request.release_with(slot, mark.as_deref(), session)?;
            lock.server.named_slot = None;
            Ok(())
        });
        released.map(drop)
    }

    /// Releases it, in one transaction with these statements of others. `false`: it was another's.
    ///
    /// # Errors
    /// Any fault of a statement; after [`Fault::Gone`] and [`Fault::ReadOnly`] there is no session any more.
    pub fn release_with(&mut self, also: &[String]) -> Result<bool, Fault> {
        self.release_row_within(also, Duration::ZERO)
    }
}

/// Announces on a new session that it takes all of these locks again. `None`: there is nothing to announce.
pub fn announce_all<'a>(
    kind: Kind,
    server: SharedServer,
    locks: impl IntoIterator<Item = &'a mut RowLock>,
) -> Option<Ask<'static, ()>> {
    let names = locks.into_iter().filter_map(|lock| lock.announce(server));
    let names: Vec<String> = names.collect();
    (!names.is_empty()).then(|| take_locks_now(kind, &names))
}

/// Asks whether somebody ends the holder of any of these locks.
pub fn ask_kills<'a>(
    tables: &Tables,
    locks: impl IntoIterator<Item = &'a RowLock>,
) -> Ask<'static, bool> {
    let held = locks.into_iter().map(RowLock::own_row);
    Statements::ask_kills(tables, &held.collect::<Vec<_>>())
}

/// Renews many locks that share a session, in one statement, except those that somebody ends. If it changes fewer rows than there are
/// locks, [`RowLock::renew_on`] says which.
pub fn renew_all<'a>(
    tables: &Tables,
    locks: impl IntoIterator<Item = &'a mut RowLock>,
) -> Ask<'static, ()> {
    let mut held = Vec::new();
    for lock in locks {
        // The statement counts in the row. An answer that is lost leaves the row's number behind this one.
        lock.next_write_id();
        held.push(lock.own_row());
    }
    Statements::renew_all(tables, &held)
}

//! A durable lock as a keeper knows it, the `Backend` of this folder. Losing the session loses nothing: another one renews the row.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::thread::sleep;
use std::time::Duration;

use super::change::Change;
use super::claim::{Claimant, Next};
use super::clock::{Clock, disagreement};
use super::holding::{Holding, Released, Renewed, after_release_of_any};
use super::state::SlotState;
use super::statements::{AskClock, Prepared, RollBack, Statements, Terms, Write};
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::base::log::Level;
use crate::base::text::shown;
use crate::db::{Client, Connector, Fault, Plain, Session};
use crate::lock::named::{Decision, Opening, READ_ONLY, Request, Turns, Verbosity};
use crate::lock::{
    Attempt, Backend, Caller, Grant, Holder, Holders, Lease, LockSpec, MOST_NAMED, Name, Reattempt,
    Refusal, Renewal, run_lock_of,
};
use crate::schema::Tables;

/// From a lost session to the next attempt.
const PAUSE: Duration = Duration::from_millis(100);

/// From one look at rows that others hold to the next: at first, and at most. Who releases a row wakes the next one by the named lock;
/// this is for rows whose holder has none, and for clusters.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// After a write that met another one.
const CONFLICT_PAUSE: Duration = Duration::from_millis(10);

/// How many writes in a row may meet others before another session is tried.
const MOST_CONFLICTS: u32 = 100;

/// How long a server may take for one write: a part of the TTL, within these.
const SHARE_OF_TTL: u32 = 8;
const SHORTEST_LIMIT: Duration = Duration::from_secs(1);
const LONGEST_LIMIT: Duration = Duration::from_secs(10);

/// How long a caller waits in the queue of one node of a cluster before it looks whether that is still a part of it. One that is frozen
/// says nothing at all, while the others give the lock to somebody.
const LONGEST_TURN: Duration = Duration::from_secs(8);

/// How long each other server gets to tell its time.
const CLOCK_LIMIT: Duration = Duration::from_secs(1);

/// What makes a lock durable.
pub struct RowSpec {
    /// The tables.
    pub tables: Tables,
    /// Whom the row is to belong to: 32 hex digits that nobody else has.
    pub owner: String,
    /// `run`, `token` or `token_run`.
    pub kind: &'static str,
    /// What `acquire --owner` says.
    pub owner_name: Option<String>,
    /// The slot and the fence of a grant that a script has; `None`: a new one is asked for.
    pub token: Option<(u32, u64)>,
    /// For how long it is held after each renewal; `None`: for as long as its row says.
    pub ttl: Option<Duration>,
    /// The statements that are carried out in the transaction of a grant, by the slot and the session's number.
    pub on_grant: Box<dyn Fn(u32, u64) -> Vec<String>>,
}

/// How far the server's named locks serve as the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Queue {
    /// They exclude: each slot's named lock is held with its row.
    Excludes,
    /// Each server of a cluster has its own.
    OfThisServer,
    /// There are none.
    None,
}

/// One caller's durable lock.
pub struct RowLock {
    connector: Rc<Connector>,
    request: Request,
    statements: Statements,
    spec: RowSpec,
    name: Name,
    slots: u32,
    ttl: Duration,
    /// What is held or was lost; nothing of it is read before that.
    grant: Grant,
    session: Option<Session>,
    queue: Queue,
    /// The slot whose named lock the session holds.
    named_slot: Option<u32>,
    /// The number of the latest write.
    write_id: u64,
    /// Whether a slot may be held without anybody's knowing.
    may_hold: bool,
    /// Whether a release was sent whose answer was lost.
    may_be_released: bool,
    clock: Option<Clock>,
    only_read_only: Option<String>,
}

impl RowLock {
    /// A lock on the servers of `connector`, on sessions that all take the lock of this run's id.
    pub fn new(
        connector: Connector,
        spec: &LockSpec,
        run_id: &str,
        verbosity: Verbosity,
        row: RowSpec,
    ) -> Self {
        Self {
            connector: Rc::new(connector),
            request: Request::new(spec, run_id, verbosity).serving_as_queue(),
            statements: Statements::new(&row.tables, &spec.name, spec.slots, &row.owner),
            spec: row,
            name: spec.name.clone(),
            slots: spec.slots,
            ttl: spec.ttl,
            grant: Grant::default(),
            session: None,
            queue: Queue::None,
            named_slot: None,
            // So that another process that goes on for this one, after its death, chooses others.
            write_id: getrandom::u32().map_or(1, u64::from) << 16,
            may_hold: false,
            may_be_released: false,
            clock: None,
            only_read_only: None,
        }
    }

    /// For a slot that another process holds, which has died.
    pub fn resumed(self, grant: Grant) -> Self {
        Self { grant, ..self }
    }

    /// How long a server may take for an answer. It is no longer than its share of the time for connecting: a node that is cut off
    /// takes logins, and no writes.
    fn limit(&self) -> Duration {
        let limit = (self.ttl / SHARE_OF_TTL).clamp(SHORTEST_LIMIT, LONGEST_LIMIT);
        limit.min(self.connector.attempt_limit().max(SHORTEST_LIMIT))
    }

    fn next_write_id(&mut self) -> u64 {
        self.write_id += 1;
        self.write_id
    }

    /// Makes a new session fit for the tables, and notes what its server is.
    fn prepare(&mut self, session: &mut Session) -> Result<Prepared, Fault> {
        let limit = self.limit().min(self.connector.attempt_limit());
        session.answer_within(limit).map_err(gone)?;
        let (asked, prepared) = (Moment::now(), session.run_batch(&self.statements.prepare()));
        let tables = &self.spec.tables;
        match prepared {
            Ok(prepared) => {
                tables.judge(Ok(prepared.version), session)?;
                self.queue = if prepared.is_cluster {
                    Queue::OfThisServer
                } else {
                    Queue::Excludes
                };
                let clock = Clock::new(prepared.clock, asked, Moment::now());
                if let Some(before) = self.clock.replace(clock)
                    && let Some(off) = disagreement(before, clock, self.ttl)
                {
                    let line = format!(
                        "the clock of {session} is {} off that of the server before, more than a tenth of the TTL",
                        shown(off)
                    );
                    session.tell(Level::Warning, &line);
                }
                session.answer_within(Duration::ZERO).map_err(gone)?;
                Ok(prepared)
            }
            Err(fault @ Fault::NoSuchTable(_)) => {
                tables.judge(Err(fault), session)?;
                Err(Fault::Gone("no answer".to_owned()))
            }
            Err(fault) => Err(tables.explain(fault)),
        }
    }

    /// One round of all servers for a session that the lock may live on, and the first answer on it about the named lock, `None` where
    /// there are none; no session: try again after a pause.
    fn open(&mut self, caller: &dyn Caller) -> Result<Option<(Session, Option<Opening>)>, Failure> {
        let connector = Rc::clone(&self.connector);
        let opened = connector.connect(|session| {
            self.prepare(session)?;
            // Nobody has to hold back here for those who held it: their rows say so.
            match self.request.open(session) {
                Ok(opening) => {
                    if !opening.fitness.unfit.is_empty() {
                        self.queue = Queue::OfThisServer;
                    }
                    Ok(Some(opening))
                }
                Err(Fault::NoNamedLocks(_)) => {
                    self.queue = Queue::None;
                    Ok(None)
                }
                Err(fault) => Err(fault),
            }
        });
        let read_only = match opened {
            Ok(opened) => return Ok(Some(opened)),
            Err(Fault::Final(failure)) => return Err(failure),
            Err(Fault::ReadOnly(line)) => Some(line),
            Err(_) => None,
        };
        if read_only != self.only_read_only {
            caller.on_read_only(read_only.as_deref());
            self.only_read_only = read_only;
        }
        Ok(None)
    }

    /// Waits in the queue, if there is one, and then for the row.
    fn acquire_on(
        &mut self,
        session: &mut Session,
        opening: Option<&Opening>,
        caller: &dyn Caller,
    ) -> Result<Decision, Fault> {
        self.named_slot = None;
        if let Some(held) = self.claim_without_queue(session, caller)? {
            return Ok(held);
        }
        let mut slots: Vec<u32> = (0..self.slots).collect();
        if let Some(opening) = opening {
            match self.wait_in_queue(session, opening, caller)? {
                Decision::Held(named, _) => self.named_slot = Some(named.slot),
                Decision::Taken(holders) => {
                    return Ok(Decision::Taken(self.name_holders(holders, session)));
                }
            }
        }
        if let (Queue::Excludes, Some(named)) = (self.queue, self.named_slot) {
            slots = vec![named];
        }
        session.answer_within(self.limit()).map_err(gone)?;
        let (mut pause, mut waits) = (FIRST_PAUSE, false);
        loop {
            let rows = match self.claim(&slots, waits, session, caller)? {
                Claimed::Held(grant, lease) => {
                    if waits {
                        Request::end_wait(self.ttl, session)?;
                    }
                    return Ok(Decision::Held(grant, lease));
                }
                Claimed::Taken(rows) => rows,
            };
            if let Some((grant, lease)) = self.claim_another(&rows, session, caller)? {
                return Ok(Decision::Held(grant, lease));
            }
            let holders = self.holders(&rows);
            let left = self.request.left();
            if left == Some(Duration::ZERO) {
                if let Some(named) = self.named_slot.take() {
                    self.request.release(named, session)?;
                }
                return Ok(Decision::Taken(holders));
            }
            if !std::mem::replace(&mut waits, true) {
                caller.on_wait(&holders);
                self.request.begin_wait(session)?;
            }
            sleep(left.unwrap_or(pause).min(by_chance(pause)));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn wait_in_queue(
        &mut self,
        session: &mut Session,
        opening: &Opening,
        caller: &dyn Caller,
    ) -> Result<Decision, Fault> {
        if self.queue != Queue::OfThisServer {
            return self.request.take(session, opening, caller, None);
        }
        let (limit, look) = (self.limit(), self.statements.look());
        let mut look_at_node = |session: &mut Session| {
            session.answer_within(limit).map_err(gone)?;
            session.run(&look)?;
            session.answer_within(LONGEST_TURN + limit).map_err(gone)
        };
        session.answer_within(LONGEST_TURN + limit).map_err(gone)?;
        let turns = Turns {
            longest: LONGEST_TURN,
            after: &mut look_at_node,
        };
        self.request.take(session, opening, caller, Some(turns))
    }

    /// Claims the slot that an earlier claim was granted whose answer was lost: whoever is first in the queue would wait for its end,
    /// and this one behind it. Likewise the slot whose holder has given the same owner name.
    fn claim_without_queue(
        &mut self,
        session: &mut Session,
        caller: &dyn Caller,
    ) -> Result<Option<Decision>, Fault> {
        if !self.may_hold && self.spec.owner_name.is_none() {
            return Ok(None);
        }
        session.answer_within(self.limit()).map_err(gone)?;
        let claimed = self.claim(&[], true, session, caller)?;
        // As for the first statement on a session.
        session.answer_within(Duration::ZERO).map_err(gone)?;
        let Claimed::Held(grant, lease) = claimed else {
            return Ok(None);
        };
        self.grant = grant;
        self.regain_named_lock(session);
        Ok(Some(Decision::Held(self.grant, lease)))
    }

    /// Claims another slot of which both the named lock and the row are free: the row of the one whose named lock is held is the
    /// row of somebody without a session.
    fn claim_another(
        &mut self,
        rows: &[SlotState],
        session: &mut Session,
        caller: &dyn Caller,
    ) -> Result<Option<(Grant, Lease)>, Fault> {
        let (Queue::Excludes, Some(named)) = (self.queue, self.named_slot) else {
            return Ok(None);
        };
        for slot in (0..self.slots).filter(|slot| *slot != named) {
            let row = rows.iter().find(|row| row.slot == slot);
            let is_held = row.is_some_and(|row| row.is_owned() && !row.has_expired());
            if is_held || !self.request.try_slot(slot, session)? {
                continue;
            }
            if let Claimed::Held(grant, lease) = self.claim(&[slot], true, session, caller)? {
                self.named_slot = Some(slot);
                self.request.release(named, session)?;
                return Ok(Some((grant, lease)));
            }
            self.request.release(slot, session)?;
        }
        Ok(None)
    }

    /// Claims one of these slots, the best first, unless others hold them all; or any that it may take over, or holds already.
    /// `looks_first`: it is likely that others hold them.
    fn claim(
        &mut self,
        slots: &[u32],
        looks_first: bool,
        session: &mut Session,
        caller: &dyn Caller,
    ) -> Result<Claimed, Fault> {
        let mut sent = Moment::now();
        let mut conflicts = 0;
        let mut rows = Vec::new();
        let mut next = slots
            .first()
            .map_or(Next::Taken, |&slot| Next::Write(Change::Take { slot }));
        let mut looks = looks_first;
        loop {
            if std::mem::take(&mut looks) {
                rows = session.run(&self.statements.look())?;
                self.refuse_future(&rows, session)?;
                next = self.claimant(slots).next(&rows, None);
            }
            self.announce_claim(next.may_hold(), caller)?;
            let change = match next {
                Next::Held { slot, fence } => {
                    let grant = Grant {
                        slot,
                        connection_id: session.handshake_id(),
                        fence: Some(fence),
                    };
                    let lease = Lease {
                        ttl: self.ttl,
                        proved: sent,
                    };
                    return Ok(Claimed::Held(grant, lease));
                }
                Next::Taken => return Ok(Claimed::Taken(rows)),
                Next::Write(change) => change,
            };
            if let Change::TakeExpired { slot, .. } = change {
                let row = rows.iter().find(|row| row.slot == slot);
                self.compare_clocks(row.map_or(self.ttl, |row| row.ttl), session)?;
            }
            let write_id = self.next_write_id();
            let write = self.claiming(change, write_id, session);
            sent = Moment::now();
            match self.write(&write, session) {
                Ok(seen) => {
                    conflicts = 0;
                    rows = seen;
                    self.refuse_future(&rows, session)?;
                    next = self.claimant(slots).next(&rows, Some(write_id));
                }
                // It has done nothing.
                Err(Fault::Conflict(_) | Fault::Interrupted(_)) if conflicts < MOST_CONFLICTS => {
                    conflicts += 1;
                    sleep(by_chance(CONFLICT_PAUSE));
                    looks = true;
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Whether a slot may be held from now on without anybody's knowing.
    fn announce_claim(&mut self, may_hold: bool, caller: &dyn Caller) -> Result<(), Fault> {
        if may_hold != self.may_hold && !caller.on_claim(may_hold) && may_hold {
            return Err(Fault::Gone("nobody is there to use the lock".to_owned()));
        }
        self.may_hold = may_hold;
        Ok(())
    }

    fn claimant<'a>(&'a self, slots: &'a [u32]) -> Claimant<'a> {
        Claimant {
            owner: &self.spec.owner,
            owner_name: self.spec.owner_name.as_deref(),
            slots,
        }
    }

    fn claiming(&self, change: Change, write_id: u64, session: &Session) -> Write {
        let also = match change {
            Change::Take { slot }
            | Change::TakeExpired { slot, .. }
            | Change::TakeOver { slot, .. } => (self.spec.on_grant)(slot, session.handshake_id()),
            _ => Vec::new(),
        };
        let terms = Terms {
            ttl: Some(self.ttl),
            ..self.terms(&also)
        };
        self.statements.write(change, write_id, &terms)
    }

    fn terms<'a>(&'a self, also: &'a [String]) -> Terms<'a> {
        Terms {
            kind: self.spec.kind,
            owner_name: self.spec.owner_name.as_deref(),
            ttl: self.spec.ttl,
            also,
        }
    }

    /// Carries out a write. After a fault that leaves the session as it is nothing is left of the transaction.
    fn write(&self, write: &Write, session: &mut Session) -> Result<Vec<SlotState>, Fault> {
        let fault = match session.run_batch(write) {
            Ok(rows) => return Ok(rows),
            Err(fault @ Fault::Gone(_)) => return Err(fault),
            Err(fault) => fault,
        };
        session.run(&RollBack)?;
        Err(self.spec.tables.explain(fault))
    }

    /// As [`RowLock::write`], again and again while it meets others, but not for long.
    fn write_through(&self, write: &Write, session: &mut Session) -> Result<Vec<SlotState>, Fault> {
        let begun = Moment::now();
        loop {
            match self.write(write, session) {
                Err(Fault::Conflict(_) | Fault::Interrupted(_))
                    if begun.elapsed() < self.limit() =>
                {
                    sleep(by_chance(CONFLICT_PAUSE));
                }
                done => {
                    if done.is_err() {
                        self.connector.try_last(session);
                    }
                    return done;
                }
            }
        }
    }

    /// Refuses a server whose clock is behind that of one which wrote a row.
    fn refuse_future(&self, rows: &[SlotState], session: &Session) -> Result<(), Fault> {
        let behind = rows
            .iter()
            .filter(|row| row.is_owned())
            .map(|row| -row.age)
            .max();
        let behind = u64::try_from(behind.unwrap_or_default()).unwrap_or_default();
        let behind = Duration::from_micros(behind);
        if behind > self.ttl / 10 {
            let line = format!(
                "the clock of {session} is at least {} behind that of a server that has written rows there, more than a tenth \
                 of the TTL: a durable lock would not exclude; set the clocks right",
                shown(behind)
            );
            return Err(Fault::Final(Failure::new(Reason::Configuration, line)));
        }
        Ok(())
    }

    /// Refuses to take over the row of somebody who has not renewed it where the servers' clocks disagree: to another one its time
    /// may not be over. `held_for`: the TTL of its holder, who ends the command a tenth of that before.
    fn compare_clocks(&self, held_for: Duration, session: &Session) -> Result<(), Fault> {
        let ttl = match held_for {
            // Nobody knows.
            Duration::ZERO => self.ttl,
            held_for => held_for.min(self.ttl),
        };
        let Some(here) = self.clock else {
            return Ok(());
        };
        let own = session.to_string();
        let others = self.connector.survey(CLOCK_LIMIT, &own, |session| {
            let asked = Moment::now();
            let clock = session.run(&AskClock)?;
            Ok(Clock::new(clock, asked, Moment::now()))
        });
        for (other, clock) in others {
            if let Some(off) = disagreement(here, clock, ttl) {
                let line = format!(
                    "the clocks of {own} and {other} are {} apart, more than a tenth of the TTL: a durable lock would not exclude; \
                     set them right",
                    shown(off)
                );
                return Err(Fault::Final(Failure::new(Reason::Configuration, line)));
            }
        }
        Ok(())
    }

    /// Who holds the rows.
    fn holders(&self, rows: &[SlotState]) -> Holders {
        let mut held: Vec<&SlotState> = rows.iter().filter(|row| row.is_owned()).collect();
        held.sort_by_key(|row| row.slot);
        let named = held
            .iter()
            .take(MOST_NAMED as usize)
            .map(|row| match row.killer() {
                Some(killer) => Holder::Killer(Box::new(killer)),
                None => Holder::Session(Box::new(row.client.clone())),
            });
        Holders {
            named: named.collect(),
            slots: self.slots,
        }
    }

    /// Names the holders by their rows, where the server did not, or named those who wait for them with the named locks.
    fn name_holders(&self, holders: Holders, session: &mut Session) -> Holders {
        let is_known = |holder: &Holder| match holder {
            Holder::Session(client) => client.dblock().is_some(),
            Holder::Killer(_) => true,
            Holder::Nobody | Holder::Unknown => false,
        };
        let is_held = |row: &&SlotState| row.is_owned() && !row.has_expired();
        let _ = session.answer_within(self.limit());
        match session.run(&self.statements.look()) {
            Ok(rows) if rows.iter().filter(is_held).count() == self.slots as usize => {
                self.holders(&rows)
            }
            _ if holders.named.iter().any(is_known) => holders,
            Ok(rows) if rows.iter().any(SlotState::is_owned) => self.holders(&rows),
            _ => holders,
        }
    }

    /// One attempt to acquire the lock, as [`Backend::try_acquire`].
    fn attempt(&mut self, caller: &dyn Caller) -> Result<Attempt, Failure> {
        if let Some((slot, fence)) = self.spec.token {
            return self.adopt(slot, fence, caller);
        }
        let Some((mut session, opening)) = self.open(caller)? else {
            return Ok(Attempt::Retry(self.connector.pause()));
        };
        caller.on_server(&session.to_string());
        match self.acquire_on(&mut session, opening.as_ref(), caller) {
            Ok(Decision::Held(grant, lease)) => {
                self.grant = grant;
                self.session = Some(session);
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
                self.connector.try_last(&session);
                Ok(Attempt::Retry(PAUSE))
            }
        }
    }

    /// The session that is there, or a new one, with the named lock's run id.
    fn reach(&mut self) -> Result<Session, Fault> {
        if let Some(session) = self.session.take() {
            return Ok(session);
        }
        let connector = Rc::clone(&self.connector);
        self.named_slot = None;
        let (session, ()) = connector.connect(|session| {
            if self.prepare(session)?.is_read_only {
                return Err(Fault::ReadOnly(READ_ONLY.to_owned()));
            }
            session.answer_within(self.limit()).map_err(gone)
        })?;
        Ok(session)
    }

    /// The lock is a script's from now on: its row stays held, and its named lock and session are no longer needed.
    pub fn hand_over(&mut self) {
        if let (Some(named), Some(session)) = (self.named_slot.take(), &mut self.session) {
            let _ = self.request.release(named, session);
        }
    }

    /// Releases what was granted and nobody knows of, or what may have been, in one transaction with these statements of others, and
    /// ends the session. Whether a server has done it.
    pub fn withdraw(&mut self, also: &[String]) -> bool {
        let is_done = self.release_row(also).is_ok();
        self.session = None;
        is_done
    }

    /// Releases the lock of a script.
    ///
    /// # Errors
    /// [`Reason::LockLost`]: it was not held any more; no further attempt will help.
    pub fn release_token(&mut self, caller: &dyn Caller, also: &[String]) -> Result<(), Failure> {
        let (slot, fence) = self.spec.token.take().unwrap_or_default();
        self.grant = Grant {
            slot,
            fence: Some(fence),
            ..Grant::default()
        };
        loop {
            match self.release_row(also) {
                Err(Fault::Final(failure)) => return Err(failure),
                Err(_) => sleep(self.connector.pause()),
                Ok(was_held) => {
                    caller.on_server(&self.server());
                    let line = format!("the token does not hold {} any more", self.name);
                    let lost = Failure::new(Reason::LockLost, line);
                    return was_held.then_some(()).ok_or(lost);
                }
            }
        }
    }

    /// Goes on with the grant that a script has.
    fn adopt(&mut self, slot: u32, fence: u64, caller: &dyn Caller) -> Result<Attempt, Failure> {
        self.grant = Grant {
            slot,
            fence: Some(fence),
            ..Grant::default()
        };
        let proved = match self.renew_row() {
            Ok(Renewal::Confirmed(proved)) => proved,
            Ok(Renewal::Lost(cause)) => {
                let line = format!("the token does not hold {} any more: {cause}", self.name);
                return Err(Failure::new(Reason::LockLost, line));
            }
            Ok(Renewal::Killed(killer)) => {
                let line = format!("{} was ended by {killer}", self.name);
                return Err(Failure::new(Reason::LockLost, line));
            }
            Err(Fault::Final(failure)) => return Err(failure),
            Ok(Renewal::Unanswered(_)) | Err(_) => {
                return Ok(Attempt::Retry(self.connector.pause()));
            }
        };
        caller.on_server(&self.server());
        let ttl = self.ttl;
        if let Some(session) = &mut self.session {
            self.grant.connection_id = session.handshake_id();
            for statement in (self.spec.on_grant)(slot, self.grant.connection_id) {
                // What is remembered of it matters less than that it runs.
                let _ = session.run(&Plain(statement));
            }
        }
        Ok(Attempt::Acquired(self.grant, Lease { ttl, proved }))
    }

    fn holding(&self, fence: u64) -> Holding<'_> {
        Holding {
            owner: &self.spec.owner,
            slot: self.grant.slot,
            fence,
        }
    }

    /// Renews the row on some server, and says what it shows.
    fn renew_row(&mut self) -> Result<Renewal, Fault> {
        let is_new = self.session.is_none();
        let mut session = self.reach()?;
        let Grant { slot, fence, .. } = self.grant;
        let fence = fence.unwrap_or_default();
        if !is_new && self.spec.token.is_none() {
            let (sent, write_id) = (Moment::now(), self.next_write_id());
            let terms = self.terms(&[]);
            let renewal = self.statements.quick_renewal(slot, fence, write_id, &terms);
            // Whatever else it comes to, the longer way finds out.
            match session.change(&renewal) {
                Ok(1) => {
                    self.session = Some(session);
                    return Ok(Renewal::Confirmed(sent));
                }
                Err(fault @ Fault::Gone(_)) => return Err(fault),
                _ => {}
            }
        }
        let write_id = self.next_write_id();
        let change = Change::Renew { slot, fence };
        let write = self.statements.write(change, write_id, &self.terms(&[]));
        let sent = Moment::now();
        let rows = self.write_through(&write, &mut session)?;
        let renewed = self.holding(fence).after_renewal(&rows, write_id);
        if self.spec.ttl.is_none()
            && let (Some(row), false) = (rows.first(), matches!(renewed, Renewed::Lost(_)))
        {
            self.ttl = row.ttl;
            session.answer_within(self.limit()).map_err(gone)?;
        }
        let renewal = match renewed {
            Renewed::Confirmed => Renewal::Confirmed(sent),
            Renewed::Killed => {
                self.begin_end(&mut session);
                let killer = rows.first().and_then(SlotState::killer);
                Renewal::Killed(Box::new(killer.unwrap_or_default()))
            }
            Renewed::Unknown => {
                let line = "an older write was carried out last";
                return Err(Fault::Gone(line.to_owned()));
            }
            Renewed::Lost(Some(row)) if row.is_owned() => {
                let holders = self.holders(&rows);
                Renewal::Lost(format!("its row says that it is {holders}"))
            }
            Renewed::Lost(Some(_)) => Renewal::Lost("its row says that nobody holds it".to_owned()),
            Renewed::Lost(None) => Renewal::Lost("its row is gone".to_owned()),
        };
        if is_new && matches!(renewal, Renewal::Confirmed(_)) {
            session.tell(
                Level::Info,
                &format!("holds {} on a new session with {session}", self.name),
            );
            self.regain_named_lock(&mut session);
        }
        self.session = Some(session);
        Ok(renewal)
    }

    /// Takes the named lock again, which excludes callers without rows; the row stays held without it.
    fn regain_named_lock(&mut self, session: &mut Session) {
        if self.queue != Queue::Excludes || self.spec.kind != "run" {
            if self.queue != Queue::None {
                // By it `dblock kill` finds the session.
                let _ = Request::mark(&run_lock_of(&self.spec.owner), session);
            }
            return;
        }
        let regained = self.request.retake(self.grant, session);
        if let Ok(crate::lock::named::Retake::Held(grant, _)) = regained {
            self.named_slot = Some(grant.slot);
            self.grant.connection_id = grant.connection_id;
        }
        let _ = session.answer_within(self.limit());
    }

    /// Somebody ends the holder: until the command has ended callers without rows stay out, also when that somebody is gone. A script
    /// does not get its lock back.
    fn begin_end(&mut self, session: &mut Session) {
        self.spec.token = None;
        if self.queue == Queue::Excludes {
            let _ = self.request.announce_termination(self.grant.slot, session);
        }
    }

    /// Releases the row, and then the named lock. `false`: the row was another's.
    fn release_row(&mut self, also: &[String]) -> Result<bool, Fault> {
        let mut session = self.reach()?;
        let Grant { slot, fence, .. } = self.grant;
        let write_id = self.next_write_id();
        let change = Change::giving_back(slot, fence, self.spec.token.is_some());
        let write = self.statements.write(change, write_id, &self.terms(also));
        let rows = self
            .write_through(&write, &mut session)
            .inspect_err(|fault| {
                self.may_be_released |= matches!(fault, Fault::Gone(_));
            })?;
        let released = match fence {
            None => {
                self.may_hold = false;
                after_release_of_any(&rows, &self.spec.owner)
            }
            Some(fence) => {
                let holding = self.holding(fence);
                holding.after_release(&rows, write_id, self.may_be_released)
            }
        };
        if released == Released::Unknown {
            let line = "an older write was carried out last";
            return Err(Fault::Gone(line.to_owned()));
        }
        if let Some(named) = self.named_slot.take() {
            let _ = self.request.release(named, &mut session);
        }
        self.session = Some(session);
        Ok(released == Released::Done)
    }
}

/// What became of a claim.
enum Claimed {
    Held(Grant, Lease),
    /// Others hold the slots; the rows as they were seen last.
    Taken(Vec<SlotState>),
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn gone(error: io::Error) -> Fault {
    Fault::Gone(error.to_string())
}

/// A span of about this length: those who wait for the same do not all come at once.
fn by_chance(span: Duration) -> Duration {
    let chance = getrandom::u32().unwrap_or(u32::MAX);
    span.mul_f64(0.5 + 0.5 * f64::from(chance) / f64::from(u32::MAX))
}

impl Backend for RowLock {
    fn try_acquire(&mut self, caller: &dyn Caller) -> Result<Attempt, Failure> {
        let attempt = self.attempt(caller);
        if attempt.is_err() && self.may_hold {
            // There is no other attempt to find it.
            let _ = self.release_row(&[]);
        }
        attempt
    }

    fn renew(&mut self) -> Renewal {
        match self.renew_row() {
            Ok(renewal) => renewal,
            Err(fault) => Renewal::Unanswered(fault.to_string()),
        }
    }

    fn outlives_session(&self) -> bool {
        true
    }

    fn on_session_end(&mut self) -> Option<String> {
        self.session = None;
        None
    }

    /// Its row is another's, or nobody's: others may have held it since.
    fn try_reacquire(&mut self, _take: bool) -> Reattempt {
        let line = "its row is no longer this run's".to_owned();
        Reattempt::Refused(Refusal::Failed(Failure::new(Reason::LockLost, line)))
    }

    fn find_kill(&mut self) -> Option<Client> {
        None
    }

    /// The release of the row says it. What else is to be done with it is done when the supervisor, which is stopped, goes on.
    fn ack_kill(&mut self) -> bool {
        if self.release_row(&[]).is_ok() {
            self.may_be_released = true;
            self.session = None;
        }
        true
    }

    fn release(&mut self, also: &[String]) -> Result<bool, Option<String>> {
        loop {
            match self.release_row(also) {
                Ok(was_held) => return Ok(was_held),
                Err(Fault::Final(failure)) => return Err(Some(failure.line)),
                Err(_) => sleep(self.connector.pause()),
            }
        }
    }

    fn release_for_the_dead(&mut self, also: &[String]) {
        let _ = self.release_row(also);
    }

    fn drop_held(&mut self) {
        self.session = None;
    }

    fn session(&mut self) -> Option<&mut Session> {
        self.session.as_mut()
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
        self.connector
            .cap_attempts((limit / SHARE_OF_TTL).max(SHORTEST_LIMIT));
        Ok(())
    }

    fn pause(&self) -> Duration {
        self.connector.pause()
    }
}

//! Acquiring a row: first through the queue of named locks, if there is one, then the row itself.

use std::rc::Rc;
use std::thread::sleep;
use std::time::Duration;

use super::change::Change;
use super::claim::{Claim, ClaimEnd, Claimant};
use super::clock::{Clock, disagreement};
use super::holding::Hold;
use super::prepare::prepare_and_ask;
use super::row_lock::{CONFLICT_PAUSE, Queue, RowLock};
use super::state::SlotState;
use super::statements::{Terms, Write, ask_clock};
use super::step::{Answer, Next, RowStep, Written};
use super::token_end::TokenEnd;
use crate::base::clock::{Moment, by_chance, micros};
use crate::base::exit::{Failure, Reason};
use crate::base::log::Level;
use crate::base::text::shown;
use crate::db::{Fault, Session, no_answer};
use crate::lock::named::{Decision, HOLD_BACK, Opening, Request, Turns, Waited};
use crate::lock::{Attempt, Caller, Grant, Holder, HolderKind, Holders, Lease};

/// The pause between a lost session and the next attempt.
const PAUSE: Duration = Duration::from_millis(100);

/// The pauses between two looks at rows that others hold: the first, and the longest. A release wakes the next waiter through the named
/// lock. The pauses are for holders without a named lock, and for clusters.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// After this many conflicts of a write with others, another session is tried.
const MOST_CONFLICTS: u32 = 100;

/// A claim takes no more writes than this, unless its rows are changed by others or do not show what was written. Then it pauses.
const FEW_WRITES: u32 = 4;

/// How long a caller waits in the queue of one cluster node before it checks whether the node is still part of the cluster. A frozen node
/// sends nothing at all, while the others may grant the lock.
const LONGEST_TURN: Duration = Duration::from_secs(8);

/// How long each other server gets to answer with its time.
const CLOCK_LIMIT: Duration = Duration::from_secs(1);

/// The result of a claim.
pub(super) enum Claimed {
    Held(Grant, Lease),
    /// Others hold the slots: their rows, as read last.
    Taken(Vec<SlotState>),
}

impl RowLock {
    /// Makes one attempt to acquire the lock, as [`Backend::try_acquire`](crate::lock::Backend::try_acquire).
    pub(super) fn attempt(&mut self, caller: &dyn Caller) -> Result<Attempt, Failure> {
        if let Some((slot, fence)) = self.spec.token {
            return self.adopt(slot, fence, caller);
        }
        self.forget_grant();
        let Some((mut session, opening)) = self.open(caller)? else {
            return Ok(Attempt::Retry(self.connector.pause()));
        };
        caller.on_server(&session.to_string());
        let is_meant = self.ack_kills(opening.as_ref(), &mut session);
        match is_meant.and_then(|()| self.acquire_on(&mut session, opening.as_ref(), caller)) {
            Ok(Decision::Held(grant, lease)) => {
                self.grant = grant;
                // If this fails, the session has ended, and its next statement fails.
                let _ = session.answer_within(self.limit());
                self.session = Some(session);
                Ok(Attempt::Acquired(grant, lease))
            }
            Ok(Decision::Taken(holders)) => {
                self.session = Some(session);
                Ok(Attempt::Taken(holders))
            }
            Err(Fault::Final(failure)) => Err(failure),
            Err(Fault::NoRoom(cause)) => {
                let line = format!("{session} has no room: {cause}; trying again");
                session.tell(Level::Info, &line);
                Ok(Attempt::Retry(LONGEST_PAUSE))
            }
            Err(fault) => {
                self.attempts.report_locked_row(&fault, caller);
                let line = format!("lost the session with {session}: {fault}");
                session.tell(Level::Info, &line);
                self.connector.try_last(&session);
                if self.request.has_waited {
                    self.attempts.lost.get_or_insert_with(Moment::now);
                }
                Ok(Attempt::Retry(PAUSE))
            }
        }
    }

    /// What an earlier attempt was granted, and has released, says nothing of this one.
    pub(super) fn forget_grant(&mut self) {
        (self.grant, self.hold) = (Grant::default(), Hold::default());
    }

    /// Who killed an earlier session while it had the named lock only, or a row that could not be seen yet, waits for an answer.
    ///
    /// # Errors
    /// As [`OwnKillers::ack_kills`](crate::lock::named::OwnKillers::ack_kills).
    fn ack_kills(&mut self, opening: Option<&Opening>, session: &mut Session) -> Result<(), Fault> {
        let Some(opening) = opening else {
            return Ok(());
        };
        session.answer_within(self.claim_limit())?;
        let name = &self.wanted.name;
        self.attempts.killers.ack_kills(name, opening, session)?;
        session.answer_within(Duration::ZERO)
    }

    /// Asks all servers in turn for a session that may hold the lock. Returns the session, and the first answer about the named lock,
    /// `None` if the server has none. No session: try again after a pause.
    fn open(&mut self, caller: &dyn Caller) -> Result<Option<(Session, Option<Opening>)>, Failure> {
        let connector = Rc::clone(&self.connector);
        let opened = connector.connect(|session| {
            // If an earlier claim may have been granted, this caller may be the holder.
            if let Some(lost) = self.attempts.lost
                && !self.claim.may_hold
            {
                self.hold_back(lost, session)?;
            }
            match self.prepare_and_open(session)? {
                Ok(opening) => {
                    if !opening.fitness.unfit.is_empty() {
                        self.server.queue = Queue::OfThisServer;
                    }
                    Ok(Some(opening))
                }
                Err(Fault::NoNamedLocks(_)) => {
                    self.server.queue = Queue::None;
                    Ok(None)
                }
                Err(fault) => Err(fault),
            }
        });
        match opened {
            Ok(opened) => {
                self.attempts.lost = None;
                return Ok(Some(opened));
            }
            Err(Fault::Final(failure)) => return Err(failure),
            Err(fault) => {
                self.attempts.report_locked_row(&fault, caller);
                self.attempts.report_read_only(&fault, caller);
            }
        }
        Ok(None)
    }

    /// Has holders of the named lock alone reacquire it first, as [`NamedLock`](crate::lock::named::NamedLock) does. The row of a run
    /// protects it until that releases it; that of a token keeps no plain run out.
    fn hold_back(&mut self, lost: Moment, session: &mut Session) -> Result<(), Fault> {
        self.request.refuse(session)?;
        self.prepare(session)?;
        if self.server.queue != Queue::Excludes {
            return Ok(());
        }
        session.answer_within(self.limit())?;
        let rows = session.run(&self.statements.look())?;
        let since = micros(lost.elapsed());
        let had_row = |row: &&SlotState| {
            let is_held = row.is_owned() && !row.has_expired() && row.kind == HolderKind::Run;
            row.slot < self.wanted.slots && (is_held || row.age < since)
        };
        let had_rows = rows.iter().filter(had_row).count();
        if u32::try_from(had_rows).is_ok_and(|had_rows| had_rows < self.wanted.slots) {
            // In full, even if the wait is over before: this caller's last attempt must not overtake a holder either.
            sleep(HOLD_BACK);
        }
        Ok(())
    }

    /// Prepares a new session for the tables, and asks for the named lock, in one packet. Returns the answer about the named lock.
    fn prepare_and_open(&mut self, session: &mut Session) -> Result<Result<Opening, Fault>, Fault> {
        self.request.refuse(session)?;
        self.limit_preparing(session)?;
        let (first, asked) = (self.request.first(session.handshake_id()), Moment::now());
        let (prepared, answer) = prepare_and_ask(&self.spec.tables, self.limit(), &first, session);
        self.note_prepared(asked, prepared, session)?;
        Ok(self.request.open_after(first, answer, session))
    }

    /// Waits in the queue, if there is one, and then for the row.
    fn acquire_on(
        &mut self,
        session: &mut Session,
        opening: Option<&Opening>,
        caller: &dyn Caller,
    ) -> Result<Decision, Fault> {
        self.server.named_slot = None;
        if let Some(held) = self.claim_without_queue(session, opening, caller)? {
            return Ok(held);
        }
        let mut slots: Vec<u32> = (0..self.wanted.slots).collect();
        if let Some(opening) = opening {
            let decision = match self.wait_in_queue(session, opening, caller)? {
                Waited::Over(decision) => decision,
                Waited::Unproved(slot, granted) => {
                    if let Some(held) = self.claim_and_prove(slot, &granted, session, caller)? {
                        return Ok(held);
                    }
                    session.answer_within(Duration::ZERO)?;
                    self.request.begin_wait(session)?;
                    self.request.take(session, &granted, caller, None)?
                }
            };
            match decision {
                Decision::Held(named, _) => self.server.named_slot = Some(named.slot),
                Decision::Taken(holders) => {
                    return Ok(Decision::Taken(self.name_holders(holders, session)));
                }
            }
        }
        if let (Queue::Excludes, Some(named)) = (self.server.queue, self.server.named_slot) {
            slots = vec![named];
        }
        session.answer_within(self.claim_limit())?;
        let (mut pause, mut waits) = (FIRST_PAUSE, false);
        loop {
            let next = self.advance(&slots, caller, |claim, claimant| {
                if waits {
                    claim.look()
                } else {
                    claim.take(claimant)
                }
            })?;
            let rows = match self.carry_out(next, &slots, None, session, caller)? {
                Claimed::Held(grant, lease) => {
                    if waits {
                        Request::end_wait(self.wanted.ttl, session)?;
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
                caller.on_taken(&holders);
                if let Some(named) = self.server.named_slot.take() {
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
    ) -> Result<Waited, Fault> {
        if self.server.queue != Queue::OfThisServer {
            return self.request.take_unproved(session, opening, caller);
        }
        let (limit, look) = (self.limit(), self.statements.look());
        let mut look_at_node = |session: &mut Session| {
            session.answer_within(limit)?;
            session.run(&look)?;
            session.answer_within(LONGEST_TURN + limit)
        };
        session.answer_within(LONGEST_TURN + limit)?;
        let turns = Turns {
            longest: LONGEST_TURN,
            after: &mut look_at_node,
        };
        let taken = self.request.take(session, opening, caller, Some(turns))?;
        Ok(Waited::Over(taken))
    }

    /// Claims the slot whose named lock was granted after a wait, if the same packet proves the grant. `None`: nothing was claimed, so
    /// the slot must be proved and claimed in steps.
    fn claim_and_prove(
        &mut self,
        slot: u32,
        granted: &Opening,
        session: &mut Session,
        caller: &dyn Caller,
    ) -> Result<Option<Decision>, Fault> {
        session.answer_within(self.claim_limit())?;
        let proof = self.request.proof(slot, granted);
        let next = self.advance(&[], caller, |claim, _| claim.take_granted(slot))?;
        let claimed = self.carry_out(next, &[], proof.as_deref(), session, caller)?;
        let Claimed::Held(grant, lease) = claimed else {
            return Ok(None);
        };
        self.server.named_slot = Some(slot);
        Ok(Some(Decision::Held(grant, lease)))
    }

    /// Claims the slot that an earlier claim may have been granted, if its answer was lost: the head of the queue would wait for that
    /// claim's end, and this caller behind it. Likewise claims the slot whose holder has the same owner name. Keeps the named lock of the
    /// `opening` only if it belongs to that slot, or is a place in a node's queue.
    fn claim_without_queue(
        &mut self,
        session: &mut Session,
        opening: Option<&Opening>,
        caller: &dyn Caller,
    ) -> Result<Option<Decision>, Fault> {
        let next = self.advance(&[], caller, Claim::begin)?;
        if next == Next::Over(ClaimEnd::Queue) {
            return Ok(None);
        }
        session.answer_within(self.claim_limit())?;
        let claimed = self.carry_out(next, &[], None, session, caller)?;
        // The same limit as for the first statement on a session.
        session.answer_within(Duration::ZERO)?;
        let Claimed::Held(grant, lease) = claimed else {
            return Ok(None);
        };
        self.grant = grant;
        match opening.and_then(Opening::slot) {
            Some(named) if self.server.queue == Queue::OfThisServer || named == grant.slot => {
                self.server.named_slot = Some(named);
            }
            Some(named) => {
                self.request.release(named, session)?;
                self.regain_named_lock(session);
            }
            None => {
                self.regain_named_lock(session);
            }
        }
        Ok(Some(Decision::Held(self.grant, lease)))
    }

    /// Claims another slot whose named lock and row are both free: the row of the slot whose named lock this caller holds belongs to a
    /// holder without a session.
    fn claim_another(
        &mut self,
        rows: &[SlotState],
        session: &mut Session,
        caller: &dyn Caller,
    ) -> Result<Option<(Grant, Lease)>, Fault> {
        let (Queue::Excludes, Some(named)) = (self.server.queue, self.server.named_slot) else {
            return Ok(None);
        };
        for slot in (0..self.wanted.slots).filter(|slot| *slot != named) {
            let row = rows.iter().find(|row| row.slot == slot);
            let is_held = row.is_some_and(|row| row.is_owned() && !row.has_expired());
            if is_held || !self.request.try_slot(slot, None, session)? {
                continue;
            }
            let next = self.advance(&[slot], caller, |claim, _| claim.look())?;
            let claimed = self.carry_out(next, &[slot], None, session, caller)?;
            if let Claimed::Held(grant, lease) = claimed {
                self.server.named_slot = Some(slot);
                self.request.release(named, session)?;
                return Ok(Some((grant, lease)));
            }
            self.request.release(slot, session)?;
        }
        Ok(None)
    }

    /// Takes the claim of these slots a step further. Tells the caller whether a slot may be held from now on without its knowledge, and
    /// so blocks while the supervisor is stopped.
    pub(super) fn advance(
        &mut self,
        slots: &[u32],
        caller: &dyn Caller,
        step: impl FnOnce(&mut Claim, &Claimant) -> Next<ClaimEnd>,
    ) -> Result<Next<ClaimEnd>, Fault> {
        let mut claim = self.claim;
        let next = step(&mut claim, &self.claimant(slots));
        let may_hold = claim.may_hold;
        if may_hold != self.claim.may_hold && !caller.on_claim(may_hold) && may_hold {
            return Err(Fault::Gone("nobody is there to use the lock".to_owned()));
        }
        self.claim = claim;
        Ok(next)
    }

    fn claimant<'a>(&'a self, slots: &'a [u32]) -> Claimant<'a> {
        Claimant {
            owner: &self.spec.owner,
            owner_name: self.spec.owner_name.as_deref(),
            slots,
            is_only_slot: self.wanted.slots == 1,
        }
    }

    /// Asks the server what comes `next` in the claim of these slots, until that is decided. Grants nothing without the `proof`, if there
    /// is one.
    pub(super) fn carry_out(
        &mut self,
        mut next: Next<ClaimEnd>,
        slots: &[u32],
        proof: Option<&str>,
        session: &mut Session,
        caller: &dyn Caller,
    ) -> Result<Claimed, Fault> {
        let (mut rows, mut sent, mut conflicts) = (Vec::new(), Moment::now(), 0);
        let mut writes = 0;
        loop {
            let step = match next {
                Next::Ask(step) => {
                    writes += u32::from(step.is_write());
                    if writes > FEW_WRITES {
                        sleep(by_chance(CONFLICT_PAUSE));
                    }
                    step
                }
                Next::Over(ClaimEnd::Held { slot, fence }) => {
                    let grant = Grant {
                        slot,
                        connection_id: session.handshake_id(),
                        fence: Some(fence),
                    };
                    let (ttl, proved) = (self.wanted.ttl, sent);
                    return Ok(Claimed::Held(grant, Lease { ttl, proved }));
                }
                Next::Over(ClaimEnd::Queue | ClaimEnd::Taken) => {
                    self.attempts.note_locked_row(false, caller);
                    return Ok(Claimed::Taken(rows));
                }
            };
            let answer = match self.ask(step, &rows, proof, &mut sent, session) {
                Err(fault @ (Fault::Conflict(_) | Fault::Interrupted(_)))
                    if step.is_write() && conflicts < MOST_CONFLICTS && !self.shares_session =>
                {
                    self.attempts.report_locked_row(&fault, caller);
                    conflicts += 1;
                    Answer::Refused
                }
                answered => answered?,
            };
            match &answer {
                Answer::Rows(seen) => self.refuse_future(seen, session)?,
                Answer::Written(_, written) => {
                    conflicts = 0;
                    self.attempts.note_locked_row(false, caller);
                    self.refuse_future(&written.rows, session)?;
                }
                Answer::Refused => {}
            }
            next = self.advance(slots, caller, |claim, claimant| {
                claim.next(claimant, &answer)
            })?;
            match answer {
                Answer::Rows(seen) | Answer::Written(_, Written { rows: seen, .. }) => rows = seen,
                Answer::Refused if next == Next::Over(ClaimEnd::Queue) => {
                    return Ok(Claimed::Taken(rows));
                }
                Answer::Refused => sleep(by_chance(CONFLICT_PAUSE)),
            }
        }
    }

    /// Asks the server one step of a claim. `rows`: as read last. Sets when a write was `sent`.
    fn ask(
        &mut self,
        step: RowStep,
        rows: &[SlotState],
        proof: Option<&str>,
        sent: &mut Moment,
        session: &mut Session,
    ) -> Result<Answer, Fault> {
        let (RowStep::Write(change) | RowStep::WriteOnly(change)) = step else {
            return session.run(&self.statements.look()).map(Answer::Rows);
        };
        if let Change::TakeExpired { slot, .. } = change {
            let row = rows.iter().find(|row| row.slot == slot);
            self.compare_clocks(row.map_or(self.wanted.ttl, |row| row.ttl), session)?;
        }
        let write_id = self.next_write_id();
        let mut write = self.claiming(change, rows, proof, write_id, session);
        if matches!(step, RowStep::WriteOnly(_)) {
            write = write.without_look();
        }
        *sent = Moment::now();
        let written = self.write(&write, session)?;
        Ok(Answer::Written(write_id, written))
    }

    pub(super) fn claiming(
        &self,
        change: Change,
        rows: &[SlotState],
        proof: Option<&str>,
        write_id: u64,
        session: &Session,
    ) -> Write {
        let mut also = match change.granted() {
            Some(slot) => (self.spec.on_grant)(slot, session.handshake_id()),
            None => Vec::new(),
        };
        also.extend(self.end_of_token(change, rows));
        let terms = Terms {
            ttl: Some(self.wanted.ttl),
            proof,
            ..self.terms(&also)
        };
        self.statements.write(change, write_id, &terms)
    }

    /// The statement that records how a script has lost the slot, if a script held it.
    fn end_of_token(&self, change: Change, rows: &[SlotState]) -> Option<String> {
        let (slot, fence, end) = match change {
            Change::TakeExpired { slot, fence } => (slot, fence, TokenEnd::Expired),
            Change::TakeOver { slot, fence } => (slot, fence, TokenEnd::TakenOver),
            _ => return None,
        };
        let mut rows = rows.iter();
        let row = rows.find(|row| row.slot == slot && row.fence == fence)?;
        let owner = row.owner.as_deref();
        let record = (self.spec.on_token_end)(owner.filter(|_| row.kind != HolderKind::Run)?, end);
        // A holder that is alive but was late records the end of its run itself.
        Some(self.statements.if_own(&record, slot, fence + 1))
    }

    /// Refuses a server whose clock is behind that of a server that wrote a row.
    fn refuse_future(&self, rows: &[SlotState], session: &Session) -> Result<(), Fault> {
        let behind = rows
            .iter()
            .filter(|row| row.is_owned())
            .map(|row| -row.age)
            .max();
        let behind = u64::try_from(behind.unwrap_or_default()).unwrap_or_default();
        let behind = Duration::from_micros(behind);
        if behind > self.wanted.ttl / 10 {
            let line = format!(
                "the clock of {session} is at least {} behind that of a server that has written rows there, more than a tenth \
                 of the TTL: a durable lock would not exclude; set the clocks right",
                shown(behind)
            );
            return Err(Fault::Final(Failure::new(Reason::Configuration, line)));
        }
        Ok(())
    }

    /// Refuses to take over an expired row if the servers' clocks disagree: on another server it may not have expired. `held_for` is the
    /// TTL of its holder, which ends the command a tenth of the TTL before.
    fn compare_clocks(&self, held_for: Duration, session: &mut Session) -> Result<(), Fault> {
        let ttl = match held_for {
            // The TTL is unknown.
            Duration::ZERO => self.wanted.ttl,
            held_for => held_for.min(self.wanted.ttl),
        };
        let others = self.connector.survey(CLOCK_LIMIT, session, measure_clock);
        if others.is_empty() {
            return Ok(());
        }
        // Not as it was at the login: it may have been set since, and this host's clock may have stood still, as in a paused machine.
        let here = measure_clock(session)?;
        let own = session.to_string();
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

    /// Names the holders by their rows, if the server did not name them, or named those that hold the named locks and only wait.
    fn name_holders(&self, holders: Holders, session: &mut Session) -> Holders {
        let is_known = |holder: &Holder| match holder {
            Holder::Session(client) => client.dblock().is_some(),
            Holder::Killer(_) => true,
            Holder::Nobody | Holder::Unknown => false,
        };
        let is_held = |row: &&SlotState| row.is_owned() && !row.has_expired();
        let _ = session.answer_within(self.limit());
        match session.run(&self.statements.look()) {
            Ok(rows) if rows.iter().filter(is_held).count() == self.wanted.slots as usize => {
                self.holders(&rows)
            }
            _ if holders.named.iter().any(is_known) => holders,
            Ok(rows) if rows.iter().any(SlotState::is_owned) => self.holders(&rows),
            _ => holders,
        }
    }
}

fn measure_clock(session: &mut Session) -> Result<Clock, Fault> {
    let asked = Moment::now();
    let clock = session
        .run(&ask_clock(session.kind()))?
        .ok_or_else(no_answer)?;
    Ok(Clock::new(clock, asked, Moment::now()))
}

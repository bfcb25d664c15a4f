//! Holding a row: renewing it, on a new session if the old one is lost, and releasing it.

use std::time::Duration;

use super::change::Change;
use super::holding::{Hold, OwnGrant, Released, Renewed};
use super::row_lock::{Queue, RowLock};
use super::state::SlotState;
use super::statements::Write;
use super::step::{Answer, NamedRelease, Next, RowStep, Written};
use super::token_end::TokenEnd;
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::base::log::Level;
use crate::db::{Ask, Client, Fault, Session};
use crate::lock::named::{Request, Retake};
use crate::lock::{Attempt, Backend, Caller, Grant, HolderKind, Lease, Renewal, run_lock_of};

/// How the server is asked about the grant.
#[derive(Default)]
struct Asking {
    /// Statements in the transaction of a release.
    also: Vec<String>,
    /// The one that follows, and releases the named locks that keep callers without rows out.
    release: Option<String>,
    /// How long to try again if another session has locked what is written.
    patience: Duration,
}

/// What was decided about the grant.
struct Decided<T> {
    result: T,
    /// When the last statement was first sent.
    sent: Moment,
    /// The rows that were read last.
    rows: Vec<SlotState>,
    /// The release of the named lock, if that followed.
    released: Option<NamedRelease>,
}

fn overtaken() -> Fault {
    Fault::Gone("an older write was carried out last".to_owned())
}

impl RowLock {
    /// Takes over a script's grant.
    pub(super) fn adopt(
        &mut self,
        slot: u32,
        fence: u64,
        caller: &dyn Caller,
    ) -> Result<Attempt, Failure> {
        self.grant = Grant {
            slot,
            fence: Some(fence),
            ..Grant::default()
        };
        let is_new = self.session.is_none();
        let session = match self.reach() {
            Ok(session) => session,
            Err(Fault::Final(failure)) => return Err(failure),
            Err(fault) => return Ok(Attempt::Retry(self.pause_after(&fault, caller))),
        };
        // Answered or not, the renewal puts this run's command under the grant: that has to be taken back.
        if !self.claim.may_hold && !caller.on_claim(true) {
            return Ok(Attempt::Retry(self.connector.pause()));
        }
        self.claim.may_hold = true;
        // If this fails, the session has ended, and its next statement fails.
        let _ = session.answer_within(self.claim_limit());
        // That the row is locked is told at once.
        let proved = match self.renew_row_on(session, is_new, Duration::ZERO) {
            Ok(Renewal::Confirmed(proved)) => proved,
            Ok(Renewal::Lost(cause)) => {
                self.claim.may_hold = false;
                caller.on_claim(false);
                if let Some(holders) = self.of_token.other_command.take() {
                    return Ok(Attempt::Taken(holders));
                }
                let line = format!(
                    "the token does not hold {} any more: {cause}",
                    self.wanted.name
                );
                return Err(Failure::new(Reason::LockLost, line));
            }
            Ok(Renewal::Killed(killer)) => {
                // No command has started yet, which the release tells the killer. If it fails, it is tried once more.
                self.claim.may_hold = self.release_row(&[]).is_err();
                let line = format!("{} was ended by {killer}", self.wanted.name);
                return Err(Failure::new(Reason::LockLost, line));
            }
            Err(Fault::Final(failure)) => return Err(failure),
            Ok(Renewal::Unanswered(cause)) => {
                return Ok(Attempt::Retry(
                    self.pause_after(&Fault::Gone(cause), caller),
                ));
            }
            Err(fault) => return Ok(Attempt::Retry(self.pause_after(&fault, caller))),
        };
        caller.on_server(&self.server());
        let (ttl, limit) = (self.wanted.ttl, self.limit());
        if let Some(session) = &mut self.session {
            let _ = session.answer_within(limit);
            self.grant.connection_id = session.handshake_id();
            for statement in (self.spec.on_grant)(slot, self.grant.connection_id) {
                // Running the command matters more than recording this.
                let _ = session.run(&Ask::written(statement));
            }
        }
        Ok(Attempt::Acquired(self.grant, Lease { ttl, proved }))
    }

    /// Renews the row on some server, and returns what the row shows.
    pub(super) fn renew_row(&mut self) -> Result<Renewal, Fault> {
        let is_new = self.session.is_none();
        let session = self.reach()?;
        // The others on a shared session must be renewed, too.
        let patience = if self.shares_session {
            Duration::ZERO
        } else {
            self.limit()
        };
        self.renew_row_on(session, is_new, patience)
    }

    /// `patience`: how long to try again if another session has locked the row.
    fn renew_row_on(
        &mut self,
        mut session: Session,
        is_new: bool,
        patience: Duration,
    ) -> Result<Renewal, Fault> {
        let asking = Asking {
            patience,
            ..Asking::default()
        };
        let next = self.step(|hold, grant| hold.renew(grant, is_new));
        let decided = self.decide(next, Hold::after_renewal, &asking, &mut session);
        let Decided {
            result, sent, rows, ..
        } = match decided {
            Ok(decided) => decided,
            Err(fault) => {
                // In a cluster another node may take what this one has refused.
                let is_needed = !is_new && self.server.queue == Queue::Excludes;
                return Err(self.after_fault(session, fault, is_needed));
            }
        };
        if self.spec.ttl.is_none()
            && let (Some(row), true) = (rows.first(), result != Renewed::Lost)
        {
            self.wanted.ttl = row.ttl;
            self.limit_answers(&session)?;
        }
        let renewal = match result {
            Renewed::Confirmed => Renewal::Confirmed(sent),
            Renewed::Killed => {
                self.of_token.killed_by =
                    rows.first().and_then(|row| row.kill_requested_by.clone());
                self.announce_termination(&mut session);
                let killer = rows.first().and_then(SlotState::killer);
                Renewal::Killed(Box::new(killer.unwrap_or_default()))
            }
            Renewed::Unknown => return Err(overtaken()),
            Renewed::Lost => Renewal::Lost(match rows.first() {
                Some(row) if row.is_owned() => {
                    let (holders, grant) = (self.holders(&rows), self.own_grant());
                    if grant.is_in(row) && grant.has_another_command(row) {
                        self.of_token.other_command = Some(holders.clone());
                    }
                    format!("its row says that it is {holders}")
                }
                Some(_) => "its row says that nobody holds it".to_owned(),
                None => "its row is gone".to_owned(),
            }),
        };
        if is_new && matches!(renewal, Renewal::Confirmed(_)) {
            session.tell(
                Level::Info,
                &format!("holds {} on a new session with {session}", self.wanted.name),
            );
            let killer = self.regain_named_lock(&mut session);
            self.session = Some(session);
            return Ok(killer.map_or(renewal, |killer| Renewal::Killed(Box::new(killer))));
        }
        self.session = Some(session);
        Ok(match renewal {
            Renewal::Confirmed(_) => self
                .seek_named_lock()
                .map_or(renewal, |killer| Renewal::Killed(Box::new(killer))),
            renewal => renewal,
        })
    }

    /// Takes the named lock that another one had when this session was new, if it is free by now. On a shared session its owner does that.
    /// Returns who kills this holder, as [`RowLock::regain_named_lock`].
    fn seek_named_lock(&mut self) -> Option<Client> {
        let is_own = self.spec.kind == HolderKind::Run && !self.shares_session;
        // Once its killer is found, each attempt would announce its end once more, and the release of the row withdraws that twice at most.
        let is_killed = self.server.named_killer.is_some();
        let is_lacking = is_own && !is_killed && self.lacks_named_lock();
        let mut session = self.session.take_if(|_| is_lacking)?;
        let killer = self.regain_named_lock(&mut session);
        self.session = Some(session);
        killer
    }

    /// Takes the decisions about the grant a step further.
    pub(super) fn step<T>(&mut self, step: impl FnOnce(&mut Hold, &OwnGrant) -> T) -> T {
        let mut hold = self.hold;
        let next = step(&mut hold, &self.own_grant());
        self.hold = hold;
        next
    }

    /// Asks the server what comes `next` about the grant, until that is decided.
    fn decide<T>(
        &mut self,
        mut next: Next<T>,
        after: impl Fn(&mut Hold, &OwnGrant, &Answer) -> Next<T>,
        asking: &Asking,
        session: &mut Session,
    ) -> Result<Decided<T>, Fault> {
        let (mut asked, mut sent, mut rows, mut released) = (None, Moment::now(), Vec::new(), None);
        loop {
            let step = match next {
                Next::Ask(step) => step,
                Next::Over(result) => {
                    return Ok(Decided {
                        result,
                        sent,
                        rows,
                        released,
                    });
                }
            };
            // What is sent again keeps its number.
            if asked.replace(step) != Some(step) {
                sent = Moment::now();
                self.next_write_id();
            }
            let answer = self.ask_about_grant(step, asking, sent, session)?;
            next = self.step(|hold, grant| after(hold, grant, &answer));
            match answer {
                Answer::Rows(seen) => rows = seen,
                Answer::Written(_, written) => {
                    (rows, released) = (written.rows, written.released);
                }
                Answer::Refused => {}
            }
        }
    }

    /// Asks one step. A write has the number [`RowLock::write_id`], and was first tried at `begun`.
    fn ask_about_grant(
        &self,
        step: RowStep,
        asking: &Asking,
        begun: Moment,
        session: &mut Session,
    ) -> Result<Answer, Fault> {
        let (write_id, terms) = (self.write_id, self.terms(&asking.also));
        let written = match step {
            RowStep::Look => return session.run(&self.statements.look()).map(Answer::Rows),
            RowStep::LookAt(slot) => {
                let look = self.statements.look_at_slot(slot);
                return session.run(&look).map(Answer::Rows);
            }
            RowStep::RenewUnlessKilled { slot, fence } => {
                let mut renewal = self.statements.quick_renewal(slot, fence, write_id, &terms);
                if !terms.unless_read_only {
                    renewal = renewal.if_it_takes_writes(session.kind());
                }
                match session.run_batch(&renewal) {
                    Err(fault @ Fault::Gone(_)) => return Err(fault),
                    renewed => renewed.ok().map(|has_changed| Written {
                        has_changed,
                        ..Written::default()
                    }),
                }
            }
            RowStep::Write(change) | RowStep::WriteOnly(change) => {
                let write = self.statements.write(change, write_id, &terms);
                let write = write.and_release(asking.release.clone());
                self.try_write(&write, begun, asking.patience, session)?
            }
        };
        Ok(written.map_or(Answer::Refused, |written| {
            Answer::Written(write_id, written)
        }))
    }

    /// Keeps the session, and with it the named lock, which keeps callers without rows out: if that `is_needed`, or others share it, or the
    /// server only has no room for a write. One that has ended, or whose server takes no writes, is not kept. Returns the fault.
    fn after_fault(&mut self, session: Session, fault: Fault, is_needed: bool) -> Fault {
        // What a server has done that takes no writes may be known on the one that does.
        if !session.survives(&fault) {
            self.hold.on_silence();
        } else if is_needed || self.shares_session || matches!(fault, Fault::NoRoom(_)) {
            self.session = Some(session);
        }
        fault
    }

    /// Acquires the named lock again, which keeps callers without rows out. Without it the row stays held all the same. Returns who has
    /// ended the session to kill this holder: a killer that does not see the row asks in no other way.
    pub(super) fn regain_named_lock(&mut self, session: &mut Session) -> Option<Client> {
        if self.server.queue != Queue::Excludes || self.spec.kind != HolderKind::Run {
            if self.server.queue != Queue::None {
                // `dblock kill` finds the session by this lock.
                let _ = Request::mark(&run_lock_of(&self.spec.owner), session);
            }
            return None;
        }
        let announced = self.server.has_announced;
        let until = self.renewal.until;
        let regained = self.request.retake(self.grant, announced, until, session);
        if let Ok(Retake::Held(grant, _)) = regained {
            self.server.named_slot = Some(grant.slot);
            self.grant.connection_id = grant.connection_id;
        }
        if !self.shares_session {
            let _ = self.limit_answers(session);
            // What was announced stays until it is held: a dblock that is granted the slot meanwhile releases it.
            self.server.has_announced = self.server.named_slot.is_none();
            let Ok(Retake::Killed(killer)) = regained else {
                return None;
            };
            self.server.named_killer = Some(killer.connection);
            return Some(killer);
        }
        let (slot, mark) = (self.grant.slot, self.mark());
        self.server.has_announced = self.server.named_slot.is_none();
        if self.server.has_announced {
            // It may have been granted all the same.
            let _ = self.request.release_with(slot, mark.as_deref(), session);
            self.withdraw_announcements(session);
        } else if let Some(mark) = mark {
            let _ = Request::mark(&mark, session);
        }
        None
    }

    /// Reaches a server for the release. On a new session it also looks for a killer that does not see the row, as that waits for an answer
    /// there.
    pub(super) fn reach_to_release(&mut self) -> Result<(), Fault> {
        let is_new = self.session.is_none();
        let mut session = self.reach()?;
        if is_new {
            self.find_named_killer(&mut session);
        }
        self.session = Some(session);
        Ok(())
    }

    fn find_named_killer(&mut self, session: &mut Session) {
        if self.server.queue == Queue::Excludes
            && self.spec.kind == HolderKind::Run
            && !self.shares_session
        {
            let killer = self.request.find_killer(self.grant, None, session);
            self.server.named_killer = killer.ok().flatten().map(|killer| killer.connection);
            // As it was before.
            let _ = self.limit_answers(session);
        }
    }

    /// Withdraws what was announced on a session that lives on: it would keep everybody out.
    pub(super) fn withdraw_announcements(&mut self, session: &mut Session) {
        if self.server.has_announced {
            let slot = self.grant.slot;
            let withdrawn = self.request.withdraw_announcements(slot, session);
            self.server.has_announced = withdrawn.is_err();
        }
    }

    /// The holder is being killed: callers without rows stay out until the command has ended, even if the killer dies.
    fn announce_termination(&mut self, session: &mut Session) {
        // A shared session was not ended, and still has the named lock.
        let keeps_out = self.server.queue == Queue::Excludes && !self.shares_session;
        if keeps_out && !self.server.announces_end {
            let announced = self.request.announce_termination(self.grant.slot, session);
            self.server.announces_end = matches!(announced, Ok(true));
        }
    }

    pub(super) fn own_grant(&self) -> OwnGrant<'_> {
        OwnGrant {
            owner: &self.spec.owner,
            slot: self.grant.slot,
            fence: self.grant.fence,
            command_run: self.spec.command_run.as_deref(),
        }
    }

    /// Releases the row, and then the named lock. `false`: the row belonged to another owner. After a fault it may not be released, or a
    /// killer that does not see the row may not know of the end: another attempt does what is missing.
    pub(super) fn release_row(&mut self, also: &[String]) -> Result<bool, Fault> {
        self.release_row_within(also, self.limit())
    }

    /// As [`RowLock::release_row`]. `patience`: how long to try again if another session has locked what is written.
    pub(super) fn release_row_within(
        &mut self,
        also: &[String],
        patience: Duration,
    ) -> Result<bool, Fault> {
        let next = self.step(Hold::release);
        if let Next::Over(released) = next {
            return Ok(released == Released::Done);
        }
        let mut session = self.reach()?;
        let asking = self.asking_to_release(also, patience);
        let decided = self.decide(next, Hold::after_release, &asking, &mut session);
        let Decided {
            result, released, ..
        } = match decided {
            Ok(decided) => decided,
            Err(fault) => return Err(self.after_fault(session, fault, false)),
        };
        if result == Released::Unknown {
            return Err(overtaken());
        }
        if self.grant.fence.is_none() {
            self.claim.may_hold = false;
        }
        if let Err(fault) = self.after_release(released, &mut session) {
            self.hold.may_be_released |= result == Released::Done;
            return Err(fault);
        }
        self.session = Some(session);
        Ok(result == Released::Done)
    }

    fn asking_to_release(&self, also: &[String], patience: Duration) -> Asking {
        let ending = self.ending();
        // In the same packet: a waiter for the named lock then has nothing else to wait for.
        let release = match (self.server.named_slot, ending.is_some()) {
            (Some(named), _) => {
                let mark = self.mark().or(ending);
                Some(self.request.release_statement(named, mark.as_deref()))
            }
            (None, true) => Some(self.request.finish_termination_statement(self.grant.slot)),
            (None, false) => None,
        };
        Asking {
            also: [also, &self.on_end_of_grant()].concat(),
            release,
            patience,
        }
    }

    /// The lock by which the end of the command is announced, if it is released with the row. A killer that does not see the row is told of
    /// the end first.
    fn ending(&self) -> Option<String> {
        let goes_with_row = self.server.announces_end && self.server.named_killer.is_none();
        let name = &self.wanted.name;
        goes_with_row.then(|| name.termination_on_server(self.grant.slot))
    }

    /// The write of a release with this lock's statements, the named lock and these statements of others.
    pub(super) fn releasing(&self, change: Change, also: &[String]) -> Write {
        let asking = self.asking_to_release(also, Duration::ZERO);
        let write = self
            .statements
            .write(change, self.write_id, &self.terms(&asking.also));
        write.and_release(asking.release)
    }

    /// The row is released, and the named lock: tells a killer that does not see the row, and wakes the head of the queue, if there is one.
    ///
    /// # Errors
    /// [`Fault::Gone`]: that killer may not know.
    pub(super) fn after_release(
        &mut self,
        released: Option<NamedRelease>,
        session: &mut Session,
    ) -> Result<(), Fault> {
        let is_finished = released.is_some() && self.ending().is_some();
        let named = self.server.named_slot.take();
        let told = match self.server.named_killer.take() {
            Some(killer) => self.request.ack_kill(self.grant.slot, killer, session),
            None => Ok(()),
        };
        // The session would keep others out until it ends, a moment after the program.
        if std::mem::take(&mut self.server.announces_end) && !is_finished {
            let _ = self.request.finish_termination(self.grant.slot, session);
        }
        self.withdraw_announcements(session);
        match (released, named) {
            (Some(NamedRelease { queue_head }), _) => {
                if queue_head.is_some() {
                    // If this account may not wake the head, the head checks again by itself.
                    let _ = self.request.wake(session);
                }
            }
            // Somebody has ended that statement: on a session that lives on it would keep everybody out.
            (None, Some(named)) => {
                let mark = self.mark();
                let _ = self.request.release_with(named, mark.as_deref(), session);
            }
            (None, None) => {}
        }
        match told {
            Err(fault @ Fault::Gone(_)) => Err(fault),
            // Another session would be refused, too.
            _ => Ok(()),
        }
    }

    /// The statements of this lock in the transaction of its release.
    fn on_end_of_grant(&self) -> Vec<String> {
        let Grant { slot, fence, .. } = self.grant;
        match (fence, &self.of_token.killed_by) {
            (None, _) => self.spec.on_withdrawal.clone(),
            (Some(fence), Some(killer))
                if !self.hold.is_the_scripts && self.spec.kind == HolderKind::TokenRun =>
            {
                let record = (self.spec.on_token_end)(&self.spec.owner, TokenEnd::Killed(killer));
                vec![self.statements.if_own(&record, slot, fence)]
            }
            (Some(_), _) => Vec::new(),
        }
    }

    /// A script holds the lock from now on: its row stays held, and the named lock and the session are not needed.
    pub fn hand_over(&mut self) {
        if let (Some(named), Some(session)) = (self.server.named_slot.take(), &mut self.session) {
            let _ = self.request.release(named, session);
        }
    }

    /// Releases a grant that the caller does not know of, or what may be one, in one transaction with these statements of others. Ends
    /// the session. Returns whether a server has done it.
    pub fn withdraw(&mut self, also: &[String]) -> bool {
        let is_done = self.release_row(also).is_ok();
        self.session = None;
        is_done
    }

    /// Makes one attempt to release a script's lock. Returns how long to wait before the next, if it failed.
    ///
    /// # Errors
    /// [`Reason::LockLost`]: it was no longer held, so no further attempt will help.
    pub fn release_token(
        &mut self,
        caller: &dyn Caller,
        also: &[String],
    ) -> Result<Option<Duration>, Failure> {
        if let Some((slot, fence)) = self.spec.token.take() {
            self.hold.is_the_scripts = false;
            self.grant = Grant {
                slot,
                fence: Some(fence),
                ..Grant::default()
            };
        }
        match self.release_row(also) {
            Ok(was_held) => {
                caller.on_server(&self.server());
                let line = format!("the token does not hold {} any more", self.wanted.name);
                let lost = Failure::new(Reason::LockLost, line);
                was_held.then_some(None).ok_or(lost)
            }
            Err(Fault::Final(failure)) => Err(failure),
            Err(fault) => Ok(Some(self.pause_after(&fault, caller))),
        }
    }

    /// How long to wait after a round of all servers has failed. Tells the caller if that was because they are read-only.
    fn pause_after(&mut self, fault: &Fault, caller: &dyn Caller) -> Duration {
        self.attempts.report_locked_row(fault, caller);
        self.attempts.report_read_only(fault, caller);
        self.connector.pause()
    }
}

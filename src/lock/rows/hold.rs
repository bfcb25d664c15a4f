//! Holding a row: renewing it, on a new session if the old one is lost, and releasing it.

use std::time::Duration;

use super::change::Change;
use super::holding::{Holding, Released, Renewed, after_release_of_any};
use super::row_lock::{Queue, RowLock, gone};
use super::state::SlotState;
use super::statements::Written;
use super::token_end::TokenEnd;
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::base::log::Level;
use crate::db::{Ask, Fault, Session};
use crate::lock::named::Request;
use crate::lock::{Attempt, Backend, Caller, Grant, HolderKind, Lease, Renewal, run_lock_of};

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
        let proved = match self.renew_row() {
            Ok(Renewal::Confirmed(proved)) => proved,
            Ok(Renewal::Lost(cause)) => {
                if let Some(holders) = self.of_token.other_command.take() {
                    return Ok(Attempt::Taken(holders));
                }
                let line = format!("the token does not hold {} any more: {cause}", self.name);
                return Err(Failure::new(Reason::LockLost, line));
            }
            Ok(Renewal::Killed(killer)) => {
                // No command has started yet.
                let _ = self.release_row(&[]);
                let line = format!("{} was ended by {killer}", self.name);
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
        let ttl = self.ttl;
        if let Some(session) = &mut self.session {
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
        let mut session = self.reach()?;
        let Grant { slot, fence, .. } = self.grant;
        let fence = fence.unwrap_or_default();
        if !is_new && self.spec.token.is_none() {
            let (sent, write_id) = (Moment::now(), self.next_write_id());
            let terms = self.terms(&[]);
            let renewal = self.statements.quick_renewal(slot, fence, write_id, &terms);
            // For any other outcome the longer way finds the reason.
            match session.change(&renewal) {
                Ok(1) => {
                    self.doubt.may_be_released = false;
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
        // The others on a shared session must be renewed, too.
        let patience = if self.shares_session {
            Duration::ZERO
        } else {
            self.limit()
        };
        let rows = match self.write_through(&write, patience, &mut session) {
            Ok(written) => written.rows,
            Err(fault) => return Err(self.keep_where_full(session, fault)),
        };
        let renewed = self.holding(fence).after_renewal(&rows, write_id);
        if self.spec.ttl.is_none()
            && let (Some(row), false) = (rows.first(), matches!(renewed, Renewed::Lost(_)))
        {
            self.ttl = row.ttl;
            session.answer_within(self.limit()).map_err(gone)?;
        }
        let renewal = match renewed {
            Renewed::Confirmed => {
                self.doubt.may_be_released = false;
                Renewal::Confirmed(sent)
            }
            Renewed::Killed => {
                self.of_token.killed_by =
                    rows.first().and_then(|row| row.kill_requested_by.clone());
                self.announce_termination(&mut session);
                let killer = rows.first().and_then(SlotState::killer);
                Renewal::Killed(Box::new(killer.unwrap_or_default()))
            }
            Renewed::Unknown => {
                let line = "an older write was carried out last";
                return Err(Fault::Gone(line.to_owned()));
            }
            Renewed::Lost(Some(row)) if row.is_owned() => {
                let holders = self.holders(&rows);
                let holding = self.holding(fence);
                let is_own = row.owner.as_deref() == Some(holding.owner) && row.fence == fence;
                if is_own && holding.has_another_command(row) {
                    self.of_token.other_command = Some(holders.clone());
                }
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

    /// Keeps the session if the server only has no room for a write, and with it the named lock, which keeps callers without rows out. One
    /// that others share is kept unless it has ended. Returns the fault.
    fn keep_where_full(&mut self, session: Session, fault: Fault) -> Fault {
        let is_over = matches!(fault, Fault::Gone(_));
        if matches!(fault, Fault::NoRoom(_)) || self.shares_session && !is_over {
            self.session = Some(session);
        }
        fault
    }

    /// Acquires the named lock again, which keeps callers without rows out. Without it the row stays held all the same.
    pub(super) fn regain_named_lock(&mut self, session: &mut Session) {
        if self.server.queue != Queue::Excludes || self.spec.kind != HolderKind::Run {
            if self.server.queue != Queue::None {
                // `dblock kill` finds the session by this lock.
                let _ = Request::mark(&run_lock_of(&self.spec.owner), session);
            }
            return;
        }
        let announced = self.server.has_announced;
        let regained = self.request.retake(self.grant, announced, session);
        if let Ok(crate::lock::named::Retake::Held(grant, _)) = regained {
            self.server.named_slot = Some(grant.slot);
            self.grant.connection_id = grant.connection_id;
        }
        if !self.shares_session {
            let _ = session.answer_within(self.limit());
            return;
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
    }

    /// Withdraws what was announced on a session that lives on: it would keep everybody out.
    pub(super) fn withdraw_announcements(&mut self, session: &mut Session) {
        if self.server.has_announced {
            let slot = self.grant.slot;
            let withdrawn = self.request.withdraw_announcements(slot, session);
            self.server.has_announced = withdrawn.is_err();
        }
    }

    /// The holder is being killed: callers without rows stay out until the command has ended, even if the killer dies. A script does not
    /// get its lock back.
    fn announce_termination(&mut self, session: &mut Session) {
        self.spec.token = None;
        // A shared session was not ended, and still has the named lock.
        if self.server.queue == Queue::Excludes && !self.shares_session {
            let _ = self.request.announce_termination(self.grant.slot, session);
        }
    }

    fn holding(&self, fence: u64) -> Holding<'_> {
        Holding {
            owner: &self.spec.owner,
            slot: self.grant.slot,
            fence,
            command_run: self.spec.command_run.as_deref(),
        }
    }

    /// Whether a script has the lock, and this run has not taken it over. Then the script keeps it.
    pub(super) fn is_the_scripts(&self) -> bool {
        self.grant.fence.is_none() && self.spec.token.is_some()
    }

    /// Releases the row, and then the named lock. `false`: the row belonged to another owner.
    pub(super) fn release_row(&mut self, also: &[String]) -> Result<bool, Fault> {
        self.release_row_within(also, self.limit())
    }

    /// As [`RowLock::release_row`]. `patience`: how long to try again if another session has locked what is written.
    pub(super) fn release_row_within(
        &mut self,
        also: &[String],
        patience: Duration,
    ) -> Result<bool, Fault> {
        let Grant { slot, fence, .. } = self.grant;
        if self.is_the_scripts() {
            return Ok(true);
        }
        let mut session = self.reach()?;
        let mut also = also.to_vec();
        if fence.is_none() {
            also.extend_from_slice(&self.spec.on_withdrawal);
        }
        if let (Some(fence), true, Some(killer)) =
            (fence, self.spec.token.is_none(), &self.of_token.killed_by)
            && self.spec.kind == HolderKind::TokenRun
        {
            let record = (self.spec.on_token_end)(&self.spec.owner, TokenEnd::Killed(killer));
            also.push(self.statements.if_own(&record, slot, fence));
        }
        let write_id = self.next_write_id();
        let change = Change::giving_back(slot, fence, self.spec.token.is_some());
        let write = self.statements.write(change, write_id, &self.terms(&also));
        // In the same packet: a waiter for the named lock then has nothing else to wait for.
        let mark = self.mark();
        let named = self
            .server
            .named_slot
            .map(|named| self.request.release_statement(named, mark.as_deref()));
        let write = write.and_release(named);
        let Written {
            rows,
            has_changed,
            queue_head,
            ..
        } = match self.write_through(&write, patience, &mut session) {
            Ok(written) => written,
            Err(fault) => {
                self.doubt.may_be_released |= matches!(fault, Fault::Gone(_));
                return Err(self.keep_where_full(session, fault));
            }
        };
        let released = match fence {
            None => {
                self.doubt.may_hold = false;
                after_release_of_any(&rows, &self.spec.owner)
            }
            Some(_) if has_changed => Released::Done,
            Some(fence) => {
                let rows = session.run(&self.statements.look_at_slot(slot))?;
                let holding = self.holding(fence);
                holding.after_release(&rows, write_id, self.doubt.may_be_released)
            }
        };
        if released == Released::Unknown {
            let line = "an older write was carried out last";
            return Err(Fault::Gone(line.to_owned()));
        }
        self.server.named_slot = None;
        self.withdraw_announcements(&mut session);
        if let Some(head) = queue_head {
            // If this account may not wake the head, the head checks again by itself.
            let _ = Request::wake(head, &mut session);
        }
        self.session = Some(session);
        Ok(released == Released::Done)
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
            self.grant = Grant {
                slot,
                fence: Some(fence),
                ..Grant::default()
            };
        }
        match self.release_row(also) {
            Ok(was_held) => {
                caller.on_server(&self.server());
                let line = format!("the token does not hold {} any more", self.name);
                let lost = Failure::new(Reason::LockLost, line);
                was_held.then_some(None).ok_or(lost)
            }
            Err(Fault::Final(failure)) => Err(failure),
            Err(fault) => Ok(Some(self.pause_after(&fault, caller))),
        }
    }

    /// How long to wait after a round of all servers has failed. Tells the caller if that was because they are read-only.
    fn pause_after(&mut self, fault: &Fault, caller: &dyn Caller) -> Duration {
        self.report_locked_row(fault, caller);
        self.report_read_only(fault, caller);
        self.connector.pause()
    }
}

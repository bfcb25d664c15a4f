//! Replaces a keeper that ends early.

use super::super::keeper::{self, Work};
use super::super::message::{FromKeeper, ToKeeper};
use super::super::task::Task;
use super::Supervisor;
use crate::base::exit::Failure;
use crate::isolated::restarts::Replacement;
use crate::lock::{Grant, OnLockLost};

impl Supervisor<'_> {
    /// The grant, if it outlives its keeper.
    pub(super) fn grant_that_outlives(&self) -> Option<Grant> {
        self.grant.filter(|_| self.is_durable())
    }

    /// Schedules a replacement for the keeper that has ended. `false`: there is none, and that was reported.
    pub(super) fn schedule_keeper(&mut self) -> bool {
        let is_durable = self.is_durable();
        let replacement = self.runner.peer.restarts.schedule();
        let end = self.runner.peer.how_it_ended();
        let log = self.runner.log;
        match replacement {
            // The loss of any other lock was reported before.
            Replacement::Soon if is_durable => {
                log.info(format_args!("{end}; another one goes on"));
            }
            Replacement::Soon | Replacement::AfterFault => {}
            Replacement::Never => {
                let besides = if is_durable {
                    // The command may end by itself before the lease is over.
                    "the lock is not renewed any more"
                } else {
                    "ending the command"
                };
                log.error(format_args!("{end}, again and again; {besides}"));
            }
        }
        replacement != Replacement::Never
    }

    /// Starts another keeper, which reacquires the slot, for the command if it still runs. Without a grant it only releases what the one
    /// before may have been granted.
    pub(super) fn replace_keeper(&mut self) -> Result<(), Failure> {
        let Some(grant) = self.grant else {
            return self.start_withdrawing_keeper();
        };
        let task = Task {
            tick: self.record.tick.as_deref(),
            ..self.job.task(self.run_id, false, self.runner.log.shown)
        };
        let work = Work::Resume(task, grant, self.lock.lease());
        let keeper = keeper::fork_off(work, self.runner.board)?;
        self.runner.peer.replace(keeper);
        self.keeper.claims = false;
        Ok(())
    }

    /// The command runs without the lock, and the keeper has ended. If that may have left a row behind, another one releases it, as it
    /// would keep others out for the TTL.
    pub(super) fn schedule_withdrawal(&mut self) {
        let leaves_row = self.may_leave_row();
        let peer = &mut self.runner.peer;
        if leaves_row && !peer.is_there() && !peer.restarts.on_death() {
            let end = peer.how_it_ended();
            self.leave_row(&format!("{end}, again and again"));
        }
    }

    /// Whether a keeper may have been granted a row for a command that runs without the lock, and has not released it.
    pub(super) fn may_leave_row(&self) -> bool {
        let tables = self.job.tables.as_ref();
        // The row of a token is the script's.
        let is_own_row = tables.is_some_and(|tables| tables.durable && tables.token.is_none());
        self.keeper.is_dismissed && self.keeper.claims && is_own_row
    }

    /// No keeper releases that row any more, which is said once.
    pub(super) fn leave_row(&mut self, cause: &str) {
        self.keeper.claims = false;
        let name = &self.job.lock.name;
        self.runner.log.warning(format_args!(
            "{cause}; if {name} was granted, it is free when the TTL is over"
        ));
    }

    /// Starts a keeper that only releases what the one before may have been granted.
    fn start_withdrawing_keeper(&mut self) -> Result<(), Failure> {
        let task = self.job.task(self.run_id, false, self.runner.log.shown);
        let work = Work::AcquireAgain(task, self.record.requested, true);
        let keeper = keeper::fork_off(work, self.runner.board)?;
        self.runner.peer.replace(keeper);
        self.runner.peer.send(ToKeeper::Release(None));
        Ok(())
    }

    /// No keeper can hold the lock until this fault is over. Reports each fault once.
    pub(super) fn on_keeper_fault(&mut self, failure: &Failure) {
        if !self.runner.peer.restarts.note_fault(failure) {
            return;
        }
        if self.replaces_keepers() {
            self.runner
                .log
                .error(format_args!("{failure}; trying again"));
        } else {
            // What follows is reported with the keeper's end.
            self.runner.log.error(failure);
        }
    }

    /// Whether a keeper that ends is replaced while the command runs.
    pub(super) fn replaces_keepers(&self) -> bool {
        self.is_durable() || self.job.lock.on_lost == OnLockLost::Reacquire
    }

    /// A keeper holds the lock again, so the fault is over.
    pub(super) fn note_keeper_works(&mut self, message: &FromKeeper) {
        if !matches!(message, FromKeeper::Held(..) | FromKeeper::Confirmed(_)) {
            return;
        }
        if self.runner.peer.restarts.end_fault() {
            let name = &self.job.lock.name;
            self.runner
                .log
                .warning(format_args!("{name} is renewed again"));
        }
    }
}

//! Replaces a keeper that ends early.

use super::Supervisor;
use super::phase::Phase;
use crate::base::exit::Failure;
use crate::base::processes::Processes;
use crate::isolated::restarts::Replacement;
use crate::keeper::message::FromKeeper;
use crate::keeper::{self, Task, Work};
use crate::lock::{Grant, OnLockLost};

impl Supervisor<'_> {
    /// The grant, if it outlives its keeper.
    pub(super) fn grant_that_outlives(&self) -> Option<Grant> {
        self.grant.filter(|_| self.is_durable())
    }

    /// Schedules a replacement for the keeper that has ended. `false`: there is none, and that was reported.
    pub(super) fn schedule_keeper(&mut self) -> bool {
        let is_durable = self.is_durable();
        let replacement = self.keeper.restarts.schedule();
        let end = self.keeper.how_it_ended();
        match replacement {
            // The loss of any other lock was reported before.
            Replacement::Soon if is_durable => {
                self.log.info(format_args!("{end}; another one goes on"));
            }
            Replacement::Soon | Replacement::AfterFault => {}
            Replacement::Never => {
                let besides = if is_durable {
                    // The command may end by itself before the lease is over.
                    "the lock is not renewed any more"
                } else {
                    "ending the command"
                };
                self.log
                    .error(format_args!("{end}, again and again; {besides}"));
            }
        }
        replacement != Replacement::Never
    }

    /// Starts the keeper that is due.
    pub(super) fn replace_due_keeper(&mut self, phase: Phase) -> Phase {
        if !self.keeper.restarts.take_due() {
            return phase;
        }
        let phase = match phase {
            Phase::Acquiring(acquiring) => return self.ask_again(acquiring),
            Phase::Releasing(releasing) => {
                self.start_releasing_keeper(&releasing);
                return Phase::Releasing(releasing);
            }
            phase => phase,
        };
        let command = match &phase {
            Phase::Running(running) => Some(running.command.child.processes),
            Phase::Terminating(terminating) => Some(terminating.command.child.processes),
            _ => None,
        };
        if let Some(grant) = self.grant
            && let Err(failure) = self.replace_keeper(grant, command)
        {
            self.on_keeper_fault(&failure);
            self.schedule_keeper();
        }
        phase
    }

    /// Starts another keeper, which reacquires the slot, for the command if it still runs.
    pub(super) fn replace_keeper(
        &mut self,
        grant: Grant,
        command: Option<Processes>,
    ) -> Result<(), Failure> {
        let task = Task {
            tick: self.record.tick.as_deref(),
            ..self.job.task(self.run_id, false, self.log.shown)
        };
        self.keeper.take_over(keeper::fork_off(Work::Resume(
            task,
            grant,
            self.lock.lease(),
            command,
        ))?);
        Ok(())
    }

    /// No keeper can hold the lock until this fault is over. Reports each fault once.
    pub(super) fn on_keeper_fault(&mut self, failure: &Failure) {
        if !self.keeper.restarts.note_fault(failure) {
            return;
        }
        if self.replaces_keepers() {
            self.log.error(format_args!("{failure}; trying again"));
        } else {
            // What follows is reported with the keeper's end.
            self.log.error(failure);
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
        if self.keeper.restarts.end_fault() {
            let name = &self.job.lock.name;
            self.log.warning(format_args!("{name} is renewed again"));
        }
    }
}

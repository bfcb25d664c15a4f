//! Replaces a keeper that ends early. Pauses where no keeper can live, and reports each cause once.

use super::Supervisor;
use super::keeper_link::unexplained_end;
use super::phase::Phase;
use crate::base::clock::Moment;
use crate::base::exit::{Ending, Failure};
use crate::base::processes::Processes;
use crate::isolated::restarts::Restarts;
use crate::keeper::message::{FromKeeper, ToKeeper};
use crate::keeper::{self, Task, Work};
use crate::lock::{Grant, OnLockLost};

/// What is known of the keepers that ended early.
pub struct Replacing {
    restarts: Restarts,
    /// Since when no keeper can hold the lock, and the reason that was reported last.
    fault: Option<(Moment, String)>,
    /// Whether a replacement finds out who holds the lock when it is taken.
    pub names_holders: bool,
    /// Whether a keeper that has died was told to release the lock. The server may have carried that out.
    pub may_be_released: bool,
}

impl Replacing {
    /// The first keeper is started now.
    pub fn begin(names_holders: bool) -> Self {
        Self {
            restarts: Restarts::begin(),
            fault: None,
            names_holders,
            may_be_released: false,
        }
    }

    /// When the next keeper is started.
    pub fn next(&self) -> Option<Moment> {
        self.restarts.next
    }

    /// A keeper has died without giving a reason. `true`: another one is started soon.
    pub fn on_death(&mut self) -> bool {
        self.restarts.on_death()
    }

    /// Schedules a replacement for a keeper that ended this way. Returns how it ended, unless a known fault explains that. The error: too
    /// many have ended like this, and there is no other.
    pub fn schedule(&mut self, end: Option<Ending>) -> Result<Option<String>, String> {
        if let Some((since, _)) = self.fault {
            self.restarts.on_fault(since);
            return Ok(None);
        }
        let end = unexplained_end(end);
        if self.restarts.on_death() {
            Ok(Some(end))
        } else {
            Err(end)
        }
    }

    /// Notes why no keeper can hold the lock. `false`: that was reported before.
    pub fn note_fault(&mut self, failure: &Failure) -> bool {
        let (since, known) = self.fault.take().unzip();
        let is_new = known.as_ref() != Some(&failure.line);
        let since = since.unwrap_or_else(Moment::now);
        self.fault = Some((since, failure.line.clone()));
        is_new
    }

    /// Cancels a pending restart.
    pub fn cancel(&mut self) {
        self.restarts.next = None;
    }

    /// The command has ended: cancels a pending restart, and counts deaths anew.
    pub fn begin_anew(&mut self) {
        self.restarts.on_success();
        self.cancel();
    }

    /// The next keeper is started at once.
    pub fn start_now(&mut self) {
        self.restarts.next = Some(Moment::now());
    }
}

impl Supervisor<'_> {
    /// The grant, if it outlives its keeper.
    pub(super) fn grant_that_outlives(&self) -> Option<Grant> {
        self.grant.filter(|_| self.is_durable())
    }

    /// Schedules a replacement for the keeper that ended this way. `false`: there is none, and that was reported.
    pub(super) fn schedule_keeper(&mut self, end: Option<Ending>) -> bool {
        let is_durable = self.is_durable();
        match self.replacing.schedule(end) {
            // The loss of any other lock was reported before.
            Ok(Some(end)) if is_durable => {
                self.log.info(format_args!("{end}; another one goes on"));
            }
            Ok(_) => {}
            Err(end) => {
                let besides = if is_durable {
                    // The command may end by itself before the lease is over.
                    "the lock is not renewed any more"
                } else {
                    "ending the command"
                };
                self.log
                    .error(format_args!("{end}, again and again; {besides}"));
                return false;
            }
        }
        true
    }

    /// Starts the keeper that is due.
    pub(super) fn replace_due_keeper(&mut self, phase: Phase) -> Phase {
        if !self.replacing.restarts.is_due() {
            return phase;
        }
        self.replacing.restarts.restart();
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
            self.schedule_keeper(None);
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
            tick: self.tick.as_deref(),
            ..self.job.task(self.run_id, false, self.log.shown)
        };
        self.keeper.replace(keeper::fork_off(Work::Resume(
            task,
            grant,
            self.lock.lease(),
            command,
        ))?);
        if self.record.is_interrupted {
            self.keeper.send(&ToKeeper::Interrupt);
        }
        Ok(())
    }

    /// No keeper can hold the lock until this fault is over. Reports each fault once.
    pub(super) fn on_keeper_fault(&mut self, failure: &Failure) {
        if !self.replacing.note_fault(failure) {
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
        if self.replacing.fault.take().is_some() {
            let name = &self.job.lock.name;
            self.log.warning(format_args!("{name} is renewed again"));
        }
    }
}

//! Ending the command: SIGTERM, then SIGKILL. dblock goes on only when all of the command's group is gone.

use super::Supervisor;
use super::event::{Event, is_over};
use super::lock_state::LockState;
use super::phase::{Cause, Phase, Running, Terminating};
use crate::lock::OnLockLost;

impl Supervisor<'_> {
    pub(super) fn begin_termination(&mut self, running: Running, cause: Cause) -> Phase {
        let Running {
            mut command,
            hold_until,
            ..
        } = running;
        // A command that ignores SIGTERM must be gone before another host may get the lock.
        let lease = self.lock.lease();
        let lease = lease.filter(|_| self.job.lock.on_lost != OnLockLost::Ignore);
        if !command.end(cause, lease) {
            self.log
                .warning("cannot end the command: it runs as another user; waiting for its end");
        }
        Phase::Terminating(Terminating {
            command,
            cause,
            hold_until,
        })
    }

    pub(super) fn on_event_terminating(&mut self, terminating: Terminating, event: Event) -> Phase {
        match event {
            Event::Signal(received) => self.on_signal(received, &terminating.command.child),
            Event::Message(message) => {
                self.on_message(message);
            }
            Event::KeeperGone => {
                self.keeper.reap();
                if self.grant_that_outlives().is_some() {
                    self.schedule_keeper();
                }
            }
            Event::Deadline => {}
        }
        Phase::Terminating(terminating)
    }

    pub(super) fn end_terminating(&mut self, terminating: Terminating) -> Phase {
        let Terminating {
            command,
            cause,
            hold_until,
        } = terminating;
        if cause == Cause::LeaseOver {
            while let Some(message) = self.pending_message() {
                self.on_message(message);
            }
            // Unless the lock was renewed since, there is nothing to release.
            if !self.lock.is_held() || is_over(self.lease_over()) {
                self.lock = LockState::None;
            }
        }
        self.finish_command(command, hold_until, Ok(cause))
    }
}

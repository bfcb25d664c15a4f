//! Ending the command: SIGTERM, then SIGKILL. dblock goes on only when all of the command's group is gone.

use super::Supervisor;
use super::event::{Event, is_over};
use super::lock_state::LockState;
use super::phase::{Cause, Command, Phase, Terminating};
use super::termination::Termination;
use crate::base::clock::Moment;
use crate::base::exit::Ending;
use crate::lock::OnLockLost;

impl Supervisor<'_> {
    pub(super) fn begin_termination(&mut self, command: Command, cause: Cause) -> Phase {
        let now = Moment::now();
        let kill_after = match (self.lock, self.job.lock.on_lost) {
            // A command that ignores SIGTERM must be gone before another host may get the lock.
            (LockState::Held(lease) | LockState::Lost(_, lease), policy)
                if policy != OnLockLost::Ignore =>
            {
                lease
                    .kill_after(self.job.kill_after)
                    .min(lease.over().since(now))
            }
            _ => self.job.kill_after,
        };
        let (termination, may_signal) = Termination::begin(&command.child, kill_after);
        if !may_signal {
            self.log
                .warning("cannot end the command: it runs as another user; waiting for its end");
        }
        Phase::Terminating(Terminating {
            command,
            cause,
            termination,
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
            termination,
            ..
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
        // As timeout(1) does, also when somebody else sent the command's SIGKILL.
        let killed =
            termination.killed || command.child.ended() == Some(Ending::Signal(libc::SIGKILL));
        self.finish_command(command, Ok(cause), killed)
    }
}

//! Ending the command: SIGTERM, then SIGKILL. All of its group must be gone before dblock says so.

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
            // One that ignores SIGTERM is gone before another host may have the lock.
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
                let end = self.keeper.reap();
                let command = terminating.command.child.processes;
                if let Some(grant) = self.grant_that_outlives(end) {
                    let _ = self.replace_keeper(grant, Some(command));
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
            // Unless it was renewed since there is nobody to take it back from us.
            if !self.lock.is_held() || is_over(self.lease_over()) {
                self.lock = LockState::None;
            }
        }
        // As timeout(1) has it, also when the command's SIGKILL came from elsewhere.
        let killed =
            termination.killed || command.child.ended() == Some(Ending::Signal(libc::SIGKILL));
        self.finish_command(command, Ok(cause), killed)
    }
}

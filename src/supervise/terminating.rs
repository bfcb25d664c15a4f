//! Ending the command: SIGTERM, then SIGKILL. All of its group must be gone before dblock says so.

use std::time::Duration;

use super::Supervisor;
use super::event::{Event, is_over};
use super::lock_state::LockState;
use super::phase::{Cause, Command, Phase, Terminating};
use crate::base::clock::Moment;
use crate::base::exit::Ending;
use crate::lock::OnLockLost;

/// From one look at a group that is ending to the next: the first, and at most.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
const LOOK_AGAIN_AT_MOST: Duration = Duration::from_secs(1);

/// The same before SIGKILL: whoever waits for the lock waits for this, too.
const LOOK_AGAIN_IN_GRACE: Duration = Duration::from_millis(100);

impl Supervisor<'_> {
    pub(super) fn begin_termination(&mut self, command: Command, cause: Cause) -> Phase {
        let processes = command.child.processes;
        if !processes.signal(libc::SIGTERM) {
            self.log
                .warning("cannot end the command: it runs as another user; waiting for its end");
        }
        // A stopped process takes SIGTERM only when it is continued.
        processes.signal(libc::SIGCONT);
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
        let kill_at = now + kill_after;
        Phase::Terminating(Terminating {
            command,
            cause,
            kill_at,
            kill_sent: false,
            // Without a time for SIGTERM the code does not depend on which of the two came first.
            killed: kill_after.is_zero() && processes.signal(libc::SIGKILL),
            pause: LOOK_AGAIN,
            look_again: kill_at,
            stopped: false,
        })
    }

    /// Whether the command and its group are gone; otherwise sends SIGKILL when it is due, and sets the next look.
    pub(super) fn check_terminating(terminating: &mut Terminating) -> bool {
        let child = &terminating.command.child;
        let has_ended = child.ended().is_some();
        if has_ended && !child.processes.alive() {
            return true;
        }
        let kill_now = is_over(Some(terminating.kill_at));
        if kill_now {
            // From the first one on the end is near; but one that may not be killed can take hours.
            if !std::mem::replace(&mut terminating.kill_sent, true) {
                terminating.pause = LOOK_AGAIN;
            }
            terminating.killed |= child.processes.signal(libc::SIGKILL);
        }
        // The ends of the command's own children are not announced to us.
        terminating.look_again = if kill_now || child.ended().is_some() {
            let most = if kill_now {
                LOOK_AGAIN_AT_MOST
            } else {
                LOOK_AGAIN_IN_GRACE
            };
            terminating.pause = (2 * terminating.pause).min(most);
            let then = Moment::now() + terminating.pause;
            if kill_now {
                then
            } else {
                then.min(terminating.kill_at)
            }
        } else {
            terminating.kill_at
        };
        false
    }

    pub(super) fn on_event_terminating(
        &mut self,
        mut terminating: Terminating,
        event: Event,
    ) -> Phase {
        match event {
            Event::Signal(received) => self.on_signal(
                received,
                &terminating.command.child,
                &mut terminating.stopped,
            ),
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
            killed,
            ..
        } = terminating;
        if cause == Cause::LeaseOver {
            // There is nobody to take it back from us.
            self.lock = LockState::None;
        }
        // As timeout(1) has it, also when the command's SIGKILL came from elsewhere.
        let killed = killed || command.child.ended() == Some(Ending::Signal(libc::SIGKILL));
        self.finish_command(command, Ok(cause), killed)
    }
}

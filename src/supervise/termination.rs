//! Ending a command: SIGTERM, then SIGKILL, then checks until all of its group is gone.

use std::time::Duration;

use super::child::Child;
use crate::base::clock::{Moment, is_over};

/// How often a group that is ending is checked: the first pause, and the longest.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
const LOOK_AGAIN_AT_MOST: Duration = Duration::from_secs(1);

/// The longest pause before SIGKILL: waiters for the lock wait for this, too.
const LOOK_AGAIN_IN_GRACE: Duration = Duration::from_millis(100);

/// A command that is being ended.
pub struct Termination {
    /// When SIGKILL is sent.
    pub kill_at: Moment,
    kill_sent: bool,
    /// Whether SIGKILL was delivered.
    pub killed: bool,
    /// The pause before the next check of the command's group.
    pause: Duration,
    /// When the next check is due.
    pub look_again: Moment,
}

impl Termination {
    /// Sends SIGTERM; SIGKILL follows at this moment. The second value: whether this user may signal the command.
    pub fn begin(child: &Child, kill_at: Moment) -> (Self, bool) {
        let may_signal = child.signal(libc::SIGTERM);
        // A stopped process handles SIGTERM only when it is continued.
        child.signal(libc::SIGCONT);
        let termination = Self {
            kill_at,
            kill_sent: false,
            // With no time for SIGTERM, both go out now, and the exit code does not depend on which arrived first.
            killed: is_over(Some(kill_at)) && child.signal(libc::SIGKILL),
            pause: LOOK_AGAIN,
            look_again: kill_at,
        };
        (termination, may_signal)
    }

    /// SIGKILL follows at this moment, or before.
    pub fn kill_by(&mut self, kill_at: Moment) {
        if kill_at < self.kill_at {
            self.kill_at = kill_at;
            self.look_again = self.look_again.min(kill_at);
        }
    }

    /// Whether the command and its group are gone. If not, sends SIGKILL when that is due, and sets the next check.
    pub fn check(&mut self, child: &Child) -> bool {
        if child.is_gone() {
            return true;
        }
        let has_ended = child.ended().is_some();
        let kill_now = is_over(Some(self.kill_at));
        if kill_now {
            // After the first SIGKILL the end is near, but a process that may not be killed can take hours.
            if !std::mem::replace(&mut self.kill_sent, true) {
                self.pause = LOOK_AGAIN;
            }
            self.killed |= child.signal(libc::SIGKILL);
        }
        // dblock gets no SIGCHLD for the command's own children.
        self.look_again = if kill_now || has_ended {
            let most = if kill_now {
                LOOK_AGAIN_AT_MOST
            } else {
                LOOK_AGAIN_IN_GRACE
            };
            self.pause = (2 * self.pause).min(most);
            let then = Moment::now() + self.pause;
            if kill_now {
                then
            } else {
                then.min(self.kill_at)
            }
        } else {
            self.kill_at
        };
        false
    }
}

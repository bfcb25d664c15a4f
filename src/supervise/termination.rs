//! Ending a command: SIGTERM, then SIGKILL, and looks at its group until all of it is gone.

use std::time::Duration;

use super::child::Child;
use super::event::is_over;
use crate::base::clock::Moment;

/// From one look at a group that is ending to the next: the first, and at most.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
const LOOK_AGAIN_AT_MOST: Duration = Duration::from_secs(1);

/// The same before SIGKILL: whoever waits for the lock waits for this, too.
const LOOK_AGAIN_IN_GRACE: Duration = Duration::from_millis(100);

/// A command that is being ended.
pub struct Termination {
    /// When SIGKILL follows.
    kill_at: Moment,
    kill_sent: bool,
    /// Whether SIGKILL reached it.
    pub killed: bool,
    /// From one look at the command's group to the next.
    pause: Duration,
    /// When it is to be looked at again.
    pub look_again: Moment,
}

impl Termination {
    /// Sends SIGTERM; SIGKILL follows after so long. And whether this user may signal the command.
    pub fn begin(child: &Child, kill_after: Duration) -> (Self, bool) {
        let processes = child.processes;
        let may_signal = processes.signal(libc::SIGTERM);
        // A stopped process takes SIGTERM only when it is continued.
        processes.signal(libc::SIGCONT);
        let kill_at = Moment::now() + kill_after;
        let termination = Self {
            kill_at,
            kill_sent: false,
            // Without a time for SIGTERM the code does not depend on which of the two came first.
            killed: kill_after.is_zero() && processes.signal(libc::SIGKILL),
            pause: LOOK_AGAIN,
            look_again: kill_at,
        };
        (termination, may_signal)
    }

    /// SIGKILL follows at once.
    pub fn hurry(&mut self) {
        self.kill_at = self.kill_at.min(Moment::now());
        self.look_again = self.kill_at;
    }

    /// Whether the command and its group are gone; otherwise sends SIGKILL when it is due, and sets the next look.
    pub fn check(&mut self, child: &Child) -> bool {
        let has_ended = child.ended().is_some();
        if has_ended && !child.processes.alive() {
            return true;
        }
        let kill_now = is_over(Some(self.kill_at));
        if kill_now {
            // From the first one on the end is near; but one that may not be killed can take hours.
            if !std::mem::replace(&mut self.kill_sent, true) {
                self.pause = LOOK_AGAIN;
            }
            self.killed |= child.processes.signal(libc::SIGKILL);
        }
        // The ends of the command's own children are not announced to us.
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

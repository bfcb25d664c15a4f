//! A command: its process, its time limit, and how dblock ends it.

use std::time::Duration;

use super::child::Child;
use super::termination::Termination;
use crate::base::clock::{Moment, is_over};
use crate::base::exit::{Ending, TIMED_OUT, TIMED_OUT_KILLED};
use crate::keeper::Place;
use crate::lock::Lease;

/// Why dblock ends a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It has reached its timeout.
    TimedOut,
    /// The process is ending.
    Stopped,
    /// Its lock was lost, or somebody ends it with `dblock kill`.
    LockLost,
    /// The server has not confirmed its lease in time, or the lease was lost.
    LeaseOver,
}

/// A command that was started.
pub struct Command {
    /// Its process.
    pub child: Child,
    /// When it was started.
    pub started: Moment,
    /// When its timeout is over; `None`: it has none.
    time_over: Option<Moment>,
    /// From SIGTERM to SIGKILL.
    kill_after: Duration,
    /// Where the process with the session finds it.
    place: Place,
    /// While dblock ends it, and why.
    termination: Option<(Cause, Termination)>,
}

impl Command {
    /// A command that was started at this moment.
    pub fn new(
        child: Child,
        started: Moment,
        timeout: Option<Duration>,
        kill_after: Duration,
        place: Place,
    ) -> Self {
        Self {
            child,
            started,
            time_over: timeout.map(|timeout| started + timeout),
            kill_after,
            place,
            termination: None,
        }
    }

    /// Begins to end it, unless that has begun, or it has ended by itself: SIGTERM, then SIGKILL. Under a lease that others may get soon,
    /// it is gone before that. `false` if this user may not signal it.
    pub fn end(&mut self, cause: Cause, lease: Option<Lease>) -> bool {
        if !self.is_ending() && self.child.ended().is_some() {
            return true;
        }
        let asked = self.kill_after;
        let kill_at = lease.map_or_else(|| Moment::now() + asked, |lease| lease.kill_at(asked));
        self.end_by(kill_at, cause)
    }

    /// Kills it, as others may run it already.
    pub fn end_now(&mut self, cause: Cause) {
        if self.is_ending() || self.child.ended().is_none() {
            self.end_by(Moment::now(), cause);
        }
    }

    fn end_by(&mut self, kill_at: Moment, cause: Cause) -> bool {
        if let Some((_, termination)) = &mut self.termination {
            termination.kill_by(kill_at);
            return true;
        }
        let (termination, may_signal) = Termination::begin(&self.child, kill_at);
        self.termination = Some((cause, termination));
        may_signal
    }

    /// Reaps it. Before that it leaves the board: another process may get its pid.
    pub fn reap(self) {
        drop(self.place);
        self.child.reap();
    }

    /// Why dblock ends or has ended it; `None`: it does not.
    pub fn cause(&self) -> Option<Cause> {
        self.termination.as_ref().map(|(cause, _)| *cause)
    }

    /// Whether dblock ends it so that it is gone by then.
    pub fn is_gone_by(&self, then: Moment) -> bool {
        let termination = self.termination.as_ref();
        termination.is_some_and(|(_, termination)| termination.kill_at <= then)
    }

    /// Whether dblock ends it.
    pub fn is_ending(&self) -> bool {
        self.termination.is_some()
    }

    /// If dblock ends it, SIGKILL follows at once.
    pub fn kill_now(&mut self) {
        if let Some((_, termination)) = &mut self.termination {
            termination.kill_by(Moment::now());
        }
    }

    /// Whether its timeout is over, and dblock does not end it yet.
    pub fn is_late(&self) -> bool {
        !self.is_ending() && is_over(self.time_over)
    }

    /// Whether the process with the session has killed it, which this process does not know yet.
    pub fn was_killed_aside(&self) -> bool {
        let killed = Some(Ending::Signal(libc::SIGKILL));
        !self.is_ending() && self.place.was_killed() && self.child.ended() == killed
    }

    /// Whether it has ended. If dblock ends it, its whole group must be gone.
    pub fn is_over(&mut self) -> bool {
        if self.was_killed_aside() {
            // Others of its group may not be dead yet.
            self.end_by(Moment::now(), Cause::LockLost);
        }
        match &mut self.termination {
            Some((_, termination)) => termination.check(&self.child),
            None => self.child.ended().is_some(),
        }
    }

    /// When to check it next, unless something happens before.
    pub fn deadline(&self) -> Option<Moment> {
        match &self.termination {
            Some((_, termination)) => Some(termination.look_again),
            None => self.time_over,
        }
    }

    /// The exit of a command that was ended for its timeout, as timeout(1) has it, also when somebody else has sent the SIGKILL.
    pub fn timed_out(&self) -> Ending {
        let termination = self.termination.as_ref();
        let killed = termination.is_some_and(|(_, termination)| termination.killed)
            || self.child.ended() == Some(Ending::Signal(libc::SIGKILL));
        Ending::Code(if killed { TIMED_OUT_KILLED } else { TIMED_OUT })
    }
}

//! A command: its process, its time limit, and how dblock ends it.

use std::time::Duration;

use super::child::Child;
use super::event::is_over;
use super::termination::Termination;
use crate::base::clock::Moment;
use crate::base::exit::{Ending, TIMED_OUT, TIMED_OUT_KILLED};
use crate::keeper::Place;
use crate::lock::Lease;

/// A command that was started. `C`: why dblock may end it.
pub struct Command<C> {
    /// Its process.
    pub child: Child,
    /// When it was started.
    pub started: Moment,
    /// When its timeout is over; `None`: it has none.
    time_over: Option<Moment>,
    /// From SIGTERM to SIGKILL.
    kill_after: Duration,
    /// Where the process with the session finds it; `None`: that was told by a message.
    place: Option<Place>,
    /// While dblock ends it, and why.
    termination: Option<(C, Termination)>,
}

impl<C: Copy> Command<C> {
    /// A command that was started at this moment.
    pub fn new(
        child: Child,
        started: Moment,
        timeout: Option<Duration>,
        kill_after: Duration,
        place: Option<Place>,
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

    /// Begins to end it, unless that has begun: SIGTERM, then SIGKILL. Under a lease that others may get soon, it is gone before that.
    /// `false` if this user may not signal it.
    pub fn end(&mut self, cause: C, lease: Option<Lease>) -> bool {
        let asked = self.kill_after;
        let kill_after = lease.map_or(asked, |lease| lease.time_to_end(asked));
        self.end_within(kill_after, cause)
    }

    /// Kills it, as others may run it already.
    pub fn end_now(&mut self, cause: C) {
        self.end_within(Duration::ZERO, cause);
    }

    fn end_within(&mut self, kill_after: Duration, cause: C) -> bool {
        if self.is_ending() {
            return true;
        }
        let (termination, may_signal) = Termination::begin(&self.child, kill_after);
        self.termination = Some((cause, termination));
        may_signal
    }

    /// Whether the process with the session has killed it.
    pub fn was_killed(&self) -> bool {
        self.place.as_ref().is_some_and(Place::was_killed)
    }

    /// Reaps it. Before that it leaves the board: another process may get its pid.
    pub fn reap(self) {
        drop(self.place);
        self.child.reap();
    }

    /// Why dblock ends or has ended it; `None`: it does not.
    pub fn cause(&self) -> Option<C> {
        self.termination.as_ref().map(|(cause, _)| *cause)
    }

    /// Whether dblock ends it.
    pub fn is_ending(&self) -> bool {
        self.termination.is_some()
    }

    /// If dblock ends it, SIGKILL follows at once.
    pub fn kill_now(&mut self) {
        if let Some((_, termination)) = &mut self.termination {
            termination.kill_now();
        }
    }

    /// Whether its timeout is over, and dblock does not end it yet.
    pub fn is_late(&self) -> bool {
        !self.is_ending() && is_over(self.time_over)
    }

    /// Whether it has ended. If dblock ends it, its whole group must be gone.
    pub fn is_over(&mut self) -> bool {
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

//! How late a command is that must have ended, and when a process with a session looks whether it must kill that.

use std::time::Duration;

use crate::base::clock::{Moment, is_over};
use crate::lock::{Grace, Lease};

/// How late a command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lateness {
    /// It may run.
    InTime,
    /// It must have ended by now. Only a process that is stopped has not ended it, or one that takes a moment longer.
    Over,
    /// It must have ended long ago. The process that runs it hangs: a file system can keep that in a write to stderr for ever.
    LongOver,
}

/// Watches the end of one lease.
#[derive(Debug, Clone, Copy, Default)]
pub struct Vigil(Grace);

impl Vigil {
    /// How late a command under a lease of this TTL is that must have ended by `over`; `None`: it may run on. If this process was stopped,
    /// too, or the machine slept, the lease can first be renewed.
    pub fn lateness(&mut self, over: Option<Moment>, ttl: Duration) -> Lateness {
        let last = over.map(|over| Lease::last_answer(over, ttl));
        if self.0.is_over(last, || Lease::grace_of(ttl)) {
            Lateness::LongOver
        } else if is_over(over) {
            Lateness::Over
        } else {
            Lateness::InTime
        }
    }

    /// Until when a server may answer while such a command runs: then this process kills it, whatever the other one does.
    pub fn last_answer(self, over: Moment, ttl: Duration) -> Moment {
        self.0.deadline(Lease::last_answer(over, ttl))
    }

    /// When to look at such a command, as far as that is still to come.
    pub fn looks(self, over: Moment, ttl: Duration) -> impl Iterator<Item = Moment> {
        let now = Moment::now();
        let looks = [over, self.last_answer(over, ttl)];
        looks.into_iter().filter(move |at| *at > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(4000);

    /// How late a command is whose lease was over this long ago.
    fn lateness_after(vigil: &mut Vigil, span: Duration) -> Lateness {
        vigil.lateness(Some(Moment::now() - span), TTL)
    }

    /// Whether a command is long over that a process which runs would just have ended. A machine that stands still makes the test late.
    fn is_long_over_in_time(vigil: Vigil) -> bool {
        (0..100).any(|_| {
            let mut vigil = vigil;
            lateness_after(&mut vigil, TTL / 40) == Lateness::LongOver
        })
    }

    #[test]
    fn a_command_is_long_over_only_when_a_process_that_runs_would_have_ended_it() {
        let mut vigil = Vigil::default();
        assert_eq!(vigil.lateness(None, TTL), Lateness::InTime);
        let later = Some(Moment::now() + TTL);
        assert_eq!(vigil.lateness(later, TTL), Lateness::InTime);
        assert_eq!(lateness_after(&mut vigil, TTL / 100), Lateness::Over);
        assert!(is_long_over_in_time(vigil));
    }

    #[test]
    fn who_looks_so_late_that_the_machine_slept_lets_the_lease_be_renewed_first() {
        let mut vigil = Vigil::default();
        assert_eq!(lateness_after(&mut vigil, TTL), Lateness::Over);
        // It is renewed, and that lease is watched like any other.
        let renewed = Some(Moment::now() + TTL);
        assert_eq!(vigil.lateness(renewed, TTL), Lateness::InTime);
        assert!(is_long_over_in_time(vigil));
    }
}

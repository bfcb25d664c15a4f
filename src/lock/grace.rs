//! The grace after a sleep: a lease may look over although it is not, because a renewal that was confirmed meanwhile is not read yet.

use std::time::Duration;

use crate::base::clock::{Moment, is_over};

/// If the end of a lease is noticed this late, this process was stopped, or the machine slept.
const OVERSLEPT: Duration = Duration::from_millis(500);

/// Until when a renewal may still arrive; `None`: no lease was noticed too late.
#[derive(Debug, Clone, Copy, Default)]
pub struct Grace(Option<Moment>);

impl Grace {
    /// Whether commands must end because their lease allows them to run until `over` only; `None`: there is no lease. After a sleep that is
    /// so only once the time is over that `begin` returns.
    pub fn is_over(&mut self, over: Option<Moment>, begin: impl FnOnce() -> Duration) -> bool {
        let Some(over) = over.filter(|over| is_over(Some(*over))) else {
            self.0 = None;
            return false;
        };
        if self.0.is_none() && over.elapsed() > OVERSLEPT {
            self.0 = Some(Moment::now() + begin());
        }
        self.0.is_none_or(|until| is_over(Some(until)))
    }

    /// When to check a lease that allows commands to run until `over`.
    pub fn deadline(self, over: Moment) -> Moment {
        self.0.unwrap_or(over)
    }
}

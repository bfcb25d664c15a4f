//! The lock as the supervisor knows it: what the keeper has reported of it so far.

use crate::base::clock::Moment;
use crate::keeper::message::FromKeeper;
use crate::lock::Lease;

/// Whether the lock is held.
#[derive(Debug, Clone, Copy)]
pub enum LockState {
    /// There is none: not yet, or the command runs without one, or it was released.
    None,
    /// It is ours.
    Held(Lease),
    /// It was lost at that moment. The lease says until when it may be reacquired.
    Lost(Moment, Lease),
}

impl LockState {
    /// The latest lease; `None` without a lock.
    pub fn lease(self) -> Option<Lease> {
        match self {
            Self::None => None,
            Self::Held(lease) | Self::Lost(_, lease) => Some(lease),
        }
    }

    /// Whether it is ours.
    pub fn is_held(self) -> bool {
        matches!(self, Self::Held(_))
    }

    /// It is lost now, if it was held.
    pub fn lose(&mut self) {
        if let Self::Held(lease) = *self {
            *self = Self::Lost(Moment::now(), lease);
        }
    }

    /// Follows what the keeper reports.
    pub fn update(&mut self, message: &FromKeeper) {
        match (*self, message) {
            (_, &FromKeeper::Held(_, lease)) => *self = Self::Held(lease),
            (Self::Held(lease), &FromKeeper::Confirmed(proved)) => {
                *self = Self::Held(Lease { proved, ..lease });
            }
            (_, FromKeeper::Lost(_)) => self.lose(),
            (_, FromKeeper::Released) => *self = Self::None,
            _ => {}
        }
    }
}

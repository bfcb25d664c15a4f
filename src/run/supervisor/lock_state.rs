//! The lock as the supervisor sees it: what the keeper has reported so far.

use super::super::message::FromKeeper;
use crate::base::clock::Moment;
use crate::lock::Lease;

/// Whether the lock is held.
#[derive(Debug, Clone, Copy)]
pub enum LockState {
    /// No lock: not yet, or the command runs without one, or it was released.
    None,
    /// Held.
    Held(Lease),
    /// Lost at that moment. The lease says until when it may be reacquired.
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

    /// Whether the lock is held.
    pub fn is_held(self) -> bool {
        matches!(self, Self::Held(_))
    }

    /// Notes that a held lock is lost.
    pub fn lose(&mut self) {
        if let Self::Held(lease) = *self {
            *self = Self::Lost(Moment::now(), lease);
        }
    }

    /// Follows the keeper's reports.
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

//! What a write does to the rows of a lock, as data: `statements` turns it into SQL, and the model applies it.

/// What a write does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// Creates the row of a slot, unless it exists.
    Create { slot: u32 },
    /// Grants a slot that nobody holds.
    Take { slot: u32 },
    /// Grants an expired slot, unless it was granted since.
    TakeExpired { slot: u32, fence: u64 },
    /// Grants a slot whose holder has the same owner name, unless it was granted since.
    TakeOver { slot: u32, fence: u64 },
    /// Extends a grant, even an expired one, as nobody else has held the slot since.
    Renew { slot: u32, fence: u64 },
    /// Extends a script's grant, and ends the command under it.
    HandBack { slot: u32, fence: u64 },
    /// Ends a grant.
    Release { slot: u32, fence: u64 },
    /// Ends any grant of the owner.
    ReleaseAny,
}

impl Change {
    /// The slot that this change grants.
    pub fn granted(self) -> Option<u32> {
        match self {
            Self::Take { slot } | Self::TakeExpired { slot, .. } | Self::TakeOver { slot, .. } => {
                Some(slot)
            }
            _ => None,
        }
    }

    /// Whether the owner may hold a slot after this change.
    pub fn may_hold(self) -> bool {
        match self {
            Self::Take { .. }
            | Self::TakeExpired { .. }
            | Self::TakeOver { .. }
            | Self::Renew { .. } => true,
            Self::Create { .. }
            | Self::HandBack { .. }
            | Self::Release { .. }
            | Self::ReleaseAny => false,
        }
    }
}

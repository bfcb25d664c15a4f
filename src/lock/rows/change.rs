//! What a write does to the rows of a lock, as data: `statements` puts it into SQL, and the model carries it out.

/// What a write does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// Creates the row of a slot, unless it is there.
    Create { slot: u32 },
    /// Grants a slot that nobody holds.
    Take { slot: u32 },
    /// Grants a slot whose time is over, if it was not granted since.
    TakeExpired { slot: u32, fence: u64 },
    /// Grants a slot whose holder has given the same owner name, if it was not granted since.
    TakeOver { slot: u32, fence: u64 },
    /// Has a grant expire later, be its time over or not: nobody has had the slot since.
    Renew { slot: u32, fence: u64 },
    /// The same, for the script whose grant it is.
    HandBack { slot: u32, fence: u64 },
    /// Ends a grant.
    Release { slot: u32, fence: u64 },
    /// Ends whatever grant the owner has.
    ReleaseAny,
}

impl Change {
    /// How to give back a slot. Without a `fence` nobody knows whether it was granted.
    pub fn giving_back(slot: u32, fence: Option<u64>, is_of_a_script: bool) -> Self {
        match fence {
            None => Self::ReleaseAny,
            Some(fence) if is_of_a_script => Self::HandBack { slot, fence },
            Some(fence) => Self::Release { slot, fence },
        }
    }

    /// The slot that it grants.
    pub fn granted(self) -> Option<u32> {
        match self {
            Self::Take { slot } | Self::TakeExpired { slot, .. } | Self::TakeOver { slot, .. } => {
                Some(slot)
            }
            _ => None,
        }
    }

    /// Whether the owner may hold a slot by it.
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

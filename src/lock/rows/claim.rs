//! Claiming a slot's row: what follows from what was seen. Decisions only, no server and no clock: the model tries them in every order
//! of events, with answers that are lost before and after the commit, and with writes that are carried out late.

use super::change::Change;
use super::state::SlotState;

/// What to do next about the rows of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Next {
    /// This slot is ours, and the write that was sent last proves it.
    Held { slot: u32, fence: u64 },
    /// Carry out this.
    Write(Change),
    /// Others hold them all.
    Taken,
}

impl Next {
    /// Whether a slot may be ours from now on.
    pub fn may_hold(self) -> bool {
        match self {
            Self::Held { .. } => true,
            Self::Write(change) => change.may_hold(),
            Self::Taken => false,
        }
    }
}

/// Who claims a slot.
#[derive(Debug, Clone, Copy)]
pub struct Claimant<'a> {
    /// Whom the row is to belong to.
    pub owner: &'a str,
    /// Who gives the same takes the slot over.
    pub owner_name: Option<&'a str>,
    /// Those that will do, the best first.
    pub slots: &'a [u32],
}

impl Claimant<'_> {
    /// What follows from the `rows` as they were seen after a write with the number `write_id`, or before any.
    pub fn next(&self, rows: &[SlotState], write_id: Option<u64>) -> Next {
        let row = |slot: u32| rows.iter().find(|row| row.slot == slot);
        let is_own = |row: &&SlotState| row.owner.as_deref() == Some(self.owner);
        // In any slot: an earlier claim of ours may have been carried out late.
        if let Some(own) = rows.iter().find(is_own) {
            let (slot, fence) = (own.slot, own.fence);
            return if write_id == Some(own.write_id) {
                Next::Held { slot, fence }
            } else {
                // By an earlier write, whose answer was lost: what is only read may be of the past.
                Next::Write(Change::Renew { slot, fence })
            };
        }
        // Not from one that came after a write of ours: two would go on taking the slot from each other.
        let is_same = |row: &&SlotState| {
            row.is_owned()
                && self.owner_name.is_some()
                && row.owner_name.as_deref() == self.owner_name
        };
        if let (None, Some(same)) = (write_id, rows.iter().find(is_same)) {
            let &SlotState { slot, fence, .. } = same;
            return Next::Write(Change::TakeOver { slot, fence });
        }
        let mut expired = None;
        for &slot in self.slots {
            match row(slot) {
                None => return Next::Write(Change::Create { slot }),
                Some(row) if !row.is_owned() => return Next::Write(Change::Take { slot }),
                Some(row) if row.has_expired() => {
                    let fence = row.fence;
                    expired = expired.or(Some(Change::TakeExpired { slot, fence }));
                }
                Some(_) => {}
            }
        }
        expired.map_or(Next::Taken, Next::Write)
    }
}

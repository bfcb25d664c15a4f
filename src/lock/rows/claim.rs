//! Claiming a slot's row: what follows from the rows. Decisions only, without server and clock. The model tries them in every order of
//! events, with answers that are lost before and after the commit, and with writes that are carried out late.

use super::change::Change;
use super::state::SlotState;

/// The next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Next {
    /// This caller holds this slot, and the latest write proves it.
    Held { slot: u32, fence: u64 },
    /// Send this write.
    Write(Change),
    /// Others hold all slots.
    Taken,
}

impl Next {
    /// Whether this caller may hold a slot from now on.
    pub fn may_hold(self) -> bool {
        match self {
            Self::Held { .. } => true,
            Self::Write(change) => change.may_hold(),
            Self::Taken => false,
        }
    }
}

/// The caller that claims a slot.
#[derive(Debug, Clone, Copy)]
pub struct Claimant<'a> {
    /// The new owner of the row.
    pub owner: &'a str,
    /// A caller with the same owner name takes the slot over.
    pub owner_name: Option<&'a str>,
    /// The slots to claim, the best first.
    pub slots: &'a [u32],
}

impl Claimant<'_> {
    /// What follows from the `rows`, read after a write with the number `write_id`, or before any write.
    pub fn next(&self, rows: &[SlotState], write_id: Option<u64>) -> Next {
        let row = |slot: u32| rows.iter().find(|row| row.slot == slot);
        let is_own = |row: &&SlotState| row.owner.as_deref() == Some(self.owner);
        // In any slot, as an earlier claim of this caller may have been carried out late.
        if let Some(own) = rows.iter().find(is_own) {
            let (slot, fence) = (own.slot, own.fence);
            return if write_id == Some(own.write_id) {
                Next::Held { slot, fence }
            } else {
                // An earlier write got the slot, and its answer was lost. Only a write proves that it is still held: rows that are only
                // read may be old.
                Next::Write(Change::Renew { slot, fence })
            };
        }
        // Only before the first write: otherwise two callers would go on taking the slot from each other.
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

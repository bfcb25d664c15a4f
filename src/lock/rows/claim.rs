//! Claiming a slot's row: what follows from what was seen. Decisions only, no server and no clock, as in `named/queue`: the explorer
//! tries them in every order of events, with answers that are lost before and after the commit.

use super::state::SlotState;

/// What to do next about the rows of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Next {
    /// This slot is ours, and the write that was sent last proves it.
    Held { slot: u32, fence: u64 },
    /// This slot is ours by an earlier write, whose answer was lost: prove it by a write, for what is only read may be of the past.
    Prove { slot: u32, fence: u64 },
    /// Create the row of this slot.
    Create { slot: u32 },
    /// Take this slot, which is free.
    Take { slot: u32 },
    /// Take this slot, whose holder has not renewed it in time, if nobody else has taken it since.
    TakeExpired { slot: u32, fence: u64 },
    /// Others hold them all.
    Taken,
}

/// What follows from the `rows` as they were seen after a write with the number `write_id`, or before any. `slots`: those that will
/// do, the best first. `owner`: who claims.
pub fn next(rows: &[SlotState], slots: &[u32], owner: &str, write_id: Option<u64>) -> Next {
    let row = |slot: u32| rows.iter().find(|row| row.slot == slot);
    let is_own = |row: &&SlotState| row.owner.as_deref() == Some(owner);
    // In any slot: an earlier claim of ours may have been carried out late.
    if let Some(own) = rows.iter().find(is_own) {
        let (slot, fence) = (own.slot, own.fence);
        return if write_id == Some(own.write_id) {
            Next::Held { slot, fence }
        } else {
            Next::Prove { slot, fence }
        };
    }
    let mut expired = None;
    for &slot in slots {
        match row(slot) {
            None => return Next::Create { slot },
            Some(row) if !row.is_owned() => return Next::Take { slot },
            Some(row) if row.has_expired() => {
                let fence = row.fence;
                expired = expired.or(Some(Next::TakeExpired { slot, fence }));
            }
            Some(_) => {}
        }
    }
    expired.unwrap_or(Next::Taken)
}

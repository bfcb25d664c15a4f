//! Claiming a slot's row: a machine that is told the server's answers, and says what to ask next. Without server and clock: the model steps
//! it through every order of events, with answers that are lost before and after the commit, and with writes that are carried out late.

use super::change::Change;
use super::state::SlotState;
use super::step::{Answer, Next, RowStep, Written};

/// What a claim comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClaimEnd {
    /// This caller holds this slot, and the latest write proves it.
    Held { slot: u32, fence: u64 },
    /// It holds none: wait in the queue, if there is one, and then claim a slot.
    Queue,
    /// Others hold all slots.
    Taken,
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
    /// Whether the lock has no other slot.
    pub is_only_slot: bool,
}

/// What is claimed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
enum Aim {
    /// A slot that this caller already holds or may take over.
    #[default]
    Own,
    /// That, or one of the claimant's slots.
    Any,
    /// A slot that the queue has granted, if the write proves that.
    Granted,
}

/// A caller's claim, on one session after another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Claim {
    /// Whether a slot may be held without the caller's knowledge.
    pub may_hold: bool,
    aim: Aim,
    /// What was asked; `None`: nothing.
    asked: Option<RowStep>,
    /// The number of the write whose result is looked up.
    unclear: Option<u64>,
}

impl Claim {
    /// Begins on a new session. An earlier claim whose answer was lost comes first: the head of the queue would wait for its end.
    pub fn begin(&mut self, claimant: &Claimant) -> Next<ClaimEnd> {
        if self.may_hold || claimant.owner_name.is_some() {
            self.find()
        } else {
            Next::Over(ClaimEnd::Queue)
        }
    }

    /// Claims only a slot that this caller already holds or may take over.
    pub fn find(&mut self) -> Next<ClaimEnd> {
        self.start(Aim::Own, RowStep::Look)
    }

    /// Claims one of the claimant's slots, and first tries the best.
    pub fn take(&mut self, claimant: &Claimant) -> Next<ClaimEnd> {
        let slot = claimant.slots[0];
        self.start(Aim::Any, claimant.write(Change::Take { slot }))
    }

    /// Claims one of the claimant's slots. Looks first, as others probably hold them.
    pub fn look(&mut self) -> Next<ClaimEnd> {
        self.start(Aim::Any, RowStep::Look)
    }

    /// Claims a slot that the queue has granted, by a write that also proves that. What may be held was settled before.
    pub fn take_granted(&mut self, slot: u32) -> Next<ClaimEnd> {
        self.start(Aim::Granted, RowStep::WriteOnly(Change::Take { slot }))
    }

    fn start(&mut self, aim: Aim, step: RowStep) -> Next<ClaimEnd> {
        self.aim = aim;
        self.unclear = None;
        self.turn_to(Next::Ask(step))
    }

    /// What follows from the answer.
    pub fn next(&mut self, claimant: &Claimant, answer: &Answer) -> Next<ClaimEnd> {
        let next = match (self.asked, answer) {
            (Some(RowStep::WriteOnly(change)), Answer::Written(write_id, written)) => {
                self.after_write(change, *write_id, written)
            }
            (_, Answer::Written(write_id, written)) => {
                self.after_rows(claimant, &written.rows, Some(*write_id))
            }
            (_, Answer::Rows(rows)) => {
                let write_id = self.unclear.take();
                self.after_rows(claimant, rows, write_id)
            }
            (_, Answer::Refused) if self.aim == Aim::Granted => Next::Over(ClaimEnd::Queue),
            (_, Answer::Refused) => Next::Ask(RowStep::Look),
        };
        self.turn_to(next)
    }

    /// What follows from a write without a look.
    fn after_write(&mut self, change: Change, write_id: u64, written: &Written) -> Next<ClaimEnd> {
        match (change.granted(), written.fence) {
            (Some(slot), Some(fence)) => Next::Over(ClaimEnd::Held { slot, fence }),
            // Without its proof the write does nothing.
            _ if self.aim == Aim::Granted => Next::Over(ClaimEnd::Queue),
            _ => {
                self.unclear = Some(write_id);
                Next::Ask(RowStep::Look)
            }
        }
    }

    fn after_rows(
        &self,
        claimant: &Claimant,
        rows: &[SlotState],
        write_id: Option<u64>,
    ) -> Next<ClaimEnd> {
        let seeks_any = self.aim == Aim::Any;
        let slots = if seeks_any { claimant.slots } else { &[] };
        match (Claimant { slots, ..*claimant }).next(rows, write_id) {
            Next::Over(ClaimEnd::Taken) if !seeks_any => Next::Over(ClaimEnd::Queue),
            next => next,
        }
    }

    /// Notes what comes next. A look leaves open whether a slot is held.
    fn turn_to(&mut self, next: Next<ClaimEnd>) -> Next<ClaimEnd> {
        (self.asked, self.may_hold) = match next {
            Next::Ask(step @ (RowStep::Write(change) | RowStep::WriteOnly(change))) => {
                (Some(step), change.may_hold())
            }
            Next::Ask(step) => (Some(step), self.may_hold),
            Next::Over(ClaimEnd::Held { .. }) => (None, true),
            Next::Over(ClaimEnd::Queue | ClaimEnd::Taken) => (None, false),
        };
        next
    }
}

impl Claimant<'_> {
    /// What follows from the `rows`, read after a write with the number `write_id`, or before any write.
    fn next(&self, rows: &[SlotState], write_id: Option<u64>) -> Next<ClaimEnd> {
        let row = |slot: u32| rows.iter().find(|row| row.slot == slot);
        let is_own = |row: &&SlotState| row.owner.as_deref() == Some(self.owner);
        // In any slot, as an earlier claim of this caller may have been carried out late.
        if let Some(own) = rows.iter().find(is_own) {
            let (slot, fence) = (own.slot, own.fence);
            return if write_id == Some(own.write_id) {
                Next::Over(ClaimEnd::Held { slot, fence })
            } else {
                // An earlier write got the slot, and its answer was lost. Only a write proves that it is still held: rows that are only
                // read may be old.
                Next::Ask(self.write(Change::Renew { slot, fence }))
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
            return Next::Ask(self.write(Change::TakeOver { slot, fence }));
        }
        let mut expired = None;
        for &slot in self.slots {
            match row(slot) {
                None => return Next::Ask(self.write(Change::Create { slot })),
                Some(row) if !row.is_owned() => {
                    return Next::Ask(self.write(Change::Take { slot }));
                }
                Some(row) if row.has_expired() => {
                    let fence = row.fence;
                    expired = expired.or(Some(Change::TakeExpired { slot, fence }));
                }
                Some(_) => {}
            }
        }
        expired.map_or(Next::Over(ClaimEnd::Taken), |change| {
            Next::Ask(self.write(change))
        })
    }

    /// A grant of the only slot needs no look: there is no other row to read.
    fn write(&self, change: Change) -> RowStep {
        if self.is_only_slot && change.granted().is_some() {
            RowStep::WriteOnly(change)
        } else {
            RowStep::Write(change)
        }
    }
}

//! The semaphore: what a caller asks the server next until it has a slot. Decisions only, no server and no clock:
//! `statements` has the SQL of each step, and the explorer tries these decisions in every order of events.

use crate::lock::Grant;

/// Up to so many slots the statement also asks for the kill lock of each. For a thousand slots that would be most of its text.
pub const FEW: u32 = 16;

/// A question to the server. After each the session holds at most one slot, and at most once the head of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Acquire any free slot, whoever waits.
    Try,
    /// Acquire any free slot unless somebody waits.
    TryUnlessQueued,
    /// Wait in the server's own queue: for the lock of the head or, where there is one slot only, for the slot.
    Queue,
    /// At the head: acquire any free slot, or wait a moment for the last one.
    Head,
    /// After an unclear answer: ask what is held. A session can acquire a lock twice, so it asks before it acquires again.
    Settle,
    /// Prove that this slot is held, prepare the session to hold it, and only then release the head of the queue.
    Confirm(u32),
}

/// What the server answers: what the session holds now.
#[expect(clippy::struct_excessive_bools, reason = "columns of an answer")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Answer {
    /// Others hold all the slots that were asked for or waited for.
    pub refused: bool,
    /// The slot that is held.
    pub slot: Option<u32>,
    /// Whether this session is the head of the queue.
    pub is_head: bool,
    /// Whether the holder of some slot is being ended. Only asked where there are too many slots to ask for each.
    pub kills: bool,
    /// With a proof: whether somebody is ending the holder of the slot.
    pub killed: bool,
    /// With a proof: whether the lost holder of the slot is reacquiring it.
    pub reacquired: bool,
    /// The server's number of the session.
    pub connection_id: u64,
}

/// What to do about an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Continue with this step.
    Ask(Step),
    /// As [`Next::Ask`] after an unclear answer: not too often, and with pauses.
    Doubt(Step),
    /// The session holds a slot.
    Held(Grant),
    /// Others hold all slots, and the time to wait is over.
    Taken,
    /// The holder that lost the slot is reacquiring it: end the session, and ask on another.
    GiveWay,
    /// The command of the last holder may still run: ask again after a pause.
    Wait(Step),
    /// As [`Next::Wait`], but the time is over: release the slot.
    GiveUp(u32),
    /// As [`Next::Wait`], but another slot may be free: release this one, from now on ask for the kill lock of each slot, and continue
    /// with this step.
    Release(u32, Step),
}

/// How a caller acquires a slot, on one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Plan {
    slots: u32,
    waits: bool,
    pub(super) checks_kills: bool,
}

impl Plan {
    /// For a caller that wants any of so many slots, may wait or not, and asks for the kill lock of each slot or not.
    pub fn new(slots: u32, waits: bool, checks_kills: bool) -> Self {
        Self {
            slots,
            waits,
            checks_kills,
        }
    }

    /// What to ask first, and whenever nothing else follows.
    pub fn first(self) -> Step {
        if self.waits && self.slots > 1 {
            Step::TryUnlessQueued
        } else {
            Step::Try
        }
    }

    /// What follows from the answer to a step; `None` for a statement that was interrupted: the server may have executed it all
    /// the same. `late`: no time is left to wait.
    pub fn next(self, step: Step, answer: Option<Answer>, late: bool) -> Next {
        let Some(Answer {
            refused,
            slot,
            is_head,
            kills,
            killed,
            reacquired,
            connection_id,
        }) = answer
        else {
            return Next::Doubt(match step {
                // These ask what is held before they acquire anything.
                Step::Head | Step::Confirm(_) => step,
                _ => Step::Settle,
            });
        };
        match (slot, step) {
            _ if reacquired => Next::GiveWay,
            (Some(slot), _) if killed && !self.checks_kills => Next::Release(slot, self.first()),
            (Some(slot), _) if killed && late => Next::GiveUp(slot),
            (Some(_), _) if killed => Next::Wait(step),
            // The command of its last holder may still run.
            (Some(slot), Step::Try | Step::TryUnlessQueued) if kills => {
                Next::Ask(Step::Confirm(slot))
            }
            // An answer without a wait proves the slot. After a wait it may have arrived late, when the server had already ended
            // this session and released its locks.
            (Some(slot), Step::Try | Step::TryUnlessQueued | Step::Confirm(_)) => {
                Next::Held(Grant {
                    slot,
                    connection_id,
                    fence: None,
                })
            }
            (Some(slot), _) => Next::Ask(Step::Confirm(slot)),
            (None, _) if refused && (late || !self.waits) => Next::Taken,
            (None, Step::Try | Step::TryUnlessQueued | Step::Queue) if refused => {
                Next::Ask(Step::Queue)
            }
            (None, Step::Queue | Step::Settle) if is_head => Next::Ask(Step::Head),
            (None, Step::Head) if refused && is_head => Next::Ask(Step::Head),
            (None, Step::Settle) => Next::Ask(self.first()),
            (None, Step::Confirm(_)) => Next::Doubt(Step::Settle),
            (None, _) if is_head => Next::Doubt(Step::Head),
            (None, _) => Next::Doubt(self.first()),
        }
    }
}

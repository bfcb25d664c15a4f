//! The semaphore: what a caller asks the server next until it has a slot. Decisions only, without server and clock: `statements` has the
//! SQL of each step, and the model tries these decisions in every order of events.

use crate::lock::Grant;

/// Up to this many slots the statement also checks the kill lock of each. For a thousand slots that would be most of its text: there the
/// proof checks the kill lock of the slot that was acquired.
pub const FEW: u32 = 16;

/// A question to the server. After each the session holds at most one slot, and at most once the lock of the queue's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Acquire any free slot, whoever waits.
    Try,
    /// Acquire any free slot unless somebody waits.
    TryUnlessQueued,
    /// Wait in the server's own queue: for the lock of the queue's head, or if there is only one slot, for that slot.
    Queue,
    /// As the queue's head: acquire any free slot, or wait a moment for the last one.
    Head,
    /// After an unclear answer: ask what is held. A session can acquire a lock twice, so it must ask before it acquires again.
    Settle,
    /// Prove that this slot is held, prepare the session to hold it, and only then release the lock of the queue's head.
    Confirm(u32),
}

/// The server's answer: what the session holds now.
#[expect(clippy::struct_excessive_bools, reason = "columns of an answer")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Answer {
    /// Others hold all the slots that were tried or waited for.
    pub refused: bool,
    /// The slot that is held.
    pub slot: Option<u32>,
    /// Whether this session is the head of the queue.
    pub is_head: bool,
    /// With a proof: whether somebody kills the holder of the slot.
    pub killed: bool,
    /// With a proof: whether the lost holder of the slot is reacquiring it.
    pub reacquired: bool,
    /// The session's connection id.
    pub connection_id: u64,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Continue with this step.
    Ask(Step),
    /// As [`Next::Ask`] after an unclear answer: with pauses, and not for ever.
    Doubt(Step),
    /// The session holds a slot.
    Held(Grant),
    /// Others hold all slots, and the wait is over.
    Taken,
    /// The holder that lost the slot is reacquiring it: end the session, and continue on another.
    GiveWay,
    /// The last holder's command may still run: ask again after a pause.
    Wait(Step),
    /// As [`Next::Wait`], but the wait is over: release the slot.
    Abandon(u32),
    /// As [`Next::Wait`], but another slot may be free: release this one, check the kill lock of each slot from now on, and continue with
    /// this step.
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
    /// The plan of a caller that wants any of `slots`, may wait or not, and checks the kill lock of each slot or not.
    pub fn new(slots: u32, waits: bool, checks_kills: bool) -> Self {
        Self {
            slots,
            waits,
            checks_kills,
        }
    }

    /// The first question, and the one to ask whenever nothing else follows.
    pub fn first(self) -> Step {
        if self.waits && self.slots > 1 {
            Step::TryUnlessQueued
        } else {
            Step::Try
        }
    }

    /// What follows from the answer to a step; `None`: the statement was interrupted, but the server may have run it. `late`: the wait is
    /// over.
    pub fn next(self, step: Step, answer: Option<Answer>, late: bool) -> Next {
        let Some(Answer {
            refused,
            slot,
            is_head,
            killed,
            reacquired,
            connection_id,
        }) = answer
        else {
            return Next::Doubt(match step {
                // These steps ask what is held before they acquire anything.
                Step::Head | Step::Confirm(_) => step,
                _ => Step::Settle,
            });
        };
        match (slot, step) {
            _ if reacquired => Next::GiveWay,
            (Some(slot), _) if killed && !self.checks_kills => Next::Release(slot, self.first()),
            (Some(slot), _) if killed && late => Next::Abandon(slot),
            (Some(_), _) if killed => Next::Wait(step),
            // An answer without a wait proves the slot. After a wait the answer may have arrived late, when the server had already ended
            // this session and released its locks. Without a check of the kill lock the last holder's command may still run.
            (Some(slot), Step::Queue | Step::Head | Step::Settle) => Next::Ask(Step::Confirm(slot)),
            (Some(slot), Step::Try | Step::TryUnlessQueued) if !self.checks_kills => {
                Next::Ask(Step::Confirm(slot))
            }
            (Some(slot), _) => Next::Held(Grant {
                slot,
                connection_id,
                fence: None,
            }),
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

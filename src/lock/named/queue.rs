//! The semaphore: what a caller asks the server next until it has a slot. Decisions only, no server and no clock:
//! `statements` has the SQL of each step, and the explorer tries these decisions in every order of events.

use crate::lock::Grant;

/// So many slots are asked for together with the markers of those who end their holders: for a thousand slots these would be
/// most of the statement.
pub const FEW: u32 = 16;

/// A question to the server. After each the session holds at most one slot, and at most one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Take any free slot, whoever waits.
    Try,
    /// Take any free slot unless somebody waits.
    TryUnlessQueued,
    /// Wait in the server's own queue: for the place at the head, or where there is one slot only, for that.
    Queue,
    /// At the head: take any free slot, or wait a moment for the last one.
    Head,
    /// After an answer that tells nothing: ask what is held. Locks count, so nothing is asked for again before.
    Settle,
    /// Prove that this slot is held, make the session fit to keep it, and only then give up the place.
    Confirm(u32),
}

/// What the server answers: what the session holds now.
#[expect(clippy::struct_excessive_bools, reason = "columns of an answer")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Answer {
    /// The slots were asked for or waited for, and were not to be had.
    pub refused: bool,
    /// The slot that is held.
    pub slot: Option<u32>,
    /// Whether the place at the head of the queue is held.
    pub place: bool,
    /// Whether the holder of some slot is being ended, which of few slots is asked for together with each.
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
    /// Go on with this step.
    Ask(Step),
    /// As [`Next::Ask`], but the answer told nothing: not too often, and not in a rush.
    Doubt(Step),
    /// A slot is ours.
    Held(Grant),
    /// None is to be had in time.
    Taken,
    /// Its holder before is reacquiring the slot: end the session, and ask on another.
    GiveWay,
    /// The command of the holder before may still run: ask once more in a while.
    Wait(Step),
    /// As [`Next::Wait`], but the time is over: release the slot.
    GiveUp(u32),
    /// As [`Next::Wait`], but another slot may be free: release this one, ask from now on for each slot together with the markers
    /// of those who end their holders, and go on with this step.
    Release(u32, Step),
}

/// A caller's way to a slot, on one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Way {
    slots: u32,
    waits: bool,
    pub(super) checks_kills: bool,
}

impl Way {
    /// The way of a caller that is content with any of so many slots, may wait or not, and asks for each slot together with the
    /// markers of those who end their holders, or not.
    pub fn new(slots: u32, waits: bool, checks_kills: bool) -> Self {
        Self {
            slots,
            waits,
            checks_kills,
        }
    }

    /// What to ask first, and when it is not known what else.
    pub fn first(self) -> Step {
        if self.waits && self.slots > 1 {
            Step::TryUnlessQueued
        } else {
            Step::Try
        }
    }

    /// What follows from the answer to a step; `None` for a statement that was interrupted, which may have done what it
    /// was to do all the same. `late`: no time is left to wait.
    pub fn next(self, step: Step, answer: Option<Answer>, late: bool) -> Next {
        let Some(Answer {
            refused,
            slot,
            place,
            kills,
            killed,
            reacquired,
            connection_id,
        }) = answer
        else {
            return Next::Doubt(match step {
                // These ask what is held before they take anything.
                Step::Head | Step::Confirm(_) => step,
                _ => Step::Settle,
            });
        };
        match (slot, step) {
            _ if reacquired => Next::GiveWay,
            (Some(slot), _) if killed && !self.checks_kills => Next::Release(slot, self.first()),
            (Some(slot), _) if killed && late => Next::GiveUp(slot),
            (Some(_), _) if killed => Next::Wait(step),
            // It may be that of one whose command still runs.
            (Some(slot), Step::Try | Step::TryUnlessQueued) if kills => {
                Next::Ask(Step::Confirm(slot))
            }
            // Only an answer that nobody waited for can be trusted by itself. One that was waited for may have come late,
            // when the server had long given up this session and its locks.
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
            (None, Step::Queue | Step::Settle) if place => Next::Ask(Step::Head),
            (None, Step::Head) if refused && place => Next::Ask(Step::Head),
            (None, Step::Settle) => Next::Ask(self.first()),
            (None, Step::Confirm(_)) => Next::Doubt(Step::Settle),
            (None, _) if place => Next::Doubt(Step::Head),
            (None, _) => Next::Doubt(self.first()),
        }
    }
}

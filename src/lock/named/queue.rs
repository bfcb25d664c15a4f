//! The semaphore: what a caller asks the server next until it has a slot. Decisions only, without server and clock: `statements` has the
//! SQL of each step, `acquire` carries out what is asked, and the model tries these decisions in every order of events.

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

impl Answer {
    /// As the answer to a renewal: whether the session holds this slot.
    pub fn holds(self, slot: u32) -> bool {
        self.slot == Some(slot)
    }
}

/// What to do next on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Ask this step.
    Step(Step, Pace),
    /// Give the session the idle timeout of a waiter: the wait begins.
    BeginWait,
    /// Give the session the idle timeout of a holder, for this grant. It fails on a session that the server has ended, so a grant whose
    /// answer arrived late is not believed.
    EndWait(Grant),
    /// Release this slot. Then check the kill lock of each slot from now on, and continue with this step; `None`: the wait is over.
    Release(u32, Option<Step>),
    /// Nothing: it is decided.
    Over(Outcome),
}

/// When to ask a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pace {
    /// At once.
    Now,
    /// After an unclear answer: with pauses, and not for ever.
    Doubt,
    /// After a pause: the last holder's command may still run.
    Pause,
}

/// The result of a request on one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The session holds a slot.
    Held(Grant),
    /// After a wait the session was granted this slot, and the caller proves that itself.
    Unproved(u32),
    /// Others hold all slots, and the wait is over.
    Taken,
    /// The holder that lost the slot is reacquiring it: end the session, and continue on another.
    GiveWay,
}

/// What a caller wants.
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
}

/// How a caller acquires a slot, on one session, from the answer to its first step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Acquiring {
    pub(super) plan: Plan,
    /// Whether the session has the idle timeout of a waiter.
    is_waiting: bool,
    /// Whether the caller proves itself what it was granted after a wait.
    leaves_proof: bool,
    /// What was asked last.
    pub(super) asked: Ask,
}

impl Acquiring {
    /// Continues after this step. `is_waiting`: the session has the idle timeout of a waiter.
    pub fn after(step: Step, plan: Plan, is_waiting: bool, leaves_proof: bool) -> Self {
        Self {
            plan,
            is_waiting,
            leaves_proof,
            asked: Ask::Step(step, Pace::Now),
        }
    }

    /// Whether the session has the idle timeout of a waiter.
    pub fn is_waiting(self) -> bool {
        self.is_waiting
    }

    /// What follows from the answer to what was asked last; `None`: the answer to a step was unclear, as the statement was interrupted, but
    /// the server may have run it; or another statement was carried out. `late`: the wait is over.
    pub fn next(&mut self, answer: Option<Answer>, late: bool) -> Ask {
        self.asked = match self.asked {
            Ask::Step(step, _) => match self.after_step(step, answer, late) {
                Ask::Step(Step::Queue, _) if !self.is_waiting => Ask::BeginWait,
                Ask::Step(Step::Confirm(slot), _) if step == Step::Queue && self.leaves_proof => {
                    Ask::Over(Outcome::Unproved(slot))
                }
                ask => ask,
            },
            Ask::BeginWait => {
                self.is_waiting = true;
                Ask::Step(Step::Queue, Pace::Now)
            }
            Ask::EndWait(grant) => {
                self.is_waiting = false;
                Ask::Over(Outcome::Held(grant))
            }
            Ask::Release(_, Some(step)) => {
                self.plan.checks_kills = true;
                Ask::Step(step, Pace::Now)
            }
            Ask::Release(_, None) => Ask::Over(Outcome::Taken),
            Ask::Over(_) => self.asked,
        };
        self.asked
    }

    fn after_step(self, step: Step, answer: Option<Answer>, late: bool) -> Ask {
        let Plan {
            waits,
            checks_kills,
            ..
        } = self.plan;
        let first = self.plan.first();
        let ask = |step| Ask::Step(step, Pace::Now);
        let doubt = |step| Ask::Step(step, Pace::Doubt);
        let Some(answer) = answer else {
            return doubt(match step {
                // These steps ask what is held before they acquire anything.
                Step::Head | Step::Confirm(_) => step,
                _ => Step::Settle,
            });
        };
        let (refused, is_head) = (answer.refused, answer.is_head);
        match (answer.slot, step) {
            _ if answer.reacquired => Ask::Over(Outcome::GiveWay),
            // Another slot may be free.
            (Some(slot), _) if answer.killed && !checks_kills => Ask::Release(slot, Some(first)),
            (Some(slot), _) if answer.killed && late => Ask::Release(slot, None),
            (Some(_), _) if answer.killed => Ask::Step(step, Pace::Pause),
            // An answer without a wait proves the slot. After a wait the answer may have arrived late, when the server had already ended
            // this session and released its locks. Without a check of the kill lock the last holder's command may still run.
            (Some(slot), Step::Queue | Step::Head | Step::Settle) => ask(Step::Confirm(slot)),
            (Some(slot), Step::Try | Step::TryUnlessQueued) if !checks_kills => {
                ask(Step::Confirm(slot))
            }
            (Some(slot), _) => self.held(slot, answer.connection_id),
            (None, _) if refused && (late || !waits) => Ask::Over(Outcome::Taken),
            (None, Step::Try | Step::TryUnlessQueued | Step::Queue) if refused => ask(Step::Queue),
            (None, Step::Queue | Step::Settle) if is_head => ask(Step::Head),
            (None, Step::Head) if refused && is_head => ask(Step::Head),
            (None, Step::Settle) => ask(first),
            (None, Step::Confirm(_)) => doubt(Step::Settle),
            (None, _) if is_head => doubt(Step::Head),
            (None, _) => doubt(first),
        }
    }

    fn held(self, slot: u32, connection_id: u64) -> Ask {
        let grant = Grant {
            slot,
            connection_id,
            fence: None,
        };
        if self.is_waiting {
            Ask::EndWait(grant)
        } else {
            Ask::Over(Outcome::Held(grant))
        }
    }
}

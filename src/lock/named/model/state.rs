//! The model's state at one moment: the callers, and the locks.

use super::locks::{Lock, MOST_SLOTS, Markers, SessionId};
use crate::lock::named::acknowledging::{Acknowledging, LostSessions};
use crate::lock::named::killer::Killer;
use crate::lock::named::queue::{Acquiring, Answer, Plan, Step};
use crate::lock::named::releasing::{Ask, Releasing};
use crate::lock::named::retaking::{Look, Retaking};
use crate::lock::named::starting::Starting;

/// Both servers have the same locks. They differ in the effect of `KILL QUERY` on a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// The waiting call returns NULL, and the statement continues.
    MariaDb,
    /// The statement ends with an error, and the session keeps what it acquired.
    MySql,
}

/// The fixed part of an exploration.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    pub server: Server,
    pub slots: usize,
    pub callers: usize,
    /// The last of the callers do not wait; this many.
    pub impatient: usize,
    /// The first of the callers want a lock with one slot, which is slot 0; this many.
    pub alone: usize,
    /// Whether holders may wake the head.
    pub wakes: bool,
    /// Whether sessions are lost and replaced, so that markers are acquired and read.
    pub reopens: bool,
    /// Whether each slot is acquired together with a check of its kill markers.
    pub checks_kills: bool,
    /// What a holder does with a new session.
    pub on_loss: OnLoss,
}

/// What a holder does when it has lost its session, and has a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLoss {
    /// It reacquires its slot.
    Reacquires,
    /// It reacquires its slot, and announces that before it looks.
    Announces,
    /// It only searches for a killer, and ends its command.
    Stops,
}

impl Setting {
    /// How many slots a caller may use.
    pub fn slots_of(self, number: usize) -> usize {
        if number < self.alone { 1 } else { self.slots }
    }
}

/// Disturbances that may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Budget {
    pub kills: u8,
    pub crashes: u8,
    pub cuts: u8,
    pub late: u8,
    /// Sessions that end, and whose dblock notices.
    pub losses: u8,
    /// Sessions that the server keeps, but their dblock has lost.
    pub ghosts: u8,
    /// Killers that may come.
    pub killers: u8,
    /// Deaths of a killer.
    pub killer_deaths: u8,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub callers: Vec<Caller>,
    pub slots: [Lock; MOST_SLOTS],
    /// The lock of the head of the queue, `x#wait`.
    pub head: Lock,
    pub markers: Markers,
    /// Sessions that the server keeps, but their dblock has lost.
    pub ghosts: Vec<SessionId>,
    /// Sessions that the server is ending: it frees their locks one by one.
    pub ending: Vec<SessionId>,
    pub killer: KillerPhase,
    /// The session that the killer has ended, as long as its marker says so; `None` also for one that was lost while it was opened, or whose
    /// command runs: its caller does not ask about that.
    pub killed: Option<SessionId>,
    /// For each slot the session that has announced that it reacquires the slot, and then ended the older session that held it.
    pub takes_over: [Option<SessionId>; MOST_SLOTS],
    pub budget: Budget,
}

impl World {
    pub fn new(setting: Setting, budget: Budget) -> Self {
        let caller = |number| {
            let waits = number < setting.callers - setting.impatient;
            let slots = u32::try_from(setting.slots_of(number)).unwrap();
            let plan = Plan::new(slots, waits, setting.checks_kills);
            Caller {
                starting: None,
                acquiring: Acquiring::after(plan.first(), plan, false, false),
                phase: Phase::NotYet,
                killed: false,
                cut: false,
                late: !waits,
                session: u8::try_from(number).unwrap(),
                lost: LostSessions::default(),
                held_on: None,
                is_short: false,
            }
        };
        Self {
            callers: (0..setting.callers).map(caller).collect(),
            slots: [Lock::FREE; MOST_SLOTS],
            head: Lock::FREE,
            markers: Markers::FREE,
            ghosts: Vec::new(),
            ending: Vec::new(),
            killer: KillerPhase::NotYet,
            killed: None,
            takes_over: [None; MOST_SLOTS],
            budget,
        }
    }
}

#[expect(clippy::struct_excessive_bools, reason = "each may happen alone")]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Caller {
    /// Its first questions on a session other than its first.
    pub starting: Option<Starting>,
    /// What it asks until it holds a slot.
    pub acquiring: Acquiring,
    pub phase: Phase,
    /// `KILL QUERY` arrived while its statement was not waiting.
    pub killed: bool,
    /// Its network is cut: the server continues the statement, and nobody reads the answer.
    pub cut: bool,
    /// Its wait is over.
    pub late: bool,
    /// Its current or latest session.
    pub session: SessionId,
    /// The sessions on which it requested the lock.
    pub lost: LostSessions,
    /// The session that held the slot that it lost. It acknowledges only kills of that one.
    pub held_on: Option<SessionId>,
    /// Whether the server keeps its idle session for a moment only.
    pub is_short: bool,
}

impl Caller {
    /// What it wants, on a session that was not asked anything.
    pub fn forget_session(&mut self) {
        let plan = self.acquiring.plan;
        self.starting = None;
        self.acquiring = Acquiring::after(plan.first(), plan, false, false);
        self.is_short = false;
    }
}

/// The phase of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    NotYet,
    /// The server runs its statement, and has come this far.
    Asks(Step, At),
    /// The server has answered, and the session is idle.
    Answered(Step, Option<Answer>),
    /// It holds this slot, and asks the history before its command starts.
    Begins(u8),
    Runs(u8),
    /// It is releasing its slot, and has come this far.
    Releases(u8, Releasing, Release),
    /// Its session is lost, and it has no command.
    Reopens,
    /// On a new session, before it acquires the run id lock again.
    Opens,
    /// The server has answered the first question on a new session; with the holder of the run id lock.
    Opened(Step, Answer, Option<SessionId>),
    /// On a new session, with this clear answer. Before it asks who has killed one that it has lost.
    Recalls(Step, Answer),
    /// It lost its session while its command runs in this slot.
    Lost(u8),
    Retakes(u8, Retaking, Retake),
    /// Another session holds the slot: its command is ending.
    Stops(u8),
    /// Somebody kills it, and it has announced that its command is ending. Whether nobody else held the slot by then.
    Ends(u8, bool),
    /// It has no command, and acknowledges its kill. It held this slot, if any.
    Acks(Option<u8>, Acknowledging),
    Gone,
}

/// The progress of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum At {
    /// Before its first column.
    Start,
    /// Before it tries this slot without waiting.
    Slot(u8),
    /// Before it begins to wait.
    Wait,
    /// Waiting in the server's queue.
    Queued,
    /// Before it checks whether it is the queue's head; with the value of the first column.
    Head(Slot),
    /// A slot is acquired. Before the check of each kill marker of the slot, of who reacquires it, and before the release because of one.
    Marker(u8),
    End(u8),
    Reacquire(u8),
    Release(u8),
    /// Before the last columns of a proof: who reacquires the slot, and who kills its holder.
    ProofReacquire(Answer),
    ProofMarker(Answer),
    ProofEnd(Answer),
    /// Before the last column of the first answer on a session.
    Owner(Answer),
    /// Before the answer is sent.
    Reply(Answer),
}

/// The first column of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Slot {
    Held(u8),
    Refused,
    Null,
}

/// The progress of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Release {
    /// Before this.
    Asks(Ask),
    /// The slot is free. Before it reads who is the head of the queue; with whether the slot was held.
    AskForHead(bool),
}

/// The progress of what a caller asks to reacquire its slot, as in `statements`. Only a look has several steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retake {
    /// Before anything; a look acquires the run id lock.
    Start,
    /// Before it checks the kill lock.
    Marker,
    /// Before it checks whether it holds the run id lock.
    RunId,
    Slot,
    /// The slot is acquired; before it checks the kill lock.
    SlotMarker,
    SlotEnd,
    SlotRelease,
    /// Before the second column; with whether the slot was acquired, and whether the kill lock was held.
    Holder(bool, bool),
    /// Before the last column.
    Owner(bool, bool, Option<SessionId>),
    /// The server has answered.
    Looked(Look),
}

/// The phase of the killer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KillerPhase {
    NotYet,
    /// It kills the holder of this slot: this session.
    Kills(usize, SessionId, Killer),
    Gone,
}

impl KillerPhase {
    /// The session that it kills.
    pub fn victim(self) -> Option<SessionId> {
        match self {
            Self::Kills(_, victim, _) => Some(victim),
            Self::NotYet | Self::Gone => None,
        }
    }
}

//! The model's state at one moment: the callers, and the locks.

use super::locks::{Lock, MOST_SLOTS, Markers, SessionId};
use crate::lock::named::queue::{Answer, Plan, Step};
use crate::lock::named::retaking::{Look, Retaking};

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
    pub killer: Killer,
    pub budget: Budget,
}

impl World {
    pub fn new(setting: Setting, budget: Budget) -> Self {
        let caller = |number| {
            let waits = number < setting.callers - setting.impatient;
            Caller {
                plan: Plan::new(
                    u32::try_from(setting.slots_of(number)).unwrap(),
                    waits,
                    setting.checks_kills,
                ),
                phase: Phase::NotYet,
                killed: false,
                cut: false,
                late: !waits,
                session: u8::try_from(number).unwrap(),
                asked_on: None,
                held_on: None,
                opening: false,
            }
        };
        Self {
            callers: (0..setting.callers).map(caller).collect(),
            slots: [Lock::FREE; MOST_SLOTS],
            head: Lock::FREE,
            markers: Markers::FREE,
            ghosts: Vec::new(),
            ending: Vec::new(),
            killer: Killer::NotYet,
            budget,
        }
    }
}

#[expect(clippy::struct_excessive_bools, reason = "each may happen alone")]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Caller {
    pub plan: Plan,
    pub phase: Phase,
    /// `KILL QUERY` arrived while its statement was not waiting.
    pub killed: bool,
    /// Its network is cut: the server continues the statement, and nobody reads the answer.
    pub cut: bool,
    /// Its wait is over.
    pub late: bool,
    /// Its current or latest session.
    pub session: SessionId,
    /// Its previous session, on which it requested the lock.
    pub asked_on: Option<SessionId>,
    /// The session that held the slot that it lost. It acknowledges only kills of that one.
    pub held_on: Option<SessionId>,
    /// Whether this is the first question on a session other than its first.
    pub opening: bool,
}

/// The phase of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    NotYet,
    /// The server runs its statement, and has come this far.
    Asks(Step, At),
    /// The server has answered, and the session is idle.
    Answered(Step, Option<Answer>),
    Runs(u8),
    /// It is releasing its slot, and has come this far.
    Releases(u8, Release),
    /// Its session is lost, and it has no command.
    Reopens,
    /// On a new session, before it acquires the run id lock again; with its next question.
    Opens(Step),
    /// The server has answered the first question on a new session; with the holder of the run id lock.
    Opened(Step, Answer, Option<SessionId>),
    /// It lost its session while its command runs in this slot.
    Lost(u8),
    Retakes(u8, Retaking, Retake),
    /// Another session holds the slot: its command is ending.
    Stops(u8),
    /// Somebody kills it, and it has announced that its command is ending. Whether nobody else held the slot by then.
    Ends(u8, bool),
    /// The command has ended. Before it withdraws the announcement for this slot, if there is one, and acknowledges the kill.
    Acks(Option<u8>),
    /// It waits until the killer has read the acknowledgement, or takes too long.
    AwaitsKiller,
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
    /// A slot is acquired. Before the check of each kill marker of the slot, and before the release because of one.
    Marker(u8),
    End(u8),
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Release {
    Slot,
    AskForHead,
    Wake(u8),
}

/// The progress of an attempt to reacquire, as in `statements`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retake {
    /// Before it acquires the run id lock.
    Open,
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
    AskKiller,
    AnnounceEnd,
    Announce(SessionId),
    EndGhost(SessionId),
    /// Before it withdraws the announcement.
    Finish,
}

/// The progress of the killer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Killer {
    NotYet,
    /// Before it acquires the kill lock of this slot, to kill the holder's session.
    Marks(usize, SessionId),
    /// Before it acquires the session's kill request lock.
    Requests(usize, SessionId),
    /// Before it checks that the holder is still the same.
    Looks(usize, SessionId),
    Kills(usize, SessionId),
    /// It waits for the acknowledgement.
    Waits(usize, SessionId),
    /// Before it releases the first, and then the second lock.
    Unmarks(usize, SessionId),
    Unrequests(SessionId),
    Gone,
}

impl Killer {
    /// The session that it kills.
    pub fn victim(self) -> Option<SessionId> {
        match self {
            Self::Marks(_, victim)
            | Self::Requests(_, victim)
            | Self::Looks(_, victim)
            | Self::Kills(_, victim)
            | Self::Waits(_, victim)
            | Self::Unmarks(_, victim)
            | Self::Unrequests(victim) => Some(victim),
            Self::NotYet | Self::Gone => None,
        }
    }
}

//! What the model knows in one moment: where everybody is, and who has which lock.

use super::locks::{Lock, MOST_SLOTS, Markers, SessionId};
use crate::lock::named::queue::{Answer, Plan, Step};
use crate::lock::named::retaking::{Look, Retaking};

/// Both servers have the same locks; they differ in what `KILL QUERY` does to a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// The call that waits is NULL, and the statement goes on.
    MariaDb,
    /// The statement ends with an error, and the session keeps what it acquired.
    MySql,
}

/// What does not change during an exploration.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    pub server: Server,
    pub slots: usize,
    pub callers: usize,
    /// The last so many callers do not wait.
    pub impatient: usize,
    /// The first so many callers want the lock alone, which is slot 0.
    pub alone: usize,
    /// Whether holders may wake the head.
    pub wakes: bool,
    /// Whether sessions are lost and replaced, so that markers are acquired and read.
    pub reopens: bool,
    /// Whether each slot is asked for together with the markers that its holder is being ended.
    pub checks_kills: bool,
}

impl Setting {
    /// How many slots a caller may use.
    pub fn slots_of(self, number: usize) -> usize {
        if number < self.alone { 1 } else { self.slots }
    }
}

/// Events from outside that may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Budget {
    pub kills: u8,
    pub crashes: u8,
    pub cuts: u8,
    pub late: u8,
    /// Sessions that end; their dblock notices.
    pub losses: u8,
    /// Sessions that the server still keeps, and their dblock has lost.
    pub ghosts: u8,
    /// Whether somebody ends a holder.
    pub killers: u8,
    /// Whether that one dies.
    pub killer_deaths: u8,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub callers: Vec<Caller>,
    pub slots: [Lock; MOST_SLOTS],
    /// The lock of the head of the queue, `x#wait`.
    pub head: Lock,
    pub markers: Markers,
    /// Sessions that the server still keeps, and their dblock has lost.
    pub ghosts: Vec<SessionId>,
    /// Sessions that the server is ending: it releases their locks one by one.
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
    /// `KILL QUERY` arrived while its statement did not wait.
    pub killed: bool,
    /// Its network is cut: the server continues its statement, and nobody reads the answer.
    pub cut: bool,
    /// Its time to wait is over.
    pub late: bool,
    /// Its present or latest session.
    pub session: SessionId,
    /// The session on which it asked for the lock before.
    pub asked_on: Option<SessionId>,
    /// The session on which it held the slot that it lost. It answers only the killer of that one.
    pub held_on: Option<SessionId>,
    /// What it asks is its first question on a session that is not its first.
    pub opening: bool,
}

/// Where a caller is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    NotYet,
    /// The server executes a statement of its and has come so far.
    Asks(Step, At),
    /// The server has answered, and the session is idle.
    Answered(Step, Option<Answer>),
    Runs(u8),
    /// It releases its slot and has come so far.
    Releases(u8, Release),
    /// Its session is lost, and it has no command.
    Reopens,
    /// On a new session, before it acquires the run id's lock again; what it asks then.
    Opens(Step),
    /// The server has answered the first question on a new session; who holds the run id's lock.
    Opened(Step, Answer, Option<SessionId>),
    /// Its session is lost while its command runs in this slot.
    Lost(u8),
    Retakes(u8, Retaking, Retake),
    /// Another holds the slot: the command is being ended.
    Stops(u8),
    /// Somebody ends it, and it has announced that its command is being ended; whether nobody else held the slot
    /// by then.
    Ends(u8, bool),
    /// The command has ended; before it withdraws the announcement for this slot, if there is one, and answers the killer.
    Acks(Option<u8>),
    /// Until the killer has seen the answer, or takes too long.
    AwaitsKiller,
    Gone,
}

/// How far a statement has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum At {
    /// Before it has done anything.
    Start,
    /// Before it asks for this slot without waiting.
    Slot(u8),
    /// Before it asks for what it will wait for.
    Wait,
    /// In the server's queue for it.
    Queued,
    /// Before it asks whether it is the head; the value of the first column.
    Head(Slot),
    /// A slot is acquired. Before it asks for each marker that its last holder is being ended, and before it releases the slot for one.
    Marker(u8),
    End(u8),
    Release(u8),
    /// Before the last columns of a proof: who reacquires the slot, and who ends its holder.
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

/// How far an attempt to reacquire has come, as `statements` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retake {
    /// Before it acquires the run id's lock.
    Open,
    /// Before it looks for the kill lock.
    Marker,
    /// Before it looks whether it holds the run id's lock.
    RunId,
    Slot,
    /// The slot is acquired; before it looks for the kill lock.
    SlotMarker,
    SlotEnd,
    SlotRelease,
    /// Before its second column; whether the slot was acquired, and whether the kill lock was held.
    Holder(bool, bool),
    /// Before its last column.
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

/// How far the killer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Killer {
    NotYet,
    /// Before it acquires the kill lock of this slot, to end the holder's session.
    Marks(usize, SessionId),
    /// Before it acquires the kill request lock of the session.
    Requests(usize, SessionId),
    /// Before it looks whether the holder is still the same.
    Looks(usize, SessionId),
    Kills(usize, SessionId),
    /// It waits for the answer.
    Waits(usize, SessionId),
    /// Before it releases the one, and then the other.
    Unmarks(usize, SessionId),
    Unrequests(SessionId),
    Gone,
}

impl Killer {
    /// The session that it is ending.
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

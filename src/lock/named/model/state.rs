//! What the model knows in one moment: where everybody is, and who has which lock.

use super::locks::{Lock, MOST_SLOTS, SessionId, Signs};
use crate::lock::named::queue::{Answer, Plan, Step};
use crate::lock::named::retaking::{Look, Retaking};

/// Both servers have the same locks; they differ in what `KILL QUERY` does to a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// The call that waits is NULL, and the statement goes on.
    MariaDb,
    /// The statement ends with an error, and what it took it keeps.
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
    /// Whether sessions are lost and opened anew, so that signs are taken and read.
    pub reopens: bool,
    /// Whether each slot is asked for together with the signs that its holder is being ended.
    pub checks_kills: bool,
}

impl Setting {
    /// How many slots a caller is content with.
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
    /// Sessions that end, which their dblock sees.
    pub losses: u8,
    /// Sessions that the server goes on to keep, and their dblock does not.
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
    pub place: Lock,
    pub signs: Signs,
    /// Sessions that the server keeps, and their dblock does not.
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
            place: Lock::FREE,
            signs: Signs::FREE,
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
    /// `KILL QUERY` came while its statement did not wait.
    pub killed: bool,
    /// Its network is cut: the server goes on with its statement, and nobody reads the answer.
    pub cut: bool,
    /// Its time is over.
    pub late: bool,
    /// Its present or latest session.
    pub session: SessionId,
    /// The session on which it asked for the lock before.
    pub asked_on: Option<SessionId>,
    /// The session on which it held the slot that it lost: only whoever ends that one ends its command.
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
    /// Gives its slot back and has come so far.
    Releases(u8, Release),
    /// Its session is lost, and it has no command.
    Reopens,
    /// On a new session, before it takes the run id's lock once more; what it asks then.
    Opens(Step),
    /// The server has answered the first question on a new session; who has the run id's lock.
    Opened(Step, Answer, Option<SessionId>),
    /// Its session is lost while its command runs in this slot.
    Lost(u8),
    Retakes(u8, Retaking, Retake),
    /// The slot is another's: the command is being ended.
    Stops(u8),
    /// Somebody ends it, and it has announced that its command is being ended; whether nobody else had the slot
    /// by then.
    Ends(u8, bool),
    /// The command is gone; before the announcement for this slot is taken back, if there is one, and the killer is told.
    Acks(Option<u8>),
    /// Until the killer has heard of it, or does not seem to listen.
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
    /// Before its last column is evaluated; what the first one said.
    Place(Slot),
    /// A slot is taken; before each of the signs is asked for that its holder is being ended, and before it is released for them.
    Marker(u8),
    End(u8),
    LetGo(u8),
    /// Before the last columns of a proof: the signs.
    ProofBack(Answer),
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
    Had(u8),
    Refused,
    Null,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Release {
    Slot,
    AskForHead,
    Wake(u8),
}

/// How far an attempt has come, as `statements` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retake {
    /// Before it takes the run id's lock.
    Open,
    /// Before it looks for a marker.
    Marker,
    /// Before it looks whether it has the run id's lock.
    RunId,
    Slot,
    /// The slot is acquired; before it looks for a marker.
    SlotMarker,
    SlotEnd,
    SlotRelease,
    /// Before its second column; whether the slot was acquired, and whether there was a marker.
    Holder(bool, bool),
    /// Before its last column.
    Owner(bool, bool, Option<SessionId>),
    /// The server has answered.
    Looked(Look),
    AskKiller,
    AnnounceEnd,
    Announce(SessionId),
    EndGhost(SessionId),
    /// Before the announcement is taken back.
    Finish,
}

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Killer {
    NotYet,
    /// Before it takes the marker of this slot, to end the holder's session.
    Marks(usize, SessionId),
    /// Before it takes that of the session.
    Requests(usize, SessionId),
    /// Before it looks whether the holder is still the same.
    Looks(usize, SessionId),
    Kills(usize, SessionId),
    /// For the answer.
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

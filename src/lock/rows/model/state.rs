//! The model's state at one moment: the rows, the statements on their way, and the callers.

use std::time::Duration;

use crate::base::clock::Moment;
use crate::lock::Lease;
use crate::lock::rows::change::Change;
use crate::lock::rows::claim::Claim;
use crate::lock::rows::holding::Hold;
use crate::lock::rows::state::SlotState;
use crate::lock::rows::step::RowStep;

pub const MOST_CALLERS: usize = 4;
pub const MOST_SLOTS: usize = 2;

/// The TTL in ticks of a second: of a run or a token, and of a script that asks for a shorter one while a command runs.
pub const TTL: u8 = 2;
pub const SHORT_TTL: u8 = 1;

/// Greater ages are not distinguished.
const OLDEST: u8 = TTL + 1;

/// A rule that is left out, to show that it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Broken {
    /// A slot is taken as expired, even if it has not expired.
    TakesUnexpired,
    /// An expired slot is taken, even if it was granted since.
    TakesExpiredWithoutFence,
    /// A slot is taken over by the owner name, even if it was granted since.
    TakesOverByName,
    /// A grant is renewed by its owner, without its fence.
    RenewsByOwner,
    /// A grant is released by its owner, without its fence.
    ReleasesByOwner,
    /// The look after a release comes after the commit, when another caller may have the slot.
    LooksAfterRelease,
    /// A release that has changed no row counts as proof that the lock was not held any more.
    BelievesUnchanged,
    /// A script's renewal shortens the TTL of a row under which a command runs.
    ShortensUnderCommand,
    /// A node answers with old data.
    ReadsThePast,
    /// A lease counts from the answer, not from the statement.
    CountsFromAnswer,
    /// A write without an answer counts as not done.
    BelievesLostAsUndone,
    /// A write without an answer counts as done.
    BelievesLostAsDone,
    /// A waiter's claim is not withdrawn, so it may still count as a holder.
    WaitsWithAClaim,
}

/// What does not change during an exploration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Setting {
    pub slots: usize,
    pub callers: usize,
    /// The last of the callers do not wait; this many.
    pub impatient: usize,
    /// The first of the callers are scripts that acquire a token, and then run a command under it; this many.
    pub scripts: usize,
    /// Whether all scripts have the same owner name.
    pub named: bool,
    /// Whether waiters are granted the slot by a queue.
    pub queued: bool,
    pub broken: Option<Broken>,
}

/// Disturbances that may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Budget {
    /// Ticks while a statement is on its way and its caller is awake.
    pub slow: u8,
    /// Sessions that end, or keepers that die, with a statement on its way. It may be carried out before that, or much later.
    pub losses: u8,
    /// Writes that a cluster rolls back because of a conflict.
    pub conflicts: u8,
    /// Writes that a node applies to the rows as they were at the question.
    pub misses: u8,
    /// Hosts that vanish.
    pub crashes: u8,
    /// Supervisors that give up while their keepers claim a slot.
    pub give_ups: u8,
    /// Hosts that sleep, and wake up at any time.
    pub sleeps: u8,
    /// `dblock kill`, and `dblock kill --force`.
    pub kills: u8,
    pub forced: u8,
    /// `dblock renew --ttl` while a command runs under the token.
    pub shortened: u8,
}

/// A row of the table.
#[expect(clippy::struct_excessive_bools, reason = "each is a column")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TableRow {
    pub exists: bool,
    pub fence: u8,
    pub owner: Option<u8>,
    pub is_named: bool,
    pub write_id: u8,
    pub ttl: u8,
    /// The time until it expires.
    pub left: u8,
    /// Whether a command runs under a script's token.
    pub under_command: bool,
    pub kill_requested: bool,
}

pub type Rows = [TableRow; MOST_SLOTS];

/// The scripts' owner name.
pub const OWNER_NAME: &str = "same";

/// The owner in the rows of this caller.
pub fn owner(number: u8) -> &'static str {
    ["a", "b", "c", "d"][usize::from(number)]
}

/// The rows as the program sees them.
pub fn seen(rows: &Rows) -> Vec<SlotState> {
    let rows = (0..).zip(rows).filter(|(_, row)| row.exists);
    let state = |(slot, row): (u32, &TableRow)| SlotState {
        slot,
        fence: row.fence.into(),
        owner: row.owner.map(|number| owner(number).to_owned()),
        owner_name: row.is_named.then(|| OWNER_NAME.to_owned()),
        write_id: row.write_id.into(),
        expires_in: i64::from(row.left),
        kill_requested_by: row.kill_requested.then(String::new),
        ..SlotState::default()
    };
    rows.map(state).collect()
}

/// How far a statement has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum At {
    Sent,
    /// The write was carried out.
    Done,
    /// The answer is on its way, with these rows.
    Looked(Rows),
}

/// A statement whose answer is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flight {
    pub step: RowStep,
    /// The write's number, or that of the write whose result is looked up.
    pub write_id: u8,
    /// Whether that write has changed a row.
    pub has_changed: bool,
    pub at: At,
    /// The time since it was sent.
    pub age: u8,
}

impl Flight {
    /// The rows as they were when the server answered.
    pub fn rows(&self) -> Rows {
        match self.at {
            At::Looked(rows) => rows,
            at => unreachable!("it has no answer: {at:?}"),
        }
    }
}

/// A write of a lost session. It may be carried out at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ghost {
    pub number: u8,
    pub step: RowStep,
}

/// The phase of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    NotYet,
    Claims,
    /// Others hold the slots.
    Waits,
    /// Its command runs, or is about to start.
    Holds,
    /// Its command has ended, or never ran.
    Releases,
    /// A script has the token, and no dblock process runs; whether a command has run under it.
    HasToken(bool),
    /// It asks whether the token holds the lock.
    Adopts,
    Gone,
}

#[expect(clippy::struct_excessive_bools, reason = "each may happen alone")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Caller {
    pub phase: Phase,
    /// The program's machines.
    pub claim: Claim,
    pub hold: Hold,
    /// Whether its session has been used for its grant.
    pub has_session: bool,
    pub flight: Option<Flight>,
    /// The slot that it holds, or held.
    pub slot: u32,
    pub fence: Option<u64>,
    pub ttl: u8,
    /// The age of the lease: the time since the last proof was sent.
    pub lease: u8,
    pub has_started: bool,
    /// Whether its host has slept, so the lease must be proved before the command continues.
    pub in_doubt: bool,
    pub asleep: bool,
    /// Whether its supervisor has given up.
    pub quits: bool,
    /// Whether its slot was deliberately given to another caller: its command runs until the next renewal.
    pub is_ousted: bool,
    /// Whether it knows that its grant is over.
    pub knows_end: bool,
    /// Whether it knows that it is being killed.
    pub is_killed: bool,
    /// Whether its grant has ended by its own release.
    pub has_released: bool,
    /// Whether it holds nothing, as far as it knows.
    pub is_clean: bool,
    /// Whether it was granted a slot by a write that it had given up.
    pub is_haunted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub setting: Setting,
    pub budget: Budget,
    pub rows: Rows,
    /// The rows on a lagging node.
    pub past: Rows,
    pub callers: Vec<Caller>,
    pub ghosts: Vec<Ghost>,
    /// The greatest fence of any command in each slot.
    pub fences: [u64; MOST_SLOTS],
}

impl World {
    pub fn new(setting: Setting, budget: Budget) -> Self {
        let caller = Caller {
            phase: Phase::NotYet,
            claim: Claim::default(),
            hold: Hold::default(),
            has_session: false,
            flight: None,
            slot: 0,
            fence: None,
            ttl: TTL,
            lease: 0,
            has_started: false,
            in_doubt: false,
            asleep: false,
            quits: false,
            is_ousted: false,
            knows_end: false,
            is_killed: false,
            has_released: false,
            is_clean: false,
            is_haunted: false,
        };
        Self {
            setting,
            budget,
            rows: Rows::default(),
            past: Rows::default(),
            callers: vec![caller; setting.callers],
            ghosts: Vec::new(),
            fences: [0; MOST_SLOTS],
        }
    }

    pub fn is_broken(&self, broken: Broken) -> bool {
        self.setting.broken == Some(broken)
    }

    pub fn is_script(&self, number: u8) -> bool {
        usize::from(number) < self.setting.scripts
    }

    pub fn waits(&self, number: u8) -> bool {
        usize::from(number) < self.setting.callers - self.setting.impatient
    }
}

impl Caller {
    /// Whether its command is running.
    pub fn runs(&self) -> bool {
        self.phase == Phase::Holds && !self.asleep && !self.in_doubt
    }

    /// Whether its command must have ended this many ticks from now.
    pub fn is_over_in(&self, ticks: u8) -> bool {
        let seconds = |ticks: u8| Duration::from_secs(ticks.into());
        let proved = Moment::START;
        let ttl = seconds(self.ttl);
        Lease { ttl, proved }.over() <= proved + seconds(self.lease + ticks)
    }

    /// One tick of its own clock.
    pub fn tick(&mut self) {
        self.lease = OLDEST.min(self.lease + 1);
        if let Some(flight) = &mut self.flight {
            flight.age = OLDEST.min(flight.age + 1);
        }
    }

    /// Forgets what nothing depends on any more, so that equal states are recognized.
    pub fn forget(&mut self) {
        if self.phase != Phase::Holds {
            self.lease = 0;
            self.in_doubt = false;
        }
        if self.phase != Phase::Holds || self.hold.is_the_scripts {
            self.has_session = false;
        }
        if !matches!(self.phase, Phase::NotYet | Phase::Claims | Phase::Waits) {
            self.claim = Claim::default();
        }
        if matches!(self.phase, Phase::HasToken(_) | Phase::Gone) {
            self.hold = Hold::default();
        }
        if self.phase == Phase::Gone {
            (self.slot, self.fence, self.ttl) = (0, None, TTL);
            (self.quits, self.is_ousted) = (false, false);
            (self.is_killed, self.has_released) = (false, false);
        }
        let Some(flight) = &mut self.flight else {
            return;
        };
        let keeps_age = matches!(self.phase, Phase::Claims | Phase::Holds | Phase::Adopts);
        if !keeps_age || !flight.step.is_write() {
            flight.age = 0;
        }
        if let At::Looked(rows) = &mut flight.at {
            for row in rows {
                row.left = row.left.min(1);
                row.write_id = if row.write_id == flight.write_id {
                    flight.write_id
                } else {
                    0
                };
            }
        }
    }
}

impl RowStep {
    /// The change that a write makes, if nobody is being killed.
    pub fn change(self) -> Option<Change> {
        match self {
            Self::Look | Self::LookAt(_) => None,
            Self::Write(change) | Self::WriteOnly(change) => Some(change),
            Self::RenewUnlessKilled { slot, fence } => Some(Change::Renew { slot, fence }),
        }
    }

    /// The slot that it grants.
    pub fn granted(self) -> Option<u32> {
        self.change().and_then(Change::granted)
    }

    pub fn renews(self) -> bool {
        matches!(self.change(), Some(Change::Renew { .. }))
    }

    /// Whether it ends a known grant, or returns it to a script.
    pub fn releases(self) -> bool {
        let change = self.change();
        matches!(
            change,
            Some(Change::Release { .. } | Change::HandBack { .. })
        )
    }
}

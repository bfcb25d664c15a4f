//! Holding a slot's row: a machine for its renewal and its release. It is told the server's answers, and says what to ask next, as in
//! `claim`.

use super::change::Change;
use super::state::SlotState;
use super::step::{Answer, Next, RowStep};

/// The result of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Renewed {
    /// The grant is held.
    Confirmed,
    /// Somebody kills the holder.
    Killed,
    /// The row still has this grant, but another write was the last one: renew it again.
    Unknown,
    /// The row has another owner or none, or there is no row; or it is a script's, and somebody kills the command under it.
    Lost,
}

/// The result of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Released {
    /// It is done.
    Done,
    /// It was not held any more.
    NotHeld,
    /// The row still has this grant: release it again.
    Unknown,
}

/// A caller's grant, as its row identifies it.
#[derive(Debug, Clone, Copy)]
pub struct OwnGrant<'a> {
    /// The owner of the row.
    pub owner: &'a str,
    /// Which slot.
    pub slot: u32,
    /// The fence; `None`: it is unknown whether any slot was granted.
    pub fence: Option<u64>,
    /// The run whose command is under the grant, if a script has it.
    pub command_run: Option<&'a str>,
}

/// What was asked last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
enum Asked {
    #[default]
    Nothing,
    /// A renewal that fails where somebody kills the holder.
    QuickRenewal,
    Renewal,
    Release,
    /// What the release with this number has done.
    LookAfterRelease(u64),
}

/// How a grant is held, on one session after another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Hold {
    /// Whether a script has the grant, and keeps it after the command under it.
    pub is_the_scripts: bool,
    /// Whether it may have been released already: the answer was lost, or the process that got it has died.
    pub may_be_released: bool,
    asked: Asked,
}

impl Hold {
    /// For a grant of this caller, or one that is a script's.
    pub fn new(is_the_scripts: bool) -> Self {
        Self {
            is_the_scripts,
            ..Self::default()
        }
    }

    /// Begins a renewal, maybe on a new session. In nearly all cases one statement is enough.
    pub fn renew(&mut self, grant: &OwnGrant, is_new_session: bool) -> Next<Renewed> {
        if is_new_session || self.is_the_scripts {
            return self.renew_fully(grant);
        }
        self.asked = Asked::QuickRenewal;
        let (slot, fence) = grant.key();
        Next::Ask(RowStep::RenewUnlessKilled { slot, fence })
    }

    fn renew_fully(&mut self, grant: &OwnGrant) -> Next<Renewed> {
        self.asked = Asked::Renewal;
        let (slot, fence) = grant.key();
        Next::Ask(RowStep::Write(Change::Renew { slot, fence }))
    }

    /// What follows from an answer about a renewal.
    pub fn after_renewal(&mut self, grant: &OwnGrant, answer: &Answer) -> Next<Renewed> {
        let renewed = match (std::mem::take(&mut self.asked), answer) {
            (Asked::QuickRenewal, Answer::Written(_, written)) if written.has_changed => {
                Renewed::Confirmed
            }
            // The row says why.
            (Asked::QuickRenewal, _) | (_, Answer::Refused) => return self.renew_fully(grant),
            (_, Answer::Written(write_id, written)) => grant.renewed(&written.rows, *write_id),
            // What was only read proves nothing.
            (_, Answer::Rows(_)) => Renewed::Unknown,
        };
        match renewed {
            Renewed::Confirmed => self.may_be_released = false,
            // A script does not get its lock back.
            Renewed::Killed => self.is_the_scripts = false,
            Renewed::Unknown | Renewed::Lost => {}
        }
        Next::Over(renewed)
    }

    /// Whether a script has the lock, and this run has not taken it over. Then the script keeps it.
    pub fn stays_the_scripts(&self, grant: &OwnGrant) -> bool {
        self.is_the_scripts && grant.fence.is_none()
    }

    /// Begins a release, or a return to the script.
    pub fn release(&mut self, grant: &OwnGrant) -> Next<Released> {
        if self.stays_the_scripts(grant) {
            return Next::Over(Released::Done);
        }
        self.asked = Asked::Release;
        let (slot, fence) = grant.key();
        Next::Ask(match grant.fence {
            None => RowStep::Write(Change::ReleaseAny),
            Some(_) if self.is_the_scripts => RowStep::WriteOnly(Change::HandBack { slot, fence }),
            Some(_) => RowStep::WriteOnly(Change::Release { slot, fence }),
        })
    }

    /// What follows from an answer about a release.
    pub fn after_release(&mut self, grant: &OwnGrant, answer: &Answer) -> Next<Released> {
        Next::Over(match (std::mem::take(&mut self.asked), answer) {
            (_, Answer::Refused) => return self.release(grant),
            (_, Answer::Written(_, written)) if grant.fence.is_none() => {
                grant.released_any(&written.rows)
            }
            (_, Answer::Written(_, written)) if written.has_changed => Released::Done,
            // That proves nothing: the node may lag, or an earlier release was carried out.
            (_, Answer::Written(write_id, _)) => {
                self.asked = Asked::LookAfterRelease(*write_id);
                return Next::Ask(RowStep::LookAt(grant.slot));
            }
            (Asked::LookAfterRelease(write_id), Answer::Rows(rows)) => {
                grant.released(rows, write_id, self.may_be_released)
            }
            (_, Answer::Rows(_)) => Released::Unknown,
        })
    }

    /// Handles a lost answer: what was asked may have been carried out, or will be.
    pub fn on_silence(&mut self) {
        self.may_be_released |= std::mem::take(&mut self.asked) == Asked::Release;
    }
}

impl OwnGrant<'_> {
    fn key(&self) -> (u32, u64) {
        (self.slot, self.fence.unwrap_or_default())
    }

    /// Whether another command is under the script's grant.
    pub fn has_another_command(&self, row: &SlotState) -> bool {
        let other = row.command_run.as_deref();
        self.command_run.is_some() && other.is_some() && other != self.command_run
    }

    /// Whether this is the script's own renewal, beside a command under its grant.
    fn is_beside_command(&self, row: &SlotState) -> bool {
        self.command_run.is_none() && row.command_run.is_some()
    }

    /// Whether the row has this grant, whatever command is under it.
    pub fn is_in(&self, row: &SlotState) -> bool {
        row.owner.as_deref() == Some(self.owner) && Some(row.fence) == self.fence
    }

    fn is_held_in(&self, row: &SlotState) -> bool {
        self.is_in(row) && !self.has_another_command(row)
    }

    /// What the `rows` show after a renewal with the number `write_id`.
    fn renewed(&self, rows: &[SlotState], write_id: u64) -> Renewed {
        let row = rows.iter().find(|row| row.slot == self.slot);
        let is_killed = |row: &SlotState| row.kill_requested_by.is_some();
        match row.filter(|row| self.is_held_in(row)) {
            // Only who runs the command knows when it has ended, and releases the row then.
            Some(row) if is_killed(row) && self.is_beside_command(row) => Renewed::Lost,
            Some(row) if row.write_id != write_id => Renewed::Unknown,
            Some(row) if is_killed(row) => Renewed::Killed,
            Some(_) => Renewed::Confirmed,
            None => Renewed::Lost,
        }
    }

    /// What the `rows` show after a release with the number `write_id`. `may_be_done`: an earlier release got no answer.
    fn released(&self, rows: &[SlotState], write_id: u64, may_be_done: bool) -> Released {
        match rows.iter().find(|row| row.slot == self.slot) {
            Some(row) if row.write_id == write_id => Released::Done,
            Some(row) if self.is_held_in(row) => Released::Unknown,
            _ if may_be_done => Released::Done,
            _ => Released::NotHeld,
        }
    }

    /// What the `rows` show after the release of any slot of this owner.
    fn released_any(&self, rows: &[SlotState]) -> Released {
        let is_own = |row: &SlotState| row.owner.as_deref() == Some(self.owner);
        if rows.iter().any(is_own) {
            Released::Unknown
        } else {
            Released::Done
        }
    }
}

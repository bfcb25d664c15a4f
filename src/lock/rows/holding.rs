//! Holding a slot's row: what follows from the rows after a renewal and after a release. Decisions only, as in `claim`.

use super::state::SlotState;

/// A grant, as its row identifies it.
#[derive(Debug, Clone, Copy)]
pub struct Holding<'a> {
    /// The owner of the row.
    pub owner: &'a str,
    /// Which slot.
    pub slot: u32,
    /// The fence.
    pub fence: u64,
    /// The run whose command is under the grant, if a script has it.
    pub command_run: Option<&'a str>,
}

/// The result of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewed<'a> {
    /// The grant is held.
    Confirmed,
    /// Somebody kills the holder.
    Killed,
    /// The row still has this grant, but another write was the last one: ask again.
    Unknown,
    /// The row has another owner, or none; `None`: there is no row.
    Lost(Option<&'a SlotState>),
}

/// The result of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// It is done.
    Done,
    /// It was not held any more.
    NotHeld,
    /// The row still has this grant: release it again.
    Unknown,
}

impl Holding<'_> {
    /// Whether another command is under the script's grant.
    pub fn has_another_command(&self, row: &SlotState) -> bool {
        let other = row.command_run.as_deref();
        self.command_run.is_some() && other.is_some() && other != self.command_run
    }

    fn is_of(&self, row: &SlotState) -> bool {
        let is_own = row.owner.as_deref() == Some(self.owner) && row.fence == self.fence;
        is_own && !self.has_another_command(row)
    }

    /// What the `rows` show after a renewal with the number `write_id`.
    pub fn after_renewal<'r>(&self, rows: &'r [SlotState], write_id: u64) -> Renewed<'r> {
        match rows.iter().find(|row| row.slot == self.slot) {
            Some(row) if self.is_of(row) && row.write_id != write_id => Renewed::Unknown,
            Some(row) if self.is_of(row) && row.kill_requested_by.is_some() => Renewed::Killed,
            Some(row) if self.is_of(row) => Renewed::Confirmed,
            other => Renewed::Lost(other),
        }
    }

    /// What the `rows` show after a release with the number `write_id`. `may_be_done`: an earlier release got no answer.
    pub fn after_release(&self, rows: &[SlotState], write_id: u64, may_be_done: bool) -> Released {
        match rows.iter().find(|row| row.slot == self.slot) {
            Some(row) if row.write_id == write_id => Released::Done,
            Some(row) if self.is_of(row) => Released::Unknown,
            _ if may_be_done => Released::Done,
            _ => Released::NotHeld,
        }
    }
}

/// What the `rows` show after the release of any slot of this owner.
pub fn after_release_of_any(rows: &[SlotState], owner: &str) -> Released {
    let is_own = |row: &SlotState| row.owner.as_deref() == Some(owner);
    if rows.iter().any(is_own) {
        Released::Unknown
    } else {
        Released::Done
    }
}

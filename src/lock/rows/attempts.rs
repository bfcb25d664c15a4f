//! What is known of a caller from its attempts to acquire a row so far, and which of that it was told.

use crate::base::clock::Moment;
use crate::db::Fault;
use crate::lock::Caller;
use crate::lock::named::OwnKillers;

/// What the attempts to acquire a lock leave to the next one.
#[derive(Default)]
pub(super) struct Attempts {
    /// Who has killed this caller by its named lock, before it had a row.
    pub killers: OwnKillers,
    /// When a session on which the lock was waited for was lost.
    pub lost: Option<Moment>,
    /// Why all servers are unfit, if they are read-only, as the caller was told last.
    only_read_only: Option<String>,
    /// Whether another session keeps the row locked, as the caller was told last.
    row_is_locked: bool,
}

impl Attempts {
    /// Tells the caller whether all servers were read-only in this round.
    pub fn report_read_only(&mut self, fault: &Fault, caller: &dyn Caller) {
        let read_only = match fault {
            Fault::ReadOnly(line) => Some(line),
            _ => None,
        };
        if read_only != self.only_read_only.as_ref() {
            caller.on_read_only(read_only.map(String::as_str));
            self.only_read_only = read_only.cloned();
        }
    }

    /// Tells the caller if a statement failed because another session keeps the row locked. Any other fault says nothing of that.
    pub fn report_locked_row(&mut self, fault: &Fault, caller: &dyn Caller) {
        if matches!(fault, Fault::Conflict(_)) {
            self.note_locked_row(true, caller);
        }
    }

    /// Tells the caller whether another session keeps the row locked.
    pub fn note_locked_row(&mut self, is_locked: bool, caller: &dyn Caller) {
        if is_locked != self.row_is_locked {
            caller.on_row_locked(is_locked);
            self.row_is_locked = is_locked;
        }
    }
}

//! What the machines of `claim` and `holding` ask a server, and its answers, as data. The program sends statements for them, and the model
//! has a server of its own.

use super::change::Change;
use super::state::SlotState;

/// What to ask the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowStep {
    /// Read all rows.
    Look,
    /// Read the row of this slot.
    LookAt(u32),
    /// Write this, and read rows in the same packet.
    Write(Change),
    /// Write this, and only report whether that has changed a row.
    WriteOnly(Change),
    /// As [`RowStep::WriteOnly`], renew a grant, unless somebody kills its holder.
    RenewUnlessKilled { slot: u32, fence: u64 },
}

impl RowStep {
    /// Whether it may change a row.
    pub fn is_write(self) -> bool {
        !matches!(self, Self::Look | Self::LookAt(_))
    }
}

/// What a machine does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Next<T> {
    /// Ask the server.
    Ask(RowStep),
    /// Nothing: this is the result.
    Over(T),
}

/// The server's answer. Without one the session is lost, and a write may still be carried out.
#[derive(Debug)]
pub enum Answer {
    /// The rows that were read.
    Rows(Vec<SlotState>),
    /// The result of the write with this number.
    Written(u64, Written),
    /// The write was refused, mostly because of a conflict with another one. It has changed nothing.
    Refused,
}

/// The result of a write.
#[derive(Debug, Default)]
pub struct Written {
    /// The rows that it read; empty without a look.
    pub rows: Vec<SlotState>,
    /// Whether it reports that it has changed a row.
    pub has_changed: bool,
    /// The fence of a grant, if it reports one.
    pub fence: Option<u64>,
    /// The release of the named lock that followed; `None`: none did, or the server refused it.
    pub released: Option<NamedRelease>,
}

/// A named lock was released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedRelease {
    /// The session at the head of the queue, which is to be woken.
    pub queue_head: Option<u64>,
}

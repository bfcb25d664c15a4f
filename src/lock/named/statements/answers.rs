//! The answers to a named lock's statements. They are read by the columns' place: some servers have fewer of them than others.

use crate::db::{Fault, Row};
use crate::lock::named::fitness::{ServerTraits, is_on};
use crate::lock::named::queue::Answer;

/// In the place of a slot's number: somebody kills its holder.
pub const KILLED: i64 = -2;

/// The answer to a step.
pub struct Asked {
    /// `None`: the answer lacks the connection id.
    pub answer: Option<Answer>,
    /// Whether the server takes no writes.
    pub is_read_only: bool,
}

impl Asked {
    /// Reads the answer to a step of a lock with so many slots.
    pub(super) fn read(row: &Row, slots: u32) -> Result<Self, Fault> {
        let (_, head): (Option<i64>, Option<u64>) = row.columns()?;
        Self::read_with(row, slots, head)
    }

    /// Reads all columns but the second, whose value is `head`.
    fn read_with(row: &Row, slots: u32, head: Option<u64>) -> Result<Self, Fault> {
        let (slot, connection_id): (Option<i64>, Option<u64>) = (row.at(0)?, row.at(2)?);
        let (read_only, innodb_read_only) = (row.at(3)?, row.at(4)?);
        let answer = connection_id.map(|connection_id| Answer {
            refused: slot == Some(-1),
            // Any other number is not a slot.
            slot: slot
                .and_then(|slot| u32::try_from(slot).ok())
                .filter(|&slot| slot < slots),
            is_head: head == Some(1),
            killed: slot == Some(KILLED),
            reacquired: false,
            connection_id,
        });
        let is_read_only = [read_only, innodb_read_only].into_iter().any(is_on);
        Ok(Self {
            answer,
            is_read_only,
        })
    }

    /// Reads the answer to the proof of a slot, which also says who reacquires it, and who kills its holder.
    pub(super) fn read_proof(row: &Row, slots: u32) -> Result<Self, Fault> {
        let asked = Self::read(row, slots)?;
        let reacquirer: Option<u64> = row.at(5)?;
        let killer: Option<u64> = row.at(6)?;
        let answer = asked.answer.map(|answer| Answer {
            reacquired: reacquirer.is_some(),
            killed: killer.is_some(),
            ..answer
        });
        Ok(Self { answer, ..asked })
    }
}

/// The answer to the first step of a session.
pub struct Opened {
    /// The answer of the step itself.
    pub asked: Asked,
    /// The session that holds the run id lock.
    pub run_id_owner: Option<u64>,
    /// The server's traits.
    pub traits: ServerTraits,
}

impl Opened {
    /// Reads it, for a lock with so many slots.
    pub(super) fn read(row: &Row, slots: u32) -> Result<Self, Fault> {
        Self::read_with(row, Asked::read(row, slots)?)
    }

    fn read_with(row: &Row, asked: Asked) -> Result<Self, Fault> {
        Ok(Self {
            asked,
            run_id_owner: row.at(5)?,
            traits: ServerTraits::new(row.at(6)?, row.at(7)?, row.at(8)?, row.at(9)?),
        })
    }
}

/// The answer to the attempt to reacquire a slot, as the first step of a session.
pub struct ReacquireAnswer {
    /// The part that every first step answers.
    pub opened: Opened,
    /// The session that holds the slot.
    pub holder: Option<u64>,
}

impl ReacquireAnswer {
    /// Reads it, for a lock with so many slots.
    pub(super) fn read(row: &Row, slots: u32) -> Result<Self, Fault> {
        Ok(Self {
            opened: Opened::read_with(row, Asked::read_with(row, slots, None)?)?,
            holder: row.at(1)?,
        })
    }
}

/// Who kills the holder of a slot.
pub struct KillMarker {
    /// The session that holds the kill lock.
    pub killer: Option<u64>,
    /// Whether the server takes no writes.
    pub is_read_only: bool,
}

impl KillMarker {
    /// Reads it.
    pub(super) fn read(row: &Row) -> Result<Self, Fault> {
        let (killer, one, other): (_, Option<String>, Option<String>) = row.columns()?;
        Ok(Self {
            killer,
            is_read_only: is_on(one) || is_on(other),
        })
    }
}

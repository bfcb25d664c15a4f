//! The answers to a named lock's statements: one type for each statement.

use crate::db::{Fault, Row, Statement, short_address};
use crate::lock::named::fitness::ServerTraits;
use crate::lock::named::queue::Answer;

/// In the place of a slot's number: somebody kills its holder.
pub const KILLED: i64 = -2;

/// A statement whose answer does not matter.
pub struct Command(pub(super) String);

impl Statement for Command {
    type Answer = ();

    fn sql(&self) -> String {
        self.0.clone()
    }

    fn decode(&self, _rows: &[Row]) -> Result<(), Fault> {
        Ok(())
    }
}

/// A yes-or-no question: one column, 1 for yes.
pub struct Flag(pub(super) String);

impl Statement for Flag {
    type Answer = bool;

    fn sql(&self) -> String {
        self.0.clone()
    }

    fn decode(&self, rows: &[Row]) -> Result<bool, Fault> {
        Ok(rows.first().map_or(Ok(None), |row| row.old::<i64>(0))? == Some(1))
    }
}

/// A step towards a slot.
pub struct Ask {
    pub(super) sql: String,
    /// How many slots there are.
    pub(super) slots: u32,
}

/// The answer to a step.
pub struct Asked {
    /// `None`: the answer lacks the connection id.
    pub answer: Option<Answer>,
    /// Whether the server takes no writes.
    pub is_read_only: bool,
}

impl Ask {
    fn read(&self, row: &Row) -> Result<Asked, Fault> {
        self.read_slot(row, row.old(1)?)
    }

    /// Reads all columns but the second, whose value is `head`.
    fn read_slot(&self, row: &Row, head: Option<u8>) -> Result<Asked, Fault> {
        let slot: Option<i64> = row.old(0)?;
        let connection_id: Option<u64> = row.old(2)?;
        let answer = connection_id.map(|connection_id| Answer {
            refused: slot == Some(-1),
            // Any other number is not a slot.
            slot: slot
                .and_then(|slot| u32::try_from(slot).ok())
                .filter(|&slot| slot < self.slots),
            is_head: head == Some(1),
            kills: head == Some(2),
            killed: slot == Some(KILLED),
            reacquired: false,
            connection_id,
        });
        let is_on = |column| ServerTraits::is_on(row, column);
        Ok(Asked {
            answer,
            is_read_only: is_on(3)? || is_on(4)?,
        })
    }
}

impl Statement for Ask {
    type Answer = Option<Asked>;

    fn sql(&self) -> String {
        self.sql.clone()
    }

    fn decode(&self, rows: &[Row]) -> Result<Option<Asked>, Fault> {
        rows.first().map(|row| self.read(row)).transpose()
    }
}

/// The proof of a slot after a wait. It also releases the lock of the queue's head.
pub struct Prove(pub(super) Ask);

impl Statement for Prove {
    type Answer = Option<Asked>;

    fn sql(&self) -> String {
        self.0.sql()
    }

    fn decode(&self, rows: &[Row]) -> Result<Option<Asked>, Fault> {
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let (reacquirer, killer): (Option<u64>, Option<u64>) = (row.old(5)?, row.old(6)?);
        let asked = self.0.read(row)?;
        let answer = asked.answer.map(|answer| Answer {
            reacquired: reacquirer.is_some(),
            killed: killer.is_some(),
            ..answer
        });
        Ok(Some(Asked { answer, ..asked }))
    }
}

/// The first step of a session. It also asks what kind of server this is.
pub struct Open(pub(super) Ask);

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
    fn read(row: &Row, asked: Asked) -> Result<Self, Fault> {
        Ok(Self {
            asked,
            run_id_owner: row.old(5)?,
            traits: ServerTraits::read(row, 6)?,
        })
    }
}

impl Statement for Open {
    type Answer = Option<Opened>;

    fn sql(&self) -> String {
        self.0.sql()
    }

    fn decode(&self, rows: &[Row]) -> Result<Option<Opened>, Fault> {
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        Opened::read(row, self.0.read(row)?).map(Some)
    }
}

/// Reacquires a lost slot, as the first step of a session.
pub struct Reacquire(pub(super) Open);

/// The answer to [`Reacquire`].
pub struct ReacquireAnswer {
    /// The part that every first step answers.
    pub opened: Opened,
    /// The session that holds the slot.
    pub holder: Option<u64>,
}

impl Statement for Reacquire {
    type Answer = Option<ReacquireAnswer>;

    fn sql(&self) -> String {
        self.0.sql()
    }

    fn decode(&self, rows: &[Row]) -> Result<Option<ReacquireAnswer>, Fault> {
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let Open(ask) = &self.0;
        Ok(Some(ReacquireAnswer {
            opened: Opened::read(row, ask.read_slot(row, None)?)?,
            holder: row.old(1)?,
        }))
    }
}

/// Asks who kills the holder of a slot.
pub struct KillMarker(pub(super) String);

/// The answer to [`KillMarker`].
pub struct Killing {
    /// The session that holds the kill lock.
    pub killer: Option<u64>,
    /// Whether the server takes no writes.
    pub is_read_only: bool,
}

impl Statement for KillMarker {
    type Answer = Option<Killing>;

    fn sql(&self) -> String {
        self.0.clone()
    }

    fn decode(&self, rows: &[Row]) -> Result<Option<Killing>, Fault> {
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        Ok(Some(Killing {
            killer: row.old(0)?,
            is_read_only: ServerTraits::is_on(row, 1)? || ServerTraits::is_on(row, 2)?,
        }))
    }
}

/// Releases a slot.
pub struct Release(pub(super) String);

/// The answer to [`Release`].
#[derive(Default)]
pub struct Released {
    /// Whether it was held.
    pub was_held: bool,
    /// The session at the head of the queue, which the caller must wake.
    pub queue_head: Option<u64>,
}

impl Statement for Release {
    type Answer = Released;

    fn sql(&self) -> String {
        self.0.clone()
    }

    fn decode(&self, rows: &[Row]) -> Result<Released, Fault> {
        let Some(row) = rows.first() else {
            return Ok(Released::default());
        };
        Ok(Released {
            was_held: row.old(0)? == Some(1u8),
            queue_head: row.old(1)?,
        })
    }
}

/// The holder of a slot, and the address, as far as this account may see them.
pub struct SlotHolder(pub(super) String);

impl Statement for SlotHolder {
    /// The connection id, and `user@host:port`.
    type Answer = (Option<u64>, Option<String>);

    fn sql(&self) -> String {
        self.0.clone()
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let Some(row) = rows.first() else {
            return Ok((None, None));
        };
        Ok((row.old(0)?, row.text(1)?.map(short_address)))
    }
}

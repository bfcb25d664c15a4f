//! Statements about one lock or one session.

use std::time::Duration;

use super::{Command, take};
use crate::db::text_literal;
use crate::db::{Fault, Row, Statement, first_value};

/// Acquires a lock, and waits up to `wait`.
pub struct Take<'a> {
    /// Its name on the server.
    pub lock: &'a str,
    /// In whole seconds; a fraction is cut off.
    pub wait: Duration,
}

impl<'a> Take<'a> {
    /// Without waiting.
    pub fn now(lock: &'a str) -> Self {
        let wait = Duration::ZERO;
        Self { lock, wait }
    }
}

impl Statement for Take<'_> {
    /// Whether the lock was acquired; `None`: unclear.
    type Answer = Option<bool>;

    fn sql(&self) -> String {
        format!("/* dblock acquire lock */ {}", take(self.lock, self.wait))
    }

    fn decode(&self, rows: &[Row]) -> Result<Option<bool>, Fault> {
        Ok(first_value::<u8>(rows)?.map(|acquired| acquired != 0))
    }
}

/// Releases a lock once, by its name on the server.
pub fn release_once(lock: &str) -> Command {
    let lock = text_literal(lock);
    Command(format!(
        "/* dblock release lock */ SELECT RELEASE_LOCK({lock})"
    ))
}

/// The sessions that hold these locks, by the locks' names on the server.
pub struct Owners(pub Vec<String>);

impl Statement for Owners {
    type Answer = Vec<Option<u64>>;

    fn sql(&self) -> String {
        let columns = self.0.iter();
        let columns = columns.map(|name| format!("IS_USED_LOCK({})", text_literal(name)));
        let columns = columns.collect::<Vec<_>>().join(", ");
        format!("/* dblock owners */ SELECT {columns}")
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let row = rows
            .first()
            .ok_or_else(|| Fault::Gone("no answer".to_owned()))?;
        (0..self.0.len()).map(|column| row.old(column)).collect()
    }
}

/// Kills the session with this connection id.
pub struct KillSession(pub u64);

impl KillSession {
    /// The error if there is no such session.
    pub const NO_SUCH_SESSION: u16 = 1094;
    /// The errors if the session belongs to another account.
    pub const NOT_YOURS: [u16; 2] = [1095, 1227];
}

impl Statement for KillSession {
    type Answer = ();

    fn sql(&self) -> String {
        format!("/* dblock kill */ KILL {}", self.0)
    }

    fn decode(&self, _: &[Row]) -> Result<(), Fault> {
        Ok(())
    }
}

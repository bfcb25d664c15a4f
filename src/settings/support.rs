//! Which parts of dblock work on which kind of server. A command is refused right after its settings are read, before it connects.

use crate::base::exit::{Failure, Reason};
use crate::db::{ConnectOptions, Kind};

/// A part of dblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// What works on servers of each kind.
    Everywhere,
    /// `queue`.
    Queue,
}

impl Part {
    /// The options of a connection, if this part works on servers of their kind.
    ///
    /// # Errors
    /// [`Reason::Configuration`].
    pub fn on(self, connection: ConnectOptions) -> Result<ConnectOptions, Failure> {
        self.check(connection.kind)?;
        Ok(connection)
    }

    /// As [`Part::on`], for a command that does not connect.
    ///
    /// # Errors
    /// As [`Part::on`].
    pub fn check(self, kind: Kind) -> Result<(), Failure> {
        let what = match (kind, self) {
            (Kind::MySql, _) | (_, Self::Everywhere) => return Ok(()),
            (Kind::Postgres, Self::Queue) => "queue",
        };
        let line = format!("dblock {what} works on MySQL and MariaDB, and not yet on PostgreSQL");
        Err(Failure::new(Reason::Configuration, line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_refused_on_postgresql() {
        assert!(Part::Queue.check(Kind::MySql).is_ok());
        let failure = Part::Queue.check(Kind::Postgres).unwrap_err();
        assert_eq!(failure.reason.code(), 78);
        assert_eq!(
            failure.line,
            "dblock queue works on MySQL and MariaDB, and not yet on PostgreSQL"
        );
        assert!(Part::Everywhere.check(Kind::Postgres).is_ok());
    }
}

//! Which parts of dblock work on which kind of server. A command is refused right after its settings are read, before it connects.

use crate::base::exit::{Failure, Reason};
use crate::db::{ConnectOptions, Kind};

/// A part of dblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Locks without a table: `run`, `status`, `kill`, `check`.
    NamedLocks,
    /// `init`.
    Tables,
    /// `run` with an option that needs the tables.
    RunWithTables,
    /// `acquire`.
    Acquire,
    /// `renew` and `release`.
    OfToken,
    /// `history`.
    History,
    /// `cron`, except `cron check`, which asks no server.
    Cron,
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
        if kind == Kind::MySql || self.works_on_postgres() {
            return Ok(());
        }
        let (what, works) = match self {
            Self::NamedLocks => ("dblock", "works"),
            Self::Tables => ("dblock init", "works"),
            Self::RunWithTables => (
                "--durable, --record, --once-at, --once-per and --token of dblock run",
                "work",
            ),
            Self::Acquire => ("dblock acquire", "works"),
            Self::OfToken => ("dblock renew and release", "work"),
            Self::History => ("dblock history", "works"),
            Self::Cron => ("dblock cron", "works"),
            Self::Queue => ("dblock queue", "works"),
        };
        let line = format!("{what} {works} on MySQL and MariaDB, and not yet on PostgreSQL");
        Err(Failure::new(Reason::Configuration, line))
    }

    fn works_on_postgres(self) -> bool {
        match self {
            Self::NamedLocks
            | Self::Tables
            | Self::RunWithTables
            | Self::Acquire
            | Self::OfToken
            | Self::History => true,
            Self::Cron | Self::Queue => false,
        }
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
        assert!(Part::NamedLocks.check(Kind::Postgres).is_ok());
    }
}

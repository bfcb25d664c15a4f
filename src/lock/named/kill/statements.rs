//! What `dblock kill` has a server do.

use std::time::Duration;

use crate::db::{Fault, Row, Statement, first_value};
use crate::lock::Name;
use crate::lock::named::statements::{keep_session, literal, take_kill_beacon};

/// Has the server keep this session for so long without a statement.
pub struct KeepSession(pub Duration);

impl Statement for KeepSession {
    type Answer = ();

    fn sql(&self) -> String {
        format!("/* dblock kill session */ {}", keep_session(self.0))
    }

    fn decode(&self, _: &[Row]) -> Result<(), Fault> {
        Ok(())
    }
}

/// Takes a lock of this name on the server, if nobody has it: whether it did. `None`: nobody knows.
pub struct TakeMarker<'a>(pub &'a str);

impl Statement for TakeMarker<'_> {
    type Answer = Option<bool>;

    fn sql(&self) -> String {
        format!(
            "/* dblock kill mark */ SELECT GET_LOCK({}, 0)",
            literal(self.0)
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Option<bool>, Fault> {
        Ok(first_value::<u8>(rows)?.map(|taken| taken != 0))
    }
}

/// Takes one of the beacons that say that a holder of this lock is being ended, if one is free: whether it did.
pub struct TakeBeacon<'a>(pub &'a Name);

impl Statement for TakeBeacon<'_> {
    type Answer = bool;

    fn sql(&self) -> String {
        format!(
            "/* dblock kill beacon */ SELECT {}",
            take_kill_beacon(self.0)
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<bool, Fault> {
        Ok(first_value::<u8>(rows)? == Some(1))
    }
}

/// Gives back, once, a lock of this name on the server.
pub struct ReleaseMarker<'a>(pub &'a str);

impl Statement for ReleaseMarker<'_> {
    type Answer = ();

    fn sql(&self) -> String {
        format!(
            "/* dblock kill unmark */ SELECT RELEASE_LOCK({})",
            literal(self.0)
        )
    }

    fn decode(&self, _: &[Row]) -> Result<(), Fault> {
        Ok(())
    }
}

/// Ends the session of this number.
pub struct KillSession(pub u64);

impl KillSession {
    /// The error where there is no such session.
    pub const NO_SUCH_SESSION: u16 = 1094;
    /// The errors where it is another account's.
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

/// How long ago the server was started; `None` if it does not say.
pub struct AskUptime;

impl Statement for AskUptime {
    type Answer = Option<Duration>;

    fn sql(&self) -> String {
        "/* dblock kill uptime */ SHOW GLOBAL STATUS LIKE 'Uptime'".to_owned()
    }

    fn decode(&self, rows: &[Row]) -> Result<Option<Duration>, Fault> {
        let seconds = rows.first().map_or(Ok(None), |row| row.get(1))?;
        Ok(seconds.map(Duration::from_secs))
    }
}

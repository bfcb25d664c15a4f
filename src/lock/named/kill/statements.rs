//! Statements of `dblock kill` alone.

use std::time::Duration;

use crate::db::{Fault, Row, Statement, first_value};
use crate::lock::Name;
use crate::lock::named::statements::take_kill_beacon;

/// Acquires one of the beacons that show that a holder of this lock is being killed. `false`: none is free.
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

/// The time since the server's start; `None`: the server does not say.
pub struct AskUptime;

impl Statement for AskUptime {
    type Answer = Option<Duration>;

    fn sql(&self) -> String {
        "/* dblock kill uptime */ SHOW GLOBAL STATUS LIKE 'Uptime'".to_owned()
    }

    fn decode(&self, rows: &[Row]) -> Result<Option<Duration>, Fault> {
        let seconds = rows.first().map_or(Ok(None), |row| row.old(1))?;
        Ok(seconds.map(Duration::from_secs))
    }
}

//! Statements of `dblock kill` alone.

use std::time::Duration;

use crate::db::{Ask, ask};
use crate::lock::Name;
use crate::lock::named::statements::take_kill_beacon;

/// Acquires one of the beacons that show that a holder of this lock is being killed. `false`: none is free.
pub fn take_beacon(name: &Name) -> Ask<'static, bool> {
    let sql = format!("SELECT {}", take_kill_beacon(name));
    ask(
        "kill beacon",
        sql,
        |rows| Ok(rows.value::<u8>()? == Some(1)),
    )
}

/// The time since the server's start; `None`: the server does not say.
pub fn ask_uptime() -> Ask<'static, Option<Duration>> {
    ask("kill uptime", "SHOW GLOBAL STATUS LIKE 'Uptime'", |rows| {
        let seconds: Option<Option<u64>> = rows.optional(|row| row.at(1))?;
        Ok(seconds.flatten().map(Duration::from_secs))
    })
}

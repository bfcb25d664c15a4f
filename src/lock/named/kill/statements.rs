//! Statements of `dblock kill` alone.

use std::time::Duration;

use crate::db::{Ask, ask};

/// The time since the server's start; `None`: the server does not say.
pub fn ask_uptime() -> Ask<'static, Option<Duration>> {
    ask("kill uptime", "SHOW GLOBAL STATUS LIKE 'Uptime'", |rows| {
        let seconds: Option<Option<u64>> = rows.optional(|row| row.at(1))?;
        Ok(seconds.flatten().map(Duration::from_secs))
    })
}

//! Statements of `dblock kill` alone.

use std::time::Duration;

use crate::db::{Ask, Kind, ask, ask_value};

/// Whether a session of PostgreSQL is a superuser's. No grant lets other roles end it.
pub fn ask_is_superusers(session: u64) -> Ask<'static, bool> {
    let sql = format!(
        "SELECT 1 FROM pg_stat_activity s JOIN pg_roles r ON r.oid = s.usesysid WHERE s.pid = {session} AND r.rolsuper"
    );
    ask("kill superuser", sql, |rows| Ok(!rows.is_empty()))
}

/// The account of a session; `None`: there is no such session, or this account may not see that. PostgreSQL shows everybody the role's
/// number.
pub fn ask_account(kind: Kind, session: u64) -> Ask<'static, Option<String>> {
    let sql = match kind {
        Kind::MySql => {
            format!("SELECT USER FROM information_schema.processlist WHERE ID = {session}")
        }
        Kind::Postgres => format!("SELECT usesysid FROM pg_stat_activity WHERE pid = {session}"),
    };
    ask_value("kill account", sql)
}

/// The time since the server's start; `None`: the server does not say.
pub fn ask_uptime(kind: Kind) -> Ask<'static, Option<Duration>> {
    if kind == Kind::Postgres {
        let sql = "SELECT greatest(extract(epoch FROM clock_timestamp() - pg_postmaster_start_time()), 0)::bigint";
        return ask_value("kill uptime", sql)
            .map(|seconds: Option<u64>| seconds.map(Duration::from_secs));
    }
    ask("kill uptime", "SHOW GLOBAL STATUS LIKE 'Uptime'", |rows| {
        let seconds: Option<Option<u64>> = rows.optional(|row| row.at(1))?;
        Ok(seconds.flatten().map(Duration::from_secs))
    })
}

//! The last success of a name.

use std::time::Duration;

use crate::db::sql::span;
use crate::db::{Ask, ask};
use crate::schema::{SUCCESSES, Tables};

/// The last success of a name, and the server's time of reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Successes {
    /// The server's time, in microseconds since 1970, UTC.
    pub now: i64,
    /// `None`: there was none.
    pub last: Option<LastSuccess>,
}

/// The last success of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastSuccess {
    /// The latest tick that a run has succeeded for, in microseconds since 1970, UTC. It may belong to an earlier run than the other
    /// fields.
    pub tick: Option<i64>,
    /// The time since its start, by the server's clock; zero if that clock was set back since.
    pub started_ago: Duration,
    /// The time since its end, likewise.
    pub ended_ago: Duration,
    /// The client that ran it.
    pub host: Option<String>,
    pub pid: Option<u64>,
    pub program: Option<String>,
}

/// Asks for the last success of a name, and for the server's time.
pub fn ask_last_success(tables: &Tables, name: &str) -> Ask<'static, Successes> {
    let kind = tables.kind();
    let sql = format!(
        "SELECT {} AS server_time, {} AS started_ago, {} AS ended_ago, {} AS tick, host, pid, program \
         FROM (SELECT {} AS read_at) t LEFT JOIN {} last ON last.name = {}",
        kind.micros("t.read_at"),
        kind.micros_between("started_at", "t.read_at"),
        kind.micros_between("ended_at", "t.read_at"),
        kind.micros("tick"),
        kind.now(),
        tables.successes(),
        kind.literal(name)
    );
    ask("last success", sql, |rows| {
        let row = rows.one()?;
        let last = match (row.get("started_ago")?, row.get("ended_ago")?) {
            (Some(started), Some(ended)) => Some(LastSuccess {
                tick: row.get("tick")?,
                started_ago: span(started),
                ended_ago: span(ended),
                host: SUCCESSES.text("host", row)?,
                pid: row.get("pid")?,
                program: SUCCESSES.text("program", row)?,
            }),
            _ => None,
        };
        Ok(Successes {
            now: row.get("server_time")?,
            last,
        })
    })
}

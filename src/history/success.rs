//! The last success of a name.

use std::time::Duration;

use super::journal::micros;
use crate::db::{Fault, Row, Statement, text_literal};
use crate::schema::Tables;

/// Asks for the last success of a name, and for the server's time.
#[derive(Debug, Clone)]
pub struct AskLastSuccess {
    /// The tables to read.
    pub tables: Tables,
    /// The name.
    pub name: String,
}

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

impl Statement for AskLastSuccess {
    type Answer = Successes;

    fn sql(&self) -> String {
        let ago = |column: &str| format!("TIMESTAMPDIFF(MICROSECOND, {column}, UTC_TIMESTAMP(6))");
        format!(
            "/* dblock last success */ SELECT {}, {}, {}, {}, host, pid, program FROM (SELECT 1) one \
             LEFT JOIN {} last ON last.name = {}",
            micros("UTC_TIMESTAMP(6)"),
            ago("started_at"),
            ago("ended_at"),
            micros("tick"),
            self.tables.successes(),
            text_literal(&self.name)
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Successes, Fault> {
        let no_answer = || Fault::Gone("no answer".to_owned());
        let row = rows.first().ok_or_else(no_answer)?;
        let now = row.old(0)?.ok_or_else(no_answer)?;
        let span = |micros: i64| Duration::from_micros(u64::try_from(micros).unwrap_or_default());
        let last = match (row.old(1)?, row.old(2)?) {
            (Some(started), Some(ended)) => Some(LastSuccess {
                tick: row.old(3)?,
                started_ago: span(started),
                ended_ago: span(ended),
                host: row.text(4)?,
                pid: row.old(5)?,
                program: row.text(6)?,
            }),
            _ => None,
        };
        Ok(Successes { now, last })
    }
}

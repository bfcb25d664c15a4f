//! The tables of the cron daemons. One statement takes a tick, on a condition about the job's row. The same transaction inserts the tick's
//! row and the run's row. After a lost answer the daemon looks up the result.

mod attempts;
mod daemons;
mod list;
mod look;
mod manage;
mod publish;
mod reasons;
mod settle;

pub use attempts::{Abandon, AskRun, Claim, Finish, Retake, RunState};
pub use daemons::{AskFileBefore, DaemonFacts, Register, Retire, leave, prune, renew, stop_taking};
pub use list::{LastRun, Listed, ListedDaemon, ListedJob, ListedTick, list};
pub use look::{Look, TickRow};
pub use manage::{pause, reach, resume, trigger};
pub use publish::{AskJobs, Definition, JobRow, Publish, goes_on_after, latest_next, touch};
pub use settle::{Settle, Step};

use std::time::Duration;

use crate::base::exit::{Failure, Reason};
use crate::db::server_facts::{READ_ONLY, is_read_only};
use crate::db::{
    Fault, Plain, Row, Session, Statement, first_value, quoted_identifier, text_literal,
};
use crate::schema::{self, RUNS, Tables};

/// Each minute a daemon notes the jobs in its file. A job that was not noted for this long is in no file.
pub const UNSEEN: Duration = Duration::from_secs(180);

const EPOCH: &str = "TIMESTAMP'1970-01-01 00:00:00'";

/// SQL for the moment this many microseconds after the start of 1970, UTC.
fn moment(micros: i64) -> String {
    format!("{EPOCH} + INTERVAL {micros} MICROSECOND")
}

fn optional(micros: Option<i64>) -> String {
    micros.map_or_else(|| "NULL".to_owned(), moment)
}

/// SQL for the microseconds between the start of 1970, UTC, and a moment.
fn micros(moment: &str) -> String {
    format!("TIMESTAMPDIFF(MICROSECOND, {EPOCH}, {moment})")
}

/// A text literal for a column of the history, cut to the column's width.
fn of_history(column: &str, text: &str) -> String {
    let cut: String = text.chars().take(RUNS.width(column)).collect();
    text_literal(&cut)
}

/// Prepares a session for a daemon. The server must take writes, and have the tables. It ends the session after this many seconds of
/// silence.
///
/// # Errors
/// [`Fault::ReadOnly`] if the server takes no writes; [`Fault::Final`] if the tables do not exist.
pub fn open(tables: &Tables, idle_seconds: u64, session: &mut Session) -> Result<(), Fault> {
    schema::prepare(session)?;
    session.run(&Plain(
        "/* dblock cron open */ SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED".to_owned(),
    ))?;
    if is_read_only(session)? {
        return Err(Fault::ReadOnly(READ_ONLY.to_owned()));
    }
    tables.check_cron(session)?;
    if matches!(session.try_run(&AskLogsStatements)?, Ok(true)) {
        let line = format!(
            "{session} has binlog_format=STATEMENT, with which no crontab runs; set it to ROW or MIXED"
        );
        return Err(Fault::Final(Failure::new(Reason::Configuration, line)));
    }
    session.run(&Plain(format!(
        "/* dblock cron use */ USE {}",
        quoted_identifier(tables.database())
    )))?;
    session.run(&Plain(format!(
        "/* dblock cron session */ SET SESSION wait_timeout = {idle_seconds}"
    )))
}

/// Whether the server's binary log has statements. Then it refuses those at this isolation level. A server without a binary log does not.
struct AskLogsStatements;

impl Statement for AskLogsStatements {
    type Answer = bool;

    fn sql(&self) -> String {
        "/* dblock cron binlog */ SELECT @@log_bin AND @@binlog_format = 'STATEMENT'".to_owned()
    }

    fn decode(&self, rows: &[Row]) -> Result<bool, Fault> {
        Ok(first_value::<u8>(rows)? == Some(1))
    }
}

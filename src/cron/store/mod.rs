//! What the daemons of the fleet's crontab read and write. A tick is taken by one statement that is conditional on the job's row, in one
//! transaction with its own row and that of its run; an answer that was lost is looked up.

mod attempts;
mod daemons;
mod list;
mod look;
mod manage;
mod publish;
mod reasons;
mod settle;

pub use attempts::{AskRun, Claim, Finish, GiveUp, Retake, RunState};
pub use daemons::{
    AskFileBefore, DaemonFacts, Forsake, Register, leave, prune, renew, stop_taking,
};
pub use list::{LastRun, Listed, ListedDaemon, ListedJob, ListedTick, list};
pub use look::{Look, TickRow};
pub use manage::{pause, reach, resume, trigger};
pub use publish::{AskJobs, Definition, JobRow, Publish, goes_on_after, touch};
pub use reasons::DIED;
pub use settle::{Settle, Step};

use std::time::Duration;

use crate::base::exit::{Failure, Reason};
use crate::db::server_facts::{READ_ONLY, is_read_only};
use crate::db::{
    Fault, Plain, Row, Session, Statement, first_value, quoted_identifier, text_literal,
};
use crate::schema::{self, RUNS, Tables};

/// A daemon says every minute which jobs are in its file: one that was not said for so long is in none.
pub const UNSEEN: Duration = Duration::from_secs(180);

const EPOCH: &str = "TIMESTAMP'1970-01-01 00:00:00'";

/// A moment that is so many microseconds after the beginning of 1970, UTC.
fn moment(micros: i64) -> String {
    format!("{EPOCH} + INTERVAL {micros} MICROSECOND")
}

fn optional(micros: Option<i64>) -> String {
    micros.map_or_else(|| "NULL".to_owned(), moment)
}

/// How many microseconds a moment is after that.
fn micros(moment: &str) -> String {
    format!("TIMESTAMPDIFF(MICROSECOND, {EPOCH}, {moment})")
}

/// A text for a column of the history, cut to what that takes.
fn of_history(column: &str, text: &str) -> String {
    let cut: String = text.chars().take(RUNS.width(column)).collect();
    text_literal(&cut)
}

/// Makes a session fit for a daemon: a server that takes writes, with the tables. It is kept for so many seconds without a statement.
///
/// # Errors
/// [`Fault::ReadOnly`] where the server takes no writes; [`Fault::Final`] where the tables are not there.
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

/// Whether the server logs statements, which it refuses to do for those of this isolation level. One without a binary log does not.
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

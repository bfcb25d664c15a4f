//! The tables of the cron daemons. One statement takes a tick, on a condition about the job's row. The same transaction inserts the tick's
//! row and the run's row. After a lost answer the daemon looks up the result.

mod attempts;
mod daemons;
mod entry;
mod list;
mod look;
mod manage;
mod publish;
mod reasons;
mod settle;
mod statements;

pub use attempts::{ask_run, confirm, in_transaction};
pub use daemons::{ask_file_before, leave, prune, renew, retire, stop_taking};
pub use entry::{
    DaemonFacts, Definition, Finish, JobRow, Look, NextAttempt, Publish, Register, SettleStep,
    TickRow, is_unseen,
};
pub use list::{LastRun, Listed, ListedDaemon, ListedJob, ListedTick, list};
pub use manage::{pause, reach, resume, trigger};
pub use publish::{ask_jobs, goes_on_after, latest_next, touch};
pub use settle::Settle;

use crate::base::exit::{Failure, Reason};
use crate::db::server_facts::{is_read_only, why_read_only};
use crate::db::{Ask, Fault, Kind, Session, ask, command, quoted_identifier};
use crate::schema::{self, Tables, postgres_end_when_idle};

/// Prepares a session for a daemon. The server must take writes, and have the tables. It ends the session after this many seconds of
/// silence.
///
/// # Errors
/// [`Fault::ReadOnly`] if the server takes no writes; [`Fault::Final`] if the tables do not exist.
pub fn open(tables: &Tables, idle_seconds: u64, session: &mut Session) -> Result<(), Fault> {
    schema::prepare(session)?;
    if is_read_only(session)? {
        return Err(Fault::ReadOnly(why_read_only(session).to_owned()));
    }
    tables.check_cron(session)?;
    match session.kind() {
        Kind::MySql => open_mysql(tables, idle_seconds, session),
        Kind::Postgres => session.run(&postgres_end_when_idle("cron session", idle_seconds)),
    }
}

fn open_mysql(tables: &Tables, idle_seconds: u64, session: &mut Session) -> Result<(), Fault> {
    session.run(&command(
        "cron open",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    ))?;
    if matches!(session.try_run(&ask_logs_statements())?, Ok(true)) {
        let line = format!(
            "{session} has binlog_format=STATEMENT, with which no crontab runs; set it to ROW or MIXED"
        );
        return Err(Fault::Final(Failure::new(Reason::Configuration, line)));
    }
    session.run(&command(
        "cron use",
        format!("USE {}", quoted_identifier(tables.name())),
    ))?;
    session.run(&command(
        "cron session",
        format!("SET SESSION wait_timeout = {idle_seconds}"),
    ))
}

/// Whether the server's binary log has statements. Then it refuses those at this isolation level. A server without a binary log does not.
fn ask_logs_statements() -> Ask<'static, bool> {
    let sql = "SELECT @@log_bin AND @@binlog_format = 'STATEMENT'";
    ask(
        "cron binlog",
        sql,
        |rows| Ok(rows.value::<u8>()? == Some(1)),
    )
}

//! Prepares a session for a worker, and finds out the server's abilities.

use super::{Queue, find_queue, missing_queue};
use crate::base::exit::{Failure, Reason};
use crate::db::cluster::ask_multi_primary;
use crate::db::server_facts::{Product, is_mariadb};
use crate::db::sql::is_read_only;
use crate::db::{Ask, Fault, Session, ask, command, quoted_identifier};
use crate::schema::{self, Node, Tables};

/// What a worker knows of its server.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The queue.
    pub queue: Queue,
    /// Whether claims can use `SKIP LOCKED`. Some servers do not have it, or take no locks for it. With several nodes that take writes, a
    /// node does not see the locks of the others.
    pub skips_locked: bool,
}

/// Prepares a session for a worker of the queue with this name. It reads only committed rows, and locks no gaps.
///
/// # Errors
/// [`Fault::ReadOnly`] if the server takes no writes; [`Fault::Final`] if the tables or the queue do not exist.
pub fn open_for_work(tables: &Tables, name: &str, session: &mut Session) -> Result<Opened, Fault> {
    let node = schema::prepare(session)?;
    session.run(&command(
        "queue open",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    ))?;
    let server = session.run(&ask_server())?;
    if server.is_read_only {
        return Err(Fault::ReadOnly("is read-only".to_owned()));
    }
    tables.check_queues(session)?;
    // A statement that deletes from several tables needs a current database for its aliases.
    session.run(&command(
        "queue use",
        format!("USE {}", quoted_identifier(tables.name())),
    ))?;
    let found = session.run(&find_queue(tables, name));
    let Some(queue) = found.map_err(|fault| tables.explain(fault))? else {
        return Err(Fault::Final(missing_queue(name, tables, session)?));
    };
    if server.logs_statements {
        let line = format!(
            "{session} has binlog_format=STATEMENT, with which no queue works; set it to ROW or MIXED"
        );
        return Err(Fault::Final(Failure::new(Reason::Configuration, line)));
    }
    // A vanished host's sessions must not outlive its lease.
    session.run(&command(
        "queue session",
        format!("SET SESSION wait_timeout = {}", queue.ttl.as_secs()),
    ))?;
    let several_write =
        matches!(session.try_run(&ask_multi_primary())?, Ok(true)) || node != Node::Single;
    Ok(Opened {
        queue,
        skips_locked: server.skips_locked && !several_write,
    })
}

struct ServerAnswer {
    is_read_only: bool,
    skips_locked: bool,
    logs_statements: bool,
}

fn ask_server() -> Ask<'static, ServerAnswer> {
    let sql = format!(
        "SELECT {} AS is_read_only, VERSION() AS version, @@version_comment AS comment, \
         @@log_bin AND @@binlog_format = 'STATEMENT' AS logs_statements",
        is_read_only()
    );
    ask("queue server", sql, |rows| {
        let row = rows.one()?;
        let (version, comment): (String, String) = (row.get("version")?, row.get("comment")?);
        let logs_statements: Option<bool> = row.get("logs_statements")?;
        Ok(ServerAnswer {
            is_read_only: row.get("is_read_only")?,
            skips_locked: skips_locked(&version, &comment),
            logs_statements: logs_statements == Some(true),
        })
    })
}

/// `MySQL` from 8.0.1 on, and `MariaDB` from 10.6 on. `TiDB` accepts the words, but takes no locks.
fn skips_locked(version: &str, comment: &str) -> bool {
    if Product::of(version, comment) == Product::TiDb {
        return false;
    }
    // MariaDB may put `5.5.5-` first for old clients.
    let version = version.strip_prefix("5.5.5-").unwrap_or(version);
    let mut numbers = version
        .split(['.', '-'])
        .map(|part| part.parse::<u32>().ok());
    let found = [(); 3].map(|()| numbers.next().flatten().unwrap_or_default());
    if is_mariadb(version, comment) {
        found >= [10, 6, 0]
    } else {
        found >= [8, 0, 1]
    }
}

#[cfg(test)]
mod tests {
    use super::skips_locked;

    #[test]
    fn locked_rows_are_skipped_where_the_server_has_that_and_means_it() {
        for version in [
            "8.0.1",
            "9.7.4-2",
            "8.4.0-commercial",
            "10.6.0-MariaDB",
            "5.5.5-11.4.2-MariaDB-log",
        ] {
            assert!(skips_locked(version, ""), "{version}");
        }
        for version in [
            "5.7.44",
            "8.0.0-dmr",
            "10.5.29-MariaDB",
            "5.5.5-10.4.1-MariaDB",
            "8.0.11-TiDB-v8.5.0",
            "",
        ] {
            assert!(!skips_locked(version, ""), "{version}");
        }
    }
}

//! The statements of `dblock status`.

use std::collections::HashMap;
use std::time::Duration;

use crate::db::{Fault, LIST, Row, Statement, first_value, short_address};

/// This many characters of a statement are enough to find its lock.
const BEGINNING: u32 = 700;

/// Checks for the PROCESS privilege: without it neither server lets an account read that table.
pub struct AskProcessPrivilege;

impl Statement for AskProcessPrivilege {
    type Answer = ();

    fn sql(&self) -> String {
        "/* dblock status privilege */ SELECT COUNT(*) FROM information_schema.INNODB_TRX"
            .to_owned()
    }

    fn decode(&self, _: &[Row]) -> Result<(), Fault> {
        Ok(())
    }
}

/// A lock in one of the server's lists.
pub struct ListedLock {
    /// The session that holds it, or waits for it.
    pub connection: u64,
    /// Its name on the server.
    pub name: String,
    /// The time since it was acquired; `None`: unknown.
    pub age: Option<Duration>,
    /// Whether the session holds the lock; otherwise it waits for it.
    pub is_held: bool,
}

/// The held locks, from MariaDB's plugin.
pub struct AskPlugin;

impl Statement for AskPlugin {
    type Answer = Vec<ListedLock>;

    const MOST_ROWS: usize = LIST;

    fn sql(&self) -> String {
        "/* dblock status locks */ SELECT THREAD_ID, TABLE_SCHEMA, LOCK_TIME_MS \
         FROM information_schema.METADATA_LOCK_INFO WHERE LOCK_TYPE = 'User lock'"
            .to_owned()
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let mut locks = Vec::new();
        for row in rows {
            if let (Some(connection), Some(name)) = (row.old(0)?, row.text(1)?) {
                locks.push(ListedLock {
                    connection,
                    name,
                    age: row.old(2)?.map(Duration::from_millis),
                    is_held: true,
                });
            }
        }
        Ok(locks)
    }
}

/// Whether the performance schema lists the locks. MariaDB has the table, but it is empty by default.
pub struct AskInstrument;

impl Statement for AskInstrument {
    type Answer = bool;

    fn sql(&self) -> String {
        "/* dblock status instrument */ SELECT ENABLED FROM performance_schema.setup_instruments \
         WHERE NAME = 'wait/lock/metadata/sql/mdl'"
            .to_owned()
    }

    fn decode(&self, rows: &[Row]) -> Result<bool, Fault> {
        let enabled: Option<String> = first_value(rows)?;
        Ok(enabled.as_deref() == Some("YES"))
    }
}

/// The locks that are held or waited for, from the performance schema.
pub struct AskPerformanceSchema;

impl Statement for AskPerformanceSchema {
    type Answer = Vec<ListedLock>;

    const MOST_ROWS: usize = LIST;

    fn sql(&self) -> String {
        "/* dblock status locks */ SELECT PROCESSLIST_ID, OBJECT_NAME, LOCK_STATUS \
         FROM performance_schema.metadata_locks \
         JOIN performance_schema.threads ON THREAD_ID = OWNER_THREAD_ID \
         WHERE OBJECT_TYPE = 'USER LEVEL LOCK' AND LOCK_STATUS IN ('GRANTED', 'PENDING')"
            .to_owned()
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let mut locks = Vec::new();
        for row in rows {
            if let (Some(connection), Some(name)) = (row.old(0)?, row.text(1)?) {
                locks.push(ListedLock {
                    connection,
                    name,
                    age: None,
                    is_held: row.text(2)?.as_deref() == Some("GRANTED"),
                });
            }
        }
        Ok(locks)
    }
}

/// A session in the process list.
pub struct Process {
    /// The account and the address, as `user@host:port`.
    pub address: String,
    /// The time since its last statement ended; `None`: one is running.
    pub idle: Option<Duration>,
    /// How long its statement has waited for a lock, and which lock.
    pub waits: Option<(Duration, LockInStatement)>,
}

/// The process list, as far as this account may see it.
pub struct AskProcesses;

impl Statement for AskProcesses {
    type Answer = HashMap<u64, Process>;

    const MOST_ROWS: usize = LIST;

    fn sql(&self) -> String {
        format!(
            "/* dblock status processes */ SELECT ID, CONCAT(USER, '@', HOST), COMMAND, STATE, TIME, \
             LEFT(INFO, {BEGINNING}) /*M!100000 , TIME_MS */ FROM information_schema.processlist"
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let mut processes = HashMap::new();
        for row in rows {
            let (Some(id), Some(address)) = (row.old(0)?, row.text(1)?.map(short_address)) else {
                continue;
            };
            let precise = row.old::<f64>(6)?.map(|millis| millis / 1000.0);
            let precise = precise.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            // Negative if the server's clock was set back.
            let coarse = row.old::<i64>(4)?.and_then(|time| u64::try_from(time).ok());
            let time = precise.or(coarse.map(Duration::from_secs));
            let is_idle = row.text(2)?.as_deref() == Some("Sleep");
            let waits = row.text(3)?.as_deref() == Some("User lock");
            let lock = row.text(5)?.and_then(|text| LockInStatement::find(&text));
            let process = Process {
                address,
                idle: time.filter(|_| is_idle),
                waits: lock
                    .filter(|_| waits)
                    .map(|lock| (time.unwrap_or_default(), lock)),
            };
            processes.insert(id, process);
        }
        Ok(processes)
    }
}

/// A lock that a statement waits for.
#[derive(Debug, PartialEq)]
pub struct LockInStatement {
    /// Its name on the server.
    pub name: String,
    /// Whether dblock wrote it: it has dblock's form.
    pub is_dblocks: bool,
}

impl LockInStatement {
    /// The first lock in a statement.
    fn find(statement: &str) -> Option<Self> {
        if let Some((_, literal)) = statement.split_once("_utf8mb4 x'") {
            let digits: Vec<u8> = literal.bytes().take_while(u8::is_ascii_hexdigit).collect();
            let digit = |byte: u8| {
                char::from(byte)
                    .to_digit(16)
                    .and_then(|digit| u8::try_from(digit).ok())
            };
            let bytes = digits
                .chunks_exact(2)
                .map(|pair| Some(16 * digit(pair[0])? + digit(pair[1])?));
            let name = String::from_utf8(bytes.collect::<Option<_>>()?).ok()?;
            return Some(Self {
                name,
                is_dblocks: true,
            });
        }
        let at = statement.to_ascii_lowercase().find("get_lock")?;
        let arguments = statement.get(at + "get_lock".len()..)?.trim_start();
        let argument = arguments.strip_prefix('(')?.trim_start();
        let quote = argument
            .chars()
            .next()
            .filter(|quote| matches!(quote, '\'' | '"'))?;
        let name = argument[1..].split(quote).next()?.to_owned();
        Some(Self {
            name,
            is_dblocks: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::LockInStatement;

    #[test]
    fn the_lock_of_a_statement_is_read_as_dblock_and_as_people_write_it() {
        let read = |statement: &str| {
            LockInStatement::find(statement).map(|lock| (lock.name, lock.is_dblocks))
        };
        let dblock = "/* dblock */ SELECT CASE GET_LOCK(_utf8mb4 x'6a6f622377616974', 9.000) WHEN 0 THEN -1 END";
        assert_eq!(read(dblock), Some(("job#wait".to_owned(), true)));
        assert_eq!(
            read("select get_lock ( 'job', 5)"),
            Some(("job".to_owned(), false))
        );
        assert_eq!(
            read("DO GET_LOCK(\"a b\", 1)"),
            Some(("a b".to_owned(), false))
        );
        for other in [
            "SELECT 1",
            "SELECT GET_LOCK(@x, 1)",
            "SELECT GET_LOCK",
            "x'zz",
            "_utf8mb4 x'ff",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}

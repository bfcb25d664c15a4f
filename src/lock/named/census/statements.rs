//! The statements of `dblock status`.

use std::collections::HashMap;
use std::time::Duration;

use crate::db::{Ask, Fault, LIST, Row, ask, command, short_address};

/// This many characters of a statement are enough to find its lock.
const BEGINNING: u32 = 700;

/// Checks for the PROCESS privilege: without it neither server lets an account read that table.
pub fn ask_process_privilege() -> Ask<'static, ()> {
    let sql = "SELECT COUNT(*) FROM information_schema.INNODB_TRX";
    command("status privilege", sql)
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
pub fn ask_plugin() -> Ask<'static, Vec<ListedLock>> {
    let sql = "SELECT THREAD_ID, TABLE_SCHEMA, LOCK_TIME_MS \
         FROM information_schema.METADATA_LOCK_INFO WHERE LOCK_TYPE = 'User lock'";
    ask_list(sql, |row| {
        let age: Option<u64> = row.at(2)?;
        Ok((age.map(Duration::from_millis), true))
    })
}

/// The locks in a list whose first two columns are the session and the name. `read` reads the others: how long the lock is held, and
/// whether it is.
fn ask_list<F>(sql: &str, read: F) -> Ask<'static, Vec<ListedLock>>
where
    F: Fn(&Row) -> Result<(Option<Duration>, bool), Fault> + 'static,
{
    let locks = ask("status locks", sql, move |rows| {
        let mut locks = Vec::new();
        for row in rows.iter() {
            if let (Some(connection), Some(name)) = (row.at(0)?, row.at(1)?) {
                let (age, is_held) = read(row)?;
                locks.push(ListedLock {
                    connection,
                    name,
                    age,
                    is_held,
                });
            }
        }
        Ok(locks)
    });
    locks.up_to(LIST)
}

/// Whether the performance schema lists the locks. MariaDB has the table, but it is empty by default.
pub fn ask_instrument() -> Ask<'static, bool> {
    let sql = "SELECT ENABLED FROM performance_schema.setup_instruments \
         WHERE NAME = 'wait/lock/metadata/sql/mdl'";
    ask("status instrument", sql, |rows| {
        let enabled: Option<String> = rows.value()?;
        Ok(enabled.as_deref() == Some("YES"))
    })
}

/// The locks that are held or waited for, from the performance schema.
pub fn ask_performance_schema() -> Ask<'static, Vec<ListedLock>> {
    let sql = "SELECT PROCESSLIST_ID, OBJECT_NAME, LOCK_STATUS \
         FROM performance_schema.metadata_locks \
         JOIN performance_schema.threads ON THREAD_ID = OWNER_THREAD_ID \
         WHERE OBJECT_TYPE = 'USER LEVEL LOCK' AND LOCK_STATUS IN ('GRANTED', 'PENDING')";
    ask_list(sql, |row| {
        let is_held = row.at::<String>(2)? == "GRANTED";
        Ok((None, is_held))
    })
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
pub fn ask_processes() -> Ask<'static, HashMap<u64, Process>> {
    let sql = format!(
        "SELECT ID, CONCAT(USER, '@', HOST) AS address, COMMAND, STATE, TIME, \
         LEFT(INFO, {BEGINNING}) AS beginning /*M!100000 , TIME_MS */ FROM information_schema.processlist"
    );
    let processes = ask("status processes", sql, |rows| {
        let mut processes = HashMap::new();
        for row in rows.iter() {
            let (Some(id), Some(address)) = (row.get("ID")?, row.get("address")?) else {
                continue;
            };
            // Only MariaDB has this column.
            let millis: Option<f64> = row.at(6)?;
            let precise =
                millis.and_then(|millis| Duration::try_from_secs_f64(millis / 1000.0).ok());
            // Negative if the server's clock was set back.
            let seconds: Option<i64> = row.get("TIME")?;
            let coarse = seconds.and_then(|seconds| u64::try_from(seconds).ok());
            let time = precise.or(coarse.map(Duration::from_secs));
            let is = |column, word| {
                Ok::<_, Fault>(row.get::<Option<String>>(column)?.as_deref() == Some(word))
            };
            let (is_idle, waits) = (is("COMMAND", "Sleep")?, is("STATE", "User lock")?);
            let statement: Option<String> = row.get("beginning")?;
            let lock = statement.and_then(|text| LockInStatement::find(&text));
            let process = Process {
                address: short_address(address),
                idle: time.filter(|_| is_idle),
                waits: lock
                    .filter(|_| waits)
                    .map(|lock| (time.unwrap_or_default(), lock)),
            };
            processes.insert(id, process);
        }
        Ok(processes)
    });
    processes.up_to(LIST)
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

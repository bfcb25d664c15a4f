//! Expressions and statements about one lock or one session.

use std::time::Duration;

use crate::db::postgres_sql::{LONGEST_IDLE, idle_timeout, tcp_patience};
use crate::db::{Ask, LIST, ask, ask_value, command, no_answer};
use crate::lock::Key;

/// The database of this session.
const DATABASE: &str = "(SELECT oid FROM pg_database WHERE datname = current_database())";

/// These columns of the advisory locks of this database of which this is true, as a subquery.
pub fn locks(columns: &str, condition: &str) -> String {
    format!(
        "(SELECT {columns} FROM pg_locks WHERE locktype = 'advisory' AND granted AND database = {DATABASE} AND {condition})"
    )
}

/// As [`locks`], for a session that holds a lock: all locks are read once, without a view, and its own one says which database it is. In
/// a new session that takes half the time.
pub fn own_locks(condition: &str) -> String {
    select_own("pid", condition)
}

/// As [`own_locks`], with these columns in place of the session.
pub fn select_own(columns: &str, condition: &str) -> String {
    format!(
        "(WITH held AS MATERIALIZED (SELECT pid, database, classid, objid, objsubid FROM pg_lock_status() \
         WHERE locktype = 'advisory' AND granted) SELECT {columns} FROM held \
         WHERE database = (SELECT database FROM held WHERE pid = pg_backend_pid() LIMIT 1) AND {condition})"
    )
}

/// The keys of all locks that sessions of this database hold, as a query of one column.
pub fn held_keys() -> String {
    format!(
        "SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 \
         AND database = {DATABASE}"
    )
}

/// The session that holds a lock; NULL: nobody does. Of several that share it, one. For a session that holds a lock.
pub fn owner(key: Key) -> String {
    own_locks(&format!("{} LIMIT 1", key.condition()))
}

/// Whether this session holds a lock.
pub fn held(key: Key) -> String {
    let own = own_locks(&format!("{} AND pid = pg_backend_pid()", key.condition()));
    format!("EXISTS {own}")
}

/// Unlocks a lock once: whether this session held it.
pub fn unlock(key: Key) -> String {
    format!("pg_advisory_unlock({})", key.arguments())
}

/// These locks, by their names on the server, each with its place; and the condition of a row of `pg_locks` about one of them.
fn named(locks: &[String]) -> (String, String) {
    let rows = locks.iter().enumerate().map(|(place, lock)| {
        let (class, object, sub) = Key::of(lock).columns();
        format!("({place}, {class}::bigint, {object}::bigint, {sub})")
    });
    let rows = rows.collect::<Vec<_>>().join(", ");
    (
        format!("(VALUES {rows}) AS asked (place, class, object, sub)"),
        format!(
            "lock.locktype = 'advisory' AND lock.objsubid = asked.sub AND lock.database = {DATABASE} \
             AND lock.classid = asked.class::oid AND lock.objid = asked.object::oid"
        ),
    )
}

/// The sessions that hold these locks, by the locks' names on the server.
pub fn ask_owners(locks: &[String]) -> Ask<'static, Vec<Option<u64>>> {
    let (asked, condition) = named(locks);
    let sql = format!(
        "SELECT min(lock.pid) FROM {asked} LEFT JOIN pg_locks lock ON {condition} AND lock.granted \
         GROUP BY asked.place ORDER BY asked.place"
    );
    let number = locks.len();
    let owners = ask("owners", sql, move |rows| {
        let owners = rows.iter().map(|row| row.at(0));
        let owners = owners.collect::<Result<Vec<_>, _>>()?;
        if owners.len() == number {
            Ok(owners)
        } else {
            Err(no_answer())
        }
    });
    owners.up_to(LIST)
}

/// The sessions of other programs that wait in a statement for one of these locks, by the locks' names on the server, and for how long
/// they have; `None`: they have only just begun. The server grants a lock to the first of them when it is unlocked.
pub fn ask_blocked(locks: &[String]) -> Ask<'static, Vec<(u64, Option<Duration>)>> {
    let (asked, condition) = named(locks);
    let sql = format!(
        "SELECT lock.pid, (extract(epoch FROM clock_timestamp() - lock.waitstart) * 1000000)::bigint \
         FROM {asked} JOIN pg_locks lock ON {condition} AND NOT lock.granted ORDER BY lock.waitstart"
    );
    let blocked = ask("blocked", sql, |rows| {
        let blocked = rows.iter().map(|row| {
            let micros: Option<i64> = row.at(1)?;
            let micros = micros.and_then(|micros| u64::try_from(micros).ok());
            Ok((row.at(0)?, micros.map(Duration::from_micros)))
        });
        blocked.collect()
    });
    blocked.up_to(LIST)
}

/// Ends the session of this process if it still holds this lock: the process may be another session's by now.
pub fn kill_session(pid: u64, lock: &str) -> Ask<'static, bool> {
    let holder = locks(
        "pid",
        &format!("{} AND pid = {pid}", Key::of(lock).condition()),
    );
    let sql = format!("SELECT pg_terminate_backend(holder.pid)::int FROM {holder} AS holder");
    ask_value("kill", sql).map(|ended| ended == Some(1u8))
}

/// Columns that prepare a session to hold a lock: no time limit on its statements, and the TTL as its idle timeout, of which TCP is not to
/// be the end sooner. None of them waits for another session's lock; those on rows that may follow have a limit on that.
pub fn keep_session(ttl: Duration) -> String {
    format!(
        "{}, set_config('statement_timeout', '0', false), {}",
        idle_timeout(ttl),
        tcp_patience(ttl)
    )
}

/// An idle timeout of whole seconds, as the server shows it: in the largest unit of which it is a whole number.
pub fn as_shown(limit: Duration) -> String {
    let seconds = limit.min(LONGEST_IDLE).as_secs();
    let units = [(24 * 3600, "d"), (3600, "h"), (60, "min"), (1, "s")];
    let unit = units
        .into_iter()
        .find(|(unit, _)| seconds.is_multiple_of(*unit));
    let (unit, name) = unit.unwrap_or((1, "s"));
    format!("{}{name}", seconds / unit)
}

/// Sets the idle timeout of a session. The statement has this name.
pub fn set_idle_timeout(named: &str, limit: Duration) -> Ask<'static, ()> {
    command(named, format!("SELECT {}", idle_timeout(limit)))
}

//! Statements about one lock or one session.

use std::time::Duration;

use super::take;
use crate::db::{Ask, ask, command, text_literal};

/// Acquires a lock by its name on the server, and waits up to so many whole seconds; a fraction is cut off. Whether it was acquired;
/// `None`: unclear.
pub fn take_lock(named: &str, lock: &str, wait: Duration) -> Ask<'static, Option<bool>> {
    ask(named, take(lock, wait), |rows| {
        Ok(rows.value::<u8>()?.map(|acquired| acquired != 0))
    })
}

/// Takes slots, each by [its expression](crate::lock::named::statements::Statements::taking_slot). Returns which of them were taken.
pub fn try_slots(slots: &[String]) -> Ask<'static, Vec<bool>> {
    let number = slots.len();
    ask(
        "try slot",
        format!("SELECT {}", slots.join(", ")),
        move |rows| {
            let row = rows.one()?;
            let taken = (0..number).map(|column| Ok(row.at::<Option<i64>>(column)? == Some(1)));
            taken.collect()
        },
    )
}

/// Acquires locks that only this process asks for, by their names on the server.
pub fn take_locks_now(locks: &[String]) -> Ask<'static, ()> {
    let locks = locks
        .iter()
        .map(|lock| format!("GET_LOCK({}, 0)", text_literal(lock)));
    let locks = locks.collect::<Vec<_>>().join(", ");
    command("announce reacquire", format!("SELECT {locks}"))
}

/// Releases a lock once, by its name on the server.
pub fn release_once(named: &str, lock: &str) -> Ask<'static, ()> {
    let lock = text_literal(lock);
    command(named, format!("SELECT RELEASE_LOCK({lock})"))
}

/// The sessions that hold these locks, by the locks' names on the server.
pub fn ask_owners(locks: &[String]) -> Ask<'static, Vec<Option<u64>>> {
    let columns = locks.iter();
    let columns = columns.map(|name| format!("IS_USED_LOCK({})", text_literal(name)));
    let columns = columns.collect::<Vec<_>>().join(", ");
    let number = locks.len();
    ask("owners", format!("SELECT {columns}"), move |rows| {
        let row = rows.one()?;
        (0..number).map(|column| row.at(column)).collect()
    })
}

/// Kills the session with this connection id.
pub fn kill_session(id: u64) -> Ask<'static, bool> {
    command("kill", format!("KILL {id}")).map(|()| true)
}

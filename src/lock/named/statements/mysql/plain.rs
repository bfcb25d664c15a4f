//! Statements about one lock or one session.

use std::time::Duration;

use crate::db::{Ask, ask, ask_value, command, text_literal};

/// Acquires a lock by its name on the server, and waits up to so many whole seconds; a fraction is cut off. Whether it was acquired;
/// `None`: unclear.
pub fn wait_for_lock(lock: &str, wait: Duration) -> Ask<'static, Option<bool>> {
    let sql = format!(
        "SELECT GET_LOCK({}, {})",
        text_literal(lock),
        wait.as_secs()
    );
    ask_value("acquire lock", sql)
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

/// Kills the session with this connection id if it still holds this lock: otherwise [`NO_SUCH_SESSION`](super::super::NO_SUCH_SESSION), as
/// none has the number 0. A proxy such as `ProxySQL` takes a number alone for one of its own, and would end another client's session.
pub fn kill_session(id: u64, lock: &str) -> Ask<'static, bool> {
    let owner = format!("IS_USED_LOCK({})", text_literal(lock));
    let sql = format!("KILL CASE WHEN {owner} = {id} THEN {id} ELSE 0 END");
    command("kill", sql).map(|()| true)
}

//! How long a session may be idle, and how long a statement may wait, in each server's syntax.

use std::time::Duration;

use crate::db::{Ask, command};
use crate::lock::named::statements::WAITER_IDLE_LIMIT;

/// Prepares a session to hold a lock: no time limit on statements, and the TTL, in whole seconds, as its idle timeout. Version comments
/// choose the limit that the server has: MariaDB reads `/*M!`, MySQL `/*!50708`.
pub fn keep_session(ttl: Duration) -> String {
    let idle_limit = ttl.as_secs();
    format!(
        "SET SESSION wait_timeout={idle_limit} \
         /*M!100102 , max_statement_time=0 */ /*!50708 , max_execution_time=0 */"
    )
}

/// Gives the session of a waiter a short idle timeout.
pub fn shorten_idle_timeout() -> Ask<'static, ()> {
    let limit = WAITER_IDLE_LIMIT.as_secs();
    let sql = format!("SET SESSION wait_timeout={limit}");
    command("wait", sql)
}

/// Gives a session the idle timeout of a holder.
pub fn set_idle_timeout(ttl: Duration) -> Ask<'static, ()> {
    command("hold", keep_session(ttl))
}

/// A time limit on one statement, for MySQL, which rounds the timeout of `GET_LOCK` to whole seconds. To MariaDB it is a comment, or
/// equals the timeout. Zero would mean no limit, so it is left out.
pub fn statement_limit(left: Duration) -> String {
    match millis(left) {
        0 => String::new(),
        millis => format!("/*+ MAX_EXECUTION_TIME({millis}) */ "),
    }
}

/// A timeout of `GET_LOCK`. MariaDB takes fractions of a second, and skips comments of this form. On MySQL it is longer than the
/// statement's limit, which ends the wait.
pub fn seconds(left: Duration) -> String {
    match millis(left) {
        0 => "0".to_owned(),
        millis => format!("{}.{:03} /*!50708 + 2 */", millis / 1000, millis % 1000),
    }
}

/// Rounded up: if the wait ends too early, the caller must ask again.
fn millis(span: Duration) -> u128 {
    span.as_micros().div_ceil(1000)
}

//! SQL that all rooms write in the same way on PostgreSQL: literals, moments and spans of time. A moment is a `timestamptz`, or a number of
//! microseconds since the start of 1970.

use std::fmt::{Display, Write};
use std::time::Duration;

/// The server's time, at the moment at which it is read. `now()` is the time at which the transaction began.
pub const NOW: &str = "clock_timestamp()";

/// The time at which the server got the statement, for one that is sent alone and writes nothing that others may keep locked. It is the
/// same for all rows, so a key can be searched for it, and the planner knows how many rows that are.
pub const ASKED: &str = "statement_timestamp()";

/// The server's [timeline](super::timeline::Timeline): its cluster, `/`, and the number. What the control file has is the number of the
/// last checkpoint, and after a promotion that is still to come.
pub const TIMELINE: &str = "(SELECT system_identifier FROM pg_control_system()) || '/' || \
     CASE WHEN pg_is_in_recovery() THEN (SELECT timeline_id FROM pg_control_checkpoint()) \
     ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int END";

/// Has a transaction look for functions and operators nowhere else: in another schema any role may have put one, which would run with the
/// rights of dblock's. Its answer is nobody's.
pub const TRUSTED: &str = "SET LOCAL search_path = pg_catalog; ";

/// The longest idle timeout: the server counts it in milliseconds, up to 2^31 - 1 of them. The lock of a token lasts up to 30 days, but
/// needs no session.
pub const LONGEST_IDLE: Duration = Duration::from_secs(24 * 24 * 3600);

/// TCP waits at least as long for a host that is silent: the server hears of one that waits for a lock every 10 seconds only.
const LEAST_PATIENCE: Duration = Duration::from_secs(15);

/// The longest time after which Linux asks an idle connection whether its host is still there, in seconds.
const LONGEST_KEEPALIVE: u64 = 32_767;

/// The column that sets the idle timeout of a session.
pub fn idle_timeout(limit: Duration) -> String {
    format!(
        "set_config('idle_session_timeout', '{}ms', false)",
        limit.min(LONGEST_IDLE).as_millis()
    )
}

/// The columns by which TCP, on the server, gives a silent host up no sooner than after this time. A server whose settings, or whose
/// host's, do so would free a lock while the command of a host that is cut off still runs.
pub fn tcp_patience(limit: Duration) -> String {
    let limit = limit.clamp(LEAST_PATIENCE, LONGEST_IDLE);
    let silent = limit.as_secs().min(LONGEST_KEEPALIVE);
    let unanswered = limit.as_millis();
    format!(
        "set_config('tcp_keepalives_idle', '{silent}', false), set_config('tcp_keepalives_interval', '{silent}', false), \
         set_config('tcp_user_timeout', '{unanswered}', false)"
    )
}

/// A text as an SQL literal that means the same with every setting. A backslash in a plain literal does not
/// (`standard_conforming_strings`), so a text with one, or with a quote, is written in hexadecimal digits. No text of PostgreSQL contains
/// NUL, which is replaced.
pub fn text_literal(text: &str) -> String {
    let text = text.replace('\0', "\u{fffd}");
    if !text.contains(['\'', '\\']) {
        return format!("'{text}'");
    }
    format!("convert_from({}, 'UTF8')", bytes_literal(text.as_bytes()))
}

/// Bytes as an SQL literal.
pub fn bytes_literal(bytes: &[u8]) -> String {
    let mut literal = String::with_capacity(2 * bytes.len() + 20);
    literal += "decode('";
    for byte in bytes {
        let _ = write!(literal, "{byte:02x}");
    }
    literal + "', 'hex')"
}

/// The name of a schema, a database or a role, quoted.
pub fn quoted_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The moment this many microseconds after the start of 1970.
pub fn moment(micros: i64) -> String {
    format!("(timestamptz 'epoch' + ({micros}) * interval '1 microsecond')")
}

/// The microseconds from the start of 1970 to a moment.
pub fn micros(moment: &str) -> String {
    format!("(extract(epoch FROM {moment}) * 1000000)::bigint")
}

/// The moment this many seconds before now. The number may be an SQL expression, here and below.
pub fn seconds_ago(seconds: impl Display) -> String {
    format!("({NOW} - ({seconds}) * interval '1 second')")
}

/// The moment this many seconds after now.
pub fn after_seconds(seconds: impl Display) -> String {
    format!("({NOW} + ({seconds}) * interval '1 second')")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_means_the_same_with_every_setting() {
        assert_eq!(text_literal("nightly"), "'nightly'");
        assert_eq!(text_literal("naïve ☃"), "'naïve ☃'");
        assert_eq!(text_literal("a\0b"), "'a\u{fffd}b'");
        for text in ["'", "\\", "\\'; DROP TABLE x; --", "it's"] {
            let literal = text_literal(text);
            let quoted = literal
                .strip_prefix("convert_from(decode('")
                .and_then(|rest| rest.strip_suffix("', 'hex'), 'UTF8')"));
            assert!(quoted.unwrap().bytes().all(|byte| byte.is_ascii_hexdigit()));
        }
        assert_eq!(quoted_identifier("a\"b"), "\"a\"\"b\"");
    }
}

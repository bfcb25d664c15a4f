//! SQL that all rooms write in the same way: literals, moments and spans of time. A moment is in UTC, in microseconds since the start of
//! 1970 where it is a number.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

/// The start of 1970.
const EPOCH: &str = "TIMESTAMP'1970-01-01 00:00:00'";

/// The server's time.
pub const NOW: &str = "UTC_TIMESTAMP(6)";

/// A text as an SQL literal that no `sql_mode` and no character set changes.
pub fn text_literal(text: &str) -> String {
    let mut literal = "_utf8mb4 ".to_owned();
    write_hex(&mut literal, text.as_bytes());
    literal
}

/// As [`text_literal`]; `None`: NULL.
pub fn optional_text(text: Option<&str>) -> String {
    text.map_or_else(null, text_literal)
}

/// Adds bytes as an SQL literal.
pub fn write_bytes(sql: &mut String, bytes: &[u8]) {
    sql.push_str("_binary ");
    write_hex(sql, bytes);
}

/// A literal that is compared with a column of ids by its key.
pub fn id_literal(id: &str) -> String {
    let mut literal = "_ascii ".to_owned();
    write_hex(&mut literal, id.as_bytes());
    literal + " COLLATE ascii_bin"
}

/// Bytes in hexadecimal digits, with the quotes.
fn write_hex(sql: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    sql.push_str("x'");
    for byte in bytes {
        sql.push(char::from(DIGITS[usize::from(byte >> 4)]));
        sql.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    sql.push('\'');
}

/// The name of a database, quoted.
pub fn quoted_identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A number; `None`: NULL.
pub fn optional_number(number: Option<impl ToString>) -> String {
    number.map_or_else(null, |number| number.to_string())
}

/// Numbers, separated by commas.
pub fn numbers(numbers: impl IntoIterator<Item = u64>) -> String {
    numbers.into_iter().fold(String::new(), |mut list, number| {
        let comma = if list.is_empty() { "" } else { "," };
        let _ = write!(list, "{comma}{number}");
        list
    })
}

/// The condition that a server takes no writes, as its variables say. An account with some privileges may write to it all the same.
pub fn is_read_only() -> String {
    any_is_on(["@@global.read_only", "@@global.innodb_read_only"])
}

/// The condition that one of these switches is on. Its value is a number or, as that of `read_only` on MariaDB from 12 on, a word, which as
/// a condition would be false; NULL: it is off.
pub fn any_is_on(switches: [&str; 2]) -> String {
    let is_on = |switch: &str| format!("COALESCE(CONCAT({switch}) NOT IN ('0', 'OFF'), FALSE)");
    let [one, other] = switches.map(is_on);
    format!("({one} OR {other})")
}

fn null() -> String {
    "NULL".to_owned()
}

/// The moment this many microseconds after the start of 1970.
pub fn moment(micros: i64) -> String {
    format!("{EPOCH} + INTERVAL {micros} MICROSECOND")
}

/// The microseconds from the start of 1970 to a moment.
pub fn micros(moment: &str) -> String {
    format!("TIMESTAMPDIFF(MICROSECOND, {EPOCH}, {moment})")
}

/// The microseconds since a moment.
pub fn micros_since(moment: &str) -> String {
    format!("TIMESTAMPDIFF(MICROSECOND, {moment}, {NOW})")
}

/// The microseconds until a moment.
pub fn micros_until(moment: &str) -> String {
    format!("TIMESTAMPDIFF(MICROSECOND, {NOW}, {moment})")
}

/// The moment this long after now, by the server's clock.
pub fn after(span: Duration) -> String {
    format!("{NOW} + INTERVAL {} MICROSECOND", span.as_micros())
}

/// The moment this many seconds before now. The number may be an SQL expression, here and below.
pub fn seconds_ago(seconds: impl std::fmt::Display) -> String {
    format!("{NOW} - INTERVAL {seconds} SECOND")
}

/// The moment this many seconds after now.
pub fn after_seconds(seconds: impl std::fmt::Display) -> String {
    format!("{NOW} + INTERVAL {seconds} SECOND")
}

/// The moment that a server says in microseconds since the start of 1970. One before that becomes 1970.
pub fn time(micros: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + span(micros)
}

/// The span that a server says in microseconds. A negative one becomes zero.
pub fn span(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}

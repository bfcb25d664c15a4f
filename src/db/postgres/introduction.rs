//! What a session says of itself to others, and how they read it. PostgreSQL shows every role the `application_name` of a session, and its
//! own role the text of its last statement, too. So that text begins with a comment that says more.

use std::collections::HashMap;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use crate::db::peer::{Claims, PROGRAM};

/// What ends a comment or a value, or begins another one.
const SPECIAL: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'*').add(b'=').add(b';');

/// The attributes in a comment, in this order: the server shows the first 1,023 bytes of a statement. The longest comment has less than 900
/// of them, though each byte that is not ASCII takes three: all values together have a limit.
const IN_COMMENT: [&str; 10] = [
    "host", "pid", "command", "started", "waits", "slots", "ttl", "os_user", "lock", "key",
];

/// The attributes in an `application_name`, in this order.
const IN_APPLICATION_NAME: [&str; 5] = ["host", "pid", "command", "lock", "key"];

/// The most bytes of an `application_name`.
const LONGEST_APPLICATION_NAME: usize = 63;

/// What the comment in front of each statement says, between its name and its end.
pub fn comment(attributes: &HashMap<&'static str, String>) -> String {
    let said = IN_COMMENT.iter().filter_map(|name| {
        let value = utf8_percent_encode(attributes.get(name)?, SPECIAL);
        Some(format!("{name}={value}"))
    });
    said.collect::<Vec<_>>().join(" ")
}

/// A statement with this comment, and after that something that comes `before` it.
pub fn commented(statement: &str, comment: &str, before: &str) -> String {
    let separator = if comment.is_empty() { "" } else { "; " };
    match statement.split_once(" */ ") {
        Some((name, rest)) => format!("{name}{separator}{comment} */ {before}{rest}"),
        None => format!("{before}{statement}"),
    }
}

/// The `application_name`: `dblock HOST PID PROGRAM LOCK KEY`, as far as there is room.
pub fn application_name(attributes: &HashMap<&'static str, String>) -> String {
    let mut name = PROGRAM.to_owned();
    for part in IN_APPLICATION_NAME {
        let value = attributes.get(part).map_or("", String::as_str);
        name = format!("{name} {}", utf8_percent_encode(value, SPECIAL));
    }
    name.truncate(LONGEST_APPLICATION_NAME);
    name.trim_end().to_owned()
}

/// What a session says of itself, from its `application_name` and its last statement, as far as a role may see that.
pub fn claims(application_name: &str, statement: &str) -> Option<Claims> {
    let is_cut = application_name.len() >= LONGEST_APPLICATION_NAME;
    let mut words = application_name.split(' ');
    let program = words.next().filter(|program| !program.is_empty())?;
    let mut pairs = vec![("program_name", program.to_owned())];
    if program == PROGRAM {
        let last = words.clone().count();
        for (place, (name, word)) in IN_APPLICATION_NAME.into_iter().zip(words).enumerate() {
            // A lock's name is compared with others, so half of one is of no use, nor is half a key.
            let is_half = is_cut && matches!(name, "lock" | "key") && place + 1 == last;
            if !word.is_empty() && !is_half {
                pairs.push((name, decoded(word)));
            }
        }
        let said = statement.strip_prefix("/* dblock ").unwrap_or_default();
        let said = said.split_once(" */").map_or("", |(said, _)| said);
        let said = said.split_once("; ").map_or("", |(_, said)| said);
        let said = said.split(' ').filter_map(|pair| pair.split_once('='));
        pairs.extend(said.map(|(name, value)| (name, decoded(value))));
    }
    Some(Claims::of(
        pairs.iter().map(|(name, value)| (*name, value.as_str())),
    ))
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn attributes(lock: &str) -> HashMap<&'static str, String> {
        HashMap::from([
            ("program_name", PROGRAM.to_owned()),
            ("host", "web1".to_owned()),
            ("pid", "4711".to_owned()),
            ("command", "a report".to_owned()),
            ("ttl", "300".to_owned()),
            ("waits", "1".to_owned()),
            ("lock", lock.to_owned()),
        ])
    }

    #[test]
    fn what_a_session_says_is_read_by_its_own_role() {
        for lock in ["nightly", "a */ b; c=d %", "naïve ☃"] {
            let attributes = attributes(lock);
            let statement = commented("/* dblock renew */ SELECT 1", &comment(&attributes), "");
            assert!(statement.ends_with(" */ SELECT 1") && statement.matches("*/").count() == 1);
            let claims = claims(&application_name(&attributes), &statement).unwrap();
            assert!(claims.is_dblock() && claims.waits);
            assert_eq!(claims.lock.as_deref(), Some(lock));
            assert_eq!(claims.command.as_deref(), Some("a report"));
            assert_eq!(claims.ttl, Some(Duration::from_secs(300)));
        }
    }

    #[test]
    fn another_role_sees_half_a_name_not_at_all() {
        let long = "x".repeat(60);
        for (lock, seen) in [("nightly", Some("nightly")), (&long, None)] {
            let name = application_name(&attributes(lock));
            assert!(name.len() <= LONGEST_APPLICATION_NAME);
            let claims = claims(&name, "<insufficient privilege>").unwrap();
            assert_eq!(claims.host.as_deref(), Some("web1"));
            assert_eq!(claims.lock.as_deref(), seen);
        }
    }
}

//! Parses values. An error ends a sentence about the value. It shows no URL, as that may contain a password.

mod time_bound;

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::host::Host;
use crate::base::value::PASSWORD_PARAMETER;
pub use crate::base::value::{duration, one_of, shown_safely};
use crate::db::{Protocol, SslMode};
use crate::history::{RESULTS, RunCursor, is_run_id};
pub use crate::lock::limits::ttl;
use crate::lock::limits::ttl_up_to;
use crate::lock::rows::Token;
use crate::lock::{MOST_SLOTS, OnLockLost, Wait, wrong_with_name};
use crate::schema::Keep;
pub use time_bound::{time, time_bound};

/// The longest TTL of a lock that a script holds.
const LONGEST_TOKEN_TTL: Duration = Duration::from_secs(30 * 24 * 3600);

/// How often a table is shown again at most, as for watch(1), and at least.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
const LONGEST_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// A value for display. It is hidden if it may be a URL with a password.
pub fn without_password(text: String) -> String {
    let account = text.split_once('@').map(|(account, _)| account);
    if account.is_some_and(|account| account.contains(':')) || text.contains(PASSWORD_PARAMETER) {
        "(with a password)".to_owned()
    } else {
        text
    }
}

/// The value of `--host`: one name or address, an IPv6 address with or without brackets. The errors do not quote it, as it may be a URL
/// with a password by mistake.
pub fn host(text: &str) -> Result<Host, String> {
    let inner = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let name = inner.unwrap_or(text);
    if name.is_empty() || name.contains([',', '/', '@']) || name.contains(char::is_whitespace) {
        return Err("that is not a host; a user or several hosts go into a URL".to_owned());
    }
    if name.contains(':') && name.parse::<std::net::Ipv6Addr>().is_err() {
        return Err(
            "that is not a host; a port goes into an option of its own or a URL".to_owned(),
        );
    }
    Ok(Host {
        name: name.to_owned(),
        port: None,
    })
}

/// A number from `least` to `most`.
pub fn number<T: FromStr + PartialOrd + Display + Copy>(
    text: &str,
    least: T,
    most: T,
) -> Result<T, String> {
    match text.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!(
            "{} is not a number from {least} to {most}",
            shown_safely(text)
        )),
    }
}

pub fn port_number(text: &str) -> Result<u16, String> {
    number(text, 1, u16::MAX)
        .map_err(|_| format!("{} is not a port from 1 to 65535", shown_safely(text)))
}

/// How many commands run at once.
pub fn commands(text: &str) -> Result<u32, String> {
    number(text, 1, 1000)
}

/// A socket's path: `sun_path` holds 108 bytes, including the final NUL.
pub fn socket_path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() || text.len() > 107 || text.contains('\0') {
        return Err("a socket's path has 1 to 107 bytes".to_owned());
    }
    Ok(PathBuf::from(text))
}

/// In upper or lower case, and with `_` as in MySQL's manual or `-` as in options.
pub fn ssl_mode(text: &str) -> Result<SslMode, String> {
    let words = [
        ("disabled", SslMode::Disabled),
        ("preferred", SslMode::Preferred),
        ("required", SslMode::Required),
        ("verify-ca", SslMode::VerifyCa),
        ("verify-identity", SslMode::VerifyIdentity),
    ];
    one_of(&words, &text.to_ascii_lowercase().replace('_', "-"))
}

/// The name of a database, by the rules of the servers.
pub fn database(text: &str) -> Result<String, String> {
    if text.is_empty() || text.chars().count() > 64 || text.contains('\0') {
        return Err("a database's name has 1 to 64 characters".to_owned());
    }
    Ok(text.to_owned())
}

/// The name of a schema, by PostgreSQL's rules: it would cut a longer one.
pub fn schema(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > 63 || text.contains('\0') {
        return Err("a schema's name has 1 to 63 bytes".to_owned());
    }
    if text.contains(char::is_control) {
        return Err("a schema's name has no control characters".to_owned());
    }
    if text.starts_with("pg_") || text == "information_schema" {
        return Err("that schema is PostgreSQL's own".to_owned());
    }
    Ok(text.to_owned())
}

/// How long the history is kept: a duration, and optionally a comma and a number of runs.
pub fn keep(text: &str) -> Result<Keep, String> {
    let (time, runs) = match text.split_once(',') {
        Some((time, runs)) => (time, runs.trim()),
        None => (text, "100"),
    };
    let time = duration(time)?;
    match runs.parse() {
        Ok(runs @ 1..=1_000_000) if time.as_secs() > 0 => Ok(Keep { time, runs }),
        Ok(1..=1_000_000) => Err("the history is kept for a second at least".to_owned()),
        _ => Err(format!(
            "behind the comma comes how many runs of each name are kept at least, 1 to 1000000, not {}",
            shown_safely(runs)
        )),
    }
}

/// A host of the history.
pub fn host_of_runs(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("name a host, as the column HOST of the history does".to_owned());
    }
    Ok(text.to_owned())
}

/// How runs ended, as a word of the history, with a space as its table shows it or with `_` as its JSON does.
pub fn result(text: &str) -> Result<&'static str, String> {
    let words = RESULTS.map(|word| (word, word));
    one_of(&words, &text.replace([' ', '-'], "_"))
}

/// The number of a run.
pub fn run(text: &str) -> Result<String, String> {
    if !is_run_id(text) {
        let line = format!(
            "{} is not the number of a run, as dblock history --json has it",
            shown_safely(text)
        );
        return Err(line);
    }
    Ok(text.to_owned())
}

/// Where a page of the history begins.
pub fn cursor(text: &str) -> Result<RunCursor, String> {
    RunCursor::parse(text).ok_or_else(|| {
        format!(
            "{} is not what dblock history printed for the next page",
            shown_safely(text)
        )
    })
}

/// The most runs to show; `None`: all.
pub fn limit_of_runs(text: &str) -> Result<Option<usize>, String> {
    limit(text, "runs")
}

/// The most entries to show; `None`: all.
pub fn limit_of_entries(text: &str) -> Result<Option<usize>, String> {
    limit(text, "entries")
}

/// The most `things` to show; `None`: all.
pub fn limit(text: &str, things: &str) -> Result<Option<usize>, String> {
    match text.parse::<u32>() {
        Ok(0) => Ok(None),
        Ok(limit) => Ok(Some(limit as usize)),
        Err(_) => Err(format!(
            "{} is not a number of {things}; 0 is all",
            shown_safely(text)
        )),
    }
}

pub fn wait(text: &str) -> Result<Wait, String> {
    match text {
        "forever" => Ok(Wait::Forever),
        _ => duration(text).map(Wait::For),
    }
}

/// How often a table is shown again.
pub fn interval(text: &str) -> Result<Duration, String> {
    let words = "a name stands before --watch, or its duration behind it: --watch=2s";
    let interval = duration(text).map_err(|wrong| format!("{wrong}; {words}"))?;
    if (SHORTEST_INTERVAL..=LONGEST_INTERVAL).contains(&interval) {
        Ok(interval)
    } else {
        Err(format!(
            "{} is not a time from 100ms to 1d",
            shown_safely(text)
        ))
    }
}

/// How long a script holds a lock: whole seconds.
pub fn token_ttl(text: &str) -> Result<Duration, String> {
    ttl_up_to(LONGEST_TOKEN_TTL, "30d", text)
}

/// The value of `acquire --owner`.
pub fn owner(text: &str) -> Result<String, String> {
    match wrong_with_name(text) {
        Some(wrong) => Err(wrong.to_owned()),
        None => Ok(text.to_owned()),
    }
}

/// The token that `acquire` has printed. An error does not show it.
pub fn token(text: &str) -> Result<Token, String> {
    Token::parse(text.trim_end_matches(['\n', '\r'])).map_err(|wrong| format!("the token {wrong}"))
}

pub fn on_lock_lost(text: &str) -> Result<OnLockLost, String> {
    let words = [
        ("reacquire", OnLockLost::Reacquire),
        ("terminate", OnLockLost::Terminate),
        ("ignore", OnLockLost::Ignore),
    ];
    one_of(&words, text)
}

/// In upper or lower case; MySQL's manual has capitals.
pub fn protocol(text: &str) -> Result<Protocol, String> {
    let words = [("tcp", Protocol::Tcp), ("socket", Protocol::Socket)];
    one_of(&words, &text.to_ascii_lowercase())
}

/// Any text.
#[expect(clippy::unnecessary_wraps, reason = "a reader of values")]
pub fn any(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

pub fn exit_code(text: &str) -> Result<u8, String> {
    text.parse()
        .map_err(|_| format!("{} is not an exit code from 0 to 255", shown_safely(text)))
}

/// Neither `forever` nor 0 is accepted.
pub fn longer_than_nothing(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("must be longer than 0".to_owned()),
        limit => Ok(limit),
    }
}

pub fn max_concurrency(text: &str) -> Result<u32, String> {
    number(text, 1, MOST_SLOTS)
}

/// The names of a pool's slots. They go into a variable of the command, and not to the server.
pub fn slot_names(text: &str) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = Vec::new();
    for name in text.split(',') {
        let wrong = match wrong_with_name(name) {
            Some(wrong) => wrong,
            _ if names.len() == MOST_SLOTS as usize => "is one too many, 1000 are the most",
            _ if names.iter().any(|other| other == name) => "is given twice",
            None => {
                names.push(name.to_owned());
                continue;
            }
        };
        let place = names.len() + 1;
        return Err(format!("name {place}, {}, {wrong}", shown_safely(name)));
    }
    Ok(names)
}

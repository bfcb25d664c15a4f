//! The URLs of the pages. A name is one segment, percent-encoded, if a browser leaves that as it is.

use std::fmt::Write;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// All that is not an unreserved character of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A text as one segment of a path, or one value of a query.
pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// The page of a job of the crontab, or of another name that has runs.
pub fn job(name: &str) -> String {
    of("/jobs", name)
}

/// The page of a run.
pub fn run(id: &str) -> String {
    format!("/runs/{}", encoded(id))
}

/// The page of a queue.
pub fn queue(name: &str) -> String {
    of("/queues", name)
}

/// To a browser `.` and `..` are folders, also percent-encoded: these names are parameters.
fn of(folder: &str, name: &str) -> String {
    match name {
        "." | ".." => with(folder, &[("name", name)]),
        name => format!("{folder}/{}", encoded(name)),
    }
}

/// A path with those parameters that are not empty.
pub fn with(path: &str, parameters: &[(&str, &str)]) -> String {
    let mut url = path.to_owned();
    let mut before = '?';
    for (name, value) in parameters.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = write!(url, "{before}{name}={}", encoded(value));
        before = '&';
    }
    url
}

/// The page in between of an action: its kind, and what it is done to.
///
/// | kind | object |
/// |---|---|
/// | `pause`, `resume` | `job=NAME` or `queue=NAME` |
/// | `trigger` | `job=NAME` |
/// | `retry` | `queue=NAME&id=N`, or `queue=NAME` for all that are dead |
/// | `cancel` | `queue=NAME&id=N` |
/// | `kill` | `lock=NAME&slot=N`, and `key=KEY` where that is not the name's |
pub fn action(kind: &str, object: &[(&str, &str)]) -> String {
    with(&format!("/actions/{kind}"), object)
}

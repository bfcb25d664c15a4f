//! What dblock has below everything else, as far as this program needs it, too: exit codes, and texts for people.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[expect(dead_code, reason = "no command's end is handed on here")]
#[path = "../../../src/base/exit.rs"]
pub mod exit;
#[expect(dead_code, reason = "formats that no page has")]
#[path = "../../../src/base/text.rs"]
pub mod text;

/// Writes a line to stderr. Without a reader, as after the end of a terminal, it is lost.
pub fn say(line: &str) {
    let line = format!("dblock: {}\n", text::printable(line));
    let _ = io::stderr().write_all(line.as_bytes());
}

/// What a mutex has, also after a panic of somebody who had it.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Why ticks were skipped, in the words of the history.

use super::super::rules::{Count, Skip, Why};

/// What the history says of an attempt whose host has died.
pub const DIED: &str = "its host gave no sign of life for the TTL";

/// Of a tick whose job was taken out of all files.
pub(super) const IN_NO_FILE: &str = "in no file any more";

/// So many ticks, from the first to the last.
pub(super) fn ticks(
    count: Count,
    (first, last): (i64, i64),
    shown: &dyn Fn(i64) -> String,
) -> String {
    let (first, last) = (shown(first), shown(last));
    if count == Count::ONE {
        format!("the tick {last}")
    } else {
        format!("{count} ticks, {first} to {last}")
    }
}

impl Why {
    /// In words, for so many ticks.
    pub(super) fn words(self, skip: &Skip, shown: &dyn Fn(i64) -> String) -> String {
        let what = ticks(skip.count, skip.ticks, shown);
        match self {
            Self::Missed => format!("missed {what}: no host took it in time; not run"),
            Self::Overlap => format!("an earlier tick is under way; {what} was skipped"),
            Self::OneWaits => format!("a tick waits already; {what} was skipped"),
        }
    }
}

/// Why a tick has no other attempt, though it should.
pub(super) fn too_late(attempt: u32, tick: &str) -> String {
    format!("missed attempt {attempt} of the tick {tick}: no host made it in time; given up")
}

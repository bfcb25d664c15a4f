//! The reasons for skipped ticks, as texts for the history.

use super::super::rules::{Count, Skip, Why};

/// The reason for a tick of a job that is in no file any more.
pub(super) const IN_NO_FILE: &str = "in no file any more";

/// The number of ticks, with the first and the last.
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
    /// The reason as text, with the ticks.
    pub(super) fn words(self, skip: &Skip, shown: &dyn Fn(i64) -> String) -> String {
        let what = ticks(skip.count, skip.ticks, shown);
        let were = if skip.count == Count::ONE {
            "was"
        } else {
            "were"
        };
        match self {
            Self::Missed => format!("missed {what}: no host took it in time; not run"),
            Self::Overlap => format!("an earlier tick is under way; {what} {were} skipped"),
            Self::OneWaits => format!("a tick waits already; {what} {were} skipped"),
        }
    }
}

/// The reason why a tick gets no further attempt.
pub(super) fn too_late(attempt: u32, tick: &str) -> String {
    format!("missed attempt {attempt} of the tick {tick}: no host made it in time; abandoned")
}

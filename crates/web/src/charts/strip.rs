//! The last runs of a job as a row of small bars, the latest at the right end. Each kind has a height of its own.

use std::collections::HashMap;
use std::fmt::Write;

use maud::{Markup, html};

use crate::fleet::data::{Ended, Kind};

/// How many runs there is room for.
pub const MOST: usize = 50;

/// How far the bars are from each other: four pixels and a gap, as the style sheet dashes the lines.
const STEP: usize = 5;

/// Where the middle of a kind's bars is; how high they are stands in the style sheet.
fn middle(kind: Kind) -> u8 {
    match kind {
        Kind::Failed | Kind::Lost => 6,
        Kind::Good | Kind::Running => 9,
        Kind::Doubtful => 3,
        Kind::Skipped => 11,
    }
}

/// The strip of the latest runs; the latest is the last.
pub fn strip(runs: &[Ended]) -> Markup {
    let runs = &runs[runs.len().saturating_sub(MOST)..];
    let mut lines: HashMap<Kind, String> = HashMap::new();
    let mut at = MOST - runs.len();
    // Neighbours of one kind are one line: the style sheet cuts it into bars.
    for alike in runs.chunk_by(|one, next| one.ending.kind() == next.ending.kind()) {
        let kind = alike[0].ending.kind();
        let (from, length) = (at * STEP, alike.len() * STEP - 1);
        let _ = write!(
            lines.entry(kind).or_default(),
            "M{from} {}h{length}",
            middle(kind)
        );
        at += alike.len();
    }
    html! {
        svg.strip role="img" aria-label=(words(runs)) {
            @for kind in Kind::ALL {
                @if let Some(line) = lines.get(&kind) { path.(kind.class()) d=(line) {} }
            }
        }
    }
}

/// The same in words: `50 runs: 48 good, 2 failed`.
pub fn words(runs: &[Ended]) -> String {
    if runs.is_empty() {
        return "no runs".to_owned();
    }
    let counts = Kind::ALL.map(|kind| {
        (
            kind,
            runs.iter().filter(|run| run.ending.kind() == kind).count(),
        )
    });
    let counts = counts.iter().filter(|(_, count)| *count > 0);
    let counts = counts.map(|(kind, count)| format!("{count} {}", kind.word()));
    let noun = if runs.len() == 1 { "run" } else { "runs" };
    format!(
        "{} {noun}: {}",
        runs.len(),
        counts.collect::<Vec<_>>().join(", ")
    )
}

//! How long the last runs of a job took, as bars.

use maud::{Markup, html};

use super::strip::{self, MOST};
use crate::fleet::data::Ended;

const STEP: usize = 12;
const HEIGHT: f32 = 80.0;
/// Above the bars: the signs of what is wrong.
const ABOVE: f32 = 14.0;
/// The shortest run is still seen.
const SHORTEST: f32 = 2.0;

/// The bars of the latest runs; the latest is the last. The words say how long the longest took.
pub fn durations(runs: &[Ended], longest: &str) -> Markup {
    let runs = &runs[runs.len().saturating_sub(MOST)..];
    let most = runs
        .iter()
        .filter_map(|run| run.ran_seconds)
        .fold(f32::MIN_POSITIVE, f32::max);
    let bars = runs.iter().enumerate().map(|(at, run)| {
        let share = run.ran_seconds.unwrap_or_default() / most;
        (
            (MOST - runs.len() + at) * STEP,
            (share * (HEIGHT - ABOVE)).max(SHORTEST),
            run.ending.kind(),
        )
    });
    html! {
        svg.bars role="img" viewBox={ "0 0 " (MOST * STEP) " " (HEIGHT) } aria-label={ "How long they took: " (strip::words(runs)) ", the longest " (longest) } {
            path.grid d={ "M0 " (ABOVE) "H" (MOST * STEP) "M0 " (HEIGHT - 0.5) "H" (MOST * STEP) } {}
            @for (x, height, kind) in bars {
                rect.(kind.class()) x=(x) y=(format!("{:.1}", HEIGHT - height)) width=(STEP - 2) height=(format!("{height:.1}")) {}
                @if kind.is_bad() { text.(kind.class()) x=(x + STEP / 2 - 1) y=(format!("{:.1}", HEIGHT - height - 3.0)) { (kind.sign()) } }
            }
        }
    }
}

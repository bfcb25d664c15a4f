//! How many jobs of a queue are still to be done, as one bar. Those that are dead are not: they are a number beside it.

use maud::{Markup, html};

use crate::fleet::data::Queue;

/// A state with any job is seen, in percent of the bar.
const NARROWEST: f64 = 1.5;

/// The bar. The words beside it say the numbers.
#[expect(clippy::cast_precision_loss, reason = "a bar in a chart")]
pub fn depth(queue: &Queue) -> Markup {
    let states = [
        ("running", queue.running),
        ("due", queue.due),
        ("delayed", queue.delayed),
    ];
    let sum: u64 = states.iter().map(|(_, jobs)| jobs).sum();
    let shares = states.map(|(state, jobs)| match jobs {
        0 => (state, 0.0),
        _ => (state, (jobs as f64 / sum as f64 * 100.0).max(NARROWEST)),
    });
    let whole: f64 = shares.iter().map(|(_, share)| share).sum();
    let parts = shares.iter().scan(0.0, |from, (state, share)| {
        let width = share / whole.max(NARROWEST) * 100.0;
        *from += width;
        Some((*state, *from - width, width))
    });
    html! {
        svg.depth role="img" aria-label=(words(queue)) {
            @for (state, from, width) in parts.filter(|(_, _, width)| *width > 0.0) {
                rect.(state) x=(format!("{from:.1}%")) width=(format!("{width:.1}%")) {}
            }
        }
    }
}

/// The same in words.
pub fn words(queue: &Queue) -> String {
    let states = ["running", "due", "delayed", "dead"];
    states
        .map(|state| format!("{} {state}", queue.counted(state)))
        .join(", ")
}

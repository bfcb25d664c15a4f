//! A day of runs: a row for each host or job, and bars in it from where a run was started to where it ended.

use jiff::{Timestamp, ToSpan};
use maud::{Markup, html};

use crate::fleet::data::Kind;

/// How long it is.
pub const HOURS: i64 = 24;

/// A hundredth of it, in seconds.
const PERCENT: f64 = 864.0;

/// Runs that ran at once stand below one another, in no more lanes than these.
const MOST_LANES: usize = 6;
const LANE_HEIGHT: usize = 12;

/// The shortest run is still seen, in percent of the day.
const NARROWEST: f64 = 0.2;

/// What is nearer than this, in percent of the day, is one bar: it would not be told apart.
const NEAR: f64 = 0.15;

/// A run in a row.
#[derive(Debug, Clone)]
pub struct Bar {
    /// When it was started.
    pub from: Timestamp,
    /// When it ended; while it runs: now.
    pub to: Timestamp,
    /// How it ended.
    pub kind: Kind,
    /// What is said of it where it is pointed at.
    pub says: String,
}

/// A bar as it is drawn, in percent of the day.
struct Drawn {
    from: f64,
    to: f64,
    kind: Kind,
    runs: usize,
    says: String,
}

/// Where a moment is, in percent of the day that ends then.
fn percent(at: Timestamp, until: Timestamp) -> f64 {
    (100.0 - until.duration_since(at).as_secs_f64() / PERCENT).clamp(0.0, 100.0)
}

/// The bars in lanes, so that none covers another. What does not fit is in the last lane, where bars are covered, but what is wrong by
/// nothing that is not.
fn lanes(mut bars: Vec<Bar>, until: Timestamp) -> Vec<Vec<Drawn>> {
    bars.sort_by_key(|bar| bar.from);
    let mut lanes: Vec<Vec<Drawn>> = Vec::new();
    for bar in bars {
        let (from, to) = (percent(bar.from, until), percent(bar.to, until));
        let joins =
            |last: &Drawn| last.kind == bar.kind && from - last.to < NEAR && last.to - from < NEAR;
        let fits = |last: &Drawn| from >= last.to + NEAR / 3.0;
        let ends = |lane: &Vec<Drawn>, test: &dyn Fn(&Drawn) -> bool| lane.last().is_some_and(test);
        if let Some(lane) = lanes.iter_mut().find(|lane| ends(lane, &joins)) {
            if let Some(last) = lane.last_mut() {
                last.to = last.to.max(to);
                last.runs += 1;
            }
            continue;
        }
        let place = lanes.iter().position(|lane| ends(lane, &fits));
        let drawn = Drawn {
            from,
            to,
            kind: bar.kind,
            runs: 1,
            says: bar.says,
        };
        match place {
            Some(at) => lanes[at].push(drawn),
            None if lanes.len() < MOST_LANES => lanes.push(vec![drawn]),
            None => lanes[MOST_LANES - 1].push(drawn),
        }
    }
    // What is drawn later covers what was drawn before.
    for lane in &mut lanes {
        lane.sort_by_key(|bar| bar.kind.is_bad());
    }
    lanes
}

/// A row of the day that ends then. The words beside it say what there is in it.
pub fn row(bars: Vec<Bar>, until: Timestamp) -> Markup {
    let lanes = lanes(bars, until);
    let height = lanes.len().max(1) * LANE_HEIGHT + 4;
    html! {
        svg.day aria-hidden="true" height=(height) {
            (grid(until))
            @for (lane, bars) in lanes.iter().enumerate() {
                @for bar in bars {
                    rect.(bar.kind.class()) x=(format!("{:.2}%", bar.from.min(100.0 - NARROWEST))) y=(lane * LANE_HEIGHT + top(bar.kind)) width=(format!("{:.2}%", (bar.to - bar.from).max(NARROWEST))) height=(LANE_HEIGHT - 1 - top(bar.kind)) {
                        title { (bar.says) @if bar.runs > 1 { " and " (bar.runs - 1) " more" } }
                    }
                }
            }
        }
    }
}

/// What is wrong is higher than what is not.
fn top(kind: Kind) -> usize {
    match kind {
        Kind::Failed | Kind::Lost => 0,
        Kind::Good | Kind::Running | Kind::Doubtful => 3,
        Kind::Skipped => 8,
    }
}

/// The whole hours of that day, every third, with their place in percent.
fn hours(until: Timestamp) -> impl Iterator<Item = (f64, Timestamp)> {
    const EVERY: i64 = 3 * 3600;
    let last = until.as_second().div_euclid(EVERY) * EVERY;
    (0..HOURS / 3).rev().filter_map(move |back| {
        let at = Timestamp::from_second(last)
            .ok()?
            .checked_sub((back * 3).hours())
            .ok()?;
        Some((percent(at, until), at))
    })
}

fn grid(until: Timestamp) -> Markup {
    html! { @for (at, _) in hours(until) { line x1=(format!("{at:.1}%")) x2=(format!("{at:.1}%")) y2="100%" {} } }
}

/// The hours above the rows.
pub fn axis(until: Timestamp) -> Markup {
    html! {
        svg.day.axis role="img" aria-label={ "24 hours until " (until.strftime("%Y-%m-%d %H:%M")) " UTC" } height="16" {
            @for (at, hour) in hours(until) {
                text x=(format!("{at:.1}%")) y="12" { (hour.strftime("%H:%M")) }
            }
        }
    }
}

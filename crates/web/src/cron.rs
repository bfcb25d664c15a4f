//! When a job of the crontab is due next, by the rules of dblock itself.

#[path = "../../../src/cron/expression.rs"]
mod expression;
#[expect(
    dead_code,
    reason = "only what reads a schedule and finds its ticks is used here"
)]
#[path = "../../../src/cron/schedule.rs"]
mod schedule;
#[expect(
    dead_code,
    reason = "only what reads a schedule and finds its ticks is used here"
)]
#[path = "../../../src/cron/zone.rs"]
mod zone;

use std::iter;

use jiff::Timestamp;

use schedule::{Schedule, Tick};
use zone::Zone;

/// The next ticks of the job of this name, with a schedule and a time zone as `dblock cron list` has them; the first of them is known.
/// Empty: this dblock-web does not understand the schedule.
pub fn next_ticks(
    name: &str,
    schedule: &str,
    zone: &str,
    first: Timestamp,
    number: usize,
) -> Vec<Timestamp> {
    let Ok(schedule) = Zone::parse(zone).and_then(|zone| Schedule::parse(schedule, zone, name))
    else {
        return Vec::new();
    };
    let next = |tick: &Timestamp| schedule.next_after(*tick).map(Tick::at);
    iter::successors(Some(first), next).take(number).collect()
}

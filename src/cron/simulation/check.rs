//! Checks each tick against the contract: it ran once, was skipped for a true reason, or was held back by a pause.

use std::collections::BTreeMap;
use std::iter;
use std::time::Duration;

use super::super::crontab::{Missed, Overlap};
use super::super::rules::{AttemptEnd, FRESH, Why, next_after};
use super::server::{Event, Skipped};
use super::{Job, SECOND, START, World, micros};

/// Checks each tick of each job, from the first to the last that must be settled.
pub(super) fn check(world: &World, until: i64) {
    for (at, job) in world.jobs.iter().enumerate() {
        let (events, skips) = (&world.server.events[at], &world.server.skips[at]);
        let first = next_after(&job.schedule, START);
        let of_schedule = iter::successors(first, |tick| next_after(&job.schedule, *tick));
        let ticks = of_schedule.take_while(|tick| *tick <= until);
        let mut counted = 0;
        for tick in ticks.chain(world.server.triggers[at].iter().copied()) {
            let is_trigger = world.server.triggers[at].contains(&tick);
            // A skip may include several ticks of the schedule, but only a single trigger.
            let of_skip: Vec<&Skipped> = skips
                .iter()
                .filter(|skip| skip.first <= tick && tick <= skip.last)
                .filter(|skip| !is_trigger || skip.first == tick)
                .collect();
            let paused = &world.server.paused[at];
            let is_held_back = !is_trigger
                && paused
                    .iter()
                    .any(|(from, to)| (*from..=*to).contains(&tick));
            let place = || {
                format!(
                    "{} {:?} tick {} of {:?}: {:?}, {of_skip:?}",
                    job.name,
                    job.options,
                    (tick - START) / SECOND,
                    job.takes,
                    events.get(&tick)
                )
            };
            let given_up = world.server.given_up[at].get(&tick);
            assert!(
                !is_held_back || (events.get(&tick).is_none() && of_skip.is_empty()),
                "paused, and settled: {}",
                place()
            );
            match (events.get(&tick), &of_skip[..]) {
                (_, []) if given_up.is_some_and(|given_up| is_late(job, *given_up)) => {}
                (Some(of_tick), []) => check_attempts(job, of_tick, &place),
                (None, [skip]) => {
                    // Other skips are part of a settlement beyond the end.
                    counted += usize::from(skip.last <= until);
                    check_reason(job, &world.server.spans[at], tick, skip, &place);
                }
                (None, []) if is_held_back => {}
                // If it was taken, it was given up before any command started.
                (None, []) => panic!("neither run nor skipped: {}", place()),
                _ => panic!("settled twice: {}", place()),
            }
        }
        let all: usize = skips
            .iter()
            .filter(|skip| skip.last <= until)
            .map(|skip| skip.count)
            .sum();
        assert_eq!(all, counted, "{}: the numbers of skipped ticks", job.name);
        check_overlap(job, events);
    }
}

/// Whether nobody could make the next attempt in time: within `--deadline`, or within an hour with `--missed skip`.
fn is_late(job: &Job, (since, at): (i64, i64)) -> bool {
    let limit = match job.options.missed {
        Missed::Skip => Some(Duration::from_secs(3600)),
        _ => job.options.deadline,
    };
    limit.is_some_and(|limit| at - since > micros(limit))
}

fn check_attempts(job: &Job, events: &[Event], place: &dyn Fn() -> String) {
    let mut last = 0;
    let mut has_succeeded = false;
    for event in events {
        match event {
            Event::Started { attempt, .. } => {
                assert!(*attempt > last && !has_succeeded, "attempts: {}", place());
                last = *attempt;
            }
            Event::Ended { end, .. } => has_succeeded |= *end == AttemptEnd::Over,
        }
    }
    let count = |wanted| {
        events
            .iter()
            .filter(|event| matches!(event, Event::Ended { end, .. } if *end == wanted))
            .count()
    };
    let failed = count(AttemptEnd::Failed);
    // A host that died before its command started counts as an attempt, too.
    if !has_succeeded {
        let retries = job.options.retries as usize;
        let attempts = last as usize;
        assert!(
            attempts > retries && (failed > 0 || attempts > 1),
            "given up too early: {}",
            place()
        );
    }
}

fn check_reason(
    job: &Job,
    spans: &BTreeMap<i64, (i64, Option<i64>)>,
    tick: i64,
    skip: &Skipped,
    place: &dyn Fn() -> String,
) {
    let late = skip.at - tick;
    let fresh = micros(FRESH);
    if skip.why == Why::Missed {
        let next = next_after(&job.schedule, tick).unwrap();
        let deadline = job
            .options
            .deadline
            .map_or(i64::MAX, |span| i64::try_from(span.as_micros()).unwrap());
        let is_true = match job.options.missed {
            Missed::Once => next <= skip.at || late > deadline,
            Missed::Skip => next <= skip.at || late > fresh,
            Missed::All => late > deadline || late > 100 * (next - tick),
        };
        assert!(is_true, "not missed: {}", place());
        return;
    }
    assert_ne!(job.options.overlap, Overlap::Allow, "{}", place());
    // Another tick of the job must have been in progress at some time between this tick and the skip.
    let is_true = spans.iter().any(|(other, (from, to))| {
        *other != tick && *from <= skip.at && to.is_none_or(|to| to >= tick)
    });
    assert!(is_true, "nothing was under way: {}", place());
}

fn check_overlap(job: &Job, events: &BTreeMap<i64, Vec<Event>>) {
    if job.options.overlap == Overlap::Allow {
        return;
    }
    let mut moments: Vec<(i64, i32)> = Vec::new();
    for event in events.values().flatten() {
        moments.push(match event {
            Event::Started { at, .. } => (*at, 1),
            Event::Ended { at, .. } => (*at, -1),
        });
    }
    moments.sort_unstable();
    let mut running = 0;
    for (at, change) in moments {
        running += change;
        assert!(
            (0..=1).contains(&running),
            "{}: {running} at once at {}",
            job.name,
            (at - START) / SECOND
        );
    }
}

//! Checks each tick against the contract: it ran once, was skipped for a true reason, or was held back by a pause.

use std::collections::BTreeMap;
use std::iter;
use std::time::Duration;

use super::super::crontab::{Missed, Overlap};
use super::super::rules::{AttemptEnd, FRESH, Why, next_after};
use super::{Job, SECOND, START, World};
use crate::base::clock::micros;

/// What happens to a tick.
#[derive(Debug, Clone)]
pub(super) enum Event {
    /// A host has the lock of an attempt, and may start its command.
    Granted { attempt: u32, at: i64 },
    /// A host starts the command of an attempt.
    Started {
        run: u64,
        attempt: u32,
        host: u64,
        at: i64,
    },
    /// A command ends, whoever knows of it.
    Ended { run: u64, end: AttemptEnd, at: i64 },
    /// The lock of a command had expired then, and its host has renewed it afterwards: it was frozen.
    Expired { run: u64, at: i64 },
    /// An attempt is not run, as others hold its lock.
    Refused { at: i64 },
}

impl Event {
    fn at(&self) -> i64 {
        match *self {
            Self::Granted { at, .. }
            | Self::Started { at, .. }
            | Self::Ended { at, .. }
            | Self::Expired { at, .. }
            | Self::Refused { at } => at,
        }
    }
}

/// Ticks that were skipped.
#[derive(Debug, Clone)]
pub(super) struct Skipped {
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) count: usize,
    pub(super) why: Why,
    pub(super) at: i64,
}

/// What happened to a job.
#[derive(Default)]
pub(super) struct Record {
    pub(super) events: BTreeMap<i64, Vec<Event>>,
    pub(super) skips: Vec<Skipped>,
    /// When each taken tick was in progress, from start to end.
    pub(super) spans: BTreeMap<i64, (i64, Option<i64>)>,
    /// Ticks whose next attempt nobody could make in time: since when that was possible, and when they were given up.
    pub(super) given_up: BTreeMap<i64, (i64, i64)>,
    /// When it was triggered by hand.
    pub(super) triggers: Vec<i64>,
    /// When it was paused, and the ticks that each pause has held back.
    pub(super) pauses: Vec<(i64, Option<i64>)>,
    pub(super) held_back: Vec<(i64, i64)>,
    /// When others held its lock.
    pub(super) by_hand: Vec<(i64, i64)>,
    /// Whether two of its ticks have waited at the same time.
    pub(super) both_waited: bool,
}

/// The command of an attempt, from its start to when it has ended, or could not rely on its lock any more.
#[derive(Debug)]
struct Run {
    id: u64,
    attempt: u32,
    host: u64,
    /// When it had its lock.
    granted: i64,
    from: i64,
    to: i64,
    end: Option<AttemptEnd>,
}

/// Checks each tick of each job, from the first to the last that must be settled.
pub(super) fn check(world: &World, until: i64) {
    for (job, record) in world.jobs.iter().zip(&world.server.records) {
        let first = next_after(&job.schedule, START);
        let of_schedule = iter::successors(first, |tick| next_after(&job.schedule, *tick));
        let ticks = of_schedule.take_while(|tick| *tick <= until);
        let mut counted = 0;
        for tick in ticks.chain(record.triggers.iter().copied()) {
            counted += check_tick(world, job, record, tick, until);
        }
        let all: usize = record
            .skips
            .iter()
            .filter(|skip| skip.last <= until)
            .map(|skip| skip.count)
            .sum();
        assert_eq!(all, counted, "{}: the numbers of skipped ticks", job.name);
        check_pauses(job, record);
        check_overlap(job, record);
    }
}

/// Checks a tick. Returns whether it is one of those that were skipped.
fn check_tick(world: &World, job: &Job, record: &Record, tick: i64, until: i64) -> usize {
    let is_trigger = record.triggers.contains(&tick);
    // A skip may include several ticks of the schedule, but only a single trigger.
    let of_skip: Vec<&Skipped> = record
        .skips
        .iter()
        .filter(|skip| skip.first <= tick && tick <= skip.last)
        .filter(|skip| !is_trigger || skip.first == tick)
        .collect();
    let mut held_back = record.held_back.iter();
    let is_held_back = !is_trigger && held_back.any(|(from, to)| (*from..=*to).contains(&tick));
    let events = record.events.get(&tick);
    let place = || {
        format!(
            "{} {:?} tick {} of {:?}: {events:?}, {of_skip:?}",
            job.name,
            job.options,
            (tick - START) / SECOND,
            job.takes,
        )
    };
    let given_up = record.given_up.get(&tick);
    assert!(
        !is_held_back || (events.is_none() && of_skip.is_empty()),
        "paused, and settled: {}",
        place()
    );
    match (events, &of_skip[..]) {
        (_, []) if given_up.is_some_and(|given_up| is_late(job, *given_up)) => {}
        (Some(events), []) => check_attempts(world, job, record, events, &place),
        (None, [skip]) => {
            check_reason(job, record, tick, skip, &place);
            // Other skips are part of a settlement beyond the end.
            return usize::from(skip.last <= until);
        }
        (None, []) if is_held_back => {}
        // If it was taken, it was given up before any command started.
        (None, []) => panic!("neither run nor skipped: {}", place()),
        _ => panic!("settled twice: {}", place()),
    }
    0
}

/// Whether nobody could make the next attempt in time: within `--deadline`, or within an hour with `--missed skip`.
fn is_late(job: &Job, (since, at): (i64, i64)) -> bool {
    let limit = match job.options.missed {
        Missed::Skip => Some(Duration::from_secs(3600)),
        _ => job.options.deadline,
    };
    limit.is_some_and(|limit| at - since > micros(limit))
}

/// The commands of a tick, in the order of their starts.
fn runs(events: &[Event]) -> Vec<Run> {
    let starts = events.iter().filter_map(|event| match *event {
        Event::Started {
            run,
            attempt,
            host,
            at,
        } => Some((run, attempt, host, at)),
        _ => None,
    });
    let runs = starts.map(|(id, attempt, host, from)| {
        let mut found = Run {
            id,
            attempt,
            host,
            granted: from,
            from,
            to: i64::MAX,
            end: None,
        };
        for event in events {
            match *event {
                Event::Ended { run, end, at } if run == id => {
                    (found.to, found.end) = (found.to.min(at), Some(end));
                }
                Event::Granted { attempt: of, at } if of == attempt && at <= from => {
                    found.granted = at;
                }
                Event::Expired { run, at } if run == id => found.to = found.to.min(at),
                _ => {}
            }
        }
        found
    });
    let mut runs: Vec<Run> = runs.collect();
    runs.sort_by_key(|run| run.from);
    runs
}

/// Whether a host had trouble of its own between two moments, so that it may not have recorded the end of a command.
fn had_trouble(world: &World, host: u64, from: i64, to: i64) -> bool {
    let mut all = world.troubles.iter();
    all.any(|(one, since, until)| *one == host && *since <= to && *until >= from)
}

fn check_attempts(
    world: &World,
    job: &Job,
    record: &Record,
    events: &[Event],
    place: &dyn Fn() -> String,
) {
    let runs = runs(events);
    let had_succeeded = |run, by| {
        let end = world.server.end_of(run);
        end.is_some_and(|(at, end)| at < by && end == AttemptEnd::Over)
    };
    for (at, run) in runs.iter().enumerate() {
        for before in &runs[..at] {
            assert!(before.attempt < run.attempt, "attempts: {}", place());
            assert!(before.to <= run.from, "two at once: {}", place());
            assert!(
                before.end != Some(AttemptEnd::Over)
                    || had_trouble(world, before.host, before.from, run.from)
                        && !had_succeeded(before.id, run.granted),
                "run again after a success: {}",
                place()
            );
        }
    }
    let refused = events.iter().find_map(|event| match event {
        Event::Refused { at } => Some(*at),
        _ => None,
    });
    let waits = job.options.overlap == Overlap::Wait;
    assert!(!waits || refused.is_none(), "did not wait: {}", place());
    // Others may count as failures, too, and not each of those with trouble does.
    let is_failure = |run: &&Run| {
        run.end == Some(AttemptEnd::Failed) && !had_trouble(world, run.host, run.from, i64::MAX)
    };
    let failures = runs.iter().filter(is_failure).count();
    let most = job.options.retries as usize + 1;
    assert!(failures <= most, "too many attempts: {}", place());
    if runs.iter().any(|run| run.end == Some(AttemptEnd::Over)) {
        return;
    }
    if let Some(at) = refused {
        let mut by_hand = record.by_hand.iter();
        let is_by_hand = by_hand.any(|(from, to)| *from <= at && at <= *to);
        let mut of_job = record.events.values().flatten();
        // Or a host that was away has kept it, or not released it yet.
        let is_by_host = of_job.any(|event| match event {
            Event::Started { at: from, .. } => (at - micros(job.options.ttl)..=at).contains(from),
            event => (event.at() - at).abs() <= micros(job.options.ttl),
        });
        assert!(is_by_hand || is_by_host, "nobody had the lock: {}", place());
        return;
    }
    // A host that died before its command started counts as an attempt, too.
    let attempts = events.iter().filter_map(|event| match event {
        Event::Granted { attempt, .. } => Some(*attempt),
        _ => None,
    });
    let count = attempts.max().unwrap_or_default();
    let mut ends = runs.iter().map(|run| run.end);
    let has_failed = ends.any(|end| end == Some(AttemptEnd::Failed));
    assert!(
        count > job.options.retries && (has_failed || count > 1),
        "given up too early: {}",
        place()
    );
}

fn check_reason(job: &Job, record: &Record, tick: i64, skip: &Skipped, place: &dyn Fn() -> String) {
    let late = skip.at - tick;
    let fresh = micros(FRESH);
    if skip.why == Why::Missed {
        let next = next_after(&job.schedule, tick).unwrap();
        let deadline = job.options.deadline.map_or(i64::MAX, micros);
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
    let is_true = record.spans.iter().any(|(other, (from, to))| {
        *other != tick && *from <= skip.at && to.is_none_or(|to| to >= tick)
    });
    assert!(is_true, "nothing was under way: {}", place());
}

/// A paused job starts no tick of its schedule.
fn check_pauses(job: &Job, record: &Record) {
    for (tick, (settled, _)) in &record.spans {
        let is_paused =
            |(from, to): &(i64, Option<i64>)| *from < *settled && to.is_none_or(|to| *settled < to);
        assert!(
            record.triggers.contains(tick) || !record.pauses.iter().any(is_paused),
            "{}: settled at {} in a pause",
            job.name,
            (settled - START) / SECOND
        );
    }
}

/// No two commands of a job run at once, unless they may.
fn check_overlap(job: &Job, record: &Record) {
    if job.options.overlap == Overlap::Allow {
        return;
    }
    let mut all: Vec<Run> = record.events.values().flat_map(|of| runs(of)).collect();
    all.sort_by_key(|run| (run.from, run.to));
    for pair in all.windows(2) {
        assert!(
            pair[0].to <= pair[1].from,
            "{}: two at once: {pair:?}",
            job.name
        );
    }
}

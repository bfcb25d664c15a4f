//! What is to be done about a job, from its row, its ticks that are under way, and the time by the server's clock. Pure: every host
//! comes to the same result. All moments are microseconds since 1970, UTC.

use std::collections::VecDeque;
use std::time::Duration;
use std::{fmt, iter};

use jiff::Timestamp;

use super::Schedule;
use super::crontab::{DEFAULT_DEADLINE, Missed, Options, Overlap};
use super::spread::fraction;

/// A tick that is no older than this has not been missed.
pub const FRESH: Duration = Duration::from_secs(60);

/// A tick that is late by no more than this is in time, whatever the deadline.
const PROMPT: Duration = Duration::from_secs(5);

/// After an outage missed ticks are made up for within this time at most.
pub const LONGEST_SPREAD: Duration = Duration::from_secs(30);

/// A daemon that a tick is not for leaves it to the one that it is for, for so long.
pub const HEAD_START: Duration = Duration::from_secs(1);

/// Missed ticks that are made up for at most, with `--missed all`.
const MOST_MADE_UP: usize = 100;

/// Ticks that are counted at most.
const MOST_COUNTED: usize = 100_000;

/// From an attempt whose command could not be started to the next, within these bounds.
const UNSTARTED: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(300)];

/// The longest time from one attempt to the next: delays double no further. One that is longer from the start stays as it is.
const LONGEST_DELAY: Duration = Duration::from_secs(3600);

/// What a job's row says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Row {
    /// The next tick to settle; `None`: there is none.
    pub next: Option<i64>,
    /// Whether its ticks are held back.
    pub is_paused: bool,
    /// When somebody wanted it to run once, besides.
    pub triggered: Option<i64>,
}

/// What is known of a job's ticks that have a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnderWay {
    /// How many run, or are to be tried again.
    pub running: usize,
    /// Whether one waits for them.
    pub has_waiting: bool,
}

/// A daemon at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// By the server's clock.
    pub at: i64,
    /// Whether the tick is for this daemon.
    pub is_preferred: bool,
    /// Whether it may run one more command.
    pub has_room: bool,
    /// Since when it hears the server without a break. What could have run then is not too old because it is put off.
    pub back_at: i64,
    /// Missed ticks are not started before: after an outage not all start at once.
    pub made_up_from: i64,
}

/// The moment that counts for how old a tick is: while ticks are made up for after an outage, that of its end.
pub fn reckoned(now: i64, back_at: i64) -> i64 {
    let is_back = now.saturating_sub(back_at) <= micros(LONGEST_SPREAD + PROMPT);
    if is_back { back_at } else { now }
}

/// Ticks that do not run, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// The first, and the last of them.
    pub ticks: (i64, i64),
    /// How many they are.
    pub count: Count,
    /// Why.
    pub why: Why,
}

/// How many ticks there are. Of very many it is said that they are at least so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Count {
    /// So many.
    pub number: usize,
    /// Whether there may be more.
    pub is_least: bool,
}

impl Count {
    /// None, and one.
    pub const NONE: Self = Self::exactly(0);
    pub const ONE: Self = Self::exactly(1);

    const fn exactly(number: usize) -> Self {
        Self {
            number,
            is_least: false,
        }
    }

    /// Those from one tick to another, both included.
    pub fn of(schedule: &Schedule, (first, last): (i64, i64)) -> Self {
        let ticks = iter::successors(Some(first), |tick| next_after(schedule, *tick));
        let number = ticks
            .take_while(|tick| *tick <= last)
            .take(MOST_COUNTED)
            .count();
        Self {
            number,
            is_least: number == MOST_COUNTED,
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let least = if self.is_least { "at least " } else { "" };
        write!(f, "{least}{}", self.number)
    }
}

/// Why ticks do not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// No dblock took them in time.
    Missed,
    /// An earlier one was under way.
    Overlap,
    /// Another one waits already for an earlier one.
    OneWaits,
}

/// What becomes of a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It runs.
    Run(i64),
    /// It runs when those before are over.
    Wait(i64),
}

/// A step forward of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// The tick that was to be settled next.
    pub from: i64,
    /// Whether that is one that somebody wanted besides: the schedule's ticks stay as they are.
    pub is_trigger: bool,
    /// The last one that is settled.
    pub settled: i64,
    /// The next to settle after this.
    pub next: Option<i64>,
    /// What does not run.
    pub skips: Vec<Skip>,
    /// What runs; `None`: nothing.
    pub fate: Option<Fate>,
    /// Whether no tick of the job may be under way.
    pub is_alone: bool,
}

/// What is to be done about a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Nothing before that moment; `None`: nothing as long as nothing else happens.
    Rest(Option<i64>),
    /// This.
    Settle(Settlement),
}

/// The first tick after a moment.
pub fn next_after(schedule: &Schedule, after: i64) -> Option<i64> {
    let after = Timestamp::from_microsecond(after).ok()?;
    let tick = schedule.next_after(after)?;
    Some(tick.at().as_microsecond())
}

/// The last tick that is not after a moment.
pub fn last_at_or_before(schedule: &Schedule, before: i64) -> Option<i64> {
    let before = Timestamp::from_microsecond(before).ok()?;
    let tick = schedule.last_at_or_before(before)?;
    Some(tick.at().as_microsecond())
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// What is to be done about a job.
pub fn decide(
    (name, schedule, options): (&str, &Schedule, &Options),
    row: &Row,
    under_way: UnderWay,
    now: Now,
) -> Decision {
    if let Some(at) = row.triggered
        && let Some(settlement) = trigger(options, under_way, now, at)
    {
        return Decision::Settle(settlement);
    }
    let Some(first) = row.next.filter(|_| !row.is_paused) else {
        return Decision::Rest(None);
    };
    let patience = if now.is_preferred {
        0
    } else {
        micros(HEAD_START)
    };
    // Most jobs, most of the time.
    if first > now.at {
        return Decision::Rest(Some(first + patience));
    }
    let ready = ready(name, schedule, options, first).saturating_add(patience);
    if ready > now.at {
        return Decision::Rest(Some(ready));
    }
    let due = Due::of(name, schedule, options, first, now.at);
    let chosen = due.choose(options, reckoned(now.at, now.back_at));
    // After an outage they may be many: they are counted when that is settled, and not whenever it is looked at.
    let settle = |mut settlement: Settlement| {
        if let Some(last) = due.last_skipped(chosen) {
            let ticks = (first, last);
            let count = Count::of(schedule, ticks);
            let why = Why::Missed;
            settlement.skips.insert(0, Skip { ticks, count, why });
        }
        Decision::Settle(settlement)
    };
    let mut settlement = Settlement {
        from: first,
        is_trigger: false,
        settled: due.last().0,
        next: next_after(schedule, due.last().0),
        skips: Vec::new(),
        fate: None,
        is_alone: false,
    };
    let Some((at, (tick, is_ready_at))) = chosen.map(|at| (at, due.ticks[at])) else {
        return settle(settlement);
    };
    settlement.settled = tick;
    if let Some((next, _)) = due.ticks.get(at + 1) {
        settlement.next = Some(*next);
    }
    let is_made_up = now.at - is_ready_at > micros(FRESH);
    if is_made_up && now.made_up_from > now.at {
        return Decision::Rest(Some(now.made_up_from));
    }
    let is_busy = under_way.running > 0 || under_way.has_waiting;
    match options.overlap {
        Overlap::Allow => settlement.fate = Some(Fate::Run(tick)),
        _ if !is_busy => {
            settlement.fate = Some(Fate::Run(tick));
            settlement.is_alone = true;
        }
        // Each is made up for, one after the other.
        _ if is_made_up && options.missed == Missed::All => return Decision::Rest(None),
        Overlap::Wait if !under_way.has_waiting => settlement.fate = Some(Fate::Wait(tick)),
        overlap => settlement.skips.push(overlapping(tick, overlap)),
    }
    if matches!(settlement.fate, Some(Fate::Run(_))) && !now.has_room {
        return Decision::Rest(None);
    }
    settle(settlement)
}

fn overlapping(tick: i64, overlap: Overlap) -> Skip {
    Skip {
        ticks: (tick, tick),
        count: Count::ONE,
        why: if overlap == Overlap::Wait {
            Why::OneWaits
        } else {
            Why::Overlap
        },
    }
}

/// A run that somebody wants besides; `None`: not yet.
fn trigger(options: &Options, under_way: UnderWay, now: Now, at: i64) -> Option<Settlement> {
    if !now.is_preferred && now.at < at.saturating_add(micros(HEAD_START)) {
        return None;
    }
    let is_busy = under_way.running > 0 || under_way.has_waiting;
    let mut settlement = Settlement {
        from: at,
        is_trigger: true,
        settled: at,
        next: None,
        skips: Vec::new(),
        fate: None,
        is_alone: false,
    };
    match options.overlap {
        overlap if overlap == Overlap::Allow || !is_busy => {
            settlement.is_alone = overlap != Overlap::Allow;
            settlement.fate = now.has_room.then_some(Fate::Run(at));
            settlement.fate?;
        }
        Overlap::Wait if !under_way.has_waiting => settlement.fate = Some(Fate::Wait(at)),
        overlap => settlement.skips.push(overlapping(at, overlap)),
    }
    Some(settlement)
}

/// When a tick may start: it is put off by a part of `--jitter`, and not by more than half of the time to the next one.
fn ready(name: &str, schedule: &Schedule, options: &Options, tick: i64) -> i64 {
    if options.jitter.is_zero() {
        return tick;
    }
    let room = next_after(schedule, tick).map_or(i64::MAX, |next| (next - tick) / 2);
    let most = options
        .jitter
        .min(Duration::from_micros(room.unsigned_abs()));
    let part = most.mul_f64(fraction(&["jitter", name, &tick.to_string()]));
    tick.saturating_add(micros(part))
}

/// Ticks that may start by now: the last of them.
struct Due {
    /// Each with the moment since when, those that may be made up for and the one before them; at least one.
    ticks: VecDeque<(i64, i64)>,
}

impl Due {
    /// They are found from the last one on: it does not matter how many there are.
    fn of(name: &str, schedule: &Schedule, options: &Options, first: i64, now: i64) -> Self {
        let ready = |tick| ready(name, schedule, options, tick);
        let is_one = |tick: &i64| *tick > first;
        let before = |tick: i64| last_at_or_before(schedule, tick - 1).filter(is_one);
        let mut next = last_at_or_before(schedule, now).filter(is_one);
        // It may be put off; none before it is.
        if let Some(last) = next.filter(|last| ready(*last) > now) {
            next = before(last);
        }
        let most = match options.missed {
            Missed::All => MOST_MADE_UP,
            Missed::Once | Missed::Skip => 1,
        };
        let mut ticks = VecDeque::new();
        while let Some(tick) = next.filter(|_| ticks.len() <= most) {
            ticks.push_front((tick, ready(tick)));
            next = before(tick);
        }
        if ticks.len() <= most {
            ticks.push_front((first, ready(first)));
        }
        Self { ticks }
    }

    fn last(&self) -> (i64, i64) {
        self.ticks[self.ticks.len() - 1]
    }

    /// The last one that is skipped, where that one runs.
    fn last_skipped(&self, chosen: Option<usize>) -> Option<i64> {
        let at = chosen.unwrap_or(self.ticks.len()).checked_sub(1)?;
        Some(self.ticks[at].0)
    }

    /// Which one is to run, if any is: those before it are skipped.
    fn choose(&self, options: &Options, now: i64) -> Option<usize> {
        let count = self.ticks.len();
        let first = match options.missed {
            Missed::All => count.saturating_sub(MOST_MADE_UP),
            Missed::Once | Missed::Skip => count - 1,
        };
        (first..count).find(|at| !is_too_late(options, self.ticks[*at].1, now))
    }
}

/// Whether a tick that could have started at a moment is not to be made up for any more.
fn is_too_late(options: &Options, since: i64, now: i64) -> bool {
    let longest = match options.missed {
        Missed::Skip => FRESH,
        Missed::Once | Missed::All => options.deadline.unwrap_or(Duration::MAX).max(PROMPT),
    };
    now.saturating_sub(since) > micros(longest)
}

/// The same of another attempt of a tick, which `--missed` says nothing of.
pub fn is_attempt_too_late(options: &Options, since: i64, now: i64) -> bool {
    let longest = match options.missed {
        Missed::Skip => DEFAULT_DEADLINE,
        Missed::Once | Missed::All => options.deadline.unwrap_or(Duration::MAX).max(PROMPT),
    };
    now.saturating_sub(since) > micros(longest)
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum AttemptEnd {
    /// The tick is done, or not to be tried again.
    Over,
    /// The command failed.
    Failed,
    /// Its host died, or lost the lock.
    Lost,
    /// The daemon ended it, because it was stopped: it counts as no attempt.
    GivenBack,
    /// Its command was not started, for want of a server or of processes: it counts as no attempt either.
    Unstarted,
}

/// After how long a tick is tried again whose command could not be started, for so long now: the pauses double.
pub fn pause_of_unstarted(lasting: Duration) -> Duration {
    let [shortest, longest] = UNSTARTED;
    lasting.clamp(shortest, longest)
}

/// After how long a tick is tried again whose attempt ended so, with what counts as failed before, and for how long its command could not be
/// started; `None`: not. What counts now.
pub fn retry(
    options: &Options,
    end: AttemptEnd,
    failures: u32,
    unstarted_for: Duration,
) -> (Option<Duration>, u32) {
    let (most, failed) = match end {
        AttemptEnd::Over => return (None, failures),
        AttemptEnd::GivenBack => return (Some(Duration::ZERO), failures),
        AttemptEnd::Unstarted => return (Some(pause_of_unstarted(unstarted_for)), failures),
        AttemptEnd::Failed => (options.retries, failures + 1),
        // The tick would be lost with its host.
        AttemptEnd::Lost => (options.retries.max(1), failures + 1),
    };
    if failed > most {
        return (None, failed);
    }
    if end == AttemptEnd::Lost {
        return (Some(Duration::ZERO), failed);
    }
    let doubled = options
        .retry_delay
        .saturating_mul(1 << (failed - 1).min(20));
    let delay = doubled.min(LONGEST_DELAY.max(options.retry_delay));
    (Some(delay), failed)
}

#[cfg(test)]
mod tests;

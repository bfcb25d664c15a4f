//! Decides what to do about a job, from its row, its ticks in progress, and the time by the server's clock. Pure: every host comes to the
//! same result. All moments are microseconds since 1970, UTC.

use std::collections::VecDeque;
use std::time::Duration;
use std::{fmt, iter};

use jiff::Timestamp;

pub mod taken;

use super::Schedule;
use super::crontab::{DEFAULT_DEADLINE, Missed, Options, Overlap};
use super::spread::fraction;
use crate::base::clock::{doubled, micros};

/// A tick up to this age does not count as missed.
pub const FRESH: Duration = Duration::from_secs(60);

/// A tick that is late by up to this counts as in time, whatever the deadline.
const PROMPT: Duration = Duration::from_secs(5);

/// After an outage missed ticks start within this time.
pub const LONGEST_SPREAD: Duration = Duration::from_secs(30);

/// How long other daemons leave a tick to the one that it is for.
pub const HEAD_START: Duration = Duration::from_secs(1);

/// Most missed ticks to make up for with `--missed all`.
const MOST_MADE_UP: usize = 100;

/// Most ticks to count.
const MOST_COUNTED: usize = 100_000;

/// Bounds of the pause after an attempt whose command could not be started.
const UNSTARTED: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(300)];

/// Delays double up to this limit. A longer first delay stays as it is.
const LONGEST_DELAY: Duration = Duration::from_secs(3600);

/// After a fail-over to a server with a slower clock, or after the clock was set back, a moment that was written before may be ahead of the
/// server's clock. Up to this limit it still counts. Beyond it the earlier clock must have been wrong.
pub const LARGEST_LAG: Duration = Duration::from_secs(600);

/// A job's row, as far as the rules need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobFacts {
    /// The next tick to settle; `None`: there is none.
    pub next: Option<i64>,
    /// Whether the job is paused.
    pub is_paused: bool,
    /// When the job was triggered by hand.
    pub triggered: Option<i64>,
}

/// A job's ticks in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnderWay {
    /// How many are running, or will be tried again.
    pub running: usize,
    /// Whether one waits for the others.
    pub has_waiting: bool,
    /// Since when some have been under way, and when they were last seen: [`UnderWay::extended`]. `None`: that is not known.
    pub span: Option<(i64, i64)>,
}

/// The current state of a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The time by the server's clock.
    pub at: i64,
    /// Whether the tick is for this daemon.
    pub is_preferred: bool,
    /// Whether this daemon had the latest attempt of the tick, and could not start its command.
    pub could_not_start: bool,
    /// Whether it has room for another command.
    pub has_room: bool,
    /// Since when it has been connected to the server. Catching up takes time, and ticks that were in time at this moment do not become too
    /// late meanwhile.
    pub back_at: i64,
    /// Missed ticks start no earlier than this, so that not all start at once after an outage.
    pub made_up_from: i64,
}

/// The time from which a tick's age is computed: now, or the end of the outage while catching up. If that end is in the future, the clock
/// was ahead.
pub fn age_reference(now: i64, back_at: i64) -> i64 {
    let catching_up = 0..=micros(LONGEST_SPREAD + PROMPT);
    let is_back = catching_up.contains(&now.saturating_sub(back_at));
    if is_back { back_at } else { now }
}

/// Ticks that do not run, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// The first and the last of them.
    pub ticks: (i64, i64),
    /// How many ticks.
    pub count: Count,
    /// Why.
    pub why: Why,
}

/// A number of ticks. Beyond a limit it is a lower bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Count {
    /// The counted ticks.
    pub number: usize,
    /// Whether there may be more.
    pub is_least: bool,
}

impl Count {
    /// No tick, and one tick.
    pub const NONE: Self = Self::exactly(0);
    pub const ONE: Self = Self::exactly(1);

    const fn exactly(number: usize) -> Self {
        Self {
            number,
            is_least: false,
        }
    }

    /// The ticks from the first to the last, both included.
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
    /// No dblock started them in time.
    Missed,
    /// An earlier one was still running.
    Overlap,
    /// Another one is already waiting for an earlier one.
    OneWaits,
}

/// What happens to a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It runs.
    Run(i64),
    /// It waits for the earlier ones.
    Wait(i64),
}

/// A settlement: decides a job's ticks up to a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// The tick that was next before.
    pub from: i64,
    /// Whether this is a run triggered by hand. The schedule's ticks do not change then.
    pub is_trigger: bool,
    /// The last settled tick.
    pub settled: i64,
    /// The next tick after this settlement.
    pub next: Option<i64>,
    /// The ticks that do not run.
    pub skips: Vec<Skip>,
    /// The tick that runs or waits; `None`: none.
    pub fate: Option<Fate>,
    /// Whether the settlement requires that no tick of the job is in progress.
    pub is_alone: bool,
}

impl Settlement {
    /// Whether it depends on the ticks in progress. Then these must have been read after its ticks were due.
    pub fn depends_on_ticks(&self) -> bool {
        let is_of_others = |skip: &Skip| skip.why != Why::Missed;
        matches!(self.fate, Some(Fate::Wait(_))) || self.skips.iter().any(is_of_others)
    }
}

/// What to do about a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Nothing before this moment; `None`: nothing until something else happens.
    Rest(Option<i64>),
    /// Settle these ticks.
    Settle(Settlement),
}

/// The first tick after a moment.
pub fn next_after(schedule: &Schedule, after: i64) -> Option<i64> {
    let after = Timestamp::from_microsecond(after).ok()?;
    let tick = schedule.next_after(after)?;
    Some(tick.at().as_microsecond())
}

/// The last tick at or before a moment.
pub fn last_at_or_before(schedule: &Schedule, before: i64) -> Option<i64> {
    let before = Timestamp::from_microsecond(before).ok()?;
    let tick = schedule.last_at_or_before(before)?;
    Some(tick.at().as_microsecond())
}

/// Decides what to do about a job.
pub fn decide(
    (name, schedule, options): (&str, &Schedule, &Options),
    row: &JobFacts,
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
    // The usual case.
    if first > now.at {
        return Decision::Rest(Some(first + patience));
    }
    let ready = ready(name, schedule, options, first).saturating_add(patience);
    if ready > now.at {
        return Decision::Rest(Some(ready));
    }
    let of_job = (name, schedule, options);
    let due = DueTicks::find(of_job, first, under_way.span, now.at);
    let chosen = due.choose(options, age_reference(now.at, now.back_at));
    // There may be many skipped ticks after an outage, so count them only for a settlement, not at each look.
    let settle = |mut settlement: Settlement| {
        let mut skips = due.skips(schedule, options, first, chosen);
        skips.append(&mut settlement.skips);
        settlement.skips = skips;
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
        // Each one is made up for, one after the other.
        _ if is_made_up && options.missed == Missed::All && at >= due.overlapped => {
            return Decision::Rest(None);
        }
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
        why: why_overlapping(overlap),
    }
}

/// Why a tick does not run that became due while others were under way.
fn why_overlapping(overlap: Overlap) -> Why {
    if overlap == Overlap::Wait {
        Why::OneWaits
    } else {
        Why::Overlap
    }
}

/// The settlement for a run triggered by hand; `None`: not yet.
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

/// When a tick may start. A part of `--jitter` delays it, by at most half of the time to the next tick.
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

/// The last of the ticks that may start now.
struct DueTicks {
    /// At least one tick, each with the moment since which it may start: those that may be made up for, and one before them.
    ticks: VecDeque<(i64, i64)>,
    /// How many of these, the first, are late only because earlier ones were made up for meanwhile. Those are not missed.
    overlapped: usize,
}

impl DueTicks {
    /// Finds the ticks of a job that has had some under way over this span. Where each missed tick is made up for, one after the other,
    /// those that were due when that began come first: what becomes due meanwhile must not push them out of the latest, nor add to them.
    fn find(
        (name, schedule, options): (&str, &Schedule, &Options),
        first: i64,
        span: Option<(i64, i64)>,
        now: i64,
    ) -> Self {
        let is_in_turn = options.missed == Missed::All && options.overlap != Overlap::Allow;
        // A span that ends later is by a clock that was ahead.
        let span = span.filter(|(_, until)| is_in_turn && *until <= now);
        let due_by = match span {
            Some((since, _)) if first <= since => since,
            _ => now,
        };
        let mut due = Self::of(name, schedule, options, first, due_by);
        if let Some((since, until)) = span
            && first > since
        {
            let is_overlapped =
                |(_, ready): &&(i64, i64)| *ready <= until && now - *ready > micros(FRESH);
            due.overlapped = due.ticks.iter().take_while(is_overlapped).count();
        }
        due
    }

    /// Finds the ticks backwards from the last one, so that their total number does not matter.
    fn of(name: &str, schedule: &Schedule, options: &Options, first: i64, now: i64) -> Self {
        let ready = |tick| ready(name, schedule, options, tick);
        let is_one = |tick: &i64| *tick > first;
        let before = |tick: i64| last_at_or_before(schedule, tick - 1).filter(is_one);
        let mut next = last_at_or_before(schedule, now).filter(is_one);
        // The last one may be delayed by jitter. Earlier ones cannot be.
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
        Self {
            ticks,
            overlapped: 0,
        }
    }

    fn last(&self) -> (i64, i64) {
        self.ticks[self.ticks.len() - 1]
    }

    /// How many of the overlapped ticks do not run. The last of them has waited, if one may.
    fn passed(&self, options: &Options) -> usize {
        match options.overlap {
            Overlap::Wait => self.overlapped.saturating_sub(1),
            Overlap::Skip | Overlap::Allow => self.overlapped,
        }
    }

    /// The skipped ticks, from the first due one on, if this one is chosen.
    fn skips(
        &self,
        schedule: &Schedule,
        options: &Options,
        first: i64,
        chosen: Option<usize>,
    ) -> Vec<Skip> {
        let (passed, end) = (self.passed(options), chosen.unwrap_or(self.ticks.len()));
        let parts = [
            (0, passed, why_overlapping(options.overlap)),
            (passed, end, Why::Missed),
        ];
        let skips = parts.into_iter().filter(|(from, to, _)| from < to);
        let skips = skips.map(|(from, to, why)| {
            let from = if from == 0 { first } else { self.ticks[from].0 };
            let ticks = (from, self.ticks[to - 1].0);
            let count = Count::of(schedule, ticks);
            Skip { ticks, count, why }
        });
        skips.collect()
    }

    /// The index of the tick to run, if any. Those before it are skipped.
    fn choose(&self, options: &Options, now: i64) -> Option<usize> {
        let count = self.ticks.len();
        let first = match options.missed {
            Missed::All => count.saturating_sub(MOST_MADE_UP),
            Missed::Once | Missed::Skip => count - 1,
        };
        let first = first.max(self.passed(options));
        (first..count).find(|at| !is_too_late(options, self.ticks[*at].1, now))
    }
}

/// Whether it is too late to make up for a tick that could have started at this moment.
fn is_too_late(options: &Options, since: i64, now: i64) -> bool {
    let longest = match options.missed {
        Missed::Skip => FRESH,
        Missed::Once | Missed::All => options.deadline.unwrap_or(Duration::MAX).max(PROMPT),
    };
    now.saturating_sub(since) > micros(longest)
}

/// The same for a further attempt of a tick, to which `--missed skip` does not apply.
pub fn is_attempt_too_late(options: &Options, since: i64, now: i64) -> bool {
    let longest = match options.missed {
        Missed::Skip => DEFAULT_DEADLINE,
        Missed::Once | Missed::All => options.deadline.unwrap_or(Duration::MAX).max(PROMPT),
    };
    now.saturating_sub(since) > micros(longest)
}

/// Whether a waiting tick may run, from all of the job's ticks with a row: each tick, and whether it waits. Two daemons may settle a tick
/// and a trigger at the same time, so that both wait. Then the earlier one runs first.
pub fn has_waited(tick: i64, all: impl IntoIterator<Item = (i64, bool)>) -> bool {
    all.into_iter().all(|(other, waits)| waits && other >= tick)
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum AttemptEnd {
    /// The tick is done, or will not be tried again.
    Over,
    /// The command failed.
    Failed,
    /// Its host died, or lost the lock.
    Lost,
    /// The daemon ended it when it was stopped. This does not count as a failure.
    Returned,
    /// Its command was not started, because a server or a process was not available. This does not count as a failure either.
    Unstarted,
}

/// The state of a run whose daemon is silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// It holds its lock.
    Alive,
    /// It has ended in this way.
    Ended(AttemptEnd),
    /// It neither holds its lock nor has recorded an end. Its command was started, or was about to be.
    Gone,
    /// As [`Self::Gone`], but its command was not started.
    Unstarted,
}

/// The pause before the next attempt, if the command could not be started for this long. The pauses double.
pub fn pause_of_unstarted(lasting: Duration) -> Duration {
    let [shortest, longest] = UNSTARTED;
    lasting.clamp(shortest, longest)
}

/// When to try a tick again: the delay, or `None` for never, and the new number of failures. Depends on the attempt's end, the failures
/// before, and for how long the command could not be started.
pub fn retry(
    options: &Options,
    end: AttemptEnd,
    failures: u32,
    unstarted_for: Duration,
) -> (Option<Duration>, u32) {
    let (most, failed) = match end {
        AttemptEnd::Over => return (None, failures),
        AttemptEnd::Returned => return (Some(Duration::ZERO), failures),
        AttemptEnd::Unstarted => return (Some(pause_of_unstarted(unstarted_for)), failures),
        AttemptEnd::Failed => (options.retries, failures + 1),
        // Without a further attempt the tick would be lost with its host.
        AttemptEnd::Lost => (options.retries.max(1), failures + 1),
    };
    if failed > most {
        return (None, failed);
    }
    if end == AttemptEnd::Lost {
        return (Some(Duration::ZERO), failed);
    }
    (Some(delay_after(options, failed)), failed)
}

/// The delay after so many failures, from 1.
fn delay_after(options: &Options, failures: u32) -> Duration {
    let first = options.retry_delay;
    doubled(first, (failures - 1).min(20)).min(LONGEST_DELAY.max(first))
}

/// Resumes a paused job. Returns the first and the last of its ticks that were due during the pause, which do not run, and its next tick.
/// `next` is the one that was next before; `None`: there was none.
pub fn resume(
    schedule: &Schedule,
    next: Option<i64>,
    now: i64,
) -> (Option<(i64, i64)>, Option<i64>) {
    let Some(first) = next.filter(|next| *next <= now) else {
        return (None, next);
    };
    let last = last_at_or_before(schedule, now).map_or(first, |last| last.max(first));
    (Some((first, last)), next_after(schedule, last))
}

/// Whether a tick's next attempt may start, which was put off to this moment after so many failures. No delay is as long as one by a clock
/// that was ahead.
pub fn may_start(options: &Options, failures: u32, start_at: i64, now: i64) -> bool {
    let longest = delay_after(options, failures.max(1)).max(UNSTARTED[1]);
    start_at <= now || start_at > now.saturating_add(micros(longest + LARGEST_LAG))
}

#[cfg(test)]
mod tests;

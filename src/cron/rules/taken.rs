//! What a daemon does about ticks that have a row: which of them it takes again, when it rescues one of a silent daemon, and how long it
//! seeks a tick's lock. And what it reads out of a look.

use std::time::Duration;

use super::super::spread::{fraction, preferred};
use super::{
    AttemptEnd, FRESH, HEAD_START, LONGEST_SPREAD, Now, Options, Overlap, RunState, Schedule,
    Settlement, UnderWay, age_reference, has_waited, is_attempt_too_late, may_start, micros,
    next_after, retry,
};

/// A server that was silent for this long had an outage.
pub const OUTAGE: Duration = Duration::from_secs(5);

/// A server that was silent for this long may have been so for other daemons too, and for as long as the shortest TTL. It is longer than a
/// look's interval, and than a server waits for a locked row.
pub const SILENCE: Duration = Duration::from_secs(3);

/// After that, the others have this time to say that they are alive, and how what they run has ended meanwhile: longer than it takes to
/// connect again.
const RETURN: Duration = Duration::from_secs(10);

/// But a daemon that seems to be gone for this long since the last outage is, also where this one is held up again and again.
const LONGEST_RETURN: Duration = Duration::from_secs(30);

/// After an outage, few missed ticks are started within less than the longest spread: this much for each.
const SPREAD_OF_EACH: Duration = Duration::from_millis(200);

/// A dead host's lock is free when its TTL is over. The server may take this much longer to grant it.
const MARGIN: Duration = Duration::from_secs(5);

/// How old a trigger that seems to be in the future counts as: after a fail-over it may be later than the server's clock.
const LOOK: Duration = Duration::from_secs(1);

/// A tick's row, as far as the rules need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TickFacts {
    /// The tick.
    pub tick: i64,
    /// How many of its attempts count as failures.
    pub failures: u32,
    /// When to try it again. If a daemon has it: when that was, or will be, silent for the TTL, or the lock expired, whichever is later.
    /// `None`: it waits for an earlier tick, or was only just taken.
    pub start_at: Option<i64>,
    /// When the command of its latest attempt was about to start; `None`: it was not, or there was no attempt.
    pub started_at: Option<i64>,
    /// Since when no attempt before the latest could start its command; `None`: the one before did, or there was none.
    pub unstarted_at: Option<i64>,
}

impl TickFacts {
    /// Whether its next attempt is too late, because no host was there for it.
    fn is_too_late(&self, options: &Options, now: Now) -> bool {
        let at = age_reference(now.at, now.back_at);
        self.startable_since()
            .is_some_and(|since| is_attempt_too_late(options, since, at))
    }

    /// Since when its next attempt could have started, if a host had been there for it; `None`: it could not yet.
    pub fn startable_since(&self) -> Option<i64> {
        self.unstarted_since().or(self.start_at)
    }

    /// Since when no attempt could start its command; `None`: the latest could.
    pub fn unstarted_since(&self) -> Option<i64> {
        self.unstarted_at.filter(|_| self.started_at.is_none())
    }

    /// For how long no attempt before the latest could be started, which counts if that fails to start, too.
    pub fn unstarted_for(&self, now: i64) -> Duration {
        let lasting = self.unstarted_at.map_or(0, |since| now - since);
        Duration::from_micros(u64::try_from(lasting).unwrap_or_default())
    }
}

/// What to do about a tick that no daemon has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Further {
    /// Nothing before this moment; `None`: nothing until something else happens.
    Rest(Option<i64>),
    /// Take it for another attempt.
    Take,
    /// Abandon it, as it is too late for another attempt.
    Abandon,
}

/// What to do about a tick that no daemon has. `all` are the job's ticks with a row: each tick, and whether it waits.
pub fn further(
    options: &Options,
    tick: &TickFacts,
    all: impl IntoIterator<Item = (i64, bool)>,
    now: Now,
) -> Further {
    if let Some(start) = tick.start_at {
        let from = start.saturating_add(micros(patience(now)));
        if !may_start(options, tick.failures, from, now.at) {
            return Further::Rest(Some(from));
        }
    } else if !has_waited(tick.tick, all) {
        return Further::Rest(None);
    }
    if tick.is_too_late(options, now) {
        Further::Abandon
    } else if now.has_room {
        Further::Take
    } else {
        Further::Rest(None)
    }
}

/// How long a daemon leaves the next attempt of a tick to others. One that could not start the latest leaves it to all of them.
fn patience(now: Now) -> Duration {
    match now {
        Now {
            could_not_start: true,
            ..
        } => HEAD_START * 5,
        Now {
            is_preferred: true, ..
        } => Duration::ZERO,
        _ => HEAD_START,
    }
}

/// What to do about a tick whose daemon is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rescue {
    /// Nothing.
    Leave,
    /// Take it for another attempt, after so many failures.
    Take { failures: u32 },
    /// Abandon it, as it is too late for another attempt.
    Abandon,
    /// Record that its attempt has ended so, and when the next one follows; `None`: never.
    Finish {
        end: AttemptEnd,
        delay: Option<Duration>,
        failures: u32,
    },
}

/// What to do about a tick whose daemon is gone, and whose run is in this state.
pub fn rescue(options: &Options, tick: &TickFacts, state: RunState, now: Now) -> Rescue {
    let end = match state {
        RunState::Alive => return Rescue::Leave,
        RunState::Ended(end) => end,
        RunState::Unstarted => AttemptEnd::Returned,
        RunState::Gone => AttemptEnd::Lost,
    };
    let unstarted_for = tick.unstarted_for(now.at);
    let (delay, failures) = retry(options, end, tick.failures, unstarted_for);
    match delay {
        Some(_) if tick.is_too_late(options, now) => Rescue::Abandon,
        Some(Duration::ZERO) if now.has_room => Rescue::Take { failures },
        Some(Duration::ZERO) => Rescue::Leave,
        delay => Rescue::Finish {
            end,
            delay,
            failures,
        },
    }
}

/// Whether a daemon is gone that has seemed to be for `silent_for`, counted from the end of the last outage at most. It is if the server
/// was there to hear from it: this daemon has heard the server for `heard_for`, without a [`SILENCE`].
pub fn is_gone(heard_for: Duration, silent_for: Duration) -> bool {
    heard_for > RETURN || silent_for > LONGEST_RETURN
}

/// Whether a daemon may rescue a tick that it has seen as orphaned for so long. Others leave it to the one that it is for.
pub fn may_rescue(is_preferred: bool, seen_for: Duration) -> bool {
    is_preferred || seen_for >= HEAD_START
}

/// How the attempt of a daemon has ended whose coordinator has died, and with it the command. `has_lock`: it has its lock, or has lost it,
/// so that its command may have run. `is_stopped`: the daemon was asked to end before.
pub fn end_of_dead(has_lock: bool, is_stopped: bool) -> AttemptEnd {
    if has_lock && !is_stopped {
        AttemptEnd::Lost
    } else {
        AttemptEnd::Returned
    }
}

/// The command of an attempt that has its lock, as far as the process with the session sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandState {
    /// The coordinator has not started it.
    Unstarted,
    /// It was started. Only the coordinator knows how it ends.
    Started,
    /// The process with the session has killed it, and it is gone.
    Killed,
}

/// Whether a daemon renews the lock of an attempt, although its coordinator may be deaf: it does not answer, and starts nothing. Nobody
/// needs the lock of a command that was killed, and another daemon shall have the tick when it expires.
pub fn is_renewed(command: CommandState, is_deaf: bool) -> bool {
    match command {
        CommandState::Unstarted => !is_deaf,
        CommandState::Started => true,
        CommandState::Killed => false,
    }
}

/// For how long an attempt seeks the lock of its job while others hold it; `None`: for as long as they do.
pub fn search_limit(options: &Options, attempt: u32) -> Option<Duration> {
    match options.overlap {
        Overlap::Wait => None,
        _ if attempt > 1 => Some(options.ttl + MARGIN),
        Overlap::Skip | Overlap::Allow => Some(Duration::ZERO),
    }
}

/// Whether a tick is for this daemon, as far as it knows the living ones.
pub fn is_for<'a>(
    own: &str,
    name: &str,
    tick: i64,
    daemons: impl Iterator<Item = &'a str>,
) -> bool {
    preferred(name, tick, daemons).is_none_or(|daemon| daemon == own)
}

/// From when on a daemon starts what a job has missed, if an outage has ended at `back_at`, and so many jobs have missed ticks.
pub fn made_up_from(name: &str, back_at: i64, missed: usize) -> i64 {
    let missed = u32::try_from(missed).unwrap_or(u32::MAX);
    let spread = SPREAD_OF_EACH.saturating_mul(missed).min(LONGEST_SPREAD);
    back_at + micros(spread.mul_f64(fraction(&["spread", name])))
}

/// Whether a job has missed its next tick.
pub fn is_missed(next: i64, now: i64) -> bool {
    now - next > micros(FRESH)
}

/// The next tick of a job that a look at this moment has not shown as due: what is due by an earlier look was settled by another daemon.
pub fn unsettled(schedule: &Schedule, next: Option<i64>, looked: i64) -> Option<i64> {
    let mut next = next;
    while let Some(tick) = next.filter(|tick| *tick <= looked) {
        next = next_after(schedule, tick);
    }
    next
}

impl UnderWay {
    /// A job's ticks with a row, from whether each waits.
    pub fn of(waiting: impl IntoIterator<Item = bool>) -> Self {
        let mut found = Self::default();
        for waits in waiting {
            if waits {
                found.has_waiting = true;
            } else {
                found.running += 1;
            }
        }
        found
    }

    /// The span over which a job has had ticks under way, after it was seen to have some at this moment. A pause in which none becomes too
    /// late to be in time does not end the span.
    pub fn extended(span: Option<(i64, i64)>, at: i64) -> (i64, i64) {
        let goes_on = |(_, until): &(i64, i64)| (0..=micros(FRESH)).contains(&(at - until));
        let since = span.filter(goes_on).map_or(at, |(since, _)| since);
        (since, at)
    }
}

impl Settlement {
    /// Whether the ticks in progress must be read again first, which were read at this moment.
    pub fn needs_look(&self, looked: i64, now: i64) -> bool {
        let due = if self.settled > now {
            now - micros(LOOK)
        } else {
            self.settled
        };
        self.depends_on_ticks() && looked < due
    }
}

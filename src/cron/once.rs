//! Whether a run is due: `--once-at` and `--once-per`. All times are the server's.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Schedule, Tick};
use crate::base::text::{in_seconds, shown};
use crate::history::{LastSuccess, Successes};

/// If a host's clock is ahead by up to this, a run counts for the coming tick.
pub const EARLY: Duration = Duration::from_secs(30);

/// A run is expected to wait at most this long for its lock.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);

/// Which runs of a name a success makes unnecessary.
#[derive(Debug, Clone)]
pub enum Once {
    /// Those for the same tick.
    At(Schedule),
    /// Those within this time after the start of the successful run.
    Per(Duration),
}

/// An earlier run with success, because of which a run is not due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlreadyRan {
    /// Its tick, as text; `None`: the interval since its start counts.
    pub tick: Option<String>,
    /// The next tick, as text.
    pub next: Option<String>,
    /// The interval in which it must not run again.
    pub per: Option<Duration>,
    /// Where it ran.
    pub host: Option<String>,
    pub pid: Option<u64>,
    pub program: Option<String>,
    /// How long ago it started.
    pub began_ago: Duration,
}

impl Once {
    /// The tick for a run that was requested this long ago, by the server's clock. It may have run already.
    pub fn tick(&self, now: i64, requested_ago: Duration) -> Option<Tick> {
        let Self::At(schedule) = self else {
            return None;
        };
        let now = Timestamp::from_microsecond(now).unwrap_or(Timestamp::MAX);
        // The time of the request counts, however long the run has waited for the lock. The next tick has its own run.
        let requested = now.saturating_sub(requested_ago).unwrap_or(now);
        let early = requested.saturating_add(EARLY).unwrap_or(requested);
        schedule.last_at_or_before(early)
    }

    /// How long after its start the success of this run must be remembered. The run starts now, by the server's clock, and is for this
    /// tick. The time includes a wait for the lock, since a waiting run asks for an earlier tick.
    pub fn needed(&self, now: i64, tick: Option<Tick>) -> Duration {
        let span = match self {
            Self::At(schedule) => {
                let next = tick.and_then(|tick| schedule.next_after(tick.at()));
                let next = next.map_or(i64::MAX, |next| next.at().as_microsecond());
                Duration::from_micros(u64::try_from(next.saturating_sub(now)).unwrap_or_default())
            }
            Self::Per(span) => *span,
        };
        span.saturating_add(LONGEST_WAIT)
    }

    /// Decides whether a run that was requested this long ago is due. Returns its tick, if it has one.
    ///
    /// # Errors
    /// It is not due.
    pub fn judge(
        &self,
        found: &Successes,
        requested_ago: Duration,
    ) -> Result<Option<Tick>, Box<AlreadyRan>> {
        let already = |last: &LastSuccess, tick: Option<Tick>, next: Option<Tick>, per| {
            Box::new(AlreadyRan {
                tick: tick.map(|tick| tick.to_string()),
                next: next.map(|tick| tick.to_string()),
                per,
                host: last.host.clone(),
                pid: last.pid,
                program: last.program.clone(),
                began_ago: last.started_ago,
            })
        };
        match self {
            Self::At(schedule) => {
                let tick = self.tick(found.now, requested_ago);
                let micros = tick.map(|tick| tick.at().as_microsecond());
                match &found.last {
                    Some(last) if tick.is_some() && last.tick >= micros => {
                        let next = tick.and_then(|tick| schedule.next_after(tick.at()));
                        Err(already(last, tick, next, None))
                    }
                    _ => Ok(tick),
                }
            }
            Self::Per(span) => match &found.last {
                Some(last) if last.started_ago < *span => {
                    Err(already(last, None, None, Some(*span)))
                }
                _ => Ok(None),
            },
        }
    }
}

impl fmt::Display for AlreadyRan {
    /// Continues a sentence that starts with the name of the lock.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("has run")?;
        if let Some(tick) = &self.tick {
            write!(f, " for {tick}")?;
        }
        if let Some(host) = &self.host {
            write!(f, ", on {host}")?;
        }
        if let Some(pid) = self.pid {
            write!(f, ", pid {pid}")?;
        }
        if let Some(program) = &self.program {
            write!(f, " ({program})")?;
        }
        write!(f, ", {} ago", in_seconds(self.began_ago))?;
        if let Some(next) = &self.next {
            write!(f, "; the next is {next}")?;
        }
        if let Some(per) = self.per {
            write!(f, ", and runs once per {}", shown(per))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cron::Zone;

    /// Microseconds of a moment on 2026-11-22, UTC.
    fn at(time: &str) -> i64 {
        let moment: Timestamp = format!("2026-11-22T{time}Z").parse().unwrap();
        moment.as_microsecond()
    }

    fn judged(now: &str, last: Option<(&str, &str)>) -> Result<String, String> {
        judged_after(Duration::ZERO, now, last)
    }

    fn judged_after(
        waited: Duration,
        now: &str,
        last: Option<(&str, &str)>,
    ) -> Result<String, String> {
        let once = Once::At(Schedule::parse("*/5 * * * *", Zone::UTC, "x").unwrap());
        let last = last.map(|(tick, started)| LastSuccess {
            tick: Some(at(tick)),
            started_ago: Duration::from_micros((at(now) - at(started)).unsigned_abs()),
            ended_ago: Duration::ZERO,
            host: Some("web2".to_owned()),
            pid: Some(7),
            program: Some("report".to_owned()),
        });
        let found = Successes { now: at(now), last };
        let tick = once
            .judge(&found, waited)
            .map_err(|already| already.to_string())?;
        Ok(tick.unwrap().to_string())
    }

    #[test]
    fn a_tick_that_has_succeeded_is_not_due() {
        let last = Some(("10:05:00", "10:05:01"));
        assert_eq!(
            judged("10:06:01", last).unwrap_err(),
            "has run for 2026-11-22T10:05:00Z, on web2, pid 7 (report), 1m ago; the next is 2026-11-22T10:10:00Z"
        );
        assert_eq!(judged("10:10:00", last).unwrap(), "2026-11-22T10:10:00Z");
        assert_eq!(judged("10:06:00", None).unwrap(), "2026-11-22T10:05:00Z");
    }

    #[test]
    fn a_host_that_is_a_little_early_is_meant_for_the_coming_tick() {
        let last = Some(("10:05:00", "10:05:01"));
        assert!(judged("10:09:29", last).is_err());
        assert_eq!(judged("10:09:30", last).unwrap(), "2026-11-22T10:10:00Z");
        assert!(judged("10:10:20", Some(("10:10:00", "10:09:31"))).is_err());
    }

    #[test]
    fn a_run_that_has_waited_is_for_the_tick_that_it_was_started_for() {
        let waited = Duration::from_secs(4 * 60 + 50);
        let last = Some(("10:00:00", "10:00:01"));
        let tick = judged_after(waited, "10:09:50", last).unwrap();
        assert_eq!(tick, "2026-11-22T10:05:00Z");
        assert!(judged_after(waited, "10:09:50", Some(("10:05:00", "10:05:01"))).is_err());
    }

    #[test]
    fn a_success_is_needed_until_nobody_asks_for_it_any_more() {
        let day = Duration::from_secs(24 * 3600);
        let at_two = Once::At(Schedule::parse("0 2 * * 0", Zone::UTC, "x").unwrap());
        let now = at("03:00:00");
        let tick = at_two.tick(now, Duration::ZERO);
        assert_eq!(
            at_two.needed(now, tick),
            7 * day + Duration::from_secs(23 * 3600)
        );
        assert_eq!(Once::Per(60 * day).needed(now, None), 61 * day);
    }

    #[test]
    fn a_success_keeps_for_its_span() {
        let once = Once::Per(Duration::from_secs(3600));
        let ago = |seconds| Successes {
            now: 0,
            last: Some(LastSuccess {
                tick: None,
                started_ago: Duration::from_secs(seconds),
                ended_ago: Duration::ZERO,
                host: None,
                pid: None,
                program: None,
            }),
        };
        let line = once
            .judge(&ago(3599), Duration::ZERO)
            .unwrap_err()
            .to_string();
        assert_eq!(line, "has run, 59m 59s ago, and runs once per 1h");
        assert_eq!(once.judge(&ago(3600), Duration::ZERO), Ok(None));
    }
}

//! Whether a run is due: `--once-at` and `--once-per`. All times are the server's.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Schedule, Tick};
use crate::base::text::{in_seconds, shown};
use crate::history::{LastSuccess, Successes};

/// A host whose clock is early by up to this is meant for the coming tick.
pub const EARLY: Duration = Duration::from_secs(30);

/// When a name is not to run again after a success.
#[derive(Debug, Clone)]
pub enum Once {
    /// For the same tick.
    At(Schedule),
    /// Until so long after the beginning of the success.
    Per(Duration),
}

/// A run that is not due, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AlreadyRan {
    /// The tick of the crontab, which is shown so, was given to another run.
    Elsewhere(String),
    /// A run has succeeded.
    Success(Earlier),
}

/// A run that has succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earlier {
    /// The tick that it was for, as text; `None`: it began too short a time ago.
    pub tick: Option<String>,
    /// The tick after that, as text.
    pub next: Option<String>,
    /// How long after it there is to be none.
    pub per: Option<Duration>,
    /// Who it was.
    pub host: Option<String>,
    pub pid: Option<u64>,
    pub program: Option<String>,
    /// How long ago it began.
    pub began_ago: Duration,
}

impl Once {
    /// The tick that a run is for which was requested so long ago, by the server's clock, be it due or not.
    pub fn tick(&self, now: i64, requested_ago: Duration) -> Option<Tick> {
        let Self::At(schedule) = self else {
            return None;
        };
        let now = Timestamp::from_microsecond(now).unwrap_or(Timestamp::MAX);
        // However long it has waited for the lock: the next tick has a run of its own.
        let requested = now.saturating_sub(requested_ago).unwrap_or(now);
        let early = requested.saturating_add(EARLY).unwrap_or(requested);
        schedule.last_at_or_before(early)
    }

    /// The tick that a run is for which was requested so long ago, if it is for one; or why it is not due.
    ///
    /// # Errors
    /// It is not due.
    pub fn judge(
        &self,
        found: &Successes,
        requested_ago: Duration,
    ) -> Result<Option<Tick>, Box<AlreadyRan>> {
        let already = |last: &LastSuccess, tick: Option<Tick>, next: Option<Tick>, per| {
            Box::new(AlreadyRan::Success(Earlier {
                tick: tick.map(|tick| tick.to_string()),
                next: next.map(|tick| tick.to_string()),
                per,
                host: last.host.clone(),
                pid: last.pid,
                program: last.program.clone(),
                began_ago: last.started_ago,
            }))
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
    /// Goes on from the name of the lock.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let earlier = match self {
            Self::Elsewhere(tick) => return write!(f, "was given to another host for {tick}"),
            Self::Success(earlier) => earlier,
        };
        f.write_str("has run")?;
        if let Some(tick) = &earlier.tick {
            write!(f, " for {tick}")?;
        }
        if let Some(host) = &earlier.host {
            write!(f, ", on {host}")?;
        }
        if let Some(pid) = earlier.pid {
            write!(f, ", pid {pid}")?;
        }
        if let Some(program) = &earlier.program {
            write!(f, " ({program})")?;
        }
        write!(f, ", {} ago", in_seconds(earlier.began_ago))?;
        if let Some(next) = &earlier.next {
            write!(f, "; the next is {next}")?;
        }
        if let Some(per) = earlier.per {
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

//! The servers' clocks, measured against this host's monotonic clock. It may differ from real time, but continues while the host sleeps.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::base::clock::{Moment, micros};

/// Clocks move apart by less than this part of the time, also while they are being set right.
const PART_OF_DRIFT: u32 = 1000;

/// The clock of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// How far it is ahead of this host's, in microseconds.
    ahead: i64,
    /// The possible error of that: half of the round trip.
    error: i64,
    measured: Moment,
}

impl Clock {
    /// The clock of a server that answered `now`, in microseconds since 1970, to a question that was sent and answered at these moments.
    pub fn new(now: i64, asked: Moment, answered: Moment) -> Self {
        let error = micros(answered.since(asked)) / 2;
        let ruler = micros(asked.since(Moment::START)) + error;
        Self {
            ahead: now.saturating_sub(ruler),
            error,
            measured: answered,
        }
    }

    /// This host's real-time clock.
    pub fn of_this_host() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = Moment::now();
        Self::new(since_1970.map_or(0, micros), now, now)
    }

    /// How far it is ahead of another, in microseconds, and the possible error of that, if both were measured at about the same time.
    pub fn ahead_of(self, other: Self) -> (i64, u64) {
        let ahead = self.ahead.saturating_sub(other.ahead);
        (ahead, (self.error + other.error).unsigned_abs())
    }

    /// How far the two may have moved apart, or one was set right, between their measurements, in microseconds.
    fn drift_since(self, other: Self) -> u64 {
        let last = self.measured.max(other.measured);
        let between = last.since(self.measured.min(other.measured));
        micros(between / PART_OF_DRIFT).unsigned_abs()
    }
}

/// How far two clocks disagree, if that is certainly more than a tenth of the TTL: a holder ends its command a tenth of the TTL before
/// its row expires.
pub fn disagreement(one: Clock, other: Clock, ttl: Duration) -> Option<Duration> {
    let (ahead, error) = one.ahead_of(other);
    let off = ahead.unsigned_abs();
    let certain = off.saturating_sub(error.saturating_add(one.drift_since(other)));
    (Duration::from_micros(certain) > ttl / 10).then(|| Duration::from_micros(off))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_certain_counts() {
        let at = |seconds| Moment::START + Duration::from_secs(seconds);
        let ttl = Duration::from_secs(100);
        let clock = |micros, answered| Clock::new(micros, at(0), at(answered));
        assert_eq!(disagreement(clock(0, 0), clock(10_000_000, 0), ttl), None);
        let off = disagreement(clock(0, 0), clock(11_000_000, 0), ttl);
        assert_eq!(off, Some(Duration::from_secs(11)));
        // An answer that took 4 s may be 2 s old.
        assert_eq!(disagreement(clock(0, 0), clock(13_000_000, 4), ttl), None);
        assert!(disagreement(clock(0, 0), clock(15_000_000, 4), ttl).is_some());
    }

    #[test]
    fn a_measurement_of_long_ago_says_less() {
        let ttl = Duration::from_secs(100);
        let ahead_after = |ahead: u64, seconds: u64| {
            let at = Moment::START + Duration::from_secs(seconds);
            let micros = i64::try_from((seconds + ahead) * 1_000_000).expect("it fits");
            Clock::new(micros, at, at)
        };
        for (seconds, is_told) in [(0, true), (60, true), (86_400, false)] {
            let off = disagreement(ahead_after(0, 0), ahead_after(11, seconds), ttl);
            assert_eq!(off.is_some(), is_told, "{seconds}");
        }
    }
}

//! When a job is due: a crontab's fields in a time zone. Times that clocks skip run once, right after the gap. Repeated times run the first
//! time. If minute or hour begins with `*`, the line follows real time instead.

use std::fmt;

use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

use super::expression::Expression;
use super::zone::{Period, Zone, next_moment, previous_moment};

/// How far to look for a tick. The next 29 February on a certain weekday can be 40 years away.
const FARTHEST: SignedDuration = SignedDuration::from_hours(41 * 366 * 24);

/// A longer clock change, in seconds, is a correction. Skipped times are lost, and repeated ones run again.
const LONGEST_CHANGE: u32 = 3 * 3600;

/// When a job is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    expression: Expression,
    zone: Zone,
}

/// A moment at which a job is due, a whole minute of local time. Its text is RFC 3339 with the zone's offset, or `Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    at: Timestamp,
    /// `None`: UTC.
    offset: Option<Offset>,
}

impl Schedule {
    /// Reads five fields or a nickname such as `@daily`. `seed` is the job's name: with the same seed `~` has the same value.
    ///
    /// # Errors
    /// The end of a sentence with the field's name and its valid values.
    pub fn parse(expression: &str, zone: Zone, seed: &str) -> Result<Self, String> {
        let expression = Expression::parse(expression, seed)?;
        Ok(Self { expression, zone })
    }

    /// The time zone.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// The first tick after a moment. `None` if there is none within 41 years, because the line only names times that clocks skip.
    pub fn next_after(&self, after: Timestamp) -> Option<Tick> {
        let mut from = next_moment(after)?;
        let horizon = after.saturating_add(FARTHEST).ok()?;
        while from <= horizon {
            let period = self.zone.period(from);
            if from == period.start && self.makes_up(&period) {
                return Some(self.tick(from));
            }
            let first = self
                .first_local(&period)
                .max(period.offset.to_datetime(from));
            let last = period.offset.to_datetime(period.last);
            if let Some(local) = self.expression.first_in(&(first..=last)) {
                return Some(self.tick(period.offset.to_timestamp(local).ok()?));
            }
            from = next_moment(period.last)?;
        }
        None
    }

    /// The last tick at or before a moment. `None` as for [`Self::next_after`].
    pub fn last_at_or_before(&self, before: Timestamp) -> Option<Tick> {
        let mut to = before;
        let horizon = before.saturating_sub(FARTHEST).ok()?;
        while to >= horizon {
            let period = self.zone.period(to);
            let first = self.first_local(&period);
            let last = period.offset.to_datetime(to);
            if let Some(local) = self.expression.last_in(&(first..=last)) {
                return Some(self.tick(period.offset.to_timestamp(local).ok()?));
            }
            if self.makes_up(&period) {
                return Some(self.tick(period.start));
            }
            to = previous_moment(period.start)?;
        }
        None
    }

    /// A moment, shown as a tick of this schedule. It need not be one.
    pub fn tick(&self, at: Timestamp) -> Tick {
        let offset = (!self.zone.is_utc()).then(|| self.zone.offset(at));
        Tick { at, offset }
    }

    /// Whether the line names a time that clocks skipped just before this period.
    fn makes_up(&self, period: &Period) -> bool {
        if !self.adjusts(period) || period.change <= 0 {
            return false;
        }
        let start = period.offset.to_datetime(period.start);
        let skipped = shifted(start, -period.change)..=start;
        let first = self.expression.first_in(&skipped);
        first.is_some_and(|local| local < start)
    }

    /// The first local time of a period that is not a repetition.
    fn first_local(&self, period: &Period) -> DateTime {
        let start = period.offset.to_datetime(period.start);
        if self.adjusts(period) && period.change < 0 {
            shifted(start, -period.change)
        } else {
            start
        }
    }

    /// Whether fixed times are kept through the clock change at the start of this period.
    fn adjusts(&self, period: &Period) -> bool {
        !self.expression.is_wildcard() && period.change.unsigned_abs() <= LONGEST_CHANGE
    }
}

/// A local time, moved by seconds.
fn shifted(local: DateTime, seconds: i32) -> DateTime {
    let by = SignedDuration::from_secs(seconds.into());
    local.checked_add(by).unwrap_or(local)
}

impl Tick {
    /// The moment.
    pub fn at(self) -> Timestamp {
        self.at
    }
}

/// The moment of a tick shown in this form, in microseconds since 1970.
pub fn tick_in_micros(shown: &str) -> Option<i64> {
    shown.parse().ok().map(Timestamp::as_microsecond)
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        // Until 1972 zones had offsets with seconds, which RFC 3339 does not allow.
        match self.offset {
            Some(offset) if offset.seconds() % 60 == 0 => {
                let local = offset.to_datetime(self.at);
                let sign = if offset.is_negative() { '-' } else { '+' };
                let minutes = offset.seconds().abs() / 60;
                write!(f, "{local}{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
            _ => self.at.fmt(f),
        }
    }
}

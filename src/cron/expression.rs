//! The five fields of a crontab(5) line: reads them, and finds the local times that match. Knows no time zones.
//!
//! The crate `croner` was considered and rejected. It has seconds, `L`, `W` and `#`, which no crontab has. It lacks `~`, the rule that a
//! day field with a leading `*` restricts the other one, and Vixie's rule for fixed times.

use std::ops::RangeInclusive;

use jiff::civil::{Date, DateTime, Time};
use sha2::{Digest, Sha256};

use crate::base::text::counted;

/// The nicknames of a crontab, with their five fields.
const NICKNAMES: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// The last day that every month has.
const LAST_COMMON_DAY: u8 = 28;

/// The days of each month in a leap year.
const MONTH_LENGTHS: [u8; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// The local times that a crontab's line matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    minutes: Set,
    hours: Set,
    days: Set,
    months: Set,
    weekdays: Set,
    /// Whether matching one of the two day fields is enough: neither begins with `*`.
    either_day: bool,
    /// Whether the minute or hour field begins with `*`.
    is_wildcard: bool,
}

impl Expression {
    /// Reads five fields or a nickname. `seed` decides the values of `~`.
    ///
    /// # Errors
    /// The end of a sentence with the field's name and its valid values.
    pub fn parse(text: &str, seed: &str) -> Result<Self, String> {
        let text = match text.trim_matches([' ', '\t']) {
            nickname if nickname.starts_with('@') => fields_of(nickname)?,
            fields => fields,
        };
        let fields: Vec<_> = text
            .split([' ', '\t'])
            .filter(|field| !field.is_empty())
            .collect();
        let count = fields.len();
        let Ok([minute, hour, day, month, weekday]) = <[&str; 5]>::try_from(fields) else {
            return Err(format!(
                "{text:?} has {}; a schedule has five: minute, hour, day of month, month, day of week",
                counted(count, "field")
            ));
        };
        let expression = Self {
            minutes: MINUTE.parse(minute, seed)?,
            hours: HOUR.parse(hour, seed)?,
            days: DAY.parse(day, seed)?,
            months: MONTH.parse(month, seed)?,
            weekdays: WEEKDAY.parse(weekday, seed)?,
            either_day: !day.starts_with('*') && !weekday.starts_with('*'),
            is_wildcard: minute.starts_with('*') || hour.starts_with('*'),
        };
        if expression.has_a_day() {
            Ok(expression)
        } else {
            Err(format!(
                "day of month {day:?} in month {month:?} is a day that no year has"
            ))
        }
    }

    /// Whether the line follows real time through clock changes, instead of running at fixed times of the day.
    pub fn is_wildcard(&self) -> bool {
        self.is_wildcard
    }

    /// The first matching time within bounds.
    pub fn first_in(&self, bounds: &RangeInclusive<DateTime>) -> Option<DateTime> {
        let mut from = round_up(*bounds.start())?;
        while from <= *bounds.end() {
            let date = from.date();
            if !self.months.has(date.month()) {
                from = midnight(date.last_of_month().tomorrow().ok()?);
                continue;
            }
            if self.has_day(date)
                && let Some(time) = self.first_time(from.time())
            {
                let found = date.to_datetime(time);
                return (found <= *bounds.end()).then_some(found);
            }
            from = midnight(date.tomorrow().ok()?);
        }
        None
    }

    /// The last matching time within bounds.
    pub fn last_in(&self, bounds: &RangeInclusive<DateTime>) -> Option<DateTime> {
        let mut to = *bounds.end();
        while to >= *bounds.start() {
            let date = to.date();
            if !self.months.has(date.month()) {
                to = end_of_day(date.first_of_month().yesterday().ok()?);
                continue;
            }
            if self.has_day(date)
                && let Some(time) = self.last_time(to.time())
            {
                let found = date.to_datetime(time);
                return (found >= *bounds.start()).then_some(found);
            }
            to = end_of_day(date.yesterday().ok()?);
        }
        None
    }

    /// Whether any year has a matching day. Within 400 years each day of the year falls on each weekday, even 29 February.
    fn has_a_day(&self) -> bool {
        let mut months = (1..=12).zip(MONTH_LENGTHS);
        self.either_day
            || months.any(|(month, length)| self.months.has(month) && self.days.first(1) <= length)
    }

    /// Whether the day fields match. The month already does.
    fn has_day(&self, date: Date) -> bool {
        let day = self.days.has(date.day());
        let weekday = self.weekdays.has(date.weekday().to_sunday_zero_offset());
        if self.either_day {
            day || weekday
        } else {
            day && weekday
        }
    }

    /// The first matching time of the day, at or after this one.
    fn first_time(&self, from: Time) -> Option<Time> {
        let (hour, minute) = split(from);
        let (hour, minute) = if self.hours.has(hour) && self.minutes.first(minute) != NONE {
            (hour, self.minutes.first(minute))
        } else {
            (self.hours.first(hour + 1), self.minutes.first(0))
        };
        joined(hour, minute)
    }

    /// The last matching time of the day, at or before this one.
    fn last_time(&self, to: Time) -> Option<Time> {
        let (hour, minute) = split(to);
        let (hour, minute) = if self.hours.has(hour) && self.minutes.last(minute) != NONE {
            (hour, self.minutes.last(minute))
        } else if hour == 0 {
            return None;
        } else {
            (self.hours.last(hour - 1), self.minutes.last(59))
        };
        joined(hour, minute)
    }
}

/// The five fields of a nickname.
fn fields_of(nickname: &str) -> Result<&'static str, String> {
    let found = NICKNAMES.iter().find(|(name, _)| *name == nickname);
    found.map(|(_, fields)| *fields).ok_or_else(|| {
        let names: Vec<_> = NICKNAMES.iter().map(|(name, _)| *name).collect();
        let names = names.join(", ");
        match nickname {
            "@reboot" => format!("\"@reboot\" is no time, and a fleet does not boot; use {names}"),
            _ => format!("{nickname:?} is none of {names}"),
        }
    })
}

/// One of the five fields.
struct Field {
    /// Its name in errors.
    name: &'static str,
    /// Part of the value of `~`, so it must never change.
    number: u8,
    low: u8,
    high: u8,
    /// The names of the values, starting with `low`.
    names: &'static [&'static str],
}

const MINUTE: Field = Field {
    name: "minute",
    number: 0,
    low: 0,
    high: 59,
    names: &[],
};
const HOUR: Field = Field {
    name: "hour",
    number: 1,
    low: 0,
    high: 23,
    names: &[],
};
const DAY: Field = Field {
    name: "day of month",
    number: 2,
    low: 1,
    high: 31,
    names: &[],
};
const MONTH: Field = Field {
    name: "month",
    number: 3,
    low: 1,
    high: 12,
    names: &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
};
const WEEKDAY: Field = Field {
    name: "day of week",
    number: 4,
    low: 0,
    // 7 is Sunday, too.
    high: 7,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

impl Field {
    /// Parses a list of values, ranges and steps.
    fn parse(&self, text: &str, seed: &str) -> Result<Set, String> {
        let mut set = Set::default();
        for (place, item) in text.split(',').enumerate() {
            if item.is_empty() {
                return Err(self.wrong(text, "lacks a value beside a comma"));
            }
            let (range, step) = match item.split_once('/') {
                Some((range, step)) => (range, Some(step)),
                None => (item, None),
            };
            let (low, high) = if range == "*" {
                (self.low, self.high)
            } else if let Some((low, high)) = range.split_once('~') {
                if step.is_some() {
                    return Err(self.wrong(item, "is a random value, which has no step"));
                }
                let value = self.random(item, low, high, &[seed, &place.to_string()])?;
                (value, value)
            } else if let Some((low, high)) = range.split_once('-') {
                self.range(item, low, high)?
            } else {
                let value = self.value(item, range)?;
                if let Some(step) = step {
                    let high = self.high;
                    let advice = format!("has a step and no range; write {range}-{high}/{step}");
                    return Err(self.wrong(item, &advice));
                }
                (value, value)
            };
            let step = step.map_or(Ok(1), |step| self.step(item, step))?;
            for value in (low..=high).step_by(step) {
                set.add(value);
            }
        }
        if self.is_weekday() && set.has(7) {
            set.remove(7);
            set.add(0);
        }
        Ok(set)
    }

    /// The bounds of `a-b` and `a~b`. A range of weekdays may end on Sunday.
    fn range(&self, item: &str, low: &str, high: &str) -> Result<(u8, u8), String> {
        let (first, last) = (self.value(item, low)?, self.value(item, high)?);
        match (first, last) {
            (1.., 0) if self.is_weekday() => Ok((first, 7)),
            _ if first <= last => Ok((first, last)),
            _ if item.contains('~') => Err(self.wrong(item, "runs backwards")),
            _ => {
                let advice = format!("{low}-{},{}-{high}", self.high, self.low);
                Err(self.wrong(item, &format!("runs backwards; write {advice}")))
            }
        }
    }

    /// The value of `a~b`. Either bound may be missing.
    fn random(&self, item: &str, low: &str, high: &str, seed: &[&str]) -> Result<u8, String> {
        let lowest = self.low.to_string();
        let low = if low.is_empty() { &lowest } else { low };
        let first = self.value(item, low)?;
        let (first, last) = match high {
            "" if self.number == DAY.number && first <= LAST_COMMON_DAY => (first, LAST_COMMON_DAY),
            "" => (first, self.high),
            high => self.range(item, low, high)?,
        };
        // Sunday must not be twice as likely as the other days.
        let is_sunday_twice = self.is_weekday() && (first, last) == (0, 7);
        let count = last - first + u8::from(!is_sunday_twice);
        let mut hash = Sha256::new();
        hash.update([self.number]);
        for part in seed {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let bytes = hash.finalize();
        let number = u64::from_be_bytes(bytes[..8].try_into().expect("eight bytes"));
        let beyond = u8::try_from(number % u64::from(count)).expect("less than a u8");
        Ok(first + beyond)
    }

    /// A step may be longer than its range. Then only the first value remains.
    fn step(&self, item: &str, text: &str) -> Result<usize, String> {
        match number(text) {
            Some(step) if step > 0 => Ok(step),
            _ => Err(self.wrong(item, "has a step that is not a number from 1 on")),
        }
    }

    /// A single value: a number or a name.
    fn value(&self, item: &str, text: &str) -> Result<u8, String> {
        if let Some(place) = self
            .names
            .iter()
            .position(|name| name.eq_ignore_ascii_case(text))
        {
            return Ok(self.low + u8::try_from(place).expect("a few names"));
        }
        match number(text).and_then(|value| u8::try_from(value).ok()) {
            Some(value) if (self.low..=self.high).contains(&value) => Ok(value),
            _ => {
                let (low, high) = (self.low, self.high);
                let names = match self.names {
                    [first, .., last] => format!(", nor a name from {first} to {last}"),
                    _ => String::new(),
                };
                Err(match text {
                    "" => self.wrong(item, &format!("lacks a number from {low} to {high}")),
                    _ => self.wrong(
                        text,
                        &format!("is not a number from {low} to {high}{names}"),
                    ),
                })
            }
        }
    }

    fn wrong(&self, item: &str, why: &str) -> String {
        format!("{} {item:?} {why}", self.name)
    }

    fn is_weekday(&self) -> bool {
        self.number == WEEKDAY.number
    }
}

/// Parses digits only, without the sign that Rust would accept. A number that is too large becomes the largest one.
fn number(text: &str) -> Option<usize> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(usize::MAX))
}

/// The result if a set has no such value.
const NONE: u8 = 64;

/// Values below 64, with one bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Set(u64);

impl Set {
    fn add(&mut self, value: u8) {
        self.0 |= 1 << value;
    }

    fn remove(&mut self, value: u8) {
        self.0 &= !(1 << value);
    }

    fn has(self, value: impl TryInto<u8>) -> bool {
        value.try_into().is_ok_and(|value| self.0 >> value & 1 == 1)
    }

    /// The first value at or after this one, or `NONE`.
    fn first(self, from: u8) -> u8 {
        let rest = self.0 & (u64::MAX << from);
        u8::try_from(rest.trailing_zeros()).expect("at most 64")
    }

    /// The last value at or before this one, or `NONE`.
    fn last(self, to: u8) -> u8 {
        let rest = self.0 & (u64::MAX >> (63 - to));
        rest.checked_ilog2()
            .map_or(NONE, |value| u8::try_from(value).expect("below 64"))
    }
}

fn midnight(date: Date) -> DateTime {
    date.to_datetime(Time::midnight())
}

fn end_of_day(date: Date) -> DateTime {
    date.to_datetime(Time::MAX)
}

/// The first whole minute at or after this time.
fn round_up(time: DateTime) -> Option<DateTime> {
    let minute = time.with().second(0).subsec_nanosecond(0).build().ok()?;
    if minute == time {
        return Some(time);
    }
    minute.checked_add(jiff::SignedDuration::from_mins(1)).ok()
}

fn split(time: Time) -> (u8, u8) {
    (time.hour().unsigned_abs(), time.minute().unsigned_abs())
}

/// A time of the day, if it is valid.
fn joined(hour: u8, minute: u8) -> Option<Time> {
    Time::new(hour.try_into().ok()?, minute.try_into().ok()?, 0, 0).ok()
}

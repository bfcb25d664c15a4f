//! A time in the past: a duration before now, or a time in RFC 3339.

use std::time::SystemTime;

use super::{duration, shown_safely};
use crate::history::TimeBound;

/// A time in the past: a duration before now, or this time.
pub fn time_bound(text: &str) -> Result<TimeBound, String> {
    // No duration contains these characters.
    if text.contains('-') || text.contains(':') {
        return moment(text).map(TimeBound::At).ok_or_else(|| neither(text));
    }
    // What begins with a digit is a duration that is malformed or too long.
    let is_duration = text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    duration(text)
        .map(TimeBound::Ago)
        .map_err(|wrong| if is_duration { wrong } else { neither(text) })
}

/// A time in RFC 3339, or a date with an optional time of day, both in UTC. Returns microseconds since 1970.
pub fn time(text: &str) -> Result<i64, String> {
    moment(text).ok_or_else(|| {
        let shown = shown_safely(text);
        if duration(text).is_ok() {
            format!("{shown} is a duration, which --delay takes; a time is as {TIMES}")
        } else {
            format!("{shown} is not a time, as {TIMES}")
        }
    })
}

const TIMES: &str = "2026-11-22, 2026-11-22 08:30 or 2026-11-22T08:30:00+01:00";

/// The first moment that has no text, in microseconds since 1970.
const YEAR_10000: i64 = 253_402_300_800_000_000;

fn moment(text: &str) -> Option<i64> {
    let date = text.get(..10)?;
    let (of_day, offset) = match &text[10..] {
        "" => ("00:00", 0),
        rest => zone(rest.strip_prefix([' ', 'T', 't'])?)?,
    };
    // A time of day with an offset always has seconds.
    let seconds = if of_day.len() == 5 { ":00" } else { "" };
    let utc = humantime::parse_rfc3339_weak(&format!("{date} {of_day}{seconds}")).ok()?;
    let since_1970 = utc.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let micros = i64::try_from(since_1970.as_micros()).ok()? - offset * 60_000_000;
    // West of UTC the last day of 9999 ends after all that a server knows.
    (micros < YEAR_10000).then_some(micros)
}

fn neither(text: &str) -> String {
    format!(
        "{} is neither a duration, as 2h, nor a time, as {TIMES}",
        shown_safely(text)
    )
}

/// Splits a time of day and its zone. Returns the zone as minutes east of UTC.
fn zone(text: &str) -> Option<(&str, i64)> {
    if let Some(utc) = text.strip_suffix(['Z', 'z']) {
        return Some((utc, 0));
    }
    let Some(at) = text.rfind(['+', '-']) else {
        return Some((text, 0));
    };
    let (of_day, zone) = text.split_at(at);
    let (hours, minutes) = zone[1..].split_once(':')?;
    let minutes = two_digits(hours, 23)? * 60 + two_digits(minutes, 59)?;
    let is_west = zone.starts_with('-');
    Some((of_day, if is_west { -minutes } else { minutes }))
}

fn two_digits(text: &str, most: i64) -> Option<i64> {
    let is_number = text.len() == 2 && text.bytes().all(|digit| digit.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|&number| is_number && number <= most)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_moment_is_a_duration_ago_or_a_time() {
        for (text, seconds) in [
            ("2026-11-22", 1_795_305_600),
            ("2026-11-22 08:30", 1_795_336_200),
            ("2026-11-22 08:30:15", 1_795_336_215),
            ("2026-11-22T08:30:15Z", 1_795_336_215),
            ("2026-11-22t08:30:15z", 1_795_336_215),
            ("2026-11-22T08:30:15+01:00", 1_795_332_615),
            ("2026-11-22T08:30:15-09:30", 1_795_370_415),
            ("2024-02-29", 1_709_164_800),
        ] {
            assert_eq!(
                time_bound(text),
                Ok(TimeBound::At(seconds * 1_000_000)),
                "{text}"
            );
        }
        assert_eq!(
            time_bound("2026-11-22T08:30:15.25Z"),
            Ok(TimeBound::At(1_795_336_215_250_000))
        );
        assert_eq!(
            time_bound("2h"),
            Ok(TimeBound::Ago(Duration::from_secs(7200)))
        );
        assert_eq!(
            time_bound("90"),
            Ok(TimeBound::Ago(Duration::from_secs(90)))
        );
        for text in [
            "",
            "yesterday",
            "-5",
            "2026-11",
            "2026-13-01",
            "2026-02-29",
            "2026-11-22 25:00",
            "2026-11-22 8:30",
            "2026-11-22T08:30:15+1",
            "2026-11-22T08:30:15+25:00",
            "2026-11-22T08:30:15+0é",
            "2026-11-2é",
            "1969-12-31",
            "08:30",
            "2026-11-22Z",
            "2026-11-22 ",
            "9999-12-31T23:59:59-00:01",
        ] {
            assert!(time_bound(text).is_err(), "{text}");
        }
    }
}

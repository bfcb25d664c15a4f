//! Compares schedules with the main loop of cronie's `src/cron.c`, which wakes up every minute and keeps a virtual time. Also compares each
//! field with a list of values that is made without parsing.

use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::{Schedule, Tick, Zone};

/// Zones with every kind of clock change, but none of exactly three hours forward, which cronie mistakes for setting the clock.
const ZONES: [&str; 20] = [
    "UTC",
    "Europe/Berlin",
    "Europe/Dublin",
    "Europe/London",
    "America/New_York",
    "America/St_Johns",
    "America/Sao_Paulo",
    "America/Havana",
    "America/Caracas",
    "Africa/Casablanca",
    "Africa/Cairo",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Asia/Pyongyang",
    "Antarctica/Troll",
    "Australia/Lord_Howe",
    "Pacific/Chatham",
    "Pacific/Apia",
    "Pacific/Kwajalein",
    "Asia/Gaza",
];

/// One item of a field.
#[derive(Debug, Clone)]
enum Item {
    Star(Option<u8>),
    Value(u8),
    Range(u8, u8, Option<u8>),
}

impl Item {
    fn values(&self, low: u8, high: u8) -> Vec<u8> {
        let (low, high, step) = match *self {
            Self::Star(step) => (low, high, step),
            Self::Value(value) => (value, value, None),
            Self::Range(low, high, step) => (low, high, step),
        };
        let step = step.unwrap_or(1);
        (low..=high).filter(|v| (v - low) % step == 0).collect()
    }

    fn text(&self) -> String {
        let stepped = |step: Option<u8>| step.map_or(String::new(), |step| format!("/{step}"));
        match *self {
            Self::Star(step) => format!("*{}", stepped(step)),
            Self::Value(value) => value.to_string(),
            Self::Range(low, high, step) => format!("{low}-{high}{}", stepped(step)),
        }
    }
}

/// A field: its text, its values, and whether it begins with `*`.
#[derive(Debug, Clone)]
struct Field {
    text: String,
    values: Vec<u8>,
    star: bool,
}

/// A field with values from `low` to `high`. Single values and ranges end at `most`.
fn field(low: u8, high: u8, most: u8) -> impl Strategy<Value = Field> {
    let step = proptest::option::of(1..=high);
    let bounds = (low..=most, low..=most);
    let item = prop_oneof![
        2 => step.clone().prop_map(Item::Star),
        1 => Just(Item::Star(None)),
        3 => (low..=most).prop_map(Item::Value),
        2 => (bounds, step).prop_map(|((a, b), step)| Item::Range(a.min(b), a.max(b), step)),
    ];
    proptest::collection::vec(item, 1..4).prop_map(move |items| Field {
        text: items.iter().map(Item::text).collect::<Vec<_>>().join(","),
        values: items
            .iter()
            .flat_map(|item| item.values(low, high))
            .collect(),
        star: matches!(items[0], Item::Star(_)),
    })
}

/// A line of a crontab.
#[derive(Clone)]
struct Line([Field; 5]);

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{:?}", self.text())
    }
}

/// Days and months are mostly free, so that jobs are due within days. Hours are often those of clock changes.
fn line() -> impl Strategy<Value = Line> {
    let mostly_any = |low, high| {
        let any = Field {
            text: "*".to_owned(),
            values: (low..=high).collect(),
            star: true,
        };
        prop_oneof![2 => Just(any), 1 => field(low, high, high)]
    };
    let hour = prop_oneof![2 => field(0, 23, 4), 1 => field(0, 23, 23)];
    let days = (mostly_any(1, 31), mostly_any(1, 12), mostly_any(0, 7));
    (field(0, 59, 59), hour, days)
        .prop_map(|(minute, hour, (day, month, weekday))| Line([minute, hour, day, month, weekday]))
}

impl Line {
    fn text(&self) -> String {
        self.0.each_ref().map(|field| field.text.clone()).join(" ")
    }

    fn is_wild(&self) -> bool {
        self.0[0].star || self.0[1].star
    }

    /// As `find_jobs`.
    fn matches(&self, local: DateTime) -> bool {
        let [minute, hour, day, month, weekday] = &self.0;
        let has = |field: &Field, value: i8| field.values.contains(&value.unsigned_abs());
        let of_week = local.weekday().to_sunday_zero_offset();
        let on_weekday = has(weekday, of_week) || of_week == 0 && has(weekday, 7);
        let on_day = has(day, local.day());
        has(minute, local.minute())
            && has(hour, local.hour())
            && has(month, local.month())
            && if day.star || weekday.star {
                on_weekday && on_day
            } else {
                on_weekday || on_day
            }
    }
}

/// The minutes in which cronie starts a line, beginning with the minute after `start`. As its main loop, with clocks in minutes of local
/// time. A minute appears once, even if the line starts several times in it.
fn cronie(line: &Line, zone: &Zone, start: Timestamp, minutes: i64) -> Vec<Timestamp> {
    let clock = |at: Timestamp| {
        let offset = i64::from(zone.offset(at).seconds());
        assert_eq!(offset % 60, 0);
        (at.as_second() + offset) / 60
    };
    let matches = |minute: i64| {
        let local = Timestamp::from_second(minute * 60).unwrap();
        line.matches(Offset::UTC.to_datetime(local))
    };
    let mut runs = Vec::new();
    let mut virtual_time = clock(start);
    for passed in 1..=minutes {
        let now = start + SignedDuration::from_mins(passed);
        let running = clock(now);
        let difference = running - virtual_time;
        let starts = match difference {
            // It is a minute later, or the clock jumped.
            1 | 181.. | ..-180 => {
                virtual_time = running;
                matches(running)
            }
            2..=5 => unreachable!("no change of so few minutes"),
            // Summer time begins.
            6.. => {
                let missed = virtual_time + 1..=running;
                virtual_time = running;
                if line.is_wild() {
                    matches(running)
                } else {
                    missed.into_iter().any(matches)
                }
            }
            // Summer time ends.
            ..=0 => line.is_wild() && matches(running),
        };
        if starts {
            runs.push(now);
        }
    }
    runs
}

/// Three days around a clock change, if the zone has one near this moment.
fn start(zone: &Zone, near: i64, hours_before: i64) -> Timestamp {
    let near = Timestamp::from_second(near * 60).unwrap();
    let change = zone.period(near).start;
    let start = change.max("1975-01-05T00:00:00Z".parse().unwrap());
    start - SignedDuration::from_hours(hours_before)
}

/// Minutes since 1970, from 1975 to 2037.
const MOMENTS: std::ops::Range<i64> = 2_630_000..35_760_000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn ticks_are_the_minutes_in_which_cronie_starts_a_line(
        line in line(),
        zone in proptest::sample::select(ZONES.as_slice()),
        near in MOMENTS,
        hours_before in 1..60_i64,
    ) {
        let zone = Zone::parse(zone).unwrap();
        let start = start(&zone, near, hours_before);
        let minutes = 3 * 24 * 60;
        let expected = cronie(&line, &zone, start, minutes);
        let schedule = match Schedule::parse(&line.text(), zone, "") {
            Ok(schedule) => schedule,
            Err(why) => {
                prop_assert!(why.ends_with("is a day that no year has"), "{}", why);
                prop_assert!(expected.is_empty());
                return Ok(());
            }
        };
        let end = start + SignedDuration::from_mins(minutes);
        let next = |at| schedule.next_after(at).map(Tick::at);
        let ticks = std::iter::successors(next(start), |at| next(*at));
        let ticks: Vec<_> = ticks.take_while(|at| *at <= end).collect();
        prop_assert_eq!(&ticks, &expected, "{} forwards", line.text());

        let last = |at| schedule.last_at_or_before(at).map(Tick::at);
        let before = |at: Timestamp| last(at - SignedDuration::from_nanos(1));
        let ticks = std::iter::successors(last(end), |at| before(*at));
        let mut ticks: Vec<_> = ticks.take_while(|at| *at > start).collect();
        ticks.reverse();
        prop_assert_eq!(&ticks, &expected, "{} backwards", line.text());
    }

    #[test]
    fn the_next_and_the_last_tick_agree(
        line in line(),
        zone in proptest::sample::select(ZONES.as_slice()),
        micros in -2_000_000_000_000_000..5_000_000_000_000_000_i64,
    ) {
        let at = Timestamp::from_microsecond(micros).unwrap();
        let Ok(schedule) = Schedule::parse(&line.text(), Zone::parse(zone).unwrap(), "") else {
            return Ok(());
        };
        let next = schedule.next_after(at);
        let last = schedule.last_at_or_before(at);
        if let Some(next) = next {
            prop_assert!(next.at() > at);
            prop_assert_eq!(schedule.last_at_or_before(next.at()), Some(next));
            let before = next.at() - SignedDuration::from_micros(1);
            let before = schedule.last_at_or_before(before);
            prop_assert_eq!(before.is_some_and(|before| before.at() > at), false);
            if let Some(last) = last {
                prop_assert_eq!(before, Some(last));
                prop_assert_eq!(schedule.next_after(last.at()), Some(next));
            }
        }
        if let Some(last) = last {
            prop_assert!(last.at() <= at);
            prop_assert_eq!(schedule.last_at_or_before(last.at()), Some(last));
        }
    }
}

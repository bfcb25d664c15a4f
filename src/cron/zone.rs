//! Time zones by their IANA names. The host's tz database comes first, because the distribution keeps it up to date. The copy in the binary
//! is for hosts without one, such as minimal containers.

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};

/// Names in a tz database that mean a different zone on each host, or none.
const NOT_FOR_A_FLEET: [&str; 5] = ["localtime", "local", "posixrules", "Factory", "Etc/Unknown"];

/// How similar a name must be to be suggested: from 0, nothing in common, to 1, identical.
const NEAR: f64 = 0.85;

/// A time zone with the same name on every host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone(TimeZone);

/// A period in which the zone keeps one offset.
#[derive(Debug, Clone, Copy)]
pub struct Period {
    /// The first moment.
    pub start: Timestamp,
    /// The last moment.
    pub last: Timestamp,
    /// The offset from UTC to local time.
    pub offset: Offset,
    /// By how many seconds clocks went forward at the start; negative if they went back.
    pub change: i32,
}

impl Zone {
    /// UTC, which has no daylight saving.
    pub const UTC: Self = Self(TimeZone::UTC);

    /// A zone by its IANA name, such as `Europe/Berlin` or `UTC`, in upper or lower case.
    ///
    /// # Errors
    /// The end of a sentence: the name is unknown, or its meaning differs from host to host. It suggests a similar name if there is one.
    pub fn parse(name: &str) -> Result<Self, String> {
        let is_refused = |refused: &str| refused.eq_ignore_ascii_case(name);
        let found = if NOT_FOR_A_FLEET.into_iter().any(is_refused) {
            None
        } else {
            let bundled = || TimeZoneDatabase::bundled().get(name);
            jiff::tz::db().get(name).or_else(|_| bundled()).ok()
        };
        found.map(Self).ok_or_else(|| match similar(name) {
            Some(similar) => format!("{name:?} is not a time zone; do you mean {similar}?"),
            None => {
                format!("{name:?} is not a time zone; write an IANA name as Europe/Berlin, or UTC")
            }
        })
    }

    /// The host's zone: from `TZ`, otherwise from the link `/etc/localtime`, otherwise from `/etc/timezone`. `None` if that is no IANA
    /// name.
    pub fn of_host() -> Option<Self> {
        let variable = std::env::var("TZ").ok().filter(|zone| !zone.is_empty());
        if let Some(variable) = variable {
            return Self::parse(variable.trim_start_matches(':')).ok();
        }
        let link = std::fs::canonicalize("/etc/localtime").ok();
        let link = link
            .as_ref()
            .and_then(|link| link.to_str()?.split_once("/zoneinfo/"));
        let file = std::fs::read_to_string("/etc/timezone").ok();
        let named = link
            .map(|(_, name)| name)
            .or(file.as_deref().map(str::trim));
        match named {
            Some(name) => Self::parse(name).ok(),
            None => Some(Self::UTC),
        }
    }

    /// The IANA name.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// Whether the zone is UTC under any of its names, and not a country with the same time.
    pub fn is_utc(&self) -> bool {
        let at = Timestamp::UNIX_EPOCH;
        self.0.to_offset_info(at).abbreviation() == "UTC"
    }

    /// The offset at a moment.
    pub fn offset(&self, at: Timestamp) -> Offset {
        self.0.to_offset(at)
    }

    /// The period around a moment.
    pub fn period(&self, at: Timestamp) -> Period {
        let offset = self.offset(at);
        let last = self.0.following(at).next();
        // `preceding` does not include the moment itself.
        let start = match next_moment(at) {
            Some(next) => self.0.preceding(next).next(),
            None => self.0.preceding(at).next(),
        };
        let start = start.map_or(Timestamp::MIN, |change| change.timestamp());
        let before = previous_moment(start).map_or(offset, |before| self.offset(before));
        Period {
            start,
            last: last
                .and_then(|change| previous_moment(change.timestamp()))
                .unwrap_or(Timestamp::MAX),
            offset,
            change: offset.seconds() - before.seconds(),
        }
    }
}

/// The next moment, unless this is the last one that can be represented.
pub fn next_moment(at: Timestamp) -> Option<Timestamp> {
    at.checked_add(jiff::SignedDuration::from_nanos(1)).ok()
}

/// The previous moment, unless this is the first one that can be represented.
pub fn previous_moment(at: Timestamp) -> Option<Timestamp> {
    at.checked_sub(jiff::SignedDuration::from_nanos(1)).ok()
}

/// The name that was most likely meant: a whole name, or the last part of one.
fn similar(wrong: &str) -> Option<String> {
    let wrong = wrong.to_ascii_lowercase().replace(' ', "_");
    let likeness = |name: &str| {
        let name = name.to_ascii_lowercase();
        let city = name.rsplit('/').next().unwrap_or_default();
        strsim::jaro_winkler(&wrong, &name).max(strsim::jaro_winkler(&wrong, city))
    };
    TimeZoneDatabase::bundled()
        .available()
        .map(|name| (likeness(name.as_str()), name))
        .filter(|(likeness, _)| *likeness >= NEAR)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| name.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_have_their_iana_names() {
        for (text, name) in [
            ("Europe/Berlin", "Europe/Berlin"),
            ("europe/berlin", "Europe/Berlin"),
            (
                "America/Argentina/Buenos_Aires",
                "America/Argentina/Buenos_Aires",
            ),
            ("US/Eastern", "US/Eastern"),
            ("UTC", "UTC"),
            ("utc", "UTC"),
            ("Etc/UTC", "Etc/UTC"),
            ("CET", "CET"),
        ] {
            assert_eq!(Zone::parse(text).unwrap().name(), name, "{text}");
        }
    }

    #[test]
    fn an_unknown_zone_is_refused_with_the_likely_name() {
        for (text, proposed) in [
            ("Europe/Berln", "Europe/Berlin"),
            ("Berlin", "Europe/Berlin"),
            ("New York", "America/New_York"),
            ("Asia/Calcuta", "Asia/Calcutta"),
            ("Ameria/New_York", "America/New_York"),
        ] {
            let error = Zone::parse(text).unwrap_err();
            assert_eq!(
                error,
                format!("{text:?} is not a time zone; do you mean {proposed}?")
            );
        }
        for text in [
            "",
            ".",
            "/",
            "Europe",
            "local",
            "localtime",
            "Localtime",
            "posixrules",
            "Factory",
            "Etc/Unknown",
            "../../../etc/localtime",
            "/etc/localtime",
            "+02:00",
            "CET-1CEST",
            "tzdata.zi",
            "zone.tab",
            "right/Europe/Berlin",
        ] {
            assert!(Zone::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn periods_meet_without_a_gap() {
        for name in ["Europe/Berlin", "Pacific/Apia", "Africa/Casablanca", "UTC"] {
            let zone = Zone::parse(name).unwrap();
            let mut at: Timestamp = "1969-06-01T00:00:00Z".parse().unwrap();
            for _ in 0..200 {
                let period = zone.period(at);
                assert_eq!(period.start, zone.period(period.last).start, "{name} {at}");
                assert_eq!(period.offset, zone.offset(period.last), "{name} {at}");
                let Some(next) = next_moment(period.last) else {
                    break;
                };
                let following = zone.period(next);
                assert_eq!(following.start, next, "{name} {at}");
                let change = following.offset.seconds() - period.offset.seconds();
                assert_eq!(following.change, change, "{name} {at}");
                at = next;
            }
        }
    }
}

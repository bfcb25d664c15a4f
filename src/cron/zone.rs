//! Time zones by their IANA names. The host's tz database comes first, because the distribution keeps it up to date. The copy in the binary
//! is for hosts without one, such as minimal containers.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};

/// Names in a tz database that mean a different zone on each host, or none.
const NOT_FOR_A_FLEET: [&str; 5] = ["localtime", "local", "posixrules", "Factory", "Etc/Unknown"];

/// Where a host says which zone it is in: by a link to a file of its tz database or by a copy of one, and by a name.
const LOCALTIME: &str = "/etc/localtime";
const TIMEZONE: &str = "/etc/timezone";

/// Where the host's tz database says which zones countries use: in the third column.
const COUNTRIES: &str = "/usr/share/zoneinfo/zone1970.tab";

/// How similar a name must be to be suggested: from 0, nothing in common, to 1, identical.
const NEAR: f64 = 0.85;

/// Bytes of a name. Those of zones are shorter.
const LONGEST: usize = 64;

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

    /// The host's zone: from `TZ`, which is a name or the path of a file, otherwise from `/etc/localtime` and `/etc/timezone`. `None` if it
    /// has no IANA name.
    pub fn of_host() -> Option<Self> {
        let variable = std::env::var("TZ").ok().filter(|zone| !zone.is_empty());
        let zone = variable.as_deref().map(|zone| zone.trim_start_matches(':'));
        match zone {
            None | Some(LOCALTIME) => Self::of_files(LOCALTIME.as_ref(), Some(TIMEZONE.as_ref())),
            Some(path) if path.starts_with('/') => Self::of_files(path.as_ref(), None),
            Some(name) => Self::parse(name).ok(),
        }
    }

    /// The zone to which `localtime` is a link, otherwise the one that `timezone` names, otherwise the one of which `localtime` is a copy.
    /// Without a `timezone` it is any file, and must be there.
    fn of_files(localtime: &Path, timezone: Option<&Path>) -> Option<Self> {
        let link = fs::canonicalize(localtime).ok();
        let link = link.as_ref();
        let linked = link.and_then(|link| Some(link.to_str()?.split_once("/zoneinfo/")?.1));
        let named = timezone.and_then(|timezone| fs::read_to_string(timezone).ok());
        if let Some(name) = linked.or(named.as_deref().map(str::trim)) {
            return Self::parse(name).ok();
        }
        match contents(localtime) {
            Some(copy) => Self::of_copy(&copy),
            // As the system's own functions have it.
            None => timezone.map(|_| Self::UTC),
        }
    }

    /// The zone with the same clocks since 1970 as this file of a tz database. Several names that have them are names of one zone: the one
    /// that countries use comes first.
    fn of_copy(copy: &[u8]) -> Option<Self> {
        let clocks = Self(TimeZone::tzif("", copy).ok()?).clocks();
        let countries = fs::read_to_string(COUNTRIES).unwrap_or_default();
        let is_of_country = |name: &str| {
            let mut lines = countries.lines();
            lines.any(|line| line.split('\t').nth(2) == Some(name))
        };
        let names = jiff::tz::db()
            .available()
            .map(|name| name.as_str().to_owned());
        let zones = names.filter_map(|name| Self::parse(&name).ok());
        let same = [Self::UTC]
            .into_iter()
            .chain(zones)
            .filter(|zone| zone.clocks() == clocks);
        same.min_by_key(|zone| {
            let name = zone.name().to_owned();
            (*zone != Self::UTC, !is_of_country(&name), name)
        })
    }

    /// The offset and the abbreviation in 1970, and each change of them until 2038.
    fn clocks(&self) -> Vec<(Timestamp, Offset, String)> {
        let first = self.0.to_offset_info(Timestamp::UNIX_EPOCH);
        let first = (
            Timestamp::UNIX_EPOCH,
            first.offset(),
            first.abbreviation().to_owned(),
        );
        let changes = self.0.following(Timestamp::UNIX_EPOCH).map(|change| {
            let abbreviation = change.abbreviation().to_owned();
            (change.timestamp(), change.offset(), abbreviation)
        });
        let changes = changes.take_while(|(at, ..)| at.as_second() <= i64::from(i32::MAX));
        [first].into_iter().chain(changes).collect()
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

/// What a regular file has. `TZ` may name something else, which may have no end, or nobody who writes it.
fn contents(file: &Path) -> Option<Vec<u8>> {
    fs::metadata(file).ok().filter(fs::Metadata::is_file)?;
    fs::read(file).ok()
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
    // To compare takes time by the length.
    if wrong.len() > LONGEST {
        return None;
    }
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
        // To liken this one to each name would take minutes.
        let endless = "Europe/Berlin".repeat(100_000);
        for text in [
            "",
            &endless,
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

    /// A file of a tz database with one offset for ever: four characters, with its NUL, and the rule of POSIX.
    fn zone_file(abbreviation: &str, offset: i32, rule: &str) -> Vec<u8> {
        let mut file = Vec::new();
        for _ in ["with 32 bits", "with 64 bits"] {
            file.extend(b"TZif2");
            file.extend([0; 15]);
            file.extend([0_u32, 0, 0, 0, 1, 4].map(u32::to_be_bytes).concat());
            file.extend(offset.to_be_bytes());
            file.extend([0, 0]);
            file.extend(abbreviation.as_bytes());
        }
        file.extend(format!("\n{rule}\n").bytes());
        file
    }

    #[test]
    fn a_host_is_in_the_zone_of_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let [localtime, timezone, linked] =
            ["localtime", "timezone", "zoneinfo/Europe/Rome"].map(|name| folder.path().join(name));
        let name = || {
            let zone = Zone::of_files(&localtime, Some(&timezone))?;
            Some(zone.name().to_owned())
        };
        assert_eq!(name().unwrap(), "UTC", "as the system has it");
        for (file, zone) in [
            (zone_file("JST\0", 9 * 3600, "JST-9"), Some("Asia/Tokyo")),
            (zone_file("UTC\0", 0, "UTC0"), Some("UTC")),
            (zone_file("XXX\0", 9 * 3600, "XXX-9"), None),
            (b"no zone".to_vec(), None),
        ] {
            fs::write(&localtime, file).unwrap();
            assert_eq!(name().as_deref(), zone);
        }
        fs::write(&timezone, "Europe/Berlin\n").unwrap();
        assert_eq!(name().unwrap(), "Europe/Berlin");
        fs::create_dir_all(linked.parent().unwrap()).unwrap();
        fs::write(&linked, "").unwrap();
        fs::remove_file(&localtime).unwrap();
        std::os::unix::fs::symlink(&linked, &localtime).unwrap();
        assert_eq!(name().unwrap(), "Europe/Rome");
    }

    #[test]
    fn a_file_that_is_named_must_be_there() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("zone");
        assert_eq!(Zone::of_files(&file, None), None);
        fs::write(&file, zone_file("JST\0", 9 * 3600, "JST-9")).unwrap();
        let zone = Zone::of_files(&file, None);
        assert_eq!(zone.unwrap().name(), "Asia/Tokyo");
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

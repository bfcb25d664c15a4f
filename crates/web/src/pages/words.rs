//! Times, durations and counts, as people read them.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{Markup, html};

pub use crate::base::text::counted;

/// Spans that differ by less are "now".
const NOW: f64 = 1.0;

/// A text with a capital letter.
pub fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map(|first| first.to_uppercase().chain(characters).collect())
        .unwrap_or_default()
}

/// Names with commas between them, at most five, and how many there are besides.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const MOST: usize = 5;
    let names: Vec<&str> = names.into_iter().collect();
    let shown = names.iter().take(MOST).copied().collect::<Vec<_>>();
    match names.len().saturating_sub(MOST) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// How long something takes or took, in its two largest units.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a negative or absurd span is cut"
)]
pub fn span(seconds: f64) -> String {
    if seconds < 0.9995 {
        return format!("{:.0} ms", (seconds * 1000.0).max(0.0));
    }
    if seconds < 9.95 {
        let text = format!("{seconds:.1}");
        return format!("{} s", text.strip_suffix(".0").unwrap_or(&text));
    }
    let whole = seconds.round() as u64;
    let parts = [
        (whole / 86_400, "d"),
        (whole / 3600 % 24, "h"),
        (whole / 60 % 60, "min"),
        (whole % 60, "s"),
    ];
    let largest = parts.iter().position(|(number, _)| *number > 0);
    let parts = parts[largest.unwrap_or_default()..].iter().take(2);
    let words = parts
        .filter(|(number, _)| *number > 0)
        .map(|(number, unit)| format!("{number} {unit}"));
    words.collect::<Vec<_>>().join(" ")
}

/// A span in its largest unit alone, for what changes while it is looked at.
fn about(seconds: f64) -> String {
    let words = span(seconds.round());
    words.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// How long ago, or in how long, a moment is.
pub fn relative(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(at).as_secs_f64();
    match seconds {
        _ if seconds.abs() < NOW => "now".to_owned(),
        _ if seconds > 0.0 => format!("{} ago", about(seconds)),
        _ => format!("in {}", about(-seconds)),
    }
}

/// A moment in UTC, with its day unless it is today's.
pub fn clock(at: Timestamp, now: Timestamp) -> String {
    let at = at.to_zoned(TimeZone::UTC);
    let now = now.to_zoned(TimeZone::UTC);
    let form = match (at.date() == now.date(), at.year() == now.year()) {
        (true, _) => "%H:%M:%S",
        (_, true) => "%b %-d %H:%M",
        _ => "%Y-%m-%d",
    };
    at.strftime(form).to_string()
}

/// A moment in UTC, to the second, and how long ago it was.
pub fn time(at: Timestamp, now: Timestamp) -> Markup {
    html! { (exact(at)) " " span.rel { (relative(at, now)) } }
}

/// A moment in UTC, to the second.
pub fn exact(at: Timestamp) -> Markup {
    let words = at
        .to_zoned(TimeZone::UTC)
        .strftime("%Y-%m-%d %H:%M:%S")
        .to_string();
    html! { time datetime=(machine(at)) { (words) } }
}

/// A moment as short as a dense table needs it, and how long ago it was.
pub fn brief(at: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(machine(at)) { (clock(at, now)) } " " i { (relative(at, now)) } }
}

/// The same with a link on the moment.
pub fn brief_link(url: &str, at: Timestamp, now: Timestamp) -> Markup {
    html! { a href=(url) { time datetime=(machine(at)) { (clock(at, now)) } } " " i { (relative(at, now)) } }
}

/// A moment for programs.
pub fn machine(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::{clock, listed, relative, span};

    #[test]
    fn a_span_has_its_two_largest_units() {
        let cases = [
            (0.0, "0 ms"),
            (0.0074, "7 ms"),
            (0.9996, "1 s"),
            (1.04, "1 s"),
            (9.94, "9.9 s"),
            (10.0, "10 s"),
            (59.6, "1 min"),
            (125.0, "2 min 5 s"),
            (3600.0, "1 h"),
            (11_520.0, "3 h 12 min"),
            (86_400.0 * 40.0 + 7200.0, "40 d 2 h"),
            (-3.0, "0 ms"),
        ];
        for (seconds, words) in cases {
            assert_eq!(span(seconds), words, "{seconds}");
        }
    }

    #[test]
    fn a_moment_is_told_as_one_would_say_it() {
        let now = "2026-11-26T15:00:00Z".parse().unwrap();
        let cases = [
            ("2026-11-26T14:59:59.5Z", "now", "14:59:59"),
            ("2026-11-26T14:57:03Z", "2 min ago", "14:57:03"),
            ("2026-11-26T15:03:00Z", "in 3 min", "15:03:00"),
            ("2026-11-25T02:00:00Z", "1 d ago", "Nov 25 02:00"),
            ("2025-11-26T15:00:00Z", "365 d ago", "2025-11-26"),
        ];
        for (at, words, digits) in cases {
            let at = at.parse().unwrap();
            assert_eq!(relative(at, now), words);
            assert_eq!(clock(at, now), digits);
        }
    }

    #[test]
    fn lists_are_words() {
        assert_eq!(listed(["a", "b"]), "a, b");
        assert_eq!(
            listed(["a", "b", "c", "d", "e", "f", "g"]),
            "a, b, c, d, e and 2 more"
        );
    }
}

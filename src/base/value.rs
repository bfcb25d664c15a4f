//! Values as people write them, on a command line or in a file. An error ends a sentence about the value. It shows no URL, as that may
//! contain a password.

use std::time::Duration;

/// The longest duration that is accepted, as clocks overflow beyond it. `forever` has no limit.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// What stands before a password among the parameters of a URL.
pub const PASSWORD_PARAMETER: &str = "password=";

/// Whether a text may have a password, as a URL may. It has one also if it is no URL, because of the very character that is wrong.
pub fn may_have_password(text: &str) -> bool {
    text.contains('@') || text.contains(PASSWORD_PARAMETER)
}

/// A value for an error message. It is hidden if it may be a URL with a password.
pub fn shown_safely(text: &str) -> String {
    if may_have_password(text) {
        "the value".to_owned()
    } else {
        format!("{text:?}")
    }
}

/// The meaning of a word, from these `words` and their meanings.
///
/// # Errors
/// The end of a sentence about the value: it is none of these words.
pub fn one_of<T: Copy>(words: &[(&str, T)], text: &str) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        format!("{} is neither {}", shown_safely(text), words.join(" nor "))
    })
}

/// The word with this meaning.
pub fn word_of<T: PartialEq>(words: &[(&'static str, T)], meaning: &T) -> &'static str {
    let found = words.iter().find(|(_, other)| other == meaning);
    found.map_or("", |(word, _)| word)
}

/// A duration in humantime's format (`90s`, `5m`, `1h 30m`), or a bare number of seconds, as in `flock -w 0.5`.
///
/// # Errors
/// The end of a sentence about the value: it is not a duration, or is longer than 100 years.
pub fn duration(text: &str) -> Result<Duration, String> {
    let is_number = text.contains(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let duration = if is_number {
        text.parse()
            .ok()
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    } else {
        humantime::parse_duration(text).ok()
    };
    match duration {
        Some(duration) if duration <= LONGEST => Ok(duration),
        Some(_) => Err(format!("{} is too long a time", shown_safely(text))),
        None if is_number => Err(format!(
            "{} is too long a time or not a number of seconds",
            shown_safely(text)
        )),
        None => Err(format!(
            "{} is not a duration; write 90s, 5m, 1h 30m or 0.5",
            shown_safely(text)
        )),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_a_duration_or_refused(text in "\\PC{0,20}|[0-9.]{0,40}|([0-9]{1,25} ?[a-zµ]{1,7} ?){1,3}") {
            match duration(&text) {
                Ok(span) => prop_assert!(span <= LONGEST),
                Err(why) => prop_assert!(!why.is_empty()),
            }
        }

        #[test]
        fn a_duration_survives_the_round_trip(millis in 0..1000 * LONGEST.as_secs()) {
            let span = Duration::from_millis(millis);
            prop_assert_eq!(duration(&humantime::format_duration(span).to_string()), Ok(span));
        }
    }

    #[test]
    fn durations_are_humantime_or_seconds() {
        for (text, seconds) in [
            ("0", 0.0),
            ("0.5", 0.5),
            (".5", 0.5),
            ("30", 30.0),
            ("90s", 90.0),
            ("1h 30m", 5400.0),
            ("300ms", 0.3),
        ] {
            assert_eq!(
                duration(text),
                Ok(Duration::from_secs_f64(seconds)),
                "{text}"
            );
        }
        for text in [
            "",
            ".",
            "-1",
            "1y2",
            "1.2.3",
            "inf",
            "nan",
            "1e3",
            "s",
            "99999999999999999999",
            "200years",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}

//! Formats of texts, times and durations, for people and for programs.

use std::fmt::Display;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize, Serializer};
use unicode_width::UnicodeWidthChar;

/// The most bytes of a line, without `dblock: ` and the line break. Below `PIPE_BUF`, so that a line is written at once.
const LONGEST_LINE: usize = 2000;

/// A text as one line of bounded length, with control and invisible characters escaped. So a server's text cannot steer a terminal, look
/// like something else, or flood a log.
pub fn printable(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if line.len() > LONGEST_LINE {
            line.push('…');
            break;
        }
        match character {
            '\n' => line.push(' '),
            c if c.is_control() || is_unseen(c, line.chars().next_back()) => {
                line.extend(c.escape_default());
            }
            c => line.push(c),
        }
    }
    line
}

/// A word as a shell reads it, for a command line that is shown.
pub fn for_shell(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_=./:+,@%".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The same for an argument that is no option, though it may begin like one.
pub fn argument_for_shell(word: &str) -> String {
    let behind = if word.starts_with('-') { "-- " } else { "" };
    format!("{behind}{}", for_shell(word))
}

/// JSON text with the characters that [`printable`] escapes in JSON's escapes: a program reads the original text, and a terminal shows it
/// safely.
pub fn json_printable(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c != '\n' && (c.is_control() || is_unseen(c, text.chars().next_back())) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = std::fmt::Write::write_fmt(&mut text, format_args!("\\u{unit:04x}"));
            }
        } else {
            text.push(c);
        }
    }
    text
}

/// Whether a character, behind this one, is invisible, or changes the direction or look of others.
pub fn is_unseen(c: char, before: Option<char>) -> bool {
    let is_variant = matches!(c, '\u{fe0e}' | '\u{fe0f}');
    is_variant && !before.is_some_and(may_be_emoji) || is_unseen_everywhere(c)
}

fn is_unseen_everywhere(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}'
        // Letters that are blank, in Korean, Khmer and Mongolian.
        | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{3164}' | '\u{ffa0}'
        // Zero width; directions.
        | '\u{200b}'..='\u{200f}'
        // Line and paragraph separators, then directions that embed and override.
        | '\u{2028}'..='\u{202e}'
        // Zero width; directions that isolate.
        | '\u{2060}'..='\u{206f}'
        // Braille without a dot.
        | '\u{2800}'
        // Variants of the character before.
        | '\u{fe00}'..='\u{fe0d}'
        | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
        // What steers shorthand and musical notes.
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        // Tags, more variants, and what may become like them.
        | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Whether the variants of a character that U+FE0E and U+FE0F name may look different. Behind letters, digits and what is invisible itself
/// nobody sees these.
fn may_be_emoji(c: char) -> bool {
    !c.is_ascii() && !c.is_alphanumeric() && width_of(c) > 0
}

/// How many columns of a terminal a printable text takes.
pub fn width(text: &str) -> usize {
    text.chars().map(width_of).sum()
}

/// How many columns of a terminal a printable character takes: none if it is drawn over the one before, and two if it is wide.
pub fn width_of(c: char) -> usize {
    c.width().unwrap_or_default()
}

/// A duration for people, to the millisecond.
pub fn shown(span: Duration) -> impl Display {
    humantime::format_duration(Duration::from_millis(
        u64::try_from(span.as_millis()).unwrap_or(u64::MAX),
    ))
}

/// A duration in whole seconds.
pub fn in_seconds(span: Duration) -> impl Display {
    humantime::format_duration(Duration::from_secs(span.as_secs()))
}

/// A time for programs: RFC 3339, UTC, to the millisecond. There is no such text before 1970, or after the year 9999, which a client may
/// claim; and programs that know time zones take none of its last day.
pub fn moment(moment: SystemTime) -> String {
    let latest = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_207_200);
    let moment = moment.clamp(SystemTime::UNIX_EPOCH, latest);
    humantime::format_rfc3339_millis(moment).to_string()
}

/// A moment by a server's clock. Programs get it as [`moment`] writes it, and another process of dblock's as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct ServerTime(pub SystemTime);

impl ServerTime {
    /// The microseconds since the start of 1970.
    pub fn micros(self) -> i64 {
        // As `clock::micros`, which the page does not have: this file is a part of it, too.
        let micros = self.since(Self::default()).as_micros();
        i64::try_from(micros).unwrap_or(i64::MAX)
    }

    /// The time since an earlier moment; zero: it is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.duration_since(earlier.0).unwrap_or_default()
    }

    /// The time between two moments, if there are two.
    pub fn between(from: Option<Self>, to: Option<Self>) -> Option<Duration> {
        Some(to?.since(from?))
    }
}

/// The start of 1970, for a moment that nobody has written.
impl Default for ServerTime {
    fn default() -> Self {
        Self(SystemTime::UNIX_EPOCH)
    }
}

impl Serialize for ServerTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            moment(self.0).serialize(serializer)
        } else {
            self.0.serialize(serializer)
        }
    }
}

/// A duration. Programs get it as [`seconds`] has it, and another process of dblock's as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Span(pub Duration);

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            seconds(self.0).serialize(serializer)
        } else {
            self.0.serialize(serializer)
        }
    }
}

/// A duration for programs: seconds, to the millisecond.
pub fn seconds(span: Duration) -> f64 {
    Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)).as_secs_f64()
}

/// A system error's text, without Rust's `(os error 2)`.
pub fn in_words(error: &impl Display) -> String {
    let text = error.to_string();
    text.split(" (os error ")
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// A number with its noun: `1 job`, `2 jobs`. The noun is given in the singular.
pub fn counted(number: impl TryInto<u64>, one: &str) -> String {
    match number.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {one}"),
        number => format!("{number} {one}s"),
    }
}

/// The beginning of a text, at most this many bytes, cut at a character.
pub fn cut_to_bytes(text: &str, longest: usize) -> &str {
    let end = (0..=longest.min(text.len())).rfind(|&at| text.is_char_boundary(at));
    &text[..end.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular_and_none_is_not() {
        let all = [0_u32, 1, 2].map(|number| counted(number, "dead worker"));
        assert_eq!(all, ["0 dead workers", "1 dead worker", "2 dead workers"]);
    }

    #[test]
    fn a_word_for_a_shell_is_quoted_where_it_must_be() {
        for (word, shown) in [
            ("nightly-1:a/b", "nightly-1:a/b"),
            ("ä", "ä"),
            ("", "''"),
            ("a b", "'a b'"),
            ("q'x", r"'q'\''x'"),
            ("$(x)", "'$(x)'"),
            ("-q r", "-- '-q r'"),
        ] {
            assert_eq!(argument_for_shell(word), shown);
        }
    }

    #[test]
    fn control_characters_are_made_visible_and_a_line_stays_one_line() {
        assert_eq!(printable("a\x1b[2Jb\nc\u{9b}"), "a\\u{1b}[2Jb c\\u{9b}");
    }

    #[test]
    fn what_turns_or_hides_text_is_made_visible() {
        for hidden in [
            '\u{200b}',
            '\u{200f}',
            '\u{202a}',
            '\u{202e}',
            '\u{2066}',
            '\u{2069}',
            '\u{2028}',
            '\u{2029}',
            '\u{feff}',
            '\u{34f}',
            '\u{115f}',
            '\u{180b}',
            '\u{3164}',
            '\u{fe00}',
            '\u{e0100}',
            '\u{e0080}',
            '\u{fff0}',
            '\u{1bca0}',
            '\u{1d173}',
            '\u{2800}',
            '\u{fe0e}',
            '\u{fe0f}',
        ] {
            let shown = format!("a\\u{{{:x}}}b", u32::from(hidden));
            assert_eq!(printable(&format!("a{hidden}b")), shown);
        }
        let shown = "naïve, שלום, 日本, 한국, ☀\u{fe0f}";
        assert_eq!(printable(shown), shown);
        assert_eq!(printable("☀\u{fe0f}\u{fe0f}"), "☀\u{fe0f}\\u{fe0f}");
    }

    #[test]
    fn a_text_is_as_wide_as_a_terminal_shows_it() {
        let widths = [
            "",
            "naïve",
            "nai\u{308}ve",
            "日本",
            "한",
            "ｱＡ",
            "🚀!",
            "שלום",
            "…",
        ]
        .map(width);
        assert_eq!(widths, [0, 5, 5, 4, 2, 3, 3, 4, 1]);
    }

    #[test]
    fn json_that_a_terminal_shows_is_the_same_to_a_program() {
        let text = "a\u{202e}\u{9b}\u{e0001}\n\"é";
        let json = json_printable(&serde_json::json!({ "x": text }).to_string());
        assert!(
            !json.contains(['\u{202e}', '\u{9b}', '\u{e0001}']),
            "{json}"
        );
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read["x"], text);
    }

    #[test]
    fn a_long_line_is_cut_at_a_character() {
        let cut = printable(&"é".repeat(5000));
        assert!(cut.len() < LONGEST_LINE + 10 && cut.ends_with('…'));
    }
}

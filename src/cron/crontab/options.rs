//! The comment above a job's line: `#: NAME [OPTION]...`. A new option needs a name in `OPTIONS`, a field, and a line in [`Options::read`].

use std::fmt::Write;
use std::time::Duration;

use crate::base::hooks::Hooks;
use crate::base::value::{duration, one_of, shown_safely, word_of};
use crate::history::KeepOutput;
use crate::lock::{DEFAULT_TTL, limits};

/// The options of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How long the command may run before SIGTERM; `None`: without limit.
    pub timeout: Option<Duration>,
    /// The time from SIGTERM to SIGKILL whenever dblock ends the command. At most a third of the TTL.
    pub kill_after: Duration,
    /// How long before a silent host counts as dead, and another host may take over its run. In whole seconds.
    pub ttl: Duration,
    /// How often a failed run is tried again.
    pub retries: u32,
    /// The delay after the first failure. It doubles with each attempt.
    pub retry_delay: Duration,
    /// What to do with ticks at which no dblock was running.
    pub missed: Missed,
    /// How old a missed tick may be to be made up for; `None`: without limit.
    pub deadline: Option<Duration>,
    /// What to do with a tick while an earlier one still runs.
    pub overlap: Overlap,
    /// The longest random delay of a tick's start; zero: none.
    pub jitter: Duration,
    /// Of which attempts the output is kept; `None`: as the daemon was told.
    pub keep_output: Option<KeepOutput>,
    /// What to run at the end of each attempt, in the place of what the daemon was told.
    pub hooks: Hooks,
}

/// What to do with ticks at which no dblock was running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missed {
    /// Make up for the latest one.
    Once,
    /// Make up for none.
    Skip,
    /// Make up for each, the oldest first.
    All,
}

/// What to do with a tick while an earlier one still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// Skip the tick.
    Skip,
    /// One tick waits, and others are skipped.
    Wait,
    /// Run both at the same time.
    Allow,
}

/// The words of an option, with their meanings.
const MISSED: [(&str, Missed); 3] = [
    ("once", Missed::Once),
    ("skip", Missed::Skip),
    ("all", Missed::All),
];
const OVERLAP: [(&str, Overlap); 3] = [
    ("skip", Overlap::Skip),
    ("wait", Overlap::Wait),
    ("allow", Overlap::Allow),
];

/// The options of a job. Those that `dblock run` also has a letter for have it here.
pub const OPTIONS: [(&str, Option<char>); 12] = [
    ("timeout", Some('t')),
    ("kill-after", Some('k')),
    ("ttl", None),
    ("retries", None),
    ("retry-delay", None),
    ("missed", None),
    ("deadline", None),
    ("overlap", None),
    ("jitter", None),
    ("keep-output", None),
    ("on-failure", None),
    ("on-end", None),
];

/// Options of `dblock run` that are not for a crontab, and what to use instead.
const REFUSED: [(&[&str], &str); 4] = [
    (
        &["name", "n"],
        "is not needed: the name is the first word behind #:",
    ),
    (
        &["wait", "w", "max-concurrency", "m", "slots"],
        "is no option of a job: each tick runs on one host, and --overlap says what happens while the last run goes on",
    ),
    (
        &[
            "durable",
            "record",
            "once-at",
            "once-per",
            "hold-at-least",
            "token",
        ],
        "is no option of a job: each tick runs once, durably and on record, by itself",
    ),
    (
        &["time-zone"],
        "is no option of a job: a line CRON_TZ=ZONE above it names the time zone",
    ),
];

/// The default deadline if the latest missed tick is made up for.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(3600);
const DEFAULT_RETRY_DELAY: Duration = Duration::from_secs(10);
const MOST_RETRIES: u32 = 1000;

impl Options {
    /// The options of a job without any.
    pub fn default_ones() -> Self {
        let (options, _) = Self::read(Given::default());
        options
    }

    /// Reads the words after the name. Also returns the mistakes in them, each as the end of a line.
    pub fn parse(words: &[String]) -> (Self, Vec<String>) {
        Self::read(Given::parse(words))
    }

    /// The options that differ from the default, one in each line, by name. So an option added by a later dblock does not change jobs
    /// without it.
    pub fn described(&self) -> String {
        let (own, default) = (self.texts(), Self::default_ones().texts());
        let mut lines = String::new();
        for (one, other) in own.iter().zip(&default) {
            if one != other {
                let (name, value) = one;
                let _ = writeln!(lines, "{name} {value}");
            }
        }
        lines
    }

    /// The names of all options, with their values as text.
    fn texts(&self) -> [(&'static str, String); 12] {
        let Self {
            timeout,
            kill_after,
            ttl,
            retries,
            retry_delay,
            missed,
            deadline,
            overlap,
            jitter,
            keep_output,
            hooks,
        } = self;
        let span = |span: &Duration| span.as_micros().to_string();
        let optional = |limit: &Option<Duration>| limit.as_ref().map_or_else(String::new, span);
        let given = |command: &Option<String>| {
            let given = command.as_ref().map(|command| format!("= {command}"));
            given.unwrap_or_default()
        };
        [
            ("timeout", optional(timeout)),
            ("kill-after", span(kill_after)),
            ("ttl", span(ttl)),
            ("retries", retries.to_string()),
            ("retry-delay", span(retry_delay)),
            ("missed", word_of(&MISSED, missed).to_owned()),
            ("deadline", optional(deadline)),
            ("overlap", word_of(&OVERLAP, overlap).to_owned()),
            ("jitter", span(jitter)),
            (
                "keep-output",
                keep_output
                    .map_or("", |keep| word_of(&KeepOutput::WORDS, &keep))
                    .to_owned(),
            ),
            ("on-failure", given(&hooks.on_failure)),
            ("on-end", given(&hooks.on_end)),
        ]
    }

    fn read(mut given: Given) -> (Self, Vec<String>) {
        let is_retried = given.has("retries");
        let gives_retry_delay = given.has("retry-delay");
        let timeout = given.take("timeout", duration);
        let ttl = given.take("ttl", limits::ttl).unwrap_or(DEFAULT_TTL);
        let kill_after = given.take("kill-after", |text| limits::kill_after(text, ttl));
        let missed = given.take("missed", |text| one_of(&MISSED, text));
        let missed = missed.unwrap_or(Missed::Once);
        let deadline = given.take("deadline", duration);
        if deadline.is_some() && missed == Missed::Skip {
            given.is_wrong("--deadline", "is that of --missed once and all");
        }
        if gives_retry_delay && !is_retried {
            given.is_wrong("--retry-delay", "is that of --retries, which is not given");
        }
        let overlap = given.take("overlap", |text| one_of(&OVERLAP, text));
        let options = Self {
            timeout: timeout.filter(|limit| !limit.is_zero()),
            kill_after: kill_after.unwrap_or_else(|| limits::default_kill_after(ttl)),
            ttl,
            retries: given.take("retries", retries).unwrap_or_default(),
            retry_delay: given
                .take("retry-delay", duration)
                .unwrap_or(DEFAULT_RETRY_DELAY),
            missed,
            deadline: match missed {
                Missed::Once => Some(deadline.unwrap_or(DEFAULT_DEADLINE)),
                Missed::All | Missed::Skip => deadline,
            },
            overlap: overlap.unwrap_or(Overlap::Skip),
            jitter: given.take("jitter", duration).unwrap_or_default(),
            keep_output: given.take("keep-output", KeepOutput::parse),
            hooks: Hooks {
                on_failure: given.take("on-failure", |text| Ok(text.to_owned())),
                on_end: given.take("on-end", |text| Ok(text.to_owned())),
            },
        };
        (options, given.mistakes)
    }
}

fn retries(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(retries) if retries <= MOST_RETRIES => Ok(retries),
        _ => Err(format!(
            "{} is not a number from 0 to {MOST_RETRIES}",
            shown_safely(text)
        )),
    }
}

/// The given options, with their values as text, and the mistakes.
#[derive(Default)]
struct Given {
    values: Vec<(&'static str, String)>,
    mistakes: Vec<String>,
}

impl Given {
    /// Parses `--option VALUE`, `--option=VALUE`, `-o VALUE` and `-oVALUE`, as usual for commands.
    fn parse(words: &[String]) -> Self {
        let mut given = Self::default();
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            let Some((option, value)) = option(word) else {
                let why = "is no option; what has a space in it stands in quotes";
                given.is_wrong(&shown_safely(word), why);
                continue;
            };
            let known = OPTIONS.iter().find(|(name, letter)| {
                option.strip_prefix("--") == Some(name)
                    || letter.is_some_and(|letter| *option == format!("-{letter}"))
            });
            // A negative number is a value.
            let is_option = |word: &str| {
                let rest = word.strip_prefix('-');
                rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
            };
            let value = match value {
                Some(value) => Some(value.to_owned()),
                None => words.next_if(|next| !is_option(next)).cloned(),
            };
            match (known, value) {
                (None, _) => given.is_wrong(option, &why_refused(option)),
                (Some(_), None) => given.is_wrong(option, "lacks its value"),
                (Some((name, _)), Some(_)) if given.has(name) => {
                    given.is_wrong(option, "is given twice");
                }
                (Some((name, _)), Some(value)) => given.values.push((name, value)),
            }
        }
        given
    }

    fn has(&self, option: &str) -> bool {
        self.values.iter().any(|(name, _)| *name == option)
    }

    /// The value of an option; `None` if it is missing or wrong.
    fn take<T>(&mut self, option: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let (_, text) = self.values.iter().find(|(name, _)| *name == option)?;
        match read(text) {
            Ok(value) => Some(value),
            Err(why) => {
                self.is_wrong(&format!("--{option}:"), &why);
                None
            }
        }
    }

    fn is_wrong(&mut self, what: &str, why: &str) {
        self.mistakes.push(format!("{what} {why}"));
    }
}

/// The option that a word names, with its dashes, and the value in the same word; `None` if it names none.
fn option(word: &str) -> Option<(&str, Option<&str>)> {
    if word.starts_with("--") {
        return Some(match word.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (word, None),
        });
    }
    let letter = word.strip_prefix('-')?.chars().next();
    let (option, value) = word.split_at(1 + letter.map_or(0, char::len_utf8));
    Some((option, Some(value).filter(|value| !value.is_empty())))
}

fn why_refused(option: &str) -> String {
    let name = option.trim_start_matches('-');
    let refused = REFUSED.iter().find(|(names, _)| names.contains(&name));
    refused.map_or_else(
        || {
            let names = OPTIONS.map(|(name, _)| format!("--{name}"));
            format!("is no option of a job; those are {}", names.join(", "))
        },
        |(_, why)| (*why).to_owned(),
    )
}

/// The words of a text. White space in single or double quotes is part of a word.
///
/// # Errors
/// A quote does not end, or a backslash stands in front of one; with the end of a line.
pub fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    if text.contains("\\\"") || text.contains("\\'") {
        let line = "a backslash is no escape: a text with \" in it stands between two ', and one with ' between two \"";
        return Err(line.to_owned());
    }
    for letter in text.chars() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    match quote {
        None => Ok(words),
        Some(quote) => Err(format!("a quote, {quote}, has no end")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Options, Vec<String>> {
        let (options, mistakes) = Options::parse(&words(text).unwrap());
        if mistakes.is_empty() {
            Ok(options)
        } else {
            Err(mistakes)
        }
    }

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_job_without_options_has_the_defaults() {
        let defaults = Options {
            timeout: None,
            kill_after: seconds(10),
            ttl: seconds(300),
            retries: 0,
            retry_delay: seconds(10),
            missed: Missed::Once,
            deadline: Some(seconds(3600)),
            overlap: Overlap::Skip,
            jitter: Duration::ZERO,
            keep_output: None,
            hooks: Hooks::default(),
        };
        assert_eq!(Options::default_ones(), defaults);
        assert_eq!(parsed(""), Ok(defaults));
    }

    #[test]
    fn every_option_is_read() {
        let all = "--timeout 30m --kill-after=5s --ttl 1m --retries 2 --retry-delay 1m --missed all --deadline 6h \
                   --overlap wait --jitter 30 --keep-output all \
                   --on-failure 'page me' --on-end=true";
        let options = Options {
            timeout: Some(seconds(1800)),
            kill_after: seconds(5),
            ttl: seconds(60),
            retries: 2,
            retry_delay: seconds(60),
            missed: Missed::All,
            deadline: Some(seconds(6 * 3600)),
            overlap: Overlap::Wait,
            jitter: seconds(30),
            keep_output: Some(KeepOutput::All),
            hooks: Hooks {
                on_failure: Some("page me".to_owned()),
                on_end: Some("true".to_owned()),
            },
        };
        assert_eq!(parsed(all), Ok(options));
        for (option, _) in OPTIONS {
            assert!(all.contains(&format!("--{option}")), "{option}");
        }
    }

    #[test]
    fn options_are_written_as_for_a_command() {
        let timeout = |text| parsed(text).unwrap().timeout;
        for text in [
            "--timeout '1h 30m'",
            "--timeout=\"1h 30m\"",
            "-t 90m",
            "-t90m",
            "-t '1h 30m'",
            "  --timeout   5400  ",
        ] {
            assert_eq!(timeout(text), Some(seconds(5400)), "{text}");
        }
        assert_eq!(timeout("--timeout 0"), None);
        assert_eq!(parsed("-k 2s").unwrap().kill_after, seconds(2));
        assert_eq!(parsed("--ttl 4s").unwrap().kill_after, seconds(1));
        assert_eq!(parsed("--missed all").unwrap().deadline, None);
        assert_eq!(parsed("--missed skip").unwrap().deadline, None);
    }

    #[test]
    fn everything_that_is_wrong_is_told() {
        let all = "--timeout, --kill-after, --ttl, --retries, --retry-delay, --missed, --deadline, --overlap, --jitter, --keep-output, \
                   --on-failure, --on-end";
        let none = format!("is no option of a job; those are {all}");
        for (text, mistakes) in [
            ("--timout 3", &[format!("--timout {none}")][..]),
            ("-x3 --foo=3", &[format!("-x {none}"), format!("--foo {none}")]),
            ("-- 3", &[format!("-- {none}")]),
            ("-", &[format!("- {none}")]),
            ("---t 3", &[format!("---t {none}")]),
            ("--t 3", &[format!("--t {none}")]),
            ("--timeout", &["--timeout lacks its value".to_owned()]),
            ("--timeout --jitter 3", &["--timeout lacks its value".to_owned()]),
            (
                "--timeout 1h 30m",
                &["\"30m\" is no option; what has a space in it stands in quotes".to_owned()],
            ),
            ("-t 3 --timeout 4", &["--timeout is given twice".to_owned()]),
            (
                "--timeout x --overlap y --missed z --retries -1 --ttl 3s",
                &[
                    "--timeout: \"x\" is not a duration; write 90s, 5m, 1h 30m or 0.5".to_owned(),
                    "--ttl: \"3s\" is not whole seconds from 4s to 1d".to_owned(),
                    "--missed: \"z\" is neither once nor skip nor all".to_owned(),
                    "--overlap: \"y\" is neither skip nor wait nor allow".to_owned(),
                    "--retries: \"-1\" is not a number from 0 to 1000".to_owned(),
                ],
            ),
            (
                "--retries 1001",
                &["--retries: \"1001\" is not a number from 0 to 1000".to_owned()],
            ),
            (
                "--retry-delay 3",
                &["--retry-delay is that of --retries, which is not given".to_owned()],
            ),
            (
                "--missed skip --deadline 3",
                &["--deadline is that of --missed once and all".to_owned()],
            ),
            (
                "--ttl 30s --kill-after 11s",
                &["--kill-after: 11s is more than a third of the TTL, which is 30s; the command must have ended before the \
                   server gives its lock away"
                    .to_owned()],
            ),
            (
                "--name x --durable",
                &[
                    "--name is not needed: the name is the first word behind #:".to_owned(),
                    "--durable is no option of a job: each tick runs once, durably and on record, by itself".to_owned(),
                ],
            ),
        ] {
            assert_eq!(parsed(text).unwrap_err(), mistakes, "{text}");
        }
        assert_eq!(words("a 'b").unwrap_err(), "a quote, ', has no end");
        for escaped in [r#"a "say \"b\"""#, r"a 'it\'s'"] {
            let wrong = words(escaped).unwrap_err();
            assert!(wrong.starts_with("a backslash is no escape"), "{wrong}");
        }
    }
}

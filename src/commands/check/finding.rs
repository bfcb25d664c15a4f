//! The findings about a server, as a table for people and as JSON for programs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::text::printable;

/// A statement that takes longer is a warning.
pub const SLOW: Duration = Duration::from_millis(500);

/// Most columns of the table, unless a single word is longer.
const WIDTH: usize = 96;

/// Most bytes of a value or an advice: either may come from the server.
const LONGEST: usize = 500;

/// What a finding means for locks, in order of severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Fine, or without effect on locks.
    Ok,
    /// Locks exclude, but there is something to know or to do.
    Warning,
    /// Locks would not exclude.
    Unfit,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Unfit => "UNFIT",
        }
    }
}

/// A finding about a server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Finding {
    /// The name of the check, in words joined by `_`.
    check: String,
    verdict: Verdict,
    value: String,
    /// What to do, or what to know.
    advice: Option<String>,
    /// Further members for programs, by their names.
    data: Vec<(String, Member)>,
}

/// A finding for programs.
#[derive(Debug, Serialize)]
pub struct FindingJson<'a> {
    check: &'a str,
    verdict: Verdict,
    value: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'a str>,
    /// The further members.
    #[serde(flatten)]
    data: BTreeMap<&'a str, Value>,
}

/// All findings about a server, for programs.
#[derive(Debug, Serialize)]
pub struct FindingsJson<'a> {
    server: String,
    verdict: Verdict,
    findings: Vec<FindingJson<'a>>,
}

/// The value of a member for programs.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Member {
    Flag(bool),
    Count(u64),
    Fraction(f64),
    Text(String),
}

impl Finding {
    /// A finding that is fine.
    pub fn ok(check: &str, value: &str) -> Self {
        Self {
            check: check.to_owned(),
            verdict: Verdict::Ok,
            value: short(value),
            advice: None,
            data: Vec::new(),
        }
    }

    /// A duration, which is a warning if it is longer than `slow`.
    pub fn time(check: &str, span: Duration, slow: Duration, advice: &str) -> Self {
        let seconds = span.as_secs_f64();
        let found =
            Self::ok(check, &format!("{:.2} ms", seconds * 1000.0)).with("seconds", seconds);
        if span > slow {
            found.warning(advice)
        } else {
            found
        }
    }

    /// Adds something to know that is no fault.
    pub fn note(self, advice: &str) -> Self {
        let advice = Some(short(advice));
        Self { advice, ..self }
    }

    /// Turns it into a warning.
    pub fn warning(self, advice: &str) -> Self {
        let verdict = Verdict::Warning;
        Self { verdict, ..self }.note(advice)
    }

    /// Turns it into a reason why locks would not exclude. `why` continues a sentence that starts with the server's name.
    pub fn unfit(self, why: &impl ToString) -> Self {
        let verdict = Verdict::Unfit;
        Self { verdict, ..self }.note(&format!("it {}", why.to_string()))
    }

    /// Adds a member for programs.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        let member = match value.into() {
            Value::Bool(flag) => Member::Flag(flag),
            Value::Number(number) => number.as_u64().map_or_else(
                || Member::Fraction(number.as_f64().unwrap_or_default()),
                Member::Count,
            ),
            value => Member::Text(short(value.as_str().unwrap_or_default())),
        };
        self.data.push((key.to_owned(), member));
        self
    }

    /// All of it for programs.
    pub fn for_programs(&self) -> FindingJson<'_> {
        let data = self.data.iter().map(|(key, member)| {
            let value = match member {
                Member::Flag(flag) => Value::from(*flag),
                Member::Count(count) => Value::from(*count),
                Member::Fraction(fraction) => Value::from(*fraction),
                Member::Text(text) => Value::from(text.as_str()),
            };
            (key.as_str(), value)
        });
        FindingJson {
            check: &self.check,
            verdict: self.verdict,
            value: &self.value,
            advice: self.advice.as_deref(),
            data: data.collect(),
        }
    }

    /// The name of the check, for people.
    pub fn label(&self) -> String {
        self.check.replace('_', " ")
    }
}

/// Texts from the server must not control the terminal, or flood it.
fn short(text: &str) -> String {
    let text = printable(text);
    match text.char_indices().find(|(at, _)| *at >= LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// All findings about a server.
pub struct Findings {
    /// The server's address.
    pub server: String,
    all: Vec<Finding>,
}

impl Findings {
    /// The findings about this server.
    pub fn new(server: String, all: Vec<Finding>) -> Self {
        Self { server, all }
    }

    /// The most severe verdict.
    pub fn verdict(&self) -> Verdict {
        let verdicts = self.all.iter().map(|finding| finding.verdict);
        verdicts.max().unwrap_or(Verdict::Ok)
    }

    /// What `--json` prints, as `docs/check.schema.json` says.
    pub fn for_programs(&self) -> FindingsJson<'_> {
        FindingsJson {
            server: printable(&self.server),
            verdict: self.verdict(),
            findings: self.all.iter().map(Finding::for_programs).collect(),
        }
    }

    /// The verdict, and one or more lines for each finding.
    pub fn table(&self) -> String {
        let warnings = self
            .all
            .iter()
            .filter(|finding| finding.verdict == Verdict::Warning);
        let verdict = match (self.verdict(), warnings.count()) {
            (Verdict::Unfit, _) => "NOT fit to lock on".to_owned(),
            (_, 0) => "fit to lock on".to_owned(),
            (_, 1) => "fit to lock on, with one warning".to_owned(),
            (_, count) => format!("fit to lock on, with {count} warnings"),
        };
        let mut table = format!("{} is {verdict}\n\n", printable(&self.server));
        let labels = self.all.iter().map(|finding| finding.label().len());
        let column = labels.max().unwrap_or_default();
        let indent = " ".repeat("warning".len() + 2 + column + 2);
        for finding in &self.all {
            let (verdict, label) = (finding.verdict.word(), finding.label());
            let mut start = format!("{verdict:7}  {label:column$}  ");
            let texts = [Some(&finding.value), finding.advice.as_ref()];
            for line in texts
                .into_iter()
                .flatten()
                .flat_map(|text| wrapped(text, WIDTH - indent.len()))
            {
                let _ = writeln!(table, "{start}{line}");
                start.clone_from(&indent);
            }
        }
        table
    }
}

/// Breaks a text between words into lines of at most `width` characters.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("one is there");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_no_wider_than_it_should_be_and_keeps_every_word() {
        let words = "word ".repeat(70);
        let finding = Finding::ok("some_thing", &words).warning(&words);
        let findings = Findings::new("server".to_owned(), vec![finding]);
        let table = findings.table();
        assert!(table.lines().all(|line| line.chars().count() <= WIDTH));
        assert_eq!(table.matches("word").count(), 140);
        assert!(table.starts_with(
            "server is fit to lock on, with one warning\n\nwarning  some thing  word"
        ));
    }

    #[test]
    fn what_a_server_says_is_of_bounded_length_and_cannot_steer_a_terminal() {
        let finding = Finding::ok("x", &"é\x1b[2J\n".repeat(10_000));
        assert!(finding.value.len() < LONGEST + 10);
        assert!(!finding.value.contains(char::is_control));
    }
}

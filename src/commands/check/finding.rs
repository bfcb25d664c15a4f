//! What was found about a server, as a table for people and as JSON for programs.

use std::fmt::Write;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::base::text::printable;

/// A statement should not take longer.
pub const SLOW: Duration = Duration::from_millis(500);

/// Columns of the table at most, where no single word is longer.
const WIDTH: usize = 96;

/// Bytes of a value, and of an advice, at most: it may come from the server.
const LONGEST: usize = 500;

/// What a finding means for a lock. The order is that of the weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be, or of no weight.
    Ok,
    /// A lock excludes, but something is to be known or done.
    Warning,
    /// A lock would not exclude.
    Unfit,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Unfit => "UNFIT",
        }
    }
}

/// One thing that was found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Finding {
    /// What was looked at, in words joined by `_`.
    check: String,
    state: State,
    value: String,
    /// What to do, or to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
    /// For programs: numbers, and texts by themselves.
    #[serde(flatten)]
    data: Map<String, Value>,
}

impl Finding {
    /// As it should be.
    pub fn ok(check: &str, value: &str) -> Self {
        Self {
            check: check.to_owned(),
            state: State::Ok,
            value: short(value),
            advice: None,
            data: Map::new(),
        }
    }

    /// A time, which is a warning where it is longer than `slow`.
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

    /// With something to know that is no fault.
    pub fn note(self, advice: &str) -> Self {
        let advice = Some(short(advice));
        Self { advice, ..self }
    }

    /// Turns it into a warning.
    pub fn warning(self, advice: &str) -> Self {
        let state = State::Warning;
        Self { state, ..self }.note(advice)
    }

    /// Turns it into the reason why a lock would not exclude; `why` goes on from the server's name.
    pub fn unfit(self, why: &impl ToString) -> Self {
        let state = State::Unfit;
        Self { state, ..self }.note(&format!("it {}", why.to_string()))
    }

    /// With something for programs.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        let value = match value.into() {
            Value::String(text) => short(&text).into(),
            other => other,
        };
        self.data.insert(key.to_owned(), value);
        self
    }

    /// What was looked at, for people.
    pub fn label(&self) -> String {
        self.check.replace('_', " ")
    }
}

/// What a server says can neither steer a terminal nor flood it.
fn short(text: &str) -> String {
    let text = printable(text);
    match text.char_indices().find(|(at, _)| *at >= LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// All that was found about a server.
pub struct Findings {
    /// Its address.
    pub server: String,
    all: Vec<Finding>,
}

impl Findings {
    /// What was found about this server.
    pub fn new(server: String, all: Vec<Finding>) -> Self {
        Self { server, all }
    }

    /// The weightiest state.
    pub fn verdict(&self) -> State {
        let states = self.all.iter().map(|finding| finding.state);
        states.max().unwrap_or(State::Ok)
    }

    /// One object, in lines.
    pub fn json(&self) -> String {
        let whole = json!({
            "server": printable(&self.server),
            "verdict": self.verdict(),
            "findings": self.all,
        });
        format!("{whole:#}\n")
    }

    /// The verdict, and a line or more for each finding.
    pub fn table(&self) -> String {
        let warnings = self
            .all
            .iter()
            .filter(|finding| finding.state == State::Warning);
        let verdict = match (self.verdict(), warnings.count()) {
            (State::Unfit, _) => "NOT fit to lock on".to_owned(),
            (_, 0) => "fit to lock on".to_owned(),
            (_, 1) => "fit to lock on, with one warning".to_owned(),
            (_, count) => format!("fit to lock on, with {count} warnings"),
        };
        let mut table = format!("{} is {verdict}\n\n", printable(&self.server));
        let labels = self.all.iter().map(|finding| finding.label().len());
        let column = labels.max().unwrap_or_default();
        let indent = " ".repeat("warning".len() + 2 + column + 2);
        for finding in &self.all {
            let (state, label) = (finding.state.word(), finding.label());
            let mut start = format!("{state:7}  {label:column$}  ");
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

/// Lines of at most so many characters, broken between words.
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

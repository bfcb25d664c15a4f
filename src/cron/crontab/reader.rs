//! Reads a crontab line by line. Returns its jobs and its mistakes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

use sha2::{Digest, Sha256};

use super::line::{self, BLANK};
use super::options::{Options, words};
use super::{Job, Mistake, Variables, program};
use crate::base::text::cut_to_bytes;
use crate::cron::{Schedule, Zone};
use crate::lock::Name;

/// Most jobs in a crontab, and most settings, as in cronie.
const MOST_JOBS: usize = 10_000;
const MOST_SETTINGS: usize = 1000;

/// Longest line in bytes. The kernel accepts no longer command or variable (`MAX_ARG_STRLEN`, including the final NUL).
const LONGEST_LINE: usize = 128 * 1024 - 1;

/// Longest schedule in characters: the tables' column has no more room.
pub const LONGEST_SCHEDULE: usize = 1000;

/// After this many mistakes the rest is not read.
const MOST_MISTAKES: usize = 100;

/// The variable with the time zone of the lines below it.
const ZONE: &str = "CRON_TZ";

/// The start of dblock's own comments.
const NAMING: &str = "#:";

/// For the derived name of a job: most bytes of its program's name, and the number of hash digits.
const LONGEST_STEM: usize = 40;
const HASH_DIGITS: usize = 8;

/// The state of reading a crontab.
pub struct Reader {
    jobs: Vec<Job>,
    mistakes: Vec<Mistake>,
    /// The jobs' names in lower case, each with the name as written and its line.
    names: HashMap<String, (Name, usize)>,
    /// The zone of the following lines; `None`: unknown.
    zone: Option<Zone>,
    has_told_of_zone: bool,
    variables: Variables,
    settings: usize,
    /// Whether the rest is skipped.
    is_over: bool,
    comment: Option<Comment>,
}

/// A `#:` comment, until the next line is read.
struct Comment {
    line: usize,
    /// `None`: it is not valid.
    name: Option<Name>,
    options: Options,
}

impl Reader {
    pub fn new(zone_of_host: Option<Zone>) -> Self {
        Self {
            jobs: Vec::new(),
            mistakes: Vec::new(),
            names: HashMap::new(),
            zone: zone_of_host,
            has_told_of_zone: false,
            variables: Rc::default(),
            settings: 0,
            is_over: false,
            comment: None,
        }
    }

    /// Reads a file. Returns its jobs and its mistakes.
    pub fn read(mut self, bytes: &[u8]) -> (Vec<Job>, Vec<Mistake>) {
        let mark = bytes.strip_prefix(b"\xef\xbb\xbf");
        if mark.is_some() {
            let why = "the file begins with a byte order mark; save it as UTF-8 without one";
            self.is_wrong(1, why);
        }
        let mut has_told_of_ends = false;
        for (line, number) in mark
            .unwrap_or(bytes)
            .split_inclusive(|&byte| byte == b'\n')
            .zip(1..)
        {
            if self.mistakes.len() >= MOST_MISTAKES {
                self.is_too_much(number, "too much is wrong; the rest is not read");
            }
            if self.is_over {
                break;
            }
            let line = line.strip_suffix(b"\n").unwrap_or_else(|| {
                let why = "the last line has no line break: the file may be cut off";
                self.is_wrong(number, why);
                line
            });
            let line = line.strip_suffix(b"\r").map_or(line, |line| {
                if !has_told_of_ends {
                    let why = "the line ends in CR LF; save the file with LF alone";
                    self.is_wrong(number, why);
                }
                has_told_of_ends = true;
                line
            });
            self.line(line, number);
        }
        self.end_of_comment();
        (self.jobs, self.mistakes)
    }

    fn is_wrong(&mut self, line: usize, why: impl Into<String>) {
        self.mistakes.push(Mistake {
            line: Some(line),
            why: why.into(),
        });
    }

    fn is_too_much(&mut self, line: usize, why: &str) {
        self.is_wrong(line, why);
        self.comment = None;
        self.is_over = true;
    }

    fn line(&mut self, line: &[u8], number: usize) {
        let why = match str::from_utf8(line) {
            Err(_) => "the line is not UTF-8",
            Ok(_) if line.contains(&0) => "the line contains a NUL byte",
            Ok(_) if line.len() > LONGEST_LINE => "the line is longer than 128 KiB",
            Ok(line) => return self.text(line.trim_start_matches(BLANK), number),
        };
        self.is_wrong(number, why);
        // The comment may have been for this line.
        self.comment = None;
    }

    fn text(&mut self, line: &str, number: usize) {
        if line.is_empty() || line.starts_with('#') {
            self.end_of_comment();
            if let Some(text) = line.strip_prefix(NAMING) {
                self.comment = Some(self.named(text, number));
            }
        } else if let Some((name, value)) = line::setting(line) {
            self.end_of_comment();
            self.setting(name, value, number);
        } else if line::looks_like_setting(line) {
            self.end_of_comment();
            let why = "the value's quotes are not closed, or something stands behind them";
            self.is_wrong(number, why);
        } else {
            self.job(line, number);
        }
    }

    /// Reports a comment that names a job, but is not followed by one.
    fn end_of_comment(&mut self) {
        if let Some(comment) = self.comment.take() {
            let why = "#: names the job in the line right below it, and there is none";
            self.is_wrong(comment.line, why);
        }
    }

    fn named(&mut self, text: &str, number: usize) -> Comment {
        let words = match words(text) {
            Ok(words) => words,
            Err(why) => {
                self.is_wrong(number, why);
                return Comment {
                    line: number,
                    name: None,
                    options: Options::default_ones(),
                };
            }
        };
        let (name, words) = match words.split_first() {
            Some((name, words)) if !name.starts_with('-') => (name.as_str(), words),
            _ => ("", &*words),
        };
        let name = match Name::parse(name) {
            Ok(name) => Some(name),
            Err(why) => {
                let why = match name {
                    "" => "a name stands first behind #:".to_owned(),
                    name => format!("the name {name:?} {why}"),
                };
                self.is_wrong(number, why);
                None
            }
        };
        let (options, mistakes) = Options::parse(words);
        for why in mistakes {
            self.is_wrong(number, why);
        }
        Comment {
            line: number,
            name,
            options,
        }
    }

    fn setting(&mut self, name: &str, value: &str, number: usize) {
        self.settings += 1;
        if self.settings > MOST_SETTINGS {
            return self.is_too_much(number, "more than 1000 lines set variables");
        }
        if name.is_empty() {
            return self.is_wrong(number, "a variable's name is missing in front of =");
        }
        if name == ZONE {
            self.zone = Zone::parse(value)
                .map_err(|why| self.is_wrong(number, format!("{ZONE}: {why}")))
                .ok();
            self.has_told_of_zone = true;
        }
        let mut variables = self.variables.to_vec();
        match variables.iter_mut().find(|(known, _)| **known == *name) {
            Some((_, known)) => *known = value.into(),
            None => variables.push((name.into(), value.into())),
        }
        self.variables = variables.into();
    }

    fn job(&mut self, line: &str, number: usize) {
        let comment = self.comment.take();
        if !line.starts_with(|c: char| c.is_ascii_digit() || "*@~-".contains(c)) {
            let why =
                "neither a job, five fields of time and a command, nor a variable, NAME=VALUE";
            return self.is_wrong(number, why);
        }
        let (fields, rest) = line::schedule_and_rest(line);
        let fields = fields.join(" ");
        let (name, options) = if let Some(comment) = comment {
            let is_new = |name: &Name| self.is_new(name, comment.line, true);
            (comment.name.filter(is_new), comment.options)
        } else {
            let name = self.derived_name(&fields, rest);
            let is_new = self.is_new(&name, number, false);
            (is_new.then_some(name), Options::default_ones())
        };
        if self.zone.is_none() && !self.has_told_of_zone {
            self.has_told_of_zone = true;
            let why = "a line CRON_TZ=ZONE is needed above it: the time zone of this host has no IANA name";
            self.is_wrong(number, why);
        }
        let zone = self.zone.clone().unwrap_or(Zone::UTC);
        let seed = name.as_ref().map_or_else(String::new, Name::to_string);
        if fields.chars().count() > LONGEST_SCHEDULE {
            let why = "the schedule has more than 1000 characters";
            return self.is_wrong(number, why);
        }
        let schedule = match Schedule::parse(&fields, zone, &seed) {
            Ok(schedule) => schedule,
            Err(why) => return self.is_wrong(number, why),
        };
        let (command, input) = line::command_and_input(rest);
        if let Some(why) = why_no_command(&command) {
            return self.is_wrong(number, why);
        }
        if self.jobs.len() == MOST_JOBS {
            return self.is_too_much(number, "there are more than 10000 jobs");
        }
        if let Some(name) = name {
            self.jobs.push(Job {
                name,
                line: number,
                fields,
                schedule,
                command,
                input,
                variables: Rc::clone(&self.variables),
                options,
            });
        }
    }

    /// The name of a job without a comment: its program's name, and a hash of the line and of its time zone. It is the same on every host,
    /// and stays the same wherever the line stands in the file.
    fn derived_name(&self, fields: &str, rest: &str) -> Name {
        let zone = self.variables.iter().find(|(name, _)| **name == *ZONE);
        let zone = zone.map_or("", |(_, zone)| zone);
        let hash = Sha256::digest(format!("{zone}\n{fields}\n{rest}"));
        let hash = format!("{hash:x}");
        let (command, _) = line::command_and_input(rest);
        let name = format!("{}-{}", stem(&command), &hash[..HASH_DIGITS]);
        Name::parse(&name).expect("letters, digits and dots")
    }

    /// Notes a name. It is a mistake if another job has it.
    fn is_new(&mut self, name: &Name, line: usize, is_written: bool) -> bool {
        let (other, line_of_other) = match self.names.entry(name.to_string().to_lowercase()) {
            Entry::Vacant(free) => {
                free.insert((name.clone(), line));
                return true;
            }
            Entry::Occupied(taken) => taken.get().clone(),
        };
        let why = if !is_written {
            format!(
                "the same as line {line_of_other}; to run both, name one of them by a line #: NAME above it"
            )
        } else if other == *name {
            format!("the job of line {line_of_other} has the name {name} too")
        } else {
            format!(
                "{name} differs from {other}, the name in line {line_of_other}, in the case of letters alone, and MySQL does not tell that apart"
            )
        };
        self.is_wrong(line, why);
        false
    }
}

/// The start of a derived name: the program, as far as it consists of letters, digits, dots, dashes and underscores.
fn stem(command: &str) -> String {
    let is_other = |c: char| !c.is_ascii_alphanumeric() && !"._-".contains(c);
    let program = program(command).unwrap_or_default();
    let program = program.trim_start_matches(is_other);
    let program = program.split(is_other).next().unwrap_or_default();
    match cut_to_bytes(program, LONGEST_STEM) {
        "" => "job".to_owned(),
        stem => stem.to_owned(),
    }
}

fn why_no_command(command: &str) -> Option<&'static str> {
    match command.trim_start_matches(BLANK).chars().next() {
        None => Some("a command is missing behind the schedule"),
        Some('*') => {
            Some("the command begins with *: a schedule has five fields, and none for seconds")
        }
        Some('-') => Some(
            "the command begins with -, as an option of some crons, which dblock does not have",
        ),
        Some(_) => None,
    }
}

//! Reads a user's crontab(5). The input is bytes, and the result is its jobs, or all of its mistakes. Everything that plain cron reads is
//! read as in cronie; `#:` comments are dblock's own.
//!
//! The differences to cronie:
//!
//! - Each job has a unique name, from a `#:` comment or derived from its line.
//! - A schedule is refused where `cron` says so. So are `-` at the start of a line, and `-n` before a command.
//! - A line that ends in CR LF is refused: cron would run the command with a CR at its end.
//! - `RANDOM_DELAY` is an ordinary variable. Each job has its own `--jitter`.

mod file;
mod line;
mod options;
mod reader;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod year;

use std::rc::Rc;

use super::{Schedule, Zone};
use crate::lock::Name;
use reader::Reader;

pub use file::load;
pub use options::{DEFAULT_DEADLINE, Missed, Options, Overlap};

/// The jobs of a crontab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crontab {
    /// In the order of the file. At least one, and no two with the same name, regardless of case.
    pub jobs: Vec<Job>,
}

/// Variables of a command: names and values.
pub type Variables = Rc<[(Rc<str>, Rc<str>)]>;

/// A job of a crontab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its name.
    pub name: Name,
    /// The number of its line, from 1.
    pub line: usize,
    /// Its five fields, or its nickname, with one space between them.
    pub fields: String,
    /// When it is due.
    pub schedule: Schedule,
    /// The command for the shell, without the part after the first `%`.
    pub command: String,
    /// The command's stdin; may be empty.
    pub input: String,
    /// The variables set above its line, including `CRON_TZ`. Each name appears once, in the order of its first setting. Cron's defaults
    /// `SHELL`, `HOME`, `PATH` and `LOGNAME` are not included.
    pub variables: Variables,
    /// How it is run.
    pub options: Options,
}

/// What ends a word of a shell. After `=` comes the value of a variable, which may be a secret.
const ENDS: [char; 11] = [' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')', '='];

/// The program of a command, as far as that is clear without a shell: its first word behind plain settings of variables, without its
/// folder; `None`: it has no such word. Of a variable that is set to anything else it is the variable's name.
pub fn program(command: &str) -> Option<String> {
    let mut rest = command.trim_start();
    while let Some((word, behind)) = rest.split_once([' ', '\t'])
        && sets_plainly(word)
    {
        rest = behind.trim_start();
    }
    let word = rest.split(ENDS).find(|word| !word.is_empty())?;
    let name = word.rsplit('/').next().unwrap_or_default();
    let name = name.trim_matches(['"', '\'']);
    (!name.is_empty()).then(|| name.to_owned())
}

/// Whether a word is `NAME=value`, and ends where the value does, as that has no quotes and nothing else that a shell expands.
fn sets_plainly(word: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-+./:,@%".contains(c);
    word.split_once('=').is_some_and(|(name, value)| {
        !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && value.chars().all(is_plain)
    })
}

/// A mistake in a crontab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The line, from 1; `None`: the file as a whole.
    pub line: Option<usize>,
    /// What is wrong, and what to do.
    pub why: String,
}

impl Crontab {
    /// Reads a crontab. Jobs without `CRON_TZ` are in the host's zone.
    ///
    /// # Errors
    /// All mistakes, in the order of their lines. Then there is no crontab at all, because some of its jobs without the others are not what
    /// was meant.
    pub fn parse(bytes: &[u8], zone_of_host: Option<&Zone>) -> Result<Self, Vec<Mistake>> {
        let (jobs, mut mistakes) = Reader::new(zone_of_host.cloned()).read(bytes);
        if jobs.is_empty() && mistakes.is_empty() {
            mistakes.push(Mistake {
                line: None,
                why: "there is no job in it".to_owned(),
            });
        }
        if mistakes.is_empty() {
            Ok(Self { jobs })
        } else {
            mistakes.sort_by_key(|mistake| mistake.line);
            Err(mistakes)
        }
    }
}

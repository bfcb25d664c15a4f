//! Reads a crontab(5) as a user's own: bytes in, and jobs out, or everything that is wrong. What plain cron reads in the file is read
//! as cronie reads it; `#:` comments are dblock's.
//!
//! The differences to cronie:
//!
//! - A job has a name, which is unique: from a `#:` comment, or made of its line.
//! - A schedule is refused where `cron` says so. So are `-` in front of a line, and `-n` in front of a command.
//! - A line that ends in CR LF is refused: cron runs the command with a CR at its end.
//! - `RANDOM_DELAY` is a variable as any other: `--jitter` is a job's own.

mod file;
mod line;
mod options;
mod program;
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
pub use program::program;

/// The jobs of a crontab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crontab {
    /// In the order of the file; at least one, and no two with one name, whatever the case of its letters.
    pub jobs: Vec<Job>,
}

/// Variables of a command: names and values.
pub type Variables = Rc<[(Rc<str>, Rc<str>)]>;

/// A job of a crontab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its name.
    pub name: Name,
    /// The line of its schedule and command, from 1.
    pub line: usize,
    /// Its five fields, or its nickname, with one space between them.
    pub fields: String,
    /// When it is due.
    pub schedule: Schedule,
    /// What the shell runs, without the part behind the first `%`.
    pub command: String,
    /// What the command gets on stdin; empty: nothing.
    pub input: String,
    /// What is set above its line, `CRON_TZ` too; each name once, in the order in which they were first set. The defaults of cron, `SHELL`,
    /// `HOME`, `PATH` and `LOGNAME`, are not among them.
    pub variables: Variables,
    /// How it is run.
    pub options: Options,
}

/// Something that is wrong in a crontab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The line, from 1; `None`: the file as a whole.
    pub line: Option<usize>,
    /// What is wrong, and what to do.
    pub why: String,
}

impl Crontab {
    /// Reads a crontab. Jobs above which no `CRON_TZ` is set are in the host's zone.
    ///
    /// # Errors
    /// Everything that is wrong, by lines. There is no crontab then, as some jobs without the others are not what was meant.
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

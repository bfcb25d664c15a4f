//! What commands write down about themselves: when they started and when they ended.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A folder with the records of commands that ran.
#[derive(Debug)]
pub struct Records {
    folder: TempDir,
}

/// One command's record, in nanoseconds of one clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    pub id: usize,
    pub start: u64,
    /// `None` while it runs, or if it was killed.
    pub end: Option<u64>,
}

impl Records {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a scratch folder"),
        }
    }

    /// The folder, for more files.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    fn file(&self) -> PathBuf {
        self.path().join("records")
    }

    /// A command that records start and end under the number `id`.
    pub fn command(&self, id: usize) -> [String; 3] {
        self.command_around(id, "")
    }

    /// A command that records start and end under the number `id`, and runs shell commands between.
    pub fn command_around(&self, id: usize, between: &str) -> [String; 3] {
        let file = self.file();
        let note = |what: &str| format!("echo {what} {id} $(date +%s%N) >>'{}'", file.display());
        [
            "sh".into(),
            "-c".into(),
            format!("{}\n{between}\n{}", note("start"), note("end")),
        ]
    }

    /// All records, in the order of the starts.
    pub fn intervals(&self) -> Vec<Interval> {
        let text = fs::read_to_string(self.file()).unwrap_or_default();
        let mut intervals: Vec<Interval> = Vec::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [what, id, time] = words[..] else {
                panic!("a torn record: {line:?}")
            };
            let (id, time) = (id.parse().expect("a number"), time.parse().expect("a time"));
            if what == "start" {
                intervals.push(Interval {
                    id,
                    start: time,
                    end: None,
                });
            } else {
                let open = intervals
                    .iter_mut()
                    .rfind(|interval| interval.id == id && interval.end.is_none());
                open.unwrap_or_else(|| panic!("an end without a start: {line:?}"))
                    .end = Some(time);
            }
        }
        intervals.sort_by_key(|interval| interval.start);
        intervals
    }

    /// Every command ended before the next one started.
    #[track_caller]
    pub fn assert_no_overlap(&self) -> &Self {
        let intervals = self.intervals();
        for pair in intervals.windows(2) {
            let apart = pair[0].end.is_some_and(|end| end <= pair[1].start);
            assert!(apart, "two at once: {pair:?}\nof {intervals:?}");
        }
        self
    }

    /// No more than so many commands ran at once. One without an end was killed, nobody knows when: it does not count.
    #[track_caller]
    pub fn assert_at_most(&self, most: usize) -> &Self {
        let intervals = self.intervals();
        for one in &intervals {
            let at_its_start = |other: &&Interval| {
                other.start <= one.start && other.end.is_some_and(|end| end > one.start)
            };
            let running = intervals.iter().filter(at_its_start).count();
            assert!(
                running <= most,
                "{running} at once at the start of {one:?}\nof {intervals:?}"
            );
        }
        self
    }

    /// The numbers of the commands in the order of their starts.
    pub fn order(&self) -> Vec<usize> {
        self.intervals()
            .iter()
            .map(|interval| interval.id)
            .collect()
    }
}

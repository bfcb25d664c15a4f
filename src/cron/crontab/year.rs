//! Compares the ticks of realistic crontabs with those of an independent reader, over a year.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use jiff::Timestamp;

use super::{Crontab, Job};
use crate::cron::Tick;

/// The clocks change as in most years, and in Casablanca also for Ramadan.
const YEAR: i64 = 2026;

fn begin(year: i64) -> Timestamp {
    format!("{year}-01-01T00:00:00Z").parse().unwrap()
}

/// The ticks of the year, in minutes since its start.
fn ticks(job: &Job) -> Vec<i64> {
    let (first, end) = (begin(YEAR), begin(YEAR + 1));
    let next = |after| job.schedule.next_after(after).map(Tick::at);
    let before = first - jiff::SignedDuration::from_nanos(1);
    let ticks = std::iter::successors(next(before), |at| next(*at));
    let minutes = |at: Timestamp| (at.as_second() - first.as_second()) / 60;
    ticks.take_while(|at| *at < end).map(minutes).collect()
}

#[test]
fn a_year_of_300_lines_is_that_of_another_reader() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/dblock/crontabs");
    let files = fs::read_dir(&folder).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let mut files: Vec<_> = files
        .filter(|file| file.extension().is_some_and(|end| end == "crontab"))
        .collect();
    files.sort();
    let output = Command::new("/usr/bin/python3")
        .arg(folder.join("ticks.py"))
        .arg(YEAR.to_string())
        .args(&files)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}; script/bootstrap installs python3-croniter",
        String::from_utf8_lossy(&output.stderr)
    );
    let expected = String::from_utf8(output.stdout).unwrap();
    let mut expected = expected.lines();
    let (mut lines, mut count) = (0, 0);
    for file in &files {
        let crontab = Crontab::parse(&fs::read(file).unwrap(), None).unwrap();
        for job in &crontab.jobs {
            let of_other = expected.next().expect("a line for each job");
            let of_other: Vec<i64> = of_other
                .split_whitespace()
                .map(|minutes| minutes.parse().unwrap())
                .collect();
            let ticks = ticks(job);
            let place = format!("{}:{}: {}", file.display(), job.line, job.fields);
            if ticks != of_other {
                let only_in = |one: &[i64], other: &[i64]| -> Vec<String> {
                    let only = one.iter().filter(|tick| !other.contains(tick)).take(5);
                    let moment = |tick: &i64| begin(YEAR) + jiff::SignedDuration::from_mins(*tick);
                    only.map(|tick| moment(tick).to_string()).collect()
                };
                let (ours, theirs) = (only_in(&ticks, &of_other), only_in(&of_other, &ticks));
                panic!("{place}: dblock alone has {ours:?}, the other alone {theirs:?}");
            }
            lines += 1;
            count += ticks.len();
        }
    }
    assert_eq!((lines, expected.next()), (300, None));
    // Each line has some ticks, unless it needs a leap year.
    assert!(count > 1_000_000, "{count}");
}

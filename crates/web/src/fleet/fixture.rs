//! Fleets for tests: the answers of a real one, the same with hostile texts, and large ones.

use std::collections::HashMap;
use std::time::Duration;

use jiff::{Timestamp, ToSpan};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::data::{Ended, History, QueueList};
use super::runs::{ByName, insert_all};
use super::{Part, Seen};

const CRON_LIST: &str = include_str!("../../tests/fixtures/cron-list.json");
const HISTORY: &str = include_str!("../../tests/fixtures/history.json");
const QUEUE_LIST: &str = include_str!("../../tests/fixtures/queue-list.json");
const QUEUE_STATUS: &str = include_str!("../../tests/fixtures/queue-status.json");
const STATUS: &str = include_str!("../../tests/fixtures/status.json");

/// What stands in each column of a hostile fleet that is a text.
pub const HOSTILE: &str = "<script>alert(\"1\")</script> / 100% Grüße & 'so' ../..";

/// What fixtures are about.
pub struct Fleet {
    /// What the poller knows.
    pub seen: Seen,
    /// The runs.
    pub history: Part<History>,
    /// The dead jobs of its first queue.
    pub dead: Part<QueueList>,
}

/// When the fleet is looked at.
pub fn now() -> Timestamp {
    "2026-11-26T14:57:42Z".parse().unwrap()
}

/// An answer that has just come.
pub fn known<T>(value: T) -> Part<T> {
    Part::new(value, now())
}

fn answer<T: DeserializeOwned>(value: Value) -> Part<T> {
    known(serde_json::from_value(value).unwrap())
}

/// The fleet of these answers, each changed so.
fn changed(change: impl Fn(&mut Value)) -> Fleet {
    let read = |text: &str| {
        let mut value = serde_json::from_str(text).unwrap();
        change(&mut value);
        value
    };
    let history: Part<History> = answer(read(HISTORY));
    let mut strips = ByName::new();
    insert_all(&mut strips, history.value.as_ref().unwrap(), true);
    Fleet {
        seen: Seen {
            cron: answer(read(CRON_LIST)),
            queues: answer(read(QUEUE_STATUS)),
            locks: answer(read(STATUS)),
            runs: known(strips),
            lacks_failures: false,
            new_until: Some((Instant::now() + Duration::from_secs(3600), Timestamp::MAX)),
        },
        history,
        dead: answer(read(QUEUE_LIST)),
    }
}

/// A real fleet of three hosts, in which much is wrong.
pub fn real() -> Fleet {
    changed(|_| {})
}

/// The same, but every text of it is hostile, so that all jobs have one name.
pub fn hostile() -> Fleet {
    changed(make_hostile)
}

fn make_hostile(value: &mut Value) {
    // Moments are numbers to who reads them, and states are words.
    const WORDS: [&str; 2] = ["incomplete", "state"];
    match value {
        Value::String(text) if text.parse::<Timestamp>().is_err() => HOSTILE.clone_into(text),
        Value::Array(values) => values.iter_mut().for_each(make_hostile),
        Value::Object(fields) => {
            let texts = fields
                .iter_mut()
                .filter(|(name, _)| !WORDS.contains(&name.as_str()));
            texts.for_each(|(_, value)| make_hostile(value));
        }
        _ => {}
    }
}

/// A fleet of so many jobs with 50 runs each: every tenth one failed last, every seventh once tonight.
pub fn of_jobs(number: usize) -> Fleet {
    let mut fleet = real();
    let mut runs = HashMap::new();
    let jobs = (0..number).map(|job| {
        let name = format!("nightly-job-{job:03}");
        let strip: Vec<Ended> = (0..50).map(|run| ended(job, run, has_failed(job, run))).collect();
        let last = strip.last().unwrap();
        let last = json!({
            "run": last.run, "host": last.host, "acquired": last.at, "started": last.at, "ended": last.at, "ran_seconds": 12.5,
            "outcome": "ran", "exit_code": last.ending.exit_code, "signal": null,
        });
        runs.insert(name.clone(), strip);
        json!({
            "name": name, "schedule": "15 */2 * * *", "time_zone": "Europe/Berlin", "next": now() + 33.minutes(), "in_no_file": false,
            "late_seconds": null, "paused_since": null, "triggered": null, "seen": now(), "changed_by": "web1", "under_way": [], "last": last,
        })
    });
    let cron = json!({ "server": "db.example.com:3306", "now": now(), "jobs": jobs.collect::<Vec<_>>(), "daemons": [] });
    let mut cron: Part<super::data::CronList> = answer(cron);
    let daemons = fleet.seen.cron.value.map(|cron| cron.daemons);
    cron.value.as_mut().unwrap().daemons = daemons.unwrap();
    fleet.seen.cron = cron;
    fleet.seen.runs = known(runs);
    fleet
}

fn has_failed(job: usize, run: usize) -> bool {
    job % 10 == 3 && run == 49 || job % 7 == 2 && run == 46
}

fn ended(job: usize, run: usize, has_failed: bool) -> Ended {
    let hours = i64::try_from((49 - run) * 2).unwrap();
    Ended {
        run: format!("01a2185c2b807b5491b7fc8b{job:04}{run:04}").into(),
        requested: now() - hours.hours(),
        at: now() - hours.hours(),
        until: None,
        ran_seconds: Some(12.5),
        host: Some("web2".into()),
        is_acquired: false,
        ending: serde_json::from_value(
            json!({ "outcome": "ran", "exit_code": i32::from(has_failed), "signal": null }),
        )
        .unwrap(),
    }
}

/// Runs that ended so, one a minute, the last one now. The words are those of a history, with an exit code behind `ran`.
pub fn runs(ends: &[&str]) -> Vec<Ended> {
    let run = |(back, end): (usize, &&str)| {
        let (outcome, code) = end
            .split_once(' ')
            .map_or((*end, None), |(word, code)| (word, code.parse().ok()));
        let code: Option<u32> = code;
        Ended {
            at: now() - i64::try_from(back).unwrap().minutes(),
            ending: serde_json::from_value(
                json!({ "outcome": outcome, "exit_code": code, "signal": null }),
            )
            .unwrap(),
            ..ended(0, 0, false)
        }
    };
    let mut runs: Vec<Ended> = ends.iter().rev().enumerate().map(run).collect();
    runs.reverse();
    runs
}

//! What single pages ask for, besides what the poller knows.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::data::{History, Output, Run};
use super::dblock::Words;
use super::{Fleet, Part, runs};

/// A day has more runs than anybody looks at: the newest are shown.
const RUNS_OF_A_DAY: &str = "--limit=1000";

/// Of those that failed, too: a page of the history has the others.
const FAILURES_OF_A_DAY: &str = "--limit=200";

/// What `dblock output` exits with when none is kept.
const NO_OUTPUT: i32 = 75;

/// What `dblock output` says behind the number of bytes that are not kept.
pub const LEFT_OUT: &str = " left out here";

/// The runs of the day that ends then; empty, or no moment: now.
pub fn of_a_day(until: &str) -> Words {
    within_a_day(Words::of(["history", "--json", RUNS_OF_A_DAY]), until)
}

/// Those of them that failed: not only those that are among the newest of all.
pub fn failed_of_a_day(until: &str) -> Words {
    let words = ["history", "--json", "--failed", FAILURES_OF_A_DAY];
    within_a_day(Words::of(words), until)
}

fn within_a_day(words: Words, until: &str) -> Words {
    let Some([since, until]) = day_until(until) else {
        return words.with("--since", "24h");
    };
    words
        .with("--since", &since.to_string())
        .with("--until", &until.to_string())
}

/// The beginning and the end of the day that ends then, which may be a date or a time in UTC; None: it ends now, or that is no moment that
/// dblock takes, such as one before 1970.
pub fn day_until(until: &str) -> Option<[Timestamp; 2]> {
    let in_utc = |until: DateTime| until.to_zoned(TimeZone::UTC).ok();
    let moment = until.parse().ok();
    let moment = moment.or_else(|| Some(in_utc(until.parse().ok()?)?.timestamp()));
    let until: Timestamp = moment?;
    let since = until.checked_sub(SignedDuration::from_hours(24)).ok()?;
    (since >= Timestamp::UNIX_EPOCH).then_some([since, until])
}

/// The dead jobs of a queue, the latest first.
pub fn dead_of_queue(name: &str) -> Words {
    Words::of(["queue", "list", "--json", "--state=dead", "--limit=50"]).about(name)
}

/// A run, by its number. Its value is None where there is none.
pub async fn run(fleet: &Fleet, id: &str) -> Part<Option<Run>> {
    // No argument has a NUL.
    if id.contains('\0') {
        return Part::new(None, Timestamp::now());
    }
    let answered = fleet.answered(&runs::of_a_run(id)).await;
    if answered.latest.refuses("--run") {
        return Part::new(None, answered.latest.at);
    }
    let mut found = answered.part::<History>();
    if found.error.is_some() {
        // That it was not there then says nothing of now.
        let then = found.value.take();
        found.value = then.filter(|history| !history.runs.is_empty());
    }
    found.map(|history| history.runs.into_iter().next())
}

/// The output of a run that is kept. Its value is None where none is.
pub async fn output(fleet: &Fleet, id: &str) -> Part<Option<Output>> {
    let ended = fleet.ended(&Words::of(["output"]).about(id)).await;
    match ended.code {
        Some(0) => {
            let output = Output {
                bytes: ended.answer.clone(),
                left_out: ended.line.strip_suffix(LEFT_OUT).map(Into::into),
            };
            Part::new(Some(output), ended.at)
        }
        Some(NO_OUTPUT) => Part::new(None, ended.at),
        _ => Part {
            error: Some(ended.line.clone()),
            ..Part::default()
        },
    }
}

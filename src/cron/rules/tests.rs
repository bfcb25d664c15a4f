//! Tests of single rules. Times are minutes and seconds of an hour.

use super::*;
use crate::cron::Zone;

const HOUR: i64 = 1_795_000_000 / 3600 * 3600;

/// A moment, written as minutes and seconds, such as `10:30`.
fn at(time: &str) -> i64 {
    let (minutes, seconds) = time.split_once(':').unwrap();
    (HOUR + minutes.parse::<i64>().unwrap() * 60 + seconds.parse::<i64>().unwrap()) * 1_000_000
}

fn options(words: &str) -> Options {
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    let (options, mistakes) = Options::parse(&words);
    assert!(mistakes.is_empty(), "{mistakes:?}");
    options
}

const IDLE: UnderWay = UnderWay {
    running: 0,
    has_waiting: false,
    span: None,
};
const BUSY: UnderWay = UnderWay {
    running: 1,
    has_waiting: false,
    span: None,
};
const FULL: UnderWay = UnderWay {
    running: 1,
    has_waiting: true,
    span: None,
};

fn now(time: &str) -> Now {
    Now {
        at: at(time),
        is_preferred: true,
        could_not_start: false,
        has_room: true,
        back_at: 0,
        made_up_from: 0,
    }
}

fn decided(fields: &str, words: &str, next: &str, under_way: UnderWay, now: Now) -> Decision {
    let schedule = Schedule::parse(fields, Zone::UTC, "job").unwrap();
    let row = JobFacts {
        next: Some(at(next)),
        ..JobFacts::default()
    };
    decide(("job", &schedule, &options(words)), &row, under_way, now)
}

/// The settlement as text: skips as `FIRST-LAST xCOUNT WHY`, then the tick that runs, and the next tick.
fn settled(fields: &str, words: &str, next: &str, under_way: UnderWay, now: Now) -> String {
    let shown = |at: i64| {
        let seconds = at / 1_000_000 - HOUR;
        format!("{:02}:{:02}", seconds / 60, seconds % 60)
    };
    let decision = decided(fields, words, next, under_way, now);
    let Decision::Settle(settlement) = decision else {
        let Decision::Rest(until) = decision else {
            unreachable!()
        };
        return until.map_or("rest".to_owned(), |at| format!("rest until {}", shown(at)));
    };
    assert_eq!(settlement.from, at(next));
    let mut parts: Vec<String> = settlement
        .skips
        .iter()
        .map(|Skip { ticks, count, why }| {
            format!("{}-{} x{count} {why:?}", shown(ticks.0), shown(ticks.1))
        })
        .collect();
    parts.extend(settlement.fate.map(|fate| match fate {
        Fate::Run(tick) => format!("run {}", shown(tick)),
        Fate::Wait(tick) => format!("wait {}", shown(tick)),
    }));
    parts.extend(settlement.next.map(|next| format!("next {}", shown(next))));
    parts.join(", ")
}

const EVERY_5: &str = "*/5 * * * *";

#[test]
fn a_tick_runs_at_its_time_on_the_daemon_that_it_is_for() {
    assert_eq!(
        settled(EVERY_5, "", "10:00", IDLE, now("09:59")),
        "rest until 10:00"
    );
    assert_eq!(
        settled(EVERY_5, "", "10:00", IDLE, now("10:00")),
        "run 10:00, next 15:00"
    );
    let other = |time| Now {
        is_preferred: false,
        ..now(time)
    };
    assert_eq!(
        settled(EVERY_5, "", "10:00", IDLE, other("10:00")),
        "rest until 10:01"
    );
    assert_eq!(
        settled(EVERY_5, "", "10:00", IDLE, other("10:01")),
        "run 10:00, next 15:00"
    );
    let full = Now {
        has_room: false,
        ..now("10:00")
    };
    assert_eq!(settled(EVERY_5, "", "10:00", IDLE, full), "rest");
}

#[test]
fn the_latest_missed_tick_is_made_up_for() {
    assert_eq!(
        settled(EVERY_5, "", "10:00", IDLE, now("32:00")),
        "10:00-25:00 x4 Missed, run 30:00, next 35:00"
    );
    assert_eq!(
        settled("0 * * * *", "", "00:00", IDLE, now("59:00")),
        "run 00:00, next 60:00"
    );
    assert_eq!(
        settled("0 0 * * *", "", "00:00", IDLE, now("61:00"))
            .split(',')
            .next()
            .unwrap(),
        "00:00-00:00 x1 Missed"
    );
    assert_eq!(
        settled(EVERY_5, "--deadline 1m", "10:00", IDLE, now("32:00")),
        "10:00-30:00 x5 Missed, next 35:00"
    );
    // A slight delay still counts as in time.
    assert_eq!(
        settled(EVERY_5, "--deadline 1s", "10:00", IDLE, now("10:04")),
        "run 10:00, next 15:00"
    );
}

#[test]
fn missed_ticks_are_skipped_or_all_made_up_for() {
    assert_eq!(
        settled(EVERY_5, "--missed skip", "10:00", IDLE, now("10:50")),
        "run 10:00, next 15:00"
    );
    assert_eq!(
        settled(EVERY_5, "--missed skip", "10:00", IDLE, now("12:00")),
        "10:00-10:00 x1 Missed, next 15:00"
    );
    assert_eq!(
        settled(EVERY_5, "--missed skip", "10:00", IDLE, now("20:30")),
        "10:00-15:00 x2 Missed, run 20:00, next 25:00"
    );
    assert_eq!(
        settled(EVERY_5, "--missed all", "10:00", IDLE, now("32:00")),
        "run 10:00, next 15:00"
    );
    assert_eq!(
        settled(
            EVERY_5,
            "--missed all --deadline 10m",
            "10:00",
            IDLE,
            now("32:00")
        ),
        "10:00-20:00 x3 Missed, run 25:00, next 30:00"
    );
    assert_eq!(
        settled("* * * * *", "--missed all", "00:00", IDLE, now("149:30")),
        "00:00-49:00 x50 Missed, run 50:00, next 51:00"
    );
}

#[test]
fn ticks_that_are_made_up_for_wait_for_one_another_and_for_their_part_of_the_crowd() {
    assert_eq!(
        settled(EVERY_5, "--missed all", "10:00", BUSY, now("32:00")),
        "rest"
    );
    let crowd = Now {
        made_up_from: at("32:20"),
        ..now("32:00")
    };
    assert_eq!(
        settled(EVERY_5, "", "10:00", IDLE, crowd),
        "rest until 32:20"
    );
    let crowd = Now {
        made_up_from: at("30:20"),
        ..now("30:10")
    };
    assert_eq!(
        settled(EVERY_5, "", "10:00", IDLE, crowd),
        "10:00-25:00 x4 Missed, run 30:00, next 35:00",
        "the latest one is not missed yet"
    );
}

/// The ticks up to 30:00 were missed. Since 31:00 they are made up for.
#[test]
fn what_becomes_due_while_missed_ticks_run_is_not_missed() {
    let seen = |until, under_way| UnderWay {
        span: Some((at("31:00"), at(until))),
        ..under_way
    };
    let settled = |words: &str, next, under_way, time| {
        let words = format!("--missed all {words}");
        settled(EVERY_5, &words, next, under_way, now(time))
    };
    let busy = || seen("57:00", BUSY);
    let idle = || seen("57:00", IDLE);
    for overlap in ["", "--overlap wait"] {
        assert_eq!(
            settled(overlap, "30:00", idle(), "57:00"),
            "run 30:00, next 35:00"
        );
        assert_eq!(settled(overlap, "30:00", busy(), "57:00"), "rest");
    }
    // The others are skipped.
    for under_way in [busy(), idle()] {
        assert_eq!(
            settled("", "35:00", under_way, "57:00"),
            "35:00-55:00 x5 Overlap, next 60:00"
        );
    }
    // One that is in time is not.
    assert_eq!(
        settled("", "35:00", seen("55:20", IDLE), "55:30"),
        "35:00-50:00 x4 Overlap, run 55:00, next 60:00"
    );
    assert_eq!(
        settled("", "35:00", seen("55:20", BUSY), "55:30"),
        "35:00-50:00 x4 Overlap, 55:00-55:00 x1 Overlap, next 60:00"
    );
    // Or one of them has waited.
    assert_eq!(
        settled("--overlap wait", "35:00", idle(), "57:00"),
        "35:00-50:00 x4 OneWaits, run 55:00, next 60:00"
    );
    assert_eq!(
        settled("--overlap wait", "35:00", busy(), "57:00"),
        "35:00-50:00 x4 OneWaits, wait 55:00, next 60:00"
    );
    // What became due after all of them had ended, and found no host, is missed.
    assert_eq!(
        settled("", "35:00", seen("41:00", IDLE), "57:00"),
        "35:00-40:00 x2 Overlap, run 45:00, next 50:00"
    );
    assert_eq!(
        settled("--overlap allow", "35:00", busy(), "57:00"),
        "run 35:00, next 40:00"
    );
}

/// The latest hundred missed ticks stay the same, however long they take.
#[test]
fn what_becomes_due_while_missed_ticks_run_takes_the_place_of_none() {
    let under_way = UnderWay {
        span: Some((at("149:30"), at("300:00"))),
        ..IDLE
    };
    assert_eq!(
        settled(
            "* * * * *",
            "--missed all",
            "51:00",
            under_way,
            now("300:00")
        ),
        "run 51:00, next 52:00"
    );
}

#[test]
fn ticks_are_under_way_over_a_span_until_none_is_for_longer_than_a_tick_stays_in_time() {
    let begun = UnderWay::extended(None, at("10:00"));
    assert_eq!(begun, (at("10:00"), at("10:00")));
    let on = UnderWay::extended(Some(begun), at("11:00"));
    assert_eq!(on, (at("10:00"), at("11:00")));
    for other in ["12:01", "10:59"] {
        let again = UnderWay::extended(Some(on), at(other));
        assert_eq!(again, (at(other), at(other)), "{other}");
    }
}

#[test]
fn a_tick_is_no_older_for_being_put_off_after_an_outage() {
    // The deadline ends while many jobs are starting.
    let back = Now {
        back_at: at("59:50"),
        ..now("60:10")
    };
    assert_eq!(
        settled("0 1 * * *", "", "00:00", IDLE, back)
            .split(", ")
            .next(),
        Some("run 00:00")
    );
    // The delay is longer than catching up can take.
    let late = Now {
        at: at("61:00"),
        ..back
    };
    assert_eq!(
        settled("0 1 * * *", "", "00:00", IDLE, late)
            .split(", ")
            .next(),
        Some("00:00-00:00 x1 Missed")
    );
}

#[test]
fn a_tick_is_as_old_as_it_is_by_a_clock_that_was_ahead_when_a_daemon_came() {
    let ahead = Now {
        back_at: at("10:00") + 24 * 3600 * 1_000_000,
        ..now("10:00")
    };
    assert_eq!(
        settled(EVERY_5, "", "10:00", IDLE, ahead),
        "run 10:00, next 15:00"
    );
}

#[test]
fn an_attempt_waits_for_its_delay_and_not_for_a_clock_that_was_ahead() {
    let minutes = |minutes: i64| at("00:00") + minutes * 60_000_000;
    for (words, failures, latest) in [
        // The longest pause of what cannot be started is five minutes, and a clock may be ten minutes slow.
        ("", 0, 15),
        ("--retries 3 --retry-delay 20m", 0, 30),
        ("--retries 3 --retry-delay 20m", 1, 30),
        ("--retries 3 --retry-delay 20m", 2, 50),
        ("--retries 9 --retry-delay 20m", 9, 70),
        ("--retries 3 --retry-delay 2h", 2, 130),
    ] {
        let options = options(words);
        let may = |start| may_start(&options, failures, start, minutes(0));
        assert!(may(minutes(0)) && !may(minutes(0) + 1), "{words}");
        assert!(!may(minutes(latest)) && may(minutes(latest) + 1), "{words}");
    }
}

#[test]
fn another_attempt_has_the_deadline_too() {
    for (words, minutes) in [
        ("", Some(60)),
        ("--deadline 5m", Some(5)),
        ("--missed skip", Some(60)),
        ("--missed all --deadline 5m", Some(5)),
        ("--missed all", None),
    ] {
        let options = options(words);
        let is_late = |minutes: i64| {
            is_attempt_too_late(&options, at("00:00"), at("00:01") + minutes * 60_000_000)
        };
        match minutes {
            Some(minutes) => assert!(!is_late(minutes - 1) && is_late(minutes), "{words}"),
            None => assert!(!is_late(1_000_000), "{words}"),
        }
    }
}

#[test]
fn a_tick_during_an_earlier_one_is_skipped_or_waits_or_runs() {
    let next = ", next 15:00";
    for (words, under_way, what) in [
        ("", BUSY, "10:00-10:00 x1 Overlap"),
        ("--overlap skip", FULL, "10:00-10:00 x1 Overlap"),
        ("--overlap wait", IDLE, "run 10:00"),
        ("--overlap wait", BUSY, "wait 10:00"),
        ("--overlap wait", FULL, "10:00-10:00 x1 OneWaits"),
        ("--overlap allow", BUSY, "run 10:00"),
        ("--missed all", BUSY, "10:00-10:00 x1 Overlap"),
    ] {
        let found = settled(EVERY_5, words, "10:00", under_way, now("10:02"));
        assert_eq!(found, format!("{what}{next}"), "{words}");
    }
    // Waiting and skipping need no room.
    let full = Now {
        has_room: false,
        ..now("10:02")
    };
    assert_eq!(
        settled(EVERY_5, "", "10:00", BUSY, full),
        "10:00-10:00 x1 Overlap, next 15:00"
    );
}

#[test]
fn jitter_puts_a_start_off_but_never_to_the_next_tick() {
    let Decision::Rest(Some(ready)) = decided(EVERY_5, "--jitter 1h", "10:00", IDLE, now("10:00"))
    else {
        panic!("it is put off");
    };
    assert!(ready > at("10:00") && ready < at("12:30"), "{ready}");
    let then = Now {
        at: ready,
        ..now("10:00")
    };
    assert_eq!(
        settled(EVERY_5, "--jitter 1h", "10:00", IDLE, then),
        "run 10:00, next 15:00"
    );
}

#[test]
fn a_paused_job_rests_and_a_trigger_runs_it_all_the_same() {
    let schedule = Schedule::parse(EVERY_5, Zone::UTC, "job").unwrap();
    let decide = |words, row, under_way| {
        decide(
            ("job", &schedule, &options(words)),
            &row,
            under_way,
            now("12:00"),
        )
    };
    let row = JobFacts {
        next: Some(at("10:00")),
        is_paused: true,
        triggered: None,
    };
    assert_eq!(decide("", row, IDLE), Decision::Rest(None));
    let row = JobFacts {
        triggered: Some(at("11:30")),
        ..row
    };
    let settlement = |words, under_way| match decide(words, row, under_way) {
        Decision::Settle(settlement) => settlement,
        decision @ Decision::Rest(_) => panic!("{decision:?}"),
    };
    let settled = settlement("", IDLE);
    assert!(
        settled.is_trigger
            && settled.fate == Some(Fate::Run(at("11:30")))
            && settled.from == at("11:30")
    );
    assert_eq!(settlement("", BUSY).skips[0].why, Why::Overlap);
    assert_eq!(
        settlement("--overlap wait", BUSY).fate,
        Some(Fate::Wait(at("11:30")))
    );
    assert_eq!(
        settlement("--overlap allow", BUSY).fate,
        Some(Fate::Run(at("11:30")))
    );
}

#[test]
fn what_failed_is_tried_again_as_often_as_asked_for() {
    let retry = |options: &Options, end, failures| retry(options, end, failures, Duration::ZERO);
    let second = |seconds| Some(Duration::from_secs(seconds));
    let tries = options("--retries 3 --retry-delay 10s");
    assert_eq!(retry(&tries, AttemptEnd::Failed, 0), (second(10), 1));
    assert_eq!(retry(&tries, AttemptEnd::Failed, 1), (second(20), 2));
    assert_eq!(retry(&tries, AttemptEnd::Failed, 2), (second(40), 3));
    assert_eq!(retry(&tries, AttemptEnd::Failed, 3), (None, 4));
    assert_eq!(retry(&tries, AttemptEnd::Lost, 2), (second(0), 3));
    assert_eq!(retry(&tries, AttemptEnd::Lost, 3), (None, 4));
    assert_eq!(retry(&tries, AttemptEnd::Returned, 3), (second(0), 3));
    assert_eq!(retry(&tries, AttemptEnd::Over, 0), (None, 0));
    // A tick survives the death of one host. A tick that takes down every host is given up.
    let none = options("");
    assert_eq!(retry(&none, AttemptEnd::Failed, 0), (None, 1));
    assert_eq!(retry(&none, AttemptEnd::Lost, 0), (second(0), 1));
    assert_eq!(retry(&none, AttemptEnd::Lost, 1), (None, 2));
    let many = options("--retries 100 --retry-delay 2h");
    assert_eq!(retry(&many, AttemptEnd::Failed, 50).0, second(7200));
}

/// This does not count as a failure, and the pauses double within bounds.
#[test]
fn what_cannot_be_started_is_tried_less_and_less_often() {
    let none = options("");
    for (lasting, pause) in [(0, 10), (10, 10), (20, 20), (40, 40), (500, 300)] {
        let lasting = Duration::from_secs(lasting);
        let retried = retry(&none, AttemptEnd::Unstarted, 1, lasting);
        assert_eq!(retried, (Some(Duration::from_secs(pause)), 1));
    }
}

/// The cost of a look does not depend on the length of the outage, and neither does the choice of the latest tick.
#[test]
fn however_many_were_missed_the_latest_is_found_and_no_more_are_counted_than_said() {
    let month = Now {
        at: at("10:30") + 200 * 24 * 3600 * 1_000_000,
        ..now("10:30")
    };
    let Decision::Settle(settlement) =
        decided("* * * * *", "--deadline 300d", "10:00", IDLE, month)
    else {
        panic!("it is settled");
    };
    let last = at("10:00") + 200 * 24 * 3600 * 1_000_000;
    let minute = 60_000_000;
    assert_eq!(settlement.fate, Some(Fate::Run(last)));
    assert_eq!(settlement.next, Some(last + minute));
    assert_eq!(settlement.skips[0].ticks, (at("10:00"), last - minute));
    assert_eq!(settlement.skips[0].count.to_string(), "at least 100000");
    // While ticks are put off they are not counted.
    let crowd = Now {
        made_up_from: month.at + 20_000_000,
        has_room: false,
        ..month
    };
    let begun = std::time::Instant::now();
    for _ in 0..100 {
        let looked = decided("*/2 * * * *", "--missed all", "10:00", IDLE, crowd);
        assert_eq!(looked, Decision::Rest(Some(crowd.made_up_from)));
        let full = decided("* * * * *", "", "10:00", IDLE, crowd);
        assert_eq!(full, Decision::Rest(None));
    }
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
}

/// Finds the same ticks as walking through them from the first one.
#[test]
fn the_latest_ticks_are_those_that_come_one_after_the_other() {
    let hours = |hours: i64| hours * 3600 * 1_000_000;
    for (fields, zone) in [
        ("*/7 * * * *", "Europe/Berlin"),
        ("30 * * * *", "Australia/Lord_Howe"),
        ("30 1-3 * * *", "Europe/Berlin"),
        ("0 2 * * *", "America/New_York"),
        ("15 0 1 * *", "UTC"),
    ] {
        let schedule = Schedule::parse(fields, Zone::parse(zone).unwrap(), "job").unwrap();
        for (words, jitter) in [
            ("--missed all", ""),
            ("", ""),
            ("--missed all", " --jitter 5m"),
        ] {
            let options = options(&format!("{words}{jitter}"));
            for step in 0..300 {
                let start = at("10:00") + hours(step * 41);
                let first = next_after(&schedule, start).unwrap();
                let now = first + hours(step % 60) + step * 1_234_567;
                let ready = |tick: &i64| ready("job", &schedule, &options, *tick) <= now;
                if !ready(&first) {
                    continue;
                }
                let all = iter::successors(Some(first), |tick| next_after(&schedule, *tick));
                let all: Vec<i64> = all.take_while(ready).collect();
                let due = DueTicks::of("job", &schedule, &options, first, now);
                let found: Vec<i64> = due.ticks.iter().map(|tick| tick.0).collect();
                assert!(all.ends_with(&found), "{fields} {zone} {first} {now}");
                let most = if words.is_empty() {
                    2
                } else {
                    MOST_MADE_UP + 1
                };
                assert_eq!(
                    found.len(),
                    all.len().min(most),
                    "{fields} {zone} {first} {now}"
                );
                let count = Count::of(&schedule, (first, due.last().0));
                assert_eq!(count.number, all.len());
            }
        }
    }
}

#[test]
fn whoever_could_not_start_an_attempt_leaves_the_next_one_to_all_others() {
    let tick = taken::TickFacts {
        tick: at("10:00"),
        failures: 0,
        start_at: Some(at("10:10")),
        started_at: None,
        unstarted_at: Some(at("10:00")),
    };
    let further = |is_preferred, could_not_start| {
        let here = Now {
            is_preferred,
            could_not_start,
            ..now("10:10")
        };
        taken::further(&options(""), &tick, [], here)
    };
    let rest = |time| taken::Further::Rest(Some(at(time)));
    assert_eq!(further(true, false), taken::Further::Take);
    assert_eq!(further(false, false), rest("10:11"));
    assert_eq!(further(true, true), rest("10:15"));
    assert_eq!(further(false, true), rest("10:15"));
}

#[test]
fn a_tick_is_not_too_late_for_an_attempt_that_could_not_start_before_one_that_ran_for_long() {
    let tick = |started_at: Option<&str>| taken::TickFacts {
        tick: at("10:00"),
        failures: 0,
        start_at: Some(at("130:00")),
        started_at: started_at.map(at),
        unstarted_at: Some(at("10:00")),
    };
    let rescue = |tick| taken::rescue(&options(""), &tick, RunState::Gone, now("131:00"));
    assert_eq!(rescue(tick(None)), taken::Rescue::Abandon);
    let taken = taken::Rescue::Take { failures: 1 };
    assert_eq!(rescue(tick(Some("15:00"))), taken);
}

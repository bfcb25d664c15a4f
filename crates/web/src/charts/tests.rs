//! What charts draw, and that they say the same in words.

use super::{day, depth, durations, strip};
use crate::fleet::data::Kind;
use crate::fleet::fixture::{now, real, runs};
use jiff::ToSpan;

#[test]
fn a_strip_says_in_words_what_it_draws() {
    let cases: [(&[&str], &str, &[&str]); 4] = [
        (&[], "no runs", &[]),
        (&["ran 0"], "1 run: 1 good", &["M245 9h4"]),
        (
            &["ran 0", "ran 0", "ran 2", "skipped"],
            "4 runs: 2 good, 1 failed, 1 skipped",
            &["M230 9h9", "M240 6h4", "M245 11h4"],
        ),
        (
            &[
                "lost",
                "timed_out",
                "interrupted",
                "from the future",
                "running",
                "lost",
            ],
            "6 runs: 1 failed, 2 lost, 2 in doubt, 1 running",
            &["M220 6h4M245 6h4", "M225 6h4", "M230 3h9", "M240 9h4"],
        ),
    ];
    for (ends, words, lines) in cases {
        let runs = runs(ends);
        assert_eq!(strip::words(&runs), words);
        let svg = strip::strip(&runs).into_string();
        assert!(svg.contains(&format!("aria-label=\"{words}\"")), "{svg}");
        for line in lines {
            assert!(svg.contains(line), "{line} in {svg}");
        }
        assert_eq!(svg.matches("<path").count(), lines.len());
    }
}

#[test]
fn a_strip_has_the_latest_fifty_and_is_short() {
    let many = runs(&[&["ran 1"; 7][..], &["ran 0"; 50]].concat());
    let svg = strip::strip(&many).into_string();
    assert!(
        svg.contains("M0 9h249") && !svg.contains("class=\"f\""),
        "{svg}"
    );
    assert!(svg.len() < 130, "{}", svg.len());
    let worst = ["ran 0", "ran 1"].repeat(25);
    assert!(strip::strip(&runs(&worst)).into_string().len() < 700);
}

#[test]
fn durations_are_drawn_for_none_one_and_fifty_runs() {
    for number in [0, 1, 50, 60] {
        let svg = durations::durations(&runs(&vec!["ran 1"; number]), "12.5 s").into_string();
        assert_eq!(svg.matches("<rect").count(), number.min(50));
        assert_eq!(
            svg.matches("✗").count(),
            number.min(50),
            "a sign above each that failed"
        );
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}

#[test]
fn a_queue_is_a_bar_of_its_states() {
    let queues = real().seen.queues.value.unwrap().queues;
    let svg = depth::depth(&queues[1]).into_string();
    assert_eq!(
        depth::words(&queues[1]),
        "0 running, 40 due, 5 delayed, 0 dead"
    );
    assert!(
        svg.contains("class=\"due\" x=\"0.0%\" width=\"88.9%\""),
        "{svg}"
    );
    assert!(
        svg.contains("class=\"delayed\" x=\"88.9%\" width=\"11.1%\""),
        "{svg}"
    );
    assert!(depth::words(&queues[2]).contains("10000+ due"));
}

#[test]
fn a_day_has_a_bar_for_each_run_and_one_for_many_that_are_not_told_apart() {
    let bar = |minutes: i64, took: i64, kind| day::Bar {
        from: now() - minutes.minutes(),
        to: now() - (minutes - took).minutes(),
        kind,
        says: format!("{minutes} min ago"),
    };
    let bars = vec![
        bar(720, 60, Kind::Good),
        bar(700, 10, Kind::Failed),
        bar(2, 0, Kind::Good),
        bar(1, 0, Kind::Good),
        bar(1500, 0, Kind::Good),
    ];
    let svg = day::row(bars, now()).into_string();
    assert_eq!(svg.matches("<rect").count(), 4, "{svg}");
    assert!(
        svg.contains("class=\"g\" x=\"50.00%\" y=\"3\" width=\"4.17%\""),
        "{svg}"
    );
    assert!(
        svg.contains("class=\"f\" x=\"51.39%\" y=\"12\""),
        "it ran beside the first: {svg}"
    );
    assert!(svg.contains("2 min ago and 1 more"), "{svg}");
    let empty = day::row(Vec::new(), now()).into_string();
    assert!(!empty.contains("<rect"));
    assert!(day::axis(now()).into_string().contains(">12:00<"));
}

#[test]
fn what_failed_is_covered_by_nothing_that_did_not() {
    // More of them at once than there are lanes.
    let bars = (0..8_i64).map(|minute| day::Bar {
        from: now() - (720 - minute).minutes(),
        to: now() - 60.minutes(),
        kind: if minute == 6 {
            Kind::Failed
        } else {
            Kind::Good
        },
        says: String::new(),
    });
    let svg = day::row(bars.collect(), now()).into_string();
    assert_eq!(svg.matches("<rect").count(), 8, "{svg}");
    let last = |kind: &str| svg.rfind(&format!("<rect class=\"{kind}\"")).unwrap();
    assert!(last("f") > last("g"), "{svg}");
}

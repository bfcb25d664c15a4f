//! Ticks computed by hand: well-known behaviour of cron, and every kind of clock change.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::expression::Expression;
use super::{Schedule, Zone};

/// Expression, zone, a moment, and the next ticks after it.
const TICKS: &str = "
# Berlin, 29 March 2026: 02:00 becomes 03:00. Fixed times run right after the gap, once.
0 2 * * * | Europe/Berlin | 2026-03-28T00:00:00+01:00 | 2026-03-28T02:00:00+01:00 2026-03-29T03:00:00+02:00 2026-03-30T02:00:00+02:00
59 2 * * * | Europe/Berlin | 2026-03-28T12:00:00+01:00 | 2026-03-29T03:00:00+02:00 2026-03-30T02:59:00+02:00
30 2,14 * * * | Europe/Berlin | 2026-03-29T00:00:00+01:00 | 2026-03-29T03:00:00+02:00 2026-03-29T14:30:00+02:00 2026-03-30T02:30:00+02:00
0,30 2 * * * | Europe/Berlin | 2026-03-29T00:00:00+01:00 | 2026-03-29T03:00:00+02:00 2026-03-30T02:00:00+02:00 2026-03-30T02:30:00+02:00
0-59/5 2-3 * * * | Europe/Berlin | 2026-03-29T00:00:00+01:00 | 2026-03-29T03:00:00+02:00 2026-03-29T03:05:00+02:00
0 2,3 * * * | Europe/Berlin | 2026-03-29T00:00:00+01:00 | 2026-03-29T03:00:00+02:00 2026-03-30T02:00:00+02:00
30 2 29 3 * | Europe/Berlin | 2026-01-01T00:00:00+01:00 | 2026-03-29T03:00:00+02:00 2027-03-29T02:30:00+02:00
30 2 * * sun | Europe/Berlin | 2026-03-23T00:00:00+01:00 | 2026-03-29T03:00:00+02:00 2026-04-05T02:30:00+02:00
30 1 * * * | Europe/Berlin | 2026-03-29T00:00:00+01:00 | 2026-03-29T01:30:00+01:00 2026-03-30T01:30:00+02:00
0 3 * * * | Europe/Berlin | 2026-03-29T00:00:00+01:00 | 2026-03-29T03:00:00+02:00 2026-03-30T03:00:00+02:00
# From within the minute after the gap: it has run.
0 2 * * * | Europe/Berlin | 2026-03-29T03:00:00+02:00 | 2026-03-30T02:00:00+02:00
0 2 * * * | Europe/Berlin | 2026-03-29T01:59:59.999999+01:00 | 2026-03-29T03:00:00+02:00
# Wildcards follow the real time: what is in the gap is not there.
*/5 * * * * | Europe/Berlin | 2026-03-29T01:54:00+01:00 | 2026-03-29T01:55:00+01:00 2026-03-29T03:00:00+02:00 2026-03-29T03:05:00+02:00
*/30 2 * * * | Europe/Berlin | 2026-03-28T02:20:00+01:00 | 2026-03-28T02:30:00+01:00 2026-03-30T02:00:00+02:00
* 2 * * * | Europe/Berlin | 2026-03-28T02:58:30+01:00 | 2026-03-28T02:59:00+01:00 2026-03-30T02:00:00+02:00
30 * * * * | Europe/Berlin | 2026-03-29T01:00:00+01:00 | 2026-03-29T01:30:00+01:00 2026-03-29T03:30:00+02:00 2026-03-29T04:30:00+02:00
15 */2 * * * | Europe/Berlin | 2026-03-29T00:00:00+01:00 | 2026-03-29T00:15:00+01:00 2026-03-29T04:15:00+02:00
@hourly | Europe/Berlin | 2026-03-29T00:30:00+01:00 | 2026-03-29T01:00:00+01:00 2026-03-29T03:00:00+02:00
# `*` that does not begin the field is no wildcard, as in Vixie's cron.
30 2,* * * * | Europe/Berlin | 2026-03-29T01:45:00+01:00 | 2026-03-29T03:00:00+02:00 2026-03-29T03:30:00+02:00
# Berlin, 25 October 2026: 03:00 becomes 02:00. Fixed times run once, at the first occurrence.
0 2 * * * | Europe/Berlin | 2026-10-25T00:00:00+02:00 | 2026-10-25T02:00:00+02:00 2026-10-26T02:00:00+01:00
30 2,14 * * * | Europe/Berlin | 2026-10-25T00:00:00+02:00 | 2026-10-25T02:30:00+02:00 2026-10-25T14:30:00+01:00 2026-10-26T02:30:00+01:00
0-59/30 2,3 * * * | Europe/Berlin | 2026-10-25T00:00:00+02:00 | 2026-10-25T02:00:00+02:00 2026-10-25T02:30:00+02:00 2026-10-25T03:00:00+01:00 2026-10-25T03:30:00+01:00
0 3 * * * | Europe/Berlin | 2026-10-25T00:00:00+02:00 | 2026-10-25T03:00:00+01:00 2026-10-26T03:00:00+01:00
0 2 * * * | Europe/Berlin | 2026-10-25T02:00:00+01:00 | 2026-10-26T02:00:00+01:00
# Wildcards run in both.
30 * * * * | Europe/Berlin | 2026-10-25T01:45:00+02:00 | 2026-10-25T02:30:00+02:00 2026-10-25T02:30:00+01:00 2026-10-25T03:30:00+01:00
*/30 2 * * * | Europe/Berlin | 2026-10-25T01:00:00+02:00 | 2026-10-25T02:00:00+02:00 2026-10-25T02:30:00+02:00 2026-10-25T02:00:00+01:00 2026-10-25T02:30:00+01:00 2026-10-26T02:00:00+01:00
0 */2 * * * | Europe/Berlin | 2026-10-24T23:00:00+02:00 | 2026-10-25T00:00:00+02:00 2026-10-25T02:00:00+02:00 2026-10-25T02:00:00+01:00 2026-10-25T04:00:00+01:00
*/5 * * * * | Europe/Berlin | 2026-10-25T02:54:59+02:00 | 2026-10-25T02:55:00+02:00 2026-10-25T02:00:00+01:00 2026-10-25T02:05:00+01:00
# New York.
30 2 * * * | America/New_York | 2026-03-08T00:00:00-05:00 | 2026-03-08T03:00:00-04:00 2026-03-09T02:30:00-04:00
30 1 * * * | America/New_York | 2026-11-01T00:00:00-04:00 | 2026-11-01T01:30:00-04:00 2026-11-02T01:30:00-05:00
45 * * * * | America/New_York | 2026-11-01T01:00:00-04:00 | 2026-11-01T01:45:00-04:00 2026-11-01T01:45:00-05:00 2026-11-01T02:45:00-05:00
# Lord Howe changes by half an hour.
15 2 * * * | Australia/Lord_Howe | 2026-10-04T00:00:00+10:30 | 2026-10-04T02:30:00+11:00 2026-10-05T02:15:00+11:00
45 2 * * * | Australia/Lord_Howe | 2026-10-04T00:00:00+10:30 | 2026-10-04T02:45:00+11:00 2026-10-05T02:45:00+11:00
45 1 * * * | Australia/Lord_Howe | 2026-04-05T00:00:00+11:00 | 2026-04-05T01:45:00+11:00 2026-04-06T01:45:00+10:30
*/15 1 * * * | Australia/Lord_Howe | 2026-04-05T01:20:00+11:00 | 2026-04-05T01:30:00+11:00 2026-04-05T01:45:00+11:00 2026-04-05T01:30:00+10:30 2026-04-05T01:45:00+10:30 2026-04-06T01:00:00+10:30
# Two hours at once.
30 2 * * * | Antarctica/Troll | 2026-03-29T00:00:00+00:00 | 2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00
# Where winter is the exception: clocks go back for Ramadan, and in Ireland for the winter.
30 2 * * * | Africa/Casablanca | 2026-02-15T00:00:00+01:00 | 2026-02-15T02:30:00+01:00 2026-02-16T02:30:00+00:00
30 2 * * * | Africa/Casablanca | 2026-03-22T00:00:00+00:00 | 2026-03-22T03:00:00+01:00 2026-03-23T02:30:00+01:00
30 1 * * * | Europe/Dublin | 2026-03-29T00:00:00+00:00 | 2026-03-29T02:00:00+01:00 2026-03-30T01:30:00+01:00
30 1 * * * | Europe/Dublin | 2026-10-25T00:00:00+01:00 | 2026-10-25T01:30:00+01:00 2026-10-26T01:30:00+00:00
# A day that begins at one o'clock.
@daily | America/Sao_Paulo | 2018-11-03T00:00:00-03:00 | 2018-11-04T01:00:00-02:00 2018-11-05T00:00:00-02:00
@weekly | America/Sao_Paulo | 2018-11-03T00:00:00-03:00 | 2018-11-04T01:00:00-02:00 2018-11-11T00:00:00-02:00
# A day that there was not: no change of the clocks that people sleep through.
0 12 * * * | Pacific/Apia | 2011-12-29T00:00:00-10:00 | 2011-12-29T12:00:00-10:00 2011-12-31T12:00:00+14:00
0 * * * * | Pacific/Apia | 2011-12-29T22:30:00-10:00 | 2011-12-29T23:00:00-10:00 2011-12-31T00:00:00+14:00
0 0 30 12 * | Pacific/Apia | 2011-12-01T00:00:00-10:00 | 2012-12-30T00:00:00+14:00
# Three hours are the most: forward in 2009, back in 2010.
30 3 * * * | Antarctica/Casey | 2009-10-18T00:00:00+08:00 | 2009-10-18T05:00:00+11:00 2009-10-19T03:30:00+11:00
30 23 * * * | Antarctica/Casey | 2010-03-04T20:00:00+11:00 | 2010-03-04T23:30:00+11:00 2010-03-05T23:30:00+08:00
# No changes.
0 9 * * mon-fri | Asia/Kolkata | 2026-11-20T12:00:00+05:30 | 2026-11-23T09:00:00+05:30 2026-11-24T09:00:00+05:30
0 2 * * * | UTC | 2026-03-29T00:00:00Z | 2026-03-29T02:00:00Z 2026-03-30T02:00:00Z
0 2 * * * | Etc/UTC | 2026-03-29T00:00:00Z | 2026-03-29T02:00:00Z
0 2 * * * | Europe/London | 2026-12-01T00:00:00Z | 2026-12-01T02:00:00+00:00
* * * * * | UTC | 2026-12-31T23:59:00.000001Z | 2027-01-01T00:00:00Z 2027-01-01T00:01:00Z
# A zone whose offset had seconds.
0 12 * * * | Africa/Monrovia | 1970-06-01T00:00:00Z | 1970-06-01T12:44:30Z
# Leap days and the ends of months.
0 0 29 2 * | UTC | 2026-11-22T00:00:00Z | 2028-02-29T00:00:00Z 2032-02-29T00:00:00Z
0 0 29 2 * | UTC | 2096-02-29T00:00:00Z | 2104-02-29T00:00:00Z
0 0 29 2 */7 | UTC | 2026-11-22T00:00:00Z | 2032-02-29T00:00:00Z 2060-02-29T00:00:00Z 2088-02-29T00:00:00Z 2128-02-29T00:00:00Z
0 0 31 * * | UTC | 2026-11-22T00:00:00Z | 2026-12-31T00:00:00Z 2027-01-31T00:00:00Z 2027-03-31T00:00:00Z 2027-05-31T00:00:00Z
0 0 30 * * | UTC | 2026-12-22T00:00:00Z | 2026-12-30T00:00:00Z 2027-01-30T00:00:00Z 2027-03-30T00:00:00Z
59 23 28-31 2 * | UTC | 2027-01-01T00:00:00Z | 2027-02-28T23:59:00Z 2028-02-28T23:59:00Z 2028-02-29T23:59:00Z
# Both day fields restricted: either. One begins with `*`: both.
0 0 13 * 5 | UTC | 2026-11-27T00:00:00Z | 2026-12-04T00:00:00Z 2026-12-11T00:00:00Z 2026-12-13T00:00:00Z 2026-12-18T00:00:00Z
0 0 1-31 * 1 | UTC | 2026-11-22T00:00:00Z | 2026-11-23T00:00:00Z 2026-11-24T00:00:00Z
0 0 * * 1 | UTC | 2026-11-22T00:00:00Z | 2026-11-23T00:00:00Z 2026-11-30T00:00:00Z
0 0 */10 * 5 | UTC | 2026-11-22T00:00:00Z | 2026-12-11T00:00:00Z 2027-01-01T00:00:00Z
0 0 1 * */2 | UTC | 2026-11-22T00:00:00Z | 2026-12-01T00:00:00Z 2027-04-01T00:00:00Z
0 0 30 2 mon | UTC | 2026-11-22T00:00:00Z | 2027-02-01T00:00:00Z 2027-02-08T00:00:00Z
# Lists, ranges, steps and names.
10-40/15 * * * * | UTC | 2026-11-22T00:30:00Z | 2026-11-22T00:40:00Z 2026-11-22T01:10:00Z 2026-11-22T01:25:00Z
*/25 5 * * * | UTC | 2026-11-22T00:00:00Z | 2026-11-22T05:00:00Z 2026-11-22T05:25:00Z 2026-11-22T05:50:00Z 2026-11-23T05:00:00Z
*/90 * * * * | UTC | 2026-11-22T00:30:00Z | 2026-11-22T01:00:00Z 2026-11-22T02:00:00Z
0 0-23/9 * * * | UTC | 2026-11-22T00:00:00Z | 2026-11-22T09:00:00Z 2026-11-22T18:00:00Z 2026-11-23T00:00:00Z
5,1,3-4 0 * * * | UTC | 2026-11-22T00:00:00Z | 2026-11-22T00:01:00Z 2026-11-22T00:03:00Z 2026-11-22T00:04:00Z 2026-11-22T00:05:00Z
0 12 * * fri-sun | UTC | 2026-11-22T00:00:00Z | 2026-11-22T12:00:00Z 2026-11-27T12:00:00Z 2026-11-28T12:00:00Z 2026-11-29T12:00:00Z
0 0 1 JAN,jul * | UTC | 2026-11-22T00:00:00Z | 2027-01-01T00:00:00Z 2027-07-01T00:00:00Z
@weekly | UTC | 2026-11-22T00:00:00Z | 2026-11-29T00:00:00Z
@monthly | UTC | 2026-11-22T00:00:00Z | 2026-12-01T00:00:00Z 2027-01-01T00:00:00Z
@yearly | UTC | 2026-11-22T00:00:00Z | 2027-01-01T00:00:00Z 2028-01-01T00:00:00Z
";

/// Refused expressions, and their errors.
const ERRORS: &str = r#"
 | "" has 0 fields; a schedule has five: minute, hour, day of month, month, day of week
* * * * | "* * * *" has 4 fields; a schedule has five: minute, hour, day of month, month, day of week
0 0 0 1 1 * | "0 0 0 1 1 *" has 6 fields; a schedule has five: minute, hour, day of month, month, day of week
60 * * * * | minute "60" is not a number from 0 to 59
* 24 * * * | hour "24" is not a number from 0 to 23
0 0 0 * * | day of month "0" is not a number from 1 to 31
0 0 32 * * | day of month "32" is not a number from 1 to 31
0 0 1 13 * | month "13" is not a number from 1 to 12, nor a name from jan to dec
0 0 1 january * | month "january" is not a number from 1 to 12, nor a name from jan to dec
0 0 * * 8 | day of week "8" is not a number from 0 to 7, nor a name from sun to sat
0 0 * * monday | day of week "monday" is not a number from 0 to 7, nor a name from sun to sat
mon * * * * | minute "mon" is not a number from 0 to 59
-1 * * * * | minute "-1" lacks a number from 0 to 59
+1 * * * * | minute "+1" is not a number from 0 to 59
1- * * * * | minute "1-" lacks a number from 0 to 59
/5 * * * * | minute "/5" lacks a number from 0 to 59
1-2-3 * * * * | minute "2-3" is not a number from 0 to 59
1,,2 * * * * | minute "1,,2" lacks a value beside a comma
1, * * * * | minute "1," lacks a value beside a comma
300 * * * * | minute "300" is not a number from 0 to 59
** * * * * | minute "**" is not a number from 0 to 59
*-5 * * * * | minute "*" is not a number from 0 to 59
? * * * * | minute "?" is not a number from 0 to 59
0 0 L * * | day of month "L" is not a number from 1 to 31
0 22-2 * * * | hour "22-2" runs backwards; write 22-23,0-2
5-0 * * * * | minute "5-0" runs backwards; write 5-59,0-0
0 0 * nov-feb/2 * | month "nov-feb/2" runs backwards; write nov-12,1-feb
0 0 * * sat-mon | day of week "sat-mon" runs backwards; write sat-7,0-mon
5/15 * * * * | minute "5/15" has a step and no range; write 5-59/15
*/0 * * * * | minute "*/0" has a step that is not a number from 1 on
*/ * * * * | minute "*/" has a step that is not a number from 1 on
*/-1 * * * * | minute "*/-1" has a step that is not a number from 1 on
*/5/5 * * * * | minute "*/5/5" has a step that is not a number from 1 on
~/5 * * * * | minute "~/5" is a random value, which has no step
9~5 * * * * | minute "9~5" runs backwards
1~60 * * * * | minute "60" is not a number from 0 to 59
0 0 30 2 * | day of month "30" in month "2" is a day that no year has
0 0 31 apr,jun,sep,nov */2 | day of month "31" in month "apr,jun,sep,nov" is a day that no year has
@reboot | "@reboot" is no time, and a fleet does not boot; use @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually
@noon | "@noon" is none of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually
@daily 5 | "@daily 5" is none of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually
"#;

fn schedule(expression: &str, zone: &str) -> Schedule {
    let zone = Zone::parse(zone).unwrap();
    Schedule::parse(expression, zone, "job").unwrap_or_else(|why| panic!("{expression}: {why}"))
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn ticks_are_those_that_cron_is_known_for() {
    let lines = TICKS.lines().filter(|line| !line.starts_with('#'));
    for line in lines.filter(|line| !line.is_empty()) {
        let columns: Vec<_> = line.split(" | ").collect();
        let [expression, zone, from, ticks] = columns[..].try_into().expect(line);
        let schedule = schedule(expression, zone);
        let ticks: Vec<_> = ticks.split(' ').collect();
        let mut moment = at(from);
        for expected in &ticks {
            let tick = schedule.next_after(moment).expect("a tick");
            assert_eq!(tick.to_string(), *expected, "{line}");
            assert_eq!(tick.at(), at(expected), "{line}");
            assert_eq!(schedule.last_at_or_before(tick.at()), Some(tick), "{line}");
            moment = tick.at();
        }
        for pair in ticks.windows(2) {
            let before = at(pair[1]) - SignedDuration::from_micros(1);
            let tick = schedule.last_at_or_before(before).expect("a tick");
            assert_eq!(tick.to_string(), pair[0], "{line}");
        }
    }
}

#[test]
fn a_line_that_names_only_what_clocks_skip_has_no_tick() {
    // The last Sunday of March, and a wildcard in minute.
    let schedule = schedule("* 2 25-31 3 */7", "Europe/Berlin");
    assert_eq!(schedule.next_after(at("2026-01-01T00:00:00Z")), None);
    assert_eq!(schedule.last_at_or_before(at("2026-01-01T00:00:00Z")), None);
    // In 1980 summer time began in April.
    let last = schedule.last_at_or_before(at("2010-01-01T00:00:00Z"));
    assert_eq!(last.unwrap().to_string(), "1980-03-30T02:59:00+01:00");
}

#[test]
fn the_ends_of_time_are_no_ticks() {
    let yearly = schedule("@yearly", "Europe/Berlin");
    assert_eq!(yearly.next_after(Timestamp::MAX), None);
    assert_eq!(yearly.last_at_or_before(Timestamp::MIN), None);
    assert!(yearly.next_after(Timestamp::MIN).is_some());
    assert!(yearly.last_at_or_before(Timestamp::MAX).is_some());
}

#[test]
fn the_same_line_may_be_written_in_several_ways() {
    for (one, other) in [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "@daily"),
        ("@annually", "@yearly"),
        ("  0\t0  * *   * ", "0 0 * * *"),
        ("00 007 * * *", "0 7 * * *"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * sun", "0 0 * * SUN"),
        ("0 0 * * 5-7", "0 0 * * fri,sat,sun"),
        ("0 0 * * fri-sun", "0 0 * * 5-0"),
        ("0 0 * * 6-0/1", "0 0 * * 0,6"),
        ("0 0 * * 1-7/2", "0 0 * * mon,wed,fri,sun"),
        ("0 0 * * 0-7", "0 0 * * sun-sat"),
        ("0 0 1 mar-MAY *", "0 0 1 3-5 *"),
        ("*/1 * * * *", "* * * * *"),
        ("*/70 * * * *", "*/99999999999999999999999999 * * * *"),
        ("1,1,1 * * * *", "1 * * * *"),
    ] {
        let [one, other] = [one, other].map(|text| Expression::parse(text, "").expect(text));
        assert_eq!(one, other);
    }
    assert_ne!(
        Expression::parse("0-59 0 * * *", ""),
        Expression::parse("* 0 * * *", ""),
        "one is at fixed times"
    );
}

#[test]
fn what_is_wrong_is_named_with_its_field() {
    for line in ERRORS.lines().filter(|line| !line.is_empty()) {
        let (expression, error) = line.split_once(" | ").expect(line);
        let why = Expression::parse(expression, "job").expect_err(line);
        assert_eq!(why, error, "{expression}");
    }
}

#[test]
fn a_spread_is_the_same_for_ever() {
    // If these values changed, the jobs of every user would move.
    for (expression, seed, meaning) in [
        ("~ ~ * * *", "report", "25 14 * * *"),
        ("~ ~ * * *", "cleanup", "37 12 * * *"),
        ("0~9,30~39 * * * *", "report", "5,34 * * * *"),
        ("0 0 ~ ~ *", "report", "0 0 16 6 *"),
        ("0 0 * * ~", "report", "0 0 * * 6"),
    ] {
        assert_eq!(
            Expression::parse(expression, seed),
            Expression::parse(meaning, ""),
            "{expression} of {seed}"
        );
    }
}

#[test]
fn a_spread_reaches_every_value_of_its_range_and_no_other() {
    let values = |expression: &str| -> BTreeSet<String> {
        let from = at("2026-01-01T00:00:00Z") - SignedDuration::from_nanos(1);
        (0..2000)
            .map(|seed| {
                let schedule =
                    Schedule::parse(expression, Zone::UTC, &format!("job {seed}")).unwrap();
                schedule.next_after(from).unwrap().to_string()
            })
            .collect()
    };
    let ends = |expression| {
        let values = values(expression);
        let ends = (
            values.first().unwrap().clone(),
            values.last().unwrap().clone(),
        );
        (
            values.len(),
            ends.0[5..16].to_owned(),
            ends.1[5..16].to_owned(),
        )
    };
    for (expression, count, first, last) in [
        ("~ 0 1 1 *", 60, "01-01T00:00", "01-01T00:59"),
        ("6~15 0 1 1 *", 10, "01-01T00:06", "01-01T00:15"),
        ("~15 0 1 1 *", 16, "01-01T00:00", "01-01T00:15"),
        ("50~ 0 1 1 *", 10, "01-01T00:50", "01-01T00:59"),
        ("7~7 0 1 1 *", 1, "01-01T00:07", "01-01T00:07"),
        ("0 ~ 1 1 *", 24, "01-01T00:00", "01-01T23:00"),
        ("0 0 ~ 1 *", 28, "01-01T00:00", "01-28T00:00"),
        ("0 0 20~ 1 *", 9, "01-20T00:00", "01-28T00:00"),
        ("0 0 29~ 1 *", 3, "01-29T00:00", "01-31T00:00"),
        ("0 0 1~31 1 *", 31, "01-01T00:00", "01-31T00:00"),
        ("0 0 1 ~ *", 12, "01-01T00:00", "12-01T00:00"),
        ("0 0 1 mar~may *", 3, "03-01T00:00", "05-01T00:00"),
        ("0 0 * * ~", 7, "01-01T00:00", "01-07T00:00"),
        ("0 0 * * mon~fri", 5, "01-01T00:00", "01-07T00:00"),
        ("0 0 * * 5~", 3, "01-02T00:00", "01-04T00:00"),
        ("0 0 * * mon~sun", 7, "01-01T00:00", "01-07T00:00"),
        ("0 0 * * 0~7", 7, "01-01T00:00", "01-07T00:00"),
        ("0 0 * * 0~6", 7, "01-01T00:00", "01-07T00:00"),
    ] {
        let expected = (count, first.to_owned(), last.to_owned());
        assert_eq!(ends(expression), expected, "{expression}");
    }
}

proptest! {
    #[test]
    fn any_text_is_a_schedule_or_refused(
        text in "[-0-9*/,~@a-z ]{0,30}|(([0-9]{1,2}|[*])([-/~,][0-9]{0,2}){0,3} ){4}[*0-7]",
        seed in "\\PC{0,10}",
    ) {
        match Schedule::parse(&text, Zone::UTC, &seed) {
            Ok(schedule) => {
                prop_assert!(schedule.next_after(at("2026-01-01T00:00:00Z")).is_some());
                prop_assert_eq!(Ok(schedule), Schedule::parse(&text, Zone::UTC, &seed));
            }
            Err(why) => prop_assert!(!why.is_empty()),
        }
    }
}

//! Whole files, with their jobs and all of their mistakes.

use std::time::Duration;

use proptest::prelude::*;

use super::options::{Options, Overlap};
use super::{Crontab, Job, Mistake};
use crate::cron::Zone;
use crate::schema::CRON_JOBS;

fn parsed(text: &str) -> Result<Vec<Job>, Vec<String>> {
    of_bytes(text.as_bytes())
}

fn of_bytes(bytes: &[u8]) -> Result<Vec<Job>, Vec<String>> {
    match Crontab::parse(bytes, Some(&Zone::UTC)) {
        Ok(crontab) => Ok(crontab.jobs),
        Err(mistakes) => Err(mistakes.iter().map(shown).collect()),
    }
}

fn shown(mistake: &Mistake) -> String {
    let line = mistake.line.unwrap_or_default();
    format!("{line}: {}", mistake.why)
}

#[track_caller]
fn is_wrong(text: &str, mistakes: &[&str]) {
    assert_eq!(parsed(text).unwrap_err(), mistakes, "{text}");
}

fn names(text: &str) -> Vec<String> {
    let jobs = parsed(text).unwrap();
    jobs.iter().map(|job| job.name.to_string()).collect()
}

fn variables(job: &Job) -> Vec<(&str, &str)> {
    let variables = job.variables.iter();
    variables.map(|(name, value)| (&**name, &**value)).collect()
}

#[test]
fn the_crontab_of_the_contract_is_read() {
    let jobs = parsed(
        "CRON_TZ=Europe/Berlin\n\
         #: report --timeout 30m --retries 2\n\
         */5 * * * *  /usr/local/bin/report\n\
         #: cleanup --missed once --deadline 6h --overlap skip\n\
         0 2 * * *    /usr/local/bin/cleanup --all\n",
    );
    let [report, cleanup] = &*jobs.unwrap() else {
        panic!("two jobs")
    };
    assert_eq!(report.name.to_string(), "report");
    assert_eq!((report.line, &*report.fields), (3, "*/5 * * * *"));
    assert_eq!(report.command, "/usr/local/bin/report");
    assert_eq!(report.options.timeout, Some(Duration::from_secs(1800)));
    assert_eq!(report.options.retries, 2);
    assert_eq!(report.schedule.zone().name(), "Europe/Berlin");
    assert_eq!(cleanup.name.to_string(), "cleanup");
    assert_eq!(cleanup.line, 5);
    assert_eq!(cleanup.command, "/usr/local/bin/cleanup --all");
    assert_eq!(cleanup.options.overlap, Overlap::Skip);
    let deadline = Duration::from_secs(6 * 3600);
    assert_eq!(cleanup.options.deadline, Some(deadline));
}

#[test]
fn a_setting_counts_for_the_lines_below_it() {
    let jobs = parsed(
        "* * * * * a\n\
         MAILTO=x\n\
         CRON_TZ=Asia/Tokyo\n\
         * * * * * b\n\
         SHELL=/bin/bash\n\
         MAILTO = \"\"\n\
         CRON_TZ='Europe/Berlin'\n\
         * * * * * c\n",
    );
    let [a, b, c] = &*jobs.unwrap() else {
        panic!("three jobs")
    };
    assert_eq!(variables(a), []);
    assert_eq!(variables(b), [("MAILTO", "x"), ("CRON_TZ", "Asia/Tokyo")]);
    let all = [
        ("MAILTO", ""),
        ("CRON_TZ", "Europe/Berlin"),
        ("SHELL", "/bin/bash"),
    ];
    assert_eq!(variables(c), all);
    let zones = [a, b, c].map(|job| job.schedule.zone().name());
    assert_eq!(zones, ["UTC", "Asia/Tokyo", "Europe/Berlin"]);
}

#[test]
fn blanks_comments_and_nicknames_are_read_as_by_cron() {
    let jobs = parsed(
        "\n  # a comment\n\t\n#:  report \n \t@daily\t /bin/report  now \n# 1 2 3\n@hourly x%in\n",
    );
    let [report, x] = &*jobs.unwrap() else {
        panic!("two jobs")
    };
    assert_eq!((report.line, &*report.fields), (5, "@daily"));
    assert_eq!(report.command, "/bin/report  now ");
    assert_eq!((&*x.command, &*x.input), ("x", "in\n"));
}

#[test]
fn a_job_without_a_name_has_one_of_its_line() {
    let text = "0 1 * * * /usr/bin/report --all\n0  2 * * *   /usr/bin/report --all\n";
    let names_of = names(text);
    // To compute the digits: printf '\n0 1 * * *\n/usr/bin/report --all' | sha256sum
    assert_eq!(names_of, ["report-3a36bafb", "report-373c91ff"]);
    // The name depends neither on the position nor on other settings.
    let moved = "MAILTO=x\n\n0 2 * * * /usr/bin/report --all\n@daily y\n";
    assert_eq!(names(moved)[0], names_of[1]);
    // It depends on the zone, so the same line may appear in several zones.
    let zones = "0 1 * * * a\nCRON_TZ=Asia/Tokyo\n0 1 * * * a\nCRON_TZ=UTC\n0 1 * * * a\n";
    assert_eq!(parsed(zones).unwrap().len(), 3);
    for (command, stem) in [
        ("cd /srv && ./run", "cd"),
        ("A=b /bin/c", "c"),
        ("A='b c' /bin/d", "A"),
        ("A=b", "A"),
        ("[ -x /bin/a ] && a", "job"),
        ("'/bin/a b'", "a"),
        ("/bin/a%b/c", "a"),
        ("\"$HOME/bin/a\"; b", "a"),
        ("/bin/", "job"),
        ("été", "t"),
        (&"x".repeat(300), &"x".repeat(40)),
    ] {
        let name = names(&format!("@daily {command}\n"));
        let (found, hash) = name[0].rsplit_once('-').unwrap();
        assert_eq!((found, hash.len()), (stem, 8), "{command}");
    }
}

#[test]
fn the_program_is_the_first_word_and_never_what_a_variable_is_set_to() {
    for (command, name) in [
        ("report", "report"),
        ("  /usr/local/bin/report --all=1 x", "report"),
        ("report;other", "report"),
        ("report>/dev/null 2>&1", "report"),
        ("\"/usr/bin/report\" x", "report"),
        ("$HOME/bin/report", "report"),
        ("(cd /x && report)", "cd"),
        ("[ -x /usr/bin/report ] && report", "["),
        ("env TOKEN=secret report", "env"),
        ("TOKEN=secret report", "report"),
        ("TOKEN='two words' report", "TOKEN"),
        ("A= B=/etc/x:1  report", "report"),
        ("TOKEN=secret; report", "TOKEN"),
        ("TOKENS=(secret) report", "TOKENS"),
        ("TOKEN=two\\ words report", "TOKEN"),
        ("(TOKEN=$(cat x) report)", "TOKEN"),
    ] {
        assert_eq!(super::program(command).as_deref(), Some(name), "{command}");
    }
    for command in ["", " ", "/opt/ x", "''"] {
        assert_eq!(super::program(command), None, "{command}");
    }
}

#[test]
fn no_two_jobs_have_one_name() {
    is_wrong(
        "#: a\n* * * * * x\n#: b\n* * * * * x\n#: a\n* * * * * y\n",
        &["5: the job of line 1 has the name a too"],
    );
    is_wrong(
        "#: Straße\n* * * * * x\n#: STRAßE\n* * * * * y\n",
        &[
            "3: STRAßE differs from Straße, the name in line 1, in the case of letters alone, and MySQL does not tell that \
           apart",
        ],
    );
    is_wrong(
        "* * * * * x\n\n*\t* * * * x\n",
        &["3: the same as line 1; to run both, name one of them by a line #: NAME above it"],
    );
    let derived = &names("@daily x\n")[0];
    is_wrong(
        &format!("#: {derived}\n@hourly y\n@daily x\n"),
        &["3: the same as line 1; to run both, name one of them by a line #: NAME above it"],
    );
    assert_eq!(names("#: a\n* * * * * x\n* * * * * x\n").len(), 2);
}

#[test]
fn names_obey_the_rules_of_locks_and_may_be_quoted() {
    assert_eq!(
        names("#: 'nightly report' -t 5\n* * * * * x\n"),
        ["nightly report"]
    );
    assert_eq!(names("#:é\n* * * * * x\n"), ["é"]);
    let lacks = "1: a name stands first behind #:";
    is_wrong("#:\n* * * * * x\n", &[lacks]);
    is_wrong("#: --timeout 3\n* * * * * x\n", &[lacks]);
    is_wrong("#: ''\n* * * * * x\n", &[lacks]);
    is_wrong(
        "#: a#1\n* * * * * x\n",
        &["1: the name \"a#1\" contains #, which is kept for slots"],
    );
    is_wrong(
        "#: ' a'\n* * * * * x\n",
        &["1: the name \" a\" begins or ends with white space"],
    );
    is_wrong("#: 'a\n* * * * * x\n", &["1: a quote, ', has no end"]);
}

#[test]
fn a_naming_comment_stands_right_above_its_job() {
    let alone = "1: #: names the job in the line right below it, and there is none";
    for between in ["\n", "# * * * * * x\n", "A=b\n", "#: b\n", "CRON_TZ=UTC\n"] {
        is_wrong(&format!("#: a\n{between}* * * * * x\n"), &[alone]);
    }
    is_wrong("#: a\n", &[alone]);
    // Any other comment is ignored.
    assert_eq!(parsed("# : a\n##: b\n* * * * * x\n").unwrap().len(), 1);
}

#[test]
fn everything_that_is_wrong_is_told_in_the_order_of_the_lines() {
    is_wrong(
        "#: a --timeout x --foo\n\
         61 * * * * x\n\
         CRON_TZ=Europe/Berln\n\
         * * * x\n\
         * * * * *\n\
         0 * * * * * x\n\
         @reboot x\n\
         MAILTO=\"x\n\
         export A=b\n\
         =b\n\
         #: b\n\
         \n\
         @daily -n x\n\
         @daily  %x\n\
         -0 * * * * x\n\
         0 0 30 2 * x\n\
         0 0 * * mon-fun x\n",
        &[
            "1: --foo is no option of a job; those are --timeout, --kill-after, --ttl, --retries, --retry-delay, --missed, \
             --deadline, --overlap, --jitter, --keep-output, --on-failure, --on-end",
            "1: --timeout: \"x\" is not a duration; write 90s, 5m, 1h 30m or 0.5",
            "2: minute \"61\" is not a number from 0 to 59",
            "3: CRON_TZ: \"Europe/Berln\" is not a time zone; do you mean Europe/Berlin?",
            "4: \"* * * x\" has 4 fields; a schedule has five: minute, hour, day of month, month, day of week",
            "5: a command is missing behind the schedule",
            "6: the command begins with *: a schedule has five fields, and none for seconds",
            "7: \"@reboot\" is no time, and a fleet does not boot; use @hourly, @daily, @midnight, @weekly, @monthly, @yearly, \
             @annually",
            "8: the value's quotes are not closed, or something stands behind them",
            "9: neither a job, five fields of time and a command, nor a variable, NAME=VALUE",
            "10: a variable's name is missing in front of =",
            "11: #: names the job in the line right below it, and there is none",
            "13: the command begins with -, as an option of some crons, which dblock does not have",
            "14: a command is missing behind the schedule",
            "15: minute \"-0\" lacks a number from 0 to 59",
            "16: day of month \"30\" in month \"2\" is a day that no year has",
            "17: day of week \"fun\" is not a number from 0 to 7, nor a name from sun to sat",
        ],
    );
}

#[test]
fn a_file_that_is_no_text_or_has_no_job_is_refused() {
    for text in ["", "\n\n", "# x\n", "MAILTO=x\n"] {
        is_wrong(text, &["0: there is no job in it"]);
    }
    is_wrong(
        "* * * * * x",
        &["1: the last line has no line break: the file may be cut off"],
    );
    is_wrong(
        "* * * * * x\r\n* * * * * y\r\n61 * * * * z\r\n",
        &[
            "1: the line ends in CR LF; save the file with LF alone",
            "3: minute \"61\" is not a number from 0 to 59",
        ],
    );
    is_wrong(
        "\u{feff}* * * * * x\n",
        &["1: the file begins with a byte order mark; save it as UTF-8 without one"],
    );
    is_wrong("* * * * * x\0\n", &["1: the line contains a NUL byte"]);
    let mistakes = of_bytes(b"# caf\xe9\n#: a\n* * * * * echo \xff\n\n* * * * * x\n").unwrap_err();
    assert_eq!(
        mistakes,
        ["1: the line is not UTF-8", "3: the line is not UTF-8"]
    );
    let longest = "x".repeat(128 * 1024 - 1 - "* * * * * ".len());
    assert_eq!(parsed(&format!("* * * * * {longest}\n")).unwrap().len(), 1);
    is_wrong(
        &format!("* * * * * {longest}x\n"),
        &["1: the line is longer than 128 KiB"],
    );
}

#[test]
fn a_schedule_is_no_longer_than_the_tables_have_room_for() {
    use super::reader::LONGEST_SCHEDULE;
    assert_eq!(LONGEST_SCHEDULE, CRON_JOBS.width("schedule"));
    // 0,0,…,0 * * * *
    let line = |length: usize| {
        let digits = length - " * * * *".len();
        let minutes = "0,".repeat((digits - 1) / 2) + &"00"[..2 - digits % 2];
        format!("{minutes} * * * * x\n")
    };
    let longest = &parsed(&line(LONGEST_SCHEDULE)).unwrap()[0];
    assert_eq!(longest.fields.len(), LONGEST_SCHEDULE);
    is_wrong(
        &line(LONGEST_SCHEDULE + 1),
        &["1: the schedule has more than 1000 characters"],
    );
}

#[test]
fn a_file_that_is_too_large_is_not_read_to_its_end() {
    use std::fmt::Write;
    let lines = |count: usize, line: fn(usize) -> String| {
        (0..count).fold(String::new(), |mut text, number| {
            let _ = writeln!(text, "{}", line(number));
            text
        })
    };
    let wrong = parsed(&lines(200, |_| "x".to_owned())).unwrap_err();
    assert_eq!(wrong.len(), 101);
    assert_eq!(wrong[100], "101: too much is wrong; the rest is not read");
    let jobs = |count| lines(count, |number| format!("@daily x{number}"));
    assert_eq!(parsed(&jobs(10_000)).unwrap().len(), 10_000);
    is_wrong(&jobs(10_001), &["10001: there are more than 10000 jobs"]);
    let settings = |count| lines(count, |number| format!("A{number}=b")) + "@daily x\n";
    assert_eq!(parsed(&settings(1000)).unwrap()[0].variables.len(), 1000);
    is_wrong(
        &settings(1001),
        &["1001: more than 1000 lines set variables"],
    );
}

#[test]
fn a_host_whose_zone_has_no_name_needs_one_in_the_file() {
    let parse = |text: &str| {
        let crontab = Crontab::parse(text.as_bytes(), None);
        crontab.map_err(|mistakes| mistakes.iter().map(shown).collect::<Vec<_>>())
    };
    let needed =
        "1: a line CRON_TZ=ZONE is needed above it: the time zone of this host has no IANA name";
    assert_eq!(parse("@daily x\n@daily y\n").unwrap_err(), [needed]);
    assert!(parse("CRON_TZ=UTC\n@daily x\n").is_ok());
    let unknown = parse("CRON_TZ=\n@daily x\n").unwrap_err();
    assert_eq!(unknown.len(), 1, "{unknown:?}");
}

#[test]
fn a_spread_is_that_of_the_job_s_name() {
    let first = |text: &str| {
        let jobs = parsed(text).unwrap();
        let noon = "2026-01-01T12:00:00Z".parse().unwrap();
        jobs[0].schedule.next_after(noon).unwrap().to_string()
    };
    assert_eq!(first("#: a\n~ ~ * * * x\n"), first("\n#: a\n~ ~ * * * y\n"));
    assert_ne!(first("#: a\n~ ~ * * * x\n"), first("#: b\n~ ~ * * * x\n"));
}

proptest! {
    #[test]
    fn any_bytes_are_a_crontab_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        match of_bytes(&bytes) {
            Ok(jobs) => prop_assert!(!jobs.is_empty()),
            Err(mistakes) => prop_assert!(!mistakes.is_empty()),
        }
    }

    #[test]
    fn any_lines_are_jobs_or_refused(text in "((#: ?[-a-z'\" =]{0,20}|([*0-9]{1,2} ){0,6}[-a-z%\\\\*]{0,5}|[A-Z\"' =]{0,9}|@daily x)\n){0,8}") {
        match parsed(&text) {
            Ok(jobs) => {
                let mut names: Vec<_> = jobs.iter().map(|job| job.name.to_string().to_lowercase()).collect();
                names.sort();
                names.dedup();
                prop_assert_eq!(names.len(), jobs.len());
            }
            Err(mistakes) => prop_assert!(!mistakes.is_empty()),
        }
    }
}

/// This text decides whether a file has changed. It must stay the same when dblock gets more options.
#[test]
fn options_are_described_by_their_names_and_only_where_they_are_other_than_without_any() {
    for (words, described) in [
        ("", ""),
        ("--ttl 5m --missed once --retries 0", ""),
        ("--retries 2 --timeout 1m", "timeout 60000000\nretries 2\n"),
        (
            "--missed all --jitter 1s --overlap wait",
            "missed all\ndeadline \noverlap wait\njitter 1000000\n",
        ),
    ] {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let (options, mistakes) = Options::parse(&words);
        assert!(mistakes.is_empty(), "{mistakes:?}");
        assert_eq!(options.described(), described);
    }
}

//! The fleet is asked by one, for all who look, and not when nobody does.

use std::fs;
use std::io;
use std::ptr;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{Fleet, until};

const JOB: &str = r#"{"name":"NAME","schedule":"0 3 * * *","time_zone":"UTC","next":"2026-11-27T03:00:00.000Z","in_no_file":false,
"late_seconds":null,"paused_since":null,"triggered":null,"seen":null,"changed_by":"web1","under_way":[],"last":null}"#;

fn crontab(names: &[&str]) -> String {
    let jobs: Vec<_> = names.iter().map(|name| JOB.replace("NAME", name)).collect();
    format!(
        r#"{{"server":"db1:3306","now":"2026-11-26T12:00:00.000Z","jobs":[{}],"daemons":[]}}"#,
        jobs.join(",")
    )
}

#[test]
fn nobody_is_asked_before_somebody_looks_nor_after() {
    let fleet = Fleet::new();
    let web = fleet.serve(&["--refresh", "1s"]).enter();
    let calls = || fleet.calls().len() - fleet.asked(&["config"]);
    assert_eq!(calls(), 0);
    until("all is asked", || {
        web.get("/").expect(200);
        calls() >= 4
    });
    // Once it has stopped, it has stopped: two looks at the number, three refreshes apart.
    until("nobody is asked any more", || {
        let before = calls();
        std::thread::sleep(Duration::from_secs(4));
        before == calls()
    });
    let before = calls();
    until("somebody looks, and it goes on", || {
        web.get("/").expect(200);
        calls() > before
    });
}

#[test]
fn twenty_who_look_ask_no_more_than_one() {
    let fleet = Fleet::new();
    let web = fleet.serve(&["--refresh", "5s"]).enter();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                for page in ["/", "/locks", "/history", "/queues/mail", "/jobs/report"] {
                    let status = web.get(page).status;
                    assert!(matches!(status, 200 | 404), "{page}: {status}");
                }
            });
        }
    });
    // How often at most in a refresh: for the history ask the poller, its page, and the page of the job.
    let most = [
        (&["status"][..], 1),
        (&["history"], 6),
        (&["queue", "list"], 1),
    ];
    let asked = most.map(|(words, most)| (fleet.asked(words), most));
    // It goes on while that is counted.
    let refreshes = usize::try_from(start.elapsed().as_secs()).unwrap() / 5 + 1;
    for (asked, most) in asked {
        assert!(asked <= most * refreshes, "{:?}", fleet.calls());
    }
}

#[test]
fn those_who_look_at_many_pages_ask_for_each_once_and_then_for_few_of_them_again() {
    let fleet = Fleet::new();
    let web = fleet.serve(&["--refresh", "1s"]).enter();
    let look_at_all = || {
        for hours in 1..=20 {
            web.get(&format!("/history?since={hours}h")).expect(200);
        }
    };
    // What is asked for all pages has a moment there, or is about what failed.
    let is_of_a_page = |word: &str| word.starts_with("--since=") && word.ends_with('h');
    let asked = || {
        let mut calls = fleet.calls();
        calls.retain(|call| !call.contains(&"--failed".to_owned()));
        let of_pages = calls
            .iter()
            .filter(|call| call.iter().any(|word| is_of_a_page(word)));
        of_pages.count()
    };
    let begun = Instant::now();
    look_at_all();
    assert_eq!(asked(), 20);
    // Some refreshes later all of them are old.
    let start = Instant::now();
    until("some seconds are over", || {
        look_at_all();
        start.elapsed() > Duration::from_secs(8)
    });
    let asked = asked();
    let few = usize::try_from(begun.elapsed().as_secs()).unwrap() / 30 + 1;
    assert!(asked <= 20 + few, "{asked}");
}

#[test]
fn a_page_shows_what_is_new_without_being_opened_anew() {
    let fleet = Fleet::new();
    let web = fleet.serve(&["--refresh", "1s"]).enter();
    web.get("/").expect(200).lacks("nightly");
    fleet.answers("cron-list", &crontab(&["nightly"]));
    web.until_shows("/", "nightly", true);
    let main = web
        .send("GET", "/", &[("X-Dblock-Main", "1")], "")
        .expect(200);
    assert!(
        main.body.contains("nightly") && !main.body.contains("<html"),
        "{main:?}"
    );
}

#[test]
fn where_the_server_is_away_the_last_state_stays_with_the_line_that_says_why() {
    let fleet = Fleet::new();
    fleet.answers("cron-list", &crontab(&["nightly"]));
    let web = fleet.serve(&["--refresh", "1s"]).enter();
    web.until_all_is_known();
    web.get("/").expect(200).has("nightly");
    fleet.write(
        "away",
        "dblock: warning\ndblock: cannot reach db1:3306: <b>Connection refused</b>\n",
    );
    web.until_shows("/", "cannot reach db1:3306", true);
    web.get("/")
        .expect(200)
        .has("nightly")
        .has("&lt;b&gt;Connection refused")
        .lacks("<b>Connection");
    fleet.remove("away");
    web.until_shows("/", "cannot reach", false);
}

#[test]
fn a_page_of_its_own_question_keeps_the_last_answer_where_the_server_is_away() {
    let fleet = Fleet::new();
    fleet.answers("history", &history_of("nightly", "11:00:00", 0, "null"));
    let queue = r#"{"name":"mails","due":0,"delayed":0,"running":0,"dead":1,"oldest_due_seconds":null,"done_per_minute":0,
        "failed_per_minute":0,"paused_since":null,"deleting_since":null,"incomplete":[],"workers":[]}"#;
    let queues = format!(r#"{{"server":"db1:3306","queues":[{queue}]}}"#);
    fleet.answers("queue-status", &queues);
    let dead = r#"{"server":"db1:3306","queue":"mails","jobs":[{"id":17,"attempt":1}]}"#;
    fleet.answers("queue-list", dead);
    for (page, shown) in [
        ("/history", "nightly"),
        ("/runs/nightly11:00:00", "nightly"),
        ("/queues/mails", "Job 17"),
    ] {
        let web = fleet.serve(&["--refresh", "1s"]).enter();
        web.until_shows(page, shown, true);
        fleet.write("away", "dblock: cannot reach db1:3306\n");
        web.until_shows(page, "No answer about the ", true);
        web.get(page)
            .expect(200)
            .has("What is shown is from ")
            .has(shown);
        fleet.remove("away");
        web.until_shows(page, "No answer about the ", false);
    }
}

#[test]
fn what_a_command_that_is_done_warns_of_is_a_line_on_stderr_once_and_on_the_page_of_an_action() {
    let fleet = Fleet::new();
    let first = "dblock: the password in --url can be read by every user\n";
    fleet.write("warn", first);
    let web = fleet.serve(&["--allow-actions", "--refresh", "1s"]).enter();
    web.until_all_is_known();
    let second = "dblock: db2 is read-only, as a <b>replica</b>\u{1b}[2K is\n";
    fleet.write("warn", &format!("{first}{second}"));
    let asked = || fleet.asked(&["cron", "list"]);
    // One may have begun before; the next one has ended when the third begins.
    for _ in 0..3 {
        let before = asked();
        // After an action all is asked for anew, at once.
        let done = web.post("/actions/pause", "job=good").expect(200);
        done.has("Done.")
            .has("done: cron pause\nthe password in --url can be read by every user\ndb2 is")
            .has("as a &lt;b&gt;replica&lt;/b&gt;\\u{1b}[2K is\nexit code 0");
        until("it is asked again", || {
            let page = web.get("/").expect(200);
            page.lacks("every user").lacks("replica");
            asked() > before
        });
    }
    let (_, said) = web.end(Signal::SIGTERM);
    let expected = [
        "dblock: dblock config says: the password in --url can be read by every user\n",
        "says: db2 is read-only, as a <b>replica</b>\\u{1b}[2K is\n",
    ];
    for line in expected {
        assert_eq!(said.matches(line).count(), 1, "{said}");
    }
    assert_eq!(said.lines().count(), 2, "{said}");
}

#[test]
fn the_first_look_waits_for_a_moment_alone() {
    let fleet = Fleet::new();
    fleet.write("hang", "");
    let web = fleet.serve(&["--refresh", "1s"]).enter();
    let start = Instant::now();
    web.get("/").expect(200);
    let elapsed = start.elapsed();
    assert!(elapsed < Duration::from_secs(10), "{elapsed:?}");
}

#[test]
fn a_dblock_that_hangs_is_killed_and_said_to_be() {
    let fleet = Fleet::new();
    fleet.write("hang", "");
    let web = fleet.serve(&["--refresh", "1s"]).enter();
    web.until_shows("/", "took longer than", true);
    let hanging = fs::read_to_string(fleet.path("hanging")).unwrap();
    let first: i32 = hanging.lines().next().unwrap().parse().unwrap();
    until("it is gone", || kill(Pid::from_raw(first), None).is_err());
    // So does the next one.
    web.until_shows("/", "The server does not answer", true);
    fleet.remove("hang");
    web.until_shows("/", "took longer than", false);
}

#[test]
fn a_dblock_that_does_not_end_though_it_is_killed_keeps_no_other_from_being_asked() {
    let fleet = Fleet::new();
    fleet.write("hang", "");
    let web = fleet.serve(&["--refresh", "1s"]).enter();
    web.get("/").expect(200);
    let hanging = || fs::read_to_string(fleet.path("hanging")).unwrap_or_default();
    until("one hangs", || hanging().contains('\n'));
    let pid: i32 = hanging().lines().next().unwrap().parse().unwrap();
    // It stops just before its end, as if a disk hung, for as long as this thread lives.
    let before_its_end = usize::try_from(libc::PTRACE_O_TRACEEXIT).unwrap();
    let [nothing, options] = [0, before_its_end].map(ptr::without_provenance_mut::<libc::c_void>);
    // SAFETY: this request touches no memory.
    let done = unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, nothing, options) };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
    web.until_shows("/", "took longer than", true);
    fleet.remove("hang");
    web.until_shows("/", "took longer than", false);
    assert_eq!(kill(Pid::from_raw(pid), None), Ok(()), "it has ended");
}

#[test]
fn a_single_answer_that_takes_too_long_is_no_server_that_is_away() {
    let fleet = Fleet::new();
    fleet.write("hang-queue", "");
    let web = fleet.serve(&["--refresh", "1s"]).enter();
    web.until_shows("/", "took longer than", true);
    web.get("/")
        .expect(200)
        .has("Nothing is wrong in what is known")
        .lacks("The server does not answer");
}

#[test]
fn a_dblock_that_hangs_ends_with_the_page() {
    let fleet = Fleet::new();
    fleet.write("hang", "");
    let web = fleet.serve(&[]).enter();
    web.get("/").expect(200);
    until("one hangs", || fleet.path("hanging").exists());
    assert_eq!(web.end(Signal::SIGTERM).0, Some(0));
    let hanging = fs::read_to_string(fleet.path("hanging")).unwrap();
    for pid in hanging.lines() {
        let pid = Pid::from_raw(pid.parse().unwrap());
        until("it is gone", || kill(pid, None).is_err());
    }
}

#[test]
fn a_job_that_cannot_be_asked_for_is_no_fault_of_the_others() {
    let fleet = Fleet::new();
    fleet.answers("cron-list", &crontab(&["bad\\u0000name", "good"]));
    let web = fleet.serve(&["--allow-actions"]).enter();
    until("the other is asked for", || {
        web.get("/").expect(200).lacks("cannot run");
        // After an action all is asked for anew, at once.
        web.post("/actions/pause", "job=good").expect(200);
        fleet.asked(&["history", "--json", "--limit=50", "--", "good"]) > 0
    });
}

#[test]
fn what_is_not_there_is_answered_with_404_where_that_is_known() {
    let fleet = Fleet::new();
    let pages = ["/jobs/none", "/queues/none", "/runs/none"];
    fleet.write("away", "dblock: cannot reach db1:3306\n");
    let web = fleet.serve(&[]).enter();
    for page in pages {
        web.get(page).expect(200);
    }
    fleet.remove("away");
    let web = fleet.serve(&["--refresh", "1s"]).enter();
    for page in pages {
        until("it is known", || web.get(page).status == 404);
        let main = web.send("GET", page, &[("X-Dblock-Main", "1")], "");
        main.expect(404).has("none").lacks("<html");
    }
    // What was known before is no answer of now.
    fleet.write("away", "dblock: cannot reach db1:3306\n");
    until("it is away", || {
        let answer = web.get("/queues/none");
        answer.status == 200 && answer.body.contains("cannot reach db1:3306")
    });
}

#[test]
fn what_there_cannot_be_is_answered_with_404() {
    let fleet = Fleet::new();
    let web = fleet.serve(&[]).enter();
    web.until_all_is_known();
    for (page, line) in [
        ("/runs/zz", "--run: zz is not the number of a run"),
        ("/jobs/zz", "NAME: the name has too many bytes"),
        ("/runs/%00", ""),
        ("/jobs/%00", ""),
    ] {
        fleet.write("wrong", &format!("dblock: {line}\n"));
        until(page, || web.get(page).status == 404);
    }
    // What else is wrong says nothing of the name.
    fleet.write("wrong", "dblock: --connect-timeout: it is too long\n");
    for page in ["/runs/other", "/jobs/other"] {
        web.get(page).expect(200).has("it is too long");
    }
}

#[test]
fn a_job_is_not_said_to_be_missing_where_its_runs_cannot_be_asked_for() {
    let fleet = Fleet::new();
    fleet.write("history-of-a-name.json", "{\"server\": 1}");
    let web = fleet.serve(&[]).enter();
    until("all else is known", || {
        web.get("/queues/none").status == 404
    });
    web.get("/jobs/none").expect(200).has("not understood");
    web.get("/").expect(200).lacks("not understood");
}

#[test]
fn a_job_and_a_queue_that_are_named_as_a_folder_have_pages() {
    let fleet = Fleet::new();
    fleet.answers("cron-list", &crontab(&[".", ".."]));
    let queue = r#"{"name":"..","due":0,"delayed":0,"running":0,"dead":0,"oldest_due_seconds":null,"done_per_minute":0,
        "failed_per_minute":0,"paused_since":null,"deleting_since":null,"incomplete":[],"workers":[]}"#;
    let queues = format!(r#"{{"server":"db1:3306","queues":[{queue}]}}"#);
    fleet.answers("queue-status", &queues);
    let web = fleet.serve(&[]).enter();
    until("all is known", || web.get("/queues/none").status == 404);
    let overview = web.get("/").expect(200);
    for (link, page) in [
        ("/jobs?name=.", "Job of the crontab"),
        ("/jobs?name=..", "Job of the crontab"),
        ("/queues?name=..", "Queue"),
    ] {
        let name = link.split('=').nth(1).unwrap();
        assert!(
            overview.body.contains(&format!("href=\"{link}\"")),
            "{link}: {overview:?}"
        );
        web.get(link)
            .expect(200)
            .has(page)
            .has(&format!("<h1 id=\"headline\">{name}</h1>"));
    }
    web.get("/queues?name=.").expect(404);
    for page in ["/jobs", "/queues"] {
        web.get(page).expect(404);
    }
}

/// 50 runs of the job nightly, the oldest of which ended so.
fn fifty_runs(outcome: &str) -> String {
    let run = r#"{"run":"NUMBER","name":"nightly","requested":"2026-11-26T09:NUMBER:00.000Z","outcome":"OUTCOME","exit_code":0}"#;
    let runs: Vec<_> = (10..60)
        .map(|number| run.replace("NUMBER", &number.to_string()))
        .collect();
    let runs = runs.join(",").replacen("OUTCOME", outcome, 1);
    let runs = runs.replace("OUTCOME", "ran");
    format!(r#"{{"server":"db1","cursor":null,"runs":[{runs}]}}"#)
}

#[test]
fn the_page_of_a_job_asks_again_while_a_run_of_it_is_running() {
    let fleet = Fleet::new();
    fleet.answers("cron-list", &crontab(&["nightly"]));
    fleet.answers("history", &fifty_runs("running"));
    fleet.answers("history-of-a-name", &fifty_runs("ran"));
    let web = fleet.serve(&["--refresh", "1h"]).enter();
    web.until_shows("/", "49 good, 1 running", true);
    web.get("/jobs/nightly")
        .expect(200)
        .has("50 good")
        .lacks("1 running");
}

/// A history of one run, which was requested at this time of 2026-11-26.
fn history_of(name: &str, time: &str, code: u32, cursor: &str) -> String {
    format!(
        r#"{{"server":"db1","cursor":{cursor},"runs":[{{"run":"{name}{time}","name":"{name}","requested":"2026-11-26T{time}Z",
        "ended":"2026-11-26T{time}Z","outcome":"ran","exit_code":{code}}}]}}"#
    )
}

#[test]
fn what_failed_while_nobody_looked_is_found_though_more_ran_since_than_an_answer_has() {
    let fleet = Fleet::new();
    fleet.answers("history", &history_of("often", "11:00:00", 0, "null"));
    let web = fleet.serve(&["--allow-actions", "--refresh", "1h"]).enter();
    web.until_all_is_known();
    web.get("/")
        .expect(200)
        .has("Nothing is wrong")
        .lacks("in what is known");
    fleet.answers("history", &history_of("often", "11:50:00", 0, r#""1-x""#));
    let failed = history_of("nightly", "11:30:00", 1, "null");
    fleet.answers("history-failed", &failed);
    fleet.answers("history-of-a-name", &failed);
    until("it is found", || {
        // After an action all is asked for anew, at once.
        web.post("/actions/pause", "job=good").expect(200);
        let page = web.get("/").expect(200);
        page.body.contains("1 command of dblock run failed")
    });
}

#[test]
fn where_an_answer_is_too_long_to_be_read_fewer_runs_are_asked_for() {
    let fleet = Fleet::new();
    let run = history_of("often", "11:00:00", 0, "null");
    let spaces = " ".repeat(9 << 20);
    fleet.answers("history", &format!("{spaces}{run}"));
    let web = fleet.serve(&["--refresh", "1s"]).enter();
    web.until_shows("/", "it is larger than", true);
    let asked = |limit: &str| fleet.asked(&["history", "--json", limit]);
    assert!(asked("--limit=2000") > 0);
    until("it asks for fewer", || {
        web.get("/").expect(200);
        asked("--limit=1000") > 0
    });
    fleet.answers("history", &run);
    web.until_shows("/", "it is larger than", false);
}

#[test]
fn a_lock_that_a_script_lost_is_no_command_of_dblock_run() {
    let fleet = Fleet::new();
    let lost = r#""program":"dblock acquire","outcome":"lost","exit_code":null"#;
    let history = history_of("deploy", "11:30:00", 0, "null");
    let history = history.replace(r#""outcome":"ran","exit_code":0"#, lost);
    assert!(history.contains(lost), "{history}");
    fleet.answers("cron-list", &crontab(&[]));
    fleet.answers("history", &history);
    let web = fleet.serve(&["--refresh", "1h"]).enter();
    web.until_all_is_known();
    web.get("/")
        .expect(200)
        .has("1 lock of dblock acquire failed")
        .has("<i>dblock acquire</i>")
        .lacks("dblock run");
    web.get("/jobs/deploy")
        .expect(200)
        .has("Lock of <code>dblock acquire</code>")
        .lacks("dblock run");
}

#[test]
fn where_there_are_no_tables_nothing_is_said_of_jobs() {
    let fleet = Fleet::new();
    for answer in ["history", "cron-list", "queue-status"] {
        fleet.remove(&format!("{answer}.json"));
    }
    let line = "dblock: the database \"dblock\" of db1 has no tables of dblock's; create them with dblock init\n";
    fleet.write("refuse", line);
    let web = fleet.serve(&[]).enter();
    // The sign is that of what was skipped: neither green nor in doubt.
    web.until_shows("/", ">–</b> Nothing is wrong in what is known", true);
    web.get("/")
        .expect(200)
        .has("The crontab is not known.")
        .lacks("There are none");
}

#[test]
fn ages_are_by_the_servers_clock() {
    let fleet = Fleet::new();
    let run = history_of("nightly", "01:30:00", 1, "null");
    fleet.answers("history", &run);
    let web = fleet.serve(&[]).enter();
    web.until_all_is_known();
    for page in ["/", "/history", "/runs/nightly01:30:00", "/jobs/nightly"] {
        web.get(page).expect(200).has("10 h ago");
    }
}

#[test]
fn what_is_no_answer_is_said_to_be_none() {
    let fleet = Fleet::new();
    fleet.answers("status", "{\"server\": 1}");
    let web = fleet.serve(&["--refresh", "1s"]).enter();
    web.until_shows("/", "not understood", true);
}

#[test]
fn a_job_has_its_schedule_and_its_next_five_ticks() {
    let fleet = Fleet::new();
    fleet.answers("cron-list", &crontab(&["nightly"]));
    let web = fleet.serve(&[]).enter();
    web.until_all_is_known();
    let page = web.get("/jobs/nightly").expect(200);
    let page = page.has("<code>0 3 * * *</code> <span class=\"rel\">UTC</span>");
    let (_, ticks) = page.body.split_once("Next ticks").expect("ticks");
    let ticks = ticks.split("</ul>").next().unwrap();
    for day in ["11-27", "11-28", "11-29", "11-30", "12-01"] {
        let tick = format!(">2026-{day} 03:00:00</time>");
        assert!(ticks.contains(&tick), "{tick}: {ticks}");
    }
    assert_eq!(ticks.matches("<li>").count(), 5, "{ticks}");
}

#[test]
fn a_link_leads_to_older_runs_with_the_same_filters() {
    let fleet = Fleet::new();
    let cursor = "\"17-x y\"";
    fleet.answers("history", &history_of("nightly", "11:00:00", 0, cursor));
    let web = fleet.serve(&[]).enter();
    let page = "/history?name=nightly&on=web1";
    web.until_shows(page, "Older runs", true);
    let page = web.get(page).expect(200).body;
    let (_, link) = page.split_once("rel=\"next\" href=\"").expect("a link");
    let link = link.split('"').next().unwrap().replace("&amp;", "&");
    let asked = [
        "history",
        "--json",
        "--limit=50",
        "--on=web1",
        "--after=17-x y",
        "--",
        "nightly",
    ];
    until("older runs are asked for", || {
        web.get(&link).expect(200).has("The newest");
        fleet.asked(&asked) > 0
    });
}

#[test]
fn a_page_of_the_history_asks_what_its_url_says() {
    let fleet = Fleet::new();
    let web = fleet.serve(&[]).enter();
    web.get("/history?name=-x%20%C3%BC&result=lost&on=web1&since=2h&until=&after=")
        .expect(200);
    let calls = fleet.calls();
    let asked = calls
        .iter()
        .find(|call| call.contains(&"--limit=50".to_owned()))
        .expect("a page");
    let expected = [
        "history",
        "--json",
        "--limit=50",
        "--result=lost",
        "--on=web1",
        "--since=2h",
        "--",
        "-x ü",
    ];
    assert_eq!(asked[1..], expected);
}

const RUN: &str = "0123456789abcdef0123456789abcdef";

/// What dblock history says of the run, and dblock output of its number.
fn has_output(fleet: &Fleet, has_output: bool) {
    fleet.write("output", "<script>alert(1)</script>\n");
    let run = format!(
        r#"{{"run":"{RUN}","name":"x","slot":0,"slot_name":null,"fence":1,"tick":null,"attempt":1,"host":"web1","pid":1,"user":"u","program":"p",
        "connection":null,"requested":"2026-11-26T12:00:00.000Z","acquired":null,"started":null,"ended":null,"waited_seconds":null,
        "ran_seconds":null,"outcome":"running","exit_code":null,"signal":null,"message":null,"has_output":{has_output}}}"#
    );
    fleet.answers(
        "history",
        &format!(r#"{{"server":"db1","cursor":null,"runs":[{run}]}}"#),
    );
}

#[test]
fn output_of_a_run_that_has_none_is_not_asked_for_as_its_number_may_be_a_name() {
    let fleet = Fleet::new();
    has_output(&fleet, false);
    let web = fleet.serve(&["--show-data"]).enter();
    web.get(&format!("/runs/{RUN}"))
        .expect(200)
        .lacks("alert(1)");
    assert_eq!(fleet.asked(&["output"]), 0);
}

#[test]
fn output_is_asked_for_with_show_data_alone() {
    let fleet = Fleet::new();
    has_output(&fleet, true);
    let web = fleet.serve(&[]).enter();
    web.get(&format!("/runs/{RUN}"))
        .expect(200)
        .lacks("alert(1)");
    assert_eq!(
        (
            fleet.asked(&["output"]),
            fleet.asked(&["history", "--json", &format!("--run={RUN}")])
        ),
        (0, 1)
    );
    let web = fleet.serve(&["--show-data"]).enter();
    web.get(&format!("/runs/{RUN}"))
        .expect(200)
        .has("&lt;script&gt;alert(1)")
        .lacks("<script>alert");
    assert_eq!(fleet.asked(&["output", "--", RUN]), 1);
}

#[test]
fn what_is_not_kept_between_the_beginning_and_the_end_of_an_output_is_said() {
    let fleet = Fleet::new();
    has_output(&fleet, true);
    fleet.write("warn", "dblock: 70000 bytes left out here\n");
    let web = fleet.serve(&["--show-data"]).enter();
    web.get(&format!("/runs/{RUN}"))
        .expect(200)
        .has("Left out between them: 70000 bytes;");
}

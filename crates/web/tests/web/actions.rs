//! What may be done, and what is run for it: nothing without --allow-actions, and nothing by GET.

use std::fs;
use std::io::Write;

use nix::sys::signal::Signal;

use crate::harness::{Fleet, Response, until};

/// A name with everything that means something to a shell, a URL, or HTML.
const NAME: &str = r#"-a/b%41 <i>"ü' $(x);&"#;
const ENCODED: &str = "-a%2Fb%2541%20%3Ci%3E%22%C3%BC%27%20%24%28x%29%3B%26";

/// The arguments of the calls that were no questions.
fn done(fleet: &Fleet) -> Vec<Vec<String>> {
    let mut calls = fleet.calls();
    calls.retain(|call| call[0] == "VIA=web");
    calls.into_iter().map(|call| call[1..].to_vec()).collect()
}

const KINDS: [(&str, &str, &[&str]); 8] = [
    ("pause", "job", &["cron", "pause", "--", NAME]),
    ("resume", "job", &["cron", "resume", "--", NAME]),
    ("trigger", "job", &["cron", "trigger", "--", NAME]),
    ("pause", "queue", &["queue", "pause", "--", NAME]),
    ("resume", "queue", &["queue", "resume", "--", NAME]),
    ("retry", "queue", &["queue", "retry", "--dead", "--", NAME]),
    ("retry", "id=7&queue", &["queue", "retry", "--", NAME, "7"]),
    (
        "cancel",
        "id=7%2C8&queue",
        &["queue", "cancel", "--", NAME, "7", "8"],
    ),
];

fn with_queue(fleet: &Fleet, dead: usize) {
    let name = serde_json_string(NAME);
    fleet.answers(
        "queue-status",
        &format!(
            r#"{{"server":"db1:3306","queues":[{{"name":{name},"paused_since":null,"deleting_since":null,"due":1,"delayed":0,"running":0,
            "dead":{dead},"incomplete":["dead"],"oldest_due_seconds":1,"done_per_minute":0,"failed_per_minute":0,"workers":[{{"id":1,"host":"web7",
            "pid":5,"user":"u","program":"p","max_commands":1,"running":0,"started":"2026-11-26T12:00:00.000Z",
            "renewed":"2026-11-26T12:00:00.000Z","alive":true}}]}}]}}"#
        ),
    );
}

fn with_job(fleet: &Fleet) {
    fleet.answers("cron-list", &a_job());
}

/// A crontab with one job, which has never run.
fn a_job() -> String {
    let name = serde_json_string(NAME);
    format!(
        r#"{{"server":"db1:3306","now":"2026-11-26T12:00:00.000Z","daemons":[],"jobs":[{{"name":{name},"schedule":"0 3 * * *",
        "time_zone":"UTC","next":null,"in_no_file":false,"late_seconds":null,"paused_since":null,"triggered":null,"seen":null,
        "changed_by":null,"under_way":[],"last":null}}]}}"#
    )
}

/// The fields of a page's form, as a browser sends them.
fn form(page: &Response) -> String {
    let fields = page.body.split("type=\"hidden\" name=\"").skip(1);
    let fields = fields.map(|field| {
        let (name, field) = field.split_once("\" value=\"").unwrap();
        let value = field.split('"').next().unwrap();
        let value = [
            ("&lt;", "<"),
            ("&gt;", ">"),
            ("&quot;", "\""),
            ("&amp;", "&"),
        ]
        .iter()
        .fold(value.to_owned(), |value, (escaped, text)| {
            value.replace(escaped, text)
        });
        let value: Vec<_> = value.bytes().map(|byte| format!("%{byte:02x}")).collect();
        format!("{name}={}", value.concat())
    });
    fields.collect::<Vec<_>>().join("&")
}

fn serde_json_string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""))
}

#[test]
fn each_action_is_asked_for_by_get_and_done_by_post_as_its_command() {
    let fleet = Fleet::new();
    with_job(&fleet);
    with_queue(&fleet, 10000);
    let web = fleet
        .serve(&["--allow-actions", "--url", "mysql://u:secret@db/"])
        .enter();
    for (kind, object, expected) in KINDS {
        let before = done(&fleet).len();
        let object = format!("{object}={ENCODED}");
        let page = web.get(&format!("/actions/{kind}?{object}")).expect(200);
        let page = page
            .has("method=\"post\"")
            .has("&lt;i&gt;&quot;ü")
            .lacks("<i>")
            .lacks("secret");
        let form = form(&page.has("dblock "));
        assert_eq!(done(&fleet).len(), before, "{kind} by GET");
        let answer = web.post(&format!("/actions/{kind}"), &form).expect(200);
        answer
            .has("exit code 0")
            .has("done: ")
            .lacks("<i>")
            .lacks("secret");
        let mut words = done(&fleet).pop().expect("a call");
        words.retain(|word| word != "--url=mysql://u:secret@db/");
        assert_eq!(words, expected);
        assert_eq!(done(&fleet).len(), before + 1);
    }
}

#[test]
fn nothing_is_done_without_the_option() {
    let fleet = Fleet::new();
    let web = fleet.serve(&[]).enter();
    for (kind, object, _) in KINDS {
        let object = format!("{object}={ENCODED}");
        web.get(&format!("/actions/{kind}?{object}"))
            .expect(403)
            .has("--allow-actions");
        web.post(&format!("/actions/{kind}"), &object).expect(403);
    }
    assert_eq!(done(&fleet), Vec::<Vec<String>>::new());
}

#[test]
fn what_says_not_what_to_do_to_what_does_nothing() {
    let fleet = Fleet::new();
    let web = fleet.serve(&["--allow-actions"]).enter();
    for (kind, object) in [
        ("delete", "queue=x"),
        ("pause", ""),
        ("pause", "job="),
        ("pause", "job=x&queue=y"),
        ("trigger", "queue=x"),
        ("retry", "queue=x&id=1%3B2"),
        ("retry", "queue=x&id=--dead"),
        ("cancel", "queue=x&id=-1"),
        ("kill", "lock=x&slot=-1"),
    ] {
        web.get(&format!("/actions/{kind}?{object}")).expect(400);
        web.post(&format!("/actions/{kind}"), object).expect(400);
    }
    assert_eq!(done(&fleet), Vec::<Vec<String>>::new());
}

#[test]
fn what_is_not_there_is_not_offered_where_that_is_known() {
    let pages = [
        "/actions/trigger?job=none",
        "/actions/pause?job=none",
        "/actions/resume?queue=none",
        "/actions/retry?queue=none&id=7",
        "/actions/cancel?queue=none&id=7",
    ];
    let fleet = Fleet::new();
    fleet.write("away", "dblock: cannot reach db1:3306\n");
    let web = fleet.serve(&["--allow-actions"]).enter();
    // Nobody knows: the command says it.
    for page in pages {
        web.get(page).expect(200).has("method=\"post\"");
    }
    fleet.remove("away");
    let web = fleet.serve(&["--allow-actions", "--refresh", "1s"]).enter();
    let of_all = ["/actions/retry?queue=none", "/actions/cancel?queue=none"];
    for page in pages.into_iter().chain(of_all) {
        let mut nothing = web.get(page);
        until("it is known", || {
            nothing = web.get(page);
            nothing.status == 404
        });
        nothing.has("none").has("To the overview").lacks("<form");
    }
    with_job(&fleet);
    with_queue(&fleet, 1);
    for object in ["job", "queue"] {
        let page = format!("/actions/pause?{object}={ENCODED}");
        until("it is there", || web.get(&page).status == 200);
    }
    // What was known before is no answer of now.
    fleet.write("away", "dblock: cannot reach db1:3306\n");
    for page in pages {
        until("nobody knows", || web.get(page).status == 200);
    }
}

#[test]
fn the_host_of_a_job_is_named_before() {
    let fleet = Fleet::new();
    let last = r#""last":{"run":"1","host":"web2","acquired":null,"started":null,"ended":null,"ran_seconds":null,"outcome":"ran",
        "exit_code":0,"signal":null}"#;
    let has_run = a_job().replace(r#""last":null"#, last);
    let now = r#""under_way":[{"tick":"2026-11-26T12:00:00.000Z","attempt":1,"host":"web3","retry":null}]"#;
    let runs = has_run.replace(r#""under_way":[]"#, now);
    for (crontab, host) in [
        (&has_run, "web2, where it ran last"),
        (&runs, "web3, where it runs now"),
    ] {
        fleet.answers("cron-list", crontab);
        let web = fleet.serve(&["--allow-actions"]).enter();
        let page = format!("/actions/trigger?job={ENCODED}");
        web.until_shows(&page, &format!("<dt>host</dt><dd>{host}</dd>"), true);
    }
}

#[test]
fn whether_a_job_can_run_now_is_said_before() {
    let daemon = r#""daemons":[{"host":"web1","pid":1,"renewed":null,"alive":true,"leaving":false,"disagrees":[],"differs":[]}]"#;
    let tick = r#""under_way":[{"tick":"2026-11-26T12:00:00.000Z","attempt":1,"host":"web3","retry":null}]"#;
    let without = a_job();
    let with = without.replace(r#""daemons":[]"#, daemon);
    let changed = |from: &str, to: &str| {
        assert!(with.contains(from), "{with}");
        with.replace(from, to)
    };
    let nobody = "No dblock cron run is alive: it runs when one is.";
    let fleet = Fleet::new();
    for (crontab, said) in [
        (&with, "starts it within about a second"),
        (&without, nobody),
        (&changed(r#""leaving":false"#, r#""leaving":true"#), nobody),
        (
            &changed(r#""in_no_file":false"#, r#""in_no_file":true"#),
            "No daemon has it in its file",
        ),
        (
            &changed(r#""under_way":[]"#, tick),
            "Another run meanwhile is skipped",
        ),
    ] {
        fleet.answers("cron-list", crontab);
        let web = fleet.serve(&["--allow-actions"]).enter();
        web.until_shows(&format!("/actions/trigger?job={ENCODED}"), said, true);
    }
}

#[test]
fn how_many_are_concerned_is_counted_before() {
    let fleet = Fleet::new();
    with_queue(&fleet, 10000);
    let jobs: Vec<_> = (1..=3)
        .map(|id| {
            format!(
                r#"{{"id":{id},"state":"dead","priority":0,"due_at":null,"state_since":null,"attempt":1,"key":"secret key","host":null,
                "pid":null,"canceled":false,"last_error":"secret error"}}"#
            )
        })
        .collect();
    fleet.answers(
        "queue-list",
        &format!(
            r#"{{"server":"db1","queue":"x","jobs":[{}]}}"#,
            jobs.join(",")
        ),
    );
    let web = fleet.serve(&["--allow-actions"]).enter();
    web.until_all_is_known();
    let object = format!("queue={ENCODED}");
    let retry = web
        .get(&format!("/actions/retry?{object}"))
        .expect(200)
        .has("10000+ dead jobs")
        .has("web7");
    let page = web
        .get(&format!("/actions/cancel?{object}"))
        .expect(200)
        .has("the 3 dead jobs of 10000+");
    page.has("value=\"1,2,3\"").lacks("secret");
    // Without the numbers nobody was asked about these.
    web.post("/actions/cancel", &object).expect(409);
    web.post("/actions/retry", &object).expect(409);
    assert_eq!(done(&fleet), Vec::<Vec<String>>::new());
    web.post("/actions/cancel", &format!("{object}&id=1%2C2%2C3"))
        .expect(200);
    assert_eq!(
        done(&fleet),
        [["queue", "cancel", "--", NAME, "1", "2", "3"]]
    );
    // It is counted again when the form is sent, whatever the poller knows.
    with_queue(&fleet, 20000);
    let before = done(&fleet).len();
    web.post("/actions/retry", &form(&retry))
        .expect(409)
        .has("10000+ jobs were dead, and now 20000+ are");
    assert_eq!(done(&fleet).len(), before);
}

fn held_by(host: &str) -> String {
    format!(
        r#"{{"server":"db1:3306","not_visible":[],"locks":[{{"name":"backup","killed_by":[],"waiters":[],"holders":[{{"connection":5,
        "address":"u@{host}:1","client":"dblock","host":"{host}","pid":77,"program":"rsync","user":"root","started":null,"slot":2,"dblock":true,
        "since":null,"held_seconds":5,"idle_seconds":null,"durable":false,"kind":null,"fence":null,"owner":null,"expires_in_seconds":null,
        "expired":false}}]}}]}}"#
    )
}

/// A holder that the account may not see.
const UNSEEN: &str = r#"{"server":"db1:3306","not_visible":[],"locks":[{"name":"backup","killed_by":[],"waiters":[],"holders":[{"connection":5,
"slot":2,"dblock":false,"durable":false,"expired":false}]}]}"#;

#[test]
fn the_holder_that_was_shown_is_killed_and_no_other() {
    let fleet = Fleet::new();
    fleet.answers("status", &held_by("web1"));
    let web = fleet.serve(&["--allow-actions", "--refresh", "1s"]).enter();
    let page = web
        .get("/actions/kill?lock=backup&slot=2")
        .expect(200)
        .has("on host web1")
        .has("pid 77")
        .has("rsync");
    let form = form(&page);

    web.post("/actions/kill", "lock=backup&slot=2").expect(409);
    let other_session = held_by("web1").replace("\"connection\":5", "\"connection\":6");
    for other in [held_by("web2"), other_session] {
        fleet.answers("status", &other);
        let refused = web.post("/actions/kill", &form).expect(409);
        refused.has("Another one holds it now: program rsync");
    }
    fleet.answers("status", UNSEEN);
    let refused = web.get("/actions/kill?lock=backup&slot=2").expect(409);
    refused.has("does not see who holds it");
    assert_eq!(done(&fleet), Vec::<Vec<String>>::new());
    fleet.answers("status", &held_by("web1"));
    until("it is killed", || {
        web.post("/actions/kill", &form).status == 200
    });
    assert_eq!(done(&fleet), [["kill", "--wait=30s", "--", "backup#2"]]);
    fleet.answers("status", r#"{"server":"db1:3306","locks":[{"name":"backup","killed_by":[],"waiters":[],"holders":[]}],"not_visible":[]}"#);
    until("nobody holds it", || {
        web.get("/actions/kill?lock=backup&slot=2").status == 409
    });
}

#[test]
fn what_a_kill_ends_is_said_before() {
    let fleet = Fleet::new();
    let run = held_by("web1");
    let changed = |from: &str, to: &str| {
        assert!(run.contains(from), "{run}");
        run.replace(from, to)
    };
    let web = fleet.serve(&["--allow-actions"]).enter();
    let no_row = r#""durable":false,"kind":null"#;
    let token = changed(no_row, r#""durable":true,"kind":"token""#);
    let expired = changed(no_row, r#""durable":true,"kind":"run""#);
    let claims = changed("\"dblock\":true", "\"dblock\":false");
    for (status, said) in [
        (&run, "command is ended by SIGTERM"),
        (&claims, "command is ended by SIGTERM"),
        (&token, "The script itself goes on."),
        (
            &expired.replace("\"expired\":false", "\"expired\":true"),
            "The lock has expired.",
        ),
        (
            &claims.replace("\"client\":\"dblock\"", "\"client\":\"mysql\""),
            "it is no dblock: its session with the server is ended",
        ),
    ] {
        fleet.answers("status", status);
        let page = web.get("/actions/kill?lock=backup&slot=2").expect(200);
        let page = page.has(said);
        let of_a_command = said.starts_with("command");
        assert_eq!(page.body.contains("SIGTERM"), of_a_command, "{page:?}");
    }
}

#[test]
fn the_holder_of_a_lock_with_a_key_is_killed_by_that() {
    let fleet = Fleet::new();
    let keyed = held_by("web1").replace(r#""name":"backup""#, r#""name":"backup","key":"-7,42""#);
    let keyed = keyed.replace("\"slot\":2", "\"slot\":0");
    fleet.answers("status", &keyed);
    let web = fleet.serve(&["--allow-actions", "--refresh", "1s"]).enter();
    let kill = "/actions/kill?lock=backup&amp;key=-7%2C42&amp;slot=0";
    until("the button is there", || {
        web.get("/locks").body.contains(kill)
    });
    let page = web.get(&kill.replace("&amp;", "&")).expect(200);
    web.post("/actions/kill", &form(&page)).expect(200);
    assert_eq!(
        done(&fleet),
        [["kill", "--key=-7,42", "--wait=30s", "--", "backup#0"]]
    );
}

#[test]
fn what_failed_is_said_with_its_line_and_its_code() {
    let fleet = Fleet::new();
    fleet.write("refuse", "dblock: no job is called <b>report</b>\n");
    let web = fleet.serve(&["--allow-actions"]).enter();
    let answer = web.post("/actions/pause", "job=report");
    answer
        .has("no job is called &lt;b&gt;report")
        .has("exit code 78")
        .lacks("Done.");
}

#[test]
fn of_several_jobs_each_line_is_said() {
    let fleet = Fleet::new();
    let said = "dblock: mails has no job 7\ndblock: job 8 of mails is done\n";
    fleet.write("refuse", said);
    let web = fleet.serve(&["--allow-actions"]).enter();
    let answer = web.post("/actions/cancel", "queue=mails&id=7%2C8");
    answer.has("mails has no job 7\njob 8 of mails is done\nexit code 78");
}

#[test]
fn a_script_sees_by_the_status_that_nothing_was_done_and_what_is_known_to_be_missing() {
    let fleet = Fleet::new();
    with_job(&fleet);
    with_queue(&fleet, 1);
    fleet.write("refuse", "dblock: cannot do it\n");
    // After an action all is asked for anew, at once; what is known then is of now until the next one, on however slow a machine.
    let web = fleet.serve(&["--allow-actions", "--refresh", "1h"]).enter();
    // The command is run in any case: the page may know less than it.
    let post = |kind: &str, form: &str| {
        web.until_all_is_known();
        web.post(&format!("/actions/{kind}"), form)
    };
    let [job, queue] = ["job", "id=7&queue"].map(|object| format!("{object}={ENCODED}"));
    let failed = [
        ("trigger", "job=none", 404),
        ("pause", "queue=none", 404),
        ("cancel", "id=7&queue=none", 404),
        ("trigger", &*job, 409),
        ("cancel", &*queue, 409),
    ];
    for (kind, form, status) in failed {
        let answer = post(kind, form).expect(status);
        answer.has("cannot do it").has("It failed.");
    }
    fleet.answers("queue-status", r#"{"server":"db1:3306","queues":[]}"#);
    let uncounted = post("retry", "queue=none&count=1").expect(404);
    uncounted.has("There is no such queue.");
    // Nobody knows what is there.
    fleet.write("away", "dblock: cannot reach db1:3306\n");
    until("nobody knows", || {
        web.post("/actions/trigger", "job=none").status == 409
    });
}

#[test]
fn what_was_done_is_seen_at_once_and_what_it_began_a_moment_later() {
    let fleet = Fleet::new();
    with_job(&fleet);
    // By itself it asks every ten minutes.
    let args = ["--allow-actions", "--refresh", "10m"];
    let web = fleet.serve(&args).enter();
    let asked = || fleet.asked(&["status"]);
    until("it is asked", || {
        web.get("/").expect(200);
        asked() == 1
    });
    web.post("/actions/trigger", &format!("job={ENCODED}"))
        .expect(200);
    until("it is asked twice more", || asked() == 3);
}

#[test]
fn no_more_than_two_are_under_way_at_once() {
    let fleet = Fleet::new();
    fleet.write("slow", "");
    let web = fleet.serve(&["--allow-actions"]).enter();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| web.post("/actions/pause", "job=report").expect(200));
        }
    });
    let mut under_way = 0;
    let slow = fs::read_to_string(fleet.path("slow")).unwrap();
    for line in slow.lines() {
        under_way += if line == "begin" { 1 } else { -1 };
        assert!(under_way <= 2, "{slow}");
    }
    assert_eq!(slow.matches("end").count(), 6);
}

#[test]
fn what_is_under_way_goes_on_to_its_end_whoever_leaves() {
    let fleet = Fleet::new();
    fleet.write("slow", "");
    fleet.write("hold", "");
    fleet.answers("status", &held_by("web1"));
    let web = fleet.serve(&["--allow-actions"]).enter();
    let form = form(&web.get("/actions/kill?lock=backup&slot=2").expect(200));
    let kill = web.form("/actions/kill", &form);
    let mut viewer = web.connect();
    viewer.write_all(kill.as_bytes()).unwrap();
    let said = || fs::read_to_string(fleet.path("slow")).unwrap();
    until("the holder is being killed", || said() == "begin\n");
    drop(viewer);
    web.get("/locks").expect(200);
    assert_eq!(web.end(Signal::SIGTERM).0, Some(0));
    fleet.remove("hold");
    until("it is recorded", || said() == "begin\nend\n");
}

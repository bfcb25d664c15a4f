//! `--once-at`, `--once-per` and `--record`: once per tick across hosts, and what is remembered.

use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::schema::follows;
use crate::harness::{
    Dblock, Frozen, Kind, Proxy, Records, Running, SOON, Server, Tables, Watcher, all_servers,
    both_servers, eventually, is_stopped, polls, runs, send, slack, unique, url_of, within,
};

fn run(server: &Server, name: &str, options: &[&str]) -> Dblock {
    Dblock::run_at(&server.url(), name).args(options)
}

/// A schedule whose last tick was long ago, whatever the time is.
const YEARLY: [&str; 4] = ["--once-at", "0 0 1 1 *", "--time-zone", "UTC"];

/// How long the end of a wait may take the server to record.
const PATIENCE: Duration = Duration::from_millis(500);

/// The outcome, the exit code and the message of the one run of this name.
#[track_caller]
fn end_of(server: &Server, name: &str) -> (String, Option<u8>, Option<String>) {
    let mut runs = ends_of(server, name);
    assert_eq!(runs.len(), 1, "{runs:?}");
    runs.remove(0)
}

/// The same of all of this name.
fn ends_of(server: &Server, name: &str) -> Vec<(String, Option<u8>, Option<String>)> {
    let query = "SELECT outcome, exit_code, message FROM dblock.dblock_runs WHERE name = ?";
    server.watcher().exec(query, (name,)).unwrap()
}

all_servers! {
    fn what_cannot_be_recorded_for_want_of_a_table_is_not_tried_again(server) {
        let (tables, name) = (Tables::with(server, &[]), unique("no-table"));
        let options = ["--name", &name, "--record", "--on-lock-lost", "ignore", "--connect-timeout", "600"];
        let mut run = tables.at("run").args(options).stdin(Stdio::piped()).sh("echo runs; read x; exit 3").spawn();
        run.wait_line("runs", SOON);
        tables.sql("DROP TABLE dblock_runs");
        server.watcher().end_session(server.holder(&name).expect("it is held"));
        run.wait_stderr("was lost", SOON);
        drop(run.take_stdin());
        let end = run.wait_within(SOON);
        end.expect_code(3).expect_said(["cannot record the run: "]);
        assert_eq!(end.stderr.matches("cannot record").count(), 1, "{end:#?}");
    }

    fn a_tick_is_run_once_across_hosts(shared on mysql) {
        let server = Server::durable(shared.kind);
        for durable in [&[][..], &["--durable"]] {
            let name = unique("tick");
            let records = Records::new();
            let runs: Vec<_> = (0..6)
                .map(|id| run(server, &name, &YEARLY).args(durable).args(["--wait", "40"]).command(records.command(id)).spawn())
                .collect();
            let codes: Vec<i32> = runs.into_iter().map(|run| run.wait().code.expect("a code")).collect();
            assert_eq!(records.intervals().len(), 1, "{codes:?}");
            assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "{codes:?}");
            assert_eq!(codes.iter().filter(|code| **code == 75).count(), 5, "{codes:?}");
        }
    }

    fn a_failure_leaves_the_tick_to_the_next_host(shared on mariadb) {
        let server = Server::durable(shared.kind);
        let name = unique("failed");
        for script in ["exit 3", "kill -9 $$"] {
            let output = run(server, &name, &YEARLY).sh(script).output();
            assert_ne!(output.code, Some(75), "{output:?}");
        }
        run(server, &name, &YEARLY).args(["--timeout", "0.2"]).command(["sleep", "30"]).output().expect_code(124);
        run(server, &name, &YEARLY).sh("exit 0").output().expect_code(0).expect_silence();
        let skip = run(server, &name, &YEARLY).sh("exit 0").output();
        skip.expect_code(75).expect_one_line("has run for");
        skip.expect_said([&*name, "; the next is ", "-01-01T00:00:00Z", "not run"]);
        run(server, &name, &YEARLY).args(["-E", "0"]).sh("echo ran").output().expect_code(0).expect_stdout("").expect_silence();
    }

    fn the_command_finds_its_tick(shared on mysql) {
        let server = Server::durable(shared.kind);
        let name = unique("env");
        let output = run(server, &name, &["--once-at", "0 0 1 1 *", "--time-zone", "Europe/Berlin"]).sh("echo $DBLOCK_TICK").output();
        let tick = output.expect_code(0).stdout.trim().to_owned();
        assert!(tick.ends_with("-01-01T00:00:00+01:00"), "{tick}");
        let stored: Option<String> = server.watcher()
            .exec_first("SELECT DATE_FORMAT(tick, '%m-%d %H:%i') FROM dblock.dblock_successes WHERE name = ?", (&name,)).unwrap();
        assert_eq!(stored.as_deref(), Some("12-31 23:00"), "in UTC");
    }

    fn a_skip_has_the_tick_that_it_was_for(shared on mariadb) {
        let server = Server::durable(shared.kind);
        for durable in [&[][..], &["--durable"]] {
            let name = unique("skipped-tick");
            let mut first = run(server, &name, &YEARLY).args(durable).stdin(std::process::Stdio::piped()).sh("echo began; cat").spawn();
            first.wait_line("began", SOON);
            run(server, &name, &YEARLY).args(durable).command(["true"]).output().expect_code(75);
            drop(first.take_stdin());
            first.wait().expect_code(0);
            // Once the lock was taken, once the tick had run.
            run(server, &name, &YEARLY).args(durable).command(["true"]).output().expect_code(75);
            let query = "SELECT outcome, DATE_FORMAT(tick, '%m-%d %H:%i') FROM dblock.dblock_runs WHERE name = ? ORDER BY requested_at";
            let found: Vec<(String, Option<String>)> = server.watcher().exec(query, (&name,)).unwrap();
            let expected = ["ran", "skipped", "skipped"].map(|outcome| (outcome.to_owned(), Some("01-01 00:00".to_owned())));
            assert_eq!(found, expected, "{durable:?}");
        }
    }

    fn a_later_tick_is_run_again(shared on mysql) {
        let server = Server::durable(shared.kind);
        let name = unique("later");
        run(server, &name, &YEARLY).command(["true"]).output().expect_code(0);
        let back = "UPDATE dblock.dblock_successes SET tick = tick - INTERVAL 1 YEAR WHERE name = ?";
        server.watcher().exec_drop(back, (&name,)).unwrap();
        run(server, &name, &YEARLY).command(["true"]).output().expect_code(0);
        run(server, &name, &YEARLY).command(["true"]).output().expect_code(75);
    }

    fn once_per_counts_from_the_beginning_of_the_last_success(shared) {
        let server = Server::durable(shared.kind);
        let name = unique("per");
        let hourly = ["--once-per", "1h"];
        run(server, &name, &hourly).sh("exit 1").output().expect_code(1);
        run(server, &name, &hourly).command(["true"]).output().expect_code(0);
        let skip = run(server, &name, &hourly).command(["true"]).output();
        skip.expect_code(75).expect_one_line("and runs once per 1h; not run");
        for (minutes, code) in [(59, 75), (61, 0)] {
            let back = format!("UPDATE dblock.dblock_successes SET started_at = UTC_TIMESTAMP(6) - INTERVAL {minutes} MINUTE WHERE name = ?");
            server.watcher().exec_drop(back, (&name,)).unwrap();
            run(server, &name, &hourly).command(["true"]).output().expect_code(code);
        }
    }

    fn a_run_is_recorded_with_how_it_ended(shared) {
        let server = Server::durable(shared.kind);
        for option in ["--record", "--durable"] {
            let name = unique("recorded");
            let mut begun = run(server, &name, &[option]).stdin(std::process::Stdio::piped()).sh("echo began; cat; exit 7").spawn();
            begun.wait_line("began", SOON);
            let outcome = |server: &Server| -> Vec<(Option<String>, Option<u8>, Option<String>)> {
                let query = "SELECT outcome, exit_code, signal_name FROM dblock.dblock_runs WHERE name = ? ORDER BY requested_at";
                server.watcher().exec(query, (&name,)).unwrap()
            };
            assert_eq!(outcome(server), [(None, None, None)], "it runs");
            run(server, &name, &[option]).command(["true"]).output().expect_code(75);
            drop(begun.take_stdin());
            begun.wait_within(SOON).expect_code(7);
            run(server, &name, &[option]).sh("kill $$").output();
            run(server, &name, &[option]).args(["--timeout", "0.2"]).command(["sleep", "30"]).output().expect_code(124);
            run(server, &name, &[option]).command(["/nonexistent"]).output().expect_code(127);
            let text = |word: &str| Some(word.to_owned());
            assert_eq!(outcome(server), [
                (text("ran"), Some(7), None),
                (text("skipped"), None, None),
                (text("ran"), Some(143), text("SIGTERM")),
                (text("timed_out"), Some(124), text("SIGTERM")),
                (text("failed"), Some(127), None),
            ], "{option}");
        }
    }

    fn a_signal_that_ends_the_wait_leaves_no_row(shared on mariadb) {
        let server = Server::durable(shared.kind);
        for options in [&["--record"][..], &["--durable"], &YEARLY] {
            let name = unique("interrupted");
            let _held = server.hold(&name);
            let waiting = run(server, &name, options).args(["--wait", "60"]).command(["true"]).spawn();
            eventually("it waits", SOON, || server.waiters(&name).len() == 1);
            waiting.signal(Signal::SIGTERM);
            waiting.wait().expect_signal(Signal::SIGTERM).expect_silence();
            assert_eq!(ends_of(server, &name), [], "{options:?}");
        }
    }

    fn a_wait_that_ends_at_a_silent_server_ends_soon(shared on mysql) {
        let server = Server::durable(shared.kind);
        let proxy = Proxy::to(server);
        let name = unique("silent");
        let _held = server.hold(&name);
        let waiting = Dblock::run_at(&proxy.url(), &name).args(["--record", "--wait", "60"]).command(["true"]).spawn();
        eventually("it waits", SOON, || server.waiters(&name).len() == 1);
        proxy.freeze();
        let signalled = Instant::now();
        waiting.signal(Signal::SIGTERM);
        waiting.wait().expect_signal(Signal::SIGTERM).expect_silence();
        assert!(signalled.elapsed() < PATIENCE + slack());
    }

    fn the_history_says_by_what_a_lock_was_lost(shared) {
        let server = Server::durable(shared.kind);
        let start = |name: &str, options: &[&str]| {
            let mut begun = run(server, name, options).args(["--ttl", "16"])
                .stdin(std::process::Stdio::piped()).sh("echo began; cat").spawn();
            begun.wait_line("began", SOON);
            begun
        };
        let lose = |name: &str| {
            let delete = "DELETE FROM dblock.dblock_locks WHERE name = ?";
            server.watcher().exec_drop(delete, (name,)).unwrap();
        };
        let name = unique("gone");
        let mut begun = start(&name, &["--durable"]);
        lose(&name);
        begun.wait_within(SOON).expect_code(74);
        let line = format!("{name} was lost, and the command was ended for it: its row is gone");
        assert_eq!(end_of(server, &name), ("lost".to_owned(), Some(74), Some(line)));
        let name = unique("killed");
        let mut begun = start(&name, &["--durable"]);
        Dblock::at(server, "kill").arg(&name).output().expect_code(0);
        begun.wait_within(SOON).expect_code(74);
        let (_, _, why) = end_of(server, &name);
        let why = why.unwrap_or_default();
        assert!(why.starts_with(&format!("{name} was lost, and the command was ended for it: ended by ")) && why.contains(", pid "), "{why}");
        for (option, cause) in [("--durable", "its row is gone"), ("--record", "")] {
            let name = unique("ignored");
            let mut begun = start(&name, &[option, "--on-lock-lost", "ignore"]);
            if option == "--durable" {
                lose(&name);
            } else {
                let session = server.holder(&name).unwrap();
                server.watcher().end_session(session);
            }
            begun.wait_stderr("the command continues without it", SOON);
            drop(begun.take_stdin());
            begun.wait_within(SOON).expect_code(0);
            let (outcome, code, why) = end_of(server, &name);
            assert_eq!((&*outcome, code), ("ran", Some(0)));
            let why = why.unwrap_or_default();
            assert!(why.starts_with(&format!("the lock was lost while the command ran: {cause}")), "{option}: {why}");
        }
    }

    fn the_history_says_that_the_lock_was_lost_also_where_dblock_learns_it_with_the_end_of_the_command(shared on mariadb) {
        let server = Server::durable(shared.kind);
        let (proxy, name) = (Proxy::to(server), unique("lost-late"));
        let dblock = Dblock::run_at(&proxy.url(), &name).args(["--record", "--on-lock-lost", "ignore"]);
        let mut begun = dblock.stdin(std::process::Stdio::piped()).sh("echo $$; cat").spawn();
        let command = begun.wait_line("", SOON).trim().parse().unwrap();
        begun.signal(Signal::SIGSTOP);
        eventually("dblock is stopped", SOON, || is_stopped(begun.pid()));
        proxy.cut();
        // It says so first.
        eventually("the keeper looks whether somebody has ended it", SOON, || proxy.connections() > 1);
        drop(begun.take_stdin());
        eventually("the command has ended", SOON, || !runs(command));
        begun.signal(Signal::SIGCONT);
        let end = begun.wait_within(SOON);
        end.expect_code(0).expect_said([&*format!("{name} was lost while the command ran: ")]);
        let (outcome, code, why) = end_of(server, &name);
        assert_eq!((&*outcome, code), ("ran", Some(0)));
        let why = why.unwrap_or_default();
        assert!(why.starts_with("the lock was lost while the command ran: "), "{why}");
    }

    fn a_report_has_the_fence_and_the_tick(shared on mysql) {
        let server = Server::durable(shared.kind);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("report");
        let reported = ["--report", file.to_str().unwrap()];
        let name = unique("report");
        run(server, &name, &["--durable"]).args(reported).args(YEARLY).command(["true"]).output().expect_code(0);
        let line = fs::read_to_string(&file).unwrap();
        follows(&line, "report");
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["fence"], 1);
        assert!(line["tick"].as_str().unwrap().ends_with("-01-01T00:00:00.000Z"), "{line}");
    }

    fn a_recorded_run_whose_session_ends_is_recorded_all_the_same(shared) {
        let server = Server::durable(shared.kind);
        let name = unique("other-session");
        let mut begun = run(server, &name, &["--record", "--on-lock-lost", "ignore"])
            .stdin(std::process::Stdio::piped()).sh("echo began; cat").spawn();
        begun.wait_line("began", SOON);
        let session = server.holder(&name).unwrap();
        server.watcher().end_session(session);
        begun.wait_stderr("was lost", SOON);
        drop(begun.take_stdin());
        begun.wait_within(SOON).expect_code(0);
        let ended = "SELECT outcome FROM dblock.dblock_runs WHERE name = ?";
        let outcome: Option<String> = server.watcher().exec_first(ended, (&name,)).unwrap();
        assert_eq!(outcome.as_deref(), Some("ran"));
    }

    fn ordinary_runs_keep_the_history_as_short_as_it_is_to_be(shared on mariadb) {
        let tables = Tables::with(shared, &["--keep", "1d,5"]);
        // Of a name that runs, and of one that does not any more.
        let rows = (0..100).map(|number| {
            let name = if number < 50 { "runs" } else { "rests" };
            let ago = format!("UTC_TIMESTAMP(6) - INTERVAL 2 DAY - INTERVAL {number} SECOND");
            format!("('{number:032x}', '{name}', {ago}, UTC_TIMESTAMP(6), 'skipped')")
        });
        let rows = rows.collect::<Vec<_>>().join(", ");
        tables.sql(&format!("INSERT INTO dblock_runs (run, name, requested_at, ended_at, outcome) VALUES {rows}"));
        let mut admin = tables.client();
        let mut old = |name: &str| -> u64 {
            let count = "SELECT COUNT(*) FROM dblock_runs WHERE name = ? AND requested_at < UTC_TIMESTAMP(6) - INTERVAL 1 DAY";
            admin.exec_first(count, (name,)).unwrap().unwrap()
        };
        let mut rounds = 0;
        while old("runs") > 0 || old("rests") > 5 {
            let hosts = [(); 10].map(|()| tables.at("run").args(["--name", "runs", "--record"]).command(["true"]).spawn());
            for host in hosts {
                let code = host.wait().code;
                assert!([Some(0), Some(75)].contains(&code), "{code:?}");
            }
            rounds += 1;
            assert!(rounds < 300, "{} and {} are left", old("runs"), old("rests"));
        }
        assert_eq!(old("rests"), 5, "the last of each name stay");
    }

    fn a_run_that_could_not_be_recorded_is_told(shared) {
        let server = Server::durable(shared.kind);
        let again = "this success may not have been recorded, and then ";
        let run_only = "the run may not have been recorded";
        let cases = [
            (&["--record"][..], "exit 0", Some(run_only)),
            (&["--durable"], "exit 0", Some(run_only)),
            (&["--once-per", "1h"], "exit 0", Some(again)),
            (&["--once-per", "1h", "--durable"], "exit 0", Some(again)),
            (&["--once-per", "1h"], "exit 3", Some(run_only)),
            (&[], "exit 0", None),
        ];
        let check = |options: &[&str], script: &str, told: Option<&str>| {
            let name = unique("silent");
            let proxy = Proxy::to(server);
            let script = format!("echo began; read line; {script}");
            let mut begun = run(server, &name, options).env("DBLOCK_URL", proxy.url()).args(["--connect-timeout", "5", "--ttl", "16"])
                .stdin(std::process::Stdio::piped()).sh(&script).spawn();
            begun.wait_line("began", SOON);
            proxy.freeze();
            let ended = Instant::now();
            drop(begun.take_stdin());
            let end = begun.wait_within(2 * SOON);
            // A success is tried for as long as the TTL.
            let (least, took) = (if told == Some(again) { 16 } else { 5 }, ended.elapsed());
            let least = Duration::from_secs(least);
            assert!(least <= took && took < least + 2 * slack(), "{took:?}");
            assert!([Some(0), Some(3)].contains(&end.code), "{end:?}");
            end.expect_one_line("the server did not answer; it frees ");
            match told {
                Some(told) => drop(end.expect_said([told])),
                None => assert!(!end.stderr.contains("recorded"), "{end:?}"),
            }
        };
        std::thread::scope(|scope| {
            for (options, script, told) in cases {
                scope.spawn(move || check(options, script, told));
            }
        });
    }

    fn a_success_counts_for_its_tick_though_another_keeper_records_it(shared on mariadb) {
        let server = Server::durable(shared.kind);
        for durable in [&[][..], &["--durable"]] {
            let name = unique("replaced");
            let mut begun = run(server, &name, &YEARLY).args(durable).arg("-v").stdin(std::process::Stdio::piped())
                .sh("echo began $$; read line").spawn();
            let command = begun.wait_pid("began");
            send(begun.keeper(Some(command)), Signal::SIGKILL);
            let goes_on = if durable.is_empty() { "reacquired after" } else { "on a new session" };
            begun.wait_stderr(goes_on, SOON);
            begun.take_stdin().write_all(b"\n").unwrap();
            begun.wait_within(SOON).expect_code(0);
            let again = run(server, &name, &YEARLY).args(durable).command(["true"]).output();
            again.expect_code(75);
        }
    }

    fn a_success_is_recorded_before_the_hold_is_over(shared on mysql) {
        let server = Server::durable(shared.kind);
        for durable in [&[][..], &["--durable"]] {
            let name = unique("held-on");
            let held = run(server, &name, &["--once-per", "1h", "--hold-at-least", "1h"]).args(durable).command(["true"]).spawn();
            let recorded = "SELECT COUNT(*) FROM dblock.dblock_successes WHERE name = ?";
            let mut admin = server.watcher();
            eventually("it is recorded", SOON, || admin.exec_first(recorded, (&name,)).unwrap() == Some(1));
            held.signal(Signal::SIGTERM);
            held.wait().expect_code(0);
            run(server, &name, &["--once-per", "1h"]).command(["true"]).output().expect_code(75);
        }
    }

    fn without_tables_a_lock_that_is_taken_is_no_skip(shared on mariadb) {
        let name = unique("no-tables");
        let _holder = shared.hold(&name);
        let admin = run(shared, &name, &["--record"]).user("admin").env("DBLOCK_PASSWORD", "admin-secret");
        admin.command(["true"]).output().expect_code(78).expect_one_line("create them with dblock init");
    }

    fn without_tables_nothing_is_run(shared on mysql) {
        for options in [&["--record"][..], &["--once-per", "1h"], &YEARLY] {
            let output = run(shared, &unique("no-tables"), options).sh("echo ran").output();
            assert!(matches!(output.code, Some(77 | 78)), "{output:?}");
            assert_eq!((output.stdout.as_str(), output.stderr.lines().count()), ("", 1), "{output:?}");
        }
    }
}

both_servers! {
    fn a_success_is_not_left_on_a_server_that_is_read_only_by_then_though_its_account_may_write_there(shared) {
        let (before, now) = (Server::private(shared.kind).with_durable_runs(), Server::durable(shared.kind));
        before.let_write_above_read_only("dblock");
        for durable in [&[][..], &["--durable"]] {
            let name = unique("demoted");
            let run_at = |url: &str| Dblock::run_at(url, &name).args(YEARLY).args(durable);
            let begun = run_at(&url_of([&before, now])).stdin(Stdio::piped());
            let mut begun = begun.sh("echo began; read line; exit 0").spawn();
            begun.wait_line("began", SOON);
            before.set_read_only(true);
            drop(begun.take_stdin());
            begun.wait_within(SOON).expect_code(0);
            let again = run_at(&now.url()).command(["true"]).output();
            again.expect_code(75).expect_one_line("has run for");
            before.set_read_only(false);
        }
    }
}

#[test]
fn wrong_schedules_are_usage_errors() {
    let server = Server::durable(Kind::MariaDb);
    for (options, part) in [
        (&["--once-at", "61 * * * *"][..], "minute \"61\""),
        (&["--once-at", "* * * *"], "--once-at"),
        (&["--once-at", ""], "--once-at"),
        (&["--once-at", "noon"], "has 1 field; a schedule has five"),
        (&["--once-at", "@reboot"], "--once-at"),
        (&["--once-at", "0 0 30 2 *"], "--once-at"),
        (
            &["--once-at", "* * * * *", "--time-zone", "Mars/Base"],
            "--time-zone",
        ),
        (&["--time-zone", "UTC"], "--time-zone"),
        (&["--once-per", "0"], "--once-per"),
        (&["--once-per", "soon"], "--once-per"),
        (
            &["--once-at", "* * * * *", "--once-per", "1h"],
            "--once-per",
        ),
    ] {
        let output = run(server, &unique("wrong"), options)
            .sh("echo ran")
            .output();
        output
            .expect_code(64)
            .expect_stdout("")
            .expect_one_line(part);
    }
}

#[test]
fn the_hosts_time_zone_counts_where_none_is_given() {
    let server = Server::durable(Kind::MySql);
    for (zone, end) in [
        ("Asia/Tokyo", "+09:00"),
        ("UTC", "Z"),
        (":Europe/Berlin", "+01:00"),
    ] {
        let dblock = run(server, &unique("zone"), &["--once-at", "0 0 1 1 *"]).env("TZ", zone);
        let output = dblock.sh("echo $DBLOCK_TICK").output();
        assert!(
            output.expect_code(0).stdout.trim().ends_with(end),
            "{output:?}"
        );
    }
    let dblock = run(server, &unique("zone"), &["--once-at", "0 0 1 1 *"]).env("TZ", "FOO5BAR");
    dblock
        .command(["true"])
        .output()
        .expect_code(78)
        .expect_one_line("--once-at needs --time-zone");
}

#[test]
fn a_schedule_in_an_option_file_is_that_of_the_host() {
    let server = Server::durable(Kind::MariaDb);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my.cnf");
    fs::write(
        &file,
        "[dblock]\nonce-at = 0 0 1 1 *\ntime-zone = UTC\nrecord\n",
    )
    .unwrap();
    let name = unique("file");
    let dblock = || run(server, &name, &[]).arg(format!("--defaults-file={}", file.display()));
    dblock().command(["true"]).output().expect_code(0);
    dblock().command(["true"]).output().expect_code(75);
    eventually("both are recorded", SOON, || {
        let count = "SELECT COUNT(*) FROM dblock.dblock_runs WHERE name = ?";
        server.watcher().exec_first(count, (&name,)).unwrap() == Some(2)
    });
}

#[test]
fn a_server_that_has_answered_is_not_out_of_reach_while_its_history_is_locked() {
    let server = Server::shared(Kind::MariaDb);
    let tables = Tables::new(server);
    let name = unique("locked");
    let run = || {
        let run = tables
            .at("run")
            .args(["--name", &name, "--record", "--if-unreachable", "run"]);
        run.args(["--connect-timeout", "12"])
            .sh("echo ran")
            .output()
    };
    let mut locks = tables.client();
    locks.query_drop("LOCK TABLES dblock_runs WRITE").unwrap();
    run()
        .expect_code(69)
        .expect_stdout("")
        .expect_one_line(&format!("{name} was granted, but "));
    eventually("the lock is free", SOON, || server.holder(&name).is_none());
    let client = server.hold(&name);
    run()
        .expect_code(75)
        .expect_stdout("")
        .expect_said([&*format!("{name} is held by"), "cannot record the skip: "]);
    drop(client);
    locks.query_drop("UNLOCK TABLES").unwrap();
    run().expect_code(0).expect_stdout("ran\n").expect_silence();
}

#[test]
fn a_server_whose_rows_are_locked_is_not_out_of_reach() {
    let server = Server::shared(Kind::MariaDb);
    let tables = Tables::new(server);
    let name = unique("rows-locked");
    let run = || {
        let run = tables
            .at("run")
            .args(["--name", &name, "--durable", "--if-unreachable", "run"]);
        run.args(["--connect-timeout", "12"])
            .sh("echo ran")
            .output()
    };
    run().expect_code(0).expect_stdout("ran\n");
    let mut locks = tables.client();
    locks.query_drop("LOCK TABLES dblock_locks READ").unwrap();
    run()
        .expect_code(69)
        .expect_stdout("")
        .expect_said([format!("another session keeps the row of {name} locked")]);
}

/// A run that is to succeed for its tick, through this proxy, and says `began`; it ends when its stdin is closed.
#[track_caller]
fn to_succeed(proxy: &Proxy, name: &str, options: &[&str]) -> Running {
    let start = || {
        let run = Dblock::run_at(&proxy.url(), name).args(YEARLY);
        let run = run.args(options).args(["--connect-timeout", "4"]);
        let run = run.stdin(Stdio::piped());
        run.sh("echo began $$; read line; exit 0").spawn()
    };
    let mut run = start();
    // A server may not answer in so short a time.
    eventually("it has begun", SOON, || {
        if !run.is_running() {
            run = start();
        }
        run.stdout().contains("began ")
    });
    run
}

#[test]
fn a_success_is_recorded_also_where_the_server_is_away_for_longer_than_the_connect_timeout() {
    let server = Server::durable(Kind::MariaDb);
    // The server has ten seconds for an answer.
    for options in [&["--ttl", "80"][..], &["--ttl", "80", "--durable"]] {
        let (name, proxy) = (unique("away"), Proxy::to(server));
        let mut begun = to_succeed(&proxy, &name, options);
        proxy.freeze();
        let ended = Instant::now();
        drop(begun.take_stdin());
        eventually("longer than that", SOON, || {
            ended.elapsed() > Duration::from_secs(5)
        });
        assert!(begun.is_running(), "{options:?}: {}", begun.stderr());
        proxy.thaw();
        begun.wait_within(SOON).expect_code(0).expect_silence();
        let again = run(server, &name, &YEARLY).command(["true"]).output();
        again.expect_code(75).expect_one_line("has run for");
    }
}

#[test]
fn a_success_whose_row_is_locked_for_a_while_counts_from_when_its_run_began() {
    let server = Server::durable(Kind::MariaDb);
    let (name, proxy) = (unique("late"), Proxy::to(server));
    let mut admin = server.watcher();
    let before = "INSERT INTO dblock.dblock_successes (name, started_at, ended_at) VALUES (?, '2020-01-01', '2020-01-01')";
    admin.exec_drop(before, (&name,)).unwrap();
    let run = Dblock::run_at(&proxy.url(), &name).args(["--once-per", "1h", "--ttl", "80"]);
    let run = run.stdin(Stdio::piped()).sh("echo began; cat");
    let mut run = run.spawn();
    run.wait_line("began", SOON);
    let began = "SET @began = UTC_TIMESTAMP(6)";
    admin.query_drop(began).unwrap();
    admin.lock(&format!("dblock.dblock_successes WHERE name = '{name}'"));
    drop(run.take_stdin());
    let is_success = |sent: String| sent.contains("dblock record success");
    let sent = || {
        let packets = proxy.packets().into_iter();
        packets
            .filter(|packet| packet.sent().is_some_and(is_success))
            .count()
    };
    // Each time the server gives up on the row after two seconds.
    eventually("it is sent for the third time", SOON, || sent() >= 3);
    admin.query_drop("ROLLBACK").unwrap();
    run.wait_within(SOON).expect_code(0).expect_silence();
    let late = "SELECT TIMESTAMPDIFF(MICROSECOND, @began, started_at) FROM dblock.dblock_successes WHERE name = ?";
    let late: Option<i64> = admin.exec_first(late, (&name,)).unwrap();
    assert!(
        late.is_some_and(|late| late < 3_000_000),
        "{late:?} microseconds"
    );
}

#[test]
fn a_success_that_was_not_recorded_at_once_is_when_its_dblock_is_killed_while_it_holds_the_row_on()
{
    let server = Server::durable(Kind::MariaDb);
    let (name, proxy) = (unique("held-on"), Proxy::to(server));
    let options = [
        "--durable",
        "--once-per",
        "1h",
        "--hold-at-least",
        "1h",
        "-v",
    ];
    let begun = Dblock::run_at(&proxy.url(), &name).args(options);
    let mut begun = begun.stdin(Stdio::piped()).sh("echo shell $$; cat").spawn();
    let command = begun.wait_pid("shell");
    let before = server.holder(&name);
    // It hears of the end while its session is lost, and it does not know yet.
    let stopped = Frozen::new(begun.keeper(Some(command)));
    proxy.cut();
    drop(begun.take_stdin());
    begun.wait_stderr("holding", SOON);
    eventually("it is told", SOON, || polls(begun.pid()));
    drop(stopped);
    eventually("it has another session", SOON, || {
        let holder = server.holder(&name);
        holder.is_some() && holder != before
    });
    begun.signal(Signal::SIGKILL);
    begun.wait_within(SOON).expect_signal(Signal::SIGKILL);
    eventually("it is released", SOON, || server.owner(&name, 0).is_none());
    let (outcome, code, _) = end_of(server, &name);
    assert_eq!((&*outcome, code), ("ran", Some(0)));
    let again = run(server, &name, &["--once-per", "1h"]).command(["true"]);
    again.output().expect_code(75);
}

#[test]
fn a_run_whose_lock_was_reacquired_is_recorded_also_where_a_session_commits_nothing_by_itself() {
    let server = Server::private_with(Kind::MariaDb, &["--autocommit=0"]);
    let tables = Tables::new(&server);
    let name = unique("reacquired");
    let options = ["--name", &name, "--record", "--on-lock-lost", "reacquire"];
    let begun = tables.at("run").args(options);
    let mut begun = begun
        .stdin(std::process::Stdio::piped())
        .sh("echo began; cat")
        .spawn();
    begun.wait_line("began", SOON);
    let session = server.holder(&name).unwrap();
    tables.sql(&format!("KILL {session}"));
    begun.wait_stderr("reacquired", SOON);
    drop(begun.take_stdin());
    begun.wait_within(SOON).expect_code(0);
    let ended = "SELECT outcome FROM dblock_runs WHERE name = ?";
    let outcome: Option<String> = tables.client().exec_first(ended, (&name,)).unwrap();
    assert_eq!(outcome.as_deref(), Some("ran"));
}

#[test]
fn a_success_whose_keeper_dies_is_recorded_by_another_or_said_to_be_lost() {
    let server = Server::durable(Kind::MariaDb);
    for is_back in [true, false] {
        let (name, proxy) = (unique("dropped"), Proxy::to(server));
        // The success is tried for as long, and the keeper is killed before that is over.
        let ttl = if is_back { "60" } else { "10" };
        let mut begun = to_succeed(&proxy, &name, &["--ttl", ttl, "--on-lock-lost", "ignore"]);
        let command = begun.wait_pid("began");
        proxy.refuse(true);
        proxy.cut();
        begun.wait_stderr("was lost while the command runs", SOON);
        let keeper = begun.keeper(Some(command));
        drop(begun.take_stdin());
        eventually("the command is reaped", SOON, || {
            !begun.children().contains(&command)
        });
        send(keeper, Signal::SIGKILL);
        eventually("it is gone", SOON, || !begun.children().contains(&keeper));
        if is_back {
            proxy.refuse(false);
        }
        let end = begun.wait_within(2 * SOON);
        end.expect_code(0);
        let is_said = end
            .stderr
            .contains("this success may not have been recorded, and then ");
        assert_eq!(is_said, !is_back, "{end:#?}");
        let again = run(server, &name, &YEARLY).command(["true"]).output();
        again.expect_code(if is_back { 75 } else { 0 });
    }
}

#[test]
fn a_success_is_recorded_or_said_to_be_lost_where_the_network_falls_silent_and_then_the_keeper_dies()
 {
    // The keeper renews every few seconds: before, while and after it waits for an answer.
    thread::scope(|scope| {
        for silent_for in [2500, 3000, 3500, 4000, 4500].map(Duration::from_millis) {
            for is_back in [true, false] {
                scope.spawn(move || {
                    let is_tried = (0..3).any(|_| is_recorded_or_said(silent_for, is_back));
                    assert!(is_tried, "the lease was over before each time");
                });
            }
        }
    });
}

/// The same with the silence beginning so long before the command's end, and ending after the keeper's death, or not at all. `false`:
/// the machine stood still for so long that the lease was over, and the command was ended for that.
fn is_recorded_or_said(silent_for: Duration, is_back: bool) -> bool {
    let server = Server::durable(Kind::MariaDb);
    let (name, proxy) = (unique("silent-dropped"), Proxy::to(server));
    let mut begun = to_succeed(&proxy, &name, &["--ttl", "11", "--kill-after", "0.5"]);
    let command = begun.wait_pid("began");
    proxy.freeze();
    within(silent_for, || !runs(command));
    let keeper = begun.keeper(Some(command));
    drop(begun.take_stdin());
    eventually("the command is reaped", SOON, || {
        !begun.children().contains(&command)
    });
    if begun.stderr().contains("; ending the command") {
        return false;
    }
    send(keeper, Signal::SIGKILL);
    eventually("it is gone", SOON, || !begun.children().contains(&keeper));
    if is_back {
        proxy.thaw();
    }
    let end = begun.wait_within(2 * SOON);
    let lost = "this success may not have been recorded, and then ";
    let is_said = end.expect_code(0).stderr.contains(lost);
    let again = run(server, &name, &YEARLY)
        .args(["--wait", "60"])
        .command(["true"])
        .output();
    again.expect_code(if is_said { 0 } else { 75 });
    assert!(is_said || is_back, "{end:#?}");
    true
}

#[test]
fn a_success_that_cannot_be_recorded_is_said_whatever_keeps_it_and_also_with_quiet() {
    let server = Server::shared(Kind::MariaDb);
    let full = "CREATE TRIGGER no_room BEFORE UPDATE ON dblock_runs FOR EACH ROW SIGNAL SQLSTATE 'HY000' \
                SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'";
    // Of the latter the lock cannot be released either.
    let gone = "RENAME TABLE dblock_runs TO kept_runs, dblock_locks TO kept_locks";
    for (durable, fault) in [
        (&[][..], full),
        (&["--durable"], full),
        (&["--durable"], gone),
    ] {
        let (tables, name) = (Tables::new(server), unique("unrecorded"));
        let run = tables.at("run").args(["-q", "--name", &name]);
        let run = run.args(["--ttl", "8", "--kill-after", "0.5"]);
        // Longer than it is tried for.
        let run = run
            .args(YEARLY)
            .args(durable)
            .args(["--connect-timeout", "30"]);
        let run = run.stdin(std::process::Stdio::piped());
        let mut begun = run.sh("echo began; read line; exit 0").spawn();
        begun.wait_line("began", SOON);
        tables.sql(fault);
        drop(begun.take_stdin());
        let end = begun.wait_within(2 * SOON);
        let line = format!("dblock: this success is not recorded, and {name} is run again\n");
        assert!(end.stderr.contains(&line), "{durable:?}, {fault}: {end:#?}");
        end.expect_code(0);
    }
}

//! `dblock history` shows what is recorded of each run, says of one without an end whether it still runs, and picks what was asked
//! for. The rows are written here as a run writes them.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::harness::crontab::{end, scheduler_of};
use crate::harness::{
    BY_CHANCE, Cluster, Crontab, Dblock, Kind, PASSWORD, Pair, SOON, Server, Tables, all_servers,
    both_servers, eventually, unique, url_of, within,
};

/// Writes a run of the lock `name` that was requested so many seconds ago, with these columns besides; its number.
fn add(tables: &Tables, name: &str, ago: u32, more: &[(&str, &str)]) -> String {
    let run = format!("{:032x}", fastrand::u128(..));
    let list = |of: fn(&(&str, &str)) -> String| more.iter().map(of).collect::<String>();
    let columns = list(|(column, _)| ", ".to_owned() + column);
    let values = list(|(_, value)| ", ".to_owned() + value);
    tables.sql(&format!(
        "INSERT INTO dblock_runs (run, name, requested_at{columns}) \
         VALUES ('{run}', '{name}', UTC_TIMESTAMP(6) - INTERVAL {ago} SECOND{values})"
    ));
    run
}

/// A run that ended with this outcome and exit code.
fn ended(tables: &Tables, name: &str, ago: u32, outcome: &str, code: &str) {
    let ended = format!("UTC_TIMESTAMP(6) - INTERVAL {ago} SECOND");
    let outcome = format!("'{outcome}'");
    add(
        tables,
        name,
        ago,
        &[
            ("ended_at", &ended),
            ("outcome", &outcome),
            ("exit_code", code),
        ],
    );
}

/// The runs that `dblock history --json` prints.
#[track_caller]
fn json_of(dblock: Dblock) -> Vec<Value> {
    let output = dblock.arg("--json").output();
    output.expect_code(0).expect_silence();
    output.json()["runs"].as_array().unwrap().clone()
}

#[track_caller]
fn runs(tables: &Tables, args: &[&str]) -> Vec<Value> {
    json_of(tables.at("history").args(args))
}

/// The names of the runs, in their order.
#[track_caller]
fn names(tables: &Tables, args: &[&str]) -> Vec<String> {
    let runs = runs(tables, args);
    let names = runs.iter().map(|run| run["name"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

/// The table, a line a run, without its titles, the words one space apart.
#[track_caller]
fn table(tables: &Tables, args: &[&str]) -> Vec<String> {
    let output = tables.at("history").args(args).output();
    output.expect_code(0).expect_silence();
    let mut lines = output.stdout.lines();
    let titles = lines.next().unwrap_or_default();
    assert_eq!(
        titles
            .split("  ")
            .map(str::trim)
            .filter(|title| !title.is_empty())
            .collect::<Vec<_>>(),
        [
            "NAME",
            "TIME (UTC)",
            "TOOK",
            "RESULT",
            "HOST",
            "PID",
            "PROGRAM",
            "SLOT",
            "FENCE",
            "TICK (UTC)",
            "WHY"
        ],
        "{}",
        output.stdout
    );
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    lines.map(words).collect()
}

fn moment(text: &Value) -> SystemTime {
    humantime::parse_rfc3339(text.as_str().unwrap()).unwrap()
}

all_servers! {
    fn everything_that_is_recorded_of_a_run_is_shown(server) {
        let tables = Tables::new(server);
        let run = add(&tables, "it''s \u{1f600}", 0, &[
            ("slot", "3"), ("slot_name", "'key3'"), ("fence", "41"), ("tick", "'2026-11-22 08:30:00.25'"), ("attempt", "2"),
            ("host", "'web1'"), ("pid", "4711"), ("user", "'app'"), ("program", "'report'"), ("connection", "812"),
            ("acquired_at", "UTC_TIMESTAMP(6)"), ("started_at", "'2026-11-22 08:30:02'"),
            ("ended_at", "'2026-11-22 08:32:02.5'"), ("outcome", "'ran'"), ("exit_code", "143"), ("signal_name", "'SIGTERM'"),
            ("message", "'a line'"),
        ]);
        tables.sql("UPDATE dblock_runs SET requested_at = '2026-11-22 08:30:01.001', acquired_at = '2026-11-22 08:30:01.501'");
        let expected = json!({
            "run": run, "name": "it's \u{1f600}", "slot": 3, "slot_name": "key3", "fence": 41, "tick": "2026-11-22T08:30:00.250Z",
            "attempt": 2, "host": "web1", "pid": 4711, "user": "app", "program": "report", "connection": 812,
            "requested": "2026-11-22T08:30:01.001Z", "acquired": "2026-11-22T08:30:01.501Z", "started": "2026-11-22T08:30:02.000Z",
            "ended": "2026-11-22T08:32:02.500Z", "waited_seconds": 0.5, "ran_seconds": 120.5, "outcome": "ran", "exit_code": 143,
            "signal": "SIGTERM", "message": "a line", "has_output": false,
        });
        assert_eq!(runs(&tables, &[]), [expected]);
        assert_eq!(table(&tables, &[]), ["it's \u{1f600} 2026-11-22 08:30:02 2m SIGTERM web1 4711 report key3 41 2026-11-22 08:30:00 a line"]);
        // Whatever time zone the server is in.
        let whole = tables.at("history").arg("--json").output().json();
        assert_eq!(whole["server"], format!("127.0.0.1:{}", server.port));
    }

    fn the_newest_come_last_and_twenty_unless_another_number_is_asked_for(server on mysql) {
        let tables = Tables::new(server);
        for number in 0..25 {
            ended(&tables, &format!("job{number}"), 100 - number, "ran", "0");
        }
        let all: Vec<String> = (0..25).map(|number| format!("job{number}")).collect();
        assert_eq!(names(&tables, &[]), all[5..]);
        assert_eq!(names(&tables, &["-n", "3"]), all[22..]);
        assert_eq!(names(&tables, &["--limit", "24"]), all[1..]);
        assert_eq!(names(&tables, &["-n", "0"]), all);
        assert_eq!(names(&tables, &["-n", "4294967295"]), all);
    }

    fn runs_of_the_same_moment_are_each_shown_once_across_the_pages(server) {
        let tables = Tables::new(server);
        // More than two pages, of three moments.
        let rows = (0..1200).map(|number| {
            let (micros, code) = (1 + number % 3, number % 2);
            format!("('{number:032x}', 'job{number}', '2026-11-22 08:00:00.00000{micros}', UTC_TIMESTAMP(6), 'ran', {code})")
        });
        let rows = rows.collect::<Vec<_>>().join(", ");
        tables.sql(&format!("INSERT INTO dblock_runs (run, name, requested_at, ended_at, outcome, exit_code) VALUES {rows}"));
        let found = runs(&tables, &["-n", "0"]);
        let mut names: Vec<&str> = found.iter().map(|run| run["name"].as_str().unwrap()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!((found.len(), names.len()), (1200, 1200));
        let times: Vec<&str> = found.iter().map(|run| run["requested"].as_str().unwrap()).collect();
        assert!(times.is_sorted());
        assert_eq!(runs(&tables, &["-n", "700"]), found[500..]);
        assert_eq!(runs(&tables, &["-n", "0", "--failed"]).len(), 600);
        assert_eq!(runs(&tables, &["-n", "510", "--failed"]).len(), 510);
    }

    fn only_the_names_that_are_asked_for_are_shown(server on mariadb) {
        let tables = Tables::new(server);
        for (ago, name) in ["a", "A", "b", "a b", "a", "é"].into_iter().enumerate() {
            ended(&tables, name, 10 - u32::try_from(ago).unwrap(), "ran", "0");
        }
        assert_eq!(names(&tables, &["a"]), ["a", "a"]);
        assert_eq!(names(&tables, &["b", "A", "b"]), ["A", "b"]);
        assert_eq!(names(&tables, &["é", "a b"]), ["a b", "é"]);
        assert_eq!(names(&tables, &["none"]), [""; 0]);
        tables.at("history").arg("none").output().expect_code(0).expect_silence().expect_stdout("no such run is recorded\n");
    }

    fn failed_are_those_that_were_to_run_and_did_not_end_well(server) {
        let tables = Tables::new(server);
        let outcomes = [
            ("ok", "ran", "0"), ("bad", "ran", "1"), ("late", "timed_out", "124"), ("lost", "lost", "74"), ("skipped", "skipped", "NULL"),
            ("stopped", "interrupted", "NULL"), ("failed", "failed", "127"), ("released", "released", "NULL"), ("ignored", "lost", "0"),
        ];
        for (ago, (name, outcome, code)) in (1..).zip(outcomes) {
            ended(&tables, name, 100 - ago, outcome, code);
        }
        add(&tables, "signal", 50, &[("ended_at", "UTC_TIMESTAMP(6)"), ("outcome", "'ran'"), ("exit_code", "0"), ("signal_name", "'SIGINT'")]);
        add(&tables, "vanished", 40, &[]);
        let running = add(&tables, "running", 30, &[]);
        let _session = server.hold(&format!("#{running}"));
        assert_eq!(names(&tables, &["--failed"]), ["bad", "late", "lost", "failed", "ignored", "signal", "vanished"]);
        // The newest that failed, not those of the newest that failed.
        assert_eq!(names(&tables, &["--failed", "-n", "2"]), ["signal", "vanished"]);
        assert_eq!(names(&tables, &["--failed", "bad", "ok"]), ["bad"]);
    }

    fn since_is_a_time_by_the_servers_clock(server) {
        let tables = Tables::new(server);
        for ago in [7200, 3000, 30] {
            ended(&tables, &format!("job{ago}"), ago, "ran", "0");
        }
        assert_eq!(names(&tables, &["--since", "1h"]), ["job3000", "job30"]);
        assert_eq!(names(&tables, &["--since", "60"]), ["job30"]);
        assert_eq!(names(&tables, &["--since", "0"]), [""; 0]);
        assert_eq!(names(&tables, &["--since", "99years"]).len(), 3);
        tables.sql("UPDATE dblock_runs SET requested_at = '2026-11-22 08:30:00.5' WHERE name = 'job7200'");
        let at = |since: &str| names(&tables, &["job7200", "--since", since]).len();
        for since in ["2026-11-22", "2026-11-22 08:30", "2026-11-22 08:30:00", "2026-11-22T08:30:00.5Z", "2026-11-22T09:30:00+01:00",
            "2026-11-21T23:30:00.4-09:00", "1970-01-01"] {
            assert_eq!(at(since), 1, "{since}");
        }
        for since in ["2026-11-23", "2026-11-22 08:31", "2026-11-22T08:30:00.500001Z", "2026-11-22T08:30:00-00:01", "9999-12-31"] {
            assert_eq!(at(since), 0, "{since}");
        }
    }

    fn runs_are_picked_by_when_and_where_they_were_and_how_they_ended(server on mysql) {
        let tables = Tables::new(server);
        let words = ["ran", "timed_out", "lost", "skipped", "interrupted", "failed", "released"];
        for (ago, word) in (1..).zip(words) {
            ended(&tables, word, 600 * ago, word, "0");
        }
        add(&tables, "vanished", 30, &[]);
        tables.sql("UPDATE dblock_runs SET host = 'web1' WHERE name IN ('ran', 'lost')");
        tables.sql("UPDATE dblock_runs SET host = 'Web1' WHERE name = 'failed'");
        for word in words.into_iter().filter(|word| *word != "lost") {
            assert_eq!(names(&tables, &["--result", word]), [word]);
        }
        assert_eq!(names(&tables, &["--result", "lost"]), ["lost", "vanished"], "also without a record of that");
        assert_eq!(names(&tables, &["--result", "lost", "-n", "1"]), ["vanished"]);
        assert_eq!(names(&tables, &["--result", "running"]), [""; 0]);
        assert_eq!(names(&tables, &["--result", "timed out"]), ["timed_out"], "as the table has it");
        assert_eq!(names(&tables, &["--on", "web1"]), ["lost", "ran"]);
        assert_eq!(names(&tables, &["--on", "web1", "--result", "ran"]), ["ran"]);
        assert_eq!(names(&tables, &["--on", "nowhere"]), [""; 0]);
        assert_eq!(names(&tables, &["--until", "3500s", "-n", "2"]), ["released", "failed"]);
        assert_eq!(names(&tables, &["--since", "1600s", "--until", "1000s"]), ["timed_out"]);
        tables.sql("UPDATE dblock_runs SET requested_at = '2026-11-22 08:30:00' WHERE name = 'ran'");
        let at = |until: &str| names(&tables, &["ran", "--until", until]).len();
        assert_eq!([at("2026-11-22 08:30"), at("2026-11-22T08:30:00.000001Z")], [0, 1]);
    }

    fn a_walk_from_page_to_page_shows_each_run_once_while_others_are_written(server on mariadb) {
        let tables = Tables::new(server);
        // Two of them at each moment.
        for number in 0..24 {
            add(&tables, &format!("job{number:02}"), 0, &[]);
            tables.sql(&format!("UPDATE dblock_runs SET requested_at = '2026-11-22 08:00:00.0000{:02}' WHERE name = 'job{number:02}'", number / 2));
        }
        let (mut found, mut args) = (Vec::new(), Vec::new());
        for page in 0.. {
            let options: Vec<&str> = args.iter().map(String::as_str).collect();
            let whole = tables.at("history").args(["-n", "5", "--json"]).args(&options).output().json();
            let runs = whole["runs"].as_array().unwrap();
            found.extend(runs.iter().rev().map(|run| run["name"].as_str().unwrap().to_owned()));
            let Some(next) = whole["cursor"].as_str() else { break };
            assert!(page < 9, "it comes to an end");
            args = vec!["--after".to_owned(), next.to_owned()];
            add(&tables, "later", 0, &[]);
            tables.sql(&format!("UPDATE dblock_runs SET ended_at = UTC_TIMESTAMP(6), outcome = 'ran' WHERE name = '{}'", found.last().unwrap()));
        }
        assert_eq!(found.len(), 24);
        let all: std::collections::BTreeSet<String> = found.iter().cloned().collect();
        assert_eq!(all, (0..24).map(|number| format!("job{number:02}")).collect());
        let moments: Vec<&str> = found.iter().map(|name| &name[3..]).collect();
        let pairs: Vec<u32> = moments.iter().map(|number| number.parse::<u32>().unwrap() / 2).collect();
        assert!(pairs.is_sorted_by(|newer, older| newer >= older), "{pairs:?}");
    }

    fn a_run_without_an_end_runs_if_it_has_its_row(server on mysql) {
        let tables = Tables::new(server);
        let run = add(&tables, "job", 90, &[("slot", "2"), ("acquired_at", "UTC_TIMESTAMP(6) - INTERVAL 80 SECOND")]);
        let outcome = || runs(&tables, &["job"])[0]["outcome"].clone();
        assert_eq!(outcome(), "lost");
        let row = |slot: u32, owner: &str, expires: &str| {
            tables.sql(&format!("DELETE FROM dblock_locks WHERE slot = {slot}"));
            tables.sql(&format!(
                "INSERT INTO dblock_locks (name, slot, owner, expires_at) VALUES ('job', {slot}, '{owner}', UTC_TIMESTAMP(6) + INTERVAL {expires})"
            ));
        };
        row(2, &run, "60 SECOND");
        assert_eq!(outcome(), "running");
        let lines = table(&tables, &[]);
        // However long it took to get here.
        assert!((20..60).any(|seconds| lines[0].contains(&format!(" 1m {seconds}s so far running "))), "{lines:?}");
        // Expired; another's; another slot.
        row(2, &run, "-1 SECOND");
        assert_eq!(outcome(), "lost");
        row(2, &"f".repeat(32), "60 SECOND");
        assert_eq!(outcome(), "lost");
        row(1, &run, "60 SECOND");
        assert_eq!(outcome(), "lost");
        assert_eq!(runs(&tables, &[])[0]["message"], "unknown end: its host died or lost the server");
        assert!(table(&tables, &[])[0].ends_with(" - lost - - - 2 - - unknown end: its host died or lost the server"));
    }

    fn a_run_without_an_end_runs_if_its_session_is_there(server) {
        let tables = Tables::new(server);
        let name = unique("job");
        let run = add(&tables, &name, 0, &[]);
        let session = server.hold(&format!("#{run}"));
        let found = || runs(&tables, &[])[0].clone();
        assert_eq!((&found()["outcome"], &found()["message"], &found()["ended"]), (&json!("running"), &Value::Null, &Value::Null));
        // Also where the history is read by an account that may only read.
        let account = server.account();
        tables.grant("SELECT", &account);
        assert_eq!(json_of(tables.at("history").user(&account))[0]["outcome"], "running");
        let id = session.connection_id();
        drop(session);
        eventually("its session is gone", SOON, || !server.has_session(id));
        assert_eq!(found()["outcome"], "lost");
    }

    fn a_read_only_server_tells_what_it_knows(server on mariadb) {
        let server = Server::private(server.kind);
        let tables = Tables::new(&server);
        ended(&tables, "ended", 30, "ran", "0");
        add(&tables, "session", 20, &[]);
        let row = add(&tables, "row", 10, &[("slot", "0")]);
        tables.sql(&format!("INSERT INTO dblock_locks (name, slot, owner, expires_at) VALUES ('row', 0, '{row}', UTC_TIMESTAMP(6) + INTERVAL 60 SECOND)"));
        server.set_read_only(true);
        let found = runs(&tables, &[]);
        let outcomes: Vec<_> = found.iter().map(|run| run["outcome"].as_str().unwrap()).collect();
        assert_eq!(outcomes, ["ran", "unknown", "running"]);
        assert_eq!(found[1]["message"], "this server does not see whether it still runs");
        assert_eq!(names(&tables, &["--failed"]), [""; 0]);
    }

    fn a_server_without_the_tables_is_passed_over(server on mariadb) {
        let (there, other) = (Tables::new(server), Server::private(server.kind));
        ended(&there, "job", 1, "ran", "0");
        let missing = Tables::named(&other, &there.database);
        let history = |servers: [&Server; 2]| there.at("history").env("DBLOCK_URL", url_of(servers)).output();
        let run = history([&other, server]);
        run.expect_code(0).expect_one_line("has no tables of dblock's");
        assert!(run.stdout.contains("job"), "{}", run.stdout);
        history([server, &other]).expect_code(0).expect_silence();
        drop(missing);
        // Of each that lacks them it is said once.
        let missing = Tables::missing(server);
        let also_missing = Tables::named(&other, &missing.database);
        let servers = [server, &other];
        let run = missing.at("history").env("DBLOCK_URL", url_of(servers)).output();
        let lines: Vec<_> = run.expect_code(78).stderr.lines().collect();
        for (line, server) in lines.iter().zip(servers) {
            let says = format!(" of 127.0.0.1:{} has no tables of dblock's", server.port);
            assert!(line.contains(&says), "{line}");
        }
        assert_eq!(lines.len(), 2, "{lines:#?}");
        drop(also_missing);
    }

    fn without_the_tables_it_says_what_to_do(server on mariadb) {
        let tables = Tables::missing(server);
        let place = server.kind.place().trim_start_matches("DBLOCK_").to_lowercase();
        let line = format!("the {place} {} of 127.0.0.1:{} has no tables of dblock's; create them with dblock init, or name their \
                            {place} with --{place}", tables.database, server.port);
        tables.at("history").output().expect_code(78).expect_stdout("").expect_one_line(&line);
        tables.init().output().expect_code(0);
        tables.sql("DELETE FROM dblock_meta");
        tables.at("history").output().expect_code(78).expect_one_line(&line);
        tables.init().output().expect_code(0);
        tables.sql("DROP TABLE dblock_runs");
        tables.at("history").output().expect_code(78).expect_one_line("not whole:").expect_one_line("; see dblock init --check");
    }

    fn it_is_read_by_an_account_that_may_only_read(server) {
        let tables = Tables::new(server);
        ended(&tables, "job", 1, "ran", "0");
        let account = server.account();
        let history = || tables.at("history").user(&account);
        history().output().expect_code(77).expect_one_line("; dblock needs ");
        tables.grant("SELECT", &account);
        assert_eq!(json_of(history()).len(), 1);
    }

    fn rows_of_any_width_come_through(server on mariadb) {
        let tables = Tables::new(server);
        tables.sql(match server.kind {
            Kind::Postgres => "ALTER TABLE dblock_runs ALTER message TYPE text, ALTER program TYPE text",
            Kind::MariaDb | Kind::MySql => "ALTER TABLE dblock_runs MODIFY message LONGTEXT NULL, MODIFY program LONGTEXT NULL",
        });
        for _ in 0..3 {
            add(&tables, &"\u{1f600}".repeat(50), 1, &[("program", "REPEAT('\u{1}', 100000)"), ("message", "REPEAT('\u{1f600}', 50000)")]);
        }
        let found = runs(&tables, &[]);
        assert_eq!(found.len(), 3);
        assert_eq!(found[0]["program"].as_str().unwrap().chars().count(), 100);
    }

    fn times_are_the_servers_whatever_its_time_zone(server on mariadb) {
        let server = Server::private(server.kind);
        let zone = match server.kind {
            Kind::Postgres => "ALTER DATABASE app SET timezone = 'Asia/Tokyo'",
            Kind::MariaDb | Kind::MySql => "SET GLOBAL time_zone = '+09:00'",
        };
        server.watcher().query_drop(zone).unwrap();
        let tables = Tables::new(&server);
        ended(&tables, "job", 100, "ran", "0");
        let requested = moment(&runs(&tables, &["--since", "200"])[0]["requested"]);
        let ago = SystemTime::now().duration_since(requested).unwrap();
        assert!(ago.abs_diff(Duration::from_secs(100)) < Duration::from_secs(30), "{ago:?}");
        assert_eq!(names(&tables, &["--since", "50"]), [""; 0]);
    }

    fn a_name_that_nobody_uses_any_more_is_forgotten_and_its_fence_does_not_go_back(server) {
        let tables = Tables::with(server, &["--keep", "1h,100"]);
        let fence = || {
            let run = tables.at("run").args(["--durable", "--name", "was used"]).sh("echo $DBLOCK_FENCE").output();
            run.expect_code(0).expect_silence().stdout.trim().parse::<u64>().unwrap()
        };
        tables.at("run").args(["--once-per", "1m", "--name", "was used", "true"]).output().expect_code(0);
        assert_eq!(fence(), 1);
        let day = "UTC_TIMESTAMP(6) - INTERVAL 3 DAY";
        tables.sql(&format!("UPDATE dblock_locks SET fence = 41, renewed_at = {day}"));
        tables.sql(&format!("UPDATE dblock_runs SET requested_at = {day}, ended_at = {day}"));
        tables.sql(&format!("UPDATE dblock_successes SET started_at = {day}, ended_at = {day}"));
        let left = || ["runs", "locks", "successes"].map(|table| {
            tables.rows::<u32>(&format!("SELECT COUNT(*) FROM dblock_{table} WHERE name = 'was used'"))[0]
        });
        assert_eq!(left(), [2, 1, 1]);
        eventually("other runs have deleted all of it", BY_CHANCE, || {
            tables.at("run").args(["--record", "--name", "is used", "true"]).output().expect_code(0);
            left() == [0, 0, 0]
        });
        assert_eq!([fence(), fence()], [42, 43]);
        // Nor where an older dblock creates the row.
        tables.sql("DELETE FROM dblock_locks");
        tables.sql("INSERT INTO dblock_locks (name, slot) VALUES ('was used', 0)");
        assert!(fence() > 1 << 40);
    }

    fn the_daemon_of_a_crontab_deletes_old_history(server) {
        // So many jobs that old history is pruned after one of them in most rounds.
        const JOBS: u64 = 16;
        let lines = (0..JOBS).fold(String::new(), |lines, job| lines + &format!("#: job{job}\n0 0 1 1 * true\n"));
        let crontab = Crontab::new(server, &lines);
        let tables = &crontab.tables;
        tables.sql("UPDATE dblock_meta SET keep_seconds = 3600, keep_runs = 1");
        let unused = unique("unused");
        for name in (0..JOBS).map(|job| crontab.name(&format!("job{job}"))).chain([unused.clone()]) {
            ended(tables, &name, 7200, "ran", "0");
        }
        let old = "dblock_runs WHERE requested_at < UTC_TIMESTAMP(6) - INTERVAL 3600 SECOND";
        assert_eq!(crontab.count(old), JOBS + 1);
        let host = crontab.start(&[]);
        let all_run = || {
            tables.sql("UPDATE dblock_cron_jobs SET next_at = UTC_TIMESTAMP(6), changed_at = UTC_TIMESTAMP(6)");
            // A daemon that finds a row locked comes back for it after a pause.
            eventually("all have run", BY_CHANCE, || {
                crontab.count("dblock_cron_jobs WHERE next_at <= UTC_TIMESTAMP(6)") == 0 && crontab.count("dblock_cron_ticks") == 0
            });
        };
        let (scheduler, sessions) = (scheduler_of(host.pid()), crontab.sessions());
        assert_eq!(sessions.len(), 1);
        // Where it cannot, it goes on.
        let mut other = tables.client();
        other.query_drop("BEGIN").unwrap();
        for run in crontab.rows::<String>(&format!("SELECT run FROM {old}")) {
            other.query_drop(format!("UPDATE dblock_runs SET host = 'x' WHERE run = '{run}'")).unwrap();
        }
        // Not one of another test.
        let prune = format!("DELETE FROM {}.dblock_runs WHERE run", tables.quoted());
        eventually("it waits for a row", BY_CHANCE, || {
            all_run();
            within(Duration::from_secs(1), || server.answering(&prune) > 0)
        });
        all_run();
        other.query_drop("COMMIT").unwrap();
        eventually("that of a job, and of a name that is not used any more, is gone", BY_CHANCE, || {
            all_run();
            let of_unused = crontab.count(&format!("dblock_runs WHERE name = '{unused}'"));
            of_unused == 0 && crontab.count(old) < JOBS
        });
        assert_eq!((scheduler_of(host.pid()), crontab.sessions()), (scheduler, sessions), "they are still the same");
        end(host);
    }

    fn who_creates_a_row_waits_for_those_that_are_being_deleted(server) {
        let tables = Tables::new(server);
        let mut pruner = tables.client();
        pruner.query_drop("BEGIN").unwrap();
        pruner.query_drop("UPDATE dblock_meta SET fence_floor = 100").unwrap();
        let run = tables.at("run").args(["--durable", "--name", "job"]).sh("echo $DBLOCK_FENCE").spawn();
        // Not one of another test.
        let create = format!("INTO {}.dblock_locks (name", tables.quoted());
        eventually("it waits", SOON, || server.answering(&create) > 0);
        pruner.query_drop("COMMIT").unwrap();
        run.wait().expect_code(0).expect_silence().expect_stdout("101\n");
    }

    fn every_statement_has_a_name(server on mysql) {
        let tables = Tables::new(server);
        let output = tables.at("history").args(["-vv", "--failed"]).output();
        output.expect_code(0).expect_said(["/* dblock prepare */ SE", "/* dblock version */", "/* dblock history */"]);
        assert!(!output.stderr.contains(PASSWORD));
        assert!(!output.stderr.contains("*/ /*"), "one name each: {}", output.stderr);
    }
}

both_servers! {
    fn a_replica_answers_when_the_primary_is_gone(server on mariadb) {
        let pair = Pair::private(server.kind);
        let url = format!("mysql://admin@127.0.0.1:{},127.0.0.1:{}/", pair.primary.port, pair.replica.port);
        let at = |command: &str| Dblock::bare().args([command, "--url", &url]).env("DBLOCK_PASSWORD", "admin-secret");
        at("init").output().expect_code(0);
        pair.primary.watcher().query_drop(
            "INSERT INTO dblock.dblock_runs (run, name, requested_at, ended_at, outcome, exit_code) \
             VALUES (REPEAT('a', 32), 'job', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), 'ran', 0)"
        ).unwrap();
        eventually("it has come to the replica", SOON, || {
            let found = pair.replica.watcher().query::<String>("SELECT name FROM dblock.dblock_runs");
            found.is_ok_and(|found| !found.is_empty())
        });
        assert_eq!(json_of(at("history"))[0]["name"], "job");
        pair.primary.kill();
        assert_eq!(json_of(at("history"))[0]["name"], "job");
    }
}

#[test]
fn how_it_ended_is_told_in_a_word() {
    let server = Server::shared(Kind::MySql);
    let tables = Tables::new(server);
    let results = [
        ("ran", "0", "exit 0"),
        ("ran", "3", "exit 3"),
        ("timed_out", "124", "timed out"),
        ("lost", "74", "lost"),
        ("skipped", "NULL", "skipped"),
        ("interrupted", "NULL", "interrupted"),
        ("failed", "127", "failed"),
        ("released", "NULL", "released"),
        ("of_a_newer", "1", "of a newer"),
    ];
    for (ago, (outcome, code, _)) in (1..).zip(results) {
        ended(&tables, "job", 100 - ago, outcome, code);
    }
    let lines = table(&tables, &["job"]);
    for (line, (_, _, result)) in lines.iter().zip(results) {
        // NAME, date, time, TOOK.
        let rest = line.splitn(5, ' ').nth(4).unwrap();
        assert!(rest.starts_with(result), "{result}: {line}");
    }
    assert_eq!(lines.len(), results.len());
    let words: Vec<_> = runs(&tables, &[])
        .iter()
        .map(|run| run["outcome"].clone())
        .collect();
    assert_eq!(words, results.map(|(outcome, _, _)| Value::from(outcome)));
}

#[test]
fn a_skip_says_why() {
    let server = Server::shared(Kind::MySql);
    let tables = Tables::new(server);
    add(
        &tables,
        "job",
        5,
        &[
            ("ended_at", "UTC_TIMESTAMP(6)"),
            ("outcome", "'skipped'"),
            ("message", "'job is held by web2'"),
        ],
    );
    let run = &runs(&tables, &[])[0];
    assert_eq!(
        (&run["message"], &run["started"], &run["ran_seconds"]),
        (&json!("job is held by web2"), &Value::Null, &Value::Null)
    );
    let waited = run["waited_seconds"].as_f64().unwrap();
    assert!((5.0..6.0).contains(&waited), "{waited}");
    let lines = table(&tables, &[]);
    assert!(
        lines[0].ends_with("- skipped - - - - - - job is held by web2"),
        "{lines:?}"
    );
}

#[test]
fn what_a_table_holds_steers_no_terminal() {
    let server = Server::shared(Kind::MySql);
    let tables = Tables::new(server);
    add(
        &tables,
        "job",
        1,
        &[
            ("host", "'\u{1b}[2Jx'"),
            ("message", "'a\nb\u{202e}c'"),
            ("ended_at", "UTC_TIMESTAMP(6)"),
            ("outcome", "'failed'"),
        ],
    );
    let run = &runs(&tables, &[])[0];
    assert_eq!(
        (&run["host"], &run["message"]),
        (&json!("\u{1b}[2Jx"), &json!("a\nb\u{202e}c"))
    );
    let output = tables.at("history").output();
    assert!(
        !output.stdout.contains(['\u{1b}', '\u{202e}']),
        "{output:?}"
    );
    assert_eq!(output.stdout.lines().count(), 2);
    let output = tables.at("history").arg("--json").output();
    assert!(
        !output.stdout.contains(['\u{1b}', '\u{202e}']),
        "{output:?}"
    );
}

#[test]
fn a_closed_stdout_is_an_error() {
    let server = Server::shared(Kind::MySql);
    let tables = Tables::new(server);
    for command in ["history", "status", "check", "config", "init --check"] {
        let mut words = command.split(' ');
        let dblock = tables.at(words.next().unwrap()).args(words);
        let closed = dblock.pre_exec(|| {
            // SAFETY: closes a descriptor of the new process.
            unsafe { libc::close(1) };
            Ok(())
        });
        closed
            .output()
            .expect_code(70)
            .expect_one_line("cannot write to stdout: ");
    }
}

#[test]
fn a_node_of_a_galera_cluster_does_not_see_the_sessions_of_the_others() {
    let nodes = &Cluster::shared_galera().nodes;
    let tables = Tables::new(&nodes[0]);
    let outcome = |node: &Server| {
        let history = tables.at("history").env("DBLOCK_URL", node.url());
        json_of(history)[0]["outcome"].clone()
    };
    // What one node has written the other shows at once.
    for _ in 0..10 {
        let run = add(&tables, "job", 0, &[]);
        let _session = nodes[0].hold(&format!("#{run}"));
        assert_eq!(outcome(&nodes[1]), "unknown");
        assert_eq!(outcome(&nodes[0]), "running");
        tables.sql(
            "UPDATE dblock_runs SET ended_at = UTC_TIMESTAMP(6), outcome = 'ran', exit_code = 0",
        );
        assert_eq!(outcome(&nodes[1]), "ran");
        tables.sql("DELETE FROM dblock_runs");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |arguments: &[&str], part: &str| {
        let run = Dblock::bare().args(["history", "--url", "mysql://u@127.0.0.1:1/"]);
        let run = run.args(arguments).output();
        run.expect_code(64).expect_stdout("").expect_one_line(part);
    };
    for limit in ["-1", "x", "", "1.5", "4294967296"] {
        refused(&["-n", limit], "--limit: ");
        refused(&["-n", limit], "is not a number of runs; 0 is all");
    }
    for since in [
        "",
        "yesterday",
        "2026-13-01",
        "2026-11-22T08",
        "08:30",
        "1969-12-31",
        "-5",
        "1h ago",
        "200years",
    ] {
        refused(&["--since", since], "--since: ");
    }
    refused(
        &["--since", "2026-11-22 8:30"],
        "is neither a duration, as 2h, nor a time",
    );
    refused(
        &["--since", "tomorrow"],
        "is neither a duration, as 2h, nor a time",
    );
    refused(&["--until", "yesterday"], "--until: ");
    refused(&["--on", ""], "--on: name a host");
    refused(&["--result", "exit 0"], "--result: ");
    for cursor in ["", "1", "x-0123456789abcdef0123456789abcdef", "1-'"] {
        refused(&["--after", cursor], "--after: ");
    }
    refused(&["a#1"], "NAME: the name contains #");
    refused(&[""], "NAME: the name is empty");
    refused(&["a", &"x".repeat(201)], "is longer than 200 bytes");
    refused(&["--wait", "1"], "--wait");
    refused(&["-q", "-v"], "cannot be used with");
}

#[test]
fn a_server_that_is_not_there_is_told() {
    Dblock::bare()
        .args([
            "history",
            "--url",
            "mysql://u@127.0.0.1:1/",
            "--connect-timeout",
            "0.3",
        ])
        .output()
        .expect_code(69)
        .expect_one_line("no server could be reached within 300ms");
    Dblock::bare()
        .arg("history")
        .output()
        .expect_code(78)
        .expect_one_line("no server is named");
}

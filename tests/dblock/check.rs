//! `dblock check`: what it finds on real and scripted servers, its exit codes, and that it neither hangs nor leaves a thing.

mod postgres;
mod servers;

use std::fs::File;
use std::io::Read;
use std::time::Duration;

use mysql::prelude::Queryable;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::harness::{
    Answer, Cluster, Dblock, Fake, Kind, Output, PASSWORD, Pair, Proxy, SOON, Server, both_servers,
    children_of, eventually, eventually_gone, holder, slack, unique, url_of, url_of_port, within,
};

const UNFIT: i32 = 78;
const UNREACHABLE: i32 = 69;
const BOTH: [Kind; 2] = [Kind::MariaDb, Kind::MySql];

/// `dblock check`
fn dblock_check(url: &str) -> Dblock {
    Dblock::bare()
        .arg("check")
        .env("DBLOCK_URL", url)
        .env("DBLOCK_PASSWORD", PASSWORD)
}

/// What `dblock check --json` says, and its exit code. On a busy machine each server of a list gets time enough.
#[track_caller]
fn json(url: &str, code: i32) -> Value {
    let check = dblock_check(url).args(["--json", "--connect-timeout", "60"]);
    let output = check.output();
    output.expect_code(code).expect_silence();
    output.json()
}

/// The same, once it is as it is to be. A busy machine makes a warning of each time, and a second session has two seconds for each answer:
/// what is so in none of ten tries is wrong.
#[track_caller]
fn json_when(url: impl Fn() -> String, code: i32, is_met: impl Fn(&Value) -> bool) -> Value {
    let mut found = Value::Null;
    let met = (0..10).any(|_| {
        found = json(&url(), code);
        is_met(&found)
    });
    assert!(met, "{found:#}");
    found
}

/// Whether there is such a finding with this state.
fn has_state(found: &Value, check: &str, state: &str) -> bool {
    let mut all = found["findings"].as_array().expect("a list").iter();
    all.any(|finding| finding["check"] == check && finding["verdict"] == state)
}

/// Whether the second session was in time, and saw the lock.
fn has_second(found: &Value) -> bool {
    has_state(found, "second_session", "ok")
}

/// The finding of this name.
#[track_caller]
fn finding<'a>(found: &'a Value, check: &str) -> &'a Value {
    let mut all = found["findings"].as_array().expect("a list").iter();
    all.find(|finding| finding["check"] == check)
        .unwrap_or_else(|| panic!("no {check}: {found:#}"))
}

/// The finding has this state; all that unfit ones and warnings have, too, is an advice.
#[track_caller]
fn expect_state(found: &Value, check: &str, state: &str) {
    let finding = finding(found, check);
    assert_eq!(finding["verdict"], state, "{found:#}");
    assert!(state == "ok" || finding["advice"].is_string(), "{found:#}");
}

/// A scripted server with two sessions for each check: the first has the lock, the second finds it taken. `change` may answer in place of
/// it; it is told which session's opening a statement is, 0 for any other statement.
fn scripted(
    kind: Kind,
    mut change: impl FnMut(&str, u32) -> Option<Answer> + Send + 'static,
) -> Fake {
    let mut sessions = 0;
    Fake::start(kind, move |statement| {
        let opens = statement.contains("@@session.wait_timeout");
        sessions += u32::from(opens);
        if let Some(answer) = change(statement, if opens { sessions } else { 0 }) {
            return answer;
        }
        if opens {
            return opening(
                if sessions % 2 == 1 { "0" } else { "-1" },
                sessions,
                sessions,
                300,
            );
        }
        match statement {
            _ if statement.contains("VERSION()") => row(&["1", "dblock@%", "9.7.4"]),
            _ if statement.contains("GET_LOCK(") => row(&["1"]),
            _ if statement.starts_with("SELECT 1") => row(&["1"]),
            _ => Answer::Ok,
        }
    })
}

fn row(values: &[&str]) -> Answer {
    Answer::Row(values.iter().map(|&value| Some(value.to_owned())).collect())
}

/// The first answer in a session: the slot, the session's number, whose the mark is, its idle limit.
fn opening(slot: &str, session: u32, mark: u32, idle_limit: u32) -> Answer {
    let (session, idle_limit) = (session.to_string(), idle_limit.to_string());
    let mark = Some(mark.to_string()).filter(|mark| mark != "0");
    let values = [slot, "0", &session, "0", "0"].map(|value| Some(value.to_owned()));
    let traits = [
        mark,
        Some(idle_limit),
        Some("scripted".to_owned()),
        Some("0".to_owned()),
    ];
    Answer::Row(values.into_iter().chain(traits).collect())
}

both_servers! {
    fn a_fit_server_is_told_in_a_table(server) {
        // On a busy machine what takes long is a warning.
        let mut tables = (0..10).map(|_| dblock_check(&server.url()).output());
        let output = tables.find(|output| !output.stdout.contains("\nwarning ")).expect("it is fit");
        output.expect_code(0).expect_silence();
        let address = format!("127.0.0.1:{}", server.port);
        assert!(output.stdout.starts_with(&format!("{address} is fit to lock on\n\nok ")), "{output:#?}");
        let name = if server.kind == Kind::MySql { "MySQL 9" } else { "MariaDB 1" };
        for part in [name, "dblock@%", "takes writes ", "wait timeout ", "round trip ", "hand over ", " ms\n"] {
            assert!(output.stdout.contains(part), "{part:?}: {output:#?}");
        }
        assert!(output.stdout.lines().all(|line| line.chars().count() <= 100), "{output:#?}");
    }

    fn a_fit_server_is_told_as_json(server) {
        let found = json_when(|| server.url(), 0, |found| found["verdict"] == "ok");
        assert_eq!(found["server"], format!("127.0.0.1:{}", server.port));
        let kind = if server.kind == Kind::MySql { "MySQL" } else { "MariaDB" };
        assert_eq!(finding(&found, "server")["product"], kind);
        let plugin = if server.kind == Kind::MySql { "caching_sha2_password" } else { "mysql_native_password" };
        assert_eq!(finding(&found, "authentication")["value"], plugin);
        for check in ["takes_writes", "galera", "group_replication", "proxy", "locks_per_session", "wait_timeout", "second_session", "kill"] {
            expect_state(&found, check, "ok");
        }
        assert_eq!(finding(&found, "wait_timeout")["seconds"], 300);
        assert!(finding(&found, "connections")["max"] == 500, "{found:#}");
        for check in ["connect", "handshake", "round_trip", "lock", "hand_over"] {
            let seconds = finding(&found, check)["seconds"].as_f64().expect("a number");
            assert!(0.0 < seconds && seconds < 10.0, "{check}: {found:#}");
        }
        // Holders are told by the program that they are where the server does.
        assert_eq!(finding(&found, "holders")["tells_program"], server.kind == Kind::MySql);
    }

    fn a_socket_is_as_good(server) {
        let url = format!("mysql://dblock@localhost?socket={}", server.socket.display());
        let found = json_when(|| url.clone(), 0, has_second);
        assert_eq!(found["server"], server.socket.to_str().unwrap());
        expect_state(&found, "TLS", "ok");
        expect_state(&found, "second_session", "ok");
    }

    fn an_account_with_privileges_sees_more(server) {
        let url = server.url().replace("dblock@", "admin@");
        let output = dblock_check(&url).env("DBLOCK_PASSWORD", "admin-secret").arg("--json").output();
        let found = output.expect_code(0).json();
        assert_eq!(finding(&found, "replica")["value"], "no");
        assert_eq!(finding(&found, "holders")["every_account"], true);
        let found = json(&server.url(), 0);
        expect_state(&found, "replica", "ok");
        let grant = if server.kind == Kind::MySql { "REPLICATION CLIENT" } else { "SLAVE MONITOR" };
        assert!(finding(&found, "replica")["advice"].as_str().unwrap().contains(grant), "{found:#}");
        assert_eq!(finding(&found, "holders")["every_account"], false);
        // And the grant does show it.
        let user = unique("sees");
        server.admin().query_drop(format!("CREATE USER '{user}'@'%' IDENTIFIED BY '{PASSWORD}'")).unwrap();
        server.admin().query_drop(format!("GRANT {grant} ON *.* TO '{user}'@'%'")).unwrap();
        let found = json(&server.url().replace("dblock@", &format!("{user}@")), 0);
        assert_eq!(finding(&found, "replica")["value"], "no");
    }

    fn neither_a_password_nor_its_hash_is_shown(server) {
        for (user, password) in [("dblock", PASSWORD), ("admin", "admin-secret")] {
            let query = "SELECT authentication_string FROM mysql.user WHERE user = ?";
            let hash: Vec<u8> = server.admin().exec_first(query, (user,)).unwrap().expect("an account");
            let hash = String::from_utf8_lossy(&hash).into_owned();
            let url = server.url().replace("dblock@", &format!("{user}@"));
            let run = dblock_check(&url).env("DBLOCK_PASSWORD", password).arg("-vv").output();
            run.expect_code(0).expect_said(["SHOW CREATE USER", "GET_LOCK"]);
            let seen = run.stdout.clone() + &run.stderr;
            for secret in [password, &hash[hash.len() - 20..]] {
                assert!(!seen.contains(secret), "{run:#?}");
            }
        }
    }

    fn an_account_without_a_password_is_a_warning(server) {
        let user = unique("open");
        server.admin().query_drop(format!("CREATE USER '{user}'@'%'")).unwrap();
        let url = server.url().replace("dblock@", &format!("{user}@"));
        let output = dblock_check(&url).env_remove("DBLOCK_PASSWORD").arg("--json").output();
        let found = output.expect_code(0).json();
        expect_state(&found, "authentication", "warning");
        assert_eq!(found["verdict"], "warning");
    }

    fn an_account_that_is_refused_is_told(server) {
        let run = dblock_check(&server.url()).env("DBLOCK_PASSWORD", "wrong-secret").output();
        run.expect_code(77).expect_stdout("").expect_one_line("refused the account");
    }

    fn a_server_that_is_passed_over_is_named(server on mariadb) {
        let url = format!("mysql://dblock@127.0.0.1:1,127.0.0.1:{}/", server.port);
        let found = json(&url, 0);
        expect_state(&found, "passed_over", "warning");
        assert!(finding(&found, "passed_over")["value"].as_str().unwrap().contains("127.0.0.1:1:"), "{found:#}");
        assert_eq!(found["server"], format!("127.0.0.1:{}", server.port));
    }

    fn a_reader_that_has_seen_enough_is_no_error(server on mariadb) {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut first = [0; 9];
        let running = dblock_check(&server.url()).stdout(writer).spawn();
        reader.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"127.0.0.1");
        drop(reader);
        running.wait().expect_code(0).expect_silence();

        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        dblock_check(&server.url()).stdout(writer).output().expect_code(0).expect_silence();
        let closed = dblock_check(&server.url()).pre_exec(|| Ok(nix::unistd::close(1)?));
        closed.output().expect_code(70).expect_one_line("stdout");
        let full = File::options().write(true).open("/dev/full").unwrap();
        dblock_check(&server.url()).stdout(full).output().expect_code(70).expect_one_line("stdout");
    }

    fn a_server_that_falls_silent_is_given_up(server) {
        let proxy = Proxy::to(server);
        proxy.freeze();
        let run = dblock_check(&proxy.url()).args(["--connect-timeout", "1"]).output();
        run.expect_code(UNREACHABLE).expect_stdout("").expect_one_line("no server could be reached");
        run.expect_took(Duration::ZERO, Duration::from_secs(1) + slack());
    }

    fn a_check_that_dies_leaves_no_process_behind(server on mysql) {
        for signal in [Signal::SIGKILL, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            let proxy = Proxy::to(server);
            proxy.freeze();
            // It would end by itself only after a minute.
            let mut running = dblock_check(&proxy.url()).args(["--connect-timeout", "60"]).spawn();
            eventually("it connects", SOON, || proxy.connections() > 0);
            let children = running.children();
            assert_eq!(children.len(), 1, "one process talks to the server");
            running.signal(signal);
            running.wait_within(SOON).expect_signal(signal);
            eventually_gone(children[0], SOON);
        }
    }
}

#[test]
fn a_server_that_is_short_of_connections_is_a_warning_and_nothing_is_left_on_it() {
    for kind in BOTH {
        let server = Server::private_with(kind, &["--max-connections=20"]);
        let proxy = Proxy::to(&server);
        let mut admin = server.admin();
        let found = json(&proxy.url(), 0);
        expect_state(&found, "connections", "warning");
        let connections = finding(&found, "connections");
        assert_eq!(connections["max"], 20);
        let advice = connections["advice"].as_str().expect("an advice");
        assert!(advice.contains(" are free"), "{advice}");
        assert!(advice.ends_with("raise max_connections"), "{advice}");
        assert_eq!(found["verdict"], "warning");

        let statements: Vec<_> = proxy
            .packets()
            .iter()
            .filter_map(crate::harness::Packet::statements)
            .collect();
        let locks: Vec<_> = statements
            .iter()
            .flat_map(|statement| names(statement))
            .collect();
        assert!(locks.len() > 2, "{statements:?}");
        // The server ends them when it notices that they are over.
        let query = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'dblock'";
        eventually("no session is left", SOON, || {
            admin.query_first(query).unwrap() == Some(0)
        });
        for lock in &locks {
            assert_eq!(holder(&mut admin, lock), None, "{lock} is free");
        }
        assert_eq!(proxy.connections(), 2);
    }
}

#[test]
fn an_account_that_is_short_of_connections_is_a_warning() {
    for kind in BOTH {
        let server = Server::private(kind);
        let few =
            "CREATE USER 'few'@'%' IDENTIFIED BY 'dblock-secret' WITH MAX_USER_CONNECTIONS 10";
        server.admin().query_drop(few).unwrap();
        let url = format!("mysql://few@127.0.0.1:{}/", server.port);
        // The second session may have been ended a moment ago.
        let found = json_when(
            || url.clone(),
            0,
            |found| finding(found, "connections")["in_use_by_account"] == 1,
        );
        expect_state(&found, "connections", "warning");
        let connections = finding(&found, "connections");
        assert_eq!(connections["max_of_account"], 10, "{connections:#}");
        let advice = connections["advice"].as_str().expect("an advice");
        assert!(advice.starts_with("9 are free"), "{advice}");
        assert!(advice.ends_with("raise max_user_connections"), "{advice}");
    }
}

/// The locks that a statement is about, in plain text or hex digits.
fn names(statement: &str) -> Vec<String> {
    let quoted = statement.split('\'').skip(1).step_by(2);
    let text = |word: &str| {
        let digits =
            (0..word.len() / 2).map(|at| u8::from_str_radix(&word[2 * at..2 * at + 2], 16));
        digits
            .collect::<Result<_, _>>()
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
    };
    let name = |word: &str| match word {
        _ if word.starts_with("dblock-check-") || word.starts_with('#') => Some(word.to_owned()),
        _ => text(word).filter(|name| name.starts_with("dblock-check-") || name.starts_with('#')),
    };
    quoted.filter_map(name).collect()
}

#[test]
fn a_server_that_is_read_only_is_unfit_and_is_passed_over_for_another() {
    for kind in BOTH {
        let server = Server::private(kind);
        server
            .admin()
            .query_drop("SET GLOBAL read_only = 1")
            .unwrap();
        let found = json_when(|| server.url(), UNFIT, has_second);
        assert_eq!(found["verdict"], "unfit");
        expect_state(&found, "takes_writes", "unfit");
        // The others are told all the same.
        expect_state(&found, "second_session", "ok");
        let table = dblock_check(&server.url()).output();
        table.expect_code(UNFIT).expect_silence();
        assert!(
            table.stdout.contains("NOT fit") && table.stdout.contains("UNFIT    takes writes"),
            "{table:#?}"
        );

        let other = Server::shared(kind).port;
        let found = json(
            &format!(
                "mysql://dblock@127.0.0.1:{},127.0.0.1:{other}/",
                server.port
            ),
            0,
        );
        assert_eq!(found["server"], format!("127.0.0.1:{other}"));
        expect_state(&found, "passed_over", "ok");
        expect_state(&found, "takes_writes", "ok");
        let value = finding(&found, "passed_over")["value"].as_str().unwrap();
        assert!(
            value.contains(&server.port.to_string()) && value.contains("read-only"),
            "{found:#}"
        );
    }
}

#[test]
fn a_read_only_server_that_still_keeps_the_session_before_is_examined_as_well() {
    let mut kept = String::new();
    let fake = scripted(Kind::MySql, move |statement, session| {
        let name = names(statement)
            .into_iter()
            .find(|name| name.starts_with("dblock-check-"))?;
        let slot = match session {
            0 => return None,
            1 => {
                kept = name;
                "0"
            }
            2 if name != kept => "0",
            _ => "-1",
        };
        let Answer::Row(mut values) = opening(slot, session, session, 300) else {
            return None;
        };
        values[3] = Some("1".to_owned());
        Some(Answer::Row(values))
    });
    let found = json(&fake.url(), UNFIT);
    expect_state(&found, "takes_writes", "unfit");
    finding(&found, "second_session");
}

#[test]
fn a_galera_node_is_unfit() {
    for node in &Cluster::shared_galera().nodes {
        // In this database no other test makes tables.
        let found = json_when(|| format!("{}no_tables", node.url()), UNFIT, has_second);
        expect_state(&found, "galera", "unfit");
        expect_state(&found, "second_session", "ok");
    }
}

#[test]
fn a_primary_is_fit_and_passed_over_is_its_replica() {
    for kind in BOTH {
        let pair = Pair::private(kind);
        let found = json(&url_of([&pair.replica, &pair.primary]), 0);
        expect_state(&found, "passed_over", "ok");
        expect_state(&found, "takes_writes", "ok");
        let found = json(&pair.replica.url(), UNFIT);
        expect_state(&found, "takes_writes", "unfit");
        let url = pair.replica.url().replace("dblock@", "admin@");
        let run = dblock_check(&url)
            .env("DBLOCK_PASSWORD", "admin-secret")
            .arg("--json")
            .output();
        let found = run.expect_code(UNFIT).json();
        expect_state(&found, "replica", "warning");
    }
}

#[test]
fn a_scripted_server_is_fit_unless_it_is_told_otherwise() {
    for kind in BOTH {
        let found = json_when(|| scripted(kind, |_, _| None).url(), 0, has_second);
        for check in [
            "takes_writes",
            "galera",
            "proxy",
            "locks_per_session",
            "wait_timeout",
            "second_session",
        ] {
            expect_state(&found, check, "ok");
        }
        // It says OK to KILL, and ends nothing.
        expect_state(&found, "kill", "warning");
    }
}

#[test]
fn what_makes_a_server_unfit_is_told_where_it_belongs() {
    type Change = fn(&str, u32) -> Option<Answer>;
    let changes: [(&str, Change); 9] = [
        ("locks", |_, n| (n == 1).then(|| opening("-1", 1, 1, 300))),
        ("locks_per_session", |_, n| {
            (n == 1).then(|| opening("0", 1, 0, 300))
        }),
        ("proxy", |_, n| (n == 1).then(|| opening("0", 1, 77, 300))),
        ("wait_timeout", |_, n| {
            (n == 1).then(|| opening("0", 1, 1, 28800))
        }),
        ("wait_timeout", |_, n| {
            (n == 1).then(|| opening("0", 1, 1, 2))
        }),
        ("galera", |statement, _| {
            statement
                .contains("'wsrep_on'")
                .then(|| row(&["wsrep_on", "ON"]))
        }),
        ("group_replication", |statement, _| match statement {
            _ if statement.contains("group_name'") => Some(row(&["x", "11111111-1111"])),
            _ => statement
                .contains("NOT @@global.group_replication_single_primary_mode")
                .then(|| row(&["1"])),
        }),
        ("second_session", |_, n| {
            (n == 2).then(|| opening("0", 2, 2, 300))
        }),
        ("locks", |_, n| {
            (n > 0).then(|| Answer::error(1105, "Percona-XtraDB-Cluster prohibits use of GET_LOCK with pxc_strict_mode = ENFORCING"))
        }),
    ];
    for (check, change) in changes {
        let found = json(&scripted(Kind::MySql, change).url(), UNFIT);
        expect_state(&found, check, "unfit");
    }
}

#[test]
fn what_only_asks_for_care_is_a_warning() {
    type Change = fn(&str, u32) -> Option<Answer>;
    let changes: [(&str, Change); 6] = [
        ("server", |statement, _| {
            statement
                .contains("VERSION()")
                .then(|| row(&["1", "dblock@%", "8.0.11-TiDB-v8.5.0"]))
        }),
        ("server", |statement, _| {
            statement
                .contains("VERSION()")
                .then(|| row(&["1", "dblock@%", "8.0.30-Vitess"]))
        }),
        ("wait_timeout", |_, n| {
            (n == 1).then(|| opening("0", 1, 1, 60))
        }),
        // A proxy that keeps the session: the heartbeat meets the same one.
        ("proxy", |statement, n| match n {
            1 => Some(opening("0", 501, 501, 300)),
            2 => Some(opening("-1", 502, 502, 300)),
            _ => statement
                .starts_with("SELECT CASE WHEN IFNULL")
                .then(|| row(&["0", "0", "501", "0", "0"])),
        }),
        ("replica", |statement, _| {
            statement
                .starts_with("SHOW REPLICA STATUS")
                .then(|| row(&["Waiting", "db1"]))
        }),
        ("kill", |statement, _| {
            statement
                .starts_with("KILL")
                .then(|| Answer::error(1095, "You are not owner of thread"))
        }),
    ];
    for (check, change) in changes {
        let found = json_when(
            || scripted(Kind::MySql, change).url(),
            0,
            |found| has_state(found, check, "warning"),
        );
        expect_state(&found, check, "warning");
        assert_eq!(found["verdict"], "warning");
    }
}

#[test]
fn a_replica_of_an_older_server_is_seen_too() {
    let fake = scripted(Kind::MariaDb, |statement, _| match statement {
        "SHOW REPLICA STATUS" => Some(Answer::error(1064, "You have an error in your SQL syntax")),
        "SHOW SLAVE STATUS" => Some(row(&["Waiting", "db1"])),
        _ => None,
    });
    expect_state(&json(&fake.url(), 0), "replica", "warning");
}

#[test]
fn a_server_that_falls_silent_on_the_way_is_given_up_in_time() {
    let statements = [
        "SELECT CONNECTION_ID(), CURRENT_USER()",
        "SHOW GRANTS",
        "SELECT RELEASE_LOCK",
    ];
    std::thread::scope(|all| {
        for silent in statements {
            all.spawn(move || {
                // On a busy machine it may not come so far in time.
                let is_asked = [500, 2000, 8000]
                    .into_iter()
                    .any(|limit| falls_silent(silent, Duration::from_millis(limit)));
                assert!(is_asked, "{silent} is not asked");
            });
        }
    });
}

/// A server does not answer this statement. Returns whether it was asked, and whether the process that asked was seen: then it was given
/// up in time.
fn falls_silent(silent: &'static str, limit: Duration) -> bool {
    let fake = scripted(Kind::MySql, move |statement, _| {
        statement.starts_with(silent).then_some(Answer::Silence)
    });
    let mut running = dblock_check(&fake.url())
        .args(["--connect-timeout", &limit.as_secs_f64().to_string()])
        .spawn();
    let (whole, mut seen) = (limit * 3, Vec::new());
    eventually("it ends", whole + SOON, || {
        for child in running.children() {
            seen.push(child);
            seen.extend(children_of(child));
        }
        !running.is_running()
    });
    let run: Output = running.wait();
    let statements = fake.statements();
    let is_asked = statements.iter().any(|asked| asked.starts_with(silent));
    // It may be asked while it is given up for the time that it took to connect.
    if !is_asked || run.stderr.contains("no server could be reached") {
        return false;
    }
    let shown = humantime::format_duration(whole);
    run.expect_code(UNREACHABLE)
        .expect_stdout("")
        .expect_one_line(&format!("did not answer within {shown}"));
    run.expect_took(whole, whole + slack());
    seen.sort_unstable();
    seen.dedup();
    for &pid in &seen {
        eventually_gone(pid, SOON);
    }
    !seen.is_empty()
}

#[test]
fn a_session_that_is_lost_on_the_way_is_told() {
    let fake = scripted(Kind::MySql, |statement, _| {
        statement
            .starts_with("SHOW GRANTS")
            .then_some(Answer::Close)
    });
    dblock_check(&fake.url())
        .output()
        .expect_code(UNREACHABLE)
        .expect_stdout("")
        .expect_one_line("lost the session");
}

#[test]
fn a_value_of_another_type_is_an_error_and_not_null() {
    let fake = scripted(Kind::MySql, |statement, _| {
        statement
            .starts_with("SELECT COUNT(*)")
            .then(|| row(&["many"]))
    });
    dblock_check(&fake.url())
        .output()
        .expect_code(70)
        .expect_stdout("")
        .expect_one_line("a value of an unexpected type");
}

/// A server that answers neither the second session, which waits for the lock, nor the first, which would end it soon.
fn keeps_both() -> Fake {
    scripted(Kind::MySql, |statement, _| {
        let waits = statement.ends_with(", 2)");
        (waits || statement.starts_with("SELECT RELEASE_LOCK")).then_some(Answer::Silence)
    })
}

#[test]
fn a_check_that_dies_takes_its_second_session_along() {
    for signal in [Signal::SIGKILL, Signal::SIGTERM, Signal::SIGINT] {
        let fake = keeps_both();
        let mut running = dblock_check(&fake.url()).spawn();
        let waits = || {
            fake.statements()
                .iter()
                .any(|statement| statement.ends_with(", 2)"))
        };
        assert!(within(SOON, waits), "{:?}", fake.statements());
        let first = running.children()[0];
        let second = children_of(first)[0];
        running.signal(signal);
        running.wait_within(SOON).expect_signal(signal);
        eventually_gone(first, SOON);
        eventually_gone(second, SOON);
    }
}

#[test]
fn hostile_answers_are_told_in_one_line() {
    let mut columns = vec![9, 0, 0, 1, 0xfe];
    columns.extend((1u64 << 40).to_le_bytes());
    for bytes in [
        columns,
        vec![1, 0, 0, 7, 0x30],
        b"HTTP/1.1 400\r\n\r\n".to_vec(),
    ] {
        let fake = scripted(Kind::MySql, move |statement, _| {
            statement
                .starts_with("SHOW")
                .then(|| Answer::Raw(bytes.clone()))
        });
        let run = dblock_check(&fake.url())
            .args(["--connect-timeout", "1"])
            .output();
        run.expect_stdout("").expect_one_line("");
        assert!(matches!(run.code, Some(69 | 70)), "{run:#?}");
    }
}

#[test]
fn what_a_server_says_cannot_steer_the_terminal_from_a_table() {
    let fake = scripted(Kind::MySql, |statement, _| {
        statement
            .contains("VERSION()")
            .then(|| row(&["1", "dblock@%", "9\x1b[2J\n\u{9b}31m"]))
    });
    for args in [&[][..], &["--json"]] {
        let run = dblock_check(&fake.url()).args(args).output();
        run.expect_code(0);
        assert!(
            !run.stdout.contains(|c: char| c.is_control() && c != '\n'),
            "{run:#?}"
        );
    }
}

#[test]
fn what_cannot_be_right_is_refused() {
    let nowhere = url_of_port(1);
    dblock_check(&nowhere)
        .output()
        .expect_code(UNREACHABLE)
        .expect_stdout("")
        .expect_one_line("127.0.0.1:1: Connection refused");
    dblock_check(&nowhere)
        .arg("--no-such")
        .output()
        .expect_code(64)
        .expect_one_line("--no-such");
    dblock_check(&nowhere)
        .arg("word")
        .output()
        .expect_code(64)
        .expect_one_line("word");
    dblock_check(&nowhere)
        .args(["--connect-timeout", "0"])
        .output()
        .expect_code(64)
        .expect_one_line("--connect-timeout");
    Dblock::bare()
        .arg("check")
        .output()
        .expect_code(78)
        .expect_one_line("no server is named");
}

#[test]
fn what_dblock_inherited_is_open_in_no_process_that_talks_to_the_server() {
    let (_reader, writer) = std::io::pipe().unwrap();
    let fake = keeps_both();
    let running = dblock_check(&fake.url()).stdout(writer).spawn();
    let asked = || {
        fake.statements()
            .iter()
            .any(|statement| statement.ends_with(", 2)"))
    };
    assert!(within(SOON, asked));
    let first = running.children()[0];
    for pid in [first, children_of(first)[0]] {
        for descriptor in 0..3 {
            let file = std::fs::read_link(format!("/proc/{pid}/fd/{descriptor}")).unwrap();
            assert_eq!(file.to_str(), Some("/dev/null"), "{descriptor} of {pid}");
        }
        let open = std::fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .count();
        assert!(open <= 6, "{open} descriptors are open in {pid}");
    }
}

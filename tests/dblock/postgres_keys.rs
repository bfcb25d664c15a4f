//! `--key`: the lock of another program on PostgreSQL, which dblock and any client exclude each other from.

use std::process::Stdio;

use crate::harness::postgres::Postgres;
use crate::harness::{Dblock, Kind, PASSWORD, Running, SOON, Server, eventually, unique};

/// A key of one number and one of two, which no other test has, and the arguments of the functions of advisory locks.
fn keys() -> [(String, String); 2] {
    let number = fastrand::u32(1 << 30..1 << 31);
    [
        (format!("-{number}"), format!("(-{number})::bigint")),
        (format!("{number},-7"), format!("{number}, -7")),
    ]
}

/// `dblock run` with this key.
fn run(name: &str, key: &str) -> Dblock {
    let server = Server::shared(Kind::Postgres);
    // With =, as it may begin with a minus.
    Dblock::run(server, name).arg(format!("--key={key}"))
}

/// `dblock status` or `kill`, with this name and key.
fn of_lock(command: &str, name: &str, key: &str) -> Dblock {
    let server = Server::shared(Kind::Postgres);
    Dblock::at(server, command).args([name, &format!("--key={key}")])
}

#[track_caller]
fn holder(dblock: Dblock) -> Running {
    let dblock = dblock.without_terminal().stdin(Stdio::piped());
    let mut dblock = dblock.sh("echo runs; read x; exit 0").spawn();
    dblock.wait_line("runs", SOON);
    dblock
}

fn psql() -> Postgres {
    let server = Server::shared(Kind::Postgres);
    let session = server.postgres_as("dblock", PASSWORD);
    session.expect("the account dblock can connect")
}

#[test]
fn a_key_and_a_client_with_the_same_one_exclude_each_other() {
    for (key, arguments) in keys() {
        let name = unique("key");
        let take = format!("pg_try_advisory_lock({arguments})");
        let mut client = psql();
        assert!(client.is(&take));
        let number = format!("connection {}", client.pid);
        let refused = run(&name, &key).sh("echo ran").output();
        refused
            .expect_code(75)
            .expect_stdout("")
            .expect_one_line(&number);
        let waiting = run(&name, &key)
            .args(["--wait", "5m"])
            .sh("echo ran")
            .spawn();
        let status = || of_lock("status", &name, &key).arg("--json").output().json();
        eventually("it waits", SOON, || {
            status()["locks"][0]["waiters"][0]["pid"] == waiting.pid()
        });
        assert_eq!(status()["locks"][0]["holders"][0]["connection"], client.pid);
        let killed = of_lock("kill", &name, &key).output();
        killed.expect_code(0).expect_silence();
        assert!(killed.stdout.contains("which is no dblock"), "{killed:#?}");
        waiting.wait().expect_code(0).expect_stdout("ran\n");

        let held = holder(run(&name, &key));
        assert!(!psql().is(&take));
        drop(held);
        eventually("it is free", SOON, || psql().is(&take));
    }
}

#[test]
fn the_key_is_the_lock_whatever_its_name_and_a_holder_is_killed_by_it() {
    for (key, _) in keys() {
        let (name, other) = (unique("one"), unique("other"));
        let mut held = holder(run(&name, &key).args(["--wait", "5m"]));
        run(&other, &key)
            .sh("echo ran")
            .output()
            .expect_code(75)
            .expect_stdout("");
        // The name alone is another lock.
        let plain = Dblock::run(Server::shared(Kind::Postgres), &name).sh("echo ran");
        plain.output().expect_code(0).expect_stdout("ran\n");
        // Whoever lists all locks sees it by its name.
        let list = Dblock::at(Server::shared(Kind::Postgres), "status").arg("--json");
        let locks = list.output().json()["locks"].clone();
        let mut locks = locks.as_array().expect("a list").iter();
        let lock = locks
            .find(|lock| lock["name"] == *name)
            .expect("it is listed");
        assert_eq!(lock["holders"][0]["pid"], held.pid(), "{lock}");
        assert_eq!(lock["key"], key);
        let list = Dblock::at(Server::shared(Kind::Postgres), "status").output();
        let hint = format!("For {name}, which has the key {key}: dblock kill --key={key} LOCK\n");
        assert!(list.stdout.contains(&hint), "{list:#?}");
        assert_eq!(lock["waiters"].as_array().map(Vec::len), Some(0), "{lock}");
        let killed = of_lock("kill", &other, &key).output();
        killed.expect_code(0).expect_silence();
        assert!(
            killed.stdout.contains("its command has ended"),
            "{killed:#?}"
        );
        held.wait_within(SOON).expect_code(74);
    }
}

#[test]
fn what_is_no_key_or_goes_with_none_is_refused() {
    for wrong in [
        "",
        "x",
        "1,",
        ",1",
        "1,2,3",
        "9223372036854775808",
        "1,2147483648",
        "1.5",
    ] {
        let refused = run("x", wrong).sh("echo ran").output();
        refused
            .expect_code(64)
            .expect_stdout("")
            .expect_one_line("--key");
    }
    let usage = |dblock: Dblock, why: &str| {
        dblock
            .output()
            .expect_code(64)
            .expect_stdout("")
            .expect_one_line(why);
    };
    let several = "cannot be combined with several slots";
    for options in [["-m", "2"], ["--slots", "a,b"]] {
        usage(run("x", "7").args(options).sh("echo ran"), several);
    }
    usage(of_lock("kill", "x#1", "7"), several);
    usage(of_lock("status", "x", "7").arg("y"), "name that one");
    let mysql = Dblock::run_at("mysql://dblock@127.0.0.1:1/", "x").args(["--key", "7"]);
    let refused = mysql.sh("echo ran").output();
    refused
        .expect_code(78)
        .expect_stdout("")
        .expect_one_line("is for PostgreSQL");
}

#[test]
fn a_durable_lock_of_the_same_name_is_another_lock() {
    let server = Server::durable(Kind::Postgres);
    let [(key, arguments), (other, _)] = keys();
    let name = unique("both");
    let mut durable = holder(Dblock::run(server, &name));
    let mut client = server.postgres_as("dblock", PASSWORD).expect("a session");
    assert!(client.is(&format!("pg_try_advisory_lock({arguments})")));
    let of_lock =
        |command, key: &str| Dblock::at(server, command).args([&name, &format!("--key={key}")]);
    let lock = |dblock: Dblock| dblock.arg("--json").output().json()["locks"][0].clone();
    let seen = lock(of_lock("status", &key));
    assert_eq!(seen["holders"].as_array().map(Vec::len), Some(1), "{seen}");
    assert_eq!(seen["holders"][0]["connection"], client.pid, "{seen}");
    assert_eq!(seen["waiters"], serde_json::json!([]), "{seen}");
    let plain = lock(Dblock::at(server, "status").arg(&name));
    assert_eq!(plain["holders"][0]["pid"], durable.pid(), "{plain}");
    let killed = of_lock("kill", &key).output();
    killed.expect_code(0).expect_silence();
    assert!(killed.stdout.contains("which is no dblock"), "{killed:#?}");
    assert!(durable.is_running());

    // In a list both are there, each with its holder.
    let keyed = holder(Dblock::run_at(&server.url(), &name).arg(format!("--key={other}")));
    let list = Dblock::at(server, "status").arg("--json").output().json();
    let locks = list["locks"].as_array().expect("a list").iter();
    let pids = locks.filter(|lock| lock["name"] == *name).map(|lock| {
        assert_eq!(
            lock["holders"].as_array().map(Vec::len),
            Some(1),
            "{list:#}"
        );
        lock["holders"][0]["pid"].clone()
    });
    let mut pids: Vec<_> = pids.collect();
    pids.sort_by_key(ToString::to_string);
    let mut expected = [durable.pid(), keyed.pid()].map(serde_json::Value::from);
    expected.sort_by_key(ToString::to_string);
    assert_eq!(pids, expected, "{list:#}");
}

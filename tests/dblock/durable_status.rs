//! `dblock status` of durable locks: each row that somebody has is a holder, on every server.

use serde_json::{Value, json};

use crate::harness::{
    Cluster, Dblock, Kind, Running, SOON, Server, Tables, all_servers_with_tables, eventually,
    unique,
};

/// A durable run whose command runs until it is ended.
fn holder(server: &Server, name: &str, args: &[&str]) -> Running {
    let mut dblock = Dblock::run_at(&server.url(), name)
        .arg("--durable")
        .args(args)
        .sh("echo held; exec sleep 600")
        .spawn();
    dblock.wait_line("held", SOON);
    dblock
}

/// What `status --json` prints.
#[track_caller]
fn status(server: &Server, names: &[&str]) -> Value {
    let run = Dblock::at(server, "status").arg("--json").args(names);
    let run = run.output();
    run.expect_code(0).expect_silence();
    run.json()
}

/// The line of the table that begins with this name, and the table.
#[track_caller]
fn line_of(server: &Server, name: &str) -> (String, String) {
    let run = Dblock::at(server, "status").arg(name).output();
    run.expect_code(0).expect_silence();
    let line = run.stdout.lines().find(|line| line.starts_with(name));
    (line.expect("a line").to_owned(), run.stdout.clone())
}

fn lock<'a>(status: &'a Value, name: &str) -> &'a Value {
    let locks = status["locks"].as_array().unwrap();
    let lock = locks.iter().find(|lock| lock["name"] == name);
    lock.unwrap_or_else(|| panic!("no lock {name}: {status:#}"))
}

fn holders<'a>(status: &'a Value, name: &str) -> &'a Vec<Value> {
    lock(status, name)["holders"].as_array().unwrap()
}

fn waiters<'a>(status: &'a Value, name: &str) -> &'a Vec<Value> {
    lock(status, name)["waiters"].as_array().unwrap()
}

/// What the tables of a server are in.
fn place(server: &Server) -> &'static str {
    match server.kind {
        Kind::Postgres => "schema",
        Kind::MariaDb | Kind::MySql => "database",
    }
}

/// The token that `dblock acquire` prints.
fn token(server: &Server, name: &str, args: &[&str]) -> String {
    let acquire = Dblock::at(server, "acquire").args(["--name", name]);
    let acquired = acquire.args(args).output();
    acquired.expect_code(0);
    acquired.stdout.trim().to_owned()
}

all_servers_with_tables! {
    fn a_run_is_one_holder_by_its_row_and_its_session(server) {
        let name = unique("held");
        let _dblock = holder(server, &name, &["--ttl", "60"]);
        server.name_run(&name);
        let connection = server.holder(&name).expect("it has the named lock, too");
        let all = status(server, &[&name]);
        let [held] = &holders(&all, &name)[..] else { panic!("one holder: {all:#}") };
        let expected = json!({
            "slot": 0, "durable": true, "kind": "run", "fence": 1, "owner": null, "expired": false, "dblock": true,
            "client": "dblock", "host": "web2", "pid": 4711, "program": "report", "user": "app", "connection": connection,
        });
        for (member, value) in expected.as_object().unwrap() {
            assert_eq!(&held[member], value, "{member}: {all:#}");
        }
        let expires_in = held["expires_in_seconds"].as_f64().unwrap();
        assert!((1.0..=60.0).contains(&expires_in), "{all:#}");
        assert!(held["held_seconds"].as_f64().unwrap() < 60.0 && held["since"].is_string(), "{all:#}");
        assert!(held["idle_seconds"].as_f64().unwrap() < 60.0, "{all:#}");
        assert!(held["address"].as_str().unwrap().starts_with("dblock@127.0.0.1:"), "{all:#}");
        assert_eq!((&lock(&all, &name)["waiters"], &lock(&all, &name)["killed_by"]), (&json!([]), &json!([])));
        // Who it is does not depend on what the server keeps of sessions.
        let unseen = all["not_visible"].to_string();
        assert!(!unseen.contains("hosts, processes") && !unseen.contains("ss -tnp"), "{all:#}");
        let (line, table) = line_of(server, &name);
        for part in ["held", "web2", "4711", "report", "app", " run ", " 1 ", " 5"] {
            assert!(line.contains(part), "{part:?}: {table}");
        }
        let titles = table.lines().next().unwrap();
        assert!(titles.ends_with("DURABLE  FENCE  EXPIRES IN  OWNER"), "{table}");
    }

    fn a_run_that_the_history_does_not_have_is_shown_by_its_session(server on mariadb) {
        let name = unique("session");
        let dblock = holder(server, &name, &[]);
        let run = server.owner(&name, 0).unwrap();
        server.watcher().exec_drop("DELETE FROM dblock.dblock_runs WHERE run = ?", (run,)).unwrap();
        let all = status(server, &[&name]);
        let held = &holders(&all, &name)[0];
        assert_eq!(held["connection"], server.holder(&name).unwrap(), "{all:#}");
        if server.kind == Kind::MariaDb {
            assert_eq!((&held["host"], &held["pid"]), (&Value::Null, &Value::Null), "{all:#}");
            assert!(all["not_visible"].to_string().contains("hosts, processes"), "{all:#}");
        } else {
            assert_eq!((&held["pid"], &held["program"]), (&dblock.pid().into(), &"sh".into()), "{all:#}");
        }
        // Neither says anything of one whose session is not there.
        server.row_of_a_stranger(&name, 1, 60);
        let all = status(server, &[&name]);
        let held = &holders(&all, &name)[1];
        assert_eq!((&held["host"], &held["connection"], &held["durable"]), (&Value::Null, &Value::Null, &true.into()), "{all:#}");
    }

    fn a_token_is_a_holder_without_a_session(server on mysql) {
        let name = unique("token");
        let held = token(server, &name, &["--owner", "deploy-7", "--ttl", "60"]);
        let secret = held.rsplit('.').next().unwrap();
        let all = status(server, &[&name]);
        let holder = &holders(&all, &name)[0];
        assert_eq!((&holder["kind"], &holder["owner"], &holder["connection"]), (&"token".into(), &"deploy-7".into(), &Value::Null), "{all:#}");
        let (line, table) = line_of(server, &name);
        assert!(line.contains(" token ") && line.ends_with("deploy-7"), "{table}");
        assert!(!table.contains(secret) && !all.to_string().contains(secret), "the token is not told");
        let mut run = Dblock::at(server, "run").args(["--token", &held]).sh("echo runs; exec sleep 600").spawn();
        run.wait_line("runs", SOON);
        let all = status(server, &[&name]);
        let holder = &holders(&all, &name)[0];
        assert_eq!(holder["kind"], "token_run", "{all:#}");
        assert!(holder["connection"].is_u64(), "{all:#}");
    }

    fn a_row_whose_time_is_over_is_shown_as_expired(server on mariadb) {
        let name = unique("expired");
        server.row_of_a_stranger(&name, 0, -10);
        let all = status(server, &[&name]);
        let held = &holders(&all, &name)[0];
        assert_eq!((&held["expired"], &held["expires_in_seconds"]), (&true.into(), &Value::Null), "{all:#}");
        let (line, table) = line_of(server, &name);
        assert!(line.contains("expired: its host died or lost the server"), "{table}");
    }

    fn a_token_whose_time_is_over_was_not_renewed(server on mysql) {
        let name = unique("token");
        Dblock::at(server, "acquire").args(["--name", &name]).output().expect_code(0);
        let expire = "UPDATE dblock.dblock_locks SET expires_at = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE name = ?";
        server.watcher().exec_drop(expire, (&name,)).unwrap();
        let (line, table) = line_of(server, &name);
        assert!(line.contains("expired: it was neither renewed nor released in time"), "{table}");
        let told = Dblock::at(server, "kill").arg(&name).output();
        assert!(told.expect_code(0).stdout.contains("it had expired: it was neither renewed nor released in time"), "{told:#?}");
    }

    fn who_has_only_the_named_lock_of_anothers_row_waits(server) {
        let name = unique("head");
        server.row_of_a_stranger(&name, 0, 600);
        let waits = |place: usize| {
            let run = Dblock::run(server, &name).args(["--wait", "60"]).command(["true"]).spawn();
            eventually("it waits", SOON, || server.waiters(&name).len() == place && server.holder(&name).is_some());
            run
        };
        let _waiting = [waits(0), waits(1)];
        let all = status(server, &[&name]);
        assert_eq!(holders(&all, &name).len(), 1, "{all:#}");
        let order: Vec<u64> = waiters(&all, &name).iter().map(|waiter| waiter["connection"].as_u64().unwrap()).collect();
        assert_eq!(order, [server.holder(&name).unwrap(), server.waiters(&name)[0]], "{all:#}");
    }

    fn a_holder_without_a_row_stands_beside_those_with_one(server) {
        let name = unique("both");
        let _dblock = holder(server, &name, &["-m", "2"]);
        let client = server.hold(&format!("{name}#1"));
        let all = status(server, &[&name]);
        let seen: Vec<_> = holders(&all, &name).iter().map(|held| (held["slot"].clone(), held["durable"].clone())).collect();
        assert_eq!(seen, [(0.into(), true.into()), (1.into(), false.into())], "{all:#}");
        let plain = &holders(&all, &name)[1];
        assert_eq!(plain["connection"], client.connection_id(), "{all:#}");
        assert_eq!((&plain["fence"], &plain["kind"], &plain["expired"]), (&Value::Null, &Value::Null, &false.into()), "{all:#}");
    }

    fn who_has_asked_for_the_end_of_a_holder_is_shown(server on mariadb) {
        let name = unique("ending");
        server.row_of_a_stranger(&name, 0, 600);
        let killing = Dblock::at(server, "kill").args([&*name, "--wait", "0"]).spawn();
        let pid = killing.pid();
        killing.wait().expect_code(75);
        let all = status(server, &[&name]);
        let killer = &lock(&all, &name)["killed_by"][0];
        assert_eq!((&killer["slot"], &killer["pid"], killer["host"].is_string()), (&0.into(), &pid.into(), true), "{all:#}");
        assert!(line_of(server, &name).1.contains("its holder is being ended by "));
    }

    fn without_names_all_that_have_rows_are_listed(server on mysql) {
        let (run, script) = (unique("Run"), unique("Script"));
        let _dblock = holder(server, &run, &[]);
        let held = token(server, &script, &[]);
        let all = status(server, &[]);
        assert_eq!((holders(&all, &run).len(), holders(&all, &script).len()), (1, 1), "{all:#}");
        let unseen = all["not_visible"].to_string();
        assert!(!unseen.contains("\"locks that nobody waits for"), "{unseen}");
        assert_eq!(unseen.contains("locks that are not durable and that nobody waits for: INSTALL SONAME"), server.kind == Kind::MariaDb, "{unseen}");
        Dblock::at(server, "release").arg(held).output().expect_code(0);
        let all = status(server, &[]);
        assert!(!all["locks"].as_array().unwrap().iter().any(|lock| lock["name"] == script), "{all:#}");
    }

    fn an_account_without_the_tables_sees_named_locks_as_ever(server) {
        let name = unique("account");
        let _dblock = holder(server, &name, &[]);
        let run = Dblock::at(server, "status").user(&server.account()).args(["--json", "-vv", &name]).output();
        run.expect_code(0);
        let asked = run.stderr.lines().filter(|line| line.contains(".dblock_")).count();
        assert_eq!(asked, 1, "one statement is refused: {run:#?}");
        let all = run.json();
        let held = &holders(&all, &name)[0];
        assert_eq!((&held["durable"], &held["connection"]), (&false.into(), &server.holder(&name).unwrap().into()), "{all:#}");
        // PostgreSQL tells such an account that the tables are there.
        let tells = all["not_visible"].to_string().contains("durable locks: this account may not read the tables");
        assert_eq!(tells, server.kind == Kind::Postgres, "{all:#}");
    }

    fn tables_that_are_not_whole_hide_no_named_lock(server) {
        for table in ["dblock_runs", "dblock_locks"] {
            let (name, tables) = (unique("broken"), Tables::new(server));
            tables.sql(&format!("DROP TABLE {table}"));
            let client = server.hold(&name);
            let run = tables.at("status").args(["--json", &name]).output();
            run.expect_code(0).expect_silence();
            let all = run.json();
            assert_eq!(holders(&all, &name)[0]["connection"], client.connection_id(), "{all:#}");
            let line = all["not_visible"][0].as_str().unwrap();
            assert!(line.starts_with(&format!("durable locks: the tables in the {} ", place(server))) && line.contains("not whole"), "{all:#}");
        }
    }

    fn tables_of_a_newer_dblock_hide_no_named_lock_and_end_none(server) {
        let (name, tables) = (unique("newer"), Tables::new(server));
        tables.sql("UPDATE dblock_meta SET version = 99, usable_from = 99");
        let client = server.hold(&name);
        let run = tables.at("status").args(["--json", &name]).output();
        run.expect_code(0).expect_silence();
        let all = run.json();
        assert_eq!(holders(&all, &name)[0]["connection"], client.connection_id(), "{all:#}");
        let line = all["not_visible"][0].as_str().unwrap();
        assert!(line.starts_with(&format!("durable locks: the tables in the {} ", place(server))) && line.contains("of a newer dblock"), "{all:#}");
        let kill = tables.at("kill").arg(&name).output();
        kill.expect_code(78).expect_one_line("of a newer dblock");
        assert!(server.has_session(client.connection_id()));
    }
}

#[test]
fn on_galera_every_node_shows_and_ends_a_durable_holder() {
    let [node, other, _] = &Cluster::shared_galera().nodes;
    node.make_tables();
    let name = unique("galera");
    let mut dblock = holder(node, &name, &["--ttl", "16"]);
    for server in [node, other] {
        eventually("it knows the row", SOON, || {
            server.owner(&name, 0).is_some()
        });
        let all = status(server, &[&name]);
        assert_eq!(holders(&all, &name).len(), 1, "{all:#}");
        assert_eq!(holders(&all, &name)[0]["durable"], true, "{all:#}");
        assert_eq!(waiters(&all, &name).len(), 0, "{all:#}");
    }
    assert_eq!(
        holders(&status(other, &[&name]), &name)[0]["connection"],
        Value::Null
    );
    // It is ended on another node than its session's.
    let killed = Dblock::at(other, "kill").arg(&name).output();
    killed.expect_code(0).expect_silence();
    assert!(
        killed.stdout.contains("its command has ended"),
        "{killed:#?}"
    );
    dblock.wait_within(SOON).expect_code(74);
    // On its own node at once.
    let mut dblock = holder(node, &name, &[]);
    let killed = Dblock::at(node, "kill").arg(&name).output();
    killed.expect_code(0).expect_silence();
    assert!(killed.took < SOON, "{killed:#?}");
    dblock.wait_within(SOON).expect_code(74);
    // A named lock is one of its node.
    let client = node.hold(&name);
    for command in ["status", "kill"] {
        let run = Dblock::at(node, command).arg(&name).output();
        run.expect_code(0)
            .expect_one_line("it has named locks of its own");
    }
    drop(client);
}

//! What `dblock check` says of durable locks, of every server that is named, and of their clocks.

use std::net::{TcpListener, TcpStream};
use std::thread;

use mysql::prelude::Queryable;
use serde_json::Value;

use super::{UNFIT, dblock_check, expect_state, finding, has_second, json};
use crate::harness::{
    Cluster, Dblock, Kind, Pair, Proxy, Replication, SOON, Server, both_servers, eventually,
    unique, url_of,
};

const BOTH: [Kind; 2] = [Kind::MariaDb, Kind::MySql];

/// A database of dblock's tables that no other test uses, on whichever of the servers has them made; the account `dblock` may use them.
fn tables_on(servers: &[Server]) -> String {
    let database = unique("tables");
    let made = servers.iter().any(|server| {
        let init = Dblock::at(server, "init").args(["--database", &database]);
        let run = init
            .env("DBLOCK_USER", "admin")
            .env("DBLOCK_PASSWORD", "admin-secret")
            .output();
        if run.code == Some(0) {
            grant(server, "SELECT, INSERT, UPDATE, DELETE", &database);
        }
        run.code == Some(0)
    });
    assert!(made, "one of them is the one to make tables on");
    let count = format!("SELECT COUNT(*) FROM `{database}`.dblock_meta");
    eventually(
        "all have the tables, and know the account's rights",
        SOON,
        || {
            let mut clients = servers.iter().map(Server::client);
            clients.all(|mut client| {
                client
                    .query_first::<u8, _>(&count)
                    .is_ok_and(|rows| rows == Some(1))
            })
        },
    );
    database
}

fn tables_at(server: &Server) -> String {
    tables_on(std::slice::from_ref(server))
}

fn grant(server: &Server, privileges: &str, database: &str) {
    let grant = format!("GRANT {privileges} ON `{database}`.* TO 'dblock'@'%'");
    server.admin().query_drop(grant).unwrap();
}

/// The URL with this database.
fn with_database(url: &str, database: &str) -> String {
    format!("{url}{database}")
}

/// All findings of this name.
fn all<'a>(found: &'a Value, check: &str) -> Vec<&'a Value> {
    let findings = found["findings"].as_array().expect("a list").iter();
    findings
        .filter(|finding| finding["check"] == check)
        .collect()
}

/// Which locks exclude on each server, in the order of the list: its kind, whether named locks and whether durable ones do, and whether
/// that is as it should be.
fn excluding(found: &Value) -> Vec<(&str, bool, bool, &str)> {
    let found = all(found, "excludes").into_iter().map(|finding| {
        let is = |key: &str| finding[key].as_bool().expect("a bool");
        let word = |key: &str| finding[key].as_str().expect("a word");
        (word("role"), is("named"), is("durable"), word("verdict"))
    });
    found.collect()
}

/// The findings that are warnings.
fn all_warnings(found: &Value) -> Vec<&Value> {
    let findings = found["findings"].as_array().expect("a list").iter();
    let warnings = findings.filter(|finding| finding["verdict"] == "warning");
    warnings.collect()
}

/// Whether the finding is of a machine that is busy: something took long, or a second session did not answer within two seconds.
fn is_of_time(finding: &Value) -> bool {
    match finding["check"].as_str().expect("a word") {
        "connect" | "handshake" | "round_trip" | "lock" | "durable_lock" | "hand_over" => true,
        "second_session" => finding["value"] == "did not come about",
        "kill" => finding["value"] == "does not end a session of this account",
        _ => false,
    }
}

/// The names of what is a warning. That a network has no TLS is not what these tests are about, nor how busy the machine is.
fn warnings(found: &Value) -> Vec<&str> {
    let warnings = all_warnings(found).into_iter();
    let warnings = warnings.filter(|finding| !is_of_time(finding));
    let names = warnings.map(|finding| finding["check"].as_str().expect("a word"));
    names.filter(|name| *name != "TLS").collect()
}

/// All is well, however busy the machine is.
#[track_caller]
fn expect_ok(found: &Value) {
    let warnings = all_warnings(found);
    let verdict = if warnings.is_empty() { "ok" } else { "warning" };
    assert_eq!(found["verdict"], verdict, "{found:#}");
    assert!(warnings.into_iter().all(is_of_time), "{found:#}");
}

/// Nothing is left of the durable lock that was tried. The nodes of a cluster have that a moment later.
#[track_caller]
fn expect_nothing_left(server: &Server, database: &str) {
    for table in ["dblock_locks", "dblock_runs"] {
        let count = format!("SELECT COUNT(*) FROM `{database}`.{table}");
        eventually("nothing is left", SOON, || {
            server.admin().query_first(&count).unwrap() == Some(0)
        });
    }
}

both_servers! {
    fn a_server_without_tables_is_fit_and_says_how_to_make_them(server) {
        let found = json(&server.url(), 0);
        expect_ok(&found);
        assert_eq!(excluding(&found), [("single", true, false, "ok")], "{found:#}");
        let tables = finding(&found, "tables");
        let advice = tables["advice"].as_str().unwrap();
        assert!(advice.contains("an account that may CREATE") && advice.contains("dblock init"), "{found:#}");
        assert!(all(&found, "durable_lock").is_empty(), "{found:#}");
        assert!(all(&found, "clocks").is_empty(), "{found:#}");
    }

    fn a_durable_lock_is_tried_where_there_are_tables_and_nothing_is_left_of_it(server) {
        let database = tables_at(server);
        let stale = format!(
            "INSERT INTO `{database}`.dblock_locks (name, slot, renewed_at) VALUES ('dblock-check-1', 0, UTC_TIMESTAMP(6) - INTERVAL 2 HOUR)"
        );
        server.admin().query_drop(stale).unwrap();
        let found = json(&with_database(&server.url(), &database), 0);
        expect_ok(&found);
        assert_eq!(excluding(&found), [("single", true, true, "ok")], "{found:#}");
        assert_eq!(finding(&found, "tables")["tables_version"], 6);
        let seconds = finding(&found, "durable_lock")["seconds"].as_f64().expect("a number");
        assert!(0.0 < seconds && seconds < 10.0, "{found:#}");
        expect_nothing_left(server, &database);
    }

    fn an_account_that_may_not_write_the_tables_is_told_the_grant(server) {
        let database = tables_at(server);
        let revoke = |privileges: &str| {
            let revoke = format!("REVOKE {privileges} ON `{database}`.* FROM 'dblock'@'%'");
            server.admin().query_drop(revoke).unwrap();
        };
        for missing in ["DELETE", "UPDATE", "INSERT"] {
            revoke(missing);
            let found = json(&with_database(&server.url(), &database), 0);
            expect_state(&found, "tables", "warning");
            let advice = finding(&found, "tables")["advice"].as_str().unwrap();
            let needed = format!("GRANT SELECT, INSERT, UPDATE, DELETE ON `{database}`.* TO 'dblock'@'%'");
            assert!(advice.ends_with(&needed), "{advice}");
            assert_eq!(excluding(&found), [("single", true, false, "ok")], "{found:#}");
            expect_nothing_left(server, &database);
            grant(server, missing, &database);
        }
        revoke("SELECT, INSERT, UPDATE, DELETE");
        let found = json(&with_database(&server.url(), &database), 0);
        // As if there were none: the server does not tell.
        expect_ok(&found);
        let advice = finding(&found, "tables")["advice"].as_str().unwrap();
        assert!(advice.contains("GRANT SELECT, ") && advice.contains("dblock init"), "{advice}");
    }

    fn tables_that_this_dblock_cannot_use_are_told(server) {
        let database = tables_at(server);
        let mut admin = server.admin();
        for (version, usable_from, part) in [(99, 99, "of a newer dblock (version 99)"), (0, 0, "upgrade them with dblock init")] {
            let set = format!("UPDATE `{database}`.dblock_meta SET version = {version}, usable_from = {usable_from}");
            admin.query_drop(set).unwrap();
            let found = json(&with_database(&server.url(), &database), 0);
            expect_state(&found, "tables", "warning");
            let advice = finding(&found, "tables")["advice"].as_str().unwrap();
            assert!(advice.contains(part), "{advice}");
            assert_eq!(excluding(&found), [("single", true, false, "ok")], "{found:#}");
        }
        admin.query_drop(format!("UPDATE `{database}`.dblock_meta SET version = 1, usable_from = 1")).unwrap();
        admin.query_drop(format!("ALTER TABLE `{database}`.dblock_locks ROW_FORMAT=DEFAULT, ENGINE=MyISAM")).unwrap();
        let found = json(&with_database(&server.url(), &database), 0);
        expect_state(&found, "tables", "warning");
        let advice = finding(&found, "tables")["advice"].as_str().unwrap();
        assert!(advice.contains("dblock_locks has no transactions, for its engine is not InnoDB; dblock init converts it"), "{advice}");
        assert_eq!(excluding(&found), [("single", true, false, "ok")], "{found:#}");
        admin.query_drop(format!("ALTER TABLE `{database}`.dblock_locks ENGINE=InnoDB")).unwrap();
        admin.query_drop(format!("DROP TABLE `{database}`.dblock_runs")).unwrap();
        let found = json(&with_database(&server.url(), &database), 0);
        expect_state(&found, "tables", "warning");
        let advice = finding(&found, "tables")["advice"].as_str().unwrap();
        assert!(advice.contains("not whole"), "{advice}");
        let count = format!("SELECT COUNT(*) FROM `{database}`.dblock_locks");
        assert_eq!(admin.query_first(count).unwrap(), Some(0));
    }

    fn a_row_that_cannot_be_written_in_time_ends_no_check(server) {
        let database = tables_at(server);
        let mut admin = server.admin();
        admin.query_drop(format!("LOCK TABLES `{database}`.dblock_locks READ")).unwrap();
        let url = with_database(&server.url(), &database);
        let check = || dblock_check(&url).args(["--json", "--connect-timeout", "5"]).output().expect_code(0).json();
        // A second session has two seconds for its answer.
        let found = (0..10).map(|_| check()).find(has_second).expect("a second session comes about");
        expect_state(&found, "tables", "warning");
        let advice = finding(&found, "tables")["advice"].as_str().unwrap();
        assert!(advice.contains("no answer in time"), "{advice}");
        assert_eq!(excluding(&found), [("single", true, false, "ok")], "{found:#}");
        admin.query_drop("UNLOCK TABLES").unwrap();
        expect_nothing_left(server, &database);
    }

    fn a_server_that_is_named_twice_is_known_again(server) {
        let twice = format!("mysql://dblock@127.0.0.1:{0},localhost:{0}/?protocol=tcp", server.port);
        let found = json(&twice, 0);
        expect_ok(&found);
        assert_eq!(all(&found, "excludes").len(), 2, "{found:#}");
        assert!(all(&found, "clocks").is_empty(), "{found:#}");
    }

    fn a_server_that_does_not_answer_is_told_wherever_it_stands(server) {
        let found = json(&format!("mysql://dblock@127.0.0.1:{},127.0.0.1:1/", server.port), 0);
        let others = all(&found, "excludes");
        assert_eq!(others.len(), 2, "{found:#}");
        assert_eq!(others[1]["verdict"], "warning", "{found:#}");
        assert!(others[1]["advice"].as_str().unwrap().contains("Connection refused"), "{found:#}");
        let silent = Proxy::to(server);
        silent.freeze();
        let url = format!("mysql://dblock@127.0.0.1:{},127.0.0.1:{}/", server.port, silent.port);
        let run = dblock_check(&url).args(["--json", "--connect-timeout", "12"]).output();
        let found = run.expect_code(0).json();
        let advice = all(&found, "excludes")[1]["advice"].as_str().unwrap();
        assert!(advice.contains("no answer in time"), "{advice}");
        let found = json(&format!("mysql://dblock@127.0.0.1:1,127.0.0.1:{}/", server.port), 0);
        assert_eq!(all(&found, "excludes").len(), 1, "once is enough: {found:#}");
    }
}

#[test]
fn each_node_of_galera_has_durable_locks_alone() {
    each_has_durable_locks_alone(Cluster::shared_galera(), "galera", "galera");
}

#[test]
fn each_member_of_a_group_of_primaries_has_durable_locks_alone() {
    let group = Cluster::private(Replication::AllPrimaries);
    each_has_durable_locks_alone(&group, "multi-primary", "group_replication");
}

fn each_has_durable_locks_alone(cluster: &Cluster, kind: &str, check: &str) {
    let found = json(
        &with_database(&url_of(&cluster.nodes), &unique("none")),
        UNFIT,
    );
    expect_state(&found, check, "unfit");
    let advice = finding(&found, check)["advice"].as_str().unwrap();
    assert!(advice.contains("--durable") && advice.contains("dblock init"));
    let nowhere = (kind, false, false, "ok");
    assert_eq!(
        excluding(&found),
        [(kind, false, false, "unfit"), nowhere, nowhere],
        "{found:#}"
    );

    let database = tables_on(&cluster.nodes);
    let url = with_database(&url_of(&cluster.nodes), &database);
    let found = json(&url, 0);
    assert_eq!(warnings(&found), [check], "{found:#}");
    expect_state(&found, check, "warning");
    assert_eq!(
        excluding(&found),
        [(kind, false, true, "ok"); 3],
        "{found:#}"
    );
    expect_state(&found, "clocks", "ok");
    for node in &cluster.nodes {
        expect_nothing_left(node, &database);
    }
    let table = dblock_check(&url).output();
    table.expect_code(0).expect_silence();
    println!("{}\n{}", cluster.replication, table.stdout);
    assert!(
        table.stdout.contains(" is fit to lock on, with "),
        "{table:#?}"
    );
}

/// A load balancer: the port at which each connection leads to the next of these servers.
fn balanced(servers: &[Server]) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let places: Vec<_> = servers.iter().map(|one| (one.address, one.port)).collect();
    thread::spawn(move || {
        for (client, place) in listener.incoming().flatten().zip(places.iter().cycle()) {
            let server = TcpStream::connect(place).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let (mut back, mut client) = (server, client);
            thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Write);
            });
            thread::spawn(move || std::io::copy(&mut back, &mut client));
        }
    });
    port
}

#[test]
fn a_cluster_behind_one_address_has_durable_locks_alone() {
    let nodes = &Cluster::shared_galera().nodes;
    let url = format!("mysql://dblock@127.0.0.1:{}/", balanced(nodes));
    let found = json(&with_database(&url, &unique("none")), UNFIT);
    expect_state(&found, "second_session", "unfit");
    let found = json(&with_database(&url, &tables_on(nodes)), 0);
    assert_eq!(warnings(&found), ["galera", "second_session"], "{found:#}");
    assert_eq!(excluding(&found), [("galera", false, true, "ok")]);
}

#[test]
fn the_primary_of_a_group_has_both_and_the_others_none() {
    let cluster = Cluster::private(Replication::OnePrimary);
    let database = tables_on(&cluster.nodes);
    let found = json(&with_database(&url_of(&cluster.nodes), &database), 0);
    assert!(warnings(&found).is_empty(), "{found:#}");
    expect_state(&found, "group_replication", "ok");
    let mut kinds = excluding(&found);
    assert_eq!(kinds.remove(0), ("primary", true, true, "ok"), "{found:#}");
    assert_eq!(kinds, [("read-only", false, false, "ok"); 2], "{found:#}");
    let table = dblock_check(&with_database(&url_of(&cluster.nodes), &database)).output();
    println!("{}", table.stdout);
}

#[test]
fn a_replica_has_none_and_nothing_is_written_to_it() {
    for kind in BOTH {
        let pair = Pair::private(kind);
        let database = tables_at(&pair.primary);
        let found = json(
            &with_database(&url_of([&pair.replica, &pair.primary]), &database),
            0,
        );
        expect_ok(&found);
        assert_eq!(
            excluding(&found),
            [
                ("single", true, true, "ok"),
                ("read-only", false, false, "ok")
            ],
            "{found:#}"
        );
        expect_state(&found, "clocks", "ok");
        let table = dblock_check(&with_database(
            &url_of([&pair.primary, &pair.replica]),
            &database,
        ))
        .output();
        println!("{}", table.stdout);

        // Not even by an account that could. What the replica gets from its primary is another test's.
        let mut admin = pair.replica.admin();
        let position = |admin: &mut mysql::Conn| -> String {
            let own = match kind {
                Kind::MariaDb => "@@gtid_binlog_pos",
                Kind::Postgres => unreachable!("a test of MySQL"),
                Kind::MySql => {
                    "IFNULL(REGEXP_SUBSTR(@@gtid_executed, CONCAT(@@server_uuid, '[^,]*')), '')"
                }
            };
            admin
                .query_first(format!("SELECT {own}"))
                .unwrap()
                .expect("a position")
        };
        let url = pair.replica.url().replace("dblock@", "admin@") + &database;
        let check = || {
            dblock_check(&url)
                .env("DBLOCK_PASSWORD", "admin-secret")
                .arg("--json")
                .output()
        };
        crate::harness::eventually("it has the tables", crate::harness::SOON, || {
            let version = format!("SELECT 1 FROM `{database}`.dblock_meta");
            matches!(admin.query_first::<u8, _>(version), Ok(Some(1)))
        });
        let before = position(&mut admin);
        let found = check().expect_code(UNFIT).json();
        assert_eq!(
            excluding(&found),
            [("read-only", false, false, "unfit")],
            "{found:#}"
        );
        assert_eq!(position(&mut admin), before);
    }
}

#[test]
fn two_servers_that_know_nothing_of_each_other_are_a_warning() {
    let (one, other) = (Server::shared(Kind::MariaDb), Server::shared(Kind::MySql));
    let database = tables_at(one);
    let found = json(&with_database(&url_of([one, other]), &database), 0);
    assert_eq!(found["verdict"], "warning", "{found:#}");
    let [first, second] = excluding(&found)[..] else {
        panic!("{found:#}");
    };
    assert_eq!(first, ("single", true, true, "ok"));
    assert_eq!(second, ("single", true, false, "warning"));
}

#[test]
fn clocks_that_are_apart_are_told() {
    for kind in BOTH {
        let (here, ahead) = (Server::shared(kind), Server::private_with_clock(kind, 150));
        let found = json(&url_of([here, &ahead]), 0);
        expect_state(&found, "clocks", "warning");
        let clocks = finding(&found, "clocks");
        let apart = clocks["seconds"].as_f64().unwrap();
        // An answer that is late is off by up to half of its delay.
        assert!((145.0..155.0).contains(&apart), "{clocks:#}");
        let value = clocks["value"].as_str().unwrap();
        assert!(
            value.starts_with(&format!("{} is 1", address(&ahead))),
            "{value}"
        );
        assert!(
            value.contains(&format!(" s ahead of {} (", address(here))),
            "{value}"
        );
        let host = finding(&found, "host_clock");
        assert_eq!(host["verdict"], "ok");
        assert!(host["advice"].is_null(), "{host:#}");
        assert!(host["seconds"].as_f64().unwrap().abs() < 5.0, "{host:#}");

        // It is less than half a minute that is forgiven.
        let found = json(&ahead.url(), 0);
        expect_ok(&found);
        let host = finding(&found, "host_clock");
        assert!(
            host["value"]
                .as_str()
                .unwrap()
                .ends_with("behind the server's")
        );
        assert!(host["seconds"].as_f64().unwrap() < -145.0, "{host:#}");
        assert!(host["advice"].as_str().unwrap().contains("--once-at"));
    }
}

fn address(server: &Server) -> String {
    format!("{}:{}", server.address, server.port)
}

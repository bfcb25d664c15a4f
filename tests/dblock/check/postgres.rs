//! What `dblock check` finds on PostgreSQL alone: the database, connections, `fsync`, standbys, snapshots, and sessions that wait in a
//! statement.

use super::{UNFIT, expect_state, finding, has_second, json, json_when};
use crate::harness::fake_postgres::{FakePostgres, error, welcome};
use crate::harness::postgres::{DATABASE, Postgres, key};
use crate::harness::{ADMIN, Kind, PASSWORD, SOON, Server, eventually, in_time, unique};
use crate::postgres_servers::{both, standby_of};

/// The value of a finding on this server, which is fit.
#[track_caller]
fn value(server: &Server, check: &str) -> String {
    let found = json(&server.url(), 0);
    let value = finding(&found, check)["value"].as_str();
    value.expect("a text").to_owned()
}

#[test]
fn a_database_that_every_server_has_is_a_warning() {
    let server = Server::shared(Kind::Postgres);
    for (database, state) in [(DATABASE, "ok"), ("postgres", "warning")] {
        let url = server.url().replace(DATABASE, database);
        let found = json(&url, 0);
        assert_eq!(finding(&found, "database")["value"], database);
        expect_state(&found, "database", state);
    }
}

#[test]
fn why_a_server_has_no_locks_is_said_in_a_sentence_without_its_name() {
    let refuses = |_: &str| error("ERROR", "42883", b"there is no such function");
    for (version, more, why) in [
        (
            "13.0.0",
            &[("crdb_version", "CockroachDB CCL v24.1.0")][..],
            "it is a CockroachDB: its advisory locks do nothing",
        ),
        (
            "13.22",
            &[],
            "it is PostgreSQL 13.22: dblock needs 14 or newer",
        ),
    ] {
        let fake = FakePostgres::start(welcome(7, version, more), refuses);
        let found = json(&fake.url(), UNFIT);
        expect_state(&found, "locks", "unfit");
        let advice = finding(&found, "locks")["advice"].as_str();
        let advice = advice.expect("an advice");
        assert!(advice.starts_with(why), "{advice}");
    }
}

#[test]
fn a_server_that_is_short_of_connections_is_a_warning_whosever_they_are() {
    let server = Server::private_with(Kind::Postgres, &["-c", "max_connections=30"]);
    let found = json(&server.url(), 0);
    expect_state(&found, "connections", "ok");
    // Three are kept for superusers.
    assert_eq!(finding(&found, "connections")["max"], 27);
    let of_others: Vec<_> = (0..10).map(|_| server.new_admin().unwrap()).collect();
    let found = json(&server.url(), 0);
    expect_state(&found, "connections", "warning");
    let connections = finding(&found, "connections");
    assert!(connections["in_use"].as_u64() > Some(10), "{connections:#}");
    let advice = connections["advice"].as_str().expect("an advice");
    assert!(advice.ends_with("raise max_connections"), "{advice}");
    drop(of_others);
}

#[test]
fn what_sends_to_a_standby_or_works_in_the_background_is_no_connection() {
    let launcher = ["-c", "max_logical_replication_workers=1"];
    let primary = Server::private_with(Kind::Postgres, &launcher);
    let mut admin = primary.postgres();
    let _standby = standby_of(&primary);
    // Unlike a standby's, it is of a database, as a client's is.
    let address = (primary.address, primary.port);
    let of_database = [("replication", "database")];
    let _sender = Postgres::connect_with(address, ADMIN, DATABASE, &of_database).unwrap();
    let mut are = |number: u32, kind: &str| {
        let count = format!("SELECT count(*) FROM pg_stat_activity WHERE backend_type = '{kind}'");
        admin.value(&count) == Some(number)
    };
    eventually("all of them are there", SOON, || {
        are(2, "walsender") && are(1, "logical replication launcher")
    });
    // The admin's, and that of the check. Its second session may not have ended yet, or that of the check before.
    let mut in_use = None;
    let is_so = in_time(SOON, || {
        in_use = finding(&json(&primary.url(), 0), "connections")["in_use"].as_u64();
        in_use == Some(2)
    });
    assert!(is_so, "{in_use:?}");
    assert!(are(2, "walsender") && are(1, "logical replication launcher"));
}

#[test]
fn connections_that_are_reserved_for_other_roles_are_not_there_for_this_one() {
    let options = ["max_connections=30", "reserved_connections=5"];
    let server = Server::newer_postgres_with(&["-c", options[0], "-c", options[1]]);
    let max = || finding(&json(&server.url(), 0), "connections")["max"].as_u64();
    // Three are kept for superusers.
    assert_eq!(max(), Some(22));
    let grant = "GRANT pg_use_reserved_connections TO dblock";
    server.postgres().run(grant);
    assert_eq!(max(), Some(27));
}

#[test]
fn a_role_that_is_short_of_connections_is_a_warning() {
    let server = Server::shared(Kind::Postgres);
    let role = server.account();
    let limit = format!("ALTER ROLE \"{role}\" CONNECTION LIMIT 10");
    server.postgres().run(&limit);
    let url = server.url().replace("dblock@", &format!("{role}@"));
    let found = json(&url, 0);
    expect_state(&found, "connections", "warning");
    let connections = finding(&found, "connections");
    assert_eq!(connections["max_of_account"], 10, "{connections:#}");
    assert!(connections["max_of_database"].is_null(), "{connections:#}");
    let advice = connections["advice"].as_str().expect("an advice");
    assert!(
        advice.ends_with("raise the role's CONNECTION LIMIT"),
        "{advice}"
    );
}

#[test]
fn a_database_that_is_short_of_connections_is_a_warning_whosever_they_are() {
    let server = Server::private(Kind::Postgres);
    let limit = format!("ALTER DATABASE {DATABASE} CONNECTION LIMIT 30");
    server.postgres().run(&limit);
    let ten_in = |database: &str| -> Vec<_> {
        let address = (server.address, server.port);
        let session = |_| Postgres::connect(address, ADMIN, database).unwrap();
        (0..10).map(session).collect()
    };
    // Those in another database do not count.
    let elsewhere = ten_in("postgres");
    let found = json(&server.url(), 0);
    expect_state(&found, "connections", "ok");
    let connections = finding(&found, "connections");
    assert_eq!(connections["max_of_database"], 30, "{connections:#}");
    assert!(connections["max_of_account"].is_null(), "{connections:#}");
    // Those of another role do.
    let here = ten_in(DATABASE);
    let found = json(&server.url(), 0);
    expect_state(&found, "connections", "warning");
    let connections = finding(&found, "connections");
    let in_use = connections["in_use_in_database"].as_u64();
    assert!(in_use > Some(10), "{connections:#}");
    let advice = connections["advice"].as_str().expect("an advice");
    assert!(
        advice.ends_with("raise the database's CONNECTION LIMIT"),
        "{advice}"
    );
    drop((elsewhere, here));
}

#[test]
fn a_server_that_may_lose_its_data_in_a_power_cut_is_a_warning() {
    let careful = Server::private_with(Kind::Postgres, &["-c", "fsync=on"]);
    let careless = Server::shared(Kind::Postgres);
    for (server, fsync, state) in [(&careful, "on", "ok"), (careless, "off", "warning")] {
        let found = json(&server.url(), 0);
        assert_eq!(finding(&found, "fsync")["value"], fsync);
        expect_state(&found, "fsync", state);
    }
}

#[test]
fn a_standby_is_counted_and_that_no_commit_waits_for_it_is_noted() {
    let primary = Server::private(Kind::Postgres);
    assert_eq!(value(&primary, "standbys"), "none seen");
    let _standby = standby_of(&primary);
    eventually("it is connected", SOON, || {
        value(&primary, "standbys") == "1, none synchronous"
    });
    let found = json(&primary.url(), 0);
    let standbys = finding(&found, "standbys");
    assert_eq!(standbys["verdict"], "ok", "{standbys:#}");
    let advice = standbys["advice"].as_str().expect("a note");
    assert!(advice.contains("may lack the last commits"), "{advice}");
    let mut admin = primary.postgres();
    admin.run("ALTER SYSTEM SET synchronous_standby_names = '*'");
    admin.run("SELECT pg_reload_conf()");
    eventually("commits wait for it", SOON, || {
        value(&primary, "standbys") == "1, some synchronous"
    });
}

#[test]
fn a_standby_alone_is_unfit_and_its_second_session_is_not_said_to_have_failed() {
    let primary = Server::private(Kind::Postgres);
    let standby = standby_of(&primary);
    let found = json_when(|| standby.url(), UNFIT, has_second);
    expect_state(&found, "takes_writes", "unfit");
    let second = finding(&found, "second_session");
    assert_eq!(second["value"], "sees the lock", "{found:#}");
    let advice = second["advice"].as_str().expect("a note");
    assert!(advice.contains("a standby takes no LISTEN"), "{advice}");
    let all = found["findings"].as_array().expect("a list");
    let tried = |check: &str| all.iter().any(|finding| finding["check"] == check);
    assert!(tried("lock"), "{found:#}");
    assert!(!tried("kill") && !tried("hand_over"), "{found:#}");
    let mut admin = standby.postgres();
    eventually("no lock is left", SOON, || {
        admin.is("NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory')")
    });
}

#[test]
fn a_role_that_may_end_no_session_is_a_warning_in_the_words_of_postgresql() {
    let server = Server::private(Kind::Postgres);
    let mut admin = server.postgres();
    admin.run("REVOKE EXECUTE ON FUNCTION pg_terminate_backend FROM PUBLIC");
    let found = json_when(|| server.url(), 0, has_second);
    expect_state(&found, "kill", "warning");
    let advice = finding(&found, "kill")["advice"].as_str();
    let advice = advice.expect("an advice");
    assert!(
        advice.ends_with("execute pg_terminate_backend()"),
        "{advice}"
    );
    assert!(!advice.contains("wait_timeout"), "{advice}");
}

#[test]
fn the_primary_from_before_a_fail_over_is_named_beside_the_new_one() {
    let primary = Server::private(Kind::Postgres);
    let standby = standby_of(&primary);
    primary.stop_immediately();
    let mut admin = standby.postgres();
    assert!(admin.is("pg_promote()"));
    // From here on the server says that there was a fail-over.
    admin.run("CHECKPOINT");
    primary.start();
    let found = json(&both(&primary, &standby), UNFIT);
    expect_state(&found, "second_session", "unfit");
    let advice = finding(&found, "second_session")["advice"].as_str();
    let second = format!(
        "not the only one that takes writes: 127.0.0.1:{}, which is named, too, does as well",
        standby.port
    );
    assert!(
        advice.is_some_and(|said| said.contains(&second)),
        "{found:#}"
    );
}

#[test]
fn a_snapshot_that_is_older_than_an_hour_is_a_warning() {
    let server = Server::private(Kind::Postgres);
    assert_eq!(value(&server, "oldest_snapshot"), "none seen");
    let mut reader = server.postgres_as("dblock", PASSWORD).unwrap();
    reader.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
    reader.run("SELECT 1");
    let found = json(&server.url(), 0);
    assert_ne!(finding(&found, "oldest_snapshot")["value"], "none seen");
    expect_state(&found, "oldest_snapshot", "ok");
    // Two hours go by.
    let mut admin = server.postgres();
    admin.run("ALTER FUNCTION pg_catalog.clock_timestamp() RENAME TO its_own");
    admin.run(
        "CREATE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz LANGUAGE sql \
         AS $$ SELECT pg_catalog.its_own() + interval '2 h' $$",
    );
    let found = json(&server.url(), 0);
    expect_state(&found, "oldest_snapshot", "warning");
}

#[test]
fn the_age_of_another_roles_snapshot_is_visible_with_the_grant_that_is_named() {
    let server = Server::private(Kind::Postgres);
    let role = server.account();
    let url = server.url().replace("dblock@", &format!("{role}@"));
    let snapshot = || finding(&json(&url, 0), "oldest_snapshot").clone();
    let begins_with_a_digit = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    assert_eq!(snapshot()["value"], "none seen");
    let mut other = server.new_admin().unwrap();
    other.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
    other.run("SELECT 1");
    let found = snapshot();
    assert_eq!(found["value"], "not visible to this account", "{found:#}");
    assert_eq!(found["verdict"], "ok", "{found:#}");
    let advice = found["advice"].as_str().expect("a note");
    let grant = format!("GRANT pg_read_all_stats TO \"{role}\"");
    assert!(advice.starts_with(&grant), "{advice}");
    // Its own it sees.
    let mut own = server.postgres_as(&role, PASSWORD).unwrap();
    own.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
    own.run("SELECT 1");
    let found = snapshot();
    let value = found["value"].as_str().expect("a text");
    let (age, others) = value.split_once("; ").expect("two things");
    assert!(begins_with_a_digit(age), "{value}");
    assert!(others.contains("not visible"), "{value}");
    assert_eq!(found["advice"], advice, "{found:#}");
    drop(own);
    server.postgres().run(&grant);
    let found = snapshot();
    let value = found["value"].as_str().expect("a text");
    assert!(begins_with_a_digit(value), "{value}");
    assert!(!value.contains("visible"), "{value}");
    assert!(found["advice"].is_null(), "{found:#}");
}

#[test]
fn sessions_that_wait_in_a_statement_are_counted() {
    let server = Server::private(Kind::Postgres);
    assert_eq!(value(&server, "blocked_in_locks"), "no session");
    let name = unique("blocked");
    let holder = server.hold(&name);
    // Every role sees those of the others, too.
    let mut waiter = server.new_admin().unwrap();
    let wait = format!("SELECT pg_advisory_lock({})", key(&name));
    waiter.begin(&wait).unwrap();
    eventually("it waits", SOON, || server.is_waiting(waiter.pid));
    let found = json(&server.url(), 0);
    let blocked = finding(&found, "blocked_in_locks");
    assert_eq!(blocked["value"], "sessions: 1", "{blocked:#}");
    assert_eq!(blocked["verdict"], "ok", "{blocked:#}");
    let advice = blocked["advice"].as_str().expect("a note");
    assert!(advice.contains("each holds a snapshot"), "{advice}");
    drop(holder);
    waiter.end().unwrap();
}

//! Servers on which an advisory lock would not exclude are refused or passed over: standbys, poolers, and what only looks like PostgreSQL.

use std::process::Stdio;
use std::time::Duration;

use crate::harness::fake_postgres::{FakePostgres, error, row, welcome};
use crate::harness::postgres::Postgres;
use crate::harness::{Dblock, Kind, PgBouncer, SOON, Server, Setup, eventually, unique, within};

/// A standby that follows this server.
fn standby_of(primary: &Server) -> Server {
    let setup = Setup {
        standby_of: Some(primary.port),
        ..Setup::default()
    };
    Server::private_as(Kind::Postgres, setup)
}

/// Both servers in one URL, in this order.
fn both(one: &Server, other: &Server) -> String {
    format!(
        "postgres://dblock@127.0.0.1:{},127.0.0.1:{}/app",
        one.port, other.port
    )
}

/// It is refused, the command does not run, and these words say why.
#[track_caller]
fn refused(url: &str, words: &[&str]) {
    let name = unique("unfit");
    let run = Dblock::run_at(url, &name).args(["--connect-timeout", "2"]);
    let output = run.sh("echo ran").output();
    output.expect_code(78).expect_stdout("").expect_one_line("");
    output.expect_said(words);
}

#[test]
fn a_standby_is_passed_over_and_after_its_promotion_it_is_the_one() {
    let primary = Server::private(Kind::Postgres);
    let standby = standby_of(&primary);
    let name = unique("standby");
    for url in [both(&standby, &primary), both(&primary, &standby)] {
        let run = Dblock::run_at(&url, &name).stdin(Stdio::piped());
        let mut run = run.sh("echo held; read x; exit 0").spawn();
        run.wait_line("held", SOON);
        assert!(primary.holder(&name).is_some() && standby.holder(&name).is_none());
        drop(run.take_stdin());
        run.wait().expect_code(0);
    }
    // Alone, it is waited for as long as a server may take to begin, as its promotion may be under way.
    let run = Dblock::run_at(&standby.url(), &name).args(["--connect-timeout", "1"]);
    let output = run.sh("echo ran").output();
    output.expect_stdout("").expect_one_line("");
    assert!([Some(69), Some(78)].contains(&output.code), "{output:#?}");

    // The primary is gone while a command runs, and the standby takes its place.
    let run = Dblock::run_at(&both(&primary, &standby), &name).args(["--ttl", "60"]);
    let mut run = run
        .stdin(Stdio::piped())
        .sh("echo held; read x; exit 5")
        .spawn();
    run.wait_line("held", SOON);
    primary.stop_immediately();
    run.wait_stderr("was lost while the command runs", SOON);
    assert!(!within(Duration::from_millis(300), || standby
        .holder(&name)
        .is_some()));
    assert!(standby.postgres().is("pg_promote()"));
    run.wait_stderr("reacquired after", SOON);
    assert!(standby.holder(&name).is_some());
    drop(run.take_stdin());
    run.wait().expect_code(5);
}

#[test]
fn a_server_that_is_read_only_by_default_is_refused() {
    let server = &Server::private(Kind::Postgres);
    let name = unique("read-only");
    let run = || Dblock::run(server, &name).args(["--connect-timeout", "1"]);
    server.set_read_only(true);
    let output = run().sh("echo ran").output();
    output.expect_stdout("").expect_one_line("read-only");
    assert!([Some(69), Some(78)].contains(&output.code), "{output:#?}");
    server.set_read_only(false);
    run()
        .command(["true"])
        .output()
        .expect_code(0)
        .expect_silence();
}

#[test]
fn a_server_that_becomes_read_only_loses_its_lock_within_a_quarter_of_the_time_to_live() {
    let server = &Server::private(Kind::Postgres);
    let name = unique("demoted");
    let run = Dblock::run(server, &name).args(["--ttl", "8", "--on-lock-lost", "terminate"]);
    let mut run = run
        .without_terminal()
        .sh("echo held; exec sleep 60")
        .spawn();
    run.wait_line("held", SOON);
    server.set_read_only(true);
    let output = run.wait_within(SOON);
    output.expect_code(74);
    server.set_read_only(false);
}

#[test]
fn a_pooler_is_taken_that_keeps_a_session_for_each_client_and_is_said_to() {
    let server = &Server::private(Kind::Postgres);
    let pooler = PgBouncer::start(server, "session");
    let url = format!("{}?pooler=session", pooler.url());
    let name = unique("pooled");
    let run = Dblock::run_at(&url, &name).stdin(Stdio::piped());
    let mut run = run.sh("echo held; read x; exit 3").spawn();
    run.wait_line("held", SOON);
    assert!(server.holder(&name).is_some());
    let other = || Dblock::run_at(&url, &name);
    other().command(["true"]).output().expect_code(75);
    Dblock::run(server, &name)
        .command(["true"])
        .output()
        .expect_code(75);
    let waits = other().args(["--wait", "30"]).sh("echo ran").spawn();
    eventually("it waits", SOON, || server.waiters(&name).len() == 1);
    drop(run.take_stdin());
    run.wait().expect_code(3).expect_silence();
    waits
        .wait()
        .expect_code(0)
        .expect_stdout("ran\n")
        .expect_silence();
    eventually("it is free", SOON, || server.holder(&name).is_none());
    // A session that goes back to the pool keeps nothing of this.
    let mut next = Postgres::connect(
        ("127.0.0.1", pooler.port),
        ("dblock", crate::harness::PASSWORD),
        "app",
    )
    .unwrap();
    assert_eq!(
        next.value::<String>("SHOW idle_session_timeout").as_deref(),
        Some("0")
    );
    assert!(next.is("NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory')"));
    assert!(next.is("NOT EXISTS (SELECT FROM pg_listening_channels())"));
}

#[test]
fn a_pooler_is_refused_unless_it_is_said_to_keep_a_session_for_each_client() {
    let server = &Server::private(Kind::Postgres);
    for (mode, url) in [
        ("session", ""),
        ("transaction", ""),
        ("transaction", "?pooler=session"),
    ] {
        let pooler = PgBouncer::start(server, mode);
        refused(&format!("{}{url}", pooler.url()), &["pooler"]);
        assert!(
            server
                .postgres()
                .is("NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory')"),
            "{mode} {url}"
        );
    }
}

/// A server that claims this of itself and has granted whatever is asked of it.
fn claims(version: &'static str, parameters: &[(&str, &str)]) -> FakePostgres {
    let version_number = version.split(['.', ' ']).next().unwrap_or_default();
    let welcome = welcome(7, version_number, parameters);
    FakePostgres::start(welcome, move |_| {
        row(&[
            ("version", Some(version)),
            ("slot", Some("0")),
            ("pid", Some("7")),
        ])
    })
}

#[test]
fn a_server_older_than_14_is_refused() {
    for version in ["13.22", "9.6.24", "8.0.2"] {
        let fake = claims(version, &[]);
        refused(&fake.url(), &["14"]);
        assert_eq!(fake.statements(), [""; 0], "nothing is asked of it");
    }
}

#[test]
fn what_only_speaks_the_protocol_is_refused_by_its_name() {
    let crdb = [("crdb_version", "CockroachDB CCL v24.1.0")];
    for (version, parameters, name) in [
        ("13.0.0", &crdb[..], "CockroachDB"),
        ("14.0.0", &crdb[..], "CockroachDB"),
        ("11.2-YB-2.20.1.0-b0", &[][..], "14"),
        ("15.2-YB-2025.1.0.0-b0", &[][..], "Yugabyte"),
        ("8.0.2", &[("padb_version", "1.0.69065")][..], "14"),
    ] {
        let welcome = welcome(7, version, parameters);
        let fake = FakePostgres::start(welcome, |_| error("ERROR", "42883", b"no such function"));
        let run = Dblock::run_at(&fake.url(), &unique("clone")).args(["--connect-timeout", "2"]);
        let output = run.sh("echo ran").output();
        output.expect_stdout("").expect_one_line("");
        output.expect_code(78).expect_said([name]);
    }
}

#[test]
fn a_server_that_grants_without_holding_is_refused() {
    // What answers every statement with a row of its own, and shows no lock.
    for version in ["15.4", "16.1"] {
        let fake = FakePostgres::start(welcome(7, version, &[]), |_| row(&[("x", Some("t"))]));
        let run = Dblock::run_at(&fake.url(), &unique("stub")).args(["--connect-timeout", "2"]);
        let output = run.sh("echo ran").output();
        output.expect_stdout("").expect_one_line("");
        assert!([Some(70), Some(78)].contains(&output.code), "{output:#?}");
    }
}

#[test]
fn who_may_not_use_advisory_locks_is_told_so() {
    let server = &Server::private(Kind::Postgres);
    let mut admin = server.postgres();
    admin.run("REVOKE EXECUTE ON FUNCTION pg_try_advisory_lock(bigint) FROM PUBLIC");
    let output = Dblock::run(server, &unique("revoked"))
        .sh("echo ran")
        .output();
    output
        .expect_code(77)
        .expect_stdout("")
        .expect_one_line("pg_try_advisory_lock");
}

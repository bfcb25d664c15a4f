//! Durable locks on PostgreSQL over a fail-over to a standby, one that has all commits and one that lacks some; and through a pooler.

use std::process::Stdio;
use std::time::Duration;

use crate::harness::{
    Crontab, Dblock, Kind, PgBouncer, Running, SOON, Server, Tables, Watcher, eventually,
    eventually_gone, unique, within, works,
};
use crate::postgres_servers::{both, standby_of};

/// Commits wait for the standby, if there is one.
const SYNCHRONOUS: [&str; 2] = ["-c", "synchronous_commit=on"];

/// A durable run on the first of these servers that takes writes.
fn durable(url: &str, name: &str) -> Dblock {
    let url = format!("{url}?target_session_attrs=read-write");
    Dblock::run_at(&url, name).args(["--durable", "--ttl", "60", "--kill-after", "1"])
}

/// One that holds the lock until its stdin ends, and says which fence it has.
#[track_caller]
fn holder(url: &str, name: &str) -> (Running, i32, u64) {
    let run = durable(url, name).without_terminal().stdin(Stdio::piped());
    let mut run = run
        .sh("echo fence $DBLOCK_FENCE; echo shell $$; read x; exit 5")
        .spawn();
    let command = run.wait_pid("shell");
    let line = run.wait_line("fence ", SOON);
    (
        run,
        command,
        line["fence ".len()..].parse().expect("a number"),
    )
}

/// The fence of the next run.
#[track_caller]
fn next_fence(url: &str, name: &str) -> u64 {
    let output = durable(url, name).sh("echo $DBLOCK_FENCE").output();
    output
        .expect_code(0)
        .stdout
        .trim()
        .parse()
        .expect("a number")
}

#[test]
fn a_grant_that_a_synchronous_standby_has_outlives_the_primary_and_fences_go_on() {
    let primary = Server::private_with(Kind::Postgres, &SYNCHRONOUS);
    primary.make_tables();
    let standby = standby_of(&primary);
    let mut admin = primary.postgres();
    admin.run("ALTER SYSTEM SET synchronous_standby_names = '*'");
    admin.run("SELECT pg_reload_conf()");
    eventually("commits wait for it", SOON, || {
        admin.is("EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')")
    });
    let (url, name) = (both(&standby, &primary), unique("synchronous"));
    assert_eq!(next_fence(&url, &name), 1);
    let (mut run, command, fence) = holder(&url, &name);
    assert_eq!(fence, 2);
    let waiting = durable(&url, &name).args(["--wait", "5m"]);
    let waiting = waiting.sh("echo $DBLOCK_FENCE").spawn();
    eventually("it waits", SOON, || primary.waiters(&name).len() == 1);

    primary.kill();
    assert!(standby.postgres().is("pg_promote()"));
    let query = format!(
        "SELECT fence FROM dblock.dblock_locks WHERE name = '{name}' AND owner IS NOT NULL"
    );
    let mut admin = standby.postgres();
    assert_eq!(admin.value(&query), Some(fence), "the grant is there");
    eventually("both are there", SOON, || admin.sessions().len() == 2);
    durable(&url, &name)
        .sh("echo ran")
        .output()
        .expect_code(75)
        .expect_stdout("");
    assert!(
        crate::harness::runs(command) && run.is_running(),
        "{}",
        run.stderr()
    );
    drop(run.take_stdin());
    run.wait().expect_code(5).expect_silence();
    waiting.wait().expect_code(0).expect_stdout("3\n");
}

/// Whether a session of this account waits until a standby has its commit.
fn waits(account: &str) -> String {
    let session = format!("usename = '{account}' AND wait_event = 'SyncRep'");
    format!("EXISTS (SELECT FROM pg_stat_activity WHERE {session})")
}

/// From here on each commit waits for a standby, and there is none.
#[track_caller]
fn want_standby(server: &Server) {
    let mut admin = server.postgres();
    admin.run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    admin.run("SELECT pg_reload_conf()");
    // It reads that a moment later.
    eventually("another commit waits for a standby", SOON, || {
        let mut other = server.postgres();
        let begun = other.begin("SELECT pg_logical_emit_message(true, 'test', '')");
        begun.is_ok() && within(Duration::from_millis(500), || admin.is(&waits("admin")))
    });
}

/// No commit waits for a standby any more.
fn want_no_standby(server: &Server) {
    let mut admin = server.postgres();
    admin.run("ALTER SYSTEM RESET synchronous_standby_names");
    admin.run("SELECT pg_reload_conf()");
}

#[test]
fn a_grant_does_not_count_whose_wait_for_a_standby_was_canceled() {
    let server = Server::private_with(Kind::Postgres, &SYNCHRONOUS);
    server.make_tables();
    let name = unique("canceled");
    works(Dblock::run_at(&server.url(), &name).arg("--durable"));
    want_standby(&server);
    // With this setting the server keeps to itself that it does not wait.
    let url = server.url() + "?options=-c%20client_min_messages%3Derror";
    let run = Dblock::run_at(&url, &name).args(["--durable", "-v", "--ttl", "60"]);
    let run = run.args(["--wait", "5m", "--connect-timeout", "2m"]);
    let run = run.sh("echo fence $DBLOCK_FENCE").spawn();
    let mut admin = server.postgres();
    let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity \
         WHERE usename = 'dblock' AND wait_event = 'SyncRep'";
    eventually("it learns that nobody waits", SOON, || {
        admin.run(cancel);
        assert_eq!(run.stdout(), "", "its command began");
        run.stderr()
            .contains("the server gave up waiting for its synchronous standby")
    });
    eventually("it waits again", SOON, || admin.is(&waits("dblock")));
    assert_eq!(run.stdout(), "", "its command began");
    want_no_standby(&server);
    run.wait().expect_code(0).expect_stdout("fence 2\n");
}

#[test]
fn a_grant_that_a_standby_lacks_is_noticed_and_its_command_ended() {
    let primary = Server::private_with(Kind::Postgres, &SYNCHRONOUS);
    primary.make_tables();
    let standby = standby_of(&primary);
    let (url, name) = (both(&primary, &standby), unique("lags"));
    assert_eq!(next_fence(&url, &name), 1);
    let released = format!(
        "SELECT 1 FROM dblock.dblock_locks WHERE name = '{name}' AND owner IS NULL AND fence = 1"
    );
    eventually("the standby has the release", SOON, || {
        standby.postgres().value(&released) == Some(1)
    });
    // It hears nothing any more.
    let mut admin = standby.postgres();
    admin.run("ALTER SYSTEM SET primary_conninfo = ''");
    admin.run("SELECT pg_reload_conf()");
    eventually("it is cut off", SOON, || {
        primary
            .postgres()
            .is("NOT EXISTS (SELECT FROM pg_stat_replication)")
    });
    let (mut run, command, fence) = holder(&url, &name);
    assert_eq!(fence, 2);
    primary.kill();
    assert!(standby.postgres().is("pg_promote()"));
    let output = run.wait_within(SOON);
    output
        .expect_code(74)
        .expect_said(["its row says that nobody holds it"]);
    eventually_gone(command, SOON);
    // The new primary does not know that this fence was handed out.
    assert_eq!(next_fence(&url, &name), fence);
}

#[test]
fn a_durable_lock_is_held_through_a_pooler_of_sessions_and_outlives_its_session() {
    let server = Server::durable(Kind::Postgres);
    let pooler = PgBouncer::start(server, "session");
    let (url, name) = (format!("{}?pooler=session", pooler.url()), unique("pooled"));
    let run = Dblock::run_at(&url, &name)
        .arg("--durable")
        .stdin(Stdio::piped());
    let mut run = run.sh("echo fence $DBLOCK_FENCE; read x; exit 3").spawn();
    run.wait_line("fence 1", SOON);
    let session = server.holder(&name).expect("it is held");
    server.watcher().end_session(session);
    eventually("another session holds it", SOON, || {
        server.holder(&name).is_some_and(|id| id != session)
    });
    for url in [&url, &server.url()] {
        let other = Dblock::run_at(url, &name).arg("--durable");
        other
            .sh("echo ran")
            .output()
            .expect_code(75)
            .expect_stdout("");
    }
    drop(run.take_stdin());
    run.wait().expect_code(3).expect_silence();
    works(Dblock::run(server, &name));
}

#[test]
fn a_durable_lock_is_not_renewed_on_the_primary_of_before() {
    let primary = Server::private_with(Kind::Postgres, &SYNCHRONOUS);
    primary.make_tables();
    let (standby, name) = (standby_of(&primary), unique("before"));
    let run = Dblock::run_at(&both(&primary, &standby), &name).stdin(Stdio::piped());
    let run = run.args(["--durable", "--ttl", "20", "--kill-after", "1"]);
    let mut run = run.sh("echo held; read x; exit 5").spawn();
    run.wait_line("held", SOON);
    let expires = |server: &Server| {
        let row = format!("dblock.dblock_locks WHERE name = '{name}' AND owner IS NOT NULL");
        let query = format!("SELECT (extract(epoch FROM expires_at) * 1000)::bigint FROM {row}");
        server.postgres().value::<i64>(&query)
    };
    eventually("the standby has the grant", SOON, || {
        expires(&standby).is_some()
    });
    primary.stop_immediately();
    let mut admin = standby.postgres();
    assert!(admin.is("pg_promote()"));
    // From here on the server says that there was a fail-over.
    admin.run("CHECKPOINT");
    let renewed_after = |before| {
        eventually("it is renewed there", SOON, || expires(&standby) > before);
        expires(&standby)
    };
    let last = renewed_after(expires(&standby));
    primary.start();
    let left = expires(&primary);
    let mut watcher = standby.watcher();
    for (session, _) in watcher.sessions() {
        watcher.end_session(session);
    }
    renewed_after(last);
    assert_eq!(expires(&primary), left, "nobody has renewed it there");
    drop(run.take_stdin());
    run.wait_within(SOON).expect_code(5);
}

#[test]
fn who_is_next_reads_what_the_one_before_has_recorded_however_long_that_takes() {
    let server = Server::private_with(Kind::Postgres, &SYNCHRONOUS);
    server.make_tables();
    let name = unique("recorded");
    let run = || Dblock::run(&server, &name).args(["--once-per", "1h"]);
    let first = run().arg("--durable").stdin(Stdio::piped());
    let mut first = first.sh("echo held; cat").spawn();
    first.wait_line("held", SOON);
    let mut next = run().args(["--wait", "1m"]).sh("echo began").spawn();
    eventually("it waits", SOON, || server.waiters(&name).len() == 1);
    want_standby(&server);
    drop(first.take_stdin());
    let (mut admin, waits) = (server.postgres(), waits("dblock"));
    eventually("its commit waits for a standby", SOON, || admin.is(&waits));
    // The first in line asks each second.
    assert!(!within(Duration::from_secs(3), || !next
        .stdout()
        .is_empty()));
    assert!(admin.is(&waits));
    want_no_standby(&server);
    first.wait_within(SOON).expect_code(0);
    let skipped = next.wait_within(SOON);
    skipped
        .expect_code(75)
        .expect_one_line("and runs once per 1h");
}

#[test]
fn a_server_of_another_cluster_is_taken_however_many_fail_overs_it_has_seen() {
    let first = Server::private_with(Kind::Postgres, &["-c", "restore_command=false"]);
    // Servers of one kind are copies of one cluster.
    let other = Server::newer_postgres();
    // As after a fail-over: it reads its log to the end, and goes on with a new timeline.
    first.stop();
    std::fs::write(first.dir.join("data/recovery.signal"), "").unwrap();
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(first.dir.join("data/recovery.signal"), all).unwrap();
    first.start();
    // It lets clients in while it still reads its log, and then has no file to name.
    let timeline = "CASE WHEN pg_is_in_recovery() THEN false \
         ELSE pg_walfile_name(pg_current_wal_lsn()) LIKE '00000002%' END";
    eventually("it has a new timeline", SOON, || {
        first.postgres().is(timeline)
    });
    let (url, name) = (both(&first, other), unique("cluster"));
    let crontab = Crontab::alone(&first, "#: job\n0 0 1 1 * true");
    let there = Tables::named(other, &crontab.tables.database);
    there.init().output().expect_code(0);
    let mut daemon = crontab.daemon(&[]).env("DBLOCK_URL", &url).spawn();
    daemon.wait_stderr("dblock: ready: ", SOON);
    let run = Dblock::run_at(&url, &name).arg("-v").stdin(Stdio::piped());
    let mut run = run.sh("echo began; cat; exit 5").spawn();
    run.wait_line("began", SOON);
    first.kill();
    run.wait_stderr("reacquired after", SOON);
    eventually("the daemon is there", SOON, || {
        there.rows::<u8>("SELECT 1 FROM dblock_cron_daemons") == [1]
    });
    drop(run.take_stdin());
    run.wait_within(SOON).expect_code(5);
    crate::harness::crontab::end(daemon);
}

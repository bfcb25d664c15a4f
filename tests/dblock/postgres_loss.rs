//! The session of a holder ends on PostgreSQL, in every way that there is: it is noticed at once, and the lock is held again or the command
//! is ended.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::postgres::{DATABASE, Postgres};
use crate::harness::{
    ADMIN, Dblock, Frozen, Kind, Packet, Proxy, Running, SOON, Server, Watcher, eventually,
    eventually_gone, runs, send, slack, unique, within,
};
use crate::sigkill::{looks_for_life, with_sign_of_life};

/// A lease of which a tenth, the time from the end of the command to its own, is longer than a busy machine is late.
const TTL: Duration = Duration::from_secs(24);

/// A way to end a session, and what the server's log says of it.
type End = (&'static str, fn(&Server, u64));

const ENDS: [End; 5] = [
    ("pg_terminate_backend", |server, id| {
        server.watcher().end_session(id);
    }),
    // All sessions end with it. Until the server sees that, it takes new ones, which end with the others.
    ("SIGKILL of its process", |server, id| {
        let crashes = || server.log().matches("reinitializing").count();
        let before = crashes();
        send(i32::try_from(id).expect("a process"), Signal::SIGKILL);
        eventually("the server starts again", SOON, || {
            crashes() > before && server.postgres_as("admin", "admin-secret").is_ok()
        });
    }),
    ("fast shutdown", |server, _| {
        server.stop();
        server.start();
    }),
    ("immediate shutdown", |server, _| {
        server.stop_immediately();
        server.start();
    }),
    ("SIGKILL of the server", |server, _| {
        server.kill();
        server.start();
    }),
];

/// A command that ends with 6 when its stdin ends.
#[track_caller]
fn holder(server: &Server, name: &str, policy: &str) -> (Running, i32) {
    let dblock = Dblock::run(server, name).args(["--on-lock-lost", policy]);
    let dblock = dblock.without_terminal().stdin(Stdio::piped());
    let mut dblock = dblock.sh("echo shell $$; read x; exit 6").spawn();
    let command = dblock.wait_pid("shell");
    (dblock, command)
}

#[test]
fn a_lock_is_held_again_after_its_session_ended_in_any_way() {
    let server = &Server::private(Kind::Postgres);
    for (what, end) in ENDS {
        let name = unique("again");
        let (mut dblock, command) = holder(server, &name, "reacquire");
        let before = server.holder(&name).expect("it is held");
        end(server, before);
        dblock.wait_stderr("reacquired after", SOON);
        // A server that is about to start again may have been quick to take it back.
        eventually("it is held again", SOON, || {
            let admin = server.postgres_as("admin", "admin-secret");
            admin.is_ok_and(|mut admin| admin.holder(&name).is_some())
        });
        assert!(
            runs(command) && dblock.is_running(),
            "{what}: {}",
            dblock.stderr()
        );
        Dblock::run(server, &name)
            .command(["true"])
            .output()
            .expect_code(75);
        drop(dblock.take_stdin());
        let output = dblock.wait_within(SOON);
        output
            .expect_code(6)
            .expect_line(&format!("dblock: {name} was lost"));
        assert!(
            output
                .stderr
                .lines()
                .all(|line| line.starts_with("dblock: ")),
            "{what}: {output:#?}"
        );
        assert!(server.holder(&name).is_none(), "{what}: it is released");
    }
}

#[test]
fn a_command_is_ended_at_once_where_that_is_asked_for() {
    let server = &Server::private(Kind::Postgres);
    for (what, end) in ENDS {
        let name = unique("ended");
        let (mut dblock, command) = holder(server, &name, "terminate");
        end(server, server.holder(&name).expect("it is held"));
        let output = dblock.wait_within(SOON);
        output
            .expect_code(74)
            .expect_said(["was lost, and the command was ended for it"]);
        assert!(!runs(command), "{what}");
    }
}

#[test]
fn the_lock_of_a_host_that_is_cut_off_is_free_after_its_time_to_live_and_its_command_has_ended() {
    let server = &Server::private(Kind::Postgres);
    let folder = tempfile::tempdir().unwrap();
    let (name, proxy) = (unique("cut-off"), Proxy::to(server));
    let sign = folder.path().join("sign");
    let script = with_sign_of_life(
        &sign,
        "trap '' TERM; echo shell $$; while :; do sleep 0.1; done",
    );
    let first = Dblock::run_at(&proxy.url(), &name).args(["--ttl", "24", "--kill-after", "1"]);
    let mut first = first.without_terminal().sh(&script).spawn();
    let command = first.wait_pid("shell");
    let second = Dblock::run(server, &name).args(["--wait", "forever"]);
    let second = second.sh(&looks_for_life(&sign)).spawn();
    eventually("it waits", SOON, || server.waiters(&name).len() == 1);
    let first_session = server.holder(&name);
    proxy.freeze();
    let cut = Instant::now();
    eventually("the server has let go of it", TTL + SOON, || {
        server.holder(&name) != first_session
    });
    let free_after = cut.elapsed();
    second.wait().expect_code(0).expect_stdout("alone\n");
    let most = TTL + Duration::from_secs(5) + slack();
    assert!(free_after < most, "{free_after:?}");
    assert!(
        server.log().contains("idle-session timeout"),
        "{}",
        server.log()
    );
    eventually_gone(command, SOON);
    // Healed, it does not take what it reads then for its own.
    proxy.thaw();
    let output = first.wait_within(SOON);
    output.expect_code(74);
}

/// A run is frozen for longer than its lease. Whether its keeper then has the lock again before the command is to be ended: a server that is
/// asked after the lease has 50 ms for each answer, and on a busy machine may need more.
fn has_it_again_in_time(server: &Server) -> bool {
    let name = unique("frozen");
    // An eighth of it is for the keeper to take the lock again before the command is ended, when they wake.
    let mut dblock = Dblock::run(server, &name).args(["--ttl", "16"]);
    dblock = dblock.without_terminal().stdin(Stdio::piped());
    let mut dblock = dblock.sh("echo shell $$; read x; exit 6").spawn();
    let command = dblock.wait_pid("shell");
    let all = [dblock.pid(), dblock.keeper(Some(command)), command];
    let frozen = all.map(Frozen::new);
    eventually("the server frees it", 2 * SOON, || {
        server.holder(&name).is_none()
    });
    drop(frozen);
    let mut has_it = false;
    eventually("it has the lock again, or has ended", SOON, || {
        has_it = dblock.stderr().contains("reacquired after");
        has_it || !dblock.is_running()
    });
    drop(dblock.take_stdin());
    let code = if has_it { 6 } else { 74 };
    dblock.wait_within(SOON).expect_code(code);
    has_it
}

#[test]
fn a_keeper_that_was_frozen_for_longer_than_the_lease_reads_that_its_session_was_ended() {
    let server = &Server::private(Kind::Postgres);
    assert!((0..4).any(|_| has_it_again_in_time(server)));
    // 57P05
    assert!(
        server.log().contains("idle-session timeout"),
        "{}",
        server.log()
    );
}

/// A call whose command ends with 6 when its stdin ends, and that command.
#[track_caller]
fn begun(url: &str, name: &str, options: &[&str]) -> (Running, i32) {
    let dblock = Dblock::run_at(url, name).args(options);
    let dblock = dblock.without_terminal().stdin(Stdio::piped());
    let mut dblock = dblock.sh("echo shell $$; read x; exit 6").spawn();
    let command = dblock.wait_pid("shell");
    (dblock, command)
}

/// How a loss is told.
fn lost(name: &str, reason: &str) -> String {
    format!("dblock: {name} was lost while the command runs: {reason}\n")
}

/// Whether the reason is told why the server ends the session of one that does not renew. Who is stopped while a renewal is under way may
/// find that the answer is late before it reads of the end.
fn the_end_of_an_idle_session_is_told(server: &Server) -> bool {
    let name = unique("idle");
    // Its keeper does not renew, and hears of the end of its session afterwards.
    let ignores = ["--ttl", "4", "--on-lock-lost", "ignore"];
    let (mut dblock, command) = begun(&server.url(), &name, &ignores);
    let frozen = Frozen::new(dblock.keeper(Some(command)));
    eventually("the server ends the session", SOON, || {
        server.holder(&name).is_none()
    });
    drop(frozen);
    eventually("a loss is told", SOON, || {
        dblock
            .stderr()
            .contains("; the command continues without it")
    });
    let line = lost(
        &name,
        "terminating connection due to idle-session timeout (SQLSTATE 57P05); the command continues without it",
    );
    if !dblock.stderr().contains(&line) {
        return false;
    }
    drop(dblock.take_stdin());
    dblock.wait_within(SOON).expect_code(6);
    true
}

#[test]
fn a_loss_is_told_with_the_servers_reason_or_that_it_gave_none() {
    let server = Server::shared(Kind::Postgres);
    let proxy = Proxy::to(server);
    let [ended, cut] = ["ended", "cut"].map(unique);
    let (of_ended, _) = begun(&server.url(), &ended, &[]);
    let (of_cut, _) = begun(&proxy.url(), &cut, &[]);
    let session = server.holder(&ended).expect("it is held");
    server.watcher().end_session(session);
    proxy.cut();
    for (mut dblock, name, reason) in [
        (
            of_ended,
            ended,
            "terminating connection due to administrator command (SQLSTATE 57P01); reacquiring it",
        ),
        (
            of_cut,
            cut,
            "the server closed the connection; reacquiring it",
        ),
    ] {
        dblock.wait_stderr(&lost(&name, reason), SOON);
        dblock.wait_stderr("reacquired after", SOON);
        drop(dblock.take_stdin());
        dblock.wait_within(SOON).expect_code(6);
    }
    let is_told = (0..3).any(|_| the_end_of_an_idle_session_is_told(server));
    assert!(is_told, "another reason is told");
}

#[test]
fn a_session_lasts_as_long_as_its_lease_and_not_as_long_as_the_servers_own_limit() {
    let options = [
        "-c",
        "idle_session_timeout=1s",
        "-c",
        "statement_timeout=1s",
        "-c",
        "lock_timeout=1s",
    ];
    let server = &Server::private_with(Kind::Postgres, &options);
    // They are for dblock's sessions: the test's own may be slow.
    let limits = ["idle_session_timeout", "statement_timeout", "lock_timeout"];
    let address = (server.address, server.port);
    let none = limits.map(|limit| (limit, "0"));
    let mut admin = Postgres::connect_with(address, ADMIN, DATABASE, &none).unwrap();
    for limit in limits {
        admin.run(&format!("ALTER ROLE admin SET {limit} = 0"));
    }
    drop(admin);
    let name = unique("limits");
    let mut first = Dblock::run(server, &name).stdin(Stdio::piped());
    first = first.sh("echo held; read x; exit 6");
    let mut first = first.spawn();
    first.wait_line("held", SOON);
    let waiting = Dblock::run(server, &name)
        .args(["--wait", "30"])
        .sh("echo ran")
        .spawn();
    eventually("it waits", SOON, || server.waiters(&name).len() == 1);
    let waiter = server.waiters(&name);
    assert!(!within(Duration::from_secs(4), || !first.is_running()
        || server.waiters(&name) != waiter));
    drop(first.take_stdin());
    first.wait().expect_code(6).expect_silence();
    waiting
        .wait()
        .expect_code(0)
        .expect_stdout("ran\n")
        .expect_silence();
}

#[test]
fn a_server_that_refuses_renewals_costs_no_session_and_at_the_end_of_the_lease_the_command() {
    let server = &Server::private(Kind::Postgres);
    let mut admin = server.postgres();
    // Each renewal asks that.
    admin.run("ALTER FUNCTION pg_catalog.pg_is_in_recovery() RENAME TO its_own");
    let mut answer_renewals_by = |does: &str| {
        admin.run(&format!(
            "CREATE OR REPLACE FUNCTION pg_catalog.pg_is_in_recovery() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN {does}; END $$"
        ));
    };
    for (state, mends) in [("53200", true), ("XX000", false)] {
        answer_renewals_by("RETURN false");
        let (name, proxy) = (unique("refused"), Proxy::to(server));
        let dblock = Dblock::run_at(&proxy.url(), &name);
        let dblock = dblock.args(["--ttl", "12", "--kill-after", "0", "-v"]);
        let dblock = dblock.without_terminal().stdin(Stdio::piped());
        let mut dblock = dblock.sh("echo held; read x; exit 6").spawn();
        dblock.wait_line("held", SOON);
        let session = server.holder(&name);
        assert!(session.is_some(), "it is held");
        let renewals = || {
            let packets = proxy.packets();
            let sent = packets.iter().filter_map(Packet::sent);
            sent.filter(|sent| sent.contains("dblock renew")).count()
        };
        answer_renewals_by(&format!("RAISE 'no room' USING ERRCODE = '{state}'"));
        dblock.wait_stderr(&format!("no server renews {name}: "), SOON);
        let refused = renewals();
        eventually("other renewals are refused", SOON, || {
            renewals() > refused + 2
        });
        assert!(!server.plain().try_lock(&name), "it is held on");
        assert_eq!((server.holder(&name), proxy.connections()), (session, 1));
        if mends {
            answer_renewals_by("RETURN false");
            // For longer than its lease had still to last.
            let is_over = within(Duration::from_secs(9), || !dblock.is_running());
            assert!(!is_over, "{}", dblock.stderr());
            assert_eq!((server.holder(&name), proxy.connections()), (session, 1));
            drop(dblock.take_stdin());
            dblock.wait_within(SOON).expect_code(6);
        } else {
            let output = dblock.wait_within(SOON);
            output.expect_code(74);
            output.expect_said(["may be lost: the server has not renewed it for"]);
        }
        eventually("it is free", SOON, || server.holder(&name).is_none());
    }
}

#[test]
fn a_server_that_takes_no_new_session_for_a_moment_costs_no_lock() {
    let server = &Server::private(Kind::Postgres);
    let (name, account) = (unique("full"), server.account());
    let dblock = Dblock::run(server, &name)
        .user(&account)
        .args(["--ttl", "60"]);
    let dblock = dblock.without_terminal().stdin(Stdio::piped());
    let mut dblock = dblock.sh("echo shell $$; read x; exit 6").spawn();
    dblock.wait_pid("shell");
    let mut admin = server.postgres();
    let session = server.holder(&name).expect("it is held");
    admin.run(&format!("ALTER ROLE \"{account}\" CONNECTION LIMIT 0"));
    admin.end_session(session);
    dblock.wait_stderr("was lost while the command runs", SOON);
    assert!(!within(Duration::from_millis(500), || !dblock.is_running()));
    admin.run(&format!("ALTER ROLE \"{account}\" CONNECTION LIMIT -1"));
    dblock.wait_stderr("reacquired after", SOON);
    drop(dblock.take_stdin());
    dblock.wait_within(SOON).expect_code(6);
}

#[test]
fn a_database_that_is_closed_or_renamed_for_a_moment_costs_no_lock() {
    let server = Server::shared(Kind::Postgres);
    let database = unique("moment").replace('-', "_");
    let mut admin = server.postgres();
    admin.run(&format!("CREATE DATABASE {database} OWNER dblock"));
    let url = server.url().replace("/app", &format!("/{database}"));
    let closed = format!("ALTER DATABASE {database} ALLOW_CONNECTIONS");
    let renamed = format!("ALTER DATABASE {database} RENAME TO {database}_away");
    let end = format!(
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '{database}'"
    );
    for (away, back) in [
        (
            vec![format!("{closed} false"), end.clone()],
            format!("{closed} true"),
        ),
        (
            vec![
                format!("{closed} false"),
                end.clone(),
                renamed,
                format!("ALTER DATABASE {database}_away ALLOW_CONNECTIONS true"),
            ],
            format!("ALTER DATABASE {database}_away RENAME TO {database}"),
        ),
    ] {
        let dblock = Dblock::run_at(&url, &unique("moment")).args(["--ttl", "60"]);
        let dblock = dblock.without_terminal().stdin(Stdio::piped());
        let mut dblock = dblock.sh("echo shell $$; read x; exit 6").spawn();
        dblock.wait_pid("shell");
        for sql in &away {
            admin.run(sql);
        }
        dblock.wait_stderr("was lost while the command runs", SOON);
        dblock.wait_stderr("refused the session", SOON);
        assert!(!within(Duration::from_millis(500), || !dblock.is_running()));
        admin.run(&back);
        dblock.wait_stderr("reacquired after", SOON);
        drop(dblock.take_stdin());
        let output = dblock.wait_within(SOON);
        output.expect_code(6).expect_said(["refused the session"]);
    }
    admin.run(&format!("DROP DATABASE {database} WITH (FORCE)"));
}

#[test]
fn a_clean_end_leaves_no_trouble_in_the_servers_log() {
    let server = &Server::private(Kind::Postgres);
    let name = unique("clean");
    for code in [0, 3] {
        Dblock::run(server, &name)
            .sh(&format!("exit {code}"))
            .output()
            .expect_code(code)
            .expect_silence();
    }
    let _holder = server.hold(&name);
    Dblock::run(server, &name)
        .command(["true"])
        .output()
        .expect_code(75);
    Dblock::run(server, &name)
        .args(["--wait", "0.3"])
        .command(["true"])
        .output()
        .expect_code(75);
    let log = server.log();
    let troubles: Vec<&str> = log
        .lines()
        .filter(|line| {
            [
                "WARNING:",
                "ERROR:",
                "FATAL:",
                "unexpected EOF",
                "could not",
            ]
            .iter()
            .any(|word| line.contains(word))
        })
        .collect();
    assert_eq!(troubles, [""; 0]);
    assert!(fs::metadata(server.dir.join("error.log")).is_ok());
}

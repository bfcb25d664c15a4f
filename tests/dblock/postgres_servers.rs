//! Servers on which an advisory lock would not exclude are refused or passed over: standbys, poolers, and what only looks like PostgreSQL.

use std::io::Write;
use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::harness::crontab::{end, job, scheduler_of};
use crate::harness::fake_postgres::{FakePostgres, error, read_startup, row, welcome};
use crate::harness::postgres::{DATABASE, Postgres, key};
use crate::harness::{
    Crontab, Dblock, Kind, PASSWORD, PgBouncer, Running, SOON, Server, Setup, Watcher, eventually,
    send, slack, unique, until_closed, within, works,
};

/// A standby that follows this server.
pub fn standby_of(primary: &Server) -> Server {
    let setup = Setup {
        standby_of: Some(primary.port),
        ..Setup::default()
    };
    Server::private_as(Kind::Postgres, setup)
}

/// Both servers in one URL, in this order.
pub fn both(one: &Server, other: &Server) -> String {
    format!(
        "postgres://dblock@127.0.0.1:{},127.0.0.1:{}/app",
        one.port, other.port
    )
}

/// It is refused, the command does not run, and these words say why.
#[track_caller]
fn refused(url: &str, words: &[&str]) {
    let name = unique("unfit");
    // It is refused at once.
    let run = Dblock::run_at(url, &name).args(["--connect-timeout", "20"]);
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
    let run = Dblock::run_at(&standby.url(), &name).args(["--connect-timeout", "10"]);
    let output = run.sh("echo ran").output();
    output
        .expect_stdout("")
        .expect_one_line("is read-only, as a replica is");
    assert!([Some(69), Some(78)].contains(&output.code), "{output:#?}");

    // The primary is gone while a command runs, and the standby takes its place.
    let run = Dblock::run_at(&both(&primary, &standby), &name).args(["--ttl", "60"]);
    let mut run = run
        .stdin(Stdio::piped())
        .sh("echo shell $$; read x; exit 5")
        .spawn();
    let command = run.wait_pid("shell");
    primary.stop_immediately();
    run.wait_stderr("was lost while the command runs", SOON);
    assert!(!within(Duration::from_millis(300), || standby
        .holder(&name)
        .is_some()));
    assert!(standby.postgres().is("pg_promote()"));
    run.wait_stderr("reacquired after", SOON);
    let holder = standby.holder(&name).expect("it is held");

    // The primary of before is back. From the checkpoint on the new one says that there was a fail-over.
    standby.postgres().run("CHECKPOINT");
    standby.watcher().end_session(holder);
    eventually("it knows of the fail-over", SOON, || {
        standby
            .holder(&name)
            .is_some_and(|session| session != holder)
    });
    primary.start();
    // Somebody who knows nothing of it holds the lock there.
    let other = Dblock::run(&primary, &name).stdin(Stdio::piped());
    let mut other = other.sh("echo held; read x; exit 0").spawn();
    other.wait_line("held", SOON);
    let holder = standby.holder(&name);
    let keeper = run.keeper(Some(command));
    send(keeper, Signal::SIGKILL);
    eventually("another keeper holds it", SOON, || {
        standby
            .holder(&name)
            .is_some_and(|session| Some(session) != holder)
    });
    assert!(run.is_running(), "{}", run.stderr());
    drop((run.take_stdin(), other.take_stdin()));
    run.wait().expect_code(5);
    other.wait().expect_code(0);
}

#[test]
fn a_standby_is_locked_on_with_a_warning_where_that_is_allowed_and_who_waits_there_has_its_turn() {
    let primary = Server::private(Kind::Postgres);
    let standby = standby_of(&primary);
    let name = unique("standby");
    let run = || {
        let run = Dblock::run(&standby, &name).arg("--allow-unfit-server");
        run.args(["--connect-timeout", "20"])
    };
    let first = run().stdin(Stdio::piped()).sh("echo held; read x; exit 3");
    let mut first = first.spawn();
    first.wait_line("held", SOON);
    assert!(standby.holder(&name).is_some());
    let late = run().args(["--wait", "0.5"]).sh("echo ran").output();
    late.expect_code(75).expect_stdout("");
    let mut waiting = run().args(["-v", "--wait", "5m"]).sh("echo ran").spawn();
    // A standby takes no LISTEN: so it asks on one session after another.
    eventually("it has asked twice", SOON, || {
        waiting.stderr().matches("cannot execute LISTEN").count() > 1
    });
    drop(first.take_stdin());
    let why = "as a replica is; name the server that takes writes; locking there anyway";
    first.wait().expect_code(3).expect_one_line(why);
    let ended = waiting.wait_within(SOON);
    ended.expect_code(0).expect_stdout("ran\n");
    assert_eq!(ended.stderr.matches(why).count(), 1, "{ended:#?}");
}

#[test]
fn a_cron_daemon_goes_on_with_the_promoted_standby_and_not_with_the_primary_of_before() {
    let primary = Server::private(Kind::Postgres);
    let standby = standby_of(&primary);
    let crontab = Crontab::alone(&primary, &job("", "echo $DBLOCK_FENCE >>{}"));
    let daemon = crontab
        .daemon(&[])
        .env("DBLOCK_URL", both(&primary, &standby));
    let mut daemon = daemon.spawn();
    daemon.wait_stderr("dblock: ready: ", SOON);
    crontab.due("job");
    crontab.eventually_lines(1);
    crontab.eventually_idle();
    let tables = format!("\"{}\".dblock_cron_", crontab.tables.database);
    let mut other = standby.postgres();
    let is_idle = format!(
        "(SELECT count(*) = 1 FROM {tables}jobs WHERE change_id IS NOT NULL) AND NOT EXISTS (SELECT 1 FROM {tables}ticks)"
    );
    // It may not have the tables yet, which are newer than it.
    eventually("the standby has all of it", SOON, || {
        let rows = other.try_query(&format!("SELECT {is_idle}"));
        rows.is_ok_and(|rows| rows == [[Some("t".to_owned())]])
    });
    primary.stop_immediately();
    assert!(other.is("pg_promote()"));
    // From here on the server says that there was a fail-over.
    other.run("CHECKPOINT");
    let mut run_there = |lines: usize| {
        // While the last tick is under way, another one is skipped.
        eventually("no tick is under way", SOON, || other.is(&is_idle));
        let is_there = within(SOON, || !standby.watcher().sessions().is_empty());
        assert!(is_there, "the daemon is elsewhere: {}", daemon.stderr());
        other.run(&format!(
            "UPDATE {tables}jobs SET next_at = clock_timestamp(), changed_at = clock_timestamp()"
        ));
        let fences: Vec<String> = (1..=lines).map(|fence| fence.to_string()).collect();
        assert_eq!(crontab.eventually_lines(lines), fences);
    };
    run_there(2);
    primary.start();
    let mut watcher = standby.watcher();
    for (session, _) in watcher.sessions() {
        watcher.end_session(session);
    }
    run_there(3);
    // The process that takes the place of a killed one does not go back to it, either.
    eventually("it is idle", SOON, || standby.postgres().is(&is_idle));
    let scheduler = scheduler_of(daemon.pid()).expect("a scheduler");
    send(scheduler, Signal::SIGKILL);
    run_there(4);
    // The server may notice late that the daemon has looked at it and left.
    eventually("it is not on the other one", SOON, || {
        primary.watcher().sessions().is_empty()
    });
    end(daemon);
}

#[test]
fn a_waiter_leaves_a_server_that_hangs_for_the_next_one() {
    let [one, other] = [(); 2].map(|()| Server::private(Kind::Postgres));
    let name = unique("hangs");
    let hold = Dblock::run(&one, &name).stdin(Stdio::piped());
    let mut first = hold.sh("echo held; cat").spawn();
    first.wait_line("held", SOON);
    let wait = Dblock::run_at(&both(&one, &other), &name).args(["--wait", "5m"]);
    let mut second = wait.sh("echo ran").spawn();
    eventually("it waits", SOON, || one.waiters(&name).len() == 1);
    let frozen = one.freeze();
    // It waits for an answer for twelve seconds.
    second.wait_line("ran", SOON * 2);
    second.wait().expect_code(0).expect_silence();
    drop(frozen);
    drop(first.take_stdin());
    first.wait().expect_code(0);
}

#[test]
fn a_server_that_is_read_only_by_default_is_refused() {
    let server = &Server::private(Kind::Postgres);
    let name = unique("read-only");
    let run = || Dblock::run(server, &name).args(["--connect-timeout", "12"]);
    server.set_read_only(true);
    let why = "is read-only, though it is no replica: default_transaction_read_only is on";
    // They wait for nearly all of their time, and have the rest of it to say so.
    let at = |command| Dblock::at(server, command).args(["--connect-timeout", "20"]);
    let (waits, init, check) = (
        run().sh("echo ran").spawn(),
        at("init").spawn(),
        at("check").spawn(),
    );
    let output = waits.wait();
    output.expect_stdout("").expect_one_line(why);
    assert!([Some(69), Some(78)].contains(&output.code), "{output:#?}");
    init.wait().expect_code(78).expect_one_line(why);
    let check = check.wait();
    assert!(
        check.stdout.contains("default_transaction_read_only is on"),
        "{check:#?}"
    );
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
fn a_server_that_tells_no_timeline_is_taken_all_the_same() {
    let server = &Server::private(Kind::Postgres);
    server.make_tables();
    let mut admin = server.postgres();
    // Amazon Aurora says so.
    admin.run("ALTER FUNCTION pg_catalog.pg_current_wal_lsn() RENAME TO its_own");
    admin.run(
        "CREATE FUNCTION pg_catalog.pg_current_wal_lsn() RETURNS pg_lsn LANGUAGE plpgsql AS \
         $$ BEGIN \
         RAISE LOG 'asked with % locks', (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()); \
         RAISE 'wal_level must be set to ''logical''' USING ERRCODE = '55000'; END $$",
    );
    assert!(admin.try_query("SELECT pg_current_wal_lsn()").is_err());
    let all: [&[&str]; 4] = [&[], &["-m", "2"], &["--durable"], &["--durable", "-m", "2"]];
    for options in all {
        let name = unique("aurora");
        let run = || Dblock::run(server, &name).args(options);
        let first = run().stdin(Stdio::piped()).sh("echo held; read x; exit 3");
        let mut first = first.spawn();
        first.wait_line("held", SOON);
        drop(first.take_stdin());
        first.wait().expect_code(3).expect_silence();
        run()
            .command(["true"])
            .output()
            .expect_code(0)
            .expect_silence();
    }
    // The error takes back the session's idle timeout, and no lock: so there are only those of the session and the run yet.
    let log = server.log();
    assert!(log.contains("asked with 2 locks"), "{log}");
    assert!(!log.contains("asked with 3 locks"), "{log}");
    // Also when the lock is taken again.
    let name = unique("aurora");
    let run = Dblock::run(server, &name).stdin(Stdio::piped());
    let mut run = run.sh("echo held; read x; exit 4").spawn();
    run.wait_line("held", SOON);
    let holder = server.holder(&name).unwrap();
    admin.run(&format!("SELECT pg_terminate_backend({holder})"));
    run.wait_stderr("reacquired after", SOON);
    drop(run.take_stdin());
    run.wait().expect_code(4);
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
    // The pooler may notice late that a client is gone.
    eventually("no lock is left", SOON, || {
        next.is("NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory')")
    });
    assert!(next.is("NOT EXISTS (SELECT FROM pg_listening_channels())"));
}

#[test]
fn a_pooler_is_refused_unless_it_is_said_to_keep_a_session_for_each_client() {
    let server = &Server::private(Kind::Postgres);
    for (mode, dropped) in [
        ("session", ""),
        ("session", "search_path"),
        ("transaction", "search_path"),
        ("statement", "search_path"),
    ] {
        let pooler = PgBouncer::start_with(server, mode, dropped);
        let words = ["pooler", "pooler=session"];
        refused(&pooler.url(), &words);
        // The pooler ends the session, or has it forget all, a moment later.
        eventually(&format!("no lock is left: {mode}"), SOON, || {
            server
                .postgres()
                .is("NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory')")
        });
    }
}

#[test]
fn a_pooler_that_is_not_said_is_refused_by_those_that_end_renew_and_release_too() {
    let server = &Server::private(Kind::Postgres);
    server.make_tables();
    let name = unique("pooled");
    let acquired = Dblock::at(server, "acquire")
        .args(["--name", &name])
        .output();
    acquired.expect_code(0);
    let token = acquired.stdout.trim();
    let pooler = PgBouncer::start_with(server, "transaction", "search_path");
    let at = |command: &str| Dblock::at(server, command).env("DBLOCK_URL", pooler.url());
    for asked in [
        at("kill").arg(&name),
        at("renew").arg(token),
        at("release").arg(token),
        at("run").args(["--token", token]).sh("echo ran"),
    ] {
        let refused = asked.output();
        refused
            .expect_code(78)
            .expect_stdout("")
            .expect_one_line("a pooler is in between");
    }
    eventually("no lock is left", SOON, || {
        server
            .postgres()
            .is("NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory')")
    });
    assert!(server.owner(&name, 0).is_some());
}

/// A pooler in transaction mode, and a URL that says that it keeps sessions.
fn said_wrongly_to_keep_sessions(server: &Server) -> (PgBouncer, String) {
    let pooler = PgBouncer::start(server, "transaction");
    let url = format!("{}?pooler=session", pooler.url());
    (pooler, url)
}

/// The first caller there, which runs, or is refused: one that is alone cannot know that its session would be given to another.
fn first_behind(url: &str, name: &str) -> Running {
    // It renews nothing meanwhile, as that might come to another session.
    let first = Dblock::run_at(url, name).args(["--ttl", "10m"]);
    let first = first.stdin(Stdio::piped()).sh("echo runs; read x; exit 0");
    let mut first = first.spawn();
    eventually("it runs, or is refused", SOON, || {
        !first.is_running() || first.stdout() == "runs\n"
    });
    first
}

#[test]
fn a_pooler_that_is_said_wrongly_to_keep_sessions_lets_no_two_run_at_once() {
    let server = &Server::private(Kind::Postgres);
    let (_pooler, url) = said_wrongly_to_keep_sessions(server);
    let name = unique("shared");
    let mut first = first_behind(&url, &name);
    let is_first_held = first.is_running();
    let second = Dblock::run_at(&url, &name).sh("echo ran").output();
    assert!(
        !is_first_held || second.stdout.is_empty(),
        "two at once: {second:#?}"
    );
    if is_first_held {
        second
            .expect_code(78)
            .expect_one_line("from different sessions");
        drop(first.take_stdin());
    }
    first.wait();
}

#[test]
fn a_caller_that_waits_behind_such_a_pooler_runs_beside_nobody() {
    let server = &Server::private(Kind::Postgres);
    let (pooler, url) = said_wrongly_to_keep_sessions(server);
    let name = unique("shared");
    let mut first = first_behind(&url, &name);
    first.wait_line("runs", SOON);
    let address = ("127.0.0.1", pooler.port);
    let other = || Postgres::connect(address, ("dblock", PASSWORD), DATABASE).unwrap();
    // A session in a transaction is given to nobody else: while it has the holder's, the second caller gets another one.
    let mut others = [other(), other()];
    others[0].run("BEGIN");
    let second = Dblock::run_at(&url, &name).args(["-v", "--wait", "1m"]);
    let mut second = second.sh("echo ran").spawn();
    second.wait_stderr("; waiting", SOON);
    // From then on they have the one and the other, and the caller what is left.
    let mut turn = 0;
    eventually("it is refused", SOON * 2, || {
        turn = 1 - turn;
        others[turn].run("BEGIN");
        others[1 - turn].run("COMMIT");
        within(Duration::from_secs(2), || !second.is_running())
    });
    let second = second.wait();
    second
        .expect_code(78)
        .expect_stdout("")
        .expect_said(["from different sessions"]);
    // Nor has it taken the lock once more in the holder's session: given back there once, it is free.
    let holder = server.holder(&name).expect("it holds");
    for other in &mut others {
        other.run("COMMIT");
    }
    let mut each = Vec::new();
    eventually("the holder's session is given out", SOON, || {
        let mut one = other();
        one.run("BEGIN");
        let is_holders = one.value("SELECT pg_backend_pid()") == Some(holder);
        each.push(one);
        is_holders
    });
    let in_it = each.last_mut().expect("the last one");
    in_it.run(&format!("SELECT pg_advisory_unlock({})", key(&name)));
    assert_eq!(server.holder(&name), None);
    drop(first.take_stdin());
    first.wait();
}

#[test]
fn a_server_that_says_nothing_after_the_login_leaves_time_for_the_next() {
    let server = Server::shared(Kind::Postgres);
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let silent = listener.local_addr().unwrap().port();
    let login = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = read_startup(&mut stream);
        stream.write_all(&welcome(7, "15.4", &[])).unwrap();
        until_closed(&mut stream);
    });
    let url = server.url().replace(
        &format!("127.0.0.1:{}", server.port),
        &format!("127.0.0.1:{silent},127.0.0.1:{}", server.port),
    );
    // Half of the time is the first one's.
    works(Dblock::run_at(&url, &unique("says-nothing")).args(["--connect-timeout", "12"]));
    login.join().expect("it was asked first");
}

/// What a server answers to the first statements of a session, which it has granted the lock.
#[derive(Clone, Copy)]
struct Granted {
    session: &'static str,
    read_only: &'static str,
    /// Who has the lock that stands for the run; NULL: nobody.
    owner: Option<&'static str>,
    idle_limit: &'static str,
    version: &'static str,
    /// Whether it has what may make it one of several that take writes, and has made it one.
    nodes: [&'static str; 2],
}

const FIT: Granted = Granted {
    session: "7",
    read_only: "off",
    owner: Some("7"),
    idle_limit: "300",
    version: "PostgreSQL 15.4 on x86_64-pc-linux-gnu, compiled by gcc, 64-bit",
    nodes: ["0", "0"],
};

/// A server that says at the login that it is of this version, and grants the lock so.
fn granting(version: &str, granted: Granted) -> FakePostgres {
    let some = |value| Some(value);
    let first = row(&[
        ("slot", some("0")),
        ("", some("0")),
        ("session", some(granted.session)),
        ("recovery", some("0")),
        ("read_only", some(granted.read_only)),
        ("owner", granted.owner),
        ("idle", some(granted.idle_limit)),
        ("version", some(granted.version)),
        ("nodes", some(granted.nodes[0])),
        ("timeline", some("7/1")),
    ]);
    FakePostgres::start(welcome(7, version, &[]), move |asked| {
        let answers = asked.matches("/* dblock ").count().max(1);
        let is_first = asked.contains("/* dblock acquire");
        let value = if asked.contains("/* dblock extensions") {
            granted.nodes[1]
        } else {
            "1"
        };
        let others = row(&[("x", Some(value))]).repeat(answers - usize::from(is_first));
        if is_first {
            [others, first.clone()].concat()
        } else {
            others
        }
    })
}

#[test]
fn a_server_without_room_is_tried_again_until_the_time_to_connect_is_over() {
    let runs = ["53000", "53200", "53300"].map(|state| {
        let refuses = move |_: &str| error("ERROR", state, b"there is no room");
        let fake = FakePostgres::start(welcome(7, "15.4", &[]), refuses);
        let run = Dblock::run_at(&fake.url(), &unique("full")).args(["--connect-timeout", "8"]);
        (state, run.sh("echo ran").spawn())
    });
    for (state, run) in runs {
        let output = run.wait();
        output
            .expect_code(69)
            .expect_stdout("")
            .expect_one_line(state);
        let least = Duration::from_millis(7800);
        output.expect_took(least, Duration::from_secs(8) + slack());
    }
}

#[test]
fn a_server_that_has_nothing_against_it_is_taken() {
    let fake = granting("15.4", FIT);
    let run = Dblock::run_at(&fake.url(), &unique("fit")).sh("echo ran");
    run.output()
        .expect_code(0)
        .expect_stdout("ran\n")
        .expect_silence();
    // The library of an extension that this database does not use.
    let loaded = Granted {
        nodes: ["1", "0"],
        ..FIT
    };
    let run = Dblock::run_at(&granting("15.4", loaded).url(), &unique("fit")).sh("echo ran");
    run.output().expect_code(0).expect_stdout("ran\n");
}

#[test]
fn a_server_on_which_a_lock_would_not_exclude_is_refused() {
    for (granted, words) in [
        (
            Granted {
                session: "8",
                ..FIT
            },
            "pooler",
        ),
        (Granted { owner: None, ..FIT }, "does not keep them"),
        (
            Granted {
                owner: Some("9"),
                ..FIT
            },
            "sessions",
        ),
        (
            Granted {
                idle_limit: "0",
                ..FIT
            },
            "sessions",
        ),
        (
            Granted {
                version: "CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu)",
                ..FIT
            },
            "CockroachDB",
        ),
        (
            Granted {
                version: "CockroachDB CCL v24.1.0",
                owner: None,
                ..FIT
            },
            "CockroachDB",
        ),
        (
            Granted {
                nodes: ["1", "1"],
                ..FIT
            },
            "name one node alone, and use --allow-unfit-server\n",
        ),
    ] {
        refused(&granting("15.4", granted).url(), &[words]);
    }
}

/// The extensions that make a server one of several nodes, each with a setting that its library has.
const NODES: [[&str; 2]; 4] = [
    ["citus", "citus.shard_count"],
    ["spock", "spock.conflict_resolution"],
    ["bdr", "bdr.ddl_locking"],
    ["pgactive", "pgactive.skip_ddl_replication"],
];

/// From now on new sessions see this extension and this setting, as on a node that has them: a setting without a library takes any value.
fn make_node(admin: &mut Postgres, [extension, setting]: [&str; 2]) {
    admin.run(&format!("ALTER DATABASE {DATABASE} RESET ALL"));
    admin.run(&format!("ALTER DATABASE {DATABASE} SET {setting} = '1'"));
    admin.run(&format!("UPDATE pg_extension SET extname = '{extension}'"));
}

#[test]
fn a_node_of_several_is_refused_whichever_extension_makes_it_one_unless_that_is_allowed() {
    let server = &Server::private(Kind::Postgres);
    let mut admin = server.postgres();
    for node in NODES {
        make_node(&mut admin, node);
        refused(&server.url(), &["is one of several nodes"]);
        let run = Dblock::run(server, &unique("node")).arg("--allow-unfit-server");
        run.sh("echo ran")
            .output()
            .expect_code(0)
            .expect_stdout("ran\n")
            .expect_one_line("locking there anyway");
    }
}

#[test]
fn no_durable_lock_is_held_on_a_node_of_several() {
    let [node, other] = [(); 2].map(|()| Server::private(Kind::Postgres));
    node.make_tables();
    other.make_tables();
    let mut admin = node.postgres();
    let why = "a row that one of them grants, another one grants, too";
    let [citus, merging @ ..] = NODES;
    // What several have written is merged: the next server of the URL has the lock.
    for one in merging {
        make_node(&mut admin, one);
        let name = unique("merged");
        let run = Dblock::run_at(&both(&node, &other), &name).args(["--durable", "-v"]);
        let mut run = run.stdin(Stdio::piped()).sh("echo held; cat").spawn();
        run.wait_line("held", SOON);
        assert!(node.owner(&name, 0).is_none() && other.owner(&name, 0).is_some());
        drop(run.take_stdin());
        run.wait().expect_code(0).expect_said([why]);
    }
    let alone = Dblock::run(&node, &unique("merged"));
    let alone = alone.args(["--durable", "--connect-timeout", "10"]);
    let output = alone.sh("echo ran").output();
    output.expect_stdout("").expect_one_line(why);
    assert!([Some(69), Some(78)].contains(&output.code), "{output:#?}");

    make_node(&mut admin, citus);
    let run = Dblock::run(&node, &unique("citus")).arg("--durable");
    run.sh("echo ran")
        .output()
        .expect_code(78)
        .expect_stdout("")
        .expect_one_line("is one of several nodes");
}

#[test]
fn a_server_that_is_older_than_14_is_not_even_asked() {
    for version in ["13.22", "13.0.0", "9.6.24", "8.0.2", "11.2-YB-2.20.1.0-b0"] {
        let fake = granting(version, FIT);
        refused(&fake.url(), &["14"]);
        assert_eq!(fake.statements(), [""; 0], "nothing is asked of it");
    }
}

#[test]
fn a_server_without_the_functions_is_told() {
    for state in ["42883", "0A000"] {
        let fake = FakePostgres::start(welcome(7, "15.2", &[]), move |_| {
            error(
                "ERROR",
                state,
                b"function pg_try_advisory_lock(bigint) is not supported",
            )
        });
        let run = Dblock::run_at(&fake.url(), &unique("clone")).args(["--connect-timeout", "20"]);
        let output = run.sh("echo ran").output();
        output
            .expect_stdout("")
            .expect_one_line("pg_try_advisory_lock");
        assert!([Some(70), Some(78)].contains(&output.code), "{output:#?}");
    }
}

#[test]
fn a_standby_or_a_read_only_server_is_known_by_what_it_says_at_the_login() {
    let runs = ["in_hot_standby", "default_transaction_read_only"].map(|name| {
        // The later of two counts.
        let fake = FakePostgres::start(welcome(7, "15.4", &[(name, "on")]), |_| row(&[]));
        let run = Dblock::run_at(&fake.url(), &unique("standby"));
        let run = run.args(["--connect-timeout", "10"]);
        (fake, run.sh("echo ran").spawn())
    });
    for (fake, run) in runs {
        let output = run.wait();
        output.expect_stdout("").expect_one_line("read-only");
        assert_eq!(fake.statements(), [""; 0], "nothing is asked of it");
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

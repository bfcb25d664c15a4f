//! What only a durable lock does: it outlives its session, its keeper and its server, has a fence, and expires by the server's clock.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{
    Answer, Client, Dblock, Fake, Frozen, Kind, PASSWORD, Proxy, Records, Running, SOON, Server,
    Tables, Watcher, all_servers, allow_files, both_servers, eventually, kill_both, polls,
    processes_with, runs, send, slack, stat_field, unique, url_of, within,
};

/// The row of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    fence: u64,
    owner: Option<String>,
}

fn row_of(admin: &mut Client, name: &str, slot: u32) -> Option<Row> {
    let query = "SELECT fence, owner FROM dblock.dblock_locks WHERE name = ? AND slot = ?";
    let row: Option<(u64, Option<String>)> =
        admin.exec_first(query, (name, slot)).expect("the table");
    row.map(|(fence, owner)| Row { fence, owner })
}

/// The rows of a lock.
fn row_by_name(name: &str) -> String {
    format!("dblock.dblock_locks WHERE name = '{name}'")
}

fn row(server: &Server, name: &str) -> Option<Row> {
    row_of(&mut server.watcher(), name, 0)
}

/// Waits until nobody has it. A session that was cut off may keep its named lock for a moment after its row.
#[track_caller]
fn eventually_free(server: &Server, name: &str) {
    eventually("it is released", SOON, || {
        row(server, name).unwrap().owner.is_none() && server.holder(name).is_none()
    });
}

/// The session of the run that owns the row; `None`: it has none here.
fn session_of(server: &Server, name: &str) -> Option<u64> {
    let owner = row(server, name)?.owner?;
    server.holder(&format!("#{owner}"))
}

fn kill_session(server: &Server, name: &str) {
    let session = session_of(server, name).expect("it has a session");
    server.watcher().end_session(session);
    eventually("the session is gone", SOON, || !server.has_session(session));
}

/// A durable run that says that it began, and exits with 5 when its stdin ends.
fn job(server: &Server, name: &str) -> Dblock {
    let script = "echo began $$; cat; exit 5";
    Dblock::run(server, name).stdin(Stdio::piped()).sh(script)
}

#[track_caller]
fn begin(dblock: Dblock) -> Running {
    let mut run = dblock.spawn();
    run.wait_line("began", SOON);
    run
}

/// The command was not ended: it ends when it is told to, with its own code, and nothing was said.
#[track_caller]
fn ends_in_silence(mut run: Running) {
    drop(run.take_stdin());
    let end = run.wait_within(SOON);
    end.expect_code(5).expect_silence();
}

/// A server of a test's own where runs are durable, which keeps what it has committed when it is killed.
fn private(kind: Kind) -> Server {
    Server::private_that_keeps(kind).with_durable_runs()
}

/// Renames one of dblock's tables.
fn rename_table(server: &Server, from: &str, to: &str) {
    let rename = match server.kind {
        Kind::Postgres => format!("ALTER TABLE dblock.{from} RENAME TO {to}"),
        Kind::MariaDb | Kind::MySql => format!("RENAME TABLE dblock.{from} TO dblock.{to}"),
    };
    server.watcher().query_drop(rename).unwrap();
}

/// A server of a test's own where runs are durable, whose replicas carry out its statements.
fn private_that_logs_statements(kind: Kind) -> Server {
    let options = [
        "--log-bin=binlog",
        "--server-id=1",
        "--binlog-format=STATEMENT",
    ];
    Server::private_with(kind, &options).with_durable_runs()
}

/// A holder whose account may write to a read-only server leaves it all the same when it becomes so, until it takes writes again.
fn leaves_a_server_that_becomes_read_only(server: &Server) {
    let (name, account) = (unique("above"), server.account_above_read_only());
    server.grant("SELECT, INSERT, UPDATE, DELETE", "dblock", "*", &account);
    let run = job(server, &name).user(&account);
    let mut run = begin(run.args(["--ttl", "16", "--kill-after", "1", "-v"]));
    server.set_read_only(true);
    let mut client = server.connect(&account, PASSWORD).unwrap();
    client
        .query_drop("UPDATE dblock.dblock_meta SET version = version")
        .expect("the server does not refuse it");
    let line = format!(
        "no server renews {name}: 127.0.0.1:{} is read-only",
        server.port
    );
    run.wait_stderr(&line, SOON);
    server.set_read_only(false);
    run.wait_stderr("on a new session", SOON);
    drop(run.take_stdin());
    run.wait_within(SOON).expect_code(5);
}

/// The keeper of a run is stopped while it is granted the lock, and the run is told to end while the grant is being proved. `false`: that
/// took longer than dblock or the server waits for it.
fn signal_finds_a_late_grant(server: &Server) -> bool {
    // So long dblock waits for an answer, for a proof, and for a release after a signal, and PostgreSQL for a locked row.
    let (ttl, limit) = (Duration::from_secs(8), Duration::from_secs(1));
    let name = unique("late-grant");
    let run = Dblock::run(server, &name).sh("true").output();
    run.expect_code(0);
    let mut admin = server.watcher();
    admin.lock(&row_by_name(&name));
    let proxy = Proxy::to(server);
    let sent = |part: &str| {
        let mut packets = proxy.packets().into_iter();
        let first = packets.find(|packet| packet.sent().is_some_and(|sent| sent.contains(part)));
        first.map(|packet| packet.at)
    };
    let run = Dblock::run_at(&proxy.url(), &name).args(["--durable", "--ttl", "8"]);
    let mut run = run.command(["echo", "started"]).spawn();
    eventually("it claims the row", SOON, || {
        sent("dblock take row").is_some()
    });
    let claimed = sent("dblock take row").expect("it was just seen");
    let stopped = Frozen::new(run.keeper(None));
    admin.query_drop("ROLLBACK").unwrap();
    if claimed.elapsed() >= limit {
        return false;
    }
    eventually("it is granted", SOON, || {
        row(server, &name).unwrap().owner.is_some()
    });
    admin.lock(&row_by_name(&name));
    eventually("half of the lease is over", SOON, || {
        claimed.elapsed() > ttl / 2
    });
    let continued = Instant::now();
    drop(stopped);
    eventually("it is being proved", SOON, || {
        sent("dblock renew row").is_some()
    });
    run.signal(Signal::SIGTERM);
    let (proving, signalled) = (continued.elapsed(), Instant::now());
    admin.query_drop("ROLLBACK").unwrap();
    let end = run.wait_within(SOON);
    if proving >= limit || signalled.elapsed() >= limit {
        return false;
    }
    end.expect_signal(Signal::SIGTERM)
        .expect_stdout("")
        .expect_silence();
    assert_eq!(row(server, &name).unwrap().owner, None);
    true
}

/// Four runs without rows, for each of whose locks a durable one waits, and all of them lose their sessions. Each has its lock again
/// before the one that waits. `false`: that took longer than whoever has waited lets a holder ask first.
fn are_back_before_those_that_waited(server: &Server) -> bool {
    let head_start = Duration::from_secs(2);
    let (proxy, records) = (Proxy::to(server), Records::new());
    let mut pairs = [0, 1, 2, 3].map(|id| {
        let name = unique("plain");
        let plain = Dblock::run_at(&proxy.url(), &name).args(["--ttl", "60"]);
        let plain = plain.without_terminal().stdin(Stdio::piped());
        let script = "echo began; read x; true";
        let plain = begin(plain.command(records.command_around(id, script)));
        let durable = Dblock::run_at(&proxy.url(), &name).args(["--durable", "--wait", "50"]);
        let durable = durable
            .command(records.command_around(id + 10, "true"))
            .spawn();
        eventually("it waits", SOON, || server.waiters(&name).len() == 1);
        (id, plain, durable)
    });
    proxy.refuse(true);
    let cut = Instant::now();
    proxy.cut();
    for (_, plain, _) in &mut pairs {
        plain.wait_stderr("was lost while the command runs", SOON);
    }
    proxy.refuse(false);
    let are_back = within(head_start.saturating_sub(cut.elapsed()), || {
        let mut all = pairs.iter().map(|(_, plain, _)| plain.stderr());
        all.all(|said| said.contains("reacquired after"))
    });
    if !are_back {
        return false;
    }
    for (id, mut plain, durable) in pairs {
        drop(plain.take_stdin());
        plain.wait_within(SOON).expect_code(0);
        durable.wait().expect_code(0);
        let intervals = records.intervals();
        let of = |id| intervals.iter().find(|one| one.id == id).expect("it ran");
        let (first, second) = (of(id), of(id + 10));
        assert!(
            first.end.is_some_and(|end| end <= second.start),
            "{first:?} {second:?}"
        );
    }
    true
}

/// A host is frozen for longer than its lease, and nobody else wants the row. Whether it has that again when it wakes. `false`: its keeper
/// took longer than an eighth of the lease to renew it; then the command is ended.
fn has_its_row_again_on_waking(server: &Server) -> bool {
    let name = unique("frozen");
    let mut run = job(server, &name).args(["--ttl", "16"]).spawn();
    let command = run.wait_pid("began");
    let before = row(server, &name).unwrap();
    let frozen = [run.pid(), run.keeper(Some(command)), command].map(Frozen::new);
    let expired = "SELECT expires_at < UTC_TIMESTAMP(6) FROM dblock.dblock_locks WHERE name = ?";
    let mut admin = server.watcher();
    eventually("its time is over", SOON * 2, || {
        admin.exec_first(expired, (&name,)).unwrap() == Some(true)
    });
    drop(frozen);
    eventually("it is renewed, or has ended", SOON, || {
        admin.exec_first(expired, (&name,)).unwrap() == Some(false) || !run.is_running()
    });
    // The command ends with the first process that finds the lease over.
    let is_ended = || !runs(command) || !run.is_running();
    if within(Duration::from_secs(1), is_ended) {
        run.wait_within(SOON).expect_code(74);
        return false;
    }
    assert_eq!(row(server, &name).unwrap(), before);
    drop(run.take_stdin());
    run.wait_within(SOON).expect_code(5);
    true
}

/// A durable run that claims a row through a proxy, and the session that has the row locked.
#[track_caller]
fn claiming(server: &Server, arguments: &[&str], script: &str) -> (String, Proxy, Running, Client) {
    let (name, proxy) = (unique("unheard"), Proxy::to(server));
    Dblock::run(server, &name)
        .sh("true")
        .output()
        .expect_code(0);
    let mut admin = server.watcher();
    admin.lock(&row_by_name(&name));
    let run = Dblock::run_at(&proxy.url(), &name).arg("--durable");
    let run = run.args(arguments).stdin(Stdio::piped()).sh(script).spawn();
    let is_claim = |sent: String| sent.contains("dblock take row");
    let claims = || {
        proxy
            .packets()
            .iter()
            .any(|packet| packet.sent().is_some_and(is_claim))
    };
    eventually("it claims the row", SOON, claims);
    (name, proxy, run, admin)
}

/// Whether the claim of a row that is not locked any more is granted. The server may have given up waiting for the row before.
fn is_granted(server: &Server, name: &str) -> bool {
    within(Duration::from_secs(5), || {
        row(server, name).unwrap().owner.is_some()
    })
}

/// A durable run whose claim of the row is granted once its proxy is frozen. `None`: it was not granted.
fn granted_unheard(
    server: &Server,
    arguments: &[&str],
    script: &str,
) -> Option<(String, Proxy, Running)> {
    let (name, proxy, mut run, mut admin) = claiming(server, arguments, script);
    proxy.freeze();
    admin.query_drop("ROLLBACK").unwrap();
    (is_granted(server, &name) && run.is_running()).then_some((name, proxy, run))
}

/// What has the command run without the lock when nobody hears that it is granted.
const WITHOUT_LOCK: [&str; 4] = ["--connect-timeout", "6", "--if-unreachable", "run"];

/// What may have been granted is released while the command runs without it. `false`: it was not granted.
fn releases_while_the_command_runs(server: &Server) -> bool {
    let script = "echo began $$ ${DBLOCK_FENCE-none}; cat; exit 5";
    let Some((name, proxy, mut run)) = granted_unheard(server, &WITHOUT_LOCK, script) else {
        return false;
    };
    run.wait_line("none", SOON);
    let said = run.stderr();
    assert!(said.contains("running without the lock"), "{said}");
    proxy.cut();
    proxy.thaw();
    eventually_free(server, &name);
    Dblock::run(server, &name)
        .sh("true")
        .output()
        .expect_code(0);
    eventually("its keeper is gone", SOON, || run.children().len() == 1);
    drop(run.take_stdin());
    run.wait_within(SOON)
        .expect_code(5)
        .expect_one_line("running without the lock");
    true
}

/// The caller that may have been granted a slot finds that out on a new session, and keeps nobody from another slot. `false`: it was not
/// granted.
fn leaves_the_other_slots_to_others(server: &Server) -> bool {
    let script = "echo began $DBLOCK_SLOT $DBLOCK_FENCE; cat; exit 5";
    let options = ["-m", "2", "--connect-timeout", "20"];
    let Some((name, proxy, mut run)) = granted_unheard(server, &options, script) else {
        return false;
    };
    proxy.refuse(true);
    proxy.cut();
    eventually("the named lock is free", SOON, || {
        server.holder(&name).is_none()
    });
    let somebody = server.hold(&name);
    proxy.thaw();
    proxy.refuse(false);
    let began = run.wait_line("began", SOON);
    assert_eq!(began.trim(), "began 0 2");
    eventually("the other slot is free", SOON, || {
        server.holder(&format!("{name}#1")).is_none()
    });
    let other = Dblock::run(server, &name)
        .args(["-m", "2"])
        .sh("echo $DBLOCK_SLOT")
        .output();
    other.expect_code(0).expect_stdout("1\n");
    drop(somebody);
    ends_in_silence(run);
    eventually("all is free", SOON, || server.holder(&name).is_none());
    true
}

/// The keeper that may have been granted the row is killed when the command runs without it. `false`: it was not granted.
fn withdraws_while_the_command_runs(server: &Server) -> bool {
    let script = "echo fence ${DBLOCK_FENCE-none}; echo began $$; cat; exit 5";
    let Some((name, proxy, mut run)) = granted_unheard(server, &WITHOUT_LOCK, script) else {
        return false;
    };
    let command = run.wait_pid("began");
    assert_eq!(run.stdout(), format!("fence none\nbegan {command}\n"));
    send(run.keeper(Some(command)), Signal::SIGKILL);
    proxy.cut();
    proxy.thaw();
    eventually_free(server, &name);
    Dblock::run(server, &name)
        .sh("true")
        .output()
        .expect_code(0);
    eventually("no keeper is left", SOON, || run.children() == [command]);
    drop(run.take_stdin());
    let end = run.wait_within(SOON);
    end.expect_code(5)
        .expect_one_line("running without the lock");
    true
}

/// The line that the row may stay, behind its cause.
fn may_stay(name: &str) -> String {
    format!("; if {name} was granted, it is free when the TTL is over")
}

/// Each keeper is killed that is to release the row while the command runs without it, until there is no other. `false`: it was not granted.
fn gives_up_while_the_command_runs(server: &Server) -> bool {
    let script = "echo began $$; cat; exit 5";
    let Some((name, _proxy, mut run)) = granted_unheard(server, &WITHOUT_LOCK, script) else {
        return false;
    };
    let command = run.wait_pid("began");
    let line = may_stay(&name);
    eventually("there is no other", SOON, || {
        let children = run.children().into_iter();
        for keeper in children.filter(|child| *child != command) {
            // It may be gone by now.
            let _ = kill(Pid::from_raw(keeper), Signal::SIGKILL);
        }
        run.stderr().contains(&format!(", again and again{line}"))
    });
    drop(run.take_stdin());
    let end = run.wait_within(SOON);
    end.expect_code(5).expect_said(["running without the lock"]);
    assert_eq!(end.stderr.matches(&line).count(), 1, "{end:#?}");
    true
}

/// The keeper that may have been granted the row is killed while the command ends that runs without it. `false`: it was not granted.
fn leaves_the_row_when_the_command_ends(server: &Server) -> bool {
    let script = "echo began $$; cat; exit 5";
    let Some((name, _proxy, mut run)) = granted_unheard(server, &WITHOUT_LOCK, script) else {
        return false;
    };
    let command = run.wait_pid("began");
    let keeper = run.keeper(Some(command));
    // dblock finds both ends at once.
    let stopped = Frozen::new(run.pid());
    send(keeper, Signal::SIGKILL);
    drop(run.take_stdin());
    eventually("the command has ended", SOON, || !runs(command));
    drop(stopped);
    let end = run.wait_within(SOON);
    let line = format!("the keeper is gone{}", may_stay(&name));
    end.expect_code(5).expect_said([line]);
    true
}

/// The keeper that may have been granted the row is killed, and then dblock. `false`: it was not granted.
fn withdraws_after_dblock(server: &Server) -> bool {
    let arguments = ["--connect-timeout", "60"];
    let Some((name, proxy, mut run)) = granted_unheard(server, &arguments, "echo must not run")
    else {
        return false;
    };
    let (keeper, before) = (run.keeper(None), proxy.connections());
    send(keeper, Signal::SIGKILL);
    eventually("the next one connects", SOON, || {
        !run.children().contains(&keeper) && proxy.connections() > before
    });
    run.signal(Signal::SIGKILL);
    let end = run.wait_within(SOON);
    end.expect_signal(Signal::SIGKILL).expect_stdout("");
    proxy.cut();
    proxy.thaw();
    let is_released = || row(server, &name).unwrap().owner.is_none();
    eventually("it is released", SOON, is_released);
    true
}

/// The keeper that is granted the row is killed before it knows that, and the next one finds it. `false`: it was not granted.
fn is_found_by_the_next_keeper(server: &Server) -> bool {
    let arguments = ["-v", "--connect-timeout", "60"];
    let (name, _proxy, run, mut admin) = claiming(server, &arguments, "echo $DBLOCK_FENCE");
    let keeper = run.keeper(None);
    let stopped = Frozen::new(keeper);
    admin.query_drop("ROLLBACK").unwrap();
    if !is_granted(server, &name) {
        return false;
    }
    send(keeper, Signal::SIGKILL);
    drop(stopped);
    let end = run.wait();
    end.expect_code(0)
        .expect_stdout("2\n")
        .expect_said(["died of signal 9; another one goes on", "released"]);
    assert_eq!(row(server, &name).unwrap().owner, None);
    true
}

/// The release of a run's row is the victim of a deadlock. `false`: it was not, as it has waited for too long before.
fn is_released_after_a_deadlock(server: &Server) -> bool {
    let counter = "SELECT count FROM information_schema.INNODB_METRICS \
                   WHERE name = 'lock_deadlocks' AND status = 'enabled'";
    let deadlocks = || -> u64 {
        let count = server.admin().query_first(counter).unwrap();
        count.expect("the server counts them")
    };
    let name = unique("deadlock");
    // So long dblock waits for the release.
    let run = job(server, &name).args(["--connect-timeout", "60"]);
    let (mut run, mut other) = (begin(run), server.watcher());
    other.lock(&format!("dblock.dblock_runs WHERE name = '{name}'"));
    // The victim is whoever has written less.
    let rows: Vec<String> = (0..30)
        .map(|slot| format!("('{name}-other', {slot})"))
        .collect();
    let rows = rows.join(", ");
    let written = other.query_drop(format!(
        "INSERT INTO dblock.dblock_locks (name, slot) VALUES {rows}"
    ));
    written.unwrap();
    let before = deadlocks();
    drop(run.take_stdin());
    eventually("its release waits for the history", SOON, || {
        server.answering("dblock record end") > 0
    });
    let its_row = format!("SELECT * FROM {} FOR UPDATE", row_by_name(&name));
    other.query_drop(its_row).unwrap();
    let is_victim = deadlocks() > before;
    other.query_drop("ROLLBACK").unwrap();
    run.wait_within(SOON).expect_code(5).expect_silence();
    let ended = "SELECT outcome, exit_code FROM dblock.dblock_runs WHERE name = ?";
    let ended: Option<(String, u32)> = other.exec_first(ended, (&name,)).unwrap();
    assert_eq!(ended, Some(("ran".to_owned(), 5)));
    assert_eq!(row(server, &name).unwrap().owner, None);
    is_victim
}

/// What a server without this variable is asked that answers the first questions of a durable run, and no more.
fn asked(kind: Kind, comment: &'static str, lacks: &'static str) -> Vec<String> {
    let row = |values: &[&str]| {
        let values = values.iter().map(|value| Some((*value).to_owned()));
        Answer::Row(values.collect())
    };
    let mut is_asked_for_the_lock = false;
    let sets = match kind {
        Kind::MariaDb => "SESSION wsrep_sync_wait",
        // It takes the rest for a comment.
        Kind::Postgres => unreachable!("a test of MySQL"),
        Kind::MySql => "SET SESSION wsrep_sync_wait",
    };
    let fake = Fake::start(kind, move |statement| match statement {
        set if set.contains(sets) && lacks == "wsrep_sync_wait" => {
            Answer::error(1193, "Unknown system variable 'wsrep_sync_wait'")
        }
        version if version.contains("binlog_format") && lacks == "binlog_format" => {
            Answer::error(1193, "Unknown system variable 'binlog_format'")
        }
        set if set.starts_with("SET @dblock") => Answer::error(
            1193,
            "Unknown system variable 'group_replication_consistency'",
        ),
        set if set.starts_with("SET ") => Answer::Ok,
        version if version.starts_with("SELECT version") => {
            row(&["1", "1", "1700000000000000", "0", comment])
        }
        // Behind it in the same packet; nothing is clear yet.
        _ if !std::mem::replace(&mut is_asked_for_the_lock, true) => Answer::NoRow(1),
        group if group.starts_with("SELECT 0 ") => row(&["0"]),
        _ => Answer::error(1105, "enough"),
    });
    let run = Dblock::run_at(&fake.url(), "x").args(["--durable", "--connect-timeout", "20"]);
    run.sh("true")
        .output()
        .expect_code(70)
        .expect_one_line("enough");
    fake.statements()
}

fn places(statements: &[String], part: &str) -> Vec<usize> {
    let places = statements.iter().enumerate();
    let places = places.filter(|(_, statement)| statement.contains(part));
    places.map(|(place, _)| place).collect()
}

#[test]
fn a_node_of_mysql_and_galera_is_asked_for_its_tables_after_it_has_caught_up() {
    for comment in [
        "Percona XtraDB Cluster (GPL), Release rel29, Revision 1",
        "MySQL Wsrep Server (GPL), wsrep_26.20",
    ] {
        let statements = asked(Kind::MySql, comment, "nothing");
        let told = places(&statements, "SET SESSION wsrep_sync_wait=7");
        let versions = places(&statements, "SELECT version");
        assert_eq!((told.len(), versions.len()), (1, 2), "{statements:#?}");
        assert!(versions[0] < told[0] && told[0] < versions[1]);
        // One that does not know it after all is no node.
        let statements = asked(Kind::MySql, comment, "wsrep_sync_wait");
        assert_eq!(places(&statements, "SELECT version").len(), 1);
    }
}

#[test]
fn a_server_that_is_no_node_is_not_asked_to_catch_up() {
    let statements = asked(Kind::MySql, "MySQL Community Server - GPL", "nothing");
    let waits = places(&statements, "SET SESSION wsrep_sync_wait");
    assert!(waits.is_empty(), "{statements:#?}");
    assert_eq!(places(&statements, "SELECT version").len(), 1);
}

#[test]
fn a_mariadb_that_is_built_without_galera_has_its_sessions_made_fit() {
    let comment = "mariadb.org binary distribution";
    let statements = asked(Kind::MariaDb, comment, "wsrep_sync_wait");
    let settings = places(&statements, "SET NAMES utf8mb4");
    let waits = places(&statements, "wsrep_sync_wait");
    assert_eq!((settings, waits), (vec![0, 1], vec![0]), "{statements:#?}");
    let statements = asked(Kind::MariaDb, comment, "nothing");
    assert_eq!(places(&statements, "SET NAMES utf8mb4"), [0]);
}

#[test]
fn a_server_without_a_format_of_its_binary_log_is_asked_without_that() {
    let comment = "MySQL Community Server - GPL";
    let statements = asked(Kind::MySql, comment, "binlog_format");
    let formats = places(&statements, "binlog_format");
    let versions = places(&statements, "SELECT version");
    assert_eq!(versions.len(), formats.len() + 1, "{statements:#?}");
    assert!(versions.last() > formats.last());
}

#[test]
fn a_release_that_is_the_victim_of_a_deadlock_is_tried_again_with_its_record() {
    // The count of deadlocks is the server's.
    let server = Server::private(Kind::MySql).with_durable_runs();
    let is_met = (0..5).any(|_| is_released_after_a_deadlock(&server));
    assert!(is_met, "it has waited for too long each time");
}

all_servers! {
    fn the_fence_grows_with_each_grant(shared) {
        let server = Server::durable(shared.kind);
        let name = unique("fence");
        let mut last = 0;
        for _ in 0..4 {
            let output = Dblock::run(server, &name).sh("echo $DBLOCK_FENCE").output();
            let fence: u64 = output.expect_code(0).stdout.trim().parse().expect("a number");
            assert!(fence > last, "{fence} after {last}");
            last = fence;
        }
        let row = row(server, &name).unwrap();
        assert_eq!((row.fence, row.owner), (last, None), "it is released");
    }

    fn who_is_kept_out_is_told_for_how_long_the_lock_is_held(shared) {
        let server = Server::durable(shared.kind);
        let name = unique("since");
        let _holder = begin(job(server, &name));
        let skip = Dblock::run(server, &name).command(["true"]).output();
        skip.expect_code(75).expect_one_line(" (sh), for ");
    }

    fn a_command_without_a_durable_lock_finds_no_fence_of_one_around_it(shared on mysql) {
        let server = Server::durable(shared.kind);
        let name = unique("inner");
        let dblock = Dblock::run_at(&server.url(), &name).env("DBLOCK_FENCE", "7").env("DBLOCK_TICK", "x");
        let output = dblock.sh("echo ${DBLOCK_FENCE-none} ${DBLOCK_TICK-none}").output();
        output.expect_code(0).expect_stdout("none none\n");
    }

    fn a_killed_session_is_nothing_to_the_command_and_to_nobody_else(shared) {
        let server = Server::durable(shared.kind);
        let name = unique("session");
        let records = Records::new();
        let run = begin(job(server, &name));
        let waiter = Dblock::run(server, &name).args(["--wait", "50"]).command(records.command(1)).spawn();
        eventually("it waits", SOON, || server.waiters(&name).len() == 1);
        for _ in 0..3 {
            let before = row(server, &name).unwrap();
            kill_session(server, &name);
            eventually("it is held on another session", SOON, || session_of(server, &name).is_some());
            assert_eq!(row(server, &name).unwrap(), before, "the same grant");
        }
        assert!(records.intervals().is_empty(), "nobody came between");
        ends_in_silence(run);
        waiter.wait().expect_code(0).expect_silence();
    }

    fn the_named_lock_is_held_again_after_a_killed_session(shared) {
        let server = Server::durable(shared.kind);
        let name = unique("named-again");
        let run = begin(job(server, &name));
        kill_session(server, &name);
        eventually("the named lock is held again", SOON, || {
            let session = session_of(server, &name);
            session.is_some() && server.holder(&name) == session
        });
        Dblock::run_at(&server.url(), &name).command(["true"]).output().expect_code(75);
        ends_in_silence(run);
        Dblock::run_at(&server.url(), &name).command(["true"]).output().expect_code(0);
    }

    fn the_named_lock_that_somebody_else_got_is_taken_again_when_it_is_free(shared) {
        let server = Server::durable(shared.kind);
        let name = unique("named-later");
        // A machine that stands still for seconds does not let it run out.
        let run = begin(job(server, &name).args(["--ttl", "16"]));
        let mut other = server.plain();
        let (others, lock) = (other.connection_id(), name.clone());
        let waits = std::thread::spawn(move || {
            other.wait_for_lock(&lock);
            other
        });
        eventually("it waits", SOON, || server.is_waiting(others));
        kill_session(server, &name);
        let other = waits.join().unwrap();
        eventually("it has another session", SOON, || session_of(server, &name).is_some());
        let written = || {
            let query = "SELECT write_id FROM dblock.dblock_locks WHERE name = ? AND slot = 0";
            server.watcher().exec_first::<u64>(query, (&name,)).unwrap()
        };
        let before = written();
        eventually("it has asked for the named lock in vain, and goes on", SOON, || written() != before);
        assert_eq!(server.holder(&name), Some(others));
        drop(other);
        eventually("the named lock is held again", SOON, || {
            let session = session_of(server, &name);
            session.is_some() && server.holder(&name) == session
        });
        Dblock::run_at(&server.url(), &name).command(["true"]).output().expect_code(75);
        ends_in_silence(run);
        Dblock::run_at(&server.url(), &name).command(["true"]).output().expect_code(0);
    }

    fn a_killed_keeper_is_nothing_to_the_command_and_to_nobody_else(shared) {
        let server = Server::durable(shared.kind);
        let name = unique("keeper");
        let records = Records::new();
        let mut run = job(server, &name).spawn();
        let command = run.wait_pid("began");
        let waiter = Dblock::run(server, &name).args(["--wait", "50"]).command(records.command(1)).spawn();
        eventually("it waits", SOON, || server.waiters(&name).len() == 1);
        for _ in 0..2 {
            let before = row(server, &name).unwrap();
            let keeper = run.keeper(Some(command));
            send(keeper, Signal::SIGKILL);
            eventually("another keeper holds it", SOON, || {
                run.children().len() == 2 && !run.children().contains(&keeper) && session_of(server, &name).is_some()
            });
            assert_eq!(row(server, &name).unwrap(), before, "the same grant");
        }
        assert!(records.intervals().is_empty(), "nobody came between");
        ends_in_silence(run);
        waiter.wait().expect_code(0);
    }

    fn a_keeper_that_is_killed_while_the_command_is_being_ended_is_replaced(shared on mariadb) {
        let server = Server::durable(shared.kind);
        let name = unique("keeper-ending");
        let script = "trap 'echo asked' TERM; echo began $$; while ! read x; do sleep 0.05; done; exit 5";
        // The shell has set its trap by then, and is not killed before it has read a line.
        let run = Dblock::run(server, &name).args(["--timeout", "8", "--kill-after", "60", "-v"]);
        let mut run = run.stdin(Stdio::piped()).sh(script).spawn();
        let command = run.wait_pid("began");
        run.wait_line("asked", SOON);
        for _ in 0..2 {
            let keeper = run.keeper(Some(command));
            send(keeper, Signal::SIGKILL);
            eventually("another keeper holds it", SOON, || {
                run.children().iter().filter(|&&pid| pid != command && pid != keeper).count() == 1
            });
        }
        run.take_stdin().write_all(b"x\n").unwrap();
        run.wait_within(SOON).expect_code(124).expect_said(["another one goes on", "released"]);
        let row = row(server, &name).unwrap();
        assert_eq!((row.fence, row.owner), (1, None), "it is released");
    }

    fn a_keeper_that_is_killed_while_it_releases_is_replaced_but_not_for_ever(shared on mysql) {
        let server = Server::durable(shared.kind);
        for is_only_one in [true, false] {
            let name = unique("keeper-releasing");
            // For so long dblock waits for the release.
            let waits = is_only_one.then_some("--connect-timeout=60");
            let mut run = job(server, &name).args(["--ttl", "60", "-v"]).args(waits).spawn();
            let command = run.wait_pid("began");
            let mut admin = server.watcher();
            admin.lock(&row_by_name(&name));
            drop(run.take_stdin());
            eventually("it releases", SOON, || !runs(command) && run.children().len() == 1);
            if is_only_one {
                let last = run.keeper(None);
                send(last, Signal::SIGKILL);
                eventually("another releases it", SOON, || run.children().iter().any(|&pid| pid != last));
                admin.query_drop("ROLLBACK").unwrap();
                // One that dies before it is asked to release is replaced without a word.
                run.wait_within(SOON).expect_code(5).expect_said(["released"]);
                assert_eq!(row(server, &name).unwrap().owner, None, "it is released");
            } else {
                let mut killed = 0;
                eventually("none is started any more", SOON, || {
                    for keeper in run.children() {
                        let pid = nix::unistd::Pid::from_raw(keeper);
                        killed += u32::from(nix::sys::signal::kill(pid, Signal::SIGKILL).is_ok());
                    }
                    !run.is_running()
                });
                assert!(killed > 1, "{killed}");
                // The second of these, if it lasts until dblock stops waiting for the server.
                let end = run.wait_within(SOON);
                let gone = end.stderr.contains("the keeper is gone; the server frees");
                assert!(gone || end.stderr.contains("the server did not answer; it frees"), "{end:#?}");
                end.expect_code(5).expect_said(["when the TTL is over"]);
                admin.query_drop("ROLLBACK").unwrap();
            }
        }
    }

    fn what_may_have_been_granted_to_a_command_that_does_without_it_is_released_while_it_runs(shared) {
        assert!((0..3).any(|_| releases_while_the_command_runs(Server::durable(shared.kind))), "granted in time");
    }

    fn what_a_killed_keeper_may_have_been_granted_is_released_while_the_command_does_without_it(shared) {
        assert!((0..3).any(|_| withdraws_while_the_command_runs(Server::durable(shared.kind))), "granted in time");
    }

    fn what_no_keeper_releases_is_told_while_the_command_does_without_it(shared on mariadb) {
        assert!((0..3).any(|_| gives_up_while_the_command_runs(Server::durable(shared.kind))), "granted in time");
    }

    fn what_no_keeper_releases_is_told_when_the_command_ends_that_did_without_it(shared on mariadb) {
        assert!((0..3).any(|_| leaves_the_row_when_the_command_ends(Server::durable(shared.kind))), "granted in time");
    }

    fn what_a_killed_keeper_may_have_been_granted_is_released_by_the_next_when_dblock_is_killed_too(shared on mariadb) {
        assert!((0..3).any(|_| withdraws_after_dblock(Server::durable(shared.kind))), "granted in time");
    }

    fn a_lock_is_released_where_the_system_refuses_to_wait_for_events(shared) {
        let server = Server::durable(shared.kind);
        for ends_itself in [true, false] {
            let name = unique("refuses");
            let mut run = begin(job(server, &name));
            eventually("it waits for events", SOON, || polls(run.pid()));
            // dblock waits for more than that at once.
            allow_files(run.pid(), 2);
            if ends_itself {
                drop(run.take_stdin());
            } else {
                run.signal(Signal::SIGCONT);
            }
            let end = run.wait_within(SOON);
            end.expect_code(if ends_itself { 5 } else { 71 });
            if !ends_itself {
                end.expect_said(["cannot wait: Invalid argument"]);
            }
            assert_eq!(row(server, &name).unwrap().owner, None, "{end:#?}");
        }
    }

    fn a_command_that_ends_just_when_the_system_refuses_to_wait_for_events_keeps_its_code(shared) {
        let server = Server::durable(shared.kind);
        let name = unique("ends");
        let mut run = job(server, &name).spawn();
        let command = run.wait_pid("began");
        eventually("it waits for events", SOON, || polls(run.pid()));
        let stopped = Frozen::new(run.pid());
        // dblock waits for more than that at once.
        allow_files(run.pid(), 2);
        drop(run.take_stdin());
        eventually("the command has ended", SOON, || !runs(command));
        drop(stopped);
        let end = run.wait_within(SOON);
        end.expect_code(5);
        assert_eq!(row(server, &name).unwrap().owner, None, "{end:#?}");
    }

    fn what_may_have_been_granted_to_a_keeper_that_is_killed_is_found_by_the_next(shared) {
        assert!((0..3).any(|_| is_found_by_the_next_keeper(Server::durable(shared.kind))), "granted in time");
    }

    fn a_late_grant_is_released_that_a_signal_finds_being_proved(shared) {
        let server = Server::durable(shared.kind);
        // What is done in time decides, which a machine that stands still does not do.
        assert!((0..10).any(|_| signal_finds_a_late_grant(server)), "in time");
    }

    fn a_grant_whose_answer_was_lost_leaves_the_other_slots_to_others(shared) {
        assert!((0..3).any(|_| leaves_the_other_slots_to_others(Server::durable(shared.kind))), "granted in time");
    }

    fn a_server_that_restarts_is_nothing_to_holders_and_waiters(shared) {
        let server = private(shared.kind);
        let name = unique("restart");
        let records = Records::new();
        let run = begin(job(&server, &name));
        let command = |id| records.command_around(id, "echo $DBLOCK_FENCE");
        let waiters = [0, 1, 2].map(|id| {
            Dblock::run(&server, &name).args(["--wait", "10m"]).command(command(id)).spawn()
        });
        eventually("they wait", SOON, || server.waiters(&name).len() == 3);
        let before = row(&server, &name).unwrap();
        server.kill();
        server.start();
        eventually("it is held again", SOON, || session_of(&server, &name).is_some());
        assert_eq!(row(&server, &name).unwrap(), before, "the same grant");
        eventually("they wait again", SOON, || {
            server.sessions_of("dblock") == 4
        });
        assert!(records.intervals().is_empty(), "nobody came between");
        ends_in_silence(run);
        let mut fences: Vec<(u64, u64)> = Vec::new();
        for (id, waiter) in waiters.into_iter().enumerate() {
            let output = waiter.wait();
            let fence = output.expect_code(0).expect_silence().stdout.trim().parse().unwrap();
            let interval = records.intervals().into_iter().find(|one| one.id == id).unwrap();
            fences.push((interval.start, fence));
        }
        records.assert_no_overlap();
        fences.sort_unstable();
        let order: Vec<u64> = fences.iter().map(|(_, fence)| *fence).collect();
        assert_eq!(order, [2, 3, 4], "in the order of the starts");
    }

    fn a_holder_without_a_row_has_its_lock_again_before_durable_callers_that_waited(shared) {
        let server = Server::durable(shared.kind);
        assert!((0..10).any(|_| are_back_before_those_that_waited(server)), "in time");
    }

    fn a_server_that_is_away_for_long_is_told_of_and_costs_the_command_before_the_row_expires(shared on mariadb) {
        let server = private(shared.kind);
        let name = unique("away");
        let begun = Instant::now();
        let mut run = job(&server, &name).args(["--ttl", "8", "--kill-after", "1"]).spawn();
        let command = run.wait_pid("began");
        server.kill();
        let killed = Instant::now();
        run.wait_stderr("no server renews", SOON);
        // A quarter of it after the last renewal, or the grant.
        let told = begun.elapsed();
        assert!(told > Duration::from_millis(1900), "{told:?}");
        let end = run.wait_within(SOON);
        end.expect_code(74).expect_said(["may be lost: the server has not renewed it for"]);
        assert!(killed.elapsed() < Duration::from_secs(8) + slack() && !runs(command));
    }

    fn a_server_that_is_back_while_the_command_is_ended_has_its_lock_released(shared on mariadb) {
        let server = Server::durable(shared.kind);
        let (proxy, name) = (Proxy::to(server), unique("back"));
        let script = "trap '' TERM; echo began; while :; do sleep 0.1; done";
        let dblock = Dblock::run_at(&proxy.url(), &name).without_terminal().args(["--durable", "--ttl", "15s", "--kill-after", "5s"]);
        let mut run = dblock.sh(script).spawn();
        run.wait_line("began", SOON);
        proxy.freeze();
        run.wait_stderr("ending the command", SOON);
        proxy.thaw();
        run.wait_within(SOON).expect_code(74);
        let left: (Option<String>, Option<String>) = server
            .watcher()
            .exec_first("SELECT l.owner, r.outcome FROM dblock.dblock_locks l JOIN dblock.dblock_runs r ON r.name = l.name WHERE l.name = ?", (&name,))
            .unwrap()
            .expect("a row each");
        assert_eq!(left, (None, Some("lost".to_owned())));
    }

    fn a_row_that_is_anothers_costs_the_command_with_one_reason(shared on mysql) {
        let server = Server::durable(shared.kind);
        let name = unique("stolen");
        let mut run = begin(job(server, &name).args(["--ttl", "16"]));
        let steal = "UPDATE dblock.dblock_locks SET owner = ?, fence = fence + 1 WHERE name = ?";
        server.watcher().exec_drop(steal, ("f".repeat(32), &name)).unwrap();
        let end = run.wait_within(SOON);
        end.expect_code(74).expect_said(["its row says that it is held by", "ending the command"]);
        assert_eq!(end.stderr.lines().count(), 2, "{}", end.stderr);
        assert_eq!(row(server, &name).unwrap().owner, Some("f".repeat(32)), "the row is not touched");
    }

    fn a_row_that_is_deleted_costs_the_command(shared on mariadb) {
        let server = Server::durable(shared.kind);
        let name = unique("deleted");
        let mut run = begin(job(server, &name).args(["--ttl", "16"]));
        let delete = "DELETE FROM dblock.dblock_locks WHERE name = ?";
        server.watcher().exec_drop(delete, (&name,)).unwrap();
        run.wait_within(SOON).expect_code(74).expect_said(["its row is gone"]);
    }

    fn a_loss_that_is_ignored_lets_the_command_run_on(shared on mysql) {
        let server = Server::durable(shared.kind);
        let name = unique("ignored");
        let mut run = begin(job(server, &name).args(["--ttl", "4", "--on-lock-lost", "ignore"]));
        let delete = "DELETE FROM dblock.dblock_locks WHERE name = ?";
        server.watcher().exec_drop(delete, (&name,)).unwrap();
        run.wait_stderr("the command continues without it", SOON);
        drop(run.take_stdin());
        run.wait_within(SOON).expect_code(5);
    }

    fn what_died_with_its_keeper_holds_its_row_until_the_ttl_is_over(shared on mariadb) {
        let server = Server::durable(shared.kind);
        let name = unique("dead");
        let ttl = Duration::from_secs(9);
        let mut run = job(server, &name).args(["--ttl", "9"]).spawn();
        let command = run.wait_pid("began");
        let keeper = run.keeper(Some(command));
        kill_both(keeper, run.pid());
        drop(run.take_stdin());
        let held = Instant::now();
        let left = "SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at) FROM dblock.dblock_locks WHERE name = ?";
        let left: Option<u64> = server.watcher().exec_first(left, (&name,)).unwrap();
        let left = Duration::from_micros(left.expect("its row"));
        let skip = Dblock::run(server, &name).command(["true"]).output();
        skip.expect_code(75).expect_one_line("is held by");
        let next = Dblock::run(server, &name).args(["--wait", "30"]).sh("echo $DBLOCK_FENCE").output();
        next.expect_code(0).expect_stdout("2\n");
        let took = held.elapsed();
        assert!(left <= ttl && took > left && took < ttl + SOON, "{took:?}, {left:?}");
    }

    fn a_dblock_that_is_killed_has_its_row_released_when_its_command_is_gone(shared on mysql) {
        let server = Server::durable(shared.kind);
        let name = unique("killed");
        let mut run = job(server, &name).spawn();
        let command = run.wait_pid("began");
        run.signal(Signal::SIGKILL);
        eventually("the row is free", SOON, || row(server, &name).unwrap().owner.is_none());
        assert!(!runs(command), "its command is gone by then");
        let history = Dblock::at(server, "history").args(["--json", &name]).output();
        let run = &history.expect_code(0).json()["runs"][0];
        assert!(run["message"].as_str().unwrap().starts_with("dblock was killed"), "{run}");
        assert!(run["started"].is_string() && run["ended"].is_string(), "{run}");
    }

    fn a_frozen_host_has_its_row_again_on_waking_when_nobody_else_has_had_it(shared on mariadb) {
        let server = Server::durable(shared.kind);
        assert!((0..3).any(|_| has_its_row_again_on_waking(server)), "in time");
    }

    fn a_frozen_host_whose_row_another_has_had_ends_its_command(shared on mysql) {
        let server = Server::durable(shared.kind);
        let name = unique("overtaken");
        let mut run = job(server, &name).args(["--ttl", "8"]).spawn();
        let command = run.wait_pid("began");
        let frozen = [run.pid(), run.keeper(Some(command)), command].map(Frozen::new);
        let next = Dblock::run(server, &name).args(["--wait", "30"]).command(["true"]).output();
        next.expect_code(0);
        drop(frozen);
        run.wait_within(SOON).expect_code(74);
        assert!(!runs(command));
    }

    fn a_signal_at_any_moment_leaves_no_row_that_is_held(shared) {
        let server = Server::durable(shared.kind);
        let mut random = fastrand::Rng::with_seed(14);
        let (mut admin, mut late) = (server.watcher(), 0);
        for round in 0..60 {
            let name = unique("signalled");
            let mut run = Dblock::run(server, &name).stdin(Stdio::piped()).command(["cat"]).spawn();
            let delay = Duration::from_micros(random.u64(0..25_000));
            let begun = Instant::now();
            within(delay, || begun.elapsed() >= delay);
            let signal = if round % 2 == 0 { Signal::SIGTERM } else { Signal::SIGINT };
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(run.pid()), signal);
            let signalled = Instant::now();
            drop(run.take_stdin());
            run.wait_within(SOON);
            // From then on dblock waits a second for the server, and says so.
            if signalled.elapsed() >= Duration::from_secs(1) && run.stderr().contains("the server did not answer") {
                late += 1;
                continue;
            }
            let owner = row_of(&mut admin, &name, 0).and_then(|row| row.owner);
            assert_eq!(owner, None, "round {round}, after {delay:?}: {}", run.stderr());
        }
        assert!(late < 30, "{late} of 60 were late");
    }

    fn a_row_that_is_locked_by_somebodys_transaction_is_waited_for_but_not_for_long(shared) {
        let server = Server::durable(shared.kind);
        let name = unique("row-locked");
        Dblock::run(server, &name).command(["true"]).output().expect_code(0);
        let mut admin = server.watcher();
        admin.lock(&row_by_name(&name));
        let run = Dblock::run(server, &name).args(["--connect-timeout", "30"]).command(["true"]).spawn();
        // As long as the server lets a statement wait for it.
        eventually("it has met the lock", SOON, || {
            server.answering("dblock_locks SET fence") > 0
        });
        admin.query_drop("ROLLBACK").unwrap();
        run.wait().expect_code(0).expect_silence();
    }

    fn while_the_server_has_no_room_a_holder_keeps_its_session_and_callers_without_rows_stay_out(shared) {
        let server = &private(shared.kind);
        let name = unique("no-room");
        let mut first = begin(job(server, &name).args(["--ttl", "20s", "--kill-after", "1", "--connect-timeout", "5"]));
        let session = session_of(server, &name);
        server.has_no_room("UPDATE", "dblock_locks");
        first.wait_stderr("no server renews", SOON);
        // Another renewal is refused in that time.
        let refused = Instant::now();
        while refused.elapsed() < Duration::from_millis(1200) {
            Dblock::run_at(&server.url(), &name).command(["true"]).output().expect_code(75);
        }
        assert_eq!(session_of(server, &name), session);
        let expires = || {
            let query = "SELECT expires_at FROM dblock.dblock_locks WHERE name = ?";
            server.watcher().exec::<String>(query, (&name,)).unwrap()
        };
        let before = expires();
        server.has_room();
        eventually("it is renewed", SOON, || expires() != before);
        assert!(first.is_running(), "{}", first.stderr());
        drop(first.take_stdin());
        first.wait_within(SOON).expect_code(5).expect_said(["The table is full"]);
    }

    fn while_the_server_refuses_renewals_a_holder_keeps_its_session_and_callers_without_rows_stay_out(shared) {
        let server = &private(shared.kind);
        let (name, proxy) = (unique("refused"), Proxy::to(server));
        let dblock = Dblock::run_at(&proxy.url(), &name).args(["--durable", "--ttl", "20s", "--kill-after", "1", "-v"]);
        let mut first = begin(dblock.stdin(Stdio::piped()).sh("echo began; cat; exit 5"));
        let (session, logins) = (server.holder(&name), proxy.connections());
        assert!(session.is_some(), "it has the named lock");
        let renewals = || {
            let packets = proxy.packets();
            packets.iter().filter(|packet| packet.sent().is_some_and(|sent| sent.contains("dblock renew row"))).count()
        };
        rename_table(server, "dblock_locks", "away");
        first.wait_stderr("no server renews", SOON);
        let refused = renewals();
        eventually("other renewals are refused", SOON, || {
            Dblock::run_at(&server.url(), &name).command(["true"]).output().expect_code(75);
            renewals() > refused + 4
        });
        rename_table(server, "away", "dblock_locks");
        let expires = || {
            let query = "SELECT expires_at FROM dblock.dblock_locks WHERE name = ?";
            server.watcher().exec::<String>(query, (&name,)).unwrap()
        };
        let before = expires();
        eventually("it is renewed", SOON, || expires() != before);
        assert_eq!((server.holder(&name), proxy.connections()), (session, logins));
        drop(first.take_stdin());
        first.wait_within(SOON).expect_code(5);
    }

    fn a_holder_without_a_session_logs_in_once_a_second_while_the_server_refuses_renewals(shared) {
        let server = &private(shared.kind);
        let (name, proxy) = (unique("refused-anew"), Proxy::to(server));
        let dblock = Dblock::run_at(&proxy.url(), &name).args(["--durable", "--ttl", "60s", "--kill-after", "1", "-v"]);
        let mut first = begin(dblock.stdin(Stdio::piped()).sh("echo began; cat; exit 5"));
        rename_table(server, "dblock_locks", "away");
        proxy.cut();
        first.wait_stderr("no server renews", SOON);
        let before = proxy.connections();
        let logs_in_often = || proxy.connections() > before + 10;
        assert!(!within(Duration::from_secs(4), logs_in_often), "{}", first.stderr());
        rename_table(server, "away", "dblock_locks");
        first.wait_stderr("on a new session", SOON);
        drop(first.take_stdin());
        first.wait_within(SOON).expect_code(5);
    }

    fn a_history_without_room_does_not_keep_a_row_held(shared) {
        let server = &private(shared.kind);
        let name = unique("no-room");
        server.has_no_room("UPDATE", "dblock_runs");
        let run = Dblock::run(server, &name).command(["sh", "-c", "exit 3"]).output();
        run.expect_code(3).expect_one_line("cannot record the run: no room: The table is full (");
        run.expect_took(Duration::ZERO, Duration::from_secs(5) + slack());
        assert_eq!(row(server, &name).unwrap().owner, None);
    }

    fn a_row_that_was_edited_by_hand_is_held_until_it_is_freed(shared on mariadb) {
        // Its own server: such a row counts as unused, and whoever deletes it raises the fences of all new names.
        let server = &private(shared.kind);
        let name = unique("edited");
        Dblock::run(server, &name).command(["true"]).output().expect_code(0);
        let edit = "UPDATE dblock.dblock_locks SET owner = 'nobody', expires_at = '9999-12-31 23:59:59', acquired_at = NULL,
                    renewed_at = NULL, ttl_seconds = NULL WHERE name = ?";
        server.watcher().exec_drop(edit, (&name,)).unwrap();
        let output = Dblock::run(server, &name).command(["true"]).output();
        output.expect_code(75).expect_one_line("is held by an unknown host");
        let edit = "UPDATE dblock.dblock_locks SET expires_at = NULL WHERE name = ?";
        server.watcher().exec_drop(edit, (&name,)).unwrap();
        Dblock::run(server, &name).command(["true"]).output().expect_code(0).expect_silence();
    }

    fn a_clock_that_is_behind_the_rows_is_refused(shared) {
        let server = Server::durable(shared.kind);
        let name = unique("future");
        let _run = begin(job(server, &name));
        let edit = "UPDATE dblock.dblock_locks SET renewed_at = UTC_TIMESTAMP(6) + INTERVAL 40 SECOND WHERE name = ?";
        server.watcher().exec_drop(edit, (&name,)).unwrap();
        // Past the queue: on another name of the same rows nobody waits.
        let output = Dblock::run(server, &name).args(["-m", "2"]).command(["true"]).output();
        output.expect_code(78).expect_one_line("behind that of a server that has written rows there");
    }

    fn a_server_whose_row_is_locked_is_not_out_of_reach_also_where_there_is_little_time(shared) {
        let server = Server::durable(shared.kind);
        // With so short a TTL a server gets a second for an answer.
        for options in [&["--connect-timeout", "2"][..], &["--connect-timeout", "4", "--ttl", "4"]] {
            let name = unique("little-time");
            Dblock::run(server, &name).sh("true").output().expect_code(0);
            let mut admin = server.watcher();
            admin.lock(&row_by_name(&name));
            let is_told = || {
                let run = Dblock::run(server, &name).args(options).args(["--if-unreachable", "run"]);
                let output = run.sh("echo ran").output();
                output.code == Some(69) && output.stdout.is_empty() && output.stderr.contains("another session keeps the row of")
            };
            // A busy machine may not get as far as the row in time.
            assert!((0..3).any(|_| is_told()), "{options:?}");
            admin.query_drop("ROLLBACK").unwrap();
        }
    }

    fn a_statement_that_waited_is_no_sign_of_a_clock_that_is_behind(shared) {
        let tables = Tables::new(shared);
        let name = unique("waited");
        let durable = |args: &[&str]| tables.at("run").args(["--durable", "--name", &name]).args(args);
        let mut held = durable(&["--ttl", "60"]).stdin(Stdio::piped()).sh("echo began; cat").spawn();
        held.wait_line("began", SOON);
        let mut admin = tables.client();
        let [lock, unlock] = match shared.kind {
            Kind::Postgres => ["BEGIN; LOCK TABLE dblock_locks", "COMMIT"],
            Kind::MariaDb | Kind::MySql => ["LOCK TABLES dblock_locks WRITE", "UNLOCK TABLES"],
        };
        let reading = format!("look at rows%{}", tables.database);
        // The server gives up on the table after 1 s.
        let ended = (0..10).find_map(|_| {
            admin.query_drop(lock).unwrap();
            // Past the queue: on another slot nobody waits.
            let run = durable(&["--ttl", "4", "-m", "2"]).command(["true"]).spawn();
            eventually("it waits for the table", SOON, || shared.answering(&reading) > 0);
            within(Duration::from_millis(500), || false);
            // As the holder's renewal, which waits, too.
            admin.query_drop("UPDATE dblock_locks SET renewed_at = UTC_TIMESTAMP(6)").unwrap();
            let waits = shared.answering(&reading) > 0;
            admin.query_drop(unlock).unwrap();
            let ended = run.wait();
            waits.then_some(ended)
        });
        ended.expect("it waited for longer than a tenth of its TTL").expect_code(0);
    }

    fn missing_tables_are_told_with_what_to_do(shared) {
        let account = "dblock";
        let output = Dblock::run_at(&shared.url(), &unique("no-tables")).user(account).arg("--durable").command(["true"]).output();
        // Whoever may not read tables of MySQL's is not told whether they are there.
        match shared.kind {
            Kind::Postgres => output.expect_code(78).expect_one_line("create them with dblock init"),
            Kind::MariaDb | Kind::MySql => output.expect_code(77).expect_one_line("where dblock init makes its tables"),
        };
        let admin = Dblock::run_at(&shared.url(), &unique("no-tables")).user("admin").env("DBLOCK_PASSWORD", "admin-secret");
        let output = admin.arg("--durable").command(["true"]).output();
        output.expect_code(78).expect_one_line("create them with dblock init");
        let output = Dblock::run(Server::durable(shared.kind), &unique("none")).env(shared.kind.place(), "nowhere").command(["true"]).output();
        assert!(matches!(output.code, Some(77 | 78)), "{output:?}");
        assert_eq!(output.stderr.lines().count(), 1);
    }

    fn a_missing_privilege_is_told_with_the_grant(shared) {
        let server = private(shared.kind);
        for (table, privilege) in [("dblock_locks", "UPDATE"), ("dblock_runs", "INSERT"), ("dblock_meta", "SELECT")] {
            let account = server.account();
            for granted in ["dblock_locks", "dblock_runs", "dblock_successes", "dblock_meta"] {
                let all = ["SELECT", "INSERT", "UPDATE", "DELETE"];
                let all = all.into_iter().filter(|one| (granted, *one) != (table, privilege));
                let all = all.collect::<Vec<_>>().join(", ");
                server.grant(&all, "dblock", granted, &account);
            }
            let name = unique("privilege");
            let output = Dblock::run(&server, &name).user(&account).command(["true"]).output();
            output.expect_code(77).expect_stdout("").expect_one_line("SELECT, INSERT, UPDATE and DELETE on ");
            assert!(output.stderr.contains(table), "{}", output.stderr);
            let owner = row(&server, &name).and_then(|row| row.owner);
            assert_eq!(owner, None, "nothing is left behind");
        }
    }

    fn a_table_that_is_not_ours_is_told(shared) {
        let server = private(shared.kind);
        server.watcher().query_drop("ALTER TABLE dblock.dblock_locks DROP COLUMN write_id").unwrap();
        let output = Dblock::run(&server, &unique("altered")).command(["true"]).output();
        output.expect_code(78).expect_one_line("see dblock init --check");
        server.watcher().query_drop("DROP TABLE dblock.dblock_locks").unwrap();
        let output = Dblock::run(&server, &unique("dropped")).command(["true"]).output();
        output.expect_code(78).expect_one_line("see dblock init --check");
        server.watcher().query_drop("UPDATE dblock.dblock_meta SET version = 9, usable_from = 9").unwrap();
        let output = Dblock::run(&server, &unique("newer")).command(["true"]).output();
        output.expect_code(78).expect_one_line("are of a newer dblock");
    }

    fn tables_that_are_dropped_under_a_command_cost_it_in_time(shared) {
        let server = private(shared.kind);
        let name = unique("dropped");
        let mut run = begin(job(&server, &name).args(["--ttl", "12", "--kill-after", "1"]));
        server.watcher().query_drop("DROP TABLE dblock.dblock_locks").unwrap();
        let end = run.wait_within(SOON);
        end.expect_code(74).expect_said(["not whole: "]);
    }

    fn a_read_only_server_is_passed_over_and_alone_refused(shared) {
        let server = private(shared.kind);
        server.set_read_only(true);
        let dblock = Dblock::run(&server, &unique("read-only")).args(["--connect-timeout", "5"]);
        let output = dblock.command(["true"]).output();
        output.expect_code(78).expect_one_line("name the server that takes writes\n");
    }

    fn a_replica_without_the_tables_is_passed_over(shared on mariadb) {
        let (replica, primary) = (Server::private(shared.kind), private(shared.kind));
        replica.set_read_only(true);
        let url = url_of([&replica, &primary]);
        let at = |command: &str| Dblock::bare().arg(command).env("DBLOCK_URL", &url);
        let accounts = [("dblock", PASSWORD), ("admin", "admin-secret")];
        // An account without rights on a table is not told whether it is there.
        for (account, password) in accounts {
            let at = |command| at(command).user(account).env("DBLOCK_PASSWORD", password);
            let name = unique("replica");
            for how in ["--durable", "--record", "--once-per=1s"] {
                let output = at("run").args(["--name", &unique("replica"), how]).sh("echo ran").output();
                output.expect_code(0).expect_silence().expect_stdout("ran\n");
            }
            let token = at("acquire").args(["--name", &name]).output();
            token.expect_code(0).expect_silence();
            at("release").arg(token.stdout.trim()).output().expect_code(0).expect_silence();
            at("status").output().expect_code(0).expect_silence();
            // It may ask a replica, and says why it did not.
            at("history").output().expect_code(0);
            at("init").arg("--check").output().expect_code(0).expect_silence();
            let found = at("check").arg("--json").output();
            assert!(found.stdout.contains("version 6, in "), "{}", found.stdout);
        }
    }

    fn a_server_that_becomes_read_only_is_waited_for_by_the_holder(shared) {
        let server = private(shared.kind);
        let name = unique("demoted");
        let mut run = begin(job(&server, &name).args(["--ttl", "16", "--kill-after", "1", "-v"]));
        server.set_read_only(true);
        run.wait_stderr(&format!("no server renews {name}: 127.0.0.1:{} is read-only", server.port), SOON);
        server.set_read_only(false);
        run.wait_stderr("on a new session", SOON);
        drop(run.take_stdin());
        run.wait_within(SOON).expect_code(5);
    }

    fn an_answer_that_is_lost_is_looked_up(shared) {
        let server = Server::durable(shared.kind);
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..25 {
            let proxy = Proxy::to(server);
            let name = unique("lost-answer");
            let mut run = Dblock::run_at(&proxy.url(), &name).args(["--durable", "--connect-timeout", "20"])
                .sh("echo $DBLOCK_FENCE; exit 3").spawn();
            let delay = Duration::from_micros(random.u64(0..30_000));
            let begun = Instant::now();
            within(delay, || begun.elapsed() >= delay);
            // Every connection is lost, at whatever statement it is; the next ones go through.
            proxy.cut();
            let end = run.wait_within(SOON);
            end.expect_code(3);
            let row = row(server, &name).unwrap();
            assert_eq!(row.owner, None, "it is released: {}", end.stderr);
            assert_eq!(end.stdout, format!("{}\n", row.fence), "granted once");
            assert_eq!(row.fence, 1, "granted once");
        }
    }

    fn a_hold_goes_on_over_a_lost_session(shared) {
        let server = Server::durable(shared.kind);
        let name = unique("hold");
        let mut run = Dblock::run(server, &name).args(["--hold-at-least", "12"]).sh("echo ran; exit 5").spawn();
        run.wait_line("ran", SOON);
        kill_session(server, &name);
        Dblock::run(server, &name).command(["true"]).output().expect_code(75);
        run.wait_within(SOON).expect_code(5).expect_silence();
        Dblock::run(server, &name).command(["true"]).output().expect_code(0);
    }

    fn a_slot_whose_row_is_anothers_is_not_the_only_one(shared on mysql) {
        let server = Server::durable(shared.kind);
        let name = unique("other-slot");
        let mut run = begin(job(server, &name).args(["-m", "2", "--ttl", "60"]));
        let command = processes_with(&name);
        assert!(!command.is_empty());
        // Its host dies: the named lock of slot 0 is free, and its row is not.
        // At once: what is left for a moment must not release it.
        let all: Vec<i32> = [run.pid()].into_iter().chain(run.children()).collect();
        for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
            for pid in &all {
                let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(*pid), signal);
            }
        }
        drop(run.take_stdin());
        eventually("its session is gone", SOON, || server.holder(&name).is_none());
        assert!(row(server, &name).unwrap().owner.is_some());
        let next = Dblock::run(server, &name).args(["-m", "2"]).sh("echo $DBLOCK_SLOT").output();
        next.expect_code(0).expect_stdout("1\n");
    }
}

both_servers! {
    fn a_holder_that_may_write_to_a_read_only_server_leaves_it_all_the_same(shared) {
        leaves_a_server_that_becomes_read_only(&private(shared.kind));
    }

    fn where_the_binary_log_has_statements_such_a_holder_leaves_it_too(shared) {
        leaves_a_server_that_becomes_read_only(&private_that_logs_statements(shared.kind));
    }

    fn a_waiter_is_granted_nothing_on_a_server_that_is_read_only_by_then_though_its_account_may_write_there(shared) {
        let (before, now) = (private(shared.kind), Server::durable(shared.kind));
        before.let_write_above_read_only("dblock");
        let name = unique("demoted");
        before.row_of_a_stranger(&name, 0, 600);
        let run = Dblock::run_at(&url_of([&before, now]), &name).args(["--durable", "-v", "--wait", "60"]);
        let mut run = run.sh("echo $DBLOCK_FENCE").spawn();
        run.wait_stderr("; waiting", SOON);
        before.set_read_only(true);
        let free = "UPDATE dblock.dblock_locks SET owner = NULL, expires_at = NULL WHERE name = ?";
        before.watcher().exec_drop(free, (&name,)).unwrap();
        let end = run.wait_within(SOON);
        end.expect_code(0);
        // The stranger's fence on the server before is 7.
        assert_eq!(end.stdout, format!("{}\n", row(now, &name).expect("it was granted there").fence));
        before.set_read_only(false);
    }

    fn where_the_binary_log_has_statements_a_renewal_asks_for_nothing_that_differs_on_a_replica(shared) {
        let server = private_that_logs_statements(shared.kind);
        let proxy = Proxy::to(&server);
        let name = unique("statements");
        // A machine that stands still for seconds does not let it run out.
        let run = Dblock::run_at(&proxy.url(), &name).args(["--durable", "--ttl", "16"]).stdin(Stdio::piped());
        let run = begin(run.sh("echo began; cat; exit 5"));
        let renewal = || {
            let mut sent = proxy.packets().into_iter().filter_map(|packet| packet.sent());
            sent.find(|sent| sent.contains("dblock renew row"))
        };
        eventually("it renews", SOON, || renewal().is_some());
        let renewal = renewal().unwrap();
        // What follows in the packet only reads, and is in no binary log.
        let (update, behind) = renewal.split_once(';').expect("it is asked behind the renewal whether it takes writes");
        assert!(!update.contains("@@"), "{renewal}");
        assert!(behind.contains("@@global.read_only"), "{renewal}");
        ends_in_silence(run);
    }

    fn a_server_that_says_in_a_word_that_it_is_read_only_is_understood(shared) {
        let server = Server::durable(shared.kind);
        let proxy = Proxy::to(server);
        let run = Dblock::run_at(&proxy.url(), &unique("word")).arg("--durable");
        run.command(["true"]).output().expect_code(0);
        let sent = proxy.packets().into_iter().filter_map(|packet| packet.statements()).collect::<Vec<_>>().join(";");
        let is_asked = |one: &&str| one.trim_start().starts_with("SELECT version, ") && one.contains("@@global.read_only");
        let asked = sent.split(';').find(is_asked).expect("it asks");
        let mut admin = server.admin();
        // The words of MariaDB from 12 on.
        for (value, is_read_only) in [("0", 0), ("1", 1), ("'OFF'", 0), ("'ON'", 1), ("'NO_LOCK'", 1), ("'NO_LOCK_NO_ADMIN'", 1)] {
            let row: Option<mysql::Row> = admin.query_first(asked.replace("@@global.read_only", value)).unwrap();
            assert_eq!(row.unwrap().get::<u8, _>(3), Some(is_read_only), "{value}");
        }
    }

    fn a_server_whose_transactions_only_read_is_passed_over(shared) {
        let server = private(shared.kind);
        let variable = match shared.kind {
            Kind::MariaDb => "tx_read_only",
            Kind::MySql => "transaction_read_only",
            Kind::Postgres => unreachable!("a test of MySQL"),
        };
        server.admin().query_drop(format!("SET GLOBAL {variable} = 1")).unwrap();
        let url = url_of([&server, Server::durable(shared.kind)]);
        let output = Dblock::run_at(&url, &unique("only-reads")).args(["--durable", "-v"]).sh("echo ran").output();
        output.expect_code(0).expect_stdout("ran\n").expect_said(["(error 1792)"]);
    }

    fn a_server_that_is_named_twice_is_not_asked_for_its_clock_again(shared on mariadb) {
        let server = Server::durable(shared.kind);
        let proxy = Proxy::to(server);
        let connections = |name: &str| {
            let before = proxy.connections();
            let run = Dblock::bare().args(["run", "--durable", "--protocol", "tcp", "--host", "localhost", "--port"]);
            let run = run.arg(proxy.port.to_string()).args(["--user", "dblock", "--name", name, "--ttl", "60"]);
            run.env("DBLOCK_PASSWORD", PASSWORD).sh("true").output().expect_code(0).expect_silence();
            proxy.connections() - before
        };
        let [free, expired] = ["free", "expired"].map(unique);
        server.row_of_a_stranger(&expired, 0, -5);
        assert_eq!(connections(&expired), connections(&free));
    }
}

/// A waiter's session has a clock that stands still since its login. Whether it refuses to take a row over when that has expired. `false`: it
/// took the row, as when the other server did not say its time soon enough.
fn refuses_by_the_clock_of_now(standing: &Server, other: &Server) -> bool {
    let name = unique("stands-still");
    standing.row_of_a_stranger(&name, 0, 600);
    let run = Dblock::run_at(&url_of([standing, other]), &name).args(["--durable", "-v"]);
    let run = run.args(["--ttl", "8", "--wait", "60"]).sh("echo ran");
    let mut run = run.spawn();
    run.wait_stderr("; waiting", SOON);
    let since = Instant::now();
    eventually("it is behind by more than a tenth of the TTL", SOON, || {
        since.elapsed() > Duration::from_secs(3)
    });
    let expire = "UPDATE dblock.dblock_locks SET expires_at = renewed_at WHERE name = ?";
    standing.watcher().exec_drop(expire, (&name,)).unwrap();
    let end = run.wait_within(SOON);
    if end.stdout == "ran\n" {
        return false;
    }
    end.expect_code(78)
        .expect_stdout("")
        .expect_said(["the clocks of "]);
    true
}

#[test]
fn clocks_are_compared_as_they_are_when_a_row_is_taken_over() {
    let server = private(Kind::MariaDb);
    let stand_still = "SET GLOBAL init_connect = 'SET timestamp = UNIX_TIMESTAMP(NOW(6))'";
    server.admin().query_drop(stand_still).unwrap();
    let other = Server::durable(Kind::MariaDb);
    assert!((0..3).any(|_| refuses_by_the_clock_of_now(&server, other)));
}

/// Kills the keepers that are seen now, besides those before.
#[track_caller]
fn kill_next_keepers(run: &Running, seen: &mut Vec<i32>) {
    for pid in run.children().into_iter().filter(|pid| runs(*pid)) {
        if !seen.contains(&pid) {
            seen.push(pid);
            send(pid, Signal::SIGKILL);
        }
    }
}

#[test]
fn a_keeper_that_cannot_live_is_replaced_after_pauses_and_told_of_once() {
    let server = Server::durable(Kind::MariaDb);
    let name = unique("cannot-live");
    let folder = tempfile::tempdir().unwrap();
    let password = folder.path().join("password");
    std::fs::write(&password, PASSWORD).unwrap();
    let run = job(server, &name)
        .args(["-v", "--ttl", "30"])
        .env_remove("DBLOCK_PASSWORD");
    let mut run = run.arg("--password-file").arg(&password).spawn();
    let command = run.wait_pid("began");
    let keeper = run.keeper(Some(command));
    std::fs::remove_file(&password).unwrap();
    send(keeper, Signal::SIGKILL);
    // Each lives for milliseconds, and cannot be counted from outside; a thousand of them take their time of the processor.
    let spent = || -> u64 {
        let ticks = [13, 14].map(|field| stat_field(run.pid(), field).unwrap());
        ticks
            .iter()
            .map(|ticks| ticks.parse::<u64>().unwrap())
            .sum()
    };
    let are_many = within(Duration::from_secs(3), || spent() >= 100);
    assert!(!are_many, "{} hundredths of a second", spent());
    // A keeper that starts just now must not find half of it.
    let next = folder.path().join("next");
    std::fs::write(&next, PASSWORD).unwrap();
    std::fs::rename(&next, &password).unwrap();
    run.wait_stderr("is renewed again", SOON);
    drop(run.take_stdin());
    let end = run.wait_within(SOON);
    end.expect_code(5).expect_said(["released"]);
    let said = |text: &str| {
        end.stderr
            .lines()
            .filter(|line| line.contains(text))
            .count()
    };
    let counts = ["cannot read the password file", "another one goes on"].map(said);
    assert_eq!(counts, [1, 1], "{end:#?}");
}

#[test]
fn a_keeper_that_cannot_live_after_the_commands_end_is_replaced_for_as_long_as_the_lock_is_held() {
    let server = Server::durable(Kind::MariaDb);
    let name = unique("cannot-live-in-hold");
    let folder = tempfile::tempdir().unwrap();
    let [password, next] = ["password", "next"].map(|file| folder.path().join(file));
    std::fs::write(&password, PASSWORD).unwrap();
    let run = Dblock::run(server, &name).args(["-v", "--ttl", "1h", "--hold-at-least", "1h"]);
    let run = run.env_remove("DBLOCK_PASSWORD").without_terminal();
    let run = run.arg("--password-file").arg(&password);
    let mut run = run.sh("exit 5").spawn();
    run.wait_stderr("dblock: holding ", SOON);
    eventually("the keeper alone is left", SOON, || {
        run.children().len() == 1
    });
    let keeper = run.keeper(None);
    std::fs::remove_file(&password).unwrap();
    let killed = Instant::now();
    send(keeper, Signal::SIGKILL);
    eventually(
        "longer than keepers are replaced that give no reason",
        SOON,
        || killed.elapsed() > Duration::from_secs(3),
    );
    let expires = || -> Option<String> {
        let expires = "SELECT CAST(expires_at AS CHAR) FROM dblock.dblock_locks WHERE name = ?";
        let row: Option<Option<String>> = server.watcher().exec_first(expires, (&name,)).unwrap();
        row.flatten()
    };
    let before = expires().expect("it is held");
    // A keeper that starts just now must not find half of it.
    std::fs::write(&next, PASSWORD).unwrap();
    std::fs::rename(&next, &password).unwrap();
    eventually("it is renewed", SOON, || {
        expires().expect("it is held") > before
    });
    assert!(run.is_running(), "{}", run.stderr());
    let signalled = Instant::now();
    run.signal(Signal::SIGTERM);
    run.wait_within(SOON).expect_code(5);
    // It waits a second for the server.
    let is_late = signalled.elapsed() >= Duration::from_secs(1);
    let owner = row(server, &name).unwrap().owner;
    assert!(owner.is_none() || is_late, "it is released: {owner:?}");
}

#[test]
fn keepers_that_die_again_and_again_are_not_replaced_for_ever() {
    let server = Server::durable(Kind::MariaDb);
    for durable in [true, false] {
        let name = unique("again");
        let proxy = Proxy::to(server);
        let run = Dblock::run_at(&proxy.url(), &name).args(["--ttl", "60", "-v"]);
        let run = run
            .args(durable.then_some("--durable"))
            .stdin(Stdio::piped());
        let mut run = run.sh("echo began $$; cat; exit 5").spawn();
        let command = run.wait_pid("began");
        // None does what it is for.
        proxy.freeze();
        let mut seen = vec![command];
        // A keeper that lives for longer, as on a busy machine, is none of those that die again and again.
        eventually("no other keeper is started", SOON, || {
            kill_next_keepers(&run, &mut seen);
            run.stderr().contains("again and again")
        });
        assert!(seen.len() >= 7, "{seen:?}");
        proxy.thaw();
        let end = if durable {
            assert!(run.is_running() && runs(command), "its lease is not over");
            drop(run.take_stdin());
            let end = run.wait_within(SOON);
            end.expect_code(5)
                .expect_said(["the lock is not renewed any more", "released"]);
            end
        } else {
            let end = run.wait_within(SOON);
            end.expect_code(74)
                .expect_said(["again and again; ending the command"]);
            end
        };
        let said = end
            .stderr
            .lines()
            .filter(|line| line.contains("again and again"));
        assert_eq!(said.count(), 1, "{end:#?}");
        eventually("the lock is free", SOON, || server.holder(&name).is_none());
    }
}

//! `dblock status` tells who holds a lock, who waits, and for how long, as far as the server lets the account see it; and of
//! what it could not see, what would show it.

use std::collections::HashMap;
use std::io;
use std::process::Stdio;

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};
use nix::unistd::gethostname;
use serde_json::Value;

use crate::harness::{
    Dblock, Kind, PASSWORD, Running, SOON, Server, all_servers, both_servers, eventually, unique,
};

/// A dblock whose command runs until it is ended.
fn holder(server: &Server, name: &str) -> Running {
    let mut dblock = Dblock::run(server, name)
        .sh("echo held $DBLOCK_CONNECTION_ID; exec sleep 600")
        .spawn();
    dblock.wait_line("held ", SOON);
    dblock
}

/// A dblock that waits for a lock, as the only one.
fn waiter(server: &Server, name: &str) -> Running {
    let dblock = Dblock::run(server, name).args(["--wait", "60"]);
    let dblock = dblock.command(["true"]).spawn();
    eventually("it waits", SOON, || server.waiters(name).len() == 1);
    dblock
}

/// The connection of a holder.
fn connection(holder: &Running) -> u64 {
    let line = holder.stdout();
    line.trim().rsplit(' ').next().unwrap().parse().unwrap()
}

/// What `status --json` prints.
#[track_caller]
fn status(server: &Server, account: &str, names: &[&str]) -> Value {
    let run = Dblock::at(server, "status")
        .user(account)
        .arg("--json")
        .args(names)
        .output();
    run.expect_code(0).expect_silence();
    run.json()
}

/// The table.
#[track_caller]
fn table(server: &Server, account: &str, names: &[&str]) -> String {
    let run = Dblock::at(server, "status")
        .user(account)
        .args(names)
        .output();
    run.expect_code(0).expect_silence();
    run.stdout
}

fn lock<'a>(status: &'a Value, name: &str) -> &'a Value {
    let locks = status["locks"].as_array().unwrap();
    let lock = locks.iter().find(|lock| lock["name"] == name);
    lock.unwrap_or_else(|| panic!("no lock {name}: {status:#}"))
}

fn unseen(status: &Value) -> Vec<String> {
    let lines = status["not_visible"].as_array().unwrap();
    lines
        .iter()
        .map(|line| line.as_str().unwrap().to_owned())
        .collect()
}

fn host() -> String {
    gethostname().unwrap().into_string().unwrap()
}

/// Whether the server keeps what sessions say of themselves.
fn keeps_attributes(server: &Server) -> bool {
    let row: Option<(String, String)> = server
        .admin()
        .query_first("SHOW GLOBAL VARIABLES LIKE 'performance_schema'")
        .unwrap();
    row.is_some_and(|(_, value)| value == "ON")
}

fn the_holder(server: &Server) {
    let name = unique("held");
    let dblock = holder(server, &name);
    let id = connection(&dblock);
    for account in ["dblock", "admin"] {
        let account_password = if account == "admin" {
            "admin-secret"
        } else {
            PASSWORD
        };
        let run = Dblock::at(server, "status")
            .user(account)
            .env("DBLOCK_PASSWORD", account_password);
        let run = run.args(["--json", &name]).output();
        run.expect_code(0).expect_silence();
        let all = run.json();
        let holder = &lock(&all, &name)["holders"][0];
        assert_eq!(holder["slot"], 0, "{all:#}");
        assert_eq!(holder["connection"], id, "{all:#}");
        assert_eq!(holder["dblock"], true, "{all:#}");
        assert_eq!(
            lock(&all, &name)["killed_by"],
            serde_json::json!([]),
            "{all:#}"
        );
        let seen = holder["address"].as_str().unwrap();
        assert!(seen.starts_with("dblock@127.0.0.1:"), "{all:#}");
        assert!(holder["idle_seconds"].as_f64().unwrap() < 60.0, "{all:#}");
        // An account sees what its own sessions say, without any privilege.
        if keeps_attributes(server) && (account == "dblock" || server.kind == Kind::MySql) {
            assert_eq!(holder["host"], host(), "{all:#}");
            assert_eq!(holder["pid"], dblock.pid(), "{all:#}");
            assert_eq!(holder["program"], "sh", "{all:#}");
            assert_eq!(holder["client"], "dblock", "{all:#}");
            assert!(
                holder["user"].is_string() && holder["since"].is_string(),
                "{all:#}"
            );
            assert!(holder["held_seconds"].as_f64().unwrap() < 60.0, "{all:#}");
        }
        if !keeps_attributes(server) {
            assert_eq!(holder["host"], Value::Null, "{all:#}");
            let lines = unseen(&all).join("\n");
            assert!(lines.contains("performance_schema=ON"), "{lines}");
            // The way to the process is its port.
            let port = seen.rsplit(':').next().unwrap();
            assert!(
                lines.contains(&format!("ss -tnp 'sport = :{port}'")),
                "{lines}"
            );
        }
    }
    let table = table(server, "dblock", &[&name]);
    let line = table.lines().find(|line| line.starts_with(&name)).unwrap();
    assert!(
        line.contains("held") && line.contains(&id.to_string()),
        "{table}"
    );
}

all_servers! {
    fn a_slot_whose_holder_is_being_ended_is_told(server) {
        let name = unique("ending");
        let marker = server.hold(&format!("{name}#kill2"));
        let all = status(server, "dblock", &[&name]);
        let ending = &lock(&all, &name)["killed_by"][0];
        assert_eq!((&ending["slot"], &ending["connection"]), (&2.into(), &marker.connection_id().into()), "{all:#}");
        assert!(table(server, "dblock", &[&name]).contains("its holder is being ended by connection"));
    }

    fn those_who_wait_are_told_in_their_order(server) {
        let name = unique("queue");
        let _holder = holder(server, &name);
        let mut waiting = Vec::new();
        for number in 1..=3 {
            waiting.push(Dblock::run(server, &name).args(["--wait", "60"]).command(["true"]).spawn());
            eventually("it waits", SOON, || server.waiters(&name).len() == number);
        }
        let all = status(server, "dblock", &[&name]);
        let waiters = lock(&all, &name)["waiters"].as_array().unwrap();
        let order: Vec<u64> = waiters.iter().map(|waiter| waiter["connection"].as_u64().unwrap()).collect();
        let ids = server.waiters(&name);
        assert_eq!(order, ids, "{all:#}");
        for waiter in waiters {
            assert!(waiter["waited_seconds"].as_f64().unwrap() < 60.0, "{all:#}");
        }
        if server.kind == Kind::MySql {
            let pids: Vec<i64> = waiters.iter().map(|waiter| waiter["pid"].as_i64().unwrap()).collect();
            assert_eq!(pids, waiting.iter().map(|run| i64::from(run.pid())).collect::<Vec<_>>(), "{all:#}");
        }
        let table = table(server, "dblock", &[&name]);
        assert!(["waits 1", "waits 2", "waits 3"].iter().all(|state| table.contains(state)), "{table}");
    }

    fn a_name_that_holds_nothing_is_free(server on mysql) {
        let name = unique("free");
        let all = status(server, "dblock", &[&name]);
        assert_eq!(lock(&all, &name)["holders"], serde_json::json!([]));
        assert_eq!(lock(&all, &name)["waiters"], serde_json::json!([]));
        let table = table(server, "dblock", &[&name]);
        assert!(table.lines().any(|line| line.starts_with(&name) && line.contains("free")), "{table}");
    }

    fn a_plain_client_is_no_dblock(server) {
        let name = unique("plain");
        let client = server.hold(&name);
        let all = status(server, "dblock", &[&name]);
        let holder = &lock(&all, &name)["holders"][0];
        assert_eq!((&holder["connection"], &holder["dblock"]), (&client.connection_id().into(), &false.into()), "{all:#}");
        assert!(table(server, "dblock", &[&name]).contains("not dblock"));
    }

    fn a_plain_client_that_waits_is_told(server) {
        let name = unique("plain");
        let holder = holder(server, &name);
        let mut client = server.plain();
        let id = client.connection_id();
        let lock_name = name.clone();
        let waiting = std::thread::spawn(move || client.wait_for_lock(&lock_name));
        eventually("it is told", SOON, || {
            let all = status(server, "dblock", &[&name]);
            let waiters = lock(&all, &name)["waiters"].as_array().unwrap().clone();
            waiters.len() == 1 && waiters[0]["connection"] == id
        });
        drop(holder);
        waiting.join().unwrap();
    }

    fn a_long_name_is_found_by_its_whole_name(server on mariadb) {
        let name = format!("{}-{}", "long-".repeat(20), unique("name"));
        let dblock = holder(server, &name);
        let all = status(server, "dblock", &[&name]);
        assert_eq!(lock(&all, &name)["holders"][0]["connection"], connection(&dblock), "{all:#}");
    }

    fn a_reader_that_has_seen_enough_is_no_error(server on mariadb) {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let run = Dblock::at(server, "status").arg("--json").stdout(Stdio::from(writer)).output();
        run.expect_code(0).expect_silence();
    }

    fn holders_that_come_and_go_do_not_confuse_it(server) {
        let name = unique("busy");
        let script = format!("while :; do {} run --name {name} -- true; done", env!("CARGO_BIN_EXE_dblock"));
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script]).envs([("DBLOCK_URL", server.url()), ("DBLOCK_PASSWORD", PASSWORD.to_owned())]);
        let mut shell = shell.env("DBLOCK_SSL_MODE", "disabled").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        for _ in 0..15 {
            let all = status(server, "dblock", &[&name]);
            assert!(lock(&all, &name)["holders"].as_array().unwrap().len() <= 1, "{all:#}");
        }
        shell.kill().unwrap();
        shell.wait().unwrap();
    }
}

both_servers! {
    fn the_holder_of_a_lock_is_told(server) {
        the_holder(server);
    }

    fn each_slot_of_a_semaphore_is_told_and_the_head_of_the_queue_comes_first(server) {
        let name = unique("slots");
        let run = |script: &str| Dblock::run(server, &name).args(["-m", "2", "--wait", "60"]).sh(script).spawn();
        let mut running = [run("echo held; exec sleep 600"), run("echo held; exec sleep 600")];
        for one in &mut running {
            one.wait_line("held", SOON);
        }
        let _head = run("true");
        let place = format!("{name}#wait");
        eventually("one is at the head", SOON, || server.holder(&place).is_some());
        let _second = run("true");
        eventually("another waits behind it", SOON, || server.waiters(&place).iter().any(|id| Some(*id) != server.holder(&place)));
        // Between two of the head's statements, one in each second, nobody may see that it waits.
        let mut all = Value::Null;
        eventually("both are told", SOON, || {
            all = status(server, "dblock", &[&name]);
            lock(&all, &name)["waiters"].as_array().unwrap().len() == 2
        });
        let lock = lock(&all, &name);
        let slots: Vec<i64> = lock["holders"].as_array().unwrap().iter().map(|holder| holder["slot"].as_i64().unwrap()).collect();
        assert_eq!(slots, [0, 1], "{all:#}");
        let waiters = lock["waiters"].as_array().unwrap();
        assert_eq!(waiters[0]["connection"], server.holder(&place).unwrap(), "{all:#}");
    }

    fn a_holder_is_idle_for_no_longer_than_it_holds_the_lock(server on mysql) {
        let name = unique("idle");
        let _dblock = holder(server, &name);
        // The server counts whole seconds, the first of which ends sooner.
        eventually("it has held the lock for a second", SOON, || {
            let all = status(server, "dblock", &[&name]);
            let holder = &lock(&all, &name)["holders"][0];
            let [held, idle] = ["held_seconds", "idle_seconds"].map(|span| holder[span].as_f64().unwrap_or_default());
            assert!(idle <= held, "{all:#}");
            held > 1.0
        });
    }

    fn it_takes_no_lock(server) {
        let run = Dblock::at(server, "status").args(["-vv", &unique("none")]).output();
        run.expect_code(0);
        assert!(run.stderr.contains("IS_USED_LOCK") && !run.stderr.contains("GET_LOCK("), "{run:#?}");
        assert!(!run.stderr.contains(PASSWORD), "{run:#?}");
    }

    fn a_server_that_is_not_reached_or_refuses_is_told_as_with_run(server) {
        let status = || Dblock::at(server, "status");
        status().env("DBLOCK_PASSWORD", "wrong").output().expect_code(77).expect_one_line("refused the account");
        let nobody = status().env("DBLOCK_URL", "mysql://dblock@127.0.0.1:1/").args(["--connect-timeout", "0.3"]).output();
        nobody.expect_code(69).expect_one_line("no server could be reached within 300ms");
        assert_eq!(nobody.stdout, "");
        for wrong in ["", "a#1", "a\nb", " a"] {
            status().arg(wrong).output().expect_code(64).expect_one_line("dblock: NAME: the name");
        }
    }
}

#[test]
fn on_postgres_those_that_wait_in_a_statement_come_before_those_in_line() {
    let server = Server::shared(Kind::Postgres);
    let name = unique("before");
    let holder = holder(server, &name);
    let in_line = waiter(server, &name);
    let mut client = server.plain();
    let id = client.connection_id();
    let lock_name = name.clone();
    // It has the lock when its holder ends, and dblock when it ends.
    let waiting = std::thread::spawn(move || client.wait_for_lock(&lock_name));
    let mut seen = Vec::new();
    eventually("both are told", SOON, || {
        let all = status(server, "dblock", &[&name]);
        seen = lock(&all, &name)["waiters"].as_array().unwrap().clone();
        // The server tells a moment later since when one waits.
        seen.len() == 2
            && seen
                .iter()
                .all(|waiter| waiter["waited_seconds"].is_number())
    });
    assert_eq!(seen[0]["connection"], id, "{seen:#?}");
    drop(holder);
    waiting.join().unwrap();
    in_line.wait().expect_code(0);
}

#[test]
fn on_postgres_a_holder_with_the_longest_names_still_says_all_of_itself() {
    let server = Server::shared(Kind::Postgres);
    let folder = tempfile::tempdir().unwrap();
    // A lock's name of up to 200 bytes, each of which takes three in the comment: whole beside a short program, cut beside a long one.
    for letters in [1, 100] {
        let start = unique("long");
        let name = format!("{start}{}", "é".repeat((200 - start.len()) / 2));
        let program = folder.path().join("ü".repeat(letters));
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let command = [program.to_str().unwrap(), "600"];
        let dblock = Dblock::run(server, &name).command(command).spawn();
        let seen = || lock(&status(server, "dblock", &[&name]), &name)["holders"][0].clone();
        eventually("it is seen", SOON, || seen()["pid"] == dblock.pid());
        let holder = seen();
        assert_eq!(holder["host"], host(), "{holder:#}");
        assert_eq!(holder["program"], "ü".repeat(letters.min(24)), "{holder:#}");
        // Only the comment says these.
        assert!(
            holder["user"].is_string() && holder["since"].is_string(),
            "{holder:#}"
        );
    }
}

#[test]
fn the_holder_of_a_lock_is_told_where_mariadb_keeps_attributes() {
    the_holder(Server::with_performance_schema());
}

#[test]
fn the_holder_of_a_lock_is_told_where_mariadb_lists_locks() {
    let server = Server::with_lock_info();
    the_holder(server);
    // The server knows for how long.
    let name = unique("age");
    let _holder = server.hold(&name);
    let age = || {
        let all = status(server, "dblock", &[&name]);
        lock(&all, &name)["holders"][0]["held_seconds"]
            .as_f64()
            .expect("an age")
    };
    assert!(age() < 20.0);
    eventually("it ages", SOON, || age() > 0.1);
}

/// An account without a privilege is told which statements would show it more; they do.
fn what_is_not_visible_can_be_granted(server: &Server) {
    let account = server.account();
    let name = unique("others");
    let dblock = holder(server, &name);
    let _waiter = waiter(server, &name);
    let before = status(server, &account, &[&name]);
    let lock_before = lock(&before, &name);
    // Who has it every account may ask; nothing else.
    assert_eq!(
        lock_before["holders"][0]["connection"],
        connection(&dblock),
        "{before:#}"
    );
    assert_eq!(lock_before["holders"][0]["dblock"], true, "{before:#}");
    assert_eq!(
        lock_before["holders"][0]["address"],
        Value::Null,
        "{before:#}"
    );
    assert_eq!(lock_before["waiters"], serde_json::json!([]), "{before:#}");
    let listed = status(server, &account, &[]);
    let lines = [unseen(&before), unseen(&listed)].concat();
    let mut admin = server.admin();
    let mut granted = 0;
    for line in &lines {
        let grant = ["GRANT ", "INSTALL "]
            .iter()
            .find_map(|word| Some(&line[line.find(word)?..]));
        let Some(grant) = grant else { continue };
        let end = grant.find(" shows").unwrap_or_else(|| panic!("{line}"));
        match admin.query_drop(&grant[..end]) {
            // Installed before, or of another maturity than this server takes.
            Err(mysql::Error::MySqlError(error)) if [1968, 1126, 1123].contains(&error.code) => {}
            done => done.unwrap_or_else(|error| panic!("{grant}: {error}")),
        }
        granted += 1;
    }
    assert!(granted >= 2, "{lines:#?}");
    let after = status(server, &account, &[&name]);
    let lock_after = lock(&after, &name);
    assert!(
        lock_after["holders"][0]["address"]
            .as_str()
            .unwrap()
            .starts_with("dblock@"),
        "{after:#}"
    );
    assert_eq!(
        lock_after["waiters"].as_array().unwrap().len(),
        1,
        "{after:#}"
    );
    if keeps_attributes(server) {
        assert_eq!(lock_after["holders"][0]["pid"], dblock.pid(), "{after:#}");
        assert_eq!(unseen(&after), Vec::<String>::new(), "{after:#}");
    }
    if server.kind == Kind::MySql {
        lock(&status(server, &account, &[]), &name);
        assert_eq!(unseen(&status(server, &account, &[])), Vec::<String>::new());
    }
}

#[test]
fn an_account_is_told_what_would_show_it_more() {
    // On a server of its own, for a plugin is installed.
    for kind in [Kind::MariaDb, Kind::MySql] {
        what_is_not_visible_can_be_granted(&Server::private(kind));
    }
}

#[test]
fn an_account_is_told_what_would_show_it_more_where_mariadb_keeps_attributes() {
    what_is_not_visible_can_be_granted(&Server::private_with(
        Kind::MariaDb,
        &["--performance-schema=ON"],
    ));
}

#[test]
fn an_account_that_sees_all_processes_sees_those_who_wait() {
    for server in [Server::shared(Kind::MariaDb), Server::shared(Kind::MySql)] {
        let account = server.account();
        server
            .admin()
            .query_drop(format!("GRANT PROCESS ON *.* TO '{account}'@'%'"))
            .unwrap();
        let name = unique("process");
        let dblock = holder(server, &name);
        let _waiter = waiter(server, &name);
        let all = status(server, &account, &[&name]);
        assert_eq!(
            lock(&all, &name)["waiters"].as_array().unwrap().len(),
            1,
            "{all:#}"
        );
        assert_eq!(
            lock(&all, &name)["holders"][0]["connection"],
            connection(&dblock),
            "{all:#}"
        );
        assert!(
            !unseen(&all).iter().any(|line| line.contains("PROCESS")),
            "{all:#}"
        );
    }
}

/// The names that are listed without any being asked for.
fn listed(server: &Server, account: &str) -> Vec<String> {
    let all = status(server, account, &[]);
    let locks = all["locks"].as_array().unwrap();
    locks
        .iter()
        .map(|lock| lock["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn without_names_all_of_dblocks_locks_are_listed_where_the_server_can() {
    for server in [
        Server::shared(Kind::MySql),
        Server::with_performance_schema(),
        Server::with_lock_info(),
    ] {
        let (name, plain) = (unique("list"), unique("plain"));
        let slots = unique("slots");
        let _dblock = holder(server, &name);
        let _plain = server.hold(&plain);
        let mut second = Dblock::run(server, &slots)
            .args(["-m", "3"])
            .sh("echo held; exec sleep 600")
            .spawn();
        second.wait_line("held", SOON);
        let names = listed(server, "dblock");
        assert!(names.contains(&name) && names.contains(&slots), "{names:?}");
        assert!(
            !names.contains(&plain),
            "a plain client's lock is none of dblock's: {names:?}"
        );
    }
}

#[test]
fn a_server_that_takes_writes_again_is_waited_for() {
    let server = Server::private(Kind::MariaDb);
    server
        .admin()
        .query_drop("SET GLOBAL read_only = 1")
        .unwrap();
    let _held = server.hold("x");
    let mut run = Dblock::at(&server, "status")
        .args(["-v", "--connect-timeout", "50", "x"])
        .spawn();
    run.wait_stderr("is read-only", SOON);
    server
        .admin()
        .query_drop("SET GLOBAL read_only = 0")
        .unwrap();
    let run = run.wait();
    assert!(run.expect_code(0).stdout.contains("held"), "{run:#?}");
}

#[test]
fn a_name_with_capitals_is_listed_once() {
    let server = Server::shared(Kind::MySql);
    let name = unique("CapiTals");
    let dblock = holder(server, &name);
    let _waiter = waiter(server, &name);
    let run = Dblock::at(server, "status")
        .user("admin")
        .env("DBLOCK_PASSWORD", "admin-secret");
    let run = run.arg("--json").output();
    let all = run.json();
    let locks = all["locks"].as_array().unwrap();
    let same = locks
        .iter()
        .filter(|lock| lock["name"].as_str().unwrap().eq_ignore_ascii_case(&name));
    assert_eq!(same.count(), 1, "{all:#}");
    assert_eq!(
        lock(&all, &name)["holders"][0]["connection"],
        connection(&dblock),
        "{all:#}"
    );
    assert_eq!(
        lock(&all, &name)["waiters"].as_array().unwrap().len(),
        1,
        "{all:#}"
    );
}

#[test]
fn where_the_server_lists_nothing_those_that_are_waited_for_are_found() {
    let server = Server::shared(Kind::MariaDb);
    let (held, waited_for) = (unique("held"), unique("waited"));
    let _one = holder(server, &held);
    let _other = holder(server, &waited_for);
    let _waiter = waiter(server, &waited_for);
    let names = listed(server, "dblock");
    assert!(
        names.contains(&waited_for) && !names.contains(&held),
        "{names:?}"
    );
    let lines = unseen(&status(server, "dblock", &[])).join("\n");
    assert!(
        lines.contains("INSTALL SONAME 'metadata_lock_info'"),
        "{lines}"
    );
}

#[test]
fn where_nothing_is_held_that_is_said() {
    for kind in [Kind::MariaDb, Kind::MySql] {
        let server = Server::private(kind);
        assert!(
            table(&server, "dblock", &[]).starts_with("no lock of dblock's is held or waited for")
        );
    }
}

#[test]
fn a_server_that_takes_no_writes_is_warned_of() {
    for kind in [Kind::MariaDb, Kind::MySql] {
        let server = Server::private(kind);
        server
            .admin()
            .query_drop("SET GLOBAL read_only = 1")
            .unwrap();
        // It looks for another one for most of this time, and has the rest of it to answer.
        let status = Dblock::at(&server, "status").args(["--connect-timeout", "20", "x"]);
        let run = status.output();
        run.expect_code(0)
            .expect_one_line("is read-only, as a replica is");
        // One that does is passed on to.
        let other = Server::private(kind);
        let url = format!(
            "mysql://dblock@127.0.0.1:{},127.0.0.1:{}/",
            server.port, other.port
        );
        Dblock::at(&server, "status")
            .env("DBLOCK_URL", url)
            .arg("x")
            .output()
            .expect_code(0)
            .expect_silence();
    }
}

/// A client of the account `dblock` that says this of itself.
fn client_that_says(server: &Server, said: Option<&[(&str, &str)]>) -> Conn {
    let said = said.map(|said| {
        said.iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect::<HashMap<_, _>>()
    });
    let options = OptsBuilder::new()
        .ip_or_hostname(Some("127.0.0.1"))
        .tcp_port(server.port)
        .prefer_socket(false)
        .user(Some("dblock"))
        .pass(Some(PASSWORD))
        .connect_attrs(said);
    Conn::new(options).unwrap()
}

#[test]
fn what_a_client_says_of_itself_is_shown_as_said_and_cannot_steer_a_terminal() {
    for server in [
        Server::shared(Kind::MySql),
        Server::with_performance_schema(),
    ] {
        let name = unique("forged");
        let mut client = client_that_says(
            server,
            Some(&[
                ("program_name", "dblock"),
                ("lock", &name),
                ("host", "web\u{1b}[2J2\u{202e}"),
                ("pid", "1\n2"),
                ("os_user", "root\u{9b}31m"),
                ("command", "\u{7}report"),
                ("started", "99999999999999999999"),
                ("slots", "-1"),
            ]),
        );
        client
            .query_drop(format!("DO GET_LOCK('{name}', 0)"))
            .unwrap();
        let table = table(server, "dblock", &[&name]);
        assert!(
            !table.contains(|c: char| c.is_control() && c != '\n') && !table.contains('\u{202e}'),
            "{table:?}"
        );
        assert!(table.contains("web\\u{1b}[2J2\\u{202e}"), "{table}");
        // It does not prove that it is one, and the server has seen where it comes from.
        assert!(
            table.contains("unproved") && table.contains("dblock@127.0.0.1:"),
            "{table}"
        );
        let all = status(server, "dblock", &[&name]);
        assert_eq!(lock(&all, &name)["holders"][0]["dblock"], false, "{all:#}");
        let skip = Dblock::run(server, &name).command(["true"]).output();
        skip.expect_code(75)
            .expect_one_line("held by web\\u{1b}[2J2\\u{202e}, pid 1 2");
        drop(client);
        let mut silent = client_that_says(server, None);
        let name = unique("silent");
        silent
            .query_drop(format!("DO GET_LOCK('{name}', 0)"))
            .unwrap();
        let all = status(server, "dblock", &[&name]);
        assert_eq!(
            lock(&all, &name)["holders"][0]["connection"],
            silent.connection_id(),
            "{all:#}"
        );
    }
}

#[test]
fn what_a_client_says_of_itself_is_of_bounded_length() {
    let server = Server::private_with(
        Kind::MySql,
        &["--performance-schema-session-connect-attrs-size=65536"],
    );
    let long = "\u{1}é".repeat(3000);
    let all = [
        "program_name",
        "lock",
        "host",
        "pid",
        "os_user",
        "command",
        "started",
    ];
    let mut client = client_that_says(&server, Some(&all.map(|name| (name, &*long))));
    client.query_drop("DO GET_LOCK('long', 0)").unwrap();
    let all = status(&server, "dblock", &["long"]);
    let holder = &lock(&all, "long")["holders"][0];
    assert_eq!(holder["connection"], client.connection_id(), "{all:#}");
    assert!(
        holder["host"].as_str().unwrap().starts_with("\u{1}é"),
        "{all:#}"
    );
    Dblock::run(&server, "long")
        .command(["true"])
        .output()
        .expect_code(75)
        .expect_one_line("is held by");
}

#[test]
fn what_dblock_says_of_itself_fits_and_has_no_argument_of_the_command() {
    for server in [
        Server::shared(Kind::MySql),
        Server::with_performance_schema(),
    ] {
        let name = format!("{}{}", unique("long"), "é".repeat(80));
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(format!("a\u{1b}b{}", "ü".repeat(100)));
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let dblock = Dblock::run(server, &name)
            .command([program.to_str().unwrap(), "600.123"])
            .spawn();
        let rows = || -> HashMap<String, String> {
            let query = "SELECT ATTR_NAME, ATTR_VALUE FROM performance_schema.session_account_connect_attrs
                         WHERE PROCESSLIST_ID = (SELECT PROCESSLIST_ID FROM performance_schema.session_account_connect_attrs
                                                 WHERE ATTR_NAME = 'pid' AND ATTR_VALUE = ? LIMIT 1)";
            let rows: Vec<(String, String)> = server
                .client()
                .exec(query, (dblock.pid().to_string(),))
                .unwrap();
            rows.into_iter().collect()
        };
        eventually("it has connected", SOON, || !rows().is_empty());
        let said = rows();
        let all = [
            "program_name",
            "program_version",
            "lock",
            "host",
            "pid",
            "os_user",
            "command",
            "started",
            "waits",
            "slots",
            "ttl",
        ];
        assert!(
            all.iter().all(|name| said.contains_key(*name)) && !said.contains_key("_truncated"),
            "{said:#?}"
        );
        assert_eq!(said["host"], host());
        assert!(
            said["command"].starts_with("a\\u{1b}bü") && said["command"].len() <= 48,
            "{said:#?}"
        );
        assert!(
            !said.values().any(|value| value.contains("600.123")),
            "{said:#?}"
        );
        let size: usize = said
            .iter()
            .map(|(name, value)| name.len() + value.len() + 2)
            .sum();
        assert!(size <= 512, "{size} bytes: {said:#?}");
    }
}

//! One lock, one holder: however many ask, whoever asks, and from the first run to the last.

use std::time::Duration;

use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::harness::{
    Dblock, Kind, Packet, Proxy, Records, SOON, Server, Watcher, all_locks, all_servers,
    dblock_holds, eventually, has_session, holder, unique, waiters,
};

all_locks! {
    fn forty_that_wait_run_one_by_one_in_the_order_of_arrival(server, durable_mysql) {
        let (name, records) = (unique("forty"), Records::new());
        let (mut admin, client) = (server.watcher(), server.hold(&name));
        let mut queue = Vec::new();
        for id in 0..40 {
            let dblock = Dblock::run(server, &name).args(["-v", "--wait", "600"]);
            queue.push(dblock.command(records.command(id)).spawn());
            eventually("the next one waits", SOON, || waiters(&mut admin, &name).len() == id + 1);
        }
        drop(client);
        // Who says nothing for seconds, as on a machine that stands still, loses its session, and with it its place.
        let mut kept = Vec::new();
        for (id, dblock) in queue.into_iter().enumerate() {
            let output = dblock.wait();
            output.expect_code(0);
            if !output.stderr.contains("lost the session with ") {
                kept.push(id);
            }
        }
        let mut order = records.assert_no_overlap().order();
        assert!(order.len() == 40 && kept.len() > 20, "{order:?}, {kept:?}");
        order.retain(|id| kept.contains(id));
        assert_eq!(order, kept);
    }

    fn of_fifty_that_do_not_wait_the_winners_run(server, durable_mysql) {
        let (name, records) = (unique("crowd"), Records::new());
        let start = |id| {
            let dblock = Dblock::run(server, &name).args(["--connect-timeout", "50"]);
            dblock.command(records.command_around(id, "sleep 0.02")).spawn()
        };
        let crowd: Vec<_> = (0..50).map(start).collect();
        let codes: Vec<_> = crowd.into_iter().map(|dblock| dblock.wait().code).collect();
        let with = |code| codes.iter().filter(|&&one| one == Some(code)).count();
        assert_eq!(with(0), records.assert_no_overlap().order().len());
        assert!(with(0) > 0 && with(0) + with(75) == 50, "{codes:?}");
    }

    fn a_plain_client_keeps_dblock_out(server, durable_mysql) {
        let name = unique("plain");
        let client = server.hold(&name);
        let connection = format!("connection {}", client.connection_id());
        let output = Dblock::run(server, &name).sh("echo ran").output();
        output.expect_code(75).expect_stdout("").expect_one_line(&connection);
        drop(client);
        eventually("the client is gone", SOON, || server.holder(&name).is_none());
        Dblock::run(server, &name).sh("echo ran").output().expect_code(0).expect_stdout("ran\n");
    }

    fn dblock_keeps_a_plain_client_out(server, durable_mysql) {
        let name = unique("plain");
        let held = dblock_holds(server, &name);
        let mut client = server.plain();
        assert!(!client.try_lock(&name));
        assert_eq!(holder(&mut client, &name), Some(held.connection));
        drop(held);
        eventually("the lock is free", SOON, || client.try_lock(&name));
    }

    fn different_names_do_not_meet(server, durable_mysql) {
        let _held = dblock_holds(server, &unique("one"));
        Dblock::run(server, &unique("other")).command(["true"]).output().expect_code(0);
    }

    fn forty_runs_in_a_row_never_meet_their_own_ghost(server, durable_mysql) {
        let name = unique("row");
        for _ in 0..40 {
            Dblock::run(server, &name).command(["true"]).output().expect_code(0).expect_silence();
        }
    }

    fn nothing_is_left_on_the_server(server, durable_mysql) {
        let name = unique("left");
        let mut admin = server.watcher();
        for script in ["echo $DBLOCK_CONNECTION_ID", "echo $DBLOCK_CONNECTION_ID; exit 3"] {
            let output = Dblock::run(server, &name).sh(script).output();
            assert_eq!(holder(&mut admin, &name), None, "still held when dblock has exited");
            let connection = output.stdout.trim().parse().unwrap();
            eventually("the session is gone", SOON, || !has_session(&mut admin, connection));
        }
    }

    fn a_skip_leaves_nothing_on_the_server(server, durable_mysql) {
        let name = unique("skip");
        let _held = dblock_holds(server, &name);
        let mut admin = server.watcher();
        Dblock::run(server, &name).args(["--wait", "0.1"]).command(["true"]).output().expect_code(75);
        eventually("nobody waits", SOON, || waiters(&mut admin, &name).is_empty());
    }

    fn a_skip_says_goodbye_to_the_server(server, durable_mysql) {
        // One that does not is an aborted connection in the server's log.
        let (name, proxy) = (unique("goodbye"), Proxy::to(server));
        let _client = server.hold(&name);
        for connection in 0..30 {
            Dblock::run_at(&proxy.url(), &name).command(["true"]).output().expect_code(75);
            let quit = |packet: &Packet| packet.connection == connection && packet.is_quit();
            eventually("the goodbye", SOON, || proxy.packets().iter().any(quit));
        }
    }

    fn a_command_outlasts_the_servers_limit_for_idle_sessions(server, durable_mysql) {
        let options: &[&str] = match server.kind {
            Kind::Postgres => &["-c", "idle_session_timeout=1s"],
            Kind::MariaDb | Kind::MySql => &["--wait-timeout=1"],
        };
        let server = &Server::private_with(server.kind, options);
        let name = unique("idle");
        Dblock::run(server, &name).sh("sleep 3; exit 3").output().expect_code(3).expect_silence();
    }

    fn background_processes_of_the_command_do_not_keep_the_lock(server, durable_mysql) {
        let name = unique("background");
        let output = Dblock::run(server, &name).sh("sleep 50 & echo $!").output();
        output.expect_code(0).expect_took(Duration::ZERO, SOON);
        assert_eq!(server.holder(&name), None);
        let sleep = Pid::from_raw(output.stdout.trim().parse().unwrap());
        kill(sleep, nix::sys::signal::SIGKILL).expect("what the command left behind lives on");
    }
}

// What happens to a named lock, which ends with its session.
all_servers! {
    fn a_session_that_is_killed_is_told_even_if_the_command_ends_with_it(server) {
        let mut admin = server.watcher();
        let mut dblock = Dblock::run(server, &unique("killed")).arg("-q").sh("echo $DBLOCK_CONNECTION_ID; read line").stdin(std::process::Stdio::piped()).spawn();
        let connection = dblock.wait_line("", SOON).parse().unwrap();
        let end = dblock.take_stdin();
        admin.end_session(connection);
        drop(end);
        dblock.wait().expect_code(1).expect_one_line("lost");
    }

    fn a_session_that_is_killed_under_a_command_is_told(server) {
        let (name, records) = (unique("killed"), Records::new());
        let go = records.path().join("go");
        let script = format!("echo $DBLOCK_CONNECTION_ID; until [ -e {} ]; do sleep 0.1; done; exit 3", go.display());
        let mut dblock = Dblock::run(server, &name).sh(&script).spawn();
        let connection = dblock.wait_line("", SOON).parse().unwrap();
        server.watcher().end_session(connection);
        dblock.wait_stderr("reacquired after", SOON);
        assert!(dblock.is_running(), "the command runs on");
        std::fs::write(go, "").unwrap();
        let end = dblock.wait();
        end.expect_code(3).expect_line(&format!("dblock: {name} was lost"));
        assert_eq!(end.stderr.lines().count(), 2, "{end:#?}");
    }
}

//! The lock with a lease: what the server is told, how often possession is proved, and on which servers there is none.

use std::process::Stdio;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use nix::sys::signal::Signal;

use crate::harness::{
    Answer, Dblock, Fake, Frozen, Hangs, Kind, Packet, Proxy, SOON, Server, all_servers,
    both_servers, copy_program, each_lock, eventually, eventually_forked, has_begun, holder,
    is_stopped, pty, send, slack, unique, within,
};
use pty::{SUSPEND, Shell};

/// The connection that the scripted server says is dblock's.
const OWN: &str = "7";

const BOTH: [Kind; 2] = [Kind::MariaDb, Kind::MySql];

/// What a scripted server says of itself. `None` is NULL.
#[derive(Clone, Copy)]
struct Traits {
    read_only: Option<&'static str>,
    /// Whose the lock is that tells dblock's sessions from others.
    mark: Option<&'static str>,
    wait_timeout: Option<&'static str>,
    version_comment: Option<&'static str>,
    wsrep_on: Option<&'static str>,
}

/// A server that has nothing against it.
const FIT: Traits = Traits {
    read_only: Some("0"),
    mark: Some(OWN),
    wait_timeout: None,
    version_comment: Some("told by the test"),
    wsrep_on: None,
};

/// A scripted server that gives its lock to whoever asks, and says this of itself.
fn server(kind: Kind, traits: Traits) -> Fake {
    Fake::start(kind, move |statement| match statement {
        _ if !statement.starts_with("SELECT") => Answer::Ok,
        _ if statement.contains("SELECT RELEASE_LOCK") => row(&[Some("1"), None]),
        _ => row(&[
            Some("0"),
            Some("0"),
            Some(OWN),
            traits.read_only,
            None,
            traits.mark,
            traits.wait_timeout,
            traits.version_comment,
            traits.wsrep_on,
        ]),
    })
}

fn row(cells: &[Option<&str>]) -> Answer {
    Answer::Row(cells.iter().map(|cell| cell.map(str::to_owned)).collect())
}

/// A call whose command says that it ran.
fn call(server: &Fake) -> Dblock {
    Dblock::run_at(&server.url(), "x").sh("echo ran")
}

/// dblock runs nothing there and says why, and what it is to be told if it is to run all the same; then it does.
#[track_caller]
fn refused(traits: Traits, why: &str) {
    for kind in BOTH {
        let fake = server(kind, traits);
        let run = call(&fake).output();
        run.expect_code(78)
            .expect_stdout("")
            .expect_one_line(why)
            .expect_said(["--allow-unfit-server"]);
        let allowed = call(&fake).arg("--allow-unfit-server").output();
        allowed
            .expect_code(0)
            .expect_stdout("ran\n")
            .expect_one_line(why)
            .expect_said(["locking there anyway"]);
    }
}

/// The heartbeats among the packets of a client.
fn heartbeats(proxy: &Proxy) -> Vec<Packet> {
    let is_one = |packet: &Packet| {
        packet
            .sent()
            .is_some_and(|sent| sent.starts_with("/* dblock renew"))
    };
    proxy.packets().into_iter().filter(is_one).collect()
}

#[test]
fn a_time_to_live_is_whole_seconds_from_four_to_a_day() {
    let run = |args: &[&str]| {
        Dblock::run_at("mysql://u@127.0.0.1:1/", "x")
            .args(["--connect-timeout", "0.1"])
            .args(args)
            .command(["true"])
            .output()
    };
    for wrong in [
        "", "0", "3", "3.9s", "4.5", "3s 999ms", "86401", "2d", "-4", "four", "forever",
    ] {
        let run = run(&["--ttl", wrong]);
        run.expect_code(64).expect_one_line("--ttl");
    }
    for right in ["4", "4.0", "5m", "1d", "86400s"] {
        run(&["--ttl", right]).expect_code(69);
    }
    for wrong in ["", "reaquire", "REACQUIRE", "fail"] {
        let run = run(&["--on-lock-lost", wrong]);
        run.expect_code(64).expect_one_line("--on-lock-lost");
    }
}

#[test]
fn the_command_has_a_third_of_the_time_to_live_to_end_at_most() {
    let run = |ttl: &[&str], kill_after: &str| {
        Dblock::run_at("mysql://u@127.0.0.1:1/", "x")
            .args(["--connect-timeout", "0.1"])
            .args(ttl)
            .args(["--kill-after", kill_after])
            .command(["true"])
            .output()
    };
    run(&["--ttl", "30"], "10.1")
        .expect_code(64)
        .expect_one_line("--kill-after: 10s 100ms is more than a third of the TTL, which is 30s");
    run(&[], "101").expect_code(64).expect_one_line("5m");
    run(&["--ttl", "30"], "10").expect_code(69);
    run(&[], "100").expect_code(69);
}

#[test]
fn a_server_on_which_a_lock_does_not_exclude_is_refused() {
    let galera = [
        Traits {
            wsrep_on: Some("1"),
            ..FIT
        },
        Traits {
            version_comment: Some("Percona XtraDB Cluster (GPL), Release rel26"),
            ..FIT
        },
    ];
    for traits in galera {
        refused(traits, "Galera");
    }
    let one_lock = Traits { mark: None, ..FIT };
    refused(one_lock, "one named lock only");
    let shared = Traits {
        mark: Some("99"),
        ..FIT
    };
    refused(shared, "from different sessions");
    let forgetful = Traits {
        wait_timeout: Some("28800"),
        ..FIT
    };
    refused(forgetful, "wait_timeout is 28800 and not 300");
    let hasty = Traits {
        wait_timeout: Some("3"),
        ..FIT
    };
    refused(hasty, "after 3 s");
    for read_only in ["1", "ON", "NO_LOCK"] {
        let replica = Traits {
            read_only: Some(read_only),
            ..FIT
        };
        refused(replica, "read-only");
    }
}

#[test]
fn a_server_that_has_nothing_against_it_is_taken_without_a_word() {
    let off = [Some("0"), Some("OFF"), None];
    for kind in BOTH {
        for read_only in off {
            for wsrep_on in off {
                let traits = Traits {
                    read_only,
                    wsrep_on,
                    wait_timeout: Some("300"),
                    ..FIT
                };
                let run = call(&server(kind, traits)).output();
                run.expect_code(0).expect_stdout("ran\n").expect_silence();
            }
        }
    }
}

#[test]
fn a_session_that_turns_out_to_be_another_ones_is_refused() {
    // The handshake gave another number than the session has: something is in between.
    for kind in BOTH {
        for kept in [true, false] {
            let fake = Fake::start(kind, move |statement| match statement {
                _ if !statement.starts_with("SELECT") => Answer::Ok,
                _ if statement.contains("SELECT RELEASE_LOCK") => row(&[Some("1"), None]),
                _ if statement.contains("GET_LOCK") => {
                    row(&[Some("0"), Some("0"), Some(OWN), None, None, Some(OWN)])
                }
                _ => row(&[Some(if kept { "0" } else { "-1" }), Some("0"), Some(OWN)]),
            });
            let run = call(&fake).output();
            if kept {
                run.expect_code(0).expect_silence();
            } else {
                run.expect_code(78)
                    .expect_stdout("")
                    .expect_one_line("from different sessions");
            }
        }
    }
}

#[test]
fn a_server_that_lacks_a_variable_is_waited_on_in_one_session() {
    for kind in BOTH {
        let mut taken = true;
        let fake = Fake::start(kind, move |statement| {
            if statement.contains("wsrep_on") {
                return Answer::error(1193, "Unknown system variable 'wsrep_on'");
            }
            match statement {
                _ if !statement.starts_with("SELECT") => Answer::Ok,
                _ if statement.contains("SELECT RELEASE_LOCK") => row(&[Some("1"), None]),
                _ if statement.contains("wait_timeout") => {
                    row(&[Some("-1"), None, Some(OWN), None, None, Some(OWN)])
                }
                // The wait lasts longer than an answer may that was promised in one packet with another.
                _ if statement.contains("GET_LOCK(") && std::mem::take(&mut taken) => {
                    within(Duration::from_millis(3500), || false);
                    row(&[Some("0"), None, Some(OWN)])
                }
                _ => row(&[Some("0"), None, Some(OWN)]),
            }
        });
        let run = call(&fake).args(["--connect-timeout", "3", "--wait", "20"]);
        let run = run.output();
        run.expect_code(0).expect_stdout("ran\n").expect_silence();
        let opens = |one: &&String| one.contains("@dblock");
        assert_eq!(
            fake.statements().iter().filter(opens).count(),
            2,
            "again only for the variable"
        );
    }
}

#[test]
fn a_server_that_lacks_a_variable_is_asked_without_it() {
    for kind in BOTH {
        let fake = Fake::start(kind, move |statement| {
            for name in ["wsrep_on", "innodb_read_only"] {
                if statement.contains(name) {
                    return Answer::error(1193, &format!("Unknown system variable '{name}'"));
                }
            }
            match statement {
                _ if !statement.starts_with("SELECT") => Answer::Ok,
                _ if statement.contains("SELECT RELEASE_LOCK") => row(&[Some("1"), None]),
                _ => row(&[Some("0"), Some("0"), Some(OWN), None, None, Some(OWN)]),
            }
        });
        let run = call(&fake).output();
        run.expect_code(0).expect_stdout("ran\n").expect_silence();
    }
}

all_servers! {
    fn possession_is_proved_four_times_in_the_time_to_live(server) {
        let (name, proxy) = (unique("heartbeat"), Proxy::to(server));
        let begun = Instant::now();
        let mut run = Dblock::run_at(&proxy.url(), &name)
            .args(["--ttl", "8", "--kill-after", "0.5"])
            .stdin(Stdio::piped())
            .sh("echo held; read x; exit 0")
            .spawn();
        run.wait_line("held", SOON);
        eventually("four heartbeats", SOON, || heartbeats(&proxy).len() >= 4);
        assert!(begun.elapsed() > Duration::from_millis(7500), "{:?}", begun.elapsed());
        let beats = heartbeats(&proxy);
        for pair in beats.windows(2) {
            let gap = pair[1].at - pair[0].at;
            assert!(gap < Duration::from_secs(2) + slack(), "{gap:?}");
        }
        drop(run.take_stdin());
        run.wait().expect_code(0).expect_silence();
        assert!(beats.iter().all(|beat| !beat.statements().unwrap_or_default().contains(';')), "{beats:?}");
    }

    fn a_holder_says_nothing_more_often_than_once_a_minute(server) {
        let (name, proxy) = (unique("quiet"), Proxy::to(server));
        let mut run = Dblock::run_at(&proxy.url(), &name).stdin(Stdio::piped()).sh("echo held; read x; exit 0").spawn();
        run.wait_line("held", SOON);
        let before = proxy.packets().len();
        within(Duration::from_secs(5), || false);
        assert_eq!(proxy.packets().len(), before, "{:?}", proxy.packets());
        drop(run.take_stdin());
        run.wait().expect_code(0);
    }

    fn who_is_stopped_by_the_terminal_for_longer_than_the_time_to_live_gives_the_lock_away(server) {
        let mut admin = server.watcher();
        let mut shell = Shell::start(server);
        shell.dblock("--ttl 10 --kill-after 0.2 sh -c 'echo shell $$; while :; do sleep 0.1; done'");
        shell.wait_pid("shell");
        let name = shell.name.clone();
        // It is kept for as long as it is not stopped, also where the machine stands still for seconds.
        assert!(!within(Duration::from_secs(11), || holder(&mut admin, &name).is_none()));
        shell.enter(SUSPEND);
        shell.wait_for("Stopped");
        eventually("the lock is free", Duration::from_secs(11) + slack(), || holder(&mut admin, &name).is_none());
        let client = server.hold(&name);
        shell.enter("fg");
        shell.wait_for("was lost");
        shell.expect_code(74);
        drop(client);
    }
}

both_servers! {
    fn the_server_keeps_a_holder_for_the_time_to_live_and_a_waiter_for_seconds(server) {
        let (name, proxy) = (unique("limits"), Proxy::to(server));
        let run = |ttl| Dblock::run_at(&proxy.url(), &name).args(["--ttl", ttl, "--wait", "50"]).stdin(Stdio::piped());
        let mut first = run("77").sh("echo held; read x; exit 0").spawn();
        first.wait_line("held", SOON);
        let mut second = run("78").sh("echo held; read x; exit 0").spawn();
        eventually("it waits", SOON, || server.waiters(&name).len() == 1);
        let sets = || -> Vec<(usize, String)> {
            let set = |packet: Packet| {
                let text = packet.statements()?;
                let (_, value) = text.split_once("wait_timeout=")?;
                let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
                Some((packet.connection, value[..end].to_owned()))
            };
            proxy.packets().into_iter().filter_map(set).collect()
        };
        let pair = |connection: usize, value: &str| (connection, value.to_owned());
        assert_eq!(sets(), [pair(0, "77"), pair(1, "78"), pair(1, "3")]);
        drop(first.take_stdin());
        second.wait_line("held", SOON);
        assert_eq!(sets()[3..], [pair(1, "78")]);
        drop(second.take_stdin());
        for run in [first, second] {
            run.wait().expect_code(0).expect_silence();
        }
    }

    fn an_answer_counts_from_when_it_was_asked_for(server) {
        let (name, proxy) = (unique("late"), Proxy::to(server));
        let run = Dblock::run_at(&proxy.url(), &name).without_terminal().args(["--ttl", "8"]);
        let mut run = run.sh("echo held $$; exec sleep 60").spawn();
        let command = run.wait_pid("held");
        let keeper = run.keeper(Some(command));
        proxy.freeze();
        let before = heartbeats(&proxy).len();
        eventually("a heartbeat", SOON, || heartbeats(&proxy).len() > before);
        let asked = heartbeats(&proxy)[before].at;
        // The answer arrives late; the next one, which is due by then, never does.
        send(keeper, Signal::SIGSTOP);
        proxy.thaw();
        within(Duration::from_secs(2), || false);
        eventually("it is answered", SOON, || proxy.is_answered(0));
        proxy.freeze();
        send(keeper, Signal::SIGCONT);
        let end = run.wait_within(SOON);
        let lasted = asked.elapsed();
        // SIGTERM comes at 0.9 × 8 s, less a quarter of 8 s for SIGKILL; two seconds later if it counted from the answer.
        let due = Duration::from_millis(5200);
        // The proxy may have seen the question some time after it was asked: by a tenth of a second where nothing else runs.
        let late = slack().saturating_sub(Duration::from_millis(900));
        assert!(lasted + late > due && lasted < due + slack(), "{lasted:?}");
        end.expect_code(74).expect_said(["the server has not renewed it for"]);
    }

    fn a_waiter_that_lost_its_session_lets_those_who_held_the_lock_ask_first(server) {
        let (name, proxy) = (unique("stands-back"), Proxy::to(server));
        let client = server.hold(&name);
        let run = Dblock::run_at(&proxy.url(), &name).args(["--wait", "50"]).sh("echo ran").spawn();
        let mut waiters = Vec::new();
        eventually("it waits", SOON, || {
            waiters = server.waiters(&name);
            waiters.len() == 1
        });
        let killed = Instant::now();
        server.admin().query_drop(format!("KILL {}", waiters[0])).unwrap();
        let asks = |packet: &Packet| packet.connection == 1 && packet.statements().is_some();
        eventually("it asks again", SOON, || proxy.packets().iter().any(asks));
        let asked = proxy.packets().into_iter().find(asks).expect("it was just seen").at;
        let after = asked - killed;
        let due = Duration::from_secs(2);
        assert!(after >= due, "{after:?}");
        drop(client);
        run.wait().expect_code(0).expect_stdout("ran\n");
    }

    fn signals_the_end_and_the_time_limit_are_served_while_the_server_is_silent(server) {
        let script = "trap 'echo one' USR1; trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done";
        for (options, code) in [(&[][..], 9), (&["--timeout", "7"], 124)] {
            let (name, proxy) = (unique("silent"), Proxy::to(server));
            let mut run = Dblock::run_at(&proxy.url(), &name)
                .without_terminal()
                .args(["--ttl", "16", "--connect-timeout", "3"])
                .args(options)
                .sh(script)
                .spawn();
            run.wait_line("ready", SOON);
            proxy.freeze();
            eventually("a heartbeat is on its way", SOON, || heartbeats(&proxy).len() == 1);
            run.signal(Signal::SIGUSR1);
            run.wait_line("one", Duration::from_secs(3));
            if options.is_empty() {
                run.signal(Signal::SIGTERM);
            }
            // After the command's end the server's answer is waited for as long as a server is sought.
            let end = run.wait_within(Duration::from_secs(7) + slack());
            end.expect_code(code).expect_said(["the server did not answer"]);
            proxy.thaw();
        }
    }

    fn a_server_that_keeps_sessions_for_less_is_told_of_and_obeyed(server) {
        let server = &Server::private_with(server.kind, &["--maximum-wait-timeout=8"]);
        let (name, proxy) = (unique("short"), Proxy::to(server));
        let mut run = Dblock::run_at(&proxy.url(), &name).args(["--kill-after", "1"]).stdin(Stdio::piped()).sh("echo held; read x; exit 0").spawn();
        run.wait_line("held", SOON);
        // Longer than the server keeps one that says nothing.
        eventually("five heartbeats", SOON, || heartbeats(&proxy).len() >= 5);
        drop(run.take_stdin());
        run.wait().expect_code(0).expect_one_line("keeps a session for 8s without a statement, not for 5m");
        let run = Dblock::run(server, &name).args(["--ttl", "5"]).command(["true"]).output();
        run.expect_code(0).expect_silence();

        let server = &Server::private_with(server.kind, &["--maximum-wait-timeout=3"]);
        let run = Dblock::run(server, &name).sh("echo ran").output();
        run.expect_code(78).expect_stdout("").expect_one_line("after 3 s");
        // The server notices the end of a session a moment later.
        eventually("nothing is left", SOON, || server.holder(&name).is_none());
    }

    fn who_is_stopped_by_the_terminal_for_less_keeps_it(server) {
        let mut shell = Shell::start(server);
        shell.dblock("--ttl 30 sh -c 'trap \"exit 5\" USR1; echo shell $$; while :; do sleep 0.1; done'");
        let command = shell.wait_pid("shell");
        shell.enter(SUSPEND);
        shell.wait_for("Stopped");
        let held = server.holder(&shell.name);
        shell.enter("fg");
        eventually("the command runs on", SOON, || !is_stopped(command));
        send(command, Signal::SIGUSR1);
        shell.expect_code(5);
        assert!(held.is_some());
        assert!(!shell.all().contains("lost"), "{}", shell.all());
    }
}

each_lock! {
    fn a_command_that_is_stopped_before_its_first_instruction_keeps_its_lock(server) {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        copy_program("/bin/true", &program);
        let hangs = Hangs::new(&program);
        let name = unique("unstarted");
        let run = Dblock::run(server, &name).without_terminal().args(["--ttl", "10", "--kill-after", "0.2"]);
        let mut run = run.command([&program]).spawn();
        eventually("it holds the lock", SOON, || server.holder(&name).is_some());
        let held = server.holder(&name);
        let command = eventually_forked(run.pid());
        let frozen = Frozen::new(command);
        // Longer than the lease, which outlasts some seconds in which the machine stands still.
        let lost = within(Duration::from_secs(12), || server.holder(&name) != held);
        assert!(!lost && run.is_running(), "{}", run.stderr());
        assert_eq!(has_begun(command), Some(false));
        drop((hangs, frozen));
        run.wait_within(SOON).expect_code(0);
    }
}

each_lock! {
    fn a_command_that_takes_no_notice_of_ctrl_z_keeps_its_lock(server) {
        let mut shell = Shell::start(server);
        let durable = if server.durable { "--durable" } else { "" };
        let command = "sh -c 'trap \"\" TSTP; trap \"exit 5\" USR1; echo shell $$; while :; do sleep 0.1; done'";
        shell.dblock(&format!("{durable} --ttl 10 --kill-after 0.2 {command}"));
        let command = shell.wait_pid("shell");
        let held = server.holder(&shell.name);
        shell.enter(SUSPEND);
        shell.wait_for("Stopped");
        assert!(!is_stopped(command));
        // Longer than the lease, which outlasts some seconds in which the machine stands still.
        let lost = within(Duration::from_secs(12), || server.holder(&shell.name) != held);
        assert!(!lost, "the command runs on without its lock");
        if server.durable {
            let renewed = "SELECT expires_at > UTC_TIMESTAMP(6) FROM dblock.dblock_locks WHERE name = ? AND owner IS NOT NULL";
            let renewed: Option<bool> = server.watcher().exec_first(renewed, (&shell.name,)).unwrap();
            assert_eq!(renewed, Some(true), "the row is renewed, too");
        }
        Dblock::run(server, &shell.name).command(["true"]).output().expect_code(75);
        shell.enter("fg");
        send(command, Signal::SIGUSR1);
        shell.expect_code(5);
        assert!(!shell.all().contains("lost"), "{}", shell.all());
    }
}

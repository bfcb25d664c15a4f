//! A wait is as long as asked, whatever the server, its administrator or the network does meanwhile.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use nix::sys::signal::{SigHandler, Signal, signal};

use crate::harness::{
    Client, Dblock, Kind, Proxy, Running, SOON, Server, Watcher, all_locks, both_locks, each_lock,
    each_way, eventually, holder, in_time, is_stopped, slack, unique, waiters, within,
};

/// How much longer or shorter than asked a wait may be.
const PRECISION: Duration = Duration::from_millis(100);

/// Waits until exactly one waits for the lock; its connection.
#[track_caller]
fn the_waiter(admin: &mut impl Watcher, name: &str) -> u64 {
    let mut found = Vec::new();
    eventually("one waits", SOON, || {
        found = waiters(admin, name);
        found.len() == 1
    });
    found[0]
}

/// Waits for one of so many slots in vain. How long dblock sought it, from its first question to its last word, as the
/// network saw it.
fn sought(server: &Server, name: &str, slots: u32, wait: f64) -> Duration {
    let proxy = Proxy::to(server);
    let dblock = Dblock::run_at(&proxy.url(), name).args(["--wait", &wait.to_string()]);
    let dblock = dblock.args(["-m", &slots.to_string()]);
    let output = dblock.sh("echo ran").output();
    output
        .expect_code(75)
        .expect_stdout("")
        .expect_one_line(name);
    assert!(output.took >= Duration::from_secs_f64(wait), "{output:#?}");
    let packets = proxy.packets();
    packets[packets.len() - 1].at - packets[0].at
}

/// A wait that is never within the precision is wrong; one that is not in some of thirty tries met a busy machine.
fn assert_as_long_as_asked(server: &Server, slots: u32, wait: f64) {
    let name = unique("length");
    let _client = server.hold(&name);
    let _others: Vec<_> = (1..slots)
        .map(|slot| server.hold(&format!("{name}#{slot}")))
        .collect();
    let mut seen = Vec::new();
    let precise = (0..30).any(|_| {
        seen.push(sought(server, &name, slots, wait));
        seen[seen.len() - 1].abs_diff(Duration::from_secs_f64(wait)) <= PRECISION
    });
    assert!(precise, "a wait of {wait} s took {seen:?}");
}

all_locks! {
    fn a_wait_is_as_long_as_asked(server) {
        thread::scope(|scope| {
            for wait in [0.5, 1.0, 1.5, 2.3] {
                scope.spawn(move || assert_as_long_as_asked(server, 1, wait));
            }
        });
    }

    fn a_wait_for_one_of_several_slots_is_as_long_as_asked(server) {
        thread::scope(|scope| {
            for wait in [0.3, 1.0, 2.3] {
                scope.spawn(move || assert_as_long_as_asked(server, 3, wait));
            }
        });
    }

    fn a_wait_may_be_longer_than_the_connect_timeout(server) {
        thread::scope(|scope| {
            for slots in ["1", "2"] {
                scope.spawn(move || {
                    let name = unique("longer");
                    let _clients = [server.hold(&name), server.hold(&format!("{name}#1"))];
                    let dblock = Dblock::run(server, &name).args(["--connect-timeout", "4", "--wait", "6", "-v"]);
                    let output = dblock.args(["-m", slots]).command(["true"]).output();
                    output.expect_code(75).expect_took(Duration::from_secs(6), Duration::from_secs(6) + slack());
                    output.expect_said([format!("{name} is held by connection "), "; waiting\n".to_owned()]);
                });
            }
        });
    }

    fn a_lock_that_is_freed_meanwhile_is_had_at_once(server) {
        let name = unique("freed");
        let client = server.hold(&name);
        let mut dblock = Dblock::run(server, &name).args(["--wait", "30"]).sh("echo ran").spawn();
        the_waiter(&mut server.watcher(), &name);
        drop(client);
        let freed = Instant::now();
        dblock.wait_line("ran", SOON);
        let took = freed.elapsed();
        // There a client that is none of dblock's tells nobody, and the waiter looks once a second.
        let looks = Duration::from_secs(u64::from(server.kind == Kind::Postgres));
        assert!(took < looks + slack(), "{took:?}");
        dblock.wait().expect_code(0);
    }

    fn an_interrupted_waiter_waits_on(server, durable_mysql) {
        let name = unique("interrupted");
        let (client, mut admin) = (server.hold(&name), server.watcher());
        let dblock = Dblock::run(server, &name).args(["--wait", "30"]).sh("echo ran").spawn();
        for _ in 0..5 {
            let waiter = the_waiter(&mut admin, &name);
            admin.interrupt(waiter);
        }
        the_waiter(&mut admin, &name);
        drop(client);
        dblock.wait().expect_code(0).expect_stdout("ran\n");
    }

    fn a_waiter_that_is_interrupted_at_the_end_of_its_time_waits_no_longer(server, durable_mysql) {
        for slots in ["1", "2"] {
            // A busy machine may miss the moment.
            let met = (0..30).any(|_| interrupted_at_the_end(server, slots));
            assert!(met, "never interrupted in its last moment");
        }
    }

    fn a_waiter_that_was_stopped_until_its_time_was_over_says_that_the_lock_is_taken(server) {
        thread::scope(|scope| {
            for slots in ["1", "2"] {
                scope.spawn(move || {
                    let name = unique("stopped");
                    let _clients = [server.hold(&name), server.hold(&format!("{name}#1"))];
                    let dblock = Dblock::run(server, &name).args(["-m", slots, "--wait", "5", "--connect-timeout", "4"]);
                    let dblock = dblock.args(["--if-unreachable", "run"]).sh("echo ran").spawn();
                    the_waiter(&mut server.watcher(), &name);
                    dblock.signal(Signal::SIGSTOP);
                    // Longer than the wait, the connect timeout and what the server grants a silent waiter.
                    within(Duration::from_secs(10), || false);
                    dblock.signal(Signal::SIGCONT);
                    dblock.wait().expect_code(75).expect_stdout("").expect_one_line("; not run");
                });
            }
        });
    }

    fn a_waiter_whose_session_is_killed_comes_again(server) {
        let name = unique("killed");
        let (client, mut admin) = (server.hold(&name), server.watcher());
        let dblock = Dblock::run(server, &name).args(["--wait", "30"]).sh("echo ran").spawn();
        let waiter = the_waiter(&mut admin, &name);
        admin.end_session(waiter);
        eventually("it waits on another session", SOON, || {
            let waiting = waiters(&mut admin, &name);
            waiting.len() == 1 && waiting[0] != waiter
        });
        drop(client);
        dblock.wait().expect_code(0).expect_stdout("ran\n");
    }

    fn a_waiter_outlives_a_restart_of_the_server(server) {
        let server = &Server::private(server.kind);
        for end in [Server::stop, Server::kill] {
            let name = unique("restart");
            let _client = server.hold(&name);
            let mut dblock = Dblock::run(server, &name).args(["--wait", "600"]).sh("echo ran").spawn();
            the_waiter(&mut server.watcher(), &name);
            end(server);
            assert!(dblock.is_running(), "waits on: {}", dblock.stderr());
            server.start();
            dblock.wait().expect_code(0).expect_stdout("ran\n");
        }
    }

    fn a_waiter_that_is_ended_does_not_stand_in_the_way(server) {
        use Signal::{SIGHUP, SIGINT, SIGKILL, SIGTERM, SIGUSR1, SIGUSR2};
        let mut admin = server.watcher();
        for signal in [SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGKILL] {
            let name = unique("ended");
            let held = Holder::new(server, &name);
            let first = Dblock::run(server, &name).args(["--wait", "forever"]).sh("echo ran").spawn();
            the_waiter(&mut admin, &name);
            let second = Dblock::run(server, &name).args(["--wait", "60"]).stdin(Stdio::piped());
            let mut second = second.sh("echo ran; read x; exit 0").spawn();
            let mut both = Vec::new();
            eventually("the next one waits", SOON, || {
                both = waiters(&mut admin, &name);
                both.len() == 2
            });
            let next = both[1];
            first.signal(signal);
            first.wait().expect_signal(signal).expect_stdout("");
            // Half a second where nothing else runs: the server looks once a second whether a client is still there.
            let soon = (3 * slack()).saturating_sub(Duration::from_millis(2500));
            // Who is told that the lock is free, and dies, leaves the next one waiting until that looks by itself.
            let is_gone = || server.kind != Kind::Postgres || waiters(&mut admin, &name).len() == 1;
            assert!(in_time(soon, is_gone), "{signal}: it still waits");
            held.free();
            // There it has another session by now if it stood still for seconds.
            let has_it = in_time(soon, || holder(&mut admin, &name) == Some(next) || second.stdout() == "ran\n");
            assert!(has_it, "{signal}: its place in the queue is still taken");
            drop(second.take_stdin());
            second.wait().expect_code(0).expect_stdout("ran\n");
        }
    }

    fn a_signal_that_was_ignored_stays_ignored_while_waiting(server) {
        let name = unique("nohup");
        let client = server.hold(&name);
        let ignore = || {
            // SAFETY: a plain system call in the new process.
            unsafe { signal(Signal::SIGHUP, SigHandler::SigIgn) }?;
            Ok(())
        };
        let dblock = Dblock::run(server, &name).args(["--wait", "30"]).sh("echo ran").pre_exec(ignore).spawn();
        the_waiter(&mut server.watcher(), &name);
        dblock.signal(Signal::SIGHUP);
        drop(client);
        dblock.wait().expect_code(0).expect_stdout("ran\n");
    }

    fn every_statement_begins_with_a_comment_that_names_it(server) {
        let (name, proxy) = (unique("named"), Proxy::to(server));
        let holder = server.hold(&name);
        let second = Dblock::run_at(&proxy.url(), &name).args(["-m", "2", "--wait", "30"]).sh("echo held; exec sleep 50");
        let mut second = second.spawn();
        second.wait_line("held", SOON);
        Dblock::run_at(&proxy.url(), &name).sh("true").output().expect_code(75);
        let at_proxy = |command: &str| Dblock::at(server, command).env("DBLOCK_URL", proxy.url());
        at_proxy("status").output().expect_code(0);
        at_proxy("check").output().expect_code(0);
        drop(holder);
        at_proxy("kill").args([&format!("{name}#1"), "--wait", "20"]).output().expect_code(0);
        second.wait();
        let packets = proxy.packets();
        let sent: Vec<String> = packets.iter().filter_map(crate::harness::Packet::sent).collect();
        assert!(sent.len() > 30, "{sent:?}");
        // PostgreSQL shows the whole of what is sent at once.
        let apart = if server.kind == Kind::Postgres { "\0" } else { "; " };
        for statement in sent.iter().flat_map(|packet| packet.split(apart)) {
            assert!(statement.starts_with("/* dblock "), "{statement}");
        }
    }

    fn a_slow_login_does_not_prolong_the_wait_for_a_silent_server(server) {
        let (name, proxy) = (unique("slow"), Proxy::to(server));
        let _client = server.hold(&name);
        proxy.freeze();
        let begun = Instant::now();
        let dblock = Dblock::run_at(&proxy.url(), &name).args(["--wait", "4", "--connect-timeout", "8"]);
        let dblock = dblock.sh("echo ran").spawn();
        eventually("half of the connect timeout is over", SOON, || begun.elapsed().as_secs() >= 4);
        proxy.thaw();
        the_waiter(&mut server.watcher(), &name);
        proxy.freeze();
        // The wait and one connect timeout, not two.
        dblock.wait().expect_code(69).expect_stdout("").expect_took(Duration::ZERO, Duration::from_secs(12) + slack());
    }

    fn a_frozen_server_is_given_up_in_time(server) {
        let server = &Server::private(server.kind);
        let frozen = server.freeze();
        let dblock = Dblock::run(server, &unique("frozen")).args(["--wait", "forever", "--connect-timeout", "4"]);
        let output = dblock.sh("echo ran").output();
        drop(frozen);
        output.expect_code(69).expect_stdout("").expect_one_line(&server.port.to_string());
        output.expect_took(Duration::from_secs(4), Duration::from_secs(4) + slack());
    }
}

each_lock! {
    fn a_server_that_freezes_under_a_waiter_is_given_up_in_time(server) {
        let server = &Server::private(server.kind);
        let name = unique("frozen");
        let _client = server.hold(&name);
        let dblock = Dblock::run(server, &name).args(["--wait", "4", "--connect-timeout", "4"]).sh("echo ran").spawn();
        the_waiter(&mut server.watcher(), &name);
        let frozen = server.freeze();
        let output = dblock.wait();
        drop(frozen);
        output.expect_code(69).expect_stdout("").expect_one_line("");
        output.expect_took(Duration::from_secs(4), Duration::from_millis(8200) + slack());
    }
}

each_way! {
    fn a_server_that_falls_silent_under_a_waiter_is_not_out_of_reach(server) {
        let (name, proxy) = (unique("silent"), Proxy::to(server));
        let _client = server.hold(&name);
        let dblock = Dblock::run_at(&proxy.url(), &name).args(server.durable.then_some("--durable"));
        let dblock = dblock.args(["--wait", "4", "--connect-timeout", "4", "--if-unreachable", "run"]);
        let dblock = dblock.sh("echo ran").spawn();
        the_waiter(&mut server.watcher(), &name);
        proxy.freeze();
        // Others held the lock when it answered last.
        dblock.wait().expect_code(69).expect_stdout("").expect_one_line("");
    }
}

/// Stops the process that loads it when it has found for this number of times that nothing more has arrived, as nobody else could at that
/// very moment.
const STOPS: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
static pid_t own;
static int left;
__attribute__((constructor)) static void loaded(void) { own = getpid(); left = atoi(getenv("STOPS_AT")); }
int poll(struct pollfd *descriptors, nfds_t count, int timeout) {
    int (*next)(struct pollfd *, nfds_t, int) = dlsym(RTLD_NEXT, "poll");
    int ready = next(descriptors, count, timeout);
    if (ready == 0 && getpid() == own && --left == 0) raise(SIGSTOP);
    return ready;
}
"#;

#[test]
fn wherever_a_waiter_was_stopped_until_its_time_was_over_it_says_that_the_lock_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("stops.so");
    std::fs::write(folder.path().join("stops.c"), STOPS).unwrap();
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-o", "stops.so", "stops.c"])
        .current_dir(&folder)
        .status();
    assert!(made.is_ok_and(|made| made.success()));
    let server = Server::shared(Kind::MySql);
    let name = unique("stopped");
    let _client = server.hold(&name);
    let library = &library;
    // Between its start and its end it gets some messages, one or a few at a time.
    let stopped: usize = thread::scope(|scope| {
        let each = (1..=12).map(|time| {
            let dblock = Dblock::run(server, &name).args([
                "--wait",
                "1",
                "--connect-timeout",
                "6",
                "--if-unreachable",
                "run",
            ]);
            let dblock = dblock
                .env("LD_PRELOAD", library)
                .env("STOPS_AT", time.to_string())
                .sh("echo ran");
            scope.spawn(move || {
                let mut dblock = dblock.spawn();
                let pid = dblock.pid();
                eventually("it is stopped, or has ended", SOON, || {
                    is_stopped(pid) || !dblock.is_running()
                });
                let was_stopped = dblock.is_running();
                if was_stopped {
                    // Longer than the wait and the connect timeout.
                    within(Duration::from_secs(8), || false);
                    dblock.signal(Signal::SIGCONT);
                }
                dblock
                    .wait()
                    .expect_code(75)
                    .expect_stdout("")
                    .expect_one_line("; not run");
                usize::from(was_stopped)
            })
        });
        let each: Vec<_> = each.collect();
        each.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert!((2..12).contains(&stopped), "{stopped}");
}

both_locks! {
    fn a_statement_time_limit_of_the_server_does_not_cut_a_wait(server) {
        let server = &Server::private(server.kind);
        let name = unique("limit");
        let mut admin = server.admin();
        admin.query_drop(match server.kind {
            Kind::MariaDb => "SET GLOBAL max_statement_time = 1",
            Kind::MySql => "SET GLOBAL max_execution_time = 1000",
            Kind::Postgres => unreachable!("there nobody waits in a statement"),
        }).unwrap();
        let client = server.hold(&name);
        let three = Dblock::run(server, &name).args(["--wait", "3"]).command(["true"]).spawn();
        let proxy = Proxy::to(server);
        let mut forever = Dblock::run_at(&proxy.url(), &name).args(["--wait", "forever"]).sh("echo ran").spawn();
        let asked = || proxy.packets().iter().filter(|packet| packet.statements().is_some_and(|it| it.contains("GET_LOCK"))).count();
        eventually("the other one waits", SOON, || asked() == 2);
        let waits = Instant::now();
        let (three_seconds, three) = (Duration::from_secs(3), three.wait());
        three.expect_code(75).expect_took(three_seconds, three_seconds + PRECISION + slack());
        eventually("the other one has waited for longer than the limit", SOON, || waits.elapsed() > Duration::from_secs(2));
        assert!(forever.is_running(), "still waits: {}", forever.stderr());
        // Cut short and asked again, it would have lost its place in the queue.
        assert_eq!(asked(), 2, "once without waiting, once for ever");
        drop(client);
        forever.wait_line("ran", SOON);
        forever.wait().expect_code(0);
    }

    fn an_interrupted_waiter_waits_no_longer_than_asked(server, durable_mysql) {
        let name = unique("interrupted");
        let (_client, mut admin) = (server.hold(&name), server.admin());
        let mut dblock = Dblock::run(server, &name).args(["--wait", "1.5"]).sh("echo ran").spawn();
        eventually("it ends", SOON, || {
            for waiter in waiters(&mut admin, &name) {
                let _ = admin.query_drop(format!("KILL QUERY {waiter}"));
            }
            !dblock.is_running()
        });
        let asked = Duration::from_millis(1500);
        dblock.wait().expect_code(75).expect_stdout("").expect_took(asked, asked + PRECISION + slack());
    }

    fn a_waiter_whose_session_is_killed_waits_no_longer_than_asked(server) {
        let name = unique("killed");
        let (_client, mut admin) = (server.hold(&name), server.admin());
        let dblock = Dblock::run(server, &name).args(["--wait", "7.5"]).command(["true"]).spawn();
        let waiter = the_waiter(&mut admin, &name);
        let its_time = format!("SELECT time FROM information_schema.processlist WHERE id = {waiter}");
        eventually("it has waited three seconds", SOON, || {
            admin.query_first::<u32, _>(&its_time).unwrap().is_some_and(|seconds| seconds >= 3)
        });
        admin.query_drop(format!("KILL {waiter}")).unwrap();
        let asked = Duration::from_millis(7500);
        dblock.wait().expect_code(75).expect_took(asked, asked + PRECISION + slack());
    }

    fn a_grant_after_a_wait_is_proved_by_one_more_statement(server) {
        let (name, proxy) = (unique("proof"), Proxy::to(server));
        let client = server.hold(&name);
        let mut dblock = Dblock::run_at(&proxy.url(), &name).args(["--wait", "30"]).sh("echo ran; exec sleep 50").spawn();
        the_waiter(&mut server.admin(), &name);
        let before = proxy.packets().len();
        drop(client);
        dblock.wait_line("ran", SOON);
        let after = proxy.packets().split_off(before);
        let proof = after[0].statements().expect("statements");
        assert!(proof.contains("IS_USED_LOCK") && proof.contains("CONNECTION_ID"), "{proof}");
        // Then the session is made fit to keep the lock, and that is all before the command starts.
        let kept = after[1].statements().expect("statements");
        assert!(after.len() == 2 && kept.starts_with("SET SESSION wait_timeout=") && !kept.contains("wait_timeout=3 "), "{kept}");
    }

    fn only_the_first_packet_of_a_session_has_two_statements(server) {
        // A KILL QUERY, by which holders wake the head, makes a server pass over the second without a word.
        for slots in [1, 2] {
            let (name, proxy) = (unique("one"), Proxy::to(server));
            let clients = [server.hold(&name), server.hold(&format!("{name}#1"))];
            let dblock = Dblock::run_at(&proxy.url(), &name).args(["-m", &slots.to_string(), "--wait", "30"]);
            let dblock = dblock.sh("echo ran").spawn();
            the_waiter(&mut server.admin(), &name);
            drop(clients);
            dblock.wait().expect_code(0).expect_stdout("ran\n");
            let statements: Vec<_> = proxy.packets().iter().filter_map(crate::harness::Packet::statements).collect();
            let several = |packet: &String| packet.contains(';');
            assert!(several(&statements[0]) && !statements[1..].iter().any(several), "{statements:#?}");
        }
    }

    fn a_grant_that_arrives_late_starts_nothing(server) {
        let (name, proxy) = (unique("late"), Proxy::to(server));
        let (client, mut admin) = (server.hold(&name), server.admin());
        let mut dblock = Dblock::run_at(&proxy.url(), &name).args(["-vv", "--wait", "forever"]).sh("echo ran").spawn();
        let waiter = the_waiter(&mut admin, &name);
        proxy.freeze();
        drop(client);
        // Or has granted it: three seconds later it ends the session of a waiter that says nothing.
        eventually("the server grants the lock to the lost waiter", SOON, || {
            server.holder(&name) == Some(waiter) || !server.has_session(waiter)
        });
        // The server gives the lock of the lost waiter to the next, and only then the waiter reads that it is its own.
        let next = hold_after(server, &name);
        proxy.thaw();
        the_waiter(&mut admin, &name);
        assert!(dblock.is_running() && dblock.stdout().is_empty(), "{}", dblock.stdout());
        drop(next);
        dblock.wait().expect_code(0).expect_stdout("ran\n");
    }
}

/// Somebody who has a lock, and when freeing it has those that wait know that: a MySQL server tells them itself, a PostgreSQL does not.
pub enum Holder {
    Plain(Client),
    Dblock(Running),
}

impl Holder {
    #[track_caller]
    pub fn new(server: &Server, name: &str) -> Self {
        if server.kind != Kind::Postgres {
            return Self::Plain(server.hold(name));
        }
        let dblock = Dblock::run(server, name).stdin(Stdio::piped());
        let mut dblock = dblock.sh("echo held; read x; exit 0").spawn();
        dblock.wait_line("held", SOON);
        Self::Dblock(dblock)
    }

    /// Frees it.
    #[track_caller]
    pub fn free(self) {
        match self {
            Self::Plain(client) => drop(client),
            Self::Dblock(mut dblock) => {
                drop(dblock.take_stdin());
                dblock.wait().expect_code(0);
            }
        }
    }
}

/// Interrupts a waiter in the last tenth of its second; whether the moment was met. A busy machine may not even see that it waits.
fn interrupted_at_the_end(server: &Server, slots: &str) -> bool {
    let name = unique("interrupted");
    let _clients = [server.hold(&name), server.hold(&format!("{name}#1"))];
    let mut admin = server.watcher();
    let mut dblock = Dblock::run(server, &name)
        .args(["-m", slots, "--wait", "1", "--connect-timeout", "10"])
        .args(["--if-unreachable", "run"])
        .sh("echo ran")
        .spawn();
    let mut found = Vec::new();
    eventually("it waits, or has waited", SOON, || {
        found = waiters(&mut admin, &name);
        !found.is_empty() || !dblock.is_running()
    });
    let waits = Instant::now();
    within(Duration::from_millis(930), || false);
    for &waiter in &found {
        admin.interrupt(waiter);
    }
    let met = !found.is_empty() && waits.elapsed() < Duration::from_secs(1);
    let asked = Duration::from_secs(1);
    let output = dblock.wait();
    output.expect_code(75).expect_stdout("");
    if met {
        output.expect_took(asked, asked + PRECISION + slack());
    }
    met
}

/// A plain client that waits for the lock and has it.
fn hold_after(server: &Server, name: &str) -> Client {
    let mut client = server.plain();
    client.wait_for_lock(name);
    client
}

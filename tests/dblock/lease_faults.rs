//! While a command runs its session is killed, its keeper is killed, and dblock or the server are stopped for shorter and
//! longer than the lease: it goes on with the lock, or it is ended, and never runs on as if nothing had happened.

use std::io::Write;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use nix::sys::signal::Signal;
use tempfile::TempPath;

use crate::harness::{
    Dblock, Frozen, Hangs, Hung, Kind, Output, PASSWORD, Packet, Proxy, Running, SOON, Server,
    Unkillable, Watcher, all_servers, children_of, each_lock, each_way, error, eventually,
    eventually_gone, eventually_unkillable, framed, in_time, is_stopped, polls, quoted, runs, send,
    slack, unique, until_closed, within,
};
use crate::hostile::serve;
use crate::pools::slot_on_server;
use crate::sigkill::{looks_for_life, out_of_reach, with_sign_of_life};
use crate::tls::with_hosts;

/// The shortest lease.
const TTL: Duration = Duration::from_secs(4);

/// When a command is dead whose lease of [`TTL`] nobody could renew.
const DEAD_AFTER: Duration = Duration::from_millis(3600);

/// From a loss to SIGTERM.
const NOTICED: Duration = Duration::from_secs(1);

/// It says when it ends: with 3 on SIGTERM, with 6 when its stdin ends.
const TELLS_ITS_END: &str = "end() { echo ended $(date +%s%N); exit $1; }
    exec 2>/dev/null; trap 'end 3' TERM; sh -c 'echo shell $PPID; exec cat >/dev/null'; end 6";

/// It says when it began, and takes long enough to be met by whoever wants the lock again.
const TELLS_ITS_BEGIN: &str = "echo began $(date +%s%N); sleep 0.6";

/// dblock around this script, with stdin under control.
fn holder(dblock: Dblock, script: &str) -> Dblock {
    holder_with_grace(dblock, "1", script)
}

/// The same with so many seconds from SIGTERM to SIGKILL.
fn holder_with_grace(dblock: Dblock, seconds: &str, script: &str) -> Dblock {
    dblock
        .without_terminal()
        .stdin(Stdio::piped())
        .args(["--kill-after", seconds])
        .sh(script)
}

/// A second copy that waits.
#[track_caller]
fn second(server: &Server, name: &str, script: &str) -> Running {
    let second = Dblock::run(server, name)
        .without_terminal()
        .args(["--wait", "forever"])
        .sh(script)
        .spawn();
    eventually("the second copy waits", SOON, || {
        server.waiters(name).len() == 1
    });
    second
}

/// The nanoseconds behind `word`, if it was said.
fn moment(output: &Output, word: &str) -> Option<u64> {
    let line = output
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix(word))?;
    line.trim().parse().ok()
}

/// How long the first command was there after the second one had begun.
#[track_caller]
fn overlap(first: &Output, second: &Output) -> Duration {
    let began = moment(second, "began").unwrap_or_else(|| panic!("{second:#?}"));
    let ended = moment(first, "ended").unwrap_or_else(|| panic!("{first:#?}"));
    Duration::from_nanos(ended.saturating_sub(began))
}

/// Every line is dblock's own, and there is one.
#[track_caller]
fn assert_told(output: &Output, name: &str) {
    let ours = output
        .stderr
        .lines()
        .all(|line| line.starts_with("dblock: "));
    assert!(ours && output.stderr.contains(name), "{output:#?}");
}

#[track_caller]
/// A way to the server that takes its time. MySQL closes a killed session's connection before it frees its locks: on an idle
/// machine a holder is back so soon that it finds its own session there yet, and has the lock again before those who wait.
fn far_away(server: &Server) -> Proxy {
    let proxy = Proxy::to(server);
    proxy.delay(Duration::from_millis(50));
    proxy
}

fn kill_session(server: &Server, name: &str) -> u64 {
    let mut admin = server.watcher();
    let session = crate::harness::holder(&mut admin, name).expect("somebody holds it");
    admin.end_session(session);
    session
}

/// Whether the session that holds the lock has answered its last statement.
fn is_idle(server: &Server, name: &str) -> bool {
    let mut admin = server.admin();
    let idle =
        "SELECT command = 'Sleep' FROM information_schema.processlist WHERE id = IS_USED_LOCK(?)";
    admin.exec_first(idle, (name,)).unwrap() == Some(true)
}

/// When something was sent last, before this moment: the machine may have stood still since then.
fn last_sent(proxy: &Proxy, before: Instant) -> Instant {
    let packets = proxy.packets();
    packets
        .last()
        .map_or(before, |packet| packet.at.min(before))
}

/// How many renewals a proxy has seen.
fn renewals(proxy: &Proxy) -> usize {
    let packets = proxy.packets().into_iter();
    let renews = |packet: &Packet| {
        packet
            .sent()
            .is_some_and(|sent| sent.contains("dblock renew"))
    };
    packets.filter(renews).count()
}

#[track_caller]
fn send_each(pids: [i32; 3], signal: Signal) {
    for pid in pids {
        send(pid, signal);
    }
}

/// The first has its lock again although the second waited for it, and ends before that begins. `false`: the second was granted the lock
/// and took longer than half a second to give it back, as on a busy machine; then it has it.
#[track_caller]
fn costs_nothing(mut first: Running, second: Running, name: &str) -> bool {
    let mut is_back = false;
    eventually("it has the lock again, or has lost it", SOON, || {
        is_back = first.stderr().contains("reacquired after");
        is_back || !first.is_running()
    });
    if !is_back {
        first.wait_within(SOON).expect_code(74);
        second.wait().expect_code(0);
        return false;
    }
    // Longer than a waiter that lost its turn holds back.
    let lost = within(Duration::from_secs(3), || !first.is_running());
    assert!(!lost, "{}", first.stderr());
    drop(first.take_stdin());
    let end = first.wait_within(SOON);
    let next = second.wait();
    next.expect_code(0);
    assert_told(end.expect_code(6), name);
    assert_eq!(overlap(&end, &next), Duration::ZERO, "{end:#?}");
    true
}

/// Three times, and a few more in vain at most.
#[track_caller]
fn three_times(mut attempt: impl FnMut() -> bool) {
    let (mut done, mut in_vain) = (0, 0);
    while done < 3 {
        if attempt() {
            done += 1;
        } else {
            in_vain += 1;
            assert!(in_vain < 5, "{done} times, and {in_vain} in vain");
        }
    }
}

/// Both processes of a holder are stopped until another one has its lock, and the one or the other wakes first. `false`: the machine stood
/// still before, and the lock was lost, or about to be, when they were stopped.
#[track_caller]
fn ends_its_command_on_waking(server: &Server, keeper_first: bool) -> bool {
    let name = unique("both-stopped");
    let run = Dblock::run(server, &name).args(["--ttl", "4s"]);
    let script = "trap '' TERM; echo shell $$; while :; do sleep 0.1; done";
    // A machine that stands still for two seconds does not have it ended before.
    let mut first = holder_with_grace(run, "0.2", script).spawn();
    let command = first.wait_pid("shell");
    let run = Dblock::run(server, &name).without_terminal();
    let run = run.args(["--wait", "forever"]);
    let mut second = run.sh("echo began; exec sleep 600").spawn();
    eventually("the second copy waits, or has waited", SOON, || {
        server.waiters(&name).len() == 1 || second.stdout().contains("began")
    });
    let mut children = first.children().into_iter();
    let Some(keeper) = children.find(|&pid| pid != command) else {
        return false;
    };
    let both = [keeper, first.pid()];
    let [keeper, dblock] = both.map(Frozen::of);
    eventually("both are stopped, or have ended", SOON, || {
        both.into_iter().all(|pid| is_stopped(pid) || !runs(pid))
    });
    if !both.into_iter().all(is_stopped) || !runs(command) || !first.stderr().is_empty() {
        return false;
    }
    second.wait_line("began", SOON);
    assert!(runs(command), "nobody ends it meanwhile");
    let (one, other) = if keeper_first {
        (keeper, dblock)
    } else {
        (dblock, keeper)
    };
    drop(one);
    within(NOTICED, || !runs(command));
    drop(other);
    let end = first.wait_within(SOON);
    end.expect_code(74)
        .expect_said(["the command was ended for it"]);
    assert!(!runs(command) && second.is_running());
    true
}

/// A host is frozen until the server has freed its lock, which nobody else wants. Whether it has the lock again when it wakes. `false`: that
/// took longer than an eighth of the lease, as on a busy machine; then its command is ended.
fn has_its_lock_again_on_waking(server: &Server) -> bool {
    let (name, proxy) = (unique("frozen-host"), far_away(server));
    let ttl = 4 * TTL;
    let run = Dblock::run_at(&proxy.url(), &name).args(["--ttl", "16s"]);
    let mut first = holder(run, TELLS_ITS_END).spawn();
    let command = first.wait_pid("shell");
    let all = [first.pid(), first.keeper(Some(command)), command];
    let stopped = Instant::now();
    send_each(all, Signal::SIGSTOP);
    eventually("the server frees it", ttl + NOTICED + slack(), || {
        server.holder(&name).is_none()
    });
    assert!(stopped.elapsed() > ttl / 2, "{:?}", stopped.elapsed());
    send_each(all, Signal::SIGCONT);
    eventually("it has the lock again, or has ended", SOON, || {
        server.holder(&name).is_some() || !first.is_running()
    });
    if within(slack(), || !first.is_running()) {
        first.wait_within(SOON).expect_code(74);
        return false;
    }
    assert!(runs(command), "{}", first.stderr());
    drop(first.take_stdin());
    assert_told(first.wait_within(SOON).expect_code(6), &name);
    true
}

/// What befalls a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    SessionKilled,
    KeeperKilled,
}

impl Fault {
    const ALL: [Self; 2] = [Self::SessionKilled, Self::KeeperKilled];

    fn strike(self, server: &Server, name: &str, run: &Running, command: i32) {
        match self {
            Self::SessionKilled => drop(kill_session(server, name)),
            Self::KeeperKilled => send(run.keeper(Some(command)), Signal::SIGKILL),
        }
    }
}

each_way! {
    fn whoever_was_stopped_beyond_the_ttl_ends_its_command_for_the_lost_lock_whichever_process_wakes_first(server) {
        for keeper_first in [true, false] {
            three_times(|| ends_its_command_on_waking(server, keeper_first));
        }
    }
}

all_servers! {
    fn a_lock_that_was_lost_is_had_again_while_the_command_goes_on(server) {
        for fault in Fault::ALL {
            for slot in [0, 1] {
                let name = unique("again");
                let _others = (slot == 1).then(|| server.hold(&name));
                let on_server = slot_on_server(&name, slot);
                let run = Dblock::run(server, &name).args(["-m", "2"]);
                let mut run = holder(run, TELLS_ITS_END).spawn();
                let command = run.wait_pid("shell");
                // Again and again.
                for _ in 0..3 {
                    let lost = server.holder(&on_server).unwrap();
                    fault.strike(server, &on_server, &run, command);
                    let again = within(SOON, || server.holder(&on_server).is_some_and(|id| id != lost) && run.children().len() == 2);
                    assert!(again, "{fault:?}, not had again: {}\n{:?}", run.stderr(), run.children());
                }
                run.wait_stderr(&name, SOON);
                Dblock::run(server, &name).args(["-m", "2"]).command(["true"]).output().expect_code(if slot == 1 { 75 } else { 0 });
                assert!(run.is_running() && runs(command), "{fault:?}: {}", run.stderr());
                drop(run.take_stdin());
                let end = run.wait_within(SOON);
                assert_told(end.expect_code(6), &name);
                // It was given back.
                eventually("it is free", SOON, || server.holder(&on_server).is_none());
            }
        }
    }

    fn a_lock_that_somebody_else_has_by_then_is_lost(server) {
        for script in [TELLS_ITS_END, "trap '' TERM; echo shell $$; while :; do echo ended $(date +%s%N); sleep 0.01; done"] {
            let proxy = far_away(server);
            let begun = Instant::now();
            let stubborn = script != TELLS_ITS_END;
            // To tell its end takes a process.
            let seconds = if stubborn { "1" } else { "20" };
            let (name, command, mut second, mut end, took) = std::iter::repeat(()).find_map(|()| {
                assert!(begun.elapsed() < SOON * 6, "the second was never first");
                let name = unique("stranger");
                let mut first = holder_with_grace(Dblock::run_at(&proxy.url(), &name), seconds, script).spawn();
                let command = first.wait_pid("shell");
                let second = second(server, &name, TELLS_ITS_BEGIN);
                kill_session(server, &name);
                server.watcher().wake(&name);
                let killed = Instant::now();
                // On a busy machine the second may not have begun when the first is back: then it has to wait on.
                let is_back = || first.stderr().contains("reacquired after");
                if within(SOON, || is_back() || !runs(command)) && is_back() {
                    return None;
                }
                let end = first.wait_within(SOON);
                Some((name, command, second, end, killed.elapsed()))
            }).expect("it goes on until then");
            assert_told(end.expect_code(74), &name);
            assert!(!runs(command));
            let grace = if stubborn { Duration::from_secs(1) } else { Duration::ZERO };
            assert!(took < grace + NOTICED + slack(), "{took:?}: {end:#?}");
            if stubborn {
                // The last of its signs of life is its end; its stdin tells nothing.
                let last = end.stdout.lines().rfind(|line| line.starts_with("ended ")).unwrap_or_default().to_owned();
                end.stdout = format!("{last}\n");
            }
            let next = second.wait_within(SOON);
            next.expect_code(0);
            let overlap = overlap(&end, &next);
            assert!(overlap < grace + NOTICED + slack(), "{overlap:?}");
        }
    }

    fn a_keeper_that_is_killed_while_others_wait_costs_nothing(server) {
        three_times(|| {
            let name = unique("waited-for");
            let mut first = holder(Dblock::run(server, &name), TELLS_ITS_END).spawn();
            let command = first.wait_pid("shell");
            let keeper = first.keeper(Some(command));
            let second = second(server, &name, TELLS_ITS_BEGIN);
            send(keeper, Signal::SIGKILL);
            costs_nothing(first, second, &name)
        });
    }

    fn a_session_of_its_own_that_the_server_has_not_missed_does_not_stand_in_the_way(server) {
        for slots in ["1", "2"] {
            let (name, proxy) = (unique("ghost"), Proxy::to(server));
            let run = Dblock::run_at(&proxy.url(), &name).args(["-m", slots]);
            let mut run = holder(run, TELLS_ITS_END).spawn();
            let command = run.wait_pid("shell");
            for _ in 0..3 {
                let ghost = server.holder(&name).unwrap();
                proxy.abandon();
                let abandoned = Instant::now();
                eventually("it is had again", SOON, || server.holder(&name).is_some_and(|id| id != ghost));
                assert!(abandoned.elapsed() < NOTICED + slack(), "{:?}", abandoned.elapsed());
                eventually("it is ended: nobody needs it", SOON, || !server.has_session(ghost));
            }
            assert!(run.is_running() && runs(command), "{}", run.stderr());
            drop(run.take_stdin());
            assert_told(run.wait_within(SOON).expect_code(6), &name);
        }
    }

    fn a_session_of_its_own_that_others_wait_behind_costs_nothing(server) {
        three_times(|| {
            let (name, proxy) = (unique("ghost"), Proxy::to(server));
            let mut first = holder(Dblock::run_at(&proxy.url(), &name), TELLS_ITS_END).spawn();
            first.wait_pid("shell");
            let second = second(server, &name, TELLS_ITS_BEGIN);
            proxy.abandon();
            costs_nothing(first, second, &name)
        });
    }

    fn a_keeper_that_cannot_be_replaced_costs_the_lock_and_is_told_of_once(server on mariadb) {
        let folder = tempfile::tempdir().unwrap();
        let password = folder.path().join("password");
        std::fs::write(&password, PASSWORD).unwrap();
        let name = unique("replaced");
        let run = Dblock::run(server, &name).env_remove("DBLOCK_PASSWORD").arg("--password-file").arg(&password);
        let mut run = holder(run.arg("-q"), TELLS_ITS_END).spawn();
        let command = run.wait_pid("shell");
        std::fs::remove_file(&password).unwrap();
        send(run.keeper(Some(command)), Signal::SIGKILL);
        let end = run.wait_within(SOON);
        end.expect_code(74).expect_said(["cannot read the password file"]);
        assert!(end.stderr.lines().count() <= 3, "{end:#?}");
        eventually("the lock is free", SOON, || server.holder(&name).is_none());
    }

    fn a_stopped_dblock_does_not_let_a_command_run_on_without_its_lock(server on mysql) {
        let (name, proxy) = (unique("stopped"), Proxy::to(server));
        let mut first = holder(Dblock::run_at(&proxy.url(), &name), TELLS_ITS_END).spawn();
        let command = first.wait_pid("shell");
        let mut second = second(server, &name, "echo began; exec sleep 60");
        first.signal(Signal::SIGSTOP);
        eventually("it is stopped", SOON, || is_stopped(first.pid()));
        // The first hears of it, and is back, when the second has begun.
        proxy.freeze();
        kill_session(server, &name);
        second.wait_line("began", SOON);
        proxy.thaw();
        let gone = in_time(NOTICED + Duration::from_secs(1) + slack(), || !runs(command));
        first.signal(Signal::SIGCONT);
        assert!(gone, "the command of the first runs on: {}", first.stderr());
        first.wait_within(SOON).expect_code(74).expect_said(["the command was ended for it"]);
    }

    fn a_stopped_dblock_whose_lock_is_lost_again_and_again_has_it_again_each_time(server on mysql) {
        let name = unique("many-losses");
        // A machine that stands still for seconds does not let it run out.
        let run = Dblock::run(server, &name).args(["--ttl", "10"]);
        let mut run = holder_with_grace(run, "0.2", TELLS_ITS_END).spawn();
        let command = run.wait_pid("shell");
        run.signal(Signal::SIGSTOP);
        eventually("it is stopped", SOON, || is_stopped(run.pid()));
        // More than dblock's processes have room for between them.
        for _ in 0..150 {
            let lost = kill_session(server, &name);
            eventually("it is had again", SOON, || server.holder(&name).is_some_and(|id| id != lost));
        }
        // It is renewed: a session that sends nothing lasts for less.
        let session = server.holder(&name);
        assert!(!within(Duration::from_secs(13), || server.holder(&name) != session), "it is lost");
        assert!(runs(command));
        run.signal(Signal::SIGCONT);
        drop(run.take_stdin());
        run.wait_within(SOON).expect_code(6);
    }

    fn a_server_that_becomes_read_only_is_none_of_the_business_of_who_takes_any(server on mariadb) {
        let server = &Server::private(server.kind);
        let name = unique("any");
        let run = Dblock::run(server, &name).arg("--allow-unfit-server");
        let mut run = holder(run, TELLS_ITS_END).spawn();
        let command = run.wait_pid("shell");
        server.set_read_only(true);
        assert!(!within(Duration::from_secs(3), || !run.is_running()), "{}", run.stderr());
        send(run.keeper(Some(command)), Signal::SIGKILL);
        run.wait_stderr("reacquired after", SOON);
        drop(run.take_stdin());
        run.wait_within(SOON).expect_code(6);
        server.set_read_only(false);
    }

    fn terminate_ends_the_command_at_once(server on mariadb) {
        for (fault, waited_for) in [(0, false), (0, true), (1, false), (1, true)] {
            let fault = Fault::ALL[fault];
            let name = unique("terminate");
            let run = Dblock::run(server, &name).args(["--on-lock-lost", "terminate"]);
            // To tell its end takes a process.
            let mut first = holder_with_grace(run, "20", TELLS_ITS_END).spawn();
            let command = first.wait_pid("shell");
            let second = waited_for.then(|| second(server, &name, TELLS_ITS_BEGIN));
            fault.strike(server, &name, &first, command);
            let struck = Instant::now();
            let end = first.wait_within(SOON);
            assert!(struck.elapsed() < NOTICED + slack(), "{:?}", struck.elapsed());
            assert_told(end.expect_code(74), &name);
            assert!(moment(&end, "ended").is_some(), "SIGTERM comes first: {end:#?}");
            assert!(!runs(command));
            if let Some(second) = second {
                let next = second.wait();
                next.expect_code(0);
                let overlap = overlap(&end, &next);
                // The session outlives its keeper until the command is gone.
                let most = if fault == Fault::KeeperKilled { Duration::ZERO } else { NOTICED + slack() };
                assert!(overlap <= most, "{fault:?}: {overlap:?}");
            }
            eventually("it is free", SOON, || server.holder(&name).is_none());
        }
    }

    fn ignore_lets_the_command_go_on(server on mysql) {
        for (fault, waited_for) in [(0, false), (0, true), (1, false), (1, true)] {
            let fault = Fault::ALL[fault];
            let name = unique("ignore");
            let run = Dblock::run(server, &name).args(["--on-lock-lost", "ignore", "--ttl", "4s"]);
            let mut first = holder(run, TELLS_ITS_END).spawn();
            let command = first.wait_pid("shell");
            let second = waited_for.then(|| second(server, &name, TELLS_ITS_BEGIN));
            fault.strike(server, &name, &first, command);
            first.wait_stderr(&name, SOON);
            // No deadline of the lease ends it.
            let ended = within(TTL + slack(), || !first.is_running());
            assert!(!ended && runs(command), "{fault:?}: {}", first.stderr());
            drop(first.take_stdin());
            assert_told(first.wait_within(SOON).expect_code(6), &name);
            if let Some(second) = second {
                second.wait().expect_code(0);
            }
            eventually("it is free", SOON, || server.holder(&name).is_none());
        }
    }

    fn a_command_outlives_its_lease_when_nothing_happens(server on mariadb) {
        let name = unique("long");
        // A machine that stands still for seconds does not let it run out.
        let run = Dblock::run(server, &name).args(["--ttl", "10s", "-m", "2"]);
        let mut first = holder(run, TELLS_ITS_END).spawn();
        let command = first.wait_pid("shell");
        let session = server.holder(&name);
        let ended = within(Duration::from_secs(12), || !first.is_running());
        assert!(!ended && runs(command), "{}", first.stderr());
        assert_eq!(server.holder(&name), session);
        drop(first.take_stdin());
        first.wait_within(SOON).expect_code(6).expect_silence();
    }

    fn a_server_that_is_frozen_for_less_than_the_lease_ends_no_command(server on mysql) {
        let server = &Server::private(server.kind);
        for waited_for in [false, true] {
            let name = unique("short-freeze");
            let run = Dblock::run(server, &name).args(["--ttl", "20s"]);
            let mut first = holder(run, TELLS_ITS_END).spawn();
            let command = first.wait_pid("shell");
            let session = server.holder(&name);
            let second = waited_for.then(|| second(server, &name, TELLS_ITS_BEGIN));
            let frozen = server.freeze();
            // Longer than it takes from one heartbeat to the next.
            let ended = within(Duration::from_secs(6), || !first.is_running());
            drop(frozen);
            assert!(!ended && runs(command), "{}", first.stderr());
            assert_eq!(server.holder(&name), session);
            drop(first.take_stdin());
            first.wait_within(SOON).expect_code(6).expect_silence();
            if let Some(second) = second {
                second.wait().expect_code(0).expect_silence();
            }
        }
    }

    fn a_server_that_is_frozen_for_longer_than_the_lease_costs_the_lock(server on mariadb) {
        let server = &Server::private(server.kind);
        let folder = tempfile::tempdir().unwrap();
        for (policy, waited_for) in [("reacquire", false), ("reacquire", true), ("terminate", true)] {
            let name = unique("long-freeze");
            let sign = folder.path().join(&name);
            let script = with_sign_of_life(&sign, "trap '' TERM; echo shell $$; while :; do sleep 0.1; done");
            let proxy = Proxy::to(server);
            let run = Dblock::run_at(&proxy.url(), &name).args(["--ttl", "4s", "--on-lock-lost", policy]);
            // The script heeds no TERM, so what counts is when it is killed.
            let mut first = holder_with_grace(run, "0.2", &script).spawn();
            let command = first.wait_pid("shell");
            let second = waited_for.then(|| second(server, &name, &looks_for_life(&sign)));
            // Just after a renewal, also where the last one came late.
            let before = renewals(&proxy);
            eventually("it is renewed", SOON, || renewals(&proxy) > before && proxy.is_answered(0));
            let since = Instant::now();
            let frozen = server.freeze();
            let renewed = last_sent(&proxy, since);
            eventually_gone(command, DEAD_AFTER + slack());
            // It was not killed before its time either.
            assert!(renewed.elapsed() > TTL / 2, "{:?}", renewed.elapsed());
            // dblock waits no longer for the server that does not answer.
            let end = first.wait_within(SOON);
            assert_told(end.expect_code(74), &name);
            assert!(within(TTL, || since.elapsed() > TTL + Duration::from_millis(500)));
            drop(frozen);
            if let Some(second) = second {
                second.wait().expect_code(0).expect_stdout("alone\n");
            }
            eventually("it is free", SOON, || server.holder(&name).is_none());
        }
    }

    fn a_frozen_keeper_costs_the_lock(server on mariadb) {
        let folder = tempfile::tempdir().unwrap();
        for waited_for in [false, true] {
            let name = unique("frozen-keeper");
            let sign = folder.path().join(&name);
            let script = with_sign_of_life(&sign, "trap '' TERM; echo shell $$; while :; do sleep 0.1; done");
            // A tenth of it is all that dblock may be late by where another one waits.
            let (ttl, dead_after) = if waited_for { ("24s", 6 * DEAD_AFTER) } else { ("4s", DEAD_AFTER) };
            let run = Dblock::run(server, &name).args(["--ttl", ttl]);
            let mut first = holder(run, &script).spawn();
            let command = first.wait_pid("shell");
            let second = waited_for.then(|| second(server, &name, &looks_for_life(&sign)));
            let keeper = first.keeper(Some(command));
            send(keeper, Signal::SIGSTOP);
            eventually_gone(command, dead_after + slack());
            let end = first.wait_within(SOON);
            assert_told(end.expect_code(74), &name);
            eventually_gone(keeper, SOON);
            if let Some(second) = second {
                second.wait().expect_code(0).expect_stdout("alone\n");
            }
            eventually("it is free", SOON, || server.holder(&name).is_none());
        }
    }

    fn a_frozen_supervisor_loses_nothing(server on mysql) {
        for waited_for in [false, true] {
            let name = unique("frozen-supervisor");
            // Its keeper may be held up for seconds.
            let ttl = 2 * TTL;
            let run = Dblock::run(server, &name).args(["--ttl", "8s"]);
            let mut first = holder(run, TELLS_ITS_END).spawn();
            let command = first.wait_pid("shell");
            let session = server.holder(&name);
            let second = waited_for.then(|| second(server, &name, TELLS_ITS_BEGIN));
            first.signal(Signal::SIGSTOP);
            let stopped = Instant::now();
            eventually("longer than the lease", SOON, || stopped.elapsed() > ttl + Duration::from_millis(2500));
            assert_eq!(server.holder(&name), session, "its keeper has gone on");
            first.signal(Signal::SIGCONT);
            let ended = within(slack(), || !first.is_running());
            assert!(!ended && runs(command), "{}", first.stderr());
            drop(first.take_stdin());
            first.wait_within(SOON).expect_code(6).expect_silence();
            if let Some(second) = second {
                second.wait().expect_code(0).expect_silence();
            }
        }
    }

    fn a_frozen_host_learns_on_waking_that_another_has_the_lock(server on mariadb) {
        let folder = tempfile::tempdir().unwrap();
        let name = unique("frozen-host");
        let over = folder.path().join("over");
        let run = Dblock::run(server, &name).args(["--ttl", "4s"]);
        // A machine that stands still for two seconds does not have it ended before.
        let mut first = holder_with_grace(run, "0.2", TELLS_ITS_END).spawn();
        let command = first.wait_pid("shell");
        let keeper = first.keeper(Some(command));
        let script = format!("echo began; until [ -e {} ]; do sleep 0.1; done", over.display());
        let mut second = second(server, &name, &script);
        let all = [first.pid(), keeper, command];
        send_each(all, Signal::SIGSTOP);
        let stopped = Instant::now();
        eventually("all are stopped", SOON, || all.into_iter().all(is_stopped));
        second.wait_line("began", SOON);
        assert!(stopped.elapsed() < TTL + NOTICED + slack(), "{:?}", stopped.elapsed());
        send_each(all, Signal::SIGCONT);
        let woken = Instant::now();
        let end = first.wait_within(SOON);
        assert!(woken.elapsed() < NOTICED + slack(), "{:?}", woken.elapsed());
        assert_told(end.expect_code(74), &name);
        assert!(!runs(command) && second.is_running(), "{end:#?}");
        std::fs::write(over, "").unwrap();
        second.wait().expect_code(0);
    }

    fn a_frozen_host_has_its_lock_again_on_waking_when_nobody_else_wants_it(server on mysql) {
        assert!((0..3).any(|_| has_its_lock_again_on_waking(server)), "in time");
    }
}

#[test]
fn after_a_statement_without_an_answer_nothing_is_sent_on_its_session() {
    let server = Server::durable(Kind::MariaDb);
    let (name, proxy) = (unique("out-of-step"), Proxy::to(server));
    let run = Dblock::run_at(&proxy.url(), &name);
    let mut run = run
        .args(["--durable", "--ttl", "24", "--hold-at-least", "60"])
        .stdin(Stdio::piped())
        .sh("echo began; read line")
        .spawn();
    run.wait_line("began", SOON);
    let sent_on = |connection: usize| -> Vec<Packet> {
        let packets = proxy.packets().into_iter();
        packets
            .filter(|packet| packet.connection == connection)
            .collect()
    };
    let says = |packet: &Packet, what: &str| packet.sent().is_some_and(|sent| sent.contains(what));
    // Just after a renewal: the next one comes when the limit on this answer is over.
    let renewals = || {
        sent_on(0)
            .iter()
            .filter(|packet| says(packet, "renew"))
            .count()
    };
    let before = renewals();
    eventually("it is renewed", SOON, || renewals() > before);
    eventually("the answer is there", SOON, || {
        let mut admin = server.admin();
        let age = "SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at) FROM dblock.dblock_locks WHERE name = ?";
        let left: Option<i64> = admin.exec_first(age, (&name,)).unwrap();
        left.is_some_and(|left| left > 23_000_000) && proxy.is_answered(0)
    });
    proxy.freeze();
    drop(run.take_stdin());
    eventually("the end is being recorded", SOON, || {
        sent_on(0)
            .last()
            .is_some_and(|packet| says(packet, "record end"))
    });
    let last = sent_on(0).len();
    eventually("it looks for another session", SOON, || {
        proxy.connections() > 1
    });
    proxy.thaw();
    eventually("the session is over", SOON, || {
        sent_on(0).iter().any(Packet::is_quit)
    });
    let after: Vec<Packet> = sent_on(0).split_off(last);
    assert!(after.iter().all(Packet::is_quit), "{after:?}");
    eventually("the lock is renewed on the other one", SOON, || {
        let later = proxy
            .packets()
            .into_iter()
            .filter(|packet| packet.connection > 0);
        later.into_iter().any(|packet| says(&packet, "renew"))
    });
}

#[test]
fn a_command_that_the_keeper_ends_is_ended_for_the_lost_lock_however_late_it_dies() {
    let server = Server::shared(Kind::MariaDb);
    let proxy = Proxy::to(server);
    // The keeper may not kill all of it, which stands for a machine that takes its time. What it may kill tells when it does.
    let script =
        "setpriv --reuid=65534 sh -c 'echo sign $$; exec sleep 60' & echo shell $$; exec sleep 60";
    let begin = |name: &str| {
        let folder = tempfile::tempdir().unwrap();
        let run = out_of_reach(server, name, folder.path(), &["--ttl", "8"], script);
        let mut run = run.env("DBLOCK_URL", proxy.url()).spawn();
        let [command, sign] = ["shell", "sign"].map(|word| run.wait_pid(word));
        let keeper = run.keeper(Some(command));
        (folder, run, command, sign, keeper)
    };
    let names = ["before", "after"].map(|when| unique(&format!("ended-by-keeper-{when}")));
    let runs = names.each_ref().map(|name| begin(name));
    for (_, run, ..) in &runs {
        run.signal(Signal::SIGSTOP);
    }
    // The keeper finds no server, so it has nothing else to say.
    proxy.refuse(true);
    proxy.cut();
    for (dies_first, (_folder, mut run, command, sign, keeper)) in
        [true, false].into_iter().zip(runs)
    {
        eventually_gone(sign, 2 * TTL + SOON);
        send(keeper, Signal::SIGSTOP);
        eventually("the keeper is stopped", SOON, || is_stopped(keeper));
        if dies_first {
            send(command, Signal::SIGKILL);
        }
        run.signal(Signal::SIGCONT);
        run.wait_stderr("was lost while the command r", SOON);
        if !dies_first {
            send(command, Signal::SIGKILL);
        }
        send(keeper, Signal::SIGCONT);
        let end = run.wait_within(SOON);
        end.expect_code(74)
            .expect_said(["the command was ended for it"]);
    }
}

/// The kernel counts a wait of 16 s in steps of up to two seconds. So many waits that begin one after another find out about all of a step.
const STARTS: u32 = 12;
const BETWEEN_STARTS: Duration = Duration::from_millis(170);

#[test]
fn a_stopped_dblock_whose_server_falls_silent_has_ended_its_command_before_another_holds_the_lock()
{
    let server = Server::shared(Kind::MySql);
    thread::scope(|scope| {
        for start in 0..STARTS {
            scope.spawn(move || {
                thread::sleep(start * BETWEEN_STARTS);
                is_alone_after_a_stopped_one(server);
            });
        }
    });
}

/// Another run finds nothing of the command of a dblock that is stopped and whose server has fallen silent.
fn is_alone_after_a_stopped_one(server: &Server) {
    let folder = tempfile::tempdir().unwrap();
    let (name, proxy) = (unique("stopped-and-silent"), Proxy::to(server));
    let sign = folder.path().join(&name);
    let script = with_sign_of_life(
        &sign,
        "trap '' TERM; echo shell $$; while :; do sleep 1; done",
    );
    // The keeper may be late by less than a tenth of it.
    let run = Dblock::run_at(&proxy.url(), &name).args(["--ttl", "24"]);
    let mut first = holder(run, &script).spawn();
    let command = first.wait_pid("shell");
    let second = second(server, &name, &looks_for_life(&sign));
    first.signal(Signal::SIGSTOP);
    // Just after a renewal, so that the next one is sent long before the lease is over.
    let before = renewals(&proxy);
    eventually("it is renewed", SOON, || renewals(&proxy) > before);
    eventually("the server has answered", SOON, || is_idle(server, &name));
    proxy.freeze();
    second.wait().expect_code(0).expect_stdout("alone\n");
    assert!(!runs(command), "{}", first.stderr());
    first.signal(Signal::SIGCONT);
    first.wait_within(SOON).expect_code(74);
}

#[test]
fn a_stopped_dblock_whose_keeper_was_replaced_and_found_no_server_ends_its_command() {
    let server = Server::shared(Kind::MySql);
    let (name, proxy) = (unique("replaced-and-away"), Proxy::to(server));
    let run = Dblock::run_at(&proxy.url(), &name).args(["--ttl", "12"]);
    let mut run = holder(run, TELLS_ITS_END).spawn();
    let command = run.wait_pid("shell");
    proxy.refuse(true);
    let keeper = run.keeper(Some(command));
    send(keeper, Signal::SIGKILL);
    proxy.cut();
    eventually("another keeper is there", SOON, || {
        let children = run.children();
        children.len() == 2 && !children.contains(&keeper)
    });
    run.signal(Signal::SIGSTOP);
    eventually("it is stopped", SOON, || is_stopped(run.pid()));
    assert!(runs(command), "{}", run.stderr());
    eventually_gone(command, SOON);
    run.signal(Signal::SIGCONT);
    run.wait_within(SOON).expect_code(74);
}

/// A holder that reaches its server through a proxy.
fn holder_through(server: &Server, proxy: &Proxy, name: &str, ttl: &str) -> Running {
    let run = Dblock::run_at(&proxy.url(), name).args(server.durable.then_some("--durable"));
    holder(run.args(["--ttl", ttl]), TELLS_ITS_END).spawn()
}

each_way! {
    fn a_dblock_that_hangs_and_whose_server_falls_silent_has_its_command_ended(server) {
        let (name, proxy) = (unique("hangs"), Proxy::to(server));
        let mut run = holder_through(server, &proxy, &name, "4s");
        let command = run.wait_pid("shell");
        let hung = Hung::new(run.pid());
        // Just after a renewal, whose answer has come: one that was under way would prove nothing, and the one before may be long ago.
        let before = renewals(&proxy);
        eventually("it is renewed", SOON, || {
            renewals(&proxy) > before && proxy.packets().last().is_some_and(|last| proxy.is_answered(last.connection))
        });
        let since = Instant::now();
        proxy.freeze();
        let renewed = last_sent(&proxy, since);
        eventually_gone(command, SOON);
        // It was not killed before its time either.
        assert!(renewed.elapsed() > TTL / 2, "{:?}", renewed.elapsed());
        proxy.thaw();
        // The lock is not kept for who hangs.
        let next = Dblock::run(server, &name);
        next.args(["--wait", "30"]).command(["true"]).output().expect_code(0);
        assert!(hung.hangs());
        drop(hung);
        run.wait_within(SOON).expect_code(74).expect_said(["the command was ended for it"]);
    }
}

#[test]
fn a_dblock_that_hangs_loses_nothing_while_its_server_answers() {
    let server = Server::shared(Kind::MySql);
    let (name, proxy) = (unique("hangs-on"), Proxy::to(server));
    // Its keeper may be held up for seconds.
    let mut run = holder_through(server, &proxy, &name, "8s");
    let command = run.wait_pid("shell");
    let session = server.holder(&name);
    let hung = Hung::new(run.pid());
    let begun = Instant::now();
    eventually("longer than the lease", SOON, || {
        begun.elapsed() > 2 * TTL + Duration::from_secs(2)
    });
    assert!(hung.hangs() && runs(command));
    assert_eq!(server.holder(&name), session, "its keeper has gone on");
    drop(hung);
    drop(run.take_stdin());
    run.wait_within(SOON).expect_code(6).expect_silence();
}

#[test]
fn a_keeper_that_wakes_before_its_dblock_after_the_end_of_the_lease_asks_no_server_first() {
    let server = Server::shared(Kind::MySql);
    let (name, proxy) = (unique("wakes-first"), Proxy::to(server));
    let mut run = holder_through(server, &proxy, &name, "10s");
    let command = run.wait_pid("shell");
    let keeper = run.keeper(Some(command));
    let both = [run.pid(), keeper];
    for pid in both {
        send(pid, Signal::SIGSTOP);
    }
    eventually("both are stopped", SOON, || {
        both.into_iter().all(is_stopped)
    });
    proxy.freeze();
    let stopped = Instant::now();
    eventually("the lease is over", SOON, || {
        stopped.elapsed() > Duration::from_secs(10)
    });
    assert!(runs(command), "nobody ends it meanwhile");
    send(keeper, Signal::SIGCONT);
    // A server that does not answer is waited for as long as the lease lasts.
    let gone = in_time(Duration::from_secs(5), || !runs(command));
    assert!(gone && is_stopped(run.pid()));
    proxy.thaw();
    run.signal(Signal::SIGCONT);
    run.wait_within(SOON).expect_code(74);
}

/// A holder that reaches its server through a proxy by a name; and the file by which that is resolved.
fn holder_by_name(server: &Server, name: &str, ttl: &str) -> (Running, Proxy, TempPath) {
    let proxy = Proxy::to(server);
    let url = proxy.url().replace("127.0.0.1", "db.example");
    let run = Dblock::run(server, name).env("DBLOCK_URL", url);
    let (run, hosts) = with_hosts(run.args(["--ttl", ttl]), "127.0.0.1 db.example\n");
    let run = holder(run, TELLS_ITS_END).spawn();
    // Nobody makes it hang who has it open.
    (run, proxy, hosts.into_temp_path())
}

each_lock! {
    fn a_stopped_dblock_whose_resolver_hangs_ends_its_command(server) {
        let name = unique("resolver-hangs");
        let (mut run, proxy, hosts) = holder_by_name(server, &name, "6");
        let command = run.wait_pid("shell");
        run.signal(Signal::SIGSTOP);
        eventually("it is stopped", SOON, || is_stopped(run.pid()));
        let hangs = Hangs::new(&hosts);
        proxy.cut();
        eventually("the name is being resolved", SOON, || hangs.is_waited_for());
        // The system lets it hang for 45 s.
        eventually_gone(command, SOON);
        drop(hangs);
        run.signal(Signal::SIGCONT);
        run.wait_within(SOON).expect_code(74);
    }
}

#[test]
fn a_resolver_that_hangs_goes_with_its_keeper_and_costs_nothing_once_it_answers() {
    let server = Server::shared(Kind::MySql);
    let name = unique("resolver-goes");
    let (mut run, proxy, hosts) = holder_by_name(server, &name, "60");
    let command = run.wait_pid("shell");
    let keeper = run.keeper(Some(command));
    let hangs = Hangs::new(&hosts);
    proxy.cut();
    let mut resolvers = Vec::new();
    eventually("the keeper's child resolves the name", SOON, || {
        resolvers = children_of(keeper);
        hangs.is_waited_for() && !resolvers.is_empty()
    });
    send(keeper, Signal::SIGKILL);
    eventually_gone(resolvers[0], SOON);
    drop(hangs);
    run.wait_stderr("reacquired after", SOON);
    assert!(runs(command), "{}", run.stderr());
    drop(run.take_stdin());
    run.wait_within(SOON).expect_code(6);
}

/// A run with two ways to one server: by the name of a host at the first port, and by its address at the second. The path is that of its
/// /etc/hosts, which has the name.
fn two_ways(name: &str, first: u16, second: u16) -> (Dblock, TempPath) {
    let url = format!("mysql://dblock@db.example:{first},127.0.0.1:{second}/");
    let (run, hosts) = with_hosts(Dblock::run_at(&url, name), "127.0.0.1 db.example\n");
    (run, hosts.into_temp_path())
}

#[test]
fn a_durable_holder_that_ignores_a_loss_goes_on_to_the_next_server_while_a_resolver_hangs() {
    let server = Server::durable(Kind::MariaDb);
    let (name, proxy) = (unique("resolver-ignores"), Proxy::to(server));
    let (run, hosts) = two_ways(&name, proxy.port, server.port);
    let run = run.args(["--durable", "--ttl", "60", "--on-lock-lost", "ignore"]);
    let mut run = holder(run, TELLS_ITS_END).spawn();
    run.wait_pid("shell");
    let before = server.holder(&name).expect("it is held");
    let hangs = Hangs::new(&hosts);
    proxy.cut();
    eventually("the name is being resolved", SOON, || hangs.is_waited_for());
    // The system lets it hang for 45 s.
    eventually("it is held on the next server", SOON, || {
        server.holder(&name).is_some_and(|id| id != before)
    });
    drop(hangs);
    drop(run.take_stdin());
    run.wait_within(SOON).expect_code(6);
}

#[test]
fn a_row_that_is_held_on_after_its_command_is_renewed_on_the_next_server_while_a_resolver_hangs() {
    let server = Server::durable(Kind::MariaDb);
    let (name, proxy) = (unique("resolver-holds"), Proxy::to(server));
    let (run, hosts) = two_ways(&name, proxy.port, server.port);
    let run = run.args(["--durable", "--ttl", "60", "--hold-at-least", "600", "-v"]);
    let mut run = run.command(["true"]).spawn();
    run.wait_stderr("holding", SOON);
    let before = server.holder(&name).expect("it is held");
    let hangs = Hangs::new(&hosts);
    proxy.cut();
    eventually("the name is being resolved", SOON, || hangs.is_waited_for());
    // The system lets it hang for 45 s.
    eventually("it is held on the next server", SOON, || {
        server.holder(&name).is_some_and(|id| id != before)
    });
    drop(hangs);
    run.signal(Signal::SIGTERM);
    run.wait_within(SOON).expect_code(0);
}

#[test]
fn a_durable_lock_without_a_session_is_released_on_the_next_server_while_a_resolver_hangs() {
    let server = Server::durable(Kind::MariaDb);
    let (name, proxy) = (unique("resolver-releases"), Proxy::to(server));
    let next = Proxy::to(server);
    let (run, hosts) = two_ways(&name, proxy.port, next.port);
    let run = run.args(["--durable", "--ttl", "60", "--connect-timeout", "20"]);
    let mut run = holder(run, TELLS_ITS_END).spawn();
    let command = run.wait_pid("shell");
    let hangs = Hangs::new(&hosts);
    next.refuse(true);
    proxy.cut();
    eventually("the name is being resolved", SOON, || hangs.is_waited_for());
    drop(run.take_stdin());
    eventually_gone(command, SOON);
    let ended = Instant::now();
    // By then its keeper has given up the renewal that was under way, and is to release the lock.
    eventually("it has no other server", SOON, || {
        ended.elapsed() > Duration::from_secs(6)
    });
    next.refuse(false);
    // The system lets it hang for 45 s, and the release is waited for for 20 s.
    run.wait_within(SOON).expect_code(6);
    assert_eq!(server.owner(&name, 0), None);
    drop(hangs);
}

#[test]
fn the_keeper_of_a_dblock_that_was_killed_does_not_wait_for_a_resolver_that_hangs() {
    let server = Server::durable(Kind::MariaDb);
    let name = unique("resolver-outlives");
    let (mut run, proxy, hosts) = holder_by_name(server, &name, "16");
    let command = run.wait_pid("shell");
    let keeper = run.keeper(Some(command));
    // It has no session for the release when it sees that its dblock is dead.
    let stopped = Frozen::new(keeper);
    run.signal(Signal::SIGKILL);
    run.wait_within(SOON).expect_signal(Signal::SIGKILL);
    let hangs = Hangs::new(&hosts);
    proxy.cut();
    drop(stopped);
    eventually("the name is being resolved", SOON, || hangs.is_waited_for());
    eventually_gone(command, SOON);
    // The system lets it hang for 45 s.
    eventually_gone(keeper, SOON);
    drop(hangs);
    // Nobody was left to release the row.
    let next = Dblock::run(server, &name).args(["--wait", "60"]);
    next.command(["true"]).output().expect_code(0);
}

#[test]
fn a_holder_that_somebody_ends_and_whose_resolver_hangs_goes_on_to_the_next_server() {
    let server = Server::shared(Kind::MySql);
    for policy in ["reacquire", "terminate"] {
        let (name, proxy) = (unique("resolver-ends"), Proxy::to(server));
        let mut disk = Unkillable::new();
        let (run, hosts) = two_ways(&name, proxy.port, server.port);
        let run = run.args(["--ttl", "20", "--kill-after", "0.5"]);
        let run = run.args(["--on-lock-lost", policy]).without_terminal();
        let script = format!("echo shell $$; read x <{}", quoted(&disk.file()));
        let mut run = run.sh(&script).spawn();
        let command = run.wait_pid("shell");
        disk.eventually_opened();
        let begun = Instant::now();
        let words = [&*name, "--wait", "forever"];
        let mut killing = Dblock::at(server, "kill").args(words).spawn();
        let ending = format!("{name}#end0");
        let before = server.eventually_held(&ending);
        eventually_unkillable(command);
        eventually("there is no deadline any more", SOON, || {
            begun.elapsed() > Duration::from_secs(3)
        });
        let hangs = Hangs::new(&hosts);
        proxy.cut();
        eventually("the name is being resolved", SOON, || hangs.is_waited_for());
        // The system lets it hang for 45 s, and the killer waits for 20 s for one that it does not hear of.
        eventually("its end is announced again", SOON, || {
            server.holder(&ending).is_some_and(|id| id != before)
        });
        assert!(runs(command));
        drop((hangs, disk));
        killing.wait_within(SOON).expect_code(0);
        run.wait_within(SOON).expect_code(74);
    }
}

each_lock! {
    fn who_ends_a_holder_hears_of_the_commands_end_from_the_next_server_while_a_resolver_hangs(server) {
        // For a dblock that is dead the keeper asks on the lost session first, and of a durable lock it then tries that server last.
        let both = [Signal::SIGSTOP, Signal::SIGKILL];
        let signals = if server.durable { &both[..1] } else { &both[..] };
        for &signal in signals {
            let (name, proxy) = (unique("resolver-tells"), Proxy::to(server));
            let mut disk = Unkillable::new();
            let (run, hosts) = two_ways(&name, proxy.port, server.port);
            let run = run.args(server.durable.then_some("--durable"));
            let run = run.args(["--ttl", "60", "--kill-after", "0.5"]).without_terminal();
            let mut run = run.sh(&format!("echo shell $$; read x <{}", quoted(&disk.file()))).spawn();
            let command = run.wait_pid("shell");
            let keeper = run.keeper(Some(command));
            disk.eventually_opened();
            let mut killing = Dblock::at(server, "kill").args([&*name, "--wait", "forever"]).spawn();
            let ending = format!("{name}#end0");
            eventually("its end is announced", SOON, || server.holder(&ending).is_some());
            eventually_unkillable(command);
            let begun = Instant::now();
            eventually("its keeper waits", SOON, || polls(keeper));
            // The first that its keeper sees is that its session is lost, and that the command is gone, whose time is over. Before that it
            // would open another session to keep others out, and tell of the end on that.
            let stopped = Frozen::new(keeper);
            run.signal(signal);
            eventually("it is stopped, or dead", SOON, || is_stopped(run.pid()) || !runs(run.pid()));
            let hangs = Hangs::new(&hosts);
            proxy.cut();
            drop(disk);
            eventually_gone(command, SOON);
            eventually("its time is over", SOON, || begun.elapsed() > Duration::from_secs(1));
            drop(stopped);
            eventually("the name is being resolved", SOON, || hangs.is_waited_for());
            // The system lets it hang for 45 s.
            killing.wait_within(SOON).expect_code(0).expect_silence();
            drop(hangs);
            if signal == Signal::SIGSTOP {
                run.signal(Signal::SIGCONT);
                run.wait_within(SOON).expect_code(74);
            } else {
                run.wait_within(SOON).expect_signal(Signal::SIGKILL);
            }
        }
    }
}

#[test]
fn a_holder_whose_account_is_refused_for_a_moment_has_its_lock_again() {
    let server = Server::shared(Kind::MariaDb);
    let (name, account) = (unique("refused"), unique("refused_account"));
    let mut admin = server.admin();
    let mut password = |word: &str| {
        let set = format!("CREATE OR REPLACE USER '{account}'@'%' IDENTIFIED BY '{word}'");
        admin.query_drop(set).unwrap();
    };
    password(PASSWORD);
    let run = Dblock::run(server, &name).user(&account);
    let mut run = holder(run.args(["--ttl", "60"]), TELLS_ITS_END).spawn();
    let command = run.wait_pid("shell");
    password("another");
    kill_session(server, &name);
    run.wait_stderr(" is not reacquired yet: ", SOON);
    password(PASSWORD);
    run.wait_stderr("reacquired after", SOON);
    assert!(run.is_running() && runs(command), "{}", run.stderr());
    drop(run.take_stdin());
    let end = run.wait_within(SOON);
    end.expect_code(6)
        .expect_said(["refused the account", &account]);
    server
        .admin()
        .query_drop(format!("DROP USER '{account}'@'%'"))
        .unwrap();
}

#[test]
fn a_holder_whose_host_stays_blocked_goes_on_until_its_lease_is_over_and_asks_once_a_second() {
    let server = Server::shared(Kind::MariaDb);
    let (name, proxy) = (unique("stays-blocked"), Proxy::to(server));
    let asked = Arc::new(AtomicU32::new(0));
    let told = Arc::clone(&asked);
    // While the other server is away, this one alone answers.
    let blocking = serve(move |stream| {
        told.fetch_add(1, Ordering::Relaxed);
        let _ = stream.write_all(&framed(0, &error(1129, "the host is blocked")));
        until_closed(stream);
    });
    let hosts = format!("127.0.0.1:{},127.0.0.1:{blocking}", proxy.port);
    let run = Dblock::run_at(&format!("mysql://dblock@{hosts}/"), &name).args(["--ttl", "8"]);
    let mut run = holder(run, TELLS_ITS_END).spawn();
    let command = run.wait_pid("shell");
    proxy.refuse(true);
    let proved = last_sent(&proxy, Instant::now());
    proxy.cut();
    let end = run.wait_within(SOON);
    let lasted = proved.elapsed();
    end.expect_code(74)
        .expect_said([" is not reacquired yet: ", "the host is blocked"]);
    assert!(!runs(command));
    // SIGTERM comes at nine tenths of it, less a second for SIGKILL. A renewal that was under way at the cut proves nothing: the one before
    // was two seconds earlier.
    assert!(lasted > Duration::from_secs(3), "{lasted:?}: {end:#?}");
    // Every other pause is a fifth of a second at most.
    let asked = asked.load(Ordering::Relaxed);
    assert!((2..20).contains(&asked), "asked {asked} times: {end:#?}");
}

each_lock! {
    fn a_holder_whose_host_is_blocked_for_a_moment_has_its_lock_again(server) {
        let (name, proxy) = (unique("blocked"), Proxy::to(server));
        // While the other server is away, this one alone answers.
        let blocking = serve(|stream| {
            let _ = stream.write_all(&framed(0, &error(1129, "the host is blocked")));
            until_closed(stream);
        });
        let url = format!("mysql://dblock@127.0.0.1:{},127.0.0.1:{blocking}/", proxy.port);
        let run = Dblock::run_at(&url, &name).args(server.durable.then_some("--durable"));
        let mut run = holder(run.args(["--ttl", "60", "-v"]), TELLS_ITS_END).spawn();
        let command = run.wait_pid("shell");
        proxy.refuse(true);
        proxy.cut();
        // A row outlives the session: it is not lost, and waits for its next renewal.
        let [refused, passed] = if server.durable {
            ["no server renews ", "on a new session"]
        } else {
            [" is not reacquired yet: ", "reacquired after"]
        };
        run.wait_stderr(refused, SOON);
        proxy.refuse(false);
        run.wait_stderr(passed, SOON);
        assert!(run.is_running() && runs(command), "{}", run.stderr());
        Dblock::run(server, &name).command(["true"]).output().expect_code(75);
        drop(run.take_stdin());
        run.wait_within(SOON).expect_code(6).expect_said(["the host is blocked"]);
    }
}

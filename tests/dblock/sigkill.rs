//! SIGKILL: no command runs on without the lock, and nobody else has the lock before the last of the command is gone.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{
    Dblock, Kind, Proxy, Running, SOON, Server, Unkillable, all_servers, allow_files, both_servers,
    copy_program, each_lock, each_way, eventually, eventually_gone, eventually_unkillable,
    group_of, has_session, in_time, processes_with, quoted, runs, send, slack, stat_field, unique,
    within,
};
use crate::waiting::Holder;

/// A command all of whose processes have `sign` open and locked for as long as they live.
pub fn with_sign_of_life(sign: &Path, script: &str) -> String {
    format!(
        "exec 9>{}; flock -n 9 || echo overlap; {script}",
        quoted(sign)
    )
}

/// A command that says whether any process of the other command lives when it starts.
pub fn looks_for_life(sign: &Path) -> String {
    format!("flock -n {} echo alone || echo overlap", quoted(sign))
}

/// A second copy that waits for the lock.
fn second_copy(server: &Server, name: &str, sign: &Path) -> Running {
    let second = Dblock::run(server, name)
        .without_terminal()
        .args(["--wait", "forever"])
        .sh(&looks_for_life(sign))
        .spawn();
    eventually("the second copy waits", SOON, || {
        server.waiters(name).len() == 1
    });
    second
}

/// The command is ended when the lock is lost.
const TERMINATE: [&str; 2] = ["--on-lock-lost", "terminate"];

/// A machine may stand still for seconds meanwhile.
const LASTING: [&str; 4] = ["--ttl", "12", "--kill-after", "0.2"];

/// How long the lock of such a run is waited for: longer than that.
const LONGER: &str = "14";

/// Groups that are hard to end, all of them: they print `ready` when they are complete.
const GROUPS: [&str; 6] = [
    "echo ready; sleep 60; true",
    "(sleep 60; true) & sleep 60 & echo ready; wait; true",
    "trap '' TERM HUP INT QUIT USR1 USR2; sleep 60 & echo ready; while :; do sleep 60; done",
    "sh -c 'sh -c \"echo ready; sleep 60; true\" & wait; true' & wait; true",
    "sleep 60 & echo ready; kill -STOP 0; true",
    // Many, so that ending them takes a moment.
    "perl -e 'for (1..30) { fork or do { sleep 60; exit } } $| = 1; print \"ready\\n\"; sleep 60'; true",
];

each_way! {
    fn sigkill_to_dblock_ends_the_whole_group_before_a_waiting_copy_starts(server) {
        for script in GROUPS {
            let folder = tempfile::tempdir().unwrap();
            let (sign, name) = (folder.path().join("sign"), unique("sigkill"));
            let mut first = Dblock::run(server, &name).without_terminal().sh(&with_sign_of_life(&sign, script)).spawn();
            first.wait_line("ready", SOON);
            let second = second_copy(server, &name, &sign);
            first.signal(Signal::SIGKILL);
            let end = second.wait();
            assert_eq!(end.stdout, "alone\n", "after {script:?}: {end:#?}");
            end.expect_code(0);
        }
    }

    fn sigkill_at_any_moment_leaves_no_command_without_the_lock(server) {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..30 {
            let (sign, name) = (folder.path().join(format!("sign-{round}")), unique("moment"));
            let log = folder.path().join("overlaps");
            let script = format!("flock -n 9 || echo {round} >>{}; exec sleep 60", quoted(&log));
            let mut first = Dblock::run(server, &name)
                .without_terminal()
                .command(["sh", "-c", &with_sign_of_life(&sign, &script), &name])
                .spawn();
            // From before the connection is made to after the command has started, in an order that is always the same.
            let moment = Duration::from_micros((round * 7919) % 40_000);
            within(moment, || false);
            first.signal(Signal::SIGKILL);
            let second = Dblock::run(server, &name)
                .args(["--wait", "20"])
                .sh(&format!("{}; sleep 0.02", looks_for_life(&sign)))
                .output();
            assert_eq!(second.stdout, "alone\n", "after {moment:?}: {second:#?}");
            first.wait_within(SOON);
            eventually("nothing of the first copy is left", Duration::from_secs(5), || processes_with(&name).is_empty());
            assert!(!log.exists(), "a command started beside the second copy, killed after {moment:?}");
        }
    }

    fn sigkill_to_dblock_while_it_waits_ends_its_session(server) {
        let name = unique("place");
        let _holder = server.hold(&name);
        let mut admin = server.watcher();
        for _ in 0..3 {
            let waiter = Dblock::run(server, &name).args(["--wait", "forever"]).command(["true"]).spawn();
            let mut waits = Vec::new();
            eventually("it waits", SOON, || {
                waits = server.waiters(&name);
                waits.len() == 1
            });
            let keeper = waiter.keeper(None);
            let killed = Instant::now();
            waiter.signal(Signal::SIGKILL);
            eventually_gone(keeper, SOON);
            // A session that waits is seen doing nothing for a moment of each second.
            eventually("its session is gone", SOON, || !has_session(&mut admin, waits[0]));
            // Both servers look once a second whether a client that waits for a lock is still there.
            assert!(killed.elapsed() < Duration::from_secs(1) + slack(), "{:?}", killed.elapsed());
        }
    }

    fn a_killed_waiter_does_not_delay_those_behind_it(server) {
        let name = unique("behind");
        let holder = Holder::new(server, &name);
        let waiting = || Dblock::run(server, &name).args(["--wait", "forever"]).command(["true"]);
        let first = waiting().spawn();
        eventually("it waits", SOON, || server.waiters(&name).len() == 1);
        let mut second = waiting().spawn();
        eventually("both wait", SOON, || server.waiters(&name).len() == 2);
        first.signal(Signal::SIGKILL);
        // Its session is still there when it is granted the lock.
        holder.free();
        let freed = Instant::now();
        second.wait_within(SOON).expect_code(0).expect_silence();
        // On PostgreSQL the next one looks for itself whether the one before it is gone.
        let looks = if server.kind == Kind::Postgres { 2500 } else { 0 };
        // Half a second where nothing else runs: the server looks once a second whether a client is still there.
        let most = Duration::from_millis(looks) + (3 * slack()).saturating_sub(Duration::from_millis(2500));
        assert!(freed.elapsed() < most, "{:?}", freed.elapsed());
    }

    fn the_keepers_death_is_told_also_when_the_command_has_ended_before_it_is_noticed(server) {
        let name = unique("unnoticed");
        let mut run = Dblock::run(server, &name).stdin(Stdio::piped()).sh("echo shell $$; read x; exit 6").spawn();
        let command = run.wait_pid("shell");
        let keeper = run.keeper(Some(command));
        run.signal(Signal::SIGSTOP);
        send(keeper, Signal::SIGKILL);
        eventually("the keeper is dead", SOON, || stat_field(keeper, 0).is_none_or(|state| state == "Z"));
        drop(run.take_stdin());
        eventually("the command has ended", SOON, || stat_field(command, 0).is_none_or(|state| state == "Z"));
        run.signal(Signal::SIGCONT);
        let end = run.wait_within(SOON);
        end.expect_code(6);
        if server.durable {
            // Another keeper has released it.
            end.expect_silence();
            assert_eq!(server.owner(&name, 0), None);
        } else {
            end.expect_one_line("was lost");
        }
    }

    fn a_keeper_that_is_killed_while_dblock_waits_is_replaced(server) {
        let name = unique("keeper-waits");
        let holder = server.hold(&name);
        let run = Dblock::run(server, &name).args(["--wait", "30"]).command(["echo", "ran"]).spawn();
        eventually("it waits", SOON, || server.waiters(&name).len() == 1);
        let keeper = run.keeper(None);
        send(keeper, Signal::SIGKILL);
        eventually("another one waits", SOON, || {
            run.children().first().is_some_and(|pid| *pid != keeper) && server.waiters(&name).len() == 1
        });
        drop(holder);
        run.wait().expect_code(0).expect_stdout("ran\n").expect_silence();
    }

    fn a_keeper_that_is_killed_while_it_connects_is_replaced(server) {
        let (name, proxy) = (unique("keeper-connects"), Proxy::to(server));
        proxy.freeze();
        let run = Dblock::run_at(&proxy.url(), &name).args(server.durable.then_some("--durable"));
        let run = run.args(["--connect-timeout", "60"]).command(["echo", "ran"]).spawn();
        eventually("it connects", SOON, || proxy.connections() > 0);
        let keeper = run.keeper(None);
        send(keeper, Signal::SIGKILL);
        eventually("another one connects", SOON, || run.children().first().is_some_and(|pid| *pid != keeper));
        proxy.thaw();
        run.wait().expect_code(0).expect_stdout("ran\n").expect_silence();
    }

    fn sigkill_to_both_at_once_leaves_no_command_without_the_lock(server) {
        for keeper_first in [true, false] {
            let name = unique("both");
            let mut run = Dblock::run(server, &name).without_terminal().sh("echo shell $$; exec sleep 60").spawn();
            let command = run.wait_pid("shell");
            let keeper = run.keeper(Some(command));
            let mut both = [keeper, run.pid()];
            if !keeper_first {
                both.reverse();
            }
            for pid in both {
                // The other one ends by itself as soon as it notices.
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            let gone = in_time(Duration::from_secs(5), || processes_with(&name).is_empty() && !runs(command));
            if !gone {
                send(command, Signal::SIGKILL);
            }
            assert!(gone, "the command runs on without a lock; the keeper was killed first: {keeper_first}");
            eventually("the lock is free", SOON, || server.holder(&name).is_none());
        }
    }

    fn a_command_that_waits_for_a_disk_for_ever_keeps_the_lock_for_longer_than_the_ttl(server) {
        let (name, mut disk) = (unique("disk"), Unkillable::new());
        let script = format!("echo shell $$; read x <{}", quoted(&disk.file()));
        let mut run = Dblock::run(server, &name).without_terminal().args(LASTING).sh(&script).spawn();
        let command = run.wait_pid("shell");
        disk.eventually_opened();
        run.signal(Signal::SIGKILL);
        run.wait_within(SOON).expect_signal(Signal::SIGKILL);
        eventually_unkillable(command);
        let second = |wait| Dblock::run(server, &name).args(["--wait", wait]).command(["true"]).output();
        second(LONGER).expect_code(75);
        assert!(runs(command));
        drop(disk);
        second("20").expect_code(0);
    }

    fn a_command_that_waits_for_a_disk_keeps_the_lock_for_longer_than_the_ttl_when_somebody_ends_it(server) {
        let (name, mut disk) = (unique("stuck"), Unkillable::new());
        let script = format!("echo shell $$; read x <{}", quoted(&disk.file()));
        let run = Dblock::run(server, &name).without_terminal().args(LASTING);
        let mut run = run.sh(&script).spawn();
        let command = run.wait_pid("shell");
        disk.eventually_opened();
        let told = Dblock::at(server, "kill").args([&*name, "--wait", "0"]).output();
        told.expect_code(75).expect_one_line("nobody gets the slot before it has");
        eventually_unkillable(command);
        let second = |wait| Dblock::run(server, &name).args(["--wait", wait]).command(["true"]).output();
        second(LONGER).expect_code(75);
        assert!(runs(command));
        drop(disk);
        second("20").expect_code(0);
        run.wait_within(SOON).expect_code(74);
    }

    fn a_keeper_stopped_while_dblock_waits_does_not_keep_it(server) {
        let name = unique("stopped-waits");
        let _holder = server.hold(&name);
        let run = Dblock::run(server, &name)
            .args(["--connect-timeout", "4", "--wait", "4"])
            .command(["echo", "must not run"])
            .spawn();
        eventually("it waits", SOON, || server.waiters(&name).len() == 1);
        let keeper = run.keeper(None);
        send(keeper, Signal::SIGSTOP);
        let end = run.wait();
        assert!(end.code.is_some_and(|code| code != 0), "{end:#?}");
        end.expect_stdout("").expect_one_line("").expect_took(Duration::ZERO, SOON);
        eventually_gone(keeper, SOON);
    }
}

each_lock! {
    fn sigkill_to_dblock_ends_the_whole_group_of_a_command_without_a_lock(server) {
        let run = Dblock::run(server, &unique("no-lock")).args(["--port", "1", "--connect-timeout", "0.3", "--if-unreachable", "run"]);
        let mut run = run.without_terminal().sh("sleep 60 & echo child $!; wait; true").spawn();
        let child = run.wait_pid("child");
        run.signal(Signal::SIGKILL);
        eventually_gone(child, SOON);
    }

    fn a_command_that_dblock_may_not_signal_keeps_the_lock_until_it_ends(server) {
        let name = unique("above");
        let folder = tempfile::tempdir().unwrap();
        let mut run = out_of_reach(server, &name, folder.path(), &[], "echo shell $$; exec sleep 60").spawn();
        let command = run.wait_pid("shell");
        run.signal(Signal::SIGTERM);
        run.wait_stderr("cannot forward SIGTERM", SOON);
        run.signal(Signal::SIGKILL);
        run.wait_within(SOON).expect_signal(Signal::SIGKILL);
        let second = |wait| Dblock::run(server, &name).args(["--wait", wait]).command(["true"]).output();
        second("0.5").expect_code(75);
        send(command, Signal::SIGKILL);
        eventually("the lock is free", SOON, || server.holder(&name).is_none());
        second("10").expect_code(0);
    }

    fn whoever_kills_every_dblock_by_name_leaves_the_keeper_to_end_the_command(server) {
        let mut run = Dblock::run(server, &unique("by-name")).sh("echo shell $$; exec sleep 60").spawn();
        let command = run.wait_pid("shell");
        let name_of = |pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
        assert_eq!(name_of(run.keeper(Some(command))), "dblock-keeper\n");
        assert_eq!(name_of(run.pid()), "dblock\n");
    }

    fn a_command_without_a_lock_has_no_keeper(server) {
        let name = unique("no-lock");
        let run = Dblock::run(server, &name).args(["--port", "1", "--connect-timeout", "0.3", "--if-unreachable", "run"]);
        let mut run = run.stdin(Stdio::piped()).sh("echo shell $$; read x; exit 6").spawn();
        let command = run.wait_pid("shell");
        assert_eq!(run.children(), [command]);
        drop(run.take_stdin());
        run.wait_within(SOON).expect_code(6).expect_one_line("running without the lock");
    }

    fn a_stopped_keeper_does_not_keep_dblock(server) {
        let name = unique("stopped");
        let mut run = Dblock::run(server, &name)
            .without_terminal()
            .args(["--connect-timeout", "4"])
            .stdin(Stdio::piped())
            .sh("echo shell $$; read x; exit 6")
            .spawn();
        let command = run.wait_pid("shell");
        let keeper = run.keeper(Some(command));
        send(keeper, Signal::SIGSTOP);
        drop(run.take_stdin());
        let ended = Instant::now();
        run.wait_within(SOON).expect_code(6);
        assert!(ended.elapsed() < Duration::from_secs(9) + slack(), "the connect timeout of 4 s bounds it");
        eventually_gone(keeper, SOON);
        eventually("the lock is free", SOON, || server.holder(&name).is_none());
    }

    fn the_death_of_dblocks_parent_changes_nothing(server) {
        let folder = tempfile::tempdir().unwrap();
        let done = folder.path().join("done");
        let script = format!("echo shell $$; sleep 0.5; echo done >{}", quoted(&done));
        // A shell that starts dblock and is killed, as an ssh session may be.
        let mut shell = Dblock::run(server, &unique("orphan"))
            .without_terminal()
            .under(["sh", "-c", "\"$0\" \"$@\" & wait"])
            .sh(&script)
            .spawn();
        shell.wait_pid("shell");
        shell.signal(Signal::SIGKILL);
        shell.wait_within(SOON);
        eventually("the command went on to its end", SOON, || done.exists());
    }
}

/// Copies of dblock, and of `setpriv` that makes everybody root, in a place that any user may reach.
pub fn for_another_user(folder: &Path) -> [PathBuf; 2] {
    let permit =
        |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let [dblock, become_root] = ["dblock", "setpriv"].map(|file| folder.join(file));
    copy_program(env!("CARGO_BIN_EXE_dblock"), &dblock);
    copy_program("/usr/bin/setpriv", &become_root);
    permit(folder, 0o755);
    permit(&become_root, 0o4755);
    [dblock, become_root]
}

/// What runs dblock as another user, to whom `/proc` shows what the shell's command `view` has made of it; and the script of a command
/// one of whose processes dblock may not signal. That one is none of dblock's children, but of the command's group, and does not end
/// by itself; it writes `hidden PID` into its stdout. What dblock sends reaches the others.
pub fn view_of(folder: &Path, view: &str) -> ([String; 5], String) {
    let [dblock, become_root] = for_another_user(folder);
    let (dblock, become_root) = (quoted(&dblock), quoted(&become_root));
    let exec = format!(
        "{view} && exec setpriv --reuid=65534 --regid=65534 --clear-groups {dblock} \"$@\""
    );
    let hidden = "trap \"\" TERM; echo hidden $$; while :; do sleep 0.05; done";
    let script = format!("{become_root} --reuid=0 sh -c '{hidden}' & sleep 60");
    let under = ["unshare", "--mount", "sh", "-c", &exec].map(str::to_owned);
    (under, script)
}

/// dblock with that view, around that command.
fn in_view(server: &Server, name: &str, folder: &Path, view: &str, options: &[&str]) -> Dblock {
    let (under, script) = view_of(folder, view);
    let run = Dblock::run(server, name).args(options).without_terminal();
    run.under(under).command(["sh", "-c", &script])
}

#[test]
fn the_wait_does_not_begin_again_with_another_keeper() {
    let server = Server::shared(Kind::MariaDb);
    let name = unique("rest");
    let _holder = server.hold(&name);
    let mut run = Dblock::run(server, &name)
        .args(["--wait", "6"])
        .command(["echo", "must not run"])
        .spawn();
    eventually("it waits", SOON, || server.waiters(&name).len() == 1);
    let asked = Instant::now();
    // Later in the wait than a busy machine takes for the end of it.
    assert!(!within(Duration::from_secs(2), || !run.is_running()));
    send(run.keeper(None), Signal::SIGKILL);
    run.wait_within(SOON)
        .expect_code(75)
        .expect_stdout("")
        .expect_one_line("not run");
    assert!(
        asked.elapsed() < Duration::from_millis(6500) + slack(),
        "{:?}",
        asked.elapsed()
    );
}

#[test]
fn keepers_that_are_killed_again_and_again_while_dblock_waits_are_70() {
    let server = Server::shared(Kind::MariaDb);
    let name = unique("keepers-wait");
    let _holder = server.hold(&name);
    let mut run = Dblock::run(server, &name)
        .args(["--wait", "forever"])
        .command(["echo", "must not run"])
        .spawn();
    eventually("it waits", SOON, || server.waiters(&name).len() == 1);
    eventually("dblock gives up", SOON, || {
        for pid in run.children().into_iter().filter(|pid| runs(*pid)) {
            // It may have ended meanwhile.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        !run.is_running()
    });
    run.wait()
        .expect_code(70)
        .expect_stdout("")
        .expect_one_line("again and again");
}

#[test]
fn a_command_that_cannot_be_killed_keeps_the_lock_for_longer_than_the_ttl() {
    // The one ends with its session, the other with its time.
    for server in [
        Server::shared(Kind::MariaDb),
        Server::durable(Kind::MariaDb),
    ] {
        let name = unique("longer");
        let folder = tempfile::tempdir().unwrap();
        let script = "echo shell $$; exec sleep 60";
        let run = out_of_reach(server, &name, folder.path(), &LASTING, script);
        let mut run = run.spawn();
        let command = run.wait_pid("shell");
        run.signal(Signal::SIGKILL);
        run.wait_within(SOON).expect_signal(Signal::SIGKILL);
        let second = |wait| {
            Dblock::run(server, &name)
                .args(["--wait", wait])
                .command(["true"])
                .output()
        };
        second(LONGER).expect_code(75);
        assert!(runs(command));
        send(command, Signal::SIGKILL);
        second("20").expect_code(0);
    }
}

/// Ignores SIGTERM, and ends its first thread while another one runs.
const HEADLESS: &str = r#"
import ctypes, os, signal, threading, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("python", os.getpid(), flush=True)
threading.Thread(target=time.sleep, args=(60,)).start()
ctypes.CDLL(None).pthread_exit(None)
"#;

/// Has a thread that waits for a file.
const OPENS_ASIDE: &str = r#"
import os, sys, threading, time
print("python", os.getpid(), flush=True)
threading.Thread(target=open, args=(sys.argv[1],)).start()
time.sleep(60)
"#;

/// Whether other threads of a process run, whose first one has ended.
fn is_headless(pid: i32) -> bool {
    let has_ended = stat_field(pid, 0).as_deref() == Some("Z");
    let threads = stat_field(pid, 17).and_then(|threads| threads.parse().ok());
    has_ended && threads.is_some_and(|threads: u32| threads > 1)
}

#[test]
fn a_process_whose_first_thread_has_ended_is_gone_when_dblock_is() {
    let server = Server::shared(Kind::MySql);
    let script = format!("echo shell $$; /usr/bin/python3 -c '{HEADLESS}'; true");
    let run = Dblock::run(server, &unique("headless")).without_terminal();
    let run = run.args(TERMINATE).args(["--kill-after", "1"]);
    let mut run = run.sh(&script).spawn();
    let (command, python) = (run.wait_pid("shell"), run.wait_pid("python"));
    eventually("its first thread has ended", SOON, || is_headless(python));
    send(run.keeper(Some(command)), Signal::SIGKILL);
    run.wait_within(SOON).expect_code(74);
    assert!(!is_headless(python), "it runs on");
}

#[test]
fn a_thread_that_waits_for_a_disk_for_ever_keeps_the_lock_of_a_dblock_that_was_killed() {
    let server = Server::shared(Kind::MySql);
    let (name, mut disk) = (unique("thread"), Unkillable::new());
    let run = Dblock::run(server, &name).without_terminal();
    let program = ["/usr/bin/python3", "-c", OPENS_ASIDE];
    let file = disk.file();
    let words = program.into_iter().chain(file.to_str());
    let mut run = run.command(words).spawn();
    let python = run.wait_pid("python");
    disk.eventually_opened();
    run.signal(Signal::SIGKILL);
    run.wait_within(SOON).expect_signal(Signal::SIGKILL);
    eventually("only that thread is left", SOON, || is_headless(python));
    let second = |wait| {
        let second = Dblock::run(server, &name).args(["--wait", wait]);
        second.command(["true"]).output()
    };
    second("3").expect_code(75);
    assert!(is_headless(python));
    drop(disk);
    second("20").expect_code(0);
}

#[test]
fn the_lock_is_held_until_the_group_is_gone_where_the_system_refuses_to_wait_for_events() {
    let server = Server::shared(Kind::MariaDb);
    let name = unique("refuses");
    let folder = tempfile::tempdir().unwrap();
    let mut run = in_view(server, &name, folder.path(), "true", &[]).spawn();
    let hidden = run.wait_pid("hidden");
    let group = group_of(hidden).unwrap();
    // More descriptors than that cannot be waited for.
    let limit = format!("prlimit --nofile=2:2 --pid {}", run.pid());
    let limited = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(limit.split(' '))
        .status();
    assert!(limited.unwrap().success());
    run.signal(Signal::SIGCONT);
    eventually("the command has ended", SOON, || !runs(group));
    let second = || {
        Dblock::run(server, &name)
            .args(["--wait", "0.5"])
            .command(["true"])
            .output()
    };
    second().expect_code(75);
    assert!(runs(hidden) && run.is_running(), "{}", run.stderr());
    send(hidden, Signal::SIGKILL);
    let end = run.wait_within(SOON);
    end.expect_code(71)
        .expect_said(["cannot wait: Invalid argument"]);
    eventually("the lock is free", SOON, || server.holder(&name).is_none());
}

/// Locks the rows of this name until the end of the transaction, and not the gaps beside them, where other tests insert theirs; how many.
fn lock_rows(admin: &mut Conn, table: &str, name: &str) -> usize {
    let level = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
    admin.query_drop(level).unwrap();
    admin.query_drop("START TRANSACTION").unwrap();
    let lock = format!("SELECT * FROM {table} WHERE name = '{name}' FOR UPDATE");
    let rows: Vec<mysql::Row> = admin.query(lock).unwrap();
    rows.len()
}

each_lock! {
    fn the_lock_of_a_dblock_that_was_killed_does_not_wait_for_its_record(shared) {
        let server = Server::durable(Kind::MariaDb);
        let name = unique("unrecorded");
        let kind = if shared.durable { "--durable" } else { "--record" };
        let run = Dblock::run_at(&server.url(), &name).args([kind, "--ttl", "1h"]);
        let mut run = run.sh("echo shell $$; exec sleep 60").spawn();
        run.wait_pid("shell");
        let mut admin = server.admin();
        let rows = lock_rows(&mut admin, "dblock.dblock_runs", &name);
        assert_eq!(rows, 1, "the run is recorded");
        run.signal(Signal::SIGKILL);
        eventually("the lock is free", SOON, || {
            server.holder(&name).is_none() && server.owner(&name, 0).is_none()
        });
        admin.query_drop("ROLLBACK").unwrap();
    }
}

#[test]
fn the_keeper_of_a_dblock_that_was_killed_does_not_wait_for_ever_for_the_row_of_its_lock() {
    let server = Server::durable(Kind::MariaDb);
    let name = unique("locked-row");
    let run = Dblock::run(server, &name).args(["--ttl", "8"]);
    let mut run = run.sh("echo shell $$; exec sleep 60").spawn();
    let command = run.wait_pid("shell");
    let keeper = run.keeper(Some(command));
    let mut admin = server.admin();
    let rows = lock_rows(&mut admin, "dblock.dblock_locks", &name);
    assert_eq!(rows, 1, "it is held");
    run.signal(Signal::SIGKILL);
    eventually_gone(command, SOON);
    eventually_gone(keeper, SOON);
    admin.query_drop("ROLLBACK").unwrap();
    let next = Dblock::run(server, &name).args(["--wait", "20"]);
    next.command(["true"]).output().expect_code(0);
}

#[test]
fn a_keeper_that_cannot_wait_for_events_is_replaced() {
    let server = Server::shared(Kind::MariaDb);
    let name = unique("keeper-refuses");
    let run = Dblock::run(server, &name).without_terminal();
    // Its next renewal is soon.
    let run = run.args(["--ttl", "8"]);
    let mut run = run.sh("echo shell $$; exec sleep 60").spawn();
    let command = run.wait_pid("shell");
    let before = server.holder(&name);
    allow_files(run.keeper(Some(command)), 2);
    eventually("another keeper has the lock", SOON, || {
        let holder = server.holder(&name);
        holder.is_some() && holder != before
    });
    run.wait_stderr("was reacquired", SOON);
    assert!(runs(command), "{}", run.stderr());
    send(command, Signal::SIGTERM);
    let end = run.wait_within(SOON);
    end.expect_signal(Signal::SIGTERM)
        .expect_said(["cannot wait: Invalid argument"]);
}

/// What hides the processes of others.
pub const VIEWS: [&str; 4] = [
    "mount -t proc -o hidepid=1 proc /proc",
    "mount -t proc -o hidepid=2 proc /proc",
    "mount -t proc -o hidepid=ptraceable proc /proc",
    "mount -t tmpfs none /proc",
];

#[test]
fn a_process_that_proc_does_not_show_keeps_the_lock_until_it_ends() {
    in_each_view(keeps_its_lock_behind);
}

#[test]
fn a_process_that_proc_does_not_show_keeps_the_lock_of_a_run_that_somebody_ends() {
    in_each_view(keeps_its_lock_when_killed_behind);
}

/// All at once: they do nothing but wait.
fn in_each_view(does: fn(&Server, &str)) {
    thread::scope(|scope| {
        for view in VIEWS {
            for server in [Server::shared, Server::durable] {
                scope.spawn(move || does(server(Kind::MariaDb), view));
            }
        }
    });
}

/// Somebody ends a run whose command has a process that this view hides.
fn keeps_its_lock_when_killed_behind(server: &Server, view: &str) {
    let (name, folder) = (unique("hidden"), tempfile::tempdir().unwrap());
    let options = ["--kill-after", "0.2"];
    let mut run = in_view(server, &name, folder.path(), view, &options).spawn();
    let hidden = run.wait_pid("hidden");
    let group = group_of(hidden).unwrap();
    let kill = Dblock::at(server, "kill").args([&*name, "--wait", "forever"]);
    let mut killing = kill.spawn();
    eventually("the command has ended", SOON, || !runs(group));
    let second = || {
        let second = Dblock::run(server, &name).args(["--wait", "0.5"]);
        second.command(["true"]).output()
    };
    second().expect_code(75);
    let lives = runs(hidden) && run.is_running() && killing.is_running();
    assert!(lives, "with {view}: {}", run.stderr());
    send(hidden, Signal::SIGKILL);
    run.wait_within(SOON).expect_code(74);
    killing.wait_within(SOON).expect_code(0);
    second().expect_code(0);
}

/// A run whose time is over, and whose command has a process that this view hides.
fn keeps_its_lock_behind(server: &Server, view: &str) {
    let name = unique("hidden");
    let folder = tempfile::tempdir().unwrap();
    // The process has time to begin.
    let options = ["--timeout", "8", "--kill-after", "0.2"];
    let mut run = in_view(server, &name, folder.path(), view, &options).spawn();
    let hidden = run.wait_pid("hidden");
    let group = group_of(hidden).unwrap();
    eventually("the command has ended", SOON, || !runs(group));
    let second = || {
        Dblock::run(server, &name)
            .args(["--wait", "0.5"])
            .command(["true"])
            .output()
    };
    second().expect_code(75);
    assert!(
        runs(hidden) && run.is_running(),
        "with {view}: {}",
        run.stderr()
    );
    send(hidden, Signal::SIGKILL);
    run.wait_within(SOON).expect_code(137);
    second().expect_code(0);
}

#[test]
fn a_process_that_proc_does_not_show_keeps_the_lock_of_a_dblock_that_was_killed() {
    in_each_view(keeps_its_lock_without_a_dblock_behind);
}

/// A dblock that is killed, and whose command has a process that this view hides.
fn keeps_its_lock_without_a_dblock_behind(server: &Server, view: &str) {
    let name = unique("hidden-killed");
    let folder = tempfile::tempdir().unwrap();
    let mut run = in_view(server, &name, folder.path(), view, &[]).spawn();
    let hidden = run.wait_pid("hidden");
    let group = group_of(hidden).unwrap();
    run.signal(Signal::SIGKILL);
    run.wait_within(SOON).expect_signal(Signal::SIGKILL);
    eventually("the command has ended", SOON, || !runs(group));
    let second = |wait| {
        let second = Dblock::run(server, &name).args(["--wait", wait]);
        second.command(["true"]).output()
    };
    second("0.5").expect_code(75);
    assert!(runs(hidden), "with {view}");
    send(hidden, Signal::SIGKILL);
    second("20").expect_code(0);
}

/// dblock as another user, with these options, around a command that becomes root and so may not be signalled.
pub fn out_of_reach(
    server: &Server,
    name: &str,
    folder: &Path,
    options: &[&str],
    script: &str,
) -> Dblock {
    let [dblock, become_root] = for_another_user(folder);
    let exec = format!("exec {} \"$@\"", quoted(&dblock));
    Dblock::run(server, name)
        .args(options)
        .without_terminal()
        .under([
            "setpriv",
            "--reuid=65534",
            "--clear-groups",
            "sh",
            "-c",
            &exec,
        ])
        .command([
            become_root.to_str().unwrap(),
            "--reuid=0",
            "sh",
            "-c",
            script,
        ])
}

all_servers! {
    fn sigkill_to_both_at_once_stops_the_work_of_the_whole_group_before_a_waiting_copy_starts(server on mariadb) {
        // What they wrote last, not that they are gone: nobody is left to wait for that, and a busy machine may take long to
        // clear away what is dead.
        let work = "perl -MTime::HiRes=time -e '$| = 1; for (1..8) { fork and next; while (1) { print STDERR time . qq(\\n); \
                    select undef, undef, undef, 0.0005 } } print qq(ready\\n); sleep 60'; true";
        for round in 0..12 {
            let name = unique("both");
            let mut first = Dblock::run(server, &name).without_terminal().sh(&format!("echo shell $$; {work}")).spawn();
            let command = first.wait_pid("shell");
            first.wait_line("ready", SOON);
            let mut both = [first.keeper(Some(command)), first.pid()];
            if round % 2 == 0 {
                both.reverse();
            }
            let second = Dblock::run(server, &name)
                .without_terminal()
                .args(["--wait", "forever"])
                .command(["perl", "-MTime::HiRes=time", "-e", "print time"])
                .spawn();
            eventually("the second copy waits", SOON, || server.waiters(&name).len() == 1);
            eventually("the work is under way", SOON, || !first.stderr().is_empty());
            for pid in both {
                // The other one ends by itself as soon as it notices.
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            let end = second.wait();
            let began: f64 = end.expect_code(0).stdout.parse().expect("a time");
            eventually("the work is over", SOON, || {
                let before = first.stderr().len();
                !within(Duration::from_millis(20), || first.stderr().len() > before)
            });
            let work = first.stderr();
            let last = work.lines().filter_map(|line| line.parse::<f64>().ok()).fold(0.0, f64::max);
            assert!(0.0 < last && last < began, "round {round}: {last} is not before {began}");
        }
    }

    fn sigkill_to_the_keeper_ends_the_command_if_that_is_asked_for(server on mysql) {
        let name = unique("keeper");
        let script = "trap 'echo asked; exit 3' TERM; sleep 60 & echo shell $$; wait";
        let mut run = Dblock::run(server, &name).args(TERMINATE).without_terminal().sh(script).spawn();
        let command = run.wait_pid("shell");
        send(run.keeper(Some(command)), Signal::SIGKILL);
        let end = run.wait_within(SOON);
        end.expect_code(74);
        assert!(end.stderr.lines().all(|line| line.starts_with("dblock: ")), "{end:#?}");
        assert!(end.stderr.contains("was lost, and the command was ended for it"), "{end:#?}");
        assert!(end.stdout.ends_with("\nasked\n"), "SIGTERM comes first: {end:#?}");
        eventually_gone(command, SOON);
        eventually("the lock is free", SOON, || server.holder(&name).is_none());
    }

    fn sigkill_to_the_keeper_frees_the_lock_only_when_the_command_is_gone(server on mariadb) {
        let folder = tempfile::tempdir().unwrap();
        let (sign, name) = (folder.path().join("sign"), unique("keeper"));
        let script = with_sign_of_life(&sign, "trap '' TERM; echo shell $$; while :; do sleep 0.1; done");
        let mut first = Dblock::run(server, &name).without_terminal().args(TERMINATE).args(["--kill-after", "1"]).sh(&script).spawn();
        let command = first.wait_pid("shell");
        let second = second_copy(server, &name, &sign);
        send(first.keeper(Some(command)), Signal::SIGKILL);
        let end = second.wait();
        assert_eq!(end.stdout, "alone\n", "{end:#?}");
        first.wait().expect_code(74);
    }
}

// What happens to a named lock, which ends with its session.
both_servers! {
    fn without_a_keeper_a_command_that_ignores_term_is_killed_ten_seconds_later(server on mysql) {
        let folder = tempfile::tempdir().unwrap();
        let sign = folder.path().join("sign");
        let script = "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & echo shell $$; while :; do sleep 1; done";
        let mut run = Dblock::run(server, &unique("stubborn"))
            .args(TERMINATE)
            .without_terminal()
            .sh(&with_sign_of_life(&sign, script))
            .spawn();
        let command = run.wait_pid("shell");
        let killed = Instant::now();
        send(run.keeper(Some(command)), Signal::SIGKILL);
        let end = run.wait_within(Duration::from_secs(25));
        end.expect_code(74);
        assert!(killed.elapsed() > Duration::from_secs(9), "it has ten seconds: {end:#?}");
        let file = std::fs::File::open(&sign).unwrap();
        assert!(Flock::lock(file, FlockArg::LockExclusiveNonblock).is_ok(), "all of the group are gone");
    }
}

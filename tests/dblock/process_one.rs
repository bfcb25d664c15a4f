//! As process 1 of a container: signals work, orphans are reaped, and codes are those that a shell would see.

use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::{
    Dblock, Running, SOON, Server, both_servers, children_of, each_lock, eventually, quoted, send,
    stat_field, unique, within,
};

/// dblock as process 1 of a new pid namespace.
fn as_process_one(server: &Server, name: &str) -> Dblock {
    Dblock::run(server, name).without_terminal().under([
        "unshare",
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
    ])
}

/// dblock's number outside of its namespace.
fn outside(unshare: &Running) -> i32 {
    let mut one = None;
    eventually("unshare has a child", SOON, || {
        one = children_of(unshare.pid()).first().copied();
        one.is_some()
    });
    one.expect("it was just seen")
}

each_lock! {
    fn process_one_passes_exit_codes_through(server) {
        for code in [0, 1, 7, 255] {
            let run = as_process_one(server, &unique("one")).sh(&format!("exit {code}")).output();
            run.expect_code(code).expect_silence();
        }
    }

    fn process_one_is_process_one(server) {
        let run = as_process_one(server, &unique("one")).sh("cat /proc/1/comm; echo $PPID").output();
        run.expect_code(0).expect_stdout("dblock\n1\n");
    }

    fn process_one_exits_with_128_and_the_signal_of_its_command(server) {
        for signal in [Signal::SIGTERM, Signal::SIGKILL, Signal::SIGSEGV, Signal::SIGHUP, Signal::SIGUSR1] {
            let run = as_process_one(server, &unique("one")).sh(&format!("kill -{} $$", signal as i32)).output();
            run.expect_code(128 + signal as i32);
        }
    }

    fn a_signal_ends_process_one_while_it_waits(server) {
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1] {
            let name = unique("one");
            let _holder = server.hold(&name);
            let run = as_process_one(server, &name).args(["--wait", "forever"]).command(["true"]).spawn();
            eventually("it waits", SOON, || server.waiters(&name).len() == 1);
            send(outside(&run), signal);
            run.wait().expect_code(128 + signal as i32);
            eventually("its place is gone", SOON, || server.waiters(&name).is_empty());
        }
    }

    fn a_signal_to_process_one_reaches_the_command(server) {
        for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130), (Signal::SIGUSR2, 5)] {
            let script = "trap 'exit 5' USR2; echo ready; while :; do sleep 0.05; done";
            let mut run = as_process_one(server, &unique("one")).sh(script).spawn();
            run.wait_line("ready", SOON);
            send(outside(&run), signal);
            run.wait().expect_code(code);
        }
    }

    fn process_one_reaps_orphans(server) {
        let mut run = as_process_one(server, &unique("one"))
            .stdin(Stdio::piped())
            .sh("for n in 1 2 3 4 5 6 7 8 9; do (sh -c 'sleep 0.1; exit 3' &); done; echo made; read x; exit 7")
            .spawn();
        run.wait_line("made", SOON);
        let one = outside(&run);
        let zombies = || children_of(one).into_iter().filter(|&pid| stat_field(pid, 0).as_deref() == Some("Z")).count();
        eventually("keeper and command are left", SOON, || children_of(one).len() == 2);
        assert_eq!(zombies(), 0);
        drop(run.take_stdin());
        run.wait().expect_code(7).expect_silence();
    }

    fn process_one_reaps_orphans_whatever_the_command_does_meanwhile(server) {
        // Orphans end all the time, also just when the command does.
        let script = "for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do (sh -c 'exit 3' &); done; exit 7";
        for _ in 0..10 {
            as_process_one(server, &unique("one")).sh(script).output().expect_code(7).expect_silence();
        }
    }

    fn process_one_does_not_wait_for_orphans(server) {
        let run = as_process_one(server, &unique("one")).sh("(sleep 30 &); exit 7").output();
        run.expect_code(7).expect_took(Duration::ZERO, SOON);
    }

    fn process_one_ends_a_command_that_runs_too_long(server) {
        // The one has time to die, and the other to begin.
        for (script, timeout, kill_after, code) in
            [("exec sleep 60", "1", "30", 124), ("trap '' TERM; while :; do sleep 0.1; done", "5", "0.5", 137)]
        {
            let name = unique("one");
            let run = as_process_one(server, &name).args(["--timeout", timeout, "--kill-after", kill_after]).sh(script).output();
            run.expect_code(code).expect_one_line(&format!("the command has run for {timeout}s"));
            assert_eq!(server.holder(&name), None);
        }
    }

    fn process_one_reaps_orphans_in_the_hold(server) {
        for keeper_is_killed in [false, true] {
            let name = unique("one");
            let folder = tempfile::tempdir().unwrap();
            let end = folder.path().join("end");
            let orphan = format!("until [ -e {} ]; do sleep 0.1; done; exit 3", quoted(&end));
            let script = format!("for n in 1 2 3; do (sh -c \"{orphan}\" &); done; exit 7");
            let mut run = as_process_one(server, &name).args(["-v", "--hold-at-least", "50"]).sh(&script).spawn();
            run.wait_stderr("dblock: holding ", SOON);
            let one = outside(&run);
            eventually("the command is reaped", SOON, || children_of(one).len() == 4);
            if keeper_is_killed {
                send(children_of(one)[0], Signal::SIGKILL);
            }
            std::fs::write(&end, "").unwrap();
            // The last is the keeper, or the one that has taken its place.
            eventually("all that have ended are reaped", SOON, || children_of(one).len() == 1);
            eventually("it is held", SOON, || server.holder(&name).is_some());
            assert!(run.is_running());
            send(one, Signal::SIGTERM);
            run.wait_within(SOON).expect_code(7);
            eventually("the lock is free", SOON, || server.holder(&name).is_none());
        }
    }

    fn process_one_says_75_when_the_lock_is_taken(server) {
        let name = unique("one");
        let _holder = server.hold(&name);
        as_process_one(server, &name).command(["true"]).output().expect_code(75).expect_one_line("not run");
    }
}

// What happens to a named lock, which ends with its session.
both_servers! {
    fn process_one_reaps_orphans_while_it_ends_its_command(server on mysql) {
        let script = "trap '' TERM; echo ready; while :; do (sh -c 'sleep 0.05' &); sleep 0.05; done";
        for options in [&["-v", "-k", "30", "--on-lock-lost", "terminate"][..], &["-t", "5", "-k", "30"]] {
            let mut run = as_process_one(server, &unique("one")).args(options).sh(script).spawn();
            run.wait_line("ready", SOON);
            let one = outside(&run);
            if options.contains(&"-t") {
                run.wait_stderr("ending", SOON);
            }
            send(children_of(one)[0], Signal::SIGKILL);
            run.wait_stderr("ending", SOON);
            let ending = Instant::now();
            let zombies = || children_of(one).into_iter().filter(|&pid| stat_field(pid, 0).as_deref() == Some("Z")).count();
            // Few are left for a whole second: one that was held up reaps them late.
            let (mut left, mut few_since) = (0, ending);
            let some_came_and_went = within(Duration::from_secs(20), || {
                left = zombies();
                if left >= 8 {
                    few_since = Instant::now();
                }
                ending.elapsed() > Duration::from_secs(2) && few_since.elapsed() > Duration::from_secs(1)
            });
            assert!(some_came_and_went && run.is_running(), "{left} orphans were left: {}", run.stderr());
        }
    }
}

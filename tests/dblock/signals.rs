//! Signals for the command: each that is sent to dblock while the command runs goes on to it, once, and dblock waits.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{
    Dblock, PAIR, Running, SOON, Server, each_lock, eventually, eventually_gone, group_of,
    is_stopped, stat_field, unique, within,
};

/// What dblock passes on, as a shell calls it.
const FORWARDED: [(Signal, &str); 8] = [
    (Signal::SIGHUP, "HUP"),
    (Signal::SIGINT, "INT"),
    (Signal::SIGQUIT, "QUIT"),
    (Signal::SIGTERM, "TERM"),
    (Signal::SIGUSR1, "USR1"),
    (Signal::SIGUSR2, "USR2"),
    (Signal::SIGTSTP, "TSTP"),
    (Signal::SIGCONT, "CONT"),
];

/// A command of two processes that count what is passed on, without a terminal; and the number of the first.
fn pair(server: &Server) -> (Running, i32) {
    let names = FORWARDED.map(|(_, name)| name);
    let mut pair = Dblock::run(server, &unique("signals"))
        .without_terminal()
        .command(["perl", "-e", PAIR].into_iter().chain(names))
        .spawn();
    pair.wait_line("child ready", SOON);
    let parent = pair.wait_pid("parent ready");
    (pair, parent)
}

each_lock! {
    fn every_signal_reaches_the_whole_group_each_time_once(server) {
        let (mut pair, parent) = pair(server);
        for (signal, name) in FORWARDED {
            for times in 1..=5 {
                pair.signal(signal);
                for who in ["parent", "child"] {
                    pair.wait_line(&format!("{who} {name} {times}"), SOON);
                }
            }
        }
        kill(Pid::from_raw(parent), Signal::SIGWINCH).unwrap();
        let end = pair.wait();
        // Two words of readiness, and each signal five times at both: none came twice.
        assert_eq!(end.stdout.lines().count(), 2 + 8 * 5 * 2, "{end:#?}");
        end.expect_code(7).expect_silence();
    }

    fn signals_in_quick_succession_all_arrive(server) {
        let (mut pair, parent) = pair(server);
        // Different ones, which the kernel does not merge. SIGCONT takes back a SIGTSTP that waits to be seen.
        let others = FORWARDED.into_iter().filter(|(signal, _)| *signal != Signal::SIGTSTP);
        for (signal, _) in others.clone() {
            pair.signal(signal);
        }
        for (_, name) in others {
            pair.wait_line(&format!("parent {name} 1"), SOON);
        }
        kill(Pid::from_raw(parent), Signal::SIGWINCH).unwrap();
        pair.wait().expect_code(7);
    }

    fn dblock_waits_for_a_command_that_takes_its_time_after_term(server) {
        let name = unique("slow-end");
        let folder = tempfile::tempdir().unwrap();
        let go = folder.path().join("go");
        let until_told = format!("until test -e {}; do sleep 0.1; done", go.display());
        let script = format!("trap 'echo asked; {until_told}; echo done; exit 9' TERM; sleep 60 & echo ready; wait");
        let mut run = Dblock::run(server, &name).without_terminal().sh(&script).spawn();
        run.wait_line("ready", SOON);
        run.signal(Signal::SIGTERM);
        run.wait_line("asked", SOON);
        assert!(server.holder(&name).is_some(), "the lock is held until the command has ended");
        std::fs::write(go, "").unwrap();
        run.wait().expect_code(9).expect_stdout("ready\nasked\ndone\n").expect_silence();
    }

    fn a_command_that_a_signal_ends_ends_dblock_by_the_same_signal(server) {
        for signal in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM, Signal::SIGUSR1] {
            let mut run = Dblock::run(server, &unique("ended")).without_terminal().sh("echo ready; exec sleep 60").spawn();
            run.wait_line("ready", SOON);
            run.signal(signal);
            run.wait().expect_signal(signal).expect_silence();
        }
    }

    fn tstp_stops_the_group_and_cont_goes_on(server) {
        let mut run = Dblock::run(server, &unique("stop"))
            .without_terminal()
            .sh("sleep 60 & echo sleeper $!; echo shell $$; wait")
            .spawn();
        let group = [run.wait_pid("sleeper"), run.wait_pid("shell")];
        for _ in 0..3 {
            run.signal(Signal::SIGTSTP);
            eventually("all of the group are stopped", SOON, || group.into_iter().all(is_stopped));
            run.signal(Signal::SIGCONT);
            eventually("all of the group go on", SOON, || !group.into_iter().any(is_stopped));
        }
        run.signal(Signal::SIGTERM);
        run.wait().expect_signal(Signal::SIGTERM);
        eventually_gone(group[0], SOON);
    }

    fn a_signal_at_the_start_ends_dblock_or_reaches_the_command(server) {
        let script = "$SIG{$_} = sub { exit 7 } for qw(HUP INT QUIT TERM USR1 USR2); select undef, undef, undef, 0.02 while 1";
        for (round, (signal, _)) in (0..).zip(FORWARDED.iter().take(6).cycle().take(48)) {
            let name = unique("early");
            let mut run = Dblock::run(server, &name).without_terminal().command(["perl", "-e", script]).spawn();
            // From before dblock's first instruction to after the command's.
            within(Duration::from_millis(round), || false);
            run.signal(*signal);
            let end = run.wait_within(SOON);
            assert!(end.code == Some(7) || end.signal == Some(*signal as i32), "after {round} ms: {end:#?}");
            eventually("the lock is free", SOON, || server.holder(&name).is_none());
        }
    }

    fn many_signals_at_the_start_end_dblock_or_reach_the_command(server) {
        for _ in 0..10 {
            let script = "$SIG{USR1} = sub { exit 7 }; select undef, undef, undef, 0.02 while 1";
            let mut run = Dblock::run(server, &unique("storm")).without_terminal().command(["perl", "-e", script]).spawn();
            eventually("dblock ends", SOON, || {
                let running = run.is_running();
                if running {
                    run.signal(Signal::SIGUSR1);
                }
                !running
            });
            let end = run.wait();
            assert!(end.code == Some(7) || end.signal == Some(Signal::SIGUSR1 as i32), "{end:#?}");
        }
    }

    fn without_a_terminal_the_command_leads_a_group_in_the_same_session(server) {
        let mut run = Dblock::run(server, &unique("group")).without_terminal().sh("echo shell $$; exec sleep 60").spawn();
        let command = run.wait_pid("shell");
        assert_eq!(group_of(command), Some(command), "it leads its group");
        assert_ne!(group_of(run.pid()), Some(command), "dblock is not in it");
        assert_eq!(stat_field(command, 3), stat_field(run.pid(), 3), "the session is the same");
    }

    fn a_signal_to_the_keeper_alone_changes_nothing(server) {
        let mut run = Dblock::run(server, &unique("keeper"))
            .without_terminal()
            .stdin(std::process::Stdio::piped())
            .sh("echo shell $$; read x; exit 4")
            .spawn();
        let command = run.wait_pid("shell");
        let keeper = Pid::from_raw(run.keeper(Some(command)));
        for (signal, _) in FORWARDED {
            kill(keeper, signal).unwrap();
        }
        drop(run.take_stdin());
        run.wait().expect_code(4).expect_silence();
    }
}

//! `--timeout` and `--kill-after`: a command that runs too long is ended as timeout(1) ends it, and its whole group with
//! it; only then the lock is free.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigHandler, Signal, signal};

use crate::harness::pty::Shell;
use crate::harness::{
    Dblock, Frozen, Output, PAIR, Running, SOON, Server, Watcher, all_servers, each_lock,
    eventually, eventually_gone, runs, send, slack, unique,
};
use crate::sigkill::out_of_reach;

/// Prints `asked` on SIGTERM and `heard` on SIGUSR1, and goes on; SIGINT ends it with code 3.
const STUBBORN: &str = r#"
    $| = 1;
    $SIG{TERM} = sub { print "asked\n" };
    $SIG{USR1} = sub { print "heard\n" };
    $SIG{INT} = sub { exit 3 };
    print "perl $$\n";
    select undef, undef, undef, 0.02 while 1;
"#;

/// A call without a terminal, whose command may run so long.
fn limited(server: &Server, name: &str, limit: &str) -> Dblock {
    Dblock::run(server, name)
        .without_terminal()
        .args(["--timeout", limit])
}

/// What came of a run whose command says this as it begins. One that had not begun when its time was over, as on a machine that stands
/// still, is made again.
#[track_caller]
fn begun(word: &str, run: impl Fn() -> Dblock) -> Output {
    let mut tries = (0..5).map(|_| run().output());
    let begun = tries.find(|run| run.stdout.starts_with(word));
    begun.expect("it begins in time")
}

/// What came of a run of [`STUBBORN`], likewise.
#[track_caller]
fn stubborn(dblock: impl Fn() -> Dblock) -> Output {
    begun("perl ", || dblock().command(["perl", "-e", STUBBORN]))
}

/// A run of [`STUBBORN`], likewise, that was asked to end.
#[track_caller]
fn asked(dblock: impl Fn() -> Dblock) -> Running {
    let run = |_| {
        let mut run = dblock().command(["perl", "-e", STUBBORN]).spawn();
        eventually("it is asked to end, or has ended", SOON, || {
            run.stdout().contains("asked\n") || !run.is_running()
        });
        run.is_running().then_some(run)
    };
    (0..5).find_map(run).expect("it begins in time")
}

/// All of a group are asked to end. `false`: they had not all begun in time.
fn all_are_asked(server: &Server) -> bool {
    let script =
        "sleep 60 & echo child $!; sh -c 'sleep 60 & echo grandchild $!; wait; true' & wait; true";
    let mut run = limited(server, &unique("group"), "3").sh(script).spawn();
    eventually("all have begun, or it has ended", SOON, || {
        run.stdout().contains("grandchild ") || !run.is_running()
    });
    if !run.stdout().contains("grandchild ") {
        return false;
    }
    let children = [run.wait_pid("child"), run.wait_pid("grandchild")];
    run.wait_within(SOON).expect_code(124);
    let are_there = children.into_iter().any(runs);
    assert!(!are_there, "all of the group are gone when dblock is");
    true
}

/// A grandchild that does not heed SIGTERM is killed. `false`: it had not begun in time, or was not seen before it was killed.
fn the_last_is_killed(server: &Server) -> bool {
    let name = unique("last");
    // The command itself ends at once. Its grandchild does not.
    let deaf = "trap \"\" TERM; echo grandchild $$; while :; do sleep 0.1; done";
    let script = format!("(sh -c '{deaf}' & wait) & echo shell $$; wait");
    let run = limited(server, &name, "3").args(["-k", "4"]);
    let mut run = run.sh(&script).spawn();
    eventually("both have begun, or it has ended", SOON, || {
        let said = run.stdout();
        said.contains("shell ") && said.contains("grandchild ") || !run.is_running()
    });
    let said = run.stdout();
    if !said.contains("shell ") || !said.contains("grandchild ") {
        return false;
    }
    let (command, grandchild) = (run.wait_pid("shell"), run.wait_pid("grandchild"));
    eventually_gone(command, SOON);
    let is_held = server.holder(&name).is_some();
    let is_seen = runs(grandchild) && run.is_running();
    let (end, due) = (run.wait_within(SOON), Duration::from_secs(7));
    // It has its time.
    end.expect_code(137).expect_took(due, due + slack());
    assert!(!runs(grandchild), "it was killed");
    assert_eq!(server.holder(&name), None);
    assert!(
        is_held || !is_seen,
        "the lock is held until the last has ended"
    );
    is_seen
}

/// A command is ended in time while the keeper is stopped. `false`: it had not begun in time, or the keeper was not stopped before that was
/// over.
fn is_ended_without_its_keeper(server: &Server) -> bool {
    let name = unique("keeper");
    let (limit, answer) = (Duration::from_secs(3), Duration::from_secs(4));
    let run = limited(server, &name, "3").args(["--connect-timeout", "4"]);
    let mut run = run.sh("echo shell $$; exec sleep 60").spawn();
    eventually("it has begun, or has ended", SOON, || {
        run.stdout().contains("shell ") || !run.is_running()
    });
    if !run.stdout().contains("shell ") {
        return false;
    }
    let command = run.wait_pid("shell");
    let keeper = run.children().into_iter().find(|&pid| pid != command);
    let _stopped = keeper.and_then(Frozen::of);
    if run.stderr().contains("has run for") {
        return false;
    }
    let end = run.wait_within(SOON);
    end.expect_code(124)
        .expect_took(limit + answer, limit + answer + slack());
    eventually("the lock is free", SOON, || server.holder(&name).is_none());
    true
}

each_lock! {
    fn a_command_that_runs_too_long_is_ended_and_the_lock_is_free(server) {
        let name = unique("too-long");
        let limit = Duration::from_millis(400);
        let run = limited(server, &name, "0.4").command(["sleep", "60"]).output();
        run.expect_code(124).expect_one_line("the command has run for 400ms; ending it").expect_took(limit, limit + slack());
        assert_eq!(server.holder(&name), None);
        let short = Dblock::run(server, &name).args(["-t", "400ms", "-q"]).command(["sleep", "60"]).output();
        short.expect_code(124).expect_silence();
        assert_eq!(server.holder(&name), None);
    }

    fn the_time_begins_with_the_command_and_not_with_the_wait(server) {
        let name = unique("begin");
        let client = server.hold(&name);
        let begun = Instant::now();
        let run = limited(server, &name, "1").args(["--wait", "50"]).command(["sleep", "60"]).spawn();
        eventually("it has waited for longer than the limit", SOON, || {
            begun.elapsed() > Duration::from_millis(1300) && server.waiters(&name).len() == 1
        });
        let freed = Instant::now();
        drop(client);
        run.wait().expect_code(124);
        let took = freed.elapsed();
        assert!(Duration::from_secs(1) <= took && took <= Duration::from_secs(1) + slack(), "{took:?}");
    }

    fn a_limit_of_zero_is_none(server) {
        let run = limited(server, &unique("zero"), "0").sh("sleep 0.2; exit 5").output();
        run.expect_code(5).expect_silence();
    }

    fn a_command_that_ends_in_time_ends_as_it_ends(server) {
        for code in [0, 7, 124, 137] {
            let run = limited(server, &unique("in-time"), "30").sh(&format!("exit {code}")).output();
            run.expect_code(code).expect_silence();
        }
        for signal in [Signal::SIGTERM, Signal::SIGKILL, Signal::SIGHUP] {
            let run = limited(server, &unique("in-time"), "30").sh(&format!("kill -{} $$", signal as i32)).output();
            run.expect_signal(signal).expect_silence();
        }
    }

    fn a_command_that_answers_term_with_a_code_of_its_own_is_124(server) {
        let script = "trap 'echo asked; exit 3' TERM; echo ready; sleep 60 & wait";
        let run = begun("ready\n", || limited(server, &unique("own-code"), "3").sh(script));
        run.expect_code(124).expect_stdout("ready\nasked\n").expect_one_line("has run for 3s");
    }

    fn a_command_that_does_not_heed_term_is_killed_and_is_137(server) {
        let name = unique("stubborn");
        let least = Duration::from_secs(5);
        let run = stubborn(|| limited(server, &name, "3").args(["--kill-after", "2"]));
        // An exit code: dblock itself does not die of SIGKILL.
        run.expect_code(137).expect_one_line("has run for 3s").expect_took(least, least + slack());
        assert!(run.stdout.ends_with("\nasked\n"), "it was asked once: {run:#?}");
        assert_eq!(server.holder(&name), None);
    }

    fn kill_after_of_zero_kills_at_once(server) {
        for script in ["exec sleep 60", "trap '' TERM; while :; do sleep 0.1; done"] {
            let run = limited(server, &unique("at-once"), "0.5").args(["-k", "0"]).sh(script).output();
            run.expect_code(137).expect_took(Duration::ZERO, Duration::from_millis(500) + slack());
        }
    }

    fn kill_after_without_a_limit_does_nothing(server) {
        let run = Dblock::run(server, &unique("alone")).args(["-k", "0"]).sh("sleep 0.2; exit 4").output();
        run.expect_code(4).expect_silence();
    }

    fn the_whole_group_is_asked_to_end(server) {
        assert!((0..5).any(|_| all_are_asked(server)), "they never began in time");
    }

    fn the_last_of_the_group_is_killed_before_the_lock_is_free(server) {
        assert!((0..5).any(|_| the_last_is_killed(server)), "it never began in time");
    }

    fn with_a_terminal_the_commands_process_alone_is_ended(server) {
        let mut shell = Shell::start(server);
        let script = PAIR.replace('\n', " ");
        // Both have time to begin.
        shell.dblock(&format!("--timeout 8 --kill-after 2 perl -e '{script}' TERM"));
        eventually("both are ready", SOON, || {
            let seen = shell.all();
            seen.contains("child ready") && seen.contains("parent ready")
        });
        let child = shell.all().split("child ready ").nth(1).and_then(|rest| rest.lines().next()).map(str::to_owned);
        let parent = shell.wait_pid("parent ready");
        shell.wait_for("parent TERM 1");
        shell.expect_code(137);
        assert!(!runs(parent));
        let child = child.and_then(|child| child.parse().ok()).expect("a process id");
        assert!(runs(child), "its children are its own business, as with timeout --foreground");
        assert!(!shell.all().contains("child TERM"), "{}", shell.all());
        assert_eq!(server.holder(&shell.name), None);
    }

    fn a_command_that_is_stopped_is_ended_too(server) {
        let kill_after = Duration::from_secs(10);
        for stop in ["kill -STOP $$", "sleep 60 & kill -STOP 0"] {
            let run = limited(server, &unique("stopped"), "0.5").sh(&format!("{stop}; exec sleep 60")).output();
            run.expect_code(124).expect_took(Duration::ZERO, kill_after);
        }
    }

    fn signals_still_reach_a_command_that_is_being_ended(server) {
        let mut run = asked(|| limited(server, &unique("grace"), "3").args(["--kill-after", "50"]));
        run.signal(Signal::SIGUSR1);
        run.wait_line("heard", SOON);
        run.signal(Signal::SIGINT);
        run.wait_within(SOON).expect_code(124).expect_one_line("has run for");
    }

    fn sigkill_to_dblock_kills_a_command_that_is_being_ended(server) {
        let name = unique("killed");
        let mut run = asked(|| limited(server, &name, "3").args(["--kill-after", "50"]));
        let command = run.wait_pid("perl");
        run.signal(Signal::SIGKILL);
        run.wait_within(SOON).expect_signal(Signal::SIGKILL);
        eventually_gone(command, SOON);
        eventually("the lock is free", SOON, || server.holder(&name).is_none());
    }

    fn the_keepers_death_does_not_spare_a_command_that_is_being_ended(server) {
        let name = unique("keeper");
        let mut run = asked(|| limited(server, &name, "3").args(["--kill-after", "8"]));
        let command = run.wait_pid("perl");
        send(run.keeper(Some(command)), Signal::SIGKILL);
        let end = run.wait_within(SOON);
        end.expect_code(137).expect_said(["has run for"]);
        assert!(!runs(command));
        if server.durable {
            // Another keeper has released it.
            end.expect_one_line("has run for");
            assert_eq!(server.owner(&name, 0), None);
        } else {
            end.expect_said(["was lost"]);
        }
    }

    fn a_stopped_keeper_does_not_stop_the_clock(server) {
        assert!((0..5).any(|_| is_ended_without_its_keeper(server)), "it never began in time");
    }

    fn a_command_that_ignores_term_from_the_start_is_ended(server) {
        let ignore = || {
            // SAFETY: a plain system call in the new process.
            unsafe { signal(Signal::SIGTERM, SigHandler::SigIgn) }?;
            Ok(())
        };
        let run = limited(server, &unique("ignored"), "0.3").args(["-k", "0.3"]).pre_exec(ignore);
        run.command(["sleep", "60"]).output().expect_code(137);
    }

    fn a_command_that_may_not_be_signalled_is_waited_for_and_that_is_said(server) {
        let folder = tempfile::tempdir().unwrap();
        let options = ["-t", "3", "-k", "0.3"];
        let script = "echo begun; sleep 5; exit 3";
        let run = begun("begun\n", || out_of_reach(server, &unique("limit"), folder.path(), &options, script));
        run.expect_code(124).expect_took(Duration::from_secs(5), Duration::from_secs(7) + slack());
        run.expect_said(["cannot end the command"]);
    }

    fn the_codes_are_those_of_timeout(server) {
        // Each says when it has begun.
        let scripts = [
            ("echo begun; exit 0", 0),
            ("echo begun; exit 7", 7),
            ("echo begun; exit 124", 124),
            ("echo begun; exec /no/such/program", 127),
            ("echo begun; kill -TERM $$", 143),
            ("echo begun; kill -KILL $$", 137),
            ("echo begun; exec sleep 60", 124),
            ("echo begun; kill -STOP $$; exec sleep 60", 124),
            ("echo begun; sleep 60; exit 5", 124),
            ("trap 'exit 0' TERM; echo begun; sleep 60 & wait", 124),
            ("trap 'exit 9' TERM; echo begun; sleep 60 & wait", 124),
            ("trap 'kill -KILL $$' TERM; echo begun; sleep 60 & wait", 137),
            ("trap '' TERM; echo begun; while :; do sleep 0.1; done", 137),
        ];
        // All at once: they do nothing but wait.
        thread::scope(|scope| {
            for (script, code) in scripts {
                scope.spawn(move || {
                    let ends = |_| {
                        let timeout = Command::new("timeout")
                            .args(["-k", "2", "3", "sh", "-c", script])
                            .stdout(Stdio::piped())
                            .stderr(Stdio::null())
                            .spawn()
                            .expect("timeout(1) is there");
                        let run = limited(server, &unique("timeout"), "3").args(["-k", "2"]).sh(script).output();
                        let timeout = timeout.wait_with_output().expect("it is ours");
                        let both_began = timeout.stdout == b"begun\n" && run.stdout == "begun\n";
                        both_began.then_some((timeout.status, run))
                    };
                    let (timeout, run) = (0..5).find_map(ends).expect("both begin in time");
                    // As a shell sees it.
                    let [theirs, ours] = [timeout, run.status]
                        .map(|status| status.code().or_else(|| status.signal().map(|signal| 128 + signal)));
                    assert_eq!((ours, theirs), (Some(code), Some(code)), "dblock and timeout(1): {script:?}: {run:#?}");
                });
            }
        });
    }
}

#[test]
fn without_a_lock_the_limit_is_the_same() {
    let end = stubborn(|| {
        Dblock::run_at("mysql://dblock@127.0.0.1:1/", "no-lock")
            .without_terminal()
            .args(["--connect-timeout", "0.2", "--if-unreachable", "run"])
            .args(["--timeout", "3", "--kill-after", "2"])
    });
    end.expect_code(137)
        .expect_said(["running without the lock", "has run for 3s; ending it"]);
    assert!(end.stdout.ends_with("\nasked\n"), "{end:#?}");
}

// What happens to a named lock, which ends with its session.
all_servers! {
    fn a_lost_session_does_not_stop_the_clock(server) {
        let mut run = limited(server, &unique("lost"), "10").sh("echo on $DBLOCK_CONNECTION_ID; exec sleep 60").spawn();
        let id = run.wait_pid("on");
        server.watcher().end_session(id.try_into().unwrap());
        run.wait_stderr("was lost while the command runs", SOON);
        run.wait_within(SOON).expect_code(124).expect_said(["has run for 10s"]);
    }
}

//! `--hold-at-least`: the lock outlasts a short command, nobody who reads its output waits for that, and whoever wants
//! dblock to end ends it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigHandler, Signal, signal};

use crate::harness::pty::{INTERRUPT, SUSPEND, Shell};
use crate::harness::{
    Client, Dblock, Kind, PASSWORD, Proxy, Running, SOON, Server, Watcher, all_servers,
    allow_files, each_lock, eventually, eventually_gone, is_stopped, send, slack, stat_field,
    unique, within,
};

/// Long enough to see that something does not happen.
const A_WHILE: Duration = Duration::from_millis(300);

/// A call without a terminal that keeps the lock so long, and says with -v when it begins to do nothing else.
fn holding(server: &Server, name: &str, span: &str) -> Dblock {
    Dblock::run(server, name)
        .without_terminal()
        .args(["-v", "--hold-at-least", span])
}

/// dblock in its hold, which would last for long: its command has ended with code 6.
fn in_the_hold(server: &Server, name: &str) -> Running {
    let mut run = holding(server, name, "50").sh("exit 6").spawn();
    begins_to_hold(&mut run);
    run
}

/// Waits until the command has ended and been reaped.
#[track_caller]
fn begins_to_hold(run: &mut Running) {
    run.wait_stderr("dblock: holding ", SOON);
    eventually("the keeper alone is left", SOON, || {
        run.children().len() == 1
    });
}

/// Has dblock end its hold. It exits with `code`, without another word, and the lock is free.
#[track_caller]
fn end_hold(server: &Server, name: &str, mut run: Running, code: i32) {
    assert!(run.is_running(), "still in the hold: {}", run.stderr());
    run.signal(Signal::SIGTERM);
    let end = run.wait_within(SOON);
    end.expect_code(code);
    let last = end.stderr.lines().last().unwrap_or_default();
    assert!(last.starts_with("dblock: holding "), "{end:#?}");
    eventually_free(server, name);
}

/// Who ends a hold waits for a server for a second only.
#[track_caller]
fn eventually_free(server: &Server, name: &str) {
    eventually("the lock is free", SOON, || server.holder(name).is_none());
}

/// Waits until another connection than `before` has the lock; its number.
#[track_caller]
fn taken_again(server: &Server, name: &str, before: u64) -> u64 {
    let mut holder = None;
    eventually("it is taken again", SOON, || {
        holder = server.holder(name);
        holder.is_some_and(|id| id != before)
    });
    holder.expect("it was just seen")
}

/// The session ends, and before it is sought again a plain client has the lock. The client, and the keeper that seeks it.
#[track_caller]
fn lock_goes_to_a_client(server: &Server, name: &str, run: &Running) -> (Client, i32) {
    let id = server.holder(name).expect("it is held");
    let keeper = run.keeper(None);
    send(keeper, Signal::SIGSTOP);
    server.watcher().end_session(id);
    // dblock has the session's descriptor open, too; the server's end is another matter.
    eventually("it is free", SOON, || server.holder(name).is_none());
    let client = server.hold(name);
    send(keeper, Signal::SIGCONT);
    (client, keeper)
}

/// The keeper is killed in the hold, which changes nothing, and another one keeps the lock for longer than the server keeps a session that
/// says nothing. `false`: as long as the hold lasted, the lock was lost now and then, as where an answer takes a second.
#[track_caller]
fn is_kept_by_the_next_keeper(server: &Server) -> bool {
    let name = unique("keeper");
    let span = Duration::from_secs(24);
    let run = holding(server, &name, "24").args(["--ttl", "4"]);
    let mut run = run.sh("exit 6").spawn();
    begins_to_hold(&mut run);
    let before = server.holder(&name);
    let keeper = run.keeper(None);
    send(keeper, Signal::SIGKILL);
    eventually_gone(keeper, SOON);
    eventually("another keeper has it, or has had it", SOON, || {
        let now = server.holder(&name);
        now.is_some() && now != before || !run.is_running()
    });
    let mut is_kept = false;
    while !is_kept && run.is_running() {
        is_kept = !within(Duration::from_secs(5), || {
            !run.is_running() || server.holder(&name).is_none()
        });
        eventually("it is held, or that is over", SOON, || {
            server.holder(&name).is_some() || !run.is_running()
        });
    }
    let end = run.wait_within(SOON * 2);
    end.expect_code(6);
    assert!(!end.stderr.contains("lost"), "{end:#?}");
    eventually_free(server, &name);
    if is_kept {
        end.expect_took(span, span + slack());
    }
    is_kept
}

/// What a process has open, but for /dev/null and what it made itself.
fn inherited_by(pid: i32) -> Vec<String> {
    let files = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    files
        .filter_map(|file| fs::read_link(file.path()).ok())
        .map(|target| target.to_string_lossy().into_owned())
        .filter(|file| {
            let own = [
                "/dev/null",
                "anon_inode:[signalfd]",
                "anon_inode:[timerfd]",
                // Another process, which a newer system calls otherwise.
                "anon_inode:[pidfd]",
                "pidfd:",
                "socket:",
            ];
            !own.iter().any(|own| file.starts_with(own))
        })
        .collect()
}

each_lock! {
    fn a_session_that_is_killed_in_the_hold_is_taken_again(server) {
        let name = unique("killed");
        let mut admin = server.watcher();
        let run = in_the_hold(server, &name);
        let mut id = server.holder(&name).expect("it is held");
        for _ in 0..3 {
            admin.end_session(id);
            id = taken_again(server, &name, id);
        }
        end_hold(server, &name, run, 6);
    }

    fn a_server_that_comes_back_in_the_hold_gives_the_lock_again(server) {
        let server = &Server::private(server.kind);
        let name = unique("restart");
        let mut run = in_the_hold(server, &name);
        server.kill();
        server.start();
        eventually("it is taken again", SOON, || server.holder(&name).is_some());
        assert!(run.is_running());
        end_hold(server, &name, run, 6);

        let span = Duration::from_secs(6);
        let mut run = holding(server, &name, "6").sh("exit 6").spawn();
        begins_to_hold(&mut run);
        server.kill();
        // There is nothing to give back, and nothing to wait for.
        run.wait_within(SOON).expect_code(6).expect_took(span, span + slack());
    }

    fn a_lock_that_another_took_meanwhile_is_left_to_it(server) {
        let name = unique("other");
        let span = Duration::from_secs(8);
        let mut run = holding(server, &name, "8").sh("exit 6").spawn();
        begins_to_hold(&mut run);
        let id = server.holder(&name).expect("it is held");
        let mut client = server.plain();
        let client_id = client.connection_id();
        let lock = name.clone();
        let waits = thread::spawn(move || {
            client.wait_for_lock(&lock);
            client
        });
        eventually("the client waits", SOON, || server.is_waiting(client_id));
        server.watcher().end_session(id);
        let _client = waits.join().unwrap();
        run.wait_within(SOON).expect_code(6).expect_took(span, span + slack());
        assert_eq!(server.holder(&name), Some(client_id));
    }

    fn sigkill_to_the_keeper_in_the_hold_changes_nothing(server) {
        assert!((0..3).any(|_| is_kept_by_the_next_keeper(server)), "it is kept");
    }

    fn the_keeper_that_follows_finds_a_password_file_that_was_named_by_its_descriptor(server) {
        let name = unique("descriptor");
        let mut password = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut password, PASSWORD.as_bytes()).unwrap();
        let number = password.as_raw_fd();
        let inherit = move || {
            // SAFETY: makes a copy of an open descriptor; it stays open in the next program.
            unsafe { libc::dup2(number, 911) };
            Ok(())
        };
        let run = holding(server, &name, "50").env_remove("DBLOCK_PASSWORD").args(["--password-file", "/dev/fd/911"]);
        let mut run = run.pre_exec(inherit).sh("exit 6").spawn();
        begins_to_hold(&mut run);
        let id = server.holder(&name).expect("it is held");
        send(run.keeper(None), Signal::SIGKILL);
        taken_again(server, &name, id);
        end_hold(server, &name, run, 6);
    }

    fn sigkill_to_dblock_ends_a_keeper_that_seeks_the_lock(server) {
        let name = unique("seeks");
        let mut run = in_the_hold(server, &name);
        let (_client, keeper) = lock_goes_to_a_client(server, &name, &run);
        run.signal(Signal::SIGKILL);
        run.wait_within(SOON).expect_signal(Signal::SIGKILL);
        eventually_gone(keeper, SOON);
    }

    fn the_lock_is_kept_after_the_commands_end(server) {
        let name = unique("hold");
        let span = Duration::from_secs(8);
        let mut run = holding(server, &name, "8").sh("exit 3").spawn();
        begins_to_hold(&mut run);
        assert!(server.holder(&name).is_some(), "it is held");
        let other = || Dblock::run(server, &name).command(["echo", "ran"]);
        other().output().expect_code(75).expect_stdout("").expect_one_line("; not run");
        let mut waits = other().args(["--wait", "50"]).spawn();
        waits.wait_line("ran", SOON);
        run.wait_within(SOON).expect_code(3).expect_took(span, span + slack());
        waits.wait().expect_code(0).expect_silence();
        other().output().expect_code(0);
    }
}

each_lock! {
    fn the_time_begins_when_the_lock_was_had(server) {
        let name = unique("begin");
        let client = server.hold(&name);
        let begun = Instant::now();
        let run = holding(server, &name, "2").args(["--wait", "50"]).sh("sleep 1.5; exit 3").spawn();
        eventually("it waits for a time", SOON, || {
            begun.elapsed() > Duration::from_millis(800) && server.waiters(&name).len() == 1
        });
        let freed = Instant::now();
        drop(client);
        run.wait().expect_code(3);
        // Not with the wait, and not with the command's end.
        let (took, span) = (freed.elapsed(), Duration::from_secs(2));
        assert!(span <= took && took <= span + slack(), "{took:?}");
    }

    fn a_command_that_takes_longer_is_not_held(server) {
        let name = unique("longer");
        let end = holding(server, &name, "0.2").sh("sleep 0.4; exit 2").output();
        end.expect_code(2);
        assert!(!end.stderr.contains("holding"), "{end:#?}");
        assert!(end.stderr.contains("released "), "{end:#?}");
        assert_eq!(server.holder(&name), None);
    }

    fn the_commands_end_is_told_before_the_hold(server) {
        let name = unique("told");
        let run = in_the_hold(server, &name);
        let stderr = run.stderr();
        let lines: Vec<&str> = stderr.lines().collect();
        let [.., end, hold] = lines[..] else { panic!("two lines at least: {stderr}") };
        assert!(end.starts_with("dblock: the command ended with 6 after "), "{stderr}");
        let rest = hold.strip_prefix(&format!("dblock: holding {name} for another ")).unwrap_or_default();
        let seconds: u32 = rest.split('s').next().and_then(|seconds| seconds.parse().ok()).unwrap_or_default();
        assert!((40..50).contains(&seconds), "less than 50s by the time of the command: {stderr}");
        end_hold(server, &name, run, 6);
    }

    fn without_v_the_hold_is_silent(server) {
        let run = Dblock::run(server, &unique("silent")).args(["--hold-at-least", "0.5"]).command(["true"]).output();
        run.expect_code(0).expect_silence().expect_took(Duration::from_millis(500), SOON);
    }

    fn the_end_of_the_command_is_dblocks_after_the_hold(server) {
        let span = Duration::from_secs(6);
        let killed = holding(server, &unique("ending"), "6").sh("kill -KILL $$").spawn();
        let asked = holding(server, &unique("ending"), "6").sh("kill -TERM $$").spawn();
        let limited = holding(server, &unique("ending"), "6").args(["--timeout", "0.2"]).command(["sleep", "60"]).spawn();
        let slow = holding(server, &unique("ending"), "6").args(["--timeout", "0.2", "-k", "0"]);
        let slow = slow.command(["sleep", "60"]).spawn();
        killed.wait().expect_signal(Signal::SIGKILL).expect_took(span, SOON);
        asked.wait().expect_signal(Signal::SIGTERM).expect_took(span, SOON);
        limited.wait().expect_code(124).expect_took(span, SOON).expect_said(["dblock: holding "]);
        slow.wait().expect_code(137).expect_took(span, SOON).expect_said(["dblock: holding "]);
    }

    fn a_signal_that_asks_to_end_ends_the_hold(server) {
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
            let name = unique("ended");
            let mut run = in_the_hold(server, &name);
            run.signal(signal);
            let asked = Instant::now();
            run.wait_within(SOON).expect_code(6);
            // A server that takes its time has a second.
            assert!(asked.elapsed() < Duration::from_secs(1) + slack(), "{signal}: {:?}", asked.elapsed());
            eventually_free(server, &name);
        }
    }

    fn other_signals_do_not_end_the_hold(server) {
        let name = unique("others");
        let mut run = in_the_hold(server, &name);
        for signal in [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGCONT, Signal::SIGCHLD] {
            run.signal(signal);
        }
        assert!(!within(A_WHILE, || !run.is_running() || server.holder(&name).is_none()));
        end_hold(server, &name, run, 6);
    }

    fn a_hold_goes_on_where_the_system_refuses_to_wait_for_events(server) {
        let name = unique("refuses");
        let mut run = in_the_hold(server, &name);
        // dblock waits for more than that at once.
        allow_files(run.pid(), 2);
        run.signal(Signal::SIGCONT);
        assert!(!within(A_WHILE, || !run.is_running() || server.holder(&name).is_none()));
        end_hold(server, &name, run, 6);
    }

    fn a_hold_goes_on_where_what_the_command_has_shared_cannot_be_closed(server) {
        let name = unique("shared");
        let run = holding(server, &name, "50").stdin(Stdio::piped());
        let mut run = run.sh("echo ready; read x; exit 6").spawn();
        run.wait_line("ready", SOON);
        // Enough for what dblock waits for, and not for another file.
        allow_files(run.pid(), 3);
        drop(run.take_stdin());
        run.wait_stderr("dblock: cannot close what the command has shared: Too many open files", SOON);
        assert!(!within(A_WHILE, || !run.is_running() || server.holder(&name).is_none()));
        run.signal(Signal::SIGTERM);
        run.wait_within(SOON).expect_code(6);
        eventually_free(server, &name);
    }

    fn a_hangup_that_was_ignored_at_the_start_does_not_end_the_hold(server) {
        let name = unique("nohup");
        let ignore = || {
            // SAFETY: a plain system call in the new process.
            unsafe { signal(Signal::SIGHUP, SigHandler::SigIgn) }?;
            Ok(())
        };
        let mut run = holding(server, &name, "50").pre_exec(ignore).sh("echo ready; sleep 0.3; exit 6").spawn();
        run.wait_line("ready", SOON);
        // Neither while the command runs nor afterwards.
        run.signal(Signal::SIGHUP);
        begins_to_hold(&mut run);
        run.signal(Signal::SIGHUP);
        assert!(!within(A_WHILE, || !run.is_running() || server.holder(&name).is_none()));
        end_hold(server, &name, run, 6);
    }

    fn a_command_that_a_signal_to_dblock_ended_is_not_held(server) {
        for (signal, trap) in [(Signal::SIGTERM, "TERM"), (Signal::SIGINT, "INT"), (Signal::SIGHUP, "HUP")] {
            let name = unique("no-hold");
            let script = format!("trap 'exit 5' {trap}; echo ready; while :; do sleep 0.05; done");
            let mut run = holding(server, &name, "50").sh(&script).spawn();
            run.wait_line("ready", SOON);
            run.signal(signal);
            run.wait_within(SOON).expect_code(5);
            let mut run = holding(server, &name, "50").sh("echo ready; exec sleep 60").spawn();
            run.wait_line("ready", SOON);
            run.signal(signal);
            run.wait_within(SOON).expect_signal(signal);
            assert_eq!(server.holder(&name), None, "{signal}");
        }
    }

    fn a_command_that_got_another_signal_is_held(server) {
        let name = unique("usr1");
        let script = "trap 'exit 6' USR1; echo ready; while :; do sleep 0.05; done";
        let mut run = holding(server, &name, "50").sh(script).spawn();
        run.wait_line("ready", SOON);
        run.signal(Signal::SIGUSR1);
        begins_to_hold(&mut run);
        assert!(server.holder(&name).is_some());
        end_hold(server, &name, run, 6);
    }

    fn readers_see_the_end_of_what_the_command_wrote(server) {
        let name = unique("readers");
        let (mut out, stdout) = io::pipe().unwrap();
        let (mut err, stderr) = io::pipe().unwrap();
        let (mut more, writer) = io::pipe().unwrap();
        let (stdin, input) = io::pipe().unwrap();
        let number = writer.as_raw_fd();
        let inherit = move || {
            // Far from those that the test process has open itself.
            for descriptor in [909, 1001] {
                // SAFETY: makes copies of an open descriptor; they stay open in the next program.
                unsafe { libc::dup2(number, descriptor) };
            }
            Ok(())
        };
        let mut run = Dblock::run(server, &name)
            .without_terminal()
            .args(["--hold-at-least", "20"])
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr)
            .pre_exec(inherit)
            .sh("echo out; echo err >&2; echo more >/proc/self/fd/909; exit 6")
            .spawn();
        drop(writer);
        for (reader, word) in [(&mut out, "out\n"), (&mut err, "err\n"), (&mut more, "more\n")] {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            assert_eq!(text, word);
        }
        assert!(run.is_running(), "it holds on");
        assert!(server.holder(&name).is_some(), "the lock");
        // Nobody reads what is written for the command. What another test starts just then may have it open a moment yet.
        let broken = || io::Write::write(&mut &input, b"x").is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        eventually("nobody reads it", SOON, broken);
        run.signal(Signal::SIGTERM);
        run.wait_within(SOON).expect_code(6);
    }

    fn neither_process_keeps_what_it_inherited(server) {
        let name = unique("descriptors");
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join("file")).unwrap();
        let number = file.as_raw_fd();
        let inherit = move || {
            for descriptor in [903, 907, 919] {
                // SAFETY: makes copies of an open descriptor; they stay open in the next program.
                unsafe { libc::dup2(number, descriptor) };
            }
            Ok(())
        };
        let mut run = holding(server, &name, "50").pre_exec(inherit).stdin(Stdio::piped()).sh("exit 6").spawn();
        begins_to_hold(&mut run);
        for pid in [run.pid(), run.keeper(None)] {
            let mut left = Vec::new();
            let gone = within(SOON, || {
                left = inherited_by(pid);
                left.is_empty()
            });
            assert!(gone, "{left:?}");
        }
        end_hold(server, &name, run, 6);
    }

    fn the_command_is_reaped_in_the_hold(server) {
        let name = unique("zombie");
        let mut run = holding(server, &name, "50").sh("echo shell $$; exit 6").spawn();
        let command = run.wait_pid("shell");
        begins_to_hold(&mut run);
        assert_eq!(stat_field(command, 0), None, "not even a zombie");
        end_hold(server, &name, run, 6);
    }

    fn sigkill_to_dblock_in_the_hold_frees_the_lock(server) {
        let name = unique("sigkill");
        let mut run = in_the_hold(server, &name);
        let keeper = run.keeper(None);
        run.signal(Signal::SIGKILL);
        run.wait_within(SOON).expect_signal(Signal::SIGKILL);
        eventually_gone(keeper, SOON);
        eventually_free(server, &name);
    }

    fn a_stopped_keeper_does_not_prolong_the_hold(server) {
        let name = unique("stopped");
        let run = holding(server, &name, "5").args(["--connect-timeout", "4"]);
        let mut run = run.sh("exit 6").spawn();
        begins_to_hold(&mut run);
        send(run.keeper(None), Signal::SIGSTOP);
        let (span, answer) = (Duration::from_secs(5), Duration::from_secs(4));
        run.wait_within(SOON).expect_code(6).expect_took(span, span + answer + slack());
        eventually("the lock is free", SOON, || server.holder(&name).is_none());
    }

    fn whoever_ends_the_hold_does_not_wait_for_a_silent_keeper(server) {
        let mut run = holding(server, &unique("hold"), "50").args(["--connect-timeout", "30"]).sh("exit 6").spawn();
        begins_to_hold(&mut run);
        send(run.keeper(None), Signal::SIGSTOP);
        run.signal(Signal::SIGTERM);
        let asked = Instant::now();
        run.wait_within(SOON).expect_code(6);
        assert!(asked.elapsed() < Duration::from_secs(1) + slack(), "{:?}", asked.elapsed());
    }

    fn the_lock_is_given_back_after_the_hold(server) {
        let (name, proxy) = (unique("back"), Proxy::to(server));
        let run = Dblock::run_at(&proxy.url(), &name).args(["--hold-at-least", "0.5"]).command(["true"]).output();
        run.expect_code(0).expect_silence();
        // Not left to the server, which would free it a moment after dblock's end.
        let packets = proxy.packets();
        let asked = packets.iter().filter(|packet| packet.statements().is_some_and(|it| it.contains("SELECT RELEASE_LOCK")));
        assert_eq!(asked.count(), 1, "{packets:?}");
    }

    fn a_command_that_cannot_be_started_is_not_held(server) {
        for (command, code) in [("/no/such/program", 127), ("/etc/passwd", 126)] {
            let name = unique("not-started");
            let run = Dblock::run(server, &name).args(["--hold-at-least", "50"]).command([command]).output();
            run.expect_code(code).expect_took(Duration::ZERO, SOON);
            assert_eq!(server.holder(&name), None);
        }
    }

    fn ctrl_c_ends_the_hold_and_ctrl_z_stops_it(server) {
        let mut shell = Shell::start(server);
        shell.dblock("-v --hold-at-least 50 sh -c 'exit 3'");
        shell.wait_for("dblock: holding ");
        shell.enter(INTERRUPT);
        shell.expect_code(3);
        eventually_free(server, &shell.name);

        shell.dblock("-v --hold-at-least 50 sh -c 'echo dblock is $PPID; exit 3'");
        let dblock = shell.wait_pid("dblock is");
        shell.wait_for("dblock: holding ");
        shell.enter(SUSPEND);
        shell.wait_for("Stopped");
        assert!(is_stopped(dblock));
        assert!(server.holder(&shell.name).is_some(), "the lock is held all the while");
        shell.enter("fg");
        eventually("it goes on", SOON, || !is_stopped(dblock));
        shell.enter(INTERRUPT);
        shell.expect_code(3);
        eventually_free(server, &shell.name);
    }

    fn ctrl_c_at_the_command_is_the_end_of_it_all(server) {
        let mut shell = Shell::start(server);
        shell.dblock("--hold-at-least 50 sh -c 'echo ready; exec sleep 60'");
        shell.wait_for("ready");
        shell.enter(INTERRUPT);
        shell.expect_code(130);
        assert_eq!(server.holder(&shell.name), None);
    }
}

#[test]
fn without_a_lock_there_is_nothing_to_hold() {
    let run = Dblock::run_at("mysql://dblock@127.0.0.1:1/", "no-lock")
        .args([
            "--connect-timeout",
            "0.2",
            "--if-unreachable",
            "run",
            "--hold-at-least",
            "50",
        ])
        .sh("exit 6");
    run.output()
        .expect_code(6)
        .expect_took(Duration::ZERO, SOON);
}

all_servers! {
    fn a_lock_that_another_had_for_a_moment_is_taken_again(server) {
        let name = unique("moment");
        let run = in_the_hold(server, &name);
        let (client, _) = lock_goes_to_a_client(server, &name, &run);
        let client_id = client.connection_id();
        assert!(!within(A_WHILE, || server.holder(&name) != Some(client_id)), "it is the client's");
        drop(client);
        taken_again(server, &name, client_id);
        end_hold(server, &name, run, 6);
    }

    fn a_lock_that_was_lost_with_the_keeper_is_not_held(server) {
        let name = unique("keeper-gone");
        let mut run = holding(server, &name, "50").args(["--on-lock-lost", "terminate"]).sh("echo shell $$; exec sleep 60").spawn();
        let command = run.wait_pid("shell");
        send(run.keeper(Some(command)), Signal::SIGKILL);
        run.wait_within(SOON).expect_code(74).expect_said(["the command was ended for it"]);
        eventually("the lock is free", SOON, || server.holder(&name).is_none());
    }

    fn a_session_that_was_lost_before_is_sought_in_the_hold(server) {
        let name = unique("before");
        let mut run = holding(server, &name, "50").stdin(Stdio::piped()).sh("read x; exit 6").spawn();
        run.wait_stderr("acquired ", SOON);
        let id = server.holder(&name).expect("it is held");
        server.watcher().end_session(id);
        run.wait_stderr("was lost while the command runs", SOON);
        drop(run.take_stdin());
        begins_to_hold(&mut run);
        taken_again(server, &name, id);
        end_hold(server, &name, run, 6);
    }
}

#[test]
fn a_row_is_released_that_another_keeper_holds_on_when_its_dblock_is_killed() {
    let server = Server::durable(Kind::MariaDb);
    let name = unique("replaced");
    let mut run = holding(server, &name, "1h").sh("exit 6").spawn();
    begins_to_hold(&mut run);
    let renewed = || {
        let query = "SELECT renewed_at FROM dblock.dblock_locks WHERE name = ?";
        server.watcher().exec::<String>(query, (&name,)).unwrap()
    };
    let before = renewed();
    send(run.keeper(None), Signal::SIGKILL);
    // The next renewal of the one before would come in a minute.
    eventually("another keeper holds it", SOON, || renewed() != before);
    run.signal(Signal::SIGKILL);
    run.wait_within(SOON).expect_signal(Signal::SIGKILL);
    eventually("it is released", SOON, || server.owner(&name, 0).is_none());
}

// What happens to a named lock, which ends with its session.

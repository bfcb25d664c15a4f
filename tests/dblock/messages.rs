//! What a run says on stderr: nothing on success, one line on a skip, never a password, and nothing that steers a terminal.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use crate::harness::{
    Answer, Dblock, Fake, Kind, Output, PASSWORD, Packet, Proxy, SOON, Server, Watcher,
    all_servers, both_servers, eventually, unique, url_of_port,
};

/// Every line is dblock's own.
#[track_caller]
fn assert_own_lines(run: &Output) {
    let own = run.stderr.lines().all(|line| line.starts_with("dblock: "));
    assert!(
        own && run.stderr.ends_with('\n'),
        "not only lines of dblock's: {run:#?}"
    );
}

/// Nothing but printable text and the ends of lines.
#[track_caller]
fn assert_printable(run: &Output) {
    let steers = |c: char| c.is_control() && c != '\n';
    assert!(!run.stderr.contains(steers), "control characters: {run:#?}");
}

all_servers! {
    fn success_says_nothing(server on mariadb) {
        let run = Dblock::run(server, &unique("success")).command(["echo", "word"]).output();
        run.expect_code(0).expect_silence().expect_stdout("word\n");
    }

    fn a_skip_says_who_has_the_lock(server) {
        let name = unique("skip");
        let _holder = server.hold(&name);
        let id = server.holder(&name).unwrap();
        let run = Dblock::run(server, &name).command(["true"]).output();
        run.expect_code(75).expect_one_line("; not run\n");
        run.expect_line(&format!("dblock: {name} is held by connection {id} (dblock@127.0.0.1:"));
    }

    fn a_skip_says_as_much_as_the_server_tells_of_another_account(server) {
        let name = unique("skip");
        let mut holder = server.watcher();
        assert!(holder.try_lock(&name));
        let run = Dblock::run(server, &name).command(["true"]).output();
        // PostgreSQL shows every role whose session it is.
        let whose = if server.kind == Kind::Postgres { " (admin)" } else { "" };
        let line = format!("dblock: {name} is held by connection {}{whose}; not run\n", holder.connection_id());
        run.expect_code(75).expect_one_line(&line);
    }

    fn a_skip_after_a_wait_says_the_same(server on mysql) {
        let name = unique("skip");
        let _holder = server.hold(&name);
        let id = server.holder(&name).unwrap();
        let run = Dblock::run(server, &name).args(["--wait", "0.3"]).command(["true"]).output();
        run.expect_code(75).expect_one_line(&format!("{name} is held by connection {id}"));
    }

    fn a_skip_that_counts_as_success_is_told_only_when_asked(server on mariadb) {
        let name = unique("skip");
        let _holder = server.hold(&name);
        let run = || Dblock::run(server, &name).args(["-E", "0"]).command(["true"]);
        run().output().expect_code(0).expect_silence();
        let told = run().arg("-v").output();
        told.expect_code(0).expect_said([&format!("{name} is held by"), "; not run"]);
        assert_own_lines(&told);
    }

    fn quiet_says_nothing_on_a_skip_but_says_errors(server on mysql) {
        let name = unique("quiet");
        let _holder = server.hold(&name);
        for quiet in ["-q", "--quiet"] {
            let run = |name: &str| Dblock::run(server, name).arg(quiet);
            run(&name).command(["true"]).output().expect_code(75).expect_silence();
            run(&unique("quiet")).command(["/no/such/program"]).output().expect_code(127).expect_one_line("");
        }
    }

    fn nobody_is_asked_who_has_the_lock_where_nobody_is_told(server on mysql) {
        let name = unique("unasked");
        let holder = server.hold(&name);
        // The server goes through all its sessions for an answer.
        let asks = |arguments: &[&str], code| {
            let proxy = Proxy::to(server);
            Dblock::run_at(&proxy.url(), &name).args(arguments).command(["true"]).output().expect_code(code);
            let packets = proxy.packets();
            let mut statements = packets.iter().filter_map(Packet::statements);
            statements.any(|statement| statement.contains("processlist") || statement.contains("pg_stat_activity"))
        };
        assert!(asks(&[], 75));
        assert!(!asks(&["-q"], 75));
        assert!(!asks(&["-E", "0"], 0));
        assert!(asks(&["-E", "0", "-v"], 0));
        assert!(asks(&["-q", "--report", "/dev/null"], 75));
        assert!(!asks(&["-q", "--wait", "0.5"], 75));
        drop(holder);
    }

    fn verbose_says_what_is_done_and_how_long_it_took(server on mariadb) {
        let name = unique("verbose");
        let run = Dblock::run(server, &name).arg("-v").sh("exit 3").output();
        run.expect_code(3).expect_said([name.as_str(), &server.port.to_string()]);
        assert_own_lines(&run);
        let timed = |line: &str| {
            let spans = line.split([' ', ',', ';']).filter(|word| word.ends_with("ms") || word.ends_with('s'));
            spans.into_iter().any(|word| word.starts_with(|first: char| first.is_ascii_digit()))
        };
        assert!(run.stderr.lines().any(timed), "no span of time: {run:#?}");
        assert!(!run.stderr.contains("GET_LOCK"), "statements are for -vv: {run:#?}");
    }

    fn no_message_shows_a_password(server on mysql) {
        let name = unique("secret");
        let with_password = server.url().replace("dblock@", &format!("dblock:{PASSWORD}@"));
        let run = Dblock::run(server, &name).env_remove("DBLOCK_PASSWORD").args(["-vv", "--url", &with_password]);
        let run = run.command(["true"]).output();
        run.expect_code(0).expect_line("dblock: ");
        assert!(!run.stderr.contains(PASSWORD), "{run:#?}");

        let wrong = server.url().replace("dblock@", "dblock:wrong-secret@");
        let run = Dblock::run(server, &name).env_remove("DBLOCK_PASSWORD").args(["-vv", "--url", &wrong]);
        let run = run.command(["true"]).output();
        run.expect_code(77);
        assert!(!run.stderr.contains("wrong-secret"), "{run:#?}");

        let broken = format!("{with_password}?no-such-parameter=1");
        let run = Dblock::run(server, &name).args(["-vv", "--url", &broken]).command(["true"]).output();
        run.expect_code(64).expect_said(["no-such-parameter"]);
        assert!(!run.stderr.contains(PASSWORD), "{run:#?}");
    }

    fn no_message_shows_the_commands_arguments(server on mariadb) {
        let name = unique("arguments");
        let run = |program: &str| Dblock::run(server, &name).arg("-vv").command([program, "secret-argument"]).output();
        for program in ["echo", "/no/such/program", "/"] {
            let run = run(program);
            assert!(!run.stderr.contains("secret-argument"), "{run:#?}");
        }
    }

    fn a_session_that_is_killed_while_the_command_runs_is_told_at_once(server) {
        let name = unique("lost");
        let mut run = Dblock::run(server, &name)
            .stdin(Stdio::piped())
            .sh("echo on $DBLOCK_CONNECTION_ID; read x; exit 5")
            .spawn();
        let id = run.wait_pid("on");
        server.watcher().end_session(id.try_into().unwrap());
        run.wait_stderr("reacquired after", SOON);
        assert!(run.is_running(), "the command runs on");
        drop(run.take_stdin());
        let end = run.wait();
        end.expect_code(5).expect_line(&format!("dblock: {name} was lost"));
        assert_eq!(end.stderr.lines().count(), 2, "{end:#?}");
    }
}

both_servers! {
    fn very_verbose_says_the_statements_and_no_password(server) {
        let name = unique("verbose");
        for twice in [&["-vv"][..], &["-v", "-v"], &["--verbose", "--verbose"]] {
            let run = Dblock::run(server, &name).args(twice).command(["true"]).output();
            run.expect_code(0).expect_said(["GET_LOCK", "RELEASE"]);
            assert_own_lines(&run);
            assert!(!run.stderr.contains(PASSWORD), "{run:#?}");
        }
    }

    fn a_command_with_a_name_of_any_bytes_is_told_printably(server on mysql) {
        for program in [&b"no\x1b[2Jsuch\nprogram"[..], b"no\xff\xfesuch", "nosuch\u{9b}31m\u{85}".as_bytes()] {
            let run = Dblock::run(server, &unique("bytes")).command([OsStr::from_bytes(program)]).output();
            run.expect_code(127).expect_one_line("no");
            assert_printable(&run);
        }
    }
}

#[test]
fn what_a_server_says_cannot_steer_the_terminal() {
    for kind in [Kind::MariaDb, Kind::MySql] {
        for text in [
            "bad\x1b[2J\x1b]0;title\x07\r\nsecond line\u{9b}31m\0end".to_owned(),
            "long\x1b ".repeat(3_000),
        ] {
            let fake = Fake::start(kind, move |_| Answer::error(1105, &text));
            let run = Dblock::run_at(&fake.url(), "x")
                .args(["-vv", "--connect-timeout", "2"])
                .command(["true"]);
            let run = run.output();
            assert!(run.code.is_some_and(|code| code != 0), "{run:#?}");
            assert_own_lines(&run);
            assert_printable(&run);
            assert!(
                run.stderr.lines().all(|line| line.len() < 4096),
                "a line is of bounded length: {run:#?}"
            );
        }
    }
}

#[test]
fn what_a_user_wrote_cannot_steer_the_terminal() {
    let url = url_of_port(1);
    let odd = "a\x1b[31mb\u{9b}c\nd";
    let runs = [
        Dblock::run_at(&url, odd),
        Dblock::run_at(&url, "x").args(["--wait", odd]),
        Dblock::run_at(&url, "x").args(["-E", odd]),
        Dblock::run_at(&url, "x").args(["--port", odd]),
        Dblock::run_at(&url, "x").args(["--url", &format!("mysql://{odd}/?{odd}=1")]),
        Dblock::run_at(&url, "x").args(["--if-unreachable", odd]),
        Dblock::run_at(&url, "x").arg(format!("--{odd}")),
        Dblock::run_at(&url, "x").args(["--connect-timeout", "0.2", "--host", odd]),
        Dblock::run_at(&url, "x").args([
            "--connect-timeout",
            "0.2",
            "--socket",
            &format!("/no/{odd}"),
        ]),
        Dblock::run_at(&url, "x").args(["--password-file", &format!("/no/{odd}")]),
    ];
    for run in runs {
        let run = run.command(["true"]).output();
        assert!(
            run.code.is_some_and(|code| (64..=78).contains(&code)),
            "{run:#?}"
        );
        run.expect_one_line("");
        assert_printable(&run);
    }
}

both_servers! {
    fn a_quiet_run_still_tells_of_a_lost_lock_when_the_command_is_ended_for_it(server) {
        let mut run = Dblock::run(server, &unique("quiet")).args(["-q", "--on-lock-lost", "terminate"]).sh("echo shell $$; exec sleep 60").spawn();
        let command = run.wait_pid("shell");
        let keeper = nix::unistd::Pid::from_raw(run.keeper(Some(command)));
        nix::sys::signal::kill(keeper, nix::sys::signal::Signal::SIGKILL).unwrap();
        eventually("dblock ends", SOON, || !run.is_running());
        let end = run.wait();
        end.expect_code(74).expect_said(["was lost while the command runs", "the command was ended for it"]);
        assert_eq!(end.stderr.lines().count(), 2, "{end:#?}");
    }
}

#[test]
fn a_skip_names_the_holders_host_process_and_program_and_since_when() {
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    for server in [
        Server::shared(Kind::MySql),
        Server::with_performance_schema(),
    ] {
        let name = unique("named");
        let hold = "echo held; exec sleep 600";
        let mut first = Dblock::run(server, &name).sh(hold).spawn();
        first.wait_line("held", SOON);
        let skip = || Dblock::run(server, &name).command(["true"]).output();
        let start = format!("dblock: {name} is held by {host}, pid {} (sh)", first.pid());
        let run = skip();
        run.expect_code(75).expect_one_line("s; not run\n");
        run.expect_line(&format!("{start}, for "));
        eventually("it is held for longer", SOON, || {
            let said = skip().stderr;
            let span = said.strip_prefix(&format!("{start}, for "));
            let seconds = span.and_then(|span| span.strip_suffix("s; not run\n")?.parse().ok());
            seconds.is_some_and(|seconds: u32| seconds > 0)
        });
        // One that waited for it has had it since later than it was started.
        let mut second = Dblock::run(server, &name)
            .args(["--wait", "60"])
            .sh(hold)
            .spawn();
        eventually("it waits", SOON, || server.waiters(&name).len() == 1);
        drop(first);
        second.wait_line("held", SOON);
        let run = skip();
        run.expect_code(75).expect_one_line("s ago; not run\n");
        let pid = second.pid();
        run.expect_line(&format!(
            "dblock: {name} is held by {host}, pid {pid} (sh), which asked for it "
        ));
    }
}

//! In a terminal: Ctrl-C reaches the command once, job control works as without dblock, and a table has the width of the terminal.

use nix::sys::signal::Signal;

use crate::harness::pty::{INTERRUPT, QUIT, SUSPEND, Shell};
use crate::harness::{
    Hangs, Kind, PAIR, SOON, Server, Tables, both_servers, children_of, copy_program, each_lock,
    eventually, eventually_forked, eventually_gone, group_of, has_begun, is_stopped, quoted, send,
};

/// The pair of processes that count signals, in a shell; and the numbers of dblock and of the first of the pair.
fn start_pair(shell: &mut Shell, end_of_line: &str) -> (i32, i32) {
    let script = PAIR.replace('\n', " ");
    shell.dblock(&format!(
        "perl -e '{script}' HUP INT QUIT TERM USR1 {end_of_line}"
    ));
    eventually("both are ready", SOON, || {
        let seen = shell.all();
        seen.contains("child ready") && seen.contains("parent ready")
    });
    let parent = shell.wait_pid("parent ready");
    (parent_of(parent), parent)
}

fn parent_of(pid: i32) -> i32 {
    crate::harness::stat_field(pid, 1)
        .expect("it runs")
        .parse()
        .expect("a number")
}

/// What a command, which succeeds, shows on a terminal of so many columns.
fn lines_shown(shell: &mut Shell, columns: u16, command: &str) -> Vec<String> {
    let start = shell.all().len();
    shell.enter(&format!(
        "stty cols {columns}; echo; {command}; echo \"end $?.\""
    ));
    shell.wait_for("end 0.");
    let lines = shell.all()[start..].lines().skip(1);
    let lines = lines.take_while(|line| !line.starts_with("end 0."));
    lines.map(str::to_owned).collect()
}

/// How often a word is on the terminal.
fn count(shell: &mut Shell, word: &str) -> usize {
    shell.all().matches(word).count()
}

each_lock! {
    fn ctrl_c_reaches_the_command_once(server) {
        let mut shell = Shell::start(server);
        let (_, parent) = start_pair(&mut shell, "");
        for (key, name) in [(INTERRUPT, "INT"), (QUIT, "QUIT")] {
            for times in 1..=8 {
                shell.enter(key);
                eventually("both hear of the key", SOON, || {
                    ["parent", "child"].iter().all(|who| count(&mut shell, &format!("{who} {name} {times}")) == 1)
                });
            }
        }
        send(parent, Signal::SIGWINCH);
        shell.expect_code(7);
        // Whatever came a second time has come by now.
        assert_eq!((count(&mut shell, " INT "), count(&mut shell, " QUIT ")), (16, 16));
    }

    fn a_command_that_ctrl_c_ends_ends_dblock_as_the_shell_sees_it(server) {
        let mut shell = Shell::start(server);
        for (key, code) in [(INTERRUPT, 130), (QUIT, 131)] {
            shell.dblock("-- sh -c 'echo ready; exec sleep 60'");
            shell.wait_for("ready");
            shell.enter(key);
            shell.expect_code(code);
        }
        assert_eq!(server.holder(&shell.name), None);
    }

    fn in_the_foreground_the_command_reads_the_terminal(server) {
        let mut shell = Shell::start(server);
        shell.dblock("sh -c 'read word; echo got $word; exit 3'");
        shell.enter("hello");
        shell.wait_for("got hello");
        shell.expect_code(3);
    }

    fn in_the_background_and_then_the_foreground_the_command_reads_the_terminal(server) {
        let mut shell = Shell::start(server);
        shell.dblock("sh -c 'echo shell $$; read word; echo got $word; exit 3' &");
        let command = shell.wait_pid("shell");
        let dblock = parent_of(command);
        eventually("reading stops the job, as without dblock", SOON, || is_stopped(command) && is_stopped(dblock));
        shell.enter("fg");
        eventually("it goes on", SOON, || !is_stopped(command) && !is_stopped(dblock));
        shell.enter("hello");
        shell.wait_for("got hello");
        shell.expect_code(3);
    }

    fn ctrl_z_stops_the_job_and_fg_continues_it(server) {
        let mut shell = Shell::start(server);
        shell.dblock("sh -c 'echo shell $$; read word; echo got $word; exit 3'");
        let command = shell.wait_pid("shell");
        // Often, for it may come just when dblock has been told to continue.
        for _ in 0..100 {
            shell.enter(SUSPEND);
            shell.wait_for("Stopped");
            eventually("the command is stopped, too", SOON, || is_stopped(command));
            assert!(server.holder(&shell.name).is_some(), "the lock is held all the while");
            shell.enter("fg");
            eventually("the command goes on", SOON, || !is_stopped(command));
        }
        shell.enter("hello");
        shell.wait_for("got hello");
        shell.expect_code(3);
    }

    fn a_command_that_stops_its_group_as_an_editor_does_stops_the_job_and_fg_continues_it(server) {
        let mut shell = Shell::start(server);
        shell.dblock("sh -c 'echo shell $$; kill -TSTP 0; read word; echo got $word; exit 3'");
        let command = shell.wait_pid("shell");
        shell.wait_for("Stopped");
        eventually("the command is stopped, too", SOON, || is_stopped(command));
        shell.enter("fg");
        eventually("the command goes on", SOON, || !is_stopped(command));
        shell.enter("hello");
        shell.wait_for("got hello");
        shell.expect_code(3);
    }

    fn ctrl_z_before_the_first_instruction_of_the_command_stops_the_job_and_fg_continues_it(server) {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        copy_program("/bin/true", &program);
        let hangs = Hangs::new(&program);
        let mut shell = Shell::start(server);
        shell.dblock(&quoted(&program));
        eventually("it holds the lock", SOON, || server.holder(&shell.name).is_some());
        let command = eventually_forked(children_of(shell.pid())[0]);
        shell.enter(SUSPEND);
        shell.wait_for("Stopped");
        eventually("what is to become the command is stopped, too", SOON, || is_stopped(command));
        assert_eq!(has_begun(command), Some(false));
        assert!(server.holder(&shell.name).is_some(), "the lock is held all the while");
        drop(hangs);
        shell.enter("fg");
        shell.expect_code(0);
    }

    fn ctrl_z_stops_the_job_and_bg_continues_it(server) {
        let mut shell = Shell::start(server);
        let script = "$SIG{USR1} = sub { print \"going on\\n\"; exit }; $| = 1; print \"perl $$\\n\"; select undef, undef, undef, 0.02 while 1";
        shell.dblock(&format!("perl -e '{script}'"));
        let command = shell.wait_pid("perl");
        shell.enter(SUSPEND);
        shell.wait_for("Stopped");
        shell.enter("bg");
        eventually("the command goes on", SOON, || !is_stopped(command));
        send(parent_of(command), Signal::SIGUSR1);
        shell.wait_for("going on");
        shell.enter("wait; echo ready");
        shell.wait_for("ready");
        assert_eq!(server.holder(&shell.name), None);
    }

    fn whoever_continues_dblock_alone_continues_the_command(server) {
        let mut shell = Shell::start(server);
        shell.dblock("sh -c 'echo shell $$; exec sleep 60'");
        let command = shell.wait_pid("shell");
        shell.enter(SUSPEND);
        shell.wait_for("Stopped");
        eventually("the command is stopped, too", SOON, || is_stopped(command));
        send(parent_of(command), Signal::SIGCONT);
        eventually("the command goes on", SOON, || !is_stopped(command));
        send(command, Signal::SIGTERM);
        shell.enter("wait; echo ready");
        shell.wait_for("ready");
        assert_eq!(server.holder(&shell.name), None);
    }

    fn a_stopped_job_can_be_ended(server) {
        let ends_in_the_foreground = |_| {
            let mut shell = Shell::start(server);
            shell.dblock("sh -c 'echo shell $$; exec sleep 60'");
            let command = shell.wait_pid("shell");
            shell.enter(SUSPEND);
            shell.wait_for("Stopped");
            shell.enter("kill %1; fg");
            eventually_gone(command, SOON);
            eventually("the lock is free", SOON, || server.holder(&shell.name).is_none());
            shell.enter("echo \"code $?.\"");
            let code = shell.wait_for("code ").trim().to_owned();
            // It may have ended before the shell came to fg.
            assert!(["143.", "1."].contains(&&*code), "{code}");
            code == "143."
        };
        assert!((0..10).any(ends_in_the_foreground), "it is never in the foreground when it ends");
    }

    fn ctrl_c_while_waiting_for_the_lock_ends_dblock(server) {
        let mut shell = Shell::start(server);
        let _holder = server.hold(&shell.name);
        for (key, code) in [(INTERRUPT, 130), (QUIT, 131)] {
            shell.dblock("--wait forever -- echo must not run");
            eventually("it waits", SOON, || server.waiters(&shell.name).len() == 1);
            shell.enter(key);
            shell.expect_code(code);
            eventually("its place is gone", SOON, || server.waiters(&shell.name).is_empty());
        }
        assert_eq!(count(&mut shell, "must not run"), 0);
    }

    fn ctrl_z_while_waiting_for_the_lock_stops_dblock_and_fg_continues(server) {
        let mut shell = Shell::start(server);
        let holder = server.hold(&shell.name);
        shell.dblock("--wait forever -- echo had it");
        eventually("it waits", SOON, || server.waiters(&shell.name).len() == 1);
        shell.enter(SUSPEND);
        shell.wait_for("Stopped");
        shell.enter("fg");
        drop(holder);
        shell.wait_for("had it");
        shell.expect_code(0);
    }

    fn term_from_outside_reaches_the_commands_process(server) {
        let mut shell = Shell::start(server);
        let (dblock, parent) = start_pair(&mut shell, "");
        for (signal, name) in [(Signal::SIGTERM, "TERM"), (Signal::SIGINT, "INT"), (Signal::SIGHUP, "HUP")] {
            send(dblock, signal);
            shell.wait_for(&format!("parent {name} 1"));
        }
        send(parent, Signal::SIGWINCH);
        shell.expect_code(7);
        assert_eq!(count(&mut shell, "child TERM"), 0, "its children are its own business, as with timeout --foreground");
    }

    fn sigkill_to_dblock_ends_the_commands_process(server) {
        let mut shell = Shell::start(server);
        let (dblock, parent) = start_pair(&mut shell, "");
        send(dblock, Signal::SIGKILL);
        eventually_gone(parent, SOON);
        eventually("the lock is free", SOON, || server.holder(&shell.name).is_none());
        shell.expect_code(137);
    }

    fn sigkill_to_the_keeper_ends_the_commands_process(server) {
        let mut shell = Shell::start(server);
        shell.dblock("--on-lock-lost terminate sh -c 'echo shell $$; exec sleep 60'");
        let command = shell.wait_pid("shell");
        let keeper = children_of(parent_of(command)).into_iter().find(|&pid| pid != command).expect("a keeper");
        send(keeper, Signal::SIGKILL);
        shell.wait_for("dblock: ");
        eventually_gone(command, SOON);
        shell.expect_code(74);
    }

    fn with_a_terminal_the_command_stays_in_dblocks_group(server) {
        let mut shell = Shell::start(server);
        // Also where none of the three streams is the terminal.
        for streams in ["", "</dev/null 2>/dev/null | cat"] {
            shell.dblock(&format!("sh -c 'echo shell $$; exec sleep 60' {streams}"));
            let command = shell.wait_pid("shell");
            assert_eq!(group_of(command), group_of(parent_of(command)));
            shell.enter(INTERRUPT);
            eventually_gone(command, SOON);
        }
    }

    fn a_terminal_that_hangs_up_on_dblock_itself_ends_the_command(server) {
        // As after `ssh -t host dblock run …`: the kernel tells the leader of the session, and nobody else.
        let mut shell = Shell::start(server);
        shell.enter("exec dblock run --name \"$name\" sh -c 'echo shell $$; exec sleep 60'");
        let command = shell.wait_pid("shell");
        shell.hang_up();
        eventually_gone(command, SOON);
        let name = shell.name.clone();
        eventually("the lock is free", SOON, || server.holder(&name).is_none());
    }

    fn a_terminal_that_is_closed_ends_the_command(server) {
        let mut shell = Shell::start(server);
        shell.dblock("sh -c 'echo shell $$; exec sleep 60'");
        let command = shell.wait_pid("shell");
        let name = shell.name.clone();
        drop(shell);
        eventually_gone(command, SOON);
        eventually("the lock is free", SOON, || server.holder(&name).is_none());
    }
}

both_servers! {
    fn a_table_is_cut_to_the_width_of_the_terminal_and_nowhere_else(server on mysql) {
        let tables = Tables::new(server);
        let why = "because it was so ".repeat(9);
        tables.sql(&format!(
            "INSERT INTO dblock_runs (run, name, requested_at, ended_at, outcome, host, program, message) VALUES \
             (REPEAT('a', 32), 'nightly', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), 'skipped', 'web1', 'report', '{why}')"
        ));
        let mut shell = Shell::start(server);
        shell.enter(&format!("unset COLUMNS; export DBLOCK_DATABASE={}", tables.database));
        let history = "dblock history";
        let piped = lines_shown(&mut shell, 120, "dblock history | cat");
        assert!(piped[1].ends_with(why.trim()), "{piped:#?}");
        assert_eq!(piped[1], tables.at("history").output().stdout.lines().nth(1).unwrap());
        let in_file = lines_shown(&mut shell, 120, "file=$(mktemp); dblock history >$file; cat $file; rm $file");
        assert_eq!(in_file, piped);
        for columns in [120, 150] {
            let cut = lines_shown(&mut shell, columns, history);
            assert_eq!(cut.len(), 2, "{cut:#?}");
            assert_eq!(cut[1].chars().count(), usize::from(columns), "{cut:#?}");
            let (start, end) = cut[1].split_once("because").unwrap();
            assert!(end.ends_with('…') && piped[1].starts_with(start), "{cut:#?}");
        }
        // Too narrow for the rest of the row; so wide that all of it fits; of no known width.
        for columns in [80, 400, 0] {
            assert_eq!(lines_shown(&mut shell, columns, history), piped, "{columns}");
        }
        let widest = lines_shown(&mut shell, 150, history);
        for (variable, expected) in [("400", &piped), ("0", &widest), ("", &widest), ("many", &widest)] {
            let shown = lines_shown(&mut shell, 150, &format!("COLUMNS={variable} {history}"));
            assert_eq!(&shown, expected, "COLUMNS={variable}");
        }
        assert_eq!(lines_shown(&mut shell, 120, "COLUMNS=120 dblock history | cat"), piped);
        let json = lines_shown(&mut shell, 80, "dblock history --json");
        assert!(json.iter().any(|line| line.contains(why.trim())), "{json:#?}");
    }
}

#[test]
fn results_have_colors_on_a_terminal_alone_unless_that_is_unwanted() {
    let server = Server::shared(Kind::MariaDb);
    let tables = Tables::new(server);
    for (name, code) in [("fine", 0), ("fails", 3)] {
        tables.sql(&format!(
            "INSERT INTO dblock_runs (run, name, requested_at, ended_at, outcome, exit_code) \
             VALUES (MD5('{name}'), '{name}', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), 'ran', {code})"
        ));
    }
    let mut shell = Shell::start(server);
    shell.enter(&format!(
        "unset NO_COLOR; export TERM=xterm DBLOCK_DATABASE={}",
        tables.database
    ));
    let plain = lines_shown(&mut shell, 200, "dblock history | cat");
    assert!(plain.iter().all(|line| !line.contains('\x1b')), "{plain:?}");
    for (command, is_colored) in [
        ("dblock history", true),
        ("dblock history --color always | cat", true),
        ("dblock history --color never", false),
        ("NO_COLOR=1 dblock history", false),
        ("NO_COLOR= dblock history", true),
        ("TERM=dumb dblock history", false),
        ("NO_COLOR=1 dblock history --color always", true),
    ] {
        let shown = lines_shown(&mut shell, 200, command).join("\n");
        for colored in ["\x1b[32mexit 0\x1b[0m", "\x1b[31mexit 3\x1b[0m"] {
            assert_eq!(shown.contains(colored), is_colored, "{command}: {shown:?}");
        }
        let words = ["\x1b[32m", "\x1b[31m", "\x1b[0m"]
            .iter()
            .fold(shown, |shown, color| shown.replace(color, ""));
        assert_eq!(words, plain.join("\n"), "{command}");
    }
}

#[test]
fn the_crontab_and_the_queues_have_colors_on_a_terminal_alone_too() {
    let server = Server::shared(Kind::MariaDb);
    let tables = Tables::new(server);
    let now = "UTC_TIMESTAMP(6)";
    tables.sql(&format!(
        "INSERT INTO dblock_cron_jobs (name, schedule, zone, definition, changed_at, seen_at) \
         VALUES ('fails', '@daily', 'UTC', '', {now}, {now})"
    ));
    tables.sql(&format!(
        "INSERT INTO dblock_runs (run, name, tick, requested_at, acquired_at, started_at, ended_at, outcome, exit_code) \
         VALUES (MD5('fails'), 'fails', {now}, {now}, {now}, {now}, {now}, 'ran', 3)"
    ));
    for command in ["create", "pause"] {
        let queue = tables.at("queue").args([command, "mails"]);
        queue.output().expect_code(0);
    }
    let mut shell = Shell::start(server);
    let database = &tables.database;
    shell.enter(&format!(
        "unset NO_COLOR; export TERM=xterm DBLOCK_DATABASE={database}"
    ));
    for (command, colored) in [
        ("dblock cron list", "\x1b[31mexit 3\x1b[0m"),
        ("dblock queue status", "\x1b[33mpaused\x1b[0m"),
    ] {
        let shown = lines_shown(&mut shell, 200, command).join("\n");
        assert!(shown.contains(colored), "{command}: {shown:?}");
        for plain in [format!("{command} | cat"), format!("NO_COLOR=1 {command}")] {
            let shown = lines_shown(&mut shell, 200, &plain).join("\n");
            let words = ["exit 3", "paused"].iter().any(|word| shown.contains(word));
            assert!(words && !shown.contains('\x1b'), "{plain}: {shown:?}");
        }
    }
}

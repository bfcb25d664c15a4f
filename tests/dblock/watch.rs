//! `--watch`: the table is drawn again in place, the terminal is as before afterwards, and a server that is away keeps nobody.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::pty::{INTERRUPT, STOP, SUSPEND, Shell};
use crate::harness::{
    Dblock, Kind, Packet, Proxy, SOON, Server, Tables, all_servers, both_servers, children_of,
    eventually, eventually_gone, is_stopped, send,
};

/// What a terminal of so many rows shows.
#[derive(Debug, Default)]
struct Shown {
    rows: Vec<String>,
    /// Whether it is the other screen, and has a cursor.
    is_other: bool,
    hides_cursor: bool,
}

/// What is on the terminal after all that was written to it. The shell's lines are not: only what is drawn on the other screen.
fn shown(shell: &mut Shell) -> Shown {
    let mut shown = Shown::default();
    let (mut row, mut column) = (0, 0);
    let mut rest = shell.all();
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c != '\x1b' {
            if shown.is_other {
                if shown.rows.len() <= row {
                    shown.rows.resize(row + 1, String::new());
                }
                let before = shown.rows[row].chars().take(column).collect::<String>();
                let after = shown.rows[row].chars().skip(column + 1).collect::<String>();
                shown.rows[row] = format!("{before}{c}{after}");
                column += 1;
            }
            continue;
        }
        // The rest of it may be on its way.
        let Some(end) = rest.find(|c: char| c.is_ascii_alphabetic()) else {
            break;
        };
        let (sequence, following) = rest.split_at(end + 1);
        rest = following;
        match sequence {
            "[?1049h" | "[?1049l" => shown.is_other = sequence.ends_with('h'),
            "[?25l" | "[?25h" => shown.hides_cursor = sequence.ends_with('l'),
            "[2J" => shown.rows.clear(),
            "[J" => shown.rows.truncate(row),
            "[K" => {
                if let Some(line) = shown.rows.get_mut(row) {
                    *line = line.chars().take(column).collect();
                }
            }
            place if place.ends_with('H') => {
                let place = place[1..].trim_end_matches('H').split_once(';').unwrap();
                (row, column) = (
                    place.0.parse::<usize>().unwrap() - 1,
                    place.1.parse::<usize>().unwrap() - 1,
                );
            }
            color => assert!(color.ends_with('m'), "{color:?}"),
        }
    }
    shown
}

/// A shell with a terminal of 12 rows and 100 columns.
fn shell(server: &Server) -> Shell {
    let mut shell = Shell::start(server);
    shell.enter("unset COLUMNS LINES; export TERM=xterm; stty rows 12 cols 100; echo ready");
    shell.wait_for("ready");
    shell
}

/// Waits until a line of the screen contains this.
#[track_caller]
fn see(shell: &mut Shell, text: &str) -> Vec<String> {
    eventually(&format!("{text:?} is on the screen"), SOON, || {
        let shown = shown(shell);
        shown.is_other && shown.rows.iter().any(|row| row.contains(text))
    });
    shown(shell).rows
}

/// Expects that the terminal is as it was, and that the shell saw this exit code.
#[track_caller]
fn expect_end(shell: &mut Shell, modes: &str, code: i32) {
    expect_code(shell, code);
    assert_eq!(self::modes(shell), modes);
}

/// Expects that dblock has left the terminal, and then this exit code. What is typed before that may be for dblock.
#[track_caller]
fn expect_code(shell: &mut Shell, code: i32) {
    eventually("the terminal is left", SOON, || {
        let shown = shown(shell);
        !shown.is_other && !shown.hides_cursor
    });
    shell.expect_code(code);
}

/// The terminal's modes.
fn modes(shell: &mut Shell) -> String {
    shell.enter("echo modes $(stty -g).");
    shell.wait_for("modes ")
}

/// The dblock that watches.
fn watching(shell: &Shell) -> i32 {
    let mut pid = 0;
    eventually("dblock runs", SOON, || {
        pid = children_of(shell.pid())
            .first()
            .copied()
            .unwrap_or_default();
        pid > 0 && !children_of(pid).is_empty()
    });
    pid
}

all_servers! {
    fn the_table_is_drawn_again_in_place_until_q(server) {
        let mut shell = shell(server);
        let before = modes(&mut shell);
        shell.enter("dblock status \"$name\" --watch 0.2");
        let name = shell.name.clone();
        let rows = see(&mut shell, "free");
        let title = format!("Every 200ms: dblock status {name} --watch 0.2");
        assert!(
            rows[0].starts_with(&title) && rows[0].ends_with(" UTC"),
            "{rows:#?}"
        );
        assert_eq!((rows[0].len(), &*rows[1]), (100, ""), "{rows:#?}");
        assert!(rows[2].starts_with("LOCK"), "{rows:#?}");
        assert!(rows[3].contains(" free "), "{rows:#?}");
        let holder = server.hold(&name);
        let rows = see(&mut shell, " held ");
        assert!(!rows.iter().any(|row| row.contains("free")), "{rows:#?}");
        drop(holder);
        see(&mut shell, "free");
        let cleared = shell.all().matches("\x1b[2J").count();
        assert_eq!(cleared, 1, "nothing flickers");
        shell.enter("q");
        expect_end(&mut shell, &before, 0);
    }
}

#[test]
fn without_a_duration_the_table_is_drawn_again_every_two_seconds() {
    let server = Server::shared(Kind::MariaDb);
    let mut shell = shell(server);
    let begun = Instant::now();
    shell.enter("dblock status \"$name\" --watch");
    let name = shell.name.clone();
    let rows = see(&mut shell, "free");
    let title = format!("Every 2s: dblock status {name} --watch");
    assert!(rows[0].starts_with(&title), "{rows:#?}");
    // That the lock is free again is in the third answer at the earliest.
    let holder = server.hold(&name);
    see(&mut shell, " held ");
    drop(holder);
    see(&mut shell, "free");
    let elapsed = begun.elapsed();
    assert!(elapsed >= Duration::from_secs(4), "{elapsed:?}");
    shell.enter("q");
    expect_code(&mut shell, 0);
}

#[test]
fn the_terminal_is_as_before_after_each_signal() {
    let server = Server::shared(Kind::MariaDb);
    let mut shell = shell(server);
    let before = modes(&mut shell);
    let start = |shell: &mut Shell| {
        shell.enter("dblock status \"$name\" --watch");
        eventually("it is drawn", SOON, || shown(shell).is_other);
        see(shell, "free");
    };
    start(&mut shell);
    shell.enter(INTERRUPT);
    expect_end(&mut shell, &before, 0);
    for (signal, code) in [
        (Signal::SIGTERM, 143),
        (Signal::SIGHUP, 129),
        (Signal::SIGQUIT, 131),
    ] {
        start(&mut shell);
        send(watching(&shell), signal);
        expect_end(&mut shell, &before, code);
    }
    start(&mut shell);
    let dblock = watching(&shell);
    shell.enter(SUSPEND);
    shell.wait_for("Stopped");
    let stopped = shown(&mut shell);
    assert!(!stopped.is_other && !stopped.hides_cursor, "{stopped:?}");
    assert_eq!(modes(&mut shell), before);
    shell.enter("fg");
    see(&mut shell, "free");
    // The shell has had the terminal meanwhile, and dblock has not noticed.
    send(dblock, Signal::SIGSTOP);
    shell.wait_for("Stopped");
    let cleared = shell.all().matches("\x1b[2J").count();
    shell.enter("fg");
    eventually("it is drawn again", SOON, || {
        shell.all().matches("\x1b[2J").count() > cleared
    });
    eventually("it runs", SOON, || !is_stopped(dblock));
    shell.enter("q");
    expect_end(&mut shell, &before, 0);
}

/// Starts a dblock that watches in the background, and stops there.
fn in_the_background(shell: &mut Shell) -> i32 {
    shell.enter("dblock status \"$name\" --watch &");
    let mut dblock = 0;
    eventually("it waits for the terminal", SOON, || {
        let started = children_of(shell.pid());
        dblock = started.first().copied().unwrap_or_default();
        dblock > 0 && is_stopped(dblock)
    });
    dblock
}

#[test]
fn in_the_background_a_signal_ends_it_and_it_leaves_the_terminal_alone() {
    let server = Server::shared(Kind::MariaDb);
    let mut shell = shell(server);
    let before = modes(&mut shell);
    // As kill(1) of a shell and timeout(1) do it.
    let end = |dblock: i32, signal| {
        send(dblock, signal);
        send(dblock, Signal::SIGCONT);
        eventually_gone(dblock, SOON);
    };
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        end(in_the_background(&mut shell), signal);
        shell.enter("wait $!");
        expect_end(&mut shell, &before, code);
    }
    for stop in ["Ctrl-Z", "SIGSTOP"] {
        shell.enter("dblock status \"$name\" --watch");
        eventually("it is drawn", SOON, || shown(&mut shell).is_other);
        see(&mut shell, "free");
        let dblock = watching(&shell);
        if stop == "Ctrl-Z" {
            shell.enter(SUSPEND);
        } else {
            send(dblock, Signal::SIGSTOP);
        }
        shell.wait_for("Stopped");
        let left = shell.all().matches("\x1b[?1049l").count();
        end(dblock, Signal::SIGTERM);
        assert_eq!(modes(&mut shell), before, "{stop}");
        let left_in_all = shell.all().matches("\x1b[?1049l").count();
        assert_eq!(left_in_all, left, "{stop}");
    }
}

#[test]
fn a_terminal_that_is_stopped_or_was_another_ones_is_given_back_as_it_was() {
    let server = Server::shared(Kind::MariaDb);
    let mut shell = shell(server);
    in_the_background(&mut shell);
    shell.enter("stty ixany; echo changed");
    shell.wait_for("changed");
    let before = modes(&mut shell);
    shell.enter("fg");
    see(&mut shell, "free");
    shell.enter("q");
    expect_end(&mut shell, &before, 0);
    shell.enter("stty -ixany; dblock status \"$name\" --watch");
    see(&mut shell, "free");
    shell.enter(STOP);
    shell.enter("q");
    expect_code(&mut shell, 0);
}

#[test]
fn what_does_not_fit_is_said_and_another_size_is_noticed() {
    let server = Server::shared(Kind::MariaDb);
    let tables = Tables::new(server);
    tables.sql(
            "INSERT INTO dblock_runs (run, name, requested_at, ended_at, outcome, host) \
             SELECT MD5(seq), CONCAT('run-', seq), UTC_TIMESTAMP(6) + INTERVAL seq SECOND, UTC_TIMESTAMP(6), 'skipped', 'web1' FROM \
             (SELECT 1 AS seq UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5) AS numbers",
        );
    let mut shell = shell(server);
    shell.enter(&format!(
        "export DBLOCK_DATABASE={}; stty rows 6 cols 120",
        tables.database
    ));
    shell.enter("dblock history --watch 1h");
    let rows = see(&mut shell, "not shown: 3 lines");
    assert_eq!(rows.len(), 6, "{rows:#?}");
    assert!(
        rows[2].starts_with("NAME") && rows[3].starts_with("run-4") && rows[4].starts_with("run-5"),
        "{rows:#?}"
    );
    shell.resize(9, 40);
    let rows = see(&mut shell, "not shown: the ends of");
    assert!(
        rows.len() == 9 && rows.iter().all(|row| row.chars().count() <= 40),
        "{rows:#?}"
    );
    shell.resize(20, 120);
    eventually("all of it is shown", SOON, || {
        shown(&mut shell).rows.len() == 8
    });
    shell.enter("q");
    expect_code(&mut shell, 0);
}

both_servers! {
    fn each_of_the_tables_can_be_watched_in_one_session(server) {
        let tables = Tables::new(server);
        tables.at("queue").args(["create", "mails"]).output().expect_code(0);
        let proxy = Proxy::to(server);
        let mut shell = shell(server);
        let (database, url) = (&tables.database, proxy.url());
        // The proxy sees what is said.
        shell.enter(&format!("export DBLOCK_DATABASE={database} DBLOCK_URL={url} DBLOCK_SSL_MODE=disabled"));
        for (command, text) in [
            ("cron list", "no dblock cron run has been here"),
            ("queue status mails nosuch", "there is no queue nosuch; "),
            ("history", "no such run is recorded"),
        ] {
            let before = proxy.connections();
            let asked = |proxy: &Proxy| proxy.packets().len();
            shell.enter(&format!("dblock {command} --watch=0.1"));
            see(&mut shell, text);
            let (asked_once, connected) = (asked(&proxy), proxy.connections());
            eventually("it asks again", SOON, || asked(&proxy) > asked_once + 5);
            assert_eq!(proxy.connections(), connected, "{command}: after {before}");
            shell.enter("q");
            expect_code(&mut shell, 0);
        }
        eventually("it has logged out", SOON, || proxy.packets().iter().any(Packet::is_quit));
    }
}

#[test]
fn a_server_that_is_away_is_said_and_keeps_nobody() {
    let server = Server::shared(Kind::MariaDb);
    let proxy = Proxy::to(server);
    let mut shell = shell(server);
    shell.enter(&format!(
        "export DBLOCK_URL={} DBLOCK_CONNECT_TIMEOUT=3s",
        proxy.url()
    ));
    // A server may not answer the first time in so short a time.
    shell.enter("until dblock status \"$name\" --watch 0.1; do :; done");
    see(&mut shell, "free");
    proxy.freeze();
    let rows = see(&mut shell, "ago; no answer yet: ");
    assert!(
        rows[3].contains("free"),
        "the last state is shown: {rows:#?}"
    );
    // On the screen it is only until the next attempt has failed.
    eventually("it was given up", SOON, || {
        shell.all().contains("within 9s: ")
    });
    proxy.thaw();
    eventually("it is there again", SOON, || {
        shown(&mut shell).rows[1].is_empty()
    });
    proxy.freeze();
    see(&mut shell, "ago; no answer yet: ");
    let dblock = watching(&shell);
    shell.enter("q");
    expect_code(&mut shell, 0);
    assert!(children_of(dblock).is_empty());
}

#[test]
fn what_is_wrong_at_the_start_ends_it_as_without_watching() {
    let server = Server::shared(Kind::MariaDb);
    let refused = "dblock: --watch needs a terminal, as stdin and as stdout";
    for command in ["status", "history", "cron list", "queue status"] {
        let watched = || {
            let words = command.split(' ').skip(1).chain(["--watch"]);
            Dblock::at(server, command.split(' ').next().unwrap()).args(words)
        };
        watched().output().expect_code(64).expect_one_line(refused);
        let with_json = watched().arg("--json").output();
        with_json
            .expect_code(64)
            .expect_one_line("cannot be used with '--json'");
    }
    let mut shell = shell(server);
    for (line, code, message) in [
        (
            "TERM=dumb dblock status --watch",
            64,
            "dblock: --watch needs a terminal that moves its cursor",
        ),
        (
            "dblock status --watch nightly",
            64,
            "a name stands before --watch",
        ),
        (
            "dblock status --watch 0.01",
            64,
            "is not a time from 100ms to 1d",
        ),
        (
            "dblock history --watch --database nosuch",
            77,
            "name their database with --database",
        ),
        (
            "DBLOCK_PASSWORD=wrong dblock status --watch",
            77,
            "Access denied",
        ),
    ] {
        shell.enter(line);
        shell.wait_for(message);
        shell.expect_code(code);
        let shown = shown(&mut shell);
        assert!(!shown.is_other && !shown.hides_cursor, "{line}");
    }
}

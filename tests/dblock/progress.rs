//! The line with how far dblock is: on a terminal, drawn over itself, and never between other lines.

use crate::harness::pty::Shell;
use crate::harness::{Jobs, Kind, SOON, Server, eventually};

/// A queue, and a shell whose `dblock` finds it.
fn shell(server: &Server) -> (Jobs<'_>, Shell) {
    let jobs = Jobs::new(server, &["--max-attempts", "1"]);
    let mut shell = Shell::start(server);
    let database = &jobs.tables.database;
    shell.enter(&format!(
        "export TERM=xterm DBLOCK_DATABASE={database}; echo ready"
    ));
    shell.wait_for("ready");
    (jobs, shell)
}

/// The last that was drawn is not there any more.
#[track_caller]
fn assert_is_cleared(seen: &str) {
    let (before, after) = seen.rsplit_once("\x1b[K").expect("it was drawn");
    assert!(
        before.ends_with("\x1b8") && !after.contains(" done"),
        "{seen:?}"
    );
}

#[test]
fn a_worker_that_drains_a_queue_says_how_far_it_is() {
    let server = Server::shared(Kind::MariaDb);
    let (jobs, mut shell) = shell(server);
    jobs.number(25);
    let script = "read job; test $job != 20 || { echo oops >&2; exit 3; }; sleep 0.2";
    let work = format!("dblock queue work q --drain -- sh -c '{script}'");
    shell.enter(&work);
    let parts = [
        " done, 0 failed, ",
        " left, ",
        " jobs a second, ",
        "s to go\x1b8",
    ];
    eventually("it is drawn", SOON, || {
        let seen = shell.all();
        seen.lines()
            .any(|line| parts.iter().all(|part| line.contains(part)))
    });
    shell.expect_code(0);
    let seen = shell.all().to_owned();
    // A job is done, or left, and not both. One may have ended just now.
    let lefts = seen.split(" left, ").filter_map(|before| {
        let (done, left) = before.rsplit_once(" done, 0 failed, ")?;
        let done = done.rsplit(|c: char| !c.is_ascii_digit()).next()?;
        Some(done.parse::<u32>().unwrap() + left.parse::<u32>().unwrap())
    });
    for all in lefts {
        assert!((24..=25).contains(&all), "{all}: {seen:?}");
    }
    // What is cleared, and then overwritten by a line of its own.
    assert!(seen.contains("\x1b8\x1b[Koops\n"), "{seen:?}");
    assert_is_cleared(&seen);
    let (before, rest) = work.split_once(" -- ").unwrap();
    for quiet in [
        format!("{before} -q -- {rest}"),
        format!("{work} 2>&1 | cat"),
        format!("TERM=dumb {work}"),
        // The shell, or an editor, has the terminal.
        format!("{work} & wait $!"),
    ] {
        let start = shell.all().len();
        jobs.number(8);
        shell.enter(&quiet);
        shell.expect_code(0);
        let seen = &shell.all()[start..];
        assert!(!seen.contains('\x1b'), "{quiet}: {seen:?}");
    }
}

#[test]
fn what_jobs_write_to_the_terminal_begins_at_its_left_end_and_no_line_is_wider() {
    let server = Server::shared(Kind::MariaDb);
    let (jobs, mut shell) = shell(server);
    jobs.number(8);
    shell.enter(
        "stty cols 30; echo; dblock queue work q --drain -- sh -c 'read job; sleep 0.4; echo hello'",
    );
    shell.expect_code(0);
    let seen = shell.all();
    assert!(
        seen.contains("\x1b8hello\n"),
        "it is drawn before one of them: {seen:?}"
    );
    for line in seen.lines() {
        // What is drawn between these, somewhere else, does not move the cursor.
        let mut parts = line.split('\x1b');
        let mut written = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            if let Some(text) = part.strip_prefix('8') {
                written += text;
            } else if let Some((column, text)) =
                part.strip_prefix('[').and_then(|part| part.split_once('G'))
            {
                let column: usize = column.parse().unwrap();
                assert!(
                    column > 0 && column + text.chars().count() == 30,
                    "{line:?}"
                );
            } else if let Some(text) = part.strip_prefix("[K") {
                written += text;
            }
        }
        assert!(!written.contains("hello") || written == "hello", "{line:?}");
    }
    assert!(seen.contains("…\x1b8"), "{seen:?}");
}

#[test]
fn what_puts_records_says_how_many() {
    let server = Server::shared(Kind::MariaDb);
    let (_jobs, mut shell) = shell(server);
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let until_told = format!("until test -e {}; do sleep 0.1; done", go.display());
    shell.enter(&format!(
        "(seq 5; {until_told}; seq 5; sleep 0.2) | dblock queue put q --lines >/dev/null"
    ));
    eventually("it is drawn", SOON, || {
        shell.all().contains(" jobs put\x1b8")
    });
    std::fs::write(go, "").unwrap();
    shell.expect_code(0);
    assert_is_cleared(shell.all());
}

//! What cannot be right is refused before anything is done: one line, and the exit code of bad usage.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;

use crate::harness::{Dblock, both_servers, unique};

const USAGE: i32 = 64;

/// The options that take a duration, the wait first.
const DURATIONS: [&str; 6] = [
    "--wait",
    "--connect-timeout",
    "--timeout",
    "--kill-after",
    "--hold-at-least",
    "--ttl",
];

/// Not UTF-8.
const BYTES: &[u8] = b"\xff\xfe";

/// `dblock run --name x ARGS -- true`, with a server that would refuse.
fn refused(args: &[&str], said: &str) {
    let dblock = Dblock::run_at("mysql://u@127.0.0.1:1/", "x")
        .args(args)
        .args(["--connect-timeout", "9"]);
    dblock
        .command(["true"])
        .output()
        .expect_code(USAGE)
        .expect_one_line(said);
}

/// `dblock run --name NAME -- true`
fn named(name: impl AsRef<OsStr>, said: &str) {
    let dblock = Dblock::bare()
        .args(["run", "--url", "mysql://u@127.0.0.1:1/", "--name"])
        .arg(name);
    dblock
        .command(["true"])
        .output()
        .expect_code(USAGE)
        .expect_one_line(said);
}

#[test]
fn a_name_that_is_none_is_refused() {
    named("", "--name");
    named("a#1", "#");
    named("n".repeat(201), "200");
    named("é".repeat(101), "200");
    named(OsStr::from_bytes(BYTES), "--name");
    named(" a", "white space");
    named("a ", "white space");
    named("a\u{3000}", "white space");
    named("a\nb", "control");
    named("a\u{7f}", "control");
    named("a\u{9b}b", "control");
}

#[test]
fn a_missing_name_or_command_is_refused() {
    let run = || Dblock::bare().args(["run", "--url", "mysql://u@127.0.0.1:1/"]);
    run()
        .command(["true"])
        .output()
        .expect_code(USAGE)
        .expect_one_line("--name");
    run()
        .args(["--name", "x"])
        .output()
        .expect_code(USAGE)
        .expect_one_line("COMMAND");
    run()
        .args(["--name", "x", "--"])
        .output()
        .expect_code(USAGE)
        .expect_one_line("COMMAND");
    // Each command says how it is named.
    for (command, said) in [("acquire", "name the lock with --name"), ("kill", "<NAME")] {
        let dblock = Dblock::bare().args([command, "--url", "mysql://u@127.0.0.1:1/"]);
        dblock.output().expect_code(USAGE).expect_one_line(said);
    }
}

#[test]
fn an_unknown_word_is_refused() {
    refused(&["--no-such-option"], "--no-such-option");
    refused(&["--password", "p"], "--password");
    refused(&["--if-unreachable", "perhaps"], "perhaps");
    refused(&["--quiet", "--verbose"], "--verbose");
    refused(&["--name", "y"], "--name");
    Dblock::bare()
        .arg("walk")
        .output()
        .expect_code(USAGE)
        .expect_one_line("walk");
}

#[test]
fn whoever_mistypes_is_told_whose_help_to_read() {
    for (args, whose) in [
        (&["--foo"][..], "dblock"),
        (&["run", "--foo"], "dblock run"),
        (&["cron", "foo"], "dblock cron"),
        (&["queue", "put", "--foo"], "dblock queue put"),
        (
            &["queue", "put", "q", "x", "--at=@me", "--foo=a@b"],
            "dblock queue put",
        ),
    ] {
        let output = Dblock::bare().args(args).output();
        output
            .expect_code(USAGE)
            .expect_one_line(&format!("; see {whose} --help"));
    }
}

#[test]
fn a_duration_that_is_none_is_refused() {
    for option in DURATIONS {
        let values = [
            "-1", "1y2", "", " ", ".", "1.2.3", "inf", "nan", "1e3", "0x10", "five", "1s2", "-0.5",
            "+1",
        ];
        for value in values {
            refused(&[option, value], option);
        }
    }
    refused(&["--wait=-1"], "--wait");
    refused(&["-w", "-1"], "--wait");
    refused(&["--connect-timeout", "0"], "--connect-timeout");
    refused(&["-t", "-1"], "--timeout");
    refused(&["-k", "-1"], "--kill-after");
    // Only a wait may have no limit.
    for option in &DURATIONS[1..] {
        refused(&[option, "forever"], option);
    }
}

#[test]
fn a_duration_that_overflows_is_refused() {
    for value in [
        "99999999999999999999",
        "18446744073709551615",
        "1e400",
        &"9".repeat(400),
        "1000000000000years",
    ] {
        for option in DURATIONS {
            refused(&[option, value], option);
        }
    }
}

#[test]
fn an_exit_code_that_is_none_is_refused() {
    for value in ["256", "-1", "", "x", "1.0"] {
        refused(&["-E", value], "--conflict-exit-code");
    }
}

#[test]
fn a_number_of_slots_that_is_none_is_refused() {
    let values = [
        "0",
        "1001",
        "-1",
        "",
        " ",
        "x",
        "1.5",
        "1e2",
        "0x10",
        "4294967296",
        "4294967297",
        "99999999999999999999",
        "forever",
    ];
    for value in values {
        refused(&["-m", value], "--max-concurrency");
    }
    refused(&["--max-concurrency=-1"], "--max-concurrency");
    refused(&["-m", "2", "-m", "3"], "--max-concurrency");
}

#[test]
fn a_pool_that_is_none_is_refused() {
    let numbers = |count: usize| {
        let numbers: Vec<String> = (1..=count).map(|number| number.to_string()).collect();
        numbers.join(",")
    };
    for (value, wrong) in [
        ("", "empty"),
        (",", "name 1"),
        ("a,,b", "name 2"),
        ("a,b,", "name 3"),
        (",a", "name 1"),
        ("a,a", "twice"),
        ("a,b,c,b", "name 4"),
        (" a,b", "white space"),
        ("a, b", "white space"),
        ("a,b ", "white space"),
        ("a,\u{3000}b", "white space"),
        ("a\nb", "control"),
        ("a,\u{7f}", "control"),
        ("a,\u{9b}b", "control"),
        (&"n".repeat(201), "200"),
        (&numbers(1001), "1000"),
    ] {
        let (option, value) = ("--slots", value);
        refused(&[option, value], option);
        refused(&[option, value], wrong);
    }
}

#[test]
fn a_pool_and_a_number_of_slots_are_refused_together() {
    for (pool, number) in [("a,b", "2"), ("a", "1")] {
        refused(&["--slots", pool, "-m", number], "--slots");
        refused(&["-m", number, "--slots", pool], "--max-concurrency");
    }
    refused(&["--slots", "a", "--slots", "b"], "--slots");
}

#[test]
fn a_port_that_is_none_is_refused() {
    for value in ["0", "70000", "-1", "", "x", "33 06"] {
        refused(&["--port", value], "--port");
    }
    refused(&["--url", "mysql://u@h:0/"], "--url");
    refused(&["--url", "mysql://u@h:70000/"], "--url");
    refused(&["--url", "mysql://u@h:x/"], "--url");
}

#[test]
fn a_url_that_is_none_is_refused() {
    refused(&["--url", "pgsql://u@h/"], "pgsql");
    refused(&["--url", "mysql://u@h/?sokcet=/run/x"], "sokcet");
    refused(
        &["--url", "mysql://u@h/?socket=/run/x&compress=1"],
        "compress",
    );
    for value in [
        "h",
        "mysql:",
        "mysql://u@h/a/b",
        "mysql://u@h,,i/",
        "mysql://u@[::1/",
        "mysql://u%ff@h/",
        " ",
    ] {
        refused(&["--url", value], "--url");
    }
}

#[test]
fn a_url_that_is_refused_does_not_show_its_password() {
    for url in [
        "mysql://u:s3cret@h:0/",
        "pg://u:s3cret@h/",
        "mysql://u:s3cret@h/?x=y",
        "mysql://u:s3/cret@h/",
    ] {
        for dblock in [
            Dblock::run_at(url, "x"),
            Dblock::bare().args(["run", "--name", "x", "--url", url]),
        ] {
            let output = dblock.arg("-vv").command(["true"]).output();
            output.expect_code(USAGE).expect_one_line("URL");
            assert!(
                !output.stderr.contains("s3") && !output.stderr.contains("cret"),
                "{output:#?}"
            );
        }
    }
}

#[test]
fn a_url_in_the_wrong_place_does_not_show_its_password() {
    let url = "mysql://u:s3cret@h/";
    for dblock in [
        Dblock::bare().args(["run", "--name", "x", "--host", url, "true"]),
        Dblock::bare().args(["run", "--name", "x", "--host", "u:s3cret@h", "true"]),
        Dblock::bare().args(["run", "--name", "x", "--port", url, "true"]),
        Dblock::bare()
            .args(["run", "--name", "x", "true"])
            .env("DBLOCK_HOST", url),
        Dblock::bare().args([url, "run"]),
        Dblock::bare().args(["run", "--name", "x", "--connect-timeout", url, "true"]),
    ] {
        let output = dblock.output();
        output.expect_code(USAGE).expect_one_line("");
        assert!(!output.stderr.contains("s3cret"), "{output:#?}");
    }
}

#[test]
fn a_host_that_is_none_is_refused() {
    for value in ["", "a b", "a,b", "db:3306", "mysql://h/"] {
        refused(&["--host", value], "--host");
    }
    refused(&["--socket", &format!("/{}", "s".repeat(200))], "--socket");
}

#[test]
fn bytes_that_are_no_text_are_refused_by_the_name_of_their_option() {
    let bytes = OsStr::from_bytes(BYTES);
    for option in [
        "--wait",
        "--conflict-exit-code",
        "--max-concurrency",
        "--slots",
        "--timeout",
        "--kill-after",
        "--hold-at-least",
        "--ttl",
        "--on-lock-lost",
        "--url",
        "--host",
        "--port",
        "--user",
        "--socket",
        "--connect-timeout",
    ] {
        let dblock = Dblock::run_at("mysql://u@127.0.0.1:1/", "x")
            .arg(option)
            .arg(bytes);
        dblock
            .command(["true"])
            .output()
            .expect_code(USAGE)
            .expect_one_line(option);
    }
}

#[test]
fn bytes_that_are_no_text_are_refused_by_the_name_of_their_variable() {
    let bytes = OsStr::from_bytes(BYTES);
    for variable in [
        "URL",
        "HOST",
        "PORT",
        "USER",
        "SOCKET",
        "PASSWORD",
        "CONNECT_TIMEOUT",
    ] {
        let variable = format!("DBLOCK_{variable}");
        let dblock = Dblock::bare()
            .args(["run", "--name", "x", "--host", "127.0.0.1"])
            .env(&variable, bytes);
        dblock
            .command(["true"])
            .output()
            .expect_code(USAGE)
            .expect_one_line(&variable);
    }
}

#[test]
fn a_malformed_variable_is_refused_by_its_name() {
    for (variable, value) in [
        ("DBLOCK_URL", "mysql://u@h:70000/"),
        ("DBLOCK_PORT", "0"),
        ("DBLOCK_HOST", "a b"),
        ("DBLOCK_CONNECT_TIMEOUT", "1y2"),
    ] {
        let dblock = Dblock::bare()
            .args(["run", "--name", "x"])
            .env("DBLOCK_HOST", "127.0.0.1")
            .env(variable, value);
        dblock
            .command(["true"])
            .output()
            .expect_code(USAGE)
            .expect_one_line(variable);
    }
}

#[test]
fn without_arguments_the_help_is_shown_on_stderr() {
    let asked = Dblock::bare().arg("--help").output();
    let output = Dblock::bare().output();
    output.expect_code(USAGE).expect_stdout("");
    assert_eq!(output.stderr, asked.expect_code(0).stdout);
    assert!(
        output.stderr.contains("Usage: dblock <COMMAND>"),
        "{output:#?}"
    );
}

#[test]
fn each_subcommand_has_its_whole_help_in_both_ways_of_asking() {
    for subcommand in ["run", "status", "kill", "check", "config"] {
        let help = Dblock::bare().args([subcommand, "--help"]).output();
        let help = &help.expect_code(0).expect_silence().stdout;
        let same = Dblock::bare().args(["help", subcommand]).output();
        same.expect_code(0).expect_silence().expect_stdout(help);
        for part in [
            &format!("Usage: dblock {subcommand} [OPTIONS]"),
            "--verbose",
            "[env: DBLOCK_PORT] [default: 3306]",
            "Exit codes:",
        ] {
            assert!(help.contains(part), "{part} in {help}");
        }
    }
}

#[test]
fn each_subcommand_of_queue_has_its_whole_help_in_both_ways_of_asking() {
    let subcommands = [
        "create", "put", "work", "status", "list", "show", "retry", "cancel", "pause", "resume",
        "delete",
    ];
    for subcommand in subcommands {
        let help = Dblock::bare()
            .args(["queue", subcommand, "--help"])
            .output();
        let help = &help.expect_code(0).expect_silence().stdout;
        let same = Dblock::bare().args(["help", "queue", subcommand]).output();
        same.expect_code(0).expect_silence().expect_stdout(help);
        for part in [
            &format!("Usage: dblock queue {subcommand} [OPTIONS]"),
            "--verbose",
            "[env: DBLOCK_PORT] [default: 3306]",
            "Exit codes:",
        ] {
            assert!(help.contains(part), "{part} in {help}");
        }
    }
    let asked = Dblock::bare().args(["queue", "--help"]).output();
    let output = Dblock::bare().arg("queue").output();
    output.expect_code(USAGE).expect_stdout("");
    assert_eq!(output.stderr, asked.expect_code(0).stdout);
    Dblock::bare()
        .args(["queue", "walk"])
        .output()
        .expect_code(USAGE)
        .expect_one_line("walk");
}

#[test]
fn what_no_worker_can_do_is_refused() {
    for (args, said) in [
        (&["--jobs", "0"][..], "--jobs"),
        (&["-j", "1001"], "--jobs"),
        (&["-j", "-1"], "--jobs"),
        (&["--batch", "0"], "--batch"),
        (&["--batch", "10001"], "--batch"),
        (
            &["--lines"],
            "--lines: it is that of --batch, which is not given",
        ),
        (
            &["--null"],
            "--null: it is that of --batch, which is not given",
        ),
        (&["--batch", "5", "--lines", "--null"], "--null"),
        (&["--timeout", "soon"], "--timeout"),
        (&["--kill-after", "forever"], "--kill-after"),
        (&["--grace", "-1"], "--grace"),
        (&["--drain", "--once"], "--once"),
        (&["--bury-on", "0"], "--bury-on"),
        (&["--bury-on", "256"], "--bury-on"),
        (&["--bury-on", "3", "--bury-on", "4,75"], "--bury-on: 75"),
        (&["--bury-on", "3,"], "--bury-on"),
    ] {
        let work = Dblock::bare().args(["queue", "work", "--url", "mysql://u@127.0.0.1:1/"]);
        let work = work.args(args).args(["q"]).command(["true"]);
        work.output().expect_code(USAGE).expect_one_line(said);
    }
    for (args, said) in [
        (&["q"][..], "COMMAND"),
        (&[], "QUEUE"),
        (&["q", "--"], "COMMAND"),
    ] {
        let work = Dblock::bare().args(["queue", "work"]).args(args);
        work.output().expect_code(USAGE).expect_one_line(said);
    }
}

#[test]
fn help_that_cannot_be_written_is_an_error() {
    for args in [
        &["--help"][..],
        &["run", "-h"],
        &["help", "run"],
        &["--version"],
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let full = Dblock::bare().args(args).stdout(full).output();
        full.expect_code(70)
            .expect_one_line("cannot write to stdout: No space left on device");
        let closed = Dblock::bare()
            .args(args)
            .under(["sh", "-c", "exec \"$@\" >&-", "sh"]);
        let closed = closed.output();
        closed
            .expect_code(70)
            .expect_one_line("cannot write to stdout: Bad file descriptor");
    }
}

#[test]
fn help_shows_no_value_from_the_environment() {
    for args in [&["--help"][..], &["run", "--help"], &["run", "-h"]] {
        let mut dblock = Dblock::bare().args(args);
        for variable in [
            "DBLOCK_URL",
            "DBLOCK_HOST",
            "DBLOCK_USER",
            "DBLOCK_SOCKET",
            "DBLOCK_PASSWORD",
            "MYSQL_PWD",
        ] {
            dblock = dblock.env(variable, "h1dden");
        }
        let output = dblock.output();
        output.expect_code(0).expect_silence();
        assert!(
            output.stdout.contains("Usage:") && !output.stdout.contains("h1dden"),
            "{output:#?}"
        );
    }
}

#[test]
fn the_help_of_hold_at_least_warns_of_what_follows_it() {
    let output = Dblock::bare().args(["run", "--help"]).output();
    let words: Vec<_> = output.expect_code(0).stdout.split_whitespace().collect();
    let help = words.join(" ");
    let hold = help.split("--hold-at-least").nth(1).unwrap_or_default();
    assert!(
        hold.contains("what follows it after && is delayed"),
        "{help}"
    );
}

#[test]
fn the_version_is_told() {
    let output = Dblock::bare().arg("--version").output();
    output
        .expect_code(0)
        .expect_stdout(concat!("dblock ", env!("CARGO_PKG_VERSION"), "\n"));
}

both_servers! {
    fn bytes_that_are_no_text_reach_the_command(server on mysql) {
        let bytes = OsStr::from_bytes(BYTES);
        let command = ["sh", "-c", "printf %s \"$1$ODD\" | od -An -tx1", "sh"].map(OsStr::new).into_iter().chain([bytes]);
        let dblock = Dblock::run(server, &unique("bytes")).env("ODD", bytes).command(command);
        dblock.output().expect_code(0).expect_stdout(" ff fe ff fe\n").expect_silence();
    }

    fn what_looks_like_an_option_of_dblock_reaches_the_command(server on mariadb) {
        let echo = |words: &[&str]| {
            let dblock = Dblock::run(server, &unique("words")).args(words);
            dblock.output().expect_code(0).stdout.clone()
        };
        assert_eq!(echo(&["echo", "-v", "--wait", "--", "-n"]), "-v --wait -- -n\n");
        assert_eq!(echo(&["--", "echo", "--name", "y", ""]), "--name y \n");
    }
}

#[test]
fn a_mistyped_option_is_likened_to_the_one_that_is_meant_and_not_left_to_the_command() {
    let output = Dblock::bare()
        .args(["run", "--nmae", "x"])
        .command(["true"])
        .output();
    assert!(!output.stderr.contains("as a value"), "{output:?}");
    output.expect_code(64).expect_one_line("exists: '--name'");
}

#[test]
fn dblock_calls_itself_so_whatever_its_file_is_called() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("fleet-lock-2");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_dblock"), &other).unwrap();
    let other = other.to_str().unwrap();
    let wrong = Dblock::bare()
        .args(["init", "--foo"])
        .program(other)
        .output();
    wrong
        .expect_code(64)
        .expect_one_line("; see dblock init --help");
    let help = Dblock::bare()
        .args(["init", "--help"])
        .program(other)
        .output();
    assert!(
        help.expect_code(0).stdout.contains("Usage: dblock init "),
        "{help:?}"
    );
}

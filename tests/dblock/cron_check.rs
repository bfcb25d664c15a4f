//! `dblock cron check`: what it says of a crontab that is wrong, and when jobs are due.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use jiff::Timestamp;
use tempfile::TempDir;

use crate::harness::{Dblock, Output, copy_program, slack};

const USAGE: i32 = 64;
const CONFIGURATION: i32 = 78;

fn check() -> Dblock {
    Dblock::bare().args(["cron", "check"])
}

/// A folder with a file in it, and that file.
fn written(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("crontab");
    fs::write(&file, bytes).unwrap();
    (folder, file)
}

#[track_caller]
fn checked(text: &str, args: &[&str]) -> Output {
    let (_folder, file) = written(text.as_bytes());
    check().arg(&file).args(args).output()
}

#[test]
fn each_job_is_shown_with_its_next_times() {
    let before = Timestamp::now();
    let output = checked(
        "CRON_TZ=Asia/Kolkata\n#: report --timeout 30m\n*/5 * * * * x\nCRON_TZ=UTC\n#: 'new year'\n@yearly y\n",
        &[],
    );
    let lines: Vec<_> = output
        .expect_code(0)
        .expect_silence()
        .stdout
        .lines()
        .collect();
    assert_eq!(lines.len(), 8, "{output:#?}");
    assert_eq!(lines[0], "report (line 3): */5 * * * *");
    assert_eq!(lines[4], "new year (line 6): @yearly");
    let times = |lines: &[&str], zone: &str| -> Vec<(Timestamp, String)> {
        let lines = lines.iter().map(|line| {
            let time = line
                .strip_prefix("  ")
                .and_then(|line| line.strip_suffix(zone));
            let time = time.unwrap_or_else(|| panic!("{line}"));
            (time.parse().unwrap(), time.to_owned())
        });
        lines.collect()
    };
    let of_report = times(&lines[1..4], " Asia/Kolkata");
    let soon = of_report[0].0.as_second() - before.as_second();
    assert!((0..=360).contains(&soon), "{output:#?}");
    for (one, next) in of_report.iter().zip(&of_report[1..]) {
        assert_eq!(next.0.as_second() - one.0.as_second(), 300);
    }
    assert!(
        of_report.iter().all(|(_, text)| text.ends_with("+05:30")),
        "{output:#?}"
    );
    let year = before.to_string()[..4].parse::<i32>().unwrap();
    for ((_, text), year) in times(&lines[5..], " UTC").iter().zip(year + 1..) {
        assert_eq!(*text, format!("{year}-01-01T00:00:00Z"));
    }
}

#[test]
fn as_many_times_are_shown_as_asked_for() {
    let lines = |args: &[&str]| {
        let output = checked("@daily x\n@hourly y\n", args);
        output
            .expect_code(0)
            .expect_silence()
            .stdout
            .lines()
            .count()
    };
    assert_eq!(lines(&[]), 8);
    assert_eq!(lines(&["-n", "0"]), 2);
    assert_eq!(lines(&["-n1"]), 4);
    assert_eq!(lines(&["--next", "1000"]), 2002);
    for wrong in ["1001", "-1", "x", ""] {
        let output = checked("@daily x\n", &["-n", wrong]);
        output.expect_code(USAGE).expect_one_line("--next: ");
    }
    check()
        .output()
        .expect_code(USAGE)
        .expect_one_line("<FILE>");
    let two = check().args(["a", "b"]).output();
    two.expect_code(USAGE).expect_one_line("'b'");
}

#[test]
fn everything_that_is_wrong_is_a_line_with_its_place() {
    let text =
        "#: a --timeout x\n61 * * * * x\n\n#: b\n* * * * * y\n#: b\n* * * * * z\nCRON_TZ=Berlin\n";
    let (_folder, file) = written(text.as_bytes());
    let output = check().arg(&file).output();
    output.expect_code(CONFIGURATION).expect_stdout("");
    let file = file.display();
    let expected = [
        "1: --timeout: \"x\" is not a duration; write 90s, 5m, 1h 30m or 0.5",
        "2: minute \"61\" is not a number from 0 to 59",
        "6: the job of line 4 has the name b too",
        "8: CRON_TZ: \"Berlin\" is not a time zone; do you mean Europe/Berlin?",
    ];
    let expected = expected.map(|line| format!("dblock: {file}:{line}\n"));
    assert_eq!(output.stderr, expected.concat());
}

#[test]
fn a_file_that_is_no_crontab_is_one_clear_line() {
    let large = vec![b'\n'; 1024 * 1024 + 1];
    let cases: [(&[u8], &str); 8] = [
        (b"", ": there is no job in it"),
        (b"# nothing\n", ": there is no job in it"),
        (
            b"* * * * * x",
            ":1: the last line has no line break: the file may be cut off",
        ),
        (
            b"* * * * * x\r\n* * * * * y\r\n",
            ":1: the line ends in CR LF; save the file with LF alone",
        ),
        (
            b"\xef\xbb\xbf* * * * * x\n",
            ":1: the file begins with a byte order mark; save it as UTF-8 without one",
        ),
        (b"* * * * * x\n# caf\xe9\n", ":2: the line is not UTF-8"),
        (
            b"* * * * * x\n* * * * * \0\n",
            ":2: the line contains a NUL byte",
        ),
        (&large, ": it is larger than 1 MiB"),
    ];
    for (bytes, said) in cases {
        let (_folder, file) = written(bytes);
        let output = check().arg(&file).output();
        output
            .expect_code(CONFIGURATION)
            .expect_stdout("")
            .expect_one_line(said);
        let output = check()
            .arg("-")
            .stdin(fs::File::open(&file).unwrap())
            .output();
        output
            .expect_code(CONFIGURATION)
            .expect_stdout("")
            .expect_one_line(&format!("stdin{said}"));
    }
    let (folder, file) = written(b"* * * * * x\n");
    let refused = |path: &Path, said: &str| {
        let output = check().arg(path).output();
        let line = format!(
            "dblock: cannot read the crontab {}: {said}\n",
            path.display()
        );
        assert_eq!(
            output.expect_code(CONFIGURATION).expect_stdout("").stderr,
            line
        );
    };
    refused(&folder.path().join("none"), "No such file or directory");
    refused(folder.path(), "it is not a regular file");
    refused(Path::new("/dev/null"), "it is not a regular file");
    refused(&file.join("below"), "Not a directory");
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    refused(&pipe, "it is not a regular file");
}

#[test]
fn a_file_that_this_user_cannot_read_is_refused() {
    let (folder, file) = written(b"* * * * * x\n");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    // The built program may lie where only its owner comes.
    let program = folder.path().join("dblock");
    copy_program(env!("CARGO_BIN_EXE_dblock"), &program);
    let nobody = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    let output = check().arg(&file).program(program).under(nobody).output();
    output
        .expect_code(CONFIGURATION)
        .expect_stdout("")
        .expect_one_line("Permission denied");
}

#[test]
fn stdin_is_read_and_no_server_is_asked() {
    let mut dblock = check()
        .args(["-", "-n0"])
        .env("DBLOCK_URL", "mysql://u@127.0.0.1:1/")
        .env("DBLOCK_CONNECT_TIMEOUT", "wrong")
        .stdin(Stdio::piped())
        .spawn();
    let mut stdin = dblock.take_stdin();
    stdin.write_all(b"#: from-stdin\n@daily ").unwrap();
    stdin.write_all(b"x\n").unwrap();
    drop(stdin);
    let output = dblock.wait();
    output.expect_code(0).expect_silence();
    output.expect_stdout("from-stdin (line 2): @daily\n");
}

#[test]
fn a_job_without_cron_tz_is_in_the_zone_of_the_host() {
    let zone = |host: &str| {
        let (_folder, file) = written(b"@daily x\n");
        check().arg(file).env("TZ", host).output()
    };
    // It goes by where a file is, and not by what is in it.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("zoneinfo/Asia/Tokyo");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "").unwrap();
    let file = file.display().to_string();
    for host in ["Asia/Tokyo", &file, &format!(":{file}")] {
        let tokyo = zone(host);
        let lines: Vec<_> = tokyo.expect_code(0).stdout.lines().skip(1).collect();
        for line in &lines {
            assert!(line.ends_with("T00:00:00+09:00 Asia/Tokyo"), "{line}");
        }
        assert_eq!(lines.len(), 3);
    }
    let last_word = |host: &str| {
        let output = zone(host);
        let mut words = output.stdout.split_whitespace();
        words.next_back().map(str::to_owned)
    };
    assert_eq!(last_word(":/etc/localtime"), last_word(""));
    let why = "CRON_TZ=ZONE is needed above it: the time zone of this host has no IANA name";
    for host in ["CET-1CEST", ":/nonexistent/zoneinfo/Asia/Tokyo"] {
        let output = zone(host);
        output.expect_code(CONFIGURATION);
        output.expect_one_line(&format!(":1: a line {why}"));
    }
}

#[test]
fn what_a_file_contains_cannot_steer_the_terminal() {
    let output = checked("#: a\u{202e}b\n@daily x\n", &["-n0"]);
    output
        .expect_code(0)
        .expect_stdout("a\\u{202e}b (line 2): @daily\n");
    let output = checked("#: a\n\u{1b}[2J * * * * x\n", &[]);
    output.expect_code(CONFIGURATION);
    assert!(!output.stderr.contains('\u{1b}'), "{output:#?}");
    let odd = OsStr::from_bytes(b"/nonexistent/\x1b[2J\xff");
    let output = check().arg(odd).output();
    output
        .expect_code(CONFIGURATION)
        .expect_one_line("\\u{1b}[2J");
}

#[test]
fn a_group_without_a_command_shows_its_help() {
    let asked = Dblock::bare().args(["cron", "--help"]).output();
    let output = Dblock::bare().arg("cron").output();
    output.expect_code(USAGE).expect_stdout("");
    assert_eq!(output.stderr, asked.expect_code(0).stdout);
    let help = check().arg("--help").output();
    let same = Dblock::bare().args(["help", "cron", "check"]).output();
    same.expect_code(0)
        .expect_stdout(&help.expect_code(0).stdout);
    Dblock::bare()
        .args(["cron", "walk"])
        .output()
        .expect_code(USAGE)
        .expect_one_line("walk");
}

#[test]
fn ten_thousand_jobs_are_checked_in_a_moment() {
    let mut text = String::new();
    for number in 0..10_000 {
        let _ = writeln!(text, "{} * * * * x{number}", number % 60);
    }
    let output = checked(&text, &[]);
    assert_eq!(output.expect_code(0).stdout.lines().count(), 40_000);
    output.expect_took(Duration::ZERO, 20 * slack());
}

#[test]
fn a_password_that_can_be_read_once_is_refused_by_the_daemon() {
    let (_folder, file) = written(b"#: job\n* * * * * true\n");
    let output = Dblock::bare()
        .args(["cron", "run", "--host", "127.0.0.1"])
        .arg("--password-file")
        .arg("/dev/fd/3")
        .arg(&file)
        .output();
    output
        .expect_code(64)
        .expect_one_line("the password file /dev/fd/3 can be read once");
}

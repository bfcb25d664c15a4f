//! What nobody gets to see, and what dblock leaves behind: nothing.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::sys::signal::Signal;

use crate::harness::{
    Answer, Dblock, Fake, Kind, SOON, both_servers, eventually, eventually_gone, framed, unique,
    url_of_port,
};

const SECRET: &str = "Pa55-w0rd";

/// Every file below a folder.
fn files_below(folder: &Path) -> Vec<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        files.push(entry.path().display().to_string());
        if entry.path().is_dir() {
            files.extend(files_below(&entry.path()));
        }
    }
    files.sort();
    files
}

#[test]
fn no_help_shows_a_variable() {
    for args in [
        &["--help"][..],
        &["run", "--help"],
        &["check", "-h"],
        &["config", "--help"],
        &["help", "run"],
        &["--version"],
    ] {
        let mut dblock = Dblock::bare().args(args);
        for variable in [
            "DBLOCK_URL",
            "DBLOCK_PASSWORD",
            "MYSQL_PWD",
            "DBLOCK_USER",
            "DBLOCK_HOST",
        ] {
            dblock = dblock.env(variable, SECRET);
        }
        let output = dblock.output();
        output.expect_code(0);
        assert!(
            !output.stdout.contains(SECRET) && !output.stderr.contains(SECRET),
            "{output:#?}"
        );
    }
}

#[test]
fn no_complaint_shows_a_password() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my.cnf");
    for text in [
        format!("[dblock]\nurl=mysql://u:{SECRET}@h:0/\n"),
        format!("[dblock]\nurl=mysql://u:{SECRET}#x@h\n"),
        format!("[dblock]\nurl = u:{SECRET}@h\n"),
        format!("[dblock]\nhost = u:{SECRET}@h\n"),
        format!("[dblock]\nport = u:{SECRET}@h\n"),
        format!("[dblock]\nport = postgres:///d?password={SECRET}\n"),
        format!("[dblock]\nuser = postgres:///d?password={SECRET}\n"),
        format!("[dblock]\nu:{SECRET}@h\n"),
        format!("[dblock]\npassword {SECRET}\n"),
        format!("[dblock]\npassword: {SECRET}\n"),
        format!("[dblock]\npassword:{SECRET}\n"),
        format!("[dblock]\nurl mysql://u:{SECRET}@h/\n"),
        format!("[client]\nhost=h\nssl-mode=u:{SECRET}@h\n"),
        format!("[client]\nhost=h\npassword={SECRET}\n[dblock]\nttl=0\n"),
    ] {
        fs::write(&file, &text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        for command in ["config", "check"] {
            let output = Dblock::bare()
                .env_remove("DBLOCK_SSL_MODE")
                .args([command, "-vv", "--defaults-file"])
                .arg(&file)
                .args(["--connect-timeout", "0.1"])
                .output();
            assert_ne!(output.code, Some(0), "{text}: {output:#?}");
            assert!(
                !output.stderr.contains(SECRET) && !output.stdout.contains(SECRET),
                "{text}: {output:#?}"
            );
        }
    }
}

both_servers! {
    fn no_file_is_written(server on mariadb) {
        let folder = tempfile::tempdir().unwrap();
        for part in ["home", "tmp", "work"] {
            fs::create_dir(folder.path().join(part)).unwrap();
        }
        let at = |part: &str| folder.path().join(part);
        let before = files_below(folder.path());
        let inside = ["sh", "-c", "cd \"$0\" && exec \"$@\""].map(str::to_owned);
        let wrapper = || inside.iter().cloned().chain([at("work").display().to_string()]);
        for (args, command, code) in [
            (&["-vv", "--wait", "1"][..], "true", 0),
            (&["-m", "3", "--hold-at-least", "0.1"], "exit 3", 3),
            (&["--timeout", "0.1", "--kill-after", "0"], "sleep 9", 137),
            (&["--port", "1", "--connect-timeout", "0.1"], "true", 69),
        ] {
            let dblock = Dblock::run(server, &unique("files")).args(args).env("HOME", at("home")).env("TMPDIR", at("tmp"));
            dblock.sh(command).under(wrapper()).output().expect_code(code);
        }
        let check = Dblock::bare().args(["check", "--url", &server.url()]).env("DBLOCK_PASSWORD", crate::harness::PASSWORD);
        check.env("HOME", at("home")).env("TMPDIR", at("tmp")).under(wrapper()).output().expect_code(0);
        assert_eq!(files_below(folder.path()), before);
    }
}

#[test]
fn who_reads_secrets_dies_without_a_word_and_without_a_core() {
    let folder = tempfile::tempdir().unwrap();
    // It announces more columns than there is memory for.
    let columns = [&[0xfe][..], &(1_u64 << 40).to_le_bytes()].concat();
    let fake = Fake::start(Kind::MySql, move |_| Answer::Raw(framed(1, &columns)));
    let inside = ["sh", "-c", "ulimit -c unlimited; cd \"$0\" && exec \"$@\""].map(str::to_owned);
    let run = Dblock::run_at(&fake.url(), &unique("core"))
        .env("RUST_BACKTRACE", "1")
        .under(
            inside
                .into_iter()
                .chain([folder.path().display().to_string()]),
        );
    // To look into itself takes long where many do something at once.
    let run = run.args(["--connect-timeout", "50"]).command(["true"]);
    run.output().expect_code(70).expect_one_line("64 MB");
    assert_eq!(files_below(folder.path()), Vec::<String>::new());
}

#[test]
fn who_reads_secrets_does_not_outlive_dblock() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = url_of_port(listener.local_addr().unwrap().port());
    let run = Dblock::run_at(&url, &unique("silent"))
        .args(["--connect-timeout", "50"])
        .command(["true"])
        .spawn();
    // The keeper waits for what is never said.
    let mut peer = None;
    eventually("the keeper connects", SOON, || {
        peer = listener.accept().ok();
        peer.is_some()
    });
    let keeper = run.children()[0];
    run.signal(Signal::SIGKILL);
    eventually_gone(keeper, SOON);
    drop(peer);
}

#[test]
fn a_variable_with_the_systems_cas_may_be_empty_and_its_file_must_have_an_end() {
    let run = |limit: &str| {
        Dblock::run_at("mysql://u@127.0.0.1:1/", &unique("cas"))
            .args(["--ssl-mode", "verify-ca", "--connect-timeout", limit])
            .env_remove("SSL_CERT_DIR")
            .command(["true"])
    };
    run("50")
        .env("SSL_CERT_FILE", "/dev/zero")
        .output()
        .expect_code(78)
        .expect_one_line("SSL_CERT_FILE, /dev/zero: it is not a regular file");
    // An empty variable counts as not set.
    let not_set = run("0.5").env_remove("SSL_CERT_FILE").output();
    let empty = run("0.5").env("SSL_CERT_FILE", "").output();
    assert_eq!(empty.code, not_set.code, "{empty:#?}");
}

//! What nobody gets to see, and what dblock leaves behind: nothing.

use std::fs;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::harness::{Dblock, SOON, both_servers, eventually, eventually_gone, unique};

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

/// `dblock run` that reads the system's CAs from this file, and writes cores if it can.
fn with_cas_from(file: &Path, folder: &Path) -> Dblock {
    let inside = ["sh", "-c", "ulimit -c unlimited; cd \"$0\" && exec \"$@\""].map(str::to_owned);
    let dblock =
        Dblock::run_at("mysql://u@127.0.0.1:1/", &unique("cas")).args(["--ssl-mode", "verify-ca"]);
    dblock
        .env("SSL_CERT_FILE", file)
        .env("RUST_BACKTRACE", "1")
        .under(inside.into_iter().chain([folder.display().to_string()]))
        .command(["true"])
}

#[test]
fn who_reads_secrets_dies_without_a_word_and_without_a_core() {
    let folder = tempfile::tempdir().unwrap();
    // It has no end, and the memory has.
    let run = with_cas_from(Path::new("/dev/zero"), folder.path());
    // To fill it takes long where many do something at once.
    let output = run.args(["--connect-timeout", "50"]).output();
    output.expect_code(70).expect_one_line("64 MB");
    assert_eq!(files_below(folder.path()), Vec::<String>::new());
}

#[test]
fn who_reads_secrets_does_not_outlive_dblock() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    mkfifo(&pipe, Mode::from_bits_truncate(0o600)).unwrap();
    let run = with_cas_from(&pipe, folder.path())
        .args(["--connect-timeout", "50"])
        .spawn();
    // A pipe can be opened so only where somebody reads it, and he waits for what is never written.
    let mut writer = None;
    eventually("the keeper reads", SOON, || {
        let open = fs::File::options()
            .write(true)
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open(&pipe);
        writer = open.ok();
        writer.is_some()
    });
    let keeper = run.children()[0];
    run.signal(Signal::SIGKILL);
    eventually_gone(keeper, SOON);
}

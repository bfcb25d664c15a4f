//! What nobody gets to see, and what dblock leaves behind: nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::harness::{Dblock, both_servers, unique};

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
    fn no_file_is_written(server) {
        let folder = tempfile::tempdir().unwrap();
        for part in ["home", "tmp", "work"] {
            fs::create_dir(folder.path().join(part)).unwrap();
        }
        let at = |part: &str| folder.path().join(part);
        let before = files_below(folder.path());
        let inside = ["sh", "-c", "cd \"$0\" && exec \"$@\""].map(str::to_owned);
        let wrapper = || inside.iter().cloned().chain([at("work").display().to_string()]);
        for (args, command) in [
            (&["-vv", "--wait", "1"][..], "true"),
            (&["-m", "3", "--hold-at-least", "0.1"], "exit 3"),
            (&["--timeout", "0.1", "--kill-after", "0"], "sleep 9"),
            (&["--port", "1", "--connect-timeout", "0.1"], "true"),
        ] {
            let dblock = Dblock::run(server, &unique("files")).args(args).env("HOME", at("home")).env("TMPDIR", at("tmp"));
            dblock.sh(command).under(wrapper()).output();
        }
        let check = Dblock::bare().args(["check", "--url", &server.url()]).env("DBLOCK_PASSWORD", crate::harness::PASSWORD);
        check.env("HOME", at("home")).env("TMPDIR", at("tmp")).under(wrapper()).output().expect_code(0);
        assert_eq!(files_below(folder.path()), before);
    }
}

//! Logging in: every way that the servers' accounts do it, and passwords that are never shown.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;

use mysql::prelude::Queryable;
use nix::unistd::{User, geteuid};
use tempfile::TempDir;

use crate::harness::{
    Dblock, Kind, PASSWORD, SOON, Server, both_servers, eventually, unique, url_of_port, works,
};

/// Longer than the server's salt, and not ASCII.
const LONG_PASSWORD: &str = "a pässword that is longer than the twenty bytes of any salt";

/// Makes a new account by `CREATE USER NAME REST`; its name.
fn account(server: &Server, rest: &str) -> String {
    let name = unique("u");
    server
        .admin()
        .query_drop(format!("CREATE USER '{name}'@'%' {rest}"))
        .unwrap();
    name
}

/// `dblock run`, over TCP, as this account.
fn run_as(server: &Server, account: &str) -> Dblock {
    Dblock::run(server, &unique("login")).args(["--user", account])
}

/// Is refused, at once and without the password in any line.
#[track_caller]
fn is_refused(dblock: Dblock, password: &str) {
    let output = dblock
        .args(["-vv", "--connect-timeout", "50"])
        .sh("echo ran")
        .output();
    output
        .expect_code(77)
        .expect_stdout("")
        .expect_line("dblock: ");
    assert!(
        !output.stderr.contains(password),
        "the password is shown: {output:#?}"
    );
    assert!(output.took.as_secs() < 25, "tried again: {output:#?}");
}

/// A file with a password, that nobody else may read.
fn file_with(password: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    fs::write(&file, password).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    (folder, file)
}

both_servers! {
    fn a_password_of_the_servers_usual_kind(server) {
        // Twice: on MySQL the first login of a new account takes the long way, with RSA, and the next ones the short one.
        let account = account(server, &format!("IDENTIFIED BY '{LONG_PASSWORD}'"));
        for _ in 0..2 {
            works(run_as(server, &account).env("DBLOCK_PASSWORD", LONG_PASSWORD));
        }
        let account = self::account(server, "IDENTIFIED BY 'right'");
        is_refused(run_as(server, &account).env("DBLOCK_PASSWORD", "wr0ng"), "wr0ng");
    }

    fn an_account_without_a_password(server) {
        let account = account(server, "IDENTIFIED BY ''");
        works(run_as(server, &account).env_remove("DBLOCK_PASSWORD"));
        is_refused(run_as(server, &account).env("DBLOCK_PASSWORD", "n0ne"), "n0ne");
        let account = self::account(server, "IDENTIFIED BY 'right'");
        is_refused(run_as(server, &account).env_remove("DBLOCK_PASSWORD"), "right");
    }

    fn an_account_that_is_not_there(server) {
        // MySQL hides which accounts there are: it asks for some password, another kind for another name.
        for _ in 0..20 {
            is_refused(run_as(server, &unique("nobody")), PASSWORD);
        }
    }

    fn the_user_of_the_system_by_the_socket(server) {
        let user = User::from_uid(geteuid()).unwrap().expect("the tests' user has a name").name;
        let mut admin = server.admin();
        let by_socket = match server.kind {
            Kind::MariaDb => "IDENTIFIED VIA unix_socket",
            Kind::Postgres => unreachable!("a test of MySQL"),
            Kind::MySql => {
                let _ = admin.query_drop("INSTALL PLUGIN auth_socket SONAME 'auth_socket.so'");
                "IDENTIFIED WITH auth_socket"
            }
        };
        admin.query_drop(format!("CREATE USER IF NOT EXISTS '{user}'@localhost")).unwrap();
        admin.query_drop(format!("ALTER USER '{user}'@localhost {by_socket}")).unwrap();
        let run = || Dblock::bare().args(["run", "--name", &unique("socket"), "--socket"]).arg(&server.socket);
        works(run());
        works(run().args(["--user", &user]));
        works(run().env("DBLOCK_PASSWORD", "of no use"));
        is_refused(run().args(["--user", "nobody"]), "of no use");
    }

    fn a_wrong_password_is_shown_nowhere(server) {
        let wrong = "wr0ng";
        is_refused(Dblock::run(server, "x").env("DBLOCK_PASSWORD", wrong), wrong);
        is_refused(Dblock::run(server, "x").env_remove("DBLOCK_PASSWORD").env("MYSQL_PWD", wrong), wrong);
        let (_folder, file) = file_with(wrong);
        is_refused(Dblock::run(server, "x").arg("--password-file").arg(file), wrong);
        let url = format!("mysql://dblock:{wrong}@127.0.0.1:{}/", server.port);
        is_refused(Dblock::run_at(&url, "x").env_remove("DBLOCK_PASSWORD"), wrong);
        is_refused(Dblock::run(server, "x").args(["--url", &url]).env_remove("DBLOCK_PASSWORD"), wrong);
    }

    fn a_right_password_is_shown_nowhere(server) {
        let output = Dblock::run(server, &unique("shown")).arg("-vv").command(["true"]).output();
        output.expect_code(0).expect_line("dblock: ");
        assert!(!output.stderr.contains(PASSWORD), "{output:#?}");
    }

    fn a_refused_account_does_not_run_the_command_without_the_lock(server) {
        is_refused(run_as(server, "nobody").args(["--if-unreachable", "run"]), PASSWORD);
    }

    fn a_password_in_a_file(server on mysql) {
        for text in [PASSWORD, &format!("{PASSWORD}\n"), &format!("{PASSWORD}\r\n"), &format!("{PASSWORD}\nmore\n")] {
            let (_folder, file) = file_with(text);
            works(Dblock::run(server, &unique("file")).arg("--password-file").arg(file).env_remove("DBLOCK_PASSWORD"));
        }
        // White space belongs to the password.
        let (_folder, file) = file_with(&format!("{PASSWORD} \n"));
        is_refused(Dblock::run(server, "x").arg("--password-file").arg(file), PASSWORD);
    }

    fn a_password_file_that_others_can_read_is_warned_of(server on mariadb) {
        let (_folder, file) = file_with(PASSWORD);
        for mode in [0o604, 0o644, 0o666] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let run = || Dblock::run(server, &unique("file")).env_remove("DBLOCK_PASSWORD").arg("--password-file").arg(&file);
            let output = run().sh("echo ran").output();
            output.expect_code(0).expect_stdout("ran\n").expect_one_line(file.to_str().unwrap());
            run().arg("--quiet").command(["true"]).output().expect_code(0).expect_silence();
        }
    }

    fn of_two_passwords_the_stronger_counts(server) {
        let run = || Dblock::run(server, &unique("two")).env_remove("DBLOCK_PASSWORD");
        works(run().env("MYSQL_PWD", PASSWORD));
        works(run().env("DBLOCK_PASSWORD", PASSWORD).env("MYSQL_PWD", "wrong"));
        let (_folder, file) = file_with(PASSWORD);
        works(run().env("DBLOCK_PASSWORD", "wrong").env("MYSQL_PWD", "wrong").arg("--password-file").arg(file));
        // A single variable beats a part of the URL.
        let url = |password| format!("mysql://dblock:{password}@127.0.0.1:{}/", server.port);
        works(run().env("DBLOCK_URL", url(PASSWORD)));
        works(run().env("DBLOCK_URL", url(PASSWORD)).env("MYSQL_PWD", "wrong"));
        works(run().env("DBLOCK_URL", url("wrong")).env("DBLOCK_PASSWORD", PASSWORD));
    }

    fn a_password_in_a_url_on_the_command_line_works_with_a_warning(server on mysql) {
        let account = account(server, "IDENTIFIED BY 's3:c@r/t'");
        let url = format!("mysql://{account}:s3%3Ac%40r%2Ft@127.0.0.1:{}/", server.port);
        let run = || Dblock::bare().args(["run", "--name", &unique("url")]);
        works(run().env("DBLOCK_URL", &url));
        let output = run().args(["--url", &url]).sh("echo ran").output();
        output.expect_code(0).expect_stdout("ran\n").expect_one_line("password");
        assert!(!output.stderr.contains("s3"), "{output:#?}");
    }
}

#[test]
fn an_ed25519_password_on_mariadb() {
    let server = Server::shared(Kind::MariaDb);
    let installed = server.admin().query_drop("INSTALL SONAME 'auth_ed25519'");
    assert!(
        installed.is_ok()
            || installed
                .as_ref()
                .is_err_and(|error| error.to_string().contains("1968")),
        "{installed:?}"
    );
    let account = account(
        server,
        &format!("IDENTIFIED VIA ed25519 USING PASSWORD('{LONG_PASSWORD}')"),
    );
    works(run_as(server, &account).env("DBLOCK_PASSWORD", LONG_PASSWORD));
    is_refused(
        run_as(server, &account).env("DBLOCK_PASSWORD", "wr0ng"),
        "wr0ng",
    );
}

/// A new account with this PARSEC password.
fn parsec_account(server: &Server, password: &str) -> String {
    account(
        server,
        &format!("IDENTIFIED VIA parsec USING PASSWORD('{password}')"),
    )
}

#[test]
fn a_parsec_password_on_mariadb() {
    let server = Server::with_parsec();
    for password in ["right", LONG_PASSWORD] {
        let account = parsec_account(server, password);
        for _ in 0..2 {
            works(run_as(server, &account).env("DBLOCK_PASSWORD", password));
        }
        let by_socket = Dblock::run_at("", &unique("parsec"))
            .env_remove("DBLOCK_URL")
            .args(["--user", &account, "--socket"])
            .arg(&server.socket);
        works(by_socket.env("DBLOCK_PASSWORD", password));
        is_refused(
            run_as(server, &account).env("DBLOCK_PASSWORD", "wr0ng"),
            "wr0ng",
        );
    }
}

#[test]
fn a_parsec_account_whose_password_was_forgotten_is_refused_by_name() {
    let server = Server::with_parsec();
    let account = parsec_account(server, "right");
    for forgotten in [
        run_as(server, &account).env_remove("DBLOCK_PASSWORD"),
        run_as(server, &account).env("DBLOCK_PASSWORD", ""),
    ] {
        let output = forgotten.sh("echo ran").output();
        output.expect_code(77).expect_stdout("");
        output.expect_one_line(&format!("refused the account {account}: "));
    }
}

#[test]
fn a_parsec_account_without_a_password() {
    let server = Server::with_parsec();
    let account = parsec_account(server, "");
    works(run_as(server, &account).env_remove("DBLOCK_PASSWORD"));
    works(run_as(server, &account).env("DBLOCK_PASSWORD", ""));
    is_refused(
        run_as(server, &account).env("DBLOCK_PASSWORD", "n0ne"),
        "n0ne",
    );
}

#[test]
fn a_lock_on_a_mariadb_that_has_parsec() {
    let server = Server::with_parsec();
    let account = parsec_account(server, "right");
    let name = unique("new");
    let run = || {
        Dblock::run(server, &name)
            .args(["--user", &account])
            .env("DBLOCK_PASSWORD", "right")
    };
    let mut holder = run().stdin(Stdio::piped()).sh("echo held; cat").spawn();
    holder.wait_line("held", SOON);
    run()
        .sh("echo ran")
        .output()
        .expect_code(75)
        .expect_one_line("is held by");
    let waiter = run().args(["--wait", "forever"]).sh("echo ran").spawn();
    eventually("it waits", SOON, || server.waiters(&name).len() == 1);
    drop(holder.take_stdin());
    holder.wait().expect_code(0).expect_silence();
    waiter
        .wait()
        .expect_code(0)
        .expect_stdout("ran\n")
        .expect_silence();
    assert_eq!(server.holder(&name), None);
}

/// Is refused at once, in one line that names the account, and what more there is to say.
#[track_caller]
fn is_refused_with(dblock: Dblock, account: &str, says: &[&str]) {
    let output = dblock
        .args(["--connect-timeout", "50"])
        .sh("echo ran")
        .output();
    output.expect_code(77).expect_stdout("");
    output.expect_one_line(account).expect_said(says);
    assert!(output.took < SOON, "tried again: {output:#?}");
}

both_servers! {
    fn an_account_that_may_not_log_in_is_not_tried_again(server) {
        for state in ["ACCOUNT LOCK", "PASSWORD EXPIRE"] {
            let account = account(server, &format!("IDENTIFIED BY 'right' {state}"));
            let refused = run_as(server, &account).env("DBLOCK_PASSWORD", "right");
            let output = refused.args(["--connect-timeout", "50"]).command(["true"]).output();
            output.expect_code(77).expect_one_line("refused the account");
            assert!(output.took < SOON, "tried again: {output:#?}");
        }
    }
}

#[test]
fn an_account_that_too_many_wrong_passwords_have_blocked_is_not_tried_again() {
    let server = Server::shared(Kind::MySql);
    let account = account(
        server,
        "IDENTIFIED BY 'right' FAILED_LOGIN_ATTEMPTS 1 PASSWORD_LOCK_TIME 1",
    );
    let wrong = run_as(server, &account).env("DBLOCK_PASSWORD", "wr0ng");
    is_refused(wrong, "wr0ng");
    let right = run_as(server, &account).env("DBLOCK_PASSWORD", "right");
    is_refused_with(right, &account, &["blocked"]);
}

#[test]
fn a_plugin_of_mysqls_that_dblock_has_not_is_named() {
    let server = Server::shared(Kind::MySql);
    let mut admin = server.admin();
    for plugin in ["mysql_no_login", "auth_socket"] {
        let _ = admin.query_drop(format!("INSTALL PLUGIN {plugin} SONAME '{plugin}.so'"));
    }
    for (how, says) in [
        // The server itself says no.
        ("mysql_no_login", &["Access denied"][..]),
        ("auth_socket", &["Access denied"]),
        (
            "sha256_password BY 'right'",
            &["'sha256_password'", "caching_sha2_password"],
        ),
    ] {
        let account = account(server, &format!("IDENTIFIED WITH {how}"));
        let run = run_as(server, &account).env("DBLOCK_PASSWORD", "right");
        is_refused_with(run, &account, says);
    }
}

#[test]
fn a_plugin_of_mariadbs_that_dblock_has_not_is_named() {
    let server = Server::shared(Kind::MariaDb);
    let _ = server.admin().query_drop("INSTALL SONAME 'auth_pam'");
    for (how, says) in [
        ("pam", &["'dialog'", "no password in clear", "ed25519"][..]),
        ("unix_socket", &["Access denied"]),
    ] {
        let account = account(server, &format!("IDENTIFIED VIA {how}"));
        let run = run_as(server, &account).env("DBLOCK_PASSWORD", "right");
        is_refused_with(run, &account, says);
    }
}

#[test]
fn an_account_with_several_plugins_on_mariadb() {
    let server = Server::shared(Kind::MariaDb);
    // The first that wants an answer gets one; over TCP the other wants none.
    for how in [
        "mysql_native_password USING PASSWORD('right') OR unix_socket",
        "unix_socket OR mysql_native_password USING PASSWORD('right')",
    ] {
        let account = account(server, &format!("IDENTIFIED VIA {how}"));
        works(run_as(server, &account).env("DBLOCK_PASSWORD", "right"));
        is_refused(
            run_as(server, &account).env("DBLOCK_PASSWORD", "wr0ng"),
            "wr0ng",
        );
    }
    let server = Server::with_parsec();
    let account = account(
        server,
        "IDENTIFIED VIA parsec USING PASSWORD('right') OR mysql_native_password USING PASSWORD('other')",
    );
    works(run_as(server, &account).env("DBLOCK_PASSWORD", "right"));
    let output = run_as(server, &account)
        .env("DBLOCK_PASSWORD", "other")
        .sh("echo ran")
        .output();
    output
        .expect_code(70)
        .expect_stdout("")
        .expect_one_line(&account)
        .expect_said(["several plugins"]);
}

#[test]
fn a_native_password_on_mariadb() {
    let server = Server::shared(Kind::MariaDb);
    let account = account(
        server,
        "IDENTIFIED VIA mysql_native_password USING PASSWORD('right')",
    );
    works(run_as(server, &account).env("DBLOCK_PASSWORD", "right"));
    is_refused(
        run_as(server, &account).env("DBLOCK_PASSWORD", "wr0ng"),
        "wr0ng",
    );
}

#[test]
fn a_password_file_that_cannot_be_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = folder.path().join("bytes");
    fs::write(&bytes, b"\xff\xfe\n").unwrap();
    fs::set_permissions(&bytes, fs::Permissions::from_mode(0o600)).unwrap();
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let (_empty_folder, empty) = file_with("");
    let (_line_folder, empty_line) = file_with("\r\nsecret\n");
    for file in [
        empty,
        empty_line,
        folder.path().join("missing"),
        folder.path().into(),
        bytes,
        pipe,
        "/dev/zero".into(),
    ] {
        let dblock = Dblock::run_at(&url_of_port(1), "x")
            .arg("--password-file")
            .arg(&file);
        let output = dblock
            .args(["--if-unreachable", "run"])
            .sh("echo ran")
            .output();
        output
            .expect_code(78)
            .expect_stdout("")
            .expect_one_line(file.to_str().unwrap());
    }
}

#[test]
fn a_password_travels_without_tls_for_the_key_that_was_named() {
    let server = Server::shared(Kind::MySql);
    let key: (String, String) = server
        .admin()
        .query_first("SHOW STATUS LIKE 'Caching_sha2_password_rsa_public_key'")
        .unwrap()
        .expect("it has one");
    let (_folder, right) = file_with(&key.1);
    let other = Command::new("sh")
        .args(["-c", "openssl genrsa 2048 2>&- | openssl rsa -pubout 2>&-"])
        .output()
        .unwrap();
    let (_other_folder, other) = file_with(&String::from_utf8(other.stdout).unwrap());
    let run = |account: &str, key: &PathBuf| {
        let dblock = run_as(server, account).env("DBLOCK_PASSWORD", "hush");
        dblock.arg("--server-public-key-path").arg(key)
    };
    // An account's first login sends the password, and the server does not understand it by another key.
    let account = account(server, "IDENTIFIED BY 'hush'");
    is_refused(run(&account, &other), "hush");
    works(run(&account, &right));
    let (_folder, none) = file_with("no key");
    let elliptic =
        "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 | openssl pkey -pubout";
    let elliptic = Command::new("sh").args(["-c", elliptic]).output().unwrap();
    let (_folder, elliptic) = file_with(&String::from_utf8(elliptic.stdout).unwrap());
    for wrong in [
        none,
        elliptic,
        PathBuf::from("/nothing"),
        PathBuf::from("/dev/zero"),
    ] {
        let output = run(&account, &wrong).command(["true"]).output();
        output
            .expect_code(78)
            .expect_one_line(wrong.to_str().unwrap());
        output.expect_said(["--server-public-key-path"]);
    }
}

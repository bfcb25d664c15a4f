//! What cannot be right is refused at once: one line, and an exit code as of every dblock.

use crate::harness::{Fleet, output, private, program};

#[track_caller]
fn refused(fleet: &Fleet, args: &[&str], code: i32, said: &str) {
    let output = output(&mut fleet.command(args));
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {line}");
    assert!(
        line.starts_with("dblock: ") && line.lines().count() == 1,
        "{line}"
    );
    assert!(line.contains(said), "{args:?}: {line}");
    assert!(output.stdout.is_empty(), "{output:?}");
}

#[test]
fn other_hosts_need_a_password_and_tls() {
    let fleet = Fleet::new();
    let password = private(&fleet.path("password"), "secret\n");
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:8080"] {
        refused(&fleet, &["--listen", address], 64, "--password-file");
        refused(
            &fleet,
            &["--listen", address, "--password-file", &password],
            64,
            "--tls-cert",
        );
        refused(
            &fleet,
            &["--listen", address, "--tls-cert", "c", "--tls-key", "k"],
            64,
            "--password-file",
        );
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let fleet = Fleet::new();
    refused(&fleet, &["--tls-cert", "c"], 64, "--tls-key");
    refused(&fleet, &["--behind-proxy"], 64, "--password-file");
    refused(
        &fleet,
        &["--behind-proxy", "--tls-cert", "c", "--tls-key", "k"],
        64,
        "--behind-proxy",
    );
    refused(
        &fleet,
        &["--listen", "unix:/x", "--tls-cert", "c", "--tls-key", "k"],
        64,
        "unix:",
    );
    refused(&fleet, &["--listen", "unix:"], 64, "path");
    refused(&fleet, &["--listen", "8080"], 64, "ADDR:PORT");
    refused(&fleet, &["--listen", "example.org:80"], 64, "ADDR:PORT");
    refused(&fleet, &["--refresh", "0s"], 64, "1s to 1h");
    refused(&fleet, &["--refresh", "soon"], 64, "duration");
    refused(&fleet, &["--listenn", "x"], 64, "--listen");
    // What may be a password is not repeated.
    refused(
        &fleet,
        &["mysql://user:secret@db"],
        64,
        "see dblock web --help",
    );
}

#[test]
fn what_cannot_be_used_is_refused_before_anybody_looks() {
    let fleet = Fleet::new();
    let none = fleet.path("none").display().to_string();
    refused(&fleet, &["--password-file", &none], 78, "password file");
    refused(
        &fleet,
        &["--tls-cert", &none, "--tls-key", &none],
        78,
        "none",
    );
    let empty = private(&fleet.path("empty"), "");
    refused(
        &fleet,
        &["--tls-cert", &empty, "--tls-key", &empty],
        78,
        "certificate",
    );
    let output = output(&mut program(&["--dblock", &none]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(127) && said.contains("to run"),
        "{said}"
    );
    fleet.write(
        "unfit",
        "dblock: warning\ndblock: unknown option in /etc/my.cnf\n",
    );
    refused(&fleet, &[], 78, "unknown option in /etc/my.cnf");
}

#[test]
fn the_help_names_every_option() {
    let output = output(&mut Fleet::new().command(&["--help"]));
    let help = String::from_utf8_lossy(&output.stdout);
    for option in [
        "--listen",
        "--allow-actions",
        "--show-data",
        "--password-file",
        "--tls-cert",
        "--behind-proxy",
        "--url",
        "--ssl-mode",
    ] {
        assert!(help.contains(option), "{option}: {help}");
    }
    assert!(
        help.contains("Usage: dblock web") && output.status.success(),
        "{help}"
    );
}

#[test]
fn the_connection_is_handed_on_as_it_was_typed() {
    let fleet = Fleet::new();
    let args = [
        "--url",
        "mysql://u@db/",
        "--no-defaults",
        "--connect-timeout=3s",
        "--",
        "--password-file",
        "/p w",
    ];
    let web = fleet.serve(&args).enter();
    web.get("/").expect(200);
    let calls = fleet.calls();
    let expected = [
        "--url=mysql://u@db/",
        "--no-defaults",
        "--connect-timeout=3s",
        "--password-file",
        "/p w",
    ];
    for call in &calls {
        assert!(call.windows(5).any(|part| part == expected), "{call:?}");
    }
    assert!(calls.len() > 4, "{calls:?}");
}

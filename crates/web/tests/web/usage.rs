//! What cannot be right is refused at once: one line, and an exit code as of every dblock.

use std::fs::File;
use std::os::unix::process::CommandExt;

use nix::sys::signal::{SigHandler, Signal, signal};

use crate::harness::{Fleet, Web, output, private, program, until};

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
        for (more, said) in [
            (&[][..], "--password-file"),
            (&["--password-file", &*password], "--tls-cert"),
            (&["--tls-cert", "c", "--tls-key", "k"], "--password-file"),
        ] {
            refused(&fleet, &[&["--listen", address], more].concat(), 64, said);
        }
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let fleet = Fleet::new();
    for (args, said) in [
        (&["--tls-cert", "c"][..], "--tls-key"),
        (&["--behind-proxy"], "--password-file"),
        (
            &["--behind-proxy", "--tls-cert", "c", "--tls-key", "k"],
            "--behind-proxy",
        ),
        (
            &["--listen", "unix:/x", "--tls-cert", "c", "--tls-key", "k"],
            "unix:",
        ),
        (&["--listen", "unix:"], "path"),
        (&["--listen", "8080"], "ADDR:PORT"),
        (&["--listen", "example.org:80"], "ADDR:PORT"),
        (&["--refresh", "0s"], "1s to 1h"),
        (&["--refresh", "soon"], "duration"),
        (&["--listenn", "x"], "--listen"),
        (&["--host-name", "a b"], "not the name of a host"),
        (&["--host-name", ""], "\"\" is not the name of a host"),
        (
            &["--host-name", "other.example,fleet.example:8443"],
            "--host-name \"fleet.example:8443\" has a port: name the host alone",
        ),
        (&["--host-name", "[::1]:8443"], "has a port"),
        (&["--host-name", "[::1"], "not the name of a host"),
        // What may be a password is not repeated.
        (&["mysql://user:secret@db"], "see dblock web --help"),
    ] {
        refused(&fleet, args, 64, said);
    }
}

#[test]
fn what_cannot_be_used_is_refused_before_anybody_looks() {
    let fleet = Fleet::new();
    let none = fleet.path("none").display().to_string();
    refused(&fleet, &["--password-file", &none], 78, "password file");
    let empty = private(&fleet.path("empty"), "");
    for (file, said) in [(&none, "none"), (&empty, "certificate")] {
        refused(&fleet, &["--tls-cert", file, "--tls-key", file], 78, said);
    }
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
fn options_behind_two_dashes_that_no_dblock_takes_are_said_to_be_those() {
    let fleet = Fleet::new();
    let why = "the argument '--json' cannot be used multiple times";
    fleet.write(
        "misused",
        &format!("dblock: {why}; see dblock config --help\n"),
    );
    let line = format!("the options of each dblock that it runs: {why}; see dblock web");
    refused(&fleet, &["--", "--json"], 64, &line);
}

#[test]
fn whoever_starts_it_may_ignore_the_ends_of_children() {
    let fleet = Fleet::new();
    let mut command = fleet.command(&["--listen", "127.0.0.1:0"]);
    // SAFETY: only a disposition is set between fork and exec, and no function is made a handler.
    unsafe {
        command.pre_exec(|| {
            signal(Signal::SIGCHLD, SigHandler::SigIgn)?;
            Ok(())
        });
    }
    let web = Web::start(&mut command).enter();
    web.until_all_is_known();
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
fn help_that_cannot_be_written_is_an_error() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = output(Fleet::new().command(&["--help"]).stdout(full));
    let said = String::from_utf8_lossy(&output.stderr);
    let line = "dblock: cannot write to stdout: No space left on device\n";
    assert_eq!((output.status.code(), &*said), (Some(70), line));
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
    until("the fleet is asked", || {
        web.get("/").expect(200);
        fleet.calls().len() > 4
    });
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
}

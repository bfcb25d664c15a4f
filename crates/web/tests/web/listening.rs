//! Ports, sockets and TLS, and how it ends.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;

use nix::pty::openpty;
use nix::sys::signal::Signal;
use nix::sys::socket::{Backlog, listen};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::harness::{Fleet, Response, Web, output, private, read_all, until};

fn get(socket: &Path, host: &str) -> Response {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream
        .write_all(
            format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes(),
        )
        .unwrap();
    Response::of(&read_all(&mut stream))
}

#[test]
fn a_socket_is_this_users_alone_and_goes_at_the_end() {
    let fleet = Fleet::new();
    let socket = fleet.path("web.sock");
    let web = fleet.start(&["--listen", &format!("unix:{}", socket.display())]);
    assert_eq!(web.url, format!("unix:{}", socket.display()));
    let metadata = fs::metadata(&socket).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    get(&socket, "localhost").expect(200);
    get(&socket, "evil.example").expect(403);
    assert_eq!(web.end(Signal::SIGTERM).0, Some(0));
    assert!(!socket.exists());
}

#[test]
fn whatever_has_the_socket_may_do_tls() {
    let fleet = Fleet::new();
    let socket = fleet.path("web.sock");
    let listen = format!("unix:{}", socket.display());
    let _web = fleet.start(&["--listen", &listen, "--allow-actions"]);
    for (scheme, status) in [("http", 200), ("https", 200), ("ftp", 403)] {
        let form = "job=report";
        let request = format!(
            "POST /actions/pause HTTP/1.1\r\nHost: localhost\r\nOrigin: {scheme}://localhost\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
            form.len()
        );
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        Response::of(&read_all(&mut stream)).expect(status);
    }
}

#[test]
fn a_dead_socket_is_replaced_and_a_living_one_is_not() {
    let fleet = Fleet::new();
    let socket = fleet.path("web.sock");
    let listen = format!("unix:{}", socket.display());
    drop(UnixListener::bind(&socket).unwrap());
    let web = fleet.start(&["--listen", &listen]);
    get(&socket, "localhost").expect(200);
    let second = output(&mut fleet.command(&["--listen", &listen]));
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(
        second.status.code() == Some(71) && said.contains("another process"),
        "{said}"
    );
    get(&socket, "localhost").expect(200);
    drop(web);
    fs::remove_file(&socket).unwrap();
    fs::write(&socket, "data").unwrap();
    assert_eq!(
        output(&mut fleet.command(&["--listen", &listen]))
            .status
            .code(),
        Some(71)
    );
    assert_eq!(fs::read_to_string(&socket).unwrap(), "data");
}

#[test]
fn a_socket_of_one_who_accepts_nobody_is_left_alone_at_once() {
    let fleet = Fleet::new();
    let socket = fleet.path("web.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    // One can wait, and does.
    listen(&listener, Backlog::new(0).unwrap()).unwrap();
    let _waiting = UnixStream::connect(&socket).unwrap();
    let same = format!("unix:{}", socket.display());
    let second = output(&mut fleet.command(&["--listen", &same]));
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(
        second.status.code() == Some(71) && said.contains("another process"),
        "{said}"
    );
    assert!(socket.exists());
}

#[test]
fn a_port_that_is_taken_is_an_error() {
    let fleet = Fleet::new();
    let web = fleet.serve(&[]);
    let second = output(&mut fleet.command(&["--listen", &web.address().to_string()]));
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(
        second.status.code() == Some(71) && said.contains("cannot listen on 127.0.0.1:"),
        "{said}"
    );
}

#[test]
fn without_listen_it_is_the_port_8080_of_this_host_alone() {
    let fleet = Fleet::new();
    // Where this fails somebody else has the port.
    let _taken = TcpListener::bind("127.0.0.1:8080");
    let refused = output(&mut fleet.command(&[]));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        refused.status.code() == Some(71) && said.contains("cannot listen on 127.0.0.1:8080: "),
        "{said}"
    );
}

#[test]
fn it_ends_with_0_by_sigterm_and_sigint_also_while_somebody_looks() {
    let fleet = Fleet::new();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let web = fleet.serve(&[]).enter();
        let _idle = web.connect();
        web.get("/").expect(200);
        assert_eq!(web.end(signal), (Some(0), String::new()));
    }
}

#[test]
fn a_terminal_that_closes_ends_it_also_where_there_are_files_to_read_again() {
    let fleet = Fleet::new();
    let file = private(&fleet.path("password"), "secret\n");
    for more in [&[][..], &["--password-file", &file]] {
        let terminal = openpty(None, None).unwrap();
        let args = [&["--listen", "127.0.0.1:0"], more].concat();
        let web = Web::start(fleet.command(&args).stdin(terminal.slave));
        assert_eq!(
            web.end(Signal::SIGHUP),
            (Some(0), String::new()),
            "{more:?}"
        );
    }
    // Without a terminal, too, unless there is something to read.
    assert_eq!(fleet.serve(&[]).end(Signal::SIGHUP).0, Some(0));
}

#[test]
fn what_is_to_survive_its_terminal_does() {
    let fleet = Fleet::new();
    let own = fleet.command(&["--listen", "127.0.0.1:0"]);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]);
    command.arg(own.get_program()).args(own.get_args());
    let web = Web::start(&mut command).enter();
    web.signal(Signal::SIGHUP);
    web.get("/").expect(200);
    let status = fs::read_to_string(format!("/proc/{}/status", web.pid())).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = u64::from_str_radix(ignored.unwrap().trim(), 16).unwrap();
    assert_eq!(ignored & 1, 1, "{status}");
}

/// A certificate for 127.0.0.1, made by openssl.
fn certificate(fleet: &Fleet, name: &str) -> [String; 2] {
    let [certificate, key] =
        ["crt", "key"].map(|end| fleet.path(&format!("{name}.{end}")).display().to_string());
    let made = output(
        Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ])
            .args([
                "-subj",
                "/CN=127.0.0.1",
                "-addext",
                "subjectAltName=IP:127.0.0.1",
                "-days",
                "2",
                "-out",
                &certificate,
                "-keyout",
                &key,
            ]),
    );
    assert!(made.status.success(), "{made:?}");
    [certificate, key]
}

fn curl(args: &[&str]) -> (Option<i32>, String) {
    let output = output(
        Command::new("curl")
            .args([
                "--silent",
                "--show-error",
                "--max-time",
                "60",
                "--noproxy",
                "*",
            ])
            .args(args),
    );
    (
        output.status.code(),
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
    )
}

#[test]
fn tls_serves_the_page_and_what_speaks_none_is_closed() {
    let fleet = Fleet::new();
    let [certificate, key] = certificate(&fleet, "page");
    let web = fleet.serve(&["--tls-cert", &certificate, "--tls-key", &key]);
    assert!(web.url.starts_with("https://127.0.0.1:"), "{}", web.url);
    let (code, page) = curl(&["--cacert", &certificate, "--include", &web.url]);
    assert!(
        code == Some(0) && page.contains("303") && page.contains("; Secure"),
        "{page}"
    );
    for version in [&["--tls-max", "1.2"][..], &["--tlsv1.3"]] {
        let args = [&["--cacert", &certificate, &web.url], version].concat();
        assert_eq!(curl(&args).0, Some(0), "{version:?}");
    }
    assert!(
        !web.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .starts_with(b"HTTP/")
    );
}

#[test]
fn the_url_that_is_printed_has_the_first_name_where_others_open_it() {
    let fleet = Fleet::new();
    let [certificate, key] = certificate(&fleet, "page");
    let password = private(&fleet.path("password"), "secret\n");
    let names = ["--host-name", "Fleet.example,other.example"];
    let url = |args: &[&str]| {
        let args = [&["--password-file", &*password], args].concat();
        fleet.start(&args).url.clone()
    };
    let tls = ["--tls-cert", &*certificate, "--tls-key", &*key];
    let all = [&["--listen", "0.0.0.0:0"], &names[..], &tls].concat();
    let own = url(&all);
    let port = own
        .strip_prefix("https://fleet.example:")
        .and_then(|rest| rest.strip_suffix('/'));
    let port = port.and_then(|port| port.parse::<u16>().ok());
    assert!(port.is_some_and(|port| port > 0), "{own}");
    let local = ["--listen", "127.0.0.1:0"];
    let own = url(&[&local[..], &names].concat());
    assert!(own.starts_with("http://127.0.0.1:"), "{own}");
    // The proxy's port is not this one's.
    let proxied = [&local[..], &["--behind-proxy"], &names].concat();
    assert_eq!(url(&proxied), "https://fleet.example/");
    // An address of IPv6 is in brackets there, however it was typed.
    for address in ["2001:DB8::1", "[2001:db8::1]"] {
        let names = ["--behind-proxy", "--host-name", address];
        let own = url(&[&local[..], &names].concat());
        assert_eq!(own, "https://[2001:db8::1]/");
    }
}

/// Addresses of this machine besides 127.0.0.1: another one of its own network, and the one by which it reaches others, if it has that.
fn other_addresses() -> Vec<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // Nothing is sent.
    let reaches = socket.connect("192.0.2.1:9").ok();
    let own = reaches.and_then(|()| Some(socket.local_addr().ok()?.ip().to_string()));
    own.into_iter().chain(["127.77.1.2".to_owned()]).collect()
}

#[test]
fn with_a_password_and_tls_or_a_proxy_it_listens_at_all_addresses() {
    let fleet = Fleet::new();
    let [certificate, key] = certificate(&fleet, "page");
    let password = private(&fleet.path("password"), "secret\n");
    let tls = ["--tls-cert", &*certificate, "--tls-key", &*key];
    for (more, scheme) in [(&tls[..], "https"), (&["--behind-proxy"], "http")] {
        let all = ["--listen", "0.0.0.0:0", "--password-file", &*password];
        let web = fleet.start(&[&all[..], more].concat());
        // The name is that of the certificate, whatever the address.
        let page = format!("{scheme}://127.0.0.1:{}/", web.address().port());
        for address in other_addresses() {
            let to = format!("::{address}:");
            let args = ["--cacert", &*certificate, "--connect-to", &*to];
            let (code, said) = curl(&[&args[..], &["--include", &*page]].concat());
            assert!(
                code == Some(0) && said.contains("303") && said.contains("/login"),
                "{scheme} at {address}: {said}"
            );
        }
    }
}

#[test]
fn a_key_that_others_can_read_is_not_used() {
    let fleet = Fleet::new();
    let [certificate, key] = certificate(&fleet, "page");
    let may_be = |mode| fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
    let args = ["--tls-cert", &certificate, "--tls-key", &key];
    for mode in [0o644, 0o602] {
        may_be(mode);
        let refused =
            output(&mut fleet.command(&[&["--listen", "127.0.0.1:0"], &args[..]].concat()));
        let said = String::from_utf8_lossy(&refused.stderr);
        let line = format!("dblock: cannot use {key}: others can read it; chmod 600 it\n");
        assert_eq!((refused.status.code(), &*said), (Some(78), &*line));
    }
    // As that of the group ssl-cert.
    may_be(0o640);
    let mut web = fleet.serve(&args);
    may_be(0o644);
    web.signal(Signal::SIGHUP);
    let said = web.says();
    assert!(
        said.contains("others can read it") && said.contains("stays in force"),
        "{said}"
    );
}

#[test]
fn a_file_without_a_key_is_said_to_have_none() {
    let fleet = Fleet::new();
    let [certificate, _] = certificate(&fleet, "page");
    let none = private(&fleet.path("none"), "no key\n");
    let args = ["--tls-cert", &*certificate, "--tls-key", &*none];
    let refused = output(&mut fleet.command(&args));
    let said = String::from_utf8_lossy(&refused.stderr);
    let line = format!("dblock: cannot use {none}: there is no private key in it\n");
    assert_eq!((refused.status.code(), &*said), (Some(78), &*line));
}

#[test]
fn a_pipe_in_the_place_of_a_certificate_or_a_key_is_refused_and_not_waited_for() {
    let fleet = Fleet::new();
    let files = certificate(&fleet, "page");
    let mut web = fleet.serve(&["--tls-cert", &files[0], "--tls-key", &files[1]]);
    for file in &files {
        let own = format!("{file}.own");
        fs::rename(file, &own).unwrap();
        mkfifo(Path::new(file), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        web.signal(Signal::SIGHUP);
        let why = "it is not a regular file; what was read before stays in force";
        assert_eq!(web.says(), format!("dblock: cannot use {file}: {why}"));
        fs::rename(&own, file).unwrap();
    }
    assert_eq!(web.end(Signal::SIGTERM), (Some(0), String::new()));
}

#[test]
fn a_new_certificate_is_read_at_sighup_and_a_bad_one_is_not_taken() {
    let fleet = Fleet::new();
    let [certificate_file, key_file] = certificate(&fleet, "page");
    let mut web = fleet.serve(&["--tls-cert", &certificate_file, "--tls-key", &key_file]);
    let [new, new_key] = certificate(&fleet, "new");
    let old = fleet.path("old.crt").display().to_string();
    fs::copy(&certificate_file, &old).unwrap();
    assert!(curl(&["--cacert", &new, &web.url]).0 != Some(0));
    // The certificate without its key.
    fs::copy(&new, &certificate_file).unwrap();
    web.signal(Signal::SIGHUP);
    let said = web.says();
    assert!(
        said.starts_with("dblock: ") && said.contains("stays in force"),
        "{said}"
    );
    assert!(curl(&["--cacert", &old, &web.url]).0 == Some(0));
    private(Path::new(&key_file), &fs::read_to_string(&new_key).unwrap());
    web.signal(Signal::SIGHUP);
    until("the new certificate is in force", || {
        curl(&["--cacert", &new, &web.url]).0 == Some(0)
    });
}

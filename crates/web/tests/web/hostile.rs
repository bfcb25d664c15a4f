//! Clients that are slow, broken or many: they get an error or are closed, and others are served.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::harness::{Fleet, Response, Web, read_all};

/// Whoever is slow is gone within that.
const SOON: Duration = Duration::from_secs(10);

/// Whether it was closed in time, whatever the machine does: the time is taken from what the client last did.
#[track_caller]
fn is_closed(stream: &mut TcpStream, since: Instant) {
    read_all(stream);
    assert!(since.elapsed() < SOON * 2, "{:?}", since.elapsed());
}

#[track_caller]
fn is_served(web: &Web) {
    let start = Instant::now();
    web.get("/").expect(200);
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

#[test]
fn a_long_head_is_refused() {
    let fleet = Fleet::new();
    let web = fleet.serve(&[]).enter();
    let long = "x".repeat(8192);
    let answer = web.send("GET", "/", &[("X-Long", &long)], "");
    assert_eq!(answer.status, 431, "{answer:?}");
    let answer = web.send("GET", &format!("/jobs/{long}"), &[], "");
    assert!(matches!(answer.status, 414 | 431), "{answer:?}");
    let many: Vec<_> = (0..200)
        .map(|number| format!("X-{number}: y\r\n"))
        .collect();
    let many = many.concat();
    let text = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{many}\r\n");
    assert_eq!(Response::of(&web.raw(text.as_bytes())).status, 431);
    web.send("GET", "/", &[("X-Long", &long[..4000])], "")
        .expect(200);
    is_served(&web);
}

#[test]
fn a_request_of_two_meanings_is_refused() {
    let fleet = Fleet::new();
    let web = fleet.serve(&["--allow-actions"]).enter();
    for framing in [
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: -1\r\n",
    ] {
        let origin = format!("http://{}", web.address());
        let head = format!(
            "POST /actions/pause HTTP/1.1\r\nHost: {}\r\nOrigin: {origin}\r\nCookie: {}\r\n",
            web.address(),
            web.cookie
        );
        // What is behind it is not taken for a request.
        let bytes = web.raw(
            format!("{head}{framing}\r\n0\r\n\r\nGET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n")
                .as_bytes(),
        );
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(Response::of(&bytes).status, 400, "{framing}: {text}");
        assert_eq!(text.matches("HTTP/1.1 ").count(), 1, "{framing}: {text}");
    }
    assert_eq!(fleet.asked(&["cron", "pause"]), 0);
}

#[test]
fn what_is_no_http_is_refused() {
    let fleet = Fleet::new();
    let web = fleet.serve(&[]).enter();
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01"[..],
        b"SSH-2.0-x\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let answer = Response::of(&web.raw(bytes));
        assert!(
            answer.status == 0 || (400..=505).contains(&answer.status),
            "{bytes:?}: {answer:?}"
        );
    }
    is_served(&web);
}

#[test]
fn other_methods_are_not_allowed_and_head_is_get_without_a_body() {
    let fleet = Fleet::new();
    let web = fleet.serve(&["--allow-actions"]).enter();
    for method in [
        "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "CONNECT", "PROPFIND",
    ] {
        let path = if method == "CONNECT" {
            "localhost:1"
        } else {
            "/"
        };
        let answer = web.send(method, path, &[], "");
        assert!(
            answer.status == 405 || method == "CONNECT" && answer.status >= 400,
            "{method}: {answer:?}"
        );
    }
    let own = format!("http://{}", web.address());
    let form = web.send("POST", "/", &[("Origin", &own)], "").expect(405);
    let form = form.has("This page is read by GET.");
    assert_eq!(form.header("allow"), Some("GET,HEAD"));
    for (path, methods) in [
        ("/", "GET, HEAD"),
        ("/login", "GET, HEAD, POST"),
        ("/logout", "GET, HEAD, POST"),
    ] {
        let answer = web.send("PUT", path, &[], "").expect(405);
        assert_eq!(answer.header("allow"), Some(methods), "{path}");
    }
    let head = web.send("HEAD", "/", &[], "").expect(200);
    assert!(
        head.body.is_empty() && head.header("content-length").is_some(),
        "{head:?}"
    );
}

#[test]
fn a_long_form_is_refused() {
    let fleet = Fleet::new();
    let web = fleet.serve(&["--allow-actions"]).enter();
    let long = web
        .post("/actions/pause", &format!("job={}", "x".repeat(17_000)))
        .expect(413)
        .has("The form is too long");
    for (header, value) in [
        ("content-type", "text/plain; charset=utf-8"),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(long.header(header), Some(value));
    }
    assert!(long.header("content-security-policy").is_some());
    web.post("/actions/pause", &format!("job={}", "x".repeat(15_000)))
        .expect(200);
}

#[test]
fn a_byte_a_second_is_closed_within_ten() {
    let fleet = Fleet::new();
    let web = fleet.serve(&["--allow-actions"]).enter();
    let origin = format!("http://{}", web.address());
    let form = [("Content-Length", "100"), ("Origin", &*origin)];
    let head = web.request("POST", "/actions/pause", &form, "");
    let starts = ["", "G", "GET / HTTP/1.1\r\nHost: localhost\r\n", &head];
    std::thread::scope(|scope| {
        for start in starts {
            let mut stream = web.connect();
            scope.spawn(move || {
                let since = Instant::now();
                stream.write_all(start.as_bytes()).unwrap();
                let mut drip = stream.try_clone().unwrap();
                scope.spawn(move || {
                    // Until it is closed, or for longer than it may be open.
                    for _ in 0..30 {
                        sleep(Duration::from_secs(1));
                        if !start.is_empty() && drip.write_all(b"x").is_err() {
                            break;
                        }
                        if since.elapsed() > SOON + Duration::from_secs(6) {
                            break;
                        }
                    }
                });
                is_closed(&mut stream, since);
            });
        }
        scope.spawn(|| is_served(&web));
    });
}

#[test]
fn whoever_takes_up_no_answer_is_closed() {
    let fleet = Fleet::new();
    let web = fleet.serve(&[]).enter();
    let mut stream = web.connect();
    let ask = web.request("GET", "/", &[("Connection", "keep-alive")], "");
    // Until nothing more is taken, as all buffers between are full, and then until it is closed, or for longer than it may be open.
    stream.set_write_timeout(Some(SOON * 2)).unwrap();
    let end = loop {
        if let Err(error) = stream.write_all(ask.repeat(100).as_bytes()) {
            break error.kind();
        }
    };
    let is_open = matches!(end, ErrorKind::TimedOut | ErrorKind::WouldBlock);
    assert!(!is_open, "it is still open");
    // What is in the buffers is still there, and then the end.
    let mut part = vec![0; 1 << 20];
    let start = Instant::now();
    while stream.read(&mut part).is_ok_and(|read| read > 0) {
        assert!(start.elapsed() < SOON, "it goes on");
    }
    is_served(&web);
}

#[test]
fn a_thousand_connections_do_not_keep_others_out() {
    let fleet = Fleet::new();
    let web = fleet.serve(&[]).enter();
    let idle: Vec<_> = (0..1000)
        .map_while(|_| TcpStream::connect(web.address()).ok())
        .collect();
    assert!(idle.len() > 900, "{}", idle.len());
    is_served(&web);
    for mut stream in idle.iter().take(500) {
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: ");
    }
    is_served(&web);
}

#[test]
fn forms_that_never_come_whole_do_not_keep_others_out() {
    let fleet = Fleet::new();
    let web = fleet.serve(&[]).enter();
    let half = || {
        let mut stream = TcpStream::connect(web.address()).unwrap();
        let head = "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n";
        let _ = stream.write_all(head.as_bytes());
        stream
    };
    let _halves: Vec<_> = (0..300).map(|_| half()).collect();
    is_served(&web);
    // Somebody comes, and so do more of them before he asks for anything.
    let mut viewer = TcpStream::connect(web.address()).unwrap();
    let _more: Vec<_> = (0..20).map(|_| half()).collect();
    is_served(&web);
    let _ =
        viewer.write_all(b"GET /login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert!(read_all(&mut viewer).starts_with(b"HTTP/1.1 "));
}

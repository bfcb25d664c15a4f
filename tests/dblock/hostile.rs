//! Whatever answers at the server's port: one line, the right exit code, in time, and no process left behind.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{
    Answer, Dblock, Fake, Kind, Output, SOON, Server, error, eventually, framed, greeting,
    processes_with, slack, trickle, unique, until_closed, url_of_port,
};

pub const UNREACHABLE: i32 = 69;
pub const INTERNAL: i32 = 70;
pub const ACCOUNT_REFUSED: i32 = 77;

/// An OK packet that ends a handshake.
pub const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];

/// Runs dblock against whatever `url` names, and looks at all that each of these tests wants to see.
#[track_caller]
pub fn run(url: &str) -> Output {
    run_within(Duration::from_secs(1), url)
}

/// The same where the server's answer decides and not the time, of which there is enough for a machine that is busy.
#[track_caller]
pub fn judge(url: &str) -> Output {
    run_within(SOON, url)
}

#[track_caller]
fn run_within(limit: Duration, url: &str) -> Output {
    let name = unique("hostile");
    let seconds = limit.as_secs().to_string();
    let dblock = || {
        Dblock::run_at(url, &name)
            .args(["--connect-timeout", &seconds])
            .sh("echo ran")
    };
    // What is said when most is asked for: lines of dblock's own alone, printable, and without the password.
    let wordy = dblock().arg("-vv").spawn();
    let output = dblock().output();
    let wordy = wordy.wait();
    assert!(
        wordy
            .stderr
            .lines()
            .all(|line| line.starts_with("dblock: ")),
        "{wordy:#?}"
    );
    assert!(!wordy.stderr.contains("panicked"), "{wordy:#?}");
    for output in [&wordy, &output] {
        assert!(
            !output.stderr.contains(crate::harness::PASSWORD),
            "{output:#?}"
        );
        assert!(
            !output
                .stderr
                .contains(|c: char| c.is_control() && c != '\n'),
            "{output:#?}"
        );
    }
    output.expect_stdout("").expect_one_line("");
    output.expect_took(Duration::ZERO, limit + slack());
    eventually("no process is left", SOON, || {
        processes_with(&name).is_empty()
    });
    output
}

/// Runs dblock against a server that does `talk` on each connection, and then closes it.
#[track_caller]
pub fn against(talk: impl Fn(&mut TcpStream) + Send + Clone + 'static) -> Output {
    run(&url_of_port(serve(talk)))
}

/// The same where the server's answer decides.
#[track_caller]
fn judge_of(talk: impl Fn(&mut TcpStream) + Send + Clone + 'static) -> Output {
    judge(&url_of_port(serve(talk)))
}

/// Starts a server that does this with each connection; its port.
pub fn serve(talk: impl Fn(&mut TcpStream) + Send + Clone + 'static) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let talk = talk.clone();
            thread::spawn(move || talk(&mut stream));
        }
    });
    port
}

/// The URL of a server whose first words are these; then it is silent.
fn first_words(bytes: Vec<u8>) -> String {
    url_of_port(serve(move |stream| {
        let _ = stream.write_all(&bytes);
        until_closed(stream);
    }))
}

/// The URL of a server that greets well and then says this packet; then it is silent.
fn reply_to_login(payload: Vec<u8>) -> String {
    url_of_port(serve(move |stream| {
        greet(stream);
        let _ = stream.write_all(&framed(2, &payload));
        until_closed(stream);
    }))
}

/// The URL of a server that answers every statement with these bytes.
fn answer(bytes: Vec<u8>) -> String {
    Fake::start(Kind::MariaDb, move |_| Answer::Raw(bytes.clone())).url()
}

/// Greets, and reads the login.
pub fn greet(stream: &mut TcpStream) {
    let _ = stream.write_all(&framed(0, &greeting(Kind::MySql, 7)));
    let _ = stream.read(&mut [0; 4096]);
}

#[test]
fn a_silent_server_is_given_up() {
    against(until_closed).expect_code(UNREACHABLE);
}

#[test]
fn a_server_that_trickles_is_given_up() {
    let words = framed(0, &greeting(Kind::MySql, 7));
    against(move |stream| trickle(stream, &words)).expect_code(UNREACHABLE);
}

#[test]
fn a_server_of_another_protocol_is_given_up() {
    for words in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"SSH-2.0-OpenSSH_9.2p1\r\n",
        b"+OK POP3 ready\r\n",
        b"220 mail ESMTP\r\n",
    ] {
        // Their first bytes announce a packet of millions of bytes, which may yet come.
        for closes in [false, true] {
            let output = against(move |stream| {
                let _ = stream.write_all(words);
                if !closes {
                    until_closed(stream);
                }
            });
            assert!(
                matches!(output.code, Some(UNREACHABLE | INTERNAL)),
                "{output:#?}"
            );
        }
    }
}

#[test]
fn a_greeting_of_another_protocol_is_told() {
    for greeting in [
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        vec![9],
        vec![0xfe],
        vec![0; 60],
        vec![10; 300],
    ] {
        judge(&first_words(framed(0, &greeting))).expect_code(INTERNAL);
    }
}

#[test]
fn a_greeting_that_is_cut_short_is_told() {
    let whole = greeting(Kind::MySql, 7);
    let mut greetings = vec![
        vec![],
        vec![9],
        vec![10],
        vec![0],
        vec![0xfe],
        vec![10; 300],
    ];
    greetings.extend(
        (1..whole.len())
            .step_by(7)
            .map(|length| whole[..length].to_vec()),
    );
    for greeting in greetings {
        let output = run(&first_words(framed(0, &greeting)));
        assert!(
            matches!(output.code, Some(UNREACHABLE | INTERNAL)),
            "{greeting:?}: {output:#?}"
        );
    }
}

#[test]
fn a_version_that_is_none_is_told() {
    let mut greeting = greeting(Kind::MySql, 7);
    let version = greeting
        .iter()
        .position(|&byte| byte == b'9')
        .expect("a version");
    greeting[version..version + 5].copy_from_slice("x\u{0665}.\u{1}".as_bytes());
    against(move |stream| {
        let _ = stream.write_all(&framed(0, &greeting));
        let _ = stream.shutdown(Shutdown::Write);
        until_closed(stream);
    });
}

#[test]
fn an_endless_packet_is_given_up() {
    let output = against(|stream| {
        let _ = stream.write_all(&[0xff, 0xff, 0xff, 0, 10]);
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    assert!(
        matches!(output.code, Some(UNREACHABLE | INTERNAL)),
        "{output:#?}"
    );
}

#[test]
fn a_server_that_closes_at_once_is_unreachable() {
    against(|_| {}).expect_code(UNREACHABLE);
}

#[test]
fn a_server_that_closes_in_the_middle_of_its_greeting_is_unreachable() {
    let words = framed(0, &greeting(Kind::MySql, 7));
    against(move |stream| drop(stream.write_all(&words[..20]))).expect_code(UNREACHABLE);
}

#[test]
fn a_server_that_closes_in_the_middle_of_the_handshake_is_unreachable() {
    against(greet).expect_code(UNREACHABLE);
}

#[test]
fn a_server_that_is_full_for_too_long_is_unreachable() {
    // In this time it answers at least once.
    let limit = Duration::from_secs(4);
    thread::scope(|scope| {
        for code in [1040, 1053] {
            let full = error(code, "come later");
            for url in [first_words(framed(0, &full)), reply_to_login(full)] {
                scope.spawn(move || {
                    let output = run_within(limit, &url);
                    output.expect_code(UNREACHABLE).expect_said(["come later"]);
                });
            }
        }
    });
}

#[test]
fn a_full_server_is_asked_less_and_less_often_and_not_by_all_at_once() {
    let asked: Vec<Vec<Instant>> = thread::scope(|scope| {
        let askers =
            [1040, 1040, 1203, 1226].map(|code| scope.spawn(move || asked_while_full(code)));
        askers
            .into_iter()
            .map(|asker| asker.join().expect("no panic"))
            .collect()
    });
    let mut pauses = Vec::new();
    for asked in &asked {
        // Ten times a second they would be fifty. About ten are usual.
        assert!(asked.len() <= 20, "{asked:?}");
        let between: Vec<_> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
        // From half of two tenths of a second on, doubled until it is an eighth of the time.
        assert!(between[0] >= Duration::from_millis(90), "{between:?}");
        assert!(between[2] >= Duration::from_millis(280), "{between:?}");
        let longest = Duration::from_millis(600) + slack();
        assert!(between.iter().all(|pause| *pause < longest), "{between:?}");
        pauses.push(between);
    }
    let by_chance = (1..4).any(|at| {
        let at = pauses.iter().map(|pauses| pauses[at]);
        let (least, most) = (at.clone().min(), at.max());
        let apart = most.unwrap_or_default().abs_diff(least.unwrap_or_default());
        apart > Duration::from_millis(20)
    });
    assert!(by_chance, "{pauses:?}");
}

/// When a server is asked that always has too many connections, within five seconds: five times at least, and fewer where the machine
/// stands still.
fn asked_while_full(code: u16) -> Vec<Instant> {
    let asked = (0..10).find_map(|_| asks_while_full(code));
    asked.expect("it goes on asking")
}

/// The same; `None`: it was asked less often.
fn asks_while_full(code: u16) -> Option<Vec<Instant>> {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let told = asked.clone();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            told.lock().expect("no panic").push(Instant::now());
            let _ = stream.write_all(&framed(0, &error(code, "too many")));
        }
    });
    let name = unique("full");
    let dblock = Dblock::run_at(&url_of_port(port), &name)
        .args(["--connect-timeout", "5"])
        .sh("echo ran");
    let output = dblock.output();
    output.expect_code(UNREACHABLE);
    let asked = asked.lock().expect("no panic");
    if asked.len() < 5 {
        return None;
    }
    output.expect_one_line("too many");
    Some(asked.clone())
}

#[test]
fn a_server_that_refuses_the_account_is_not_asked_again() {
    for code in [1130, 1129, 1045, 1044, 1698] {
        for output in [
            judge(&first_words(framed(0, &error(code, "go away")))),
            judge(&reply_to_login(error(code, "go away"))),
        ] {
            output.expect_code(ACCOUNT_REFUSED).expect_said(["go away"]);
        }
    }
}

#[test]
fn a_server_that_refuses_the_account_is_passed_over_for_another() {
    let refuses = |code| {
        serve(move |stream| {
            let _ = stream.write_all(&framed(0, &error(code, "go away")));
            until_closed(stream);
        })
    };
    let server = Server::shared(Kind::MariaDb);
    for code in [1129, 1045] {
        let hosts = format!("127.0.0.1:{},127.0.0.1:{}", refuses(code), server.port);
        let dblock = Dblock::run_at(&format!("mysql://dblock@{hosts}/"), &unique("refused"));
        let output = dblock.command(["true"]).output();
        output.expect_code(0).expect_one_line("go away");
    }
    // Nor is the refusal lost where the others are away.
    let output = judge(&format!(
        "mysql://dblock@127.0.0.1:{},127.0.0.1:1/",
        refuses(1045)
    ));
    output
        .expect_code(ACCOUNT_REFUSED)
        .expect_one_line("go away");
}

#[test]
fn what_a_server_says_cannot_steer_a_terminal() {
    let output = judge(&first_words(framed(0, &error(1045, "a\x1b[2J\nb\r\u{7}"))));
    output.expect_code(ACCOUNT_REFUSED);
    assert!(
        output.stderr.trim_end().chars().all(|c| !c.is_control()),
        "{output:#?}"
    );
}

#[test]
fn a_column_count_without_end_is_told() {
    let mut count = vec![0xfe];
    count.extend((1u64 << 40).to_le_bytes());
    judge(&answer(framed(1, &count))).expect_code(INTERNAL);
}

#[test]
fn an_empty_packet_is_told() {
    judge(&first_words(framed(0, &[]))).expect_code(INTERNAL);
    judge(&reply_to_login(vec![])).expect_code(INTERNAL);
    judge(&answer(framed(1, &[]))).expect_code(INTERNAL);
}

#[test]
fn packets_out_of_order_are_told() {
    // MySQL itself sends one: its farewell to a session that has been idle for too long.
    let output = run(&answer(framed(77, OK)));
    assert!(
        matches!(output.code, Some(UNREACHABLE | INTERNAL)),
        "{output:#?}"
    );
}

#[test]
fn garbage_for_an_answer_is_told() {
    for payload in [
        &[1][..],
        &[0xfb],
        &[0xfe],
        &[0xff],
        &[0xff, 1],
        &[0xfc, 1],
        &[0, 0xff],
        &[0x20; 200],
    ] {
        let output = run(&answer(framed(1, payload)));
        assert!(
            matches!(output.code, Some(UNREACHABLE | INTERNAL)),
            "{payload:?}: {output:#?}"
        );
    }
}

/// A request to log in by this plugin.
fn switch_to(plugin: &str, number: &[u8]) -> Vec<u8> {
    [&[0xfe], plugin.as_bytes(), &[0], number].concat()
}

#[test]
fn a_login_plugin_that_dblock_has_not_is_named_with_the_account_and_what_to_do() {
    for plugin in [
        "sha256_password",
        "mysql_clear_password",
        "mysql_old_password",
        "dialog",
        "auth_gssapi_client",
        "authentication_kerberos_client",
        "authentication_ldap_sasl_client",
        "authentication_oci_client",
        "authentication_fido_client",
        "authentication_webauthn_client",
        "authentication_openid_connect_client",
        "no_such_plugin\x1b[2J",
        "",
    ] {
        for number in [&b"saltsaltsaltsaltsalt\0"[..], b""] {
            let output = judge(&reply_to_login(switch_to(plugin, number)));
            let visible = plugin.replace('\x1b', "\\u{1b}");
            output.expect_code(ACCOUNT_REFUSED).expect_said([
                "account dblock",
                &format!("'{visible}'"),
                "give dblock an account with caching_sha2_password",
            ]);
        }
    }
    // A server of the last century says nothing but the first byte.
    judge(&reply_to_login(vec![0xfe]))
        .expect_code(ACCOUNT_REFUSED)
        .expect_said(["mysql_old_password"]);
}

#[test]
fn a_login_plugin_without_its_random_number_is_told() {
    let plugins = [
        "mysql_native_password",
        "caching_sha2_password",
        "client_ed25519",
        "parsec",
    ];
    thread::scope(|scope| {
        for plugin in plugins {
            for number in [&b""[..], b"x", &[b'x'; 100]] {
                scope.spawn(move || {
                    let output = run(&reply_to_login(switch_to(plugin, number)));
                    assert!(
                        matches!(output.code, Some(UNREACHABLE | INTERNAL)),
                        "{plugin}: {output:#?}"
                    );
                });
            }
        }
    });
}

#[test]
fn a_greeting_that_lacks_what_dblock_needs_or_claims_more_is_told() {
    let whole = greeting(Kind::MySql, 7);
    // Behind the version and its zero: the session's number, eight bytes of salt and a zero, the capabilities' lower half.
    let id = 1
        + whole
            .iter()
            .skip(1)
            .position(|&byte| byte == 0)
            .expect("a version")
        + 1;
    let (low, high) = (id + 13, id + 18);
    let with = |places: &[(usize, u8)]| {
        let mut greeting = whole.clone();
        for &(place, byte) in places {
            greeting[place] = byte;
        }
        greeting
    };
    let greetings = [
        ("no number", with(&[(id, 0)]), UNREACHABLE),
        (
            "nothing",
            with(&[(low, 0), (low + 1, 0), (high, 0)]),
            INTERNAL,
        ),
        ("no protocol 4.1", with(&[(low + 1, 0x80 | 0x20)]), INTERNAL),
        (
            "no plugins, no multi-statements",
            with(&[(high, 0)]),
            UNREACHABLE,
        ),
        (
            "everything",
            with(&[(low, 0xff), (low + 1, 0xff), (high, 0xff), (high + 1, 0xff)]),
            UNREACHABLE,
        ),
    ];
    thread::scope(|scope| {
        for (what, greeting, code) in greetings {
            scope.spawn(move || {
                let url = url_of_port(serve(move |stream| {
                    let _ = stream.write_all(&framed(0, &greeting));
                    let _ = stream.read(&mut [0; 4096]);
                    // Then silence.
                    let _ = stream.write_all(&framed(2, OK));
                    until_closed(stream);
                }));
                let output = if code == INTERNAL {
                    judge(&url)
                } else {
                    run(&url)
                };
                assert_eq!(output.code, Some(code), "{what}: {output:#?}");
            });
        }
    });
}

#[test]
fn a_second_request_for_another_plugin_is_told() {
    judge_of(|stream| {
        greet(stream);
        for sequence in [2, 4] {
            let request = switch_to("mysql_native_password", b"saltsaltsaltsaltsalt\0");
            let _ = stream.write_all(&framed(sequence, &request));
            let _ = stream.read(&mut [0; 4096]);
        }
        until_closed(stream);
    })
    .expect_code(INTERNAL)
    .expect_said(["unexpected packet", "dblock"]);
}

#[test]
fn a_login_that_the_library_may_have_spoilt_is_tried_once_more() {
    // MariaDB's random numbers may end in zero, which the library cuts off.
    let parsec = switch_to("parsec", &[&[b'x'; 31][..], &[0]].concat());
    for first in [error(1045, "go away"), parsec] {
        let logins = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&logins);
        let output = judge_of(move |stream| {
            greet(stream);
            let login = count.fetch_add(1, Ordering::Relaxed);
            let reply = if login == 0 { &first } else { OK };
            let _ = stream.write_all(&framed(2, reply));
            if login == 0 {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(&framed(4, b"P\0saltsaltsaltsaltsa"));
            } else {
                // The answer to its first statement, after a good login, is its end.
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(&framed(1, &error(1064, "no such words")));
            }
            until_closed(stream);
        });
        output
            .expect_code(INTERNAL)
            .expect_one_line("no such words");
        // Each of these tests runs dblock twice.
        assert_eq!(logins.load(Ordering::Relaxed), 3);
    }
}

#[test]
fn a_server_does_not_get_the_password_in_clear() {
    for plugin in ["mysql_clear_password", "dialog", "sha256_password", "x"] {
        let (tell, told) = std::sync::mpsc::channel();
        judge_of(move |stream| {
            let _ = stream.write_all(&framed(0, &greeting(Kind::MySql, 7)));
            let mut login = [0; 4096];
            let length = stream.read(&mut login).unwrap_or(0);
            let _ = tell.send(login[..length].to_vec());
            let _ = stream.write_all(&framed(2, &switch_to(plugin, b"")));
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
            let _ = tell.send(rest);
        })
        .expect_code(ACCOUNT_REFUSED);
        let replies: Vec<Vec<u8>> = told.iter().take(2).collect();
        assert_eq!(replies.len(), 2, "a login was seen");
        for reply in replies {
            let reply = String::from_utf8_lossy(&reply).into_owned();
            assert!(!reply.contains(crate::harness::PASSWORD), "{reply:?}");
        }
    }
}

#[test]
fn a_public_key_that_is_none_is_told() {
    judge_of(|stream| {
        let _ = stream.write_all(&framed(0, &greeting(Kind::MySql, 7)));
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(&framed(
            2,
            b"\xfecaching_sha2_password\0saltsaltsaltsaltsalt\0",
        ));
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(&framed(4, &[1, 4]));
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(&framed(
            6,
            b"\x01-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        ));
        until_closed(stream);
    })
    .expect_code(INTERNAL);
}

#[test]
fn a_server_that_is_silent_after_a_good_login_is_given_up() {
    run(&reply_to_login(OK.to_vec())).expect_code(UNREACHABLE);
}

#[test]
fn a_host_that_refuses_is_unreachable() {
    // A port that was free just now may be another test's by now.
    run_within(Duration::from_secs(4), &url_of_port(1))
        .expect_code(UNREACHABLE)
        .expect_said(["127.0.0.1:1"]);
}

#[test]
fn a_host_that_does_not_resolve_is_unreachable() {
    run_within(Duration::from_secs(4), "mysql://u@no-such-host.invalid/")
        .expect_code(UNREACHABLE)
        .expect_said(["no-such-host.invalid"]);
}

#[test]
fn a_host_that_resolves_slowly_is_given_up() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let resolv_conf = folder.path().join("resolv.conf");
    std::fs::write(&resolv_conf, "nameserver 192.0.2.1\noptions timeout:20\n")
        .expect("a scratch file");
    // A network of its own, in which the name server's address leads nowhere.
    let script = "ip link set lo up && ip route add 192.0.2.1 dev lo src 127.0.0.1 \
                  && mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"";
    let wrapper = [
        "unshare",
        "--map-root-user",
        "--mount",
        "--net",
        "sh",
        "-c",
        script,
    ];
    let name = unique("slow");
    let dblock = Dblock::run_at("mysql://u@slow.example/", &name)
        .args(["--connect-timeout", "4"])
        .sh("echo ran");
    let output = dblock
        .under(
            wrapper
                .iter()
                .map(std::ffi::OsStr::new)
                .chain([resolv_conf.as_os_str()]),
        )
        .output();
    output
        .expect_code(UNREACHABLE)
        .expect_stdout("")
        .expect_one_line("slow.example");
    // Four programs are started before it.
    output.expect_took(Duration::from_secs(4), Duration::from_secs(8) + slack());
    eventually("no process is left", SOON, || {
        processes_with(&name).is_empty()
    });
}

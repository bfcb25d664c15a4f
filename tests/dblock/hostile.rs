//! Whatever answers at the server's port: one line, the right exit code, in time, and no process left behind.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::harness::{
    Answer, BUSY, Dblock, Fake, Kind, Output, SOON, error, eventually, framed, greeting,
    processes_with, unique, url_of_port, within,
};

const UNREACHABLE: i32 = 69;
const INTERNAL: i32 = 70;
const ACCOUNT_REFUSED: i32 = 77;

/// An OK packet that ends a handshake.
const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];

/// Runs dblock against whatever `url` names, and looks at all that each of these tests wants to see.
#[track_caller]
fn run(url: &str) -> Output {
    let name = unique("hostile");
    let limit = Duration::from_secs(1);
    let dblock = Dblock::run_at(url, &name)
        .args(["--connect-timeout", "1"])
        .sh("echo ran");
    let output = dblock.output();
    output.expect_stdout("").expect_one_line("");
    output.expect_took(Duration::ZERO, limit + BUSY);
    eventually("no process is left", SOON, || {
        processes_with(&name).is_empty()
    });
    output
}

/// Runs dblock against a server that does `talk` on each connection, and then closes it.
#[track_caller]
fn against(talk: impl Fn(&mut TcpStream) + Send + Clone + 'static) -> Output {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let talk = talk.clone();
            thread::spawn(move || talk(&mut stream));
        }
    });
    run(&url_of_port(port))
}

/// Runs dblock against a server whose first words are these; then it is silent.
#[track_caller]
fn against_first_words(bytes: Vec<u8>) -> Output {
    against(move |stream| {
        let _ = stream.write_all(&bytes);
        until_closed(stream);
    })
}

/// Runs dblock against a server that greets it well and then says this packet; then it is silent.
#[track_caller]
fn against_reply_to_login(payload: Vec<u8>) -> Output {
    against(move |stream| {
        greet(stream);
        let _ = stream.write_all(&framed(2, &payload));
        until_closed(stream);
    })
}

/// Runs dblock against a server that answers every statement with these bytes.
#[track_caller]
fn against_answer(bytes: Vec<u8>) -> Output {
    let fake = Fake::start(Kind::MariaDb, move |_| Answer::Raw(bytes.clone()));
    run(&fake.url())
}

/// Greets, and reads the login.
fn greet(stream: &mut TcpStream) {
    let _ = stream.write_all(&framed(0, &greeting(Kind::MySql, 7)));
    let _ = stream.read(&mut [0; 4096]);
}

/// Reads on until the other side is gone.
fn until_closed(stream: &mut TcpStream) {
    while let Ok(1..) = stream.read(&mut [0; 4096]) {}
}

#[test]
fn a_silent_server_is_given_up() {
    against(until_closed).expect_code(UNREACHABLE);
}

#[test]
fn a_server_that_trickles_is_given_up() {
    let words = framed(0, &greeting(Kind::MySql, 7));
    let trickle = move |stream: &mut TcpStream| {
        for byte in &words {
            // A pause, unless the other side is gone.
            let gone = within(Duration::from_millis(400), || {
                stream.set_nonblocking(true).is_err() || matches!(stream.peek(&mut [0]), Ok(0))
            });
            if gone || stream.write_all(&[*byte]).is_err() {
                return;
            }
        }
    };
    against(trickle).expect_code(UNREACHABLE);
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
        against_first_words(framed(0, &greeting)).expect_code(INTERNAL);
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
        let output = against_first_words(framed(0, &greeting));
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
    for code in [1040, 1053] {
        against_first_words(framed(0, &error(code, "come later")))
            .expect_code(UNREACHABLE)
            .expect_said(["come later"]);
        against_reply_to_login(error(code, "come later"))
            .expect_code(UNREACHABLE)
            .expect_said(["come later"]);
    }
}

#[test]
fn a_server_that_refuses_the_account_is_not_asked_again() {
    for code in [1130, 1129, 1045, 1044, 1698] {
        for output in [
            against_first_words(framed(0, &error(code, "go away"))),
            against_reply_to_login(error(code, "go away")),
        ] {
            output.expect_code(ACCOUNT_REFUSED).expect_said(["go away"]);
        }
    }
}

#[test]
fn what_a_server_says_cannot_steer_a_terminal() {
    let output = against_first_words(framed(0, &error(1045, "a\x1b[2J\nb\r\u{7}")));
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
    against_answer(framed(1, &count)).expect_code(INTERNAL);
}

#[test]
fn an_empty_packet_is_told() {
    against_first_words(framed(0, &[])).expect_code(INTERNAL);
    against_reply_to_login(vec![]).expect_code(INTERNAL);
    against_answer(framed(1, &[])).expect_code(INTERNAL);
}

#[test]
fn packets_out_of_order_are_told() {
    // MySQL itself sends one: its farewell to a session that has been idle for too long.
    let output = against_answer(framed(77, OK));
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
        let output = against_answer(framed(1, payload));
        assert!(
            matches!(output.code, Some(UNREACHABLE | INTERNAL)),
            "{payload:?}: {output:#?}"
        );
    }
}

#[test]
fn a_way_to_log_in_that_dblock_does_not_know_is_told() {
    for plugin in [
        "dialog",
        "authentication_kerberos_client",
        "no_such_plugin",
        "",
    ] {
        let switch = [&[0xfe], plugin.as_bytes(), b"\0saltsaltsaltsaltsalt\0"].concat();
        let output = against_reply_to_login(switch);
        assert!(
            matches!(output.code, Some(INTERNAL | ACCOUNT_REFUSED)),
            "{plugin:?}: {output:#?}"
        );
    }
}

#[test]
fn a_server_does_not_get_the_password_in_clear() {
    let (tell, told) = std::sync::mpsc::channel();
    against(move |stream| {
        greet(stream);
        let _ = stream.write_all(&framed(2, b"\xfemysql_clear_password\0"));
        let mut reply = [0; 4096];
        let length = stream.read(&mut reply).unwrap_or(0);
        let _ = tell.send(reply[..length].to_vec());
    });
    for reply in told.try_iter() {
        let reply = String::from_utf8_lossy(&reply).into_owned();
        assert!(!reply.contains(crate::harness::PASSWORD), "{reply:?}");
    }
}

#[test]
fn a_public_key_that_is_none_is_told() {
    against(|stream| {
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
    against_reply_to_login(OK.to_vec()).expect_code(UNREACHABLE);
}

#[test]
fn a_host_that_refuses_is_unreachable() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    drop(listener);
    run(&url_of_port(port))
        .expect_code(UNREACHABLE)
        .expect_said([&port.to_string()]);
}

#[test]
fn a_host_that_does_not_resolve_is_unreachable() {
    run("mysql://u@no-such-host.invalid/")
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
        .args(["--connect-timeout", "1"])
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
    output.expect_took(Duration::from_secs(1), Duration::from_secs(1) + BUSY);
    eventually("no process is left", SOON, || {
        processes_with(&name).is_empty()
    });
}

//! Whatever answers at PostgreSQL's port: one line, the right exit code, in time, no process left behind, and the command has not run.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::harness::fake_postgres::{
    FakePostgres, authentication, complete, error, key_data, message, parameter, read_message,
    read_startup, ready, row, scram, welcome,
};
use crate::harness::{
    Dblock, Kind, Output, PASSWORD, Server, eventually, processes_with, slack, trickle, unique,
    until_closed, url_of_kind,
};
use crate::hostile::{ACCOUNT_REFUSED, INTERNAL, UNREACHABLE, judge, run, serve};

const UNFIT: i32 = 78;

/// The URL of a server that does `talk` on each connection, and then closes it.
fn url_of(talk: impl Fn(&mut TcpStream) + Send + Clone + 'static) -> String {
    url_of_kind(Kind::Postgres, [127, 0, 0, 1].into(), serve(talk))
}

/// Runs dblock against such a server.
#[track_caller]
fn against(talk: impl Fn(&mut TcpStream) + Send + Clone + 'static) -> Output {
    run(&url_of(talk))
}

/// The URL of a server that reads who comes, says this, and is silent then, or closes.
fn url_of_words(words: Vec<u8>, closes: bool) -> String {
    url_of(move |stream| {
        let _ = read_startup(stream);
        let _ = stream.write_all(&words);
        if !closes {
            until_closed(stream);
        }
    })
}

/// Runs dblock against such a server.
#[track_caller]
fn against_words(words: Vec<u8>, closes: bool) -> Output {
    run(&url_of_words(words, closes))
}

/// Runs dblock against a server that lets it in and answers each query with these bytes.
#[track_caller]
fn against_answer(bytes: Vec<u8>) -> Output {
    let fake = FakePostgres::start(welcome(7, "15.4", &[]), move |_| bytes.clone());
    run(&fake.url())
}

#[track_caller]
fn expect_one_of(output: &Output, codes: &[i32]) {
    let code = output.code;
    assert!(codes.iter().any(|&one| code == Some(one)), "{output:#?}");
}

const ANY: [i32; 4] = [UNREACHABLE, INTERNAL, ACCOUNT_REFUSED, UNFIT];

#[test]
fn silence_at_every_step_is_given_up() {
    let greeting = welcome(7, "15.4", &[]);
    let steps: [Vec<u8>; 6] = [
        vec![],
        scram(),
        authentication(5, b"salt"),
        authentication(0, b""),
        [authentication(0, b""), parameter("server_version", "15.4")].concat(),
        greeting,
    ];
    thread::scope(|scope| {
        for words in steps {
            for closes in [false, true] {
                let words = words.clone();
                scope.spawn(move || {
                    let output = against_words(words.clone(), closes);
                    assert_eq!(
                        output.code,
                        Some(UNREACHABLE),
                        "{words:?}, {closes}: {output:#?}"
                    );
                });
            }
        }
    });
}

#[test]
fn a_server_that_trickles_is_given_up() {
    let words = welcome(7, "15.4", &[]);
    against(move |stream| {
        let _ = read_startup(stream);
        trickle(stream, &words);
    })
    .expect_code(UNREACHABLE);
}

#[test]
fn one_that_announces_more_than_there_is_memory_for_is_left_for_the_next_server() {
    let server = Server::shared(Kind::Postgres);
    for length in [64u32 << 20, 17 << 20] {
        let words = [&b"R"[..], &(length - 1).to_be_bytes()].concat();
        let first = url_of_words(words, false);
        let (_, first) = first.split_once('@').expect("an account");
        let (first, _) = first.split_once('/').expect("a database");
        let url = server.url().replacen('@', &format!("@{first},"), 1);
        let run = Dblock::run_at(&url, &unique("huge"))
            .sh("echo ran")
            .output();
        run.expect_code(0).expect_stdout("ran\n");
        run.expect_one_line("a message of more than 16 MB");
    }
}

#[test]
fn a_server_of_another_protocol_is_told() {
    for words in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"SSH-2.0-OpenSSH_9.2p1\r\n",
        b"J\0\0\0\x0a8.0.36\0\x08\0\0\0abcdefgh\0",
        b"-ERR unknown command\r\n",
        &[0; 100],
        &[0xff; 100],
    ] {
        for closes in [false, true] {
            expect_one_of(
                &against_words(words.to_vec(), closes),
                &[UNREACHABLE, INTERNAL],
            );
        }
    }
}

#[test]
fn a_length_that_is_none_or_without_end_is_told_before_memory_is_taken() {
    for length in [0u32, 1, 3, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 256 << 20] {
        for kind in *b"RSKZEDT" {
            let header = [&[kind][..], &length.to_be_bytes()].concat();
            for words in [header.clone(), [welcome(7, "15.4", &[]), header].concat()] {
                expect_one_of(&against_words(words, false), &[UNREACHABLE, INTERNAL]);
            }
        }
    }
}

#[test]
fn answers_without_end_are_given_up_and_take_no_memory() {
    let one = row(&[("x", Some("0"))]);
    let data = one.iter().position(|&byte| byte == b'D').unwrap();
    let rows = one[data..data + 12].repeat(4096);
    takes_no_memory(&one[..data], move |_| rows.clone());
    let done = message(b'C', b"SELECT 0\0").repeat(4096);
    takes_no_memory(b"", move |_| done.clone());
    takes_no_memory(b"", |part| {
        let names = (0..4096).map(|number| format!("{}-{part}-{number}", "x".repeat(500)));
        names.flat_map(|name| parameter(&name, "y")).collect()
    });
}

/// A server answers the first statement so, and goes on with these parts for ever.
fn takes_no_memory(begin: &[u8], more: impl Fn(u64) -> Vec<u8> + Send + Clone + 'static) {
    let begin = begin.to_vec();
    let port = serve(move |stream| {
        let _ = read_startup(stream);
        let _ = stream.write_all(&welcome(7, "15.4", &[]));
        let _ = read_message(stream);
        let _ = stream.write_all(&begin);
        let mut number = 0;
        while stream.write_all(&more(number)).is_ok() {
            number += 1;
        }
    });
    let url = url_of_kind(Kind::Postgres, [127, 0, 0, 1].into(), port);
    let name = unique("endless");
    let run = Dblock::run_at(&url, &name).args(["--connect-timeout", "2"]);
    let mut run = run.sh("echo ran").spawn();
    let mut most = 0;
    eventually("it ends", Duration::from_secs(20), || {
        let keepers = processes_with(&name);
        let largest = keepers.iter().filter_map(|&pid| resident(pid)).max();
        most = most.max(largest.unwrap_or(0));
        !run.is_running()
    });
    let output = run.wait();
    output.expect_stdout("").expect_one_line("");
    expect_one_of(&output, &[UNREACHABLE, INTERNAL]);
    assert!(most < 64 * 1024, "{most} kB");
}

/// The memory of a process, in kilobytes.
fn resident(pid: i32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

#[test]
fn messages_without_end_that_need_no_answer_are_given_up() {
    let notice = error("NOTICE", "00000", b"still here");
    let notice = [b"N", &notice[1..]].concat();
    for one in [
        parameter("x", "y"),
        notice,
        message(b'A', b"\0\0\0\x07channel\0text\0"),
    ] {
        for before in [vec![], welcome(7, "15.4", &[])] {
            let one = one.clone();
            let url = url_of(move |stream| {
                let _ = read_startup(stream);
                let _ = stream.write_all(&before);
                let many = one.repeat(100);
                while stream.write_all(&many).is_ok() {}
            });
            let output = judge(&url);
            output.expect_code(INTERNAL);
            output.expect_said(["answers without an end"]);
        }
    }
}

#[test]
fn a_login_and_an_answer_without_end_are_given_up() {
    let welcome = welcome(7, "15.4", &[]);
    let one = row(&[("x", Some("0"))]);
    let data = one.iter().position(|&byte| byte == b'D').unwrap();
    let (names, data) = (one[..data].to_vec(), one[data..data + 12].to_vec());
    for (before, one) in [
        (authentication(0, b""), key_data(7)),
        ([&welcome[..], &names].concat(), data),
        (welcome.clone(), names),
        (welcome, error("ERROR", "XX000", b"no")),
    ] {
        let url = url_of(move |stream| {
            let _ = read_startup(stream);
            let _ = stream.write_all(&before);
            let many = one.repeat(1000);
            while stream.write_all(&many).is_ok() {}
        });
        let output = judge(&url);
        output.expect_code(INTERNAL);
        output.expect_said(["answers without an end"]);
    }
}

/// The URL of a server that asks for SCRAM, and answers the client's first message with this; `NONCE` stands for the client's.
fn scram_server(first: &'static str, last: Option<&'static str>) -> String {
    url_of(move |stream| {
        let _ = read_startup(stream);
        let _ = stream.write_all(&scram());
        let Ok((_, begin)) = read_message(stream) else {
            return;
        };
        let begin = String::from_utf8_lossy(&begin).into_owned();
        let nonce = begin.split("r=").nth(1).unwrap_or_default();
        let words = first.replace("NONCE", nonce);
        let _ = stream.write_all(&authentication(11, words.as_bytes()));
        if let Some(last) = last {
            let _ = read_message(stream);
            let _ = stream.write_all(&authentication(12, last.as_bytes()));
        }
        until_closed(stream);
    })
}

#[test]
fn a_server_that_does_not_know_the_password_is_not_logged_in_to() {
    // It says that all is well, and cannot prove that it knows the password.
    for last in [
        "v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "v=",
        "e=other-error",
        "",
        "x",
    ] {
        let url = scram_server("r=NONCEserver,s=c2FsdHNhbHQ=,i=4096", Some(last));
        expect_one_of(&judge(&url), &[ACCOUNT_REFUSED, INTERNAL]);
    }
}

#[test]
fn a_first_answer_of_scram_that_is_none_is_told_in_time() {
    for first in [
        "",
        "x",
        "r=other,s=c2FsdA==,i=4096",
        "r=NONCE,s=,i=4096",
        "r=NONCEserver,s=%%%,i=4096",
        "r=NONCEserver,s=c2FsdHNhbHQ=,i=0",
        "r=NONCEserver,s=c2FsdHNhbHQ=,i=-1",
        "r=NONCEserver,s=c2FsdHNhbHQ=,i=x",
        "r=NONCEserver,s=c2FsdHNhbHQ=,i=99999999999999",
        // These would take a processor for hours.
        "r=NONCEserver,s=c2FsdHNhbHQ=,i=4294967295",
        "r=NONCEserver,s=c2FsdHNhbHQ=,i=2000000000",
        "m=extension,r=NONCEserver,s=c2FsdHNhbHQ=,i=4096",
    ] {
        expect_one_of(&run(&scram_server(first, None)), &ANY);
    }
}

#[test]
fn rounds_of_scram_without_end_are_given_up() {
    let output = against(|stream| {
        let _ = read_startup(stream);
        let _ = stream.write_all(&scram());
        while let Ok((_, begin)) = read_message(stream) {
            let begin = String::from_utf8_lossy(&begin).into_owned();
            let nonce = begin.split("r=").nth(1).unwrap_or("x").to_owned();
            let words = format!("r={nonce}y,s=c2FsdHNhbHQ=,i=1");
            let _ = stream.write_all(&authentication(11, words.as_bytes()));
        }
    });
    expect_one_of(&output, &ANY);
    // Nor is a login without end one.
    let output = against(|stream| {
        let _ = read_startup(stream);
        while stream.write_all(&authentication(5, b"salt")).is_ok() && read_message(stream).is_ok()
        {
        }
    });
    expect_one_of(&output, &ANY);
}

#[test]
fn a_way_to_log_in_that_dblock_has_not_is_refused() {
    for way in [2u32, 6, 7, 9, 13, 99, u32::MAX] {
        let url = url_of_words(authentication(way, b""), false);
        expect_one_of(&judge(&url), &[ACCOUNT_REFUSED, INTERNAL]);
    }
    for mechanisms in [
        &b"\0"[..],
        b"",
        b"PLAIN\0\0",
        b"SCRAM-SHA-1\0\0",
        b"SCRAM-SHA-256-PLUS\0\0",
        b"\xff\xfe\0\0",
    ] {
        expect_one_of(
            &against_words(authentication(10, mechanisms), false),
            &[ACCOUNT_REFUSED, INTERNAL, UNREACHABLE],
        );
    }
}

#[test]
fn the_password_is_sent_to_nobody_in_clear() {
    for way in [3u32, 9, 7] {
        let (tell, told) = mpsc::channel();
        let url = url_of(move |stream| {
            let first = read_startup(stream).unwrap_or_default();
            let _ = stream.write_all(&authentication(way, b""));
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
            let _ = tell.send([first, rest].concat());
        });
        judge(&url).expect_code(ACCOUNT_REFUSED);
        for said in told.try_iter() {
            let said = String::from_utf8_lossy(&said).into_owned();
            assert!(!said.contains(PASSWORD), "{said:?}");
        }
    }
}

#[test]
fn what_a_server_says_cannot_steer_a_terminal_nor_fill_it() {
    let long = "x".repeat(100_000);
    let texts: [&[u8]; 5] = [
        b"a\x1b[2J\nb\r\x07",
        b"\xff\xfe\x80",
        "\u{9b}31m\u{202e}".as_bytes(),
        long.as_bytes(),
        b"line\ndblock: run\n",
    ];
    for text in texts {
        for (state, code) in [
            ("28P01", ACCOUNT_REFUSED),
            ("3D000", UNFIT),
            ("53300", UNREACHABLE),
            ("57P03", UNREACHABLE),
            ("XX000", UNREACHABLE),
        ] {
            let url = url_of_words(error("FATAL", state, text), true);
            let output = match code {
                UNREACHABLE => run(&url),
                _ => judge(&url),
            };
            output.expect_code(code);
            assert!(output.stderr.len() < 4096, "{} bytes", output.stderr.len());
        }
    }
}

#[test]
fn an_error_without_its_parts_is_told() {
    for payload in [
        &b""[..],
        b"\0",
        b"M",
        b"Mno end",
        b"C\0\0",
        b"Sx\0",
        b"V\0C\0M\0\0",
        &[b'C'; 1000],
    ] {
        for before in [vec![], welcome(7, "15.4", &[])] {
            let words = [before, message(b'E', payload)].concat();
            expect_one_of(&against_words(words, true), &ANY);
        }
    }
}

#[test]
fn an_answer_that_comes_before_tls_is_not_believed() {
    // The answer to the request for TLS, and behind it in clear what somebody in between wants dblock to believe is the server's.
    for follows in [
        welcome(7, "15.4", &[]),
        error("FATAL", "28P01", b"go away"),
        b"N".to_vec(),
        vec![0x16, 3, 3, 0, 2],
    ] {
        let port = serve(move |stream| {
            let mut request = [0; 8];
            let _ = stream.read_exact(&mut request);
            let _ = stream.write_all(&[b"S", &follows[..]].concat());
            until_closed(stream);
        });
        let name = unique("injected");
        let url = url_of_kind(Kind::Postgres, [127, 0, 0, 1].into(), port);
        let run = Dblock::run_at(&url, &name).args(["--connect-timeout", "1"]);
        let output = run
            .env("DBLOCK_SSL_MODE", "required")
            .sh("echo ran")
            .output();
        output.expect_stdout("").expect_one_line("");
        output.expect_took(Duration::ZERO, Duration::from_secs(1) + slack());
        expect_one_of(&output, &[UNREACHABLE, INTERNAL, UNFIT]);
        assert!(!output.stderr.contains("go away"), "{output:#?}");
    }
}

#[test]
fn an_answer_to_the_request_for_tls_that_is_none_is_told() {
    for answer in [
        &b""[..],
        b"E",
        b"X",
        b"\0",
        &error("FATAL", "0A000", b"no")[..],
    ] {
        for mode in ["preferred", "required"] {
            let answer = answer.to_vec();
            let port = serve(move |stream| {
                let _ = stream.read_exact(&mut [0; 8]);
                let _ = stream.write_all(&answer);
            });
            let url = url_of_kind(Kind::Postgres, [127, 0, 0, 1].into(), port);
            let run = Dblock::run_at(&url, &unique("tls")).args(["--connect-timeout", "1"]);
            let output = run.env("DBLOCK_SSL_MODE", mode).sh("echo ran").output();
            output.expect_stdout("").expect_one_line("");
            expect_one_of(&output, &[UNREACHABLE, INTERNAL, UNFIT]);
        }
    }
}

#[test]
fn garbage_for_an_answer_is_told() {
    let answers = [
        vec![],
        complete("SELECT 1"),
        complete(""),
        complete("SELECT 99999999999999999999"),
        row(&[]),
        row(&[("x", None)]),
        row(&[("x", Some("\u{0}\u{1b}"))]),
        row(&[("x", Some("-1")); 40]),
        row(&[("x", Some("t")); 40]),
        row(&[("x", Some("999999999999999999999")); 40]),
        row(&[("x", None); 40]),
        message(b'D', &[0xff; 20]),
        message(b'D', &[0, 1, 0x7f, 0xff, 0xff, 0xff]),
        message(b'T', &[0xff; 20]),
        message(b'I', b""),
        message(b'G', &[0, 0, 0]),
        message(b'H', &[0, 0, 0]),
        message(b'1', b""),
        message(b't', b""),
        message(0, b""),
        scram(),
        welcome(8, "15.4", &[]),
        key_data(8),
        ready(),
        [ready(), ready(), ready()].concat(),
        error("ERROR", "42883", b"no such function"),
        error("ERROR", "42501", b"no"),
        error("ERROR", "40P01", b"deadlock"),
        error("ERROR", "57014", b"cancelled"),
        error("FATAL", "57P01", b"ended"),
    ];
    thread::scope(|scope| {
        let answers = answers.chunks(8);
        for some in answers {
            scope.spawn(move || {
                for answer in some {
                    let output = against_answer(answer.clone());
                    assert!(
                        ANY.iter().any(|&code| output.code == Some(code)),
                        "{answer:?}: {output:#?}"
                    );
                }
            });
        }
    });
}

/// All that a server says up to the first answer.
fn whole_talk() -> Vec<u8> {
    [
        welcome(7, "15.4", &[]),
        row(&[("slot", Some("0")), ("pid", Some("7"))]),
        ready(),
    ]
    .concat()
}

#[test]
fn a_talk_that_is_cut_off_at_each_byte_is_told() {
    let whole = whole_talk();
    let cuts: Vec<usize> = (0..whole.len()).collect();
    thread::scope(|scope| {
        for some in cuts.chunks(whole.len().div_ceil(4)) {
            let whole = &whole;
            scope.spawn(move || {
                for &cut in some {
                    let words = whole[..cut].to_vec();
                    let url = url_of_kind(
                        Kind::Postgres,
                        [127, 0, 0, 1].into(),
                        serve(move |stream| {
                            let _ = read_startup(stream);
                            let _ = stream.write_all(&words);
                            let _ = stream.shutdown(std::net::Shutdown::Write);
                            until_closed(stream);
                        }),
                    );
                    let output = Dblock::run_at(&url, &unique("cut"))
                        .args(["--connect-timeout", "0.2"])
                        .sh("echo ran")
                        .output();
                    output.expect_stdout("").expect_one_line("");
                    assert!(
                        ANY.iter().any(|&code| output.code == Some(code)),
                        "cut at {cut}: {output:#?}"
                    );
                    assert!(!output.stderr.contains("panicked"), "{output:#?}");
                }
            });
        }
    });
}

#[test]
fn whatever_bytes_a_server_sends_the_command_does_not_run() {
    let config = Config {
        cases: 150,
        failure_persistence: None,
        ..Config::default()
    };
    let kinds = proptest::sample::select(b"RSKZETDCNAIG13tvnsVW".to_vec());
    let messages =
        proptest::collection::vec((kinds, proptest::collection::vec(any::<u8>(), 0..40)), 0..6);
    let raw = proptest::collection::vec(any::<u8>(), 0..200);
    let place = proptest::sample::select(vec![0usize, 1, 2]);
    TestRunner::new(config)
        .run(
            &(place, messages, raw, any::<bool>()),
            |(place, messages, raw, is_raw)| {
                let bytes: Vec<u8> = if is_raw {
                    raw
                } else {
                    messages
                        .iter()
                        .flat_map(|(kind, payload)| message(*kind, payload))
                        .collect()
                };
                // Before the login, in the middle of it, or after it.
                let before = match place {
                    0 => vec![],
                    1 => [authentication(0, b""), parameter("server_version", "15.4")].concat(),
                    _ => welcome(7, "15.4", &[]),
                };
                let words = [before, bytes].concat();
                let port = serve(move |stream| {
                    let _ = read_startup(stream);
                    let _ = stream.write_all(&words);
                    let _ = stream.shutdown(std::net::Shutdown::Write);
                    until_closed(stream);
                });
                let url = url_of_kind(Kind::Postgres, [127, 0, 0, 1].into(), port);
                let output = Dblock::run_at(&url, &unique("bytes"))
                    .args(["--connect-timeout", "0.2"])
                    .sh("echo ran")
                    .output();
                prop_assert!(output.stdout.is_empty(), "{output:#?}");
                prop_assert!(output.stderr.lines().count() == 1, "{output:#?}");
                prop_assert!(
                    ANY.iter().any(|&code| output.code == Some(code)),
                    "{output:#?}"
                );
                Ok(())
            },
        )
        .unwrap();
}

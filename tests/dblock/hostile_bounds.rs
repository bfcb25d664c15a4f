//! What a hostile server can cost: time, at every step of the talk with it, and memory.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use crate::harness::{
    Answer, Dblock, Fake, Kind, Output, PASSWORD, SOON, Server, error, eventually, framed,
    greeting, in_time, processes_with, slack, trickle, unique, until_closed, url_of_port, within,
};
use crate::hostile::{INTERNAL, OK, UNREACHABLE, against, greet, judge, serve};

const LOCK_LOST: i32 = 74;

/// A lease, and when a command is dead for want of a heartbeat.
const TTL: &str = "8";
const DEAD_AFTER: Duration = Duration::from_millis(7200);

/// The shortest lease.
const SHORTEST_TTL: Duration = Duration::from_secs(4);

/// Bytes of data that a keeper may have.
const MEMORY: u64 = 64 * 1024 * 1024;

/// Somebody's.
const PUBLIC_KEY: &str = "\x01-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAkjaQqMlGqKl1lDqjr7hY
f4nCQIxGR5mThkADMBE8CTJL34MOjqWlSZXQVQGf1IYmmZS5XFbLXjSENgPq8137
X3ApvvbTimGt5LzQplHKBgwCxv1U9S0x82w9SpyUUntvByWmy9jot+jhoNMA+pnN
xkknjOw4QXZNIPvpKIFyoc6lBSLQN/RFsVqMogc5lyvtcABobyXb7ijRntSVWZ9Y
o/nZwIN6/HYO9xTzSqrsyt1+xkGLlCMon3WOD8Wnpwm7WI0CJbFZaNsBHQFWtI/+
ndbE0u16j/5bV6BhAudQtPzzJDi+TPAie+M76DNBv+d6OuGzesipjXbjIOET8M7k
cwIDAQAB
-----END PUBLIC KEY-----
";

/// One packet of the server's, and whether it is an answer to something.
type Step = (Vec<u8>, bool);

fn definition() -> Vec<u8> {
    let mut definition = b"\x03def\0\0\0\x01c\0\x0c".to_vec();
    definition.extend([45, 0, 255, 0, 0, 0, 253, 0, 0, 0, 0, 0]);
    definition
}

/// The whole talk up to the first answer, by the longest way to log in.
fn talk() -> Vec<Step> {
    let switch = b"\xfecaching_sha2_password\0saltsaltsaltsaltsalt\0".to_vec();
    let end = vec![0xfe, 0, 0, 2, 0];
    let answers = [
        (0, greeting(Kind::MySql, 7), false),
        (2, switch, true),
        (4, vec![1, 4], true),
        (6, PUBLIC_KEY.into(), true),
        (8, OK.to_vec(), true),
        (1, vec![1], true),
        (2, definition(), false),
        (3, end.clone(), false),
        (4, vec![1, b'x'], false),
        (5, end, false),
    ];
    answers
        .map(|(sequence, payload, answers)| (framed(sequence, &payload), answers))
        .to_vec()
}

#[test]
fn silence_and_trickle_at_every_step_before_the_lock_are_given_up() {
    let steps = talk().len();
    thread::scope(|scope| {
        for (step, trickles) in (0..steps).flat_map(|step| [(step, false), (step, true)]) {
            scope.spawn(move || {
                let output = against(move |stream| {
                    for (place, (packet, answers)) in talk().into_iter().enumerate() {
                        if answers {
                            let _ = stream.read(&mut [0; 4096]);
                        }
                        if place < step {
                            let _ = stream.write_all(&packet);
                        } else if trickles {
                            return trickle(stream, &packet);
                        } else {
                            return until_closed(stream);
                        }
                    }
                });
                assert_eq!(
                    output.code,
                    Some(UNREACHABLE),
                    "{step} {trickles}: {output:#?}"
                );
            });
        }
    });
}

/// The answer to a statement of which each column is so.
fn row(values: &[Option<&str>]) -> Answer {
    Answer::Row(
        values
            .iter()
            .map(|value| value.map(str::to_owned))
            .collect(),
    )
}

/// The lock is had: the slot, no place, the session (a scripted server's first), not read-only, the mark, and the limit on idleness that was asked for.
fn granted(ttl: &str) -> Answer {
    let [slot, none, session, ttl] = [Some("0"), None, Some("1"), Some(ttl)];
    row(&[slot, slot, session, none, none, session, ttl])
}

/// A server that gives the lock to everybody, and answers a heartbeat, or a release, with something else.
fn holding(heartbeat: Option<Answer>, release: Option<Answer>) -> Fake {
    Fake::start(Kind::MySql, move |statement| match statement {
        _ if !statement.starts_with("SELECT") => Answer::Ok,
        _ if statement.contains("SELECT RELEASE_") => {
            release.clone().unwrap_or_else(|| row(&[Some("1"), None]))
        }
        _ if statement.contains("GET_LOCK") => granted(TTL),
        _ => heartbeat
            .clone()
            .unwrap_or_else(|| row(&[Some("0"), Some("0"), Some("1"), None, None, None])),
    })
}

/// What a server says instead of a whole answer.
const UNFINISHED: [Answer; 5] = [
    Answer::Silence,
    // The beginning of a packet of 40 bytes.
    Answer::Talk(|stream| trickle(stream, &[40, 0, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
    // The number of columns; a column; the end of them.
    Answer::Talk(|stream| drop(stream.write_all(&framed(1, &[1])))),
    Answer::Talk(|stream| {
        let _ = stream.write_all(&framed(1, &[1]));
        let _ = stream.write_all(&framed(2, &definition()));
    }),
    Answer::Talk(|stream| {
        let _ = stream.write_all(&framed(1, &[1]));
        let _ = stream.write_all(&framed(2, &definition()));
        let _ = stream.write_all(&framed(3, &[0xfe, 0, 0, 2, 0]));
    }),
];

#[track_caller]
fn nothing_is_left(name: &str) {
    eventually("no process is left", SOON, || {
        processes_with(name).is_empty()
    });
}

/// A run that ends its command long before its keeper gives up the session.
fn held(fake: &Fake, name: &str) -> Dblock {
    Dblock::run_at(&fake.url(), name).args(["--ttl", TTL, "--kill-after", "2.5"])
}

#[test]
fn a_heartbeats_answer_that_does_not_come_whole_ends_the_command_with_the_lease() {
    thread::scope(|scope| {
        for answer in UNFINISHED {
            scope.spawn(move || {
                let fake = holding(Some(answer.clone()), None);
                let name = unique("silent");
                let output = held(&fake, &name).command(["sleep", "60"]).output();
                output.expect_code(LOCK_LOST);
                output.expect_said([&*name, "may be lost: the server has not renewed it for"]);
                output.expect_took(Duration::from_secs(2), DEAD_AFTER + slack());
                nothing_is_left(&name);
            });
        }
    });
}

#[test]
fn a_releases_answer_that_does_not_come_whole_costs_one_connect_timeout() {
    thread::scope(|scope| {
        for answer in UNFINISHED {
            scope.spawn(move || {
                let fake = holding(None, Some(answer.clone()));
                let name = unique("silent");
                let dblock = held(&fake, &name).args(["--connect-timeout", "4"]);
                let output = dblock.sh("exit 3").output();
                output.expect_code(3).expect_one_line("did not answer");
                output.expect_took(Duration::ZERO, Duration::from_secs(4) + slack());
                nothing_is_left(&name);
            });
        }
    });
}

/// A field of `/proc/PID/status`, in bytes.
fn status_bytes(pid: i32, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kilobytes: u64 = line.trim_matches([':', ' ', '\t', 'k', 'B']).parse().ok()?;
    Some(kilobytes * 1024)
}

/// Runs dblock against a server that gives this answer to everything, once the keeper was seen; how dblock ended, and the most memory
/// that its keeper was seen with.
#[track_caller]
fn memory_of(answer: Answer) -> (Output, u64) {
    let seen = Arc::new(AtomicBool::new(false));
    let shown = seen.clone();
    let fake = Fake::start(Kind::MySql, move |_| {
        within(SOON, || shown.load(Ordering::Relaxed));
        answer.clone()
    });
    let name = unique("hungry");
    let mut run = hungry(&fake, &name, "5").spawn();
    let mut most = 0;
    let ended = in_time(SOON, || {
        let used = run
            .children()
            .into_iter()
            .filter_map(|pid| status_bytes(pid, "VmHWM"));
        most = used.max().unwrap_or_default().max(most);
        seen.store(most > 0, Ordering::Relaxed);
        !run.is_running()
    });
    assert!(ended, "still runs: {}", run.stderr());
    assert!(most > 0, "its keeper was not seen: {}", run.stderr());
    (given_up(run.wait(), &name), most)
}

/// A run whose keeper may abort, with this connect timeout in seconds.
fn hungry(fake: &Fake, name: &str, limit: &str) -> Dblock {
    Dblock::run_at(&fake.url(), name)
        .args(["--connect-timeout", limit])
        // A program with all that a debugger wants is large; one that aborts looks into itself.
        .env("RUST_BACKTRACE", "0")
        .sh("echo ran")
}

/// The command did not run, one line says why, and nothing is left.
#[track_caller]
fn given_up(output: Output, name: &str) -> Output {
    output.expect_stdout("").expect_one_line("");
    assert!(!output.stderr.contains(PASSWORD), "{output:#?}");
    nothing_is_left(name);
    output
}

/// A number with its length in front.
fn long(number: u64) -> Vec<u8> {
    [&[0xfe][..], &number.to_le_bytes()].concat()
}

#[test]
fn an_answer_without_end_costs_a_bounded_memory() {
    let definitions: fn(&mut TcpStream) = |stream| {
        let _ = stream.write_all(&framed(1, &long(1_000_000)));
        let mut sequence = 1u8;
        loop {
            let mut many = Vec::new();
            for _ in 0..1000 {
                sequence = sequence.wrapping_add(1);
                many.extend(framed(sequence, &definition()));
            }
            if stream.write_all(&many).is_err() {
                return;
            }
        }
    };
    // A packet that goes on and on, 16 MB each time; and one row of a million NULLs.
    let chain: fn(&mut TcpStream) = |stream| {
        let piece = vec![1; 65536];
        for sequence in (1..=255).cycle() {
            let header = stream.write_all(&[0xff, 0xff, 0xff, sequence]);
            for _ in 0..256 {
                if header.is_err() || stream.write_all(&piece).is_err() {
                    return;
                }
            }
        }
    };
    let nulls: fn(&mut TcpStream) = |stream| {
        let _ = stream.write_all(&framed(1, &[1]));
        let _ = stream.write_all(&framed(2, &definition()));
        let _ = stream.write_all(&framed(3, &[0xfe, 0, 0, 2, 0]));
        let _ = stream.write_all(&framed(4, &vec![0xfb; 1_000_000]));
    };
    let endless_error: fn(&mut TcpStream) = |stream| {
        let _ = stream.write_all(&framed(1, &error(1105, &"\x1b[2J".repeat(4_000_000))));
    };
    thread::scope(|scope| {
        for (what, answer) in [
            ("2^27 columns", Answer::Raw(framed(1, &long(1 << 27)))),
            ("2^40 columns", Answer::Raw(framed(1, &long(1 << 40)))),
            ("2^63 columns", Answer::Raw(framed(1, &long(1 << 63)))),
            ("a million columns", Answer::Talk(definitions)),
            ("a chain", Answer::Talk(chain)),
            ("a row of NULLs", Answer::Talk(nulls)),
            ("an endless error", Answer::Talk(endless_error)),
            (
                "an absurd OK",
                Answer::Raw(framed(1, &[&[0][..], &long(u64::MAX), &long(1)].concat())),
            ),
            (
                "an end in place of a row",
                Answer::Raw(framed(1, &[0xfe, 0, 0, 2, 0])),
            ),
        ] {
            scope.spawn(move || {
                let (output, most) = memory_of(answer);
                assert!(
                    matches!(output.code, Some(INTERNAL | UNREACHABLE)),
                    "{what}: {output:#?}"
                );
                assert!(most < MEMORY + MEMORY / 4, "{what}: {most} bytes");
            });
        }
    });
}

#[test]
fn a_keeper_has_a_limit_on_its_memory_and_the_command_has_not() {
    let server = Server::shared(Kind::MariaDb);
    let data = |limits: &str| {
        let line = limits
            .lines()
            .find(|line| line.starts_with("Max data size"));
        line.expect("a limit on data").to_owned()
    };
    let mut run = Dblock::run(server, &unique("limits"))
        .sh("cat /proc/self/limits; echo shell $$; exec sleep 60")
        .spawn();
    let command = run.wait_pid("shell");
    let keeper = run.keeper(Some(command));
    let of_keeper = data(&fs::read_to_string(format!("/proc/{keeper}/limits")).unwrap());
    let words: Vec<&str> = of_keeper.split_whitespace().collect();
    assert_eq!(words[3], words[4]);
    // What it has from dblock, from the start, counts besides.
    let limit: u64 = words[3].parse().unwrap();
    assert!(MEMORY < limit && limit < MEMORY + MEMORY / 4, "{limit}");
    let own = data(&fs::read_to_string("/proc/self/limits").unwrap());
    assert_eq!(data(&run.stdout()), own);
    // What it needs is far below.
    let used = status_bytes(keeper, "VmData").expect("it runs");
    assert!(used < MEMORY / 2, "{used} bytes");
}

#[test]
fn a_server_that_breaks_every_keeper_is_bounded_by_the_lease() {
    let are_broken = (0..5).any(|_| every_keeper_is_broken());
    assert!(are_broken, "the lease was over before each time");
}

/// `false`: the machine stood still for so long that the lease was over before its keeper was broken.
fn every_keeper_is_broken() -> bool {
    // The first answer is a lock; all later ones are too large.
    let first = AtomicBool::new(true);
    let fake = Fake::start(Kind::MySql, move |statement| match statement {
        _ if !statement.starts_with("SELECT") => Answer::Ok,
        _ if first.swap(false, Ordering::Relaxed) => granted("4"),
        _ => Answer::Raw(framed(1, &long(1 << 40))),
    });
    let name = unique("broken");
    let run = Dblock::run_at(&fake.url(), &name).args(["--ttl", "4", "--kill-after", "0.5"]);
    let output = run.command(["sleep", "60"]).output();
    output.expect_code(LOCK_LOST);
    if output.stderr.contains("the server has not renewed it for") {
        return false;
    }
    output.expect_said(["the keeper aborted", "could not be reacquired"]);
    assert_eq!(output.stderr.lines().count(), 3, "{output:#?}");
    output.expect_took(Duration::from_secs(1), SHORTEST_TTL + slack());
    let tries = fake.statements().len();
    assert!(tries < 150, "{tries} statements: a busy loop");
    nothing_is_left(&name);
    true
}

#[test]
fn a_keeper_that_gives_up_before_the_lock_is_told_in_one_line() {
    let fake = Fake::start(Kind::MySql, |_| Answer::Raw(framed(1, &long(1 << 40))));
    let name = unique("hungry");
    let output = given_up(hungry(&fake, &name, "60").output(), &name);
    output.expect_code(INTERNAL);
    output.expect_said(["the keeper aborted", "64 MB", &fake.port.to_string()]);
}

#[test]
fn a_lower_limit_of_the_users_is_told_as_theirs() {
    let fake = Fake::start(Kind::MySql, |_| Answer::Raw(framed(1, &long(1 << 40))));
    let name = unique("limited");
    let limited = ["sh", "-c", "ulimit -d 49152; exec \"$@\"", "sh"];
    let output = given_up(hungry(&fake, &name, "60").under(limited).output(), &name);
    output.expect_code(INTERNAL);
    output.expect_said(["the keeper aborted (ulimit -d", "no more than 49152 kB"]);
}

#[test]
fn a_check_has_the_same_limit() {
    let fake = Fake::start(Kind::MySql, |_| Answer::Raw(framed(1, &long(1 << 27))));
    let dblock = Dblock::bare()
        .args(["check", "--connect-timeout", "60", "--url", &fake.url()])
        .env("DBLOCK_PASSWORD", PASSWORD);
    let output = dblock.output();
    output.expect_code(INTERNAL).expect_stdout("");
    output.expect_one_line("64 MB");
}

#[test]
fn a_greeting_with_a_huge_version_is_told() {
    let mut words = vec![10];
    words.extend(vec![b'9'; 1_000_000]);
    words.extend(&greeting(Kind::MySql, 7)[1..]);
    let output = against(move |stream| {
        let _ = stream.write_all(&framed(0, &words));
        until_closed(stream);
    });
    assert!(
        matches!(output.code, Some(INTERNAL | UNREACHABLE)),
        "{output:#?}"
    );
}

#[test]
fn a_server_that_asks_for_a_file_gets_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "a-word-of-the-file").unwrap();
    let request = [&[0xfb][..], file.to_str().unwrap().as_bytes()].concat();
    let (tell, told) = mpsc::channel();
    let port = serve(move |stream| {
        greet(stream);
        let _ = stream.write_all(&framed(2, OK));
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(&framed(1, &request));
        let mut got = vec![0; 4096];
        let length = stream.read(&mut got).unwrap_or(0);
        got.truncate(length);
        let _ = stream.write_all(&framed(3, OK));
        let _ = stream.read_to_end(&mut got);
        let _ = tell.send(got);
    });
    judge(&url_of_port(port))
        .expect_code(INTERNAL)
        .expect_said(["asks for a file"]);
    let got: Vec<Vec<u8>> = told.iter().take(1).collect();
    let text = String::from_utf8_lossy(&got.concat()).into_owned();
    assert!(!text.contains("a-word-of-the-file"), "{text:?}");
}

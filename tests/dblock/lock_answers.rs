//! What the server answers when it is asked for the lock: only a clear "yours" starts the command, and only a clear "not
//! yours" is a skip.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::harness::{
    Answer, Dblock, Fake, Kind, Output, Packet, Proxy, SOON, Server, both_servers, eventually,
    slack, unique,
};

/// The connection that the scripted server says is dblock's, and another one.
const OWN: &str = "7";
const OTHER: &str = "99";

/// The end of a name on the server, `#wait`, as the statements have it.
const PLACE: &str = "2377616974";

/// The end of a name, `#back0`.
const BACK: &str = "236261636B30";
/// The marker of whoever ends the holder of slot 0, in hex digits.
const KILL: &str = "236B696C6C30";

/// The beginning of the lock's name that tells dblock's sessions from others, `#`, as the statements have it.
const MARK: &str = "X'23";

const BOTH: [Kind; 2] = [Kind::MariaDb, Kind::MySql];

/// An answer to one `GET_LOCK`, and whose the lock is after it (`None`: nobody's).
#[derive(Debug, Clone)]
struct Reply {
    answer: Answer,
    holder: Option<&'static str>,
}

/// The value of `GET_LOCK`.
fn says(value: Option<&str>, holder: Option<&'static str>) -> Reply {
    Reply {
        answer: Answer::Row(vec![value.map(str::to_owned)]),
        holder,
    }
}

/// The lock is dblock's.
fn yours() -> Reply {
    says(Some("1"), Some(OWN))
}

/// The lock is another's.
fn taken() -> Reply {
    says(Some("0"), Some(OTHER))
}

/// An error, and nobody has the lock.
fn error(code: u16) -> Reply {
    Reply {
        answer: Answer::error(code, "told by the test"),
        holder: None,
    }
}

/// Something else instead of an answer.
fn instead(answer: Answer) -> Reply {
    Reply {
        answer,
        holder: None,
    }
}

/// Whether a statement asks who comes back for a slot, and takes none.
fn proves_a_slot(statement: &str) -> bool {
    !statement.contains("GET_LOCK(") && statement.contains(&BACK.to_lowercase())
}

/// A server that answers the first `GET_LOCK`s with these, and all later ones with the last of them.
fn server(kind: Kind, replies: &[Reply]) -> Fake {
    let mut answer = answers(replies);
    Fake::start(kind, move |statement| answer(statement))
}

/// What such a server answers to a statement.
fn answers(replies: &[Reply]) -> impl FnMut(&str) -> Answer + Send + use<> {
    let mut replies = VecDeque::from(replies.to_vec());
    let mut holder = None;
    move |statement| {
        let upper = statement.to_uppercase();
        let Some(select) = upper.strip_prefix("SELECT ") else {
            return Answer::Ok;
        };
        let mut value = None;
        if select.contains("GET_LOCK(") {
            let reply = if replies.len() > 1 {
                replies.pop_front()
            } else {
                replies.front().cloned()
            };
            let reply = reply.expect("at least one");
            holder = reply.holder;
            match reply.answer {
                Answer::Row(mut values) => value = values.remove(0),
                Answer::NoRow(_) => return Answer::NoRow(items(select).len()),
                answer => return answer,
            }
        }
        let cell = |item: &String| match item {
            _ if item.contains(MARK) => Some(OWN.to_owned()),
            // Nobody comes back for the slot, and nobody ends its holder.
            _ if (item.contains(BACK) || item.contains(KILL)) && !item.contains("GET_LOCK(") => {
                None
            }
            // CASE GET_LOCK(…) WHEN 1 THEN 0 WHEN 0 THEN -1 END: the number of the slot, or none.
            _ if item.contains("GET_LOCK(") => match value.as_deref() {
                Some("1") => Some("0".to_owned()),
                Some("0") => Some("-1".to_owned()),
                _ => value.clone(),
            },
            _ if item.contains("RELEASE_LOCK(") => Some("1".to_owned()),
            // Nobody is at the head of the queue.
            _ if item.contains(PLACE) => None,
            // CASE WHEN IS_USED_LOCK(…) = CONNECTION_ID() THEN 0 END: the slot that is held.
            _ if item.contains("IS_USED_LOCK(") && item.contains("CONNECTION_ID(") => {
                (holder == Some(OWN)).then(|| "0".to_owned())
            }
            _ if item.contains("CONNECTION_ID(") => Some(OWN.to_owned()),
            _ if item.contains("IS_USED_LOCK(") || item.contains("HOLDER.ID") => {
                holder.map(str::to_owned)
            }
            _ => None,
        };
        Answer::Row(items(select).iter().map(cell).collect())
    }
}

/// What stands between the commas of a select list.
fn items(select: &str) -> Vec<String> {
    let (mut items, mut depth) = (vec![String::new()], 0);
    for character in select.split(" FROM ").next().unwrap_or_default().chars() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if character == ',' && depth == 0 {
            items.push(String::new());
        } else {
            items.last_mut().expect("one is there").push(character);
        }
    }
    items
}

/// Runs dblock against these answers, which decide. The command says "ran".
fn run(kind: Kind, replies: &[Reply], wait: &str) -> (Output, Vec<String>) {
    run_within("20", kind, replies, wait)
}

/// The same with such a limit on the search for a server.
fn run_within(limit: &str, kind: Kind, replies: &[Reply], wait: &str) -> (Output, Vec<String>) {
    let server = server(kind, replies);
    let dblock =
        Dblock::run_at(&server.url(), "x").args(["--wait", wait, "--connect-timeout", limit]);
    let output = dblock.sh("echo ran").output();
    let asked = server
        .statements()
        .into_iter()
        .filter(|one| one.starts_with("SELECT") && one.contains("GET_LOCK"))
        .collect();
    (output, asked)
}

#[test]
fn a_clear_answer_is_believed() {
    for kind in BOTH {
        run(kind, &[yours()], "0")
            .0
            .expect_code(0)
            .expect_stdout("ran\n")
            .expect_silence();
        run(kind, &[taken()], "0")
            .0
            .expect_code(75)
            .expect_stdout("")
            .expect_one_line(OTHER);
        run(kind, &[taken(), taken(), yours()], "20")
            .0
            .expect_code(0)
            .expect_stdout("ran\n");
    }
}

#[test]
fn a_lock_that_is_taken_stays_taken_while_the_server_does_not_say_by_whom() {
    for options in [&["--wait", "0"][..], &["--wait", "1", "-v"]] {
        let mut answer = answers(&[taken()]);
        let server = Fake::start(Kind::MariaDb, move |statement| {
            let who = statement.contains("holder.id");
            if who {
                Answer::Silence
            } else {
                answer(statement)
            }
        });
        let run = Dblock::run_at(&server.url(), "x").args(options);
        let run = run.args(["--connect-timeout", "6", "--if-unreachable", "run"]);
        let output = run.sh("echo ran").output();
        output.expect_code(75).expect_stdout("");
        let asked = server.statements();
        let who = asked.iter().filter(|one| one.contains("holder.id"));
        assert_eq!(who.count(), 1, "{asked:?}");
    }
}

#[test]
fn a_server_that_owes_the_second_answer_of_a_packet_gets_no_more_than_its_share_of_the_time() {
    let server = Server::shared(Kind::MariaDb);
    // If each took two seconds, there would be no time for the third server.
    let owing = [(); 2].map(|()| {
        Fake::start(Kind::MariaDb, |statement| {
            if statement.starts_with("SELECT") {
                Answer::Silence
            } else {
                Answer::Ok
            }
        })
    });
    let ports = owing.iter().map(|fake| fake.port).chain([server.port]);
    let hosts: Vec<String> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
    let url = format!("mysql://dblock@{}/", hosts.join(","));
    let has_run = || {
        let run = Dblock::run_at(&url, &unique("owes")).args(["--connect-timeout", "3.9"]);
        run.sh("echo ran").output().stdout == "ran\n"
    };
    // A busy machine may not get as far as the third one in time.
    assert!((0..5).any(|_| has_run()));
    for fake in owing {
        let asked = fake.statements();
        assert!(
            asked.iter().any(|one| one.starts_with("SELECT")),
            "{asked:?}"
        );
    }
}

#[test]
fn an_unclear_answer_is_asked_again() {
    for kind in BOTH {
        for unclear in [
            says(None, None),
            error(1317),
            error(1213),
            error(3058),
            error(3024),
            error(1969),
            error(1205),
            instead(Answer::NoRow(1)),
        ] {
            for wait in ["0", "20"] {
                let (output, asked) = run(kind, &[unclear.clone(), unclear.clone(), yours()], wait);
                output.expect_code(0).expect_stdout("ran\n");
                assert_eq!(asked.len(), 3, "{asked:?}");
            }
            let (output, _) = run(kind, &[unclear.clone(), taken()], "0");
            output.expect_code(75).expect_stdout("");
        }
    }
}

#[test]
fn an_answer_that_stays_unclear_is_neither_taken_nor_mine() {
    for kind in BOTH {
        for unclear in [
            says(None, None),
            error(1317),
            error(1213),
            error(3058),
            error(3024),
            instead(Answer::NoRow(1)),
            says(Some("2"), None),
        ] {
            let (output, asked) = run(kind, &[unclear], "0");
            output
                .expect_code(70)
                .expect_stdout("")
                .expect_one_line("no clear answer about the lock");
            assert!(asked.len() >= 3, "{asked:?}");
        }
    }
}

#[test]
fn an_answer_of_another_type_is_an_error_and_starts_nothing() {
    for kind in BOTH {
        for wrong in ["what", "", "1.5"] {
            let (output, asked) = run(kind, &[says(Some(wrong), None), yours()], "20");
            output
                .expect_code(70)
                .expect_stdout("")
                .expect_one_line("unexpected type");
            assert_eq!(asked.len(), 1, "{asked:?}");
        }
    }
}

#[test]
fn unclear_answers_do_not_prolong_a_wait_and_are_not_asked_for_in_a_rush() {
    for kind in BOTH {
        for unclear in [says(None, None), error(3058)] {
            let (output, asked) = run(kind, &[taken(), unclear], "1");
            assert!(matches!(output.code, Some(70 | 75)), "{output:#?}");
            output
                .expect_stdout("")
                .expect_took(Duration::from_secs(1), Duration::from_secs(1) + slack());
            assert!(asked.len() < 30, "{} questions in a second", asked.len());
        }
    }
}

#[test]
fn a_statement_that_was_interrupted_may_have_taken_the_lock() {
    for kind in BOTH {
        let interrupted = Reply {
            holder: Some(OWN),
            ..error(1317)
        };
        run(kind, &[interrupted, taken()], "0")
            .0
            .expect_code(0)
            .expect_stdout("ran\n");
    }
}

#[test]
fn a_grant_after_a_wait_that_is_not_proved_starts_nothing() {
    for kind in BOTH {
        for holder in [Some(OTHER), None] {
            let late = says(Some("1"), holder);
            let (output, _) = run(kind, &[taken(), late, taken()], "1");
            assert!(matches!(output.code, Some(70 | 75)), "{output:#?}");
            output.expect_stdout("");
        }
        let (output, _) = run(
            kind,
            &[taken(), says(Some("1"), Some(OTHER)), yours()],
            "20",
        );
        output.expect_code(0).expect_stdout("ran\n");
    }
}

#[test]
fn a_grant_whose_holder_comes_back_for_it_is_let_go() {
    for kind in BOTH {
        let mut proofs = 0;
        let server = Fake::start(kind, move |statement| {
            let cells = match statement {
                _ if !statement.starts_with("SELECT") => return Answer::Ok,
                _ if statement.contains("SELECT RELEASE_LOCK") => {
                    return Answer::Row(vec![Some("1".to_owned()), None]);
                }
                // Nobody has ended the session that was given up.
                _ if statement.starts_with("SELECT IS_USED_LOCK(") => {
                    return Answer::Row(vec![None]);
                }
                // Taken at first; granted after a wait.
                _ if statement.contains("GET_LOCK(") && statement.contains("wait_timeout") => {
                    [Some("-1"), None, Some(OWN), None, None, Some(OWN)]
                }
                _ if proves_a_slot(statement) => {
                    proofs += 1;
                    let back = (proofs == 1).then_some(OTHER);
                    [Some("0"), None, Some(OWN), None, None, back]
                }
                _ => [Some("0"), None, Some(OWN), None, None, None],
            };
            Answer::Row(cells.map(|cell| cell.map(str::to_owned)).to_vec())
        });
        let dblock = Dblock::run_at(&server.url(), "x").args(["--wait", "20"]);
        let output = dblock.sh("echo ran").output();
        output.expect_code(0).expect_stdout("ran\n");
        // It stands back, as after any session that was lost.
        output.expect_took(Duration::from_secs(2), SOON);
    }
}

#[test]
fn a_lock_that_may_be_ours_is_not_asked_for_again() {
    // Taken twice it would have to be released twice.
    for kind in BOTH {
        let mut interrupted = 0;
        let server = Fake::start(kind, move |statement| {
            // The last is who has the mark, or with a proof who comes back for the slot.
            let mark = (!proves_a_slot(statement)).then_some(OWN);
            let held = || {
                let cells = [Some("0"), None, Some(OWN), None, None, mark];
                cells.map(|cell| cell.map(str::to_owned)).to_vec()
            };
            if statement.contains("SELECT RELEASE_LOCK") {
                return Answer::Row(vec![Some("1".to_owned())]);
            }
            interrupted += 1;
            match interrupted {
                _ if !statement.starts_with("SELECT") => Answer::Ok,
                ..=8 => Answer::error(1317, "interrupted"),
                _ => Answer::Row(held()),
            }
        });
        let dblock = Dblock::run_at(&server.url(), "x").args(["--wait", "20"]);
        dblock
            .sh("echo ran")
            .output()
            .expect_code(0)
            .expect_stdout("ran\n");
        let asked = |one: &&String| one.starts_with("SELECT") && one.contains("GET_LOCK");
        assert_eq!(server.statements().iter().filter(asked).count(), 1);
    }
}

#[test]
fn a_server_that_does_not_wait_is_not_asked_in_a_rush() {
    for kind in BOTH {
        let (output, asked) = run(kind, &[taken()], "1");
        output.expect_code(75).expect_stdout("");
        assert!(asked.len() <= 13, "{} questions in a second", asked.len());
    }
}

#[test]
fn a_server_without_such_locks_is_a_matter_of_configuration() {
    for kind in BOTH {
        for code in [1235, 1105] {
            let prohibited = Answer::error(code, "prohibits use of GET_LOCK");
            let (output, asked) = run(kind, &[instead(prohibited)], "20");
            output
                .expect_code(78)
                .expect_stdout("")
                .expect_one_line("prohibits use of GET_LOCK");
            assert_eq!(asked.len(), 1, "{asked:?}");
        }
    }
}

#[test]
fn an_account_that_is_refused_a_statement_is_refused() {
    for kind in BOTH {
        for code in [1820, 1142] {
            let (output, asked) = run(kind, &[error(code)], "20");
            output
                .expect_code(77)
                .expect_stdout("")
                .expect_one_line("told by the test");
            assert_eq!(asked.len(), 1, "{asked:?}");
        }
    }
}

#[test]
fn what_a_read_only_server_says_at_length_is_passed_on_in_part() {
    for kind in BOTH {
        let server = Fake::start(kind, |_| Answer::error(1290, &"read-only ".repeat(10_000)));
        let dblock = Dblock::run_at(&server.url(), "x").args(["--connect-timeout", "3"]);
        let output = dblock.command(["true"]).output();
        output.expect_code(78).expect_one_line("takes no writes");
    }
}

#[test]
fn any_other_error_is_an_error() {
    for kind in BOTH {
        let (output, _) = run(kind, &[error(1064)], "0");
        output
            .expect_code(70)
            .expect_stdout("")
            .expect_one_line("1064");
    }
}

#[test]
fn a_server_that_goes_away_at_the_question_is_asked_again() {
    for kind in BOTH {
        // 9001 is a proxy's that reaches none of its servers.
        for gone in [
            instead(Answer::Close),
            error(1053),
            error(1927),
            error(9001),
        ] {
            run(kind, &[gone.clone(), yours()], "0")
                .0
                .expect_code(0)
                .expect_stdout("ran\n");
            let (output, asked) = run_within("1", kind, &[gone], "0");
            output.expect_code(69).expect_stdout("").expect_one_line("");
            output.expect_took(Duration::from_millis(900), Duration::from_secs(1) + slack());
            assert!(asked.len() < 15, "{} attempts in a second", asked.len());
        }
    }
}

#[test]
fn a_holder_whose_server_answers_with_errors_asks_again_until_its_lease_is_over() {
    // A proxy's, and one that nobody knows.
    for (kind, code) in [(Kind::MariaDb, 9001), (Kind::MySql, 1644)] {
        let (failing, mut answer) = (Arc::new(AtomicBool::new(false)), answers(&[yours()]));
        let fails = Arc::clone(&failing);
        let server = Fake::start(kind, move |statement| {
            if fails.load(Ordering::Relaxed) {
                Answer::error(code, "told by the test")
            } else {
                answer(statement)
            }
        });
        let run = Dblock::run_at(&server.url(), "x").args(["--ttl", "8", "--kill-after", "0"]);
        let mut run = run.sh("echo began; exec sleep 60").spawn();
        run.wait_line("began", SOON);
        let (lost, asked) = (Instant::now(), server.statements().len());
        failing.store(true, Ordering::Relaxed);
        run.wait_stderr("told by the test", SOON);
        if kind == Kind::MySql {
            // An error of the server's own says nothing about the session, which is kept.
            let since = server.statements().split_off(asked);
            assert!(!since.iter().any(|one| one.starts_with("SET")), "{since:?}");
        }
        run.wait_within(SOON).expect_code(74);
        // The loss is noticed after a quarter of the TTL.
        assert!(
            lost.elapsed() > Duration::from_secs(3),
            "{:?}",
            lost.elapsed()
        );
        assert!(server.statements().len() > asked + 3);
    }
}

#[test]
fn a_server_that_says_nothing_to_the_question_is_given_up() {
    for kind in BOTH {
        let (output, _) = run_within("1", kind, &[instead(Answer::Silence)], "0");
        output.expect_code(69).expect_stdout("").expect_one_line("");
        output.expect_took(Duration::from_millis(900), Duration::from_secs(1) + slack());
    }
}

#[test]
fn a_proof_of_a_session_that_is_gone_by_then_starts_nothing() {
    for kind in BOTH {
        let (mut tries, mut proofs) = (0, 0);
        let server = Fake::start(kind, move |statement| {
            let mark = (!proves_a_slot(statement)).then_some(OWN);
            let slot = |slot: Option<&str>| {
                let cells = [slot, Some("0"), Some(OWN), None, None, mark];
                Answer::Row(cells.map(|cell| cell.map(str::to_owned)).to_vec())
            };
            match statement {
                // The server has ended the session meanwhile.
                _ if proofs == 1 && statement.starts_with("SET") => {
                    proofs += 1;
                    Answer::Close
                }
                _ if !statement.starts_with("SELECT") => Answer::Ok,
                _ if statement.contains("GET_LOCK(") => {
                    tries += 1;
                    // Taken; then granted after a wait; then taken for ever.
                    slot(Some(if tries == 2 { "0" } else { "-1" }))
                }
                _ if statement.contains("WHEN IFNULL(IS_USED_LOCK") => {
                    proofs += 1;
                    slot(Some("0"))
                }
                _ => slot(None),
            }
        });
        let dblock = Dblock::run_at(&server.url(), "x").args(["--wait", "1"]);
        let output = dblock.sh("echo ran").output();
        output.expect_code(75).expect_stdout("");
    }
}

#[test]
fn an_answer_that_was_promised_and_does_not_come_is_not_waited_for() {
    // What a KILL QUERY does that comes during the first of two statements in a packet.
    for kind in BOTH {
        for wait in ["0", "30"] {
            let passed_over = instead(Answer::Silence);
            let server = server(kind, &[passed_over, yours()]);
            let dblock = Dblock::run_at(&server.url(), "x").args(["--wait", wait]);
            let output = dblock.sh("echo ran").output();
            output.expect_code(0).expect_stdout("ran\n");
            output.expect_took(Duration::ZERO, Duration::from_secs(3) + slack());
        }
    }
}

#[test]
fn a_skip_is_told_even_if_nobody_knows_by_whom() {
    for kind in BOTH {
        let (output, _) = run(kind, &[says(Some("0"), None)], "0");
        output
            .expect_code(75)
            .expect_stdout("")
            .expect_one_line("x is ");
    }
}

both_servers! {
    fn an_uncontended_lock_costs_one_packet_and_its_release_two(server) {
        let (name, proxy) = (unique("packets"), Proxy::to(server));
        let mut dblock = Dblock::run_at(&proxy.url(), &name).sh("echo ran; read line; exit 0").stdin(std::process::Stdio::piped()).spawn();
        dblock.wait_line("ran", SOON);
        assert_eq!(proxy.packets().len(), 1, "{:?}", proxy.packets());
        assert!(proxy.packets()[0].statements().expect("statements").contains("GET_LOCK"));
        drop(dblock.take_stdin());
        dblock.wait().expect_code(0);
        // It is on its way when dblock exits.
        eventually("the goodbye", SOON, || proxy.packets().iter().any(Packet::is_quit));
        let packets = proxy.packets();
        assert_eq!((packets.len(), proxy.connections()), (3, 1), "{packets:?}");
        assert!(packets[1].statements().expect("statements").contains("SELECT RELEASE_LOCK"));
        assert!(packets[2].is_quit());
    }
}

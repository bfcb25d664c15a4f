//! `dblock acquire`, `renew`, `release` and `run --token`: a lock that spans several commands of a script.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::Signal;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::harness::{
    Client, Dblock, Frozen, Kind, Proxy, Records, SOON, Server, Texts, Watcher,
    all_servers_with_tables, eventually, eventually_gone, processes_with, send, slack, unique,
    url_of, url_of_kind, within,
};

/// `dblock acquire --name NAME`.
fn acquire(server: &Server, name: &str) -> Dblock {
    Dblock::at(server, "acquire").arg(format!("--name={name}"))
}

/// The token of a lock that must be free.
#[track_caller]
fn token(dblock: Dblock) -> String {
    let output = dblock.output();
    output.expect_code(0).expect_silence();
    one_word(&output.stdout)
}

/// The line of stdout, which is one word that a shell passes on as it is.
#[track_caller]
fn one_word(stdout: &str) -> String {
    let word = stdout.strip_suffix('\n').expect("a whole line");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_+.".contains(c);
    assert!(
        !word.is_empty() && word.chars().all(is_plain) && !word.starts_with('-'),
        "{word}"
    );
    word.to_owned()
}

/// What the history says of a lock, the oldest first.
#[track_caller]
fn history(server: &Server, name: &str) -> Vec<Value> {
    let output = Dblock::at(server, "history")
        .args([name, "--json"])
        .output();
    output.expect_code(0).expect_silence();
    output.json()["runs"].as_array().unwrap().clone()
}

fn renew(server: &Server, token: &str) -> Dblock {
    Dblock::at(server, "renew").arg(token)
}

fn release(server: &Server, token: &str) -> Dblock {
    Dblock::at(server, "release").arg(token)
}

fn run(server: &Server, token: &str) -> Dblock {
    Dblock::at(server, "run").args(["--token", token])
}

/// A token that was held before is void.
#[track_caller]
fn is_void(server: &Server, token: &str) {
    for dblock in [renew(server, token), release(server, token)] {
        let output = dblock.output();
        output
            .expect_code(74)
            .expect_stdout("")
            .expect_one_line("the token does not hold ");
        assert!(!output.stderr.contains(token), "{output:?}");
    }
    let output = run(server, token).sh("echo ran").output();
    output
        .expect_code(74)
        .expect_stdout("")
        .expect_one_line("the token does not hold ");
}

/// The number of the grant.
fn fence(token: &str) -> u64 {
    token.split('.').nth(2).unwrap().parse().unwrap()
}

/// The secret of a token.
fn secret(token: &str) -> &str {
    token.rsplit('.').next().unwrap()
}

/// The owner of the row of a token.
fn owner_by(token: &str) -> String {
    let hash = format!("{:x}", Sha256::digest(secret(token)));
    hash[..32].to_owned()
}

/// The owner that a slot's row has; `None`: nobody holds it.
fn owner(admin: &mut Client, name: &str, slot: u32) -> Option<String> {
    let row: Option<Option<String>> = admin
        .exec_first(
            "SELECT owner FROM dblock.dblock_locks WHERE name = ? AND slot = ?",
            (name, slot),
        )
        .unwrap();
    row.flatten()
}

/// How many seconds from now on slot 0 is held, by the server's clock.
fn held_for(admin: &mut Client, name: &str) -> f64 {
    let micros: i64 = admin
        .exec_first(
            "SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at) FROM dblock.dblock_locks
             WHERE name = ? AND slot = 0",
            (name,),
        )
        .unwrap()
        .expect("a row");
    Duration::from_micros(micros.max(0).unsigned_abs()).as_secs_f64()
}

/// For how many seconds slot 0 was granted or renewed last.
fn lasts(admin: &mut Client, name: &str) -> f64 {
    let micros: i64 = admin
        .exec_first(
            "SELECT TIMESTAMPDIFF(MICROSECOND, renewed_at, expires_at) FROM dblock.dblock_locks
             WHERE name = ? AND slot = 0",
            (name,),
        )
        .unwrap()
        .expect("a row");
    Duration::from_micros(micros.max(0).unsigned_abs()).as_secs_f64()
}

/// When slot 0 expires, in microseconds since 1970.
fn expires_at(admin: &mut Client, name: &str) -> i64 {
    admin
        .exec_first(
            "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', expires_at) FROM dblock.dblock_locks
             WHERE name = ? AND slot = 0",
            (name,),
        )
        .unwrap()
        .expect("a row")
}

/// Somebody else acquires slot 0, whoever holds it.
fn give_to_another(admin: &mut Client, name: &str) {
    let update = "UPDATE dblock.dblock_locks SET owner = REPEAT('0', 32), fence = fence + 1,
                  expires_at = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR WHERE name = ? AND slot = 0";
    admin.exec_drop(update, (name,)).unwrap();
}

/// The time of slot 0 is over.
fn expire(admin: &mut Client, name: &str) {
    let update = "UPDATE dblock.dblock_locks SET expires_at = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND
                  WHERE name = ? AND slot = 0";
    admin.exec_drop(update, (name,)).unwrap();
}

/// Locks the row of slot 0, which must be there: who takes it waits for the end of this transaction.
fn lock_row(server: &Server, name: &str) -> Client {
    let mut locker = server.watcher();
    locker.lock(&format!(
        "dblock.dblock_locks WHERE name = '{name}' AND slot = 0"
    ));
    locker
}

/// An account of its own, by which its sessions are known.
fn account(server: &Server) -> String {
    let account = server.account();
    server.grant("SELECT, INSERT, UPDATE, DELETE", "dblock", "*", &account);
    account
}

all_servers_with_tables! {
    fn a_token_is_one_word_whatever_the_name_is(server on mariadb) {
        let odd = [
            "two words".to_owned(),
            "it's a \"quoted\" $(name) `or` so; & | < > * ? ! ~ \\ { }".to_owned(),
            "Größe-日本語-".to_owned(),
            "-n".to_owned(),
            "=ls".to_owned(),
            "a.b+c=d%e/f".to_owned(),
            "x".repeat(150),
            "ü".repeat(80),
        ];
        for name in odd {
            let name = format!("{name}{}", unique("-"));
            let name = format!("{name}{}", "x".repeat(if name.len() > 150 { 200 - name.len() } else { 0 }));
            let token = token(acquire(server, &name));
            renew(server, &token).output().expect_code(0).expect_silence().expect_stdout("");
            acquire(server, &name).output().expect_code(75);
            run(server, &token).sh("printf %s \"$DBLOCK_NAME\"").output().expect_code(0).expect_stdout(&name);
            release(server, &token).output().expect_code(0).expect_silence().expect_stdout("");
        }
    }

    fn a_lock_that_is_taken_is_75_and_a_line_that_names_the_holder(server on mysql) {
        let name = unique("taken");
        let _token = token(acquire(server, &name));
        let output = acquire(server, &name).output();
        output.expect_code(75).expect_stdout("").expect_one_line(&format!("{name} is held by "));
        let name = unique("taken");
        let mut durable = Dblock::run(server, &name).sh("echo runs; read line").stdin(std::process::Stdio::piped()).spawn();
        durable.wait_line("runs", SOON);
        acquire(server, &name).output().expect_code(75).expect_one_line(&format!("{name} is held by "));
        drop(durable.take_stdin());
        durable.wait().expect_code(1);
        // Without a row, too.
        let name = unique("taken");
        let mut plain = Dblock::run_at(&server.url(), &name).sh("echo runs; exec sleep 600").spawn();
        plain.wait_line("runs", SOON);
        acquire(server, &name).output().expect_code(75).expect_one_line(&format!("{name} is held by "));
    }

    fn an_acquire_that_found_the_lock_taken_is_a_skip_in_the_history(server on mariadb) {
        let name = unique("skip");
        let first = token(acquire(server, &name));
        acquire(server, &name).output().expect_code(75).expect_one_line(&format!("{name} is held by "));
        acquire(server, &name).args(["--wait", "0.2"]).output().expect_code(75).expect_one_line("held by");
        release(server, &first).output().expect_code(0);
        let found = history(server, &name);
        let outcomes: Vec<_> = found.iter().map(|run| run["outcome"].as_str().unwrap()).collect();
        assert_eq!(outcomes, ["released", "skipped", "skipped"], "{found:#?}");
        for skip in &found[1..] {
            let message = skip["message"].as_str().unwrap();
            assert!(message.starts_with(&format!("{name} is held by ")) && message.ends_with("; not acquired"), "{message}");
            assert_eq!((&skip["program"], &skip["acquired"]), (&"dblock acquire".into(), &Value::Null));
        }
        // Of a plain lock, too.
        let name = unique("skip");
        let _client = server.hold(&name);
        acquire(server, &name).output().expect_code(75);
        assert_eq!(history(server, &name)[0]["outcome"], "skipped");
    }

    fn the_history_says_why_a_script_has_lost_its_lock(server on mysql) {
        let (name, mut admin) = (unique("why"), server.watcher());
        let owned = || acquire(server, &name).args(["--owner", "me"]);
        let told = |at: usize| history(server, &name)[at].clone();
        let lost = |at: usize, why: &str| {
            let run = told(at);
            let message = run["message"].as_str().unwrap_or_default();
            assert!(run["outcome"] == "lost" && message.starts_with(why), "{why}: {run:#}");
            run
        };
        // Taken over.
        token(owned());
        let second = token(owned());
        let taken = lost(0, "taken over for the same owner by ");
        assert!(!taken["ended"].is_null() && taken["message"].as_str().unwrap().contains(", pid "), "{taken:#}");
        assert_eq!(told(1)["outcome"], "running");
        // Its time is over; it may come back as long as nobody has acquired it.
        expire(&mut admin, &name);
        assert!(lost(1, "expired: it was neither renewed nor released in time")["ended"].is_null());
        renew(server, &second).output().expect_code(0);
        assert_eq!(told(1)["outcome"], "running");
        expire(&mut admin, &name);
        let third = token(acquire(server, &name));
        assert!(!lost(1, "expired: it was neither renewed nor released in time")["ended"].is_null());
        is_void(server, &second);
        // Ended, while it is a script's, and while a command is under it; and by force.
        let kill = || Dblock::at(server, "kill").arg(&name);
        kill().output().expect_code(0);
        lost(2, "ended by dblock kill on ");
        is_void(server, &third);
        for (at, force) in [(3, None), (5, Some("--force"))] {
            let under = token(acquire(server, &name));
            let mut running = run(server, &under).without_terminal().sh("echo runs; exec sleep 600").spawn();
            running.wait_line("runs", SOON);
            assert_eq!((&told(at)["outcome"], &told(at + 1)["outcome"]), (&"running".into(), &"running".into()));
            kill().args(force).output().expect_code(0);
            running.wait_within(SOON).expect_code(74);
            lost(at, "ended by dblock kill on ");
            assert_eq!((&told(at + 1)["outcome"], &told(at + 1)["program"]), (&"lost".into(), &"sh".into()));
        }
        // A durable run takes a script's row, too.
        token(acquire(server, &name));
        expire(&mut admin, &name);
        Dblock::run(server, &name).command(["true"]).output().expect_code(0);
        assert!(!lost(7, "expired")["ended"].is_null());
        let failed = Dblock::at(server, "history").args([&name, "--failed", "--json"]).output();
        let failed = failed.json();
        assert_eq!(failed["runs"].as_array().unwrap().len(), 8, "{failed:#}");
    }

    fn one_command_at_a_time_is_under_a_token(server on mariadb) {
        let name = unique("two");
        let first = token(acquire(server, &name));
        let mut running = run(server, &first).sh("echo runs; read line; exit 5").stdin(std::process::Stdio::piped()).spawn();
        running.wait_line("runs", SOON);
        let refused = run(server, &first).sh("echo ran").output();
        let pid = format!("pid {}", running.pid());
        refused.expect_code(75).expect_stdout("").expect_one_line(&format!("{name} is held by "));
        refused.expect_said([&*pid]);
        run(server, &first).args(["-E", "9"]).sh("echo ran").output().expect_code(9).expect_stdout("");
        // The script may renew its lock meanwhile.
        renew(server, &first).output().expect_code(0);
        drop(running.take_stdin());
        running.wait().expect_code(5).expect_silence();
        run(server, &first).sh("echo second").output().expect_code(0).expect_stdout("second\n");
        let outcomes: Vec<_> = history(server, &name).iter().map(|run| run["outcome"].as_str().unwrap().to_owned()).collect();
        assert_eq!(outcomes, ["running", "ran", "skipped", "skipped", "ran"]);
        release(server, &first).output().expect_code(0);
    }

    fn a_command_whose_host_has_died_keeps_its_token_no_longer_than_its_lease(server on mysql) {
        let (name, mut admin) = (unique("died"), server.watcher());
        let first = token(acquire(server, &name).args(["--ttl", "1h"]));
        let mut dead = run(server, &first).without_terminal().sh("echo shell $$; exec sleep 600").spawn();
        let command = dead.wait_pid("shell");
        let keeper = dead.keeper(Some(command));
        let stopped = [Frozen::new(dead.pid()), Frozen::new(keeper)];
        let mut run_until = |when: &str| {
            let update = format!("UPDATE dblock.dblock_locks SET command_until = UTC_TIMESTAMP(6) {when} WHERE name = ?");
            admin.exec_drop(update, (&name,)).unwrap();
        };
        // It may live.
        run(server, &first).sh("echo ran").output().expect_code(75).expect_stdout("");
        renew(server, &first).args(["--ttl", "4s"]).output().expect_code(0);
        assert!(held_for(&mut server.watcher(), &name) > 3000.0);
        run_until("- INTERVAL 1 SECOND");
        renew(server, &first).args(["--ttl", "400s"]).output().expect_code(0);
        let left = held_for(&mut server.watcher(), &name);
        assert!(left <= 400.0 && left > 300.0, "{left}");
        let status = Dblock::at(server, "status").args(["--json", &name]).output();
        assert!(status.stdout.contains("\"kind\": \"token\""), "{status:?}");
        let mut next = run(server, &first).sh("echo next; read line").stdin(std::process::Stdio::piped()).spawn();
        next.wait_line("next", SOON);
        // The other one lives after all, and finds that out.
        drop(stopped);
        let session = server.holder(&format!("#{}", owner_by(&first)));
        if let Some(session) = session {
            server.watcher().end_session(session);
        }
        dead.wait_within(SOON).expect_code(74).expect_said(["its row says that it is held by"]);
        drop(next.take_stdin());
        next.wait().expect_code(1).expect_silence();
        release(server, &first).output().expect_code(0);
    }

    fn who_waits_gets_it_when_it_is_released(server) {
        let name = unique("waits");
        let first = token(acquire(server, &name));
        let mut waiting = acquire(server, &name).args(["--wait", "50", "-v"]).spawn();
        waiting.wait_stderr("waiting", SOON);
        // Who waits is not who holds it.
        let taken = acquire(server, &name).output();
        taken.expect_code(75).expect_one_line(&format!("{name} is held by "));
        assert!(!taken.stderr.contains(&format!("pid {}", waiting.pid())), "{taken:?}");
        release(server, &first).output().expect_code(0).expect_silence();
        let second = one_word(&waiting.wait().expect_code(0).stdout);
        assert!(fence(&second) > fence(&first), "{first} {second}");
        is_void(server, &first);
        release(server, &second).output().expect_code(0);
    }

    fn who_waits_gets_it_when_its_ttl_is_over(server on mariadb) {
        let (name, mut admin) = (unique("expires"), server.watcher());
        // A token that is printed when half of its time is over is lost.
        let first = token(acquire(server, &name));
        renew(server, &first).args(["--ttl", "4s"]).output().expect_code(0);
        let end = expires_at(&mut admin, &name);
        let second = acquire(server, &name).args(["--wait", "50", "--ttl", "1h"]).output();
        let second = one_word(&second.expect_code(0).expect_silence().stdout);
        assert!(expires_at(&mut admin, &name) - 3_600_000_000 >= end, "acquired before the other's end");
        assert!(fence(&second) > fence(&first), "{first} {second}");
        is_void(server, &first);
    }

    fn a_token_and_a_durable_run_wait_for_one_another(server) {
        let (name, records) = (unique("both"), Records::new());
        let file = records.path().join("records");
        let mut run = Dblock::run(server, &name).command(records.command_around(0, "echo runs; read line"));
        run = run.stdin(std::process::Stdio::piped());
        let mut first = run.spawn();
        first.wait_line("runs", SOON);
        let mut waiting = acquire(server, &name).args(["--wait", "50", "-v"]).spawn();
        waiting.wait_stderr("waiting", SOON);
        drop(first.take_stdin());
        let second = one_word(&waiting.wait().expect_code(0).stdout);
        first.wait().expect_code(0);
        let note = |what: &str| {
            let line = format!("echo {what} 1 $(date +%s%N) >>{}", file.display());
            assert!(std::process::Command::new("sh").args(["-c", &line]).status().unwrap().success());
        };
        note("start");
        let third = Dblock::run(server, &name).args(["--wait", "50", "-v"]).command(records.command(2));
        let mut third = third.spawn();
        third.wait_stderr("waiting", SOON);
        note("end");
        release(server, &second).output().expect_code(0);
        third.wait().expect_code(0);
        assert_eq!(records.assert_no_overlap().order(), [0, 1, 2]);
    }

    fn a_wait_ends_in_time(server on mysql) {
        let name = unique("late");
        let _token = token(acquire(server, &name));
        for wait in ["0", "1s"] {
            let output = acquire(server, &name).args(["--wait", wait]).output();
            output.expect_code(75).expect_one_line(&format!("{name} is held by "));
            let least = if wait == "0" { Duration::ZERO } else { Duration::from_secs(1) };
            output.expect_took(least, least + slack());
        }
    }

    fn each_slot_has_a_token(server on mariadb) {
        let name = unique("slots");
        let [first, second] = [(); 2].map(|()| token(acquire(server, &name).args(["-m", "2"])));
        let slot = |token: &str| token.split('.').nth(1).unwrap().to_owned();
        assert_ne!(slot(&first), slot(&second));
        acquire(server, &name).args(["-m", "2"]).output().expect_code(75).expect_one_line("held by");
        let third = token(acquire(server, &name).args(["-m", "3"]));
        assert_eq!(slot(&third), "2");
        for token in [&third, &first, &second] {
            let output = run(server, token).sh("echo $DBLOCK_SLOT $DBLOCK_FENCE").output();
            output.expect_code(0).expect_stdout(&format!("{} {}\n", slot(token), fence(token)));
        }
        release(server, &second).output().expect_code(0);
        let again = token(acquire(server, &name).args(["-m", "2"]));
        assert_eq!(slot(&again), slot(&second));
        assert!(fence(&again) > fence(&second));
    }

    fn json_says_what_was_acquired(server on mysql) {
        let name = unique("json");
        let output = acquire(server, &name).args(["--slots", "red,blue", "--json", "--ttl", "90s", "--owner", "me"]).output();
        let json = output.expect_code(0).expect_silence().json();
        let token = json["token"].as_str().unwrap();
        assert_eq!(json["name"], *name);
        assert_eq!((&json["slot"], &json["slot_name"]), (&0.into(), &"red".into()));
        assert_eq!((&json["fence"], &json["ttl_seconds"]), (&fence(token).into(), &90.0.into()));
        assert_eq!(json["owner"], "me");
        let unnamed = acquire(server, &unique("unnamed")).arg("--json").output();
        let unnamed = unnamed.expect_code(0).expect_silence().json();
        assert_eq!((&unnamed["slot_name"], &unnamed["owner"]), (&Value::Null, &Value::Null));
        let output = run(server, token).args(["--slots", "red,blue"]).sh("echo $DBLOCK_SLOT_NAME").output();
        output.expect_code(0).expect_stdout("red\n");
        release(server, token).output().expect_code(0);
    }

    fn who_names_the_same_owner_takes_the_lock_over(server on mariadb) {
        let name = unique("owner");
        let owned = |id: &str| acquire(server, &name).args(["--owner", id]);
        let first = token(owned("pipeline 7"));
        // Also when others wait for it, and no matter how long.
        let mut waiting = acquire(server, &name).args(["--wait", "500", "-v"]).spawn();
        waiting.wait_stderr("waiting", SOON);
        owned("pipeline 8").output().expect_code(75).expect_one_line("held by");
        owned("PIPELINE 7").output().expect_code(75);
        let second = token(owned("pipeline 7"));
        assert!(fence(&second) > fence(&first), "{first} {second}");
        is_void(server, &first);
        renew(server, &second).output().expect_code(0);
        assert!(waiting.is_running());
        release(server, &second).output().expect_code(0);
        let third = one_word(&waiting.wait().expect_code(0).stdout);
        // It has no owner now, and nobody takes it over.
        owned("pipeline 7").output().expect_code(75);
        release(server, &third).output().expect_code(0);
    }

    fn who_names_the_same_owner_takes_its_slot_over(server on mysql) {
        let name = unique("owner");
        let owned = |id: &str| acquire(server, &name).args(["-m", "3", "--owner", id]);
        let first = token(owned("one"));
        let second = token(owned("two"));
        release(server, &first).output().expect_code(0);
        // A slot before it is free.
        let third = token(owned("two"));
        assert_eq!(third.split('.').nth(1), second.split('.').nth(1));
        assert!(fence(&third) > fence(&second), "{second} {third}");
        is_void(server, &second);
        release(server, &third).output().expect_code(0);
    }

    fn a_command_under_a_token_that_is_taken_over_is_ended(server on mariadb) {
        let name = unique("owner");
        let first = token(acquire(server, &name).args(["--owner", "me", "--ttl", "12s"]));
        let mut running = run(server, &first).sh("echo runs; exec sleep 600").spawn();
        running.wait_line("runs", SOON);
        let second = token(acquire(server, &name).args(["--owner", "me"]));
        running.wait().expect_code(74).expect_line(&format!("dblock: {name} was lost while the command runs: "));
        release(server, &second).output().expect_code(0);
    }

    fn a_ttl_is_4s_to_30d_and_10m_if_not_given(server on mysql) {
        let (name, mut admin) = (unique("ttl"), server.watcher());
        for wrong in ["3s", "0", "4.5s", "31d", "30d 1s", "forever"] {
            let output = acquire(server, &name).args(["--ttl", wrong]).output();
            output.expect_code(64).expect_one_line("--ttl: ");
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("my.cnf");
        fs::write(&file, "[dblock]\nttl = 1h\nwait = 50\n").unwrap();
        for (args, seconds) in [(vec![], 600.0), (vec!["--ttl", "30d"], 2_592_000.0), (vec!["--ttl=4s"], 4.0)] {
            let defaults = format!("--defaults-file={}", file.display());
            // On a busy machine half of 4 s may be over before it is printed; then it is lost.
            let mut acquired = None;
            eventually("it is printed in time", SOON, || {
                let output = acquire(server, &name).arg(&defaults).args(&args).output();
                let is_late = seconds < 5.0 && output.code == Some(74);
                acquired = (!is_late).then_some(output);
                acquired.is_some()
            });
            let acquired = acquired.unwrap();
            acquired.expect_code(0).expect_silence();
            let (left, lasts) = (held_for(&mut admin, &name), lasts(&mut admin, &name));
            assert!((lasts - seconds).abs() < 0.1 && left <= seconds, "{left} and {lasts} of {seconds}");
            release(server, &one_word(&acquired.stdout)).output().expect_code(0);
        }
    }

    fn a_renewal_lasts_as_long_as_it_says_or_as_the_lock_was_acquired(server on mariadb) {
        let (name, mut admin) = (unique("renew"), server.watcher());
        let first = token(acquire(server, &name).args(["--ttl", "100s"]));
        for (args, seconds) in [(vec![], 100.0), (vec!["--ttl", "10s"], 10.0), (vec!["--ttl", "1h"], 3600.0), (vec![], 3600.0)] {
            expire_in(&mut admin, &name, 5);
            renew(server, &first).args(args).output().expect_code(0).expect_silence();
            let (left, lasts) = (held_for(&mut admin, &name), lasts(&mut admin, &name));
            assert!((lasts - seconds).abs() < 0.1 && left <= seconds, "{left} and {lasts} of {seconds}");
        }
        renew(server, &first).args(["--ttl", "3s"]).output().expect_code(64).expect_one_line("--ttl: ");
        renew(server, &first).args(["--ttl", "31d"]).output().expect_code(64);
        // Its time is over, and nobody has acquired it.
        expire(&mut admin, &name);
        renew(server, &first).output().expect_code(0).expect_silence();
        acquire(server, &name).output().expect_code(75);
        expire(&mut admin, &name);
        let second = token(acquire(server, &name));
        is_void(server, &first);
        renew(server, &second).output().expect_code(0);
    }

    fn a_release_is_74_the_second_time(server on mysql) {
        let (name, mut admin) = (unique("release"), server.watcher());
        let first = token(acquire(server, &name));
        release(server, &first).output().expect_code(0).expect_silence();
        assert_eq!(owner(&mut admin, &name, 0), None);
        is_void(server, &first);
        // After its time, and by a second token of the same name.
        let second = token(acquire(server, &name));
        is_void(server, &first);
        expire(&mut admin, &name);
        release(server, &second).output().expect_code(0);
    }

    fn a_release_frees_a_lock_whose_holder_is_to_be_ended(server on mariadb) {
        let (name, mut admin) = (unique("release"), server.watcher());
        let first = token(acquire(server, &name));
        let update = "UPDATE dblock.dblock_locks SET kill_requested_at = UTC_TIMESTAMP(6), kill_requested_by = 'web9' WHERE name = ?";
        admin.exec_drop(update, (&name,)).unwrap();
        release(server, &first).output().expect_code(0).expect_silence();
        assert_eq!(owner(&mut admin, &name, 0), None);
    }

    fn what_is_no_token_is_64_and_not_shown(server on mysql) {
        let name = unique("malformed");
        let whole = token(acquire(server, &name));
        let secret = whole.rsplit('.').next().unwrap();
        for wrong in [
            format!("{whole}0"),
            whole[..whole.len() - 1].to_owned(),
            format!("{whole} {whole}"),
            format!(" {whole}"),
            secret.to_owned(),
            whole.replace(".0.", ".x."),
            whole.to_uppercase(),
        ] {
            for dblock in [renew(server, &wrong), release(server, &wrong), run(server, &wrong).sh("echo ran")] {
                let output = dblock.output();
                output.expect_code(64).expect_stdout("").expect_one_line("is not what dblock acquire has printed");
                assert!(!output.stderr.to_lowercase().contains(&secret[..31]), "{output:?}");
            }
        }
        for command in ["renew", "release"] {
            Dblock::at(server, command).output().expect_code(64).expect_one_line("no token is given");
            Dblock::at(server, command).arg("").output().expect_code(64);
        }
        Dblock::at(server, "run").sh("echo ran").output().expect_code(64).expect_one_line("no name is given");
        release(server, &whole).output().expect_code(0);
    }

    fn a_token_of_another_lock_or_grant_is_void(server on mariadb) {
        let (one, other, mut admin) = (unique("one"), unique("other"), server.watcher());
        let first = token(acquire(server, &one));
        let second = token(acquire(server, &other));
        is_void(server, &first.replacen(&one, &other, 1));
        is_void(server, &first.replacen(&one, &unique("nobody"), 1));
        is_void(server, &first.replace(".0.", ".1."));
        is_void(server, &first.replace(&format!(".{}.", fence(&first)), &format!(".{}.", fence(&first) + 1)));
        let another = format!("{}{}", &second[..second.len() - 32], &first[first.len() - 32..]);
        is_void(server, &another);
        renew(server, &first).output().expect_code(0);
        admin.exec_drop("DELETE FROM dblock.dblock_locks WHERE name = ?", (&one,)).unwrap();
        is_void(server, &first);
        renew(server, &second).output().expect_code(0);
    }

    fn a_token_may_come_from_stdin_or_the_environment(server on mysql) {
        let name = unique("sources");
        let token = token(acquire(server, &name));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        fs::write(&file, format!("{token}\nfor the command\n")).unwrap();
        let input = || File::open(&file).unwrap();
        renew(server, "-").stdin(input()).output().expect_code(0);
        run(server, "-").stdin(input()).command(["cat"]).output().expect_code(0).expect_stdout("for the command\n");
        renew(server, "-").output().expect_code(64).expect_one_line("is not what dblock acquire has printed");
        let at = |command| Dblock::at(server, command).env("DBLOCK_TOKEN", &token);
        at("renew").output().expect_code(0);
        at("run").sh("echo $DBLOCK_NAME").output().expect_code(0).expect_stdout(&format!("{name}\n"));
        // A lock of another name is another lock, and none of a token.
        let other = unique("other");
        at("run").args(["--name", &other]).sh("echo $DBLOCK_NAME-$DBLOCK_FENCE").output().expect_code(0)
            .expect_stdout(&format!("{other}-\n"));
        // The argument counts more.
        at("release").arg("x").output().expect_code(64);
        at("release").output().expect_code(0);
        at("release").output().expect_code(74);
        let config = at("config").output();
        // The variable is told, and not what is in it.
        let (told, secret) = (&config.expect_code(0).stdout, token.rsplit('.').next().unwrap());
        assert!(told.contains("DBLOCK_TOKEN") && !told.contains(secret), "{config:?}");
        // One that is set to nothing counts as not set.
        Dblock::at(server, "renew").env("DBLOCK_TOKEN", "").output().expect_code(64).expect_one_line("no token is given");
    }

    fn whoever_reads_the_tables_the_history_or_the_status_has_no_token(server) {
        let (name, mut admin) = (unique("secret"), server.watcher());
        let first = token(acquire(server, &name));
        let mut running = run(server, &first).sh("echo runs; read line").stdin(std::process::Stdio::piped()).spawn();
        running.wait_line("runs", SOON);
        let shown = |command: &str, args: &[&str]| {
            let output = Dblock::at(server, command).arg(&name).args(args).output();
            output.expect_code(0);
            format!("{}{}", output.stdout, output.stderr)
        };
        let mut told = Vec::new();
        for args in [&[][..], &["--json"], &["-vv"], &["--json", "-vv"]] {
            told.extend([shown("history", args), shown("status", args)]);
        }
        // A page of it goes on from a run.
        told.push(shown("history", &["-n", "1", "-vv"]));
        told.push(shown("kill", &["--dry-run", "-vv"]));
        for table in ["dblock_locks", "dblock_runs", "dblock_successes"] {
            let rows: Vec<Texts> = admin.exec(format!("SELECT * FROM dblock.{table} WHERE name = ?"), (&name,)).unwrap();
            told.push(format!("{rows:?}"));
        }
        let all = told.join("\n");
        assert!(all.contains(&owner_by(&first)), "{all}");
        assert!(!all.contains(secret(&first)), "{all}");
        drop(running.take_stdin());
        running.wait();
        // What is shown of it is no token.
        is_void(server, &first.replace(secret(&first), &owner_by(&first)));
        release(server, &first).output().expect_code(0);
    }

    fn a_command_does_not_see_the_token_with_scrub_env(server on mariadb) {
        let token = token(acquire(server, &unique("scrub")));
        let at = || Dblock::at(server, "run").env("DBLOCK_TOKEN", &token);
        at().sh("echo ${DBLOCK_TOKEN:-none}").output().expect_code(0).expect_stdout(&format!("{token}\n"));
        at().arg("--scrub-env").sh("echo ${DBLOCK_TOKEN:-none}").output().expect_code(0).expect_stdout("none\n");
    }

    fn a_command_runs_under_a_token_and_does_not_release_it(server on mysql) {
        let (name, mut admin) = (unique("under"), server.watcher());
        let token = token(acquire(server, &name));
        let output = run(server, &token).sh("echo $DBLOCK_NAME $DBLOCK_SLOT $DBLOCK_FENCE; exit 7").output();
        output.expect_code(7).expect_silence().expect_stdout(&format!("{name} 0 {}\n", fence(&token)));
        run(server, &token).sh("kill -TERM $$").output().expect_signal(Signal::SIGTERM);
        let mut trapping = run(server, &token).sh("trap 'echo heard; exit 3' INT; echo ready; while :; do sleep 0.02; done").spawn();
        trapping.wait_line("ready", SOON);
        trapping.signal(Signal::SIGINT);
        trapping.wait().expect_code(3).expect_stdout("ready\nheard\n");
        assert_eq!(owner(&mut admin, &name, 0).as_deref(), Some(&*owner_by(&token)));
        acquire(server, &name).output().expect_code(75);
        run(server, &token).args(["--name", &name]).command(["true"]).output().expect_code(0);
        let output = run(server, &token).args(["--name", &unique("other")]).sh("echo ran").output();
        output.expect_code(64).expect_stdout("").expect_one_line("the token is of another lock than ");
        run(server, &token).arg("--durable").command(["true"]).output().expect_code(64);
        release(server, &token).output().expect_code(0);
    }

    fn the_lock_is_renewed_while_the_command_runs(server on mariadb) {
        let (name, mut admin) = (unique("renewed"), server.watcher());
        let token = token(acquire(server, &name).args(["--ttl", "10s"]));
        let begun = expires_at(&mut admin, &name);
        let mut running = run(server, &token).sh("echo runs; read line").stdin(std::process::Stdio::piped()).spawn();
        running.wait_line("runs", SOON);
        eventually("it has been renewed for longer than its TTL", SOON, || {
            assert!(held_for(&mut admin, &name) > 0.0, "it has expired: {}", running.stderr());
            expires_at(&mut admin, &name) > begun + 10_000_000
        });
        acquire(server, &name).output().expect_code(75);
        drop(running.take_stdin());
        running.wait().expect_code(1).expect_silence();
        // As at the beginning, from the end of the command on.
        let (left, lasts) = (held_for(&mut admin, &name), lasts(&mut admin, &name));
        assert!((lasts - 10.0).abs() < 0.1 && left > 0.0 && left <= 10.0, "{left} and {lasts}");
        let mut longer = run(server, &token).args(["--ttl", "1h"]).sh("echo runs; read line").stdin(std::process::Stdio::piped()).spawn();
        longer.wait_line("runs", SOON);
        assert!(held_for(&mut admin, &name) > 3000.0);
        drop(longer.take_stdin());
        longer.wait().expect_code(1).expect_silence();
        release(server, &token).output().expect_code(0);
    }

    fn a_renewal_takes_no_time_from_a_command(server on mysql) {
        let (name, mut admin) = (unique("shorter"), server.watcher());
        let token = token(acquire(server, &name).args(["--ttl", "1h"]));
        let mut running = run(server, &token).sh("echo runs; read line").stdin(std::process::Stdio::piped()).spawn();
        running.wait_line("runs", SOON);
        // The command's own next renewal is a minute away.
        for _ in 0..2 {
            renew(server, &token).args(["--ttl", "4s"]).output().expect_code(0);
            assert!(held_for(&mut admin, &name) > 3000.0);
        }
        drop(running.take_stdin());
        running.wait().expect_code(1).expect_silence();
        renew(server, &token).args(["--ttl", "4s"]).output().expect_code(0);
        assert!(held_for(&mut admin, &name) <= 4.0);
        release(server, &token).output().expect_code(0);
    }

    fn a_command_is_ended_when_its_token_is_void(server on mariadb) {
        let (name, mut admin) = (unique("lost"), server.watcher());
        let token = token(acquire(server, &name).args(["--ttl", "12s"]));
        let mut running = run(server, &token).sh("echo runs $$; exec sleep 600").spawn();
        let command = running.wait_pid("runs");
        give_to_another(&mut admin, &name);
        let output = running.wait();
        output.expect_code(74).expect_line(&format!("dblock: {name} was lost while the command runs: "));
        eventually_gone(command, SOON);
        assert_eq!(owner(&mut admin, &name, 0).as_deref(), Some("0".repeat(32).as_str()));
        is_void(server, &token);
    }

    fn a_release_ends_a_command_under_the_token(server on mysql) {
        let name = unique("lost");
        let token = token(acquire(server, &name).args(["--ttl", "12s"]));
        let mut running = run(server, &token).sh("echo runs; exec sleep 600").spawn();
        running.wait_line("runs", SOON);
        release(server, &token).output().expect_code(0);
        running.wait().expect_code(74);
        let next = self::token(acquire(server, &name));
        release(server, &next).output().expect_code(0);
    }

    fn a_killed_session_ends_no_command_under_a_token(server) {
        let (name, mut admin) = (unique("session"), server.watcher());
        // The command's own next renewal is a minute away.
        let token = token(acquire(server, &name).args(["--ttl", "1h"]));
        let mut running = run(server, &token).sh("echo runs $DBLOCK_CONNECTION_ID; read line; exit 5")
            .stdin(std::process::Stdio::piped()).spawn();
        let connection = running.wait_pid("runs");
        let before = expires_at(&mut admin, &name);
        admin.end_session(connection.try_into().unwrap());
        eventually("it is renewed on another session", SOON, || expires_at(&mut admin, &name) > before);
        drop(running.take_stdin());
        running.wait().expect_code(5).expect_silence();
        release(server, &token).output().expect_code(0);
    }

    fn a_killed_dblock_takes_its_command_along_and_leaves_the_token(server on mariadb) {
        let (name, mut admin) = (unique("sigkill"), server.watcher());
        let token = token(acquire(server, &name));
        let mut running = run(server, &token).sh("echo runs $$; exec sleep 600").spawn();
        let command = running.wait_pid("runs");
        running.signal(Signal::SIGKILL);
        running.wait().expect_signal(Signal::SIGKILL);
        eventually_gone(command, SOON);
        assert_eq!(owner(&mut admin, &name, 0).as_deref(), Some(&*owner_by(&token)));
        release(server, &token).output().expect_code(0);
    }

    fn a_signal_at_any_moment_leaves_nothing_or_a_token(server on mysql) {
        let (name, account, mut admin) = (unique("signal"), account(server), server.watcher());
        let mut printed = 0;
        // Longer than it takes here, where nothing holds it up.
        let times = [(); 3].map(|()| {
            let begun = Instant::now();
            let token = token(acquire(server, &name).user(&account));
            let took = begun.elapsed();
            release(server, &token).output().expect_code(0);
            took
        });
        let longest = 2 * times.into_iter().min().unwrap();
        for round in 0..60 {
            let signal = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGKILL][round % 3];
            let mut running = acquire(server, &name).user(&account).args(["--ttl", "1h"]).spawn();
            // One comes to its end, however long that takes.
            let moment = if round == 0 { SOON } else { longest.mul_f64(fastrand::f64()) };
            within(moment, || !running.is_running());
            if running.is_running() {
                running.signal(signal);
            }
            let output = running.wait();
            eventually("its session has ended", SOON, || server.sessions_of(&account) == 0);
            if let Some(token) = output.stdout.strip_suffix('\n') {
                printed += 1;
                let released = release(server, token).output();
                // Killed between the print and the end: it may be released or not.
                let is_sure = output.code == Some(0);
                assert!(released.code == Some(0) || !is_sure && released.code == Some(74), "{output:?} {released:?}");
                assert!(is_sure || signal == Signal::SIGKILL || released.code == Some(74), "{output:?}");
            }
            // Another session may withdraw what was granted to one that is gone.
            eventually(&format!("the lock is free: {output:?}"), SOON, || owner(&mut admin, &name, 0).is_none());
        }
        assert!(printed > 0 && printed < 60, "{printed}");
    }

    fn a_signal_at_any_moment_leaves_the_token_to_its_script(server on mariadb) {
        let (name, proxy) = (unique("handed"), Proxy::to(server));
        let mut token = token(acquire(server, &name).args(["--ttl", "1h"]));
        // It takes over the token in one statement, whose answer comes late.
        proxy.delay(Duration::from_millis(20));
        let begun = Instant::now();
        run(server, &token).env("DBLOCK_URL", proxy.url()).command(["true"]).output().expect_code(0);
        let (longest, mut late) = (begun.elapsed(), 0);
        for _ in 0..25 {
            let mut running = run(server, &token).env("DBLOCK_URL", proxy.url()).command(["true"]).spawn();
            within(longest.mul_f64(fastrand::f64()), || !running.is_running());
            // It may have ended just now.
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(running.pid()), Signal::SIGTERM);
            let signalled = Instant::now();
            let output = running.wait();
            // Who is told to end waits for the server for a second only, and says so.
            if signalled.elapsed() >= Duration::from_secs(1) && output.stderr.contains("the server did not answer; ") {
                late += 1;
                release(server, &token).output().expect_code(0);
                token = self::token(acquire(server, &name).args(["--ttl", "1h"]));
                continue;
            }
            let next = run(server, &token).command(["true"]).output();
            assert_eq!(next.code, Some(0), "{output:?} {next:?}");
        }
        assert!(late < 12, "{late} of 25 were late");
        release(server, &token).output().expect_code(0);
    }

    fn a_signal_ends_the_wait_and_leaves_nothing(server on mysql) {
        let (name, account) = (unique("signal"), account(server));
        let token = token(acquire(server, &name));
        for round in 0..30 {
            let signal = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGKILL][round % 3];
            let mut waiting = acquire(server, &name).user(&account).args(["--wait", "forever"]).spawn();
            within(Duration::from_micros(fastrand::u64(0..200_000)), || false);
            assert!(waiting.is_running());
            waiting.signal(signal);
            waiting.wait().expect_signal(signal).expect_stdout("");
            eventually("its session has ended", SOON, || server.sessions_of(&account) == 0);
        }
        let none = || processes_with(&format!("--name={name}")).is_empty();
        eventually("no process is left", SOON, none);
        // The session of one that was killed as it logged in may have come only then.
        eventually("no place is left", SOON, || server.sessions_of(&account) == 0 && server.holder(&name).is_none());
        release(server, &token).output().expect_code(0);
        let after = self::token(acquire(server, &name));
        release(server, &after).output().expect_code(0);
    }

    fn a_token_that_cannot_be_printed_holds_nothing(server on mariadb) {
        let (name, mut admin) = (unique("print"), server.watcher());
        let full = || File::options().write(true).open("/dev/full").unwrap();
        let (reader, broken) = io::pipe().unwrap();
        drop(reader);
        // A process that another test starts just now has it, too, until it runs its program.
        eventually("nobody reads it", SOON, || (&broken).write_all(b"x").is_err());
        let closed = || acquire(server, &name).pre_exec(|| {
            // SAFETY: closes a descriptor of the new process.
            unsafe { libc::close(1) };
            Ok(())
        });
        let broken = || broken.as_fd().try_clone_to_owned().unwrap();
        for dblock in [
            acquire(server, &name).stdout(full()),
            acquire(server, &name).stdout(full()).arg("--json"),
            acquire(server, &name).stdout(broken()),
            acquire(server, &name).stdout(broken()).arg("--json"),
            closed(),
            closed().arg("--json"),
        ] {
            dblock.output().expect_code(70).expect_one_line("cannot write to stdout: ");
            assert_eq!(owner(&mut admin, &name, 0), None);
        }
        let ends = "SELECT DISTINCT outcome, message FROM dblock.dblock_runs WHERE name = ?";
        let ends: Vec<(String, String)> = admin.exec(ends, (&name,)).unwrap();
        assert_eq!(ends, [("failed".to_owned(), "the token was not printed".to_owned())]);
        let token = token(acquire(server, &name));
        release(server, &token).output().expect_code(0);
    }

    fn a_token_that_is_printed_is_that_of_a_lock_also_if_what_has_acquired_it_was_killed(server on mysql) {
        let (name, mut admin) = (unique("killed"), server.watcher());
        let (reader, writer) = io::pipe().unwrap();
        // There is no room for the token yet.
        let size = fcntl(&writer, FcntlArg::F_GETPIPE_SZ).unwrap();
        (&writer).write_all(&vec![b'\n'; size.try_into().unwrap()]).unwrap();
        let mut acquiring = acquire(server, &name).args(["--ttl", "1h"]).stdout(writer).spawn();
        let is_printing = |pid: i32| fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default().contains("pipe");
        eventually("it is about to print the token", SOON, || is_printing(acquiring.pid()));
        let acquirer = acquiring.children()[0];
        send(acquirer, Signal::SIGKILL);
        let mut lines = BufReader::new(reader).lines().map_while(Result::ok);
        let token = lines.find(|line| !line.is_empty()).expect("a token");
        acquiring.wait_within(SOON).expect_code(0).expect_silence();
        assert_eq!(owner(&mut admin, &name, 0), Some(owner_by(&token)));
        release(server, &token).output().expect_code(0);
    }

    fn no_server_is_69(server on mysql) {
        let name = unique("unreachable");
        let token = token(acquire(server, &name));
        let nowhere = url_of_kind(server.kind, Ipv4Addr::LOCALHOST, 1);
        let nowhere = |dblock: Dblock| dblock.env("DBLOCK_URL", &nowhere).args(["--connect-timeout", "1"]);
        for dblock in [acquire(server, &name), renew(server, &token), release(server, &token), run(server, &token).sh("echo ran")] {
            let output = nowhere(dblock).output();
            output.expect_code(69).expect_stdout("").expect_one_line("no server could be reached within 1s: ");
        }
    }

    fn no_tables_are_78_and_no_privileges_77(server) {
        let name = unique("tables");
        let token = token(acquire(server, &name));
        let all = || [acquire(server, &name), renew(server, &token), release(server, &token), run(server, &token).sh("echo ran")];
        let account = server.account();
        let needs = match server.kind {
            Kind::Postgres => "dblock needs USAGE on the schema \"dblock\", and SELECT, INSERT, UPDATE and DELETE on its tables",
            Kind::MariaDb | Kind::MySql => "dblock needs SELECT, INSERT, UPDATE and DELETE on `dblock`.*",
        };
        for dblock in all() {
            let dblock = dblock.user(&account);
            dblock.output().expect_code(77).expect_stdout("").expect_one_line(needs);
        }
        for dblock in all() {
            let dblock = dblock.user("admin").env("DBLOCK_PASSWORD", "admin-secret").env(server.kind.place(), "nowhere");
            dblock.output().expect_code(78).expect_stdout("").expect_one_line("create them with dblock init");
        }
        renew(server, &token).output().expect_code(0);
    }

    fn of_eight_scripts_one_has_the_lock_at_a_time(server) {
        let (name, account, records) = (unique("race"), account(server), Records::new());
        let file = records.path().join("records");
        let fences = records.path().join("fences");
        let script = format!(
            "for i in 1 2 3 4 5 6; do
                 token=$(\"$0\" acquire --name {name} --wait 50) || exit 10
                 echo start $ID $(date +%s%N) >>{0}
                 echo \"$token\" | cut -d. -f3 >>{1}
                 echo end $ID $(date +%s%N) >>{0}
                 \"$0\" release \"$token\" || exit 11
             done",
            file.display(),
            fences.display()
        );
        let start = |id: usize| {
            let dblock = Dblock::bare().under(["sh", "-c", &script]).env("ID", id.to_string()).user(&account);
            dblock.env("DBLOCK_URL", server.url()).env("DBLOCK_PASSWORD", crate::harness::PASSWORD).spawn()
        };
        let scripts: Vec<_> = (0..8).map(start).collect();
        for script in scripts {
            script.wait().expect_code(0).expect_silence();
        }
        assert_eq!(records.assert_no_overlap().order().len(), 48);
        let fences: Vec<u64> = fs::read_to_string(fences).unwrap().lines().map(|line| line.parse().unwrap()).collect();
        assert!(fences.is_sorted_by(|one, next| one < next) && fences.len() == 48, "{fences:?}");
        let mut admin = server.watcher();
        assert_eq!(owner(&mut admin, &name, 0), None);
        eventually("all sessions have ended", SOON, || server.sessions_of(&account) == 0);
    }

    fn a_token_outlives_the_server(server on mariadb) {
        // What a killed server has committed is to be there afterwards.
        let server = Server::private_that_keeps(server.kind).with_durable_runs();
        let name = unique("restart");
        let token = token(acquire(&server, &name));
        server.kill();
        server.start();
        acquire(&server, &name).output().expect_code(75);
        renew(&server, &token).output().expect_code(0);
        let mut running = run(&server, &token).sh("echo runs; read line; exit 5").stdin(std::process::Stdio::piped()).spawn();
        running.wait_line("runs", SOON);
        server.stop();
        server.start();
        drop(running.take_stdin());
        running.wait().expect_code(5);
        release(&server, &token).output().expect_code(0);
        let next = self::token(acquire(&server, &name));
        assert!(fence(&next) > fence(&token));
    }

    fn a_server_that_is_read_only_is_passed_over(server on mariadb) {
        let writer = Server::private(server.kind).with_durable_runs();
        let reader = Server::private(server.kind).with_durable_runs();
        reader.set_read_only(true);
        let name = unique("read-only");
        let url = url_of([&reader, &writer]);
        let at = |dblock: Dblock| dblock.env("DBLOCK_URL", &url);
        let token = token(at(acquire(&writer, &name)));
        at(renew(&writer, &token)).output().expect_code(0).expect_silence();
        at(run(&writer, &token)).sh("exit 3").output().expect_code(3).expect_silence();
        at(release(&writer, &token)).output().expect_code(0).expect_silence();
        let all = [acquire(&reader, &name), renew(&reader, &token), release(&reader, &token), run(&reader, &token).sh("true")];
        for dblock in all.map(|dblock| dblock.args(["--connect-timeout", "5"]).spawn()) {
            dblock.wait().expect_code(78).expect_stdout("").expect_one_line("is read-only, ");
        }
        // It becomes a primary in time.
        let mut waiting = acquire(&reader, &name).args(["--connect-timeout", "50", "-v"]).spawn();
        waiting.wait_stderr("is read-only", SOON);
        reader.set_read_only(false);
        one_word(&waiting.wait().expect_code(0).stdout);
    }

    fn who_waits_waits_on_while_all_servers_are_read_only(server on mariadb) {
        let server = Server::private(server.kind).with_durable_runs();
        let name = unique("switch-over");
        let first = token(acquire(&server, &name));
        let mut waiting = acquire(&server, &name).args(["--wait", "forever", "--connect-timeout", "5", "-v"]).spawn();
        waiting.wait_stderr("waiting", SOON);
        server.set_read_only(true);
        let mut admin = server.watcher();
        for (session, _) in admin.sessions() {
            admin.end_session(session);
        }
        waiting.wait_stderr("is read-only", SOON);
        assert!(!within(Duration::from_secs(6), || !waiting.is_running()), "it does not wait for a server that takes writes");
        server.set_read_only(false);
        release(&server, &first).output().expect_code(0);
        let second = one_word(&waiting.wait().expect_code(0).stdout);
        assert!(fence(&second) > fence(&first));
    }

    fn who_is_stopped_while_it_waits_keeps_nobody_out(server on mysql) {
        let name = unique("stopped");
        let first = token(acquire(server, &name));
        let mut second = acquire(server, &name).args(["--wait", "50", "-v"]).spawn();
        second.wait_stderr("waiting", SOON);
        let stopped = Frozen::new(second.pid());
        release(server, &first).output().expect_code(0);
        let third = token(acquire(server, &name).args(["--wait", "30"]));
        drop(stopped);
        release(server, &third).output().expect_code(0);
        let second = one_word(&second.wait().expect_code(0).stdout);
        assert!(fence(&second) > fence(&third), "{second} {third}");
        release(server, &second).output().expect_code(0);
    }

    fn a_token_that_comes_too_late_is_not_printed(server on mariadb) {
        let (name, mut admin) = (unique("late"), server.watcher());
        let proxy = Proxy::to(server);
        // Its row is there.
        let first = token(acquire(server, &name));
        release(server, &first).output().expect_code(0);
        proxy.delay(Duration::from_millis(200));
        let late = (0..10).find_map(|_| {
            let before = proxy.packets().len();
            let mut acquiring = acquire(server, &name).args(["--ttl", "4s"]).env("DBLOCK_URL", proxy.url()).spawn();
            eventually("it takes the row", SOON, || takes_row(&proxy, before));
            let stopped = Frozen::new(acquiring.pid());
            // On a busy machine it may have been granted before, or be given back for want of an answer within a second.
            let mut is_held = || owner(&mut admin, &name, 0).is_some();
            let is_granted = !is_held() && within(Duration::from_secs(5), &mut is_held);
            // Half of its time is over then.
            let is_late = is_granted && !within(Duration::from_millis(2500), || !is_held());
            drop(stopped);
            let output = acquiring.wait_within(SOON);
            if !is_late && output.code == Some(0) {
                release(server, &one_word(&output.stdout)).output().expect_code(0);
            }
            is_late.then_some(output)
        });
        let output = late.expect("it was stopped on its way to the server");
        output.expect_code(74).expect_stdout("").expect_one_line("was lost before its token was printed");
        assert_eq!(owner(&mut admin, &name, 0), None);
    }

    fn what_was_granted_to_a_dblock_that_is_gone_is_released(server on mysql) {
        let (name, account, mut admin) = (unique("gone"), account(server), server.watcher());
        // Its row is there.
        let first = token(acquire(server, &name));
        release(server, &first).output().expect_code(0);
        let proxy = Proxy::to(server);
        let mut is_granted = |signal| {
            let (before, last) = (proxy.packets().len(), last_fence(&mut admin, &name));
            let mut locker = lock_row(server, &name);
            let running = acquire(server, &name).user(&account).env("DBLOCK_URL", proxy.url()).spawn();
            // The server grants it later.
            eventually("it takes the row", SOON, || takes_row(&proxy, before));
            running.signal(signal);
            running.wait().expect_signal(signal).expect_stdout("");
            locker.query_drop("COMMIT").unwrap();
            eventually("it is released", SOON, || {
                server.sessions_of(&account) == 0 && owner(&mut admin, &name, 0).is_none()
            });
            assert!(history(server, &name).iter().all(|run| !run["ended"].is_null()), "{:#?}", history(server, &name));
            let fence = last_fence(&mut admin, &name);
            assert!(fence <= last + 1, "{fence} after {last}");
            fence > last
        };
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            // The server waits for a locked row for some seconds only, and then grants nothing.
            assert!((0..10).any(|_| is_granted(signal)), "granted in time");
        }
        let last = last_fence(&mut admin, &name);
        let token = token(acquire(server, &name));
        assert_eq!(fence(&token), last + 1);
    }

    fn the_kill_of_an_acquire_that_hangs_speaks_of_no_command(server on mysql) {
        let name = unique("hangs");
        // Its row is there.
        release(server, &token(acquire(server, &name))).output().expect_code(0);
        let _locker = lock_row(server, &name);
        let acquiring = acquire(server, &name).args(["--connect-timeout", "60"]).spawn();
        eventually("it acquires the lock", SOON, || server.holder(&name).is_some());
        let _stopped = [acquiring.pid(), acquiring.children()[0]].map(Frozen::new);
        let killed = Dblock::at(server, "kill").arg(&name).args(["--wait", "1", "--connect-timeout", "5"]).output();
        killed.expect_code(75).expect_one_line("it did not answer within ").expect_said([": it is a dblock acquire, which runs no command; "]);
    }

    fn a_grant_whose_answer_is_lost_keeps_nobody_out(server) {
        let (name, mut admin) = (unique("answer"), server.watcher());
        let create = "INSERT INTO dblock.dblock_locks (name, slot, renewed_at, fence) VALUES (?, 0, UTC_TIMESTAMP(6), 0)";
        admin.exec_drop(create, (&name,)).unwrap();
        let (proxy, mut locker) = (Proxy::to(server), lock_row(server, &name));
        let first = acquire(server, &name).args(["--wait", "50", "--ttl", "1h"]).env("DBLOCK_URL", proxy.url()).spawn();
        eventually("it takes the row", SOON, || takes_row(&proxy, 0));
        // The answer takes so long that it is cut off.
        proxy.delay(Duration::from_secs(8));
        locker.query_drop("COMMIT").unwrap();
        eventually("it is granted", SOON, || owner(&mut admin, &name, 0).is_some());
        proxy.freeze();
        let mut second = acquire(server, &name).args(["--wait", "50", "-v"]).spawn();
        second.wait_stderr("waiting", SOON);
        proxy.delay(Duration::ZERO);
        proxy.cut();
        proxy.thaw();
        // The first one comes behind it now.
        let second = one_word(&second.wait().expect_code(0).stdout);
        // The grant that nobody knew of is as if it had never been.
        let found = history(server, &name);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!((&found[0]["outcome"], &found[0]["fence"]), (&"running".into(), &fence(&second).into()));
        release(server, &second).output().expect_code(0);
        let first = one_word(&first.wait().expect_code(0).stdout);
        assert!(fence(&first) > fence(&second), "{first} {second}");
        let found = history(server, &name);
        let running = found.iter().find(|run| run["outcome"] == "running").expect("it holds the lock");
        assert_eq!(running["fence"], fence(&first), "{found:#?}");
        release(server, &first).output().expect_code(0);
    }

    fn a_grant_whose_answer_is_lost_is_not_kept_besides_another(server) {
        let (name, mut admin) = (unique("answer"), server.watcher());
        let proxy = Proxy::to(server);
        proxy.delay(Duration::from_millis(300));
        let acquiring = acquire(server, &name).args(["-m", "2"]).env("DBLOCK_URL", proxy.url()).spawn();
        eventually("it is granted", SOON, || owner(&mut admin, &name, 0).is_some());
        proxy.delay(Duration::ZERO);
        proxy.cut();
        let token = one_word(&acquiring.wait().expect_code(0).stdout);
        let own = owner_by(&token);
        let owners = [0, 1].map(|slot| owner(&mut admin, &name, slot));
        assert_eq!(owners.iter().flatten().map(String::as_str).collect::<Vec<_>>(), [&*own]);
        release(server, &token).output().expect_code(0);
        assert_eq!([0, 1].map(|slot| owner(&mut admin, &name, slot)), [None, None]);
    }
}

/// Whether a client has sent the statement that takes a row, after so many packets.
fn takes_row(proxy: &Proxy, before: usize) -> bool {
    let sent = proxy
        .packets()
        .into_iter()
        .skip(before)
        .filter_map(|packet| packet.sent());
    sent.into_iter()
        .any(|sent| sent.contains("dblock take row"))
}

/// The fence of the latest grant of slot 0, of which there was one.
fn last_fence(admin: &mut Client, name: &str) -> u64 {
    let query = "SELECT fence FROM dblock.dblock_locks WHERE name = ? AND slot = 0";
    let fence: Option<u64> = admin.exec_first(query, (name,)).unwrap();
    fence.expect("its row is there")
}

/// What is left of the time of slot 0, in seconds.
fn expire_in(admin: &mut Client, name: &str, seconds: u32) {
    let update = format!(
        "UPDATE dblock.dblock_locks SET expires_at = UTC_TIMESTAMP(6) + INTERVAL {seconds} SECOND WHERE name = ? AND slot = 0"
    );
    admin.exec_drop(update, (name,)).unwrap();
}

//! `dblock kill` of a durable lock: its row says who is to end, and its release that the command has.

use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::harness::{
    Dblock, Frozen, Kind, Output, Proxy, Records, Running, SOON, Server, Tables,
    all_servers_with_tables, eventually, is_stopped, runs, slack, unique, works,
};

/// A durable run whose command runs until it is ended, and says its process.
fn holder(server: &Server, name: &str, args: &[&str]) -> (Running, i32) {
    let mut dblock = Dblock::run(server, name)
        .without_terminal()
        .args(args)
        .sh("echo shell $$; exec sleep 600")
        .spawn();
    let command = dblock.wait_pid("shell");
    (dblock, command)
}

/// A run without a row.
fn plain(server: &Server, name: &str) -> Dblock {
    Dblock::run_at(&server.url(), name)
}

fn kill(server: &Server, what: &str) -> Dblock {
    Dblock::at(server, "kill").arg(what)
}

/// stdout is one line, and it has all these parts.
#[track_caller]
fn expect_told(kill: &Output, parts: &[&str]) {
    kill.expect_code(0).expect_silence();
    assert_eq!(kill.stdout.lines().count(), 1, "{kill:#?}");
    for part in parts {
        assert!(
            kill.stdout.contains(part),
            "{part:?} is not told: {kill:#?}"
        );
    }
}

/// How many seconds it says at most until the holder renews its lock, which it looks at later on a machine that is busy.
#[track_caller]
fn renews_within(told: &str) -> u64 {
    let (_, span) = told
        .split_once("renews the lock, within ")
        .unwrap_or_else(|| panic!("{told}"));
    let (seconds, _) = span.split_once('s').expect("a number of seconds");
    seconds.parse().unwrap_or_else(|_| panic!("{told}"))
}

/// A token of `dblock acquire`.
fn token(server: &Server, name: &str, args: &[&str]) -> String {
    let acquire = Dblock::at(server, "acquire").args(["--name", name]);
    let acquired = acquire.args(args).output();
    acquired.expect_code(0);
    acquired.stdout.trim().to_owned()
}

/// An account that may use the tables, and end no session but its own.
fn other_account(server: &Server) -> String {
    let account = server.account();
    server.grant("SELECT, INSERT, UPDATE, DELETE", "dblock", "*", &account);
    account
}

all_servers_with_tables! {
    fn a_holder_is_ended_with_its_command_whatever_its_policy(server) {
        for policy in ["reacquire", "terminate", "ignore"] {
            let name = unique("kill");
            let (dblock, command) = holder(server, &name, &["--on-lock-lost", policy]);
            let killed = kill(server, &name).output();
            assert!(!runs(command), "{policy}: the command has ended by then");
            expect_told(&killed, &[&format!("slot 0 of {name}: ended "), "its command has ended, after", "now it is free\n"]);
            assert!(killed.took < SOON, "it does not wait for a renewal, which comes after a minute: {killed:#?}");
            assert_eq!(server.owner(&name, 0), None);
            let end = dblock.wait();
            end.expect_code(74).expect_said([" was ended by ", &format!("{name} was lost, and the command was ended for it")]);
            Dblock::run(server, &name).command(["true"]).output().expect_code(0).expect_silence();
        }
    }

    fn who_is_ended_is_named_and_learns_by_whom(server) {
        let name = unique("who");
        let (dblock, _) = holder(server, &name, &[]);
        server.name_run(&name);
        let connection = server.holder(&name).expect("its session has the named lock");
        let who = format!("web2, pid 4711 (report), user app, connection {connection}");
        let told = kill(server, &name).arg("--dry-run").output();
        expect_told(&told, &[&format!("slot 0 of {name} is held by {who}; without --dry-run it would be ended, with its command\n")]);
        let killing = kill(server, &name).spawn();
        let killer = format!("pid {} (dblock kill)", killing.pid());
        expect_told(&killing.wait(), &[&format!("slot 0 of {name}: ended {who}; its command has ended")]);
        dblock.wait().expect_code(74).expect_said([killer]);
    }

    fn nobody_has_the_slot_before_the_command_is_gone(server on mariadb) {
        let name = unique("slow");
        let records = Records::new();
        // It takes a second to end.
        let slow = "trap 'sleep 1; kill $!; wait; echo end 0 $(date +%s%N) >>\"$0\"; exit 1' TERM; echo running; sleep 600 & wait";
        let [sh, c, script] = records.command_around(0, "");
        let start = script.lines().next().unwrap().to_owned();
        let file = records.path().join("records");
        let mut first = Dblock::run(server, &name).without_terminal().command([sh, c, format!("{start}\n{slow}"), file.display().to_string()]).spawn();
        first.wait_line("running", SOON);
        let mut waiting = Vec::new();
        for (id, run) in (1..).zip([plain(server, &name), Dblock::run(server, &name), plain(server, &name)]) {
            waiting.push(run.args(["--wait", "60"]).command(records.command(id)).spawn());
            eventually("it waits", SOON, || server.waiters(&name).len() == id);
        }
        let mut killing = kill(server, &name).spawn();
        // Those who do not wait come in between.
        while killing.is_running() {
            for run in [plain(server, &name), Dblock::run(server, &name)] {
                let run = run.command(records.command(9)).output();
                assert!([Some(0), Some(75)].contains(&run.code), "{run:#?}");
            }
        }
        let killing = killing.wait();
        killing.expect_code(0).expect_took(Duration::from_secs(1), Duration::from_secs(1) + 4 * slack());
        first.wait().expect_code(74);
        for run in waiting {
            run.wait().expect_code(0);
        }
        records.assert_no_overlap();
    }

    fn nobody_has_the_slot_before_the_command_is_gone_when_the_killer_is(server on mysql) {
        for is_durable in [false, true] {
            let name = unique("gone");
            let records = Records::new();
            let go = records.path().join("go");
            let until_told = format!("trap '' TERM; echo running; until test -e {}; do sleep 0.1; done", go.display());
            let [sh, c, script] = records.command_around(0, &until_told);
            let mut first = Dblock::run(server, &name).without_terminal().args(["--ttl", "120", "-k", "40"]).command([sh, c, script]).spawn();
            first.wait_line("running", SOON);
            let next = || if is_durable { Dblock::run(server, &name) } else { plain(server, &name) };
            let waits = next().args(["--wait", "60"]).command(records.command(1)).spawn();
            eventually("it waits", SOON, || server.waiters(&name).len() == 1);
            let killing = kill(server, &name).spawn();
            first.wait_stderr("was ended by", SOON);
            killing.signal(Signal::SIGKILL);
            killing.wait().expect_signal(Signal::SIGKILL);
            next().command(records.command(9)).output().expect_code(75);
            // Another one waits for the same end.
            let killer = || {
                let query = "SELECT kill_requested_by FROM dblock.dblock_locks WHERE name = ?";
                server.watcher().exec::<String>(query, (&name,)).unwrap()
            };
            let dead = killer();
            let again = kill(server, &name).spawn();
            eventually("it has asked, too", SOON, || killer() != dead);
            std::fs::write(go, "").unwrap();
            expect_told(&again.wait(), &["its command has ended"]);
            first.wait().expect_code(74);
            waits.wait().expect_code(0);
            records.assert_no_overlap();
        }
    }

    fn a_command_that_takes_longer_to_end_than_is_waited_for_keeps_its_row(server on mariadb) {
        let name = unique("slow");
        let folder = tempfile::tempdir().unwrap();
        let go = folder.path().join("go");
        let until_told = format!("trap '' TERM; echo running; until test -e {}; do sleep 0.1; done", go.display());
        let mut first = Dblock::run(server, &name).without_terminal().args(["-k", "60"]).sh(&until_told).spawn();
        first.wait_line("running", SOON);
        for wait in ["0", "0.5"] {
            let told = kill(server, &name).args(["--wait", wait]).output();
            told.expect_code(75).expect_stdout("").expect_one_line("nobody gets the slot before it has");
            assert!(server.owner(&name, 0).is_some());
            let told = kill(server, &name).arg("--dry-run").output();
            expect_told(&told, &["is being ended by ", "; without --dry-run that would be waited for\n"]);
            let told = kill(server, &name).args(["--dry-run", "--force"]).output();
            expect_told(&told, &["; without --dry-run the lock would be taken from it\n"]);
        }
        std::fs::write(go, "").unwrap();
        first.wait().expect_code(74);
        assert_eq!(server.owner(&name, 0), None);
    }

    fn without_the_privilege_to_end_sessions_the_next_renewal_finds_the_request(server) {
        let name = unique("others");
        let (mut dblock, command) = holder(server, &name, &["--ttl", "40"]);
        let session = server.holder(&name).expect("it is held");
        let account = other_account(server);
        // Before the next renewal.
        let stopped = Frozen::new(dblock.keeper(Some(command)));
        let told = kill(server, &name).user(&account).args(["--wait", "0"]).output();
        told.expect_code(75).expect_stdout("").expect_one_line("it sees the request when it next renews the lock, within ");
        assert!(renews_within(&told.stderr) <= 10, "{told:#?}");
        assert!(runs(command) && dblock.is_running() && server.has_session(session));
        drop(stopped);
        let told = kill(server, &name).user(&account).output();
        expect_told(&told, &["its command has ended, after", "now it is free"]);
        assert!(!runs(command));
        dblock.wait_within(SOON).expect_code(74);
    }

    fn by_force_the_lock_of_a_dead_host_is_free_at_once(server on mysql) {
        let name = unique("force");
        let (mut dead, command) = holder(server, &name, &["--ttl", "60"]);
        let keeper = dead.keeper(Some(command));
        let stopped = [Frozen::new(dead.pid()), Frozen::new(keeper)];
        let mut waits = Dblock::run(server, &name).args(["--wait", "60"]).sh("echo fence $DBLOCK_FENCE; exec sleep 600").spawn();
        eventually("it waits", SOON, || server.waiters(&name).len() == 1);
        let told = kill(server, &name).arg("--force").output();
        expect_told(&told, &[&format!("slot 0 of {name}: taken from "), "may run until its dblock renews the lock, within ", "s, and until "]);
        assert!(renews_within(&told.stdout) <= 15, "{told:#?}");
        assert!(!told.stdout.contains("ended") && runs(command), "{told:#?}");
        // On PostgreSQL whoever is next looks once a second.
        waits.wait_line("fence 2", Duration::from_secs(5) + slack());
        drop(stopped);
        // It lives after all.
        let end = dead.wait_within(SOON);
        end.expect_code(74).expect_said(["its row says that it is held by"]);
        assert!(!runs(command) && waits.is_running());
    }

    fn by_force_a_holder_that_lives_is_told_at_once(server) {
        let name = unique("lives");
        let (mut dblock, command) = holder(server, &name, &[]);
        let told = kill(server, &name).arg("--force").output();
        expect_told(&told, &[": taken from ", "now it is free"]);
        dblock.wait_within(SOON).expect_code(74);
        assert!(!runs(command));
        // Of a session that this account may not end it learns with its next renewal.
        let (mut dblock, command) = holder(server, &name, &["--ttl", "24"]);
        let account = other_account(server);
        let stopped = Frozen::new(dblock.keeper(Some(command)));
        let told = kill(server, &name).user(&account).arg("--force").output();
        expect_told(&told, &["; its session, which is not ended by that, keeps others out until then; now it is held by"]);
        assert_eq!(server.owner(&name, 0), None);
        drop(stopped);
        dblock.wait_within(SOON).expect_code(74);
    }

    fn by_force_a_lock_is_freed_by_an_account_that_may_not_write_the_history(server) {
        let name = unique("history");
        let (mut dblock, _) = holder(server, &name, &[]);
        let account = server.account();
        server.grant("SELECT", "dblock", "*", &account);
        server.grant("INSERT, UPDATE, DELETE", "dblock", "dblock_locks", &account);
        let told = kill(server, &name).user(&account).arg("--force").output();
        told.expect_code(0).expect_said(["the kill is not in the history, and a tick of the crontab may be tried again: ", "dblock_runs"]);
        assert!(told.stdout.contains(": taken from "), "{told:#?}");
        assert_eq!(server.owner(&name, 0), None);
        dblock.signal(Signal::SIGTERM);
        dblock.wait_within(SOON);
    }

    fn by_force_nothing_else_happens_where_no_row_is_held(server on mariadb) {
        let name = unique("none");
        expect_told(&kill(server, &name).arg("--force").output(), &["is free: nobody was ended"]);
        let client = server.hold(&name);
        expect_told(&kill(server, &name).arg("--force").output(), &["which is no dblock", "now it is free"]);
        drop(client);
    }

    fn of_a_frozen_holder_nobody_says_that_it_has_ended(server on mysql) {
        let name = unique("frozen");
        let (mut dblock, command) = holder(server, &name, &["--ttl", "40"]);
        let keeper = dblock.keeper(Some(command));
        {
            let _stopped = [Frozen::new(dblock.pid()), Frozen::new(keeper)];
            let told = kill(server, &name).args(["--wait", "1", "--connect-timeout", "6"]).output();
            told.expect_code(75).expect_stdout("").expect_one_line("no answer after ");
            told.expect_said([": asked ", "without that the lock expires in ", "use --force"]);
            // It has waited for as long as the holder may take to come back.
            assert!(renews_within(&told.stderr) <= 4, "{told:#?}");
            assert!(!told.stderr.contains("ended") && runs(command), "{told:#?}");
            assert!(server.owner(&name, 0).is_some());
            Dblock::run(server, &name).command(["echo", "ran"]).output().expect_code(75).expect_stdout("");
        }
        // It finds the request.
        dblock.wait_within(SOON).expect_code(74).expect_said([" was ended by "]);
        assert!(!runs(command));
        assert_eq!(server.owner(&name, 0), None);
    }

    fn a_frozen_holder_whose_time_is_over_meanwhile_is_told_as_such(server on mariadb) {
        let name = unique("over");
        let (mut dblock, command) = holder(server, &name, &["--ttl", "8"]);
        let keeper = dblock.keeper(Some(command));
        let stopped = [Frozen::new(dblock.pid()), Frozen::new(keeper)];
        let told = kill(server, &name).args(["--wait", "forever"]).output();
        expect_told(&told, &[": taken from ", ": it had expired: its host died or lost the server; now it is free"]);
        assert!(runs(command));
        drop(stopped);
        dblock.wait_within(SOON).expect_code(74);
    }

    fn of_a_holder_that_somebody_else_has_freed_nobody_says_that_it_has_ended(server on mysql) {
        let name = unique("freed");
        let (mut dblock, command) = holder(server, &name, &[]);
        let keeper = dblock.keeper(Some(command));
        let stopped = [Frozen::new(dblock.pid()), Frozen::new(keeper)];
        let killing = kill(server, &name).args(["--wait", "forever"]).spawn();
        eventually("it is asked to end", SOON, || {
            let told = kill(server, &name).arg("--dry-run").output();
            told.stdout.contains("is being ended by")
        });
        expect_told(&kill(server, &name).arg("--force").output(), &["taken from "]);
        let told = killing.wait();
        told.expect_code(75).expect_stdout("").expect_one_line(" was taken from ");
        told.expect_said(["meanwhile: it is not known whether its command has ended; now it is free"]);
        assert!(runs(command));
        drop(stopped);
        dblock.wait_within(SOON).expect_code(74);
    }

    fn the_command_of_a_stopped_dblock_is_ended_and_its_row_released(server on mariadb) {
        let name = unique("stopped");
        let (dblock, command) = holder(server, &name, &["--kill-after", "0.5", "--ttl", "60"]);
        dblock.signal(Signal::SIGSTOP);
        eventually("it is stopped", SOON, || is_stopped(dblock.pid()));
        let told = kill(server, &name).output();
        expect_told(&told, &["its command has ended", "now it is free"]);
        assert!(!runs(command));
        // Its keeper withdraws what it has announced together with the row.
        eventually("its end is announced no more", SOON, || server.holder(&format!("{name}#end0")).is_none());
        plain(server, &name).command(["true"]).output().expect_code(0);
        Dblock::run(server, &name).command(["true"]).output().expect_code(0);
        dblock.signal(Signal::SIGCONT);
        dblock.wait().expect_code(74);
    }

    fn a_killer_is_told_of_the_end_also_if_the_session_is_lost_just_then(server) {
        let account = server.account();
        server.may_end_sessions(&account);
        // For one that sees the row its release is the answer. One that does not is told after that.
        let seeing: &dyn Fn(&str) -> Dblock = &|name| kill(server, name);
        let blind: &dyn Fn(&str) -> Dblock = &|name| kill(server, name).user(&account);
        for (asked, killer, stops) in [("release row", seeing, true), ("ack kill", blind, true), ("ack kill", blind, false)] {
            let (name, proxy) = (unique("just"), Proxy::to(server));
            // Its dblock waits for the release for as long as for a connection.
            let run = Dblock::run_at(&proxy.url(), &name).args(["--durable", "--kill-after", "0.5", "--connect-timeout", "60"]);
            let mut dblock = run.without_terminal().sh("echo shell $$; exec sleep 600").spawn();
            let command = dblock.wait_pid("shell");
            let stopped = stops.then(|| Frozen::new(dblock.pid()));
            proxy.freeze_at_named(asked);
            let mut killing = killer(&name).args(["--wait", "forever"]).spawn();
            eventually("it is about to say so", SOON, || proxy.is_frozen());
            proxy.cut();
            proxy.thaw();
            let told = killing.wait_within(SOON);
            expect_told(&told, &["its command has ended", "now it is free"]);
            assert!(!runs(command));
            assert_eq!(server.owner(&name, 0), None);
            drop(stopped);
            dblock.wait_within(SOON).expect_code(74);
        }
    }

    fn the_end_of_a_command_is_announced_no_longer_than_its_row_is_held(server) {
        let (name, proxy) = (unique("end"), Proxy::to(server));
        let dblock = Dblock::run_at(&proxy.url(), &name).arg("--durable").without_terminal();
        let mut dblock = dblock.sh("echo shell $$; exec sleep 600").spawn();
        dblock.wait_pid("shell");
        // A statement of its own for that would come later.
        proxy.freeze_at_named("finish termination");
        expect_told(&kill(server, &name).output(), &["its command has ended", "now it is free"]);
        eventually("its end is announced no more", SOON, || server.holder(&format!("{name}#end0")).is_none());
        plain(server, &name).command(["true"]).output().expect_code(0);
        dblock.wait_within(SOON).expect_code(74);
    }

    fn a_row_whose_time_is_over_is_freed(server on mysql) {
        let name = unique("expired");
        server.row_of_a_stranger(&name, 0, -1);
        let told = kill(server, &name).arg("--dry-run").output();
        expect_told(&told, &["is held by a dblock, but has expired; without --dry-run the lock would be taken from it\n"]);
        let told = kill(server, &name).output();
        expect_told(&told, &["taken from a dblock: it had expired: its host died or lost the server; now it is free"]);
        assert_eq!(server.owner(&name, 0), None);
    }

    fn nobody_is_ended_on_a_read_only_server(shared on mysql) {
        let server = Server::private(shared.kind).with_durable_runs();
        let (name, free) = (unique("read-only"), unique("free"));
        server.row_of_a_stranger(&name, 0, 600);
        server.set_read_only(true);
        // They seek another one for nearly all of their time, and have the rest of it to say so.
        let kill = |name: &str, args: &[&str]| kill(&server, name).args(args).args(["--connect-timeout", "20"]).spawn();
        let all = [(&name, &[][..]), (&name, &["--force"]), (&free, &[])].map(|(name, args)| kill(name, args));
        let shown = kill(&name, &["--dry-run"]);
        for refused in all {
            refused.wait().expect_code(78).expect_stdout("").expect_one_line("is read-only, ");
        }
        assert!(server.owner(&name, 0).is_some());
        shown.wait().expect_code(0).expect_one_line("is read-only, ");
    }

    fn by_force_nobody_is_ended_where_no_tables_are(server on mariadb) {
        let tables = Tables::missing(server);
        let refused = tables.at("kill").args(["--force", "x"]).output();
        refused.expect_code(78).expect_stdout("").expect_one_line("has no tables of dblock's");
    }

    fn a_token_is_void(server on mysql) {
        let name = unique("token");
        let held = token(server, &name, &["--owner", "deploy-7"]);
        let told = kill(server, &name).arg("--dry-run").output();
        expect_told(&told, &["owner deploy-7; without --dry-run the lock would be taken from it\n"]);
        let told = kill(server, &name).output();
        expect_told(&told, &[": taken from ", ", owner deploy-7: its token is void; now it is free"]);
        for command in ["renew", "release"] {
            Dblock::at(server, command).arg(&held).output().expect_code(74);
        }
    }

    fn a_command_under_a_token_is_ended_and_the_token_is_void(server on mariadb) {
        let name = unique("token");
        let held = token(server, &name, &["--ttl", "60"]);
        let mut run = Dblock::at(server, "run").without_terminal().args(["--token", &held]).sh("echo shell $$; exec sleep 600").spawn();
        let command = run.wait_pid("shell");
        let told = kill(server, &name).output();
        expect_told(&told, &["its command has ended", "now it is free"]);
        assert!(!runs(command) && told.took < SOON / 2, "{told:#?}");
        run.wait().expect_code(74);
        Dblock::at(server, "release").arg(&held).output().expect_code(74);
    }

    fn a_token_whose_command_is_ended_before_it_begins_is_void_also_if_the_session_is_lost_just_then(server) {
        let (name, proxy) = (unique("token"), Proxy::to(server));
        let held = token(server, &name, &[]);
        // As whoever has waited for the end of a command before this one.
        let ask = "UPDATE dblock.dblock_locks SET kill_requested_at = renewed_at, kill_requested_by = 'web2, pid 4711' WHERE name = ?";
        server.watcher().exec_drop(ask, (&name,)).unwrap();
        proxy.freeze_at_named("release row");
        let run = Dblock::at(server, "run").env("DBLOCK_URL", proxy.url()).args(["--connect-timeout", "60"]);
        let mut run = run.args(["--token", &held]).command(["echo", "ran"]).spawn();
        eventually("its row is about to be released", SOON, || proxy.is_frozen());
        proxy.cut();
        proxy.thaw();
        run.wait_within(SOON).expect_code(74).expect_stdout("").expect_said(["was ended by "]);
        assert_eq!(server.owner(&name, 0), None);
    }

    fn a_script_that_renews_while_its_command_is_being_ended_frees_nothing(server) {
        let name = unique("token");
        let held = token(server, &name, &[]);
        let folder = tempfile::tempdir().unwrap();
        let go = folder.path().join("go");
        let until_told = format!(
            "trap 'echo heard; until test -e {}; do sleep 0.1; done; exit' TERM; echo shell $$; while :; do sleep 0.05; done",
            go.display()
        );
        let run = Dblock::at(server, "run").without_terminal().args(["--kill-after", "60", "--token", &held]);
        let mut run = run.sh(&until_told).spawn();
        let command = run.wait_pid("shell");
        let killing = kill(server, &name).args(["--wait", "60"]).spawn();
        run.wait_line("heard", SOON);
        let expires = || {
            let query = "SELECT expires_at FROM dblock.dblock_locks WHERE name = ?";
            server.watcher().exec::<String>(query, (&name,)).unwrap()
        };
        let before = expires();
        let renewed = Dblock::at(server, "renew").arg(&held).output();
        renewed.expect_code(74).expect_stdout("").expect_one_line("its last holder is being ended by ");
        // Nor does its killer take that for an answer.
        assert_eq!(expires(), before);
        let other = Dblock::at(server, "acquire").args(["--name", &name]).output();
        other.expect_code(75).expect_stdout("");
        assert!(runs(command), "two hold it: {}", run.stderr());
        std::fs::write(go, "").unwrap();
        expect_told(&killing.wait(), &["its command has ended", "now it is free"]);
        run.wait().expect_code(74);
        assert_eq!(server.owner(&name, 0), None);
    }

    fn a_script_does_not_get_its_lock_back_when_the_killer_is_gone(server on mysql) {
        let name = unique("token");
        let held = token(server, &name, &[]);
        let folder = tempfile::tempdir().unwrap();
        let go = folder.path().join("go");
        let until_told = format!("trap 'until test -e {}; do sleep 0.1; done; exit' TERM; echo runs; while :; do sleep 0.05; done", go.display());
        let run = Dblock::at(server, "run").without_terminal().args(["--token", &held]);
        let mut run = run.sh(&until_told).spawn();
        run.wait_line("runs", SOON);
        // A killer that does not hear from the holder in time cannot say so.
        eventually("a killer has heard that the command is being ended", SOON, || {
            let told = kill(server, &name).args(["--wait", "0.2"]).output();
            told.expect_code(75).expect_stdout("");
            told.stderr.contains("nobody gets the slot before it has")
        });
        std::fs::write(go, "").unwrap();
        run.wait().expect_code(74);
        assert_eq!(server.owner(&name, 0), None);
    }

    fn an_owner_with_the_named_lock_of_another_slot_is_one_holder(server) {
        let name = unique("other");
        server.row_of_a_stranger(&name, 0, 60);
        let mut session = server.hold(&format!("#{}", server.owner(&name, 0).unwrap()));
        assert!(session.try_lock(&format!("{name}#1")));
        let told = kill(server, &name).arg("--dry-run").output();
        expect_told(&told, &[&format!("slot 0 of {name} is held by "), &format!("connection {}", session.connection_id())]);
        let run = Dblock::at(server, "status").args(["--json", &name]).output();
        assert_eq!(run.stdout.matches("\"slot\": ").count(), 1, "{run:#?}");
    }

    fn of_several_holders_with_and_without_rows_one_must_be_named(server) {
        let name = unique("several");
        let (mut first, _) = holder(server, &name, &["-m", "3"]);
        let client = server.hold(&format!("{name}#1"));
        server.row_of_a_stranger(&name, 2, 60);
        let which = kill(server, &name).output();
        which.expect_code(64).expect_one_line(&format!("{name} has several holders; say which one: {name}#0, {name}#1, {name}#2"));
        expect_told(&kill(server, &format!("{name}#1")).output(), &["which is no dblock"]);
        expect_told(&kill(server, &format!("{name}#2")).arg("--force").output(), &["taken from a dblock: "]);
        assert!(first.is_running() && first.stderr().is_empty());
        drop(client);
        expect_told(&kill(server, &name).output(), &["its command has ended"]);
        first.wait_within(SOON).expect_code(74);
    }

    fn who_has_only_the_named_lock_of_anothers_row_is_not_meant(server) {
        let name = unique("head");
        server.row_of_a_stranger(&name, 0, 600);
        let mut waits = Dblock::run(server, &name).args(["--wait", "60"]).sh("echo ran").spawn();
        eventually("it is the head of the queue", SOON, || server.holder(&name).is_some());
        let head = server.holder(&name).unwrap();
        let told = kill(server, &name).arg("--dry-run").output();
        expect_told(&told, &["is held by a dblock; without --dry-run it would be ended, with its command\n"]);
        assert!(server.has_session(head));
        let told = kill(server, &name).arg("--force").output();
        expect_told(&told, &["taken from a dblock"]);
        waits.wait_within(SOON).expect_code(0).expect_stdout("ran\n");
    }

    fn a_lock_that_is_held_after_the_commands_end_is_released(server on mariadb) {
        let name = unique("hold");
        let mut dblock = Dblock::run(server, &name).without_terminal().args(["--hold-at-least", "600", "-v"]).sh("exit 3").spawn();
        dblock.wait_stderr("holding", SOON);
        expect_told(&kill(server, &name).output(), &["its command has ended", "now it is free"]);
        dblock.wait_within(SOON).expect_code(3);
    }

    fn a_killer_that_does_not_see_the_row_ends_its_holders_command_all_the_same(server) {
        let account = server.account();
        server.may_end_sessions(&account);
        let elsewhere = Tables::missing(server);
        let killers: [&dyn Fn(&str) -> Dblock; 2] = [
            &|name| kill(server, name).user(&account),
            &|name| elsewhere.at("kill").arg(name),
        ];
        for killer in killers {
            let name = unique("blind");
            let (mut dblock, command) = holder(server, &name, &[]);
            let told = killer(&name).output();
            expect_told(&told, &[&format!("slot 0 of {name}: ended "), "its command has ended", "now it is free"]);
            assert!(!runs(command));
            dblock.wait_within(SOON).expect_code(74).expect_said(["was ended by "]);
            works(Dblock::run(server, &name));
        }
    }

    fn a_killer_that_does_not_see_the_row_is_told_of_the_end_also_on_the_next_session(server) {
        let (account, proxy, name) = (server.account(), Proxy::to(server), unique("blind"));
        server.may_end_sessions(&account);
        let dblock = Dblock::run_at(&proxy.url(), &name).args(["--durable", "--kill-after", "60"]).without_terminal();
        let mut dblock = dblock.stdin(Stdio::piped()).sh("trap '' TERM; echo started; read line; exit 0").spawn();
        dblock.wait_line("started", SOON);
        let killer = kill(server, &name).user(&account).spawn();
        dblock.wait_stderr("was ended by ", SOON);
        proxy.cut();
        drop(dblock.take_stdin());
        expect_told(&killer.wait(), &["its command has ended", "now it is free"]);
        dblock.wait_within(SOON).expect_code(74);
        works(Dblock::run(server, &name));
    }

    fn one_that_is_ended_before_its_command_begins_starts_none(server) {
        let account = server.account();
        server.may_end_sessions(&account);
        let seeing: &dyn Fn(&str) -> Dblock = &|name| kill(server, name);
        let blind: &dyn Fn(&str) -> Dblock = &|name| kill(server, name).user(&account);
        // What it asks when it has the named lock: about the history, or for its row.
        for (options, asked, killer) in [
            ("--record", "prepare", seeing),
            ("--durable", "take row", seeing),
            ("--durable --once-per 1h", "last success", seeing),
            ("--durable --once-per 1h", "last success", blind),
        ] {
            let (name, proxy) = (unique("early"), Proxy::to(server));
            proxy.freeze_at_named(asked);
            let run = Dblock::run_at(&proxy.url(), &name).args(["--connect-timeout", "60"]);
            let mut run = run.args(options.split(' ')).command(["echo", "ran"]).spawn();
            eventually("it asks", SOON, || proxy.is_frozen());
            assert!(server.holder(&name).is_some(), "{options}: it has the lock");
            let killing = killer(&name).spawn();
            eventually("its session is ended", SOON, || server.holder(&name).is_none());
            proxy.thaw();
            expect_told(&killing.wait(), &["its command has ended"]);
            run.wait_within(SOON).expect_code(74).expect_stdout("").expect_said(["was ended by "]);
            assert_eq!(server.owner(&name, 0), None);
        }
    }

    fn an_account_without_the_tables_ends_a_named_lock_as_ever(server) {
        let name = unique("named");
        let client = server.hold(&name);
        let told = kill(server, &name).arg("-vv").output();
        let asked = told.stderr.lines().filter(|line| line.contains(".dblock_")).count();
        assert!(asked > 1, "{told:#?}");
        drop(client);
        let account = server.account();
        let _client = server.hold(&name);
        server.may_end_sessions(&account);
        let told = kill(server, &name).user(&account).arg("-vv").output();
        told.expect_code(0);
        assert!(told.stdout.contains("which is no dblock"), "{told:#?}");
        let asked = told.stderr.lines().filter(|line| line.contains(".dblock_")).count();
        assert_eq!(asked, 1, "one statement is refused: {told:#?}");
    }
}

#[test]
fn the_killer_of_a_stopped_dblock_is_told_of_the_end_once_a_server_takes_writes_again() {
    let server = Server::private(Kind::MariaDb).with_durable_runs();
    let (name, proxy) = (unique("again"), Proxy::to(&server));
    let run = Dblock::run_at(&proxy.url(), &name).without_terminal();
    let run = run.args(["--durable", "--kill-after", "0.5"]);
    let mut dblock = run.sh("echo shell $$; exec sleep 600").spawn();
    let command = dblock.wait_pid("shell");
    let stopped = Frozen::new(dblock.pid());
    proxy.freeze_at_named("release row");
    let mut killing = kill(&server, &name).args(["--wait", "forever"]).spawn();
    eventually("its row is about to be released", SOON, || {
        proxy.is_frozen()
    });
    server.set_read_only(true);
    let before = proxy.connections();
    proxy.cut();
    proxy.thaw();
    // One more is tried at once.
    eventually("it tries again later", SOON, || {
        proxy.connections() > before + 1
    });
    assert!(killing.is_running() && !runs(command));
    server.set_read_only(false);
    let told = killing.wait_within(SOON);
    expect_told(&told, &["its command has ended", "now it is free"]);
    drop(stopped);
    dblock.wait_within(SOON).expect_code(74);
}

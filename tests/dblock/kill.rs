//! `dblock kill` ends a holder and its command, whatever its policy, and nobody has the slot before that.

use std::process::Stdio;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use nix::sys::signal::Signal;

use crate::harness::{
    Client, Dblock, Frozen, Kind, Output, PASSWORD, Packet, Proxy, Records, Running, SOON, Server,
    Unkillable, Watcher, all_servers, both_servers, eventually, eventually_unkillable, is_stopped,
    quoted, runs, send, slack, unique, within,
};

/// A dblock whose command runs until it is ended, and says its process.
fn holder(server: &Server, name: &str, args: &[&str]) -> (Running, i32) {
    let mut dblock = Dblock::run(server, name)
        .without_terminal()
        .args(args)
        .sh("echo shell $$; exec sleep 600")
        .spawn();
    let command = dblock.wait_pid("shell");
    (dblock, command)
}

fn kill(server: &Server, what: &str) -> Dblock {
    Dblock::at(server, "kill").arg(what)
}

/// What is told of a slot for which somebody waits. On PostgreSQL nobody tells those that wait: the first of them looks once a second.
fn now_held(server: &Server) -> &'static str {
    if server.kind == Kind::Postgres {
        "now it is "
    } else {
        "now it is held by "
    }
}

/// stdout is one line, and it has all these parts.
#[track_caller]
fn expect_told(kill: &Output, parts: &[&str]) {
    kill.expect_silence();
    assert_eq!(kill.stdout.lines().count(), 1, "{kill:#?}");
    for part in parts {
        assert!(
            kill.stdout.contains(part),
            "{part:?} is not told: {kill:#?}"
        );
    }
}

/// Whether one that has waited for the end which another one made has heard of it. That is told for a fifth of a second once the other one
/// knows, so who stands still for longer says that it knows nothing.
#[track_caller]
fn has_heard_of_anothers(kill: &Output) -> bool {
    if kill.code == Some(75) && kill.stderr.contains("nothing is known of its command") {
        kill.expect_stdout("").expect_one_line("was being ended by");
        return false;
    }
    kill.expect_code(0);
    expect_told(kill, &["was being ended by", "that is done"]);
    true
}

/// Whoever ends a holder waits for no longer than this, or is interrupted, and the slot is free only after the command. `false`: another
/// one that waited for the same end has not heard of it.
fn keeps_its_slot_to_itself(server: &Server, wait: Option<&str>) -> bool {
    let (name, records) = (unique("slow"), Records::new());
    let command = records.command_around(0, "trap '' TERM; echo running; read x");
    let first = Dblock::run(server, &name)
        .without_terminal()
        .args(["-k", "60"]);
    let mut first = first.stdin(Stdio::piped()).command(command).spawn();
    first.wait_line("running", SOON);
    let waits = Dblock::run(server, &name).args(["--wait", "60"]);
    let waits = waits.command(records.command(1)).spawn();
    eventually("it waits", SOON, || server.waiters(&name).len() == 1);
    if let Some(wait) = wait {
        let told = kill(server, &name).args(["--wait", wait]).output();
        told.expect_code(75)
            .expect_one_line("nobody gets the slot before it has");
    } else {
        let killing = kill(server, &name).spawn();
        first.wait_stderr("was ended by", SOON);
        killing.signal(Signal::SIGINT);
        killing.wait().expect_signal(Signal::SIGINT);
    }
    let skip = Dblock::run(server, &name)
        .command(records.command(9))
        .output();
    skip.expect_code(75).expect_one_line("; not run");
    assert!(!skip.stderr.contains("was freed"), "{skip:?}");
    // Another one waits for the same end: it asks again and again.
    let proxy = Proxy::to(server);
    let other = kill(server, &name).env("DBLOCK_URL", proxy.url()).spawn();
    eventually("it waits for that", SOON, || proxy.packets().len() > 40);
    drop(first.take_stdin());
    let has_heard = has_heard_of_anothers(&other.wait());
    first.wait().expect_code(74);
    waits.wait().expect_code(0);
    records.assert_no_overlap();
    has_heard
}

/// Two end one holder at once, and who has the slot after it is spared. `false`: the second has not heard of the command's end.
fn end_one_holder(server: &Server) -> bool {
    let (name, proxy) = (unique("twice"), Proxy::to(server));
    // It ends once the second waits for that.
    let dblock = Dblock::run(server, &name)
        .without_terminal()
        .args(["-k", "60"]);
    let dblock = dblock.stdin(Stdio::piped());
    let mut dblock = dblock.sh("trap '' TERM; echo running; read x").spawn();
    dblock.wait_line("running", SOON);
    let next = Dblock::run(server, &name).args(["--wait", "60"]);
    let next = next.stdin(Stdio::piped());
    let mut next = next.sh("echo next; read x; exit 7").spawn();
    eventually("it waits", SOON, || server.waiters(&name).len() == 1);
    let first = kill(server, &name).spawn();
    let ending = format!("{name}#end0");
    eventually(
        "its command is being ended, and the next one waits for that",
        SOON,
        || {
            if server.kind == Kind::Postgres {
                return server.holder(&ending).is_some();
            }
            server.holder(&name).is_some()
                && server.waiters(&name).is_empty()
                && !dblock.stderr().is_empty()
        },
    );
    // Who has the slot by now is not meant. This one asks again and again.
    let second = kill(server, &name).env("DBLOCK_URL", proxy.url()).spawn();
    eventually("it waits for that", SOON, || proxy.packets().len() > 40);
    drop(dblock.take_stdin());
    let first = first.wait();
    first.expect_code(0).expect_silence();
    expect_told(&first, &["its command has ended", now_held(server)]);
    let has_heard = has_heard_of_anothers(&second.wait());
    dblock.wait().expect_code(74);
    next.wait_line("next", SOON);
    drop(next.take_stdin());
    next.wait().expect_code(7).expect_silence();
    has_heard
}

/// A holder says that its command is ending, and is waited for for longer than its time to live. `false`: one of the two that wait for that
/// has not heard of the command's end.
fn is_waited_for_for_longer_than_its_time_to_live() -> bool {
    let server = Server::shared(Kind::MySql);
    let (name, mut disk) = (unique("ending"), Unkillable::new());
    let script = format!("echo shell $$; read x <{}", quoted(&disk.file()));
    // The machine may stand still for seconds meanwhile.
    let options = ["--ttl", "12", "--kill-after", "0.2"];
    let run = Dblock::run(server, &name).without_terminal().args(options);
    let mut dblock = run.sh(&script).spawn();
    let command = dblock.wait_pid("shell");
    disk.eventually_opened();
    let waits = || {
        let kill = kill(server, &name).args(["--wait", "forever"]);
        kill.spawn()
    };
    let mut first = waits();
    eventually_unkillable(command);
    // This one waits for what the other does.
    let mut second = waits();
    let is_over = || !first.is_running() || !second.is_running();
    assert!(!within(Duration::from_secs(16), is_over), "one gives up");
    assert!(runs(command));
    drop(disk);
    let told = first.wait_within(SOON);
    told.expect_code(0);
    expect_told(&told, &["its command has ended"]);
    let has_heard = has_heard_of_anothers(&second.wait_within(SOON));
    dblock.wait_within(SOON).expect_code(74);
    has_heard
}

/// A dblock that is stopped, and whose command is being ended, holds its slot again. The command is gone in time all the same. `false`: it
/// was gone before that.
fn is_ended_though_it_is_stopped_and_holds_its_slot_again(server: &Server) -> bool {
    let name = unique("stopped-again");
    let (dblock, command) = holder(server, &name, &["--kill-after", "3"]);
    let stopped = Frozen::new(dblock.pid());
    let told = kill(server, &name).args(["--wait", "0"]).output();
    assert!([Some(0), Some(75)].contains(&told.code), "{told:#?}");
    if let Some(announces) = server.holder(&format!("{name}#end0")) {
        server.watcher().end_session(announces);
    }
    eventually("it holds the slot again, or it is too late", SOON, || {
        server.holder(&name).is_some() || !runs(command)
    });
    let is_held_again = runs(command);
    eventually("the command is gone", SOON, || !runs(command));
    drop(stopped);
    dblock.wait().expect_code(74);
    is_held_again
}

/// A waiter that was granted the slot, and has not heard of that, is ended. `false`: it had the slot no more by then, as where it has
/// heard of it, or has said nothing for three seconds; or it was not granted it, as where the slow network came before it was idle.
fn is_ended_before_it_hears_of_its_grant(server: &Server) -> bool {
    let (name, proxy) = (unique("granted"), Proxy::to(server));
    let holder = server.hold(&name);
    let waits = Dblock::run_at(&proxy.url(), &name).args(["--wait", "60"]);
    let mut waits = waits.command(["echo", "ran"]).spawn();
    eventually("it waits", SOON, || server.waiters(&name).len() == 1);
    proxy.delay(Duration::from_secs(2));
    let first = holder.connection_id();
    drop(holder);
    let is_granted = || server.holder(&name).is_some_and(|id| id != first);
    if !within(Duration::from_secs(10), || {
        is_granted() || !waits.is_running()
    }) {
        return false;
    }
    // It hears of the grant only when its session has ended.
    proxy.freeze();
    let mut killing = kill(server, &name).spawn();
    eventually("its session is ended", SOON, || {
        let has_ended = !killing.is_running();
        let is_held = server.holder(&name).is_some();
        assert!(!(has_ended && is_held), "a kill has left the holder");
        !is_held
    });
    proxy.delay(Duration::ZERO);
    proxy.thaw();
    let told = killing.wait();
    told.expect_code(0);
    let is_late = ["nobody was ended", "was released meanwhile"];
    if is_late.iter().any(|words| told.stdout.contains(words)) {
        return false;
    }
    expect_told(&told, &["its command has ended", "now it is free"]);
    let end = waits.wait();
    end.expect_code(74).expect_stdout("");
    end.expect_one_line("was ended by");
    true
}

all_servers! {
    fn a_holder_is_ended_with_its_command_whatever_its_policy(server on mysql) {
        for policy in ["reacquire", "terminate", "ignore"] {
            let name = unique("kill");
            let (dblock, command) = holder(server, &name, &["--on-lock-lost", policy]);
            let kill = kill(server, &name).output();
            assert!(!runs(command), "{policy}: the command has ended by then");
            kill.expect_code(0);
            expect_told(&kill, &[&format!("slot 0 of {name}: ended "), "its command has ended, after", "now it is free\n"]);
            if server.kind == Kind::MySql {
                expect_told(&kill, &[&format!("pid {} (sh)", dblock.pid())]);
            }
            let end = dblock.wait();
            end.expect_code(74).expect_said([&format!("{name} was lost, and the command was ended for it")]);
            if policy != "terminate" {
                end.expect_said([" was ended by "]);
            }
            Dblock::run(server, &name).command(["true"]).output().expect_code(0).expect_silence();
        }
    }

    fn nobody_has_the_slot_before_the_command_is_gone(server) {
        let name = unique("slow");
        let records = Records::new();
        // It takes three seconds to end.
        let slow = "trap 'sleep 3; kill $!; wait; echo end 0 $(date +%s%N) >>\"$0\"; exit 1' TERM; echo running; sleep 600 & wait";
        let [sh, c, script] = records.command_around(0, "");
        let start = script.lines().next().unwrap().to_owned();
        let file = records.path().join("records");
        let mut first = Dblock::run(server, &name).without_terminal().command([sh, c, format!("{start}\n{slow}"), file.display().to_string()]).spawn();
        first.wait_line("running", SOON);
        let mut waiting = Vec::new();
        for id in 1..=3 {
            waiting.push(Dblock::run(server, &name).args(["-v", "--wait", "60"]).command(records.command(id)).spawn());
            eventually("it waits", SOON, || server.waiters(&name).len() == id);
        }
        let mut killing = kill(server, &name).spawn();
        // Those who do not wait come in between.
        let mut tries = 0;
        while killing.is_running() {
            let run = Dblock::run(server, &name).command(records.command(9)).output();
            assert!([Some(0), Some(75)].contains(&run.code), "{run:#?}");
            tries += 1;
        }
        let killing = killing.wait();
        killing.expect_code(0).expect_took(Duration::from_secs(3), Duration::from_secs(3) + 4 * slack());
        assert!(tries > 0);
        first.wait().expect_code(74);
        // Who says nothing for seconds, as on a machine that stands still, loses its session, and with it its place.
        let mut kept = vec![0];
        for (id, run) in (1..).zip(waiting) {
            let output = run.wait();
            output.expect_code(0);
            if !output.stderr.contains("lost the session with ") {
                kept.push(id);
            }
        }
        let mut order = records.assert_no_overlap().order();
        order.retain(|id| *id != 9);
        assert_eq!((order.len(), order[0]), (4, 0), "{order:?}");
        // Those who waited had their turns, in their order.
        order.retain(|id| kept.contains(id));
        assert_eq!(order, kept);
    }

    fn who_waits_for_a_slot_whose_holder_is_being_ended_waits_no_longer_than_asked(server) {
        let name = unique("marked");
        let mut marker = server.hold(&format!("{name}#kill0"));
        let run = Dblock::run(server, &name).args(["--wait", "1"]).command(["echo", "ran"]).output();
        run.expect_code(75).expect_stdout("").expect_one_line(&name);
        run.expect_took(Duration::from_secs(1), Duration::from_secs(1) + slack());
        Dblock::run(server, &name).command(["echo", "ran"]).output().expect_code(75).expect_stdout("");
        // Of several slots another is free.
        let run = Dblock::run(server, &name).args(["-m", "2"]).sh("echo $DBLOCK_SLOT").output();
        run.expect_code(0).expect_stdout("1\n");
        // Of very many, too, whose markers are not asked for with them but with the proof.
        for wait in ["0", "50"] {
            let run = Dblock::run(server, &name).args(["-m", "40", "--wait", wait]).sh("echo $DBLOCK_SLOT").output();
            run.expect_code(0).expect_stdout("1\n");
        }
        let mut waits = Dblock::run(server, &name).args(["-v", "--wait", "50"]).command(["echo", "ran"]).spawn();
        waits.wait_stderr("is being ended", SOON);
        marker.unlock(&format!("{name}#kill0"));
        waits.wait().expect_code(0).expect_stdout("ran\n");
    }

    fn an_end_that_another_account_reports_is_not_believed(server) {
        let (name, account) = (unique("reported"), server.account());
        let (dblock, command) = holder(server, &name, &[]);
        let keeper = dblock.keeper(Some(command));
        let _stopped = [Frozen::new(dblock.pid()), Frozen::new(keeper)];
        let mut other = match server.kind {
            Kind::Postgres => Client::Postgres(server.postgres_as(&account, PASSWORD).expect("it may connect")),
            Kind::MariaDb | Kind::MySql => Client::MySql(server.connect(&account, PASSWORD).expect("it may connect")),
        };
        let killing = kill(server, &name).args(["--wait", "5", "--connect-timeout", "5"]).spawn();
        let report = format!("#gone{}", server.eventually_held(&format!("{name}#kill0")));
        assert!(other.try_lock(&report), "nobody else reports");
        killing.wait().expect_code(75).expect_one_line("it did not answer within ");
        assert!(runs(command));
    }

    fn a_holder_that_is_ended_and_loses_its_session_keeps_others_out_at_once_again(server on mysql) {
        let name = unique("lost-again");
        let run = Dblock::run(server, &name).without_terminal().args(["--kill-after", "60"]);
        let mut dblock = run.sh("trap '' TERM; echo shell $$; exec sleep 600").spawn();
        let command = dblock.wait_pid("shell");
        let told = kill(server, &name).args(["--wait", "0"]).output();
        told.expect_code(75).expect_one_line("nobody gets the slot before it has");
        let announces = server.eventually_held(&format!("{name}#end0"));
        server.watcher().end_session(announces);
        // Its next renewal would be due after a minute. Its killer has gone, so it holds the slot again.
        eventually("the slot is held", SOON, || server.holder(&name).is_some());
        Dblock::run(server, &name).command(["true"]).output().expect_code(75);
        assert!(runs(command));
        send(command, Signal::SIGKILL);
        dblock.wait_within(SOON).expect_code(74);
    }

    fn a_holder_that_has_just_learned_that_it_is_ended_and_loses_its_session_ends_its_command(server) {
        let (name, proxy) = (unique("learned"), Proxy::to(server));
        let dblock = Dblock::run_at(&proxy.url(), &name).without_terminal().sh("echo runs; exec sleep 600");
        let mut dblock = dblock.spawn();
        dblock.wait_line("runs", SOON);
        proxy.freeze_at_named("announce termination");
        let killing = kill(server, &name).args(["--wait", "forever"]).spawn();
        eventually("it knows who ends it", SOON, || proxy.is_frozen());
        send(killing.pid(), Signal::SIGTERM);
        killing.wait();
        eventually("its killer has gone", SOON, || server.holder(&format!("{name}#kill0")).is_none());
        proxy.cut();
        proxy.thaw();
        let ended = dblock.wait_within(SOON);
        ended.expect_code(74).expect_said([&format!("{name} was ended by")]);
    }

    fn a_lock_that_nobody_has_is_told_as_free(server on mariadb) {
        let name = unique("free");
        let told = kill(server, &name).output();
        told.expect_code(0);
        expect_told(&told, &[&format!("{name} is free: nobody was ended")]);
        let told = kill(server, &format!("{name}#7")).output();
        told.expect_code(0);
        expect_told(&told, &[&format!("slot 7 of {name} is free")]);
        kill(server, &name).arg("-q").output().expect_code(0).expect_silence().expect_stdout("");
    }

    fn a_dry_run_ends_nobody(server on mariadb) {
        let name = unique("dry");
        let (mut dblock, command) = holder(server, &name, &[]);
        let told = kill(server, &name).arg("--dry-run").output();
        told.expect_code(0);
        expect_told(&told, &[&format!("slot 0 of {name} is held by "), "; without --dry-run it would be ended, with its command\n"]);
        assert!(dblock.is_running() && runs(command) && dblock.stderr().is_empty());
        // It asks for nothing that only the end needs.
        let whose = "/* dblock kill account */";
        let told = kill(server, &name).args(["--dry-run", "-vv"]).output();
        assert!(!told.expect_code(0).stderr.contains(whose), "{told:#?}");
        kill(server, &name).arg("-vv").output().expect_code(0).expect_said([whose]);
        dblock.wait_within(SOON).expect_code(74);
    }

    fn the_slot_of_many_whose_holder_is_being_ended_is_for_nobody(server) {
        let name = unique("many");
        let script = "trap '' TERM; echo slot $DBLOCK_SLOT; read x";
        let first = Dblock::run(server, &name).without_terminal().args(["-m", "40", "-k", "60"]).stdin(Stdio::piped());
        let mut first = first.sh(script).spawn();
        first.wait_line("slot 0", SOON);
        let killing = kill(server, &format!("{name}#0")).args(["--wait", "0"]).output();
        killing.expect_code(75).expect_one_line("nobody gets the slot before it has");
        // The killer is gone, the command is not.
        for wait in ["0", "50"] {
            let run = Dblock::run(server, &name).args(["-m", "40", "--wait", wait]).sh("echo $DBLOCK_SLOT").output();
            run.expect_code(0).expect_stdout("1\n");
        }
        drop(first.take_stdin());
        first.wait().expect_code(74);
        let run = Dblock::run(server, &name).args(["-m", "40"]).sh("echo $DBLOCK_SLOT").output();
        run.expect_code(0).expect_stdout("0\n");
    }

    fn of_several_holders_the_one_that_is_named_is_ended(server on mysql) {
        let name = unique("several");
        let (mut first, _) = holder(server, &name, &["-m", "2"]);
        let (second, command) = holder(server, &name, &["-m", "2"]);
        let which = kill(server, &name).output();
        which.expect_code(64).expect_one_line(&format!("{name} has several holders; say which one: {name}#0, {name}#1"));
        let told = kill(server, &format!("{name}#1")).output();
        told.expect_code(0);
        expect_told(&told, &[&format!("slot 1 of {name}: ended")]);
        second.wait().expect_code(74);
        assert!(!runs(command) && first.is_running() && first.stderr().is_empty());
        // Now there is no doubt.
        kill(server, &name).output().expect_code(0);
        // A name is quoted for the shell.
        let spaced = format!("{name} x");
        let _holders = [0, 1].map(|_| holder(server, &spaced, &["-m", "2"]));
        let which = kill(server, &spaced).output();
        which.expect_code(64).expect_one_line(&format!("say which one: '{spaced}'#0, '{spaced}'#1"));
        first.wait_within(SOON).expect_code(74);
    }

    fn a_plain_client_loses_its_session(server) {
        let name = unique("plain");
        let client = server.hold(&name);
        let id = client.connection_id();
        let told = kill(server, &name).arg("--dry-run").output();
        expect_told(&told, &["which is no dblock; without --dry-run its session would be ended, and nothing else\n"]);
        let told = kill(server, &name).output();
        told.expect_code(0);
        expect_told(&told, &[&format!("connection {id}"), "which is no dblock", "now it is free"]);
        assert!(server.holder(&name).is_none());
        // The server takes it from its list a moment after it has freed its locks.
        eventually("its session is gone", SOON, || !server.has_session(id));
    }

    fn a_plain_client_that_has_just_released_the_lock_keeps_its_session(server) {
        let (name, proxy) = (unique("kept"), Proxy::to(server));
        let mut client = server.hold(&name);
        proxy.freeze_at_named("kill");
        let killing = kill(server, &name).env("DBLOCK_URL", proxy.url()).spawn();
        eventually("it is about to end the session", SOON, || proxy.is_frozen());
        client.unlock(&name);
        proxy.thaw();
        let told = killing.wait();
        told.expect_code(0);
        expect_told(&told, &["was released meanwhile by", "which is no dblock", "now it is free"]);
        assert!(client.try_lock(&name), "its session goes on");
    }

    fn a_command_that_takes_longer_to_end_than_is_waited_for_keeps_its_slot_to_itself(server on mariadb) {
        // Whoever ends it gives up waiting, or is interrupted himself.
        for wait in [Some("0"), Some("0.5"), None] {
            let is_told = (0..5).any(|_| keeps_its_slot_to_itself(server, wait));
            assert!(is_told, "another one never heard of the end");
        }
    }

    fn who_leaves_it_to_another_is_not_told_that_it_is_done_when_it_is_not(server) {
        let name = unique("vain");
        let (in_slot_0, _) = holder(server, &name, &["-m", "2"]);
        let (mut dblock, command) = holder(server, &name, &["-m", "2"]);
        in_slot_0.signal(Signal::SIGTERM);
        in_slot_0.wait();
        let (slot, marker) = (format!("{name}#1"), format!("{name}#kill1"));
        assert!(server.holder(&slot).is_some());
        let keeper = dblock.keeper(Some(command));
        let stopped = [Frozen::new(dblock.pid()), Frozen::new(keeper)];
        // It waits for an answer for long enough to be met by the second.
        let first = kill(server, &name).args(["--wait", "1", "--connect-timeout", "9"]).spawn();
        eventually("only the marker is left", SOON, || server.holder(&marker).is_some() && server.holder(&slot).is_none());
        let second = kill(server, &name).output();
        second.expect_code(75).expect_one_line("nothing is known of its command");
        first.wait().expect_code(75);
        drop(stopped);
        dblock.wait_stderr("reacquired after", SOON);
    }

    fn what_a_session_announced_that_the_server_has_not_missed_is_announced_anew_once_that_ends(server) {
        let (name, proxy) = (unique("older"), Proxy::to(server));
        let run = Dblock::run_at(&proxy.url(), &name).without_terminal().args(["--kill-after", "60"]);
        let mut dblock = run.sh("trap '' TERM; echo shell $$; exec sleep 600").spawn();
        let command = dblock.wait_pid("shell");
        let killing = kill(server, &name).args(["--wait", "forever"]).spawn();
        let ending = format!("{name}#end0");
        let older = server.eventually_held(&ending);
        proxy.abandon();
        let announces = |packet: &Packet| packet.sent().is_some_and(|sent| sent.contains("dblock announce termination"));
        eventually("it is announced on another session", SOON, || {
            let packets = proxy.packets().into_iter().filter(announces);
            let sessions: Vec<_> = packets.map(|packet| packet.connection).collect();
            sessions.len() > 1 && sessions.iter().skip(1).all(|session| proxy.is_answered(*session))
        });
        assert_eq!(server.holder(&ending), Some(older), "the server has not missed the first one");
        server.watcher().end_session(older);
        // Its next renewal would be due after a minute.
        eventually("it is announced anew", SOON, || server.holder(&ending).is_some_and(|id| id != older));
        assert!(runs(command));
        send(command, Signal::SIGKILL);
        killing.wait().expect_code(0);
        dblock.wait_within(SOON).expect_code(74);
    }

    fn of_a_command_whose_keeper_dies_while_it_ends_nobody_says_that_it_has_ended(server) {
        let name = unique("keeper");
        let run = Dblock::run(server, &name).without_terminal().args(["-k", "60"]).stdin(Stdio::piped());
        let mut dblock = run.sh("trap '' TERM; echo shell $$; read x").spawn();
        let command = dblock.wait_pid("shell");
        let told = kill(server, &name).args(["--wait", "0"]).output();
        told.expect_code(75).expect_one_line("nobody gets the slot before it has");
        // Nobody but its keeper is left who keeps others out, and another one waits for that.
        let proxy = Proxy::to(server);
        let told = kill(server, &name).env("DBLOCK_URL", proxy.url()).spawn();
        eventually("it waits", SOON, || proxy.packets().len() > 40);
        send(dblock.keeper(Some(command)), Signal::SIGKILL);
        let told = told.wait();
        told.expect_code(75).expect_stdout("").expect_one_line("nothing is known of its command");
        assert!(runs(command), "which is so: {}", dblock.stderr());
        drop(dblock.take_stdin());
        dblock.wait_within(SOON);
    }

    fn a_holder_far_away_is_heard_of_whatever_its_policy(server on mysql) {
        // Where the command is ended at once, all of the answer comes after its end: that takes longer than dblock waits for a release.
        for (policy, delay) in [("reacquire", 250), ("terminate", 700), ("ignore", 250)] {
            let name = unique("far");
            let proxy = Proxy::to(server);
            let dblock = Dblock::run_at(&proxy.url(), &name).without_terminal().args(["-v", "--on-lock-lost", policy]);
            let mut dblock = dblock.sh("echo runs; exec sleep 600").spawn();
            dblock.wait_line("runs", SOON);
            proxy.delay(Duration::from_millis(delay));
            let told = kill(server, &name).output();
            assert_eq!(told.code, Some(0), "{policy}: {told:?}; the holder: {}", dblock.stderr());
            expect_told(&told, &["its command has ended"]);
            // The default of --connect-timeout is the limit on a release.
            assert!(policy != "terminate" || told.took > Duration::from_secs(10), "{told:?}");
            dblock.wait().expect_code(74);
        }
    }

    fn a_command_that_ends_just_as_its_session_is_ended_is_heard_of(server) {
        let name = unique("just");
        let mut dblock = Dblock::run(server, &name).without_terminal().stdin(Stdio::piped()).sh("echo shell $$; read x; exit 3").spawn();
        let command = dblock.wait_pid("shell");
        let keeper = Frozen::new(dblock.keeper(Some(command)));
        let killing = kill(server, &name).spawn();
        eventually("the session is ended", SOON, || server.holder(&name).is_none());
        drop(dblock.take_stdin());
        eventually("the command ends", SOON, || !runs(command));
        drop(keeper);
        let told = killing.wait();
        told.expect_code(0);
        expect_told(&told, &["its command has ended"]);
        dblock.wait().expect_code(3);
    }

    fn a_loss_that_is_heard_of_after_the_commands_end_is_followed_by_a_word_to_who_made_it(server) {
        for is_continued_first in [true, false] {
            let name = unique("heard");
            // When that is over its keeper looks at the command, which has ended by then.
            let grace = if is_continued_first { "60" } else { "8" };
            let dblock = Dblock::run(server, &name).without_terminal().args(["--kill-after", grace]);
            let mut dblock = dblock.stdin(Stdio::piped()).sh("echo shell $$; read x; exit 3").spawn();
            let command = dblock.wait_pid("shell");
            let supervisor = Frozen::new(dblock.pid());
            let killing = kill(server, &name).spawn();
            eventually("the keeper has found out", SOON, || server.holder(&format!("{name}#end0")).is_some());
            drop(dblock.take_stdin());
            eventually("the command ends", SOON, || !runs(command));
            // Else its keeper looks first whether it has to kill the command.
            let supervisor = (!is_continued_first).then_some(supervisor);
            let told = killing.wait();
            told.expect_code(0);
            expect_told(&told, &["its command has ended"]);
            drop(supervisor);
            dblock.wait_within(SOON).expect_code(3);
        }
    }

    fn one_that_was_granted_the_slot_and_has_not_begun_is_ended_too(server) {
        assert!((0..5).any(|_| is_ended_before_it_hears_of_its_grant(server)), "it never had the slot by then");
    }

    fn one_that_was_stopped_before_it_heard_of_its_grant_is_ended_too(server on mysql) {
        let (name, proxy) = (unique("stopped-early"), Proxy::to(server));
        proxy.freeze_at_named("open");
        let run = Dblock::run_at(&proxy.url(), &name).args(["--ttl", "8", "--connect-timeout", "60"]);
        let mut run = run.command(["echo", "ran"]).spawn();
        eventually("it asks", SOON, || proxy.is_frozen());
        let stopped = Frozen::new(run.pid());
        proxy.thaw();
        let renews = |packet: &Packet| packet.sent().is_some_and(|sent| sent.contains("dblock renew"));
        eventually("its keeper holds the lock", SOON, || proxy.packets().iter().any(renews));
        let mut killing = kill(server, &name).args(["--wait", "forever"]).spawn();
        server.eventually_held(&format!("{name}#end0"));
        let killed = Instant::now();
        // Older than half of the TTL.
        eventually("what it hears of its grant first is too old", SOON, || killed.elapsed() > Duration::from_secs(5));
        drop(stopped);
        let told = killing.wait_within(SOON);
        told.expect_code(0);
        expect_told(&told, &["its command has ended", "now it is free"]);
        run.wait_within(SOON).expect_code(74).expect_stdout("").expect_said(["was ended by "]);
    }

    fn a_kill_during_a_run_time_limits_grace_is_heard_of(server on mariadb) {
        let name = unique("grace");
        let mut dblock = Dblock::run(server, &name)
            .without_terminal()
            .args(["--timeout", "4", "-k", "2", "--hold-at-least", "600"])
            .sh("trap '' TERM; while :; do sleep 0.05; done")
            .spawn();
        dblock.wait_stderr("ending it", SOON);
        let told = kill(server, &name).output();
        told.expect_code(0);
        expect_told(&told, &["its command has ended"]);
        dblock.wait_within(SOON).expect_code(137);
    }

    fn two_that_kill_at_once_end_one_holder(server) {
        assert!((0..5).any(|_| end_one_holder(server)), "the second never heard of the end");
    }

    fn who_lost_the_slot_before_does_not_answer_for_the_one_that_is_killed(server) {
        let (name, proxy) = (unique("answer"), Proxy::to(server));
        let mut before = Dblock::run_at(&proxy.url(), &name).without_terminal().sh("echo before; exec sleep 600").spawn();
        before.wait_line("before", SOON);
        let lost = server.holder(&name).expect("it is held");
        let waiting = Dblock::run(server, &name).without_terminal().args(["--wait", "60", "-k", "4"]);
        let mut meant = waiting.sh("trap '' TERM; echo shell $$; while :; do sleep 0.1; done").spawn();
        eventually("it waits", SOON, || server.waiters(&name).len() == 1);
        proxy.refuse(true);
        server.watcher().end_session(lost);
        let command = meant.wait_pid("shell");
        let killing = kill(server, &name).spawn();
        eventually("its command is being ended", SOON, || server.holder(&format!("{name}#end0")).is_some());
        // Who comes back now finds the marker of a kill that is not its own.
        proxy.refuse(false);
        let killed = killing.wait();
        assert!(!runs(command), "the command runs, and this is said of it: {killed:#?}");
        killed.expect_code(0);
        expect_told(&killed, &["its command has ended"]);
        meant.wait().expect_code(74);
        before.wait_stderr("was reacquired after", SOON);
        kill(server, &name).output().expect_code(0);
        before.wait().expect_code(74);
    }

    fn a_kill_that_another_has_begun_is_waited_for_no_longer_than_asked(server on mysql) {
        let name = unique("begun");
        let (mut dblock, _) = holder(server, &name, &[]);
        let _marker = server.hold(&format!("{name}#kill0"));
        let told = kill(server, &name).args(["-q", "--wait", "0.5"]).output();
        told.expect_code(75).expect_stdout("").expect_one_line("is being ended by").expect_said(["nothing was done"]);
        let told = kill(server, &name).arg("--dry-run").output();
        told.expect_code(0);
        expect_told(&told, &["is being ended by", "; without --dry-run that would be waited for\n"]);
        assert!(dblock.is_running() && dblock.stderr().is_empty());
    }

    fn a_holder_that_comes_back_under_the_same_name_is_told(server) {
        let name = unique("back");
        let (dblock, _) = holder(server, &name, &[]);
        let mut next = Dblock::run(server, &name).args(["--wait", "60"]).sh("echo next; exec sleep 600").spawn();
        eventually("it waits", SOON, || server.waiters(&name).len() == 1);
        let told = kill(server, &name).output();
        told.expect_code(0);
        expect_told(&told, &["its command has ended", now_held(server)]);
        dblock.wait().expect_code(74);
        next.wait_line("next", SOON);
        assert!(next.is_running());
    }

    fn a_holder_that_does_not_answer_is_told_as_such(server on mariadb) {
        let name = unique("deaf");
        let (mut dblock, command) = holder(server, &name, &[]);
        let keeper = dblock.keeper(Some(command));
        {
            let _stopped = [Frozen::new(dblock.pid()), Frozen::new(keeper)];
            let told = kill(server, &name).args(["--wait", "1", "--connect-timeout", "5"]).output();
            told.expect_code(75).expect_stdout("").expect_one_line("it did not answer within ");
            told.expect_said(["may still run", "now it is free"]).expect_took(Duration::from_secs(5), SOON);
            assert!(runs(command), "which is so");
        }
        // The marker is gone, and nobody else has the lock.
        dblock.wait_stderr("reacquired after", SOON);
        assert!(dblock.is_running());
    }

    fn the_command_of_a_stopped_dblock_is_ended_too(server on mysql) {
        let name = unique("stopped");
        let (dblock, command) = holder(server, &name, &["--kill-after", "0.5", "--ttl", "8"]);
        dblock.signal(Signal::SIGSTOP);
        eventually("it is stopped", SOON, || is_stopped(dblock.pid()));
        let killing = kill(server, &name).args(["--wait", "2"]).output();
        assert!([Some(0), Some(75)].contains(&killing.code), "{killing:#?}");
        eventually("the command is gone", SOON, || !runs(command));
        dblock.signal(Signal::SIGCONT);
        dblock.wait().expect_code(74);
    }

    fn the_command_of_a_stopped_dblock_that_is_ended_is_gone_in_time_also_if_it_holds_its_slot_again(server on mysql) {
        let is_held_again = (0..5).any(|_| is_ended_though_it_is_stopped_and_holds_its_slot_again(server));
        assert!(is_held_again, "it was ended before that");
    }

    fn a_lock_that_is_held_after_the_commands_end_is_let_go(server on mariadb) {
        // Often, for the server frees a killed session's lock a moment after its dblock has seen the end of it.
        for _ in 0..20 {
            let name = unique("hold");
            let mut dblock = Dblock::run(server, &name).without_terminal().args(["--hold-at-least", "600", "-v"]).sh("exit 3").spawn();
            dblock.wait_stderr("holding", SOON);
            let told = kill(server, &name).output();
            told.expect_code(0);
            expect_told(&told, &["its command has ended", "now it is free"]);
            dblock.wait_within(SOON).expect_code(3);
        }
    }

    fn what_follows_a_kill_has_the_lock(server) {
        let name = unique("after");
        for _ in 0..10 {
            let (dblock, _) = holder(server, &name, &[]);
            kill(server, &name).output().expect_code(0);
            Dblock::run(server, &name).command(["true"]).output().expect_code(0).expect_silence();
            dblock.wait().expect_code(74);
        }
        eventually("nothing is left behind", SOON, || {
            !server.sessions().iter().any(|session| session.contains(&name))
        });
    }

    fn a_killer_that_dies_frees_its_marker_and_the_holder_goes_on(server) {
        let name = unique("orphan");
        let (mut dblock, command) = holder(server, &name, &[]);
        let marker = format!("{name}#kill0");
        let keeper = dblock.keeper(Some(command));
        let stopped = [Frozen::new(dblock.pid()), Frozen::new(keeper)];
        let killing = kill(server, &name).args(["--wait", "forever"]).spawn();
        eventually("the session is ended", SOON, || server.holder(&name).is_none() && server.holder(&marker).is_some());
        drop(killing);
        eventually("the marker is free", SOON, || server.holder(&marker).is_none());
        drop(stopped);
        dblock.wait_stderr("reacquired after", SOON);
        assert!(dblock.is_running() && runs(command));
    }
}

both_servers! {
    fn a_waiter_that_loses_session_after_session_finds_the_killer_of_the_first(server on mariadb) {
        let (name, proxy) = (unique("lost"), Proxy::to(server));
        let _holder = server.hold(&name);
        let waits = Dblock::run_at(&proxy.url(), &name).args(["--wait", "60"]).command(["echo", "ran"]).spawn();
        eventually("it waits", SOON, || server.waiters(&name).len() == 1);
        let marker = format!("#kill{}", server.waiters(&name)[0]);
        let _killer = server.hold(&marker);
        let in_hex: Vec<String> = marker.bytes().map(|byte| format!("{byte:02x}")).collect();
        let in_hex = in_hex.concat();
        let asks = |packet: &Packet| packet.statements().is_some_and(|asked| asked.to_lowercase().contains(&in_hex));
        proxy.delay(Duration::from_millis(300));
        for times in [1, 2] {
            proxy.cut();
            eventually("it asks for its killer", SOON, || proxy.packets().iter().filter(|packet| asks(packet)).count() >= times);
        }
        proxy.delay(Duration::ZERO);
        waits.wait().expect_code(74).expect_stdout("").expect_one_line("was ended by");
    }

    fn without_the_privilege_the_grant_that_would_do_is_told_and_does(server) {
        let name = unique("others");
        let (mut dblock, command) = holder(server, &name, &[]);
        let account = server.account();
        let told = kill(server, &name).user(&account).arg("--dry-run").output();
        expect_told(&told, &[&format!("it would be ended, with its command, if {account}@% may end sessions of others\n")]);
        let refused = kill(server, &name).user(&account).output();
        refused.expect_code(77).expect_one_line("of another account").expect_stdout("");
        assert!(dblock.is_running() && runs(command));
        assert!(server.holder(&format!("{name}#kill0")).is_none(), "nothing is left behind");
        let at = refused.stderr.find("GRANT ").expect("a grant");
        let grant = &refused.stderr[at..];
        let end = grant.find(" would do").expect("its end");
        server.admin().query_drop(&grant[..end]).unwrap();
        kill(server, &name).user(&account).output().expect_code(0);
        dblock.wait_within(SOON).expect_code(74);
        assert!(!runs(command));
    }

    fn who_has_the_slot_after_the_one_that_was_meant_is_spared(server) {
        let name = unique("spared");
        let proxy = Proxy::to(server);
        let mut meant = Dblock::run(server, &name).stdin(Stdio::piped()).sh("echo meant; read x; exit 3").spawn();
        meant.wait_line("meant", SOON);
        let mut next = Dblock::run(server, &name).args(["--wait", "60"]).stdin(Stdio::piped()).sh("echo next; read x; exit 7").spawn();
        eventually("it waits", SOON, || server.waiters(&name).len() == 1);
        proxy.delay(Duration::from_millis(300));
        let killing = kill(server, &name).env("DBLOCK_URL", proxy.url()).spawn();
        // The question for the holder and the marker, `#kill0` in hex digits.
        let is_asked = |packet: &Packet| packet.statements().is_some_and(|asked| asked.contains("236b696c6c30"));
        eventually("it looks who has the slot", SOON, || proxy.packets().iter().any(is_asked));
        let holder = server.holder(&name);
        eventually("it has learnt that", SOON, || proxy.packets().last().is_some_and(|packet| !is_asked(packet)));
        proxy.freeze();
        drop(meant.take_stdin());
        next.wait_line("next", SOON);
        assert_ne!(server.holder(&name), holder);
        proxy.delay(Duration::ZERO);
        proxy.thaw();
        let told = killing.wait();
        told.expect_code(0);
        expect_told(&told, &["was released meanwhile by", "now it is held by"]);
        meant.wait().expect_code(3).expect_silence();
        drop(next.take_stdin());
        next.wait().expect_code(7).expect_silence();
    }

    fn what_is_no_holder_is_refused(server on mysql) {
        let name = unique("wrong");
        for wrong in ["", "#", "#1", " a", "a\nb"] {
            kill(server, wrong).output().expect_code(64).expect_one_line("dblock: NAME: the name");
        }
        for wrong in ["#", "#+1", "#007", "#-1", "#1000", "#x", "#1#2", "#99999999999"] {
            kill(server, &format!("{name}{wrong}")).output().expect_code(64).expect_one_line("the number of a slot, 0 to 999");
        }
        kill(server, &name).args(["--wait", "soon"]).output().expect_code(64).expect_one_line("--wait");
        kill(server, &name).env("DBLOCK_PASSWORD", "wrong").output().expect_code(77).expect_one_line("refused the account");
        let nobody = kill(server, &name).env("DBLOCK_URL", "mysql://dblock@127.0.0.1:1/").args(["--connect-timeout", "0.3"]);
        nobody.output().expect_code(69).expect_one_line("no server could be reached");
    }
}

#[test]
fn a_marker_on_another_server_is_for_another_session() {
    // Where others end sessions, that number may be of one of theirs.
    let (first, second) = (Server::shared(Kind::MariaDb), Server::private(Kind::MySql));
    let (name, proxy) = (unique("another"), Proxy::to(first));
    let _holder = first.hold(&name);
    let url = format!(
        "mysql://dblock@127.0.0.1:{},127.0.0.1:{}/",
        proxy.port, second.port
    );
    let waits = Dblock::run_at(&url, &name).args(["--wait", "60"]);
    let waits = waits.command(["echo", "ran"]).spawn();
    eventually("it waits", SOON, || first.waiters(&name).len() == 1);
    let _marker = second.hold(&format!("#kill{}", first.waiters(&name)[0]));
    proxy.refuse(true);
    proxy.cut();
    waits.wait().expect_code(0).expect_stdout("ran\n");
}

#[test]
fn one_that_says_that_its_command_is_ending_is_waited_for_for_longer_than_its_time_to_live() {
    let is_told = (0..3).any(|_| is_waited_for_for_longer_than_its_time_to_live());
    assert!(is_told, "the second never heard of the end");
}

/// The end of a command is heard of also on the only server once that is read-only, and takes no `record` of the run either; and whatever
/// `signal` its dblock gets before.
fn is_heard_of_on_a_read_only_server(signal: Option<Signal>, record: Option<&str>) {
    let server = &Server::private(Kind::MariaDb);
    if record.is_some() {
        server.make_tables();
    }
    let (name, mut disk) = (unique("read-only"), Unkillable::new());
    let script = format!("echo shell $$; read x <{}", quoted(&disk.file()));
    let options = ["--ttl", "30", "--kill-after", "0.5", "-v"];
    let options = options.into_iter().chain(record);
    let run = Dblock::run(server, &name).without_terminal().args(options);
    let mut dblock = run.sh(&script).spawn();
    let command = dblock.wait_pid("shell");
    disk.eventually_opened();
    let mut killing = kill(server, &name).args(["--wait", "forever"]).spawn();
    eventually_unkillable(command);
    server.set_read_only(true);
    // It asks every eight seconds whether its server takes writes, and looks for one that does.
    dblock.wait_stderr("is read-only", SOON);
    assert!(runs(command));
    if let Some(signal) = signal {
        dblock.signal(signal);
        eventually("it is stopped, or dead", SOON, || {
            is_stopped(dblock.pid()) || !runs(dblock.pid())
        });
    }
    drop(disk);
    let told = killing.wait_within(SOON);
    told.expect_code(0);
    expect_told(&told, &["its command has ended", "now it is free"]);
    if record.is_some() {
        // That is still waited for.
        server.set_read_only(false);
    }
    if signal == Some(Signal::SIGSTOP) {
        dblock.signal(Signal::SIGCONT);
    }
    let end = dblock.wait_within(SOON);
    if signal == Some(Signal::SIGKILL) {
        end.expect_signal(Signal::SIGKILL);
    } else {
        end.expect_code(74);
    }
    server.set_read_only(false);
}

#[test]
fn the_end_of_a_command_is_heard_of_also_on_the_only_server_once_that_is_read_only() {
    is_heard_of_on_a_read_only_server(None, None);
}

#[test]
fn the_end_of_a_command_is_heard_of_before_it_is_recorded() {
    is_heard_of_on_a_read_only_server(None, Some("--record"));
}

#[test]
fn the_end_of_a_stopped_dblocks_command_is_heard_of_also_on_the_only_server_once_that_is_read_only()
{
    is_heard_of_on_a_read_only_server(Some(Signal::SIGSTOP), None);
}

#[test]
fn the_end_of_a_killed_dblocks_command_is_heard_of_also_on_the_only_server_once_that_is_read_only()
{
    is_heard_of_on_a_read_only_server(Some(Signal::SIGKILL), None);
}

#[test]
fn a_killer_that_cannot_be_told_of_the_end_before_the_record_is_told_after_it() {
    let server = Server::durable(Kind::MariaDb);
    let (name, proxy) = (unique("told-later"), Proxy::to(server));
    // It waits for the record for as long as for a connection.
    let run = Dblock::run_at(&proxy.url(), &name).args(["--record", "-v"]);
    let run = run.args(["--connect-timeout", "60"]).without_terminal();
    let mut dblock = run.sh("echo shell $$; exec sleep 600").spawn();
    let command = dblock.wait_pid("shell");
    proxy.freeze_at_named("ack kill");
    let mut killing = kill(server, &name).args(["--wait", "forever"]).spawn();
    eventually("it is about to say so", SOON, || proxy.is_frozen());
    proxy.refuse(true);
    proxy.cut();
    proxy.thaw();
    // No other session is there for that, nor for the record.
    dblock.wait_stderr("cannot connect to ", SOON);
    assert!(killing.is_running() && !runs(command));
    proxy.refuse(false);
    let told = killing.wait_within(SOON);
    told.expect_code(0);
    expect_told(&told, &["its command has ended", "now it is free"]);
    dblock.wait_within(SOON).expect_code(74);
    let ended = "SELECT COUNT(*) FROM dblock.dblock_runs WHERE name = ? AND ended_at IS NOT NULL";
    let ended: Option<u64> = server.watcher().exec_first(ended, (&name,)).unwrap();
    assert_eq!(ended, Some(1), "it is recorded");
}

/// No server takes writes any more, and the session stays on which a killer waits, for longer than the time to live. `false`: it was not
/// kept, or the machine stood still for so long.
fn is_kept_while_no_server_takes_writes() -> bool {
    let server = &Server::private(Kind::MariaDb);
    let (name, mut disk) = (unique("kept"), Unkillable::new());
    // Its keeper may be held up for seconds.
    let ttl = Duration::from_secs(12);
    let script = format!("echo shell $$; read x <{}", quoted(&disk.file()));
    let options = ["--ttl", "12", "--kill-after", "0.2", "-v"];
    let run = Dblock::run(server, &name).without_terminal().args(options);
    let mut dblock = run.sh(&script).spawn();
    let command = dblock.wait_pid("shell");
    disk.eventually_opened();
    let mut killing = kill(server, &name).args(["--wait", "forever"]).spawn();
    let ending = format!("{name}#end0");
    server.eventually_held(&ending);
    eventually_unkillable(command);
    server.set_read_only(true);
    // From then on it looks for one that does, and each time opens another session for that.
    dblock.wait_stderr("is read-only", SOON);
    let waits_on = server.holder(&ending).expect("its end is announced");
    // The server ends a session after that time without a statement.
    let is_over = || server.holder(&ending) != Some(waits_on) || !killing.is_running();
    if within(ttl + Duration::from_secs(4), is_over) {
        eprintln!("{}", dblock.stderr());
        return false;
    }
    assert!(runs(command));
    drop(disk);
    let told = killing.wait_within(SOON);
    told.expect_code(0);
    expect_told(&told, &["its command has ended", "now it is free"]);
    dblock.wait_within(SOON).expect_code(74);
    server.set_read_only(false);
    true
}

#[test]
fn the_session_on_which_a_killer_waits_is_kept_while_no_server_takes_writes() {
    let is_kept = (0..3).any(|_| is_kept_while_no_server_takes_writes());
    assert!(is_kept, "the server has ended it each time");
}

#[test]
fn one_that_is_not_heard_of_is_waited_for_no_longer_than_its_time_to_live() {
    for server in [
        Server::shared(Kind::MySql),
        Server::with_performance_schema(),
    ] {
        let name = unique("ttl");
        let (dblock, command) = holder(server, &name, &["--ttl", "8"]);
        let keeper = dblock.keeper(Some(command));
        let _stopped = [Frozen::new(dblock.pid()), Frozen::new(keeper)];
        let told = kill(server, &name)
            .args(["--wait", "forever", "--connect-timeout", "5"])
            .output();
        told.expect_code(75)
            .expect_one_line("it did not answer within ");
        told.expect_took(Duration::from_secs(8), Duration::from_secs(8) + 2 * slack());
    }
}

//! N at once: never more, never fewer while enough wait, first come, first served; and whoever dies, is stopped or is cut
//! off on the way leaves no gap.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{
    Client, Dblock, Kind, PASSWORD, Packet, Proxy, Records, Running, SOON, Server, Watcher,
    all_locks, all_servers, both_locks, both_servers, each_lock, eventually, eventually_gone,
    holder, quoted, send, slack, unique, waiters, within,
};
use crate::pools::slot_on_server;

/// How soon a slot that nobody announces as free has its next holder.
const FOLLOWED: Duration = Duration::from_millis(1500);

/// How soon a head that is woken has a free slot. One that nobody wakes takes twice so long on average: it looks once a second.
fn woken() -> Duration {
    slack() / 4
}

/// How long a head that is cut off or stopped keeps the others from a free slot at most.
const BLOCKED: Duration = Duration::from_secs(4);

/// How long it takes the next one in line at most to find out that the head has gone without a word. Only MySQL tells it at once.
fn looks(kind: Kind) -> Duration {
    match kind {
        Kind::MariaDb | Kind::MySql => Duration::ZERO,
        Kind::Postgres => Duration::from_millis(2500),
    }
}

/// One of `slots` at once.
fn of(server: &Server, name: &str, slots: u32) -> Dblock {
    Dblock::run(server, name).args(["-m", &slots.to_string()])
}

fn place(name: &str) -> String {
    format!("{name}#wait")
}

/// A plain client that has taken the first so many slots, which must be free.
#[track_caller]
fn hold_slots(server: &Server, name: &str, slots: u32) -> Client {
    let mut client = server.plain();
    for slot in 0..slots {
        let had = client.try_lock(&slot_on_server(name, slot));
        assert!(had, "slot {slot} is free");
    }
    client
}

#[track_caller]
fn free(client: &mut Client, name: &str, slot: u32) {
    client.unlock(&slot_on_server(name, slot));
}

/// A caller that waits for one of `slots`, and says `ran`. It is waiting when this returns, and nobody else has come.
#[track_caller]
fn waiter(server: &Server, name: &str, slots: u32) -> Running {
    waiter_by(server, &server.url(), name, slots)
}

#[track_caller]
fn waiter_by(server: &Server, url: &str, name: &str, slots: u32) -> Running {
    let mut admin = server.watcher();
    // On MySQL the head asks anew each second, and in between is none of those that wait.
    let head = admin.head(name);
    let mut before = waiters(&mut admin, name);
    before.retain(|&waiter| Some(waiter) != head);
    let before = before.len() + usize::from(head.is_some());
    let dblock = Dblock::run_at(url, name).args(["-m", &slots.to_string(), "--wait", "60"]);
    let dblock = dblock.without_terminal().sh("echo ran").spawn();
    eventually("one more waits", SOON, || {
        waiters(&mut admin, name).len() == before + 1
    });
    dblock
}

/// A holder of one of `slots`, until its stdin ends.
#[track_caller]
fn runner(server: &Server, name: &str, slots: u32) -> Running {
    let dblock = of(server, name, slots)
        .args(["--on-lock-lost", "terminate"])
        .without_terminal()
        .stdin(Stdio::piped());
    let mut dblock = dblock.sh("echo runs $DBLOCK_SLOT; read _; exit 0").spawn();
    dblock.wait_line("runs ", SOON);
    dblock
}

/// How long until it says that it ran.
#[track_caller]
fn ran_after(dblock: &mut Running, begun: Instant) -> Duration {
    dblock.wait_line("ran", SOON);
    begun.elapsed()
}

/// What is never done in time is wrong; what is not in some of ten tries met a busy machine.
#[track_caller]
fn assert_within(limit: Duration, mut attempt: impl FnMut() -> Duration) {
    let mut seen = Vec::new();
    let in_time = (0..10).any(|_| {
        seen.push(attempt());
        seen[seen.len() - 1] < limit
    });
    assert!(in_time, "not within {limit:?}: {seen:?}");
}

/// Nobody has anything of the lock, and nobody waits.
#[track_caller]
fn assert_nothing_is_left(server: &Server, name: &str, slots: u32) {
    let mut admin = server.watcher();
    eventually("the server holds nothing", SOON, || {
        (0..slots).all(|slot| holder(&mut admin, &slot_on_server(name, slot)).is_none())
            && holder(&mut admin, &place(name)).is_none()
            && waiters(&mut admin, name).is_empty()
    });
}

all_locks! {
    fn a_skip_names_some_of_the_holders(server) {
        let name = unique("named");
        let client = hold_slots(server, &name, 5);
        let one = format!("connection {} (dblock@127.0.0.1:", client.connection_id());
        let output = of(server, &name, 5).command(["true"]).output();
        output.expect_code(75).expect_one_line(&format!("{name} is held by {one}")).expect_said([" and 2 more; not run"]);
    }

    fn whoever_waits_is_not_overtaken_by_one_that_comes_later_and_waits(server) {
        // A busy machine may not start it before the server ends the session of a head that is silent for three seconds.
        assert!((0..20).any(|_| late_one_waits(server)), "the head's session was always gone");
    }

    fn a_holder_that_ends_wakes_the_head_at_once(server, durable_mysql) {
        let name = unique("wake");
        let mut took = Vec::new();
        for _ in 0..8 {
            let mut holders = [(); 3].map(|()| runner(server, &name, 3));
            let mut head = waiter(server, &name, 3);
            // Not the last slot, for which the head waits.
            let last = took.len() % 2;
            drop(holders[last].take_stdin());
            took.push(ran_after(&mut head, Instant::now()));
            head.wait().expect_code(0).expect_silence();
            for (at, mut holder) in holders.into_iter().enumerate() {
                if at != last {
                    drop(holder.take_stdin());
                }
                holder.wait().expect_code(0).expect_silence();
            }
        }
        took.sort_unstable();
        assert!(took[4] < woken(), "the head was not woken: {took:?}");
    }

    fn a_holder_of_the_lock_alone_wakes_the_head_of_a_semaphore(server, durable_mysql) {
        let name = unique("alone");
        let mut took = Vec::new();
        for _ in 0..6 {
            let mut alone = runner(server, &name, 1);
            let client = server.hold(&slot_on_server(&name, 1));
            let mut head = waiter(server, &name, 2);
            drop(alone.take_stdin());
            took.push(ran_after(&mut head, Instant::now()));
            head.wait().expect_code(0);
            alone.wait().expect_code(0).expect_silence();
            drop(client);
            assert_nothing_is_left(server, &name, 2);
        }
        took.sort_unstable();
        assert!(took[2] < woken(), "the head was not woken: {took:?}");
    }

    fn a_holder_that_is_killed_is_followed_soon(server) {
        for victim in 0..3 {
            assert_within(FOLLOWED + slack(), || {
                let name = unique("killed");
                let holders = [(); 3].map(|()| runner(server, &name, 3));
                let mut head = waiter(server, &name, 3);
                holders[victim].signal(Signal::SIGKILL);
                let took = ran_after(&mut head, Instant::now());
                head.wait().expect_code(0).expect_silence();
                took
            });
        }
    }

    fn a_head_whose_time_is_over_leaves_its_place_to_the_next(server) {
        let name = unique("gives-up");
        let mut admin = server.watcher();
        let mut client = hold_slots(server, &name, 2);
        let head = of(server, &name, 2).args(["--wait", "7.4"]).command(["true"]).spawn();
        eventually("it is the head", SOON, || admin.head(&name).is_some());
        let first = admin.head(&name);
        let mut next = waiter(server, &name, 2);
        head.wait().expect_code(75);
        eventually("the next one is the head", Duration::from_secs(1) + slack(), || {
            let now = admin.head(&name);
            now.is_some() && now != first
        });
        free(&mut client, &name, 1);
        let took = ran_after(&mut next, Instant::now());
        assert!(took < FOLLOWED + slack(), "{took:?}");
    }

    fn a_head_that_is_killed_leaves_its_place_to_the_next(server) {
        for victim in ["dblock", "keeper", "session"] {
            let name = unique("head");
            let mut admin = server.watcher();
            let client = hold_slots(server, &name, 2);
            let head = waiter(server, &name, 2);
            let first = admin.head(&name).expect("it is the head");
            let mut next = waiter(server, &name, 2);
            match victim {
                "dblock" => head.signal(Signal::SIGKILL),
                "keeper" => send(head.keeper(None), Signal::SIGKILL),
                _ => admin.end_session(first),
            }
            // A server looks after a silent client once a second.
            eventually("the next one is the head", FOLLOWED + slack(), || {
                let now = admin.head(&name);
                now.is_some() && now != Some(first)
            });
            drop(client);
            let took = ran_after(&mut next, Instant::now());
            assert!(took < FOLLOWED.max(looks(server.kind)) + slack(), "{took:?}");
            if victim == "session" {
                head.wait().expect_code(0).expect_stdout("ran\n");
            }
            next.wait().expect_code(0).expect_silence();
            assert_nothing_is_left(server, &name, 2);
        }
    }

    fn a_head_that_vanishes_from_the_network_blocks_the_others_four_seconds_at_most(server) {
        // The last slot is the one that the head waits for.
        for slot in [0, 1] {
            assert_within(BLOCKED + looks(server.kind) + slack(), || {
                let (name, proxy) = (unique("vanished"), Proxy::to(server));
                let mut client = hold_slots(server, &name, 2);
                let mut head = waiter_by(server, &proxy.url(), &name, 2);
                let mut next = waiter(server, &name, 2);
                proxy.freeze();
                free(&mut client, &name, slot);
                let took = ran_after(&mut next, Instant::now());
                // Healed while others hold both slots, it starts nothing with what it was granted meanwhile.
                next.wait().expect_code(0);
                let mut stranger = server.plain();
                stranger.wait_for_lock(&slot_on_server(&name, slot));
                proxy.thaw();
                eventually("it waits again", SOON, || server.waiters(&name).len() == 1);
                assert!(head.is_running() && head.stdout().is_empty(), "{}", head.stdout());
                drop((client, stranger));
                head.wait().expect_code(0).expect_stdout("ran\n");
                assert_nothing_is_left(server, &name, 2);
                took
            });
        }
    }

    fn a_head_that_is_stopped_blocks_the_others_four_seconds_at_most(server) {
        for (stopped, slot) in [("dblock", 0), ("keeper", 0), ("both", 0), ("dblock", 1), ("keeper", 1)] {
            assert_within(BLOCKED + looks(server.kind) + slack(), || {
                let name = unique("stopped");
                let mut client = hold_slots(server, &name, 2);
                let head = waiter(server, &name, 2);
                let mut next = waiter(server, &name, 2);
                let pids = match stopped {
                    "dblock" => vec![head.pid()],
                    "keeper" => vec![head.keeper(None)],
                    _ => vec![head.pid(), head.keeper(None)],
                };
                for &pid in &pids {
                    send(pid, Signal::SIGSTOP);
                }
                free(&mut client, &name, slot);
                let took = ran_after(&mut next, Instant::now());
                next.wait().expect_code(0);
                assert_eq!(head.stdout(), "", "{stopped}");
                for &pid in &pids {
                    send(pid, Signal::SIGCONT);
                }
                drop(client);
                head.wait().expect_code(0).expect_stdout("ran\n");
                assert_nothing_is_left(server, &name, 2);
                took
            });
        }
    }

    fn an_interrupted_head_keeps_its_place(server, durable_mysql) {
        assert!((0..5).any(|_| keeps_its_place(server)), "the head's session was always gone");
    }

    fn callers_with_different_numbers_share_the_low_slots(server) {
        let name = unique("different");
        let slot = |number: u32| of(server, &name, number).sh("echo slot $DBLOCK_SLOT").output();
        let mut first = runner(server, &name, 1);
        slot(1).expect_code(75);
        slot(2).expect_code(0).expect_stdout("slot 1\n");
        let mut second = runner(server, &name, 2);
        slot(2).expect_code(75);
        slot(4).expect_code(0).expect_stdout("slot 2\n");
        drop(first.take_stdin());
        first.wait().expect_code(0);
        slot(1).expect_code(0).expect_stdout("slot 0\n");
        slot(4).expect_code(0).expect_stdout("slot 0\n");
        let client = hold_slots(server, &name, 1);
        slot(1).expect_code(75);
        slot(2).expect_code(75);
        slot(3).expect_code(0).expect_stdout("slot 2\n");
        drop((client, second.take_stdin()));
        second.wait().expect_code(0);
    }

    fn callers_with_different_numbers_that_wait_are_all_served(server) {
        let (name, records) = (unique("different"), Records::new());
        let mut admin = server.watcher();
        let client = hold_slots(server, &name, 3);
        let mut queue = Vec::new();
        for (id, number) in [1, 3, 2, 1, 3, 2, 1, 3].into_iter().enumerate() {
            let dblock = of(server, &name, number).args(["--wait", "60"]);
            let script = format!("[ $DBLOCK_SLOT -lt {number} ] || exit 9; sleep 0.05");
            queue.push(dblock.command(records.command_around(id, &script)).spawn());
            eventually("it waits", SOON, || waiters(&mut admin, &name).len() == id + 1);
        }
        drop(client);
        for dblock in queue {
            dblock.wait().expect_code(0).expect_silence();
        }
        assert_eq!(records.assert_at_most(3).order().len(), 8);
        assert_nothing_is_left(server, &name, 3);
    }

    fn a_crowd_that_does_not_wait_fills_the_slots_and_no_more(server) {
        let (name, records) = (unique("crowd"), Records::new());
        let start = |id| {
            let dblock = of(server, &name, 3).args(["--connect-timeout", "50"]);
            dblock.command(records.command_around(id, "sleep 0.05")).spawn()
        };
        let crowd: Vec<_> = (0..50).map(start).collect();
        let codes: Vec<_> = crowd.into_iter().map(|dblock| dblock.wait().code).collect();
        let with = |code| codes.iter().filter(|&&one| one == Some(code)).count();
        assert_eq!(with(0), records.assert_at_most(3).order().len());
        assert!(with(0) >= 3 && with(0) + with(75) == 50, "{codes:?}");
        assert_nothing_is_left(server, &name, 3);
    }

    fn a_storm_of_sigkill_leaves_every_survivor_served_once_and_no_slot_held_twice(server, durable_mysql) {
        for seed in [1, 2] {
            storm(server, seed);
        }
    }

    fn a_free_slot_costs_a_caller_that_may_wait_one_packet_too(server) {
        let (name, proxy) = (unique("packets"), Proxy::to(server));
        let _client = hold_slots(server, &name, 1);
        let dblock = Dblock::run_at(&proxy.url(), &name).args(["-m", "3", "--wait", "9"]).stdin(Stdio::piped());
        let mut dblock = dblock.sh("echo slot $DBLOCK_SLOT; read _; exit 0").spawn();
        dblock.wait_line("slot 1", SOON);
        assert_eq!(proxy.packets().len(), 1, "{:?}", proxy.packets());
        drop(dblock.take_stdin());
        dblock.wait().expect_code(0);
    }
}

both_locks! {
    fn sixty_commands_through_four_slots_are_never_more_nor_fewer_and_in_the_order_of_arrival(server) {
        assert!((0..3).any(|_| sixty_go_in_order(server)), "one has always lost its session");
    }

    fn a_slot_costs_a_caller_that_does_not_wait_one_packet_and_one_of_very_many_two(server) {
        for (slots, packets) in [(2, 1), (4, 1), (1000, 2)] {
            let (name, proxy) = (unique("packets"), Proxy::to(server));
            let client = hold_slots(server, &name, slots - 1);
            let dblock = Dblock::run_at(&proxy.url(), &name).args(["-m", &slots.to_string()]).stdin(Stdio::piped());
            let mut dblock = dblock.sh("echo slot $DBLOCK_SLOT; read _; exit 0").spawn();
            dblock.wait_line(&format!("slot {}", slots - 1), SOON);
            assert_eq!(proxy.packets().len(), packets);
            of(server, &name, slots).command(["true"]).output().expect_code(75).expect_one_line("; not run");
            drop((dblock.take_stdin(), client));
            dblock.wait().expect_code(0).expect_silence();
            assert_nothing_is_left(server, &name, slots);
        }
    }

    fn a_head_that_is_killed_between_being_woken_and_taking_the_slot_leaves_it_to_the_next(server) {
        assert!((0..20).any(|_| woken_head_is_killed(server)), "it had always taken the slot");
    }

    fn a_waiter_for_the_lock_alone_that_is_stopped_blocks_the_others_four_seconds_at_most(server) {
        assert_within(BLOCKED + slack(), || {
            let name = unique("stopped");
            let client = hold_slots(server, &name, 1);
            let first = waiter(server, &name, 1);
            let mut next = waiter(server, &name, 1);
            first.signal(Signal::SIGSTOP);
            drop(client);
            let took = ran_after(&mut next, Instant::now());
            assert_eq!(first.stdout(), "");
            first.signal(Signal::SIGCONT);
            first.wait().expect_code(0).expect_stdout("ran\n");
            took
        });
    }

    fn a_storm_of_kill_query_changes_nothing_but_time(server, durable_mysql) {
        let server = &Server::private(server.kind);
        let (name, records) = (unique("interrupted"), Records::new());
        let (mut admin, go) = (server.admin(), records.path().join("go"));
        let script = format!("while ! test -e {}; do sleep 0.1; done; sleep 0.2", quoted(&go));
        let mut crowd: Vec<_> = (0..30).map(|id| {
            // Some do not wait, some wait for the lock alone, which is slot 0.
            let (slots, wait) = match id % 10 {
                9 => (3, "0"),
                8 => (1, "600"),
                _ => (3, "600"),
            };
            let dblock = of(server, &name, slots).args(["--wait", wait, "--connect-timeout", "50"]);
            dblock.command(records.command_around(id, &script)).spawn()
        }).collect();
        let sessions = "SELECT id FROM information_schema.processlist WHERE user = 'dblock'";
        let mut random = fastrand::Rng::with_seed(3);
        let mut killed = 0;
        eventually("all have ended", Duration::from_secs(50), || {
            for session in admin.query::<u64, _>(sessions).unwrap() {
                let _ = admin.query_drop(format!("KILL QUERY {session}"));
                killed += 1;
            }
            // It is one by then, and goes on while they follow one another.
            if killed > 90 {
                fs::write(&go, "").unwrap();
            }
            // Pauses in which a statement may come through, the longer the more there is to do.
            let pause = slack().min(Duration::from_secs(5)) / 1000;
            within(pause.mul_f64(60.0 * random.f64()), || false);
            crowd.iter_mut().all(|dblock| !dblock.is_running())
        });
        let mut ran = 0;
        for (id, dblock) in crowd.into_iter().enumerate() {
            let output = dblock.wait();
            assert!(output.code == Some(0) || id % 10 == 9 && output.code == Some(75), "{id}: {output:#?}");
            ran += usize::from(output.code == Some(0));
        }
        let order = records.assert_at_most(3).order();
        assert_eq!((order.len(), order.iter().collect::<BTreeSet<_>>().len()), (ran, ran), "each once");
        assert_nothing_is_left(server, &name, 3);
    }

    fn waiting_costs_the_server_one_statement_a_second_for_a_semaphore_and_none_for_a_lock_alone(server) {
        let server = &Server::private(server.kind);
        let mut admin = server.admin();
        for (slots, callers, seconds, least, most) in [(4, 50, 10, 9, 11), (1, 20, 4, 0, 0)] {
            let name = unique("statements");
            let client = hold_slots(server, &name, slots);
            let start = |_| of(server, &name, slots).args(["--wait", "600"]).command(["true"]).spawn();
            let queue: Vec<_> = (0..callers).map(start).collect();
            eventually("all wait", SOON, || waiters(&mut admin, &name).len() == callers);
            if slots > 1 {
                eventually("there is a head", SOON, || admin.head(&name).is_some());
            }
            let questions = |admin: &mut Conn| {
                let row: Option<(String, u64)> = admin.query_first("SHOW GLOBAL STATUS LIKE 'Questions'").unwrap();
                row.expect("a counter").1
            };
            let sessions = |admin: &mut Conn| {
                let sessions = admin.sessions();
                sessions.into_iter().collect::<BTreeSet<_>>()
            };
            // A busy machine may ask less often in that time, and in more time more often.
            let is_asked = (0..5).any(|_| {
                let there = sessions(&mut admin);
                let (begun, before) = (Instant::now(), questions(&mut admin));
                within(Duration::from_secs(seconds), || false);
                // The second question counts itself.
                let asked = questions(&mut admin) - before - 1;
                // A head that stands still for seconds has another session, which begins with statements of its own.
                if sessions(&mut admin) != there {
                    return false;
                }
                let more = if most > 0 { begun.elapsed().as_secs() - seconds } else { 0 };
                assert!(asked <= most + more, "{asked} statements in {seconds} s and {more} s of {callers} callers");
                asked >= least
            });
            assert!(is_asked, "never {least} statements in {seconds} s of {callers} callers");
            // What is left of them may not ask among the next ones.
            drop((client, queue));
            eventually("their sessions are gone", SOON, || admin.sessions().is_empty());
        }
    }
}

// The durable one takes the named locks, too.
each_lock! {
    fn the_last_thirty_of_a_thousand_slots_are_filled_and_emptied(server) {
        let name = unique("thousand");
        let client = hold_slots(server, &name, 970);
        // On a busy machine a session that was given up may have a slot for a moment yet.
        let start = |_| {
            let dblock = of(server, &name, 1000).args(["--connect-timeout", "50", "--wait", "60"]);
            dblock.stdin(Stdio::piped()).sh("echo slot $DBLOCK_SLOT; read _; exit 0").spawn()
        };
        let mut thirty: Vec<Running> = (0..30).map(start).collect();
        let slot = |dblock: &mut Running| dblock.wait_line("slot ", 4 * SOON).replace("slot ", "").parse::<u32>().unwrap();
        let taken: BTreeSet<u32> = thirty.iter_mut().map(slot).collect();
        assert!(taken.into_iter().eq(970..1000), "each slot once");
        of(server, &name, 1000).command(["true"]).output().expect_code(75).expect_said(["and 997 more"]);
        let next = of(server, &name, 1000).args(["--wait", "60"]).command(["true"]).spawn();
        eventually("it waits", SOON, || server.waiters(&name).len() == 1);
        for mut dblock in thirty {
            drop(dblock.take_stdin());
            dblock.wait().expect_code(0).expect_silence();
        }
        next.wait().expect_code(0).expect_silence();
        drop(client);
        assert_nothing_is_left(server, &name, 1000);
    }
}

/// A slot is free, the head does not know it yet, and one that comes later and waits does not overtake it. `false`: the head's session was
/// gone by then.
fn late_one_waits(server: &Server) -> bool {
    let name = unique("later");
    let mut admin = server.watcher();
    let mut client = hold_slots(server, &name, 2);
    let mut head = waiter(server, &name, 2);
    let session = admin.head(&name).expect("it is the head");
    let keeper = head.keeper(None);
    send(keeper, Signal::SIGSTOP);
    free(&mut client, &name, 0);
    let late = of(server, &name, 2).args(["-v", "--wait", "60"]);
    let mut late = late.sh("echo ran").spawn();
    eventually("it waits, or has not waited", SOON, || {
        late.stderr().contains("; waiting") || !late.is_running()
    });
    let was_there = admin.has_session(session);
    let waits = late.stderr().contains("; waiting");
    assert!(waits || !was_there, "it has overtaken the head");
    send(keeper, Signal::SIGCONT);
    ran_after(&mut head, Instant::now());
    late.wait().expect_code(0).expect_stdout("ran\n");
    was_there
}

/// A head is interrupted again and again, and is the head. `false`: it stood still for so long that the server has ended its session.
fn keeps_its_place(server: &Server) -> bool {
    let name = unique("interrupted");
    let mut admin = server.watcher();
    let mut client = hold_slots(server, &name, 2);
    let mut head = waiter(server, &name, 2);
    let next = waiter(server, &name, 2);
    let Some(session) = admin.head(&name) else {
        return false;
    };
    for _ in 0..10 {
        admin.interrupt(session);
        eventually("both wait", SOON, || waiters(&mut admin, &name).len() == 2);
        let now = admin.head(&name);
        if now != Some(session) && !admin.has_session(session) {
            return false;
        }
        assert_eq!(now, Some(session), "the head is the head");
        for slot in 0..2 {
            let by = holder(&mut admin, &slot_on_server(&name, slot));
            assert_eq!(by, Some(client.connection_id()), "and has no slot");
        }
    }
    free(&mut client, &name, 0);
    ran_after(&mut head, Instant::now());
    head.wait().expect_code(0);
    drop(client);
    next.wait().expect_code(0);
    true
}

/// Sixty wait for four slots, and are served in the order of arrival. `false`: one stood still for so long that the server has ended its
/// session, and with that its place.
fn sixty_go_in_order(server: &Server) -> bool {
    let (name, records, proxy) = (unique("sixty"), Records::new(), Proxy::to(server));
    let mut admin = server.admin();
    let mut client = hold_slots(server, &name, 4);
    let mut queue = Vec::new();
    for id in 0..60 {
        let dblock = Dblock::run_at(&proxy.url(), &name).args(["-m", "4", "--wait", "600"]);
        // Of odd lengths, so that they end in another order than they began.
        let work = format!("sleep 0.{:02}", 10 + (id * 7) % 23);
        queue.push(dblock.command(records.command_around(id, &work)).spawn());
        eventually("the next one waits", SOON, || {
            waiters(&mut admin, &name).len() == id + 1
        });
    }
    for slot in 0..4 {
        free(&mut client, &name, slot);
    }
    for dblock in queue {
        dblock.wait().expect_code(0).expect_silence();
    }
    records.assert_at_most(4);
    assert_nothing_is_left(server, &name, 4);
    let intervals = records.intervals();
    // The proof of a grant gives up the place, so the next one's can only follow it: the order in which the network saw them is that of
    // the grants, whatever a busy machine makes of the starts.
    let begin = "SELECT CASE WHEN IFNULL(IS_USED_LOCK";
    let is_proof = |packet: &&Packet| packet.statements().is_some_and(|it| it.starts_with(begin));
    let packets = proxy.packets();
    let proofs = packets.iter().filter(is_proof);
    let mut order: Vec<usize> = proofs.map(|packet| packet.connection).collect();
    // One that a wake-up interrupts is asked for again.
    let mut proved = BTreeSet::new();
    order.retain(|connection| proved.insert(*connection));
    if order.iter().any(|&connection| connection >= 60) {
        return false;
    }
    assert!(order.iter().copied().eq(0..60), "{order:?}");
    // Each start from the fifth on takes the place of the earliest end that was still to be followed.
    let mut ends: Vec<u64> = intervals
        .iter()
        .filter_map(|interval| interval.end)
        .collect();
    ends.sort_unstable();
    let following = intervals[4..].iter().zip(&ends);
    let mut gaps: Vec<u64> = following.map(|(next, end)| next.start - end).collect();
    gaps.sort_unstable();
    let (median, longest) = (
        Duration::from_nanos(gaps[28]),
        Duration::from_nanos(gaps[55]),
    );
    assert!(
        median < woken() && longest < FOLLOWED + slack(),
        "{median:?}, {longest:?}"
    );
    true
}

/// Kills the head of those who wait, which was woken and has not taken the slot: the next one has it soon. `false`: it had taken it.
fn woken_head_is_killed(server: &Server) -> bool {
    let (name, proxy) = (unique("woken"), Proxy::to(server));
    let mut admin = server.admin();
    let mut holders = [(); 3].map(|()| runner(server, &name, 3));
    let head = waiter_by(server, &proxy.url(), &name, 3);
    let first = admin.head(&name).expect("it is the head");
    let mut next = waiter(server, &name, 3);
    // What the server answers to the head's statement does not arrive. It waits for the last slot.
    proxy.freeze();
    drop(holders[0].take_stdin());
    let state = format!("SELECT state FROM information_schema.processlist WHERE id = {first}");
    // Or its session is gone: the server keeps it for three seconds.
    eventually("the head was woken", SOON, || {
        let state = admin.query_first::<Option<String>, _>(&state).unwrap();
        state.is_none_or(|state| state.is_some_and(|state| state != "User lock"))
    });
    let is_head = admin.head(&name) == Some(first);
    if !is_head || holder(&mut admin, &name).is_some() {
        return false;
    }
    head.signal(Signal::SIGKILL);
    proxy.cut();
    let took = ran_after(&mut next, Instant::now());
    assert!(took < FOLLOWED + slack(), "{took:?}");
    assert_eq!(head.stdout(), "");
    proxy.thaw();
    true
}

/// Callers with two slots fewer than they want, a third of whom die on the way: as holders or as heads, by SIGKILL to
/// dblock, to its keeper, or to both.
fn storm(server: &Server, seed: u64) {
    const CALLERS: usize = 36;
    const SLOTS: u32 = 4;
    let mut random = fastrand::Rng::with_seed(seed);
    let (name, records) = (unique("storm"), Records::new());
    let mut admin = server.watcher();
    let client = hold_slots(server, &name, SLOTS);
    // Each command says beside its slot's file that it has come, and has that locked for as long as it lives, also if it is killed. Where
    // nobody was left to wait for that, a busy machine may take a moment to clear away what is dead. Half of them end soon, the others
    // when the storm is over.
    let overlaps = records.path().join("overlaps");
    let over = records.path().join("over");
    let guard = |id: usize| {
        let until = ["true".to_owned(), format!("[ -e {} ]", quoted(&over))];
        format!(
            "slot={}/slot-$DBLOCK_SLOT; echo {id} >>$slot.came; exec 9>>$slot
            flock -w 0.05 9 || {{ tail -n 2 $slot.came | head -n 1 >>{}; flock 9; }}
            sleep 0.1 9>&-; until {}; do sleep 0.1 9>&-; done",
            records.path().display(),
            quoted(&overlaps),
            until[id % 2],
        )
    };
    let mut callers = Vec::new();
    for id in 0..CALLERS {
        let dblock = of(server, &name, SLOTS)
            .args(["--wait", "10m"])
            .without_terminal();
        callers.push(
            dblock
                .command(records.command_around(id, &guard(id)))
                .spawn(),
        );
        eventually("it waits", SOON, || {
            waiters(&mut admin, &name).len() == id + 1
        });
    }
    drop(client);
    let (mut victims, mut without_keeper) = (BTreeSet::new(), BTreeSet::new());
    while victims.len() < CALLERS / 3 {
        within(Duration::from_millis(random.u64(0..60)), || false);
        let intervals = records.intervals();
        let started: BTreeSet<usize> = intervals.iter().map(|interval| interval.id).collect();
        let alive = |id: &usize| !victims.contains(id);
        let head = (0..CALLERS).filter(alive).find(|id| !started.contains(id));
        let open = intervals.iter().filter(|interval| interval.end.is_none());
        let running: Vec<usize> = open.map(|interval| interval.id).filter(alive).collect();
        let victim = if random.bool() {
            head
        } else {
            random.choice(&running).copied()
        };
        let Some(victim) = victim else {
            continue;
        };
        let dblock = &callers[victim];
        // The keeper is dblock's first child.
        let keeper = dblock.children().first().copied();
        let pids = match random.u8(0..3) {
            0 => vec![Some(dblock.pid())],
            1 => vec![keeper],
            // A durable slot is its holder's for five minutes more where nobody is left to give it back: one slot must go on.
            _ if without_keeper.len() + 1 == SLOTS as usize => continue,
            _ => vec![Some(dblock.pid()), keeper],
        };
        if pids.len() > 1 {
            without_keeper.insert(victim.to_string());
        }
        for pid in pids.into_iter().flatten() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        victims.insert(victim);
    }
    fs::write(&over, "").unwrap();
    for (id, dblock) in callers.into_iter().enumerate() {
        let pid = dblock.pid();
        let output = dblock.wait();
        assert!(
            victims.contains(&id) || (output.code, &*output.stderr) == (Some(0), ""),
            "seed {seed}, {id}: {output:#?}\n{:#?}",
            server.sessions()
        );
        eventually_gone(pid, SOON);
    }
    let intervals = records.intervals();
    for id in 0..CALLERS {
        let runs: Vec<_> = intervals
            .iter()
            .filter(|interval| interval.id == id)
            .collect();
        let ran_whole = runs.len() == 1 && runs[0].end.is_some();
        assert!(
            ran_whole || victims.contains(&id) && runs.len() <= 1,
            "seed {seed}, {id}: {runs:?}"
        );
    }
    let overlaps = fs::read_to_string(overlaps).unwrap_or_default();
    let mut held_twice = overlaps.lines().filter(|id| !without_keeper.contains(*id));
    assert_eq!(
        held_twice.next(),
        None,
        "seed {seed}: a slot was held twice"
    );
    assert_nothing_is_left(server, &name, SLOTS);
}

all_servers! {
    fn a_holder_whose_session_is_killed_is_followed_soon(server) {
        assert_within(FOLLOWED + slack(), || {
            let name = unique("killed");
            let mut admin = server.watcher();
            let _holders = [(); 3].map(|()| runner(server, &name, 3));
            let mut head = waiter(server, &name, 3);
            let session = holder(&mut admin, &name).expect("slot 0 is held");
            admin.end_session(session);
            ran_after(&mut head, Instant::now())
        });
    }
}

// What happens to a named lock, which ends with its session.
both_servers! {
    fn a_holder_that_may_not_wake_the_head_is_followed_soon(server) {
        assert_within(FOLLOWED + slack(), || {
            let (name, account) = (unique("no-kill"), unique("account"));
            let mut admin = server.admin();
            admin.query_drop(format!("CREATE USER '{account}'@'%' IDENTIFIED BY '{PASSWORD}'")).unwrap();
            let mut holders = [(); 3].map(|()| {
                let dblock = of(server, &name, 3).args(["--user", &account]).stdin(Stdio::piped());
                let mut dblock = dblock.sh("echo runs; read _; exit 0").spawn();
                dblock.wait_line("runs", SOON);
                dblock
            });
            let mut head = waiter(server, &name, 3);
            // The head waits for the last slot.
            drop(holders[0].take_stdin());
            let took = ran_after(&mut head, Instant::now());
            for (slot, mut holder) in holders.into_iter().enumerate() {
                if slot > 0 {
                    drop(holder.take_stdin());
                }
                holder.wait().expect_code(0).expect_silence();
            }
            admin.query_drop(format!("DROP USER '{account}'@'%'")).unwrap();
            took
        });
    }
}

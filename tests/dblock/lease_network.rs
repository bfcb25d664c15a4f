//! The network is cut, slow or stalls, and the server starts again, while commands run and others wait for the lock.

use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{
    Dblock, Island, Kind, Proxy, Records, Running, SOON, Server, both_servers, eventually,
    eventually_gone, holder, processes_with, slack, unique, waiters, within, works,
};
use crate::pools::slot_on_server;
use crate::sigkill::{looks_for_life, with_sign_of_life};

/// The shortest lease.
const TTL: Duration = Duration::from_secs(4);

/// How long a waiter that is cut off keeps the lock when its turn has come.
const OF_THE_DEAD: Duration = Duration::from_secs(3);

/// How long dblock may take after everything else is as it must be.
const A_MOMENT: Duration = Duration::from_secs(1);

/// Holders of so many slots or names, and so many who wait for them.
const HOLDERS: usize = 5;
const WAITERS: usize = 20;

both_servers! {
    fn a_host_that_is_cut_off_has_ended_its_command_before_another_has_the_lock(server) {
        let scripts = [
            "sleep 60 & echo shell $$; wait",
            "trap '' TERM; (trap '' TERM; sleep 60) & echo shell $$; while :; do sleep 0.1; done",
        ];
        thread::scope(|scope| {
            for script in scripts {
                scope.spawn(move || cut_off(server, &Island::new(server), &[], script));
            }
        });
    }

    fn a_host_that_is_cut_off_for_a_moment_loses_nothing(server on mariadb) {
        let (name, island) = (unique("moment"), Island::new(server));
        // TCP gives up when a heartbeat is not acknowledged for a quarter of the TTL, and sends it again ever more rarely before that.
        let run = island.run(&name).without_terminal().args(["--ttl", "30s"]).stdin(Stdio::piped());
        let mut first = run.sh("echo shell $$; cat >/dev/null; exit 6").spawn();
        let command = first.wait_pid("shell");
        let session = server.holder(&name);
        island.cut();
        // Longer than from one heartbeat to the next.
        let ended = within(Duration::from_secs(8), || !first.is_running());
        island.heal();
        assert!(!ended, "{}", first.stderr());
        let ended = within(Duration::from_secs(12), || !first.is_running());
        assert!(!ended && crate::harness::runs(command), "{}", first.stderr());
        assert_eq!(server.holder(&name), session, "{}", first.stderr());
        drop(first.take_stdin());
        first.wait_within(SOON).expect_code(6).expect_silence();
    }

    fn waiters_that_are_cut_off_cost_three_seconds_each(server on mysql) {
        thread::scope(|scope| {
            for slots in [1, 2] {
                scope.spawn(move || dead_waiters(server, slots));
            }
        });
    }

    fn a_restart_of_the_server_finds_every_holder_of_a_name_again(server) {
        let server = &Server::private(server.kind);
        for end in [Server::stop, Server::kill] {
            let (base, records) = (unique("restart"), Records::new());
            let name = |index: usize| format!("{base}-{}", index % HOLDERS);
            restart(server, end, &records, &base, |index| (name(index), 1), &[0; HOLDERS]);
            // Of each name one at a time.
            let intervals = records.intervals();
            for index in 0..HOLDERS {
                let mut of_one: Vec<_> = intervals.iter().filter(|interval| interval.id % HOLDERS == index).collect();
                of_one.sort_by_key(|interval| interval.start);
                let apart = of_one.windows(2).all(|pair| pair[0].end.is_some_and(|end| end <= pair[1].start));
                assert!(apart && of_one.len() == 1 + WAITERS / HOLDERS, "{of_one:?}");
            }
        }
    }

    fn a_restart_of_the_server_finds_every_holder_of_a_slot_again(server on mariadb) {
        let server = &Server::private(server.kind);
        for end in [Server::stop, Server::kill] {
            let (name, records) = (unique("restart"), Records::new());
            restart(server, end, &records, &name, |_| (name.clone(), 5), &[0, 1, 2, 3, 4]);
            records.assert_at_most(HOLDERS);
            assert_eq!(records.intervals().len(), HOLDERS + WAITERS);
        }
    }

    fn a_slow_network_that_stalls_ends_no_command(server on mysql) {
        const MINUTE: Duration = Duration::from_secs(60);
        let seed = fastrand::u64(..);
        let (name, proxy) = (unique("slow"), Proxy::to(server));
        proxy.delay(Duration::from_millis(300));
        proxy.stalls(seed, Duration::from_secs(3));
        let all = [("", "1"), ("-pool", "2"), ("-pool", "2"), ("", "1"), ("-pool", "2")].map(|(pool, slots)| {
            let dblock = Dblock::run_at(&proxy.url(), &format!("{name}{pool}")).without_terminal();
            let dblock = dblock.args(["--ttl", "30s", "--connect-timeout", "50", "--wait", "200", "-m", slots]);
            (dblock, pool, slots)
        });
        let mut running = Vec::new();
        for (index, (dblock, pool, slots)) in all.into_iter().enumerate() {
            // The last two wait for the others all the time.
            if index < 3 {
                let mut dblock = dblock.stdin(Stdio::piped()).sh("echo runs; cat >/dev/null; exit 6").spawn();
                dblock.wait_line("runs", Duration::from_secs(50));
                running.push(dblock);
            } else {
                let taken = (0..slots.parse().unwrap()).all(|slot| server.holder(&slot_on_server(&format!("{name}{pool}"), slot)).is_some());
                assert!(taken, "seed {seed}");
                running.push(dblock.sh("exit 6").spawn());
            }
        }
        let ended = within(MINUTE, || running.iter_mut().any(|dblock| !dblock.is_running()));
        let said = || running.iter().map(Running::stderr).collect::<Vec<_>>();
        assert!(!ended, "seed {seed}: {:?}", said());
        for dblock in &mut running[..3] {
            drop(dblock.take_stdin());
        }
        for mut dblock in running {
            dblock.wait_within(2 * MINUTE).expect_code(6).expect_silence();
        }
    }
}

#[test]
fn a_host_that_postgres_does_not_hear_of_has_ended_its_command_before_another_has_the_lock() {
    // By its own settings it would give a silent host up within two seconds.
    let listen = [
        "listen_addresses=*",
        "tcp_keepalives_idle=1",
        "tcp_keepalives_interval=1",
        "tcp_keepalives_count=1",
    ];
    let listen: Vec<_> = listen.iter().flat_map(|setting| ["-c", setting]).collect();
    let server = &Server::private_with(Kind::Postgres, &listen);
    server.make_tables();
    let ends_late =
        "trap '' TERM; (trap '' TERM; sleep 60) & echo shell $$; while :; do sleep 0.1; done";
    thread::scope(|scope| {
        for options in [&[][..], &["--durable"]] {
            scope.spawn(|| cut_off(server, &Island::beside(server), options, ends_late));
        }
        scope.spawn(|| healed(server, &Island::beside(server)));
    });
}

/// Cuts off a holder that goes on without its lock, until the server has freed that, and heals the network.
fn healed(server: &Server, island: &Island) {
    let name = unique("healed");
    let run = island.run(&name).without_terminal().stdin(Stdio::piped());
    let run = run.args(["--ttl", "4s", "--on-lock-lost", "ignore"]);
    let mut first = run.sh("echo shell $$; read x; exit 6").spawn();
    let command = first.wait_pid("shell");
    island.cut();
    eventually("the server has freed it", TTL + SOON, || {
        server.holder(&name).is_none()
    });
    assert!(crate::harness::runs(command), "{}", first.stderr());
    works(Dblock::run(server, &name));
    island.heal();
    first.wait_stderr("was lost", SOON);
    drop(first.take_stdin());
    let end = first.wait_within(SOON);
    end.expect_code(6)
        .expect_said(["the command continues without it"]);
}

/// The lease of a holder that is cut off: the end of its command may be late by a tenth of it, as on a machine that stands still.
const CUT_OFF: Duration = Duration::from_secs(24);

/// Cuts off a holder whose command is this `script`, while somebody else waits.
fn cut_off(server: &Server, island: &Island, options: &[&str], script: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (name, sign) = (unique("cut"), folder.path().join("sign"));
    let run = island
        .run(&name)
        .without_terminal()
        .args(["--ttl", "24s", "--kill-after", "1"])
        .args(options);
    let mut first = run.sh(&with_sign_of_life(&sign, script)).spawn();
    let command = first.wait_pid("shell");
    let mut second = Dblock::run(server, &name)
        .without_terminal()
        .args(["--wait", "forever"])
        .args(options)
        .sh(&looks_for_life(&sign))
        .spawn();
    eventually("the second copy waits", SOON, || {
        server.waiters(&name).len() == 1
    });
    island.cut();
    let cut = Instant::now();
    second.wait_line("", CUT_OFF + A_MOMENT + slack());
    let had = cut.elapsed();
    second
        .wait()
        .expect_code(0)
        .expect_stdout("alone\n")
        .expect_silence();
    assert!(had < CUT_OFF + A_MOMENT + slack(), "{had:?}");
    eventually_gone(command, Duration::ZERO);
    // Still cut off, it says what happened.
    let end = first.wait_within(SOON);
    end.expect_code(74).expect_said([&name]);
    let left = processes_with(&name);
    assert!(left.is_empty(), "{left:?}");
    island.heal();
    // A network takes a moment to be there again.
    works(
        island
            .run(&name)
            .without_terminal()
            .args(["--connect-timeout", "30"])
            .args(options),
    );
}

/// Cuts off the three first of four who wait, and frees the lock.
fn dead_waiters(server: &Server, slots: u32) {
    const DEAD: u32 = 3;
    let name = unique("dead");
    let mut admin = server.admin();
    let mut client = server.hold(&name);
    let _other = (slots > 1).then(|| server.hold(&slot_on_server(&name, 1)));
    let records = Records::new();
    let slots = slots.to_string();
    let mut queue = Vec::new();
    for id in 0..=DEAD as usize {
        let proxy = Proxy::to(server);
        let dblock = Dblock::run_at(&proxy.url(), &name)
            .without_terminal()
            .args(["--wait", "forever", "-m", &slots])
            .command(records.command(id))
            .spawn();
        eventually("one more waits", SOON, || {
            waiters(&mut admin, &name).len() == id + 1
        });
        queue.push((dblock, proxy));
    }
    for (_, proxy) in &queue[..DEAD as usize] {
        proxy.freeze();
    }
    client.unlock_all();
    let freed = Instant::now();
    let most = DEAD * OF_THE_DEAD + A_MOMENT + slack();
    eventually("the one that lives has run", most, || {
        records
            .intervals()
            .iter()
            .any(|interval| interval.end.is_some())
    });
    assert_eq!(
        records.order(),
        [DEAD as usize],
        "only the one that lives: {:?}",
        freed.elapsed()
    );
    for (dblock, proxy) in queue {
        proxy.thaw();
        dblock.wait().expect_code(0).expect_silence();
    }
    records.assert_no_overlap();
    assert_eq!(records.intervals().len(), DEAD as usize + 1);
}

/// Ends and starts the server under five holders and twenty who wait. `lock` tells the name and the slots of a caller's
/// lock, `slots` which slot each holder has.
fn restart(
    server: &Server,
    end: fn(&Server),
    records: &Records,
    base: &str,
    lock: impl Fn(usize) -> (String, u32),
    slots: &[u32],
) {
    let caller = |id: usize| {
        let (name, slots) = lock(id);
        Dblock::run(server, &name)
            .without_terminal()
            .args(["-m", &slots.to_string()])
            .args(["--connect-timeout", "40", "--kill-after", "1"])
    };
    let mut holders = Vec::new();
    for id in 0..HOLDERS {
        let command = records.command_around(id, "echo runs; cat >/dev/null");
        let mut dblock = caller(id).stdin(Stdio::piped()).command(command).spawn();
        dblock.wait_line("runs", SOON);
        holders.push(dblock);
    }
    let mut admin = server.admin();
    let waiting: Vec<Running> = (HOLDERS..HOLDERS + WAITERS)
        .map(|id| {
            let dblock = caller(id).args(["--wait", "forever"]);
            dblock
                .command(records.command_around(id, "sleep 0.05"))
                .spawn()
        })
        .collect();
    eventually("all wait", SOON, || {
        waiters(&mut admin, base).len() == WAITERS
    });
    drop(admin);
    end(server);
    server.start();
    let mut admin = server.admin();
    eventually("every lock is held", SOON, || {
        (0..HOLDERS).all(|id| holder(&mut admin, &slot_on_server(&lock(id).0, slots[id])).is_some())
    });
    // The others come now.
    eventually("all wait again", SOON, || {
        waiters(&mut admin, base).len() == WAITERS
            || holders.iter_mut().any(|dblock| !dblock.is_running())
    });
    assert_eq!(records.order(), [0, 1, 2, 3, 4], "the holders came first");
    for dblock in &mut holders {
        drop(dblock.take_stdin());
    }
    for dblock in holders {
        // Each says that it was lost for a time.
        dblock.wait().expect_code(0).expect_said([base]);
    }
    for dblock in waiting {
        dblock.wait().expect_code(0);
    }
    let torn = fs::read_dir(records.path()).unwrap().count();
    assert_eq!(torn, 1, "nothing but the records");
}

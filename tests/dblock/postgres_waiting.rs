//! Whoever waits on PostgreSQL is idle: it holds up neither VACUUM nor an index that is built, costs next to nothing, and has its turn all
//! the same, in the order of arrival and at once.

use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::harness::postgres::{Postgres, in_line, key, literal};
use crate::harness::{
    Client, Dblock, Frozen, Kind, Packet, Proxy, Records, Running, SOON, Server, dblock_holds,
    eventually, in_time, slack, unique, within,
};

/// The statements a second that a hundred waiters cost at most.
const MOST_STATEMENTS: f64 = 15.0;

/// How long a waiter that is stopped or cut off keeps the others from a free slot at most: the server ends its session, and the next one
/// looks whether it is still there.
const BLOCKED: Duration = Duration::from_millis(4000 + 2500);

/// Callers that wait for one of `slots`, in the order of their numbers.
#[track_caller]
fn queue(
    server: &Server,
    name: &str,
    slots: u32,
    callers: usize,
    command: impl Fn(usize) -> [String; 3],
) -> Vec<Running> {
    let line = line(server, name, slots, callers, command);
    line.into_iter().map(|(dblock, _)| dblock).collect()
}

/// The same, and the session with which each of them waits.
#[track_caller]
fn line(
    server: &Server,
    name: &str,
    slots: u32,
    callers: usize,
    command: impl Fn(usize) -> [String; 3],
) -> Vec<(Running, Option<u64>)> {
    let mut admin = server.watcher();
    let start = |id| {
        let dblock = Dblock::run(server, name).args(["-m", &slots.to_string(), "--wait", "5m"]);
        let dblock = dblock.command(command(id)).spawn();
        let mut sessions = Vec::new();
        eventually("the next one waits", SOON, || {
            sessions = crate::harness::waiters(&mut admin, name);
            sessions.len() == id + 1
        });
        (dblock, sessions.pop())
    };
    (0..callers).map(start).collect()
}

/// A command that tells its session, and records start and end around this work.
fn recorded(records: &Records, id: usize, work: &str) -> [String; 3] {
    records.command_around(id, &format!("echo $DBLOCK_CONNECTION_ID\n{work}"))
}

/// Waits for the ends of those that wait, each of which tells its session. They had their turns in their order, through so many slots:
/// those before one that starts have ended, but for those that have the other slots. The server ends the session of one that stands still
/// for seconds, and with that its place.
#[track_caller]
fn expect_order(line: Vec<(Running, Option<u64>)>, records: &Records, most: usize) {
    let keeps_place = line.into_iter().map(|(dblock, session)| {
        let output = dblock.wait();
        output.expect_code(0).expect_silence();
        output.stdout.trim().parse().ok() == session
    });
    let keeps_place: Vec<bool> = keeps_place.collect();
    let mut all = records.assert_at_most(most).intervals();
    assert_eq!(all.len(), keeps_place.len(), "{all:?}");
    all.retain(|one| keeps_place[one.id]);
    assert!(all.len() > keeps_place.len() / 2, "{keeps_place:?}");
    for one in &all {
        let is_there = |end: Option<u64>| end.is_none_or(|end| end > one.start);
        let others = all.iter();
        let before = others.filter(|other| other.id < one.id && is_there(other.end));
        assert!(before.count() < most, "{one:?} comes too soon: {all:?}");
    }
}

fn nothing(_: usize) -> [String; 3] {
    ["sh", "-c", "true"].map(str::to_owned)
}

/// A table with a thousand rows.
fn table(admin: &mut Postgres) -> String {
    let table = unique("t").replace('-', "_");
    admin.run(&format!("CREATE TABLE {table} (id int, v text)"));
    admin.run(&format!(
        "INSERT INTO {table} SELECT i, repeat('x', 100) FROM generate_series(1, 1000) i"
    ));
    table
}

/// Whether VACUUM takes away what was deleted: a table without any row is of no size then.
fn vacuum_removes(admin: &mut Postgres, table: &str) -> bool {
    admin.run(&format!("DELETE FROM {table}"));
    admin.run(&format!("VACUUM {table}"));
    admin.is(&format!("pg_relation_size({}) = 0", literal(table)))
}

/// Whether an index is built beside the work of others, within this time.
fn index_is_built(admin: &mut Postgres, table: &str, limit: &str) -> bool {
    admin.run(&format!("SET statement_timeout = {}", literal(limit)));
    let built = admin.try_query(&format!("CREATE INDEX CONCURRENTLY ON {table} (id)"));
    admin.run("RESET statement_timeout");
    match built {
        Ok(_) => true,
        Err(refused) if refused.state == "57014" => false,
        Err(refused) => panic!("{refused}"),
    }
}

#[test]
fn a_holder_and_thirty_waiters_hold_up_neither_vacuum_nor_a_new_index() {
    let server = &Server::private(Kind::Postgres);
    let (name, records) = (unique("idle"), Records::new());
    let holder = dblock_holds(server, &name);
    let waiting = line(server, &name, 1, 30, |id| recorded(&records, id, ""));
    let mut admin = server.postgres();
    let (first, second) = (table(&mut admin), table(&mut admin));
    // A statement of theirs may be under way.
    eventually("VACUUM removes what was deleted", SOON, || {
        vacuum_removes(&mut admin, &first)
    });
    assert!(index_is_built(&mut admin, &second, "20s"));
    // None of them has a snapshot, whatever it does in between.
    let has_snapshot = "EXISTS (SELECT FROM pg_stat_activity WHERE usename = 'dblock' AND backend_xmin IS NOT NULL AND state <> 'active')";
    assert!(!admin.is(has_snapshot), "{:#?}", server.sessions());
    eventually("they wait on", SOON, || server.waiters(&name).len() == 30);
    drop(holder);
    expect_order(waiting, &records, 1);
    records.assert_no_overlap();
}

#[test]
fn a_client_that_waits_in_pg_advisory_lock_does_hold_up_both() {
    // What the test above would see if dblock waited so.
    let server = &Server::private(Kind::Postgres);
    let name = unique("blocked");
    let holder = server.hold(&name);
    let mut waiter = server.postgres();
    waiter
        .begin(&format!("SELECT pg_advisory_lock({})", key(&name)))
        .unwrap();
    eventually("it waits", SOON, || server.is_waiting(waiter.pid));
    let mut admin = server.postgres();
    let (first, second) = (table(&mut admin), table(&mut admin));
    assert!(!vacuum_removes(&mut admin, &first));
    assert!(!index_is_built(&mut admin, &second, "1s"));
    drop(holder);
    waiter.end().unwrap();
}

#[test]
fn through_one_slot_and_through_three_they_go_in_the_order_of_arrival() {
    let server = Server::shared(Kind::Postgres);
    for (slots, callers) in [(1, 20), (3, 18)] {
        let (name, records) = (unique("order"), Records::new());
        let mut holders: Vec<_> = (0..slots).map(|_| holder(server, &name, slots)).collect();
        // Of odd lengths, so that they end in another order than they began.
        let command = |id| {
            let work = format!("sleep 0.{:02}", 10 + (id * 7) % 23);
            recorded(&records, id, &work)
        };
        let waiting = line(server, &name, slots, callers, command);
        for holder in &mut holders {
            drop(holder.take_stdin());
        }
        expect_order(waiting, &records, usize::try_from(slots).unwrap());
        for holder in holders {
            holder.wait().expect_code(0).expect_silence();
        }
    }
}

/// A holder of one of `slots`, until its stdin ends.
#[track_caller]
fn holder(server: &Server, name: &str, slots: u32) -> Running {
    let dblock = Dblock::run(server, name).args(["-m", &slots.to_string()]);
    let dblock = dblock.stdin(Stdio::piped()).sh("echo runs; read _; exit 0");
    let mut dblock = dblock.spawn();
    dblock.wait_line("runs", SOON);
    dblock
}

#[test]
fn a_hundred_waiters_cost_the_server_a_few_statements_a_second() {
    let server = &Server::private_with(Kind::Postgres, &["-c", "log_statement=all"]);
    let name = unique("hundred");
    let _holder = server.hold(&name);
    let _waiting = queue(server, &name, 1, 100, nothing);
    let statements = || {
        let log = server.log();
        let of_dblock = |line: &&str| line.contains("LOG:  statement: /* dblock ");
        u32::try_from(log.lines().filter(of_dblock).count()).unwrap()
    };
    let mut seen = Vec::new();
    // The server ends the sessions of those that stand still for seconds, and to begin new ones takes statements, too.
    let are_few = (0..3).any(|_| {
        // Its log is at least as long as what has begun is: nobody reads it between a line's two halves.
        let (before, begun) = (statements(), Instant::now());
        assert!(
            before > 100,
            "what they ask begins with a comment: {before}"
        );
        within(Duration::from_secs(10), || false);
        let (asked, lasted) = (statements() - before, begun.elapsed());
        seen.push((asked, lasted));
        f64::from(asked) <= MOST_STATEMENTS * lasted.as_secs_f64().ceil()
    });
    assert!(are_few, "{seen:?}");
}

#[test]
fn a_lock_is_handed_over_at_once() {
    let server = Server::shared(Kind::Postgres);
    let (name, records) = (unique("hand-over"), Records::new());
    let mut first = holder(server, &name, 1);
    let waiting = queue(server, &name, 1, 12, |id| records.command(id));
    drop(first.take_stdin());
    for dblock in waiting {
        dblock.wait().expect_code(0);
    }
    first.wait().expect_code(0);
    let intervals = records.assert_no_overlap().intervals();
    let mut gaps: Vec<Duration> = intervals
        .windows(2)
        .map(|pair| Duration::from_nanos(pair[1].start - pair[0].end.expect("it has ended")))
        .collect();
    gaps.sort_unstable();
    // The head looks by itself once a second; who is notified need not wait for that.
    assert!(gaps[gaps.len() / 2] < slack() / 4, "{gaps:?}");
}

#[test]
fn whoever_is_next_is_woken_also_when_dblock_is_killed() {
    let server = Server::shared(Kind::Postgres);
    let (name, proxy) = (unique("killed"), Proxy::to(server));
    let mut first = Dblock::run_at(&proxy.url(), &name)
        .sh("echo runs; exec sleep 600")
        .spawn();
    first.wait_line("runs", SOON);
    let waiting = queue(server, &name, 1, 1, |_| {
        ["sh", "-c", "echo ran"].map(str::to_owned)
    });
    first.signal(Signal::SIGKILL);
    eventually("its keeper wakes whoever is next", SOON, || {
        let packets = proxy.packets();
        let mut sent = packets.iter().filter_map(Packet::sent);
        sent.any(|sent| sent.contains("dblock release") && sent.contains("pg_notify"))
    });
    for dblock in waiting {
        dblock.wait().expect_code(0).expect_silence();
    }
}

#[test]
fn whoever_frees_a_lock_wakes_the_head_also_after_a_plain_program_had_it() {
    // A plain program notifies nobody: the head looks once a second.
    let server = Server::shared(Kind::Postgres);
    let name = unique("plain");
    let client = server.hold(&name);
    let mut waiting = queue(server, &name, 1, 2, |_| {
        ["sh", "-c", "echo ran"].map(str::to_owned)
    });
    drop(client);
    let freed = Instant::now();
    waiting[0].wait_line("ran", SOON);
    assert!(
        freed.elapsed() < Duration::from_millis(1500) + slack(),
        "{:?}",
        freed.elapsed()
    );
    for dblock in waiting {
        dblock.wait().expect_code(0).expect_silence();
    }
}

#[test]
fn a_waiter_that_is_stopped_or_cut_off_holds_up_the_others_for_its_idle_limit_at_most() {
    let server = Server::shared(Kind::Postgres);
    for is_cut_off in [false, true] {
        let (name, proxy) = (unique("silent"), Proxy::to(server));
        let mut first = holder(server, &name, 1);
        let wait = |url: &str| {
            let dblock = Dblock::run_at(url, &name).args(["--wait", "5m"]);
            dblock.without_terminal().sh("echo ran").spawn()
        };
        let silent = wait(&proxy.url());
        eventually("it waits", SOON, || server.waiters(&name).len() == 1);
        let mut next = wait(&server.url());
        eventually("both wait", SOON, || server.waiters(&name).len() == 2);
        let frozen = (!is_cut_off).then(|| [silent.pid(), silent.keeper(None)].map(Frozen::new));
        if is_cut_off {
            proxy.freeze();
        }
        drop(first.take_stdin());
        first.wait().expect_code(0);
        let freed = Instant::now();
        next.wait_line("ran", SOON);
        let took = freed.elapsed();
        assert!(took < BLOCKED + slack(), "{is_cut_off}: {took:?}");
        next.wait().expect_code(0).expect_silence();
        // It has not run, and does when it can.
        assert_eq!(silent.stdout(), "");
        drop(frozen);
        proxy.thaw();
        silent.wait().expect_code(0).expect_stdout("ran\n");
    }
}

#[test]
fn a_head_that_dies_between_a_notification_and_the_lock_leaves_it_to_the_next() {
    let server = Server::shared(Kind::Postgres);
    for victim in ["dblock", "session"] {
        let name = unique("dies");
        let mut first = holder(server, &name, 1);
        let mut waiting = queue(server, &name, 1, 3, |_| {
            ["sh", "-c", "echo ran"].map(str::to_owned)
        });
        let keeper = waiting[0].keeper(None);
        let session = server.waiters(&name)[0];
        // It is notified, and does not read it.
        let frozen = Frozen::new(keeper);
        drop(first.take_stdin());
        first.wait().expect_code(0);
        let freed = Instant::now();
        match victim {
            "dblock" => waiting[0].signal(Signal::SIGKILL),
            _ => crate::harness::Watcher::end_session(&mut server.watcher(), session),
        }
        drop(frozen);
        waiting[1].wait_line("ran", SOON);
        // Nobody tells the next one; it looks whether the one before it is gone.
        assert!(freed.elapsed() < SOON);
        waiting[2].wait_line("ran", SOON);
        let head = waiting.remove(0).wait();
        if victim == "session" {
            head.expect_code(0).expect_stdout("ran\n");
        }
        for dblock in waiting {
            dblock.wait().expect_code(0).expect_silence();
        }
    }
}

#[test]
fn a_wait_that_is_over_leaves_nothing_on_the_server() {
    let server = Server::shared(Kind::Postgres);
    let name = unique("over");
    let holder = server.hold(&name);
    for wait in ["0", "0.3"] {
        let run = Dblock::run(server, &name).args(["--wait", wait]);
        run.command(["true"]).output().expect_code(75);
    }
    let mut admin = server.postgres();
    let Client::Postgres(client) = &holder else {
        unreachable!("a client of PostgreSQL")
    };
    let others = format!(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid <> {} AND ({} OR
         (classid::bigint << 32) | objid::bigint = {})",
        client.pid,
        in_line(&name),
        key(&name)
    );
    eventually("nothing is left", SOON, || {
        admin.value::<u32>(&others) == Some(0)
    });
}

#[test]
fn the_key_of_a_name_is_the_documented_one_and_any_program_meets_it() {
    let server = Server::shared(Kind::Postgres);
    let held = dblock_holds(server, "backup");
    let mut admin = server.postgres();
    // By the number, too, which a program may have written out.
    let by_number = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1
                     AND (classid::bigint << 32) | objid::bigint = 6111399565520850680";
    assert_eq!(admin.value(by_number), Some(held.connection));
    assert!(!admin.is("pg_try_advisory_lock(6111399565520850680)"));
    drop(held);
    eventually("it is free", SOON, || {
        admin.is("pg_try_advisory_lock(6111399565520850680)")
    });
    let run = || Dblock::run(server, "backup").command(["true"]).output();
    run()
        .expect_code(75)
        .expect_one_line(&format!("connection {}", admin.pid));
    admin.run("SELECT pg_advisory_unlock(6111399565520850680)");
    run().expect_code(0).expect_silence();
}

#[test]
fn a_shared_lock_of_another_program_keeps_dblock_out_and_one_of_two_numbers_does_not() {
    let server = Server::shared(Kind::Postgres);
    let name = unique("shared");
    let mut client = server.postgres();
    let run = || Dblock::run(server, &name).command(["true"]).output();
    // The other space of keys.
    client.run(&format!(
        "SELECT pg_advisory_lock(({0} >> 32)::int, (({0} << 32) >> 32)::int)",
        key(&name)
    ));
    run().expect_code(0);
    client.run(&format!("SELECT pg_advisory_lock_shared({})", key(&name)));
    run().expect_code(75);
}

#[test]
fn a_lock_of_one_database_is_none_of_another() {
    let server = Server::shared(Kind::Postgres);
    let (name, other) = (unique("database"), unique("other").replace('-', "_"));
    let mut admin = server.postgres();
    admin.run(&format!("CREATE DATABASE {other}"));
    let _held = dblock_holds(server, &name);
    Dblock::run(server, &name)
        .command(["true"])
        .output()
        .expect_code(75);
    let url = server.url().replace("/app", &format!("/{other}"));
    let run = Dblock::run_at(&url, &name).command(["true"]).output();
    run.expect_code(0).expect_silence();
}

#[test]
fn a_commit_that_notifies_and_waits_for_a_standby_keeps_no_lock_and_ends_no_command() {
    let server = &Server::private(Kind::Postgres);
    let name = unique("notifies");
    let run = || {
        let run = Dblock::run(server, &name).args(["--wait", "5m"]);
        // A machine that stands still for seconds does not let it run out.
        run.args(["--ttl", "10", "--kill-after", "1"])
    };
    let mut first = run().stdin(Stdio::piped()).sh("echo began; cat").spawn();
    first.wait_line("began", SOON);
    let waiting: Vec<_> = (1..=2)
        .map(|number| {
            let waiting = run().sh("sleep 11").spawn();
            let stands = || server.waiters(&name).len() == number;
            eventually("the next one waits", SOON, stands);
            waiting
        })
        .collect();
    let mut admin = server.postgres();
    admin.run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    admin.run("SELECT pg_reload_conf()");
    let mut other = server.postgres();
    other.run("SET synchronous_commit = on");
    eventually("there is none", SOON, || {
        other.is("current_setting('synchronous_standby_names') = 'nobody'")
    });
    let waits = |pid: u64| {
        format!(
            "EXISTS (SELECT FROM pg_stat_activity WHERE pid = {pid} AND wait_event = 'SyncRep')"
        )
    };
    // Commits wait once another process of the server has read that, too, which may be a moment later.
    eventually("another commit waits for a standby", SOON, || {
        let mut before = server.postgres();
        before.run("SET synchronous_commit = on");
        let begun = before.begin("SELECT pg_logical_emit_message(true, 'test', '')");
        begun.is_ok() && within(Duration::from_millis(500), || admin.is(&waits(before.pid)))
    });
    // The server commits one at a time of those that notify.
    let writes = "BEGIN; CREATE TABLE written (number int); NOTIFY anybody; COMMIT";
    other.begin(writes).unwrap();
    let waits = waits(other.pid);
    eventually("its commit waits for a standby", SOON, || admin.is(&waits));
    drop(first.take_stdin());
    first.wait_within(SOON).expect_code(0).expect_silence();
    for mut waiting in waiting {
        waiting.wait_within(SOON).expect_code(0).expect_silence();
    }
    assert!(admin.is(&waits));
    admin.run("ALTER SYSTEM RESET synchronous_standby_names");
    admin.run("SELECT pg_reload_conf()");
    other.end().unwrap();
}

#[test]
fn notifications_of_others_end_nobodys_wait() {
    const MANY: u32 = 30_000;
    let server = Server::shared(Kind::Postgres);
    let name = unique("noise");
    let mut first = holder(server, &name, 1);
    let mut waiting = Dblock::run(server, &name).args(["--wait", "5m"]);
    waiting = waiting.without_terminal();
    let mut waiting = waiting.sh("echo ran").spawn();
    eventually("it waits", SOON, || server.waiters(&name).len() == 1);
    let session = server.waiters(&name)[0];
    let mut admin = server.postgres();
    admin.run(&format!(
        "SELECT pg_notify('dblock_{session}', number::text) FROM generate_series(1, {MANY}) number"
    ));
    // It has read them all: the server keeps what it has not sent.
    let is_sent = "pg_notification_queue_usage() = 0";
    eventually("they have arrived", SOON, || admin.is(is_sent));
    drop(first.take_stdin());
    first.wait().expect_code(0);
    waiting.wait_line("ran", SOON);
    waiting.wait().expect_code(0).expect_silence();
}

#[test]
fn notifications_without_end_cost_the_server_a_few_statements_a_second() {
    let server = Server::shared(Kind::Postgres);
    let are_few = (0..5).any(|_| notifications_cost_a_few_statements(server));
    assert!(are_few, "the sessions are kept");
}

/// Two that wait are notified all the time. `false`: the machine stood still for so long that one has lost its session, and a new one
/// begins with statements of its own.
fn notifications_cost_a_few_statements(server: &Server) -> bool {
    let (name, proxy) = (unique("flood"), Proxy::to(server));
    let mut first = holder(server, &name, 1);
    let wait = |number| {
        let dblock = Dblock::run_at(&proxy.url(), &name).args(["--wait", "5m"]);
        let dblock = dblock.command(["true"]).spawn();
        let stands = || server.waiters(&name).len() == number;
        eventually("it waits", SOON, stands);
        dblock
    };
    // The head, and one behind it.
    let waiting: Vec<_> = (1..=2).map(wait).collect();
    let sessions = server.waiters(&name);
    let notify = sessions
        .iter()
        .map(|session| format!("pg_notify('dblock_{session}', '')"));
    let notify = format!("SELECT {}", notify.collect::<Vec<_>>().join(", "));
    let statements = || {
        let packets = proxy.packets();
        packets.iter().filter_map(Packet::sent).count()
    };
    let connections = proxy.connections();
    let mut other = server.postgres();
    let (before, begun, mut times) = (statements(), Instant::now(), 0);
    while times < 500 || begun.elapsed() < Duration::from_secs(3) {
        other.run(&notify);
        times += 1;
    }
    let (asked, lasted) = (statements() - before, begun.elapsed());
    if sessions.len() < 2 || proxy.connections() > connections {
        return false;
    }
    // Ten each at once, and then ten a second by the head, and one by the other: its are two statements. And the looks of the line itself.
    let most = 30 + 15 * (lasted.as_secs() + 1);
    assert!(asked as u64 <= most, "{asked} in {lasted:?}");
    assert!(asked > 0, "they heed some");
    drop(first.take_stdin());
    first.wait().expect_code(0);
    for mut dblock in waiting {
        dblock.wait_within(SOON).expect_code(0).expect_silence();
    }
    true
}

#[test]
fn many_that_come_at_once_need_one_statement_each_for_their_numbers() {
    const CALLERS: usize = 30;
    let server = Server::shared(Kind::Postgres);
    let (name, proxy) = (unique("at-once"), Proxy::to(server));
    let holder = dblock_holds(server, &name);
    let waiting: Vec<_> = (0..CALLERS)
        .map(|_| {
            let dblock = Dblock::run_at(&proxy.url(), &name).args(["--wait", "5m"]);
            dblock.command(["true"]).spawn()
        })
        .collect();
    eventually("all of them wait", SOON, || {
        server.waiters(&name).len() == CALLERS
    });
    let took = |packet: &Packet| {
        packet
            .sent()
            .is_some_and(|sent| sent.contains("take number"))
    };
    let packets = proxy.packets();
    let statements = packets.iter().filter(|packet| took(packet)).count();
    // On a machine that is so slow that they lose sessions they need one for each of these.
    let sessions = proxy.connections();
    assert!(statements <= sessions, "{statements} in {sessions}");
    drop(holder);
    for dblock in waiting {
        dblock.wait().expect_code(0).expect_silence();
    }
}

/// Two names whose lines have one key: the first 32 bits of the SHA-256 of `line-21960#wait` and of `line-65378#wait` are the same.
const IN_ONE_LINE: [&str; 2] = ["line-21960", "line-65378"];

#[test]
fn two_locks_in_one_line_exclude_nobody_but_their_own_callers_and_lose_none() {
    const CALLERS: usize = 6;
    let server = &Server::private(Kind::Postgres);
    let records = [Records::new(), Records::new()];
    // Both at once.
    let holders = IN_ONE_LINE.map(|name| holder(server, name, 1));
    let waiting: Vec<_> = (0..CALLERS)
        .map(|id| {
            let of = id % 2;
            let dblock = Dblock::run(server, IN_ONE_LINE[of]).args(["--wait", "5m"]);
            dblock.command(records[of].command(id)).spawn()
        })
        .collect();
    for name in IN_ONE_LINE {
        eventually("all of them are in its line", SOON, || {
            server.waiters(name).len() == CALLERS
        });
    }
    for mut holder in holders {
        drop(holder.take_stdin());
        holder.wait().expect_code(0).expect_silence();
    }
    for mut dblock in waiting {
        dblock.wait_within(SOON).expect_code(0).expect_silence();
    }
    for records in records {
        let intervals = records.assert_no_overlap().intervals();
        assert_eq!(intervals.len(), CALLERS / 2, "{intervals:?}");
    }
}

#[test]
fn status_lists_each_caller_in_one_line_under_its_own_lock() {
    let server = &Server::private(Kind::Postgres);
    let _holders = IN_ONE_LINE.map(|name| holder(server, name, 1));
    let waiting = IN_ONE_LINE.map(|name| {
        let dblock = Dblock::run(server, name).args(["--wait", "5m"]);
        dblock.command(["true"]).spawn()
    });
    // It says nothing of itself, so it may wait for either.
    let mut stranger = server.postgres();
    let line = format!(
        "({} >> 32)::bit(32)::int",
        key(&format!("{}#wait", IN_ONE_LINE[0]))
    );
    stranger.run(&format!(
        "SELECT pg_advisory_lock({line}, (1 << 21) | 1000000)"
    ));
    let status = |names: &[&str]| {
        let run = Dblock::at(server, "status").arg("--json").args(names);
        let output = run.output();
        output.expect_code(0).expect_silence();
        output.json()
    };
    // The processes that wait for a lock, and how many sessions do.
    let waiters = |status: &Value, name: &str| {
        let locks = status["locks"].as_array().expect("a list");
        let mut of_name = locks.iter().filter(|lock| lock["name"] == name);
        let (lock, other) = (of_name.next().expect("it is listed"), of_name.next());
        assert!(other.is_none(), "{status:#}");
        let waiters = lock["waiters"].as_array().expect("a list");
        let pids = waiters.iter().filter_map(|waiter| waiter["pid"].as_i64());
        (pids.collect::<Vec<_>>(), waiters.len())
    };
    for names in [&IN_ONE_LINE[..], &[]] {
        for (name, dblock) in IN_ONE_LINE.iter().zip(&waiting) {
            let own = (vec![i64::from(dblock.pid())], 2);
            let mut seen = (Vec::new(), 0);
            // One that stands still for seconds loses its place, and gets another.
            let is_so = in_time(SOON, || {
                let is_whole = server.waiters(name).len() == 3;
                seen = waiters(&status(names), name);
                is_whole && seen == own
            });
            assert!(is_so, "{name}: {seen:?} instead of {own:?}");
        }
    }
}

#[test]
fn who_is_behind_another_locks_caller_in_one_line_has_its_turn_when_that_is_gone() {
    let server = &Server::private(Kind::Postgres);
    let [one, other] = IN_ONE_LINE;
    // In place of a caller, which would not keep its place on a machine that stands still.
    let mut ahead = server.postgres();
    let line = format!("({} >> 32)::bit(32)::int", key(&format!("{one}#wait")));
    ahead.run(&format!("SELECT pg_advisory_lock({line}, (1 << 21) | 1)"));
    let run = || Dblock::run(server, other);
    let skipped = run().sh("echo ran").output();
    skipped.expect_code(75).expect_stdout("");
    let mut waiting = run().args(["--wait", "5m"]).sh("echo ran").spawn();
    eventually("it waits", SOON, || server.waiters(other).len() == 2);
    assert_eq!(server.holder(other), None, "its lock is free");
    assert_eq!(waiting.stdout(), "");
    ahead.run("SELECT pg_advisory_unlock_all()");
    let ended = waiting.wait_within(SOON);
    ended.expect_code(0).expect_stdout("ran\n").expect_silence();
}

#[test]
fn where_all_numbers_are_used_up_callers_ask_now_and_then_and_have_their_turn() {
    const LARGEST: u32 = (1 << 21) - 1;
    let server = Server::shared(Kind::Postgres);
    let (name, proxy) = (unique("used-up"), Proxy::to(server));
    let holder = dblock_holds(server, &name);
    let mut last = server.postgres();
    let line = format!("({} >> 32)::bit(32)::int", key(&format!("{name}#wait")));
    last.run(&format!(
        "SELECT pg_advisory_lock({line}, (1 << 21) | {LARGEST})"
    ));
    assert_eq!(server.waiters(&name).len(), 1, "that is in this line");
    let wait = |_| {
        let dblock = Dblock::run_at(&proxy.url(), &name).args(["--wait", "5m"]);
        dblock.command(["true"]).spawn()
    };
    let begun = Instant::now();
    let waiting: Vec<_> = (0..2).map(wait).collect();
    let took = |packet: &Packet| {
        packet
            .sent()
            .is_some_and(|sent| sent.contains("take number"))
    };
    let asked = || proxy.packets().iter().filter(|packet| took(packet)).count();
    eventually("they ask again", SOON, || asked() >= 14);
    assert!(
        begun.elapsed() > Duration::from_secs(3),
        "less and less often"
    );
    last.run("SELECT pg_advisory_unlock_all()");
    // One may get the largest, as it was freed between its question and its try: then the other one waits for that.
    eventually("they have some", SOON, || !server.waiters(&name).is_empty());
    drop(holder);
    for mut dblock in waiting {
        dblock.wait_within(SOON).expect_code(0).expect_silence();
    }
}

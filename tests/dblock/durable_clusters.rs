//! Durable locks where several servers replicate: callers on different nodes exclude one another, and a holder keeps its lock while
//! nodes are killed, frozen or cut off, or ends its command before anybody else starts.

use std::fs;
use std::io::{self, Write};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::Signal;

use crate::harness::{
    Cluster, Dblock, Output, PASSWORD, Pair, Records, Replication, Running, SOON, both_servers,
    eventually, holder as holder_of, slack, unique, url_of, waiters, within,
};

/// Longer than a cluster takes to go on without a node.
const FAIL_OVER: Duration = Duration::from_secs(50);

/// `dblock COMMAND` with all nodes, this one first.
fn at(cluster: &Cluster, first: usize, command: &str) -> Dblock {
    Dblock::bare()
        .arg(command)
        .env("DBLOCK_URL", cluster.url_from(first))
        .env("DBLOCK_PASSWORD", PASSWORD)
}

/// `dblock run --durable` with all nodes, this one first.
fn run(cluster: &Cluster, first: usize, name: &str) -> Dblock {
    at(cluster, first, "run").args(["--durable", "--name", name])
}

/// `dblock run --durable` that knows one node only.
fn run_alone(cluster: &Cluster, node: usize, name: &str) -> Dblock {
    Dblock::run_at(&cluster.nodes[node].url(), name).arg("--durable")
}

fn init(cluster: &Cluster, first: usize) -> Dblock {
    at(cluster, first, "init")
        .env("DBLOCK_USER", "admin")
        .env("DBLOCK_PASSWORD", "admin-secret")
}

/// Makes dblock's tables, and lets the account `dblock` use them.
fn with_tables(cluster: Cluster) -> Cluster {
    init(&cluster, 0).output().expect_code(0);
    grant(&cluster);
    cluster
}

fn grant(cluster: &Cluster) {
    let grant = "GRANT SELECT, INSERT, UPDATE, DELETE ON dblock.* TO 'dblock'@'%'";
    let admin = cluster.admin(0).query_drop(grant);
    admin.expect("the admin may do that");
    eventually("all nodes know the account's rights", SOON, || {
        let count = "SELECT COUNT(*) FROM dblock.dblock_meta";
        let mut clients = cluster
            .nodes
            .iter()
            .map(|node| node.connect("dblock", PASSWORD));
        clients.all(|client| {
            let count = client.and_then(|mut client| client.query_first::<u8, _>(count));
            count.is_ok_and(|count| count == Some(1))
        })
    });
}

/// A command that records that it ran, and its fence.
fn recorded(records: &Records, id: usize, between: &str) -> [String; 3] {
    let fences = records.path().join("fences");
    let note = format!(
        "echo $DBLOCK_SLOT $DBLOCK_FENCE >>'{}'\n{between}",
        fences.display()
    );
    records.command_around(id, &note)
}

/// The fences of a slot's grants, in the order of the starts.
fn fences(records: &Records, slot: u32) -> Vec<u64> {
    let text = fs::read_to_string(records.path().join("fences")).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    let of_slot = pairs.filter(|(found, _)| *found == slot.to_string());
    let fences = of_slot.map(|(_, fence)| fence.parse().expect("a number"));
    fences.collect()
}

#[track_caller]
fn assert_fences_grow(records: &Records, slots: u32) {
    for slot in 0..slots {
        let fences = fences(records, slot);
        assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
    }
}

/// So many callers on all nodes, each of which runs so often under the lock: how they ended.
fn many(
    cluster: &Cluster,
    (callers, times): (usize, usize),
    slots: &str,
) -> (Records, Vec<Output>) {
    let (name, records) = (unique("many"), Records::new());
    let one = |id: usize| {
        let runs = (0..times).map(|_| {
            let run = run(cluster, id, &name).args(["-m", slots, "--wait", "500", "--ttl", "20"]);
            run.command(recorded(&records, id, "")).output()
        });
        runs.collect::<Vec<_>>()
    };
    let outputs = thread::scope(|scope| {
        let threads: Vec<_> = (0..callers)
            .map(|id| scope.spawn(move || one(id)))
            .collect();
        let joined = threads
            .into_iter()
            .flat_map(|one| one.join().expect("it ends"));
        joined.collect()
    });
    (records, outputs)
}

fn callers_on_all_nodes_exclude_one_another(cluster: &Cluster) {
    let begun = Instant::now();
    let (records, outputs) = many(cluster, (8, 5), "1");
    for output in &outputs {
        output.expect_code(0).expect_silence();
    }
    records.assert_no_overlap();
    assert_eq!(fences(&records, 0).len(), 40);
    assert_fences_grow(&records, 1);
    eprintln!("{}: 40 runs in {:?}", cluster.replication, begun.elapsed());
    let (records, outputs) = many(cluster, (6, 3), "2");
    for output in &outputs {
        output.expect_code(0).expect_silence();
    }
    records.assert_at_most(2);
    assert_eq!(records.intervals().len(), 18);
    assert_fences_grow(&records, 2);
    eprintln!("{}: 18 more in {:?}", cluster.replication, begun.elapsed());
}

/// The transactions of callers on all nodes meet in the row of a name that none of them has waited for.
fn of_those_who_come_at_once_one_has_the_lock(cluster: &Cluster) {
    for _ in 0..30 {
        let (name, records) = (unique("new"), Records::new());
        let runs = [0, 1, 2].map(|id| {
            let run = run_alone(cluster, id, &name).args(["--wait", "500"]);
            run.command(recorded(&records, id, "")).spawn()
        });
        for run in runs {
            run.wait().expect_code(0).expect_silence();
        }
        records.assert_no_overlap();
        assert_eq!(fences(&records, 0).len(), 3);
        assert_fences_grow(&records, 1);
    }
}

/// A lock that a script acquires on one node is renewed and released on others.
fn a_token_is_good_on_every_node(cluster: &Cluster) {
    let name = unique("token");
    let acquired = at(cluster, 0, "acquire").args(["--name", &name]).output();
    acquired.expect_code(0);
    let token = acquired.stdout.trim();
    for node in [1, 2] {
        at(cluster, node, "renew")
            .arg(token)
            .output()
            .expect_code(0)
            .expect_silence();
        run(cluster, node, &name)
            .sh("true")
            .output()
            .expect_code(75);
    }
    let run = at(cluster, 1, "run")
        .args(["--token", token])
        .sh("echo $DBLOCK_FENCE");
    run.output().expect_code(0).expect_stdout("1\n");
    at(cluster, 2, "release")
        .arg(token)
        .output()
        .expect_code(0)
        .expect_silence();
    for node in [0, 1] {
        at(cluster, node, "renew")
            .arg(token)
            .output()
            .expect_code(74);
    }
}

/// Several inits at once on different nodes leave a cluster that goes on.
fn several_inits_at_once_do_no_harm(cluster: &Cluster) {
    let outputs = thread::scope(|scope| {
        let threads = [0, 1, 2].map(|node| scope.spawn(move || init(cluster, node).output()));
        threads.map(|thread| thread.join().expect("it ends"))
    });
    for output in &outputs {
        output.expect_code(0).expect_silence();
    }
    cluster.eventually_settled();
    grant(cluster);
}

#[test]
fn callers_of_galera_exclude_one_another() {
    let cluster = Cluster::private(Replication::Galera);
    several_inits_at_once_do_no_harm(&cluster);
    of_those_who_come_at_once_one_has_the_lock(&cluster);
    callers_on_all_nodes_exclude_one_another(&cluster);
    a_token_is_good_on_every_node(&cluster);
    let run = Dblock::run_at(&cluster.url(), &unique("plain")).sh("true");
    run.output().expect_code(78).expect_one_line("Galera");
}

#[test]
fn callers_of_a_group_with_one_primary_exclude_one_another() {
    let cluster = Cluster::private(Replication::OnePrimary);
    several_inits_at_once_do_no_harm(&cluster);
    callers_on_all_nodes_exclude_one_another(&cluster);
    a_token_is_good_on_every_node(&cluster);
}

#[test]
fn callers_of_a_group_of_primaries_exclude_one_another() {
    let cluster = Cluster::private(Replication::AllPrimaries);
    several_inits_at_once_do_no_harm(&cluster);
    of_those_who_come_at_once_one_has_the_lock(&cluster);
    callers_on_all_nodes_exclude_one_another(&cluster);
    a_token_is_good_on_every_node(&cluster);
}

/// A node that takes writes: in a group with one primary, that one.
fn writer(cluster: &Cluster) -> usize {
    let takes_writes = |node: &usize| cluster.takes_writes(*node);
    let mut found = None;
    // A write has a second.
    eventually("a node takes writes", SOON, || {
        found = (0..3).find(takes_writes);
        found.is_some()
    });
    found.expect("one does")
}

/// A command that goes on until its standard input ends, or, as it records, until it is ended.
fn job(records: &Records, id: usize) -> [String; 3] {
    recorded(records, id, "trap : TERM\necho began\ncat")
}

/// Starts a holder or a waiter.
fn start(run: Dblock, records: &Records, id: usize) -> Running {
    run.stdin(Stdio::piped()).command(job(records, id)).spawn()
}

/// The server's time, or when a lock was last renewed as this node has it. `None`: it does not answer.
fn time_on(cluster: &Cluster, node: usize, renewal_of: Option<&str>) -> Option<String> {
    let time = match renewal_of {
        Some(name) => format!("(SELECT renewed_at FROM dblock.dblock_locks WHERE name = '{name}')"),
        None => "UTC_TIMESTAMP(6)".to_owned(),
    };
    let query = format!("SELECT CAST({time} AS CHAR)");
    cluster.answer::<Option<String>>(node, &query).flatten()
}

/// What is done to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Harm {
    CutOff,
    Freeze,
    Kill,
}

/// Harms the node of a holder and of a waiter. The holder goes on, in silence; the waiters have their turns afterwards. A holder that
/// knows that node only has ended its command before anybody else has its lock. Returns how long after the harm the
/// others took writes, and how long after it the lock was renewed.
fn survives(cluster: &Cluster, node: usize, harm: Harm) -> [Duration; 2] {
    let others = [(node + 1) % 3, (node + 2) % 3];
    let [name, lone] = ["held", "lone"].map(unique);
    let [records, lone_records] = [Records::new(), Records::new()];
    let waiting = |run: Dblock, records, id| {
        let mut waiter = start(run.args(["-v", "--wait", "600"]), records, id);
        waiter.wait_stderr("waiting", SOON);
        drop(waiter.take_stdin());
        waiter
    };
    // A silence of a quarter of it is told; renewals are due as often, but after a session's end at once.
    let ttl = ["--ttl", if harm == Harm::Kill { "60" } else { "40" }];
    let mut holder = start(run(cluster, node, &name).args(ttl), &records, 0);
    holder.wait_line("began", SOON);
    let mut waiters = [(node, 1), (others[0], 2)]
        .map(|(first, id)| waiting(run(cluster, first, &name).args(ttl), &records, id));
    // Its command has this time to record its end.
    let short = ["--ttl", "10", "--kill-after", "3.3"];
    let loner = run_alone(cluster, node, &lone).args(short);
    let mut loner = start(loner, &lone_records, 0);
    loner.wait_line("began", SOON);
    let next = run(cluster, others[1], &lone).args(short);
    let mut next = waiting(next, &lone_records, 1);

    let mut before = None;
    eventually("the node answers before the harm", SOON, || {
        before = time_on(cluster, others[0], None);
        before.is_some()
    });
    let harmed = Instant::now();
    match harm {
        Harm::CutOff => cluster.cut_off(node),
        Harm::Freeze => cluster.freeze(node),
        Harm::Kill => cluster.kill(node),
    }
    let [taken, renewed] = thread::scope(|scope| {
        let taken = scope.spawn(|| {
            let takes_writes = || others.iter().any(|other| cluster.takes_writes(*other));
            eventually("the others take writes", FAIL_OVER, takes_writes);
            harmed.elapsed()
        });
        eventually("the lock is renewed", FAIL_OVER, || {
            time_on(cluster, others[0], Some(&name)) > before
        });
        [taken.join().expect("they do"), harmed.elapsed()]
    });
    assert!(holder.is_running(), "{}", holder.stderr());

    loner.wait_within(FAIL_OVER).expect_code(74);
    assert!(holder.is_running(), "{}", holder.stderr());
    assert_eq!(records.order(), [0], "nobody else has begun");
    drop(holder.take_stdin());
    holder.wait_within(SOON).expect_code(0).expect_silence();
    if harm == Harm::Freeze && cluster.replication == Replication::OnePrimary {
        // On a primary those who wait keep their places in its queue, and it says nothing.
        cluster.thaw(node);
    }
    for waiter in waiters.iter_mut().chain([&mut next]) {
        waiter.wait_within(FAIL_OVER).expect_code(0);
    }
    records.assert_no_overlap();
    assert_eq!(records.intervals().len(), 3);
    assert_fences_grow(&records, 1);
    lone_records.assert_no_overlap();
    assert_eq!(lone_records.order(), [0, 1]);
    assert_fences_grow(&lone_records, 1);
    [taken, renewed]
}

fn a_lock_survives_its_node(replication: Replication) {
    let cluster = with_tables(Cluster::private(replication));
    let say = |what: &str, [taken, renewed]: [Duration; 2]| {
        eprintln!(
            "{replication}: node {what}: the others take writes after {taken:.1?}, the lock is renewed after {renewed:.1?}"
        );
    };
    let node = writer(&cluster);
    say("cut off", survives(&cluster, node, Harm::CutOff));
    cluster.heal(node);
    cluster.eventually_settled();
    let node = writer(&cluster);
    say("frozen", survives(&cluster, node, Harm::Freeze));
    cluster.thaw(node);
    cluster.eventually_settled();
    let times = survives(&cluster, writer(&cluster), Harm::Kill);
    say("killed", times);
    let [taken, renewed] = times;
    assert!(
        renewed < taken + Duration::from_secs(2) + slack(),
        "{times:?}"
    );
}

#[test]
fn a_lock_survives_its_galera_node() {
    a_lock_survives_its_node(Replication::Galera);
}

#[test]
fn a_lock_survives_the_primary_of_its_group() {
    a_lock_survives_its_node(Replication::OnePrimary);
}

#[test]
fn a_lock_survives_its_member_of_a_group_of_primaries() {
    a_lock_survives_its_node(Replication::AllPrimaries);
}

/// The row of a lock as this node has it: its fence, and whether somebody holds it.
fn row(cluster: &Cluster, node: usize, name: &str) -> (u64, bool) {
    let query =
        format!("SELECT fence, owner IS NOT NULL FROM dblock.dblock_locks WHERE name = '{name}'");
    let row: Option<(u64, bool)> = cluster.admin(node).query_first(query).expect("an answer");
    row.unwrap_or_default()
}

/// Says that it is over, also where a test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Callers on all nodes run again and again, while nodes are killed and started: never two at once, and every end has a reason.
fn answers_are_lost(replication: Replication, kills: usize) {
    const TTL: &str = "6";
    let seed = std::env::var("DBLOCK_SEED").map_or_else(
        |_| fastrand::u64(..),
        |seed| seed.parse().expect("a number"),
    );
    eprintln!("{replication}: DBLOCK_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let cluster = &with_tables(Cluster::private(replication));
    let (name, records, over) = (&unique("lost"), &Records::new(), &AtomicBool::new(false));
    let one = |id: usize| {
        let mut outputs = Vec::new();
        while !over.load(Ordering::Relaxed) {
            let run = run(cluster, id, name).args(["--wait", "20", "--ttl", TTL]);
            outputs.push(run.command(recorded(records, id, "trap : TERM")).output());
        }
        outputs
    };
    let outputs: Vec<Output> = thread::scope(|scope| {
        let is_over = Over(over);
        let threads: Vec<_> = (0..6).map(|id| scope.spawn(move || one(id))).collect();
        for _ in 0..kills {
            let runs = records.intervals().len() + random.usize(5..15);
            eventually("they run", FAIL_OVER, || records.intervals().len() > runs);
            let node = if replication == Replication::OnePrimary {
                writer(cluster)
            } else {
                random.usize(0..3)
            };
            // At any moment of some run.
            within(Duration::from_micros(random.u64(0..20_000)), || false);
            cluster.kill(node);
            let runs = records.intervals().len();
            eventually("the others go on", FAIL_OVER, || {
                records.intervals().len() > runs + 5
            });
            if replication != Replication::Galera {
                // A member that starts takes writes until it is told to join: it is no part of the group, and does not say so.
                break;
            }
            cluster.start(node);
            cluster.eventually_settled();
        }
        drop(is_over);
        threads
            .into_iter()
            .flat_map(|one| one.join().expect("it ends"))
            .collect()
    });
    for output in &outputs {
        // The wait may be over while the others elect, or the lease.
        assert!(matches!(output.code, Some(0 | 69 | 74 | 75)), "{output:#?}");
    }
    let of_code = |code| {
        outputs
            .iter()
            .filter(|output| output.code == Some(code))
            .count()
    };
    eprintln!(
        "{replication}: {} runs, of which {:?} ended with 69, 74 and 75",
        outputs.len(),
        [69, 74, 75].map(of_code)
    );
    records.assert_no_overlap();
    assert_fences_grow(records, 1);
    // Nobody is left: a grant whose answer was lost is over by now, or soon.
    let ended = Instant::now();
    eventually("the lock is to be had", FAIL_OVER, || {
        let run = run(cluster, 0, name).sh("true").output();
        run.code == Some(0)
    });
    let limit = Duration::from_secs(TTL.parse::<u64>().expect("a number") + 2) + slack();
    assert!(
        ended.elapsed() < limit,
        "held for {:?} by nobody: {:?}",
        ended.elapsed(),
        row(cluster, 0, name)
    );
}

#[test]
fn a_lost_answer_of_galera_grants_nothing_twice() {
    answers_are_lost(Replication::Galera, kills());
}

#[test]
fn a_lost_answer_of_a_primary_grants_nothing_twice() {
    answers_are_lost(Replication::OnePrimary, 1);
}

#[test]
fn a_lost_answer_of_a_group_of_primaries_grants_nothing_twice() {
    answers_are_lost(Replication::AllPrimaries, 1);
}

/// How many Galera nodes are killed, one after the other: `DBLOCK_KILLS`, or one.
fn kills() -> usize {
    std::env::var("DBLOCK_KILLS").map_or(1, |kills| kills.parse().expect("a number"))
}

/// Where a node's clock is off by more than a tenth of the TTL there is no durable lock across it.
#[test]
fn nodes_with_other_clocks_are_refused() {
    let cluster = with_tables(Cluster::private_with_clocks(
        Replication::Galera,
        [0, 30, 0],
    ));
    let [near, far] = ["near", "far"].map(unique);
    let hold = |name: &str, first: usize, ttl: &str| {
        let run = run(&cluster, first, name)
            .args(["--ttl", ttl])
            .stdin(Stdio::piped());
        let mut run = run.sh("echo began; cat").spawn();
        run.wait_line("began", SOON);
        run
    };
    // The clock of the node that has written the row is 30 s ahead.
    let ttls = [(&near, "400", 75), (&far, "60", 78)];
    for (name, ttl, code) in ttls {
        let holder = hold(name, 1, ttl);
        let other = run(&cluster, 0, name)
            .args(["--ttl", ttl])
            .sh("true")
            .output();
        other.expect_code(code);
        if code == 78 {
            other.expect_one_line("clock");
        }
        drop(holder);
    }
    // Rows whose time is over by the clock that is ahead: what counts is how soon their holders end their commands, too.
    for (held, ttl, code) in [("60", "400", 78), ("400", "60", 78), ("400", "400", 0)] {
        let name = unique("expired");
        let holder = hold(&name, 0, held);
        let expire = format!(
            "UPDATE dblock.dblock_locks SET expires_at = UTC_TIMESTAMP(6) + INTERVAL 5 SECOND WHERE name = '{name}'"
        );
        let mut admin = cluster.admin(0);
        admin.query_drop(expire).expect("the admin may do that");
        let other = run(&cluster, 1, &name).args(["--ttl", ttl]);
        let other = other.sh("true").output();
        other.expect_code(code);
        if code == 78 {
            other.expect_one_line("clock");
        }
        drop(holder);
    }
}

/// Waits until a member of a group has carried out all that the first one has, and would still have it after SIGKILL.
fn has_all_on_disk(cluster: &Cluster, index: usize) {
    let mut first = cluster.admin(0);
    let executed = first.query_first::<String, _>("SELECT @@GLOBAL.gtid_executed");
    let executed = executed.expect("it is asked").expect("it has written");
    let mut member = cluster.admin(index);
    let wait = format!(
        "SELECT WAIT_FOR_EXECUTED_GTID_SET('{executed}', {})",
        SOON.as_secs()
    );
    let expired = member.query_first::<u8, _>(wait).expect("it waits");
    assert_eq!(expired, Some(0), "it has what the first has");
    // The servers of the tests flush once a second only.
    let flush = "FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS";
    member.query_drop(flush).expect("the admin may do that");
}

/// A member that was started again and is told nothing takes writes of its own.
fn a_member_that_has_not_joined_is_passed_over(replication: Replication) {
    let cluster = with_tables(Cluster::private(replication));
    let outside = 2;
    has_all_on_disk(&cluster, outside);
    cluster.kill(outside);
    cluster.nodes[outside].start();
    let admin = |statement: &str| cluster.admin(outside).query_drop(statement);
    admin("CREATE DATABASE its_own").expect("it takes writes of its own");
    let name = unique("outside");
    let output = run(&cluster, outside, &name).sh("echo ran").output();
    output
        .expect_code(0)
        .expect_silence()
        .expect_stdout("ran\n");
    assert_eq!(row(&cluster, 0, &name), (1, false), "on another member");
    let alone = |dblock: Dblock| dblock.env("DBLOCK_URL", cluster.nodes[outside].url());
    // An init looks for another one for four fifths of that.
    let alone = |dblock| alone(dblock).args(["--connect-timeout", "25"]).spawn();
    let named = "is a member of a group that it has not joined since it was started";
    let both = [
        run(&cluster, outside, &name).sh("true"),
        init(&cluster, outside),
    ];
    for dblock in both.map(alone) {
        dblock
            .wait()
            .expect_code(78)
            .expect_stdout("")
            .expect_one_line(named);
    }
}

#[test]
fn a_member_that_has_not_joined_its_group_is_passed_over() {
    a_member_that_has_not_joined_is_passed_over(Replication::OnePrimary);
}

#[test]
fn a_member_that_has_not_joined_its_group_of_primaries_is_passed_over() {
    a_member_that_has_not_joined_is_passed_over(Replication::AllPrimaries);
}

both_servers! {
    fn a_durable_lock_follows_the_right_to_write(server) {
        let pair = Pair::private(server.kind);
        pair.primary.make_tables();
        eventually("the replica knows the account's rights", SOON, || {
            let count = "SELECT COUNT(*) FROM dblock.dblock_meta";
            pair.replica.client().query_first::<u8, _>(count).is_ok_and(|count| count == Some(1))
        });
        let (name, records) = (unique("durable"), Records::new());
        // The replica first: it is passed over for the grant and for each renewal.
        let url = url_of([&pair.replica, &pair.primary]);
        let run = |id: usize| {
            let run = Dblock::run_at(&url, &name).args(["--durable", "--ttl", "60", "--wait", "600"]);
            start(run, &records, id)
        };
        let mut holder = run(0);
        holder.wait_line("began", SOON);
        let [renewed, replicated] = [&pair.primary, &pair.replica].map(|server| {
            let query = format!("SELECT CAST(renewed_at AS CHAR) FROM dblock.dblock_locks WHERE name = '{name}'");
            // A row is made before it is granted: until then it has no time, on the replica too.
            move || server.admin().query_first::<Option<String>, _>(&query).ok().flatten().flatten()
        });
        eventually("the row is replicated", SOON, || replicated().is_some());
        let mut waiter = run(1);
        drop(waiter.take_stdin());
        eventually("it waits", SOON, || waiters(&mut pair.primary.admin(), &name).len() == 1);
        let first = renewed();
        let mut primary = pair.primary.admin();
        let session = holder_of(&mut primary, &name).expect("its named lock is held");
        // Another session renews it: on the primary again.
        primary.query_drop(format!("KILL {session}")).expect("the admin may do that");
        eventually("it is renewed", SOON, || renewed() > first);
        eventually("the row is replicated", SOON, || replicated() == renewed());
        let before = renewed();
        let killed = Instant::now();
        pair.primary.kill();
        pair.replica.set_read_only(false);
        eventually("it is renewed on the replica", SOON, || replicated() > before);
        eprintln!("{}: renewed {:.1?} after the death of the primary", server.kind, killed.elapsed());
        assert_eq!(records.order(), [0], "nobody else has begun");
        drop(holder.take_stdin());
        holder.wait_within(SOON).expect_code(0).expect_silence();
        waiter.wait_within(SOON).expect_code(0).expect_silence();
        records.assert_no_overlap();
        assert_eq!(records.order(), [0, 1]);
        assert_fences_grow(&records, 1);
    }

    fn a_release_is_not_left_on_a_primary_that_is_read_only_by_then_though_its_account_may_write_there(server) {
        let pair = Pair::private(server.kind);
        pair.primary.make_tables();
        pair.primary.let_write_above_read_only("dblock");
        let name = unique("demoted");
        let run = Dblock::run_at(&url_of([&pair.primary, &pair.replica]), &name).args(["--durable", "--ttl", "60"]);
        let mut run = run.stdin(Stdio::piped()).sh("echo began; read line; exit 3").spawn();
        run.wait_line("began", SOON);
        pair.part();
        drop(run.take_stdin());
        run.wait_within(SOON).expect_code(3);
        let free = format!("SELECT fence FROM dblock.dblock_locks WHERE name = '{name}' AND owner IS NULL");
        assert_eq!(pair.replica.admin().query_first::<u64, _>(free).unwrap(), Some(1));
    }

    fn what_nobody_has_any_more_is_released_on_the_primary_that_took_the_place_of_its_own(server on mariadb) {
        let pair = Pair::private(server.kind);
        pair.primary.make_tables();
        let url = url_of([&pair.primary, &pair.replica]);
        let [killed, unread] = ["killed", "unread"].map(unique);
        let run = Dblock::run_at(&url, &killed).args(["--durable", "--ttl", "1h"]).without_terminal();
        let mut run = run.sh("echo began; exec sleep 600").spawn();
        run.wait_line("began", SOON);
        // There is no room for the token yet.
        let (reader, writer) = io::pipe().unwrap();
        let size = fcntl(&writer, FcntlArg::F_GETPIPE_SZ).unwrap();
        (&writer).write_all(&vec![b'\n'; size.try_into().unwrap()]).unwrap();
        let acquire = Dblock::bare().args(["acquire", "--name", &unread, "--ttl", "1h"]).env("DBLOCK_URL", &url);
        let mut acquiring = acquire.env("DBLOCK_PASSWORD", PASSWORD).stdout(writer).spawn();
        let place = format!("/proc/{}/wchan", acquiring.pid());
        eventually("it is about to print the token", SOON, || fs::read_to_string(&place).unwrap_or_default().contains("pipe"));
        pair.part();
        let is_held = |name: &str| pair.replica.owner(name, 0).is_some();
        assert!(is_held(&killed) && is_held(&unread), "the replica knows of both");
        run.signal(Signal::SIGKILL);
        run.wait_within(SOON).expect_signal(Signal::SIGKILL);
        eventually("the row of the run is free", SOON, || !is_held(&killed));
        drop(reader);
        acquiring.wait_within(SOON).expect_code(70).expect_said(["cannot write to stdout: "]);
        eventually("the row of the token is free", SOON, || !is_held(&unread));
        let ended = format!("SELECT message FROM dblock.dblock_runs WHERE name = '{unread}'");
        let ended: Option<String> = pair.replica.admin().query_first(ended).unwrap();
        assert_eq!(ended.as_deref(), Some("the token was not printed"));
    }
}

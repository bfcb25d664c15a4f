//! Durable locks where several servers replicate: callers on different nodes exclude one another, and a holder keeps its lock while
//! nodes are killed, frozen or cut off, or ends its command before anybody else starts.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;

use crate::harness::{
    Cluster, Dblock, Output, PASSWORD, Records, Replication, SOON, eventually, unique,
};

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

fn init(cluster: &Cluster, first: usize) -> Dblock {
    at(cluster, first, "init")
        .env("DBLOCK_USER", "admin")
        .env("DBLOCK_PASSWORD", "admin-secret")
}

fn grant(cluster: &Cluster) {
    let grant = "GRANT SELECT, INSERT, UPDATE, DELETE ON dblock.* TO 'dblock'@'%'";
    let admin = cluster.admin(0).query_drop(grant);
    admin.expect("the admin may do that");
    eventually("all nodes know the account's rights", SOON, || {
        let count = "SELECT COUNT(*) FROM dblock.dblock_meta";
        let mut clients = cluster.nodes.iter().map(|node| node.client());
        clients.all(|mut client| {
            client
                .query_first::<u8, _>(count)
                .is_ok_and(|count| count == Some(1))
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
            let run = run(cluster, id, &name).args(["-m", slots, "--wait", "50", "--ttl", "20"]);
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
    let (records, outputs) = many(cluster, (8, 10), "1");
    for output in &outputs {
        output.expect_code(0).expect_silence();
    }
    records.assert_no_overlap();
    assert_eq!(fences(&records, 0).len(), 80);
    assert_fences_grow(&records, 1);
    eprintln!("{}: 80 runs in {:?}", cluster.replication, begun.elapsed());
    let (records, outputs) = many(cluster, (6, 6), "2");
    for output in &outputs {
        output.expect_code(0).expect_silence();
    }
    records.assert_at_most(2);
    assert_eq!(records.intervals().len(), 36);
    assert_fences_grow(&records, 2);
    eprintln!("{}: 36 more in {:?}", cluster.replication, begun.elapsed());
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
    callers_on_all_nodes_exclude_one_another(&cluster);
    a_token_is_good_on_every_node(&cluster);
}

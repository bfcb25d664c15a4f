//! A MySQL group of three (Group Replication) loses its primary under a job, and what happens when is printed. A program of
//! its own, which `script/failover` runs: it takes a minute and 1 GB.

#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    unreachable_pub,
    reason = "the harness offers more than this one test uses"
)]

mod harness;

use std::process::Stdio;
use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;

use crate::harness::{
    Cluster, Dblock, Records, Replication, SOON, Server, eventually, holder, unique, waiters,
};

/// How long after a member takes writes the holder of a durable lock is to have renewed it there.
const RENEWED: Duration = Duration::from_secs(2);

/// When the row of a durable lock was renewed last, by the server's clock, and its fence.
fn renewal(admin: &mut Conn, name: &str) -> Option<(String, u64)> {
    let query = "SELECT CAST(renewed_at AS CHAR), fence FROM dblock.dblock_locks WHERE name = ? AND owner IS NOT NULL";
    admin.exec_first(query, (name,)).expect("the table")
}

#[test]
fn a_group_loses_its_primary_under_a_job() {
    println!("Three MySQL servers form a group ...");
    let group = Cluster::private_and_patient(Replication::OnePrimary);
    let [primary, others @ ..] = &group.nodes;
    let (url, name, records) = (group.url(), unique("fail-over"), Records::new());
    let dblock = |id: usize, between: &str| {
        // They end with this process, however it ends.
        let dblock = Dblock::run_at(&url, &name).under(["setpriv", "--pdeathsig", "TERM"]);
        let dblock = dblock.args(["--ttl", "60", "--wait", "120", "-v"]);
        let command = records.command_around(id, between);
        dblock.stdin(Stdio::piped()).command(command).spawn()
    };
    println!("{url}\nA job begins, two others wait for its lock:");
    println!("  dblock run --ttl 60 --wait 120 --name {name} -- ...");
    let mut job = dblock(0, "echo began; cat");
    job.wait_line("began", SOON);
    assert!(primary.holder(&name).is_some(), "held on the primary");
    let waiting = [1, 2].map(|id| dblock(id, ""));
    let mut admin = primary.admin();
    eventually("two wait", SOON, || waiters(&mut admin, &name).len() == 2);

    primary.make_tables();
    let row = unique("fail-over-row");
    println!(
        "Another job begins, whose lock is a row, too:\n  dblock run --durable --ttl 60 --name {row} -- ..."
    );
    let durable = Dblock::run_at(&url, &row).under(["setpriv", "--pdeathsig", "TERM"]);
    let durable = durable.args(["--durable", "--ttl", "60", "-v"]);
    let mut durable = durable.stdin(Stdio::piped()).sh("echo began; cat").spawn();
    durable.wait_line("began", SOON);
    let (granted, fence) = renewal(&mut admin, &row).expect("it is held");

    let mut admins = others.each_ref().map(Server::admin);
    let killed = Instant::now();
    let note = |what: &str| println!("{:6.1} s  {what}", killed.elapsed().as_secs_f64());
    note(&format!("the primary, port {}, is killed", primary.port));
    primary.kill();
    let mut elected = None;
    eventually("a new primary is elected", Duration::from_secs(60), || {
        elected = admins.iter_mut().position(|admin| {
            let read_only: Option<u8> = admin
                .query_first("SELECT @@super_read_only")
                .expect("an answer");
            read_only == Some(0)
        });
        elected.is_some()
    });
    let elected = elected.expect("it was just seen");
    note(&format!(
        "the member at port {} takes writes",
        others[elected].port
    ));
    let admin = &mut admins[elected];
    let takes_writes = killed.elapsed();
    let (mut renewed, mut held) = (None, None);
    eventually("both locks are held there", Duration::from_secs(60), || {
        let now = renewal(admin, &row).expect("nobody has released it");
        assert_eq!(now.1, fence, "it is the same grant");
        if now.0 != granted && renewed.is_none() {
            renewed = Some(killed.elapsed());
            note("the row is renewed there");
        }
        if held.is_none() && holder(admin, &name).is_some() {
            held = Some(killed.elapsed());
            note("the lock is held there");
        }
        renewed.is_some() && held.is_some()
    });
    eventually("the others wait there", SOON, || {
        waiters(admin, &name).len() == 2
    });
    assert!(job.is_running(), "the job goes on: {}", job.stderr());
    assert_eq!(records.order(), [0], "nobody else has begun");
    note("the others wait for it there, and the job still runs, as the only one");

    let after = renewed
        .expect("it was just seen")
        .saturating_sub(takes_writes);
    println!(
        "The row was renewed {:.1} s after a member took writes, {:.1} s after the death of the primary; at most {:.0} s after it \
         was meant{}.",
        after.as_secs_f64(),
        takes_writes.as_secs_f64(),
        RENEWED.as_secs_f64(),
        if after > RENEWED { ": missed" } else { "" }
    );
    assert!(durable.is_running(), "it goes on: {}", durable.stderr());
    drop(durable.take_stdin());
    let end = durable.wait_within(SOON);
    end.expect_code(0);
    note("the job with the row was told to end, and its dblock exited with 0, having said:");
    println!("{}", end.stderr.trim_end());

    drop(job.take_stdin());
    let end = job.wait_within(SOON);
    end.expect_code(0);
    note("the job was told to end, and its dblock exited with 0, having said:");
    println!("{}", end.stderr.trim_end());
    for mut waiter in waiting {
        waiter.wait_within(SOON).expect_code(0);
    }
    note("the others have run, one after the other");
    records.assert_no_overlap();
    assert_eq!(records.intervals().len(), 3);
}

//! Servers that replicate: where a lock would not exclude it is not taken, and it follows whichever server takes writes.

use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mysql::Conn;
use mysql::prelude::Queryable;
use nix::sys::signal::Signal;

use crate::harness::{
    Cluster, Dblock, Kind, PASSWORD, Pair, Records, Replication, Running, SOON, Server, Unkillable,
    Write, both_servers, eventually, eventually_unkillable, holder, quoted, runs, send, slack,
    unique, url_of, waiters,
};

/// A TTL, in seconds, for which a job goes on where a machine stands still for some of them.
const TTL: &str = "16";

/// How often a session with that TTL is looked at.
const HEARTBEAT: Duration = Duration::from_secs(4);

/// A job that is without its lock for longer is being ended, at that TTL.
const SPARE: Duration = Duration::from_secs(10);

/// A node of Galera that hears nothing of another gives it up after this time at the earliest.
const GIVEN_UP: Duration = Duration::from_millis(1500);

/// Galera: the node is in no primary component.
const WSREP_NOT_READY: u16 = 1047;

const READ_ONLY: u16 = 1290;

/// The server takes only who may administer connections. The second is that of MySQL 9.7.
const OFFLINE: [u16; 2] = [3032, 6400];

impl Pair {
    /// What a user gives as `--url`: the primary first.
    fn url(&self) -> String {
        url_of([&self.primary, &self.replica])
    }

    /// The two change places, the way an administrator has them do it.
    fn switch_over(&self) {
        self.primary.set_read_only(true);
        self.replica.set_read_only(false);
    }

    /// The primary dies, and the replica takes its place: sooner than a waiter believes that the holder is gone, too.
    fn fail_over(&self) {
        send(self.primary.pid(), Signal::SIGKILL);
        self.replica.set_read_only(false);
        self.primary.kill();
    }

    /// Waits until dblock says, as it does with -v, that it has the lock again: on what was the replica.
    #[track_caller]
    fn has_it_again(&self, run: &mut Running, name: &str, deadline: Duration) {
        // Not by the server's word alone: the lock is also held for a moment where a read-only server is asked.
        run.wait_stderr(" was reacquired ", deadline);
        let holder = self.replica.holder(name).expect("the lock is held there");
        let said = format!("on connection {holder}\n");
        assert!(run.stderr().contains(&said), "{said:?}: {}", run.stderr());
    }
}

/// A job and a waiter whose servers `change` under them: the job has its lock again within `deadline`, the waiter has its
/// turn after the job's end and not before.
fn waits_until_the_end(kind: Kind, change: impl FnOnce(&Pair), deadline: Duration) {
    let pair = Pair::private(kind);
    let name = unique("followed");
    let records = Records::new();
    let dblock = || Dblock::run_at(&pair.url(), &name).args(["-v", "--ttl", TTL, "--wait", "60"]);
    let command = records.command_around(0, "echo began; cat");
    let mut first = dblock().stdin(Stdio::piped()).command(command).spawn();
    first.wait_line("began", SOON);
    let mut second = dblock().command(records.command(1)).spawn();
    let mut admin = pair.primary.admin();
    eventually("it waits on the primary", SOON, || {
        waiters(&mut admin, &name).len() == 1
    });
    change(&pair);
    pair.has_it_again(&mut first, &name, deadline);
    let mut admin = pair.replica.admin();
    eventually("it waits on the other server", SOON, || {
        waiters(&mut admin, &name).len() == 1
    });
    assert_eq!(records.order(), [0], "the waiter's command has not begun");
    assert!(second.is_running(), "its wait goes on: {}", second.stderr());
    assert!(
        first.is_running(),
        "its command goes on: {}",
        first.stderr()
    );
    drop(first.take_stdin());
    first.wait_within(SOON).expect_code(0);
    second.wait_within(SOON).expect_code(0);
    records.assert_no_overlap();
    assert_eq!(records.order(), [0, 1]);
}

/// A command that says that it began, and exits with 5 when its standard input ends.
fn job(url: &str, name: &str) -> Dblock {
    Dblock::run_at(url, name)
        .args(["-v", "--ttl", TTL])
        .stdin(Stdio::piped())
        .sh("echo began; cat; exit 5")
}

/// The command was not ended: it ends when it is told to, with its own code.
#[track_caller]
fn ends_by_itself(mut job: Running) {
    assert!(job.is_running(), "the command was ended: {}", job.stderr());
    drop(job.take_stdin());
    job.wait_within(SOON).expect_code(5);
}

#[test]
fn two_galera_nodes_grant_one_lock_at_once() {
    let name = unique("granted-twice");
    let _clients = Cluster::shared_galera()
        .nodes
        .each_ref()
        .map(|node| node.hold(&name));
}

#[test]
fn a_galera_node_is_refused() {
    for node in &Cluster::shared_galera().nodes {
        let output = Dblock::run(node, &unique("galera")).sh("echo ran").output();
        output
            .expect_code(78)
            .expect_stdout("")
            .expect_one_line("Galera");
    }
}

#[test]
fn a_galera_node_is_locked_on_with_a_warning_where_that_is_allowed() {
    let [node, ..] = &Cluster::shared_galera().nodes;
    let name = unique("galera");
    let dblock = Dblock::run(node, &name).arg("--allow-unfit-server");
    let mut run = dblock.stdin(Stdio::piped()).sh("echo ran; cat").spawn();
    run.wait_line("ran", SOON);
    assert!(
        node.holder(&name).is_some(),
        "the lock is held all the same"
    );
    drop(run.take_stdin());
    run.wait_within(SOON)
        .expect_code(0)
        .expect_one_line("Galera");
}

both_servers! {
    fn a_replica_alone_is_refused_after_the_connect_timeout(server on mariadb) {
        let pair = Pair::private(server.kind);
        let dblock = Dblock::run(&pair.replica, &unique("replica")).args(["--connect-timeout", "10"]);
        let output = dblock.sh("echo ran").output();
        output.expect_code(78).expect_stdout("").expect_one_line("read-only");
        output.expect_took(Duration::from_secs(10), Duration::from_secs(10) + slack());
    }

    fn a_replica_is_locked_on_with_a_warning_where_that_is_allowed(server) {
        let pair = Pair::private(server.kind);
        let name = unique("replica");
        let dblock = Dblock::run(&pair.replica, &name).arg("--allow-unfit-server");
        let mut run = dblock.stdin(Stdio::piped()).sh("echo ran; cat").spawn();
        run.wait_line("ran", SOON);
        assert!(pair.replica.holder(&name).is_some(), "the lock is held all the same");
        drop(run.take_stdin());
        run.wait_within(SOON).expect_code(0).expect_one_line("read-only");
    }

    fn a_replica_is_passed_over_in_silence(server) {
        let pair = Pair::private(server.kind);
        let name = unique("passed-over");
        let url = url_of([&pair.replica, &pair.primary]);
        let mut run = Dblock::run_at(&url, &name).stdin(Stdio::piped()).sh("echo began; cat; exit 5").spawn();
        run.wait_line("began", SOON);
        assert!(pair.primary.holder(&name).is_some(), "held on the primary");
        assert_eq!(pair.replica.holder(&name), None);
        drop(run.take_stdin());
        run.wait_within(SOON).expect_code(5).expect_silence();
    }

    fn a_job_outlives_its_server_and_has_its_lock_on_the_next_one(server on mariadb) {
        let pair = Pair::private(server.kind);
        let name = unique("fail-over");
        let mut run = job(&pair.url(), &name).spawn();
        run.wait_line("began", SOON);
        assert!(pair.primary.holder(&name).is_some(), "held on the primary");
        pair.fail_over();
        pair.has_it_again(&mut run, &name, SPARE);
        ends_by_itself(run);
        assert_eq!(pair.replica.holder(&name), None);
    }

    fn the_lock_moves_with_the_right_to_write(server) {
        let pair = Pair::private(server.kind);
        let name = unique("switch-over");
        let mut run = job(&pair.url(), &name).spawn();
        run.wait_line("began", SOON);
        assert!(pair.primary.holder(&name).is_some(), "held on the primary");
        let mut primary = pair.primary.admin();
        pair.switch_over();
        pair.has_it_again(&mut run, &name, HEARTBEAT + slack());
        eventually("it is free where it was", SOON, || holder(&mut primary, &name).is_none());
        ends_by_itself(run);
        assert_eq!(pair.replica.holder(&name), None);
    }

    fn the_slot_of_a_holder_that_somebody_ends_moves_with_the_right_to_write(server on mysql) {
        let (pair, mut disk) = (Pair::private(server.kind), Unkillable::new());
        let name = unique("switch-over");
        let run = Dblock::run_at(&pair.url(), &name).without_terminal().args(["--ttl", "8", "--kill-after", "0.5"]);
        let mut run = run.sh(&format!("echo shell $$; read x <{}", quoted(&disk.file()))).spawn();
        let command = run.wait_pid("shell");
        disk.eventually_opened();
        let told = Dblock::at(&pair.primary, "kill").args([&*name, "--wait", "0"]).output();
        told.expect_code(75).expect_one_line("nobody gets the slot before it has");
        eventually_unkillable(command);
        pair.switch_over();
        // It asks every two seconds whether its server takes writes.
        eventually("the slot is held where writes are taken", SOON, || pair.replica.holder(&name).is_some());
        let next = |wait| Dblock::run_at(&pair.url(), &name).args(["--wait", wait]).command(["true"]).output();
        next("0").expect_code(75);
        assert!(runs(command));
        drop(disk);
        run.wait_within(SOON).expect_code(74);
        next("20").expect_code(0);
    }

    fn a_waiter_follows_the_holder_to_the_server_that_takes_writes(server) {
        waits_until_the_end(server.kind, Pair::switch_over, HEARTBEAT + slack());
    }

    fn a_waiter_does_not_overtake_the_holder_whose_server_died(server on mariadb) {
        waits_until_the_end(server.kind, Pair::fail_over, SPARE);
    }
}

/// What a server's clock says, in seconds ahead of the machine's: at least, and at most, as the answer takes its time.
fn clock_of(admin: &mut Conn) -> [f64; 2] {
    let now = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.expect("after 1970").as_secs_f64()
    };
    let before = now();
    let shown: Option<f64> = admin
        .query_first("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6")
        .expect("an answer");
    let shown = shown.expect("a row");
    [shown - now(), shown - before]
}

#[track_caller]
fn assert_clock(admin: &mut Conn, ahead: f64) {
    let [least, most] = clock_of(admin);
    assert!(
        (least - 0.1..=most + 0.1).contains(&ahead),
        "{least} to {most} s ahead instead of {ahead}"
    );
}

/// Replication takes a moment.
#[track_caller]
fn eventually_the_same(cluster: &Cluster, one: usize, other: usize) {
    eventually("one has the other's writes", SOON, || {
        cluster.writes(one) == cluster.writes(other)
    });
}

/// A write has a second. A busy machine may take it.
#[track_caller]
fn eventually_takes_writes(cluster: &Cluster, index: usize) {
    eventually("the node takes writes", SOON, || {
        cluster.takes_writes(index)
    });
}

#[test]
fn a_galera_node_that_is_cut_off_refuses_writes_and_has_them_when_it_is_back() {
    let cluster = Cluster::private_with_clocks(Replication::Galera, [0, 30, 0]);
    for (index, ahead) in [(0, 0.0), (1, 30.0)] {
        assert_clock(&mut cluster.admin(index), ahead);
    }
    let parted = Instant::now();
    cluster.cut_off(2);
    // Until each side has given the other up, all writes wait.
    let write = cluster.write(0);
    assert!(
        write == Write::Unanswered || parted.elapsed() > GIVEN_UP,
        "{write:?}"
    );
    cluster.eventually_settled();
    eventually("the node knows that it is alone", SOON, || {
        cluster.write(2) == Write::Refused(WSREP_NOT_READY)
    });
    eventually_takes_writes(&cluster, 0);
    eventually_takes_writes(&cluster, 1);
    cluster.heal(2);
    cluster.eventually_settled();
    eventually_takes_writes(&cluster, 2);
    eventually_the_same(&cluster, 2, 0);

    cluster.kill(0);
    assert_eq!(cluster.write(0), Write::Unanswered);
    cluster.eventually_settled();
    eventually_takes_writes(&cluster, 1);
    cluster.start(0);
    cluster.eventually_settled();
    eventually_the_same(&cluster, 0, 1);
    eventually_takes_writes(&cluster, 0);
}

#[test]
fn a_primary_that_is_cut_off_hangs_and_then_refuses_everybody() {
    let group = Cluster::private(Replication::OnePrimary);
    let name = unique("group");
    let held = group.nodes[0].hold(&name);
    let run = || Dblock::run_at(&group.url_from(1), &name).args(["--wait", "0"]);
    run().sh("true").output().expect_code(75);
    drop(held);
    eventually("the client is gone", SOON, || {
        group.nodes[0].holder(&name).is_none()
    });
    run().sh("true").output().expect_code(0);

    let mut client = group.nodes[0].client();
    group.cut_off(0);
    // For as long as it waits for a majority.
    assert_eq!(group.write(0), Write::Unanswered);
    group.eventually_settled();
    eventually("another one takes writes", SOON, || {
        group.takes_writes(1) || group.takes_writes(2)
    });
    eventually("it refuses writes", SOON, || {
        group.write(0) == Write::Refused(READ_ONLY)
    });
    // Who has no privilege is sent away altogether.
    let gone = |result: mysql::Result<()>| result.is_err();
    eventually("it has ended the session", SOON, || {
        gone(client.query_drop("DO 1"))
    });
    let refused = group.nodes[0].connect("dblock", PASSWORD);
    assert!(
        matches!(&refused, Err(mysql::Error::MySqlError(error)) if OFFLINE.contains(&error.code)),
        "{refused:?}"
    );
    group.heal(0);
    group.eventually_settled();
    eventually("it refuses writes again", SOON, || {
        let write = group.write(0);
        assert_ne!(write, Write::Committed);
        write == Write::Refused(READ_ONLY)
    });
    eventually_the_same(&group, 0, 1);
    drop(group.nodes[0].client());
}

#[test]
fn a_frozen_member_that_wakes_up_commits_nothing_until_it_is_in_the_group_again() {
    let group = Cluster::private(Replication::AllPrimaries);
    group.freeze(2);
    assert_eq!(group.write(2), Write::Unanswered);
    group.eventually_settled();
    eventually_takes_writes(&group, 0);
    eventually_takes_writes(&group, 1);
    group.thaw(2);
    // It believes to be in the group for seconds.
    assert_ne!(group.write(2), Write::Committed);
    group.eventually_settled();
    eventually_takes_writes(&group, 2);
    eventually_the_same(&group, 2, 0);
}

both_servers! {
    fn a_server_whose_clock_is_ahead_shows_it_and_waits_as_ever(server) {
        let ahead = Server::private_with_clock(server.kind, 30);
        let (mut holder, mut waiter) = (ahead.client(), ahead.client());
        assert_clock(&mut waiter, 30.0);
        holder.query_drop("SELECT GET_LOCK('held', 0)").expect("an answer");
        let start = Instant::now();
        waiter.query_drop("SELECT GET_LOCK('held', 1)").expect("an answer");
        let took = start.elapsed();
        assert!((Duration::from_millis(900)..Duration::from_secs(10)).contains(&took), "{took:?}");
    }
}

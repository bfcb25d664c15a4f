//! Servers that replicate: where a lock would not exclude it is not taken, and it follows whichever server takes writes.

use std::process::Stdio;
use std::time::Duration;

use crate::harness::{
    BUSY, Cluster, Dblock, Kind, Pair, Records, Replication, Running, SOON, both_servers,
    eventually, holder, unique, url_of, waiters,
};

/// The shortest TTL, in seconds.
const TTL: &str = "4";

/// How often a session with that TTL is looked at.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// A job that is without its lock for longer is being ended, at that TTL.
const SPARE: Duration = Duration::from_secs(3);

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

    /// The primary dies, and the replica takes its place.
    fn fail_over(&self) {
        self.primary.kill();
        self.replica.set_read_only(false);
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
    let _clients = Cluster::shared(Replication::Galera)
        .nodes
        .each_ref()
        .map(|node| node.hold(&name));
}

#[test]
fn a_galera_node_is_refused() {
    for node in &Cluster::shared(Replication::Galera).nodes {
        let output = Dblock::run(node, &unique("galera")).sh("echo ran").output();
        output
            .expect_code(78)
            .expect_stdout("")
            .expect_one_line("Galera");
    }
}

#[test]
fn a_galera_node_is_locked_on_with_a_warning_where_that_is_allowed() {
    let [node, ..] = &Cluster::shared(Replication::Galera).nodes;
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
    fn a_replica_alone_is_refused_after_the_connect_timeout(server) {
        let pair = Pair::shared(server.kind);
        let dblock = Dblock::run(&pair.replica, &unique("replica")).args(["--connect-timeout", "1"]);
        let output = dblock.sh("echo ran").output();
        output.expect_code(78).expect_stdout("").expect_one_line("read-only");
        output.expect_took(Duration::from_secs(1), Duration::from_secs(1) + BUSY);
    }

    fn a_replica_is_locked_on_with_a_warning_where_that_is_allowed(server) {
        let pair = Pair::shared(server.kind);
        let name = unique("replica");
        let dblock = Dblock::run(&pair.replica, &name).arg("--allow-unfit-server");
        let mut run = dblock.stdin(Stdio::piped()).sh("echo ran; cat").spawn();
        run.wait_line("ran", SOON);
        assert!(pair.replica.holder(&name).is_some(), "the lock is held all the same");
        drop(run.take_stdin());
        run.wait_within(SOON).expect_code(0).expect_one_line("read-only");
    }

    fn a_replica_is_passed_over_in_silence(server) {
        let pair = Pair::shared(server.kind);
        let name = unique("passed-over");
        let url = url_of([&pair.replica, &pair.primary]);
        let mut run = Dblock::run_at(&url, &name).stdin(Stdio::piped()).sh("echo began; cat; exit 5").spawn();
        run.wait_line("began", SOON);
        assert!(pair.primary.holder(&name).is_some(), "held on the primary");
        assert_eq!(pair.replica.holder(&name), None);
        drop(run.take_stdin());
        run.wait_within(SOON).expect_code(5).expect_silence();
    }

    fn a_job_outlives_its_server_and_has_its_lock_on_the_next_one(server) {
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
        pair.has_it_again(&mut run, &name, HEARTBEAT + BUSY);
        eventually("it is free where it was", BUSY, || holder(&mut primary, &name).is_none());
        ends_by_itself(run);
        assert_eq!(pair.replica.holder(&name), None);
    }

    fn a_waiter_follows_the_holder_to_the_server_that_takes_writes(server) {
        waits_until_the_end(server.kind, Pair::switch_over, HEARTBEAT + BUSY);
    }

    fn a_waiter_does_not_overtake_the_holder_whose_server_died(server) {
        waits_until_the_end(server.kind, Pair::fail_over, SPARE);
    }
}

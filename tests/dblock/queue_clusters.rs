//! `dblock queue work` where several servers take writes: workers on different nodes work off one queue, a node is killed meanwhile, and
//! every job is done, by one command at a time.

use std::collections::BTreeMap;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::harness::jobs::lines;
use crate::harness::{Cluster, Dblock, PASSWORD, Replication, Running, SOON, eventually, quoted};

/// Longer than a cluster takes to go on without a node.
const FAIL_OVER: Duration = Duration::from_secs(60);

const JOBS: usize = 300;

/// `dblock COMMAND` with all nodes, this one first.
fn at(cluster: &Cluster, first: usize, command: &str) -> Dblock {
    Dblock::bare()
        .arg(command)
        .env("DBLOCK_URL", cluster.url_from(first))
        .env("DBLOCK_PASSWORD", PASSWORD)
}

/// As an account that may do everything.
fn by_admin(dblock: Dblock) -> Dblock {
    dblock
        .env("DBLOCK_USER", "admin")
        .env("DBLOCK_PASSWORD", "admin-secret")
}

fn a_node_that_is_killed_costs_no_job(replication: Replication) {
    let cluster = Cluster::private(replication);
    by_admin(at(&cluster, 0, "init")).output().expect_code(0);
    for (queue, claim) in [("rows", "rows"), ("blocks", "blocks")] {
        let create = [
            "create", queue, "--claim", claim, "--shards", "2", "--ttl", "40s", "--keep", "1h",
        ];
        by_admin(at(&cluster, 0, "queue"))
            .args(create)
            .output()
            .expect_code(0);
    }
    let folder = tempfile::tempdir().expect("a scratch folder");
    let log = folder.path().join("log");
    let script = format!(
        "exec 9>>{of}-$DBLOCK_QUEUE-$DBLOCK_JOB_ID; flock -n 9 || echo overlap $DBLOCK_JOB_ID >>{log}
        echo start $DBLOCK_QUEUE.$DBLOCK_JOB_ID $DBLOCK_FENCE >>{log}; sleep 0.1 9>&-
        echo end $DBLOCK_QUEUE.$DBLOCK_JOB_ID $DBLOCK_FENCE >>{log}",
        of = quoted(&folder.path().join("of")),
        log = quoted(&log)
    );
    let mut ids = Vec::new();
    for queue in ["rows", "blocks"] {
        for batch in 0..6 {
            let numbers = (0..JOBS / 2 / 6).map(|number| number.to_string());
            let put = by_admin(at(&cluster, batch % 3, "queue"))
                .args(["put", queue])
                .args(numbers)
                .output();
            put.expect_code(0);
            ids.extend(put.stdout.lines().map(|id| format!("{queue}.{id}")));
        }
    }
    let workers: Vec<Running> = (0..6)
        .map(|worker| {
            let queue = ["rows", "blocks"][worker / 3];
            let work = by_admin(at(&cluster, worker % 3, "queue")).args(["work", queue, "-j", "2"]);
            work.without_terminal().sh(&script).spawn()
        })
        .collect();
    eventually("some are done", FAIL_OVER, || lines(&log).len() > 100);
    cluster.kill(0);
    let left = || {
        let count = "SELECT (SELECT COUNT(*) FROM dblock.dblock_due) + (SELECT COUNT(*) FROM dblock.dblock_delayed) \
                     + (SELECT COUNT(*) FROM dblock.dblock_running) + (SELECT COUNT(*) FROM dblock.dblock_dead)";
        cluster.answer::<u64>(1, count)
    };
    eventually("all are done", FAIL_OVER * 3, || left() == Some(0));
    for worker in &workers {
        worker.signal(Signal::SIGTERM);
    }
    for mut worker in workers {
        worker.wait_within(SOON * 3).expect_code(0);
    }
    let mut of_jobs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in lines(&log) {
        assert!(!line.starts_with("overlap"), "{line}");
        let (what, rest) = line.split_once(' ').expect("two words");
        let (job, fence) = rest.split_once(' ').expect("two words");
        of_jobs
            .entry(job.to_owned())
            .or_default()
            .push(format!("{what} {fence}"));
    }
    // No worker died, so that each job was started once.
    for id in &ids {
        let records = &of_jobs[id];
        assert!(
            matches!(&records[..], [start, end] if start.replace("start", "end") == *end),
            "{id}: {records:?}"
        );
    }
    assert_eq!((ids.len(), of_jobs.len()), (JOBS, JOBS));
}

#[test]
fn galera() {
    a_node_that_is_killed_costs_no_job(Replication::Galera);
}

#[test]
fn several_primaries() {
    a_node_that_is_killed_costs_no_job(Replication::AllPrimaries);
}

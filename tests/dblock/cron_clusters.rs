//! `dblock cron run` where several servers take writes: daemons on different nodes have one crontab, a node is killed meanwhile, and each
//! tick runs once.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use mysql::prelude::Queryable;
use nix::sys::signal::Signal;

use crate::harness::jobs::lines;
use crate::harness::{Cluster, Dblock, Replication, Running, SOON, eventually, quoted, within};

/// Longer than a cluster takes to go on without a node.
const FAIL_OVER: Duration = Duration::from_secs(90);

const JOBS: usize = 10;
const ROUNDS: usize = 8;

/// `dblock COMMAND` with all nodes, this one first.
fn at(cluster: &Cluster, first: usize, command: &str) -> Dblock {
    Dblock::bare()
        .arg(command)
        .env("DBLOCK_URL", cluster.url_from(first))
        .env("DBLOCK_USER", "admin")
        .env("DBLOCK_PASSWORD", "admin-secret")
}

fn each_tick_runs_once(replication: Replication) {
    let cluster = Cluster::private(replication);
    at(&cluster, 0, "init").output().expect_code(0);
    let folder = tempfile::tempdir().expect("a scratch folder");
    let (log, file) = (folder.path().join("log"), folder.path().join("crontab"));
    let mut crontab = "CRON_TZ=UTC\n".to_owned();
    for job in 0..JOBS {
        let log = quoted(&log);
        let _ = writeln!(
            crontab,
            "#: job{job} --ttl 2m\n0 0 1 1 * echo $DBLOCK_NAME $DBLOCK_TICK >>{log}; sleep 0.2"
        );
    }
    std::fs::write(&file, crontab).expect("it is written");
    let mut daemons: Vec<Running> = (0..6)
        .map(|daemon| {
            let run =
                at(&cluster, daemon % 3, "cron").args(["run", "-v", "--connect-timeout", "60"]);
            run.arg(&file).without_terminal().spawn()
        })
        .collect();
    for daemon in &mut daemons {
        daemon.wait_stderr("dblock: ready: ", SOON * 3);
    }
    let (mut made, mut unsure) = (0, 0);
    for round in 0..5 * ROUNDS {
        // On a busy machine many a tick comes during the run of the one before, or is not taken before the next.
        if round >= ROUNDS && lines(&log).len() >= JOBS * ROUNDS / 2 {
            break;
        }
        if round == ROUNDS / 2 {
            cluster.kill(0);
        }
        let mut admin = cluster.admin(1);
        for job in 0..JOBS {
            let due = format!(
                "UPDATE dblock.dblock_cron_jobs SET next_at = UTC_TIMESTAMP(6), changed_at = UTC_TIMESTAMP(6) \
                 WHERE name = 'job{job}' AND next_at > UTC_TIMESTAMP(6)"
            );
            // The other nodes may be at it, or the cluster may be about to go on with two nodes. What it refuses then may be committed.
            within(FAIL_OVER, || {
                let done = admin.query_drop(&due);
                if done.is_err() {
                    unsure += 1;
                    admin = cluster.admin(1);
                }
                done.is_ok()
            });
            made += usize::try_from(admin.affected_rows()).expect("few");
        }
        within(Duration::from_millis(1500), || false);
    }
    let left = "SELECT (SELECT COUNT(*) FROM dblock.dblock_cron_ticks) + \
                (SELECT COUNT(*) FROM dblock.dblock_cron_jobs WHERE next_at <= UTC_TIMESTAMP(6))";
    eventually("no tick is under way", FAIL_OVER * 2, || {
        cluster.answer::<u64>(1, left) == Some(0)
    });
    for daemon in &daemons {
        daemon.signal(Signal::SIGTERM);
    }
    for mut daemon in daemons {
        daemon.wait_within(SOON * 3).expect_code(0);
    }
    let mut starts: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines(&log) {
        *starts.entry(line).or_default() += 1;
    }
    assert!(starts.values().all(|count| *count == 1), "{starts:?}");
    let skips: Vec<String> = cluster
        .admin(1)
        .query("SELECT message FROM dblock.dblock_runs WHERE outcome = 'skipped'")
        .expect("the history");
    let ticks = starts.len() + skips.len();
    assert!(
        (made..=made + unsure).contains(&ticks),
        "{made}, {unsure}: {starts:?} {skips:?}"
    );
    // A tick may have come during the run of the one before.
    assert!(starts.len() >= JOBS * ROUNDS / 2, "{starts:?} {skips:?}");
}

#[test]
fn galera() {
    each_tick_runs_once(Replication::Galera);
}

#[test]
fn several_primaries() {
    each_tick_runs_once(Replication::AllPrimaries);
}

//! A minute of everything at once for the workers of four queues, with rows and with blocks, with one and with four shards: their
//! processes, commands and sessions are killed, their processes are stopped for longer than the lease, statements are interrupted, and
//! the server starts again. Afterwards every record is read. What the machine itself holds up is measured meanwhile.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::jobs::{claimer_of, commands_of, lines};
use crate::harness::{
    HeldUp, Jobs, Kind, Running, SOON, Server, Time, eventually, in_time, quoted, soak_lasts,
    soak_settings, within,
};

/// Workers of each queue.
const WORKERS: usize = 2;

/// So many bad things have to happen at least.
const ENOUGH: usize = 20;

/// Jobs of each queue that are put at first.
const JOBS: usize = 50;

/// The file that tells the commands to be quick and to succeed: nothing bad happens any more.
const CALM: &str = "calm";

/// Longer than the lease, which is 4 s.
const STOPPED: Duration = Duration::from_millis(8500);

/// So many workers have a process stopped at the same time.
const STOPPED_AT_ONCE: usize = 2;

#[test]
fn mariadb() {
    soak(Kind::MariaDb);
}

#[test]
fn mysql() {
    soak(Kind::MySql);
}

/// What a command wrote down.
#[derive(Debug, Clone)]
struct Record {
    what: String,
    job: u64,
    attempt: u32,
    fence: u64,
    /// Of an overlap: when.
    time: Option<Time>,
}

/// A queue, its workers, and what their commands have written.
struct Site<'a> {
    jobs: Jobs<'a>,
    log: PathBuf,
    script: String,
    workers: Vec<Running>,
    /// What was put.
    put: Vec<u64>,
}

impl<'a> Site<'a> {
    fn new(server: &'a Server, folder: &std::path::Path, options: &[&str]) -> Self {
        let always = [
            "--ttl",
            "4s",
            "--retry-delay",
            "50ms",
            "--max-attempts",
            "1000",
            "--keep",
            "1h",
        ];
        let jobs = Jobs::new(server, &[&always[..], options].concat());
        let (log, lock) = (
            folder.join(&jobs.tables.database),
            folder.join(format!("{}-of", jobs.tables.database)),
        );
        // The file of the job is locked for as long as the command lives; what it starts does not keep it. Some heed no SIGTERM,
        // and some run for longer than the lease.
        let script = format!(
            "note() {{ echo $1 $DBLOCK_JOB_ID $DBLOCK_ATTEMPT $DBLOCK_FENCE $2 >>{log}; }}
            exec 9>>{lock}-$DBLOCK_JOB_ID
            flock -n 9 || note overlap $(date +%s%N)
            note start
            [ -e {calm} ] || case $(( ($DBLOCK_JOB_ID + $DBLOCK_FENCE) % 10 )) in
            1) sleep 2 9>&-;;
            2) trap '' TERM; sleep 1 9>&-;;
            3) note later; exit 75;;
            4) note failed; exit 1;;
            5) sleep 0.3 9>&-;;
            6 | 7) sleep 9 9>&-;;
            esac
            note end",
            log = quoted(&log),
            lock = quoted(&lock),
            calm = quoted(&folder.join(CALM))
        );
        Self {
            jobs,
            log,
            script,
            workers: Vec::new(),
            put: Vec::new(),
        }
    }

    fn records(&self) -> Vec<Record> {
        let record = |line: &String| {
            let words: Vec<&str> = line.split(' ').collect();
            let [what, job, attempt, fence, ref time @ ..] = words[..] else {
                panic!("a torn record: {line:?}")
            };
            Record {
                what: what.to_owned(),
                job: job.parse().expect("a number"),
                attempt: attempt.parse().expect("a number"),
                fence: fence.parse().expect("a number"),
                time: time.first().map(|time| time.parse().expect("a number")),
            }
        };
        lines(&self.log).iter().map(record).collect()
    }

    fn start_worker(&self, random: &mut fastrand::Rng) -> Running {
        let at_once = random.u8(1..=4).to_string();
        let args = [
            "-j",
            &at_once,
            "--kill-after",
            "1",
            "--grace",
            "2",
            "--connect-timeout",
            "30",
        ];
        self.jobs.work(&args).sh(&self.script).spawn()
    }

    /// Starts workers in place of those that were killed.
    fn revive(&mut self, random: &mut fastrand::Rng) {
        for one in 0..WORKERS {
            if self.workers[one].is_running() {
                continue;
            }
            let worker = self.start_worker(random);
            let ended = std::mem::replace(&mut self.workers[one], worker);
            ended.wait().expect_signal(Signal::SIGKILL);
        }
    }

    /// What is left to do, and what the workers say.
    fn left(&self) -> String {
        let states = self.jobs.states();
        let unit = "job, last_job, shard, attempt, fence, due_at";
        let rows: Vec<String> = self.jobs.rows(&format!(
            "SELECT CONCAT_WS(' ', 'due', {unit}) FROM dblock_due UNION ALL \
             SELECT CONCAT_WS(' ', 'delayed', {unit}) FROM dblock_delayed UNION ALL \
             SELECT CONCAT_WS(' ', 'running', {unit}, worker, turn, claimed_at) FROM dblock_running UNION ALL \
             SELECT CONCAT_WS(' ', 'dead', {unit}) FROM dblock_dead UNION ALL \
             SELECT CONCAT_WS(' ', 'worker', worker, pid, turn, expires_at, gone_at, UTC_TIMESTAMP(6)) FROM dblock_workers"
        ));
        let said: Vec<String> = self.workers.iter().map(Running::stderr).collect();
        format!("{states:?}\n{}\n{}", rows.join("\n"), said.join("\n---\n"))
    }

    /// What is wrong with the records of one queue.
    fn wrong(&self, held_up: &HeldUp) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut of_jobs: BTreeMap<u64, Vec<Record>> = BTreeMap::new();
        for record in self.records() {
            of_jobs.entry(record.job).or_default().push(record);
        }
        let done: Vec<(u64, u32, u64)> = self.jobs.rows(
            "SELECT j.id, d.attempt, d.fence FROM dblock_done d JOIN dblock_jobs j ON j.id = d.job OR (d.block > 0 AND j.block = d.block AND j.id BETWEEN d.job AND d.last_job)",
        );
        let mut done_of: BTreeMap<u64, Vec<(u32, u64)>> = BTreeMap::new();
        for (job, attempt, fence) in done {
            done_of.entry(job).or_default().push((attempt, fence));
        }
        for job in &self.put {
            let records = of_jobs.remove(job).unwrap_or_default();
            let starts: Vec<&Record> = records
                .iter()
                .filter(|record| record.what == "start")
                .collect();
            let overlaps = records
                .iter()
                .filter_map(|record| record.time)
                .any(|time| !held_up.lets_meet(&(time..time)));
            let ordered = starts
                .is_sorted_by(|one, next| one.fence < next.fence && one.attempt <= next.attempt);
            let fenced = starts
                .iter()
                .all(|start| 1 <= start.attempt && u64::from(start.attempt) <= start.fence);
            // The last that was started is the one whose completion counts.
            let completed = starts.last().is_some_and(|last| {
                let ended = records
                    .iter()
                    .any(|record| record.what == "end" && record.fence == last.fence);
                ended
                    && done_of
                        .get(job)
                        .is_some_and(|done| *done == [(last.attempt, last.fence)])
            });
            if overlaps || !ordered || !fenced || !completed {
                wrong.push(format!("job {job} (overlaps {overlaps}, ordered {ordered}, fenced {fenced}, completed {completed}): {records:?}, {:?}", done_of.get(job)));
            }
        }
        if !of_jobs.is_empty() {
            wrong.push(format!("jobs that nobody has put: {of_jobs:?}"));
        }
        wrong
    }
}

fn soak(kind: Kind) {
    let (seconds, mut random) = soak_settings();
    let server = Server::private_with(kind, &["--innodb-flush-log-at-trx-commit=1"]);
    let folder = tempfile::tempdir().expect("a scratch folder");
    let options: [&[&str]; 4] = [
        &[],
        &["--shards", "4"],
        &["--claim", "blocks"],
        &["--claim", "blocks", "--shards", "4"],
    ];
    let mut sites: Vec<Site> = options
        .map(|options| Site::new(&server, folder.path(), options))
        .into();
    for site in &mut sites {
        site.put = site.jobs.number(JOBS);
        site.workers = (0..WORKERS)
            .map(|_| site.start_worker(&mut random))
            .collect();
    }
    let held_up = HeldUp::watch(&server);
    let deeds = strike(&server, &mut sites, seconds, &mut random);
    std::fs::write(folder.path().join(CALM), "").expect("a file");
    for site in &mut sites {
        let is_done = in_time(Duration::from_secs(60), || {
            site.revive(&mut random);
            site.jobs.states() == [0; 4]
        });
        assert!(is_done, "not all jobs are done: {}", site.left());
    }
    for site in &mut sites {
        for worker in &site.workers {
            // One that has only just been started would die of the signal.
            worker.claimer();
            worker.signal(Signal::SIGTERM);
        }
        for mut worker in site.workers.drain(..) {
            worker.wait_within(SOON).expect_code(0);
        }
        eventually("no worker is registered that lives", SOON, || {
            site.jobs.count(
                "dblock_workers WHERE expires_at IS NOT NULL AND expires_at > UTC_TIMESTAMP(6)",
            ) == 0
        });
    }
    let starts: usize = sites
        .iter()
        .map(|site| {
            site.records()
                .iter()
                .filter(|record| record.what == "start")
                .count()
        })
        .sum();
    let jobs: usize = sites.iter().map(|site| site.put.len()).sum();
    let held_up = held_up.end();
    let records = sites.iter().flat_map(Site::records);
    let most = records
        .map(|record| record.attempt)
        .max()
        .unwrap_or_default();
    println!(
        "{jobs} jobs, {starts} starts, {most} attempts of one at most; {deeds:?}; held up {}",
        held_up.0.len()
    );
    let wrong: Vec<String> = sites.iter().flat_map(|site| site.wrong(&held_up)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Chance decides how many; there must be something to look at.
    assert!(
        starts > jobs && deeds.values().sum::<usize>() > ENOUGH,
        "{deeds:?}"
    );
}

/// Does something bad every now and then: for this long, or until there is enough to look at. How often which.
fn strike(
    server: &Server,
    sites: &mut [Site],
    duration: Duration,
    random: &mut fastrand::Rng,
) -> BTreeMap<&'static str, usize> {
    let mut deeds = BTreeMap::new();
    let begun = Instant::now();
    let mut has_restarted = false;
    let mut stopped: Vec<Stopped> = Vec::new();
    while soak_lasts(begun, duration, || deeds.values().sum::<usize>() > ENOUGH) {
        let pause = Duration::from_millis(random.u64(100..500));
        within(pause, || false);
        stopped.retain(|one| one.until > Instant::now());
        let at = random.usize(..sites.len());
        let site = &mut sites[at];
        if site.jobs.count("dblock_due") < 5 {
            let more = site.jobs.number(random.usize(1..15));
            site.put.extend(more);
        }
        site.revive(random);
        if begun.elapsed() > duration / 2 && !has_restarted {
            has_restarted = true;
            // A worker that is stopped cannot end its commands when its lease ends with the server.
            stopped.clear();
            server.kill();
            server.start();
            *deeds.entry("restart").or_default() += 1;
            continue;
        }
        let which = random.usize(..WORKERS);
        let worker = site.workers[which].pid();
        let is_stopped = stopped.iter().any(|one| one.worker == worker);
        let deed = match random.u8(..18) {
            0..3 if !is_stopped => {
                let Some(command) = random.choice(commands_of(worker)) else {
                    continue;
                };
                let _ = kill(Pid::from_raw(command), Signal::SIGKILL);
                "command"
            }
            3..5 if !is_stopped => {
                let _ = kill(Pid::from_raw(worker), Signal::SIGKILL);
                // Else it might be taken for one that runs.
                let ended = within(SOON, || !site.workers[which].is_running());
                assert!(ended, "it is killed");
                "coordinator"
            }
            5..8 if !is_stopped => {
                let Some(claimer) = claimer_of(worker) else {
                    continue;
                };
                let _ = kill(Pid::from_raw(claimer), Signal::SIGKILL);
                "claimer"
            }
            8..10 => {
                end_sessions(server, &site.jobs, "CONNECTION", Duration::ZERO);
                "sessions"
            }
            10..12 => {
                end_sessions(server, &site.jobs, "QUERY", Duration::from_millis(200));
                "statements"
            }
            // The coordinator lives, and ends its commands before others have their jobs.
            12..16 if !is_stopped && stopped.len() < STOPPED_AT_ONCE => {
                let Some(claimer) = claimer_of(worker) else {
                    continue;
                };
                stopped.push(Stopped::new(claimer, worker));
                "stopped claimer"
            }
            // The claimer lives, and renews the lease.
            16.. if !is_stopped && stopped.len() < STOPPED_AT_ONCE => {
                stopped.push(Stopped::new(worker, worker));
                "stopped coordinator"
            }
            _ => continue,
        };
        *deeds.entry(deed).or_default() += 1;
    }
    drop(stopped);
    deeds
}

/// A process that is stopped; continued when this is dropped.
struct Stopped {
    process: i32,
    /// Whose it is.
    worker: i32,
    until: Instant,
}

impl Stopped {
    fn new(process: i32, worker: i32) -> Self {
        let _ = kill(Pid::from_raw(process), Signal::SIGSTOP);
        Self {
            process,
            worker,
            until: Instant::now() + STOPPED,
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.process), Signal::SIGCONT);
    }
}

/// Ends the sessions of a queue's workers, or their statements, again and again for so long.
fn end_sessions(server: &Server, jobs: &Jobs, what: &str, span: Duration) {
    let mut admin = server.admin();
    let find = format!(
        "SELECT id FROM information_schema.processlist WHERE db = '{}' AND user = 'dblock'",
        jobs.tables.database
    );
    let begun = Instant::now();
    loop {
        for id in admin.query::<u64, _>(&find).expect("a list of processes") {
            let _ = admin.query_drop(format!("KILL {what} {id}"));
        }
        if begun.elapsed() >= span {
            return;
        }
    }
}

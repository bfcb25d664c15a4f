//! Locks that are rows, on servers that put each commit on the disk: what they cost beside named locks, in commits of a plain client
//! on the same server, and beside what keeps locks elsewhere.

use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use mysql::Conn;
use nix::time::ClockId;
use nix::unistd::Pid;

use super::hand_over::{Bench, Queue};
use super::holder::Holders;
use super::private_server::Private;
use super::setup::{ACCOUNT, Server, Setup, Transport};
use super::table::{Row, Table, Unit};
use super::turns::{Step, in_warm_turns, times};
use super::{Result, restart};

pub const PART: &str = "durable";

/// Commits that a durable lock may add: to a run, and to a hand-over.
const COMMITS: f64 = 2.0;

/// Commits before and after each round of hand-overs, for comparison, and from one to the next.
const SOME_COMMITS: usize = 40;
const BETWEEN_COMMITS: Duration = Duration::from_millis(10);

/// Statements a minute of a holder, and the part of a processor that the renewals of all may take of the server.
const STATEMENTS: f64 = 1.0;
const PROCESSOR: f64 = 0.05;

pub fn measure(setup: &Setup, table: &mut Table) -> Result<()> {
    let mut servers = Private::both(setup)?;
    let all = servers.each_ref().map(|private| private.server.clone());
    starts(setup, &all, table)?;
    tokens(setup, &all, table)?;
    hand_overs(setup, &all, table)?;
    renewals(setup, &all, table)?;
    restart::measure(setup, &mut servers, (PART, table))
}

/// Seconds that each of so many commits takes, which come as far from each other as those of a queue.
fn commits(server: &Server, count: usize) -> Result<Vec<f64>> {
    let mut step = Step::Commit(server.session()?);
    let seconds = |_| {
        sleep(BETWEEN_COMMITS);
        step.take()
    };
    (0..count).map(seconds).collect()
}

fn run(setup: &Setup, server: &Server, options: &[&str]) -> Step {
    let mut command = setup.dblock(server, Transport::Tcp, "b", options);
    command.arg("true");
    Step::Program(command)
}

/// Whole processes, from start to end, with each wrapper.
fn starts(setup: &Setup, servers: &[Server], table: &mut Table) -> Result<()> {
    let mut flock = setup.other("flock");
    flock.args(["-n", &format!("{}/f", setup.folder), "true"]);
    let mut steps = vec![Step::Program(flock)];
    for server in servers {
        steps.extend([
            Step::Commit(server.session()?),
            run(setup, server, &[]),
            run(setup, server, &["--durable"]),
        ]);
    }
    let times = times(&mut steps, setup.sizes.runs)?;
    let (flock, of_servers) = times.split_first().ok_or("nothing was timed")?;
    let flock = Row::new(PART, "`flock -n FILE true`", Unit::Seconds, flock.clone());
    table.add(flock.clone());
    for (server, times) in servers.iter().zip(of_servers.chunks(3)) {
        let [commit, named, durable] = times else {
            return Err("something was not timed".into());
        };
        let row = |what: &str, times| Row::new(PART, server.line(what), Unit::Seconds, times);
        let added = durable
            .iter()
            .zip(named)
            .map(|(durable, named)| durable - named);
        let added = added.collect();
        let commit = row("a commit of a plain client, one row", commit.clone());
        table.add(commit.clone());
        let named = row("`dblock run --name b -- true`", named.clone());
        table.add(named.against(&flock, "flock"));
        let durable = row("`dblock run --durable --name b -- true`", durable.clone());
        table.add(durable.against(&flock, "flock"));
        let added = row("what `--durable` adds to a run", added);
        table.add(added.against(&commit, "commit").ratio_at_most(COMMITS));
    }
    Ok(())
}

/// A lock that a script acquires by one command and releases by another.
enum Scripted<'a> {
    Dblock(&'a Server),
    Etcd,
    Redis,
}

impl Scripted<'_> {
    /// The names of the lines for acquiring and releasing it.
    fn names(&self) -> [String; 2] {
        match self {
            Self::Dblock(server) => {
                ["acquire", "release"].map(|what| server.line(&format!("`dblock {what}`")))
            }
            Self::Etcd => [
                "`etcdctl lease grant` and `etcdctl put --lease`".to_owned(),
                "`etcdctl lease revoke`".to_owned(),
            ],
            Self::Redis => ["SET NX PX", "DEL"]
                .map(|what| format!("`redis-cli {what}`, by its socket, nothing on the disk")),
        }
    }

    /// Acquires it and releases it; how long each took.
    fn take(&self, setup: &Setup) -> Result<[Duration; 2]> {
        let begun = Instant::now();
        let lock = match self {
            Self::Dblock(_) => self.call(setup, &["acquire", "--name", "script"])?,
            Self::Etcd => {
                let granted = self.call(setup, &["lease", "grant", "600"])?;
                let lease = granted.split(' ').nth(1).ok_or("no lease")?.to_owned();
                self.call(setup, &["put", &format!("--lease={lease}"), "script", "1"])?;
                lease
            }
            Self::Redis => self.call(setup, &["SET", "script", "1", "NX", "PX", "600000"])?,
        };
        let acquired = begun.elapsed();
        let begun = Instant::now();
        match self {
            Self::Dblock(_) => self.call(setup, &["release", &lock])?,
            Self::Etcd => self.call(setup, &["lease", "revoke", &lock])?,
            Self::Redis => self.call(setup, &["DEL", "script"])?,
        };
        Ok([acquired, begun.elapsed()])
    }

    /// What a program with these arguments says.
    fn call(&self, setup: &Setup, arguments: &[&str]) -> Result<String> {
        let mut program = match self {
            Self::Dblock(server) => setup.program(&setup.dblock, &server.url(ACCOUNT)),
            Self::Etcd => {
                let mut etcdctl = setup.other("etcdctl");
                etcdctl
                    .args(["--endpoints", &setup.etcd])
                    .env("ETCDCTL_API", "3");
                etcdctl
            }
            Self::Redis => {
                let mut redis = setup.other("redis-cli");
                redis.args(["-s", &setup.redis]);
                redis
            }
        };
        let output = program.args(arguments).stderr(Stdio::inherit()).output()?;
        let said = String::from_utf8(output.stdout)?.trim_end().to_owned();
        if !output.status.success() || said.is_empty() && !matches!(self, Self::Dblock(_)) {
            return Err(format!("{program:?}: {}, {said}", output.status).into());
        }
        Ok(said)
    }
}

fn tokens(setup: &Setup, servers: &[Server], table: &mut Table) -> Result<()> {
    let mut locks: Vec<Scripted> = servers.iter().map(Scripted::Dblock).collect();
    locks.extend([Scripted::Etcd, Scripted::Redis]);
    let times = in_warm_turns(locks.len(), setup.sizes.runs, |at| locks[at].take(setup))?;
    let rows: Vec<[Row; 2]> = locks
        .iter()
        .zip(times)
        .map(|(lock, times)| {
            let seconds = |of: usize| times.iter().map(|took| took[of].as_secs_f64()).collect();
            let [acquire, release] = lock.names();
            [(acquire, 0), (release, 1)]
                .map(|(what, of)| Row::new(PART, what, Unit::Seconds, seconds(of)))
        })
        .collect();
    let etcd = rows[servers.len()].clone();
    for (at, rows) in rows.into_iter().enumerate() {
        for (row, etcd) in rows.into_iter().zip(&etcd) {
            table.add(if at < servers.len() {
                row.against(etcd, "etcdctl")
            } else {
                row
            });
        }
    }
    Ok(())
}

/// From one command's end to the next one's start, the lock a name and a row.
fn hand_overs(setup: &Setup, servers: &[Server], table: &mut Table) -> Result<()> {
    let mut bench = Bench::new(setup);
    let mut contenders = Vec::new();
    for server in servers {
        contenders.extend([
            (server.name.to_owned(), Queue::Dblock(server, 1)),
            (server.name.to_owned(), Queue::Durable(server)),
        ]);
    }
    for (waiting, rounds) in setup.sizes.waiting {
        let mut of_commits = vec![Vec::new(); servers.len()];
        let mut of_queues = vec![Vec::new(); contenders.len()];
        for round in 0..=rounds {
            for (server, times) in servers.iter().zip(&mut of_commits) {
                times.extend(commits(server, SOME_COMMITS)?);
            }
            if round < rounds {
                let samples = bench.hand_overs(&contenders, waiting, 1)?;
                for (times, (_, sample)) in of_queues.iter_mut().zip(samples) {
                    times.extend(sample);
                }
            }
        }
        let of_servers = of_commits.into_iter().zip(of_queues.chunks(2));
        for (server, (commits, queues)) in servers.iter().zip(of_servers) {
            let [named, durable] = queues else {
                return Err("something was not timed".into());
            };
            let row = |what: &str, times: Vec<f64>| {
                let end = "one command's end to the next one's start";
                let what = format!("{end}, {waiting} waiting{what}, {}", server.name);
                Row::new(PART, what, Unit::Seconds, times)
            };
            let named = row("", named.clone());
            let durable = row(", `--durable`", durable.clone());
            let added = vec![durable.median() - named.median()];
            table.add(named.clone());
            table.add(durable.against(&named, "named"));
            let commit = row(": a commit of a plain client, between the rounds", commits);
            table.add(commit.clone());
            let added = row(": what `--durable` adds", added);
            table.add(added.against(&commit, "commit").ratio_at_most(COMMITS));
        }
    }
    Ok(())
}

/// What holders ask of the server, and what their renewals cost it.
#[allow(clippy::cast_precision_loss, reason = "some thousands")]
fn renewals(setup: &Setup, servers: &[Server], table: &mut Table) -> Result<()> {
    let (count, seconds) = setup.sizes.durable;
    for server in servers {
        let mut session = server.session()?;
        let idle = Load::of(server, &mut session, seconds / 2)?;
        let mut options = vec!["--durable"];
        if let Some(ttl) = setup.sizes.durable_ttl {
            options.extend(["--ttl", ttl]);
        }
        let holders = Holders::start(setup, server, count, &options)?;
        let load = Load::of(server, &mut session, seconds)?;
        holders.end()?;
        if load.updates <= 0.0 {
            return Err("no row was renewed".into());
        }
        let of_holder = |statements: f64| statements / count as f64;
        let name = |what: &str| server.line(what);
        let what = name("statements a minute of each of 1000 durable holders");
        // To a hundredth: a renewal may fall just inside or outside of the time.
        let each = (of_holder(load.statements - idle.statements) * 100.0).round() / 100.0;
        table.add(Row::one(PART, what, Unit::Count, each).at_most(STATEMENTS));
        let what = name("of these: updates");
        let updates = (of_holder(load.updates) * 100.0).round() / 100.0;
        table.add(Row::one(PART, what, Unit::Count, updates));
        let what = name("the server's share of a processor without them");
        table.add(Row::one(PART, what, Unit::Share, idle.processor));
        let what = name("and with them");
        table.add(Row::one(PART, what, Unit::Share, load.processor).at_most(PROCESSOR));
    }
    Ok(())
}

/// What a server does.
struct Load {
    /// Of all clients but this one, a minute.
    statements: f64,
    updates: f64,
    /// Of one processor.
    processor: f64,
}

impl Load {
    #[allow(clippy::cast_precision_loss, reason = "some thousands")]
    fn of(server: &Server, session: &mut Conn, seconds: u64) -> Result<Self> {
        let before = (
            Server::count("Questions", session)?,
            Server::count("Com_update", session)?,
        );
        let (processor, begun) = (processor_time(server.pid)?, Instant::now());
        sleep(Duration::from_secs(seconds));
        let (processor, took) = (processor_time(server.pid)? - processor, begun.elapsed());
        let statements = Server::count("Questions", session)? - before.0;
        let updates = Server::count("Com_update", session)? - before.1;
        let minutes = took.as_secs_f64() / 60.0;
        Ok(Self {
            // Two of them are this program's.
            statements: statements.saturating_sub(2) as f64 / minutes,
            updates: updates as f64 / minutes,
            processor: processor / took.as_secs_f64(),
        })
    }
}

/// Seconds.
fn processor_time(pid: u32) -> Result<f64> {
    let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(pid.try_into()?))?;
    Ok(Duration::from(clock.now()?).as_secs_f64())
}

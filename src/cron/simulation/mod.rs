//! A simulation of daemons, jobs and a server with its clock, all in this process. Hosts die and come back, are cut off or stopped, answers
//! are lost, and the server is away, in an order from a seed. A checker that only knows the contract examines each tick.

mod check;
mod server;

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::rc::Rc;
use std::time::Duration;

use check::check;
use server::{Entry, Event, Server};

use super::crontab::Options;
use super::rules::{
    AttemptEnd, Decision, LARGEST_LAG, Now, Row, UnderWay, Why, age_reference, decide, has_waited,
    is_attempt_too_late, may_start, next_after, retry,
};
use super::spread::{fraction, preferred};
use super::{Schedule, Zone};

const SECOND: i64 = 1_000_000;
const DAY: i64 = 24 * 3600 * SECOND;

/// A Sunday at midnight.
const START: i64 = 1_795_305_600 * SECOND;

/// How long a daemon counts as alive after its last renewal.
const LEASE: i64 = 30 * SECOND;

/// A job, the same on all hosts.
struct Job {
    name: String,
    schedule: Schedule,
    options: Options,
    /// How long a run takes at most, and one in how many fails.
    takes: i64,
    fails: u32,
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// A command that runs or waits for its lock.
#[derive(Clone)]
struct Command {
    job: usize,
    tick: i64,
    run: u64,
    attempt: u32,
    failures: u32,
    /// When and how it ends; `None`: it waits.
    until: Option<(i64, AttemptEnd)>,
    /// The last renewal of its lock.
    renewed: i64,
}

struct Host {
    id: u64,
    is_alive: bool,
    /// Until when it is cut off from the server, and until when it is stopped.
    cut_until: i64,
    stopped_until: i64,
    /// What it read at its last look.
    rows: Vec<Row>,
    ticks: Vec<Entry>,
    daemons: Rc<[String]>,
    looked: i64,
    since: i64,
    heard: i64,
    slots: usize,
    commands: Vec<Command>,
    ended: Vec<(Command, AttemptEnd)>,
    known: HashSet<u64>,
}

struct World {
    jobs: Vec<Job>,
    server: Server,
    hosts: Vec<Host>,
    random: fastrand::Rng,
    /// How often trouble happens in a million steps of a host.
    trouble: u32,
    /// The daemons that count as alive in the current second.
    alive: Rc<[String]>,
}

impl World {
    fn new(seed: u64, hosts: usize, jobs: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let schedules = [
            "* * * * *",
            "*/5 * * * *",
            "*/7 * * * *",
            "3-59/10 * * * *",
            "0 * * * *",
        ];
        let jobs: Vec<Job> = (0..jobs)
            .map(|number| {
                let missed = ["once", "skip", "all"][random.usize(..3)];
                let overlap = ["skip", "skip", "wait", "allow"][random.usize(..4)];
                let mut words = format!(
                    "--ttl {}s --missed {missed} --overlap {overlap}",
                    random.u32(4..90)
                );
                if random.bool() {
                    let (retries, delay) = (random.u32(1..4), random.u32(1..30));
                    let _ = write!(words, " --retries {retries} --retry-delay {delay}s");
                }
                if missed != "skip" && random.bool() {
                    let _ = write!(words, " --deadline {}m", random.u32(1..90));
                }
                if random.u8(..4) == 0 {
                    words += " --jitter 20s";
                }
                let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
                let (options, mistakes) = Options::parse(&words);
                assert!(mistakes.is_empty(), "{mistakes:?}");
                let name = format!("job{number}");
                let longest = if random.u8(..5) == 0 { 200 } else { 20 };
                let fields = schedules[random.usize(..schedules.len())];
                Job {
                    schedule: Schedule::parse(fields, Zone::UTC, &name).unwrap(),
                    options,
                    takes: random.i64(1..longest) * SECOND,
                    fails: random.u32(2..8),
                    name,
                }
            })
            .collect();
        let server = Server {
            now: START,
            is_up: true,
            rows: jobs
                .iter()
                .map(|job| Row {
                    next: next_after(&job.schedule, START),
                    ..Row::default()
                })
                .collect(),
            locks: jobs.iter().map(|_| Vec::new()).collect(),
            events: jobs.iter().map(|_| BTreeMap::new()).collect(),
            skips: jobs.iter().map(|_| Vec::new()).collect(),
            spans: jobs.iter().map(|_| BTreeMap::new()).collect(),
            given_up: jobs.iter().map(|_| BTreeMap::new()).collect(),
            triggers: jobs.iter().map(|_| Vec::new()).collect(),
            paused: jobs.iter().map(|_| Vec::new()).collect(),
            ..Server::default()
        };
        let mut world = Self {
            jobs,
            server,
            hosts: Vec::new(),
            random,
            trouble: 400,
            alive: Rc::default(),
        };
        for _ in 0..hosts {
            let host = world.new_host();
            world.hosts.push(host);
        }
        world
    }

    fn new_host(&mut self) -> Host {
        self.server.runs += 1;
        Host {
            id: self.server.runs,
            is_alive: true,
            cut_until: 0,
            stopped_until: 0,
            rows: Vec::new(),
            ticks: Vec::new(),
            daemons: Rc::default(),
            looked: 0,
            since: self.server.now,
            heard: self.server.now,
            slots: self.random.usize(2..40),
            commands: Vec::new(),
            ended: Vec::new(),
            known: HashSet::new(),
        }
    }

    /// One second: each host takes a step, in random order.
    fn step(&mut self) {
        self.server.now += SECOND;
        let (now, renewed) = (self.server.now, &self.server.renewed);
        let alive = renewed.iter().filter(|(_, at)| now - **at < LEASE);
        self.alive = alive.map(|(id, _)| id.to_string()).collect();
        self.manage();
        let mut order: Vec<usize> = (0..self.hosts.len()).collect();
        self.random.shuffle(&mut order);
        for at in order {
            let mut host = self.hosts.swap_remove(at);
            self.turn(&mut host);
            self.hosts.push(host);
            let last = self.hosts.len() - 1;
            self.hosts.swap(at, last);
        }
    }

    /// People trigger jobs, mostly when a tick is due, so that two daemons settle both at the same time. They also pause jobs for a while.
    fn manage(&mut self) {
        if !self.server.is_up {
            return;
        }
        let now = self.server.now;
        for (at, job) in self.jobs.iter().enumerate() {
            let row = self.server.rows[at];
            if row.is_paused {
                if self.trouble == 0 || self.random.u8(..200) == 0 {
                    self.server.resume(at, job);
                }
            } else if self.trouble > 0 && self.random.u32(..10_000) == 0 {
                self.server.rows[at].is_paused = true;
            }
            let is_due = row.next.is_some_and(|next| next <= now);
            let rarity = if is_due { 20 } else { 1000 };
            if self.trouble > 0 && self.random.u32(..rarity) == 0 && row.triggered.is_none() {
                // No schedule has ticks at half seconds.
                let wanted = now - SECOND / 2;
                self.server.rows[at].triggered = Some(wanted);
                self.server.triggers[at].push(wanted);
            }
        }
    }

    fn chance(&mut self) -> bool {
        self.random.u32(..1_000_000) < self.trouble
    }

    fn turn(&mut self, host: &mut Host) {
        let now = self.server.now;
        if !host.is_alive {
            if self.random.u8(..60) == 0 || self.trouble == 0 {
                *host = self.new_host();
            }
            return;
        }
        if self.chance() {
            // Its commands die with it, or their keepers end them at once.
            for command in host
                .commands
                .drain(..)
                .filter(|command| command.until.is_some())
            {
                self.server.note(&command, AttemptEnd::Lost);
            }
            host.is_alive = false;
            return;
        }
        if self.chance() {
            host.cut_until = now + self.random.i64(1..300) * SECOND;
        }
        if self.chance() {
            host.stopped_until = now + self.random.i64(1..300) * SECOND;
        }
        let is_connected = self.server.is_up && host.cut_until <= now;
        self.run_commands(host, is_connected);
        if host.stopped_until > now || !is_connected {
            return;
        }
        if now - host.heard > 5 * SECOND {
            host.since = now;
        }
        // The clock was ahead.
        host.since = host.since.min(now);
        host.heard = now;
        self.server.renewed.insert(host.id, now);
        host.ended.retain(|(command, end)| {
            let job = &self.jobs[command.job];
            self.server.finish(job, command, *end);
            false
        });
        // Sometimes act on an old look, so that other hosts act in between.
        if host.rows.is_empty() || self.random.u8(..4) != 0 {
            self.look(host);
        }
        self.take_again(host);
        self.act(host);
    }

    /// The supervisors and keepers, as separate processes: they renew the lock, or end the command.
    fn run_commands(&mut self, host: &mut Host, is_connected: bool) {
        let now = self.server.now;
        for mut command in std::mem::take(&mut host.commands) {
            let ttl = micros(self.jobs[command.job].options.ttl);
            let job = &self.jobs[command.job];
            if is_connected {
                command.renewed = now;
                for (run, until) in &mut self.server.locks[command.job] {
                    if *run == command.run {
                        *until = now + ttl;
                    }
                }
            }
            let end = match command.until {
                None if !is_connected => {
                    // No server was reached in time, so the attempt will be repeated.
                    (now - command.renewed > 10 * SECOND).then_some(AttemptEnd::Unstarted)
                }
                None => match self.server.start(job, &command, now + ttl) {
                    None => None,
                    Some(false) => Some(AttemptEnd::Over),
                    Some(true) => {
                        let takes = self.random.i64(1..=job.takes.max(SECOND + 1));
                        let end = if self.random.u32(..job.fails) == 0 {
                            AttemptEnd::Failed
                        } else {
                            AttemptEnd::Over
                        };
                        command.until = Some((now + takes, end));
                        None
                    }
                },
                Some((until, end)) if until <= now => Some(end),
                // Without a renewal for nine tenths of the TTL the command is ended.
                Some(_) if now - command.renewed > ttl * 9 / 10 - SECOND => Some(AttemptEnd::Lost),
                Some(_) => None,
            };
            match end {
                None => host.commands.push(command),
                Some(end) => {
                    if command.until.is_some() {
                        self.server.note(&command, end);
                    }
                    // A lock that cannot be released expires.
                    if is_connected {
                        self.server.locks[command.job].retain(|(run, _)| *run != command.run);
                    }
                    host.ended.push((command, end));
                }
            }
        }
    }

    fn look(&mut self, host: &mut Host) {
        let now = self.server.now;
        host.rows.clone_from(&self.server.rows);
        host.ticks.clone_from(&self.server.ticks);
        host.daemons.clone_from(&self.alive);
        host.looked = now;
    }

    fn start(host: &mut Host, tick: &Entry, now: i64) {
        if host.known.insert(tick.run) {
            host.commands.push(Command {
                job: tick.job,
                tick: tick.tick,
                run: tick.run,
                attempt: tick.attempt,
                failures: tick.failures,
                until: None,
                renewed: now,
            });
        }
    }

    fn take_again(&mut self, host: &mut Host) {
        let now = self.server.now;
        for tick in host.ticks.clone() {
            let job = &self.jobs[tick.job];
            if tick.daemon == Some(host.id) {
                Self::start(host, &tick, now);
                continue;
            }
            let has_room = host.commands.len() < host.slots;
            let age_reference = age_reference(now, host.since);
            let is_too_late = |since: i64| is_attempt_too_late(&job.options, since, age_reference);
            if let Some(daemon) = tick.daemon {
                let ttl = micros(job.options.ttl);
                let renewed = self.server.renewed.get(&daemon).copied();
                let silent_since = renewed.map_or(0, |at| at + ttl);
                let is_orphan = silent_since < now || renewed > Some(now + micros(LARGEST_LAG));
                let is_held = self.server.locks[tick.job]
                    .iter()
                    .any(|(run, until)| *run == tick.run && *until > now);
                if !is_orphan || is_held {
                    continue;
                }
                // If the command has not started, the attempt is not lost.
                let lost = if tick.started {
                    AttemptEnd::Lost
                } else {
                    AttemptEnd::Returned
                };
                let end = self.server.end_of(&tick).unwrap_or(lost);
                let (delay, failures) = retry(&job.options, end, tick.failures, Duration::ZERO);
                match delay {
                    Some(_) if is_too_late(silent_since) => {
                        self.server.abandon(&tick, silent_since);
                    }
                    Some(Duration::ZERO) if has_room => self.server.retake(host, &tick, failures),
                    Some(Duration::ZERO) => {}
                    delay => self.server.set(&tick, delay, failures),
                }
            } else {
                let all = host.ticks.iter().filter(|other| other.job == tick.job);
                let all = all.map(|other| (other.tick, other.is_waiting()));
                let is_free = match tick.start_at {
                    None => has_waited(tick.tick, all),
                    Some(start) => may_start(&job.options, tick.failures, start, now),
                };
                if is_free && tick.start_at.is_some_and(is_too_late) {
                    self.server
                        .abandon(&tick, tick.start_at.unwrap_or_default());
                } else if is_free && has_room {
                    self.server.retake(host, &tick, tick.failures);
                }
            }
        }
    }

    fn act(&mut self, host: &mut Host) {
        let now = self.server.now;
        for (at, job) in self.jobs.iter().enumerate() {
            let row = host.rows[at];
            if row.triggered.is_none() && row.next.is_none_or(|next| next > now) {
                continue;
            }
            let mut under_way = UnderWay::default();
            for tick in host.ticks.iter().filter(|tick| tick.job == at) {
                if tick.is_waiting() {
                    under_way.has_waiting = true;
                } else {
                    under_way.running += 1;
                }
            }
            let key = row.triggered.or(row.next).unwrap_or_default();
            let own = host.id.to_string();
            let all = host.daemons.iter().map(String::as_str);
            let here = Now {
                at: now,
                is_preferred: preferred(&job.name, key, all) == Some(&*own),
                has_room: host.commands.len() < host.slots,
                back_at: host.since,
                made_up_from: host.since
                    + micros(Duration::from_secs(30).mul_f64(fraction(&["spread", &job.name]))),
            };
            let decision = decide(
                (&job.name, &job.schedule, &job.options),
                &row,
                under_way,
                here,
            );
            let Decision::Settle(settlement) = decision else {
                continue;
            };
            if settlement.depends_on_ticks() && host.looked < settlement.settled {
                continue;
            }
            // After an old look another host may have been faster.
            if let Some(tick) = self.server.settle(at, job, host.id, &settlement) {
                // If the answer is lost, the next look finds the tick.
                if self.random.u8(..20) != 0 {
                    Self::start(host, &tick, now);
                }
            }
        }
    }
}

/// Simulates this many seconds with trouble, and then as many as are needed to settle everything.
fn simulate(seed: u64, hosts: usize, jobs: usize, seconds: i64) -> usize {
    let mut world = World::new(seed, hosts, jobs);
    let mut down_until = 0;
    for _ in 0..seconds {
        if world.random.u32(..2000) == 0 {
            down_until = world.server.now + world.random.i64(1..4000) * SECOND;
        }
        world.server.is_up = world.server.now >= down_until;
        world.step();
    }
    let until = world.server.now;
    world.server.is_up = true;
    world.trouble = 0;
    for _ in 0..7200 {
        world.step();
        let rows = &world.server.rows;
        if rows
            .iter()
            .all(|row| row.next > Some(until) && row.triggered.is_none())
            && world.server.ticks.iter().all(|tick| tick.tick > until)
        {
            break;
        }
    }
    let mut left = world.server.ticks.iter().filter(|tick| tick.tick <= until);
    assert_eq!(left.next(), None, "a tick waits for ever");
    check(&world, until);
    let starts = world
        .server
        .events
        .iter()
        .flat_map(BTreeMap::values)
        .flatten();
    starts
        .filter(|event| matches!(event, Event::Started { .. }))
        .count()
}

#[test]
fn each_tick_runs_once_or_is_skipped_for_a_true_reason() {
    let mut starts = 0;
    for (seed, hosts) in (0..12).zip(2..) {
        starts += simulate(seed, hosts, 12, 3 * 3600);
    }
    assert!(starts > 1000, "{starts}");
}

#[test]
fn a_hundred_hosts_are_no_different() {
    simulate(100, 100, 5, 400);
}

#[test]
fn hundreds_of_jobs_are_no_different() {
    simulate(101, 4, 300, 400);
}

/// The server's clock is a day ahead for five minutes. Then no tick is skipped as missed for it, and none waits for a day.
#[test]
fn a_clock_that_was_a_day_ahead_holds_nothing_up() {
    let (mut delayed, mut orphaned) = (0, 0);
    for seed in 200..208 {
        let mut world = World::new(seed, 4, 40);
        world.trouble = 0;
        for host in &mut world.hosts {
            host.slots = 1000;
        }
        let steps = |world: &mut World, seconds: i64| (0..seconds).for_each(|_| world.step());
        steps(&mut world, 300);
        world.server.now += DAY;
        steps(&mut world, 300);
        // A host dies while the clock is ahead. Its keepers end its commands.
        let dead = &mut world.hosts[0];
        (dead.is_alive, dead.ended) = (false, Vec::new());
        let (id, commands) = (dead.id, std::mem::take(&mut dead.commands));
        for command in commands {
            world.server.locks[command.job].retain(|(run, _)| *run != command.run);
            if command.until.is_some() {
                world.server.note(&command, AttemptEnd::Lost);
            }
        }
        world.server.now -= DAY;
        let now = world.server.now;
        // The hosts' own clocks were right.
        for command in world.hosts.iter_mut().flat_map(|host| &mut host.commands) {
            command.renewed = command.renewed.min(now);
            command.until = command.until.map(|(until, end)| (until - DAY, end));
        }
        // A daemon finds the right next ticks at once.
        for (row, job) in world.server.rows.iter_mut().zip(&world.jobs) {
            row.next = next_after(&job.schedule, now);
        }
        let before = world.server.ticks.clone();
        let is_delayed = |tick: &&Entry| tick.start_at.is_some_and(|at| at > now);
        delayed += before.iter().filter(is_delayed).count();
        let is_orphaned = |tick: &&Entry| tick.daemon == Some(id);
        orphaned += before.iter().filter(is_orphaned).count();
        for skips in &mut world.server.skips {
            skips.clear();
        }
        for given_up in &mut world.server.given_up {
            given_up.clear();
        }
        steps(&mut world, 3600);
        let is_missed = |skip: &&server::Skipped| skip.why == Why::Missed;
        let missed: Vec<_> = world
            .server
            .skips
            .iter()
            .flatten()
            .filter(is_missed)
            .collect();
        assert!(missed.is_empty(), "{seed}: {missed:?}");
        let given_up: Vec<_> = world.server.given_up.iter().flatten().collect();
        assert!(given_up.is_empty(), "{seed}: {given_up:?}");
        let is_left = |tick: &&Entry| {
            let mut before = before.iter();
            before.any(|other| (other.job, other.tick) == (tick.job, tick.tick))
        };
        let left: Vec<_> = world.server.ticks.iter().filter(is_left).collect();
        assert!(left.is_empty(), "{seed}: {left:?}");
    }
    assert!(delayed > 0 && orphaned > 0, "{delayed} {orphaned}");
}

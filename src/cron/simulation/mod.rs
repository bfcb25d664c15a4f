//! A simulation of daemons, jobs and a server with its clock, all in this process. Daemons are killed, stopped and asked to end, hosts are
//! frozen and cut off, answers are lost, the server is away, and people trigger, pause and resume jobs, in an order from a seed. What a
//! daemon does is decided by the program's own rules. A checker that only knows the contract examines each tick.

mod attempt;
mod check;
mod host;
mod scheduler;
mod server;

use std::fmt::Write;

use attempt::AttemptState;
use check::{Event, Record, Skipped, check};
use host::{Host, Phase, Trouble, Turn};
use server::{Entry, Server};

use super::crontab::Options;
use super::rules::{AttemptEnd, JobFacts, Why, next_after};
use super::{Schedule, Zone};

const SECOND: i64 = 1_000_000;
const DAY: i64 = 24 * 3600 * SECOND;

/// A Sunday at midnight.
const START: i64 = 1_795_305_600 * SECOND;

/// A job, the same on all hosts.
struct Job {
    name: String,
    schedule: Schedule,
    options: Options,
    /// How long a run takes at most, and one in how many fails.
    takes: i64,
    fails: u32,
}

struct World {
    jobs: Vec<Job>,
    server: Server,
    hosts: Vec<Host>,
    random: fastrand::Rng,
    /// How often trouble happens in a million steps of a host.
    trouble: u32,
    /// Whether people trigger, pause and resume jobs.
    is_managed: bool,
    /// The hosts that had trouble, and from when until when that may have kept them from the server.
    troubles: Vec<(u64, i64, i64)>,
    /// The hosts' own clock.
    clock: i64,
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
                let overlap = ["skip", "wait", "wait", "allow"][random.usize(..4)];
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
                let longest = if random.u8(..3) == 0 { 200 } else { 20 };
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
        let first = |job: &Job| JobFacts {
            next: next_after(&job.schedule, START),
            ..JobFacts::default()
        };
        let server = Server::new(START, jobs.iter().map(first).collect());
        let mut world = Self {
            jobs,
            server,
            hosts: Vec::new(),
            random,
            trouble: 200,
            is_managed: true,
            troubles: Vec::new(),
            clock: START,
        };
        for _ in 0..hosts {
            let host = world.new_host();
            world.hosts.push(host);
        }
        world
    }

    fn new_host(&mut self) -> Host {
        Host::new(self.server.new_id(), self.random.usize(2..40))
    }

    /// One second: each host takes the two halves of its turn, each in a random order. Where all have looked before the first of them acts,
    /// two settle the same tick, or a tick and a trigger, at the same time.
    fn step(&mut self) {
        self.clock += SECOND;
        self.server.now += SECOND;
        self.server.list_alive();
        self.manage();
        let mut order: Vec<usize> = (0..self.hosts.len()).collect();
        self.random.shuffle(&mut order);
        for at in &order {
            self.trouble(*at);
            let mut turn = self.turn(*at);
            if turn.host.phase != Phase::Dead && !turn.is_frozen() {
                turn.live();
                if turn.is_connected() && turn.random.u8(..3) == 0 {
                    turn.look();
                }
            }
        }
        self.random.shuffle(&mut order);
        for at in order {
            let mut turn = self.turn(at);
            let acts = matches!(turn.host.phase, Phase::Works | Phase::Ends(_));
            if acts && !turn.is_frozen() && turn.is_connected() {
                let is_fresh = turn.host.looked.is_none() || turn.random.u8(..4) == 0;
                if is_fresh {
                    turn.look();
                }
                turn.act(is_fresh);
            }
        }
    }

    /// Takes steps until this is so, which must come true within ten minutes.
    fn step_until(&mut self, is_so: impl Fn(&Self) -> bool) {
        let until = self.clock + 600 * SECOND;
        while !is_so(self) {
            assert!(self.clock < until, "it does not come true");
            self.step();
        }
    }

    fn turn(&mut self, at: usize) -> Turn<'_> {
        Turn {
            host: &mut self.hosts[at],
            jobs: &self.jobs,
            server: &mut self.server,
            random: &mut self.random,
            clock: self.clock,
            has_trouble: self.trouble > 0,
        }
    }

    /// The server is away from now on, or is there again. Then each host takes a while to connect again.
    fn set_up(&mut self, is_up: bool) {
        if is_up && !self.server.is_up {
            for host in &mut self.hosts {
                let pause = self.random.i64(0..8) * SECOND;
                host.cut_until = host.cut_until.max(self.clock + pause);
            }
        }
        self.server.is_up = is_up;
    }

    /// People trigger jobs, mostly when a tick is due, so that two daemons settle both at the same time. They also pause jobs for a while,
    /// and run commands under their locks.
    fn manage(&mut self) {
        if !self.server.is_up || !self.is_managed {
            return;
        }
        let now = self.server.now;
        for (at, job) in self.jobs.iter().enumerate() {
            let row = self.server.rows[at];
            if row.is_paused {
                if self.trouble == 0 || self.random.u8(..200) == 0 {
                    self.server.resume(at, job);
                }
            } else if self.trouble > 0 && self.random.u32(..5000) == 0 {
                self.server.pause(at);
            }
            let is_due = row.next.is_some_and(|next| next <= now);
            let rarity = if is_due { 10 } else { 1000 };
            if self.trouble > 0 && self.random.u32(..rarity) == 0 {
                self.server.trigger(at);
            }
            if self.trouble > 0 && self.random.u32(..5000) == 0 {
                let until = now + self.random.i64(1..60) * SECOND;
                self.server.run_by_hand(at, until);
            }
        }
    }

    /// Something may happen to a host, or it comes back.
    fn trouble(&mut self, at: usize) {
        let host = &self.hosts[at];
        if host.phase == Phase::Dead {
            if self.trouble == 0 || self.random.u8(..60) == 0 {
                self.hosts[at] = self.new_host();
            }
            return;
        }
        if host.frozen_until > self.clock || self.random.u32(..1_000_000) >= 7 * self.trouble {
            return;
        }
        let span = self.random.i64(1..300) * SECOND;
        let (trouble, until) = match self.random.u8(..7) {
            0 => (Trouble::Death, i64::MAX),
            1 => (Trouble::CoordinatorKilled, i64::MAX),
            2 => (Trouble::SchedulerKilled, self.clock),
            3 => (Trouble::Terminated, i64::MAX),
            4 => (Trouble::CoordinatorStopped(span), self.clock + span),
            5 => (Trouble::Frozen(span), self.clock + span),
            _ => (Trouble::CutOff(span), self.clock + span),
        };
        self.troubles.push((host.id, self.clock, until));
        self.turn(at).suffer(trouble);
    }
}

/// How often the cases occurred that the simulation is about.
#[derive(Debug, Default)]
struct Cases {
    starts: usize,
    /// Attempts after the first.
    further: usize,
    /// Attempts that were refused, as somebody held the lock.
    refused: usize,
    /// Locks that had expired, and were renewed.
    expired: usize,
    given_up: usize,
    held_back: usize,
    /// Jobs with a tick and a trigger that waited at the same time.
    both_waited: usize,
}

impl Cases {
    fn count(&mut self, record: &Record) {
        for event in record.events.values().flatten() {
            match event {
                Event::Started { attempt, .. } => {
                    self.starts += 1;
                    self.further += usize::from(*attempt > 1);
                }
                Event::Refused { .. } => self.refused += 1,
                Event::Expired { .. } => self.expired += 1,
                Event::Granted { .. } | Event::Ended { .. } => {}
            }
        }
        self.given_up += record.given_up.len();
        self.held_back += record.held_back.len();
        self.both_waited += usize::from(record.both_waited);
    }
}

/// Simulates this many seconds with trouble, and then as many as are needed to settle everything.
fn simulate(seed: u64, hosts: usize, jobs: usize, seconds: i64, cases: &mut Cases) {
    let mut world = World::new(seed, hosts, jobs);
    let mut down_until = 0;
    for _ in 0..seconds {
        if world.random.u32(..4000) == 0 {
            down_until = world.clock + world.random.i64(1..4000) * SECOND;
        } else if world.random.u32(..500) == 0 {
            down_until = down_until.max(world.clock + world.random.i64(1..40) * SECOND);
        }
        world.set_up(world.clock >= down_until);
        world.step();
    }
    let until = world.server.now;
    world.set_up(true);
    world.trouble = 0;
    for _ in 0..7200 {
        world.step();
        let is_settled = |row: &JobFacts| row.next > Some(until) && row.triggered.is_none();
        // What has become of a command is known when its host is there again.
        if world.server.rows.iter().all(is_settled)
            && world.server.ticks.iter().all(|tick| tick.tick > until)
            && world
                .hosts
                .iter()
                .all(|host| host.frozen_until <= world.clock)
        {
            break;
        }
    }
    let mut left = world.server.ticks.iter().filter(|tick| tick.tick <= until);
    assert_eq!(left.next(), None, "a tick waits for ever");
    check(&world, until);
    for record in &world.server.records {
        cases.count(record);
    }
}

#[test]
fn each_tick_runs_once_or_is_skipped_for_a_true_reason() {
    let mut cases = Cases::default();
    for (seed, hosts) in (0..12).zip(2..) {
        simulate(seed, hosts, 12, 2 * 3600, &mut cases);
    }
    assert!(cases.starts > 1000 && cases.further > 100, "{cases:?}");
    let rare = [
        cases.refused,
        cases.expired,
        cases.given_up,
        cases.held_back,
        cases.both_waited,
    ];
    assert!(rare.iter().all(|count| *count > 0), "{cases:?}");
}

#[test]
fn a_hundred_hosts_are_no_different() {
    simulate(100, 100, 5, 400, &mut Cases::default());
}

#[test]
fn hundreds_of_jobs_are_no_different() {
    simulate(101, 4, 300, 400, &mut Cases::default());
}

/// A tick that is under way when its job is paused goes on, with all its attempts. A trigger runs, and no tick of the schedule does.
#[test]
fn a_paused_job_runs_what_is_under_way_and_its_triggers() {
    let (mut under_way, mut triggered) = (0, 0);
    for seed in 300..302 {
        let mut world = World::new(seed, 3, 30);
        (world.trouble, world.is_managed) = (0, false);
        let steps = |world: &mut World, seconds: i64| (0..seconds).for_each(|_| world.step());
        steps(&mut world, 308);
        let paused_at = world.server.now;
        under_way += world.server.ticks.len();
        (0..30).for_each(|at| world.server.pause(at));
        steps(&mut world, 3);
        (0..30).for_each(|at| world.server.trigger(at));
        steps(&mut world, 3600);
        assert_eq!(world.server.ticks, [], "{seed}");
        for record in &world.server.records {
            let trigger = record.triggers[0];
            triggered += usize::from(record.events.contains_key(&trigger));
            let mut settled = record.spans.iter();
            let is_new = |(tick, (at, _)): (&i64, &(i64, _))| *at > paused_at && *tick != trigger;
            assert!(!settled.any(is_new), "{seed}");
            let is_skipped = record.skips.iter().any(|skip| skip.first == trigger);
            assert!(record.spans.contains_key(&trigger) || is_skipped, "{seed}");
        }
        for (at, job) in world.jobs.iter().enumerate() {
            world.server.resume(at, job);
        }
        let until = world.server.now;
        steps(&mut world, 600);
        check(&world, until);
    }
    assert!(under_way > 5 && triggered > 40, "{under_way} {triggered}");
}

/// What a job has missed in an outage is made up for. What becomes due meanwhile is not missed, so that the job is in time again.
#[test]
fn a_job_that_takes_longer_than_its_interval_is_in_time_again_after_an_outage() {
    for (seed, overlap) in (400..).zip(["skip", "wait", "skip", "wait"]) {
        let mut world = World::new(seed, 3, 1);
        (world.trouble, world.is_managed) = (0, false);
        let words = ["--missed", "all", "--ttl", "1h", "--overlap", overlap];
        let (options, mistakes) = Options::parse(&words.map(str::to_owned));
        assert!(mistakes.is_empty(), "{mistakes:?}");
        let schedule = Schedule::parse("* * * * *", Zone::UTC, "job").unwrap();
        world.server.rows[0].next = next_after(&schedule, START);
        let job = &mut world.jobs[0];
        (job.options, job.schedule) = (options, schedule);
        (job.takes, job.fails) = (240 * SECOND, u32::MAX);
        let steps = |world: &mut World, seconds: i64| (0..seconds).for_each(|_| world.step());
        steps(&mut world, 300);
        let down_at = world.server.now;
        world.set_up(false);
        steps(&mut world, 1200);
        world.set_up(true);
        steps(&mut world, 3 * 3600);
        let (now, next) = (world.server.now, world.server.rows[0].next);
        assert!(next > Some(now - 60 * SECOND), "{seed}: {next:?} at {now}");
        // All that was missed has run.
        let of_outage = down_at + 60 * SECOND..down_at + 1200 * SECOND;
        let runs = world.server.records[0].events.range(of_outage).count();
        assert_eq!(runs, 19, "{seed}");
        check(&world, now - 1200 * SECOND);
    }
}

/// A daemon whose coordinator is stopped cannot reach the server until its scheduler has killed its command, and then can while it still
/// has the lock. Only the coordinator could say how the command has ended, and nobody waits for that. It is no matter for how long the
/// coordinator was stopped before, and only the lock was renewed.
#[test]
fn a_tick_whose_command_was_killed_is_another_daemon_s_when_its_lock_has_expired() {
    for (seed, stopped_for) in [(500, 0), (501, 2 * 3600)] {
        its_tick_is_another_s(seed, stopped_for);
    }
}

/// The same, with a coordinator that is stopped for so many seconds before its host cannot reach the server.
fn its_tick_is_another_s(seed: u64, stopped_for: i64) {
    let mut world = World::new(seed, 2, 1);
    (world.trouble, world.is_managed) = (0, false);
    let (options, mistakes) = Options::parse(&["--ttl", "40s"].map(str::to_owned));
    assert!(mistakes.is_empty(), "{mistakes:?}");
    let schedule = Schedule::parse("* * * * *", Zone::UTC, "job").unwrap();
    world.server.rows[0].next = next_after(&schedule, START);
    let job = &mut world.jobs[0];
    (job.options, job.schedule) = (options, schedule);
    (job.takes, job.fails) = (1000 * DAY, u32::MAX);
    let runs = |host: &Host| {
        let mut all = host.attempts.iter();
        all.any(|attempt| matches!(attempt.state, AttemptState::Runs { .. }))
    };
    world.step_until(|world| world.hosts.iter().any(runs));
    let at = world.hosts.iter().position(runs).unwrap();
    let other = 1 - at;
    world.turn(at).suffer(Trouble::CoordinatorStopped(DAY));
    (0..stopped_for).for_each(|_| world.step());
    assert!(runs(&world.hosts[at]));
    world.turn(at).suffer(Trouble::CutOff(DAY));
    world.step_until(|world| !runs(&world.hosts[at]));
    world.hosts[at].cut_until = world.clock;
    let killed_at = world.clock;
    assert!(world.server.locks[0][0].1 > world.server.now);
    world.step_until(|world| runs(&world.hosts[other]));
    assert!(world.clock - killed_at < 60 * SECOND);
    // Not the next tick, because that one was too late.
    assert!(world.server.records[0].given_up.is_empty());
    // The coordinator goes on, and changes nothing.
    world.hosts[at].stopped = Some((killed_at, world.clock));
    world.step_until(|world| world.hosts[at].attempts.is_empty());
    assert!(runs(&world.hosts[other]));
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
        // A host dies while the clock is ahead. What has become of its commands is recorded.
        let id = world.hosts[0].id;
        let attempts = world.hosts[0].attempts.clone();
        world.turn(0).suffer(Trouble::Death);
        for attempt in attempts {
            world.server.release(attempt.job, attempt.run);
            if matches!(attempt.state, AttemptState::Runs { .. }) {
                world.server.record(attempt.run, AttemptEnd::Lost);
            }
        }
        world.server.now -= DAY;
        let now = world.server.now;
        // A daemon finds the right next ticks at once.
        for (row, job) in world.server.rows.iter_mut().zip(&world.jobs) {
            row.next = next_after(&job.schedule, now);
        }
        let before = world.server.ticks.clone();
        let is_delayed = |tick: &&Entry| tick.start_at.is_some_and(|at| at > now);
        delayed += before.iter().filter(is_delayed).count();
        let is_orphaned = |tick: &&Entry| tick.daemon == Some(id);
        orphaned += before.iter().filter(is_orphaned).count();
        for record in &mut world.server.records {
            record.skips.clear();
            record.given_up.clear();
        }
        steps(&mut world, 3600);
        let records = || world.server.records.iter();
        let is_missed = |skip: &&Skipped| skip.why == Why::Missed;
        let skips = records().flat_map(|record| &record.skips);
        let missed: Vec<_> = skips.filter(is_missed).collect();
        assert!(missed.is_empty(), "{seed}: {missed:?}");
        let given_up: Vec<_> = records().flat_map(|record| &record.given_up).collect();
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

//! Minutes of everything at once: hosts that run commands through a semaphore and a plain lock, while holders, waiters,
//! keepers and sessions are killed, hosts are cut off for seconds and the server starts again. Afterwards every record is
//! read. With durable locks there are scripts with tokens besides, and no deed may ever let one be beside another. What the machine itself
//! holds up is measured meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{
    Client, Dblock, HeldUp, Kind, Output, PASSWORD, Proxy, Running, SOON, Server, Time, Watcher,
    eventually, holder, nanos, now, processes_with, quoted, soak_lasts, soak_settings, unique,
    waiters, within,
};
use crate::pools::slot_on_server;

const HOSTS: usize = 8;
const SLOTS: u32 = 2;

/// The lease, and the time from SIGTERM to SIGKILL.
const TTL: Duration = Duration::from_secs(4);
const KILL_AFTER: Duration = Duration::from_secs(1);

/// From a loss to SIGTERM.
const NOTICED: Duration = Duration::from_secs(1);

/// What a machine may add that is busy with dozens of processes.
const SLACK: Duration = Duration::from_secs(2);

/// A slot that is free is not free for longer while somebody waits.
const IDLE: Duration = TTL.saturating_add(Duration::from_millis(1500));

/// A waiter that is dead when its turn comes costs so much more.
const OF_THE_DEAD: Duration = Duration::from_secs(3);

/// Waiters come again so long after a server that starts.
const HELD_BACK: Duration = Duration::from_secs(2);

/// How long a host is cut off at most: for a moment, or for longer than the lease.
const CUT_OFF: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// From one restart of the server to the next; in a short soak half of it.
const RESTARTED: Duration = Duration::from_secs(60);

/// How the commands end by themselves.
const OWN_CODE: i32 = 9;

/// The lease of a script's token: a script has to notice a failed renewal.
const TOKEN_TTL: Duration = Duration::from_secs(10);

#[test]
fn mariadb() {
    soak(Server::private(Kind::MariaDb));
}

#[test]
fn mysql() {
    soak(Server::private(Kind::MySql));
}

#[test]
fn postgres() {
    soak(Server::private(Kind::Postgres));
}

#[test]
fn durable_mariadb() {
    soak(durable(Kind::MariaDb));
}

#[test]
fn durable_mysql() {
    soak(durable(Kind::MySql));
}

#[test]
fn durable_postgres() {
    soak(durable(Kind::Postgres));
}

/// A server that keeps what it has committed when it is killed.
fn durable(kind: Kind) -> Server {
    Server::private_that_keeps(kind).with_durable_runs()
}

/// What was done to a host, or to all; or what the machine did not get done in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    KilledDblock,
    KilledKeeper,
    KilledSession,
    CutOff,
    Restarted,
    HeldUp,
}

/// A deed, to whom (`None`: to all), and when.
#[derive(Debug, Clone)]
struct Event {
    deed: Deed,
    host: Option<usize>,
    time: Range<Time>,
}

/// A call of dblock that is over.
#[derive(Debug)]
struct Run {
    id: usize,
    host: usize,
    lock: String,
    policy: &'static str,
    wait: f64,
    /// Whether it is a script with a token.
    is_script: bool,
    time: Range<Time>,
    output: Output,
}

/// A host: what it runs at present, and its way to the server.
struct Host {
    proxy: Proxy,
    running: Mutex<Option<Running>>,
}

struct Soak {
    server: Server,
    hosts: Vec<Host>,
    base: String,
    folder: tempfile::TempDir,
    over: AtomicBool,
    next: AtomicUsize,
    events: Mutex<Vec<Event>>,
    runs: Mutex<Vec<Run>>,
}

fn soak(server: Server) {
    let (seconds, mut random) = soak_settings();
    let host = |_| Host {
        proxy: Proxy::to(&server),
        running: Mutex::new(None),
    };
    let soak = Soak {
        hosts: (0..HOSTS).map(host).collect(),
        server,
        base: unique("soak"),
        folder: tempfile::tempdir().expect("a scratch folder"),
        over: AtomicBool::new(false),
        next: AtomicUsize::new(0),
        events: Mutex::default(),
        runs: Mutex::default(),
    };
    let held_up = HeldUp::watch(&soak.server);
    thread::scope(|scope| {
        for host in 0..HOSTS {
            let (soak, random) = (&soak, random.fork());
            scope.spawn(move || {
                let _over = Over(&soak.over);
                soak.run_commands(host, random);
            });
        }
        let _over = Over(&soak.over);
        soak.strike(seconds, &mut random);
    });
    soak.assert_nothing_is_left();
    let history = soak.history(held_up.end());
    history.check();
}

/// Whoever ends, also by a panic, ends the others.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Soak {
    fn file(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn locks(&self) -> [(String, u32); 2] {
        [
            (format!("{}-one", self.base), 1),
            (format!("{}-pool", self.base), SLOTS),
        ]
    }

    /// What a host does: one dblock after the other.
    fn run_commands(&self, host: usize, mut random: fastrand::Rng) {
        while !self.over.load(Ordering::Relaxed) {
            let id = self.next.fetch_add(1, Ordering::Relaxed);
            let (lock, slots) = random.choice(self.locks()).expect("two");
            let wait = random.choice([0.0, 4.0, 40.0, 40.0, 40.0]).expect("five");
            let policy = random
                .choice(["reacquire", "reacquire", "terminate"])
                .expect("three");
            let is_script = self.server.durable && random.u8(..4) == 0;
            let url = self.hosts[host].proxy.url();
            let dblock = if is_script {
                self.token_script(id, &url, (&lock, slots), wait, &mut random)
            } else {
                let dblock = Dblock::run_at(&url, &lock)
                    .without_terminal()
                    .args(["-m", &slots.to_string(), "--wait", &wait.to_string()])
                    .args(["--ttl", "4s", "--kill-after", "1"])
                    .args(["--connect-timeout", "5", "--on-lock-lost", policy])
                    .args(self.server.durable.then_some("--durable"));
                dblock.sh(&self.script(id, &mut random))
            };
            let started = now();
            *lock_of(&self.hosts[host].running) = Some(dblock.spawn());
            // Whoever strikes holds the mutex meanwhile, so it never strikes a stranger with the same number.
            let ended = within(Duration::from_secs(120), || {
                !lock_of(&self.hosts[host].running)
                    .as_mut()
                    .is_some_and(Running::is_running)
            });
            let mut running = lock_of(&self.hosts[host].running)
                .take()
                .expect("nobody else takes it");
            assert!(ended, "{id} does not end: {running:?} {}", running.stderr());
            let run = Run {
                id,
                host,
                lock,
                policy,
                wait,
                is_script,
                time: started..now(),
                output: running.wait_within(SOON),
            };
            lock_of(&self.runs).push(run);
        }
    }

    /// A command that notes its start and end, has the file of its slot locked for as long as any process of it lives,
    /// and notes from when to when that was locked by another.
    fn script(&self, id: usize, random: &mut fastrand::Rng) -> String {
        let [records, slot] = ["records", "slot"].map(|file| quoted(&self.file(file)));
        // Some do not heed SIGTERM.
        let trap = if random.u8(..4) == 0 {
            "trap '' TERM"
        } else {
            ""
        };
        let length = random.choice([0.05, 0.5, 2.0, 8.0, 8.0]).expect("five");
        format!(
            "exec 2>/dev/null
            {trap}
            note() {{ echo $1 {id} $DBLOCK_NAME $DBLOCK_SLOT $(date +%s%N) ${{DBLOCK_FENCE-0}} >>{records}; }}
            note start
            exec 9>>{slot}-$DBLOCK_NAME-$DBLOCK_SLOT
            flock -n 9 || {{ note overlap; flock 9; note alone; }}
            sleep {length}
            note end
            exit {OWN_CODE}"
        )
    }

    /// A script that acquires a token, notes what a command does, renews while it works, and releases. It stops at the first renewal
    /// that fails.
    fn token_script(
        &self,
        id: usize,
        url: &str,
        (lock, slots): (&str, u32),
        wait: f64,
        random: &mut fastrand::Rng,
    ) -> Dblock {
        let [records, slot] = ["records", "slot"].map(|file| quoted(&self.file(file)));
        let dblock = quoted(Path::new(env!("CARGO_BIN_EXE_dblock")));
        let rounds = random.u8(0..6);
        let ttl = TOKEN_TTL.as_secs();
        // Every other one lets dblock renew.
        let work = if random.bool() {
            format!("{dblock} run --token $token --connect-timeout 5 -- sleep {rounds} || exit $?")
        } else {
            format!(
                "for round in $(seq {rounds}); do
                    {dblock} renew --connect-timeout 3 $token || exit $?
                    sleep 1
                done"
            )
        };
        let script = format!(
            "token=$({dblock} acquire --name {lock} -m {slots} --wait {wait} --ttl {ttl} --connect-timeout 5) || exit $?
            exec 2>/dev/null
            IFS=. read -r _ slot fence _ <<END
$token
END
            note() {{ echo $1 {id} {lock} $slot $(date +%s%N) $fence >>{records}; }}
            note start
            exec 9>>{slot}-{lock}-$slot
            flock -n 9 || {{ note overlap; flock 9; note alone; }}
            {work}
            note end
            exec 9>&-
            {dblock} release --connect-timeout 5 $token || exit $?
            exit {OWN_CODE}"
        );
        Dblock::bare()
            .program("sh")
            .env("DBLOCK_URL", url)
            .env("DBLOCK_PASSWORD", PASSWORD)
            .args(["-c", &script])
    }

    /// Whether enough commands have started so far.
    fn has_seen_enough(&self) -> bool {
        let records = fs::read_to_string(self.file("records")).unwrap_or_default();
        let started = records.lines().filter(|line| line.starts_with("start "));
        started.count() * 3 > lock_of(&self.runs).len() + HOSTS
    }

    /// Does something bad every now and then: for this long, or until there is enough to look at.
    fn strike(&self, duration: Duration, random: &mut fastrand::Rng) {
        let begun = Instant::now();
        let mut admin = self.server.watcher();
        let between = RESTARTED.min(duration / 2);
        let mut restart_at = between / 2;
        let mut restarts = 0;
        let mut frozen: BTreeMap<usize, (Time, Time)> = BTreeMap::new();
        let lasts = || soak_lasts(begun, duration, || self.has_seen_enough());
        while lasts() && !self.over.load(Ordering::Relaxed) {
            let pause = Duration::from_millis(random.u64(100..1000));
            within(pause, || self.over.load(Ordering::Relaxed));
            frozen.retain(|&host, &mut (since, until)| {
                let thaws = until <= now();
                if thaws {
                    self.thaw(host, since);
                }
                !thaws
            });
            if begun.elapsed() >= restart_at {
                restart_at += between;
                restarts += 1;
                let since = now();
                if restarts % 2 == 0 {
                    self.server.stop();
                } else {
                    self.server.kill();
                }
                self.server.start();
                self.note(Deed::Restarted, None, since..now());
                admin = self.server.watcher();
                continue;
            }
            let host = self.victim(random);
            match random.u8(..10) {
                // Most are left alone with being cut off.
                0..=3 if frozen.contains_key(&host) && random.u8(..4) > 0 => {}
                0 | 1 => self.kill(host, Deed::KilledDblock),
                2 | 3 => self.kill(host, Deed::KilledKeeper),
                4..=6 => self.kill_session(&mut admin, random),
                _ if frozen.contains_key(&host) => {}
                _ => {
                    let most = random.choice(CUT_OFF).expect("two");
                    let length = most.mul_f64(0.5 + random.f64() / 2.0);
                    let since = now();
                    self.hosts[host].proxy.freeze();
                    frozen.insert(host, (since, since + nanos(length)));
                }
            }
        }
        for (host, (since, _)) in frozen {
            self.thaw(host, since);
        }
    }

    /// A host: every other time one whose command runs, if there is one.
    fn victim(&self, random: &mut fastrand::Rng) -> usize {
        let holds = |host: &usize| {
            let running = lock_of(&self.hosts[*host].running);
            running
                .as_ref()
                .is_some_and(|running| running.children().len() == 2)
        };
        let holders: Vec<usize> = (0..HOSTS).filter(holds).collect();
        let any = random.usize(..HOSTS);
        let holder = random.choice(holders);
        holder.filter(|_| random.bool()).unwrap_or(any)
    }

    fn note(&self, deed: Deed, host: Option<usize>, time: Range<Time>) {
        lock_of(&self.events).push(Event { deed, host, time });
    }

    fn thaw(&self, host: usize, since: Time) {
        self.hosts[host].proxy.thaw();
        self.note(Deed::CutOff, Some(host), since..now());
    }

    /// Kills dblock or its keeper on a host.
    fn kill(&self, host: usize, deed: Deed) {
        let mut running = lock_of(&self.hosts[host].running);
        let Some(running) = running.as_mut() else {
            return;
        };
        if !running.is_running() {
            return;
        }
        let is_keeper = |pid: &i32| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name == "dblock-keeper\n"
        };
        let pid = match deed {
            Deed::KilledKeeper => running.children().into_iter().find(is_keeper),
            _ => Some(running.pid()),
        };
        let since = now();
        let killed = pid.is_some_and(|pid| kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok());
        if killed {
            self.note(deed, Some(host), since..now());
        }
    }

    /// Kills some session of dblock's.
    fn kill_session(&self, admin: &mut Client, random: &mut fastrand::Rng) {
        let Some((id, port)) = random.choice(admin.sessions()) else {
            return;
        };
        let since = |host: usize| self.hosts[host].proxy.comes_from(port?);
        let host = (0..HOSTS)
            .filter(|&host| since(host).is_some())
            .max_by_key(|&host| since(host));
        let since = now();
        admin.end_session(id);
        self.note(Deed::KilledSession, host, since..now());
    }

    /// No process, no lock, no place in a queue.
    fn assert_nothing_is_left(&self) {
        let mut admin = self.server.watcher();
        eventually("the server holds nothing", TTL + SOON, || {
            self.locks().into_iter().all(|(lock, slots)| {
                let mut on_server = (0..slots)
                    .map(|slot| slot_on_server(&lock, slot))
                    .chain([format!("{lock}#wait")]);
                on_server.all(|name| holder(&mut admin, &name).is_none())
                    && waiters(&mut admin, &lock).is_empty()
            })
        });
        if self.server.durable {
            let held = "SELECT COUNT(*) FROM dblock.dblock_locks WHERE owner IS NOT NULL AND expires_at > UTC_TIMESTAMP(6)";
            eventually("no row is held", TOKEN_TTL + SOON, || {
                admin.query::<u64>(held).expect("the table") == [0]
            });
        }
        eventually("no process is left", SOON, || {
            let mut locks = self.locks().into_iter();
            locks.all(|(lock, _)| processes_with(&lock).is_empty())
        });
        for file in fs::read_dir(self.folder.path()).expect("its own folder") {
            let path = file.expect("a file").path();
            eventually("no command holds a file", SOON, || is_unlocked(&path));
        }
    }

    fn history(&self, held_up: HeldUp) -> History {
        let mut commands: BTreeMap<usize, Command> = BTreeMap::new();
        let records = fs::read_to_string(self.file("records")).unwrap_or_default();
        for line in records.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [what, id, lock, slot, time, fence] = words[..] else {
                panic!("a torn record: {line:?}")
            };
            let (id, time) = (id.parse().expect("a number"), time.parse().expect("a time"));
            let command = commands.entry(id).or_default();
            match what {
                "start" => {
                    command.slot = (lock.to_owned(), slot.parse().expect("a slot"));
                    command.start = time;
                    command.fence = fence.parse().expect("a number");
                }
                "overlap" => command.overlap = Some(time),
                "alone" => command.alone = Some(time),
                _ => command.end = Some(time),
            }
        }
        let mut runs = std::mem::take(&mut *lock_of(&self.runs));
        runs.sort_by_key(|run| run.id);
        let ends: BTreeMap<usize, Time> = runs.iter().map(|run| (run.id, run.time.end)).collect();
        for (id, command) in &mut commands {
            // The group of a command is gone when its dblock is; only that of a killed dblock lives on for a moment.
            command.gone = command.end.unwrap_or(ends[id]);
        }
        let mut events = std::mem::take(&mut *lock_of(&self.events));
        events.extend(held_up.0.iter().map(|time| Event {
            deed: Deed::HeldUp,
            host: None,
            time: time.clone(),
        }));
        History {
            is_durable: self.server.durable,
            runs,
            commands,
            events,
            held_up,
        }
    }
}

fn lock_of<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn is_unlocked(path: &Path) -> bool {
    let file = fs::File::open(path).expect("a file that nobody removes");
    Flock::lock(file, FlockArg::LockExclusiveNonblock).is_ok()
}

/// What a command wrote down.
#[derive(Debug, Default)]
struct Command {
    slot: (String, u32),
    start: Time,
    /// 0 without a durable lock.
    fence: u64,
    /// Since when it was not alone in its slot, and until when.
    overlap: Option<Time>,
    alone: Option<Time>,
    end: Option<Time>,
    /// Its end, or that of its dblock.
    gone: Time,
}

struct History {
    is_durable: bool,
    runs: Vec<Run>,
    commands: BTreeMap<usize, Command>,
    events: Vec<Event>,
    held_up: HeldUp,
}

impl History {
    fn check(&self) {
        let mut codes: BTreeMap<_, usize> = BTreeMap::new();
        for run in &self.runs {
            *codes
                .entry((run.output.code, run.output.signal))
                .or_default() += 1;
        }
        let deeds = |deed| {
            self.events
                .iter()
                .filter(|event| event.deed == deed)
                .count()
        };
        let overlaps = self.overlaps().len();
        println!(
            "{} runs, ended with {codes:?}; {overlaps} overlaps; killed {} dblock, {} keeper, {} session; cut off {}; restarted {}; held up {}",
            self.runs.len(),
            deeds(Deed::KilledDblock),
            deeds(Deed::KilledKeeper),
            deeds(Deed::KilledSession),
            deeds(Deed::CutOff),
            deeds(Deed::Restarted),
            deeds(Deed::HeldUp),
        );
        let wrong: Vec<String> = [
            self.unexplained_ends(),
            self.unexplained_overlaps(),
            self.fences_out_of_order(),
            self.idle_slots(),
        ]
        .concat();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        // How many there are is chance: enough of them to have something to look at.
        let (started, all) = (self.commands.len(), self.runs.len());
        assert!(started * 3 > all, "only {started} of {all} run: {codes:?}");
    }

    /// The events that befell a host in this time.
    fn befell<'a>(&'a self, host: usize, time: &'a Range<Time>) -> impl Iterator<Item = &'a Event> {
        self.events.iter().filter(move |event| {
            event.host.is_none_or(|it| it == host)
                && event.time.start <= time.end
                && time.start <= event.time.end
        })
    }

    fn unexplained_ends(&self) -> Vec<String> {
        use Deed::{CutOff, HeldUp, KilledDblock, KilledKeeper, KilledSession, Restarted};
        let mut wrong = Vec::new();
        for run in &self.runs {
            let done: Vec<Deed> = self
                .befell(run.host, &run.time)
                .map(|event| event.deed)
                .collect();
            let by = |causes: &[Deed]| causes.iter().any(|cause| done.contains(cause));
            let command = self.commands.get(&run.id);
            let explained = match (run.output.code, run.output.signal) {
                (Some(OWN_CODE), _) => command.is_some_and(|command| command.end.is_some()),
                (Some(75), _) => command.is_none() && run.output.took.as_secs_f64() >= run.wait,
                // A durable lock outlives sessions and keepers.
                (Some(74), _) if self.is_durable => by(&[CutOff, Restarted, HeldUp]),
                // A script may come too late, and its answer be lost.
                (Some(69), _) if run.is_script => by(&[CutOff, Restarted, HeldUp]),
                (None, Some(libc::SIGKILL)) if run.is_script => by(&[KilledDblock]),
                // Perhaps before the command had written anything.
                (Some(74), _) => by(&[CutOff, KilledKeeper, KilledSession, Restarted, HeldUp]),
                // Each session that is lost costs a waiter the time for which it holds back on the next one.
                (Some(69), _) => {
                    command.is_none() && by(&[CutOff, KilledSession, Restarted, HeldUp])
                }
                (Some(70), _) => command.is_none() && by(&[KilledKeeper]),
                (None, Some(libc::SIGKILL)) => by(&[KilledDblock]),
                _ => false,
            };
            let ours = run
                .output
                .stderr
                .lines()
                .all(|line| line.starts_with("dblock: "));
            if !explained || !ours {
                wrong.push(format!("unexplained: {run:#?}\n{command:?}\n{done:?}"));
            }
        }
        wrong
    }

    /// Commands that were not alone in their slot: who, since when, and until when.
    fn overlaps(&self) -> Vec<(usize, Range<Time>)> {
        let overlap = |(&id, command): (&usize, &Command)| {
            let since = command.overlap?;
            Some((id, since..command.alone.unwrap_or(command.gone)))
        };
        self.commands.iter().filter_map(overlap).collect()
    }

    /// Two may be in one slot only if the server took the lock from one of them, and not for long; with durable locks not even then.
    fn unexplained_overlaps(&self) -> Vec<String> {
        let host_of: BTreeMap<usize, usize> =
            self.runs.iter().map(|run| (run.id, run.host)).collect();
        let mut wrong = Vec::new();
        for (id, time) in self.overlaps() {
            let command = &self.commands[&id];
            let others = self.commands.iter().filter(|(other, it)| {
                **other != id
                    && it.slot == command.slot
                    && it.start <= time.start
                    && it.gone + nanos(SLACK) >= time.start
            });
            let others: Vec<usize> = others.map(|(other, _)| *other).collect();
            let took = Duration::from_nanos(time.end - time.start);
            // The one that lost the lock may be the later of two that start at once, and writes down the overlap itself.
            let lost = self
                .runs
                .iter()
                .any(|run| run.id == id && run.output.code == Some(74));
            let mut losers = others.iter().chain(Some(&id).filter(|_| lost));
            let explained = if self.is_durable {
                time.end - time.start <= self.held_up.of(&time) + nanos(SLACK)
                    && self.held_up.lets_meet(&time)
            } else {
                losers.any(|other| {
                    let host = host_of[other];
                    // A command writes its first line some milliseconds after its lock was granted, and the lock may be lost by then.
                    let started = self.commands[other].start;
                    let long_before = started.saturating_sub(nanos(TTL))..started;
                    let granted = nanos(NOTICED) + self.held_up.of(&long_before);
                    let granted = started.saturating_sub(granted);
                    let before = granted..time.end;
                    let mut befell = self.befell(host, &before);
                    befell.any(|event| self.explains(event, host, &time))
                })
            };
            if !explained {
                let about: BTreeSet<usize> = others.into_iter().chain([id]).collect();
                wrong.push(format!(
                    "two in one slot for {took:?}: {}",
                    self.about(&about)
                ));
            }
        }
        wrong
    }

    /// Each slot's fences grow from one command to the next, and each has its own.
    fn fences_out_of_order(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut last: BTreeMap<&(String, u32), (u64, usize)> = BTreeMap::new();
        let mut commands: Vec<_> = self.commands.iter().filter(|_| self.is_durable).collect();
        commands.sort_by_key(|(_, command)| command.start);
        for (&id, command) in commands {
            let before = last.insert(&command.slot, (command.fence, id));
            if let Some((fence, other)) = before.filter(|(fence, _)| *fence >= command.fence) {
                let about = self.about(&[id, other].into());
                wrong.push(format!("{} after {fence}: {about}", command.fence));
            }
        }
        wrong
    }

    /// Whether this event took the lock from the command of a host, so that another ran beside it in this time.
    fn explains(&self, event: &Event, host: usize, time: &Range<Time>) -> bool {
        let meanwhile = event.time.start..time.start;
        let cut_off: Vec<&Event> = self
            .events
            .iter()
            .filter(|other| other.deed == Deed::CutOff)
            .filter(|other| other.time.start <= meanwhile.end && meanwhile.start <= other.time.end)
            .collect();
        let own = || cut_off.iter().filter(|other| other.host == Some(host));
        // By when another could have the lock.
        let mut until = event.time.end;
        match event.deed {
            Deed::KilledSession | Deed::HeldUp => {}
            // A new keeper ends the session of the one before, as soon as it reaches the server.
            Deed::KilledKeeper => until = own().map(|own| own.time.end).fold(until, Time::max),
            Deed::Restarted => until += nanos(HELD_BACK),
            Deed::KilledDblock | Deed::CutOff => return false,
        }
        if cut_off.iter().any(|other| other.host != Some(host)) {
            until += nanos(OF_THE_DEAD);
        }
        // Whoever cannot hear of the loss has its lease to its end.
        let most = if own().next().is_some() {
            until + nanos(TTL)
        } else {
            until.max(time.start) + nanos(NOTICED + KILL_AFTER)
        };
        let slack = nanos(SLACK) + self.held_up.of(&(event.time.start..time.end));
        event.time.start <= time.start && time.start <= until + slack && time.end <= most + slack
    }

    /// Everything about these calls.
    fn about(&self, ids: &BTreeSet<usize>) -> String {
        let runs = self.runs.iter().filter(|run| ids.contains(&run.id));
        let told = runs.map(|run| {
            let done: Vec<&Event> = self.befell(run.host, &run.time).collect();
            format!(
                "{} {run:#?}\n{:?}\n{done:?}\n",
                run.policy,
                self.commands.get(&run.id)
            )
        });
        told.collect()
    }

    /// Spans in which somebody waited who could, nobody was in a slot, and the server was there.
    fn idle_slots(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let slots: BTreeSet<&(String, u32)> = self
            .commands
            .values()
            .map(|command| &command.slot)
            .collect();
        for slot in slots {
            let mut inside: Vec<Range<Time>> = self
                .commands
                .values()
                .filter(|command| command.slot == *slot)
                .map(|command| command.start..command.gone)
                .collect();
            inside.sort_by_key(|range| range.start);
            let mut free_since = 0;
            for next in inside {
                let free = free_since..next.start;
                free_since = free_since.max(next.end);
                if free.start > 0 && free.start < free.end {
                    wrong.extend(self.left_waiting(slot, &free));
                }
            }
        }
        wrong
    }

    /// Whether somebody was left waiting for a slot that was free all this time.
    fn left_waiting(&self, slot: &(String, u32), free: &Range<Time>) -> Option<String> {
        let hurt = |event: &&Event| {
            event.time.start <= free.end && free.start <= event.time.end + nanos(TTL)
        };
        for run in self.runs.iter().filter(|run| run.lock == slot.0) {
            let until = self
                .commands
                .get(&run.id)
                .map_or(run.time.end, |command| command.start);
            // What was done to the one that waited itself, and to the server, is not the slot's fault.
            let own = self.befell(run.host, free);
            let since = own
                .map(|event| event.time.end + nanos(HELD_BACK))
                .fold(free.start.max(run.time.start), Time::max);
            let left = Duration::from_nanos(until.min(free.end).saturating_sub(since));
            // Every one that is dead when its turn comes takes its time.
            let dead: BTreeSet<Option<usize>> = self
                .events
                .iter()
                .filter(hurt)
                .filter(|event| event.deed == Deed::CutOff)
                .map(|event| event.host)
                .collect();
            let dead = u32::try_from(dead.len()).expect("few hosts");
            // The row of a script that was killed expires.
            let idle = if self.is_durable {
                IDLE + TOKEN_TTL
            } else {
                IDLE
            };
            if left > idle + dead * OF_THE_DEAD + SLACK {
                return Some(format!(
                    "left waiting for {left:?} while {slot:?} was free: {}",
                    self.about(&[run.id].into())
                ));
            }
        }
        None
    }
}

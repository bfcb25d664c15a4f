//! Queues, side by side: how soon the next command starts when one has ended, and how long many commands take through a
//! few slots. dblock on both servers; flock, a script that polls, shell loops and `xargs -P` beside it.
//!
//! `script/bench` starts the servers and tells this program where they are. Every command records its own start and end
//! (`job.c`), and no time counts unless these records prove that never more commands ran at once than there are slots.
//! Rounds alternate, so that a machine that is busy for a while is busy for all of them; what counts are the ratios.

use std::env;
use std::error::Error;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_gettime};

/// Callers that wait when the first command starts.
const CALLERS: usize = 30;
/// Rounds of them for each kind of queue, each with a hand-over from one caller to the next until none waits.
const ROUNDS: usize = 20;
/// Polling is slow, and far off: a round of it for so many of the others.
const POLLING_EVERY: usize = 7;
/// From one hand-over to the next, on average: a command takes as many times this as there are slots.
const MILLIS: usize = 10;

/// The other question: so many commands of so many milliseconds through so many slots, in so many rounds.
const MANY: usize = 200;
const MANY_MILLIS: usize = 50;
const MANY_SLOTS: usize = 8;
const MANY_ROUNDS: usize = 7;

/// From one look at a condition to the next, and at most until it comes true.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const LIMIT: Duration = Duration::from_secs(30);

/// The lock. The records of each round are in a file of their own, so that a straggler cannot spoil the next.
const NAME: &str = "hand-over";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What it takes to start anything.
struct Bench {
    folder: String,
    /// Passed on to dblock, and used to hold the locks until all callers wait.
    mariadb: String,
    mysql: String,
    rounds: usize,
}

/// How callers wait for their turn.
#[derive(Clone, Copy)]
enum Queue<'a> {
    Flock,
    /// `dblock run -m SLOTS --wait forever`, on the server of this URL.
    Dblock(&'a str, usize),
    /// `dblock run` in a loop, as long as the lock is taken.
    Polling(&'a str),
}

/// A line of the table.
struct Line {
    name: &'static str,
    times: Vec<Duration>,
}

impl Line {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            times: Vec::new(),
        }
    }
}

fn main() -> Result<()> {
    let given = |variable| {
        env::var(variable).map_err(|_| format!("{variable} is not set: run script/bench"))
    };
    let mut bench = Bench {
        folder: given("BENCH_FOLDER")?,
        mariadb: given("DBLOCK_URL")?,
        mysql: given("BENCH_MYSQL_URL")?,
        rounds: 0,
    };

    println!(
        "{:<46} {:>7} {:>10} {:>10} {:>7}",
        "", "samples", "median", "99 %", "ratio"
    );
    println!("end to next start, {CALLERS} waiting");
    print(bench.hand_overs()?);
    let [from_start, from_launch] = bench.makespans()?;
    println!("{MANY} commands of {MANY_MILLIS} ms, {MANY_SLOTS} at once, first start to last end");
    print(from_start);
    println!("the same, from the launch of the first process");
    print(from_launch);
    Ok(())
}

/// Prints lines with their ratios to the first.
fn print(lines: Vec<Line>) {
    let mut first = None;
    for Line { name, mut times } in lines {
        times.sort();
        let median = times[times.len() / 2];
        let most = times[(times.len() * 99).div_ceil(100) - 1];
        let ratio = median.as_secs_f64() / first.get_or_insert(median).as_secs_f64();
        println!(
            "  {name:<44} {:>7} {median:>10.2?} {most:>10.2?} {ratio:>7.2}",
            times.len()
        );
    }
}

impl Bench {
    /// How soon the next command starts.
    fn hand_overs(&mut self) -> Result<Vec<Line>> {
        let (mariadb, mysql) = (self.mariadb.clone(), self.mysql.clone());
        let mut contenders = [
            ("flock", Queue::Flock),
            ("dblock", Queue::Dblock(&mariadb, 1)),
            ("dblock -m 4", Queue::Dblock(&mariadb, 4)),
            ("dblock, MySQL", Queue::Dblock(&mysql, 1)),
            ("dblock -m 4, MySQL", Queue::Dblock(&mysql, 4)),
            ("polling once a second", Queue::Polling(&mariadb)),
        ]
        .map(|(name, queue)| (Line::new(name), queue));
        for round in 0..ROUNDS {
            for (line, queue) in &mut contenders {
                if matches!(queue, Queue::Polling(_)) && round % POLLING_EVERY > 0 {
                    continue;
                }
                let slots = queue.slots();
                let records = self
                    .queued(*queue, CALLERS, MILLIS * slots)
                    .map_err(|error| format!("{}, round {round}: {error}", line.name))?;
                line.times.extend(records.hand_overs(slots)?);
            }
        }
        Ok(contenders.map(|(line, _)| line).into())
    }

    /// How long many commands take: from the first start, and from the first process's launch.
    fn makespans(&mut self) -> Result<[Vec<Line>; 2]> {
        let dblock = Queue::Dblock(&self.mariadb.clone(), MANY_SLOTS);
        let mut from_start = [
            "8 shell loops",
            "xargs -P 8",
            "dblock -m 8",
            "dblock -m 8, all waiting first",
        ]
        .map(Line::new);
        let mut from_launch = ["8 shell loops", "xargs -P 8", "dblock -m 8"].map(Line::new);
        for _ in 0..MANY_ROUNDS {
            let begun = now()?;
            let file = self.records();
            let job = format!("{}/job {file} {MANY_MILLIS}", self.folder);
            let each = MANY / MANY_SLOTS;
            let shell = format!("i=0; while [ $i -lt {each} ]; do {job}; i=$((i+1)); done");
            let loops = Callers::start(MANY_SLOTS, || sh(&shell))?;
            let loops = loops.records(&file, MANY)?;
            from_launch[0].times.push(loops.end_after(begun)?);
            from_start[0].times.push(loops.makespan(MANY_SLOTS)?);

            let begun = now()?;
            let file = self.records();
            let job = format!("{}/job {file} {MANY_MILLIS}", self.folder);
            let shell = format!("seq {MANY} | xargs -P {MANY_SLOTS} -n 1 {job}");
            let xargs = Callers::start(1, || sh(&shell))?.records(&file, MANY)?;
            from_launch[1].times.push(xargs.end_after(begun)?);
            from_start[1].times.push(xargs.makespan(MANY_SLOTS)?);

            let begun = now()?;
            let file = self.records();
            let callers = Callers::start(MANY, || self.caller(dblock, &file, MANY_MILLIS))?;
            let records = callers.records(&file, MANY)?;
            from_launch[2].times.push(records.end_after(begun)?);
            from_start[2].times.push(records.makespan(MANY_SLOTS)?);

            // Starting so many processes takes longer than some of the commands do, and their time: here it is over before.
            let records = self.queued(dblock, MANY, MANY_MILLIS)?;
            from_start[3].times.push(records.makespan(MANY_SLOTS)?);
        }
        Ok([from_start.into(), from_launch.into()])
    }

    /// A file for the records of a new round.
    fn records(&mut self) -> String {
        self.rounds += 1;
        format!("{}/records-{}", self.folder, self.rounds)
    }

    /// Has so many callers wait, and then lets them go.
    fn queued(&mut self, queue: Queue, callers: usize, millis: usize) -> Result<Records> {
        let file = self.records();
        let gate = Gate::close(queue, &self.folder)?;
        let mut waiting = Callers::start(callers, || self.caller(queue, &file, millis))?;
        let gate = gate.when_all_wait(&mut waiting)?;
        gate.open()?;
        waiting.records(&file, callers)
    }

    fn caller(&self, queue: Queue, file: &str, millis: usize) -> Command {
        let dblock = env!("CARGO_BIN_EXE_dblock");
        let job = format!("{}/job", self.folder);
        let millis = millis.to_string();
        let mut caller;
        match queue {
            Queue::Flock => {
                caller = Command::new("flock");
                caller.arg(format!("{}/f", self.folder));
            }
            Queue::Dblock(url, slots) => {
                caller = Command::new(dblock);
                caller.args(["run", "--name", NAME, "--wait", "forever"]);
                // One slot is the default, without the option.
                if slots > 1 {
                    caller.args(["-m", &slots.to_string()]);
                }
                caller.arg("--").env("DBLOCK_URL", url);
            }
            Queue::Polling(url) => {
                // As on many hosts, they do not all look at the same moment.
                let first = fastrand::f64();
                let shell = format!(
                    "pause={first:.3}; until {dblock} run -q --name {NAME} -- \"$@\"; do \
                     [ $? -eq 75 ] || exit; echo refused; sleep $pause; pause=1; done"
                );
                caller = sh(&shell);
                caller.arg("sh").env("DBLOCK_URL", url);
                caller.stdout(Stdio::piped());
            }
        }
        caller.args([&job, file, &millis]);
        caller
    }
}

impl Queue<'_> {
    fn slots(self) -> usize {
        match self {
            Queue::Dblock(_, slots) => slots,
            Queue::Flock | Queue::Polling(_) => 1,
        }
    }
}

fn sh(script: &str) -> Command {
    let mut sh = Command::new("sh");
    sh.args(["-c", script]);
    sh
}

/// Keeps all callers from their turn, so that none runs before the last one waits.
enum Gate {
    Flock(Flock<File>),
    /// A session that has every slot: named locks like any other program's.
    Session(Conn),
    /// The same, but nobody is seen to wait: each caller says so when it was refused.
    Refusing(Conn),
}

impl Gate {
    fn close(queue: Queue, folder: &str) -> Result<Self> {
        match queue {
            Queue::Flock => {
                let file = File::create(format!("{folder}/f"))?;
                let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock);
                Ok(Self::Flock(lock.map_err(|(_, error)| error)?))
            }
            Queue::Dblock(url, slots) => Ok(Self::Session(holder(url, slots)?)),
            Queue::Polling(url) => Ok(Self::Refusing(holder(url, 1)?)),
        }
    }

    fn when_all_wait(mut self, callers: &mut Callers) -> Result<Self> {
        let all = callers.0.len();
        let deadline = Instant::now() + LIMIT;
        while self.waiting(callers)? < all {
            if Instant::now() > deadline {
                return Err("the callers did not come to wait in time".into());
            }
            sleep(LOOK_AGAIN);
        }
        Ok(self)
    }

    fn waiting(&mut self, callers: &mut Callers) -> Result<usize> {
        match self {
            Self::Flock(file) => {
                let inode = format!(":{} ", file.metadata()?.ino());
                let locks = fs::read_to_string("/proc/locks")?;
                let waits = |line: &&str| line.contains("-> FLOCK") && line.contains(&inode);
                Ok(locks.lines().filter(waits).count())
            }
            Self::Session(conn) => Ok(conn
                .query_first(
                    "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'",
                )?
                .unwrap_or_default()),
            Self::Refusing(_) => {
                for caller in &mut callers.0 {
                    let stdout = caller.stdout.as_mut().ok_or("no stdout")?;
                    if BufReader::new(stdout).read_line(&mut String::new())? == 0 {
                        return Err("a caller was not refused".into());
                    }
                }
                Ok(callers.0.len())
            }
        }
    }

    fn open(self) -> Result<()> {
        match self {
            Self::Flock(file) => drop(file.unlock().map_err(|(_, error)| error)?),
            // All slots at once: the head of the queue waits for one of them, and no holder is there to wake it.
            Self::Session(mut conn) | Self::Refusing(mut conn) => {
                conn.query_drop("DO RELEASE_ALL_LOCKS()")?;
            }
        }
        Ok(())
    }
}

/// A session that has all slots of the lock, by their names on the server.
fn holder(url: &str, slots: usize) -> Result<Conn> {
    let account = OptsBuilder::from_opts(Opts::from_url(url)?)
        .pass(env::var("DBLOCK_PASSWORD").ok())
        .prefer_socket(false);
    let mut conn = Conn::new(account)?;
    for slot in 0..slots {
        let name = match slot {
            0 => NAME.to_owned(),
            _ => format!("{NAME}#{slot}"),
        };
        // The last round's callers have been waited for, and have freed theirs.
        if conn.exec_first("SELECT GET_LOCK(?, 0)", (name,))? != Some(1) {
            return Err(format!("slot {slot} is taken").into());
        }
    }
    Ok(conn)
}

/// Processes that were started and not yet waited for. Those that still run are killed when this goes, and also when this
/// program is.
struct Callers(Vec<Child>);

impl Callers {
    fn start(count: usize, mut caller: impl FnMut() -> Command) -> Result<Self> {
        let mut callers = Self(Vec::with_capacity(count));
        for _ in 0..count {
            let mut command = caller();
            let last_steps = || Ok(prctl::set_pdeathsig(Signal::SIGKILL)?);
            // SAFETY: makes one system call.
            unsafe { command.pre_exec(last_steps) };
            callers.0.push(command.stdin(Stdio::null()).spawn()?);
        }
        Ok(callers)
    }

    /// Waits for all, and reads what so many commands recorded.
    fn records(mut self, file: &str, commands: usize) -> Result<Records> {
        let deadline = Instant::now() + LIMIT;
        for caller in &mut self.0 {
            let status = loop {
                if let Some(status) = caller.try_wait()? {
                    break status;
                }
                if Instant::now() > deadline {
                    return Err("callers still wait: the queue stands still".into());
                }
                sleep(LOOK_AGAIN);
            };
            if !status.success() {
                return Err(format!("a caller failed: {status}").into());
            }
        }
        Records::read(file, commands)
    }
}

impl Drop for Callers {
    fn drop(&mut self) {
        for caller in &mut self.0 {
            // What was waited for is not signalled.
            let _ = caller.kill();
            let _ = caller.wait();
        }
    }
}

/// When commands started and ended, both in order of time.
struct Records {
    starts: Vec<Duration>,
    ends: Vec<Duration>,
}

impl Records {
    fn read(file: &str, commands: usize) -> Result<Self> {
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        for line in fs::read_to_string(file)?.lines() {
            let (event, nanos) = line.split_once(' ').ok_or("not a record")?;
            let at = Duration::from_nanos(nanos.parse()?);
            match event {
                "start" => starts.push(at),
                _ => ends.push(at),
            }
        }
        if starts.len() != commands || ends.len() != commands {
            return Err(format!("{} of {commands} commands ended", ends.len()).into());
        }
        starts.sort();
        ends.sort();
        Ok(Self { starts, ends })
    }

    /// From each end to the start that it made room for. The slots are full when so many have started, and from then on
    /// the first start belongs to the first end, the second to the second.
    fn hand_overs(&self, slots: usize) -> Result<Vec<Duration>> {
        self.starts[slots..]
            .iter()
            .zip(&self.ends)
            .map(|(start, end)| {
                let between = start.checked_sub(*end);
                between.ok_or_else(|| format!("more than {slots} commands ran at once").into())
            })
            .collect()
    }

    fn makespan(&self, slots: usize) -> Result<Duration> {
        self.hand_overs(slots)?;
        self.end_after(self.starts[0])
    }

    /// From this moment to the end of the last command.
    fn end_after(&self, begun: Duration) -> Result<Duration> {
        let last = self.ends.last().ok_or("no command ended")?;
        Ok(last.checked_sub(begun).ok_or("an end before the start")?)
    }
}

/// The clock of the records.
fn now() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_MONOTONIC)?.into())
}

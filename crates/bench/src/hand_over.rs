//! Queues: how soon the next command starts when one has ended, and how long many commands take through a few slots.
//! dblock on both servers; flock, a script that polls, shell loops and `xargs -P` beside it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use mysql::Conn;
use mysql::prelude::Queryable;
use nix::fcntl::{Flock, FlockArg};

use super::Result;
use super::processes::{self, Callers, Records, now, until_server_says};
use super::setup::{ACCOUNT, Server, Setup, Transport};
use super::table::{Row, Table, Unit};
use super::turns::in_turns;

pub const PART: &str = "hand_over";

/// Slots of the semaphores.
pub const SLOTS: [usize; 3] = [1, 4, 64];

/// A command takes as many times this as there are slots, on average: so often one ends.
const MILLIS: usize = 10;

/// Polling is slow, and far off.
const POLLING_ROUNDS: usize = 2;

/// The other question: so many commands of so many milliseconds through so many slots.
const MANY: usize = 200;
const MANY_MILLIS: usize = 50;
const MANY_SLOTS: usize = 8;

/// Most that a hand-over should take of one of `flock`'s, and with the most callers of one with the fewest.
pub const FLOCKS: f64 = 3.0;
pub const GROWTH: f64 = 1.5;

const NAME: &str = "hand-over";

/// How callers wait for their turn.
#[derive(Clone, Copy)]
pub enum Queue<'a> {
    Flock,
    /// `dblock run -m SLOTS --wait forever`.
    Dblock(&'a Server, usize),
    /// `dblock run --durable --wait forever`, on a server with dblock's tables.
    Durable(&'a Server),
    /// A C program that waits in `pg_advisory_lock()`.
    Libpq(&'a Server),
    /// `dblock run` in a loop, as long as the lock is taken.
    Polling(&'a Server),
}

/// The name of a line, which the charts know it by.
pub fn line(who: &str, waiting: usize) -> String {
    format!("end to next start, {waiting} waiting: {who}")
}

/// Who waits in a line of that kind.
pub fn who(row: &Row) -> Option<&str> {
    let rest = row.what.strip_prefix("end to next start, ")?;
    Some(rest.split_once(": ")?.1)
}

/// So many wait in the lines of that kind, in order.
pub fn waiting(table: &Table) -> Vec<usize> {
    let rows = table.rows.iter();
    let rests = rows.filter_map(|row| row.what.strip_prefix("end to next start, "));
    let mut waiting: Vec<usize> = rests
        .filter_map(|rest| rest.split(' ').next()?.parse().ok())
        .collect();
    waiting.sort_unstable();
    waiting.dedup();
    waiting
}

/// The name of the line that compares the most waiters with the fewest.
pub fn growth(who: &str, fewest: usize) -> String {
    format!("the same against {fewest} waiting: {who}")
}

/// dblock's part of that name.
pub fn dblock(server: &str, slots: usize) -> String {
    match slots {
        1 => format!("dblock, {server}"),
        _ => format!("dblock -m {slots}, {server}"),
    }
}

pub fn measure(setup: &Setup, table: &mut Table) -> Result<()> {
    let mut bench = Bench::new(setup);
    let [fewest, _, most] = setup.sizes.waiting.map(|(waiting, _)| waiting);
    for (waiting, rounds) in setup.sizes.waiting {
        let samples = bench.hand_overs(&contenders(setup, waiting), waiting, rounds)?;
        let rows: Vec<Row> = samples
            .into_iter()
            .map(|(name, times)| Row::new(PART, line(&name, waiting), Unit::Seconds, times))
            .collect();
        let flock = rows[0].clone();
        for row in rows {
            if row.what == flock.what {
                table.add(row);
                continue;
            }
            let who = row.what.rsplit(": ").next().unwrap_or_default().to_owned();
            let among_fewest = table.row(&line(&who, fewest)).cloned();
            let is_dblock = who.starts_with("dblock");
            let row = row.against(&flock, "flock");
            if !is_dblock {
                table.add(row);
                continue;
            }
            table.add(row.clone().ratio_at_most(FLOCKS));
            if let Some(few) = among_fewest
                && waiting == most
            {
                let grown = Row {
                    what: growth(&who, fewest),
                    ..row
                };
                let other = format!("{fewest} waiting");
                table.add(grown.against(&few, &other).ratio_at_most(GROWTH));
            }
        }
    }
    for rows in bench.makespans()? {
        table.add_against_first(rows, "shell loops");
    }
    Ok(())
}

fn contenders(setup: &Setup, waiting: usize) -> Vec<(String, Queue<'_>)> {
    let mut contenders = vec![("flock".to_owned(), Queue::Flock)];
    for server in setup.servers() {
        for slots in SLOTS {
            let queue = Queue::Dblock(server, slots);
            contenders.push((dblock(server.name, slots), queue));
        }
    }
    if waiting == setup.sizes.waiting[0].0 {
        let queue = Queue::Polling(&setup.mariadb);
        contenders.push(("a shell loop that tries once a second".to_owned(), queue));
    }
    contenders
}

/// Queues, one after another.
pub struct Bench<'a> {
    setup: &'a Setup,
}

impl<'a> Bench<'a> {
    pub fn new(setup: &'a Setup) -> Self {
        Self { setup }
    }

    /// How soon the next command of each queue starts, while so many wait when the first one ends.
    pub fn hand_overs(
        &mut self,
        contenders: &[(String, Queue)],
        waiting: usize,
        rounds: usize,
    ) -> Result<Vec<(String, Vec<f64>)>> {
        let mut rounds_of_polling = 0;
        let samples = in_turns(contenders.len(), rounds, |at| {
            let (name, queue) = &contenders[at];
            if matches!(queue, Queue::Polling(_)) {
                rounds_of_polling += 1;
                if rounds_of_polling > POLLING_ROUNDS {
                    return Ok(Vec::new());
                }
            }
            let slots = queue.slots();
            // No two end in the same moment because they began in the same one.
            let millis = MILLIS * slots;
            let some = || millis / 2 + fastrand::usize(0..=millis);
            let records = self
                .queued(*queue, waiting + slots, some)
                .map_err(|error| format!("{name}, {waiting} waiting: {error}"))?;
            records.hand_overs(slots)
        })?;
        let names = contenders.iter().map(|(name, _)| name.clone());
        Ok(names
            .zip(samples.iter().map(|times| times.concat()))
            .collect())
    }

    /// How long many commands take: from the first start, and from the first process's launch.
    fn makespans(&mut self) -> Result<[Vec<Row>; 2]> {
        let queue = Queue::Dblock(&self.setup.mariadb, MANY_SLOTS);
        let mut from_start = [
            "8 shell loops",
            "`xargs -P 8`",
            "`dblock -m 8`",
            "`dblock -m 8`, all waiting first",
        ]
        .map(|who| (who, Vec::new()));
        let mut from_launch =
            ["8 shell loops", "`xargs -P 8`", "`dblock -m 8`"].map(|who| (who, Vec::new()));
        for _ in 0..self.setup.sizes.makespans {
            let begun = now()?;
            let file = self.records();
            let job = format!("{}/job {file} {MANY_MILLIS}", self.setup.folder);
            let each = MANY / MANY_SLOTS;
            let shell = format!("i=0; while [ $i -lt {each} ]; do {job}; i=$((i+1)); done");
            let loops = Callers::start(MANY_SLOTS, |_| sh(&shell))?.records(&file, MANY)?;
            from_launch[0].1.push(loops.end_after(begun)?);
            from_start[0].1.push(loops.makespan(MANY_SLOTS)?);

            let begun = now()?;
            let file = self.records();
            let job = format!("{}/job {file} {MANY_MILLIS}", self.setup.folder);
            let shell = format!("seq {MANY} | xargs -P {MANY_SLOTS} -n 1 {job}");
            let xargs = Callers::start(1, |_| sh(&shell))?.records(&file, MANY)?;
            from_launch[1].1.push(xargs.end_after(begun)?);
            from_start[1].1.push(xargs.makespan(MANY_SLOTS)?);

            let begun = now()?;
            let file = self.records();
            let callers = Callers::start(MANY, |_| {
                self.caller(queue, &file, &MANY_MILLIS.to_string())
            })?;
            let records = callers.records(&file, MANY)?;
            from_launch[2].1.push(records.end_after(begun)?);
            from_start[2].1.push(records.makespan(MANY_SLOTS)?);

            // Starting so many processes takes longer than some of the commands do, and their time: here it is over before.
            let records = self.queued(queue, MANY, || MANY_MILLIS)?;
            from_start[3].1.push(records.makespan(MANY_SLOTS)?);
        }
        let rows = |what: &str, lines: &mut [(&str, Vec<f64>)]| {
            lines
                .iter_mut()
                .map(|(who, times)| {
                    let what = format!("{MANY} commands of {MANY_MILLIS} ms, {what}: {who}");
                    Row::new(PART, what, Unit::Seconds, std::mem::take(times))
                })
                .collect()
        };
        Ok([
            rows("first start to last end", &mut from_start),
            rows("launch to last end", &mut from_launch),
        ])
    }

    /// A file for the records of a new round, of all parts, so that a straggler cannot spoil the next.
    fn records(&self) -> String {
        static ROUNDS: AtomicU32 = AtomicU32::new(0);
        let round = ROUNDS.fetch_add(1, Ordering::Relaxed);
        format!("{}/records-{round}", self.setup.folder)
    }

    /// Has so many callers wait, and then lets them go.
    fn queued(
        &mut self,
        queue: Queue,
        callers: usize,
        millis: impl Fn() -> usize,
    ) -> Result<Records> {
        let ((), records) = self.beside(queue, callers, millis, || Ok(()))?;
        Ok(records)
    }

    /// Has so many callers wait, does something beside them, and then lets them go.
    pub fn beside<T>(
        &mut self,
        queue: Queue,
        callers: usize,
        millis: impl Fn() -> usize,
        something: impl FnOnce() -> Result<T>,
    ) -> Result<(T, Records)> {
        let file = self.records();
        let gate = self.close(queue)?;
        let caller = |_| self.caller(queue, &file, &millis().to_string());
        let mut waiting = Callers::start(callers, caller)?;
        let gate = gate.when_all_wait(&mut waiting)?;
        let result = something()?;
        gate.open()?;
        Ok((result, waiting.records(&file, callers)?))
    }

    fn close(&self, queue: Queue) -> Result<Gate> {
        let server = match queue {
            Queue::Libpq(server) => server,
            Queue::Dblock(server, _) if server.is_postgres() => server,
            _ => return Gate::close(queue, self.setup),
        };
        let gate = processes::Gate::close(format!("{}/gate", self.setup.folder))?;
        let file = self.records();
        let holder = Callers::start(1, |_| self.caller(queue, &file, &gate.path))?;
        processes::until("the first caller holds the lock", || {
            Ok(fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n')))
        })?;
        Ok(Gate::Holder {
            gate,
            holder,
            server: server.clone(),
        })
    }

    /// `work`: milliseconds, or the FIFO that ends the command.
    fn caller(&self, queue: Queue, file: &str, work: &str) -> Command {
        let mut caller;
        match queue {
            Queue::Flock => {
                caller = self.setup.other("flock");
                caller.arg(format!("{}/f", self.setup.folder));
            }
            Queue::Dblock(server, slots) => {
                let number = slots.to_string();
                let mut options = vec!["--wait", "forever"];
                // One slot is the default, without the option.
                if slots > 1 {
                    options.extend(["-m", &number]);
                }
                caller = self.setup.dblock(server, Transport::Tcp, NAME, &options);
            }
            Queue::Durable(server) => {
                let options = ["--wait", "forever", "--durable"];
                caller = self.setup.dblock(server, Transport::Tcp, NAME, &options);
            }
            Queue::Libpq(server) => caller = self.setup.libpq(server, "wait"),
            Queue::Polling(server) => {
                // As on many hosts, they do not all look at the same moment.
                let first = fastrand::f64();
                let shell = format!(
                    "pause={first:.3}; until {} run -q --name {NAME} -- \"$@\"; do \
                     [ $? -eq 75 ] || exit; echo refused; sleep $pause; pause=1; done",
                    self.setup.dblock
                );
                caller = self.setup.program("sh", &server.url(ACCOUNT));
                caller.args(["-c", &shell, "sh"]).stdout(Stdio::piped());
            }
        }
        caller.args(self.setup.job(file)).arg(work);
        caller
    }
}

impl Queue<'_> {
    fn slots(self) -> usize {
        match self {
            Queue::Dblock(_, slots) => slots,
            Queue::Flock | Queue::Durable(_) | Queue::Libpq(_) | Queue::Polling(_) => 1,
        }
    }
}

fn sh(script: &str) -> Command {
    let mut sh = Command::new("sh");
    sh.args(["-c", script]).stdin(Stdio::null());
    sh
}

/// Keeps all callers from their turn, so that none runs before the last one waits.
enum Gate {
    Flock(Flock<File>),
    /// A session that has every slot: named locks like any other program's.
    Session(Conn),
    /// The same, but nobody is seen to wait: each caller says so when it was refused.
    Refusing(Conn),
    /// One more caller, whose command runs until the gate goes. On PostgreSQL it notifies the head of the line.
    Holder {
        gate: processes::Gate,
        holder: Callers,
        server: Server,
    },
}

impl Gate {
    fn close(queue: Queue, setup: &Setup) -> Result<Self> {
        match queue {
            Queue::Flock => {
                let file = File::create(format!("{}/f", setup.folder))?;
                let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock);
                Ok(Self::Flock(lock.map_err(|(_, error)| error)?))
            }
            Queue::Dblock(server, slots) => Ok(Self::Session(holder(server, slots)?)),
            // The lock by its name is the queue for the row, which is free.
            Queue::Durable(server) => Ok(Self::Session(holder(server, 1)?)),
            Queue::Polling(server) => Ok(Self::Refusing(holder(server, 1)?)),
            Queue::Libpq(_) => Err("not a lock of MariaDB or MySQL".into()),
        }
    }

    fn when_all_wait(mut self, callers: &mut Callers) -> Result<Self> {
        let all = callers.0.len();
        until_server_says("all callers wait", || Ok(self.waiting(callers)? >= all))?;
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
            Self::Session(conn) => Server::waiting_for_names(conn),
            Self::Holder { server, .. } => server.waiting(),
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
            Self::Holder {
                gate, mut holder, ..
            } => {
                drop(gate);
                holder.wait(0)?;
            }
        }
        Ok(())
    }
}

/// A session that has all slots of the lock, by their names on the server.
fn holder(server: &Server, slots: usize) -> Result<Conn> {
    let mut conn = server.session()?;
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

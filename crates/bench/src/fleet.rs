//! One server and a fleet: what holders and waiters ask of it, thousands of them at once, and many that come in the same
//! second.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::Result;
use super::processes::{Callers, Gate, Memory, Records, until, until_lines};
use super::restart::until_all_wait;
use super::setup::{Server, Setup, Transport};
use super::table::{Row, Table, Unit};

const PART: &str = "fleet";

/// Statements a minute: of a holder at the default TTL, of a waiter, of a semaphore that others wait for.
const OF_A_HOLDER: f64 = 1.0;
const OF_A_WAITER: f64 = 0.0;
const OF_A_SEMAPHORE: f64 = 60.0;

/// The contended semaphore, and the callers that wait for it.
const SLOTS: usize = 4;
const SEMAPHORE_WAITERS: usize = 16;

/// Locks of a thundering start.
const NAMES: usize = 5;
/// The exit code of a skip.
const TAKEN: i32 = 75;

pub fn measure(setup: &Setup, table: &mut Table) -> Result<()> {
    for server in setup.servers() {
        Fleet::new(setup, server)?.measure(table)?;
        semaphore(setup, server, table)?;
    }
    thunder(setup, table)
}

/// Holders of as many locks, and a waiter for each.
struct Fleet<'a> {
    setup: &'a Setup,
    server: &'a Server,
    session: mysql::Conn,
    gate: Gate,
    records: String,
    callers: Callers,
}

impl<'a> Fleet<'a> {
    fn new(setup: &'a Setup, server: &'a Server) -> Result<Self> {
        Ok(Self {
            setup,
            server,
            session: server.session()?,
            gate: Gate::close(format!("{}/gate", setup.folder))?,
            records: format!("{}/fleet-{}", setup.folder, server.name),
            callers: Callers::default(),
        })
    }

    #[allow(clippy::cast_precision_loss, reason = "some thousands")]
    fn measure(mut self, table: &mut Table) -> Result<()> {
        let (server, count) = (self.server, self.setup.sizes.fleet);
        let before = Memory::of(server.pid)?.resident;
        self.hold(0, count)?;
        let name = |what: &str| server.line(what);
        let of_holders = self.statements()? / count as f64;
        let what = name("statements a minute of each of 1000 holders");
        table.add(Row::one(PART, what, Unit::Count, rounded(of_holders)).at_most(OF_A_HOLDER));

        self.wait(0, count)?;
        let of_waiters = (self.statements()? / count as f64 - of_holders).max(0.0);
        let what = name("and of each of 1000 that wait for them, besides");
        table.add(Row::one(PART, what, Unit::Count, rounded(of_waiters)).at_most(OF_A_WAITER));

        let begun = Instant::now();
        self.hold(count, count)?;
        self.wait(count, count)?;
        let what = name("with these 2000 there, until 1000 more hold and 1000 more wait");
        let took = begun.elapsed().as_secs_f64();
        table.add(Row::one(PART, what, Unit::Seconds, took));
        let all = 2 * count;
        let each = (Memory::of(server.pid)?.resident - before) / (2 * all) as f64;
        let what = name("the server's memory for each of 4000 connections");
        table.add(Row::one(PART, what, Unit::Bytes, each));

        let text = fs::read_to_string(&self.records)?;
        if text.lines().count() != all {
            return Err("some that waited have run".into());
        }
        let begun = Instant::now();
        drop(self.gate);
        self.callers.wait(0)?;
        let what = name("until all 2000 that waited have had their turn and ended");
        let took = begun.elapsed().as_secs_f64();
        table.add(Row::one(PART, what, Unit::Seconds, took));
        Records::read(&self.records, 2 * all)?;
        Records::expect_one_at_a_time(&self.records, 2)
    }

    /// Starts holders, and waits until all hold.
    fn hold(&mut self, from: usize, count: usize) -> Result<()> {
        for number in from..from + count {
            let mut dblock =
                self.setup
                    .dblock(self.server, Transport::Tcp, &format!("fleet-{number}"), &[]);
            dblock
                .args(self.setup.job(&self.records))
                .arg(&self.gate.path);
            self.callers.add(dblock)?;
        }
        until_lines("all hold", &self.records, from + count)
    }

    /// Starts waiters, and waits until all wait.
    fn wait(&mut self, from: usize, count: usize) -> Result<()> {
        for number in from..from + count {
            let name = format!("fleet-{number}");
            let options = ["--wait", "forever"];
            let mut dblock = self
                .setup
                .dblock(self.server, Transport::Tcp, &name, &options);
            dblock.args(self.setup.job(&self.records)).arg("0");
            self.callers.add(dblock)?;
        }
        until_all_wait(&mut self.session, from + count)
    }

    fn statements(&mut self) -> Result<f64> {
        statements(self.setup, &mut self.session)
    }
}

/// Statements a minute, all clients' together but for this program's own.
fn statements(setup: &Setup, session: &mut mysql::Conn) -> Result<f64> {
    let (statements, took) = Server::statements_beside(session, || {
        let begun = Instant::now();
        sleep(Duration::from_secs(setup.sizes.counted));
        Ok(begun.elapsed())
    })?;
    Ok(statements * 60.0 / took.as_secs_f64())
}

/// To a hundredth: a renewal that falls just inside or outside of the time is no waiter's.
fn rounded(figure: f64) -> f64 {
    (figure * 100.0).round() / 100.0
}

/// A semaphore that is held and waited for.
#[allow(clippy::cast_precision_loss, reason = "some hundreds")]
fn semaphore(setup: &Setup, server: &Server, table: &mut Table) -> Result<()> {
    let gate = Gate::close(format!("{}/gate", setup.folder))?;
    let records = format!("{}/semaphore-{}", setup.folder, server.name);
    let slots = SLOTS.to_string();
    let callers = SLOTS + SEMAPHORE_WAITERS;
    let running = Callers::start(callers, |_| {
        let options = ["-m", slots.as_str(), "--wait", "forever"];
        let mut dblock = setup.dblock(server, Transport::Tcp, "semaphore", &options);
        dblock.args(setup.job(&records)).arg(&gate.path);
        dblock
    })?;
    let mut session = server.session()?;
    until_all_wait(&mut session, SEMAPHORE_WAITERS)?;
    // The renewals of its holders are counted above.
    let contended = statements(setup, &mut session)? - SLOTS as f64 * OF_A_HOLDER;
    let what = server.line("statements a minute of a contended semaphore");
    // The second that it waits each time begins when the answer to the last is there.
    table.add(Row::one(PART, what, Unit::Count, contended.round()).at_most(OF_A_SEMAPHORE));
    drop(gate);
    let records = running.records(&records, callers)?;
    records.hand_overs(SLOTS)?;
    Ok(())
}

/// Many processes that are let go in the same moment, and do not wait: from then to the end of the last that is refused.
fn thunder(setup: &Setup, table: &mut Table) -> Result<()> {
    let (count, rounds) = setup.sizes.thunder;
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rounds {
        let servers = setup.servers();
        let contenders = [None, Some(servers[0]), Some(servers[1])];
        for (server, times) in contenders.into_iter().zip(&mut times) {
            times.push(thundering_start(setup, server, count)?);
        }
    }
    let rows = ["`flock -n`", "dblock, MariaDB", "dblock, MySQL"]
        .into_iter()
        .zip(times)
        .map(|(who, times)| {
            let what = format!("{count} processes in the same moment, {NAMES} names: {who}");
            Row::new(PART, what, Unit::Seconds, times)
        });
    table.add_against_first(rows.collect(), "flock");
    Ok(())
}

fn thundering_start(setup: &Setup, server: Option<&Server>, count: usize) -> Result<f64> {
    let records = format!("{}/thunder", setup.folder);
    let _ = fs::remove_file(&records);
    let (start, end) = (
        Gate::close(format!("{}/start", setup.folder))?,
        Gate::close(format!("{}/gate", setup.folder))?,
    );
    let mut callers = Callers::start(count, |number| {
        let name = format!("thunder-{}", number % NAMES);
        let wrapper = if let Some(server) = server {
            setup.dblock(server, Transport::Tcp, &name, &["-q"])
        } else {
            let mut flock = setup.other("flock");
            let file = format!("{}/{name}", setup.folder);
            flock.args(["-n", "-E", &TAKEN.to_string(), &file]);
            flock
        };
        // The shell waits at the gate, and becomes the wrapper.
        let mut shell = setup.other("sh");
        shell
            .args(["-c", "read _ <\"$0\"; exec \"$@\"", &start.path])
            .arg(wrapper.get_program())
            .args(wrapper.get_args())
            .args(setup.job(&records))
            .arg(&end.path);
        for (variable, value) in wrapper.get_envs() {
            if let Some(value) = value {
                shell.env(variable, value);
            }
        }
        shell
    })?;
    // They have got to the gate when all have it open.
    until("all are at the gate", || {
        let mut at_gate = 0;
        for caller in &callers.0 {
            let descriptors = fs::read_dir(format!("/proc/{}/fd", caller.id()))?;
            at_gate += usize::from(
                descriptors
                    .flatten()
                    .filter_map(|fd| fs::read_link(fd.path()).ok())
                    .any(|target| target.as_os_str() == start.path.as_str()),
            );
        }
        Ok(at_gate == count)
    })?;
    let begun = Instant::now();
    drop(start);
    until("all but the holders have ended", || {
        Ok(callers.ended()? >= count - NAMES)
    })?;
    let took = begun.elapsed().as_secs_f64();
    // As long as somebody was in doubt, the holders held.
    drop(end);
    let skipped = callers.wait(TAKEN)?;
    Records::read(&records, NAMES)?;
    if skipped != count - NAMES {
        return Err(format!("{skipped} of {count} were refused").into());
    }
    Ok(took)
}

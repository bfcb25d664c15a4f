//! What a holder costs its host while its command runs: memory, with many of them, and processor time.

use std::error::Error;
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fs, io};

use super::Result;
use super::processes::{Callers, Gate, Memory, both, until_lines};
use super::setup::{Server, Setup, Transport};
use super::table::{Row, Table, Unit};

const PART: &str = "holder";

/// The second process of a run.
const KEEPER: &str = "dblock-keeper";

/// Bytes that each process may have resident, and both together for themselves.
const RESIDENT: f64 = 5e6;
const PRIVATE: f64 = 1e6;

/// Renewals in an hour, at the default TTL, and the processor time that they may take.
const RENEWALS_AN_HOUR: f64 = 60.0;
const HOURLY: f64 = 0.060;

/// The shortest TTL of whole seconds with a renewal a second, and holders whose processor time is measured.
const SHORT_TTL: &str = "4s";
const RENEWING: usize = 20;

pub fn measure(setup: &Setup, table: &mut Table) -> Result<()> {
    memory(setup, table)?;
    for server in setup.servers() {
        processor_time(setup, server, table)?;
    }
    Ok(())
}

/// Holders whose commands run until this is dropped.
pub struct Holders {
    callers: Callers,
    gate: Gate,
}

impl Holders {
    pub fn start(setup: &Setup, server: &Server, count: usize, options: &[&str]) -> Result<Self> {
        let gate = Gate::close(format!("{}/gate", setup.folder))?;
        let records = format!("{}/holders", setup.folder);
        let _ = fs::remove_file(&records);
        let callers = Callers::start(count, |number| {
            let name = format!("holder-{number}");
            let mut dblock = setup.dblock(server, Transport::Tcp, &name, options);
            dblock.args(setup.job(&records)).arg(&gate.path);
            dblock
        })?;
        until_lines("all hold their locks", &records, count)?;
        Ok(Self { callers, gate })
    }

    pub fn end(mut self) -> Result<()> {
        drop(self.gate);
        self.callers.wait(0)?;
        Ok(())
    }
}

fn memory(setup: &Setup, table: &mut Table) -> Result<()> {
    let count = setup.sizes.holders;
    let holders = Holders::start(setup, &setup.mariadb, count, &[])?;
    let (mut resident, mut private, mut shares) = ([Vec::new(), Vec::new()], vec![], vec![]);
    for holder in &holders.callers.0 {
        let (mut own, mut share) = (0.0, 0.0);
        for (process, resident) in both(holder.id(), KEEPER)?.into_iter().zip(&mut resident) {
            let memory = match Memory::of(process) {
                Err(error) if is_forbidden(&*error) => {
                    eprintln!("  left out: only root can read a keeper's memory");
                    return holders.end();
                }
                memory => memory?,
            };
            resident.push(memory.resident);
            own += memory.private;
            share += memory.share;
        }
        private.push(own);
        shares.push(share);
    }
    holders.end()?;
    for (process, resident) in ["the supervisor", "the keeper"].into_iter().zip(resident) {
        let what = format!("resident memory of {process}, {count} holders");
        table.add(Row::new(PART, what, Unit::Bytes, resident).at_most(RESIDENT));
    }
    let what = format!("private memory of both, {count} holders");
    table.add(Row::new(PART, what, Unit::Bytes, private).at_most(PRIVATE));
    let what = format!("memory of both, a shared page by its share (PSS), {count} holders");
    table.add(Row::new(PART, what, Unit::Bytes, shares));
    Ok(())
}

fn is_forbidden(error: &(dyn Error + 'static)) -> bool {
    let system = error.downcast_ref::<io::Error>();
    system.is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

#[allow(clippy::cast_precision_loss, reason = "some thousands")]
fn processor_time(setup: &Setup, server: &Server, table: &mut Table) -> Result<()> {
    let ttl = setup.sizes.durable_ttl.unwrap_or(SHORT_TTL);
    let holders = Holders::start(setup, server, RENEWING, &["--ttl", ttl])?;
    let mut session = server.session()?;
    let times = || -> Result<Vec<f64>> {
        let of = |holder: &std::process::Child| -> Result<f64> {
            let [supervisor, keeper] = both(holder.id(), KEEPER)?;
            Ok(on_processor(supervisor)? + on_processor(keeper)?)
        };
        holders.callers.0.iter().map(of).collect()
    };
    let before = times()?;
    let begun = Instant::now();
    let (statements, after) = Server::statements_beside(&mut session, || {
        sleep(Duration::from_secs(setup.sizes.renewals.into()));
        times()
    })?;
    let renewals = statements / RENEWING as f64;
    eprintln!("  {renewals:.1} renewals in {:.1?}", begun.elapsed());
    holders.end()?;
    let hourly = before
        .iter()
        .zip(after)
        .map(|(before, after)| (after - before) / renewals * RENEWALS_AN_HOUR)
        .collect();
    let what = server.line("processor time of a holder in an hour");
    table.add(Row::new(PART, what, Unit::Seconds, hourly).at_most(HOURLY));
    Ok(())
}

/// Seconds.
pub fn on_processor(pid: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat"))?;
    let nanos: f64 = text.split(' ').next().unwrap_or_default().parse()?;
    Ok(nanos / 1e9)
}

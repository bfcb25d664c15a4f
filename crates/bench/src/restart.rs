//! A server that is killed and comes back under durable locks: whether two commands of a lock ran at once, and how soon the next
//! lock is granted.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use mysql::Conn;

use super::Result;
use super::private_server::Private;
use super::processes::{Callers, Gate, Records, until, until_server_says};
use super::setup::{Server, Setup, Transport};
use super::table::{Row, Table, Unit};

/// Locks, each with a holder, and waiters of each. The commands of so many holders end while the server is away, those of the
/// others run on until it has been back for a while.
const LOCKS: usize = 5;
const WAITERS: usize = 4;
const END_MEANWHILE: usize = 3;

/// How long the server is away before it starts again, and how long the others run on.
const AWAY: Duration = Duration::from_secs(2);
const RUN_ON: Duration = Duration::from_secs(3);

/// What a waiter's command takes, in milliseconds.
const MILLIS: &str = "20";

/// Seconds until the next grant.
const GRANT: f64 = 1.0;

pub fn measure(
    setup: &Setup,
    servers: &mut [Private],
    (part, table): (&'static str, &mut Table),
) -> Result<()> {
    let mut samples = vec![(0, Vec::new()); servers.len()];
    for round in 0..setup.sizes.restarts {
        for (private, (overlaps, grants)) in servers.iter_mut().zip(&mut samples) {
            let file = format!("{}/restart-{}-{round}", setup.folder, private.server.name);
            grants.extend(restart(setup, private, &file)?);
            *overlaps += Records::overlaps(&file)?;
        }
    }
    for (private, (overlaps, grants)) in servers.iter().zip(samples) {
        let name = private.server.name;
        let all = setup.sizes.restarts * LOCKS * (WAITERS + 1);
        let what = format!(
            "the server is killed and starts, {LOCKS} hold and {} wait: commands of {all} that overlapped, {name}",
            LOCKS * WAITERS
        );
        #[allow(clippy::cast_precision_loss, reason = "some hundreds")]
        table.add(Row::one(part, what, Unit::Count, overlaps as f64).at_most(0.0));
        let what = format!(
            "and from the server's return to the next start for each lock whose command had ended, {name}"
        );
        table.add(Row::new(part, what, Unit::Seconds, grants).at_most(GRANT));
    }
    Ok(())
}

/// One restart: from the server's return to the next start of each lock whose command ended meanwhile.
fn restart(setup: &Setup, private: &mut Private, records: &str) -> Result<Vec<f64>> {
    let gates = ["meanwhile", "later"].map(|gate| Gate::close(format!("{}/{gate}", setup.folder)));
    let [meanwhile, later] = gates;
    let (meanwhile, later) = (meanwhile?, later?);
    let name = |number: usize| format!("restart-{}", number % LOCKS);
    let server = private.server.clone();
    let mut callers = Callers::start(LOCKS, |number| {
        let mut dblock = setup.dblock(&server, Transport::Tcp, &name(number), &["--durable"]);
        let gate = if number < END_MEANWHILE {
            &meanwhile
        } else {
            &later
        };
        dblock.args(setup.job(records)).arg(&gate.path);
        dblock
    })?;
    until_recorded(records, "start", LOCKS)?;
    for number in 0..LOCKS * WAITERS {
        let options = ["--durable", "--wait", "forever"];
        let mut dblock = setup.dblock(&server, Transport::Tcp, &name(number), &options);
        dblock.args(setup.job(records)).arg(MILLIS);
        callers.add(dblock)?;
    }
    until_all_wait(&mut server.session()?, LOCKS * WAITERS)?;

    private.kill()?;
    drop(meanwhile);
    until_recorded(records, "end", END_MEANWHILE)?;
    sleep(AWAY);
    let (away, returned) = private.start()?;
    sleep(RUN_ON);
    drop(later);
    callers.wait(0)?;
    let of_names = Records::of_names(records)?;
    let all: usize = of_names.values().map(Vec::len).sum();
    if all != 2 * LOCKS * (WAITERS + 1) {
        return Err("not all commands ran".into());
    }
    let mut grants = Vec::new();
    for number in 0..END_MEANWHILE {
        let events = of_names
            .get(&name(number))
            .ok_or("a lock without records")?;
        let next = events.iter().filter(|(_, starts)| *starts).nth(1);
        let (next, _) = next.ok_or("nobody came next")?;
        if *next < away {
            return Err("a start while the server was away".into());
        }
        // On a busy machine others may have their sessions before that client.
        grants.push(next.saturating_sub(returned).as_secs_f64());
    }
    Ok(grants)
}

fn until_recorded(records: &str, event: &str, count: usize) -> Result<()> {
    until("the records of commands", || {
        let text = fs::read_to_string(records).unwrap_or_default();
        let lines = text.lines().filter(|line| line.starts_with(event));
        Ok(lines.count() == count)
    })
}

/// Waits until so many sessions wait for a named lock.
pub fn until_all_wait(session: &mut Conn, count: usize) -> Result<()> {
    until_server_says("all wait", || {
        Ok(Server::waiting_for_names(session)? == count)
    })
}

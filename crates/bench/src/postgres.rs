//! Locks on PostgreSQL: what a run and a hand-over cost beside a C program with libpq, what those that wait and idle holders cost the
//! server, and whether VACUUM and CREATE INDEX CONCURRENTLY go on beside them.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::Result;
use super::hand_over::{Bench, Queue};
use super::holder::{Holders, on_processor};
use super::processes::children;
use super::setup::{ACCOUNT, Printed, Server, Setup, Transport};
use super::table::{Row, Table, Unit};
use super::turns::{Step, times};

pub const PART: &str = "postgres";

/// Most that a run should take of `flock`'s time, and of the C program's.
const FLOCKS: f64 = 3.5;
const LIBPQS: f64 = 0.5;

/// Most that a hand-over should take of one of the C program's.
const HAND_OVERS: f64 = 3.0;

/// Most statements a second, and the largest share of a processor, that all who wait for one lock should take of the server.
const STATEMENTS: f64 = 15.0;
const PROCESSOR: f64 = 0.01;

/// Most statements a second of a hundred idle holders.
const RENEWALS: f64 = 2.0;

/// Rows that VACUUM has to remove; as many others stay.
const DEAD_ROWS: u32 = 10_000;

pub fn measure(setup: &Setup, table: &mut Table) -> Result<()> {
    let none = "no PostgreSQL was started";
    let server = setup.postgres.as_ref().ok_or(none)?;
    let of_many = setup.postgres_of_many.as_ref().ok_or(none)?;
    starts(setup, server, table)?;
    for waiting in setup.sizes.postgres.waiting {
        let dblock = hand_overs(setup, server, waiting, table)?;
        table.add(dblock.ratio_at_most(HAND_OVERS));
    }
    let dblock = hand_overs(setup, of_many, setup.sizes.postgres.waiting_of_many, table)?;
    table.add(dblock);
    waiters(setup, server, table)?;
    holders(setup, server, table)?;
    upkeep(setup, server, table)
}

/// Whole processes, from start to end.
fn starts(setup: &Setup, server: &Server, table: &mut Table) -> Result<()> {
    let mut flock = setup.other("flock");
    flock.args(["-n", &format!("{}/f", setup.folder), "true"]);
    let mut dblock = setup.dblock(server, Transport::Tcp, "x", &[]);
    dblock.arg("true");
    let mut c = setup.libpq(server, "try");
    c.arg("true");
    let mut without_gss = setup.libpq(server, "try");
    without_gss.arg("true").env("PGGSSENCMODE", "disable");
    let mut steps = [flock, c, without_gss, dblock].map(Step::Program);
    let times = times(&mut steps, setup.sizes.runs)?;
    let names = [
        "`flock -n FILE true`",
        "a C program with libpq, `pg_try_advisory_lock()` and `true`",
        "the same with `gssencmode=disable`",
        "`dblock run --name x -- true`",
    ];
    let rows = names
        .into_iter()
        .zip(times)
        .map(|(name, times)| Row::new(PART, name, Unit::Seconds, times))
        .collect::<Vec<_>>();
    let [flock, c, without_gss, dblock] = &rows[..] else {
        return Err("something was not timed".into());
    };
    table.add(flock.clone());
    table.add(c.clone().against(flock, "flock"));
    table.add(without_gss.clone().against(flock, "flock"));
    let against_flock = dblock.clone().against(flock, "flock");
    table.add(against_flock.ratio_at_most(FLOCKS));
    let against = |other: &Row, what: &str| {
        let what = what.to_owned();
        let row = Row {
            what,
            ..dblock.clone()
        };
        row.against(other, "C")
    };
    let row = against(c, "that against the C program");
    table.add(row.ratio_at_most(LIBPQS));
    table.add(against(
        without_gss,
        "and against it with `gssencmode=disable`",
    ));
    Ok(())
}

/// How soon the next command starts, one slot, and so many that wait, in so many rounds. Returns dblock's row.
fn hand_overs(
    setup: &Setup,
    server: &Server,
    (waiting, rounds): (usize, usize),
    table: &mut Table,
) -> Result<Row> {
    let contenders = [
        (
            "a C program in `pg_advisory_lock()`".to_owned(),
            Queue::Libpq(server),
        ),
        ("`dblock run --wait`".to_owned(), Queue::Dblock(server, 1)),
    ];
    let samples = Bench::new(setup).hand_overs(&contenders, waiting, rounds)?;
    let row = |(name, times): (String, Vec<f64>)| {
        let what = format!("one command's end to the next one's start, {waiting} waiting: {name}");
        Row::new(PART, what, Unit::Seconds, times)
    };
    let rows: Vec<Row> = samples.into_iter().map(row).collect();
    let [c, dblock] = &rows[..] else {
        return Err("something was not timed".into());
    };
    table.add(c.clone());
    Ok(dblock.clone().against(c, "C"))
}

/// What those that wait for one lock ask of the server.
fn waiters(setup: &Setup, server: &Server, table: &mut Table) -> Result<()> {
    let (count, seconds) = setup.sizes.postgres.idle;
    server.psql(&["CREATE EXTENSION IF NOT EXISTS pg_stat_statements"])?;
    let idle = Load::of(server, seconds / 2)?;
    let queue = Queue::Dblock(server, 1);
    let load = || Load::of(server, seconds);
    let (load, records) = Bench::new(setup).beside(queue, count, || 0, load)?;
    records.hand_overs(1)?;
    if load.statements <= 0.0 {
        return Err("those that wait were not seen to ask anything".into());
    }
    let what = format!("statements a second of {count} that wait for one lock");
    table.add(Row::one(PART, what, Unit::Count, load.statements).at_most(STATEMENTS));
    let what = "the server's share of a processor without them";
    table.add(Row::one(PART, what, Unit::Share, idle.processor));
    let what = "and with them";
    table.add(Row::one(PART, what, Unit::Share, load.processor).at_most(PROCESSOR));
    Ok(())
}

/// What holders whose commands run, each under a lock of its own, ask of the server.
fn holders(setup: &Setup, server: &Server, table: &mut Table) -> Result<()> {
    let (count, seconds) = setup.sizes.postgres.holders;
    let ttl = setup.sizes.durable_ttl.map(|ttl| ["--ttl", ttl]);
    let holders = Holders::start(setup, server, count, ttl.as_slice().as_flattened())?;
    let load = Load::of(server, seconds)?;
    holders.end()?;
    if load.statements <= 0.0 {
        return Err("no lock was renewed".into());
    }
    let what = format!("statements a second of {count} idle holders");
    table.add(Row::one(PART, what, Unit::Count, load.statements).at_most(RENEWALS));
    let what = format!("the server's share of a processor with {count} idle holders");
    table.add(Row::one(PART, what, Unit::Share, load.processor).at_most(PROCESSOR));
    Ok(())
}

/// What the server does, a second.
struct Load {
    /// Of dblock's role.
    statements: f64,
    /// Of one processor, all processes of the server.
    processor: f64,
}

impl Load {
    fn of(server: &Server, seconds: u64) -> Result<Self> {
        server.psql(&["SELECT pg_stat_statements_reset()"])?;
        let (before, begun) = (processor_times(server)?, Instant::now());
        sleep(Duration::from_secs(seconds));
        let (after, took) = (processor_times(server)?, begun.elapsed());
        let added = |(pid, time): (&u32, &f64)| Some(after.get(pid)? - time);
        let processor: f64 = before.iter().filter_map(added).sum();
        let count = format!(
            "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE userid = '{ACCOUNT}'::regrole"
        );
        let statements: f64 = server.psql(&[&count])?.stdout.trim().parse()?;
        Ok(Self {
            statements: statements / took.as_secs_f64(),
            processor: processor / took.as_secs_f64(),
        })
    }
}

/// Seconds that each process of the server has been on a processor.
fn processor_times(server: &Server) -> Result<BTreeMap<u32, f64>> {
    let pid = server.pid;
    let mut times = BTreeMap::from([(pid, on_processor(pid)?)]);
    for child in children(pid)? {
        // The session of the last statement may just be ending.
        if let Ok(time) = on_processor(child) {
            times.insert(child, time);
        }
    }
    Ok(times)
}

/// What a database's upkeep takes alone, and beside a holder and others that wait.
fn upkeep(setup: &Setup, server: &Server, table: &mut Table) -> Result<()> {
    let (count, rounds) = setup.sizes.postgres.upkeep;
    let mut bench = Bench::new(setup);
    let (mut alone, mut beside) = (Upkeep::default(), Upkeep::default());
    for _ in 0..rounds {
        alone.measure(server)?;
        let (dblock, dblocks) = (Queue::Dblock(server, 1), || beside.measure(server));
        let ((), records) = bench.beside(dblock, count, || 0, dblocks)?;
        records.hand_overs(1)?;
    }
    // What it looks like where the snapshots of others keep the rows: an index would never be finished there.
    let (libpq, vacuum) = (Queue::Libpq(server), || vacuum(server));
    let ((_, kept), _) = bench.beside(libpq, count, || 0, vacuum)?;

    let others = format!("a holder and {count} that wait");
    let mut pair = |what: &str, alone: Vec<f64>, beside: Vec<f64>| {
        let alone = Row::new(PART, format!("{what}, alone"), Unit::Seconds, alone);
        table.add(alone.clone());
        let what = format!("{what}, beside {others}");
        let beside = Row::new(PART, what, Unit::Seconds, beside);
        table.add(beside.against(&alone, "alone"));
    };
    let vacuum = format!("VACUUM (VERBOSE) with {DEAD_ROWS} dead rows");
    pair(&vacuum, alone.vacuum, beside.vacuum);
    pair("CREATE INDEX CONCURRENTLY", alone.index, beside.index);
    let of_all = f64::from(DEAD_ROWS);
    let what = format!("rows that VACUUM removed beside {others}");
    table.add(Row::new(PART, what, Unit::Count, beside.removed).at_least(of_all));
    let what = format!("and beside {count} C programs in `pg_advisory_lock()`");
    table.add(Row::one(PART, what, Unit::Count, kept));
    Ok(())
}

#[derive(Default)]
struct Upkeep {
    vacuum: Vec<f64>,
    removed: Vec<f64>,
    index: Vec<f64>,
}

impl Upkeep {
    fn measure(&mut self, server: &Server) -> Result<()> {
        let (took, removed) = vacuum(server)?;
        self.vacuum.push(took);
        self.removed.push(removed);
        let index = "CREATE INDEX CONCURRENTLY bench_id ON bench (id)";
        let limit = "SET statement_timeout = '30s'";
        let printed = server.psql(&[limit, "\\timing on", index])?;
        self.index.push(seconds(&printed)?);
        Ok(())
    }
}

/// Makes the table with dead rows anew, so that those that wait were there before; seconds, and rows that were removed.
fn vacuum(server: &Server) -> Result<(f64, f64)> {
    let rows = format!("INSERT INTO bench SELECT generate_series(1, 2 * {DEAD_ROWS})");
    let delete = "DELETE FROM bench WHERE id % 2 = 0";
    server.psql(&[
        "DROP TABLE IF EXISTS bench",
        "CREATE TABLE bench (id int)",
        &rows,
        delete,
    ])?;
    let printed = server.psql(&["\\timing on", "VACUUM (VERBOSE) bench"])?;
    Ok((seconds(&printed)?, removed(&printed.stderr)?))
}

/// What psql says that the last statement took.
fn seconds(printed: &Printed) -> Result<f64> {
    let text = printed.stdout.rsplit_once("Time: ").ok_or("no time")?.1;
    let millis: f64 = text.split(' ').next().unwrap_or_default().parse()?;
    Ok(millis / 1000.0)
}

/// From PostgreSQL 15 on: `tuples: 10000 removed, ...`; before: `"bench": found 10000 removable, ...`.
fn removed(verbose: &str) -> Result<f64> {
    let mut words = verbose.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let next = words.peek().and_then(|next| next.parse().ok());
        if let ("tuples:" | "found", Some(removed)) = (word, next) {
            return Ok(removed);
        }
    }
    Err(format!("VACUUM did not say what it removed: {verbose}").into())
}

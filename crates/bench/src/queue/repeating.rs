//! The classic example: many small jobs, each due again and again, that a hundred claimers hand out.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mysql::prelude::Queryable;

use super::PART;
use super::work::Queue;
use crate::Result;
use crate::processes::{Callers, expect_success};
use crate::setup::{Server, Setup};
use crate::table::{Row, Table, Unit};

/// Jobs that are to be handed out a second.
const HANDED_OUT: f64 = 100_000.0;

/// Jobs that `put` puts into a block.
const OF_BLOCK: usize = 1000;

pub fn measure(setup: &Setup, servers: &[Server], table: &mut Table) -> Result<()> {
    for server in servers {
        of_server(setup, server, table)?;
    }
    Ok(())
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "some millions"
)]
fn of_server(setup: &Setup, server: &Server, table: &mut Table) -> Result<()> {
    let sizes = setup.sizes.queue;
    let options = ["--claim", "blocks", "--shards", "16"];
    let queue = Queue::create(setup, server, "repeating", &options)?;
    let every = format!("{}s", sizes.period);
    queue.put(sizes.blocks * OF_BLOCK, &["--every", &every])?;
    let file = format!("{}/handed-out.txt", setup.folder);
    let _ = fs::remove_file(&file);
    let claimers = Callers::start(sizes.claimers, |_| {
        let mut work = queue.dblock("work");
        work.args(["--batch", &OF_BLOCK.to_string(), "--"]);
        work.args([&format!("{}/handed-out", setup.folder), &file]);
        work
    })?;
    // What is late from the time without workers is handed out first.
    let period = sizes.period as f64;
    let (from, next) = await_caught_up(&queue, period)?;
    sleep(Duration::from_secs(sizes.repeating));
    let to = clock()?;
    drop(claimers);
    if next.len() != sizes.blocks {
        return Err(format!("{} blocks, and not {}", next.len(), sizes.blocks).into());
    }
    let mut counts = Counts {
        next,
        period,
        since: vec![0; sizes.blocks * OF_BLOCK],
        twice: 0,
    };
    let bytes = fs::read(&file)?;
    let mut records: Vec<(f64, &[u8])> = Vec::new();
    let mut rest = &bytes[..];
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let head = std::str::from_utf8(&rest[..end])?;
        let (nanos, length) = head.split_once(' ').ok_or("not a record")?;
        let jobs = end + 1..end + 1 + length.parse::<usize>()?;
        records.push((
            nanos.parse::<f64>()? / 1e9,
            rest.get(jobs.clone()).ok_or("a record is cut off")?,
        ));
        rest = &rest[jobs.end..];
    }
    records.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut handed_out = 0;
    for (at, jobs) in records.into_iter().filter(|(at, _)| *at < to) {
        let count = counts.take(at, jobs)?;
        if at >= from {
            handed_out += count;
        }
    }
    let name = |what: &str| {
        let jobs = sizes.blocks * OF_BLOCK;
        format!(
            "{jobs} jobs, each due every {every}, {} claimers: {what}, {}",
            sizes.claimers, server.name
        )
    };
    let rate = handed_out as f64 / (to - from);
    let row = Row::one(PART, name("handed out a second"), Unit::Count, rate.round());
    // Each in its period is all that there is.
    table.add(row.at_least(
        (HANDED_OUT * 0.99).min((sizes.blocks * OF_BLOCK) as f64 / counts.period * 0.99),
    ));
    let row = |what: &str, count: usize| {
        Row::one(PART, name(what), Unit::Count, count as f64).at_most(0.0)
    };
    table.add(row("twice in a period", counts.twice));
    table.add(row("left out in a period", counts.left_out(to)));
    expect_success(&mut queue.dblock("delete"))
}

/// Seconds since 1970.
fn clock() -> Result<f64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64())
}

/// Waits until nothing was late by half a period for a whole one: a run that is later than that could not be told from the next one of its
/// block. Returns when that was so, and when each block was due next.
///
/// # Errors
/// The machine does not hand out what is due.
fn await_caught_up(queue: &Queue, period: f64) -> Result<(f64, Vec<f64>)> {
    let begun = clock()?;
    let deadline = begun + (30.0 * period).max(60.0);
    let mut late_at = begun;
    loop {
        sleep(Duration::from_secs_f64(period / 20.0));
        let next = next_due(queue)?;
        let now = clock()?;
        if next.iter().any(|due| now - due >= period / 2.0) {
            late_at = now;
        }
        if now - late_at >= period {
            return Ok((now, next));
        }
        if now > deadline {
            let jobs = next.len() * OF_BLOCK;
            return Err(format!(
                "{jobs} jobs, each due every {period} s, are more than this machine hands out"
            )
            .into());
        }
    }
}

/// When each block is due next, in the order in which they were put.
fn next_due(queue: &Queue) -> Result<Vec<f64>> {
    let mut session = queue.server.session()?;
    let of = |table: &str| {
        format!(
            "SELECT x.job, CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', x.due_at) AS CHAR) AS micros FROM dblock.dblock_{table} x \
             JOIN dblock.dblock_queues q ON q.id = x.queue WHERE q.name = '{}' AND q.deleted_at IS NULL",
            queue.name
        )
    };
    let all = ["due", "delayed", "running"].map(of).join(" UNION ALL ");
    let rows: Vec<(u64, String)> = session.query(format!("{all} ORDER BY job"))?;
    rows.iter()
        .map(|(_, micros)| Ok(micros.parse::<f64>()? / 1e6))
        .collect()
}

/// How often each job was handed out since a moment.
struct Counts {
    /// When each block was due next at that moment; of one that was late or being worked off, when it was due.
    next: Vec<f64>,
    period: f64,
    /// How often each job was handed out since it was due next.
    since: Vec<u32>,
    /// How often a job was handed out before it was due again.
    twice: usize,
}

impl Counts {
    /// Counts jobs that were handed out; how many these are.
    fn take(&mut self, at: f64, jobs: &[u8]) -> Result<usize> {
        let mut count = 0;
        for line in jobs
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let job = std::str::from_utf8(line)?.parse::<usize>()? - 1;
            count += 1;
            let next = self.next[job / OF_BLOCK];
            // What was handed out earlier is not counted.
            if at >= next {
                let due = next + f64::from(self.since[job]) * self.period;
                self.twice += usize::from(at < due);
                self.since[job] += 1;
            }
        }
        Ok(count)
    }

    /// How many times jobs were not handed out that were due a period before this moment, or earlier.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "some thousands"
    )]
    fn left_out(&self, to: f64) -> usize {
        let of_job = |(job, since): (usize, &u32)| {
            let periods = (to - self.next[job / OF_BLOCK]) / self.period;
            (periods.max(0.0).floor() as usize).saturating_sub(*since as usize)
        };
        self.since.iter().enumerate().map(of_job).sum()
    }
}

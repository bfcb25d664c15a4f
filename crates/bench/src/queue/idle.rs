//! Workers that have nothing to do: how soon one has started a command for what is put, and what they ask of the server.

use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use super::PART;
use super::work::{Putter, Queue};
use crate::Result;
use crate::processes::{Callers, Records, now, until};
use crate::setup::{Server, Setup};
use crate::table::{Row, Table, Unit};

/// From the answer of a put to the start of the command.
const MEDIAN: f64 = 0.004;
const SLOWEST: f64 = 0.012;

/// Statements a second of so many workers.
const STATEMENTS: f64 = 10.0;
const WORKERS: usize = 10;

/// Until workers that were started wait for jobs.
const SETTLED: Duration = Duration::from_secs(3);

pub fn measure(setup: &Setup, servers: &[Server], table: &mut Table) -> Result<()> {
    for server in servers {
        let queue = Queue::create(setup, server, "idle", &[])?;
        pick_up(&queue, table)?;
        statements(&queue, table)?;
    }
    Ok(())
}

fn pick_up(queue: &Queue, table: &mut Table) -> Result<()> {
    let setup = queue.setup;
    let file = format!("{}/picked-up", setup.folder);
    let _ = fs::remove_file(&file);
    let jobs = setup.sizes.queue.picked_up;
    let mut work = queue.dblock("work");
    work.arg("--").args(setup.job(&file)).arg("0");
    let _workers = Callers::start(1, |_| std::mem::replace(&mut work, setup.other("true")))?;
    let mut putter = Putter::start(queue)?;
    let (mut whole, mut after) = (Vec::new(), Vec::new());
    for number in 1..=jobs {
        // So that the worker is idle, and puts come at no pace.
        sleep(Duration::from_millis(fastrand::u64(50..150)));
        let begun = now()?;
        putter.put("x")?;
        let put = now()?;
        let is_over = |text: String| text.lines().count() >= 2 * number;
        until("the command", || {
            Ok(fs::read_to_string(&file).is_ok_and(is_over))
        })?;
        let start = *Records::read(&file, number)?
            .starts
            .last()
            .ok_or("no start")?;
        whole.push(start.saturating_sub(begun).as_secs_f64());
        after.push(start.saturating_sub(put).as_secs_f64());
    }
    putter.end()?;
    let row = |what: &str, times| Row::new(PART, queue.server.line(what), Unit::Seconds, times);
    let what = "idle worker: from a put's answer to the command's start";
    let line = row(what, after);
    let slowest = line.quantile(0.95);
    table.add(line.at_most(MEDIAN));
    let what = format!("{what}, the slowest of 20");
    table.add(row(&what, vec![slowest]).at_most(SLOWEST));
    let what = "idle worker: from a line for `put` to the command's start";
    table.add(row(what, whole));
    Ok(())
}

fn statements(queue: &Queue, table: &mut Table) -> Result<()> {
    let seconds = Duration::from_secs(queue.setup.sizes.counted);
    let _workers = Callers::start(WORKERS, |_| {
        let mut work = queue.dblock("work");
        work.args(["--", "true"]).stderr(Stdio::inherit());
        work
    })?;
    sleep(SETTLED);
    let mut session = queue.server.session()?;
    let (statements, ()) = Server::statements_beside(&mut session, || {
        sleep(seconds);
        Ok(())
    })?;
    let what = format!("statements a second of {WORKERS} idle workers");
    let (what, rate) = (queue.server.line(&what), statements / seconds.as_secs_f64());
    table.add(Row::one(PART, what, Unit::Count, rate).at_most(STATEMENTS));
    Ok(())
}

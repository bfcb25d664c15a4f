//! A command for each job, beside what starts commands without a queue.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::PART;
use super::work::Queue;
use crate::Result;
use crate::processes::expect_success;
use crate::setup::{Server, Setup};
use crate::table::{Row, Table, Unit};

/// Seconds for each job, and against xargs.
const JOB: f64 = 0.003;
const XARGS: f64 = 1.5;

pub fn measure(setup: &Setup, servers: &[Server], table: &mut Table) -> Result<()> {
    let sizes = setup.sizes.queue;
    let jobs = sizes.commands;
    let numbers = format!("{}/commands", setup.folder);
    let text: Vec<_> = (1..=jobs).map(|number| format!("{number}\n")).collect();
    std::fs::write(&numbers, text.concat())?;
    let queues: Vec<Queue> = servers
        .iter()
        .map(|server| Queue::create(setup, server, "commands", &[]))
        .collect::<Result<_>>()?;
    let mut times = vec![Vec::new(); queues.len() + 2];
    for _ in 0..sizes.rounds {
        let (of_queues, of_others) = times.split_at_mut(queues.len());
        for (queue, times) in queues.iter().zip(of_queues) {
            queue.put(jobs, &[])?;
            let mut work = queue.dblock("work");
            work.args(["-j", "4", "--drain", "--", "true"]);
            times.push(each(&mut work, jobs)?);
        }
        let mut xargs = setup.other("xargs");
        xargs.args(["-P4", "-n1", "true"]);
        let mut parallel = setup.other("parallel");
        parallel.args(["--will-cite", "-j4", "true"]);
        for (mut other, times) in [xargs, parallel].into_iter().zip(of_others) {
            other.stdin(std::fs::File::open(&numbers)?);
            times.push(each(&mut other, jobs)?);
        }
    }
    let rows: Vec<Row> = queues
        .iter()
        .map(|queue| {
            let what = "a command for each job, `work -j 4 -- true`";
            queue.server.line(what)
        })
        .chain(
            ["`xargs -P4 -n1 true`", "`parallel -j4 true`"]
                .map(|what| format!("a command for each job, {what}")),
        )
        .zip(times)
        .map(|(what, times)| Row::new(PART, what, Unit::Seconds, times))
        .collect();
    let xargs = rows[queues.len()].clone();
    for (at, row) in rows.into_iter().enumerate() {
        if at < queues.len() {
            table.add(row.clone().at_most(JOB));
            let mut again = row.against(&xargs, "xargs");
            again.what = format!("{}: and again", again.what);
            table.add(again.ratio_at_most(XARGS));
        } else {
            table.add(row);
        }
    }
    Ok(())
}

/// Seconds for each of so many jobs.
fn each(program: &mut Command, jobs: usize) -> Result<f64> {
    let begun = Instant::now();
    expect_success(program.stdout(Stdio::null()))?;
    let took: Duration = begun.elapsed();
    Ok(took.as_secs_f64() / f64::from(u32::try_from(jobs)?))
}

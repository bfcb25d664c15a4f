//! Whether a claim takes longer the more jobs are due.

use super::PART;
use super::work::{Queue, Until};
use crate::Result;
use crate::setup::{Server, Setup};
use crate::table::{Row, Table, Unit};

/// With more jobs claims are to be as many but for this part.
const SLOWER: f64 = 0.2;

/// Workers, and jobs of each batch: small, so that it is claims that count.
const WORKERS: usize = 8;
const BATCH: &str = "20";

pub fn measure(setup: &Setup, servers: &[Server], table: &mut Table) -> Result<()> {
    let sizes = setup.sizes.queue;
    for server in servers {
        let mut fewest: Option<Row> = None;
        let mut queues = Vec::new();
        for (name, jobs) in ["few", "many", "most"].into_iter().zip(&sizes.growth) {
            if *jobs == 0 {
                continue;
            }
            let queue = Queue::create(setup, server, name, &["--shards", "16"])?;
            queue.fill_to(*jobs)?;
            queues.push((queue, *jobs, Vec::new()));
        }
        for _ in 0..sizes.growth_rounds {
            for (queue, jobs, rates) in &mut queues {
                queue.fill_to(*jobs)?;
                let done =
                    queue.work(WORKERS, &["--batch", BATCH], Until::Jobs(sizes.growth_jobs))?;
                rates.push(done.a_second());
            }
        }
        for (_, jobs, rates) in queues {
            let what = format!(
                "jobs a second, claimed by {BATCH} and completed, {jobs} due, {}",
                server.name
            );
            let row = Row::new(PART, what, Unit::Count, rates);
            match &fewest {
                None => {
                    table.add(row.clone());
                    fewest = Some(row);
                }
                Some(fewest) => {
                    table.add(
                        row.against(fewest, "the fewest")
                            .ratio_at_least(1.0 - SLOWER),
                    );
                }
            }
        }
    }
    Ok(())
}

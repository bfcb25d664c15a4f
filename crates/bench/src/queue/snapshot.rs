//! Whether claims take longer beside a long snapshot, such as a backup's: what was deleted stays in the way as long as it may be read.

use mysql::Conn;
use mysql::prelude::Queryable;

use super::PART;
use super::work::{Queue, Until};
use crate::Result;
use crate::processes::expect_success;
use crate::setup::{Server, Setup};
use crate::table::{Row, Table, Unit};

/// Workers, and jobs of each batch: few, so that it is claims that count; and more for what is worked off before.
const WORKERS: usize = 8;
const BATCH: &str = "20";
const BATCH_BEFORE: &str = "200";

pub fn measure(setup: &Setup, servers: &[Server], table: &mut Table) -> Result<()> {
    let sizes = setup.sizes.queue;
    let before = sizes.past;
    for server in servers {
        let (mut without, mut beside) = (Vec::new(), Vec::new());
        for _ in 0..sizes.rounds {
            without.push(rate(setup, server, None)?);
            beside.push(rate(setup, server, Some(server.session()?))?);
        }
        let name = server.name;
        let row = |how: &str, rates| {
            let what = format!(
                "jobs a second, claimed by {BATCH} and completed, after {before} others{how}, {name}"
            );
            Row::new(PART, what, Unit::Count, rates)
        };
        let without = row("", without);
        table.add(without.clone());
        table.add(row(" beside a snapshot from before these", beside).against(&without, "without"));
    }
    Ok(())
}

/// Jobs a second of a queue of its own, of which many jobs were worked off since the session, if there is one, took its snapshot.
fn rate(setup: &Setup, server: &Server, session: Option<Conn>) -> Result<f64> {
    let sizes = setup.sizes.queue;
    let queue = Queue::create(setup, server, "snapshot", &["--shards", "16"])?;
    // Twice as many: the workers that are stopped have claimed more than they have started.
    queue.fill_to(2 * (sizes.past + sizes.growth_jobs))?;
    let mut snapshot = session;
    if let Some(session) = &mut snapshot {
        session.query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
    }
    let batch = ["--batch", BATCH_BEFORE];
    queue.work(WORKERS, &batch, Until::Jobs(sizes.past))?;
    let batch = ["--batch", BATCH];
    let done = queue.work(WORKERS, &batch, Until::Jobs(sizes.growth_jobs))?;
    if let Some(session) = &mut snapshot {
        // It is an error where the server has ended the session, and with it the snapshot.
        session.query_drop("COMMIT")?;
    }
    expect_success(&mut queue.dblock("delete"))?;
    Ok(done.a_second())
}

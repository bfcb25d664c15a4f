//! The queue, on servers that put each commit on the disk: how many jobs go in and out, beside other queues; what a command for each
//! job costs, beside `xargs`; and what an idle worker asks of the server.
//!
//! What a line counts is claimed, worked off and deleted. Contenders take turns, each on a queue that is filled up before its turn.

mod commands;
mod floor;
mod growth;
mod idle;
mod peers;
mod repeating;
mod snapshot;
mod throughput;
pub mod work;

use super::Result;
use super::private_server::Private;
use super::setup::Setup;
use super::table::Table;

pub const PART: &str = "queue";

pub fn measure(setup: &Setup, table: &mut Table) -> Result<()> {
    let servers = Private::with_room_for(setup.sizes.queue.jobs, setup)?;
    let all = servers.each_ref().map(|private| private.server.clone());
    // What is quick first, before the tables are large.
    idle::measure(setup, &all, table)?;
    commands::measure(setup, &all, table)?;
    throughput::measure(setup, &all, table)?;
    growth::measure(setup, &all, table)?;
    snapshot::measure(setup, &all, table)?;
    repeating::measure(setup, &all, table)
}

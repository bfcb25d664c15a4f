//! `dblock queue`: one file a subcommand of it.

mod put;
mod records;
mod work;

use crate::base::exit::{Ending, Failure, Reason};
use crate::settings::cli::{CommandLine, Queue};

/// Does what is asked for, and returns how dblock is to end.
///
/// # Errors
/// What kept it from that.
pub fn queue(action: Queue, command_line: CommandLine) -> anyhow::Result<Ending> {
    match action {
        Queue::Put => put::put(command_line),
        Queue::Work => work::work(command_line),
        _ => Err(Failure::new(Reason::Internal, "yet to come").into()),
    }
}

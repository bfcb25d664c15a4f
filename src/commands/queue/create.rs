//! `dblock queue create`: creates a queue.

use super::question;
use crate::base::exit::{Ending, Failure, Reason};
use crate::commands::output::print_done;
use crate::queue::{Created, For, being_deleted, create as create_queue};
use crate::settings;
use crate::settings::cli::CommandLine;

/// Creates the queue, and returns dblock's exit.
///
/// # Errors
/// Why it failed, or that the queue exists with other properties.
pub fn create(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (create, common) = settings::queue::create(command_line)?;
    let (name, properties, log) = (&create.queue, &create.properties, common.log);
    let created = question("dblock queue create", For::Writing, &common).ask_one(|asker| {
        asker.again(|tables, session| create_queue(name, properties, tables, session))
    })?;
    let wrong = |line| Err(Failure::new(Reason::Configuration, line).into());
    match created {
        Created::New => print_done(log, format_args!("created the queue {name}")),
        Created::Same => print_done(log, format_args!("the queue {name} is there already")),
        Created::Different(how) => {
            return wrong(format!("the queue {name} is there already, but with {how}"));
        }
        Created::Deleting => {
            return Err(being_deleted(name).into());
        }
    }
    Ok(Ending::Code(0))
}

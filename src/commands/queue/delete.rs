//! `dblock queue delete`: deletes a queue with all of its jobs.

use super::{jobs, long_question};
use crate::base::exit::{Ending, Failure, Reason};
use crate::commands::output::print_done;
use crate::db::Fault;
use crate::queue::{For, delete as delete_queue};
use crate::settings;
use crate::settings::cli::CommandLine;

/// Deletes the queue, and returns dblock's exit.
///
/// # Errors
/// Why it failed.
pub fn delete(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (name, common) = settings::queue::of_queue(command_line)?;
    let question = long_question("dblock queue delete", For::Writing, &common);
    let deleted = question.ask_one(|asker| {
        // A failed try may have deleted a part, or everything.
        let mut deleted: Option<u64> = None;
        asker.again(|tables, session| {
            delete_queue(&name, tables, session, |jobs| {
                deleted = Some(deleted.unwrap_or_default() + jobs);
            })
        })?;
        deleted.ok_or_else(|| {
            let line = format!("there is no queue {name} in the {}", asker.tables.place());
            Fault::Final(Failure::new(Reason::Configuration, line))
        })
    })?;
    let line = format!("deleted the queue {name} with {}", jobs(deleted));
    print_done(common.log, line);
    Ok(Ending::Code(0))
}

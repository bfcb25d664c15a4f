//! `dblock queue delete`: deletes a queue with all of its jobs.

use super::{Question, again, jobs};
use crate::base::exit::Ending;
use crate::commands::print_done;
use crate::db::Fault;
use crate::queue::{For, delete as delete_queue, no_such_queue};
use crate::settings;
use crate::settings::cli::CommandLine;

/// Deletes the queue, and returns dblock's exit.
///
/// # Errors
/// Why it failed.
pub fn delete(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (of_queue, log) = settings::queue::of_queue(command_line)?;
    let name = &of_queue.queue;
    let question = Question {
        names: ("dblock queue delete", c"dblock-delete"),
        what_for: For::Writing,
        connection: &of_queue.connection,
        is_long: true,
        log,
    };
    let mut deleted = 0;
    question.ask(
        |asker, tables| {
            // A failed try may have deleted a part, or everything.
            let mut deleted: Option<u64> = None;
            again(&mut asker.inspector.session, |session| {
                delete_queue(name, tables, session, |jobs| {
                    deleted = Some(deleted.unwrap_or_default() + jobs);
                })
            })?;
            asker.report(deleted.unwrap_or_default());
            if deleted.is_some() {
                Ok(())
            } else {
                Err(Fault::Final(no_such_queue(name)))
            }
        },
        |jobs: u64| deleted += jobs,
    )?;
    print_done(
        log,
        format_args!("deleted the queue {name} with {}", jobs(deleted)),
    );
    Ok(Ending::Code(0))
}

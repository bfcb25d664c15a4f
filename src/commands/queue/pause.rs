//! `dblock queue pause` and `resume`: workers claim no more jobs, or claim again.

use super::{missing, question};
use crate::base::exit::Ending;
use crate::commands::output::print_done;
use crate::queue::{For, pause as pause_queue};
use crate::settings;
use crate::settings::cli::CommandLine;

/// Pauses the queue, and returns dblock's exit.
///
/// # Errors
/// Why it failed.
pub fn pause(command_line: CommandLine) -> anyhow::Result<Ending> {
    set(command_line, true, "dblock queue pause", "paused")
}

/// Resumes the queue, and returns dblock's exit.
///
/// # Errors
/// Why it failed.
pub fn resume(command_line: CommandLine) -> anyhow::Result<Ending> {
    set(command_line, false, "dblock queue resume", "resumed")
}

fn set(
    command_line: CommandLine,
    pauses: bool,
    command: &'static str,
    done: &str,
) -> anyhow::Result<Ending> {
    let (name, common) = settings::queue::of_queue(command_line)?;
    question(command, For::Writing, &common).ask_one(|asker| {
        let set = |tables: &_, session: &mut _| pause_queue(&name, pauses, tables, session);
        if asker.act(set)? {
            Ok(())
        } else {
            Err(missing(&name, asker))
        }
    })?;
    print_done(common.log, format_args!("{done} the queue {name}"));
    Ok(Ending::Code(0))
}

//! `dblock queue pause` and `resume`: workers claim no more jobs, or claim again.

use std::ffi::CStr;

use super::{Question, again};
use crate::base::exit::Ending;
use crate::commands::print_done;
use crate::db::Fault;
use crate::queue::{For, missing_queue, pause as pause_queue};
use crate::settings;
use crate::settings::cli::CommandLine;

/// Pauses the queue, and returns dblock's exit.
///
/// # Errors
/// Why it failed.
pub fn pause(command_line: CommandLine) -> anyhow::Result<Ending> {
    set(command_line, true, ("dblock queue pause", c"dblock-pause"))
}

/// Resumes the queue, and returns dblock's exit.
///
/// # Errors
/// Why it failed.
pub fn resume(command_line: CommandLine) -> anyhow::Result<Ending> {
    set(
        command_line,
        false,
        ("dblock queue resume", c"dblock-resume"),
    )
}

fn set(
    command_line: CommandLine,
    pauses: bool,
    names: (&'static str, &'static CStr),
) -> anyhow::Result<Ending> {
    let (of_queue, log) = settings::queue::of_queue(command_line)?;
    let name = &of_queue.queue;
    let question = Question {
        names,
        what_for: For::Writing,
        connection: &of_queue.connection,
        is_long: false,
        log,
    };
    question.ask::<()>(
        |asker, tables| {
            let is_there = again(&mut asker.inspector.session, |session| {
                pause_queue(name, pauses, tables, session)
            })?;
            if is_there {
                Ok(())
            } else {
                let session = &mut asker.inspector.session;
                Err(Fault::Final(missing_queue(name, tables, session)?))
            }
        },
        |()| {},
    )?;
    let done = if pauses { "paused" } else { "resumed" };
    print_done(log, format_args!("{done} the queue {name}"));
    Ok(Ending::Code(0))
}

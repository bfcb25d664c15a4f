//! `dblock queue`: one file for each subcommand, and what those share that ask a server.

mod cancel;
mod create;
mod delete;
mod list;
mod pause;
mod put;
mod records;
mod retry;
mod show;
mod status;
mod work;

pub use status::{OfQueue, add, rate};

use std::cell::RefCell;

use super::question::{Asker, Question};
use crate::base::exit::{CONFLICT, Ending, Reason};
use crate::base::text::counted;
use crate::db::Fault;
use crate::queue::{For, Queue as FoundQueue, find_queue, missing_queue, reach};
use crate::settings::Common;
use crate::settings::cli::{CommandLine, Queue};

/// Runs the subcommand, and returns dblock's exit.
///
/// # Errors
/// Why it failed.
pub fn queue(action: Queue, command_line: CommandLine) -> anyhow::Result<Ending> {
    match action {
        Queue::Create => create::create(command_line),
        Queue::Put => put::put(command_line),
        Queue::Work => work::work(command_line),
        Queue::Status => status::status(command_line),
        Queue::List => list::list(command_line),
        Queue::Show => show::show(command_line),
        Queue::Retry => retry::retry(command_line),
        Queue::Cancel => cancel::cancel(command_line),
        Queue::Pause => pause::pause(command_line),
        Queue::Resume => pause::resume(command_line),
        Queue::Delete => delete::delete(command_line),
    }
}

/// A question to a server with the queues' tables.
fn question<'a>(command: &'static str, what_for: For, common: &'a Common) -> Question<'a> {
    Question::of_tables(command, common, move |connector, tables, reaching| {
        reach(connector, tables, what_for, reaching.on_read_only)
    })
}

/// As [`question`], about any number of jobs, which has no time limit.
fn long_question<'a>(command: &'static str, what_for: For, common: &'a Common) -> Question<'a> {
    Question {
        whole: None,
        ..question(command, what_for, common)
    }
}

/// The queue of this name.
fn find<T>(name: &str, asker: &mut Asker<T>) -> Result<FoundQueue, Fault> {
    let (tables, session) = (&asker.tables, &mut asker.inspector.session);
    match session.run(&find_queue(tables, name))? {
        Some(found) => Ok(found),
        None => Err(missing(name, asker)),
    }
}

/// Why there is no queue of this name.
fn missing<T>(name: &str, asker: &mut Asker<T>) -> Fault {
    let missing = missing_queue(name, &asker.tables, &mut asker.inspector.session);
    missing.map_or_else(|fault| fault, Fault::Final)
}

/// The exit code for several jobs of which some could not be changed: the greatest code counts.
struct Worst(RefCell<u8>);

impl Worst {
    fn new() -> Self {
        Self(RefCell::new(0))
    }

    /// A job is running: try again later.
    fn later(&self) {
        self.0.replace_with(|code| CONFLICT.max(*code));
    }

    /// A job does not exist.
    fn missing(&self) {
        self.0
            .replace_with(|code| Reason::Configuration.code().max(*code));
    }

    fn ending(self) -> Ending {
        Ending::Code(self.0.into_inner())
    }
}

fn jobs(number: u64) -> String {
    counted(number, "job")
}

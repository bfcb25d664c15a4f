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

use super::question::{Asker, Question};
use crate::base::exit::{CONFLICT, Ending, Failure, Reason};
use crate::base::log::Log;
use crate::base::text::counted;
use crate::db::{Fault, Session};
use crate::queue::{Changed, For, JobState, Queue as FoundQueue, find_queue, missing_queue, reach};
use crate::schema::Tables;
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

/// Changes these jobs of a queue, one after the other, and says which are left alone. `on_change` takes notice of the others; `false`: it
/// does not know of such a change. Returns the exit code: the greatest counts.
fn change_each(
    question: &Question,
    (name, ids): (&str, &[u64]),
    change: fn(u64, &FoundQueue, &Tables, &mut Session) -> Result<Changed, Fault>,
    log: Log,
    mut on_change: impl FnMut(u64, Changed) -> bool,
) -> Result<Ending, Failure> {
    let mut worst = 0;
    question.ask(
        |asker| {
            let queue = find(name, asker)?;
            for &id in ids {
                let changed = asker.act(|tables, session| change(id, &queue, tables, session))?;
                asker.answers.send((id, changed));
            }
            Ok(())
        },
        |(id, changed): (u64, Changed)| {
            if on_change(id, changed) {
                return;
            }
            if changed == Changed::Not(JobState::Running) {
                log.warning(format_args!(
                    "job {id} of {name} is running; it is left alone"
                ));
                worst = worst.max(CONFLICT);
                return;
            }
            match changed {
                Changed::Not(state) => {
                    log.error(format_args!("job {id} of {name} is {}", state.word()));
                }
                _ => log.error(format_args!("{name} has no job {id}")),
            }
            worst = worst.max(Reason::Configuration.code());
        },
    )?;
    Ok(Ending::Code(worst))
}

fn jobs(number: u64) -> String {
    counted(number, "job")
}

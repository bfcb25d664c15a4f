//! `dblock queue`: one file for each subcommand, and the shared part of those that ask a server and print its answer.

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

use std::cell::RefCell;
use std::ffi::CStr;
use std::thread::sleep;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::inquiry::{Asker, ask_server_reached_by};
use crate::base::exit::{CONFLICT, Ending, Failure, Reason};
use crate::base::log::{Level, Log};
use crate::base::text::counted;
use crate::db::{ConnectOptions, Fault, Session};
use crate::isolated::query::{self, Limits};
use crate::queue::{FindQueue, For, Queue as Found, missing_queue, reach};
use crate::schema::Tables;
use crate::settings::cli::{CommandLine, Queue};

/// Limit for a short command, as a multiple of the connect timeout.
const WHOLE: u32 = 3;

/// Pause before another try after a conflict with another transaction.
const PAUSE: Duration = Duration::from_millis(20);

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

/// A command that asks a server.
struct Question<'a> {
    /// The names of the command and of its process, the latter with at most 15 bytes.
    names: (&'static str, &'static CStr),
    what_for: For,
    connection: &'a ConnectOptions,
    /// Whether there is no time limit.
    is_long: bool,
    log: Log,
}

impl Question<'_> {
    /// Asks the server, and passes each item to `on_item`. Returns the server's name.
    fn ask<T: Serialize + DeserializeOwned>(
        &self,
        work: impl FnOnce(&mut Asker, &Tables) -> Result<(), Fault>,
        on_item: impl FnMut(T),
    ) -> Result<String, Failure> {
        let connect = self.connection.connect_timeout;
        let tables = Tables::new(&self.connection.database);
        query::ask(
            self.names.0,
            |link, parent| {
                ask_server_reached_by::<T>(
                    self.names,
                    self.connection,
                    self.log.shown,
                    (link, parent),
                    |connector, _| reach(connector, &tables, self.what_for).map(Into::into),
                    |asker| {
                        let done = work(asker, &tables);
                        done.map_err(|fault| explain(fault, &tables, &asker.inspector.session))
                    },
                )
            },
            Limits {
                connect,
                whole: (!self.is_long).then(|| connect.saturating_mul(WHOLE)),
            },
            self.log,
            on_item,
            |_| "what was found last".to_owned(),
        )
    }
}

fn explain(fault: Fault, tables: &Tables, session: &Session) -> Fault {
    match tables.explain(fault) {
        Fault::ReadOnly(cause) => {
            let line = format!("{session} {cause}; name the server that takes writes");
            Fault::Final(Failure::new(Reason::Configuration, line))
        }
        fault => fault,
    }
}

/// Runs `work`, which must be repeatable, until no other transaction is in conflict.
fn again<T>(
    session: &mut Session,
    mut work: impl FnMut(&mut Session) -> Result<T, Fault>,
) -> Result<T, Fault> {
    loop {
        match work(session) {
            Err(fault @ (Fault::Conflict(_) | Fault::Interrupted(_))) => {
                session.tell(Level::Info, &format!("{fault}; trying again"));
                sleep(PAUSE);
            }
            done => return done,
        }
    }
}

/// The queue of this name.
fn find(name: &str, tables: &Tables, session: &mut Session) -> Result<Found, Fault> {
    match session.run(&FindQueue { tables, name })? {
        Some(found) => Ok(found),
        None => Err(Fault::Final(missing_queue(name, tables, session)?)),
    }
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

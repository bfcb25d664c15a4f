//! `dblock queue`: one file a subcommand of it, and what those share that ask a server and print its answer.

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

/// All of a command that asks little takes at most so many connect time-outs.
const WHOLE: u32 = 3;

/// From one try to the next after another transaction was in the way.
const PAUSE: Duration = Duration::from_millis(20);

/// Does what is asked for, and returns how dblock is to end.
///
/// # Errors
/// What kept it from that.
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
    /// Its name, and that of the process that asks, of at most 15 bytes.
    names: (&'static str, &'static CStr),
    what_for: For,
    connection: &'a ConnectOptions,
    /// Whether it may take as long as it takes.
    is_long: bool,
    log: Log,
}

impl Question<'_> {
    /// Asks; each item goes to `on_item`. The server's name.
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

/// Does something that may be done again, however often another transaction is in the way.
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

/// The exit code of several things of which some could not be done: the greatest.
struct Worst(RefCell<u8>);

impl Worst {
    fn new() -> Self {
        Self(RefCell::new(0))
    }

    /// Something is running: later.
    fn later(&self) {
        self.0.replace_with(|code| CONFLICT.max(*code));
    }

    /// Something is not there.
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

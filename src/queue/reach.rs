//! Reaches a server with the queues' tables.

use super::queues::ask_is_deleting;
use crate::base::exit::{Failure, Reason};
use crate::base::text::argument_for_shell;
use crate::db::server_facts::{is_read_only, why_read_only};
use crate::db::{Connector, Fault, Session, command};
use crate::schema::{self, Tables};

/// What the session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum For {
    /// Reading: a replica will do.
    Reading,
    /// Writing.
    Writing,
}

/// Prepares a session for the queues: the right server, with tables that this dblock can use.
///
/// # Errors
/// [`Fault::ReadOnly`] if the server takes no writes, they are needed, and there are other servers to try; [`Fault::Untrusted`] if it has
/// no usable tables; any other fault of a statement.
pub fn open(
    session: &mut Session,
    tables: &Tables,
    what_for: For,
    servers: usize,
) -> Result<(), Fault> {
    schema::prepare_for_transactions(session)?;
    tables.check_queues(session).map_err(Fault::of_tables)?;
    if what_for == For::Writing {
        // See rows that were moved meanwhile, and lock no gaps.
        session.run(&command(
            "queue isolate",
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        ))?;
    }
    // A single server reports this when it is written to.
    if what_for == For::Writing && servers > 1 && is_read_only(session)? {
        return Err(Fault::ReadOnly(why_read_only(session).to_owned()));
    }
    Ok(())
}

/// Reaches a server, however long that takes. `on_read_only` is told of each round without one: the line about a server if all are
/// read-only, and otherwise `None`.
///
/// # Errors
/// A failure that another attempt would not solve; or no server has the tables.
pub fn reach(
    connector: &Connector,
    tables: &Tables,
    what_for: For,
    on_read_only: &dyn Fn(Option<&str>),
) -> Result<Session, Failure> {
    let servers = connector.targets().len();
    let open = |session: &mut Session| open(session, tables, what_for, servers);
    let (session, ()) = connector.reach_unless(open, |fault| {
        on_read_only(fault.read_only());
        Ok(connector.pause())
    })?;
    Ok(session)
}

/// Why there is no usable queue of this name.
///
/// # Errors
/// Those of a statement.
pub fn missing_queue(name: &str, tables: &Tables, session: &mut Session) -> Result<Failure, Fault> {
    let is_deleting = session.run(&ask_is_deleting(tables, name))?;
    Ok(if is_deleting {
        being_deleted(name)
    } else {
        no_such_queue(name)
    })
}

/// The failure that the queue is being deleted.
pub fn being_deleted(name: &str) -> Failure {
    let argument = argument_for_shell(name);
    let line = format!(
        "the queue {name} is being deleted; dblock queue delete {argument} goes on with that"
    );
    Failure::new(Reason::Configuration, line)
}

/// The failure that there is no such queue.
pub fn no_such_queue(name: &str) -> Failure {
    let argument = argument_for_shell(name);
    let line = format!("there is no queue {name}; create it with dblock queue create {argument}");
    Failure::new(Reason::Configuration, line)
}

//! Reaching a server that has the tables of the queues.

use std::thread::sleep;

use super::queues::IsDeleting;
use crate::base::exit::{Failure, Reason};
use crate::db::server_facts::Shown;
use crate::db::{Connector, Fault, Plain, Session};
use crate::schema::{self, Tables};

/// What is to be done there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum For {
    /// Reading: a replica will do.
    Reading,
    /// Writing.
    Writing,
}

/// Makes a session fit for the queues: the right server, with tables that this dblock can use.
///
/// # Errors
/// [`Fault::ReadOnly`] for a server that takes no writes, where they are meant and another server may take them;
/// [`Fault::Untrusted`] for one without usable tables; any other of a statement.
pub fn open(
    session: &mut Session,
    tables: &Tables,
    what_for: For,
    servers: usize,
) -> Result<(), Fault> {
    schema::prepare(session)?;
    // Another server may have them.
    tables.check_queues(session).map_err(|fault| match fault {
        Fault::Final(failure) if failure.reason == Reason::Configuration => {
            Fault::Untrusted(failure)
        }
        fault => fault,
    })?;
    if what_for == For::Writing {
        // What somebody has moved meanwhile is seen where it is, and no gaps are locked.
        session.run(&Plain(
            "/* dblock queue isolate */ SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
                .to_owned(),
        ))?;
    }
    // A single one says so when it is written to.
    if what_for == For::Writing && servers > 1 {
        for variable in ["read_only", "innodb_read_only"] {
            if Shown::Variable(variable).is_on(session)? {
                return Err(Fault::ReadOnly("takes no writes".to_owned()));
            }
        }
    }
    Ok(())
}

/// Reaches a server, however long that lasts.
///
/// # Errors
/// What no further attempt can mend; that none has the tables.
pub fn reach(connector: &Connector, tables: &Tables, what_for: For) -> Result<Session, Failure> {
    let servers = connector.targets().len();
    loop {
        match connector.connect(|session| open(session, tables, what_for, servers)) {
            Ok((session, ())) => return Ok(session),
            Err(Fault::Final(failure)) => return Err(failure),
            Err(_) => sleep(connector.pause()),
        }
    }
}

/// Why there is no queue of this name that could be used.
///
/// # Errors
/// Those of a statement.
pub fn missing_queue(name: &str, tables: &Tables, session: &mut Session) -> Result<Failure, Fault> {
    let is_deleting = session.run(&IsDeleting { tables, name })?;
    Ok(if is_deleting {
        being_deleted(name)
    } else {
        no_such_queue(name)
    })
}

/// That a deletion of the queue has begun, and has not ended.
pub fn being_deleted(name: &str) -> Failure {
    let line =
        format!("the queue {name} is being deleted; dblock queue delete {name} goes on with that");
    Failure::new(Reason::Configuration, line)
}

/// That there is no such queue.
pub fn no_such_queue(name: &str) -> Failure {
    let line = format!("there is no queue {name}; create it with dblock queue create {name}");
    Failure::new(Reason::Configuration, line)
}

//! Asking a server about its named locks, for the commands that look at them from outside.

use std::thread::sleep;
use std::time::Duration;

use mysql::Row;

use super::fitness::READ_ONLY;
use super::statements::literal;
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::db::{Connector, Fault, Session, cell};

/// From an answer that told nothing to the same question again.
const PAUSE: Duration = Duration::from_millis(100);

/// A session that asks.
pub struct Inspector {
    /// With the server that was reached.
    pub session: Session,
}

impl Inspector {
    /// A statement's first row, however often it is interrupted.
    ///
    /// # Errors
    /// Any other fault of a statement.
    pub fn ask(&mut self, statement: &str) -> Result<Option<Row>, Fault> {
        loop {
            match self.session.ask(statement) {
                Err(Fault::Unclear(_)) => sleep(PAUSE),
                answer => return answer,
            }
        }
    }

    /// Who has a lock, by its name on the server.
    ///
    /// # Errors
    /// As [`Asker::ask`].
    pub fn owner(&mut self, on_server: &str) -> Result<Option<u64>, Fault> {
        let row = self.ask(&format!("SELECT IS_USED_LOCK({})", literal(on_server)))?;
        Ok(row.and_then(|row| cell(&row, 0)))
    }

    /// Who has a lock of each of the first `slots`, by its name on the server: those that somebody has.
    ///
    /// # Errors
    /// Any fault of a statement.
    pub fn owners(
        &mut self,
        slots: u32,
        name: impl Fn(u32) -> String,
    ) -> Result<Vec<(u32, u64)>, Fault> {
        let columns = (0..slots).map(|slot| format!("IS_USED_LOCK({})", literal(&name(slot))));
        let row = self.ask(&format!(
            "SELECT {}",
            columns.collect::<Vec<_>>().join(", ")
        ))?;
        let owner = |slot: u32| {
            let owner = row.as_ref().and_then(|row| cell(row, slot as usize));
            owner.map(|owner| (slot, owner))
        };
        Ok((0..slots).filter_map(owner).collect())
    }
}

/// An account as a grant names it.
pub fn quoted(account: &str) -> String {
    match account.rsplit_once('@') {
        Some((user, host)) => format!("'{user}'@'{host}'"),
        None => format!("'{account}'"),
    }
}

/// Reaches a server that takes writes, for that is where the locks are, however long that lasts; one that does not, with a
/// warning, where there was no other for as long as the `patience`.
pub fn reach(connector: &Connector, patience: Duration) -> Result<Session, Failure> {
    let begun = Moment::now();
    let mut accepts = false;
    loop {
        let reached = connector.connect(|session| {
            let doubt = doubt(session)?;
            match doubt {
                Some(READ_ONLY) if !accepts => Err(Fault::ReadOnly(READ_ONLY.to_owned())),
                doubt => Ok(doubt),
            }
        });
        match reached {
            Ok((session, doubt)) => {
                if let Some(doubt) = doubt {
                    session.tell(Level::Warning, &format!("{session} {doubt}"));
                }
                return Ok(session);
            }
            Err(Fault::ReadOnly(_)) if begun.elapsed() > patience => accepts = true,
            Err(Fault::Final(failure)) => return Err(failure),
            Err(_) => sleep(connector.pause()),
        }
    }
}

/// Why a lock on a server may not be the one that others meet.
fn doubt(session: &mut Session) -> Result<Option<&'static str>, Fault> {
    // Not every server has each of them, and to ask for one that is not there is an error.
    let variables = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('read_only', 'innodb_read_only', 'wsrep_on')";
    let rows = session.inquire_all(variables)?.unwrap_or_default();
    let is_on = |row: &&Row| {
        let value: Option<String> = cell(row, 1);
        value.is_some_and(|value| matches!(&*value.to_ascii_uppercase(), "ON" | "1"))
    };
    let on = rows.iter().filter(is_on);
    let on: Vec<String> = on.filter_map(|row| cell(row, 0)).collect();
    Ok(if on.iter().any(|name| name.ends_with("read_only")) {
        Some(READ_ONLY)
    } else if on.is_empty() {
        None
    } else {
        Some("is a Galera node: it has named locks of its own, and another node has others")
    })
}

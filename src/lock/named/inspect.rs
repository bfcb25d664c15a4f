//! Asking a server about its named locks, for the commands that look at them from outside.

use std::thread::sleep;
use std::time::Duration;

use super::fitness::READ_ONLY;
use super::request::carry_out;
use super::statements::Owners;
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::db::{Connector, Fault, LIST, Row, Session, Statement};

/// A session that asks.
pub struct Inspector {
    /// With the server that was reached.
    pub session: Session,
}

impl Inspector {
    /// Runs a statement, however often it is interrupted.
    ///
    /// # Errors
    /// Any other fault of a statement.
    pub fn run<S: Statement>(&mut self, statement: &S) -> Result<S::Answer, Fault> {
        carry_out(&mut self.session, statement)
    }

    /// The session that holds a lock, by the lock's name on the server.
    ///
    /// # Errors
    /// As [`Inspector::run`].
    pub fn owner(&mut self, on_server: &str) -> Result<Option<u64>, Fault> {
        let [owner] = self.owners(&[on_server.to_owned()])?;
        Ok(owner)
    }

    /// The sessions that hold some locks at one moment, by the locks' names on the server.
    ///
    /// # Errors
    /// As [`Inspector::run`].
    pub fn owners<const N: usize>(
        &mut self,
        locks: &[String; N],
    ) -> Result<[Option<u64>; N], Fault> {
        let owners = self.run(&Owners(locks.to_vec()))?;
        Ok(std::array::from_fn(|place| owners[place]))
    }

    /// Which of the first `slots` are held, and by which session; `name` gives the name on the server of the lock to ask for.
    ///
    /// # Errors
    /// As [`Inspector::run`].
    pub fn owned_slots(
        &mut self,
        slots: u32,
        name: impl Fn(u32) -> String,
    ) -> Result<Vec<(u32, u64)>, Fault> {
        let owners = self.run(&Owners((0..slots).map(name).collect()))?;
        let owned = (0..slots).zip(owners);
        Ok(owned
            .filter_map(|(slot, owner)| Some((slot, owner?)))
            .collect())
    }
}

/// Reaches a server that takes writes, for that one has the locks, however long it takes. After `patience` it accepts a read-only
/// server, with a warning.
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

/// Why a lock on a server may not be the one that others use.
fn doubt(session: &mut Session) -> Result<Option<&'static str>, Fault> {
    let on = session.try_run(&AskDoubts)?.unwrap_or_default();
    Ok(if on.iter().any(|name| name.ends_with("read_only")) {
        Some(READ_ONLY)
    } else if on.is_empty() {
        None
    } else {
        Some("is a Galera node: it has named locks of its own, and another node has others")
    })
}

/// Which of the variables are on that make a lock doubtful. `SHOW` leaves out those that a server does not have; reading their
/// values would be an error.
struct AskDoubts;

impl Statement for AskDoubts {
    type Answer = Vec<String>;

    const MOST_ROWS: usize = LIST;

    fn sql(&self) -> String {
        "/* dblock doubts */ SHOW GLOBAL VARIABLES WHERE Variable_name IN ('read_only', 'innodb_read_only', 'wsrep_on')"
            .to_owned()
    }

    fn decode(&self, rows: &[Row]) -> Result<Vec<String>, Fault> {
        let mut on = Vec::new();
        for row in rows {
            let value = row.text(1)?.unwrap_or_default().to_ascii_uppercase();
            if matches!(&*value, "ON" | "1") {
                on.extend(row.text(0)?);
            }
        }
        Ok(on)
    }
}

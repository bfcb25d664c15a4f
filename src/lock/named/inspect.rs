//! Reads a server's named locks, for the commands that look at locks from outside.

use std::cell::Cell;
use std::thread::sleep;
use std::time::Duration;

use super::request::{PAUSE, carry_out};
use super::statements::{Line, ask_blocked, ask_owners};
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::base::log::Level;
use crate::db::server_facts::{role, why_read_only};
use crate::db::{Ask, Batch, Connector, Fault, Kind, Session, roll_back};
use crate::lock::Name;

/// The warning about a node of a cluster.
const OF_A_NODE: &str =
    "is a Galera node: it has named locks of its own, and another node has others";

/// A session for reading.
pub struct Inspector {
    /// The session, with the server that was reached.
    pub session: Session,
    /// Whether the server is a node of a cluster in which each node has its own named locks.
    pub is_node: bool,
    /// Whether the server is read-only.
    pub is_read_only: bool,
}

impl From<Session> for Inspector {
    /// For a server that is not a node of a cluster.
    fn from(session: Session) -> Self {
        Self {
            session,
            is_node: false,
            is_read_only: false,
        }
    }
}

impl Inspector {
    /// Warns if the server is a node of a cluster.
    pub fn warn_of_node(&self) {
        if self.is_node {
            let session = &self.session;
            session.tell(Level::Warning, &format!("{session} {OF_A_NODE}"));
        }
    }

    /// Warns if the server is read-only.
    pub fn warn_of_read_only(&self) {
        if self.is_read_only {
            let session = &self.session;
            let line = format!("{session} {}", why_read_only(session));
            session.tell(Level::Warning, &line);
        }
    }

    /// Refuses to do anything on a read-only server.
    ///
    /// # Errors
    /// [`Reason::Configuration`] if the server is read-only.
    pub fn refuse_read_only(&self) -> Result<(), Fault> {
        if self.is_read_only {
            let line = format!("{} {}", self.session, why_read_only(&self.session));
            return Err(Fault::Final(Failure::new(Reason::Configuration, line)));
        }
        Ok(())
    }

    /// Runs a transaction, however often it is interrupted or in conflict with another one.
    ///
    /// # Errors
    /// Any other fault of a statement.
    pub fn run_batch<T>(&mut self, batch: &Batch<T>) -> Result<T, Fault> {
        loop {
            match self.session.run_batch(batch) {
                Err(Fault::Interrupted(_) | Fault::Conflict(_)) => {
                    self.session.run(&roll_back())?;
                    sleep(PAUSE);
                }
                answer => return answer,
            }
        }
    }

    /// The sessions that hold these locks, by the locks' names on the server; `None`: the server has no named locks.
    ///
    /// # Errors
    /// The session must be dropped.
    pub fn try_owners(&mut self, locks: &[String]) -> Result<Option<Vec<Option<u64>>>, Fault> {
        if locks.is_empty() {
            return Ok(Some(Vec::new()));
        }
        Ok(self
            .session
            .try_run(&ask_owners(self.session.kind(), locks))?
            .ok())
    }

    /// Runs a statement, however often it is interrupted.
    ///
    /// # Errors
    /// Any other fault of a statement.
    pub fn run<T>(&mut self, ask: &Ask<T>) -> Result<T, Fault> {
        carry_out(&mut self.session, ask)
    }

    /// The session that holds a lock, by the lock's name on the server.
    ///
    /// # Errors
    /// As [`Inspector::run`].
    pub fn owner(&mut self, on_server: &str) -> Result<Option<u64>, Fault> {
        let [owner] = self.owners(&[on_server.to_owned()])?;
        Ok(owner)
    }

    /// The sessions that hold these locks at one moment, by the locks' names on the server.
    ///
    /// # Errors
    /// As [`Inspector::run`].
    pub fn owners<const N: usize>(
        &mut self,
        locks: &[String; N],
    ) -> Result<[Option<u64>; N], Fault> {
        let owners = self.run(&ask_owners(self.session.kind(), locks))?;
        Ok(std::array::from_fn(|place| owners[place]))
    }

    /// The held slots among the first `slots`, and the sessions that hold them. `name` gives the name of a slot's lock on the server.
    ///
    /// # Errors
    /// As [`Inspector::run`].
    pub fn owned_slots(
        &mut self,
        slots: u32,
        name: impl Fn(u32) -> String,
    ) -> Result<Vec<(u32, u64)>, Fault> {
        let locks: Vec<_> = (0..slots).map(name).collect();
        let owners = self.run(&ask_owners(self.session.kind(), &locks))?;
        let owned = (0..slots).zip(owners);
        Ok(owned
            .filter_map(|(slot, owner)| Some((slot, owner?)))
            .collect())
    }

    /// The sessions that wait for one of the first `slots` of a lock, and for how long, where that is known: those of other programs, which
    /// wait in a statement, then those in line, in their order. Empty where the server has a queue of its own. Two locks may have one line
    /// by chance: `is_anothers` says which sessions there wait for the other one.
    ///
    /// # Errors
    /// As [`Inspector::run`].
    pub fn line(
        &mut self,
        name: &Name,
        slots: u32,
        is_anothers: impl Fn(u64) -> bool,
    ) -> Result<Vec<(u64, Option<Duration>)>, Fault> {
        if self.session.kind() == Kind::MySql {
            return Ok(Vec::new());
        }
        let locks: Vec<_> = (0..slots).map(|slot| name.slot_on_server(slot)).collect();
        // Before version 14 a server does not tell it.
        let blocked = self.session.try_run(&ask_blocked(&locks))?;
        let mut waiters = blocked.unwrap_or_default();
        let in_line = self.run(&Line::ask_waiters(name))?;
        let in_line = in_line.into_iter().filter(|session| !is_anothers(*session));
        waiters.extend(in_line.map(|session| (session, None)));
        Ok(waiters)
    }
}

/// Connects to a server that takes writes, as that one has the locks, however long it takes. After `patience` it accepts a read-only
/// server.
pub fn reach(connector: &Connector, patience: Duration) -> Result<Inspector, Failure> {
    let begun = Moment::now();
    let accepts = Cell::new(false);
    let open = |session: &mut Session| {
        let role = role(session)?;
        if role.is_read_only && !accepts.get() {
            return Err(Fault::ReadOnly(why_read_only(session).to_owned()));
        }
        Ok(role)
    };
    let (session, role) = connector.reach_unless(open, |fault| match fault {
        Fault::ReadOnly(_) if begun.elapsed() > patience => {
            accepts.set(true);
            Ok(Duration::ZERO)
        }
        _ => Ok(connector.pause()),
    })?;
    Ok(Inspector {
        session,
        is_node: role.is_node && !role.is_read_only,
        is_read_only: role.is_read_only,
    })
}

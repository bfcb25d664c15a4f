//! Tries a durable lock of its own on a server, for `dblock check`: whether the tables can be used, how long a commit takes, and whether
//! other servers have the same row.

use std::thread::sleep;
use std::time::Duration;

use super::change::Change;
use super::clock::Clock;
use super::prepare::prepare;
use super::state::SlotState;
use super::statements::{Prepared, Statements, Terms, ask_clock};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::db::server_facts::median;
use crate::db::{Code, Fault, Session, command, roll_back};
use crate::lock::named::CHECKED;
use crate::lock::{DEFAULT_TTL, HolderKind, Name, run_id_lock};
use crate::schema::{Tables, Version, ask_version, refuse_encoding};

/// How often a write is retried after a conflict, with a pause.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(10);

/// A durable lock under a random name.
pub struct RowProbe {
    tables: Tables,
    statements: Statements,
    /// SQL literals.
    name: String,
    owner: String,
}

/// The state of dblock's tables.
pub enum TablesFound {
    /// They can be used, as far as reading them shows.
    Usable(Version),
    /// They do not exist.
    Missing,
    /// This account may not see whether they exist.
    Hidden,
    /// They cannot be used; the line says why.
    Unusable(String),
    /// The server does not read them; the number is its error's.
    Refused(Code),
}

impl RowProbe {
    /// For the lock `name`, in these tables.
    ///
    /// # Errors
    /// As [`run_id_lock`].
    pub fn new(tables: &Tables, name: &Name) -> Result<Self, Failure> {
        let owner = run_id_lock()?.trim_start_matches('#').to_owned();
        Ok(Self {
            tables: tables.clone(),
            statements: Statements::new(tables, name, 1, &owner),
            name: tables.kind().literal(&name.to_string()),
            owner,
        })
    }

    /// Looks for the tables.
    ///
    /// # Errors
    /// The session must be dropped.
    pub fn find_tables(&self, session: &mut Session) -> Result<TablesFound, Fault> {
        if let Err(fault) = refuse_encoding(session) {
            return Ok(TablesFound::Unusable(fault.to_string()));
        }
        Ok(match session.try_run(&ask_version(&self.tables))? {
            Ok(Some(version)) => match self.tables.judge(Ok(Some(version)), session) {
                Ok(()) => match self.tables.without_transactions(session)?.first() {
                    None => TablesFound::Usable(version),
                    Some(table) => TablesFound::Unusable(format!(
                        "{table} has no transactions, for its engine is not InnoDB; dblock init converts it"
                    )),
                },
                Err(fault) => TablesFound::Unusable(fault.to_string()),
            },
            Ok(None) => TablesFound::Missing,
            Err(code) if code.is_no_table() => TablesFound::Missing,
            Err(code) if code.is_no_privilege() => TablesFound::Hidden,
            Err(code) => TablesFound::Refused(code),
        })
    }

    /// Prepares a session for the tables. A server of a cluster answers only after it has caught up with the others.
    ///
    /// # Errors
    /// Any fault of a statement.
    pub fn prepare(&self, session: &mut Session) -> Result<Prepared, Fault> {
        prepare(&self.tables, Duration::MAX, session)
    }

    /// Acquires the lock on a prepared session, and returns how long that took. The lock is held until it is [deleted](Self::delete).
    ///
    /// # Errors
    /// Any fault of a statement.
    pub fn time_to_take(&self, session: &mut Session) -> Result<Duration, Fault> {
        // Deleting comes first, so that only an account that may delete rows writes one.
        self.delete_stale(session)?;
        let created = self.create(session);
        let taken = created.and_then(|()| self.take_and_time(session));
        if matches!(&taken, Err(fault) if !matches!(fault, Fault::Gone(_))) {
            let _ = self.delete(session);
        }
        taken
    }

    fn take_and_time(&self, session: &mut Session) -> Result<Duration, Fault> {
        let take = |session: &mut Session| self.take(session).map(|_| ());
        let span = median(session, take, |session| self.release(session))?;
        if !self.take(session)? {
            return Err(Fault::Conflict("no answer".to_owned()));
        }
        Ok(span)
    }

    /// Creates the row, with its time, so that a later check can find it if it is old.
    fn create(&self, session: &mut Session) -> Result<(), Fault> {
        let sql = format!(
            "INSERT INTO {} (name, slot, renewed_at) VALUES ({}, 0, {})",
            self.tables.locks(),
            self.name,
            self.tables.kind().now()
        );
        let create = command("check create", sql);
        self.insist(session, |session| session.run(&create))
    }

    /// Acquires the lock; `false`: it was not free.
    fn take(&self, session: &mut Session) -> Result<bool, Fault> {
        let rows = self.write(Change::Take { slot: 0 }, 1, session)?;
        Ok(self.is_held(&rows))
    }

    fn release(&self, session: &mut Session) -> Result<(), Fault> {
        self.write(Change::ReleaseAny, 2, session).map(|_| ())
    }

    /// Whether this server sees who holds the lock, on a prepared session.
    ///
    /// # Errors
    /// Any fault of a statement.
    pub fn sees(&self, session: &mut Session) -> Result<bool, Fault> {
        let rows = session.run(&self.statements.look())?;
        Ok(self.is_held(&rows))
    }

    /// Deletes the lock's row.
    ///
    /// # Errors
    /// Any fault of a statement.
    pub fn delete(&self, session: &mut Session) -> Result<(), Fault> {
        let (locks, name) = (self.tables.locks(), &self.name);
        let sql = format!("DELETE FROM {locks} WHERE name = {name} AND slot = 0");
        let delete = command("check delete", sql);
        self.insist(session, |session| session.run(&delete))
    }

    /// Deletes the rows of checks that were killed an hour or more ago.
    fn delete_stale(&self, session: &mut Session) -> Result<(), Fault> {
        let (locks, kind) = (self.tables.locks(), self.tables.kind());
        // From the first possible name to the one after the last, so that no other row is read.
        let first = kind.literal(CHECKED);
        let behind = kind.literal(&CHECKED.replacen("check-", "check.", 1));
        let sql = format!(
            "DELETE FROM {locks} WHERE name > {first} AND name < {behind} AND renewed_at < {} \
             AND (owner IS NULL OR expires_at < {})",
            kind.seconds_ago(3600),
            kind.now()
        );
        let delete = command("check delete", sql);
        self.insist(session, |session| session.run(&delete))
    }

    fn write(
        &self,
        change: Change,
        write_id: u64,
        session: &mut Session,
    ) -> Result<Vec<SlotState>, Fault> {
        let terms = Terms {
            kind: HolderKind::Run,
            command_run: None,
            owner_name: None,
            ttl: Some(DEFAULT_TTL),
            also: &[],
            proof: None,
            unless_read_only: false,
        };
        let write = self.statements.write(change, write_id, &terms);
        self.insist(session, |session| {
            Ok(session.run_batch(&write.batch())?.rows)
        })
    }

    /// Retries a write that is in conflict with others.
    fn insist<T>(
        &self,
        session: &mut Session,
        write: impl Fn(&mut Session) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut tries = 0;
        loop {
            let fault = match write(session) {
                Err(fault @ Fault::Gone(_)) => return Err(fault),
                Err(fault) => fault,
                done => return done,
            };
            session.run(&roll_back())?;
            tries += 1;
            if !matches!(fault, Fault::Conflict(_) | Fault::Interrupted(_)) || tries == TRIES {
                return Err(self.tables.explain(fault));
            }
            sleep(PAUSE);
        }
    }

    fn is_held(&self, rows: &[SlotState]) -> bool {
        let mut owners = rows.iter().map(|row| row.owner.as_deref());
        owners.any(|owner| owner == Some(&*self.owner))
    }
}

/// Measures a server's clock; `None`: it does not answer with its time.
///
/// # Errors
/// The session must be dropped.
pub fn clock_of(session: &mut Session) -> Result<Option<Clock>, Fault> {
    let asked = Moment::now();
    let clock = session.try_run(&ask_clock(session.kind()))?;
    let answered = Moment::now();
    Ok(clock
        .ok()
        .flatten()
        .map(|clock| Clock::new(clock, asked, answered)))
}

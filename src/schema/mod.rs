//! dblock's tables: their database, their version, and `dblock init`, which creates and upgrades them. Nothing else ever creates or
//! changes a table.

#[cfg(test)]
mod fixture;
mod install;
mod postgres;
mod statements;
mod tables;
#[cfg(test)]
mod versions;

#[cfg(test)]
pub use fixture::Fixture;
pub use install::{Installed, Installer, Keep};
pub use postgres::{end_when_idle as postgres_end_when_idle, prepare as postgres_prepare};
pub use statements::{
    CATCH_UP_IN_GROUP, LONGEST_LOCK_WAIT, LONGEST_ROW_WAIT, Node, prepare as prepare_sql,
};
pub use tables::{
    AUDIT, CRON_DAEMONS, CRON_JOBS, CRON_TICKS, DEAD, DELAYED, DONE, DUE, JOB_KEYS, JOB_PARTS,
    JOBS, LOCKS, OLDER_FENCE, OUTPUTS, PUTS, QUEUE_MINUTES, QUEUES, RUNNING, RUNS, SUCCESSES,
    Table, VERSION, WORKERS,
};

use statements::{CATCH_UP, ask_other_engines, prepare_and_ask_node};
use tables::{
    META, OLDEST_USABLE, TABLES, USABLE_FROM, WITH_AUDIT, WITH_CRON, WITH_FLOOR, WITH_OUTPUTS,
    WITH_QUEUES, WITH_RUN_KEYS, WITH_TURNS,
};

use std::cell::Cell;
use std::rc::Rc;

use crate::base::exit::{Failure, Reason};
use crate::db::{
    Ask, ConnectOptions, Fault, Kind, Row, Session, SessionInfo, ask, postgres_sql,
    quoted_identifier,
};

/// The tables of one database, or on PostgreSQL of one schema of the database.
#[derive(Debug, Clone)]
pub struct Tables {
    kind: Kind,
    /// The database, or the schema.
    name: String,
    /// The version that any clone read last; 0: not read yet.
    version: Rc<Cell<u32>>,
}

impl Tables {
    /// The tables in the database of this name, or on PostgreSQL in the schema of this name.
    pub fn new(kind: Kind, name: &str) -> Self {
        Self {
            kind,
            name: name.to_owned(),
            version: Rc::default(),
        }
    }

    /// The tables that these options name.
    pub fn of_connection(options: &ConnectOptions) -> Self {
        match options.kind {
            Kind::MySql => Self::new(options.kind, &options.database),
            Kind::Postgres => Self::new(options.kind, &options.schema),
        }
    }

    /// The kind of the servers that they are on.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether rows of unused names are deleted, so that new rows must begin above the floor. If that is not known yet, rows are written
    /// as an older dblock does, which is right in both cases.
    pub fn has_floor(&self) -> bool {
        // On PostgreSQL they always were.
        self.kind == Kind::Postgres || self.version.get() >= WITH_FLOOR
    }

    /// Whether running jobs have a key by the turn in which they were claimed. Where that is not known yet, they have none.
    pub fn has_turns(&self) -> bool {
        self.version.get() >= WITH_TURNS
    }

    /// Whether runs have keys by their host and by their outcome. Where that is not known yet, they have none.
    pub fn has_run_keys(&self) -> bool {
        self.version.get() >= WITH_RUN_KEYS
    }

    /// Whether what people do is recorded. Where that is not known yet, it is not.
    pub fn has_audit(&self) -> bool {
        self.version.get() >= WITH_AUDIT
    }

    /// Whether output can be kept. Where that is not known yet, it cannot.
    pub fn has_outputs(&self) -> bool {
        self.version.get() >= WITH_OUTPUTS
    }

    /// The line that says why it cannot.
    pub fn no_outputs(&self) -> String {
        of_older_version(&self.place())
    }

    /// Notes the tables' version.
    pub fn note_version(&self, version: u32) {
        self.version.set(version);
    }

    /// The durable locks.
    pub fn locks(&self) -> String {
        self.of(&LOCKS)
    }

    /// The history.
    pub fn runs(&self) -> String {
        self.of(&RUNS)
    }

    /// The last success of each name.
    pub fn successes(&self) -> String {
        self.of(&SUCCESSES)
    }

    /// The version, and what all hosts have in common.
    pub fn meta(&self) -> String {
        self.of(&META)
    }

    /// A table's name, for a statement.
    pub fn of(&self, table: &Table) -> String {
        format!("{}.{}", self.quoted_name(), table.name)
    }

    /// The name of the database, or on PostgreSQL of the schema.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where they are, for a message: `database dblock`.
    pub fn place(&self) -> String {
        format!("{} {}", self.word(), self.name)
    }

    /// The option that names the [place](Tables::place).
    pub fn option(&self) -> &'static str {
        match self.kind {
            Kind::MySql => "--database",
            Kind::Postgres => "--schema",
        }
    }

    /// The [name](Tables::name), quoted.
    pub fn quoted_name(&self) -> String {
        match self.kind {
            Kind::MySql => quoted_identifier(&self.name),
            Kind::Postgres => postgres_sql::quoted_identifier(&self.name),
        }
    }

    /// What the place of the tables is.
    pub fn word(&self) -> &'static str {
        match self.kind {
            Kind::MySql => "database",
            Kind::Postgres => "schema",
        }
    }

    /// The privileges that an account needs on the tables, as a sentence.
    fn needs(&self) -> String {
        let name = self.quoted_name();
        match self.kind {
            Kind::MySql => format!(
                "dblock needs SELECT, INSERT, UPDATE and DELETE on {name}.*, where dblock init makes its tables; if they are elsewhere, name their database with --database; if there are none, run dblock init"
            ),
            Kind::Postgres => format!(
                "dblock needs USAGE on the schema {name}, and SELECT, INSERT, UPDATE and DELETE on its tables, which dblock init makes there; if they are elsewhere, name their schema with --schema"
            ),
        }
    }

    /// The statements that let an account use them, also those that a later version adds. The account is named as in a GRANT statement.
    pub fn grant(&self, account: &str) -> String {
        match self.kind {
            Kind::MySql => format!(
                "GRANT SELECT, INSERT, UPDATE, DELETE ON {}.* TO {account}",
                self.quoted_name()
            ),
            Kind::Postgres => postgres::grants(&self.name, account).join("; "),
        }
    }

    /// As [`Tables::grant`], for the account of a session.
    pub fn grant_to(&self, info: &SessionInfo) -> String {
        self.grant(&match self.kind {
            Kind::MySql => info.quoted_account(),
            Kind::Postgres => postgres_sql::quoted_identifier(&info.account),
        })
    }

    /// Whether this dblock can use the tables.
    ///
    /// # Errors
    /// [`Reason::Configuration`], with what to do; any other fault of a statement.
    pub fn check(&self, session: &mut Session) -> Result<(), Fault> {
        self.check_since(OLDEST_USABLE, session)
    }

    /// As [`Tables::check`], and requires the tables of the queues, which version 2 added.
    ///
    /// # Errors
    /// As [`Tables::check`].
    pub fn check_queues(&self, session: &mut Session) -> Result<(), Fault> {
        self.check_since(WITH_QUEUES, session)
    }

    /// As [`Tables::check`], and requires the tables of the crontab, which version 3 added.
    ///
    /// # Errors
    /// As [`Tables::check`].
    pub fn check_cron(&self, session: &mut Session) -> Result<(), Fault> {
        self.check_since(WITH_CRON, session)
    }

    /// As [`Tables::check`], and requires the table of what people did, which version 6 added.
    ///
    /// # Errors
    /// As [`Tables::check`].
    pub fn check_audit(&self, session: &mut Session) -> Result<(), Fault> {
        self.check_since(WITH_AUDIT, session)
    }

    /// As [`Tables::check`], and requires the table of the outputs that are kept, which version 6 added.
    ///
    /// # Errors
    /// As [`Tables::check`].
    pub fn check_outputs(&self, session: &mut Session) -> Result<(), Fault> {
        self.check_since(WITH_OUTPUTS, session)
    }

    fn check_since(&self, oldest: u32, session: &mut Session) -> Result<(), Fault> {
        let found = session.run(&ask_version(self));
        self.judge_since(oldest, found, session)
    }

    /// The tables whose engine is not `InnoDB`, as far as the account may see that: a crash may lose what was written to them.
    ///
    /// # Errors
    /// The session must be dropped.
    pub fn without_transactions(&self, session: &mut Session) -> Result<Vec<String>, Fault> {
        if self.kind == Kind::Postgres {
            return Ok(Vec::new());
        }
        let engines = ask_other_engines(&self.name, &TABLES);
        Ok(session.try_run(&engines)?.unwrap_or_default())
    }

    /// Judges the answer to [`ask_version`].
    ///
    /// # Errors
    /// As [`Tables::check`].
    pub fn judge(
        &self,
        found: Result<Option<Version>, Fault>,
        session: &Session,
    ) -> Result<(), Fault> {
        self.judge_since(OLDEST_USABLE, found, session)
    }

    fn judge_since(
        &self,
        oldest: u32,
        found: Result<Option<Version>, Fault>,
        session: &Session,
    ) -> Result<(), Fault> {
        refuse_encoding(session)?;
        let place = self.place();
        let wrong = |line: String| Err(Fault::Final(Failure::new(Reason::Configuration, line)));
        match found {
            Ok(Some(found)) => {
                self.note_version(found.version);
                match self.too_new(found, session) {
                    Some(failure) => Err(Fault::Final(failure)),
                    None if found.version < oldest => {
                        wrong(of_older_version(&format!("{place} of {session}")))
                    }
                    None => Ok(()),
                }
            }
            Ok(None) | Err(Fault::NoSuchTable(_)) => wrong(format!(
                "the {place} of {session} has no tables of dblock's; create them with dblock init, or name their {} with {}",
                self.word(),
                self.option()
            )),
            Err(fault) => Err(self.explain(fault)),
        }
    }

    /// The failure that only a newer dblock can use the tables.
    fn too_new(&self, found: Version, session: &Session) -> Option<Failure> {
        let line = format!(
            "the tables in the {} of {session} are of a newer dblock (version {}); this one knows version {VERSION}",
            self.place(),
            found.version
        );
        (found.usable_from > VERSION).then(|| Failure::new(Reason::Configuration, line))
    }

    /// Adds what to do to the fault of a statement, about a missing table or privilege.
    pub fn explain(&self, fault: Fault) -> Fault {
        match fault {
            Fault::NoSuchTable(cause) => Fault::Final(Failure::new(
                Reason::Configuration,
                format!(
                    "the tables in the {} are not dblock's, or not whole: {cause}; see dblock init --check",
                    self.place()
                ),
            )),
            Fault::Final(failure) if failure.reason == Reason::AccountRefused => {
                let line = format!("{}; {}", failure.line, self.needs());
                Fault::Final(Failure { line, ..failure })
            }
            fault => fault,
        }
    }

    /// The tables are there, and this account may not read them, as PostgreSQL says.
    pub fn hidden(&self) -> Failure {
        let line = format!("this account may not read the tables; {}", self.needs());
        Failure::new(Reason::AccountRefused, line)
    }
}

/// The line that tables cannot be used as they lack something.
fn of_older_version(place: &str) -> String {
    format!("the tables in the {place} are of an older dblock; upgrade them with dblock init")
}

/// Prepares a session for the tables, with [`prepare_sql`]. Returns the server's role in a Galera cluster.
///
/// # Errors
/// Those of a statement.
pub fn prepare(session: &mut Session) -> Result<Node, Fault> {
    prepare_as(session, false)
}

/// As [`prepare`], for a session without a lock whose transactions take several round trips: if its host vanishes within one, the server
/// soon rolls it back.
///
/// # Errors
/// Those of a statement.
pub fn prepare_for_transactions(session: &mut Session) -> Result<Node, Fault> {
    prepare_as(session, true)
}

/// Refuses a database that cannot keep every name and message, or counts their bytes.
///
/// # Errors
/// [`Reason::Configuration`]: it is on PostgreSQL, and its encoding is not UTF8.
pub fn refuse_encoding(session: &Session) -> Result<(), Fault> {
    match session.parameter("server_encoding") {
        Some(encoding) if encoding != "UTF8" => {
            let line = format!(
                "the encoding of the database on {session} is {encoding}; dblock's tables need one with ENCODING 'UTF8'"
            );
            Err(Fault::Final(Failure::new(Reason::Configuration, line)))
        }
        _ => Ok(()),
    }
}

fn prepare_as(session: &mut Session, ends_when_idle: bool) -> Result<Node, Fault> {
    if session.kind() == Kind::Postgres {
        session.run(&postgres::prepare(postgres::LOCK_LIMIT))?;
        return Ok(Node::Single);
    }
    let node = or_without(|catches_up| {
        session.run_batch(&prepare_and_ask_node(catches_up, ends_when_idle))
    })?;
    if node != Node::Single {
        session.send_one_by_one();
    }
    if node == Node::Other {
        catch_up(session)?;
    }
    Ok(node)
}

/// Runs something that begins with [`prepare_sql`] and gets its argument. Runs it again for a MariaDB without Galera, which does not know
/// the variable.
///
/// # Errors
/// Those of a statement.
pub fn or_without<T>(mut prepare: impl FnMut(bool) -> Result<T, Fault>) -> Result<T, Fault> {
    match prepare(true) {
        Err(Fault::NoSuchVariable(_)) => prepare(false),
        Err(Fault::Final(failure)) if failure.reason == Reason::AccountRefused => prepare(false),
        prepared => prepared,
    }
}

/// Has a node of a cluster answer only after it has caught up. Returns whether the server supports that.
///
/// # Errors
/// The session must be dropped.
pub fn catch_up(session: &mut Session) -> Result<bool, Fault> {
    Ok(session.try_run(&Ask::written(CATCH_UP))?.is_ok())
}

/// The version information in the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Their version.
    pub version: u32,
    /// The version that a dblock must at least know to use them.
    pub usable_from: u32,
}

impl Version {
    /// Reads it from the first columns of a row.
    ///
    /// # Errors
    /// As [`Row::get`].
    pub fn read(row: &Row) -> Result<Self, Fault> {
        let (version, usable_from) = row.columns()?;
        Ok(Self {
            version,
            usable_from,
        })
    }
}

/// Asks for the tables' version; `None`: it is missing.
pub fn ask_version(tables: &Tables) -> Ask<'static, Option<Version>> {
    let meta = tables.meta();
    let sql = format!("SELECT version, usable_from FROM {meta} WHERE id = 1");
    ask("version", sql, |rows| rows.optional(Version::read))
}

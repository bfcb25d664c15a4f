//! dblock's tables: where they are, which version they have, and `dblock init`, which creates and upgrades them. Nothing else ever
//! creates or changes one.

#[cfg(test)]
mod fixture;
mod install;
mod statements;
mod tables;

#[cfg(test)]
pub use fixture::Fixture;
pub use install::{Installed, Installer, Keep};
pub use statements::{CATCH_UP_IN_GROUP, Node, prepare as prepare_sql};
pub use tables::{
    CRON_DAEMONS, CRON_JOBS, CRON_TICKS, DEAD, DELAYED, DONE, DUE, JOB_KEYS, JOB_PARTS, JOBS, PUTS,
    QUEUE_MINUTES, QUEUES, RUNNING, RUNS, Table, VERSION, WORKERS,
};

use statements::{AskOtherEngines, CATCH_UP, Prepare};
use tables::{LOCKS, META, OLDEST_USABLE, SUCCESSES, TABLES, USABLE_FROM, WITH_CRON, WITH_QUEUES};

use crate::base::exit::{Failure, Reason};
use crate::db::{Fault, Plain, Row, Session, Statement, quoted_identifier};

/// The tables of one database.
#[derive(Debug, Clone)]
pub struct Tables {
    database: String,
}

impl Tables {
    /// Those of the database of this name.
    pub fn new(database: &str) -> Self {
        Self {
            database: database.to_owned(),
        }
    }

    /// The durable locks.
    pub fn locks(&self) -> String {
        self.named(LOCKS.name)
    }

    /// The history.
    pub fn runs(&self) -> String {
        self.named(RUNS.name)
    }

    /// The last success of each name.
    pub fn successes(&self) -> String {
        self.named(SUCCESSES.name)
    }

    /// The version, and what all dblocks have in common.
    pub fn meta(&self) -> String {
        self.named(META.name)
    }

    /// One of them, as a statement names it.
    pub fn of(&self, table: &Table) -> String {
        self.named(table.name)
    }

    /// The name of the database.
    pub fn database(&self) -> &str {
        &self.database
    }

    fn named(&self, table: &str) -> String {
        format!("{}.{table}", quoted_identifier(&self.database))
    }

    /// Whether this dblock can use the tables.
    ///
    /// # Errors
    /// [`Reason::Configuration`], with what to do; any other fault of a statement.
    pub fn check(&self, session: &mut Session) -> Result<(), Fault> {
        let found = session.run(&AskVersion(self));
        self.judge(found, session)
    }

    /// As [`Tables::check`], where those of the queues are needed besides, which came with version 2.
    ///
    /// # Errors
    /// As [`Tables::check`].
    pub fn check_queues(&self, session: &mut Session) -> Result<(), Fault> {
        let found = session.run(&AskVersion(self));
        self.judge_since(WITH_QUEUES, found, session)
    }

    /// As [`Tables::check`], where those of the crontab are needed besides, which came with version 3.
    ///
    /// # Errors
    /// As [`Tables::check`].
    pub fn check_cron(&self, session: &mut Session) -> Result<(), Fault> {
        let found = session.run(&AskVersion(self));
        self.judge_since(WITH_CRON, found, session)
    }

    /// Those that are of another engine than `InnoDB`, as far as the account is shown them: a crash may lose what was written to
    /// them.
    ///
    /// # Errors
    /// The session must be dropped.
    pub fn without_transactions(&self, session: &mut Session) -> Result<Vec<String>, Fault> {
        let ask = AskOtherEngines {
            database: &self.database,
            tables: &TABLES,
        };
        Ok(session.try_run(&ask)?.unwrap_or_default())
    }

    /// What follows from the answer to [`AskVersion`].
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
        let database = &self.database;
        let wrong = |line: String| Err(Fault::Final(Failure::new(Reason::Configuration, line)));
        match found {
            Ok(Some(found)) if let Some(failure) = self.too_new(found, session) => {
                Err(Fault::Final(failure))
            }
            Ok(Some(found)) if found.version < oldest => wrong(format!(
                "the tables in the database {database} of {session} are of an older dblock; upgrade them with dblock init"
            )),
            Ok(Some(_)) => Ok(()),
            Ok(None) | Err(Fault::NoSuchTable(_)) => wrong(format!(
                "the database {database} of {session} has no tables of dblock's; create them with dblock init, or name \
                 their database with --database"
            )),
            Err(fault) => Err(self.explain(fault)),
        }
    }

    /// That only a newer dblock can use the tables.
    fn too_new(&self, found: Version, session: &Session) -> Option<Failure> {
        let line = format!(
            "the tables in the database {} of {session} are of a newer dblock (version {}); this one knows version {VERSION}",
            self.database, found.version
        );
        (found.usable_from > VERSION).then(|| Failure::new(Reason::Configuration, line))
    }

    /// A fault of a statement on the tables, with what to do about a table that is missing or may not be used.
    pub fn explain(&self, fault: Fault) -> Fault {
        let database = &self.database;
        match fault {
            Fault::NoSuchTable(cause) => Fault::Final(Failure::new(
                Reason::Configuration,
                format!(
                    "the tables in the database {database} are not dblock's, or not whole: {cause}; see dblock init --check"
                ),
            )),
            Fault::Final(failure) if failure.reason == Reason::AccountRefused => {
                let line = format!(
                    "{}; dblock needs SELECT, INSERT, UPDATE and DELETE on {}.*, where dblock init makes its tables; if they are elsewhere, name their database with --database",
                    failure.line,
                    quoted_identifier(database)
                );
                Fault::Final(Failure { line, ..failure })
            }
            fault => fault,
        }
    }
}

/// Makes a session fit for the tables, with [`prepare_sql`]; what its server is.
///
/// # Errors
/// Those of a statement.
pub fn prepare(session: &mut Session) -> Result<Node, Fault> {
    let node = or_without(|catches_up| session.run_batch(&Prepare { catches_up }))?;
    if node != Node::Single {
        session.send_one_by_one();
    }
    if node == Node::Other {
        catch_up(session)?;
    }
    Ok(node)
}

/// Carries out what begins with [`prepare_sql`], with its argument; once more for a MariaDB that does not have a node catch up, for it
/// is none.
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

/// Has a node of a cluster answer only after it has caught up, if it can: whether it does.
///
/// # Errors
/// The session must be dropped.
pub fn catch_up(session: &mut Session) -> Result<bool, Fault> {
    Ok(session.try_run(&Plain(CATCH_UP.to_owned()))?.is_ok())
}

/// What the tables say of themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Their version.
    pub version: u32,
    /// The version that a dblock must know to use them.
    pub usable_from: u32,
}

/// Asks for the version of the tables; `None`: there is none.
pub struct AskVersion<'a>(pub &'a Tables);

impl Statement for AskVersion<'_> {
    type Answer = Option<Version>;

    fn sql(&self) -> String {
        format!(
            "/* dblock version */ SELECT version, usable_from FROM {} WHERE id = 1",
            self.0.meta()
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        Ok(row
            .get(0)?
            .zip(row.get(1)?)
            .map(|(version, usable_from)| Version {
                version,
                usable_from,
            }))
    }
}

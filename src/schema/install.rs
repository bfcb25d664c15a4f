//! `dblock init`: creates what is missing, in an order in which it may be interrupted anywhere and done again, by several at once.

use std::thread::sleep;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::statements::{
    AskColumns, AskDatabase, AskFirstMember, AskOtherEngines, Execute, TakeTurn,
};
use super::tables::Table;
use super::{AskVersion, TABLES, Tables, USABLE_FROM, VERSION, Version, prepare};
use crate::base::clock::{Moment, by_chance};
use crate::base::exit::{Failure, Reason};
use crate::db::cluster::{AskHasNotJoined, AskMultiPrimary, NOT_JOINED};
use crate::db::server_facts::{AskSessionInfo, READ_ONLY, is_read_only};
use crate::db::{Connector, Fault, Session, quoted_identifier};

/// How long another that creates the tables at the same time is waited for, in seconds.
const TURN_LIMIT: u32 = 30;

/// From a server that cannot be used now to the next round.
const PAUSE: Duration = Duration::from_millis(100);

/// How often a change is tried that meets another init's.
const MOST_TRIES: u32 = 20;

/// How long the history is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// So long, in whole seconds.
    pub time: Duration,
    /// But at least so many runs of each name.
    pub runs: u32,
}

/// What `dblock init` found and did.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Installed {
    /// The server.
    pub server: String,
    /// The version of the tables.
    pub version: u32,
    /// What was created or changed, or is missing, as the mysql client shows it; empty: everything was there.
    pub changes: Vec<String>,
}

/// Creates and upgrades the tables of a database.
pub struct Installer<'a> {
    /// The database.
    pub database: &'a str,
    /// How long the history is to be kept; `None`: as it is.
    pub keep: Option<Keep>,
    /// Whether nothing is changed.
    pub only_checks: bool,
}

impl Installer<'_> {
    /// How long another that does the same at the same time may keep this one waiting.
    pub const LONGEST_TURN: Duration = Duration::from_secs(TURN_LIMIT as u64);

    /// The script that does the same on a server without the tables, and the privileges that an account needs.
    pub fn script(&self) -> String {
        let database = quoted_identifier(self.database);
        let tables = TABLES.map(|table| table.create(&database) + ";\n");
        format!(
            "CREATE DATABASE IF NOT EXISTS {database};\n{}{};\n\n\
             -- For each account that dblock uses, in the place of 'dblock'@'%':\n\
             GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.* TO 'dblock'@'%';\n\
             -- For an account that is to run dblock init, besides:\n\
             -- GRANT CREATE, ALTER ON {database}.* TO 'admin'@'%';\n",
            tables.concat(),
            self.set_version(self.keep)
        )
    }

    /// Reaches the server through which tables are made, within the `patience`: one that takes writes, and in a group where all
    /// members do, the first of them. Two members that create a table at the same time would break the group.
    ///
    /// # Errors
    /// What no further attempt can mend, or what was wrong last.
    pub fn reach(&self, connector: &Connector, patience: Duration) -> Result<Session, Failure> {
        let begun = Moment::now();
        let mut accepts_read_only = false;
        loop {
            let reached = connector.connect(|session| {
                prepare(session)?;
                if is_read_only(session)? {
                    // To look is no harm.
                    let refused = || Fault::ReadOnly(READ_ONLY.to_owned());
                    return accepts_read_only.then_some(()).ok_or_else(refused);
                }
                if self.only_checks {
                    return Ok(());
                }
                if session.try_run(&AskHasNotJoined)? == Ok(true) {
                    return Err(Fault::ReadOnly(NOT_JOINED.to_owned()));
                }
                if !matches!(session.try_run(&AskMultiPrimary)?, Ok(true)) {
                    return Ok(());
                }
                let denied = |fault| match fault {
                    Fault::Final(failure) if failure.reason == Reason::AccountRefused => {
                        let line = format!(
                            "{}; in a multi-primary group the account needs SELECT ON \
                             performance_schema.replication_group_members besides",
                            failure.line
                        );
                        Fault::Final(Failure { line, ..failure })
                    }
                    fault => fault,
                };
                match session.run(&AskFirstMember).map_err(denied)? {
                    None => Ok(()),
                    Some(first) => Err(Fault::ReadOnly(format!(
                        "is in a multi-primary group, where the tables are to be made through one member only; run dblock \
                         init on {first}"
                    ))),
                }
            });
            match reached {
                Ok((session, ())) => return Ok(session),
                Err(Fault::Final(failure)) => return Err(failure),
                Err(Fault::ReadOnly(_)) if self.only_checks && !accepts_read_only => {
                    accepts_read_only = true;
                }
                Err(Fault::ReadOnly(line)) if begun.elapsed() > patience => {
                    return Err(Failure::new(Reason::Configuration, line));
                }
                Err(_) => sleep(PAUSE.max(connector.pause())),
            }
        }
    }

    /// Creates what is missing.
    ///
    /// # Errors
    /// [`Reason::Configuration`] where the tables are a newer dblock's or another program's; [`Reason::AccountRefused`] with the
    /// privileges that are missing.
    pub fn install(&self, session: &mut Session) -> Result<Installed, Fault> {
        let turn = TakeTurn {
            database: self.database,
            limit: TURN_LIMIT,
        };
        // Where there are no such locks, several at once do no harm either: each step may find its work done.
        if !self.only_checks && matches!(session.try_run(&turn)?, Ok(false)) {
            let line = format!("another dblock init is at work on {session}; try again");
            return Err(Fault::Final(Failure::new(Reason::Unreachable, line)));
        }
        let mut changes = Vec::new();
        if !session.run(&AskDatabase(self.database))? {
            let create = format!(
                "CREATE DATABASE IF NOT EXISTS {}",
                quoted_identifier(self.database)
            );
            let what = format!("database {}", self.database);
            self.change(session, &create, &what, &mut changes)?;
            if self.only_checks {
                return Ok(installed(session, VERSION, changes));
            }
        }
        let version = self.version(session)?;
        // A newer dblock knows what it has made of them.
        let is_newer = version.is_some_and(|found| found.version > VERSION);
        if !is_newer {
            self.complete(session, &mut changes)?;
        }
        if version.is_none_or(|found| found.version < VERSION) || self.keep.is_some() {
            let what = match (version, self.keep) {
                (Some(found), Some(_)) if found.version >= VERSION => {
                    "how long the history is kept".to_owned()
                }
                _ => format!("version {VERSION}"),
            };
            self.change(session, &self.set_version(self.keep), &what, &mut changes)?;
        }
        let version = version.map_or(VERSION, |found| found.version.max(VERSION));
        Ok(installed(session, version, changes))
    }

    /// Creates the tables, columns and keys that are missing.
    fn complete(&self, session: &mut Session, changes: &mut Vec<String>) -> Result<(), Fault> {
        let found = session.run(&AskColumns {
            database: self.database,
            tables: &TABLES,
        })?;
        let engines = session.run(&AskOtherEngines {
            database: self.database,
            tables: &TABLES,
        })?;
        let exists = |table: &Table| found.iter().any(|(of, _)| of == table.name);
        let has = |table: &Table, column: &str| {
            let wanted = column.to_lowercase();
            let mut columns = found.iter();
            columns.any(|(of, found)| of == table.name && *found == wanted)
        };
        // Nothing is changed where one of them is not ours.
        for table in TABLES.iter().filter(|table| exists(table)) {
            let mut keys = table.primary_key.split(", ");
            if let Some(key) = keys.find(|key| !has(table, key)) {
                let line = format!(
                    "the table {} in the database {} of {session} is not dblock's: it has no column {key}; use another --database",
                    table.name, self.database
                );
                return Err(Fault::Final(Failure::new(Reason::Configuration, line)));
            }
        }
        let database = quoted_identifier(self.database);
        for table in &TABLES {
            if !exists(table) {
                let what = format!("table {}", table.name);
                self.change(session, &table.create(&database), &what, changes)?;
                continue;
            }
            if engines.iter().any(|other| other == table.name) {
                let alter = format!("ALTER TABLE {database}.{} ENGINE=InnoDB", table.name);
                let what = format!("engine InnoDB of {}", table.name);
                self.change(session, &alter, &what, changes)?;
            }
            let columns = table.columns.iter();
            for (column, kind) in columns.filter(|(column, _)| !has(table, column)) {
                let add = format!(
                    "ALTER TABLE {database}.{} ADD COLUMN {column} {kind}",
                    table.name
                );
                let what = format!("column {}.{column}", table.name);
                self.change(session, &add, &what, changes)?;
            }
            let keys = table.keys.iter();
            for (key, columns) in keys.filter(|(key, _)| !has(table, &format!("key {key}"))) {
                let add = format!(
                    "ALTER TABLE {database}.{} ADD KEY {key} ({columns})",
                    table.name
                );
                let what = format!("key {}.{key}", table.name);
                self.change(session, &add, &what, changes)?;
            }
        }
        Ok(())
    }

    fn version(&self, session: &mut Session) -> Result<Option<Version>, Fault> {
        let tables = Tables::new(self.database);
        let found = match session.run(&AskVersion(&tables)) {
            Err(Fault::NoSuchTable(_)) => return Ok(None),
            found => found.map_err(|fault| tables.explain(fault))?,
        };
        if let Some(failure) = found.and_then(|found| tables.too_new(found, session)) {
            return Err(Fault::Final(failure));
        }
        Ok(found)
    }

    /// Carries out a change, unless nothing is to be changed, and notes it.
    fn change(
        &self,
        session: &mut Session,
        sql: &str,
        what: &str,
        changes: &mut Vec<String>,
    ) -> Result<(), Fault> {
        if !self.only_checks {
            let mut done = session.run(&Execute(sql.to_owned()));
            for _ in 1..MOST_TRIES {
                // Another is at work at the same time, where named locks are a node's own.
                if matches!(done, Err(Fault::Conflict(_))) {
                    sleep(by_chance(PAUSE));
                    done = session.run(&Execute(sql.to_owned()));
                }
            }
            match done {
                // It was quicker.
                Err(Fault::Exists(_)) => return Ok(()),
                done => done.map_err(|fault| self.explain(fault, session))?,
            }
        }
        changes.push(what.to_owned());
        Ok(())
    }

    /// What an account needs that may not do this.
    fn explain(&self, fault: Fault, session: &mut Session) -> Fault {
        match fault {
            Fault::Final(failure) if failure.reason == Reason::AccountRefused => {
                let account = session.run(&AskSessionInfo);
                let account =
                    account.map_or("the account".to_owned(), |info| info.quoted_account());
                let line = format!(
                    "{}; an administrator can GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER ON {}.* TO {account}, or \
                     run what dblock init --print prints",
                    failure.line,
                    quoted_identifier(self.database)
                );
                Fault::Final(Failure { line, ..failure })
            }
            fault => fault,
        }
    }

    fn set_version(&self, keep: Option<Keep>) -> String {
        let meta = Tables::new(self.database);
        let numbers = keep.map(|keep| [keep.time.as_secs().to_string(), keep.runs.to_string()]);
        let [seconds, runs] = numbers.clone().unwrap_or(["DEFAULT"; 2].map(str::to_owned));
        let kept = numbers.unwrap_or(["keep_seconds", "keep_runs"].map(str::to_owned));
        // A newer dblock may have upgraded them meanwhile.
        format!(
            "INSERT INTO {} (id, version, usable_from, keep_seconds, keep_runs, created_at) \
             VALUES (1, {VERSION}, {USABLE_FROM}, {seconds}, {runs}, UTC_TIMESTAMP(6)) \
             ON DUPLICATE KEY UPDATE usable_from = GREATEST(usable_from, {USABLE_FROM}), \
             version = GREATEST(version, {VERSION}), keep_seconds = {}, keep_runs = {}, upgraded_at = UTC_TIMESTAMP(6)",
            meta.meta(),
            kept[0],
            kept[1]
        )
    }
}

fn installed(session: &Session, version: u32, changes: Vec<String>) -> Installed {
    Installed {
        server: session.to_string(),
        version,
        changes,
    }
}

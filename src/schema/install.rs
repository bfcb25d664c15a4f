//! `dblock init`: creates what is missing. The order allows an interruption anywhere, repetition, and several at once.

use std::cell::Cell;
use std::thread::sleep;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::statements::{
    ask_columns, ask_database, ask_first_member, ask_other_engines, execute, take_turn,
};
use super::tables::Table;
use super::{
    TABLES, Tables, USABLE_FROM, VERSION, Version, ask_version, postgres, prepare, refuse_encoding,
};
use crate::base::clock::{Moment, by_chance};
use crate::base::exit::{Failure, Reason};
use crate::db::cluster::{NOT_JOINED, ask_has_not_joined, ask_multi_primary};
use crate::db::server_facts::{ask_session_info, is_read_only, why_read_only};
use crate::db::{Connector, Fault, Kind, Session, command, postgres_sql};

/// How long to wait for another init's turn to end, before a look whether it has made everything.
const ONE_WAIT: Duration = Duration::from_secs(1);

/// How long the server keeps an idle session, in seconds: if the host vanishes, other inits get their turn then.
const SESSION_LIMIT: u64 = 60;

/// The pause before the next round when no server can be used now.
const PAUSE: Duration = Duration::from_millis(100);

/// How often a change, or a look, that conflicts with another init's is retried.
const MOST_TRIES: u32 = 20;

/// How long the history is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// This long, in whole seconds.
    pub time: Duration,
    /// At least this many runs of each name.
    pub runs: u32,
}

/// The result of `dblock init`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Installed {
    /// The server.
    pub server: String,
    /// The version of the tables.
    pub version: u32,
    /// What was created or changed, or is missing, as SQL for the mysql client; empty: everything existed.
    pub changes: Vec<String>,
}

/// What a pass through the tables does with a change that they need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    Note,
    Make,
}

/// The changes that the tables need, or that were made.
struct Changes {
    pass: Pass,
    noted: Vec<String>,
}

/// Creates and upgrades tables.
pub struct Installer {
    /// The tables.
    pub tables: Tables,
    /// How long to keep the history; `None`: unchanged.
    pub keep: Option<Keep>,
    /// Whether to change nothing.
    pub only_checks: bool,
}

impl Installer {
    /// The longest wait for another init.
    pub const LONGEST_TURN: Duration = Duration::from_secs(30);

    /// The account of this user, named as in a GRANT statement.
    pub fn account(&self, user: &str) -> String {
        match self.tables.kind() {
            Kind::MySql => {
                let user = user.replace('\\', "\\\\").replace('\'', "''");
                format!("'{user}'@'%'")
            }
            Kind::Postgres => postgres_sql::quoted_identifier(user),
        }
    }

    /// The script that does the same on a server without the tables, for this account, named as in a GRANT statement.
    pub fn script(&self, account: &str) -> String {
        let (name, place) = (self.tables.name(), self.tables.quoted_name());
        let tables = self.all_tables().iter();
        let tables: String = tables.map(|table| self.create(table) + ";\n").collect();
        let (create, version) = (self.create_place(), self.version_row(""));
        match self.tables.kind() {
            Kind::MySql => format!(
                "{create};\n{tables}{version};\n\n\
                 -- For the account of --user, and once more for each other one that uses the tables:\n\
                 {};\n\
                 -- For an account that is to run dblock init, besides:\n\
                 -- GRANT CREATE, ALTER ON {place}.* TO {account};\n",
                self.tables.grant(account)
            ),
            Kind::Postgres => format!(
                "{create};\n{tables}{version};\n\n\
                 -- For the role of --user, and once more for each other one that uses the tables:\n\
                 {};\n\
                 -- For a role that is to run dblock init, besides, as only the owner may change a table:\n\
                 -- GRANT USAGE, CREATE ON SCHEMA {place} TO {account}; and make it the owner of the tables\n",
                postgres::grants(name, account).join(";\n")
            ),
        }
    }

    /// The tables that there are on servers of this kind.
    fn all_tables(&self) -> &'static [Table] {
        match self.tables.kind() {
            Kind::MySql => &TABLES,
            Kind::Postgres => &postgres::TABLES,
        }
    }

    /// The statement that creates the database, or the schema.
    fn create_place(&self) -> String {
        let what = self.tables.word().to_uppercase();
        format!("CREATE {what} IF NOT EXISTS {}", self.tables.quoted_name())
    }

    /// The statement that creates a table.
    fn create(&self, table: &Table) -> String {
        let place = self.tables.quoted_name();
        match self.tables.kind() {
            Kind::MySql => table.create(&place),
            Kind::Postgres => postgres::create(table, &place),
        }
    }

    /// Connects, within the `patience`, to the server through which tables are created: one that takes writes, and in a multi-primary
    /// group the first member. Two members that create a table at the same time would break the group.
    ///
    /// # Errors
    /// No further attempt can succeed, or the last problem.
    pub fn reach(&self, connector: &Connector, patience: Duration) -> Result<Session, Failure> {
        let begun = Moment::now();
        let accepts_read_only = Cell::new(false);
        let open = |session: &mut Session| {
            prepare(session)?;
            let limit = match session.kind() {
                Kind::MySql => {
                    let limit = format!("SET SESSION wait_timeout = {SESSION_LIMIT}");
                    command("init session", limit)
                }
                Kind::Postgres => postgres::end_when_idle("init session", SESSION_LIMIT),
            };
            session.run(&limit)?;
            if is_read_only(session)? {
                // Checking does no harm on a read-only server.
                let refused = || Fault::ReadOnly(why_read_only(session).to_owned());
                return accepts_read_only.get().then_some(()).ok_or_else(refused);
            }
            if self.only_checks || session.kind() == Kind::Postgres {
                return Ok(());
            }
            if session.try_run(&ask_has_not_joined())? == Ok(true) {
                return Err(Fault::ReadOnly(NOT_JOINED.to_owned()));
            }
            if !matches!(session.try_run(&ask_multi_primary())?, Ok(true)) {
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
            match session.run(&ask_first_member()).map_err(denied)? {
                None => Ok(()),
                Some(first) => Err(Fault::ReadOnly(format!(
                    "is in a multi-primary group, where the tables are to be made through one member only; run dblock \
                     init on {first}"
                ))),
            }
        };
        let (session, ()) = connector.reach_unless(open, |fault| match fault {
            Fault::ReadOnly(_) if self.only_checks && !accepts_read_only.replace(true) => {
                Ok(Duration::ZERO)
            }
            Fault::ReadOnly(line) if begun.elapsed() > patience => {
                Err(Failure::new(Reason::Configuration, line))
            }
            _ => Ok(PAUSE.max(connector.pause())),
        })?;
        Ok(session)
    }

    /// Creates what is missing, or only notes it.
    ///
    /// # Errors
    /// [`Reason::Configuration`] if the tables belong to a newer dblock or another program; [`Reason::AccountRefused`] with the missing
    /// privileges; [`Reason::Unreachable`] if another init is at work for too long.
    pub fn install(&self, session: &mut Session) -> Result<Installed, Fault> {
        refuse_encoding(session)?;
        let begun = Moment::now();
        let mut found = self.look(session)?;
        if self.only_checks {
            return Ok(found);
        }
        // Of many at once one takes a turn. The others find that nothing is missing any more.
        while !found.changes.is_empty() {
            if self.take_turn(session)? {
                found = self.go_through(session, Pass::Make)?;
                break;
            }
            if begun.elapsed() + ONE_WAIT > Self::LONGEST_TURN {
                let line = format!("another dblock init is at work on {session}; try again");
                return Err(Fault::Final(Failure::new(Reason::Unreachable, line)));
            }
            found = self.look(session)?;
        }
        self.check_privileges(session)?;
        Ok(found)
    }

    /// Notes what is missing. Another init that changes a table may get in the way of a look, which is repeated then.
    fn look(&self, session: &mut Session) -> Result<Installed, Fault> {
        for _ in 1..MOST_TRIES {
            match self.go_through(session, Pass::Note) {
                Err(Fault::Conflict(_)) => sleep(by_chance(PAUSE)),
                found => return found,
            }
        }
        self.go_through(session, Pass::Note)
    }

    /// Compares the tables with what they are to be.
    fn go_through(&self, session: &mut Session, pass: Pass) -> Result<Installed, Fault> {
        let mut changes = Changes {
            pass,
            noted: Vec::new(),
        };
        let exists = match self.tables.kind() {
            Kind::MySql => ask_database(self.tables.name()),
            Kind::Postgres => postgres::ask_schema(self.tables.name()),
        };
        let mut is_there = session.run(&exists)?;
        // MySQL and MariaDB show an account only the databases that it may use. What it asks any other they refuse.
        if !is_there && self.only_checks && self.tables.kind() == Kind::MySql {
            is_there = self.version(session)?.is_some();
        }
        if !is_there {
            let what = self.tables.place();
            self.change(session, &self.create_place(), &what, &mut changes)?;
            if pass == Pass::Note {
                return Ok(installed(session, VERSION, changes.noted));
            }
        }
        let version = self.version(session)?;
        // The tables of a newer dblock are left as they are.
        let is_newer = version.is_some_and(|found| found.version > VERSION);
        if !is_newer {
            let is_current = version.is_some_and(|found| found.version == VERSION);
            self.complete(is_current, session, &mut changes)?;
        }
        if version.is_none_or(|found| found.version < VERSION) || self.keep.is_some() {
            let what = match (version, self.keep) {
                (Some(found), Some(_)) if found.version >= VERSION => {
                    "how long the history is kept".to_owned()
                }
                _ => format!("version {VERSION}"),
            };
            self.change(session, &self.upgrade(), &what, &mut changes)?;
        }
        let version = version.map_or(VERSION, |found| found.version.max(VERSION));
        Ok(installed(session, version, changes.noted))
    }

    /// Waits a while for the turn to change the same tables. `false`: another init has it.
    fn take_turn(&self, session: &mut Session) -> Result<bool, Fault> {
        let name = self.tables.name();
        if self.tables.kind() == Kind::MySql {
            let turn = session.try_run(&take_turn(name, ONE_WAIT.as_secs()))?;
            // Without named locks, several at once do no harm either: each step may find its work done.
            return Ok(!matches!(turn, Ok(false)));
        }
        // A statement that waits would keep the server from removing old rows.
        let begun = Moment::now();
        while !session.run(&postgres::try_turn(name))? {
            if begun.elapsed() > ONE_WAIT {
                return Ok(false);
            }
            sleep(by_chance(PAUSE));
        }
        Ok(true)
    }

    /// Uses every table in each way that dblock does, without an effect. An account that lacks a privilege cannot grant it to itself:
    /// servers let an account grant only what it has.
    fn check_privileges(&self, session: &mut Session) -> Result<(), Fault> {
        let uses = match self.tables.kind() {
            Kind::MySql => self.uses(),
            Kind::Postgres => postgres::uses(&self.tables.quoted_name()),
        };
        for sql in uses {
            let answer = session.run(&execute(&sql));
            answer.map_err(|fault| self.explain_use(fault, session))?;
        }
        Ok(())
    }

    /// Adds the missing privileges to a refusal to use the tables, which are whole.
    fn explain_use(&self, fault: Fault, session: &mut Session) -> Fault {
        match fault {
            Fault::Final(failure)
                if failure.reason == Reason::AccountRefused && session.kind() == Kind::Postgres =>
            {
                let info = session.run(&ask_session_info(session.kind())).ok();
                let grant = info.map_or_else(
                    || self.tables.grant("the role"),
                    |info| self.tables.grant_to(&info),
                );
                let line = format!("{}; their owner can {grant}", failure.line);
                Fault::Final(Failure { line, ..failure })
            }
            fault => self.explain(fault, session),
        }
    }

    fn uses(&self) -> Vec<String> {
        let database = self.tables.quoted_name();
        let named = |table: &Table| format!("{database}.{}", table.name);
        let all = TABLES.each_ref().map(named).join(", ");
        let unchanged = TABLES.each_ref().map(|table| {
            let (column, _) = table.columns[0];
            format!("{0}.{column} = {0}.{column}", named(table))
        });
        let uses = [
            format!("SELECT 1 FROM {all} WHERE FALSE"),
            format!("UPDATE {all} SET {} WHERE FALSE", unchanged.join(", ")),
            format!("DELETE FROM {all} USING {all} WHERE FALSE"),
        ];
        let inserts = TABLES.each_ref().map(|table| {
            let table = named(table);
            format!("INSERT INTO {table} SELECT * FROM {table} WHERE FALSE")
        });
        uses.into_iter().chain(inserts).collect()
    }

    /// Creates missing tables, columns, defaults and keys. `is_current`: the tables say that they are of this version.
    fn complete(
        &self,
        is_current: bool,
        session: &mut Session,
        changes: &mut Changes,
    ) -> Result<(), Fault> {
        let (kind, name, tables) = (self.tables.kind(), self.tables.name(), self.all_tables());
        let (found, engines) = match kind {
            Kind::MySql => (
                session.run(&ask_columns(name, tables))?,
                session.run(&ask_other_engines(name, tables))?,
            ),
            Kind::Postgres => (
                session.run(&postgres::ask_columns(name, tables))?,
                Vec::new(),
            ),
        };
        let has = |table: &Table, column: &str| {
            let wanted = column.to_lowercase();
            let mut columns = found.iter();
            columns.any(|(of, found)| of == table.name && *found == wanted)
        };
        // Another init may create a table while the server answers: its keys are then found, and no column. To create it says that it
        // exists.
        let is_column = |found: &str| !found.contains(' ');
        let exists = |table: &Table| {
            let mut found = found.iter();
            found.any(|(of, found)| of == table.name && is_column(found))
        };
        // If one of the tables is not dblock's, nothing is changed.
        for table in tables.iter().filter(|table| exists(table)) {
            let mut keys = table.primary_key.split(", ");
            if let Some(key) = keys.find(|key| !has(table, key)) {
                let line = format!(
                    "the table {} in the {} of {session} is not dblock's: it has no column {key}; use another {}",
                    table.name,
                    self.tables.place(),
                    self.tables.option()
                );
                return Err(Fault::Final(Failure::new(Reason::Configuration, line)));
            }
        }
        let database = self.tables.quoted_name();
        for table in tables {
            if !exists(table) {
                if is_current && self.only_checks && kind == Kind::MySql {
                    self.refuse_if_hidden(table, session)?;
                }
                let what = format!("table {}", table.name);
                self.change(session, &self.create(table), &what, changes)?;
                continue;
            }
            if engines.iter().any(|other| other == table.name) {
                let alter = format!("ALTER TABLE {database}.{} ENGINE=InnoDB", table.name);
                let what = format!("engine InnoDB of {}", table.name);
                self.change(session, &alter, &what, changes)?;
            }
            let columns = table.columns.iter();
            for (column, of) in columns.filter(|(column, _)| !has(table, column)) {
                let definition = match kind {
                    Kind::MySql => format!("{column} {of}"),
                    Kind::Postgres => postgres::definition(table, (column, of)),
                };
                let add = format!(
                    "ALTER TABLE {database}.{} ADD COLUMN {definition}",
                    table.name
                );
                let what = format!("column {}.{column}", table.name);
                self.change(session, &add, &what, changes)?;
            }
            let is_other = |column: &str, default: &str| {
                has(table, column) && !has(table, &format!("default {column} {default}"))
            };
            let defaults = table.defaults();
            for (column, default) in defaults.filter(|(column, default)| is_other(column, default))
            {
                let alter = format!(
                    "ALTER TABLE {database}.{} ALTER COLUMN {column} SET DEFAULT {default}",
                    table.name
                );
                let what = format!("default of {}.{column}", table.name);
                self.change(session, &alter, &what, changes)?;
            }
            let keys = table.keys.iter();
            for (key, columns) in keys.filter(|(key, _)| !has(table, &format!("key {key}"))) {
                let add = match kind {
                    Kind::MySql => format!(
                        "ALTER TABLE {database}.{} ADD KEY {key} ({columns})",
                        table.name
                    ),
                    Kind::Postgres => postgres::create_index(table, (key, columns), &database),
                };
                let what = format!("key {}.{key}", table.name);
                self.change(session, &add, &what, changes)?;
            }
        }
        Ok(())
    }

    /// A table that is not seen may be there: MySQL and MariaDB show an account only the tables that it may use.
    fn refuse_if_hidden(&self, table: &Table, session: &mut Session) -> Result<(), Fault> {
        let sql = format!("SELECT 1 FROM {} WHERE FALSE", self.tables.of(table));
        match session.run(&execute(&sql)) {
            Ok(()) | Err(Fault::NoSuchTable(_)) => Ok(()),
            Err(fault) => Err(self.tables.explain(fault)),
        }
    }

    fn version(&self, session: &mut Session) -> Result<Option<Version>, Fault> {
        let found = match session.run(&ask_version(&self.tables)) {
            Err(Fault::NoSuchTable(_)) => return Ok(None),
            Err(fault) if self.only_checks => return Err(self.tables.explain(fault)),
            found => found.map_err(|fault| self.explain(fault, session))?,
        };
        if let Some(failure) = found.and_then(|found| self.tables.too_new(found, session)) {
            return Err(Fault::Final(failure));
        }
        Ok(found)
    }

    /// Runs a change, unless nothing may be changed, and notes it.
    fn change(
        &self,
        session: &mut Session,
        sql: &str,
        what: &str,
        changes: &mut Changes,
    ) -> Result<(), Fault> {
        if changes.pass == Pass::Make {
            let mut done = session.run(&execute(sql));
            for _ in 1..MOST_TRIES {
                // Another init is at work at the same time, if each node has its own named locks.
                if matches!(done, Err(Fault::Conflict(_))) {
                    sleep(by_chance(PAUSE));
                    done = session.run(&execute(sql));
                }
            }
            match done {
                // Another init was faster.
                Err(Fault::Exists(_)) => return Ok(()),
                done => done.map_err(|fault| self.explain(fault, session))?,
            }
        }
        changes.noted.push(what.to_owned());
        Ok(())
    }

    /// Adds the missing privileges to a refusal.
    fn explain(&self, fault: Fault, session: &mut Session) -> Fault {
        match fault {
            Fault::Final(failure) if failure.reason == Reason::AccountRefused => {
                let info = session.run(&ask_session_info(session.kind())).ok();
                let name = self.tables.quoted_name();
                let grant = match (self.tables.kind(), info) {
                    (Kind::MySql, info) => {
                        let account =
                            info.map_or("the account".to_owned(), |info| info.quoted_account());
                        Some(format!(
                            "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER ON {name}.* TO {account}"
                        ))
                    }
                    (Kind::Postgres, info) => {
                        let role = info.map(|info| postgres_sql::quoted_identifier(&info.account));
                        let role = role.unwrap_or("the role".to_owned());
                        let may_create = postgres::ask_may_create(self.tables.name());
                        match session.run(&may_create) {
                            Ok(Some(true)) => None,
                            Ok(Some(false)) => {
                                Some(format!("GRANT USAGE, CREATE ON SCHEMA {name} TO {role}"))
                            }
                            _ => Some(format!("CREATE SCHEMA {name} AUTHORIZATION {role}")),
                        }
                    }
                };
                let advice = grant.map_or_else(
                    || "its tables are another role's, which can run dblock init".to_owned(),
                    |grant| {
                        format!(
                            "an administrator can {grant}, or run what dblock init --print prints"
                        )
                    },
                );
                let line = format!("{}; {advice}", failure.line);
                Fault::Final(Failure { line, ..failure })
            }
            fault => fault,
        }
    }

    /// Notes the version of tables that are complete. A newer dblock may have upgraded them meanwhile.
    fn upgrade(&self) -> String {
        let meta = self.tables.meta();
        self.version_row(&format!(
            "usable_from = GREATEST({meta}.usable_from, {USABLE_FROM}), version = GREATEST({meta}.version, {VERSION}), \
             upgraded_at = {}, ",
            self.tables.kind().now()
        ))
    }

    /// Inserts the row of new tables. If it is there, this changes how long the history is kept, and `besides`.
    fn version_row(&self, besides: &str) -> String {
        let (kind, meta) = (self.tables.kind(), self.tables.meta());
        let numbers = self.keep;
        let numbers = numbers.map(|keep| [keep.time.as_secs().to_string(), keep.runs.to_string()]);
        let [seconds, runs] = numbers.clone().unwrap_or(["DEFAULT"; 2].map(str::to_owned));
        let [kept_seconds, kept_runs] = numbers
            .unwrap_or(["keep_seconds", "keep_runs"].map(|column| format!("{meta}.{column}")));
        format!(
            "INSERT INTO {meta} (id, version, usable_from, keep_seconds, keep_runs, created_at) \
             VALUES (1, {VERSION}, {USABLE_FROM}, {seconds}, {runs}, {}) \
             {} {besides}keep_seconds = {kept_seconds}, keep_runs = {kept_runs}",
            kind.now(),
            kind.if_there("id")
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

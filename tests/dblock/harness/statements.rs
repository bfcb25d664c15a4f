//! Simple statements in MySQL's words, which a server of either kind is asked, and what else a test wants of a server's tables.

use std::sync::{Mutex, PoisonError};

use mysql::Params;
use mysql::prelude::Queryable;

use super::postgres::in_its_words;
use super::texts::{FromTexts, Texts, of_mysql};
use super::{Client, Kind, Server};

/// Each call as the `mysql` crate has it.
impl Client {
    fn texts(&mut self, statement: &str) -> Result<Vec<Texts>, String> {
        match self {
            Self::MySql(client) => {
                let rows = client.query_map(statement, of_mysql);
                rows.map_err(|error| error.to_string())
            }
            Self::Postgres(client) => {
                let rows = client.try_query(&in_its_words(statement));
                rows.map_err(|error| error.to_string())
            }
        }
    }

    /// The statement with a value in the place of each `?`.
    fn filled(&self, statement: &str, values: Params) -> String {
        let Params::Positional(values) = values else {
            return statement.to_owned();
        };
        let has_backslashes = matches!(self, Self::MySql(_));
        let mut parts = statement.split('?');
        let first = parts.next().unwrap_or_default().to_owned();
        let parts: Vec<&str> = parts.collect();
        assert_eq!(parts.len(), values.len(), "{statement}");
        let filled = values
            .iter()
            .zip(parts)
            .map(|(value, part)| value.as_sql(!has_backslashes) + part);
        first + &filled.collect::<String>()
    }

    pub fn query<T: FromTexts>(&mut self, query: &str) -> Result<Vec<T>, String> {
        Ok(self.texts(query)?.into_iter().map(T::from_texts).collect())
    }

    pub fn query_drop(&mut self, statement: impl AsRef<str>) -> Result<(), String> {
        self.texts(statement.as_ref()).map(|_| ())
    }

    pub fn exec<T: FromTexts>(
        &mut self,
        query: impl AsRef<str>,
        values: impl Into<Params>,
    ) -> Result<Vec<T>, String> {
        let query = self.filled(query.as_ref(), values.into());
        self.query(&query)
    }

    pub fn exec_first<T: FromTexts>(
        &mut self,
        query: impl AsRef<str>,
        values: impl Into<Params>,
    ) -> Result<Option<T>, String> {
        Ok(self.exec(query, values)?.into_iter().next())
    }

    pub fn exec_drop(
        &mut self,
        statement: impl AsRef<str>,
        values: impl Into<Params>,
    ) -> Result<(), String> {
        let statement = self.filled(statement.as_ref(), values.into());
        self.query_drop(statement)
    }
}

impl Client {
    /// Locks rows of a table, until the end of this transaction.
    #[track_caller]
    pub fn lock(&mut self, rows: &str) {
        self.query_drop("START TRANSACTION").unwrap();
        self.query_drop(format!("SELECT * FROM {rows} FOR UPDATE"))
            .unwrap();
    }
}

impl Server {
    /// Gives an account these privileges on a table of a database, which need not exist, or of a schema; `*`: on all of them.
    pub fn grant(&self, privileges: &str, database: &str, table: &str, account: &str) {
        // PostgreSQL refuses a grant on what another session is just granting on.
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut admin = self.watcher();
        let grant = if self.kind == Kind::Postgres {
            let using = format!("GRANT USAGE ON SCHEMA \"{database}\" TO \"{account}\"");
            admin.query_drop(using).expect("the admin may do that");
            let on = match table {
                "*" => format!("ALL TABLES IN SCHEMA \"{database}\""),
                table => format!("\"{database}\".{table}"),
            };
            format!("GRANT {privileges} ON {on} TO \"{account}\"")
        } else {
            let mut database = format!("`{}`", database.replace('`', "``"));
            if table == "*" {
                // In a grant on a database `_` and `%` stand for any characters.
                database = database.replace('_', "\\_").replace('%', "\\%");
            }
            format!("GRANT {privileges} ON {database}.{table} TO '{account}'@'%'")
        };
        admin.query_drop(grant).expect("the admin may do that");
    }

    /// Lets an account end the sessions of others.
    pub fn may_end_sessions(&self, account: &str) {
        let grant = match self.kind {
            Kind::MySql => format!("GRANT CONNECTION_ADMIN ON *.* TO '{account}'@'%'"),
            Kind::MariaDb => format!("GRANT CONNECTION ADMIN ON *.* TO '{account}'@'%'"),
            Kind::Postgres => format!("GRANT pg_signal_backend TO \"{account}\""),
        };
        self.watcher()
            .query_drop(grant)
            .expect("the admin may do that");
    }

    /// How many sessions an account has.
    pub fn sessions_of(&self, account: &str) -> usize {
        let sessions = match self.kind {
            Kind::MariaDb | Kind::MySql => {
                "SELECT COUNT(*) FROM information_schema.processlist WHERE user = ?"
            }
            Kind::Postgres => "SELECT COUNT(*) FROM pg_stat_activity WHERE usename = ?",
        };
        let count = self.watcher().exec_first(sessions, (account,));
        count.expect("an answer").expect("a number")
    }

    /// How many sessions wait for the answer to a statement of dblock's with this in it.
    pub fn answering(&self, part: &str) -> usize {
        let like = format!("%{part}%");
        let (sessions, own) = match self.kind {
            Kind::MariaDb | Kind::MySql => (
                "information_schema.processlist WHERE INFO LIKE ?",
                "ID <> CONNECTION_ID()",
            ),
            Kind::Postgres => (
                "pg_stat_activity WHERE state = 'active' AND query LIKE ?",
                "pid <> pg_backend_pid()",
            ),
        };
        let query = format!("SELECT COUNT(*) FROM {sessions} AND {own}");
        let count = self.watcher().exec_first(query, (like,));
        count.expect("an answer").expect("a number")
    }

    /// Has a table in the default place refuse rows as on a full disk, until [`Server::has_room`].
    pub fn has_no_room(&self, what: &str, table: &str) {
        let mut admin = self.watcher();
        let statements = match self.kind {
            Kind::MariaDb | Kind::MySql => vec![format!(
                "CREATE TRIGGER dblock.no_room BEFORE {what} ON dblock.{table} FOR EACH ROW SIGNAL SQLSTATE 'HY000' \
                 SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'"
            )],
            Kind::Postgres => vec![
                "CREATE FUNCTION dblock.no_room() RETURNS trigger LANGUAGE plpgsql AS \
                 $$BEGIN RAISE 'The table is full' USING ERRCODE = '53100'; END$$"
                    .to_owned(),
                format!(
                    "CREATE TRIGGER no_room BEFORE {what} ON dblock.{table} FOR EACH ROW EXECUTE FUNCTION dblock.no_room()"
                ),
            ],
        };
        for statement in statements {
            admin.query_drop(statement).expect("the admin may do that");
        }
    }

    pub fn has_room(&self) {
        let drop = match self.kind {
            Kind::MariaDb | Kind::MySql => "DROP TRIGGER dblock.no_room",
            Kind::Postgres => "DROP FUNCTION dblock.no_room CASCADE",
        };
        self.watcher()
            .query_drop(drop)
            .expect("the admin may do that");
    }

    /// What makes a private server of this kind keep what it has committed when it is killed.
    pub fn private_that_keeps(kind: Kind) -> Self {
        let options: &[&str] = match kind {
            Kind::MariaDb | Kind::MySql => &["--innodb-flush-log-at-trx-commit=1"],
            Kind::Postgres => &["-c", "synchronous_commit=on"],
        };
        Self::private_with(kind, options)
    }
}

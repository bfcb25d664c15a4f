//! dblock's tables, in a database of a test's own, or on PostgreSQL in a schema.

use std::sync::PoisonError;

use mysql::Conn;
use mysql::prelude::Queryable;

use super::postgres::{Postgres, in_its_words};
use super::texts::FromTexts;
use super::{Client, Dblock, Kind, Server, unique};

/// The tables that version 2 brought, for queues, without `dblock_`.
pub const OF_QUEUES: [&str; 12] = [
    "queues",
    "jobs",
    "job_parts",
    "due",
    "delayed",
    "running",
    "dead",
    "done",
    "job_keys",
    "workers",
    "queue_minutes",
    "puts",
];

/// The tables that version 3 brought, for the crontab, without `dblock_`.
pub const OF_CRON: [&str; 3] = ["cron_jobs", "cron_ticks", "cron_daemons"];

/// dblock's tables, which the account `dblock` may use, in a database that is gone with this.
#[derive(Debug)]
pub struct Tables<'a> {
    pub server: &'a Server,
    /// The database, or the schema.
    pub database: String,
    /// Whether another test may use it next.
    is_spare: bool,
}

impl<'a> Tables<'a> {
    /// New ones, or some that are as new.
    #[track_caller]
    pub fn new(server: &'a Server) -> Self {
        let Some(spares) = &server.spares else {
            return Self::with(server, &[]);
        };
        let locked = || spares.lock().unwrap_or_else(PoisonError::into_inner);
        let mut admin = server.admin();
        if let Some(database) = locked().take(&mut admin) {
            return Self {
                server,
                database,
                is_spare: true,
            };
        }
        let mut tables = Self::with(server, &[]);
        locked().learn(&mut admin, &tables.database);
        tables.is_spare = true;
        tables
    }

    /// New ones, made with more options of `dblock init`.
    #[track_caller]
    pub fn with(server: &'a Server, options: &[&str]) -> Self {
        let tables = Self::missing(server);
        tables.init().args(options).output().expect_code(0);
        tables
    }

    /// A database, which the account may use, without the tables.
    pub fn missing(server: &'a Server) -> Self {
        Self::named(server, &unique("tables"))
    }

    /// The same by this name, which must be free.
    pub fn named(server: &'a Server, database: &str) -> Self {
        let tables = Self {
            server,
            database: database.to_owned(),
            is_spare: false,
        };
        if server.kind == Kind::Postgres {
            let create = format!("CREATE SCHEMA {} AUTHORIZATION dblock", tables.quoted());
            server.postgres().run(&create);
        } else {
            tables.grant("SELECT, INSERT, UPDATE, DELETE", "dblock");
        }
        tables
    }

    /// What its server is.
    pub fn kind(&self) -> Kind {
        self.server.kind
    }

    /// Gives an account of the server these privileges on the database, which need not exist, or on all that is in the schema.
    pub fn grant(&self, privileges: &str, account: &str) {
        self.server.grant(privileges, &self.database, "*", account);
    }

    /// The name of the database, quoted.
    pub fn quoted(&self) -> String {
        if self.server.kind == Kind::Postgres {
            return format!("\"{}\"", self.database);
        }
        format!("`{}`", self.database.replace('`', "``"))
    }

    /// `dblock init`, by an account that may do everything, or on PostgreSQL by the owner of the schema.
    pub fn init(&self) -> Dblock {
        if self.server.kind == Kind::Postgres {
            return self.at("init");
        }
        self.at("init")
            .user("admin")
            .env("DBLOCK_PASSWORD", "admin-secret")
    }

    /// `dblock COMMAND`, which uses the tables.
    pub fn at(&self, command: &str) -> Dblock {
        Dblock::at(self.server, command).env(self.server.kind.place(), &self.database)
    }

    /// A plain client with every privilege, in the database, which must exist.
    pub fn admin(&self) -> Conn {
        let mut admin = self.server.admin();
        let using = format!("USE {}", self.quoted());
        admin.query_drop(using).expect("the database is there");
        admin
    }

    /// A session of PostgreSQL with every privilege, in the schema.
    pub fn postgres(&self) -> Postgres {
        let mut admin = self.server.postgres();
        admin.run(&format!("SET search_path TO {}", self.quoted()));
        admin
    }

    /// A session of either kind with every privilege, there.
    pub fn client(&self) -> Client {
        match self.server.kind {
            Kind::Postgres => Client::Postgres(self.postgres()),
            Kind::MariaDb | Kind::MySql => Client::MySql(self.admin()),
        }
    }

    /// Carries out a statement of MySQL's there, with every privilege.
    #[track_caller]
    pub fn sql(&self, statement: &str) {
        let done = self.client().query_drop(statement);
        done.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }

    /// How many rows a statement of MySQL's changes there; `None`: the server refuses it.
    pub fn try_change(&self, statement: &str) -> Option<u64> {
        if self.server.kind == Kind::Postgres {
            let statement = format!("{} RETURNING 1", in_its_words(statement));
            let rows = self.postgres().try_query(&statement).ok()?;
            return u64::try_from(rows.len()).ok();
        }
        let mut admin = self.admin();
        admin.query_drop(statement).ok()?;
        Some(admin.affected_rows())
    }

    /// Locks rows of a table, until this is dropped.
    #[track_caller]
    pub fn lock(&self, rows: &str) -> Client {
        let mut session = self.client();
        session.lock(rows);
        session
    }

    /// The rows of a query of MySQL's, with every privilege.
    #[track_caller]
    pub fn rows<T: FromTexts>(&self, query: &str) -> Vec<T> {
        let rows = self.client().query(query);
        rows.unwrap_or_else(|error| panic!("{query}: {error}"))
    }
}

impl Drop for Tables<'_> {
    fn drop(&mut self) {
        // The server may have been stopped.
        if self.server.kind == Kind::Postgres {
            if let Ok(mut admin) = Postgres::of_admin((self.server.address, self.server.port)) {
                let _ =
                    admin.try_query(&format!("DROP SCHEMA IF EXISTS {} CASCADE", self.quoted()));
            }
            return;
        }
        if let Ok(mut admin) = self.server.connect("admin", "admin-secret") {
            if let Some(spares) = &self.server.spares
                && self.is_spare
                && !std::thread::panicking()
            {
                let mut spares = spares.lock().unwrap_or_else(PoisonError::into_inner);
                return spares.give_back(&mut admin, std::mem::take(&mut self.database));
            }
            let drop = format!("DROP DATABASE IF EXISTS {}", self.quoted());
            let _ = admin.query_drop(drop);
        }
    }
}

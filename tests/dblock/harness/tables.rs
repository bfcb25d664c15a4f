//! dblock's tables, in a database of a test's own.

use mysql::Conn;
use mysql::prelude::Queryable;

use super::{Dblock, Server, unique};

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
    server: &'a Server,
    /// The database.
    pub database: String,
}

impl<'a> Tables<'a> {
    /// New ones.
    #[track_caller]
    pub fn new(server: &'a Server) -> Self {
        Self::with(server, &[])
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
        };
        tables.grant("SELECT, INSERT, UPDATE, DELETE", "dblock");
        tables
    }

    /// Gives an account of the server these privileges on the database, which need not exist.
    pub fn grant(&self, privileges: &str, account: &str) {
        // In a grant `_` and `%` stand for any characters.
        let database = self.quoted().replace('_', "\\_").replace('%', "\\%");
        let grant = format!("GRANT {privileges} ON {database}.* TO '{account}'@'%'");
        let mut admin = self.server.admin();
        admin.query_drop(grant).expect("the admin may do that");
    }

    /// The name of the database, quoted.
    pub fn quoted(&self) -> String {
        format!("`{}`", self.database.replace('`', "``"))
    }

    /// `dblock init`, by an account that may do everything.
    pub fn init(&self) -> Dblock {
        self.at("init")
            .user("admin")
            .env("DBLOCK_PASSWORD", "admin-secret")
    }

    /// `dblock COMMAND`, which uses the tables.
    pub fn at(&self, command: &str) -> Dblock {
        Dblock::at(self.server, command).env("DBLOCK_DATABASE", &self.database)
    }

    /// A plain client with every privilege, in the database, which must exist.
    pub fn admin(&self) -> Conn {
        let mut admin = self.server.admin();
        let using = format!("USE {}", self.quoted());
        admin.query_drop(using).expect("the database is there");
        admin
    }

    /// Carries out a statement in the database, with every privilege.
    #[track_caller]
    pub fn sql(&self, statement: &str) {
        let done = self.admin().query_drop(statement);
        done.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

impl Drop for Tables<'_> {
    fn drop(&mut self) {
        // The server may have been stopped.
        if let Ok(mut admin) = self.server.connect("admin", "admin-secret") {
            let drop = format!("DROP DATABASE IF EXISTS {}", self.quoted());
            let _ = admin.query_drop(drop);
        }
    }
}

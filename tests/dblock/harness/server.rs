//! Private MariaDB, MySQL and PostgreSQL servers, started and ended by `script/server`.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};

use super::namespace::Namespace;
use super::postgres::{self, DATABASE, Postgres};
use super::spares::Spares;
use super::{ADMIN, Dblock, Frozen, PASSWORD, SOON, children_of, eventually, reused};

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    MariaDb,
    MySql,
    Postgres,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::MariaDb => "mariadb",
            Self::MySql => "mysql",
            Self::Postgres => "postgres",
        })
    }
}

impl Kind {
    /// The variable that names the database of dblock's tables there, or their schema.
    pub fn place(self) -> &'static str {
        match self {
            Self::Postgres => "DBLOCK_SCHEMA",
            Self::MariaDb | Self::MySql => "DBLOCK_DATABASE",
        }
    }
}

/// A running server. It ends, and its folder goes, when this is dropped and no other test gets it, or the test process ends, however that
/// ends: its script reads a pipe that only this process holds open.
#[derive(Debug)]
pub struct Server {
    pub kind: Kind,
    pub address: Ipv4Addr,
    pub port: u16,
    pub socket: PathBuf,
    /// Its folder, with its error.log.
    pub dir: PathBuf,
    /// Whether a run here is meant to be `--durable`.
    pub durable: bool,
    /// Databases that the next test may use; `None`: each test makes its own.
    pub spares: Option<Mutex<Spares>>,
    /// `None`: it is another one's by now.
    talk: Option<Mutex<Talk>>,
    #[allow(dead_code, reason = "it lasts as long as this is kept")]
    host: Option<(Namespace, Ipv4Addr)>,
    /// What another test may rely on that gets it next; `None`: it ends with this one.
    pub new: Option<reused::New>,
}

/// How a server is started, beyond what its kind says.
#[derive(Debug, Default)]
pub struct Setup {
    /// More options for the server program.
    pub options: Vec<String>,
    /// Options for the server program at its first start alone.
    pub first: Vec<String>,
    /// By how many seconds its clock is ahead.
    pub clock: i32,
    /// Whether its folder is on the disk. Where it is in memory, MariaDB maps its log, and loses nothing of it when it is killed.
    pub is_on_disk: bool,
    /// PostgreSQL: files that it reads a copy of, as `SETTING=PATH`.
    pub files: Vec<String>,
    /// PostgreSQL: the port of the primary that it is a standby of.
    pub standby_of: Option<u16>,
    /// Where it runs, and the address that clients reach it at; else it runs where the tests do.
    pub host: Option<(Namespace, Ipv4Addr)>,
}

/// The script that runs the server: commands in, `key=value` lines and a last word out.
#[derive(Debug)]
struct Talk {
    script: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    pid: i32,
}

impl Server {
    /// The server that all tests of this process share. Whoever stops, fills or reconfigures one needs a private one.
    pub fn shared(kind: Kind) -> &'static Self {
        static MARIADB: LazyLock<Server> =
            LazyLock::new(|| Server::private(Kind::MariaDb).with_spares());
        static MYSQL: LazyLock<Server> =
            LazyLock::new(|| Server::private(Kind::MySql).with_spares());
        static POSTGRES: LazyLock<Server> = LazyLock::new(|| Server::private(Kind::Postgres));
        match kind {
            Kind::MariaDb => &MARIADB,
            Kind::MySql => &MYSQL,
            Kind::Postgres => &POSTGRES,
        }
    }

    /// The server that all tests of this process share which try with durable locks what they try with named ones.
    pub fn durable(kind: Kind) -> &'static Self {
        static MARIADB: LazyLock<Server> =
            LazyLock::new(|| Server::private(Kind::MariaDb).with_durable_runs());
        static MYSQL: LazyLock<Server> =
            LazyLock::new(|| Server::private(Kind::MySql).with_durable_runs());
        static POSTGRES: LazyLock<Server> =
            LazyLock::new(|| Server::private(Kind::Postgres).with_durable_runs());
        match kind {
            Kind::MariaDb => &MARIADB,
            Kind::MySql => &MYSQL,
            Kind::Postgres => &POSTGRES,
        }
    }

    /// The same server, with dblock's tables, where a run is meant to be `--durable`.
    pub fn with_durable_runs(mut self) -> Self {
        self.make_tables();
        self.durable = true;
        self
    }

    /// The same server, where tests use the databases of earlier ones.
    pub fn with_spares(mut self) -> Self {
        self.spares = Some(Mutex::default());
        self
    }

    /// Makes dblock's tables in the database of the default name, and lets the account `dblock` use them.
    pub fn make_tables(&self) {
        if self.kind == Kind::Postgres {
            let mut admin = self.postgres();
            admin.run("CREATE SCHEMA dblock AUTHORIZATION dblock");
            Dblock::at(self, "init").output().expect_code(0);
            return;
        }
        Dblock::at(self, "init")
            .env("DBLOCK_USER", "admin")
            .env("DBLOCK_PASSWORD", "admin-secret")
            .output()
            .expect_code(0);
        self.admin()
            .query_drop("GRANT SELECT, INSERT, UPDATE, DELETE ON dblock.* TO 'dblock'@'%'")
            .expect("the admin may do that");
    }

    /// Who owns the row of a slot of a durable lock, if somebody does.
    pub fn owner(&self, name: &str, slot: u32) -> Option<String> {
        let query = "SELECT owner FROM dblock.dblock_locks WHERE name = ? AND slot = ?";
        let row: Option<Option<String>> = self
            .watcher()
            .exec_first(query, (name, slot))
            .expect("the table");
        row.flatten()
    }

    /// A row of a durable lock that somebody has of whom nothing is known, and which expires so many seconds from now.
    pub fn row_of_a_stranger(&self, name: &str, slot: u32, expires_in: i32) {
        let owner = getrandom::u64().expect("random bits");
        let insert = format!(
            "INSERT INTO dblock.dblock_locks
             (name, slot, fence, owner, write_id, kind, ttl_seconds, acquired_at, renewed_at, expires_at)
             VALUES ('{name}', {slot}, 7, '{owner:032x}', 1, 'run', 60, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6),
                     UTC_TIMESTAMP(6) + INTERVAL {expires_in} SECOND)"
        );
        self.watcher().query_drop(insert).expect("a new row");
    }

    /// Has the history say whose the run is that holds a slot: web2, pid 4711, user app, program report.
    pub fn name_run(&self, name: &str) {
        let run = self.owner(name, 0).expect("somebody holds it");
        let mut admin = self.watcher();
        let delete = "DELETE FROM dblock.dblock_runs WHERE run = ?";
        admin.exec_drop(delete, (&run,)).expect("the history");
        let insert = "INSERT INTO dblock.dblock_runs (run, name, host, pid, user, program, connection, requested_at)
                      VALUES (?, ?, 'web2', 4711, 'app', 'report', 99999999, UTC_TIMESTAMP(6))";
        admin
            .exec_drop(insert, (run, name))
            .expect("a row of the history");
    }

    /// The MariaDB that all tests of this process share and that has PARSEC passwords, with that plugin loaded.
    pub fn with_parsec() -> &'static Self {
        static NEW: LazyLock<Server> = LazyLock::new(|| {
            let plugin = ["--plugin-load-add=auth_parsec"];
            Server::start_script(Kind::MariaDb, "mariadb-new", Setup::of(&plugin))
        });
        &NEW
    }

    /// The PostgreSQL that all tests of this process share and that is newer than the other ones, 17 or newer, with dblock's tables.
    pub fn newer_postgres() -> &'static Self {
        static NEW: LazyLock<Server> = LazyLock::new(|| {
            let server = Server::newer_postgres_with(&[]);
            server.make_tables();
            server
        });
        &NEW
    }

    /// A PostgreSQL for one test, 17 or newer, with more options for the server program.
    pub fn newer_postgres_with(options: &[&str]) -> Self {
        Self::start_script(Kind::Postgres, "postgres-new", Setup::of(options))
    }

    /// The MariaDB that all tests of this process share and that keeps what sessions say of themselves, as MySQL does.
    pub fn with_performance_schema() -> &'static Self {
        static SERVER: LazyLock<Server> =
            LazyLock::new(|| Server::private_with(Kind::MariaDb, &["--performance-schema=ON"]));
        &SERVER
    }

    /// The MariaDB that all tests of this process share and that lists all named locks.
    pub fn with_lock_info() -> &'static Self {
        static SERVER: LazyLock<Server> = LazyLock::new(|| {
            let plugin = [
                "--plugin-load-add=metadata_lock_info",
                "--plugin-maturity=experimental",
            ];
            Server::private_with(Kind::MariaDb, &plugin)
        });
        &SERVER
    }

    /// A server that one test has for itself; another one may have had it before.
    pub fn private(kind: Kind) -> Self {
        Self::private_with(kind, &[])
    }

    /// A server for one test, with more options for the server program.
    pub fn private_with(kind: Kind, options: &[&str]) -> Self {
        Self::private_as(kind, Setup::of(options))
    }

    /// A server for one test, whose clock is this many seconds ahead of the machine's, or behind it.
    pub fn private_with_clock(kind: Kind, clock: i32) -> Self {
        let setup = Setup {
            clock,
            ..Setup::default()
        };
        Self::private_as(kind, setup)
    }

    /// A server for one test, with all that can be said of it.
    pub fn private_as(kind: Kind, setup: Setup) -> Self {
        if !setup.is_common() {
            return Self::start_script(kind, &kind.to_string(), setup);
        }
        let options = setup.options.clone();
        reused::take(kind, &options).unwrap_or_else(|| {
            let mut server = Self::start_script(kind, &kind.to_string(), setup);
            server.new = reused::New::of(&server, options);
            server
        })
    }

    fn start_script(kind: Kind, which: &str, setup: Setup) -> Self {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/script/server");
        let (mut script, address) = match &setup.host {
            None => (Command::new(program), Ipv4Addr::LOCALHOST),
            Some((namespace, address)) => (namespace.command(program), *address),
        };
        script.arg(which);
        if setup.is_on_disk {
            script.env("TMPDIR", std::env::temp_dir());
        }
        if setup.clock != 0 {
            script.args(["--clock", &setup.clock.to_string()]);
        }
        for option in &setup.first {
            script.args(["--first", option]);
        }
        for file in &setup.files {
            script.args(["--file", file]);
        }
        if let Some(port) = setup.standby_of {
            script.args(["--standby-of", &port.to_string()]);
        }
        script.arg("--").args(&setup.options);
        match (kind, &setup.host) {
            (Kind::Postgres, Some(_)) => {
                script.args(["-c", &format!("listen_addresses={address}")]);
            }
            (_, Some(_)) => {
                script.arg(format!("--bind-address={address}"));
            }
            (_, None) => {}
        }
        let mut script = script
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script/server starts");
        let stdin = script.stdin.take();
        let stdout = BufReader::new(script.stdout.take().expect("a pipe was asked for"));
        let mut talk = Talk {
            script,
            stdin,
            stdout,
            pid: 0,
        };
        let facts = talk.read_until("ready");
        let fact = |key: &str| {
            let found = facts
                .iter()
                .find_map(|(k, v)| (k == key).then(|| v.clone()));
            found.unwrap_or_else(|| panic!("script/server did not tell {key}=: {facts:?}"))
        };
        let socket = fact("socket").into();
        let port = fact("port").parse().expect("a port is a number");
        Self {
            kind,
            address,
            port,
            socket,
            dir: fact("dir").into(),
            durable: false,
            spares: None,
            talk: Some(Mutex::new(talk)),
            host: setup.host,
            new: None,
        }
    }

    /// The server's process. It changes with `start`.
    pub fn pid(&self) -> i32 {
        self.talk().pid
    }

    /// Stops the server until this is dropped, with the processes that it has for sessions.
    pub fn freeze(&self) -> Vec<Frozen> {
        // It first: it makes the others.
        let mut frozen = vec![Frozen::new(self.pid())];
        frozen.extend(children_of(self.pid()).into_iter().filter_map(Frozen::of));
        frozen
    }

    /// Shuts the server down in order.
    pub fn stop(&self) {
        self.talk().command("stop", "stopped");
    }

    /// Has PostgreSQL drop everything and end.
    pub fn stop_immediately(&self) {
        self.talk().command("stop immediate", "stopped");
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&self) {
        self.talk().command("kill", "stopped");
    }

    /// Starts the stopped server again, on the same port.
    pub fn start(&self) {
        self.talk().command("start", "ready");
    }

    fn talk(&self) -> std::sync::MutexGuard<'_, Talk> {
        let talk = self.talk.as_ref().expect("it is this one's");
        talk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A plain client with every privilege.
    pub fn admin(&self) -> Conn {
        self.connect(ADMIN.0, ADMIN.1)
            .expect("the admin can connect")
    }

    /// A plain client with the account that dblock uses, which has no privilege.
    pub fn client(&self) -> Conn {
        self.connect("dblock", PASSWORD)
            .expect("the account dblock can connect")
    }

    /// A plain client with any account.
    pub fn connect(&self, user: &str, password: &str) -> mysql::Result<Conn> {
        Conn::new(self.as_account(user, password))
    }

    /// How a plain client connects.
    pub fn as_account(&self, user: &str, password: &str) -> OptsBuilder {
        OptsBuilder::new()
            .ip_or_hostname(Some(self.address.to_string()))
            .tcp_port(self.port)
            .prefer_socket(false)
            .user(Some(user))
            .pass(Some(password))
    }

    /// A new account without a privilege, with the usual password; its name.
    pub fn account(&self) -> String {
        let name = super::unique("account");
        if self.kind == Kind::Postgres {
            let create = format!("CREATE ROLE \"{name}\" LOGIN PASSWORD '{PASSWORD}'");
            self.postgres().run(&create);
            return name;
        }
        let create = format!("CREATE USER '{name}'@'%' IDENTIFIED BY '{PASSWORD}'");
        self.admin()
            .query_drop(create)
            .expect("the admin may do that");
        name
    }

    /// A session of PostgreSQL with every privilege, which may have been used before.
    pub fn postgres(&self) -> Postgres {
        Postgres::of_admin((self.address, self.port)).expect("the admin can connect")
    }

    /// A new session of PostgreSQL with every privilege.
    pub fn new_admin(&self) -> Result<Postgres, postgres::Refused> {
        self.postgres_as(ADMIN.0, ADMIN.1)
    }

    /// A session of PostgreSQL with any account.
    pub fn postgres_as(&self, user: &str, password: &str) -> Result<Postgres, postgres::Refused> {
        Postgres::connect((self.address, self.port), (user, password), DATABASE)
    }

    /// A session with every privilege that looks who has what.
    pub fn watcher(&self) -> Client {
        match self.kind {
            Kind::Postgres => Client::Postgres(self.postgres()),
            Kind::MariaDb | Kind::MySql => Client::MySql(self.admin()),
        }
    }

    /// What a user gives as `--url`.
    pub fn url(&self) -> String {
        url_of_kind(self.kind, self.address, self.port)
    }

    /// A plain client of the account that dblock uses.
    pub fn plain(&self) -> Client {
        match self.kind {
            Kind::Postgres => {
                let session = self.postgres_as("dblock", PASSWORD);
                Client::Postgres(session.expect("the account dblock can connect"))
            }
            Kind::MariaDb | Kind::MySql => Client::MySql(self.client()),
        }
    }

    /// A plain client that has taken the lock `name`, which must be free, and holds it until it is dropped.
    #[track_caller]
    pub fn hold(&self, name: &str) -> Client {
        let mut client = self.plain();
        assert!(client.try_lock(name), "{name} is free");
        client
    }

    /// The connection that holds the lock `name` (its name on the server).
    pub fn holder(&self, name: &str) -> Option<u64> {
        holder(&mut self.watcher(), name)
    }

    /// Waits until somebody holds the lock `name` (its name on the server); the connection.
    #[track_caller]
    pub fn eventually_held(&self, name: &str) -> u64 {
        let mut connection = None;
        eventually(&format!("{name} is held"), SOON, || {
            connection = self.holder(name);
            connection.is_some()
        });
        connection.expect("it was just seen")
    }

    /// The connections that wait for the lock `name` (its name on the server).
    pub fn waiters(&self, name: &str) -> Vec<u64> {
        waiters(&mut self.watcher(), name)
    }

    /// What every session does, for a message.
    pub fn sessions(&self) -> Vec<String> {
        if self.kind == Kind::Postgres {
            return self.postgres().column(
                "SELECT concat_ws(' ', pid, usename, application_name, state, wait_event, query)
                 FROM pg_stat_activity WHERE datname IS NOT NULL ORDER BY pid",
            );
        }
        let query = "SELECT CONCAT_WS(' ', id, user, command, time, state, info)
                     FROM information_schema.processlist ORDER BY id";
        self.admin().query(query).expect("the processlist")
    }

    /// Whether a session with this connection id is there.
    pub fn has_session(&self, id: u64) -> bool {
        has_session(&mut self.watcher(), id)
    }

    /// Whether this connection waits for a lock in a statement.
    pub fn is_waiting(&self, id: u64) -> bool {
        if self.kind == Kind::Postgres {
            let waits = format!("EXISTS (SELECT FROM pg_locks WHERE pid = {id} AND NOT granted)");
            return self.postgres().is(&waits);
        }
        let state =
            "SELECT 1 FROM information_schema.processlist WHERE ID = ? AND STATE = 'User lock'";
        let row: Option<u8> = self
            .admin()
            .exec_first(state, (id,))
            .expect("the processlist");
        row.is_some()
    }

    /// What the server has written to its log.
    pub fn log(&self) -> String {
        let log = std::fs::read(self.dir.join("error.log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }
}

/// A plain client of either kind.
#[derive(Debug)]
pub enum Client {
    MySql(Conn),
    Postgres(Postgres),
}

impl Client {
    /// Takes the lock `name` (its name on a MySQL server) as any program does that does not wait; whether it was free.
    pub fn try_lock(&mut self, name: &str) -> bool {
        match self {
            Self::MySql(client) => {
                let got: Option<u8> = client
                    .exec_first("SELECT GET_LOCK(?, 0)", (name,))
                    .expect("an answer");
                got == Some(1)
            }
            Self::Postgres(client) => {
                client.is(&format!("pg_try_advisory_lock({})", postgres::key(name)))
            }
        }
    }

    /// Gives the lock back.
    pub fn unlock(&mut self, name: &str) {
        match self {
            Self::MySql(client) => client
                .exec_drop("DO RELEASE_LOCK(?)", (name,))
                .expect("an answer"),
            Self::Postgres(client) => {
                assert!(client.is(&format!("pg_advisory_unlock({})", postgres::key(name))));
            }
        }
    }

    /// Gives all back.
    pub fn unlock_all(&mut self) {
        match self {
            Self::MySql(client) => client
                .query_drop("DO RELEASE_ALL_LOCKS()")
                .expect("an answer"),
            Self::Postgres(client) => client.run("SELECT pg_advisory_unlock_all()"),
        }
    }

    /// Waits for the lock `name` as any program does, for half a minute at most, and takes it.
    #[track_caller]
    pub fn wait_for_lock(&mut self, name: &str) {
        match self {
            Self::MySql(client) => {
                // As text: MariaDB's list of processes does not tell the values of a prepared statement.
                let wait = format!("SELECT GET_LOCK('{name}', 30)");
                let got: Option<u8> = client.query_first(wait).expect("an answer");
                assert_eq!(got, Some(1), "{name}");
            }
            Self::Postgres(client) => {
                client.run("SET lock_timeout = '30s'");
                client.run(&format!("SELECT pg_advisory_lock({})", postgres::key(name)));
            }
        }
    }

    /// The number by which the server knows it.
    pub fn connection_id(&self) -> u64 {
        match self {
            Self::MySql(client) => u64::from(client.connection_id()),
            Self::Postgres(client) => client.pid,
        }
    }
}

/// A session with every privilege, of either kind of server.
pub trait Watcher {
    /// The connection that holds the lock `name` (its name on a MySQL server).
    fn holder(&mut self, name: &str) -> Option<u64>;
    /// The connections that wait for it.
    fn waiters(&mut self, name: &str) -> Vec<u64>;
    /// Who of those that wait for one of several slots is to have the next one.
    fn head(&mut self, name: &str) -> Option<u64>;
    /// Whether a session with this number is there.
    fn has_session(&mut self, id: u64) -> bool;
    /// The sessions of the account `dblock`, and the port that each has come from.
    fn sessions(&mut self) -> Vec<(u64, Option<u16>)>;
    /// Ends a session. It may have ended.
    fn end_session(&mut self, id: u64);
    /// Tells the head of those that wait for a lock that it is free, where the server does not: a session that was ended tells nobody.
    fn wake(&mut self, name: &str);
    /// Interrupts what a session does. It may have ended.
    fn interrupt(&mut self, id: u64);
}

impl Watcher for Conn {
    fn holder(&mut self, name: &str) -> Option<u64> {
        let row: Option<Option<u64>> = self
            .exec_first("SELECT IS_USED_LOCK(?)", (name,))
            .expect("an answer");
        row.flatten()
    }

    /// The name is written out, or as hex digits, in their statement.
    fn waiters(&mut self, name: &str) -> Vec<u64> {
        let query = "SELECT ID FROM information_schema.processlist WHERE STATE = 'User lock'
                     AND (LOCATE(?, INFO) > 0 OR LOCATE(HEX(?), UPPER(INFO)) > 0) ORDER BY ID";
        self.exec(query, (name, name)).expect("the processlist")
    }

    fn head(&mut self, name: &str) -> Option<u64> {
        self.holder(&format!("{name}#wait"))
    }

    fn has_session(&mut self, id: u64) -> bool {
        let query = "SELECT 1 FROM information_schema.processlist WHERE ID = ?";
        self.exec_first::<u8, _, _>(query, (id,))
            .expect("the processlist")
            .is_some()
    }

    fn sessions(&mut self) -> Vec<(u64, Option<u16>)> {
        let query = "SELECT ID, HOST FROM information_schema.processlist WHERE USER = 'dblock'";
        let sessions: Vec<(u64, String)> = self.query(query).expect("the processlist");
        let port = |from: String| from.rsplit(':').next().and_then(|port| port.parse().ok());
        sessions
            .into_iter()
            .map(|(id, from)| (id, port(from)))
            .collect()
    }

    fn end_session(&mut self, id: u64) {
        let _ = self.query_drop(format!("KILL {id}"));
    }

    fn wake(&mut self, _name: &str) {}

    fn interrupt(&mut self, id: u64) {
        let _ = self.query_drop(format!("KILL QUERY {id}"));
    }
}

impl Watcher for Postgres {
    fn holder(&mut self, name: &str) -> Option<u64> {
        self.value(&postgres::holders(name))
    }

    fn waiters(&mut self, name: &str) -> Vec<u64> {
        self.column(&postgres::waiters(name))
    }

    fn head(&mut self, name: &str) -> Option<u64> {
        self.waiters(name).first().copied()
    }

    fn has_session(&mut self, id: u64) -> bool {
        self.is(&format!(
            "EXISTS (SELECT FROM pg_stat_activity WHERE pid = {id})"
        ))
    }

    fn sessions(&mut self) -> Vec<(u64, Option<u16>)> {
        let query = "SELECT pid, client_port FROM pg_stat_activity WHERE usename = 'dblock'";
        let number = |value: &Option<String>| value.as_ref()?.parse::<u64>().ok();
        let session = |row: Vec<Option<String>>| {
            let port = number(&row[1]).and_then(|port| port.try_into().ok());
            Some((number(&row[0])?, port))
        };
        self.query(query).into_iter().filter_map(session).collect()
    }

    fn end_session(&mut self, id: u64) {
        self.run(&format!("SELECT pg_terminate_backend({id}, 2000)"));
    }

    fn wake(&mut self, name: &str) {
        let head = format!("{} LIMIT 1", postgres::waiters(name));
        self.run(&format!(
            "SELECT pg_notify('dblock_' || pid, '') FROM ({head}) head"
        ));
    }

    fn interrupt(&mut self, id: u64) {
        self.run(&format!("SELECT pg_cancel_backend({id})"));
    }
}

impl Client {
    fn watcher(&mut self) -> &mut dyn Watcher {
        match self {
            Self::MySql(client) => client,
            Self::Postgres(client) => client,
        }
    }
}

impl Watcher for Client {
    fn holder(&mut self, name: &str) -> Option<u64> {
        self.watcher().holder(name)
    }

    fn waiters(&mut self, name: &str) -> Vec<u64> {
        self.watcher().waiters(name)
    }

    fn head(&mut self, name: &str) -> Option<u64> {
        self.watcher().head(name)
    }

    fn has_session(&mut self, id: u64) -> bool {
        self.watcher().has_session(id)
    }

    fn sessions(&mut self) -> Vec<(u64, Option<u16>)> {
        self.watcher().sessions()
    }

    fn end_session(&mut self, id: u64) {
        self.watcher().end_session(id);
    }

    fn wake(&mut self, name: &str) {
        self.watcher().wake(name);
    }

    fn interrupt(&mut self, id: u64) {
        self.watcher().interrupt(id);
    }
}

/// What a user gives as `--url` for a server of this kind.
pub fn url_of_kind(kind: Kind, address: Ipv4Addr, port: u16) -> String {
    match kind {
        Kind::Postgres => format!("postgres://dblock@{address}:{port}/{DATABASE}"),
        Kind::MariaDb | Kind::MySql => url_at(address, port),
    }
}

/// `mysql://dblock@127.0.0.1:PORT/`
pub fn url_of_port(port: u16) -> String {
    url_at(Ipv4Addr::LOCALHOST, port)
}

/// `mysql://dblock@ADDRESS:PORT/`
pub fn url_at(address: Ipv4Addr, port: u16) -> String {
    format!("mysql://dblock@{address}:{port}/")
}

/// The connection that holds the lock `name`.
pub fn holder(admin: &mut impl Watcher, name: &str) -> Option<u64> {
    admin.holder(name)
}

/// The connections that wait for the lock `name`.
pub fn waiters(admin: &mut impl Watcher, name: &str) -> Vec<u64> {
    admin.waiters(name)
}

/// Whether a session with this connection id is there.
pub fn has_session(admin: &mut impl Watcher, id: u64) -> bool {
    admin.has_session(id)
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.talk.is_none() {
            return;
        }
        if !std::thread::panicking() && reused::is_as_new(self) {
            return reused::keep(Self {
                kind: self.kind,
                address: self.address,
                port: self.port,
                socket: std::mem::take(&mut self.socket),
                dir: std::mem::take(&mut self.dir),
                durable: false,
                spares: None,
                talk: self.talk.take(),
                host: None,
                new: self.new.take(),
            });
        }
        postgres::end_idle((self.address, self.port));
        let mut talk = self.talk();
        drop(talk.stdin.take());
        let _ = talk.script.wait();
    }
}

impl Setup {
    /// Whether several tests start such a server.
    fn is_common(&self) -> bool {
        let options: Vec<&str> = self.options.iter().map(String::as_str).collect();
        let are_common = matches!(
            options[..],
            [] | ["--innodb-flush-log-at-trx-commit=1"] | ["-c", "synchronous_commit=on"]
        );
        let is_plain = self.first.is_empty() && self.clock == 0 && self.files.is_empty();
        are_common
            && is_plain
            && !self.is_on_disk
            && self.standby_of.is_none()
            && self.host.is_none()
    }

    /// With these options for the server program.
    fn of(options: &[&str]) -> Self {
        Self {
            options: options.iter().map(ToString::to_string).collect(),
            ..Self::default()
        }
    }
}

impl Talk {
    fn command(&mut self, line: &str, answer: &str) {
        let stdin = self.stdin.as_mut().expect("open until dropped");
        writeln!(stdin, "{line}").expect("script/server reads commands");
        self.read_until(answer);
    }

    /// Reads `key=value` words up to the line `end`.
    fn read_until(&mut self, end: &str) -> Vec<(String, String)> {
        let mut facts = Vec::new();
        loop {
            let mut line = String::new();
            let length = self
                .stdout
                .read_line(&mut line)
                .expect("script/server prints text");
            assert!(
                length > 0,
                "script/server ended before it said {end:?}; its own words are above"
            );
            if line.trim() == end {
                return facts;
            }
            for (key, value) in line
                .split_whitespace()
                .filter_map(|word| word.split_once('='))
            {
                if key == "pid" {
                    self.pid = value.parse().expect("a pid is a number");
                }
                facts.push((key.to_owned(), value.to_owned()));
            }
        }
    }
}

/// The program by which a server shows what its clients read from option files, without arguments yet.
pub fn my_print_defaults(kind: Kind) -> Command {
    static WORDS: LazyLock<[Vec<String>; 2]> = LazyLock::new(|| {
        [Kind::MariaDb, Kind::MySql].map(|kind| {
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/script/my_print_defaults");
            let mut script = Command::new(script);
            let output = script
                .arg(kind.to_string())
                .stderr(Stdio::inherit())
                .output();
            let words = String::from_utf8(output.expect("the script starts").stdout);
            words.expect("text").lines().map(str::to_owned).collect()
        })
    });
    let words = &WORDS[usize::from(kind == Kind::MySql)];
    assert!(
        !words.is_empty(),
        "script/my_print_defaults {kind} says why"
    );
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

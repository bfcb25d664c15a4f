//! A server of this program's own, by script/server: with dblock's tables, and with its commits on the disk. It can be killed and
//! started again.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};

use super::Result;
use super::processes::{expect_success, now};
use super::setup::{ACCOUNT, PASSWORD, Server, Setup};

/// What makes a commit last through a power cut. The rest is as the servers come.
const OF_BOTH: [&str; 5] = [
    "--innodb-use-native-aio=ON",
    "--innodb-flush-log-at-trx-commit=1",
    "--innodb-flush-method=fsync",
    "--innodb-doublewrite=ON",
    "--innodb-buffer-pool-size=256M",
];
const OF_MARIADB: [&str; 1] = ["--innodb-log-file-size=96M"];
const OF_MYSQL: [&str; 4] = [
    "--innodb-redo-log-capacity=100M",
    "--server-id=1",
    "--log-bin=binlog",
    "--sync-binlog=1",
];

/// Where there are millions of rows, they are to be in memory, and their changes not to wait for the log to be emptied. It takes some
/// seconds to make such logs.
const MANY: usize = 10_000;
const MANY_ON_MARIADB: [&str; 2] = [
    "--innodb-log-file-size=1G",
    "--innodb-buffer-pool-size=1500M",
];
const MANY_ON_MYSQL: [&str; 2] = [
    "--innodb-redo-log-capacity=1G",
    "--innodb-buffer-pool-size=1500M",
];

/// Sessions besides those of the holders.
const BESIDES: usize = 1200;

/// From one attempt to connect to the next while the server starts, and at most until it has.
const KNOCK_AGAIN: Duration = Duration::from_millis(2);
const START_LIMIT: Duration = Duration::from_secs(60);

pub struct Private {
    pub server: Server,
    script: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Private {
    /// A MariaDB and a MySQL.
    pub fn both(setup: &Setup) -> Result<[Self; 2]> {
        Self::with_room_for(0, setup)
    }

    /// Both, for so many rows.
    pub fn with_room_for(rows: usize, setup: &Setup) -> Result<[Self; 2]> {
        let (of_mariadb, of_mysql) = if rows < MANY {
            (&[][..], &[][..])
        } else {
            (&MANY_ON_MARIADB[..], &MANY_ON_MYSQL[..])
        };
        let of_mariadb = [&OF_MARIADB, of_mariadb].concat();
        let of_mysql = [&OF_MYSQL, of_mysql].concat();
        Ok([
            Self::start_new("MariaDB", "mariadb", &of_mariadb, setup)?,
            Self::start_new("MySQL", "mysql", &of_mysql, setup)?,
        ])
    }

    fn start_new(name: &'static str, kind: &str, options: &[&str], setup: &Setup) -> Result<Self> {
        let (holders, _) = setup.sizes.durable;
        let mut script = Command::new("script/server")
            .args([kind, "--"])
            .args(OF_BOTH)
            .args(options)
            .arg(format!("--max-connections={}", holders + BESIDES))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = script.stdin.take();
        let output = BufReader::new(script.stdout.take().ok_or("no stdout")?);
        let server = Server {
            name,
            version: String::new(),
            port: 0,
            socket: String::new(),
            pid: 0,
        };
        let mut private = Self {
            server,
            script,
            input,
            output,
        };
        private.read_until("ready")?;
        private.make_tables(setup)?;
        Ok(private)
    }

    /// `dblock init`, and a row for commits of this program's own.
    fn make_tables(&self, setup: &Setup) -> Result<()> {
        let mut init = setup.program(&setup.dblock, &self.server.url("admin"));
        init.arg("init").env("DBLOCK_PASSWORD", "admin-secret");
        expect_success(init.stdout(Stdio::null()))?;
        let mut admin = self.admin()?;
        for statement in [
            "GRANT SELECT, INSERT, UPDATE, DELETE ON dblock.* TO 'dblock'@'%'",
            "CREATE TABLE dblock.bench (id INT PRIMARY KEY, number BIGINT) ENGINE=InnoDB",
            "INSERT INTO dblock.bench VALUES (1, 0)",
        ] {
            admin.query_drop(statement)?;
        }
        Ok(())
    }

    /// A session that may do anything.
    pub fn admin(&self) -> Result<Conn> {
        let options = OptsBuilder::new()
            .socket(Some(&self.server.socket))
            .user(Some("admin"))
            .pass(Some("admin-secret"));
        Ok(Conn::new(options)?)
    }

    /// Kills the server.
    pub fn kill(&mut self) -> Result<()> {
        self.order("kill")?;
        self.read_until("stopped")
    }

    /// Starts it again; until when it was certainly away, and when a plain client had its first session.
    pub fn start(&mut self) -> Result<(Duration, Duration)> {
        let mut away = now()?;
        self.order("start")?;
        let begun = Instant::now();
        let returned = loop {
            let options = OptsBuilder::new()
                .ip_or_hostname(Some("127.0.0.1"))
                .tcp_port(self.server.port)
                .prefer_socket(false)
                .user(Some(ACCOUNT))
                .pass(Some(PASSWORD));
            let asked = now()?;
            if Conn::new(options).is_ok() {
                break (away, now()?);
            }
            away = asked;
            if begun.elapsed() > START_LIMIT {
                return Err("the server did not come back".into());
            }
            sleep(KNOCK_AGAIN);
        };
        self.read_until("ready")?;
        Ok(returned)
    }

    fn order(&mut self, order: &str) -> Result<()> {
        let mut input = self.input.as_ref().ok_or("no stdin")?;
        Ok(writeln!(input, "{order}")?)
    }

    fn read_until(&mut self, last: &str) -> Result<()> {
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                return Err(format!("{} did not start", self.server.name).into());
            }
            match line.trim_end().split_once('=') {
                Some(("version", version)) => version.clone_into(&mut self.server.version),
                Some(("socket", socket)) => socket.clone_into(&mut self.server.socket),
                Some(("port", port)) => self.server.port = port.parse()?,
                Some(("pid", pid)) => self.server.pid = pid.parse()?,
                None if line.trim_end() == last => return Ok(()),
                _ => {}
            }
        }
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // The end of its stdin ends it.
        self.input = None;
        let _ = self.script.wait();
    }
}

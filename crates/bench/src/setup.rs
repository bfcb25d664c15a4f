//! Where everything is that is measured, as script/bench tells it, and how much of it is measured.

use std::env;
use std::process::{Command, Stdio};
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};

use super::Result;

/// The account on all servers, which has no privilege.
pub const ACCOUNT: &str = "dblock";
pub const PASSWORD: &str = "dblock-secret";

/// PostgreSQL, as the table names it, and the database whose locks are meant.
const POSTGRES: &str = "PostgreSQL";
const DATABASE: &str = "app";

/// The key of the C program's lock there.
const KEY: &str = "1";

/// A server that does not answer for so long has broken down.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Runs of each contender of `start`, after some that are not counted.
    pub runs: usize,
    /// Holders whose memory is measured at the same time.
    pub holders: usize,
    /// For how many seconds the processor time of renewals is measured.
    pub renewals: u32,
    /// Callers that wait, and rounds of so many.
    pub waiting: [(usize, usize); 3],
    /// Rounds of many commands through a few slots.
    pub makespans: usize,
    /// Locks, each with a holder and a waiter: as many whose statements are counted, and as many besides.
    pub fleet: usize,
    /// Seconds in which statements are counted.
    pub counted: u64,
    /// Processes of a thundering start, and rounds.
    pub thunder: (usize, usize),
    /// Holders of durable locks at the same time, and seconds in which their renewals are counted.
    pub durable: (usize, u64),
    /// The TTL of holders whose renewals are counted or measured. None: the default, or the shortest where their processor time is measured.
    pub durable_ttl: Option<&'static str>,
    /// Restarts of each server under durable locks.
    pub restarts: usize,
    /// The same for PostgreSQL.
    pub postgres: OfPostgres,
    /// What the queue is measured with.
    pub queue: OfQueue,
    /// The crontab.
    pub cron: OfCron,
    /// And the page.
    pub web: OfWeb,
}

/// How much is measured on PostgreSQL.
#[derive(Debug, Clone, Copy)]
pub struct OfPostgres {
    /// Callers that wait for one lock, and rounds of so many.
    pub waiting: [(usize, usize); 2],
    /// The same, on the server that takes many sessions.
    pub waiting_of_many: (usize, usize),
    /// Callers that wait while statements are counted, and for how many seconds.
    pub idle: (usize, u64),
    /// Holders while statements are counted, and for how many seconds: each renews once a minute.
    pub holders: (usize, u64),
    /// Callers that wait while a table is vacuumed and indexed, and rounds.
    pub upkeep: (usize, usize),
}

impl OfPostgres {
    const FULL: Self = Self {
        waiting: [(10, 12), (100, 3)],
        waiting_of_many: (1000, 1),
        idle: (100, 30),
        holders: (100, 60),
        upkeep: (30, 10),
    };

    const SMOKE: Self = Self {
        waiting: [(3, 1), (5, 1)],
        waiting_of_many: (8, 1),
        idle: (10, 2),
        holders: (8, 4),
        upkeep: (3, 1),
    };
}

/// How much of the queue is measured.
#[derive(Debug, Clone, Copy)]
pub struct OfQueue {
    /// Jobs that are due, and rounds.
    pub jobs: usize,
    pub rounds: usize,
    /// How long each contender works in a round.
    pub work: Duration,
    /// Jobs that are put one after the other in a round, and those with a command for each.
    pub singles: usize,
    pub commands: usize,
    /// Jobs that an idle worker picks up.
    pub picked_up: usize,
    /// Jobs that are due while claims are counted, 0 leaves a line out; jobs that are claimed in a round; rounds.
    pub growth: [usize; 3],
    pub growth_jobs: usize,
    pub growth_rounds: usize,
    /// Jobs that are worked off beside a snapshot before claims are counted.
    pub past: usize,
    /// Blocks that are due again and again, and each after how many seconds; their claimers, and for how many seconds.
    pub blocks: usize,
    pub period: u64,
    pub claimers: usize,
    pub repeating: u64,
}

impl OfQueue {
    const FULL: Self = Self {
        jobs: 1_000_000,
        rounds: 3,
        work: Duration::from_secs(10),
        singles: 1000,
        commands: 2000,
        picked_up: 200,
        growth: [10_000, 1_000_000, 0],
        growth_jobs: 5000,
        growth_rounds: 9,
        past: 100_000,
        blocks: 1000,
        period: 10,
        claimers: 100,
        repeating: 60,
    };

    const SMOKE: Self = Self {
        jobs: 3000,
        rounds: 1,
        work: Duration::from_secs(1),
        singles: 10,
        commands: 20,
        picked_up: 3,
        growth: [2000, 4000, 0],
        growth_jobs: 1000,
        growth_rounds: 1,
        past: 1000,
        blocks: 4,
        period: 1,
        claimers: 3,
        repeating: 2,
    };

    /// With as many jobs due as script/bench was asked for.
    fn with_jobs(mut self) -> Result<Self> {
        if let Ok(jobs) = env::var("BENCH_JOBS") {
            self.jobs = jobs.parse()?;
            self.growth[1] = self.jobs;
        }
        if env::var_os("BENCH_LARGE").is_some() {
            self.growth[2] = 10 * self.growth[1];
        }
        Ok(self)
    }
}

/// How much of the crontab is measured.
#[derive(Debug, Clone, Copy)]
pub struct OfCron {
    /// Daemons, jobs that are due at one second, and how often they are.
    pub hosts: usize,
    pub jobs: usize,
    pub rounds: usize,
    /// Daemons that are killed, by each way.
    pub kills: usize,
    /// Ticks of a simulated day.
    pub day: usize,
    /// Whether Debian's cron runs them too: it takes until the next full minute.
    pub with_debians: bool,
}

impl OfCron {
    const FULL: Self = Self {
        hosts: 50,
        jobs: 200,
        rounds: 5,
        kills: 5,
        day: 1440,
        with_debians: true,
    };

    const SMOKE: Self = Self {
        hosts: 3,
        jobs: 6,
        rounds: 1,
        kills: 1,
        day: 12,
        with_debians: false,
    };
}

/// How large the fleet of the page is, and how much of it is measured.
#[derive(Debug, Clone, Copy)]
pub struct OfWeb {
    /// Daemons, the jobs of their crontab, runs in the history, and jobs of a queue that are due.
    pub daemons: usize,
    pub jobs: usize,
    pub runs: usize,
    pub due: usize,
    /// Those who look together, and seconds in which statements are counted.
    pub viewers: usize,
    pub counted: u64,
    /// Rounds in which workers work beside the page, and how long each lasts.
    pub rounds: usize,
    pub work: Duration,
}

impl OfWeb {
    const FULL: Self = Self {
        daemons: 20,
        jobs: 500,
        runs: 1_000_000,
        due: 1_000_000,
        viewers: 20,
        counted: 120,
        rounds: 5,
        work: Duration::from_secs(10),
    };

    const SMOKE: Self = Self {
        daemons: 2,
        jobs: 8,
        runs: 800,
        due: 1000,
        viewers: 5,
        counted: 2,
        rounds: 1,
        work: Duration::from_secs(1),
    };
}

impl Sizes {
    /// What the tables of docs/speed.md are made of.
    pub const FULL: Self = Self {
        runs: 200,
        holders: 500,
        renewals: 30,
        waiting: [(10, 12), (100, 3), (1000, 1)],
        makespans: 3,
        fleet: 1000,
        counted: 60,
        thunder: (500, 5),
        durable: (1000, 60),
        durable_ttl: None,
        restarts: 5,
        postgres: OfPostgres::FULL,
        queue: OfQueue::FULL,
        cron: OfCron::FULL,
        web: OfWeb::FULL,
    };

    /// Whether everything works. Its figures mean nothing.
    pub const SMOKE: Self = Self {
        runs: 3,
        holders: 5,
        renewals: 4,
        waiting: [(3, 1), (5, 1), (8, 1)],
        makespans: 1,
        fleet: 8,
        counted: 2,
        thunder: (20, 1),
        durable: (8, 4),
        // Each renews within the time, and a machine that stands still for some seconds ends no command.
        durable_ttl: Some("12s"),
        restarts: 1,
        postgres: OfPostgres::SMOKE,
        queue: OfQueue::SMOKE,
        cron: OfCron::SMOKE,
        web: OfWeb::SMOKE,
    };
}

/// A private server.
#[derive(Debug, Clone)]
pub struct Server {
    /// As the table names it.
    pub name: &'static str,
    pub version: String,
    pub port: u16,
    pub socket: String,
    pub pid: u32,
}

/// What psql printed.
pub struct Printed {
    pub stdout: String,
    pub stderr: String,
}

/// How dblock reaches a server: all but `Default` set `DBLOCK_SSL_MODE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP without TLS.
    Tcp,
    Tls,
    Socket,
    /// TCP, with TLS where the server offers it: dblock's default.
    Default,
}

impl Server {
    fn from_environment(name: &'static str, variable: &str) -> Result<Self> {
        let text = given(variable)?;
        let mut words = text.split(' ').map(str::to_owned);
        let mut next = || words.next().ok_or("script/bench tells too little");
        Ok(Self {
            name,
            version: next()?,
            port: next()?.parse()?,
            socket: next()?,
            pid: next()?.parse()?,
        })
    }

    fn if_given(name: &'static str, variable: &str) -> Result<Option<Self>> {
        let server = env::var_os(variable).map(|_| Self::from_environment(name, variable));
        server.transpose()
    }

    pub fn is_postgres(&self) -> bool {
        self.name == POSTGRES
    }

    /// A session of this program's own, on MariaDB or MySQL.
    pub fn session(&self) -> Result<Conn> {
        let options = OptsBuilder::new()
            .socket(Some(&self.socket))
            .user(Some(ACCOUNT))
            .pass(Some(PASSWORD))
            .read_timeout(Some(ANSWER_LIMIT));
        Ok(Conn::new(options)?)
    }

    /// Where it is for this account, by TCP.
    pub fn url(&self, account: &str) -> String {
        if self.is_postgres() {
            return format!("postgres://{account}@127.0.0.1:{}/{DATABASE}", self.port);
        }
        format!("mysql://{account}@127.0.0.1:{}/", self.port)
    }

    /// The name of a line of this server.
    pub fn line(&self, what: &str) -> String {
        format!("{what}, {}", self.name)
    }

    /// Runs statements on PostgreSQL one after another, in one session of the administrator.
    pub fn psql(&self, statements: &[&str]) -> Result<Printed> {
        let mut psql = Command::new("psql");
        psql.env("PGPASSWORD", "admin-secret")
            .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
            .args(["--set", "ON_ERROR_STOP=1", "--host", "127.0.0.1"])
            .args(["--port", &self.port.to_string(), "--user", "admin"])
            .args(["--dbname", DATABASE]);
        for statement in statements {
            psql.args(["--command", statement]);
        }
        let output = psql.output()?;
        let printed = Printed {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        if !output.status.success() {
            return Err(format!("psql: {}", printed.stderr).into());
        }
        Ok(printed)
    }

    /// How many wait on PostgreSQL for the only lock that others wait for: in dblock's line, or in `pg_advisory_lock()`.
    pub fn waiting(&self) -> Result<usize> {
        let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND (objsubid = 2 OR NOT granted)";
        Ok(self.psql(&[waiting])?.stdout.trim().parse()?)
    }

    /// How many sessions of MariaDB or MySQL wait for a named lock.
    pub fn waiting_for_names(session: &mut Conn) -> Result<usize> {
        let waiting =
            "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'";
        Ok(session.query_first(waiting)?.unwrap_or_default())
    }

    /// How often clients have had it do this so far: `Questions` are all statements.
    pub fn count(what: &str, session: &mut Conn) -> Result<u64> {
        let status = format!("SHOW GLOBAL STATUS LIKE '{what}'");
        let row: Option<(String, u64)> = session.query_first(status)?;
        Ok(row.ok_or_else(|| format!("no count of {what}"))?.1)
    }

    /// Does something, and counts the statements that others send meanwhile.
    #[allow(clippy::cast_precision_loss, reason = "some thousands")]
    pub fn statements_beside<T>(
        session: &mut Conn,
        something: impl FnOnce() -> Result<T>,
    ) -> Result<(f64, T)> {
        let before = Self::count("Questions", session)?;
        let done = something()?;
        // One of them is this program's own.
        let statements = Self::count("Questions", session)? - before - 1;
        Ok((statements as f64, done))
    }
}

/// Everything that is measured.
pub struct Setup {
    pub sizes: Sizes,
    /// A scratch folder.
    pub folder: String,
    /// The binary, as `cargo install` builds it; the same with its symbols, where that is wanted; the static one.
    pub dblock: String,
    pub with_symbols: Option<String>,
    pub linked_statically: Option<String>,
    pub mariadb: Server,
    /// A MariaDB without TLS, as Debian configures it; the other two offer it.
    pub without_tls: Server,
    pub mysql: Server,
    /// Where the part `postgres` is wanted.
    pub postgres: Option<Server>,
    /// The same, and it takes many sessions.
    pub postgres_of_many: Option<Server>,
    /// The address of etcd, and the socket of redis.
    pub etcd: String,
    pub redis: String,
}

impl Setup {
    pub fn from_environment(mut sizes: Sizes) -> Result<Self> {
        sizes.queue = sizes.queue.with_jobs()?;
        Ok(Self {
            sizes,
            folder: given("BENCH_FOLDER")?,
            dblock: given("BENCH_DBLOCK")?,
            with_symbols: env::var("BENCH_SYMBOLS").ok(),
            linked_statically: env::var("BENCH_STATIC")
                .ok()
                .filter(|path| !path.is_empty()),
            mariadb: Server::from_environment("MariaDB", "BENCH_MARIADB")?,
            without_tls: Server::from_environment("MariaDB", "BENCH_WITHOUT_TLS")?,
            mysql: Server::from_environment("MySQL", "BENCH_MYSQL")?,
            postgres: Server::if_given(POSTGRES, "BENCH_POSTGRES_SERVER")?,
            postgres_of_many: Server::if_given(POSTGRES, "BENCH_POSTGRES_OF_MANY")?,
            etcd: given("BENCH_ETCD")?,
            redis: given("BENCH_REDIS")?,
        })
    }

    pub fn servers(&self) -> [&Server; 2] {
        [&self.mariadb, &self.mysql]
    }

    /// `dblock run --name NAME OPTION...`, without anything of this machine's own; the command is to follow.
    pub fn dblock(
        &self,
        server: &Server,
        transport: Transport,
        name: &str,
        options: &[&str],
    ) -> Command {
        let url = match transport {
            Transport::Socket => format!("mysql://{ACCOUNT}@localhost/?socket={}", server.socket),
            _ => server.url(ACCOUNT),
        };
        let mut dblock = self.program(&self.dblock, &url);
        match transport {
            Transport::Tls => dblock.env("DBLOCK_SSL_MODE", "required"),
            Transport::Default => dblock.env_remove("DBLOCK_SSL_MODE"),
            Transport::Tcp | Transport::Socket => &mut dblock,
        };
        dblock.args(["run", "--name", name]).args(options).arg("--");
        dblock
    }

    /// `pg-lock try|wait`, which is to be told the command.
    pub fn libpq(&self, server: &Server, how: &str) -> Command {
        let mut program = self.other(&format!("{}/pg-lock", self.folder));
        program
            .env("PGHOST", "127.0.0.1")
            .env("PGPORT", server.port.to_string())
            .env("PGDATABASE", DATABASE)
            .env("PGUSER", ACCOUNT)
            .env("PGPASSWORD", PASSWORD)
            .env("PGSSLMODE", "disable")
            .args([how, KEY]);
        program
    }

    /// A program with what dblock needs to reach the server of this URL.
    pub fn program(&self, program: &str, url: &str) -> Command {
        let mut program = self.other(program);
        program
            .env("DBLOCK_URL", url)
            .env("DBLOCK_PASSWORD", PASSWORD)
            .env("DBLOCK_SSL_MODE", "disabled");
        program
    }

    /// A program with an environment that is short, and the same for all.
    pub fn other(&self, program: &str) -> Command {
        let mut program = Command::new(program);
        program
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", &self.folder)
            .stdin(Stdio::null());
        program
    }

    /// The command that records its own start and end (`job.c`), with its first argument.
    pub fn job(&self, file: &str) -> [String; 2] {
        [format!("{}/job", self.folder), file.to_owned()]
    }
}

fn given(variable: &str) -> Result<String> {
    env::var(variable).map_err(|_| format!("{variable} is not set: run script/bench").into())
}

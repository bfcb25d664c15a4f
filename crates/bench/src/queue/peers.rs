//! Other queues, by the small clients in crates/bench/peers. Each is left out where script/bench has not started it.

use std::env;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mysql::Conn;
use mysql::prelude::Queryable;

use super::work::Done;
use crate::Result;
use crate::setup::Server;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    Beanstalkd,
    Redis,
    Graphile,
    /// On the MySQL that listens on this port.
    Apalis(u16),
}

/// graphile-worker's own benchmark runs so many processes, each with so many jobs at once.
const PROCESSES: usize = 4;
const AT_ONCE: usize = 24;

/// Jobs that a local queue of graphile-worker holds.
const LOCAL_QUEUE: usize = 500;

impl Peer {
    /// Those that are there; those on MySQL use the one of these servers that is one.
    pub fn all(servers: &[Server]) -> Vec<Self> {
        let mysql = servers.iter().find(|server| server.name == "MySQL");
        let apalis = mysql.map(|server| Self::Apalis(server.port));
        let all = [Self::Beanstalkd, Self::Redis, Self::Graphile];
        all.into_iter()
            .chain(apalis)
            .filter(|peer| env::var_os(peer.variable()).is_some_and(|value| !value.is_empty()))
            .collect()
    }

    fn variable(self) -> &'static str {
        match self {
            Self::Beanstalkd => "BENCH_BEANSTALKD",
            Self::Redis => "BENCH_REDIS_QUEUE",
            Self::Graphile => "BENCH_GRAPHILE",
            Self::Apalis(_) => "BENCH_APALIS",
        }
    }

    /// With how many jobs due it is measured, where the others have so many: with a million each statement of apalis takes a second.
    pub fn most_due(self, jobs: usize) -> usize {
        match self {
            Self::Apalis(_) => jobs.min(20_000),
            _ => jobs,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Beanstalkd => "beanstalkd, fsync each 50 ms",
            Self::Redis => "a Redis list, fsync each second",
            Self::Graphile => "graphile-worker, PostgreSQL",
            Self::Apalis(_) => "apalis, MySQL",
        }
    }

    fn program(self) -> Result<Command> {
        let value = env::var(self.variable())?;
        let peers = env::current_dir()?.join("crates/bench/peers");
        Ok(match self {
            Self::Beanstalkd | Self::Redis => {
                let mut python = Command::new("/usr/bin/python3");
                let kind = if self == Self::Redis {
                    "redis"
                } else {
                    "beanstalkd"
                };
                python.arg(peers.join("pipeline.py")).args([kind, &value]);
                python
            }
            Self::Graphile => {
                let mut node = Command::new("node");
                node.arg(peers.join("graphile.mjs")).current_dir(value);
                node
            }
            Self::Apalis(port) => {
                let mut apalis = Command::new(value);
                let url = format!("mysql://admin:admin-secret@127.0.0.1:{port}");
                let create = "CREATE DATABASE IF NOT EXISTS apalis";
                Conn::new(&*url)?.query_drop(create)?;
                apalis.env("BENCH_APALIS_URL", url + "/apalis");
                apalis
            }
        })
    }

    /// Puts so many jobs in bulk, or one after the other.
    pub fn put(self, jobs: usize, one_by_one: bool) -> Result<Done> {
        let what = if one_by_one { "put" } else { "fill" };
        let mut program = self.program()?;
        let jobs_as_text = jobs.to_string();
        let said = answer(
            program
                .args([what, &jobs_as_text])
                .stdout(Stdio::piped())
                .spawn()?,
        )?;
        let took = Duration::from_secs_f64(said.trim().parse()?);
        Ok(Done { jobs, took })
    }

    /// Claims and completes jobs, as many at once as is quickest, or one by one by ten workers.
    pub fn work(self, limit: Duration, one_by_one: bool) -> Result<Done> {
        let limit = limit.as_secs_f64().to_string();
        let (processes, arguments) = match (self, one_by_one) {
            (Self::Beanstalkd | Self::Redis | Self::Apalis(_), false) => {
                (1, ["8".to_owned(), "200".to_owned()])
            }
            (Self::Beanstalkd | Self::Redis, true) => (1, ["10".to_owned(), "1".to_owned()]),
            (Self::Graphile, false) => (PROCESSES, [AT_ONCE.to_string(), LOCAL_QUEUE.to_string()]),
            (Self::Graphile, true) => (1, ["10".to_owned(), "0".to_owned()]),
            // What it takes by default.
            (Self::Apalis(_), true) => (1, ["10".to_owned(), "10".to_owned()]),
        };
        let mut all = Vec::new();
        for _ in 0..processes {
            let mut program = self.program()?;
            all.push(
                program
                    .args(["work", &limit])
                    .args(&arguments)
                    .stdout(Stdio::piped())
                    .spawn()?,
            );
        }
        let (mut jobs, mut took) = (0, Duration::ZERO);
        for each in all {
            let said = answer(each)?;
            let (done, seconds) = said.trim().split_once(' ').ok_or("a peer says nothing")?;
            jobs += done.parse::<usize>()?;
            took = took.max(Duration::from_secs_f64(seconds.parse()?));
        }
        Ok(Done { jobs, took })
    }
}

fn answer(program: Child) -> Result<String> {
    let output = program.wait_with_output()?;
    if !output.status.success() {
        return Err(format!("a peer ended with {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

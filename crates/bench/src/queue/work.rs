//! `dblock queue`, as the lines drive it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::thread::sleep;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Result;
use crate::processes::{Callers, expect_success};
use crate::setup::{ACCOUNT, Server, Setup};

/// From one look at workers to the next.
const LOOK: Duration = Duration::from_millis(5);

/// A queue on a server.
#[derive(Clone)]
pub struct Queue<'a> {
    pub setup: &'a Setup,
    pub server: &'a Server,
    pub name: &'static str,
}

/// When workers are to stop.
#[derive(Clone, Copy)]
pub enum Until {
    /// When nothing is due, or after so long.
    Over(Duration),
    /// When they have started this many jobs.
    Jobs(usize),
}

/// What workers did.
pub struct Done {
    pub jobs: usize,
    /// From the start of the workers, or where a number of jobs was asked for from the first one.
    pub took: Duration,
}

impl Done {
    #[allow(clippy::cast_precision_loss, reason = "some millions")]
    pub fn a_second(&self) -> f64 {
        self.jobs as f64 / self.took.as_secs_f64()
    }
}

impl<'a> Queue<'a> {
    pub fn create(
        setup: &'a Setup,
        server: &'a Server,
        name: &'static str,
        options: &[&str],
    ) -> Result<Self> {
        let queue = Self {
            setup,
            server,
            name,
        };
        expect_success(queue.dblock("create").args(options))?;
        Ok(queue)
    }

    /// `dblock queue WHAT NAME`.
    pub fn dblock(&self, what: &str) -> Command {
        let url = self.server.url(ACCOUNT);
        let mut dblock = self.setup.program(&self.setup.dblock, &url);
        dblock.args(["queue", what, self.name]);
        dblock
    }

    /// Jobs that are not done.
    pub fn jobs(&self) -> Result<usize> {
        let mut session = self.server.session()?;
        let of = |table: &str| {
            format!(
                "SELECT SUM(x.jobs) AS jobs FROM dblock.dblock_{table} x JOIN dblock.dblock_queues q ON q.id = x.queue \
                 WHERE q.name = '{}' AND q.deleted_at IS NULL",
                self.name
            )
        };
        let all = ["due", "delayed", "running", "dead"]
            .map(of)
            .join(" UNION ALL ");
        let jobs: Option<usize> = session.query_first(format!(
            "SELECT CAST(COALESCE(SUM(t.jobs), 0) AS UNSIGNED) FROM ({all}) t"
        ))?;
        Ok(jobs.unwrap_or_default())
    }

    /// Puts so many jobs, the numbers from 1 on, by one process; how long that took.
    pub fn put(&self, jobs: usize, options: &[&str]) -> Result<Duration> {
        let path = format!("{}/numbers", self.setup.folder);
        let mut text = String::new();
        for number in 1..=jobs {
            text.push_str(&number.to_string());
            text.push('\n');
        }
        fs::write(&path, text)?;
        let mut put = self.dblock("put");
        put.arg("--lines")
            .args(options)
            .stdin(File::open(&path)?)
            .stdout(Stdio::null());
        let begun = Instant::now();
        expect_success(&mut put)?;
        let took = begun.elapsed();
        fs::remove_file(path)?;
        Ok(took)
    }

    /// Puts jobs until there are so many; how many were missing, and how long that took.
    pub fn fill_to(&self, jobs: usize) -> Result<Done> {
        let jobs = jobs.saturating_sub(self.jobs()?);
        let took = self.put(jobs, &[])?;
        Ok(Done { jobs, took })
    }

    /// Puts jobs one after the other by one process, each when the one before has its number.
    pub fn put_one_by_one(&self, jobs: usize) -> Result<Duration> {
        let mut put = Putter::start(self)?;
        put.put("0")?;
        let begun = Instant::now();
        for job in 1..=jobs {
            put.put(&job.to_string())?;
        }
        let took = begun.elapsed();
        put.end()?;
        Ok(took)
    }

    /// So many workers, with these options and this command, which repeats on stdout the lines that it gets.
    pub fn work(&self, workers: usize, options: &[&str], until: Until) -> Result<Done> {
        let before = self.jobs()?;
        let (read, write) = std::io::pipe()?;
        let begun = Instant::now();
        let mut callers = Callers::default();
        for _ in 0..workers {
            let mut work = self.dblock("work");
            if matches!(until, Until::Over(_)) {
                work.arg("--drain");
            }
            work.args(options).args(["--", "cat"]);
            callers.add({
                work.stdout(write.try_clone()?);
                work
            })?;
        }
        drop(write);
        let most = match until {
            Until::Jobs(jobs) => jobs,
            Until::Over(_) => usize::MAX,
        };
        let lines = thread::spawn(move || count_lines(read, most));
        let over = |callers: &mut Callers| -> Result<bool> {
            Ok(match until {
                Until::Over(limit) => begun.elapsed() >= limit,
                Until::Jobs(_) => lines.is_finished(),
            } || callers.ended()? == workers)
        };
        while !over(&mut callers)? {
            sleep(LOOK);
        }
        for caller in &mut callers.0 {
            if caller.try_wait()?.is_some() {
                continue;
            }
            kill(Pid::from_raw(caller.id().try_into()?), Signal::SIGTERM)?;
        }
        let (counted, first, last) = if matches!(until, Until::Jobs(_)) {
            let result = lines.join().map_err(|_| "the reader failed")??;
            callers.wait(0)?;
            result
        } else {
            callers.wait(0)?;
            let ended = Instant::now();
            let (counted, _, _) = lines.join().map_err(|_| "the reader failed")??;
            (counted, begun, ended)
        };
        let gone = before.saturating_sub(self.jobs()?);
        if gone < counted || matches!(until, Until::Over(_)) && gone != counted {
            return Err(format!("{counted} jobs were started, and {gone} are done").into());
        }
        Ok(Done {
            jobs: counted,
            took: last - first,
        })
    }
}

#[allow(
    clippy::naive_bytecount,
    reason = "a megabyte at a time is quick enough"
)]
/// How many lines there are until the end, or until so many; the first ones count from when they are there.
fn count_lines(
    mut read: std::io::PipeReader,
    most: usize,
) -> std::io::Result<(usize, Instant, Instant)> {
    let mut bytes = vec![0; 1 << 20];
    let (mut lines, mut before) = (0, 0);
    let mut first = None;
    let mut last = Instant::now();
    loop {
        let length = read.read(&mut bytes)?;
        let now = Instant::now();
        let is_enough = lines >= most;
        if length == 0 {
            break;
        }
        lines += bytes[..length]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        if first.is_none() {
            (first, before) = (Some(now), lines);
        }
        last = now;
        if is_enough || lines >= most {
            // The rest is read, too, for nobody is to wait for a pipe that is full, or to find it closed.
            thread::spawn(move || std::io::copy(&mut read, &mut std::io::sink()));
            break;
        }
    }
    let from = if most == usize::MAX { 0 } else { before };
    Ok((lines - from, first.unwrap_or(last), last))
}

/// A `put --lines` that gets its lines slowly.
pub struct Putter {
    put: Child,
    ids: BufReader<std::process::ChildStdout>,
}

impl Putter {
    pub fn start(queue: &Queue) -> Result<Self> {
        let mut put = queue.dblock("put");
        put.arg("--lines")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut put = put.spawn()?;
        let ids = BufReader::new(put.stdout.take().ok_or("no stdout")?);
        Ok(Self { put, ids })
    }

    /// Puts one, and waits for its number.
    pub fn put(&mut self, payload: &str) -> Result<()> {
        let mut input = self.put.stdin.as_ref().ok_or("no stdin")?;
        input.write_all(format!("{payload}\n").as_bytes())?;
        let mut id = String::new();
        self.ids.read_line(&mut id)?;
        id.trim_end().parse::<u64>()?;
        Ok(())
    }

    pub fn end(mut self) -> Result<()> {
        drop(self.put.stdin.take());
        let status = self.put.wait()?;
        if !status.success() {
            return Err(format!("dblock queue put: {status}").into());
        }
        Ok(())
    }
}

//! What the options of `dblock queue` mean. Its own come from the command line alone.

mod values;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::cli::queue as options;
use super::cli::{CommandLine, Setting};
use super::sources::{Given, Origin};
use super::{connection, own, read_sources, run, value};
use crate::base::exit::{Failure, Reason};
use crate::base::log::Log;
use crate::db::ConnectOptions;
use crate::queue::{Due, Properties, State, Traits};
use crate::work::{Batch, Spec, Until};
use values::{
    LARGEST_BATCH, MOST_ATTEMPTS, MOST_COMMANDS, claim, exit_codes, id, limit, longer_than_nothing,
    name, number, priority, shards, state, whole_seconds,
};

/// Everything that `dblock queue create` was asked to do.
#[derive(Debug)]
pub struct QueueCreate {
    /// The queue.
    pub queue: String,
    /// What it is to be like.
    pub properties: Properties,
    /// The server.
    pub connection: ConnectOptions,
}

/// Everything that `dblock queue put` was asked to do.
#[derive(Debug)]
pub struct QueuePut {
    /// The queue.
    pub queue: String,
    /// Where the payloads are.
    pub source: Source,
    /// What the jobs have in common.
    pub traits: Traits,
    /// The server.
    pub connection: ConnectOptions,
}

/// Where payloads are.
#[derive(Debug, PartialEq, Eq)]
pub enum Source {
    /// These.
    Arguments(Vec<OsString>),
    /// The content of each file; `-` is stdin.
    Files(Vec<PathBuf>),
    /// All of stdin is one.
    Stdin,
    /// The records of stdin, each of which ends in this byte.
    Records(u8),
}

/// Everything that a command was asked to do which concerns a queue as a whole.
#[derive(Debug)]
pub struct OfQueue {
    /// The queue.
    pub queue: String,
    /// The server.
    pub connection: ConnectOptions,
}

/// Everything that a command was asked to do which concerns some jobs.
#[derive(Debug)]
pub struct OfJobs {
    /// The queue.
    pub queue: String,
    /// The jobs.
    pub jobs: Jobs,
    /// The server.
    pub connection: ConnectOptions,
}

/// Which jobs.
#[derive(Debug, PartialEq, Eq)]
pub enum Jobs {
    /// These, each once.
    Ids(Vec<u64>),
    /// All that are dead.
    Dead,
}

/// Everything that `dblock queue status` was asked to do.
#[derive(Debug)]
pub struct QueueStatus {
    /// The queues; none: all.
    pub queues: Vec<String>,
    /// The server.
    pub connection: ConnectOptions,
    /// Whether a program reads what is found.
    pub json: bool,
}

/// Everything that `dblock queue list` was asked to do.
#[derive(Debug)]
pub struct QueueList {
    /// The queue.
    pub queue: String,
    /// Only jobs in this state; `None`: in any but done.
    pub state: Option<State>,
    /// At most so many; `None`: all.
    pub limit: Option<usize>,
    /// The server.
    pub connection: ConnectOptions,
    /// Whether a program reads what is found.
    pub json: bool,
}

/// Everything that `dblock queue show` was asked to do.
#[derive(Debug)]
pub struct QueueShow {
    /// The queue.
    pub queue: String,
    /// The job.
    pub job: u64,
    /// What to print of it.
    pub shown: Shown,
    /// The server.
    pub connection: ConnectOptions,
}

/// What is printed of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// A table for people.
    Table,
    /// JSON.
    Json,
    /// The payload as it is.
    Payload,
}

/// Reads the settings of `dblock queue create`, and what is logged.
///
/// # Errors
/// As [`run()`](super::run()).
pub fn create(mut line: CommandLine) -> Result<(QueueCreate, Log), Failure> {
    let queue = queue_name(&mut line)?;
    let properties = Properties {
        claim: own(&mut line, &options::create::CLAIM, claim)?,
        shards: own(&mut line, &options::create::SHARDS, shards)?,
        max_attempts: own(&mut line, &options::create::MAX_ATTEMPTS, |text| {
            number(text, MOST_ATTEMPTS)
        })?,
        retry_delay: own(&mut line, &options::create::RETRY_DELAY, value::duration)?,
        ttl: own(&mut line, &options::create::TTL, value::ttl)?,
        keep: own(&mut line, &options::create::KEEP, whole_seconds)?,
    };
    let (mut sources, log) = read_sources(line.settings)?;
    let create = QueueCreate {
        queue,
        properties,
        connection: connection(&mut sources, log)?,
    };
    Ok((create, log))
}

/// Reads the settings of `dblock queue put`, and what is logged.
///
/// # Errors
/// As [`run()`](super::run()).
pub fn put(mut line: CommandLine) -> Result<(QueuePut, Log), Failure> {
    let queue = queue_name(&mut line)?;
    let records = [(&options::put::LINES, b'\n'), (&options::put::NULL, 0)];
    let records = records
        .into_iter()
        .find_map(|(setting, end)| line.take_given(setting).map(|_| (setting.name, end)));
    let are_files = line.take_given(&options::put::FILE).is_some();
    let delay = optional(&mut line, &options::put::DELAY, value::duration)?;
    let at = optional(&mut line, &options::put::AT, value::time)?;
    let traits = Traits {
        due: match (delay, at) {
            (_, Some(at)) => Due::At(at),
            (Some(Duration::ZERO) | None, None) => Due::Now,
            (Some(delay), None) => Due::After(delay),
        },
        priority: own(&mut line, &options::put::PRIORITY, priority)?,
        key: optional(&mut line, &options::put::KEY, |text| name(text, "the key"))?,
        every: optional(&mut line, &options::put::EVERY, longer_than_nothing)?,
    };
    let payloads = line.arguments;
    let source = match (records, are_files, payloads.is_empty()) {
        (Some((option, _)), _, false) => {
            let cause =
                format!("--{option} reads the payloads from stdin; none can be given besides");
            return Err(Failure::new(Reason::Usage, cause));
        }
        (Some((_, end)), _, true) => Source::Records(end),
        (None, true, true) => {
            let cause = "--file needs the name of a file, or - for stdin";
            return Err(Failure::new(Reason::Usage, cause));
        }
        (None, true, false) => Source::Files(payloads.into_iter().map(PathBuf::from).collect()),
        (None, false, true) => Source::Stdin,
        (None, false, false) => Source::Arguments(payloads),
    };
    let is_one = match &source {
        Source::Arguments(payloads) => payloads.len() == 1,
        Source::Files(files) => files.len() == 1,
        Source::Stdin | Source::Records(_) => true,
    };
    if traits.key.is_some() && !is_one {
        let cause = "--key takes one payload: there is at most one job of that key";
        return Err(Failure::new(Reason::Usage, cause));
    }
    let (mut sources, log) = read_sources(line.settings)?;
    let put = QueuePut {
        queue,
        source,
        traits,
        connection: connection(&mut sources, log)?,
    };
    Ok((put, log))
}

/// Reads the settings of `dblock queue work`, and what is logged.
///
/// # Errors
/// As [`run()`](super::run()).
pub fn work(mut line: CommandLine) -> Result<(Spec, Log), Failure> {
    let queue = queue_name(&mut line)?;
    let jobs = own(&mut line, &options::work::JOBS, |text| {
        number(text, MOST_COMMANDS)
    })?;
    let batch = optional(&mut line, &options::work::BATCH, |text| {
        number(text, LARGEST_BATCH)
    })?;
    if batch.is_some()
        && line
            .arguments
            .iter()
            .skip(1)
            .any(|argument| argument == "{}")
    {
        let cause = "--batch passes the payloads on stdin: {} cannot stand for one";
        return Err(Failure::new(Reason::Usage, cause));
    }
    let mut separator = b'\n';
    for (setting, of_it) in [(&options::work::LINES, b'\n'), (&options::work::NULL, 0)] {
        if line.take_given(setting).is_some() {
            separator = of_it;
            if batch.is_none() {
                let cause = format!(
                    "--{}: it is that of --batch, which is not given",
                    setting.name
                );
                return Err(Failure::new(Reason::Usage, cause));
            }
        }
    }
    let timeout = optional(&mut line, &options::work::TIMEOUT, value::duration)?;
    let kill_after = own(&mut line, &options::work::KILL_AFTER, value::duration)?;
    let until = if line.take_given(&options::work::DRAIN).is_some() {
        Until::Drained
    } else if line.take_given(&options::work::ONCE).is_some() {
        Until::Once
    } else {
        Until::Stopped
    };
    let grace = own(&mut line, &options::work::GRACE, value::duration)?;
    let bury_on = optional(&mut line, &options::work::BURY_ON, exit_codes)?;
    let (mut sources, log) = read_sources(line.settings)?;
    let scrubbed = if sources.switch("scrub-env") {
        run::variables_of_the_server()
    } else {
        Vec::new()
    };
    let spec = Spec {
        queue,
        connection: connection(&mut sources, log)?,
        jobs,
        batch: batch.map(|jobs| Batch { jobs, separator }),
        timeout: timeout.filter(|limit| !limit.is_zero()),
        kill_after,
        until,
        grace,
        bury_on: bury_on.unwrap_or_default(),
        scrubbed,
        command: line.arguments,
    };
    Ok((spec, log))
}

/// Reads the settings of `dblock queue status`, and what is logged.
///
/// # Errors
/// As [`run()`](super::run()).
pub fn status(line: CommandLine) -> Result<(QueueStatus, Log), Failure> {
    let (mut sources, log) = read_sources(line.settings)?;
    let mut queues = Vec::new();
    for queue in line.arguments {
        let queue = parsed_queue(queue)?;
        if !queues.contains(&queue) {
            queues.push(queue);
        }
    }
    let status = QueueStatus {
        queues,
        json: sources.is_on("json"),
        connection: connection(&mut sources, log)?,
    };
    Ok((status, log))
}

/// Reads the settings of `dblock queue list`, and what is logged.
///
/// # Errors
/// As [`run()`](super::run()).
pub fn list(mut line: CommandLine) -> Result<(QueueList, Log), Failure> {
    let queue = queue_name(&mut line)?;
    let state = optional(&mut line, &options::list::STATE, state)?;
    let limit = own(&mut line, &options::list::LIMIT, limit)?;
    let (mut sources, log) = read_sources(line.settings)?;
    let list = QueueList {
        queue,
        state,
        limit,
        json: sources.is_on("json"),
        connection: connection(&mut sources, log)?,
    };
    Ok((list, log))
}

/// Reads the settings of `dblock queue show`, and what is logged.
///
/// # Errors
/// As [`run()`](super::run()).
pub fn show(mut line: CommandLine) -> Result<(QueueShow, Log), Failure> {
    let queue = queue_name(&mut line)?;
    let job = line.arguments.pop().unwrap_or_default();
    let job = Given::new("ID", job, Origin::Argument).read(id)?;
    let is_payload = line.take_given(&options::show::PAYLOAD).is_some();
    let (mut sources, log) = read_sources(line.settings)?;
    let show = QueueShow {
        queue,
        job,
        shown: match (is_payload, sources.is_on("json")) {
            (true, _) => Shown::Payload,
            (false, true) => Shown::Json,
            (false, false) => Shown::Table,
        },
        connection: connection(&mut sources, log)?,
    };
    Ok((show, log))
}

/// Reads the settings of `dblock queue retry` and `dblock queue cancel`, and what is logged.
///
/// # Errors
/// As [`run()`](super::run()).
pub fn of_jobs(mut line: CommandLine) -> Result<(OfJobs, Log), Failure> {
    let queue = queue_name(&mut line)?;
    let jobs = if line.take_given(&options::retry::DEAD).is_some() {
        Jobs::Dead
    } else {
        let mut ids = Vec::new();
        for job in line.arguments {
            let job = Given::new("ID", job, Origin::Argument).read(id)?;
            if !ids.contains(&job) {
                ids.push(job);
            }
        }
        Jobs::Ids(ids)
    };
    let (mut sources, log) = read_sources(line.settings)?;
    let of_jobs = OfJobs {
        queue,
        jobs,
        connection: connection(&mut sources, log)?,
    };
    Ok((of_jobs, log))
}

/// Reads the settings of `dblock queue pause`, `resume` and `delete`, and what is logged.
///
/// # Errors
/// As [`run()`](super::run()).
pub fn of_queue(mut line: CommandLine) -> Result<(OfQueue, Log), Failure> {
    let queue = queue_name(&mut line)?;
    let (mut sources, log) = read_sources(line.settings)?;
    let of_queue = OfQueue {
        queue,
        connection: connection(&mut sources, log)?,
    };
    Ok((of_queue, log))
}

/// The queue, which stands in front of all other arguments.
fn queue_name(line: &mut CommandLine) -> Result<String, Failure> {
    let name = if line.arguments.is_empty() {
        OsString::new()
    } else {
        line.arguments.remove(0)
    };
    parsed_queue(name)
}

fn parsed_queue(queue: OsString) -> Result<String, Failure> {
    Given::new("QUEUE", queue, Origin::Argument).read(|text| name(text, "the name"))
}

/// The value of a setting that only the command line gives, if it is given.
fn optional<T>(
    line: &mut CommandLine,
    setting: &Setting,
    reader: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, Failure> {
    let given = line.take_given(setting);
    let read = |given| Given::new(setting.name, given, Origin::Flag).read(reader);
    given.map(read).transpose()
}

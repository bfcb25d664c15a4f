//! The meaning of `dblock queue`'s options.

mod values;

pub(super) use values::id as job_id;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::cli::queue as options;
use super::cli::{CommandLine, Values};
use super::sources::Sources;
use super::support::check_queues;
use super::value::{self, number};
use super::{
    Common, argument, arguments, connection, own, own_optional, read_sources, run, with_common,
};
use crate::base::exit::{Failure, Reason};
use crate::base::log::Log;
use crate::history::KeepOutput;
use crate::queue::{Due, JobState, Properties, Scope, Traits};
use crate::work::{Batch, Spec, Until};
use values::{
    LARGEST_BATCH, MOST_ATTEMPTS, MOST_SHARDS, claim, exit_codes, id, name, period, state,
    whole_seconds,
};

/// The settings of `dblock queue create`.
#[derive(Debug)]
pub struct QueueCreate {
    /// The queue.
    pub queue: String,
    /// The properties of the new queue.
    pub properties: Properties,
}

/// The settings of `dblock queue put`.
#[derive(Debug)]
pub struct QueuePut {
    /// The queue.
    pub queue: String,
    /// The source of the payloads.
    pub source: Source,
    /// The common properties of the jobs.
    pub traits: Traits,
}

/// The source of payloads.
#[derive(Debug, PartialEq, Eq)]
pub enum Source {
    /// The arguments.
    Arguments(Vec<OsString>),
    /// The contents of each file; `-` is stdin.
    Files(Vec<PathBuf>),
    /// All of stdin is one payload.
    Stdin,
    /// The records of stdin, each with this byte at its end.
    Records(u8),
}

/// The settings of a command about some jobs.
#[derive(Debug)]
pub struct OfJobs {
    /// The queue.
    pub queue: String,
    /// The jobs.
    pub jobs: Jobs,
}

/// The selected jobs.
#[derive(Debug, PartialEq, Eq)]
pub enum Jobs {
    /// These, each once.
    Ids(Vec<u64>),
    /// All dead jobs.
    Dead,
}

/// The settings of `dblock queue list`.
#[derive(Debug)]
pub struct QueueList {
    /// The queue.
    pub queue: String,
    /// Only jobs in this state; `None`: all that are not done.
    pub state: Option<JobState>,
    /// The most jobs to show; `None`: all.
    pub limit: Option<usize>,
}

/// The settings of `dblock queue show`.
#[derive(Debug)]
pub struct QueueShow {
    /// The queue.
    pub queue: String,
    /// The job.
    pub job: u64,
    /// Whether to print only the payload, as it is.
    pub only_payload: bool,
}

/// Reads the settings of `dblock queue create`.
///
/// # Errors
/// As [`run()`](super::run()).
pub fn create(mut line: CommandLine) -> Result<(QueueCreate, Common), Failure> {
    let queue = queue_name(&mut line)?;
    with_queues(line.settings, |sources| {
        let properties = Properties {
            claim: own(sources, &options::create::CLAIM, claim)?,
            shards: own(sources, &options::create::SHARDS, |text| {
                number(text, 1, MOST_SHARDS)
            })?,
            max_attempts: own(sources, &options::create::MAX_ATTEMPTS, |text| {
                number(text, 1, MOST_ATTEMPTS)
            })?,
            retry_delay: own(sources, &options::create::RETRY_DELAY, value::duration)?,
            ttl: own(sources, &options::create::TTL, value::ttl)?,
            keep: own(sources, &options::create::KEEP, whole_seconds)?,
        };
        Ok(QueueCreate { queue, properties })
    })
}

/// Reads the settings of `dblock queue put`.
///
/// # Errors
/// As [`run()`](super::run()).
pub fn put(mut line: CommandLine) -> Result<(QueuePut, Common), Failure> {
    let queue = queue_name(&mut line)?;
    with_queues(line.settings, |sources| {
        read_put(queue, line.arguments, sources)
    })
}

/// Reads what `dblock queue put` puts.
fn read_put(
    queue: String,
    payloads: Vec<OsString>,
    sources: &Sources,
) -> Result<QueuePut, Failure> {
    let is_on =
        |name| sources.is_on(name) && is_strongest(sources, name, &["lines", "null", "file"]);
    let records = [(&options::put::LINES, b'\n'), (&options::put::NULL, 0)];
    let records = records
        .into_iter()
        .map(|(setting, end)| (setting.name, end));
    // Payloads on the command line override an option file.
    let records = records
        .filter(|(name, _)| payloads.is_empty() || sources.is_from_command_line(name))
        .find(|(name, _)| is_on(name));
    let are_files = is_on(options::put::FILE.name);
    let delay = own_optional(sources, &options::put::DELAY, value::duration)?;
    let at = own_optional(sources, &options::put::AT, value::time)?;
    let at = at.filter(|_| is_strongest(sources, "at", &["delay"]));
    let traits = Traits {
        due: match (delay, at) {
            (_, Some(at)) => Due::At(at),
            (Some(Duration::ZERO) | None, None) => Due::Now,
            (Some(delay), None) => Due::After(delay),
        },
        priority: own(sources, &options::put::PRIORITY, |text| {
            number(text, i32::MIN, i32::MAX)
        })?,
        key: own_optional(sources, &options::put::KEY, |text| name(text, "the key"))?,
        every: own_optional(sources, &options::put::EVERY, period)?,
    };
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
        Source::Stdin => true,
        Source::Records(_) => false,
    };
    if traits.key.is_some() && !is_one {
        let cause = "--key takes one payload: there is at most one job of that key";
        return Err(Failure::new(Reason::Usage, cause));
    }
    Ok(QueuePut {
        queue,
        source,
        traits,
    })
}

/// Reads the settings of `dblock queue work`, and what is logged.
///
/// # Errors
/// As [`run()`](super::run()).
pub fn work(mut line: CommandLine) -> Result<(Spec, Log), Failure> {
    let queue = queue_name(&mut line)?;
    let (mut sources, log) = read_sources(line.settings)?;
    let jobs = own(&sources, &options::work::JOBS, value::commands)?;
    let batch = own_optional(&sources, &options::work::BATCH, |text| {
        number(text, 1, LARGEST_BATCH)
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
        if sources.is_on(setting.name) && is_strongest(&sources, setting.name, &["lines", "null"]) {
            separator = of_it;
            if batch.is_none() && sources.is_from_command_line(setting.name) {
                let cause = format!(
                    "--{}: it is that of --batch, which is not given",
                    setting.name
                );
                return Err(Failure::new(Reason::Usage, cause));
            }
        }
    }
    let timeout = own_optional(&sources, &options::work::TIMEOUT, value::duration)?;
    let kill_after = own(&sources, &options::work::KILL_AFTER, value::duration)?;
    let until = if sources.is_on_rather_than("drain", "once") {
        Until::Drained
    } else if sources.is_on("once") {
        Until::Once
    } else {
        Until::Stopped
    };
    let grace = own(&sources, &options::work::GRACE, value::duration)?;
    let hooks = run::hooks(&mut sources)?;
    let keep_output = own(&sources, &options::work::KEEP_OUTPUT, KeepOutput::parse)?;
    let bury_on = own_optional(&sources, &options::work::BURY_ON, exit_codes)?;
    let scrubbed = run::scrubbed(&mut sources);
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
        keep_output,
        hooks,
        scrubbed,
        command: line.arguments,
    };
    check_queues(spec.connection.kind)?;
    Ok((spec, log))
}

/// Reads the queues of `dblock queue status`; empty: all.
///
/// # Errors
/// As [`run()`](super::run()).
pub fn status(line: CommandLine) -> Result<(Scope, Common), Failure> {
    with_queues(line.settings, |sources| {
        Ok(Scope {
            names: arguments("QUEUE", line.arguments, queue)?,
            exact: sources.is_on("exact"),
            limit: None,
        })
    })
}

/// Reads the settings of `dblock queue list`.
///
/// # Errors
/// As [`run()`](super::run()).
pub fn list(mut line: CommandLine) -> Result<(QueueList, Common), Failure> {
    let queue = queue_name(&mut line)?;
    with_queues(line.settings, |sources| {
        Ok(QueueList {
            queue,
            state: own_optional(sources, &options::list::STATE, state)?,
            limit: own(sources, &options::list::LIMIT, |text| {
                value::limit(text, "jobs")
            })?,
        })
    })
}

/// Reads the settings of `dblock queue show`.
///
/// # Errors
/// As [`run()`](super::run()).
pub fn show(mut line: CommandLine) -> Result<(QueueShow, Common), Failure> {
    let queue = queue_name(&mut line)?;
    let job = argument("ID", line.arguments.pop(), id)?;
    with_queues(line.settings, |sources| {
        Ok(QueueShow {
            queue,
            job,
            only_payload: sources.is_on_rather_than("payload", "json"),
        })
    })
}

/// Reads the settings of `dblock queue retry` and `dblock queue cancel`.
///
/// # Errors
/// As [`run()`](super::run()).
pub fn of_jobs(mut line: CommandLine) -> Result<(OfJobs, Common), Failure> {
    let queue = queue_name(&mut line)?;
    with_queues(line.settings, |sources| {
        // Jobs on the command line override an option file.
        if line.arguments.is_empty() && sources.is_on(options::retry::DEAD.name) {
            let jobs = Jobs::Dead;
            return Ok(OfJobs { queue, jobs });
        }
        let jobs = Jobs::Ids(arguments("ID", line.arguments, id)?);
        Ok(OfJobs { queue, jobs })
    })
}

/// Reads the queue of `dblock queue pause`, `resume` and `delete`.
///
/// # Errors
/// As [`run()`](super::run()).
pub fn of_queue(mut line: CommandLine) -> Result<(String, Common), Failure> {
    let queue = queue_name(&mut line)?;
    with_queues(line.settings, |_| Ok(queue))
}

/// As [`with_common`], for servers that have queues.
fn with_queues<T>(
    settings: Values,
    read: impl FnOnce(&mut Sources) -> Result<T, Failure>,
) -> Result<(T, Common), Failure> {
    let (own, common) = with_common(settings, read)?;
    check_queues(common.connection.kind)?;
    Ok((own, common))
}

/// The queue, which is the first argument.
fn queue_name(line: &mut CommandLine) -> Result<String, Failure> {
    let first = (!line.arguments.is_empty()).then(|| line.arguments.remove(0));
    argument("QUEUE", first, queue)
}

fn queue(text: &str) -> Result<String, String> {
    name(text, "the name")
}

/// Whether no stronger source gives one of these `others`, which cannot be combined with the setting.
fn is_strongest(sources: &Sources, name: &str, others: &[&str]) -> bool {
    let own = sources.precedence(name);
    others.iter().all(|other| sources.precedence(other) <= own)
}

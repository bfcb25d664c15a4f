//! A command of a worker: what it gets, how it is ended, and what its end means for its jobs.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::pipe2;

use super::Spec;
use super::payload::{self, Payload};
use super::stderr::Round;
use crate::base::clock::Moment;
use crate::base::exit::{CONFLICT, Ending, Failure, Reason, TIMED_OUT, TIMED_OUT_KILLED};
use crate::base::text::{in_words, shown};
use crate::queue::{JobEnd, LONGEST_ERROR, Queue, retry_delay};
use crate::supervise::{Child, Signals, Surroundings, Termination, change};

/// Bytes of an argument at most (execve(2)), with the one that ends it.
const LONGEST_ARGUMENT: u64 = 131_072;

/// A job that was claimed.
#[derive(Debug, Clone)]
pub struct Task {
    /// The first job of what it was claimed as.
    pub unit: u64,
    /// Its number.
    pub id: u64,
    /// How often it was started, with this time.
    pub attempt: u32,
    /// Grows with every claim.
    pub fence: u64,
    /// Its payload.
    pub payload: Payload,
}

/// Why a command is being ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Its time is over.
    TimedOut,
    /// The worker ends.
    Stopped,
    /// The lease of its jobs is over, or was.
    LeaseOver,
}

/// A command that was started.
pub struct Command {
    /// Its process.
    pub child: Child,
    /// Its jobs.
    pub tasks: Vec<Task>,
    /// When it was started.
    pub started: Moment,
    /// When its time is over; `None`: never.
    pub time_over: Option<Moment>,
    /// Set once it is being ended.
    pub termination: Option<(Cause, Termination)>,
    /// What it says is wrong; `None`: the end of that was read.
    pub stderr: Option<File>,
    /// The end of that.
    said: VecDeque<u8>,
}

/// Why a command could not be started.
pub enum Unstarted {
    /// The job cannot be run by it.
    Job(String),
    /// No job can.
    Worker(Failure),
}

impl Command {
    /// Starts it for these jobs, of which there is at least one.
    ///
    /// # Errors
    /// The jobs are as they were.
    pub fn start(spec: &Spec, tasks: Vec<Task>, signals: &Signals) -> Result<Self, Unstarted> {
        let refused = |error: &io::Error| {
            let line = format!("cannot run the command: {}", in_words(error));
            Unstarted::Worker(Failure::new(Reason::OsRefused, line))
        };
        let arguments = arguments(spec, &tasks)?;
        let payloads: Vec<_> = tasks.iter().map(|task| task.payload.clone()).collect();
        let end = spec.batch.map(|batch| batch.separator);
        let stdin = payload::stdin(&payloads, end).map_err(|error| refused(&error))?;
        let (read, write) = pipe().map_err(|error| refused(&error))?;
        let surroundings = Surroundings {
            stdin: Some(stdin),
            stderr: Some(write),
            folder: None,
        };
        let numbers = |number: &dyn Fn(&Task) -> String| {
            let numbers: Vec<_> = tasks.iter().map(number).collect();
            numbers.join(" ")
        };
        let mut changes = vec![
            change("DBLOCK_QUEUE", Some(&spec.queue)),
            change("DBLOCK_JOB_ID", Some(&numbers(&|task| task.id.to_string()))),
            change(
                "DBLOCK_ATTEMPT",
                Some(&numbers(&|task| task.attempt.to_string())),
            ),
            change(
                "DBLOCK_FENCE",
                Some(&numbers(&|task| task.fence.to_string())),
            ),
        ];
        changes.extend(spec.scrubbed.iter().map(|&name| change(name, None)));
        let started = Moment::now();
        let child = Child::spawn(&arguments, changes, signals, surroundings, |_, _| Ok(()))
            .map_err(Unstarted::Worker)?;
        Ok(Self {
            child,
            tasks,
            started,
            time_over: spec.timeout.map(|timeout| started + timeout),
            termination: None,
            stderr: Some(read),
            said: VecDeque::new(),
        })
    }

    /// The numbers of its jobs, for people.
    pub fn jobs(&self) -> String {
        let jobs: Vec<_> = self.tasks.iter().map(|task| task.id.to_string()).collect();
        jobs.join(" ")
    }

    /// Begins to end it, unless that has begun.
    pub fn end(&mut self, cause: Cause, kill_after: Duration) {
        if self.termination.is_none() {
            let (termination, _) = Termination::begin(&self.child, kill_after);
            self.termination = Some((cause, termination));
        }
    }

    /// Whether it has ended, and, where it was ended, all of its group is gone.
    pub fn is_over(&mut self) -> bool {
        match &mut self.termination {
            Some((_, termination)) => termination.check(&self.child),
            None => self.child.ended().is_some(),
        }
    }

    /// When it is to be looked at, unless something happens before.
    pub fn deadline(&self) -> Option<Moment> {
        match &self.termination {
            Some((_, termination)) => Some(termination.look_again),
            None => self.time_over,
        }
    }

    /// Passes on some of what it says is wrong, as far as that is there, and keeps the end of it.
    pub fn pass_on_stderr(&mut self, round: Round) {
        let Some(stderr) = &mut self.stderr else {
            return;
        };
        let said = &mut self.said;
        if round.pass_on(stderr, |piece| keep_end(said, piece)) {
            self.stderr = None;
        }
    }

    /// What became of its jobs, each; and how it ended, as `dblock run` tells it. It must be over. The rest of what it says is wrong is
    /// passed on.
    pub fn outcome(
        &mut self,
        spec: &Spec,
        queue: &Queue,
        is_stopping: bool,
        round: Round,
    ) -> (Vec<(Task, JobEnd)>, Ending) {
        let ending = self
            .child
            .ended()
            .unwrap_or(Ending::Code(Reason::Internal.code()));
        let said = &mut self.said;
        let is_end = |stderr: &mut File| round.pass_on_rest(stderr, |piece| keep_end(said, piece));
        if self.stderr.as_mut().is_some_and(is_end) {
            self.stderr = None;
        }
        let said: Vec<u8> = self.said.iter().copied().collect();
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        let cause = self.termination.as_ref().map(|(cause, _)| *cause);
        // Who asks the worker to end from a terminal asks its commands, too.
        let was_asked = is_stopping
            && matches!(
                ending,
                Ending::Signal(libc::SIGINT | libc::SIGTERM | libc::SIGHUP | libc::SIGQUIT)
            );
        let end = match (cause, ending) {
            (Some(Cause::Stopped | Cause::LeaseOver), _) => End::GivenBack,
            (None, _) if was_asked => End::GivenBack,
            (Some(Cause::TimedOut), _) => End::Failed(
                format!(
                    "timed out after {}",
                    shown(spec.timeout.unwrap_or_default())
                ),
                false,
            ),
            (None, Ending::Code(0)) => End::Done,
            (None, Ending::Code(CONFLICT)) => End::Later,
            (None, Ending::Code(code)) => {
                End::Failed(format!("exit {code}"), spec.bury_on.contains(&code))
            }
            (None, Ending::Signal(signal)) => {
                End::Failed(format!("died of signal {signal}"), false)
            }
        };
        let each = std::mem::take(&mut self.tasks).into_iter().map(|task| {
            let outcome = end.of(&task, queue, &said);
            (task, outcome)
        });
        let killed = |termination: &Termination| {
            termination.killed || ending == Ending::Signal(libc::SIGKILL)
        };
        let ending = match &self.termination {
            Some((Cause::TimedOut, termination)) => Ending::Code(if killed(termination) {
                TIMED_OUT_KILLED
            } else {
                TIMED_OUT
            }),
            _ => ending,
        };
        (each.collect(), ending)
    }
}

/// Keeps the end of what was said.
fn keep_end(said: &mut VecDeque<u8>, piece: &[u8]) {
    said.extend(piece);
    let excess = said.len().saturating_sub(LONGEST_ERROR);
    said.drain(..excess);
}

/// How a command ended, as far as its jobs are concerned.
enum End {
    Done,
    Later,
    GivenBack,
    /// Why, and whether for good.
    Failed(String, bool),
}

impl End {
    fn of(&self, task: &Task, queue: &Queue, said: &str) -> JobEnd {
        match self {
            Self::Done => JobEnd::Done,
            Self::Later => JobEnd::Later(queue.retry_delay),
            Self::GivenBack => JobEnd::GivenBack,
            Self::Failed(why, for_good) => failed(task, queue, why, said, *for_good),
        }
    }
}

/// What becomes of a job that has failed.
pub fn failed(task: &Task, queue: &Queue, why: &str, said: &str, for_good: bool) -> JobEnd {
    let error = if said.is_empty() {
        why.to_owned()
    } else {
        // Of what it said the end is kept.
        let room = LONGEST_ERROR.saturating_sub(why.chars().count() + 2);
        let excess = said.chars().count().saturating_sub(room);
        let end: String = said.chars().skip(excess).collect();
        format!("{why}: {}", end.trim_start())
    };
    if for_good || task.attempt >= queue.max_attempts {
        return JobEnd::Dead(error);
    }
    let chance = f64::from(getrandom::u32().unwrap_or_default()) / f64::from(u32::MAX);
    JobEnd::Retry(retry_delay(queue.retry_delay, task.attempt, chance), error)
}

/// The command's arguments; in place of each that is `{}` stands the payload.
fn arguments(spec: &Spec, tasks: &[Task]) -> Result<Vec<OsString>, Unstarted> {
    let mut arguments = Vec::with_capacity(spec.command.len());
    for (at, argument) in spec.command.iter().enumerate() {
        let (true, Some(task), None) = (at > 0 && argument == "{}", tasks.first(), spec.batch)
        else {
            arguments.push(argument.clone());
            continue;
        };
        if task.payload.length >= LONGEST_ARGUMENT {
            return Err(Unstarted::Job(
                "its payload is longer than an argument may be".to_owned(),
            ));
        }
        let payload = task.payload.as_argument().map_err(|error| {
            let line = format!("cannot read a payload: {}", in_words(&error));
            Unstarted::Worker(Failure::new(Reason::OsRefused, line))
        })?;
        if payload.as_bytes().contains(&0) {
            return Err(Unstarted::Job(
                "its payload has a NUL byte, which no argument can have".to_owned(),
            ));
        }
        arguments.push(payload);
    }
    Ok(arguments)
}

/// A pipe whose reader does not wait.
fn pipe() -> io::Result<(File, OwnedFd)> {
    let (read, write) = pipe2(OFlag::O_CLOEXEC)?;
    fcntl(&read, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok((File::from(read), write))
}

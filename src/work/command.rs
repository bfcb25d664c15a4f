//! A worker's command: its input, and what its end means for its jobs.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::time::SystemTime;

use super::Spec;
use super::payload::{self, Payload};
use crate::base::clock::Moment;
use crate::base::exit::{CONFLICT, Ending, Failure, Reason};
use crate::base::hooks::Hooks;
use crate::base::text::shown;
use crate::history::{KEPT, KeepOutput, Outcome, RunEnd};
use crate::keeper::Place;
use crate::queue::{JobEnd, LONGEST_ERROR, Queue, Rescued, WORKER_DIED, retry_delay};
use crate::supervise::{
    CannotRun, Cause, Change, Child, Command, Hook, Output, Report, ReportedRun, RunOutcome,
    RunRecord, Signals, Sink, Started, Surroundings, Tail, change, pipe, program_of, wanted,
    was_closed,
};

/// Longest argument in bytes, with its final NUL (execve(2)).
const LONGEST_ARGUMENT: u64 = 131_072;

/// A job that was claimed.
#[derive(Debug, Clone)]
pub struct Task {
    /// The first job of its unit.
    pub unit: u64,
    /// Its id.
    pub id: u64,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// The fence of this claim.
    pub fence: u64,
    /// Its payload.
    pub payload: Payload,
    /// Whether the payload is complete.
    pub is_whole: bool,
}

/// The jobs that a command was started for.
pub struct Jobs {
    /// The jobs; none once others have them.
    pub tasks: Vec<Task>,
    record: RunRecord,
}

/// A command that was started for jobs. Its stderr goes through dblock's own.
pub type JobCommand = Started<Jobs>;

/// Why a command did not start.
pub enum Unstarted {
    /// This job cannot be run.
    Job(String),
    /// The worker cannot start any command.
    Worker(Failure),
}

impl Unstarted {
    /// What it means that the system started no command.
    pub fn of(spec: &Spec, error: CannotRun) -> Self {
        // The worker itself was started with all the rest.
        if error.is_too_long && (0..spec.command.len()).any(|at| is_payload(spec, at)) {
            return Self::Job(
                "its payload and the environment are longer than the system takes".to_owned(),
            );
        }
        Self::Worker(error.failure)
    }
}

/// Starts a command for these jobs, at least one.
///
/// # Errors
/// The command was not started, and the jobs are unchanged.
pub fn start(
    spec: &Spec,
    tasks: Vec<Task>,
    signals: &Signals,
    place: Place,
) -> Result<JobCommand, Unstarted> {
    let refused = |error: &io::Error| Unstarted::Worker(Failure::refused("run the command", error));
    let arguments = arguments(spec, &tasks)?;
    let payloads: Vec<_> = tasks.iter().map(|task| task.payload.clone()).collect();
    let end = spec.batch.map(|batch| batch.separator);
    let stdin = payload::stdin(&payloads, end).map_err(|error| refused(&error))?;
    let (read, write) = pipe().map_err(|error| refused(&error))?;
    let mut output = Output::of_stderr(read, Sink::Through(Tail::new(LONGEST_ERROR)));
    let mut stdout = None;
    if spec.keep_output != KeepOutput::None {
        output.keep(KEPT);
        // A terminal is what the command can see, and a closed one stays closed.
        if !io::stdout().is_terminal() && !was_closed(libc::STDOUT_FILENO) {
            let (read, write) = pipe().map_err(|error| refused(&error))?;
            output.read_stdout(read);
            stdout = Some(write);
        }
    }
    let surroundings = Surroundings {
        stdin: Some(stdin),
        stdout,
        stderr: Some(write),
        ..Surroundings::default()
    };
    let changes = changes(spec, &tasks);
    let mut record = RunRecord::begin();
    record.started = Some(SystemTime::now());
    let started = Moment::now();
    let announce = place.announce();
    let child = Child::spawn(&arguments, changes, signals, surroundings, announce)
        .map_err(|error| Unstarted::of(spec, error))?;
    Ok(Started {
        running: Command::new(child, started, spec.timeout, spec.kill_after, place),
        output,
        purpose: Jobs { tasks, record },
    })
}

/// How the environment of a command for these jobs differs from the worker's.
fn changes(spec: &Spec, tasks: &[Task]) -> Vec<Change> {
    let numbers = |number: &dyn Fn(&Task) -> String| {
        let numbers: Vec<_> = tasks.iter().map(number).collect();
        numbers.join(" ")
    };
    let jobs = numbers(&|task| task.id.to_string());
    let attempts = numbers(&|task| task.attempt.to_string());
    let fences = numbers(&|task| task.fence.to_string());
    changes_of(spec, &jobs, &attempts, Some(&fences))
}

/// The same for jobs of which these are the numbers.
fn changes_of(spec: &Spec, jobs: &str, attempts: &str, fences: Option<&str>) -> Vec<Change> {
    let own = [
        ("DBLOCK_QUEUE", Some(&*spec.queue)),
        ("DBLOCK_JOB_ID", Some(jobs)),
        ("DBLOCK_ATTEMPT", Some(attempts)),
        ("DBLOCK_FENCE", fences),
    ];
    let scrubbed = spec.scrubbed.iter().map(|&name| (name, None));
    let all = own.into_iter().chain(scrubbed);
    all.map(|(name, value)| change(name, value)).collect()
}

/// The report of a command that has ended, with its jobs and the greatest number of their attempts.
fn report(spec: &Spec, record: &RunRecord, end: RunEnd, of: (Vec<u64>, Option<u32>)) -> Report {
    let (jobs, attempt) = of;
    Report::of(ReportedRun {
        name: spec.queue.clone(),
        slot_names: &[],
        program: program_of(&spec.command),
        requested: SystemTime::now() - record.requested.elapsed(),
        record,
        end,
        attempt,
        jobs,
    })
}

impl JobCommand {
    /// The ids of its jobs, as text.
    pub fn jobs(&self) -> String {
        let jobs: Vec<_> = self.tasks.iter().map(|task| task.id.to_string()).collect();
        jobs.join(" ")
    }

    /// The outcome of each job, and the exit of the command, as for `dblock run`. The command must be over, and its output finished.
    pub fn outcome(
        &mut self,
        spec: &Spec,
        queue: &Queue,
        is_stopping: bool,
    ) -> (Vec<(Task, JobEnd)>, Ending) {
        let ending = self.running.child.ended();
        let ending = ending.unwrap_or(Ending::Code(Reason::Internal.code()));
        let said = match &self.output.sink {
            Sink::Through(tail) => tail.text(),
            _ => String::new(),
        };
        let cause = self.running.cause();
        // A terminal sends the signal that ends the worker to its commands, too.
        let was_asked = is_stopping
            && matches!(
                ending,
                Ending::Signal(libc::SIGINT | libc::SIGTERM | libc::SIGHUP | libc::SIGQUIT)
            );
        let failed_by = |why: String, for_good: bool| Err((why, for_good));
        let end: Result<JobEnd, (String, bool)> = match (cause, ending) {
            (Some(Cause::TimedOut), _) => {
                let timeout = shown(spec.timeout.unwrap_or_default());
                failed_by(format!("timed out after {timeout}"), false)
            }
            (Some(_), _) => Ok(JobEnd::Returned),
            (None, _) if was_asked => Ok(JobEnd::Returned),
            (None, Ending::Code(0)) => Ok(JobEnd::Done),
            (None, Ending::Code(CONFLICT)) => Ok(JobEnd::Later(queue.retry_delay)),
            (None, Ending::Code(code)) => {
                failed_by(format!("exit {code}"), spec.bury_on.contains(&code))
            }
            (None, Ending::Signal(_)) => failed_by(ending.to_string(), false),
        };
        let each = std::mem::take(&mut self.tasks).into_iter().map(|task| {
            let outcome = match &end {
                Ok(outcome) => outcome.clone(),
                Err((why, for_good)) => failed(&task, queue, why, &said, *for_good),
            };
            (task, outcome)
        });
        let ending = match self.running.cause() {
            Some(Cause::TimedOut) => self.running.timed_out(),
            _ => ending,
        };
        (each.collect(), ending)
    }

    /// What is to be run at its end, which has these outcomes.
    pub fn hooks(&mut self, spec: &Spec, outcomes: &[(Task, JobEnd)], exit: Ending) -> Vec<Hook> {
        let is_over =
            |end: &JobEnd| matches!(end, JobEnd::Done | JobEnd::Retry(..) | JobEnd::Dead(_));
        if spec.hooks == Hooks::default() || !outcomes.iter().any(|(_, end)| is_over(end)) {
            return Vec::new();
        }
        let started = self.running.started;
        let record = &mut self.purpose.record;
        record.end_command(started, exit);
        if self.running.cause() == Some(Cause::TimedOut) {
            record.outcome = RunOutcome::TimedOut;
        }
        let tasks: Vec<Task> = outcomes.iter().map(|(task, _)| task.clone()).collect();
        let jobs = tasks.iter().map(|task| task.id).collect();
        let attempt = tasks.iter().map(|task| task.attempt).max();
        let end = record.summary(Ok(exit));
        let mut report = report(spec, record, end, (jobs, attempt));
        report.will_retry = outcomes
            .iter()
            .any(|(_, end)| matches!(end, JobEnd::Retry(..)));
        wanted(&spec.hooks, &report, &changes(spec, &tasks))
    }
}

/// What is to be run after the jobs of a dead worker.
pub fn hooks_for_the_dead(spec: &Spec, rescued: &Rescued) -> Vec<Hook> {
    let (record, end) = (RunRecord::begin(), RunEnd::of(Outcome::Failed, WORKER_DIED));
    let of = (rescued.jobs.clone(), Some(rescued.attempt));
    let mut report = report(spec, &record, end, of);
    report.will_retry = rescued.will_retry;
    let jobs: Vec<_> = rescued.jobs.iter().map(u64::to_string).collect();
    let changes = changes_of(spec, &jobs.join(" "), &rescued.attempt.to_string(), None);
    wanted(&spec.hooks, &report, &changes)
}

/// The outcome of a failed attempt.
pub fn failed(task: &Task, queue: &Queue, why: &str, said: &str, for_good: bool) -> JobEnd {
    let error = if said.is_empty() {
        why.to_owned()
    } else {
        // Keeps the last part of stderr.
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

/// Whether the payload takes the place of this argument.
fn is_payload(spec: &Spec, at: usize) -> bool {
    at > 0 && spec.command[at] == "{}" && spec.batch.is_none()
}

/// The command's arguments, with the payload in place of each `{}`.
fn arguments(spec: &Spec, tasks: &[Task]) -> Result<Vec<OsString>, Unstarted> {
    let mut arguments = Vec::with_capacity(spec.command.len());
    for (at, argument) in spec.command.iter().enumerate() {
        let (true, Some(task)) = (is_payload(spec, at), tasks.first()) else {
            arguments.push(argument.clone());
            continue;
        };
        if task.payload.length >= LONGEST_ARGUMENT {
            return Err(Unstarted::Job(
                "its payload is longer than an argument may be".to_owned(),
            ));
        }
        let payload = task
            .payload
            .as_argument()
            .map_err(|error| Unstarted::Worker(Failure::refused("read a payload", &error)))?;
        if payload.as_bytes().contains(&0) {
            return Err(Unstarted::Job(
                "its payload has a NUL byte, which no argument can have".to_owned(),
            ));
        }
        arguments.push(payload);
    }
    Ok(arguments)
}

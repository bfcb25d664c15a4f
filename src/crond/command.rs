//! The command of an attempt: what it is started with, and what its end means for its tick.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use nix::sys::memfd::{MFdFlags, memfd_create};

use super::environment::{changes, home, shell};
use super::mail::Mail;
use super::message::Attempt;
use super::program;
use crate::base::clock::Moment;
use crate::base::exit::{Ending, Failure, Reason};
use crate::base::text::shown;
use crate::cron::{AttemptEnd, Job};
use crate::db::Client;
use crate::history::{DIED, KEPT, KeepOutput, Outcome, RunEnd};
use crate::keeper::Place;
use crate::lock::{Grant, Lease};
use crate::supervise::{
    CannotRun, Cause, Child, Command, LockEventKind, Outlet, Output, Report, ReportedRun,
    RunOutcome, RunRecord, Signals, Sink, Started, Surroundings, of_grant, pipe,
};

/// What an attempt's command is started for.
pub struct Tick {
    /// The job.
    pub job: Rc<Job>,
    /// The attempt.
    pub attempt: Attempt,
    /// Its lock.
    pub grant: Grant,
    /// How long that is held, as far as it is proved; `None`: it is lost.
    pub lease: Option<Lease>,
    /// Where its output goes; `None`: that is passed on.
    pub mail: Option<Mail>,
    record: RunRecord,
    /// Whether somebody ends it with `dblock kill`, or has done so by force.
    is_killed: bool,
}

/// An attempt whose command was started.
pub type TickCommand = Started<Tick>;

/// What an attempt's end means.
pub struct Concluded {
    /// How it ended.
    pub end: AttemptEnd,
    /// The same as text.
    pub words: String,
    /// For the history; `None`: its command was not started.
    pub run_end: Option<Box<RunEnd>>,
    /// For what is run at its end; `None`: nothing is.
    pub report: Option<Box<Report>>,
}

/// The streams of an attempt before its command is started, and the ends for the command.
pub struct Streams {
    output: Output,
    /// Where the output goes when all of it is there; `None`: it is passed on.
    mail: Option<Mail>,
    ends: [OwnedFd; 3],
}

impl Streams {
    /// The streams of a job's command, whose output may be kept.
    ///
    /// # Errors
    /// The system refused.
    pub fn new(job: &Job, keeps: KeepOutput) -> io::Result<Self> {
        let (mail, text) = Mail::begin(job)?.unzip();
        let sink = text.map_or_else(|| Sink::Lines(job.name.to_string()), Sink::File);
        let (out, out_end) = pipe()?;
        let (err, err_end) = pipe()?;
        let mut output = Output::of_both([out, err], sink);
        if keeps != KeepOutput::None {
            output.keep(KEPT);
        }
        Ok(Self {
            ends: [input(&job.input)?, out_end, err_end],
            output,
            mail,
        })
    }
}

/// The command's stdin.
fn input(text: &str) -> io::Result<OwnedFd> {
    if text.is_empty() {
        return Ok(File::open("/dev/null")?.into());
    }
    let mut file = File::from(memfd_create(c"dblock input", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}

/// Starts the command of an attempt under a lock, perhaps while `others_hang` at their start.
///
/// # Errors
/// It was not started; with what there is to be read of that.
pub fn start(
    job: Rc<Job>,
    (attempt, grant, lease): (Attempt, Grant, Lease),
    mut streams: Streams,
    outlets: &mut [Outlet; 2],
    scrubbed: &[&'static str],
    (place, signals, others_hang): (Place, &Signals, bool),
) -> Result<TickCommand, Box<(Failure, Output, Option<Mail>)>> {
    let mut environment = changes(&job, scrubbed, attempt.number);
    environment.extend(of_grant(&job.name, &[], Some(grant), Some(&attempt.shown)));
    let [stdin, stdout, stderr] = streams.ends;
    let surroundings = Surroundings {
        stdin: Some(stdin),
        stdout: Some(stdout),
        stderr: Some(stderr),
        folder: Some(home(&job)),
        own_session: true,
        others_hang,
    };
    let arguments = [shell(&job), "-c", &job.command].map(OsString::from);
    let mut record = RunRecord::begin();
    record.grant = Some(grant);
    record.tick = Some(attempt.shown.clone());
    record.started = Some(SystemTime::now());
    let (started, announce) = (Moment::now(), place.announce());
    let (timeout, kill_after) = (job.options.timeout, job.options.kill_after);
    match Child::spawn(&arguments, environment, signals, surroundings, announce) {
        Ok(child) => Ok(Started {
            running: Command::new(child, started, timeout, kill_after, place),
            output: streams.output,
            purpose: Tick {
                job,
                attempt,
                grant,
                lease: Some(lease),
                mail: streams.mail,
                record,
                is_killed: false,
            },
        }),
        Err(CannotRun { failure, .. }) => {
            streams.output.say(outlets, &failure);
            Err(Box::new((failure, streams.output, streams.mail)))
        }
    }
}

impl TickCommand {
    /// When dblock must begin to end it, unless its lock is confirmed before; `None`: that has begun.
    pub fn lease_over(&self) -> Option<Moment> {
        let lease = self.lease.filter(|_| !self.running.is_ending())?;
        Some(lease.end_command(self.job.options.kill_after))
    }

    /// Adds a line of dblock's own to its output.
    pub fn say(&mut self, outlets: &mut [Outlet; 2], line: &str) {
        self.output.say(outlets, line);
    }

    /// Adds a line that the daemon's log has to its output, too, if that goes by mail: otherwise both go to the same place.
    pub fn say_by_mail(&mut self, outlets: &mut [Outlet; 2], line: &str) {
        if self.mail.is_some() {
            self.say(outlets, line);
        }
    }

    /// The lock is lost. The command must end.
    pub fn lose(&mut self, cause: &str, is_killed: bool) -> String {
        self.is_killed |= is_killed;
        self.record.lose(cause);
        self.running.end(Cause::LockLost, self.lease);
        self.lease = None;
        let name = &self.job.name;
        format!("{name} was lost while the command runs: {cause}; ending the command")
    }

    /// This client ends the run. The command must end.
    pub fn be_killed(&mut self, who: &Client) -> String {
        self.is_killed = true;
        self.record.add(LockEventKind::Killed, &format!("by {who}"));
        self.running.end(Cause::LockLost, self.lease);
        let name = &self.job.name;
        format!("{name} was ended by {who}; ending the command")
    }

    /// The lease is over, and the scheduler is silent. The command must end.
    pub fn abandon(&mut self, lease: Lease) -> String {
        let silent = shown(lease.proved.elapsed());
        let why = format!("may be lost: the server has not renewed it for {silent}");
        self.record.add(LockEventKind::Abandoned, &why);
        self.running.end(Cause::LeaseOver, Some(lease));
        format!("{} {why}; ending the command", self.job.name)
    }

    /// What its end means. It must be over.
    pub fn conclude(&mut self) -> Concluded {
        let cause = self.running.cause();
        let child = &self.running.child;
        let ending = child
            .ended()
            .unwrap_or(Ending::Code(Reason::Internal.code()));
        let late_failure = child.late_failure().map(|error| error.failure);
        let record = &mut self.purpose.record;
        if late_failure.is_some() {
            record.started = None;
        } else {
            record.end_command(self.running.started, ending);
        }
        record.is_interrupted = cause == Some(Cause::Stopped);
        let ended = match (late_failure, cause) {
            (Some(failure), _) => Err(failure),
            (None, Some(Cause::LockLost | Cause::LeaseOver)) => {
                let name = &self.job.name;
                let line = format!("{name} was lost, and the command was ended for it");
                Err(Failure::new(Reason::LockLost, line))
            }
            (None, Some(Cause::TimedOut)) => {
                record.outcome = RunOutcome::TimedOut;
                Ok(self.running.timed_out())
            }
            (None, Some(Cause::Stopped) | None) => Ok(ending),
        };
        let (end, words) = self.meaning(&ended);
        let ended = ended.map_err(anyhow::Error::from);
        let ended = ended.as_ref().copied();
        let (run_end, summary) = (self.record.run_end(ended), self.record.summary(ended));
        let report = report(&self.job, &self.attempt, &self.record, summary);
        Concluded {
            end,
            words,
            run_end: Some(Box::new(run_end)),
            report: Some(Box::new(report)),
        }
    }

    fn meaning(&self, ended: &Result<Ending, Failure>) -> (AttemptEnd, String) {
        let is_timed_out = self.record.outcome == RunOutcome::TimedOut;
        match ended {
            Ok(Ending::Code(0)) if !is_timed_out => (AttemptEnd::Over, "done".to_owned()),
            // Whoever ends a run does not want it again.
            Ok(_) if self.is_killed => (AttemptEnd::Over, "ended".to_owned()),
            // This was not its own end.
            Ok(_) if self.running.cause() == Some(Cause::Stopped) => {
                (AttemptEnd::Returned, "stopped".to_owned())
            }
            Ok(_) if is_timed_out => (AttemptEnd::Failed, "timed out".to_owned()),
            Ok(Ending::Code(code)) => (AttemptEnd::Failed, format!("exit {code}")),
            Ok(ending @ Ending::Signal(_)) => (AttemptEnd::Failed, ending.to_string()),
            Err(failure) => (end_of(failure, self.is_killed), failure.to_string()),
        }
    }
}

/// The report of an attempt that has ended.
fn report(job: &Job, attempt: &Attempt, record: &RunRecord, end: RunEnd) -> Report {
    Report::of(ReportedRun {
        name: job.name.to_string(),
        slot_names: &[],
        program: program(job),
        requested: SystemTime::now() - record.requested.elapsed(),
        record,
        end,
        attempt: Some(attempt.number),
        jobs: Vec::new(),
    })
}

/// The report of an attempt whose host has died.
pub fn report_of_the_dead(job: &Job, attempt: &Attempt, will_retry: bool) -> Report {
    let mut record = RunRecord::begin();
    record.tick = Some(attempt.shown.clone());
    let end = RunEnd::of(Outcome::Failed, format!("{}: {DIED}", job.name));
    let mut report = report(job, attempt, &record, end);
    report.will_retry = will_retry;
    report
}

/// What it means that the command of an attempt could not be started.
pub fn unstarted(job: &Job, attempt: &Attempt, failure: Failure) -> Concluded {
    let (end, words) = (end_of(&failure, false), failure.to_string());
    let record = RunRecord::begin();
    let summary = record.summary(Err(&failure.into()));
    let report = report(job, attempt, &record, summary);
    Concluded {
        end,
        words,
        run_end: None,
        report: Some(Box::new(report)),
    }
}

/// How an attempt has ended that failed so.
fn end_of(failure: &Failure, is_killed: bool) -> AttemptEnd {
    match failure.reason {
        Reason::LockLost if is_killed => AttemptEnd::Over,
        Reason::LockLost => AttemptEnd::Lost,
        Reason::NotFound | Reason::NotExecutable => AttemptEnd::Failed,
        _ => AttemptEnd::Unstarted,
    }
}

/// The time limit of a job's command, as it is said when that is over.
pub fn said_timeout(timeout: Option<Duration>) -> String {
    format!(
        "the command has run for {}; ending it",
        shown(timeout.unwrap_or_default())
    )
}

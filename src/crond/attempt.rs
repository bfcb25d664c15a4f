//! An attempt of a tick, in its own process: does what `dblock run --durable` does, and reports how that ended.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::fcntl::{OFlag, open};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::{
    AccessFlags, ForkResult, Pid, access, dup2_stderr, dup2_stdin, dup2_stdout, fork, getpid,
    getppid, setsid,
};

use super::environment::{changes, home, shell};
use super::message::{Conclusion, Start};
use super::{Spec, program};
use crate::base::descriptors;
use crate::base::exit::{Ending, Failure, Reason};
use crate::base::log::Log;
use crate::base::text::in_words;
use crate::cron::{AttemptEnd, Claim, Job, Overlap};
use crate::isolated::link::Link;
use crate::keeper::TableUse;
use crate::lock::{LockSpec, OnLockLost, Wait, run_lock_of};
use crate::supervise::{
    self, LockEventKind, RunOutcome, RunRecord, Signals, Supervisor, have_streams, pipe,
};

/// How many runs of a job may overlap, if overlaps are allowed.
const OVERLAPPING: u32 = 100;

/// A dead host's lock is free when its TTL is over. The server may take this much longer to grant it.
const MARGIN: Duration = Duration::from_secs(5);

/// A forked attempt.
pub struct Forked {
    /// Its process.
    pub pid: Pid,
    /// The link on which it reports how it ended.
    pub link: Link,
    /// The stdout and stderr of the attempt and its command.
    pub streams: [File; 2],
}

/// Forks an attempt.
///
/// # Errors
/// The system refused.
pub fn fork_off(
    spec: &Spec,
    job: &Job,
    start: &Start,
    signals: &Signals,
    log: Log,
) -> io::Result<Forked> {
    let (ours, theirs) = Link::pair()?;
    let (out, out_end) = pipe()?;
    let (err, err_end) = pipe()?;
    let input = input(&job.input)?;
    let parent = getpid();
    // SAFETY: no thread was started, so the child may do whatever the parent may.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok(Forked {
            pid: child,
            link: ours,
            streams: [out, err],
        }),
        ForkResult::Child => {
            let prepared = prepare(parent, [input, out_end, err_end], &theirs, signals);
            let conclusion = match prepared {
                // The coordinator's values must not be dropped here.
                Ok(()) => catch_unwind(AssertUnwindSafe(|| supervise(spec, job, start, log)))
                    .unwrap_or_else(|_| unstarted("dblock failed")),
                Err(error) => unstarted(&in_words(&error)),
            };
            let _ = theirs.send(&conclusion);
            Ending::Code(0).exit()
        }
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

/// In the new process: closes what belongs to the coordinator. The process dies with the coordinator.
fn prepare(parent: Pid, streams: [OwnedFd; 3], link: &Link, signals: &Signals) -> io::Result<()> {
    let [stdin, stdout, stderr] = streams;
    dup2_stdin(&stdin)?;
    dup2_stdout(&stdout)?;
    dup2_stderr(&stderr)?;
    have_streams();
    setsid()?;
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid() != parent {
        return Err(io::Error::other("the daemon is gone"));
    }
    Signals::restore_mask(&signals.inherited())?;
    // The values that own these descriptors are never used again: this process does not return from here.
    std::mem::forget([stdin, stdout, stderr]);
    descriptors::close_above_stderr(&[link.as_fd().as_raw_fd()])
}

fn unstarted(words: &str) -> Conclusion {
    Conclusion {
        end: AttemptEnd::Unstarted,
        words: words.to_owned(),
        unrecorded: None,
    }
}

/// The job as `dblock run` would get it.
fn task(spec: &Spec, job: &Job, start: &Start, folder: PathBuf) -> supervise::Job {
    let options = &job.options;
    let wait = match options.overlap {
        Overlap::Wait => Wait::Forever,
        _ if start.attempt > 1 => Wait::For(options.ttl + MARGIN),
        Overlap::Skip | Overlap::Allow => Wait::For(Duration::ZERO),
    };
    supervise::Job {
        lock: LockSpec {
            name: job.name.clone(),
            slots: if options.overlap == Overlap::Allow {
                OVERLAPPING
            } else {
                1
            },
            wait,
            ttl: options.ttl,
            on_lost: OnLockLost::Reacquire,
            allow_unfit_server: false,
        },
        connection: spec.connection.clone(),
        slot_names: Vec::new(),
        timeout: options.timeout,
        kill_after: options.kill_after,
        hold_at_least: Duration::ZERO,
        // After the TTL the lock is free without a release.
        release_within: options.ttl,
        scrubbed: Vec::new(),
        variables: changes(job, &spec.scrubbed, start.attempt),
        folder: Some(folder),
        command: [shell(job), "-c", &job.command]
            .map(OsString::from)
            .to_vec(),
        started: SystemTime::now(),
        tables: Some(TableUse {
            durable: true,
            token: None,
            token_ttl: None,
            once: None,
            claim: Some(Claim {
                tick: start.tick,
                shown: start.shown.clone(),
                attempt: start.attempt,
            }),
            slot_names: Vec::new(),
        }),
        program: Some(program(job)),
    }
}

/// Checks that a command can be started in a folder.
fn enter(folder: &Path) -> io::Result<()> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    open(folder, flags, Mode::empty())?;
    access(folder, AccessFlags::X_OK)?;
    Ok(())
}

fn supervise(spec: &Spec, job: &Job, start: &Start, log: Log) -> Conclusion {
    let mut folder = home(job);
    if let Err(error) = enter(&folder) {
        let (home, why) = (folder.display(), in_words(&error));
        log.warning(format_args!(
            "cannot change to the folder {home}: {why}; starting in /"
        ));
        folder = PathBuf::from("/");
    }
    let task = task(spec, job, start, folder);
    let signals = match Signals::collect() {
        Ok(signals) => signals,
        Err(error) => return unstarted(&in_words(&error)),
    };
    let mut record = RunRecord::begin();
    let run_id = run_lock_of(&start.run);
    let ended = Supervisor::new(&task, &run_id, &mut record, log, signals, true, false)
        .map_err(anyhow::Error::from)
        .and_then(Supervisor::supervise);
    conclude(ended, &record, &task, log)
}

/// What the end of a run means for its tick.
fn conclude(
    ended: anyhow::Result<supervise::Conclusion>,
    record: &RunRecord,
    task: &supervise::Job,
    log: Log,
) -> Conclusion {
    use supervise::Conclusion as Run;

    let name = &task.lock.name;
    let unrecorded = record
        .is_unrecorded
        .then(|| Box::new(record.run_end(&ended)));
    let was_killed = record
        .events
        .iter()
        .any(|event| event.kind == LockEventKind::Killed);
    let (end, words) = match ended {
        Ok(Run::Ran(Ending::Code(0))) if record.outcome != RunOutcome::TimedOut => {
            (AttemptEnd::Over, "done".to_owned())
        }
        Ok(Run::Ran(_)) if record.outcome == RunOutcome::TimedOut => {
            (AttemptEnd::Failed, "timed out".to_owned())
        }
        Ok(Run::Ran(Ending::Code(code))) => (AttemptEnd::Failed, format!("exit {code}")),
        Ok(Run::Ran(ending @ Ending::Signal(_))) => (AttemptEnd::Failed, ending.to_string()),
        Ok(Run::Taken(holders)) => {
            log.warning(format_args!("{name} is {holders}; not run"));
            (AttemptEnd::Over, format!("is {holders}"))
        }
        Ok(Run::AlreadyRan(already)) => (AttemptEnd::Over, already.to_string()),
        Ok(Run::Interrupted(signal)) => (AttemptEnd::Returned, format!("{signal}")),
        Err(error) => {
            log.error(format_args!("{error:#}"));
            let failure = error.downcast_ref::<Failure>();
            let end = match failure.map_or(Reason::Internal, |failure| failure.reason) {
                Reason::LockLost if was_killed => AttemptEnd::Over,
                Reason::NotFound | Reason::NotExecutable => AttemptEnd::Failed,
                _ if record.started.is_none() => AttemptEnd::Unstarted,
                Reason::LockLost => AttemptEnd::Lost,
                _ => AttemptEnd::Failed,
            };
            (end, format!("{error:#}"))
        }
    };
    Conclusion {
        end,
        words,
        unrecorded,
    }
}

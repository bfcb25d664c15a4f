//! A forked process for work that may hang, break or abort. The `mysql` crate blocks, resolves names without a limit, and panics or
//! aborts on hostile packets: in a process of its own none of that harms the one that waits for it.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, dup2_stderr, fork, getpid, getppid, setsid};
use serde::Serialize;

use super::link::{Link, cut};
use crate::base::clock::Moment;
use crate::base::descriptors;
use crate::base::exit::{Ending, Failure, Reason};
use crate::base::text::in_words;

/// Forks a process for `work`, which the `mysql` crate may block, break or abort without harm to this one; its number, and
/// the link to it. What it fails of is its last message, as `failed` wraps it. It gets the number of this process.
///
/// # Errors
/// [`Reason::OsRefused`].
pub fn fork_isolated<M: Serialize>(
    work: impl FnOnce(Rc<Link>, Pid) -> Result<(), Failure>,
    failed: fn(Failure) -> M,
) -> Result<(Pid, Link), Failure> {
    let refused = |error: io::Error| {
        let line = format!("cannot start a process: {}", in_words(&error));
        Failure::new(Reason::OsRefused, line)
    };
    let (ours, theirs) = Link::pair().map_err(refused)?;
    let parent = getpid();
    // SAFETY: no thread was started, so the child may do whatever the parent may.
    match unsafe { fork() }.map_err(|error| refused(error.into()))? {
        ForkResult::Parent { child } => Ok((child, ours)),
        ForkResult::Child => {
            drop(ours);
            limit_memory();
            let link = Rc::new(theirs);
            let for_work = Rc::clone(&link);
            guarded(|| work(for_work, parent), &link, failed).exit()
        }
    }
}

/// Bytes of memory that a process may have in which the `mysql` crate runs. It makes room for as many columns as a server
/// announces, and for all that it sends of them. A keeper has 9 MB, TLS and the system's certificates included; a packet is
/// 4 MB at most at the login, and 1 MB after it.
const MEMORY: rlim_t = 64 * 1024 * 1024;

/// From here on what asks for more aborts this process. The command is not concerned: its process is not forked off here.
fn limit_memory() {
    // One that cannot be set is no reason to keep a command from running.
    if let Ok((now, _)) = getrlimit(Resource::RLIMIT_DATA) {
        let limit = MEMORY.min(now);
        let _ = setrlimit(Resource::RLIMIT_DATA, limit, limit);
    }
}

/// Where the last panic was; its message may quote what must not be seen.
static PANICKED_AT: Mutex<String> = Mutex::new(String::new());

/// A forked process's life. Whatever happens in it, the `mysql` crate's panics included, becomes a message.
fn guarded<M: Serialize>(
    work: impl FnOnce() -> Result<(), Failure>,
    link: &Link,
    failed: fn(Failure) -> M,
) -> Ending {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or_else(String::new, place);
        *PANICKED_AT.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }));
    let kept = catch_unwind(AssertUnwindSafe(work));
    let failure = match kept {
        Ok(Ok(())) => return Ending::Code(0),
        Ok(Err(failure)) => failure,
        Err(_) => {
            let place = PANICKED_AT.lock().unwrap_or_else(PoisonError::into_inner);
            Failure::new(
                Reason::Internal,
                format!(
                    "the MySQL client library failed on what the server sent{place}; is it a MySQL server?"
                ),
            )
        }
    };
    let code = failure.reason.code();
    let _ = link.send(&failed(Failure {
        line: cut(&failure.line),
        ..failure
    }));
    Ending::Code(code)
}

/// A place in a source file, from its crate on: the folders above are of the machine that built dblock.
fn place(location: &Location) -> String {
    let file = location.file();
    let file = match file.rsplit_once("/src/") {
        Some((folder, rest)) => {
            let name = folder.rsplit('/').next().unwrap_or_default();
            format!("{name}/src/{rest}")
        }
        None => file.to_owned(),
    };
    format!(" ({file}:{})", location.line())
}

/// Before a secret is read: dies with the supervisor, leaves no core file, lets nobody look into its memory, and says nothing on
/// the user's terminal, as an allocation that fails would.
///
/// # Errors
/// [`Reason::OsRefused`].
pub fn harden(parent: Pid) -> Result<(), Failure> {
    let kept = || -> io::Result<()> {
        prctl::set_dumpable(false)?;
        let null = File::options().write(true).open("/dev/null")?;
        Ok(dup2_stderr(&null)?)
    };
    kept().map_err(|error| cannot_detach(&error))?;
    die_with(parent)
}

fn cannot_detach(error: &io::Error) -> Failure {
    let line = format!("cannot detach a process: {}", in_words(error));
    Failure::new(Reason::OsRefused, line)
}

/// Leaves everything that is the supervisor's or the command's: signals, terminal, descriptors; and takes a `name` of at
/// most 15 bytes.
///
/// # Errors
/// [`Reason::OsRefused`].
pub fn detach(link: &Link, name: &CStr) -> Result<(), Failure> {
    detach_with_descriptors(name)?;
    // What dblock inherited is for the command. What the supervisor's values still own here is closed with it.
    descriptors::close_all_except(&[link.as_fd().as_raw_fd()])
        .map_err(|error| cannot_detach(&error))
}

/// As [`detach`], but for the descriptors, which all stay.
///
/// # Errors
/// [`Reason::OsRefused`].
pub fn detach_with_descriptors(name: &CStr) -> Result<(), Failure> {
    let detached = || -> io::Result<()> {
        // A service manager or a terminal signals all processes; the keeper goes when the supervisor lets it go.
        SigSet::all().thread_block()?;
        setsid()?;
        // Whoever kills every `dblock` by name leaves the keeper to end the commands.
        Ok(prctl::set_name(name)?)
    };
    detached().map_err(|error| cannot_detach(&error))
}

/// As long as there is no command, the keeper dies with the supervisor: its place in the queue is free at once.
///
/// # Errors
/// The supervisor is gone already.
pub fn die_with(parent: Pid) -> Result<(), Failure> {
    let died = prctl::set_pdeathsig(Signal::SIGKILL).is_err() || getppid() != parent;
    if died {
        return Err(Failure::new(Reason::OsRefused, "the supervisor is gone"));
    }
    Ok(())
}

/// Ends a process that was forked off; how it ended.
pub fn end(pid: Pid) -> String {
    let _ = kill(pid, Signal::SIGKILL);
    loop {
        match waitpid(pid, None) {
            Err(Errno::EINTR) => {}
            ended => return how(ended),
        }
    }
}

/// As [`end`], but waits so long at most: a process in an uninterruptible call dies only when that is over.
pub fn end_within(pid: Pid, limit: Duration) -> String {
    let _ = kill(pid, Signal::SIGKILL);
    let begun = Moment::now();
    loop {
        match waitpid(pid, Some(WaitPidFlag::WNOHANG)) {
            Err(Errno::EINTR) => {}
            Ok(WaitStatus::StillAlive) if begun.elapsed() < limit => {
                sleep(Duration::from_millis(1));
            }
            Ok(WaitStatus::StillAlive) => return "does not end although it was killed".to_owned(),
            ended => return how(ended),
        }
    }
}

fn how(ended: nix::Result<WaitStatus>) -> String {
    match ended {
        Ok(WaitStatus::Exited(_, code)) => format!("ended with {code}"),
        // It has a limit on its memory, and hits it by an abort.
        Ok(WaitStatus::Signaled(_, Signal::SIGABRT, _)) => {
            "aborted (it may use no more than 64 MB of memory)".to_owned()
        }
        Ok(WaitStatus::Signaled(_, signal, _)) => format!("died of {signal}"),
        // Who inherited SIGCHLD as ignored learns no more.
        _ => "ended".to_owned(),
    }
}

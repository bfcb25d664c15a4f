//! A forked process for work that may hang, panic or abort. The `mysql` crate blocks, resolves names without a limit, and panics or
//! aborts on hostile packets. In its own process it cannot harm the one that waits for it.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{ForkResult, Pid, dup2_stderr, fork, getpid, getppid, setsid};
use serde::Serialize;

use super::link::{Link, with_cut_line};
use crate::base::children::{End, reap_within};
use crate::base::descriptors;
use crate::base::exit::{Ending, Failure, Reason};

/// Forks a process for `work`, which gets the link and this process's pid. Returns the new pid, and the link to it. If `work` fails, its
/// last message is the failure, wrapped by `failed`.
///
/// # Errors
/// [`Reason::OsRefused`].
pub fn fork_isolated<M: Serialize>(
    work: impl FnOnce(Rc<Link>, Pid) -> Result<(), Failure>,
    failed: fn(Failure) -> M,
) -> Result<(Pid, Link), Failure> {
    fork_with_link(Box::new(work), &|link, failure| {
        let _ = link.send(&failed(failure));
    })
}

/// Forks a process for `work`. If that fails, its last message is what `report` sends.
fn fork_with_link(
    work: Box<dyn FnOnce(Rc<Link>, Pid) -> Result<(), Failure> + '_>,
    report: &dyn Fn(&Link, Failure),
) -> Result<(Pid, Link), Failure> {
    let refused = |error: io::Error| Failure::refused("start a process", &error);
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
            guarded(|| work(for_work, parent), |failure| report(&link, failure)).exit()
        }
    }
}

/// How much memory a process that has sessions with servers may take, in bytes. The `mysql` crate allocates as many columns as a server
/// announces, and whatever it sends: a packet has at most 4 MB at the login, and 1 MB afterwards. A message of PostgreSQL has at most 16
/// MB. A keeper needs 9 MB, including TLS and the system's certificates.
const MEMORY: rlim_t = 64 * 1024 * 1024;

/// Sets the limit: an allocation beyond it aborts this process. The command has no such limit, as it is not forked from here.
fn limit_memory() {
    // If the limit cannot be set, the command runs all the same.
    if let Ok((now, _)) = getrlimit(Resource::RLIMIT_DATA) {
        let limit = memory_limit().min(now);
        let _ = setrlimit(Resource::RLIMIT_DATA, limit, limit);
    }
}

/// The limit of a process that is forked now. All that this one has counts there, too, and it may keep the output of many commands.
fn memory_limit() -> rlim_t {
    own_data() + MEMORY
}

/// How many bytes of this process `RLIMIT_DATA` counts, and those of its stack. 0 without `/proc`.
fn own_data() -> rlim_t {
    let sizes = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = sizes.split_whitespace().nth(5);
    let pages = pages.and_then(|pages| pages.parse::<rlim_t>().ok());
    // SAFETY: reads a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    pages.unwrap_or_default() * rlim_t::try_from(page).unwrap_or_default()
}

/// A lower memory limit that a forked process has inherited, in bytes, and what sets it.
fn inherited_limit() -> Option<(rlim_t, &'static str)> {
    let own = memory_limit();
    let limits = [
        (Resource::RLIMIT_DATA, "ulimit -d"),
        (Resource::RLIMIT_AS, "ulimit -v"),
    ];
    let limits = limits
        .into_iter()
        .filter_map(|(resource, name)| Some((getrlimit(resource).ok()?.0, name)));
    limits.filter(|(limit, _)| *limit < own).min()
}

/// The place of the last panic. Its message is not kept, because it may quote secrets.
static PANICKED_AT: Mutex<String> = Mutex::new(String::new());

/// Runs the work of a forked process, and reports its failure, even a panic of the crate that speaks to the server.
fn guarded(work: impl FnOnce() -> Result<(), Failure>, report: impl FnOnce(Failure)) -> Ending {
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
                    "the client library failed on what the server sent{place}; is it the kind of server that is named?"
                ),
            )
        }
    };
    let code = failure.reason.code();
    report(with_cut_line(&failure));
    Ending::Code(code)
}

/// A place in a source file, from its crate on. The folders above are those of the build machine.
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

/// Call this before a secret is read. This process dies with its parent, leaves no core file, cannot be traced, and writes nothing to the
/// user's terminal. A failed allocation would write there.
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
    Failure::refused("detach a process", error)
}

/// Gives up what belongs to the supervisor or the command: signals, terminal, descriptors. Takes a `name` of at most 15 bytes.
///
/// # Errors
/// [`Reason::OsRefused`].
pub fn detach(link: &Link, name: &CStr) -> Result<(), Failure> {
    detach_with_descriptors(name)?;
    // dblock's inherited descriptors are for the command. The supervisor's descriptors, which this fork copied, are closed, too.
    descriptors::close_all_except(&[link.as_fd().as_raw_fd()])
        .map_err(|error| cannot_detach(&error))
}

/// As [`detach`], but keeps all descriptors.
///
/// # Errors
/// [`Reason::OsRefused`].
pub fn detach_with_descriptors(name: &CStr) -> Result<(), Failure> {
    let detached = || -> io::Result<()> {
        // A service manager or a terminal signals all processes. The keeper ends only when the supervisor ends it.
        SigSet::all().thread_block()?;
        setsid()?;
        // A `killall dblock` does not kill the keeper, which then ends the commands.
        Ok(prctl::set_name(name)?)
    };
    detached().map_err(|error| cannot_detach(&error))
}

/// Has the kernel kill this process when its parent dies. Without a command the keeper's place in the queue is then free at once.
///
/// # Errors
/// The parent is already dead.
pub fn die_with(parent: Pid) -> Result<(), Failure> {
    let died = prctl::set_pdeathsig(Signal::SIGKILL).is_err() || getppid() != parent;
    if died {
        return Err(Failure::new(Reason::OsRefused, "the supervisor is gone"));
    }
    Ok(())
}

/// A descriptor that becomes readable when this process is dead. `None`: the system has none to give.
pub fn open_process(pid: Pid) -> Option<OwnedFd> {
    // SAFETY: makes a descriptor, and touches nothing else.
    let made = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    let made = i32::try_from(made).ok().filter(|made| *made >= 0)?;
    // SAFETY: nothing else owns it.
    Some(unsafe { OwnedFd::from_raw_fd(made) })
}

/// How long a process that was killed may take to end.
const END_LIMIT: Duration = Duration::from_secs(1);

/// Kills a forked process, and reaps it. It waits only for the kernel, and not for long.
pub fn kill_and_reap(pid: Pid) -> End {
    let _ = kill(pid, Signal::SIGKILL);
    reap_within(pid.as_raw(), END_LIMIT)
}

/// As [`kill_and_reap`]; returns the end in words.
pub fn end(pid: Pid) -> String {
    how_it_ended(kill_and_reap(pid))
}

/// How a forked process ended, as the end of a sentence about it.
pub fn how_it_ended(end: End) -> String {
    match end {
        // It has a memory limit, and aborts when it hits it.
        End::Ended(Ending::Signal(libc::SIGABRT)) => match inherited_limit() {
            Some((limit, name)) => {
                let limit = limit / 1024;
                format!("aborted ({name} allows it no more than {limit} kB of memory)")
            }
            None => "aborted (it may use no more than 64 MB of memory)".to_owned(),
        },
        end => end.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_begins_with_leaves_it_as_much_memory_as_any_other() {
        let large = 1 << 28;
        let before = memory_limit();
        let held = std::hint::black_box(Vec::<u8>::with_capacity(large));
        let after = memory_limit();
        assert!(held.capacity() >= large);
        // Other tests may give memory back meanwhile.
        assert!(after >= before + (1 << 27), "{before} and {after}");
    }
}

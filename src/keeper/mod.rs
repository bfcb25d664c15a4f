//! The process that has the server session and nothing else: it acquires, holds, and gives back. When the supervisor
//! dies, it ends the command first and lets the session, and with it the lock, go afterwards.

pub mod message;

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{
    ForkResult, Pid, dup2_stderr, dup2_stdin, dup2_stdout, fork, getpid, getppid, setsid,
};

use crate::exit::{Ending, Failure, Reason};
use crate::lock::{Outcome, Request};
use crate::processes::Processes;
use crate::report::{Level, in_words};
use crate::server::{Connector, Fault, Listener, Session};
use crate::settings::Connection;
use message::{FromKeeper, Link, ToKeeper, cut};

/// From a lost session to the next attempt.
const PAUSE: Duration = Duration::from_millis(100);

/// From one look at processes that are being killed to the next: the first, and at most. One that may not be killed can
/// take hours to end.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
const LOOK_AGAIN_AT_MOST: Duration = Duration::from_secs(1);

/// What a keeper is to do before it guards the command.
pub enum Work<'a> {
    /// Take this lock there. The level is the least important one that is shown.
    Lock(&'a Connection, Request, Level),
    /// Nothing: no server can be reached, and the command runs without a lock.
    GuardOnly,
}

/// Where [`fork_off`] returns: in both processes.
pub enum Forked {
    /// In the supervisor: the keeper's process and the link to it.
    Supervisor(Pid, Link),
    /// In the keeper, when it has done its work and is to exit.
    Keeper(Ending),
}

/// Forks the keeper. The process must not have threads.
///
/// # Errors
/// [`Reason::OsRefused`].
pub fn fork_off(work: Work) -> Result<Forked, Failure> {
    let refused = |error: io::Error| {
        Failure::new(
            Reason::OsRefused,
            format!("cannot start the keeper: {}", in_words(&error)),
        )
    };
    let (ours, theirs) = Link::pair().map_err(refused)?;
    let supervisor = getpid();
    // SAFETY: no thread was started, so the child may do whatever the parent may.
    match unsafe { fork() }.map_err(|error| refused(error.into()))? {
        ForkResult::Parent { child } => Ok(Forked::Supervisor(child, ours)),
        ForkResult::Child => {
            drop(ours);
            Ok(Forked::Keeper(keep(work, &theirs, supervisor)))
        }
    }
}

/// Where the last panic was; its message may quote what must not be seen.
static PANICKED_AT: OnceLock<String> = OnceLock::new();

/// The keeper's life. Whatever happens in it, the `mysql` crate's panics included, becomes a message.
fn keep(work: Work, link: &Link, supervisor: Pid) -> Ending {
    std::panic::set_hook(Box::new(|panic| {
        PANICKED_AT.get_or_init(|| {
            panic
                .location()
                .map_or_else(String::new, |place| format!(" ({place})"))
        });
    }));
    let kept = catch_unwind(AssertUnwindSafe(|| match work {
        Work::Lock(connection, request, shown) => {
            let listener = |level: Level, text: &str| {
                // The supervisor remembers what is done, shown or not; statements are only for showing.
                if level < Level::Statement || shown == Level::Statement {
                    let _ = link.send(&FromKeeper::Note(level, cut(text)));
                }
            };
            // First, for a password's file may be named by a descriptor that dblock inherited.
            let connector = Connector::new(connection, &listener)?;
            detach(link)?;
            die_with(supervisor)?;
            acquire(&connector, request, &listener, link)
        }
        Work::GuardOnly => {
            detach(link)?;
            guard(link, None);
            Ok(())
        }
    }));
    let failure = match kept {
        Ok(Ok(())) => return Ending::Code(0),
        Ok(Err(failure)) => failure,
        Err(_) => {
            let place = PANICKED_AT.get().map_or("", String::as_str);
            Failure::new(
                Reason::Internal,
                format!(
                    "the MySQL client library failed on what the server sent{place}; is it a MySQL server?"
                ),
            )
        }
    };
    let _ = link.send(&FromKeeper::Failed(Failure {
        line: cut(&failure.line),
        ..failure
    }));
    Ending::Code(failure.reason.code())
}

/// Leaves everything that is the supervisor's or the command's: signals, terminal, descriptors.
fn detach(link: &Link) -> Result<(), Failure> {
    let detached = || -> io::Result<()> {
        // A service manager or a terminal signals all processes; the keeper goes when the supervisor lets it go.
        SigSet::all().thread_block()?;
        setsid()?;
        {
            let null = fs::File::options()
                .read(true)
                .write(true)
                .open("/dev/null")?;
            dup2_stdin(&null)?;
            dup2_stdout(&null)?;
            dup2_stderr(&null)?;
        }
        close_all_but(link.as_fd().as_raw_fd())?;
        // Whoever kills every `dblock` by name leaves the keeper to end the commands.
        prctl::set_name(c"dblock-keeper")?;
        // No core file after an abort on a hostile packet, and no look into the memory with the password.
        prctl::set_dumpable(false)?;
        Ok(())
    };
    detached().map_err(|error| {
        let told = format!("cannot detach the keeper: {}", in_words(&error));
        Failure::new(Reason::OsRefused, told)
    })
}

/// As long as there is no command, the keeper dies with the supervisor: its place in the queue is free at once.
fn die_with(supervisor: Pid) -> Result<(), Failure> {
    let died = prctl::set_pdeathsig(Signal::SIGKILL).is_err() || getppid() != supervisor;
    if died {
        return Err(Failure::new(Reason::OsRefused, "the supervisor is gone"));
    }
    Ok(())
}

/// Closes every descriptor above stderr but `kept`: what dblock inherited is for the command, and a pipe's reader would
/// wait for the keeper too. What the supervisor's values still own here is closed with it; nothing uses them again.
fn close_all_but(kept: i32) -> io::Result<()> {
    let kept_number = u32::try_from(kept).expect("an open descriptor");
    for (first, last) in [(3, kept_number - 1), (kept_number + 1, u32::MAX)] {
        // SAFETY: this process uses no descriptor but the link and 0 to 2 from here on.
        if first <= last && unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } != 0 {
            return close_one_by_one(kept);
        }
    }
    Ok(())
}

/// For Linux before 5.9, which has no `close_range(2)`.
fn close_one_by_one(kept: i32) -> io::Result<()> {
    let open = fs::read_dir("/proc/self/fd")?.flatten();
    let open: Vec<i32> = open
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    for descriptor in open
        .into_iter()
        .filter(|&descriptor| descriptor > 2 && descriptor != kept)
    {
        // SAFETY: as above.
        unsafe { libc::close(descriptor) };
    }
    Ok(())
}

/// Connects and takes the lock, however often the session is lost meanwhile; then keeps it. It is the supervisor that ends
/// this when the time is over.
fn acquire(
    connector: &Connector,
    mut request: Request,
    listener: &Listener,
    link: &Link,
) -> Result<(), Failure> {
    loop {
        let mut session = connector.connect(listener)?;
        let outcome = request.take(&mut session, listener, |holder| {
            let _ = link.send(&FromKeeper::Waiting(cut(&holder.to_string())));
        });
        match outcome {
            Ok(Outcome::Held { connection_id }) => {
                // From here on the command must be gone before the keeper goes.
                let _ = prctl::set_pdeathsig(None);
                let _ = link.send(&FromKeeper::Held { connection_id });
                guard(
                    link,
                    Some(Lock {
                        session,
                        request,
                        listener,
                    }),
                );
                return Ok(());
            }
            Ok(Outcome::Taken(holder)) => {
                // First the good-bye to the server: the supervisor ends the keeper on its last word.
                drop(session);
                let _ = link.send(&FromKeeper::Taken(cut(&holder.to_string())));
                return Ok(());
            }
            Err(Fault::Gone(cause) | Fault::Unclear(cause)) => {
                listener(
                    Level::Info,
                    &format!("lost the session with {session}: {cause}"),
                );
                sleep(PAUSE);
            }
            Err(Fault::Final(failure)) => return Err(failure),
        }
    }
}

/// A lock that is held, on its session.
struct Lock<'a> {
    session: Session,
    request: Request,
    listener: &'a Listener<'a>,
}

/// Stands by while the command runs: notices the session's end, gives the lock back when told to, and ends the command
/// when the supervisor is gone.
fn guard(link: &Link, mut lock: Option<Lock>) {
    // A holder may sit here for days; logging in took more memory than sitting here does.
    // SAFETY: returns free pages to the system, and touches none that is in use.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
    let mut command = None;
    loop {
        let mut descriptors = vec![PollFd::new(link.as_fd(), PollFlags::POLLIN)];
        descriptors.extend(
            lock.as_ref()
                .map(|lock| PollFd::new(lock.session.as_fd(), PollFlags::POLLIN)),
        );
        if poll(&mut descriptors, PollTimeout::NONE).is_err() {
            continue;
        }
        let [message, session_ended] =
            [0, 1].map(|at| descriptors.get(at).is_some_and(|fd| fd.any() == Some(true)));
        if message {
            match link.receive() {
                Ok(Some(ToKeeper::Started { pid, own_group })) => {
                    command = Some(Processes { pid, own_group });
                }
                Ok(Some(ToKeeper::Release)) => return release(link, lock),
                Ok(None) | Err(_) => {
                    if let Some(command) = command {
                        end(command);
                    }
                    return;
                }
            }
        } else if session_ended {
            lock = None;
            let _ = link.send(&FromKeeper::Lost("the server ended the session".to_owned()));
        }
    }
}

/// Kills the command's processes and returns when none is left. One that this user may not signal is waited for: the lock
/// is not for anybody else while it runs.
fn end(command: Processes) {
    let mut pause = LOOK_AGAIN;
    loop {
        command.signal(libc::SIGKILL);
        if !command.alive() {
            return;
        }
        sleep(pause);
        pause = (2 * pause).min(LOOK_AGAIN_AT_MOST);
    }
}

fn release(link: &Link, lock: Option<Lock>) {
    let Some(Lock {
        mut session,
        request,
        listener,
    }) = lock
    else {
        return;
    };
    let released = request.release(&mut session, listener);
    drop(session);
    let message = match released {
        Ok(true) => FromKeeper::Released,
        Ok(false) => FromKeeper::Lost("the server says that it was not held".to_owned()),
        Err(Fault::Gone(cause) | Fault::Unclear(cause)) => FromKeeper::Lost(cut(&cause)),
        Err(Fault::Final(failure)) => FromKeeper::Lost(cut(&failure.line)),
    };
    let _ = link.send(&message);
}

//! The process that has the server session and nothing else: it acquires, holds, and gives back. When the supervisor
//! dies, it ends the command first and lets the session, and with it the lock, go afterwards.

pub mod message;

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{ForkResult, Pid, fork, getpid, getppid, setsid};

use crate::descriptors;
use crate::exit::{Ending, Failure, Reason};
use crate::lock::{Grant, Holders, Outcome, Request};
use crate::processes::Processes;
use crate::report::{Level, in_words};
use crate::server::{Connector, Fault, Listener, Session};
use crate::settings::Connection;
use message::{FromKeeper, Link, ToKeeper, cut};

/// From a lost session to the next attempt.
const PAUSE: Duration = Duration::from_millis(100);

/// From a slot that another session has to the next attempt.
const PAUSE_IF_TAKEN: Duration = Duration::from_secs(1);

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
            let taker = Taker {
                connector: &connector,
                listener: &listener,
                link,
                supervisor,
            };
            taker.acquire(request)
        }
        Work::GuardOnly => {
            detach(link)?;
            guard(link, supervisor, None);
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
        // What dblock inherited is for the command. What the supervisor's values still own here is closed with it.
        descriptors::let_go_of_all_but(&[link.as_fd().as_raw_fd()])?;
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

/// Takes the lock for a supervisor.
struct Taker<'a> {
    connector: &'a Connector,
    listener: &'a Listener<'a>,
    link: &'a Link,
    supervisor: Pid,
}

impl Taker<'_> {
    /// Connects and takes the lock, however often the session is lost meanwhile; then keeps it. It is the supervisor that
    /// ends this when the time is over.
    fn acquire(&self, mut request: Request) -> Result<(), Failure> {
        loop {
            let mut session = self.connector.connect(self.listener)?;
            let on_wait = |holders: &Holders| {
                let _ = self
                    .link
                    .send(&FromKeeper::Waiting(cut(&holders.to_string())));
            };
            let ask = || {
                let _ = self.link.send(&FromKeeper::AreYouThere);
            };
            let outcome = request.take(&mut session, self.listener, on_wait, ask, || {
                self.stand_by();
            });
            match outcome {
                Ok(Outcome::Held(grant)) => {
                    // From here on the command must be gone before the keeper goes.
                    let _ = prctl::set_pdeathsig(None);
                    self.tell(grant, &session)?;
                    let lock = Lock {
                        taker: self,
                        request,
                        slot: grant.slot,
                        session: Some(session),
                    };
                    guard(self.link, self.supervisor, Some(lock));
                    return Ok(());
                }
                Ok(Outcome::Taken(holders)) => {
                    // First the good-bye to the server: the supervisor ends the keeper on its last word.
                    drop(session);
                    let _ = self
                        .link
                        .send(&FromKeeper::Taken(cut(&holders.to_string())));
                    return Ok(());
                }
                Err(Fault::Gone(cause) | Fault::Unclear(cause)) => {
                    (self.listener)(
                        Level::Info,
                        &format!("lost the session with {session}: {cause}"),
                    );
                    sleep(PAUSE);
                }
                Err(Fault::Final(failure)) => return Err(failure),
            }
        }
    }

    /// Goes no further while the supervisor is stopped: it could start no command, and the others would wait for nothing.
    /// The server ends the session of a waiter that keeps silent, and gives its place to the next.
    fn stand_by(&self) {
        while let Ok(Some((message, _))) = self.link.receive() {
            if matches!(message, ToKeeper::Here) {
                break;
            }
        }
    }

    /// Tells the supervisor of the grant. A lock that it does not know of must not be kept.
    fn tell(&self, grant: Grant, session: &Session) -> Result<(), Failure> {
        let told = self
            .link
            .send_with(&FromKeeper::Held(grant), session.as_fd());
        told.map_err(|error| {
            let line = format!("cannot pass the session on: {}", in_words(&error));
            Failure::new(Reason::OsRefused, line)
        })
    }
}

/// A lock that was had.
struct Lock<'a> {
    taker: &'a Taker<'a>,
    request: Request,
    slot: u32,
    /// `None` once it is lost.
    session: Option<Session>,
}

impl Lock<'_> {
    /// Takes the same slot on a new session, however long that lasts: until then there is nothing to give back, and the
    /// supervisor ends the keeper without asking. `None`: no attempt can succeed.
    fn seek(&self) -> Option<Session> {
        loop {
            let mut session = self.taker.connector.connect(self.taker.listener).ok()?;
            while let Ok(had) =
                self.request
                    .take_again(self.slot, &mut session, self.taker.listener)
            {
                if let Some(grant) = had {
                    self.taker.tell(grant, &session).ok()?;
                    return Some(session);
                }
                sleep(PAUSE_IF_TAKEN);
            }
            sleep(PAUSE);
        }
    }
}

/// Stands by while the command runs: notices the session's end, gives the lock back when told to, and ends the command
/// when the supervisor is gone.
fn guard(link: &Link, supervisor: Pid, mut lock: Option<Lock>) {
    // A holder may sit here for days; logging in took more memory than sitting here does.
    // SAFETY: returns free pages to the system, and touches none that is in use.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
    let mut command = None;
    let mut command_has_ended = false;
    loop {
        let session = lock.as_ref().and_then(|lock| lock.session.as_ref());
        let mut descriptors = vec![PollFd::new(link.as_fd(), PollFlags::POLLIN)];
        descriptors.extend(session.map(|session| PollFd::new(session.as_fd(), PollFlags::POLLIN)));
        if poll(&mut descriptors, PollTimeout::NONE).is_err() {
            continue;
        }
        let [message, session_ended] =
            [0, 1].map(|at| descriptors.get(at).is_some_and(|fd| fd.any() == Some(true)));
        if message {
            match link.receive() {
                Ok(Some((ToKeeper::Started { pid, own_group }, _))) => {
                    command = Some(Processes { pid, own_group });
                }
                Ok(Some((ToKeeper::Hold, _))) => {
                    command = None;
                    command_has_ended = true;
                    // There is nothing left to end first.
                    if die_with(supervisor).is_err() {
                        return;
                    }
                }
                Ok(Some((ToKeeper::Here, _))) => {}
                Ok(Some((ToKeeper::Release, _))) => return release(link, lock),
                Ok(None) | Err(_) => {
                    if let Some(command) = command {
                        end(command);
                    }
                    return;
                }
            }
        } else if session_ended && let Some(lock) = &mut lock {
            lock.session = None;
            let _ = link.send(&FromKeeper::Lost("the server ended the session".to_owned()));
        }
        if command_has_ended
            && let Some(lock) = &mut lock
            && lock.session.is_none()
        {
            lock.session = lock.seek();
            command_has_ended = lock.session.is_some();
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
        taker,
        request,
        slot,
        session: Some(mut session),
    }) = lock
    else {
        return;
    };
    let released = request.release(slot, &mut session, taker.listener);
    drop(session);
    let message = match released {
        Ok(true) => FromKeeper::Released,
        Ok(false) => FromKeeper::Lost("the server says that it was not held".to_owned()),
        Err(Fault::Gone(cause) | Fault::Unclear(cause)) => FromKeeper::Lost(cut(&cause)),
        Err(Fault::Final(failure)) => FromKeeper::Lost(cut(&failure.line)),
    };
    let _ = link.send(&message);
}

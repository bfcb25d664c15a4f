//! The process that has the server session and nothing else: it acquires, holds, and gives back. When the supervisor
//! dies, it ends the command first and lets the session, and with it the lock, go afterwards.

pub mod message;

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{ForkResult, Pid, dup2_stderr, fork, getpid, getppid, setsid};

use serde::Serialize;

use crate::clock::{Alarm, Moment};
use crate::descriptors;
use crate::exit::{Ending, Failure, Reason};
use crate::lock::{Again, Grant, Holders, Killer, Lease, Opening, Outcome, Request, Tells};
use crate::processes::Processes;
use crate::report::{Level, in_words};
use crate::server::{Connector, Fault, Introduction, Listener, Session};
use crate::settings::{LONGEST_TTL, OnLockLost, Run, Wait};
use message::{FromKeeper, Link, ToKeeper, cut};

/// From a lost session to the next attempt, and at most from one attempt to take a lost lock again to the next.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// Before a caller that waited asks again on a new session.
const HOLD_BACK: Duration = Duration::from_secs(2);

/// From a slot that another session has to the next attempt.
const PAUSE_IF_TAKEN: Duration = Duration::from_secs(1);

/// How long an answer may take of a server that is to tell somebody of the command's end.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// From one look at processes that are being killed to the next: the first, and at most. One that may not be killed can
/// take hours to end.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
const LOOK_AGAIN_AT_MOST: Duration = Duration::from_secs(1);

/// A lock for a keeper to take.
pub struct Task<'a> {
    run: &'a Run,
    request: Request,
    introduction: Introduction,
    /// The least important level that is shown.
    shown: Level,
}

impl<'a> Task<'a> {
    /// The lock that `dblock run` was asked to take, with the `mark` that all its sessions have.
    pub fn new(run: &'a Run, mark: &str, shown: Level) -> Self {
        let request = Request::new(&run.name, run.max_concurrency, mark, run.wait, run.ttl)
            .tell_who(Tells {
                when_waiting: Level::Info <= shown,
                when_taken: run.tells_of_skip(shown),
            });
        Self {
            run,
            request: request.allow_unfit(run.allow_unfit_server),
            introduction: Introduction {
                pid: getpid(),
                lock: Some(run.name.clone()),
                command: run.program(),
                started: run.started,
                waits: run.wait != Wait::For(Duration::ZERO),
                slots: run.max_concurrency,
                ttl: run.ttl,
            },
            shown,
        }
    }
}

/// What a keeper is to do.
pub enum Work<'a> {
    /// Take a lock, then guard it and the command.
    Acquire(Task<'a>),
    /// Take this slot again, for the command if it still runs: the keeper before has died.
    Reacquire(Task<'a>, u32, Option<Processes>),
    /// Guard the command: no server can be reached, and it runs without a lock.
    GuardOnly,
}

/// Forks the keeper: its process, and the link to it. The process must not have threads. The keeper itself does not return
/// from here: it must not run the supervisor's destructors.
///
/// # Errors
/// [`Reason::OsRefused`].
pub fn fork_off(work: Work) -> Result<(Pid, Link), Failure> {
    fork_apart(
        |link, supervisor| keep(work, link, supervisor),
        FromKeeper::Failed,
    )
}

/// Forks a process for `work`, which the `mysql` crate may block, break or abort without harm to this one; its number, and
/// the link to it. What it fails of is its last message, as `failed` wraps it. It gets the number of this process.
///
/// # Errors
/// [`Reason::OsRefused`].
pub fn fork_apart<M: Serialize>(
    work: impl FnOnce(&Link, Pid) -> Result<(), Failure>,
    failed: fn(Failure) -> M,
) -> Result<(Pid, Link), Failure> {
    let refused = |error: io::Error| {
        let line = format!("cannot start a process: {}", in_words(&error));
        Failure::new(Reason::OsRefused, line)
    };
    let (ours, theirs) = Link::pair().map_err(refused)?;
    let supervisor = getpid();
    // SAFETY: no thread was started, so the child may do whatever the parent may.
    match unsafe { fork() }.map_err(|error| refused(error.into()))? {
        ForkResult::Parent { child } => Ok((child, ours)),
        ForkResult::Child => {
            drop(ours);
            limit_memory();
            guarded(|| work(&theirs, supervisor), &theirs, failed).exit()
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

/// The keeper's life.
fn keep(work: Work, link: &Link, supervisor: Pid) -> Result<(), Failure> {
    let (task, had) = match work {
        Work::Acquire(task) => (task, None),
        Work::Reacquire(task, slot, command) => (task, Some((slot, command))),
        Work::GuardOnly => {
            detach(link, c"dblock-keeper")?;
            Guard::new(link, supervisor, None).stand();
            return Ok(());
        }
    };
    let listener = |level: Level, text: &str| {
        // The supervisor remembers what is done, shown or not; statements are only for showing.
        if level < Level::Statement || task.shown == Level::Statement {
            link.send_if_heard(&FromKeeper::Note(level, cut(text)));
        }
    };
    keep_to_itself(supervisor)?;
    // Before the descriptors are let go, for a password's file may be named by one that dblock inherited.
    let connector = Connector::new(&task.run.connection, &task.introduction, &listener)?;
    detach(link, c"dblock-keeper")?;
    let taker = Taker {
        connector: &connector,
        listener: &listener,
        link,
        supervisor,
        run: task.run,
    };
    match had {
        None => taker.acquire(task.request),
        Some((slot, command)) => {
            taker.reacquire(task.request, slot, command);
            Ok(())
        }
    }
}

/// Before a secret is read: dies with the supervisor, leaves no core file, lets nobody look into its memory, and says nothing on
/// the user's terminal, as an allocation that fails would.
///
/// # Errors
/// [`Reason::OsRefused`].
pub fn keep_to_itself(supervisor: Pid) -> Result<(), Failure> {
    let kept = || -> io::Result<()> {
        prctl::set_dumpable(false)?;
        let null = File::options().write(true).open("/dev/null")?;
        Ok(dup2_stderr(&null)?)
    };
    kept().map_err(|error| cannot_detach(&error))?;
    die_with(supervisor)
}

fn cannot_detach(error: &io::Error) -> Failure {
    let told = format!("cannot detach a process: {}", in_words(error));
    Failure::new(Reason::OsRefused, told)
}

/// Leaves everything that is the supervisor's or the command's: signals, terminal, descriptors; and takes a `name` of at
/// most 15 bytes.
///
/// # Errors
/// [`Reason::OsRefused`].
pub fn detach(link: &Link, name: &CStr) -> Result<(), Failure> {
    let detached = || -> io::Result<()> {
        // A service manager or a terminal signals all processes; the keeper goes when the supervisor lets it go.
        SigSet::all().thread_block()?;
        setsid()?;
        // What dblock inherited is for the command. What the supervisor's values still own here is closed with it.
        descriptors::let_go_of_all_but(&[link.as_fd().as_raw_fd()])?;
        // Whoever kills every `dblock` by name leaves the keeper to end the commands.
        prctl::set_name(name)?;
        Ok(())
    };
    detached().map_err(|error| cannot_detach(&error))
}

/// As long as there is no command, the keeper dies with the supervisor: its place in the queue is free at once.
///
/// # Errors
/// The supervisor is gone already.
pub fn die_with(supervisor: Pid) -> Result<(), Failure> {
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
    run: &'a Run,
}

impl Taker<'_> {
    /// Connects and takes the lock, however often the session is lost meanwhile; then keeps it. It is the supervisor that
    /// ends this when the time is over.
    fn acquire(&self, mut request: Request) -> Result<(), Failure> {
        let mut lost = None;
        loop {
            let (mut session, opening) = self.open(&mut request)?;
            self.tell_of_server(&session);
            // One that ends a holder may mean one that was granted the slot, and has not believed it yet.
            if let Some(lost) = lost
                && let Ok(Some(killer)) =
                    Request::killed_while_asking(lost, &mut session, self.listener)
            {
                let line = format!("{} was ended by {}", self.run.name, killer.client);
                return Err(Failure::new(Reason::LockLost, line));
            }
            lost = Some(opening.connection_id());
            let on_wait = |holders: &Holders| {
                let _ = self
                    .link
                    .send(&FromKeeper::Waiting(cut(&holders.to_string())));
            };
            let ask = || {
                let _ = self.link.send(&FromKeeper::AreYouThere);
            };
            let outcome = request.take(&mut session, &opening, self.listener, on_wait, ask, || {
                self.stand_by();
            });
            match outcome {
                Ok(Outcome::Held(grant, lease)) => {
                    // From here on the command must be gone before the keeper goes.
                    let _ = prctl::set_pdeathsig(None);
                    self.tell(grant, lease, &session)?;
                    let lock = Lock {
                        taker: self,
                        request,
                        slot: grant.slot,
                        held: Some((session, lease)),
                        killed: None,
                        given_up: false,
                        over: lease.over(),
                    };
                    Guard::new(self.link, self.supervisor, Some(lock)).stand();
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
                Err(Fault::Final(failure)) => return Err(failure),
                Err(fault) => {
                    let line = format!("lost the session with {session}: {fault}");
                    (self.listener)(Level::Info, &line);
                    sleep(PAUSE);
                }
            }
        }
    }

    /// Connects to a server that a lock may live on, and asks for it there, however long that lasts.
    fn open(&self, request: &mut Request) -> Result<(Session, Opening), Failure> {
        let accepts = request.accepts_read_only();
        let mut only_read_only = None;
        loop {
            let opened = self.connector.connect(self.listener, |session| {
                if request.has_waited() {
                    // Those who held the lock on the session that is lost come first.
                    sleep(HOLD_BACK);
                }
                request.open(session, self.listener)
            });
            match opened {
                Ok(opened) => return Ok(opened),
                Err(Fault::Final(failure)) => return Err(failure),
                Err(Fault::ReadOnly(_)) if accepts => {
                    request.accept_read_only();
                    continue;
                }
                Err(fault) => {
                    let told = match fault {
                        Fault::ReadOnly(line) => Some(line),
                        _ => None,
                    };
                    if told != only_read_only {
                        only_read_only.clone_from(&told);
                        let _ = self.link.send(&FromKeeper::OnlyReadOnly(told));
                    }
                }
            }
            sleep(self.connector.pause());
        }
    }

    /// Takes a slot again whose keeper has died, and keeps it.
    fn reacquire(&self, request: Request, slot: u32, command: Option<Processes>) {
        let lock = Lock {
            taker: self,
            request,
            slot,
            held: None,
            killed: None,
            given_up: false,
            // The supervisor knows, and lives.
            over: Moment::now() + LONGEST_TTL,
        };
        let mut guard = Guard::new(self.link, self.supervisor, Some(lock));
        guard.command = command;
        guard.command_has_ended = command.is_none();
        // The supervisor has the session of the keeper before: nobody takes the slot meanwhile.
        sleep(PAUSE);
        guard.stand();
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

    fn tell_of_server(&self, session: &Session) {
        let server = cut(&session.to_string());
        let _ = self.link.send(&FromKeeper::Reached(server));
    }

    /// Tells the supervisor of the grant. A lock that it does not know of must not be kept.
    fn tell(&self, grant: Grant, lease: Lease, session: &Session) -> Result<(), Failure> {
        // After that time it is lost anyway, and a keeper without a supervisor would stay for ever.
        let told = session.answer_within(lease.ttl).and_then(|()| {
            let held = FromKeeper::Held(grant, lease);
            self.link.send_with(&held, session.as_fd())
        });
        // When it is lost another server is to have its turn in time.
        self.connector.hurry(lease.ttl / 8);
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
    /// `None` while it is lost.
    held: Option<(Session, Lease)>,
    /// The session on which it was found that somebody ends the holder, and who.
    killed: Option<(Session, Killer)>,
    /// Whether it is not taken again for a command that runs.
    given_up: bool,
    /// By when the command must be gone unless the lock is had again.
    over: Moment,
}

impl Lock<'_> {
    /// Proves to the supervisor that the lock is ours, or says that it is not.
    fn beat(&mut self) {
        let Some((session, lease)) = &mut self.held else {
            return;
        };
        let sent = Moment::now();
        let cause = match self.request.prove(self.slot, session, self.taker.listener) {
            Ok(true) => {
                lease.proved = sent;
                // A supervisor that is stopped for days reads none of them.
                let confirmed = FromKeeper::Confirmed(sent);
                return self.taker.link.send_if_heard(&confirmed);
            }
            Ok(false) => "the server says that it is not held".to_owned(),
            Err(Fault::ReadOnly(cause)) => format!("{session} {cause}"),
            Err(fault) => fault.to_string(),
        };
        self.lose(&cause);
    }

    fn lose(&mut self, cause: &str) {
        if let Some((_, lease)) = self.held.take() {
            self.over = lease.over();
            if self.taker.run.on_lock_lost == OnLockLost::Terminate {
                self.end_soon();
            }
        }
        let _ = self.taker.link.send(&FromKeeper::Lost(cut(cause)));
    }

    /// The command is to end at once, by the supervisor.
    fn end_soon(&mut self) {
        self.over = self.over.min(Moment::now() + self.taker.run.kill_after);
    }

    /// One attempt to take the slot again; to a policy that does not, to find out whether somebody ends its holder, whose word
    /// counts more than any policy.
    ///
    /// # Errors
    /// As [`Connector::connect`].
    fn attempt(&mut self, again: bool) -> Result<(Session, Again), Fault> {
        let (taker, slot, request) = (self.taker, self.slot, &mut self.request);
        taker.connector.connect(taker.listener, |session| {
            if again {
                return request.take_again(slot, session, taker.listener);
            }
            let killer = request.look_for_killer(slot, session, taker.listener)?;
            Ok(killer.map_or(Again::NotForUs, Again::Killed))
        })
    }

    /// The command is gone, and who wanted that is told so.
    fn answer_killer(&mut self) {
        for _ in 0..2 {
            let Some((mut session, killer)) = self.killed.take() else {
                return;
            };
            let _ = session.answer_within(ANSWER_LIMIT);
            let (request, listener) = (&self.request, self.taker.listener);
            if request
                .answer_killer(self.slot, &killer, &mut session, listener)
                .is_ok()
            {
                return;
            }
            // That session is lost by now: on another, if he is still there.
            self.look_for_killer();
        }
    }

    /// Whether the session was lost to somebody who is waiting for the command's end.
    fn look_for_killer(&mut self) {
        if let Ok((session, Again::Killed(killer))) = self.attempt(false) {
            let who = cut(&killer.client.to_string());
            let _ = self.taker.link.send(&FromKeeper::Killed(who));
            self.killed = Some((session, killer));
        }
    }

    fn give_up(&mut self, why: &str) {
        self.given_up = true;
        self.end_soon();
        let _ = self.taker.link.send(&FromKeeper::GivenUp(cut(why)));
    }
}

/// Stands by while the command runs: keeps the lock by heartbeats, notices its loss, takes it again, gives it back when
/// told to, and ends the command when the supervisor is gone.
struct Guard<'a> {
    link: &'a Link,
    supervisor: Pid,
    lock: Option<Lock<'a>>,
    /// `None` before it has started and when it has ended.
    command: Option<Processes>,
    command_has_ended: bool,
    /// Whether dblock is stopped.
    paused: bool,
    /// Whether a heartbeat is due whatever the time.
    check: bool,
}

impl<'a> Guard<'a> {
    fn new(link: &'a Link, supervisor: Pid, lock: Option<Lock<'a>>) -> Self {
        Self {
            link,
            supervisor,
            lock,
            command: None,
            command_has_ended: false,
            paused: false,
            check: false,
        }
    }

    /// Until the supervisor lets the keeper go, or is gone.
    fn stand(mut self) {
        // A holder may sit here for days; logging in took more memory than sitting here does.
        // SAFETY: returns free pages to the system, and touches none that is in use.
        #[cfg(target_env = "gnu")]
        unsafe {
            libc::malloc_trim(0);
        }
        let Ok(alarm) = Alarm::new() else {
            return self.end_command();
        };
        loop {
            if self.seeks() {
                if !self.seek() {
                    return;
                }
                continue;
            }
            let due = self
                .held()
                .filter(|_| !self.paused)
                .map(|(_, lease)| lease.next_heartbeat());
            let beats = due.is_some_and(|due| self.check || due <= Moment::now());
            if beats && let Some(lock) = &mut self.lock {
                self.check = false;
                lock.beat();
                continue;
            }
            self.end_command_of_the_stopped();
            let over = self.command.and(self.over());
            let look = over.map(|over| over.max(Moment::now() + LOOK_AGAIN_AT_MOST));
            if alarm.set(due.or(look)).is_err() {
                return self.end_command();
            }
            let session = self.held().map(|(session, _)| session.as_fd());
            let mut descriptors = vec![
                PollFd::new(self.link.as_fd(), PollFlags::POLLIN),
                PollFd::new(alarm.as_fd(), PollFlags::POLLIN),
            ];
            descriptors.extend(session.map(|session| PollFd::new(session, PollFlags::POLLIN)));
            if poll(&mut descriptors, PollTimeout::NONE).is_err() {
                continue;
            }
            let [message, session_ended] =
                [0, 2].map(|at| descriptors.get(at).is_some_and(|fd| fd.any() == Some(true)));
            if message {
                if !self.hear() {
                    return;
                }
            } else if session_ended && let Some(lock) = &mut self.lock {
                lock.lose("the server ended the session");
            }
        }
    }

    fn held(&self) -> Option<&(Session, Lease)> {
        self.lock.as_ref()?.held.as_ref()
    }

    /// Whether the lock is lost and to be taken again: after the command's end without a word and without end, and not while
    /// dblock is stopped.
    fn seeks(&self) -> bool {
        !self.paused
            && self.lock.as_ref().is_some_and(|lock| {
                let is_killed = lock.killed.is_some();
                lock.held.is_none() && !is_killed && (self.command_has_ended || !lock.given_up)
            })
    }

    /// Makes one attempt to take the slot again, then listens for a while. `false`: the keeper is to go.
    fn seek(&mut self) -> bool {
        // There is no session that must outlive the command, and a connection may take its time.
        if die_with(self.supervisor).is_err() {
            return false;
        }
        self.end_command_of_the_stopped();
        let Some(lock) = &mut self.lock else {
            return false;
        };
        let taker = lock.taker;
        let again = self.command_has_ended || taker.run.on_lock_lost == OnLockLost::Reacquire;
        let attempt = lock.attempt(again);
        // Who had the lock is to be there before those who waited for it, also at a full server.
        let mut pause = taker.connector.pause().min(LONGEST_PAUSE);
        match attempt {
            Ok((session, Again::Had(grant, lease))) => {
                if !self.command_has_ended {
                    let _ = prctl::set_pdeathsig(None);
                }
                taker.tell_of_server(&session);
                // A lock that the supervisor does not know of is not kept.
                if taker.tell(grant, lease, &session).is_ok() {
                    lock.held = Some((session, lease));
                }
                return true;
            }
            Ok((session, Again::Killed(killer))) => {
                let _ = taker
                    .link
                    .send(&FromKeeper::Killed(cut(&killer.client.to_string())));
                lock.killed = Some((session, killer));
                lock.given_up = true;
                lock.end_soon();
                self.guard_again();
                return true;
            }
            Ok((_, Again::NotForUs)) => {
                lock.given_up = true;
                self.guard_again();
                return true;
            }
            Ok((_, Again::Taken(_))) | Err(Fault::Final(_)) if self.command_has_ended => {
                pause = PAUSE_IF_TAKEN;
            }
            // Whoever has ended the session would have ended it long ago.
            Err(_) if !again && lock.over <= Moment::now() => lock.given_up = true,
            Err(Fault::Final(_)) if !again => lock.given_up = true,
            Ok((_, Again::Taken(holders))) => lock.give_up(&format!("is {holders}")),
            Err(Fault::Final(failure)) => {
                lock.give_up(&format!("cannot be taken again: {failure}"));
            }
            Err(Fault::ReadOnly(_)) if lock.request.accepts_read_only() => {
                lock.request.accept_read_only();
            }
            Err(_) => {}
        }
        let millis = u16::try_from(pause.as_millis()).unwrap_or(u16::MAX);
        let mut descriptors = [PollFd::new(self.link.as_fd(), PollFlags::POLLIN)];
        match poll(&mut descriptors, millis) {
            Ok(1..) => self.hear(),
            _ => true,
        }
    }

    /// The command must be gone before the keeper goes.
    fn guard_again(&self) {
        if !self.command_has_ended {
            let _ = prctl::set_pdeathsig(None);
        }
    }

    /// Takes one message from the supervisor. `false`: the keeper is to go.
    fn hear(&mut self) -> bool {
        let Ok(Some((message, _))) = self.link.receive() else {
            self.end_command();
            return false;
        };
        match message {
            ToKeeper::Started { pid, own_group } => {
                self.command = Some(Processes { pid, own_group });
            }
            ToKeeper::Pause => self.paused = true,
            ToKeeper::Check => (self.paused, self.check) = (false, true),
            ToKeeper::Hold => {
                self.command = None;
                self.command_has_ended = true;
                // There is nothing left to end first.
                return die_with(self.supervisor).is_ok();
            }
            ToKeeper::Here => {}
            ToKeeper::Release => {
                // There is nothing left to end first.
                let _ = die_with(self.supervisor);
                release(self.link, self.lock.take());
                return false;
            }
        }
        true
    }

    /// When a command must be gone whose lock is lost.
    fn over(&self) -> Option<Moment> {
        let lock = self.lock.as_ref()?;
        let policy = lock.taker.run.on_lock_lost;
        let ends = lock.held.is_none() && policy != OnLockLost::Ignore || lock.killed.is_some();
        ends.then_some(lock.over)
    }

    /// Kills a command that must be gone where the supervisor, whose task that is, is stopped. One that is not may reap the
    /// command any moment.
    fn end_command_of_the_stopped(&mut self) {
        let supervisor = Processes {
            pid: self.supervisor.as_raw(),
            own_group: false,
        };
        let is_over = self.over().is_some_and(|over| over <= Moment::now());
        if is_over
            && !self.paused
            && supervisor.is_stopped()
            && let Some(command) = self.command.take()
        {
            self.link.send_if_heard(&FromKeeper::EndsCommand);
            end(command);
            if let Some(lock) = &mut self.lock {
                lock.answer_killer();
            }
        }
    }

    fn end_command(&self) {
        if let Some(command) = self.command {
            end(command);
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
    let Some(mut lock) = lock else { return };
    let released = lock.held.take().map(|(mut session, _)| {
        let listener = lock.taker.listener;
        lock.request.release(lock.slot, &mut session, listener)
    });
    let message = match released {
        Some(Ok(true)) => FromKeeper::Released,
        Some(Ok(false)) => FromKeeper::Lost("the server says that it was not held".to_owned()),
        lost => {
            // Somebody may have ended the session, and be waiting for this end.
            if lock.killed.is_none() && !lock.given_up {
                lock.look_for_killer();
            }
            lock.answer_killer();
            match lost {
                Some(Err(fault)) => FromKeeper::Lost(cut(&fault.to_string())),
                _ => FromKeeper::Released,
            }
        }
    };
    let _ = link.send(&message);
}

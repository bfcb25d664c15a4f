//! The process that has the server session and nothing else: it acquires, holds, and gives back. When the supervisor
//! dies, it ends the command first and lets the session, and with it the lock, go afterwards.

pub mod message;

use std::rc::Rc;
use std::thread::sleep;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::unistd::Pid;

use std::os::fd::AsFd;

use crate::base::clock::{Alarm, Moment};
use crate::base::exit::{Failure, Reason};
use crate::base::log::Level;
use crate::base::processes::Processes;
use crate::base::text::in_words;
use crate::db::{ConnectOptions, Connector, Fault, Listener, Session};
use crate::isolated::link::{Link, cut};
use crate::isolated::process::{detach, die_with, fork_isolated, harden};
use crate::lock::named::{Again, Killer, Opening, Outcome, Request, Tells};
use crate::lock::{Grant, Holders, Introduction, LONGEST_TTL, Lease, LockSpec, OnLockLost};
use message::{FromKeeper, ToKeeper};

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
    lock: &'a LockSpec,
    connection: &'a ConnectOptions,
    /// From SIGTERM to SIGKILL when the supervisor ends the command.
    kill_after: Duration,
    request: Request,
    introduction: Introduction,
    /// The least important level that is shown.
    shown: Level,
}

impl<'a> Task<'a> {
    /// The lock to take, on sessions that all have this `mark` and introduce themselves so. `tells_of_skip`: whether somebody is
    /// told who has the lock when it is taken.
    pub fn new(
        lock: &'a LockSpec,
        connection: &'a ConnectOptions,
        mark: &str,
        kill_after: Duration,
        introduction: Introduction,
        tells_of_skip: bool,
        shown: Level,
    ) -> Self {
        let request = Request::new(&lock.name, lock.slots, mark, lock.wait, lock.ttl)
            .tell_who(Tells {
                when_waiting: Level::Info <= shown,
                when_taken: tells_of_skip,
            })
            .allow_unfit(lock.allow_unfit_server);
        Self {
            lock,
            connection,
            kill_after,
            request,
            introduction,
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
    fork_isolated(
        |link, supervisor| keep(work, &link, supervisor),
        FromKeeper::Failed,
    )
}

/// The keeper's life.
fn keep(work: Work, link: &Rc<Link>, supervisor: Pid) -> Result<(), Failure> {
    let (task, had) = match work {
        Work::Acquire(task) => (task, None),
        Work::Reacquire(task, slot, command) => (task, Some((slot, command))),
        Work::GuardOnly => {
            detach(link, c"dblock-keeper")?;
            Guard::new(link, supervisor, None).stand();
            return Ok(());
        }
    };
    let (notes, shown) = (Rc::clone(link), task.shown);
    let listener: Listener = Rc::new(move |level, text| {
        // The supervisor remembers what is done, shown or not; statements are only for showing.
        if level < Level::Statement || shown == Level::Statement {
            notes.send_if_heard(&FromKeeper::Note(level, cut(text)));
        }
    });
    harden(supervisor)?;
    // Before the descriptors are let go, for a password's file may be named by one that dblock inherited.
    let attributes = task.introduction.attributes();
    let connector = Connector::new(task.connection, attributes, task.lock.ttl, listener)?;
    detach(link, c"dblock-keeper")?;
    let taker = Taker {
        connector: &connector,
        link,
        supervisor,
        lock: task.lock,
        kill_after: task.kill_after,
    };
    match had {
        None => taker.acquire(task.request),
        Some((slot, command)) => {
            taker.reacquire(task.request, slot, command);
            Ok(())
        }
    }
}

/// Takes the lock for a supervisor.
struct Taker<'a> {
    connector: &'a Connector,
    link: &'a Link,
    supervisor: Pid,
    lock: &'a LockSpec,
    kill_after: Duration,
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
                && let Ok(Some(killer)) = Request::killed_while_asking(lost, &mut session)
            {
                let line = format!("{} was ended by {}", self.lock.name, killer.client);
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
            let outcome = request.take(&mut session, &opening, on_wait, ask, || {
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
                    session.tell(Level::Info, &line);
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
            let opened = self.connector.connect(|session| {
                if request.has_waited() {
                    // Those who held the lock on the session that is lost come first.
                    sleep(HOLD_BACK);
                }
                request.open(session)
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
        self.connector.cap_attempts(lease.ttl / 8);
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
        let cause = match self.request.prove(self.slot, session) {
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
            if self.taker.lock.on_lost == OnLockLost::Terminate {
                self.end_soon();
            }
        }
        let _ = self.taker.link.send(&FromKeeper::Lost(cut(cause)));
    }

    /// The command is to end at once, by the supervisor.
    fn end_soon(&mut self) {
        self.over = self.over.min(Moment::now() + self.taker.kill_after);
    }

    /// One attempt to take the slot again; to a policy that does not, to find out whether somebody ends its holder, whose word
    /// counts more than any policy.
    ///
    /// # Errors
    /// As [`Connector::connect`].
    fn attempt(&mut self, again: bool) -> Result<(Session, Again), Fault> {
        let (taker, slot, request) = (self.taker, self.slot, &mut self.request);
        taker.connector.connect(|session| {
            if again {
                return request.take_again(slot, session);
            }
            let killer = request.look_for_killer(slot, session)?;
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
            let request = &self.request;
            if request
                .answer_killer(self.slot, &killer, &mut session)
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
        let again = self.command_has_ended || taker.lock.on_lost == OnLockLost::Reacquire;
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
        let policy = lock.taker.lock.on_lost;
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
    let released = lock
        .held
        .take()
        .map(|(mut session, _)| lock.request.release(lock.slot, &mut session));
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

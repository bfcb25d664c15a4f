//! The process that holds what was taken, and nothing else: it acquires, renews, reacquires and releases a lock. When the supervisor
//! dies, it ends the command first and lets the lock go afterwards.

pub mod message;

use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::thread::sleep;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::unistd::Pid;

use crate::base::clock::{Alarm, Moment};
use crate::base::exit::{Failure, Reason};
use crate::base::log::Level;
use crate::base::processes::Processes;
use crate::base::text::in_words;
use crate::db::{Client, ConnectOptions, Connector, Listener};
use crate::isolated::link::{Link, cut};
use crate::isolated::process::{detach, die_with, fork_isolated, harden};
use crate::lock::named::{NamedLock, Verbosity};
use crate::lock::{
    Attempt, Backend, Caller, Grant, Holders, Introduction, LONGEST_TTL, Lease, LockSpec,
    OnLockLost, Reattempt, Refusal,
};
use message::{FromKeeper, ToKeeper};

/// Before the first attempt to take the place of a keeper that died.
const PAUSE: Duration = Duration::from_millis(100);

/// At most from one attempt to reacquire a lock to the next: who had it is to be there before those who wait for it, also at a
/// full server.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// From a slot that another session has to the next attempt, when no command runs any more.
const PAUSE_IF_TAKEN: Duration = Duration::from_secs(1);

/// From one look at processes that are being killed to the next: the first, and at most. One that may not be killed can
/// take hours to end.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
const LOOK_AGAIN_AT_MOST: Duration = Duration::from_secs(1);

/// A lock for a keeper to take.
pub struct Task<'a> {
    /// The lock.
    pub lock: &'a LockSpec,
    /// The servers that have it.
    pub connection: &'a ConnectOptions,
    /// The server's name of a lock that all sessions of this run take, and no other.
    pub run_id: &'a str,
    /// From SIGTERM to SIGKILL when the supervisor ends the command.
    pub kill_after: Duration,
    /// What the sessions say of themselves.
    pub introduction: Introduction,
    /// Whether somebody wants to know who has the lock when it was not acquired in time.
    pub names_holders: bool,
    /// The least important level that is shown.
    pub shown: Level,
}

/// What a keeper is to do.
pub enum Work<'a> {
    /// Acquire a lock, then guard it and the command.
    Acquire(Task<'a>),
    /// Reacquire this slot, for the command if it still runs: the keeper before has died.
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
    let (task, lost) = match work {
        Work::Acquire(task) => (task, None),
        Work::Reacquire(task, slot, command) => (task, Some((slot, command))),
        Work::GuardOnly => {
            detach(link, c"dblock-keeper")?;
            return Keeper::new(link, supervisor, None).run();
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
    // Before the descriptors are closed, for a password's file may be named by one that dblock inherited.
    let attributes = task.introduction.attributes();
    let connector = Connector::new(task.connection, attributes, task.lock.ttl, listener)?;
    detach(link, c"dblock-keeper")?;
    let verbosity = Verbosity {
        when_waiting: Level::Info <= shown,
        when_taken: task.names_holders,
    };
    let backend = NamedLock::new(connector, task.lock, task.run_id, verbosity);
    let Some((slot, command)) = lost else {
        let lock = Lock::new(&task, Box::new(backend), State::Acquiring);
        return Keeper::new(link, supervisor, Some(lock)).run();
    };
    let lock = Lock::new(&task, Box::new(backend.lost(slot)), State::Lost);
    let mut keeper = Keeper::new(link, supervisor, Some(lock));
    keeper.command = command;
    keeper.command_has_ended = command.is_none();
    // The supervisor has the session of the keeper before: nobody takes the slot meanwhile.
    sleep(PAUSE);
    keeper.run()
}

/// How far a lock is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not yet.
    Acquiring,
    /// It is held, for as long as this lease says.
    Held(Lease),
    /// It was lost, and is to be reacquired.
    Lost,
    /// It was lost, and is not reacquired for a command that runs.
    Abandoned,
    /// Somebody ends its holder, and waits for the command's end.
    Killed,
}

/// The keeper's lock.
struct Lock<'a> {
    backend: Box<dyn Backend>,
    spec: &'a LockSpec,
    kill_after: Duration,
    state: State,
    /// By when the command must be gone unless the lock is reacquired.
    over: Moment,
}

impl<'a> Lock<'a> {
    fn new(task: &Task<'a>, backend: Box<dyn Backend>, state: State) -> Self {
        Self {
            backend,
            spec: task.lock,
            kill_after: task.kill_after,
            state,
            // The supervisor knows, and lives.
            over: Moment::now() + LONGEST_TTL,
        }
    }

    /// When a renewal is due; `None` where there is nothing to renew.
    fn renewal_due(&self) -> Option<Moment> {
        match self.state {
            State::Held(lease) => Some(lease.next_renewal()),
            _ => None,
        }
    }

    /// By when the command must be gone; `None` where it may run on.
    fn command_deadline(&self) -> Option<Moment> {
        let must_end = match self.state {
            State::Killed => true,
            State::Acquiring | State::Held(_) => false,
            State::Lost | State::Abandoned => self.spec.on_lost != OnLockLost::Ignore,
        };
        must_end.then_some(self.over)
    }

    /// The command is to end at once, by the supervisor.
    fn shorten_deadline(&mut self) {
        self.over = self.over.min(Moment::now() + self.kill_after);
    }

    fn lose(&mut self, cause: &str, link: &Link) {
        self.backend.drop_held();
        if let State::Held(lease) = self.state {
            self.over = lease.over();
            if self.spec.on_lost == OnLockLost::Terminate {
                self.shorten_deadline();
            }
        }
        self.state = State::Lost;
        let _ = link.send(&FromKeeper::Lost(cut(cause)));
    }

    fn abandon(&mut self, why: Refusal, link: &Link) {
        self.state = State::Abandoned;
        self.shorten_deadline();
        let _ = link.send(&FromKeeper::Abandoned(why));
    }

    fn be_killed(&mut self, killer: Client, link: &Link) {
        self.state = State::Killed;
        let _ = link.send(&FromKeeper::Killed(killer));
    }

    /// The command is gone: whoever ends its holder learns so.
    fn ack_kill(&mut self, link: &Link) {
        for _ in 0..2 {
            if self.state != State::Killed || self.backend.ack_kill() {
                return;
            }
            // That session is lost by now: on another, if the killer is still there.
            self.state = State::Abandoned;
            self.find_kill(link);
        }
    }

    /// Whether the lock was lost to somebody who waits for the command's end.
    fn find_kill(&mut self, link: &Link) {
        if let Some(killer) = self.backend.find_kill() {
            self.be_killed(killer, link);
        }
    }

    /// Gives the lock back; the keeper's last message.
    fn release(&mut self, link: &Link) -> FromKeeper {
        let cause = match self.backend.release() {
            Ok(true) => return FromKeeper::Released,
            Ok(false) => {
                return FromKeeper::Lost("the server says that it was not held".to_owned());
            }
            Err(cause) => cause,
        };
        // Somebody may have ended the session, and be waiting for this end.
        if matches!(self.state, State::Held(_) | State::Lost) {
            self.find_kill(link);
        }
        self.ack_kill(link);
        cause.map_or(FromKeeper::Released, |cause| FromKeeper::Lost(cut(&cause)))
    }
}

/// The supervisor as a lock's backend knows it.
struct Supervisor<'a>(&'a Link);

impl Caller for Supervisor<'_> {
    fn on_server(&self, server: &str) {
        let _ = self.0.send(&FromKeeper::Reached(cut(server)));
    }

    fn on_read_only(&self, server: Option<&str>) {
        let server = server.map(str::to_owned);
        let _ = self.0.send(&FromKeeper::OnlyReadOnly(server));
    }

    fn on_wait(&self, holders: &Holders) {
        let _ = self.0.send(&FromKeeper::Waiting(holders.clone()));
    }

    fn ask_alive(&self) {
        let _ = self.0.send(&FromKeeper::AreYouThere);
    }

    /// Goes no further while the supervisor is stopped: it could start no command, and the others would wait for nothing.
    /// The server ends the session of a waiter that keeps silent, and gives its place to the next.
    fn await_alive(&self) {
        while let Ok(Some((message, _))) = self.0.receive() {
            if matches!(message, ToKeeper::Here) {
                break;
            }
        }
    }
}

/// Acquires the lock, holds it while the command runs, and ends the command when the supervisor is gone.
struct Keeper<'a> {
    link: &'a Link,
    supervisor: Pid,
    lock: Option<Lock<'a>>,
    /// `None` before it has started and when it has ended.
    command: Option<Processes>,
    command_has_ended: bool,
    /// Whether dblock is stopped.
    paused: bool,
    /// Whether a renewal is due whatever the time.
    renews_now: bool,
}

/// What the keeper does next.
enum Next {
    Acquire,
    Reacquire,
    Renew,
    /// Wait for a message, the end of the session, or this moment.
    Wait(Option<Moment>),
}

/// Whether the keeper goes on.
#[derive(PartialEq, Eq)]
enum Flow {
    GoOn,
    End,
}

impl<'a> Keeper<'a> {
    fn new(link: &'a Link, supervisor: Pid, lock: Option<Lock<'a>>) -> Self {
        Self {
            link,
            supervisor,
            lock,
            command: None,
            command_has_ended: false,
            paused: false,
            renews_now: false,
        }
    }

    /// Until the supervisor lets the keeper go, or is gone. Before the lock is held it is the supervisor that ends the keeper when
    /// the time is over.
    ///
    /// # Errors
    /// The lock could not be acquired.
    fn run(mut self) -> Result<(), Failure> {
        let Ok(alarm) = Alarm::new() else {
            self.end_command();
            let line = "cannot make a timer";
            return Err(Failure::new(Reason::OsRefused, line));
        };
        trim_memory(self.lock.is_none());
        loop {
            let flow = match self.next() {
                Next::Acquire => self.acquire()?,
                Next::Reacquire => self.reacquire(),
                Next::Renew => self.renew(),
                Next::Wait(until) => self.wait(&alarm, until),
            };
            if flow == Flow::End {
                return Ok(());
            }
        }
    }

    fn next(&mut self) -> Next {
        let due = match &self.lock {
            None => None,
            Some(lock) if lock.state == State::Acquiring => return Next::Acquire,
            Some(_) if self.paused => None,
            Some(lock) => {
                // After the command's end without a word and without end.
                let reacquires = lock.state == State::Lost
                    || lock.state == State::Abandoned && self.command_has_ended;
                if reacquires {
                    return Next::Reacquire;
                }
                let due = lock.renewal_due();
                if due.is_some_and(|due| self.renews_now || due <= Moment::now()) {
                    self.renews_now = false;
                    return Next::Renew;
                }
                due
            }
        };
        self.end_command_of_the_stopped();
        let deadline = self.lock.as_ref().and_then(Lock::command_deadline);
        let look = self.command.and(deadline);
        let look = look.map(|over| over.max(Moment::now() + LOOK_AGAIN_AT_MOST));
        Next::Wait(due.or(look))
    }

    fn acquire(&mut self) -> Result<Flow, Failure> {
        let Some(lock) = &mut self.lock else {
            return Ok(Flow::End);
        };
        match lock.backend.try_acquire(&Supervisor(self.link))? {
            Attempt::Acquired(grant, lease) => {
                // From here on the command must be gone before the keeper goes.
                let _ = prctl::set_pdeathsig(None);
                self.report_grant(grant, lease)?;
                trim_memory(true);
            }
            Attempt::Taken(holders) => {
                // The session has ended by now: the supervisor ends the keeper on its last word.
                let _ = self.link.send(&FromKeeper::Taken(holders));
                return Ok(Flow::End);
            }
            Attempt::Retry(pause) => sleep(pause),
        }
        Ok(Flow::GoOn)
    }

    /// Tells the supervisor of the grant. A lock that it does not know of is not kept.
    fn report_grant(&mut self, grant: Grant, lease: Lease) -> Result<(), Failure> {
        let Some(lock) = &mut self.lock else {
            return Ok(());
        };
        // After that time it is lost anyway, and a keeper without a supervisor would stay for ever.
        let told = lock.backend.answer_within(lease.ttl).and_then(|()| {
            let held = FromKeeper::Held(grant, lease);
            match lock.backend.descriptor() {
                Some(descriptor) => self.link.send_with(&held, descriptor),
                None => self.link.send(&held),
            }
        });
        match told {
            Ok(()) => lock.state = State::Held(lease),
            Err(_) => lock.backend.drop_held(),
        }
        told.map_err(|error: io::Error| {
            let line = format!("cannot pass the session on: {}", in_words(&error));
            Failure::new(Reason::OsRefused, line)
        })
    }

    /// Makes one attempt to reacquire the slot, then listens for a while.
    fn reacquire(&mut self) -> Flow {
        // There is no session that must outlive the command, and a connection may take its time.
        if die_with(self.supervisor).is_err() {
            return Flow::End;
        }
        self.end_command_of_the_stopped();
        let Some(lock) = &mut self.lock else {
            return Flow::End;
        };
        let take = self.command_has_ended || lock.spec.on_lost == OnLockLost::Reacquire;
        let attempt = lock.backend.try_reacquire(take);
        let mut pause = lock.backend.pause().min(LONGEST_PAUSE);
        match attempt {
            Reattempt::Acquired(grant, lease) => {
                self.outlive_supervisor();
                if let Some(lock) = &self.lock {
                    Supervisor(self.link).on_server(&lock.backend.server());
                }
                let _ = self.report_grant(grant, lease);
                return Flow::GoOn;
            }
            Reattempt::Killed(killer) => {
                lock.be_killed(killer, self.link);
                lock.shorten_deadline();
                self.outlive_supervisor();
                return Flow::GoOn;
            }
            Reattempt::NotRequested => {
                lock.state = State::Abandoned;
                self.outlive_supervisor();
                return Flow::GoOn;
            }
            Reattempt::Refused(_) if self.command_has_ended => pause = PAUSE_IF_TAKEN,
            // Whoever ends the holder would have ended it long ago.
            _ if !take && lock.over <= Moment::now() => lock.state = State::Abandoned,
            Reattempt::Refused(Refusal::Failed(_)) if !take => lock.state = State::Abandoned,
            Reattempt::Refused(why) => lock.abandon(why, self.link),
            Reattempt::Failed => {}
        }
        let millis = u16::try_from(pause.as_millis()).unwrap_or(u16::MAX);
        let mut link = [PollFd::new(self.link.as_fd(), PollFlags::POLLIN)];
        match poll(&mut link, millis) {
            Ok(1..) => self.on_message(),
            _ => Flow::GoOn,
        }
    }

    /// Proves to the supervisor that the lock is held, or says that it is lost.
    fn renew(&mut self) -> Flow {
        let Some(lock) = &mut self.lock else {
            return Flow::End;
        };
        match (lock.backend.renew(), &mut lock.state) {
            (Ok(sent), State::Held(lease)) => {
                lease.proved = sent;
                // A supervisor that is stopped for days reads none of them.
                self.link.send_if_heard(&FromKeeper::Confirmed(sent));
            }
            (Ok(_), _) => {}
            (Err(cause), _) => lock.lose(&cause, self.link),
        }
        Flow::GoOn
    }

    /// Waits for a message, the end of the session, or a moment.
    fn wait(&mut self, alarm: &Alarm, until: Option<Moment>) -> Flow {
        if alarm.set(until).is_err() {
            self.end_command();
            return Flow::End;
        }
        let session = self
            .lock
            .as_ref()
            .and_then(|lock| lock.backend.descriptor());
        let mut descriptors = vec![
            PollFd::new(self.link.as_fd(), PollFlags::POLLIN),
            PollFd::new(alarm.as_fd(), PollFlags::POLLIN),
        ];
        descriptors.extend(session.map(|session| PollFd::new(session, PollFlags::POLLIN)));
        if poll(&mut descriptors, PollTimeout::NONE).is_err() {
            return Flow::GoOn;
        }
        let [message, session_ended] =
            [0, 2].map(|at| descriptors.get(at).is_some_and(|fd| fd.any() == Some(true)));
        if message {
            return self.on_message();
        }
        if session_ended && let Some(lock) = &mut self.lock {
            lock.lose("the server ended the session", self.link);
        }
        Flow::GoOn
    }

    /// Takes one message from the supervisor.
    fn on_message(&mut self) -> Flow {
        let Ok(Some((message, _))) = self.link.receive() else {
            self.end_command();
            return Flow::End;
        };
        match message {
            ToKeeper::Started { pid, own_group } => {
                self.command = Some(Processes { pid, own_group });
            }
            ToKeeper::Pause => self.paused = true,
            ToKeeper::Check => {
                self.paused = false;
                self.renews_now = true;
            }
            ToKeeper::Hold => {
                self.command = None;
                self.command_has_ended = true;
                // There is nothing left to end first.
                if die_with(self.supervisor).is_err() {
                    return Flow::End;
                }
            }
            ToKeeper::Here => {}
            ToKeeper::Release => {
                // There is nothing left to end first.
                let _ = die_with(self.supervisor);
                if let Some(lock) = &mut self.lock {
                    let last = lock.release(self.link);
                    let _ = self.link.send(&last);
                }
                return Flow::End;
            }
        }
        Flow::GoOn
    }

    /// While the command runs it must be gone before the keeper goes.
    fn outlive_supervisor(&self) {
        if !self.command_has_ended {
            let _ = prctl::set_pdeathsig(None);
        }
    }

    /// Kills a command that must be gone where the supervisor, whose task that is, is stopped. One that is not may reap the
    /// command any moment.
    fn end_command_of_the_stopped(&mut self) {
        let supervisor = Processes {
            pid: self.supervisor.as_raw(),
            own_group: false,
        };
        let deadline = self.lock.as_ref().and_then(Lock::command_deadline);
        let is_over = deadline.is_some_and(|deadline| deadline <= Moment::now());
        if is_over
            && !self.paused
            && supervisor.is_stopped()
            && let Some(command) = self.command.take()
        {
            self.link.send_if_heard(&FromKeeper::EndsCommand);
            end(command);
            if let Some(lock) = &mut self.lock {
                lock.ack_kill(self.link);
            }
        }
    }

    fn end_command(&self) {
        if let Some(command) = self.command {
            end(command);
        }
    }
}

/// A holder may stay for days; logging in took more memory than holding does.
fn trim_memory(is_wanted: bool) {
    #[cfg(target_env = "gnu")]
    if is_wanted {
        // SAFETY: returns free pages to the system, and touches none that is in use.
        unsafe {
            libc::malloc_trim(0);
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

//! The process that cron sees: waits for the lock, runs the command, keeps every deadline, and never waits for a server.

mod child;
mod inherited;
mod leash;
mod record;
mod signals;

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid, getsid};

pub use record::{History, Outcome, What};
pub use signals::Signals;

use crate::base::clock::{Alarm, Moment};
use crate::base::descriptors;
use crate::base::exit::{Ending, Failure, Reason, TIMED_OUT, TIMED_OUT_KILLED};
use crate::base::log::{Level, Log};
use crate::base::processes::Processes;
use crate::base::text::{in_words, shown};
use crate::db::ConnectOptions;
use crate::isolated::link::Link;
use crate::keeper::message::{FromKeeper, ToKeeper};
use crate::keeper::{self, Task, Work};
use crate::lock::{Grant, Introduction, Lease, LockSpec, OnLockLost, Wait};
use child::Child;
use signals::Received;

/// From one look at a group that is ending to the next: the first, and at most.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
const LOOK_AGAIN_AT_MOST: Duration = Duration::from_secs(1);

/// The same before SIGKILL: whoever waits for the lock waits for this, too.
const LOOK_AGAIN_IN_GRACE: Duration = Duration::from_millis(100);

/// A supervisor that finds the lease over so long after its time was stopped, or the machine slept.
const OVERSLEPT: Duration = Duration::from_millis(500);

/// How much longer the server's answer is waited for when a signal asks dblock to end.
const LAST_CHANCE: Duration = Duration::from_secs(1);

/// A command to run under a lock, and how it is ended.
#[derive(Debug)]
pub struct Job {
    /// The lock.
    pub lock: LockSpec,
    /// The server that has it.
    pub connection: ConnectOptions,
    /// The names of the slots, in their order; empty where they have none.
    pub slot_names: Vec<String>,
    /// How long the command may run, from its start; `None` without limit.
    pub timeout: Option<Duration>,
    /// From SIGTERM to SIGKILL when dblock ends the command; zero sends both at once.
    pub kill_after: Duration,
    /// How long the lock is kept at least, from when it was acquired.
    pub hold_at_least: Duration,
    /// Variables that the command does not get.
    pub scrubbed: Vec<&'static str>,
    /// What to run: program and arguments, never empty.
    pub command: Vec<OsString>,
    /// When dblock was started.
    pub started: SystemTime,
}

impl Job {
    /// The name of the command's program, without its folder.
    pub fn program(&self) -> String {
        let program = self.command.first().map(Path::new);
        let name = program.and_then(|path| path.file_name().or(Some(path.as_os_str())));
        name.unwrap_or_default().to_string_lossy().into_owned()
    }
}

impl Job {
    /// What a keeper is to do for it. `tells_of_skip`: whether somebody is told who has the lock when it is taken.
    pub fn task<'a>(&'a self, mark: &str, tells_of_skip: bool, shown: Level) -> Task<'a> {
        Task::new(
            &self.lock,
            &self.connection,
            mark,
            self.kill_after,
            Introduction {
                pid: getpid(),
                lock: Some(self.lock.name.clone()),
                command: self.program(),
                started: self.started,
                waits: self.lock.wait != Wait::For(Duration::ZERO),
                slots: self.lock.slots,
                ttl: self.lock.ttl,
            },
            tells_of_skip,
            shown,
        )
    }
}

/// What became of the request for the lock.
pub enum Asked {
    /// It was had.
    Held(Grant, Lease),
    /// It was not had in time; the text says who has it.
    Taken(String),
    /// No server could be reached in time.
    Unreachable(Failure),
    /// A signal ended the waiting.
    Ended(Signal),
}

/// Watches over one keeper and one command.
pub struct Supervisor<'a> {
    job: &'a Job,
    /// What all sessions of this dblock have.
    mark: &'a str,
    /// What happened so far.
    pub history: &'a mut History,
    log: Log,
    signals: Signals,
    alarm: Alarm,
    keeper: Keeper,
    lock: Possession,
    /// Which slot of it the command was started for.
    slot: Option<u32>,
    /// Whether a signal asked the command, or dblock after it, to end.
    asked_to_end: bool,
    /// Whether somebody has ended this holder, and waits to hear that the command is gone.
    killed: bool,
}

/// The keeper as the supervisor knows it.
struct Keeper {
    /// Its process until it is reaped.
    pid: Option<Pid>,
    /// Shared with the command's process, which sends its own number before it becomes the command.
    link: Arc<Link>,
    /// Whether it has closed its end. Then it has ended, or is about to.
    gone: bool,
    /// The session's descriptor, which nothing is done with: should the keeper die, the server sees the session live, and
    /// gives the lock to nobody before the command is gone.
    session: Option<OwnedFd>,
}

impl Keeper {
    fn new(pid: Pid, link: Link) -> Self {
        Self {
            pid: Some(pid),
            link: Arc::new(link),
            gone: false,
            session: None,
        }
    }
}

/// The lock as far as the keeper has said.
#[derive(Debug, Clone, Copy)]
enum Possession {
    /// There is none: not yet, or the command runs without one, or it was given back.
    None,
    /// It is ours.
    Held(Lease),
    /// It was lost then; until when it can be had again.
    Lost(Moment, Lease),
}

impl Possession {
    fn lease(self) -> Option<Lease> {
        match self {
            Self::None => None,
            Self::Held(lease) | Self::Lost(_, lease) => Some(lease),
        }
    }

    fn is_held(self) -> bool {
        matches!(self, Self::Held(_))
    }

    fn lose(&mut self) {
        if let Self::Held(lease) = *self {
            *self = Self::Lost(Moment::now(), lease);
        }
    }

    fn note(&mut self, message: &FromKeeper) {
        match (*self, message) {
            (_, &FromKeeper::Held(_, lease)) => *self = Self::Held(lease),
            (Self::Held(lease), &FromKeeper::Confirmed(proved)) => {
                *self = Self::Held(Lease { proved, ..lease });
            }
            (_, FromKeeper::Lost(_)) => self.lose(),
            (_, FromKeeper::Released) => *self = Self::None,
            _ => {}
        }
    }
}

/// How the watch over a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    /// The command ended by itself.
    ByItself,
    /// Its time was over, and it was ended; with SIGKILL if SIGTERM was not enough.
    TimedOut { killed: bool },
    /// The lock was lost, and it was ended.
    LockLost,
}

/// Something to act on.
enum Event {
    Signal(Received),
    Message(FromKeeper),
    KeeperGone,
    Deadline,
}

impl<'a> Supervisor<'a> {
    /// Takes over the signals and a keeper that was forked off, whose sessions have the `mark`.
    ///
    /// # Errors
    /// [`Reason::OsRefused`].
    pub fn new(
        job: &'a Job,
        mark: &'a str,
        history: &'a mut History,
        log: Log,
        signals: Signals,
        keeper: Pid,
        link: Link,
    ) -> Result<Self, Failure> {
        let alarm = Alarm::new().map_err(|error| {
            let told = format!("cannot make a timer: {}", in_words(&error));
            Failure::new(Reason::OsRefused, told)
        })?;
        Ok(Self {
            job,
            mark,
            history,
            log,
            signals,
            alarm,
            keeper: Keeper::new(keeper, link),
            lock: Possession::None,
            slot: None,
            asked_to_end: false,
            killed: false,
        })
    }

    /// Replaces the keeper, which has been ended.
    pub fn set_keeper(&mut self, keeper: Pid, link: Link) {
        self.keeper = Keeper::new(keeper, link);
    }

    /// Waits until the keeper has the lock, or the time is over. Unless the lock is held, the keeper has been ended.
    ///
    /// # Errors
    /// What the keeper failed of.
    pub fn wait_for_lock(&mut self) -> anyhow::Result<Asked> {
        let asked = self.ask();
        self.history.decided();
        if !matches!(asked, Ok(Asked::Held(..))) {
            self.end_keeper();
        }
        asked
    }

    fn ask(&mut self) -> anyhow::Result<Asked> {
        let limit = self.job.connection.connect_timeout;
        let begun = Moment::now();
        let mut deadline = Some(begun + limit);
        let mut waiting = false;
        let mut only_read_only = None;
        let mut grant = None;
        let mut last_note = "connecting".to_owned();
        loop {
            match self.next(deadline)? {
                Event::Message(message @ (FromKeeper::Held(..) | FromKeeper::Confirmed(_))) => {
                    self.lock.note(&message);
                    if let FromKeeper::Held(had, _) = message {
                        grant = Some(had);
                    }
                    let (Some(grant), Possession::Held(lease)) = (grant, self.lock) else {
                        continue;
                    };
                    // dblock may have been stopped just now, or the machine have slept: then a heartbeat tells.
                    if lease.proved.elapsed() > lease.ttl / 2 {
                        self.tell_keeper(&ToKeeper::Check);
                        deadline = Some(Moment::now() + lease.grace());
                        continue;
                    }
                    let (name, span) = (&self.job.lock.name, shown(begun.elapsed()));
                    let Grant {
                        slot,
                        connection_id,
                    } = grant;
                    self.log.info(format_args!(
                        "had slot {slot} of {name} after {span}, on connection {connection_id}"
                    ));
                    return Ok(Asked::Held(grant, lease));
                }
                Event::Message(FromKeeper::Taken(holder)) => return Ok(Asked::Taken(holder)),
                Event::Message(FromKeeper::Failed(failure)) => return Err(failure.into()),
                Event::Message(FromKeeper::Waiting(holder)) => {
                    let name = &self.job.lock.name;
                    self.log.info(format_args!("{name} is {holder}; waiting"));
                    last_note = format!("{name} was last {holder}");
                    // Once: on a new session the keeper goes on with the same wait. It ends the wait to the millisecond
                    // itself; the deadline is for a server that has fallen silent by then.
                    if !waiting {
                        waiting = true;
                        deadline = match self.job.lock.wait {
                            Wait::For(wait) => Some(begun + wait + limit),
                            Wait::Forever => None,
                        };
                    }
                }
                Event::Message(FromKeeper::Note(level, text)) => {
                    self.log.say(level, &text);
                    if level == Level::Info {
                        last_note = text;
                    }
                }
                Event::Message(FromKeeper::AreYouThere) => self.tell_keeper(&ToKeeper::Here),
                Event::Message(FromKeeper::OnlyReadOnly(told)) => only_read_only = told,
                Event::Message(message) => self.lock.note(&message),
                Event::Signal(received) => {
                    self.reap_orphans(None);
                    if self.signals.act_on(received.signal) {
                        return Ok(Asked::Ended(received.signal));
                    }
                    // While dblock was stopped, so was its keeper, which has an answer of its own to a time that is over.
                    if waiting && received.signal == Signal::SIGCONT {
                        let now = Moment::now();
                        deadline = deadline.map(|deadline| deadline.max(now + limit));
                    }
                }
                Event::KeeperGone => {
                    let end = gone(self.end_keeper());
                    let line = format!("{end} while this was under way: {last_note}");
                    return Err(Failure::new(Reason::Internal, line).into());
                }
                Event::Deadline if grant.is_some() => {
                    let name = &self.job.lock.name;
                    let line = format!("{name} was lost before the command was started");
                    return Err(Failure::new(Reason::LockLost, line).into());
                }
                Event::Deadline => {
                    if let (false, Some(read_only)) = (waiting, only_read_only) {
                        let line = format!("{read_only}, or say --allow-unfit-server");
                        return Err(Failure::new(Reason::Configuration, line).into());
                    }
                    let line = if waiting {
                        format!("the server did not answer when the wait was over: {last_note}")
                    } else {
                        format!(
                            "no server could be reached within {}: {last_note}",
                            shown(limit)
                        )
                    };
                    return Ok(Asked::Unreachable(Failure::new(Reason::Unreachable, line)));
                }
            }
        }
    }

    /// Runs the command and returns how dblock is to end. Afterwards the lock is free and the keeper gone. Without a grant
    /// it runs without the lock.
    ///
    /// # Errors
    /// The command could not be started, or was ended because the lock was lost.
    pub fn run_command(&mut self, grant: Option<(Grant, Lease)>) -> anyhow::Result<Ending> {
        let had = Moment::now();
        self.tell_the_command(grant.map(|(grant, _)| grant));
        self.signals.collect_all()?;
        let begun = Moment::now();
        let child = match Child::spawn(&self.job.command, &self.signals, &self.keeper.link) {
            Ok(child) => child,
            Err(failure) => {
                self.release(None, self.job.connection.connect_timeout)?;
                return Err(failure.into());
            }
        };
        self.history.started = Some(SystemTime::now());
        let time_over = self.job.timeout.map(|timeout| begun + timeout);
        self.slot = grant.map(|(grant, _)| grant.slot);
        let watched = self.watch(&child, time_over);
        let ending = child.ended();
        match ending {
            Some(ending) => {
                let ran = begun.elapsed();
                self.history.ended = Some((SystemTime::now(), ending));
                self.history.ran = Some(ran);
                self.log.info(format_args!(
                    "the command {} after {}",
                    told(ending),
                    shown(ran)
                ));
            }
            // Only after an error of the system's, which `watched` tells: no command runs on behind dblock's back.
            None => {
                child.processes.signal(libc::SIGKILL);
            }
        }
        let hold_until = Some(had + self.job.hold_at_least).filter(|_| {
            let is_due = matches!(watched, Ok(Over::ByItself | Over::TimedOut { .. }));
            grant.is_some() && is_due && !self.killed
        });
        match hold_until {
            Some(until) if until > Moment::now() && !self.asked_to_end => {
                let held = self.hold(child, until);
                let limit = held.as_ref().copied().unwrap_or(LAST_CHANCE);
                self.release(None, limit)?;
                held?;
            }
            _ => self.release(Some(child), self.job.connection.connect_timeout)?,
        }
        if let Ok(Over::TimedOut { .. }) = watched {
            self.history.outcome = Outcome::TimedOut;
        }
        match watched? {
            Over::ByItself => ending.ok_or_else(|| {
                Failure::new(Reason::Internal, "the command's end was not seen").into()
            }),
            Over::TimedOut { killed: false } => Ok(Ending::Code(TIMED_OUT)),
            Over::TimedOut { killed: true } => Ok(Ending::Code(TIMED_OUT_KILLED)),
            Over::LockLost => {
                let line = format!(
                    "{} was lost, and the command was ended for it",
                    self.job.lock.name
                );
                Err(Failure::new(Reason::LockLost, line).into())
            }
        }
    }

    /// The command's environment is dblock's own, and these variables.
    fn tell_the_command(&self, grant: Option<Grant>) {
        let slot = grant.map(|grant| grant.slot);
        let slot_name = slot.and_then(|slot| self.job.slot_names.get(slot as usize).cloned());
        let told = [
            ("DBLOCK_NAME", Some(self.job.lock.name.to_string())),
            ("DBLOCK_SLOT", slot.map(|slot| slot.to_string())),
            ("DBLOCK_SLOT_NAME", slot_name),
            (
                "DBLOCK_CONNECTION_ID",
                grant.map(|grant| grant.connection_id.to_string()),
            ),
        ];
        let scrubbed = self.job.scrubbed.iter().copied();
        // Set in this process, for that leaves the order, and what is no `name=value`, as they were.
        for (variable, value) in told.into_iter().chain(scrubbed.map(|name| (name, None))) {
            match value {
                // SAFETY: no thread reads the environment meanwhile, for there is none.
                Some(value) => unsafe { env::set_var(variable, value) },
                // SAFETY: as above. A dblock around this one may have set it.
                None => unsafe { env::remove_var(variable) },
            }
        }
    }

    /// Waits for the command's end, passes signals on, and ends the command when its time is over or the lock is lost.
    fn watch(&mut self, child: &Child, time_over: Option<Moment>) -> anyhow::Result<Over> {
        // Whether dblock was stopped by the terminal, together with the command.
        let mut stopped = false;
        // Until when a lease that was found over on waking may turn out not to be.
        let mut grace = None;
        loop {
            if let Some(ending) = child.ended() {
                // It may have been the keeper, while dblock was stopped.
                while ending == Ending::Signal(libc::SIGKILL)
                    && let Some(message) = self.pending()
                {
                    if matches!(message, FromKeeper::EndsCommand) {
                        return Ok(Over::LockLost);
                    }
                    self.hear(message);
                }
                return Ok(Over::ByItself);
            }
            // By the clock, for signals come before a deadline, and there may be no end of them.
            if is_over(time_over) {
                self.log.warning(format_args!(
                    "the command has run for {}; ending it",
                    shown(self.job.timeout.unwrap_or_default())
                ));
                let killed = self.end_command(child)?;
                return Ok(Over::TimedOut { killed });
            }
            let lease_over = self.lease_over();
            if is_over(lease_over) {
                // What the keeper has said meanwhile comes first.
                if let Some(message) = self.pending() {
                    if self.hear(message) {
                        self.end_command(child)?;
                        return Ok(Over::LockLost);
                    }
                    continue;
                }
                let overslept = lease_over.is_some_and(|at| at.elapsed() > OVERSLEPT);
                if overslept && grace.is_none() {
                    self.tell_keeper(&ToKeeper::Check);
                    grace = self.lock.lease().map(|lease| Moment::now() + lease.grace());
                }
                if grace.is_none_or(|grace| grace <= Moment::now()) {
                    self.tell_of_the_end();
                    self.end_command(child)?;
                    // There is nobody to take it back from us.
                    self.lock = Possession::None;
                    return Ok(Over::LockLost);
                }
            } else {
                grace = None;
            }
            let deadlines = [time_over, grace.or(lease_over)];
            match self.next(deadlines.into_iter().flatten().min())? {
                Event::Signal(Received {
                    signal: Signal::SIGCHLD,
                    ..
                }) => self.reap_orphans(Some(child)),
                Event::Signal(received) => self.pass_on(received, child, &mut stopped),
                Event::Message(message) => {
                    if self.hear(message) {
                        self.end_command(child)?;
                        return Ok(Over::LockLost);
                    }
                }
                Event::KeeperGone => {
                    let end = self.reap_keeper();
                    // Without a lock there is nothing to lose, and what ended with the keeper's death is told afterwards.
                    let Some(slot) = self.slot.filter(|_| child.ended().is_none()) else {
                        continue;
                    };
                    if self.lock.is_held() && self.lose(&gone(end)) {
                        self.end_command(child)?;
                        return Ok(Over::LockLost);
                    }
                    if self.job.lock.on_lost == OnLockLost::Reacquire
                        && let Err(failure) = self.replace_keeper(slot, Some(child.processes))
                    {
                        self.log
                            .error(format_args!("{failure}; ending the command"));
                        self.end_command(child)?;
                        return Ok(Over::LockLost);
                    }
                }
                Event::Deadline => {}
            }
        }
    }

    /// Starts another keeper, which takes the slot again, for the command if it still runs. Until it has it, the session of
    /// the one before is held on to.
    fn replace_keeper(&mut self, slot: u32, command: Option<Processes>) -> Result<(), Failure> {
        let task = self.job.task(self.mark, false, self.log.shown);
        let (keeper, link) = keeper::fork_off(Work::Reacquire(task, slot, command))?;
        let session = self.keeper.session.take();
        self.keeper = Keeper::new(keeper, link);
        self.keeper.session = session;
        Ok(())
    }

    /// When the end of the command must begin unless a heartbeat is confirmed before, or the lock is had again. `None`
    /// where there is no lock, or its loss is to be ignored.
    fn lease_over(&self) -> Option<Moment> {
        let lease = self.lock.lease()?;
        (self.job.lock.on_lost != OnLockLost::Ignore)
            .then(|| lease.end_command(self.job.kill_after))
    }

    /// Notes what the keeper says of the lock.
    fn note(&mut self, message: &FromKeeper) {
        self.lock.note(message);
        self.killed |= matches!(message, FromKeeper::Killed(_));
    }

    /// What the keeper says while the command runs. Whether the command is to be ended for it.
    fn hear(&mut self, message: FromKeeper) -> bool {
        let before = self.lock;
        self.note(&message);
        let name = &self.job.lock.name;
        match message {
            FromKeeper::Lost(cause) => return self.tell_of_the_loss(&cause),
            FromKeeper::Held(grant, _) => {
                let span = match before {
                    Possession::Lost(since, _) => shown(since.elapsed()),
                    _ => shown(Duration::ZERO),
                };
                self.log.warning(format_args!(
                    "{name} was had again after {span}, on connection {}",
                    grant.connection_id
                ));
            }
            FromKeeper::Killed(who) => {
                self.log.error(format_args!(
                    "{name} was ended by {who}; ending the command"
                ));
                return true;
            }
            FromKeeper::GivenUp(why) if self.job.lock.on_lost == OnLockLost::Reacquire => {
                self.log
                    .error(format_args!("{name} {why}; ending the command"));
                return true;
            }
            // A keeper that takes it again cannot even begin; what a heartbeat failed of is followed by the keeper's end.
            FromKeeper::Failed(failure) if !before.is_held() => {
                self.log
                    .error(format_args!("{failure}; ending the command"));
                return self.job.lock.on_lost == OnLockLost::Reacquire;
            }
            FromKeeper::Failed(failure) => self.log.error(failure),
            FromKeeper::Note(level, text) => self.log.say(level, text),
            _ => {}
        }
        false
    }

    /// Notes a loss that nobody has told of, and tells of it. Whether the command is to be ended for it.
    fn lose(&mut self, cause: &str) -> bool {
        self.lock.lose();
        self.history.lose(cause);
        self.tell_of_the_loss(cause)
    }

    fn tell_of_the_loss(&self, cause: &str) -> bool {
        let policy = self.job.lock.on_lost;
        let then = match policy {
            OnLockLost::Reacquire => "taking it again",
            OnLockLost::Terminate => "ending the command",
            OnLockLost::Ignore => "the command runs on without it",
        };
        self.log.error(format_args!(
            "{} was lost while the command runs: {cause}; {then}",
            self.job.lock.name
        ));
        policy == OnLockLost::Terminate
    }

    /// Tells why the lease is over.
    fn tell_of_the_end(&mut self) {
        let why = match self.lock {
            Possession::Lost(since, _) => {
                format!("could not be had again within {}", shown(since.elapsed()))
            }
            Possession::Held(lease) => format!(
                "may be lost: the server has not answered for {}",
                shown(lease.proved.elapsed())
            ),
            Possession::None => return,
        };
        self.history.note(What::GivenUp, &why);
        self.log.error(format_args!(
            "{} {why}; ending the command",
            self.job.lock.name
        ));
    }

    /// A message of the keeper's that is there already.
    fn pending(&mut self) -> Option<FromKeeper> {
        if self.keeper.gone {
            return None;
        }
        // Its end comes as an event.
        let mut link = [PollFd::new(self.keeper.link.as_fd(), PollFlags::POLLIN)];
        match poll(&mut link, PollTimeout::ZERO) {
            Ok(1) => self.receive(),
            _ => None,
        }
    }

    /// Passes a signal on to the command, once.
    fn pass_on(&mut self, received: Received, child: &Child, stopped: &mut bool) {
        let Received {
            signal,
            from_terminal,
        } = received;
        self.asked_to_end |= self.signals.asks_to_end(signal);
        match signal {
            // A terminal that hangs up tells the leader of the session alone.
            Signal::SIGHUP if getsid(None) == Ok(getpid()) => {}
            // Otherwise it signals the whole foreground group, and the command is in it.
            Signal::SIGTSTP if from_terminal => {
                *stopped = true;
                // Who stops for longer than the TTL gives the lock away.
                self.tell_keeper(&ToKeeper::Pause);
                signals::stop();
                return self.tell_keeper(&ToKeeper::Check);
            }
            _ if from_terminal && !child.processes.own_group => return,
            // The shell continues the whole group, too; only if somebody continued dblock alone the command still stands.
            Signal::SIGCONT if std::mem::take(stopped) && !child.processes.is_stopped() => return,
            _ => {}
        }
        if !child.processes.signal(signal as i32) {
            self.log.warning(format_args!(
                "cannot pass {signal} on to the command: it runs as another user"
            ));
        }
    }

    /// Ends the command: SIGTERM, then SIGKILL. All of its group must be gone before dblock says so. Whether it took
    /// SIGKILL.
    fn end_command(&mut self, child: &Child) -> anyhow::Result<bool> {
        if !child.processes.signal(libc::SIGTERM) {
            self.log
                .warning("cannot end the command: it runs as another user; waiting for its end");
        }
        // A stopped process takes SIGTERM only when it is continued.
        child.processes.signal(libc::SIGCONT);
        let now = Moment::now();
        let kill_after = match (self.lock, self.job.lock.on_lost) {
            // One that ignores SIGTERM is gone before another host may have the lock.
            (Possession::Held(lease) | Possession::Lost(_, lease), policy)
                if policy != OnLockLost::Ignore =>
            {
                lease
                    .kill_after(self.job.kill_after)
                    .min(lease.over().since(now))
            }
            _ => self.job.kill_after,
        };
        let kill_at = Some(now + kill_after);
        let mut pause = LOOK_AGAIN;
        let mut stopped = false;
        // Without a time for SIGTERM the code does not depend on which of the two came first.
        let mut kill_sent = false;
        let mut killed = kill_after.is_zero() && child.processes.signal(libc::SIGKILL);
        while child.ended().is_none() || child.processes.alive() {
            let kill_now = is_over(kill_at);
            if kill_now {
                // From the first one on the end is near; but one that may not be killed can take hours.
                if !std::mem::replace(&mut kill_sent, true) {
                    pause = LOOK_AGAIN;
                }
                killed |= child.processes.signal(libc::SIGKILL);
            }
            // The ends of the command's own children are not announced to us.
            let look_again = if child.ended().is_some() || kill_now {
                let most = if kill_now {
                    LOOK_AGAIN_AT_MOST
                } else {
                    LOOK_AGAIN_IN_GRACE
                };
                pause = (2 * pause).min(most);
                let then = Moment::now() + pause;
                Some(
                    kill_at
                        .filter(|_| !kill_now)
                        .map_or(then, |at| at.min(then)),
                )
            } else {
                kill_at
            };
            match self.next(look_again)? {
                Event::Signal(received) if received.signal == Signal::SIGCHLD => {
                    self.reap_orphans(Some(child));
                }
                Event::Signal(received) => self.pass_on(received, child, &mut stopped),
                Event::Message(message) => {
                    self.hear(message);
                }
                Event::KeeperGone => {
                    self.reap_keeper();
                }
                Event::Deadline => {}
            }
        }
        // As timeout(1) has it, also when the command's SIGKILL came from elsewhere.
        Ok(killed || child.ended() == Some(Ending::Signal(libc::SIGKILL)))
    }

    /// Keeps the lock after the command's end, until its time is over or a signal asks for the end; nobody who reads what
    /// the command wrote is kept waiting. Returns how long the server's answer to the release may then be waited for.
    fn hold(&mut self, child: Child, until: Moment) -> io::Result<Duration> {
        self.log.info(format_args!(
            "holding {} for another {}",
            self.job.lock.name,
            shown(until.since(Moment::now()))
        ));
        // The keeper learns of the end before the command's number is free for another process: it never kills a stranger.
        self.tell_keeper(&ToKeeper::Hold);
        child.reap();
        let session = self.keeper.session.as_ref().map(AsRawFd::as_raw_fd);
        let for_report = self.history.kept.as_ref().map(AsRawFd::as_raw_fd);
        let kept = [
            Some(self.signals.as_fd().as_raw_fd()),
            Some(self.alarm.as_fd().as_raw_fd()),
            Some(self.keeper.link.as_fd().as_raw_fd()),
            session,
            for_report,
        ];
        descriptors::close_all_except(&kept.into_iter().flatten().collect::<Vec<_>>())?;
        while !is_over(Some(until)) {
            match self.next(Some(until))? {
                Event::Signal(Received {
                    signal: Signal::SIGCHLD,
                    ..
                }) => self.reap_orphans(None),
                Event::Signal(Received { signal, .. }) if self.signals.asks_to_end(signal) => {
                    return Ok(LAST_CHANCE.min(self.job.connection.connect_timeout));
                }
                Event::Signal(Received { signal, .. }) => {
                    self.signals.act_on(signal);
                }
                // Its session lives on with us, for a while. One that had no lock yet would fare no better again.
                Event::KeeperGone => {
                    self.reap_keeper();
                    if let (Some(slot), true) = (self.slot, self.lock.is_held()) {
                        self.lock.lose();
                        let _ = self.replace_keeper(slot, None);
                    }
                }
                // What was lost is sought again, by the keeper; the command is not concerned any more.
                Event::Message(message) => {
                    self.note(&message);
                    if self.killed {
                        return Ok(self.job.connection.connect_timeout);
                    }
                }
                Event::Deadline => {}
            }
        }
        Ok(self.job.connection.connect_timeout)
    }

    fn tell_keeper(&self, message: &ToKeeper) {
        // One that is gone is noticed by the end of the link.
        let _ = self.keeper.link.send(message);
    }

    /// Has the keeper give the lock back, reaps the command, and ends the keeper. The server's answer is waited for until
    /// this `limit` at most.
    fn release(&mut self, child: Option<Child>, limit: Duration) -> anyhow::Result<()> {
        // The keeper learns of the end before the command's number is free for another process: it never kills a stranger.
        self.tell_keeper(&ToKeeper::Release);
        if let Some(child) = child {
            child.reap();
        }
        // It may just have had the lock again.
        while !self.lock.is_held()
            && let Some(message) = self.pending()
        {
            self.note(&message);
        }
        let name = &self.job.lock.name;
        // Whoever ended the holder of a lock that was lost is waiting for a word, and the keeper may not know of him yet.
        let mut deadline = Moment::now() + limit;
        while !matches!(self.lock, Possession::None) {
            let event = if self.keeper.gone {
                Event::KeeperGone
            } else {
                self.next(Some(deadline))?
            };
            let lost = match event {
                Event::Message(FromKeeper::Released) => {
                    if self.lock.is_held() {
                        self.log.info(format_args!("{name} is free"));
                    }
                    break;
                }
                Event::Message(FromKeeper::Note(level, text)) => {
                    self.log.say(level, text);
                    continue;
                }
                // The command has ended; who wants dblock to end now does not want to wait for a slow server.
                Event::Signal(received) => {
                    if self.signals.act_on(received.signal) {
                        deadline = deadline.min(Moment::now() + LAST_CHANCE);
                    }
                    continue;
                }
                Event::Message(message @ (FromKeeper::Held(..) | FromKeeper::Killed(_))) => {
                    self.note(&message);
                    continue;
                }
                Event::KeeperGone | Event::Deadline if !self.lock.is_held() => break,
                Event::Message(FromKeeper::Lost(cause)) if self.lock.is_held() => cause,
                Event::KeeperGone => "the keeper is gone".to_owned(),
                Event::Deadline => {
                    self.log.warning(format_args!(
                        "the server did not answer; it frees {name} when it sees that dblock is gone"
                    ));
                    break;
                }
                Event::Message(_) => continue,
            };
            self.lock.lose();
            self.log.error(format_args!(
                "{name} was lost while the command ran: {lost}"
            ));
        }
        self.end_keeper();
        Ok(())
    }

    /// Ends the keeper, and with it its session; how it ended. Nothing is waited for but the kernel.
    fn end_keeper(&mut self) -> Option<Ending> {
        let ending = self.reap_keeper();
        self.keeper.session = None;
        ending
    }

    /// Ends the keeper, but not the session that it had. One that has ended must not stay, for it would hide the orphans
    /// behind it.
    fn reap_keeper(&mut self) -> Option<Ending> {
        let pid = self.keeper.pid.take()?;
        let _ = kill(pid, Signal::SIGKILL);
        self.keeper.gone = true;
        child::reap(pid.as_raw())
    }

    /// Reaps orphans, which process 1 of a container inherits.
    fn reap_orphans(&self, command: Option<&Child>) {
        let own = [
            self.keeper.pid.map(Pid::as_raw),
            command.map(|command| command.processes.pid),
        ];
        while child::reap_orphan(&own) {}
    }

    /// The next event, signals first.
    fn next(&mut self, deadline: Option<Moment>) -> io::Result<Event> {
        self.alarm.set(deadline)?;
        loop {
            if let Some(received) = self.signals.next()? {
                return Ok(Event::Signal(received));
            }
            // Until it is reaped.
            if self.keeper.gone && self.keeper.pid.is_some() {
                return Ok(Event::KeeperGone);
            }
            let mut descriptors = vec![
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.alarm.as_fd(), PollFlags::POLLIN),
            ];
            if !self.keeper.gone {
                descriptors.push(PollFd::new(self.keeper.link.as_fd(), PollFlags::POLLIN));
            }
            match poll(&mut descriptors, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            let [signal_came, time_is_over, keeper_spoke] =
                [0, 1, 2].map(|at| descriptors.get(at).is_some_and(|fd| fd.any() == Some(true)));
            if signal_came {
                continue;
            }
            if keeper_spoke {
                return Ok(match self.receive() {
                    Some(message) => Event::Message(message),
                    None => Event::KeeperGone,
                });
            }
            if time_is_over {
                return Ok(Event::Deadline);
            }
        }
    }

    /// The keeper's next message; `None` when it is gone. What is no message is no keeper of ours any more.
    fn receive(&mut self) -> Option<FromKeeper> {
        let Some((message, descriptor)) = self.keeper.link.receive().unwrap_or_default() else {
            self.keeper.gone = true;
            return None;
        };
        self.history.hear(&message);
        match message {
            FromKeeper::Held(..) => self.keeper.session = descriptor,
            FromKeeper::Lost(_) => self.keeper.session = None,
            _ => {}
        }
        Some(message)
    }
}

fn is_over(deadline: Option<Moment>) -> bool {
    deadline.is_some_and(|deadline| deadline <= Moment::now())
}

/// How the keeper ended without a word.
fn gone(ending: Option<Ending>) -> String {
    match ending {
        // It has a limit on its memory, and hits it by an abort.
        Some(Ending::Signal(libc::SIGABRT)) => {
            "the keeper gave up: it may have no more than 64 MB of memory".to_owned()
        }
        Some(ending) => format!("the keeper {}", told(ending)),
        None => "the keeper is gone".to_owned(),
    }
}

fn told(ending: Ending) -> String {
    match ending {
        Ending::Code(code) => format!("ended with {code}"),
        Ending::Signal(signal) => format!("died of signal {signal}"),
    }
}

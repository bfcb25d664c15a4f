//! The keeper's one loop: acquires the lock, renews it, listens to the supervisor, and ends the command when the supervisor is gone.

use std::io;
use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::unistd::Pid;

use super::caller::Supervisor;
use super::lock::{Lock, State};
use super::message::{FromKeeper, ToKeeper};
use crate::base::clock::{Alarm, Moment};
use crate::base::exit::{Failure, Reason};
use crate::base::log::Level;
use crate::base::processes::Processes;
use crate::base::text::in_words;
use crate::isolated::link::{Link, cut};
use crate::isolated::process::die_with;
use crate::lock::{Attempt, Caller, Grant, Lease, OnLockLost, Reattempt, Refusal, Renewal};

/// At most from one attempt to reacquire a lock to the next: who had it is to be there before those who wait for it, also at a
/// full server.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// From a slot that another session has to the next attempt, when no command runs any more.
const PAUSE_IF_TAKEN: Duration = Duration::from_secs(1);

/// From one look at processes that are being killed to the next: the first, and at most. One that may not be killed can
/// take hours to end.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
const LOOK_AGAIN_AT_MOST: Duration = Duration::from_secs(1);

/// How long the server may take to record that a run was skipped, for each answer.
const RECORD_LIMIT: Duration = Duration::from_secs(2);

/// Acquires the lock, holds it while the command runs, and ends the command when the supervisor is gone.
pub struct Guard<'a> {
    link: &'a Link,
    supervisor: Pid,
    lock: Option<Lock<'a>>,
    /// `None` before it has started and when it has ended.
    pub command: Option<Processes>,
    /// Whether it has ended; then nothing has to end before the lock goes.
    pub command_has_ended: bool,
    /// Whether dblock is stopped.
    paused: bool,
    /// Whether a renewal is due whatever the time.
    pub renews_now: bool,
    /// When the next renewal is tried, after one without an answer.
    retry: Option<Moment>,
    /// Since when no server has confirmed the lock, and how that was said.
    silent_since: Option<(Moment, Option<Level>)>,
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

impl<'a> Guard<'a> {
    /// Watches over a lock and a command for this supervisor; `None`: over a command alone.
    pub fn new(link: &'a Link, supervisor: Pid, lock: Option<Lock<'a>>) -> Self {
        Self {
            link,
            supervisor,
            lock,
            command: None,
            command_has_ended: false,
            paused: false,
            renews_now: false,
            retry: None,
            silent_since: None,
        }
    }

    /// Until the supervisor lets the keeper go, or is gone. Before the lock is held it is the supervisor that ends the keeper when
    /// the time is over.
    ///
    /// # Errors
    /// The lock could not be acquired.
    pub fn run(mut self) -> Result<(), Failure> {
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
                // Its end comes before another renewal.
                if self.command_has_ended && self.has_message() {
                    return Next::Wait(None);
                }
                let due = lock.renewal_due().map(|due| self.retry.unwrap_or(due));
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
        // Who gives up while the lock may be held says so, and waits for its release.
        if self.has_message() {
            return Ok(self.on_message());
        }
        let Some(lock) = &mut self.lock else {
            return Ok(Flow::End);
        };
        match lock
            .backend
            .try_acquire(&Supervisor(self.link, self.supervisor))?
        {
            Attempt::Acquired(grant, lease) => {
                match lock.begin(grant, self.link) {
                    Ok(true) => {}
                    Ok(false) => return Ok(Flow::End),
                    Err(Some(failure)) => return Err(failure),
                    Err(None) => {
                        sleep(lock.backend.pause());
                        return Ok(Flow::GoOn);
                    }
                }
                // From here on the command must be gone before the keeper goes.
                let _ = prctl::set_pdeathsig(None);
                self.report_grant(grant, lease)?;
                trim_memory(true);
            }
            Attempt::Taken(holders) => {
                lock.record_skip(&holders, RECORD_LIMIT)?;
                lock.backend.drop_held();
                // The session has ended by now: the supervisor ends the keeper on its last message.
                let _ = self.link.send(&FromKeeper::Taken(holders));
                return Ok(Flow::End);
            }
            Attempt::Retry(pause) => sleep(pause),
        }
        Ok(Flow::GoOn)
    }

    fn has_message(&self) -> bool {
        let mut link = [PollFd::new(self.link.as_fd(), PollFlags::POLLIN)];
        matches!(poll(&mut link, PollTimeout::ZERO), Ok(1..))
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
        if told.is_ok() {
            lock.state = State::Held(lease);
        } else {
            lock.release_for_the_dead();
            lock.backend.drop_held();
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
                    Supervisor(self.link, self.supervisor).on_server(&lock.backend.server());
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
        self.retry = None;
        match (lock.backend.renew(), &mut lock.state) {
            (Renewal::Confirmed(sent), State::Held(lease)) => {
                lease.proved = sent;
                self.silent_since = None;
                // A supervisor that is stopped for days reads none of them.
                self.link.send_if_heard(&FromKeeper::Confirmed(sent));
            }
            (Renewal::Confirmed(_), _) => {}
            (Renewal::Unanswered(cause), _) => self.on_silence(&cause),
            (Renewal::Killed(killer), _) => {
                lock.be_killed(*killer, self.link);
                lock.shorten_deadline();
            }
            (Renewal::Lost(cause), _) => lock.lose(&cause, self.link),
        }
        Flow::GoOn
    }

    /// No server confirms a lock that lives on without its session: another attempt follows soon. Said once it takes long.
    fn on_silence(&mut self, cause: &str) {
        let Some(lock) = &self.lock else { return };
        let State::Held(lease) = lock.state else {
            return;
        };
        self.retry = Some(Moment::now() + lock.backend.pause().min(LONGEST_PAUSE));
        let (since, was_said) = self.silent_since.unwrap_or((Moment::now(), None));
        let level = if since.elapsed() > lease.ttl / 4 {
            Level::Warning
        } else {
            Level::Info
        };
        if was_said != Some(level) {
            let line = format!("no server renews {}: {cause}", lock.spec.name);
            self.link
                .send_if_heard(&FromKeeper::Note(level, cut(&line)));
        }
        self.silent_since = Some((since, Some(level)));
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
            match lock.backend.on_session_end() {
                Some(cause) => lock.lose(&cause, self.link),
                None => self.renews_now = true,
            }
        }
        Flow::GoOn
    }

    /// Takes one message from the supervisor.
    fn on_message(&mut self) -> Flow {
        let Ok(Some((message, _))) = self.link.receive() else {
            self.end_command();
            if let Some(lock) = &mut self.lock {
                lock.release_for_the_dead();
            }
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
            ToKeeper::Hold(end) => {
                self.command = None;
                self.command_has_ended = true;
                if !self.die_with_supervisor() {
                    return Flow::End;
                }
                if let Some(lock) = &mut self.lock {
                    lock.record_end(end.as_deref());
                }
            }
            ToKeeper::Interrupt => {
                let recorder = self.lock.as_mut().and_then(|lock| lock.recorder.as_mut());
                if let Some(recorder) = recorder {
                    recorder.is_interrupted = true;
                }
            }
            ToKeeper::Here => {}
            ToKeeper::Release(end) => {
                self.die_with_supervisor();
                if let Some(mut lock) = self.lock.take() {
                    let last = lock.release(end.as_deref(), self.link);
                    // The supervisor ends this process at once: the server has the good-bye by then, and notes no aborted connection.
                    drop(lock);
                    let _ = self.link.send(&last);
                }
                return Flow::End;
            }
        }
        Flow::GoOn
    }

    /// There is nothing left to end first. A lock that lives on without its session is to be released all the same. `false`: the
    /// supervisor is gone already.
    fn die_with_supervisor(&self) -> bool {
        let lives_on = |lock: &Lock| lock.backend.outlives_session();
        self.lock.as_ref().is_some_and(lives_on) || die_with(self.supervisor).is_ok()
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
            let _ = self.link.try_send(&FromKeeper::EndsCommand, None);
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

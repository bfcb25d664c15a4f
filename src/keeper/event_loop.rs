//! The keeper's event loop: acquires the lock, renews it, listens to the supervisor, and kills the command when the supervisor has died.

use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::caller::Supervisor;
use super::lock::{Lock, State};
use super::message::{FromKeeper, ToKeeper};
use super::parent::ParentProcess;
use crate::base::clock::{Alarm, Moment};
use crate::base::exit::{Failure, Reason};
use crate::base::log::Level;
use crate::base::processes::Processes;
use crate::db::may_pass;
use crate::isolated::link::{Link, cannot_pass_on, cut};
use crate::lock::{Attempt, Caller, Grant, Lease, OnLockLost, Reattempt, Refusal, Renewal};

/// The longest pause between two attempts to reacquire: retry quickly, so that the last holder reconnects before the waiters do, even
/// where the server is out of connections.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// The pause between attempts when another session holds the slot and the command has ended.
const PAUSE_IF_TAKEN: Duration = Duration::from_secs(1);

/// The pause between attempts when the server refuses the account: the server may count failed logins.
const PAUSE_IF_REFUSED: Duration = Duration::from_secs(1);

/// How often the processes of a killed command are checked: the first pause, and the longest. A process that this user may not signal can
/// run for hours.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
const LOOK_AGAIN_AT_MOST: Duration = Duration::from_secs(1);

/// How long the server may take for each answer when a skipped run is recorded.
const RECORD_LIMIT: Duration = Duration::from_secs(2);

/// Acquires the lock, holds it while the command runs, and kills the command when the supervisor has died.
pub struct Guard<'a> {
    link: &'a Link,
    supervisor: ParentProcess,
    lock: Lock<'a>,
    /// `None` before the command has started and after it has ended.
    pub command: Option<Processes>,
    /// Whether the command has ended; then the lock can be released at once.
    pub command_has_ended: bool,
    /// A command that is being killed, while any of its processes are left.
    killing: Option<Killing>,
    /// Whether dblock is stopped, as by Ctrl-Z.
    paused: bool,
    /// Whether a renewal is due whatever the time.
    pub renews_now: bool,
    /// When the next renewal is tried, after one without an answer.
    retry: Option<Moment>,
    /// Since when no server has confirmed the lock, and at which level that was reported.
    silent_since: Option<(Moment, Option<Level>)>,
}

/// A command that is being killed. The keeper waits even for a process that this user may not signal: nobody gets the lock while it runs.
struct Killing {
    command: Processes,
    /// Whether the supervisor has died. Then the keeper runs only until the command is gone.
    for_the_dead: bool,
    pause: Duration,
    look_again: Moment,
}

/// What the keeper does next.
enum Next {
    Acquire,
    Reacquire,
    Renew,
    /// Wait for a message, the end of the session, or this moment.
    Wait(Option<Moment>),
}

/// Whether the keeper continues.
#[derive(PartialEq, Eq)]
enum Flow {
    GoOn,
    End,
}

impl<'a> Guard<'a> {
    /// Guards a lock and a command for this supervisor.
    pub fn new(link: &'a Link, supervisor: ParentProcess, lock: Lock<'a>) -> Self {
        Self {
            link,
            supervisor,
            lock,
            command: None,
            command_has_ended: false,
            killing: None,
            paused: false,
            renews_now: false,
            retry: None,
            silent_since: None,
        }
    }

    /// Runs until the supervisor ends the keeper, or dies. The supervisor enforces the limit on the wait for the lock.
    ///
    /// # Errors
    /// The lock could not be acquired.
    pub fn run(mut self) -> Result<(), Failure> {
        let Ok(alarm) = Alarm::new() else {
            self.end_command();
            let line = "cannot make a timer";
            return Err(Failure::new(Reason::OsRefused, line));
        };
        loop {
            if self.check_killing() == Flow::End {
                return Ok(());
            }
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
        let due = match self.lock.state {
            State::Acquiring => return Next::Acquire,
            _ if self.rests() => Some(Moment::now() + LOOK_AGAIN_AT_MOST),
            // A requested release comes before another attempt to hold the lock.
            _ if self.command_has_ended && self.has_message() => return Next::Wait(None),
            State::Lost => return Next::Reacquire,
            // After the command has ended: reacquire silently, without limit.
            State::Abandoned if self.command_has_ended => return Next::Reacquire,
            _ => {
                let due = self.lock.renewal_due();
                let due = due.map(|due| self.retry.unwrap_or(due));
                if due.is_some_and(|due| self.renews_now || due <= Moment::now()) {
                    self.renews_now = false;
                    return Next::Renew;
                }
                due
            }
        };
        self.end_command_of_the_stopped();
        let look = self.command.and(self.lock.command_deadline());
        let look = look.map(|over| over.max(Moment::now() + LOOK_AGAIN_AT_MOST));
        let killing = self.killing.as_ref().map(|killing| killing.look_again);
        Next::Wait(due.or(look).into_iter().chain(killing).min())
    }

    fn acquire(&mut self) -> Result<Flow, Failure> {
        // A supervisor that gives up while the lock may be held sends a message, and waits for the release.
        if self.has_message() {
            return Ok(self.on_message());
        }
        let lock = &mut self.lock;
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
                // From here on the keeper must kill the command before it dies itself.
                self.supervisor.outlive();
                self.report_grant(grant, lease)?;
                trim_memory();
            }
            Attempt::Taken(holders) => {
                if lock.recorder.is_some() {
                    // Now with names.
                    Supervisor(self.link, self.supervisor).on_taken(&holders);
                }
                lock.record_skip(&holders, RECORD_LIMIT)?;
                lock.backend.drop_held();
                // The session has ended by now. The supervisor kills the keeper when it gets this last message.
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

    /// Reports the grant to the supervisor. Where that fails the keeper releases the lock.
    fn report_grant(&mut self, grant: Grant, lease: Lease) -> Result<(), Failure> {
        let lock = &mut self.lock;
        // Without an answer within the TTL the lock is lost anyway, and a keeper without a supervisor would never end.
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
        told.map_err(|error| cannot_pass_on(&error))
    }

    /// Makes one attempt to reacquire the slot, then listens for a while.
    fn reacquire(&mut self) -> Flow {
        // No session has to outlive the command now, and connecting may take a while: let the kernel end the keeper with its supervisor.
        if !self.supervisor_has_died() && self.supervisor.die_with().is_err() {
            return Flow::End;
        }
        self.end_command_of_the_stopped();
        let until = self.last_answer();
        let lock = &mut self.lock;
        let take = self.command_has_ended || lock.spec.on_lost == OnLockLost::Reacquire;
        let attempt = lock.backend.try_reacquire(take, until);
        let mut pause = lock.backend.pause().min(LONGEST_PAUSE);
        match attempt {
            Reattempt::Acquired(grant, lease) => {
                self.outlive_supervisor();
                if self.supervisor_has_died() {
                    self.lock.state = State::Held(lease);
                    return Flow::GoOn;
                }
                let server = self.lock.backend.server();
                Supervisor(self.link, self.supervisor).on_server(&server);
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
            // A killer would have ended this holder long ago.
            _ if !take && lock.over <= Moment::now() => lock.state = State::Abandoned,
            Reattempt::Refused(Refusal::Failed(_)) if !take => lock.state = State::Abandoned,
            // The server may be starting. Until its deadline the command runs on.
            Reattempt::Refused(Refusal::Failed(failure)) if may_pass(&failure) => {
                if !std::mem::replace(&mut lock.was_refused, true) {
                    let line = format!("{} is not reacquired yet: {failure}", lock.spec.name);
                    let note = FromKeeper::Note(Level::Warning, cut(&line));
                    self.link.send_if_heard(&note);
                }
                pause = PAUSE_IF_REFUSED;
            }
            Reattempt::Refused(why) => lock.abandon(why, self.link),
            Reattempt::Failed => {}
        }
        if self.supervisor_has_died() {
            sleep(pause);
            return Flow::GoOn;
        }
        let millis = u16::try_from(pause.as_millis()).unwrap_or(u16::MAX);
        let mut link = [PollFd::new(self.link.as_fd(), PollFlags::POLLIN)];
        match poll(&mut link, millis) {
            Ok(1..) => self.on_message(),
            _ => Flow::GoOn,
        }
    }

    /// Renews the lock, and reports to the supervisor whether it is still held.
    fn renew(&mut self) -> Flow {
        let until = self.last_answer();
        let lock = &mut self.lock;
        self.retry = None;
        match (lock.backend.renew(until), &mut lock.state) {
            (Renewal::Confirmed(sent), State::Held(lease)) => {
                lease.proved = sent;
                self.silent_since = None;
                // A stopped supervisor may not read for days, so this message may be dropped.
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

    /// No server confirms a lock that outlives its session. Schedules another attempt, and warns once this takes long.
    fn on_silence(&mut self, cause: &str) {
        let lock = &self.lock;
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
        let session = self.lock.backend.descriptor();
        let link = (!self.supervisor_has_died()).then(|| self.link.as_fd());
        let readable = |descriptor| PollFd::new(descriptor, PollFlags::POLLIN);
        let mut descriptors = vec![readable(alarm.as_fd())];
        descriptors.extend(session.into_iter().chain(link).map(readable));
        match poll(&mut descriptors, PollTimeout::NONE) {
            Ok(_) => {}
            Err(Errno::EINTR) => return Flow::GoOn,
            // Without events this process would learn neither of the command's end nor of the supervisor's.
            Err(_) => {
                self.end_command();
                return Flow::End;
            }
        }
        let is_ready = |at: usize| descriptors.get(at).is_some_and(|fd| fd.any() == Some(true));
        let link_at = 1 + usize::from(session.is_some());
        let [session_ended, message] = [session.is_some() && is_ready(1), is_ready(link_at)];
        if message {
            return self.on_message();
        }
        if session_ended {
            match self.lock.backend.on_session_end() {
                Some(cause) => self.lock.lose(&cause, self.link),
                None => self.renews_now = true,
            }
        }
        Flow::GoOn
    }

    /// Takes one message from the supervisor.
    fn on_message(&mut self) -> Flow {
        let Ok(Some((message, _))) = self.link.receive() else {
            return self.on_supervisor_death();
        };
        match message {
            ToKeeper::Started { pid, own_group } => {
                self.command = Some(Processes { pid, own_group });
                if let Some(recorder) = &mut self.lock.recorder {
                    recorder.started = Some(Moment::now());
                }
            }
            ToKeeper::Pause => self.paused = true,
            ToKeeper::Check => {
                self.paused = false;
                self.renews_now = true;
            }
            ToKeeper::Hold(end) => {
                self.command = None;
                self.killing = None;
                self.command_has_ended = true;
                if !self.die_with_supervisor() {
                    return Flow::End;
                }
                self.lock.record_end(end.as_deref());
            }
            ToKeeper::Here => {}
            ToKeeper::Release(end) => {
                self.die_with_supervisor();
                let last = self.lock.release(end.as_deref(), self.link);
                // When the supervisor kills this process on its last message, the server has seen the logout, and logs no aborted
                // connection.
                self.lock.backend.drop_held();
                let _ = self.link.send(&last);
                return Flow::End;
            }
        }
        Flow::GoOn
    }

    /// Has the kernel end the keeper with its supervisor, as there is no command to kill first. But a lock that outlives its session must
    /// be released first. `false`: the supervisor is already dead.
    fn die_with_supervisor(&self) -> bool {
        self.lock.backend.outlives_session() || self.supervisor.die_with().is_ok()
    }

    /// While the command runs, the keeper must kill it before it dies itself.
    fn outlive_supervisor(&self) {
        if !self.command_has_ended {
            self.supervisor.outlive();
        }
    }

    /// Whether renewals are suspended, because dblock and its command are both stopped. A command that ignores Ctrl-Z runs on and needs
    /// its lock.
    fn rests(&self) -> bool {
        let command = self
            .command
            .or(self.killing.as_ref().map(|killing| killing.command));
        self.paused && command.is_none_or(Processes::is_stopped)
    }

    /// Until when a server may answer: if the supervisor is stopped, this process must be there to end the command in time.
    fn last_answer(&self) -> Option<Moment> {
        self.command?;
        self.lock.last_answer()
    }

    /// Kills a command that is past its deadline when the supervisor, whose task that is, is stopped. A supervisor that runs may reap the
    /// command at any moment, and its pid could be somebody else's.
    fn end_command_of_the_stopped(&mut self) {
        let deadline = self.lock.command_deadline();
        let is_over = deadline.is_some_and(|deadline| deadline <= Moment::now());
        if is_over
            && !self.rests()
            && self.supervisor.is_stopped()
            && let Some(command) = self.command.take()
        {
            let _ = self.link.try_send(&FromKeeper::EndsCommand, None);
            // At once: what comes next may wait for a server.
            command.signal(libc::SIGKILL);
            self.killing = Some(Killing::begin(command));
        }
    }

    /// The supervisor has died: kills its command, and holds the lock until the command is gone.
    fn on_supervisor_death(&mut self) -> Flow {
        self.paused = false;
        if let Some(command) = self.command.take() {
            self.killing = Some(Killing::begin(command));
        }
        match &mut self.killing {
            Some(killing) => killing.for_the_dead = true,
            None => return self.on_killed(true),
        }
        Flow::GoOn
    }

    fn supervisor_has_died(&self) -> bool {
        self.killing
            .as_ref()
            .is_some_and(|killing| killing.for_the_dead)
    }

    /// Checks on a command that is being killed.
    fn check_killing(&mut self) -> Flow {
        // A supervisor that was continued reports the command's end before the pid is free for another process.
        if self.killing.is_some() && !self.supervisor_has_died() && self.has_message() {
            return self.on_message();
        }
        match &mut self.killing {
            Some(killing) if killing.look_again <= Moment::now() => {
                if !killing.is_over() {
                    return Flow::GoOn;
                }
                let for_the_dead = killing.for_the_dead;
                self.killing = None;
                self.on_killed(for_the_dead)
            }
            _ => Flow::GoOn,
        }
    }

    /// The killed command is gone.
    fn on_killed(&mut self, supervisor_has_died: bool) -> Flow {
        self.lock.ack_kill(self.link);
        if supervisor_has_died {
            self.lock.release_for_the_dead();
            Flow::End
        } else {
            Flow::GoOn
        }
    }

    /// Kills the command, because this process cannot watch it any more, and returns when it is gone.
    fn end_command(&self) {
        let killing = self.killing.as_ref().map(|killing| killing.command);
        if let Some(command) = self.command.or(killing) {
            let _ = self.link.try_send(&FromKeeper::EndsCommand, None);
            let mut killing = Killing::begin(command);
            while !killing.is_over() {
                sleep(killing.pause);
            }
        }
    }
}

impl Killing {
    /// The first check is due at once.
    fn begin(command: Processes) -> Self {
        Self {
            command,
            for_the_dead: false,
            pause: LOOK_AGAIN / 2,
            look_again: Moment::now(),
        }
    }

    /// Sends SIGKILL to what is left of the command. `true`: nothing is left. Otherwise sets the time of the next check.
    fn is_over(&mut self) -> bool {
        if !self.command.alive() {
            return true;
        }
        self.command.signal(libc::SIGKILL);
        if !self.command.alive() {
            return true;
        }
        self.pause = (2 * self.pause).min(LOOK_AGAIN_AT_MOST);
        self.look_again = Moment::now() + self.pause;
        false
    }
}

/// A holder may stay for days, and logging in needed more memory than holding does.
fn trim_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: returns free pages to the system, and touches none that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

//! The process with the session of a run. It acquires the lock, renews it, acquires it again after a loss, and releases it. When the
//! supervisor dies, it ends the command first and releases the lock afterwards.

mod caller;
mod lock;
mod recorder;

use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::thread::sleep;
use std::time::Duration;

use nix::unistd::Pid;

use super::message::{FromKeeper, ToKeeper};
use super::task::{Task, UNDER_LOCK};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::db::{Connector, LatestTimeline, REFUSED_PAUSE, may_pass};
use crate::isolated::client;
use crate::isolated::link::{Link, cannot_pass_on, cut};
use crate::isolated::process::fork_isolated;
use crate::keeper::{Board, Duty, Lateness, Lost, Over, Parent, SHORTEST_PAUSE, Vigil, has_ended};
use crate::lock::named::{NamedLock, Verbosity};
use crate::lock::rows::{RowLock, RowSpec, Token};
use crate::lock::{
    Attempt, Backend, Caller, Grant, HolderKind, Lease, OnLockLost, Reattempt, Refusal, Renewal,
};
use lock::{HoldState, Lock};
use recorder::Recorder;

/// Before the first attempt of a keeper that replaces one that died: the server needs a moment to notice that a session has ended.
const PAUSE: Duration = Duration::from_millis(100);

/// The longest pause between two attempts to reacquire: retry quickly, so that the last holder reconnects before the waiters do, even
/// where the server is out of connections.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// The pause between attempts when another session holds the slot and the command has ended.
const PAUSE_IF_TAKEN: Duration = Duration::from_secs(1);

/// But a renewal is tried again within this part of the TTL.
const TRIES_IN_TTL: u32 = 16;

/// The longest pause between two looks at the processes of a killed command. One that this user may not signal can run for hours.
const LOOK_AGAIN_AT_MOST: Duration = Duration::from_secs(1);

/// The work of a keeper.
pub enum Work<'a> {
    /// Acquire a lock, then keep it for the command.
    Acquire(Task<'a>),
    /// The same after a keeper has died: when the lock was requested, and whether that keeper may have been granted it.
    AcquireAgain(Task<'a>, Moment, bool),
    /// Continue for a keeper that has died: reacquire the lock, or hold a lock that outlives its session on with this lease.
    Resume(Task<'a>, Grant, Option<Lease>),
}

/// Forks the keeper, for the commands on this board; its process and the link to it. In the keeper this function never returns: it must not
/// run the supervisor's destructors.
///
/// # Errors
/// [`crate::base::exit::Reason::OsRefused`].
pub fn fork_off(work: Work, board: Board) -> Result<(Pid, Link), Failure> {
    let keep = |link: Rc<Link>, supervisor| keep(work, &link, supervisor, board);
    fork_isolated(keep, FromKeeper::Failed)
}

/// The keeper's process, from its start to its end.
fn keep(work: Work, link: &Rc<Link>, supervisor: Pid, board: Board) -> Result<(), Failure> {
    let (mut before, mut lost) = (None, None);
    let task = match work {
        Work::Acquire(task) => task,
        Work::AcquireAgain(task, requested, may_hold) => {
            before = Some((requested, may_hold));
            task
        }
        Work::Resume(task, grant, lease) => {
            lost = Some((grant, lease));
            task
        }
    };
    let connector = connector(&task, link)?;
    let requested = before.map_or_else(Moment::now, |(requested, _)| requested);
    let recorder = |tables| Recorder::new(&task, tables).requested_at(requested);
    let recorder = task.job.tables.as_ref().map(recorder);
    let (grant, may_hold) = (lost.map(|(grant, _)| grant), before.map(|(_, held)| held));
    let backend = backend(
        &task,
        connector,
        grant,
        may_hold,
        recorder.as_ref(),
        board.timeline,
    );
    let lease = lost.and_then(|(_, lease)| lease);
    let lives_on = lease.filter(|_| backend.outlives_session());
    let state = match lost {
        None => HoldState::Acquiring,
        Some(_) => lives_on.map_or(HoldState::Lost, HoldState::Held),
    };
    let lock = Lock::new(&task, backend, recorder, state, lease);
    let supervisor = Parent::new(link, supervisor, board, FromKeeper::Note)?;
    if may_hold == Some(true) || lives_on.is_some() {
        // The keeper before may hold the lock, which must be released also if the supervisor dies.
        supervisor.process.outlive();
    }
    if (before.is_some() || lost.is_some()) && lives_on.is_none() {
        // The session of the keeper before may have been granted the slot. The supervisor keeps that session open where it held it, so
        // nobody takes the slot meanwhile.
        sleep(PAUSE);
    }
    Keeper {
        supervisor,
        lock,
        command_has_ended: lost.is_some() && !board.has(|_| true),
        paused: false,
        renews_now: lives_on.is_some(),
        retry: None,
        silent_since: None,
        vigil: Vigil::default(),
        look_again: None,
        next_turn: None,
    }
    .run()
}

/// Begins the process of a task. It closes everything that belongs to the supervisor.
fn connector(task: &Task, link: &Rc<Link>) -> Result<Connector, Failure> {
    let listener = client::notes(link, task.shown, |link, level, text| {
        link.send_if_heard(&FromKeeper::Note(level, text));
    });
    let (introduction, options) = (&task.introduction, &task.job.connection);
    client::begin(introduction, options, listener, c"dblock-keeper", link)
}

/// Keeps the lock of one run.
struct Keeper<'a> {
    supervisor: Parent<'a, FromKeeper, ToKeeper>,
    lock: Lock<'a>,
    /// Whether the command has ended; then the lock can be released at once.
    command_has_ended: bool,
    /// Whether dblock is stopped, as by Ctrl-Z.
    paused: bool,
    /// Whether a renewal is due whatever the time.
    renews_now: bool,
    /// When the next renewal is tried, after one without an answer.
    retry: Option<Moment>,
    /// Since when no server has confirmed the lock, and at which level that was reported.
    silent_since: Option<(Moment, Option<Level>)>,
    /// Watches the end of the lease.
    vigil: Vigil,
    /// When to look again at the processes of a command that was killed, or to acknowledge the kill again, and the pause before that.
    look_again: Option<(Moment, Duration)>,
    /// When the next turn is due; `None`: not before something happens.
    next_turn: Option<Moment>,
}

impl<'a> Duty<'a> for Keeper<'a> {
    type Sent = FromKeeper;
    type Received = ToKeeper;

    fn parent_and_session(
        &mut self,
    ) -> (
        &mut Parent<'a, FromKeeper, ToKeeper>,
        Option<BorrowedFd<'_>>,
    ) {
        (&mut self.supervisor, self.lock.backend.descriptor())
    }

    fn take_turn(&mut self) -> Result<Option<Moment>, Over> {
        let next = self.act()?;
        Ok(next.into_iter().chain(self.next_look()).min())
    }

    fn on_message(&mut self, message: ToKeeper) -> Result<(), Over> {
        match message {
            ToKeeper::Pause => self.paused = true,
            ToKeeper::Check => {
                self.paused = false;
                self.renews_now = true;
            }
            ToKeeper::Hold(end) => {
                self.command_has_ended = true;
                if !self.die_with_supervisor() {
                    return Err(Over::Orphaned);
                }
                self.lock.record_end(end.as_deref());
            }
            ToKeeper::Here => {}
            ToKeeper::Output(part) => self.lock.take_output(&part),
            ToKeeper::Release(end) => {
                self.die_with_supervisor();
                let last = self.lock.release(end.as_deref(), &mut self.supervisor);
                // When the supervisor kills this process on its last message, the server has seen the logout, and logs no aborted
                // connection.
                self.lock.backend.drop_held();
                self.supervisor.say(last);
                return Err(Over::Done);
            }
        }
        Ok(())
    }

    fn on_session_end(&mut self) {
        match self.lock.backend.on_session_end() {
            Some(cause) => self.lock.lose(&cause, &mut self.supervisor),
            None => self.renews_now = true,
        }
    }

    fn on_over(&mut self) {
        self.lock.leave();
    }

    /// When the command is gone, its killer is told, and nobody needs the lock any more.
    fn end_late_commands(&mut self) {
        if self.rests() {
            self.look_again = None;
            self.vigil = Vigil::default();
            return;
        }
        let (deadline, ttl) = (self.lock.command_deadline(), self.lock.ttl());
        let of_lock = self.vigil.lateness(deadline, ttl);
        let (process, board) = (self.supervisor.process, self.supervisor.board);
        let is_under_lock = |lease: u64| lease == UNDER_LOCK;
        // A command without the lock needs none.
        let lateness = |lease| {
            if is_under_lock(lease) {
                of_lock
            } else {
                Lateness::InTime
            }
        };
        let kills = process.kill_late(board, lateness).is_some();
        // Once it was killed, a renewal that is confirmed after all comes too late.
        let is_ended = kills || board.were_all_killed();
        if !is_ended {
            self.look_again = None;
        } else if board.is_alive(is_under_lock) {
            let pause = self
                .look_again
                .map_or(SHORTEST_PAUSE, |(_, pause)| 2 * pause);
            let pause = pause.min(LOOK_AGAIN_AT_MOST);
            self.look_again = Some((Moment::now() + pause, pause));
        } else {
            let until = self.last_answer_or_next();
            self.lock.ack_kill(until, &mut self.supervisor);
            self.lock.let_go();
            let again = self.lock.acks_again_at();
            self.look_again = again.map(|at| (at, LOOK_AGAIN_AT_MOST));
        }
    }

    /// Whatever a server answers, the command must go.
    fn hold_on(&mut self) -> Result<(), Lost> {
        self.paused = false;
        if has_ended(self.lock.backend.descriptor()) {
            self.on_session_end();
            self.next_turn = None;
        }
        if self.lock.state != HoldState::Acquiring
            && self.next_turn.is_none_or(|next| next <= Moment::now())
            && let Ok(next) = self.take_turn()
        {
            self.next_turn = next;
        }
        Ok(())
    }

    fn return_all(&mut self) {
        // Nobody ends this process if it takes long.
        let until = Some(self.next_answer());
        self.lock.ack_kill(until, &mut self.supervisor);
        self.lock.release_for_the_dead();
    }
}

impl Keeper<'_> {
    /// Does what is due for the lock. Returns when more is.
    fn act(&mut self) -> Result<Option<Moment>, Over> {
        self.end_late_commands();
        let due = match self.lock.state {
            // Whether to release what the keeper before may have been granted comes before asking for the lock.
            HoldState::Acquiring if self.supervisor.has_message() => None,
            HoldState::Acquiring => return self.acquire(),
            _ if self.rests() => Some(Moment::now() + LOOK_AGAIN_AT_MOST),
            // A requested release comes before another attempt to hold the lock.
            _ if self.command_has_ended && self.supervisor.has_message() => None,
            HoldState::Lost => return self.reacquire(),
            // After the command has ended: reacquire silently, without limit.
            HoldState::Abandoned if self.command_has_ended => return self.reacquire(),
            HoldState::Held(lease) => {
                let due = self.retry.unwrap_or(lease.next_renewal());
                if std::mem::take(&mut self.renews_now) || due <= Moment::now() {
                    self.renew();
                    return Ok(Some(Moment::START));
                }
                Some(due)
            }
            HoldState::Killed => Some(self.keep_others_out()),
            HoldState::Abandoned => None,
        };
        let look_again = self.look_again.map(|(at, _)| at);
        Ok(due.into_iter().chain(look_again).min())
    }

    fn acquire(&mut self) -> Result<Option<Moment>, Over> {
        // What the backend says to the supervisor comes after that.
        self.supervisor.send_all();
        let lock = &mut self.lock;
        match lock.backend.try_acquire(&self.supervisor)? {
            Attempt::Acquired(grant, lease) => {
                match lock.begin(grant, &mut self.supervisor) {
                    Ok(true) => {}
                    Ok(false) => return Err(Over::Done),
                    Err(Some(failure)) => return Err(failure.into()),
                    Err(None) => return Ok(Some(Moment::now() + lock.backend.pause())),
                }
                if let Some(recorder) = &mut lock.recorder {
                    recorder.granted = Some(Moment::now());
                }
                // From here on the keeper must kill the command before it dies itself.
                self.supervisor.process.outlive();
                self.report_grant(grant, lease)?;
                self.lock.backend.after_grant();
                trim_memory();
                Ok(Some(Moment::START))
            }
            Attempt::Taken(holders) => {
                if lock.recorder.is_some() {
                    // Now with names.
                    self.supervisor.on_taken(&holders);
                }
                lock.record_skip(&holders)?;
                lock.backend.drop_held();
                // The session has ended by now. The supervisor kills the keeper when it gets this last message.
                self.supervisor.say(FromKeeper::Taken(holders));
                Err(Over::Done)
            }
            Attempt::Retry(pause) => Ok(Some(Moment::now() + pause)),
        }
    }

    /// Reports the grant to the supervisor. Where that fails the keeper releases the lock.
    fn report_grant(&mut self, grant: Grant, lease: Lease) -> Result<(), Failure> {
        self.supervisor.send_all();
        let (lock, link) = (&mut self.lock, self.supervisor.link);
        // Without an answer within the TTL the lock is lost anyway, and a keeper without a supervisor would never end.
        let limited = lock.backend.answer_within(lease.ttl);
        let limited = limited.map_err(|fault| io::Error::other(fault.to_string()));
        let told = limited.and_then(|()| {
            let held = FromKeeper::Held(grant, lease);
            match lock.backend.descriptor() {
                Some(descriptor) => link.send_with(&held, descriptor),
                None => link.send(&held),
            }
        });
        if told.is_ok() {
            lock.state = HoldState::Held(lease);
        } else {
            lock.release_for_the_dead();
            lock.backend.drop_held();
        }
        told.map_err(|error| cannot_pass_on(&error))
    }

    /// Reports that the lock is held again. Nothing waits for a supervisor that is stopped, or dead. `false`: the session is not good, and
    /// the lock is not held.
    fn report_regained(&mut self, grant: Grant, lease: Lease) -> bool {
        let backend = &mut self.lock.backend;
        if backend.answer_within(lease.ttl).is_err() {
            backend.drop_held();
            return false;
        }
        let reached = FromKeeper::Reached(cut(&backend.server()));
        self.lock.state = HoldState::Held(lease);
        self.supervisor.say(reached);
        let held = FromKeeper::Held(grant, lease);
        self.supervisor.say_with_session(held);
        true
    }

    /// Makes one attempt to reacquire the slot. Returns when the next one is due.
    fn reacquire(&mut self) -> Result<Option<Moment>, Over> {
        let (process, board) = (self.supervisor.process, self.supervisor.board);
        // No session has to outlive the command now, unless a killer waits on one, and connecting may take a while: let the kernel end the
        // keeper with its supervisor.
        let is_needed = self.lock.backend.known_killer().is_some();
        if !is_needed && !process.is_dead() && process.die_with().is_err() {
            return Err(Over::Orphaned);
        }
        let until = self.last_answer_or_next();
        let is_gone = board.were_all_killed() && !board.is_alive(|_| true);
        let lock = &mut self.lock;
        let is_wanted = lock.spec.on_lost == OnLockLost::Reacquire && !is_gone;
        let take = self.command_has_ended || is_wanted;
        lock.keep_killer(until);
        let attempt = lock.backend.try_reacquire(take, until);
        let mut pause = lock.backend.pause().min(LONGEST_PAUSE);
        match attempt {
            Reattempt::Acquired(grant, lease) => {
                self.outlive_supervisor();
                if !self.report_regained(grant, lease) {
                    return Ok(Some(Moment::now() + pause));
                }
                pause = Duration::ZERO;
            }
            Reattempt::Killed(killer) => {
                lock.be_killed(killer, &mut self.supervisor);
                lock.shorten_deadline();
                self.outlive_supervisor();
                pause = Duration::ZERO;
            }
            Reattempt::NotRequested => {
                lock.state = HoldState::Abandoned;
                self.outlive_supervisor();
                pause = Duration::ZERO;
            }
            Reattempt::Refused(_) if self.command_has_ended => pause = PAUSE_IF_TAKEN,
            // A killer would have ended this holder long ago.
            _ if !take && lock.over <= Moment::now() => lock.state = HoldState::Abandoned,
            Reattempt::Refused(Refusal::Failed(_)) if !take => lock.state = HoldState::Abandoned,
            // The server may be starting. Until its deadline the command runs on.
            Reattempt::Refused(Refusal::Failed(failure)) if may_pass(&failure) => {
                if !std::mem::replace(&mut lock.was_refused, true) {
                    let line = format!("{} is not reacquired yet: {failure}", lock.spec.name);
                    let note = FromKeeper::Note(Level::Warning, cut(&line));
                    self.supervisor.say_if_heard(&note);
                }
                pause = REFUSED_PAUSE;
            }
            Reattempt::Refused(why) => lock.abandon(why, &mut self.supervisor),
            Reattempt::Failed => {}
        }
        Ok(Some(Moment::now() + pause))
    }

    /// Renews the lock, and reports to the supervisor whether it is still held.
    fn renew(&mut self) {
        // After a loss of the session a row is renewed on a new one, also where the command may run on without the lock, or has ended.
        let until = if self.lock.backend.outlives_session() {
            Some(self.last_answer().unwrap_or_else(|| self.next_answer()))
        } else {
            self.last_answer()
        };
        let lock = &mut self.lock;
        self.retry = None;
        match (lock.backend.renew(until), &mut lock.state) {
            (Renewal::Confirmed(sent), HoldState::Held(lease)) => {
                lease.proved = sent;
                self.silent_since = None;
                // A stopped supervisor may not read for days, so this message may be dropped.
                self.supervisor.say_if_heard(&FromKeeper::Confirmed(sent));
            }
            (Renewal::Confirmed(_), _) => {}
            (Renewal::Unanswered(cause), _) => self.on_silence(&cause),
            (Renewal::Killed(killer), _) => {
                lock.be_killed(*killer, &mut self.supervisor);
                lock.shorten_deadline();
            }
            (Renewal::Lost(cause), _) => lock.lose(&cause, &mut self.supervisor),
        }
    }

    /// The command of a holder that is killed may take longer to end than the TTL, as one does that waits for a disk. Until then nobody
    /// else is to get the slot. Returns when that is due next.
    fn keep_others_out(&mut self) -> Moment {
        if std::mem::take(&mut self.renews_now) || self.lock.keep_at <= Moment::now() {
            let until = self.last_answer_or_next();
            self.lock.keep_others_out(until, &mut self.supervisor);
        }
        self.lock.keep_at
    }

    /// No server confirms the lock, and none says that it is lost. Schedules another attempt, and warns once this takes long.
    fn on_silence(&mut self, cause: &str) {
        let lock = &self.lock;
        let HoldState::Held(lease) = lock.state else {
            return;
        };
        let pause = if lock.backend.is_refused() {
            REFUSED_PAUSE.min(lease.ttl / TRIES_IN_TTL)
        } else {
            lock.backend.pause().min(LONGEST_PAUSE)
        };
        self.retry = Some(Moment::now() + pause);
        let (since, was_said) = self.silent_since.unwrap_or((Moment::now(), None));
        let level = if since.elapsed() > lease.ttl / 4 {
            Level::Warning
        } else {
            Level::Info
        };
        if was_said != Some(level) {
            let line = format!("no server renews {}: {cause}", lock.spec.name);
            let note = FromKeeper::Note(level, cut(&line));
            self.supervisor.say_if_heard(&note);
        }
        self.silent_since = Some((since, Some(level)));
    }

    /// Has the kernel end the keeper with its supervisor, as there is no command to kill first. But a lock that outlives its session must
    /// be released first. `false`: the supervisor is already dead.
    fn die_with_supervisor(&self) -> bool {
        self.lock.backend.outlives_session() || self.supervisor.process.die_with().is_ok()
    }

    /// While the command runs, the keeper must kill it before it dies itself.
    fn outlive_supervisor(&self) {
        if !self.command_has_ended {
            self.supervisor.process.outlive();
        }
    }

    /// Whether renewals are suspended, because dblock and its command are both stopped. A command that ignores Ctrl-Z runs on and needs
    /// its lock.
    fn rests(&self) -> bool {
        self.paused && self.supervisor.board.are_stopped()
    }

    /// By when the command must be gone that runs, and that this process has not killed; `None`: there is none, or it may run on.
    fn living_until(&self) -> Option<Moment> {
        let until = self.lock.command_deadline();
        until.filter(|_| self.supervisor.board.has_living())
    }

    /// Until when a server may answer: if the supervisor is stopped or hangs, this process must be there to end the command in time.
    /// `None`: there is no such moment, or it is over, and then the command was ended before.
    fn last_answer(&self) -> Option<Moment> {
        let over = self.living_until()?;
        let until = self.vigil.last_answer(over, self.lock.ttl());
        Some(until).filter(|until| *until > Moment::now())
    }

    /// As [`Keeper::last_answer`], for an attempt on a new session. While there is a command, or one that nobody has reaped, each such
    /// attempt has a limit: also where a resolver hangs, this process must go on to the next server, kill the command, see that it has
    /// ended, and tell its killer so.
    fn last_answer_or_next(&self) -> Option<Moment> {
        let has_command = self.supervisor.board.has(|_| true);
        let next = || self.next_answer();
        self.last_answer().or_else(|| has_command.then(next))
    }

    /// Until when a server may answer a new session at the latest. One that takes longer than half a TTL to log in could hardly renew a
    /// lock.
    fn next_answer(&self) -> Moment {
        Moment::now() + self.lock.ttl() / 2
    }

    /// When to look next whether the command must be killed; `None`: it need not be by the clock.
    fn next_look(&self) -> Option<Moment> {
        let over = self.living_until()?;
        let next = self.vigil.looks(over, self.lock.ttl()).min();
        Some(next.unwrap_or_else(|| Moment::now() + LOOK_AGAIN_AT_MOST))
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

/// The backend for a task's lock; with a `grant` it continues that. `may_hold`: whether a former keeper may have been granted the lock;
/// `None`: there was none.
fn backend(
    task: &Task,
    connector: Connector,
    grant: Option<Grant>,
    may_hold: Option<bool>,
    recorder: Option<&Recorder>,
    timeline: LatestTimeline,
) -> Box<dyn Backend> {
    let verbosity = Verbosity {
        when_waiting: Level::Info <= task.shown,
        when_taken: task.names_holders,
    };
    let tables = task.job.tables.as_ref().filter(|tables| tables.is_row());
    let (Some(tables), Some(recorder)) = (tables, recorder) else {
        let named =
            NamedLock::new(connector, task.lock, task.run_id, verbosity).following(timeline);
        return Box::new(match (grant, may_hold) {
            (Some(grant), _) => named.lost(grant),
            (None, Some(_)) => named.requested_before(),
            (None, None) => named,
        });
    };
    let token = tables.token.as_ref();
    let owner = token.map_or_else(
        || task.run_id.trim_start_matches('#').to_owned(),
        Token::owner,
    );
    let spec = RowSpec {
        tables: recorder.tables(),
        kind: if token.is_some() {
            HolderKind::TokenRun
        } else {
            HolderKind::Run
        },
        owner_name: None,
        token: token.map(|token| (token.slot, token.fence)),
        ttl: if token.is_some() {
            tables.token_ttl
        } else {
            Some(task.lock.ttl)
        },
        on_grant: Box::new(recorder.on_grant(&owner)),
        command_run: token.map(|_| recorder.run().to_owned()),
        on_token_end: recorder.on_token_end(),
        on_withdrawal: vec![recorder.withdrawal()],
        owner,
    };
    let row = RowLock::new(Rc::new(connector), task.lock, task.run_id, verbosity, spec)
        .following(timeline);
    Box::new(match (grant, may_hold) {
        (Some(grant), _) => row.resumed(grant),
        (None, Some(may_hold)) => row.requested_before(may_hold),
        (None, None) => row,
    })
}

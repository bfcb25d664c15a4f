//! The keeper's lock: held, lost, abandoned, or killed. This module decides whether a lost lock is reacquired, and by when its command
//! must be gone; the supervisor ends the command.

use std::thread::sleep;
use std::time::Duration;

use super::super::message::{Answer, FromKeeper, ToKeeper};
use super::super::task::Task;
use super::recorder::Recorder;
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::base::log::Level;
use crate::db::{Client, Fault, Session};
use crate::history::{KeptOutput, OutputPart, RunEnd, SKIP_LIMIT};
use crate::isolated::link::{cut, with_cut_line};
use crate::keeper::Parent;
use crate::lock::{
    Backend, Grant, Holders, LONGEST_TTL, Lease, LockSpec, OnLockLost, Reattempt, Refusal, Release,
    Renewal,
};
use crate::schema;

/// The pause after an attempt to keep others out, or to acknowledge a kill, that got no answer.
const PAUSE_IF_UNANSWERED: Duration = Duration::from_secs(1);

/// How soon a killed holder looks whether its own session keeps others out.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// The process that runs the command.
type Supervisor<'a> = Parent<'a, FromKeeper, ToKeeper>;

/// Whether this run holds the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldState {
    /// Not acquired yet.
    Acquiring,
    /// Held, for as long as this lease says.
    Held(Lease),
    /// Lost, and being reacquired.
    Lost,
    /// Lost, and not to be reacquired while the command runs.
    Abandoned,
    /// Somebody kills this holder, and waits for the command's end.
    Killed,
}

/// The keeper's lock.
pub struct Lock<'a> {
    /// Named or durable.
    pub backend: Box<dyn Backend>,
    /// Records the run; `None`: nothing is recorded.
    pub recorder: Option<Recorder<'a>>,
    /// The lock that was requested.
    pub spec: &'a LockSpec,
    kill_after: Duration,
    /// Whether this run holds the lock.
    pub state: HoldState,
    /// By when the command must be gone unless the lock is reacquired.
    pub over: Moment,
    /// By when the command must be gone because somebody has killed this holder, also if the lock is held again; `None`: nobody has.
    kill_over: Option<Moment>,
    /// The TTL of the lease that was lost.
    lost_ttl: Duration,
    /// When a holder that is killed must next keep others out.
    pub keep_at: Moment,
    /// When to try again to acknowledge a kill by the release of the row, and until when; `None`: it is not to be tried again.
    ack_again: Option<(Moment, Moment)>,
    /// Whether it was reported since the loss that a server refuses the login for now.
    pub was_refused: bool,
    /// Whether the session is prepared for the tables. Only a row lock prepares its sessions itself.
    is_prepared: bool,
    /// What is to be kept of the command's output.
    output: Option<KeptOutput>,
    /// How the command has ended, and when that was told; `None`: that is not known.
    ended: Option<(RunEnd, Moment)>,
}

impl<'a> Lock<'a> {
    /// The lock of a task, in this state. `lease`: the latest one, if another keeper has held the lock.
    pub fn new(
        task: &Task<'a>,
        backend: Box<dyn Backend>,
        recorder: Option<Recorder<'a>>,
        state: HoldState,
        lease: Option<Lease>,
    ) -> Self {
        // Without a lease `lose()` sets the real deadline.
        let over = lease.map_or_else(|| Moment::now() + LONGEST_TTL, Lease::over);
        Self {
            backend,
            recorder,
            spec: task.lock,
            kill_after: task.job.kill_after,
            state,
            over,
            kill_over: None,
            lost_ttl: lease.map_or(task.lock.ttl, |lease| lease.ttl),
            keep_at: Moment::START,
            ack_again: None,
            was_refused: false,
            is_prepared: false,
            output: None,
            ended: None,
        }
    }

    /// A part of the command's output is to be kept.
    pub fn take_output(&mut self, part: &OutputPart) {
        let output = self.output.get_or_insert_with(|| KeptOutput::new(0));
        output.take_in(part);
    }

    /// Keeps the command's output, if there is some to keep. Returns the keeper's last message: that, after the one that would be the last
    /// otherwise. The lock is not held any more, so nobody waits for the server but this run.
    fn keep_output(&mut self, last: FromKeeper, supervisor: &mut Supervisor) -> FromKeeper {
        let (Some(output), Some(recorder)) = (self.output.take(), &self.recorder) else {
            return last;
        };
        supervisor.say(last);
        let keep = |session: &mut Session| recorder.keep_output(&output, session);
        let mut kept = match self.backend.session() {
            Some(session) => keep(session),
            None => Err(Fault::Gone("the session is gone".to_owned())),
        };
        // Where the session was lost while the command ran, the end of the run was recorded on another one.
        if matches!(kept, Err(Fault::Gone(_) | Fault::ReadOnly(_))) {
            kept = self.backend.write_anew(&keep);
        }
        FromKeeper::OutputKept(kept.err().map(|why| cut(&why.to_string())))
    }

    /// By when the command must be gone; `None`: it may run on.
    pub fn command_deadline(&self) -> Option<Moment> {
        let ends = self.spec.on_lost != OnLockLost::Ignore;
        let of_lock = match self.state {
            HoldState::Killed => Some(self.over),
            // The server may not report the loss: it may be out of reach.
            HoldState::Held(lease) => ends.then(|| lease.over()),
            HoldState::Acquiring => None,
            HoldState::Lost | HoldState::Abandoned => ends.then_some(self.over),
        };
        of_lock.into_iter().chain(self.kill_over).min()
    }

    /// The TTL of the latest lease.
    pub fn ttl(&self) -> Duration {
        match self.state {
            HoldState::Held(lease) => lease.ttl,
            _ => self.lost_ttl,
        }
    }

    /// The supervisor ends the command now, so it must be gone within `kill_after`.
    pub fn shorten_deadline(&mut self) {
        let gone = Moment::now() + self.kill_after;
        // Where a loss is ignored, the lease may have been over long ago.
        self.over = match self.spec.on_lost {
            OnLockLost::Ignore => gone,
            OnLockLost::Reacquire | OnLockLost::Terminate => self.over.min(gone),
        };
    }

    /// Notes a loss, and tells the supervisor.
    pub fn lose(&mut self, cause: &str, supervisor: &mut Supervisor) {
        self.backend.drop_held();
        self.is_prepared = false;
        if matches!(self.state, HoldState::Held(_)) {
            self.leave();
            if self.spec.on_lost == OnLockLost::Terminate {
                self.shorten_deadline();
            }
        }
        (self.state, self.was_refused) = (HoldState::Lost, false);
        supervisor.say(FromKeeper::Lost(cut(cause)));
    }

    /// It is not renewed any more.
    pub fn leave(&mut self) {
        if let HoldState::Held(lease) = self.state {
            (self.state, self.over, self.lost_ttl) = (HoldState::Lost, lease.over(), lease.ttl);
        }
    }

    /// The keeper has killed the command, and the lock is not kept for a supervisor that hangs. The end of the session frees a named lock;
    /// a row is free when its time is over.
    pub fn let_go(&mut self) {
        if !matches!(self.state, HoldState::Held(_)) {
            return;
        }
        self.backend.drop_held();
        self.is_prepared = false;
        self.leave();
        // Who kills the holder of a named lock may wait for an answer on another session.
        if self.backend.outlives_session() {
            self.state = HoldState::Abandoned;
        }
    }

    /// Gives up on a lost lock while the command runs; the supervisor ends the command.
    pub fn abandon(&mut self, why: Refusal, supervisor: &mut Supervisor) {
        self.state = HoldState::Abandoned;
        self.shorten_deadline();
        let why = match why {
            Refusal::Failed(failure) => Refusal::Failed(with_cut_line(&failure)),
            taken @ Refusal::Taken(_) => taken,
        };
        supervisor.say(FromKeeper::Abandoned(why));
    }

    /// Records the grant, and finds out whether the run is due. `Err(None)`: another attempt may succeed.
    pub fn begin(
        &mut self,
        grant: Grant,
        supervisor: &mut Supervisor,
    ) -> Result<bool, Option<Failure>> {
        let Some(recorder) = &mut self.recorder else {
            return Ok(true);
        };
        supervisor.say(FromKeeper::Answered(Answer::Granted));
        // A row lock has set its own limit on the session.
        let is_limited = self.backend.outlives_session();
        let limit = (!is_limited).then(|| Lease::answer_limit(self.spec.ttl));
        let begun = match self.backend.session() {
            Some(session) => limit
                .map_or(Ok(()), |limit| session.answer_within(limit))
                .and_then(|()| recorder.begin(grant, session)),
            None => Err(Fault::Gone("the session is gone".to_owned())),
        };
        match begun {
            Ok(Ok(tick)) => {
                self.is_prepared = true;
                if let Some(tick) = tick {
                    supervisor.say(FromKeeper::Tick(tick.to_string()));
                }
                Ok(true)
            }
            Ok(Err(already)) => {
                let why = format!("{} {already}; not run", self.spec.name);
                let skip = || recorder.skip(&why);
                self.backend.release(&skip, Duration::ZERO);
                self.backend.drop_held();
                supervisor.say(FromKeeper::AlreadyRan(*already));
                Ok(false)
            }
            Err(fault) => {
                let killer = killer_of_row(&mut *self.backend, &fault, self.spec.ttl);
                // Without a row, the next grant overwrites the leftover record.
                let has_row = self.backend.outlives_session();
                let record = || has_row.then(|| recorder.withdrawal()).into_iter().collect();
                self.backend.release(&record, Duration::ZERO);
                self.backend.drop_held();
                match (fault, killer) {
                    (Fault::Final(failure), _) => Err(Some(failure)),
                    (_, Some(killer)) => {
                        let line = format!("{} was ended by {killer}", self.spec.name);
                        Err(Some(Failure::new(Reason::LockLost, line)))
                    }
                    (fault, None) => {
                        let why = format!("cannot look into the history: {fault}");
                        supervisor.say_if_heard(&FromKeeper::Note(Level::Info, cut(&why)));
                        Err(None)
                    }
                }
            }
        }
    }

    /// Records that the run is skipped because others hold the lock.
    ///
    /// # Errors
    /// The tables cannot be used.
    pub fn record_skip(&mut self, holders: &Holders) -> Result<(), Failure> {
        let (Some(recorder), Some(session)) = (&mut self.recorder, self.backend.session()) else {
            return Ok(());
        };
        let line = format!("{} is {holders}; not run", self.spec.name);
        let done = session
            .answer_within(SKIP_LIMIT)
            .and_then(|()| recorder.record_skip(&line, session));
        match done {
            Err(Fault::Final(failure)) => return Err(failure),
            Err(fault) => {
                session.tell(Level::Warning, &format!("cannot record the skip: {fault}"));
            }
            Ok(()) => recorder.prune_now_and_then(&mut *self.backend),
        }
        Ok(())
    }

    /// Prepares the session for the tables if it is another than the one that was granted the lock. If that fails, so does the record.
    fn prepare(&mut self) {
        if self.is_prepared || self.recorder.is_none() || self.backend.outlives_session() {
            return;
        }
        if let Some(session) = self.backend.session() {
            self.is_prepared = schema::prepare(session).is_ok();
        }
    }

    /// Releases the lock of a supervisor that has died; the command is gone.
    pub fn release_for_the_dead(&mut self) {
        self.prepare();
        let record = self.recorder.as_ref().map(|recorder| match &self.ended {
            Some((end, told)) => recorder.end(&RunEnd {
                ended_ago: end.ended_ago + told.elapsed(),
                ..end.clone()
            }),
            None => recorder.end_of_the_dead(),
        });
        self.backend
            .release_for_the_dead(&record.unwrap_or_default());
    }

    /// Notes that this client kills the holder.
    pub fn be_killed(&mut self, killer: Client, supervisor: &mut Supervisor) {
        self.leave();
        self.state = HoldState::Killed;
        let gone = Moment::now() + self.kill_after;
        self.kill_over.get_or_insert(gone);
        let interval = Lease::interval(self.ttl());
        // An older session may be in the way of what the new one announces.
        let pause = if self.backend.outlives_session() {
            interval
        } else {
            FIRST_PAUSE.min(interval)
        };
        self.keep_at = Moment::now() + pause;
        supervisor.say(FromKeeper::Killed(Box::new(killer)));
    }

    /// Keeps others out while the command of a holder that is killed ends.
    pub fn keep_others_out(&mut self, until: Option<Moment>, supervisor: &mut Supervisor) {
        let interval = Lease::interval(self.ttl());
        let pause = match self.backend.renew_killed(until) {
            Renewal::Lost(_) if !self.backend.outlives_session() => {
                if self.spec.on_lost == OnLockLost::Reacquire {
                    // It is reacquired, unless its killer is found again.
                    (self.state, self.was_refused) = (HoldState::Lost, false);
                    Duration::ZERO
                } else {
                    // It stays killed: the command has its deadline, and a killer that still waits learns of its end. What was announced
                    // is announced again only if that killer is found.
                    if let Reattempt::Killed(killer) = self.backend.try_reacquire(false, until) {
                        self.be_killed(killer, supervisor);
                        return;
                    }
                    interval
                }
            }
            Renewal::Unanswered(_) => PAUSE_IF_UNANSWERED.min(interval),
            Renewal::Confirmed(_) | Renewal::Lost(_) | Renewal::Killed(_) => interval,
        };
        self.keep_at = Moment::now() + pause;
    }

    /// Keeps the session on which a killer waits for the command's end while no server is found that takes writes. `until`: when to stop
    /// waiting for an answer at the latest.
    pub fn keep_killer(&mut self, until: Option<Moment>) {
        if self.backend.known_killer().is_some() && self.keep_at <= Moment::now() {
            self.backend.renew_killed(until);
            self.keep_at = Moment::now() + Lease::interval(self.ttl());
        }
    }

    /// The command is gone: acknowledges the kill, if there is one. `until`: when to stop waiting for a server at the latest. `false`: the
    /// killer may not know.
    pub fn ack_kill(&mut self, until: Option<Moment>, supervisor: &mut Supervisor) -> bool {
        if self.backend.outlives_session() {
            self.ack_by_release(until);
            return self.ack_again.is_none();
        }
        // No server that takes writes was found since it was killed.
        if matches!(self.state, HoldState::Lost | HoldState::Abandoned)
            && let Some(killer) = self.backend.known_killer()
        {
            self.be_killed(killer, supervisor);
        }
        let mut is_acked = true;
        for _ in 0..2 {
            if self.state != HoldState::Killed {
                return is_acked;
            }
            // Only once: this must not acknowledge the kill of the slot's next holder.
            self.state = HoldState::Abandoned;
            is_acked = self.backend.ack_kill(until);
            if is_acked {
                return true;
            }
            // This session is lost by now: acknowledge on another one, if the killer still waits.
            self.find_kill(until, supervisor);
        }
        is_acked
    }

    /// The release of the row acknowledges the kill: on another session if one is lost just then, and where no server takes it, again and
    /// again until the row has expired. Only this holder's own row is released, so that is no answer for another one.
    fn ack_by_release(&mut self, until: Option<Moment>) {
        let is_due = self.ack_again.is_some_and(|(at, _)| at <= Moment::now());
        if self.state != HoldState::Killed && !is_due {
            return;
        }
        self.state = HoldState::Abandoned;
        let (attempts, expires) = match self.ack_again {
            None => (2, Moment::now() + self.ttl()),
            // Each attempt costs a login.
            Some((_, expires)) => (1, expires),
        };
        let is_acked = (0..attempts).any(|_| self.backend.ack_kill(until));
        let again = Moment::now() + PAUSE_IF_UNANSWERED;
        self.ack_again = (!is_acked && again < expires).then_some((again, expires));
    }

    /// When to call [`Lock::ack_kill`] again; `None`: the kill is acknowledged, or nobody waits for that any more.
    pub fn acks_again_at(&self) -> Option<Moment> {
        self.ack_again.map(|(at, _)| at)
    }

    /// Looks whether the lock was lost to a killer, which waits for the command's end. `until`: as in [`Lock::ack_kill`].
    fn find_kill(&mut self, until: Option<Moment>, supervisor: &mut Supervisor) {
        if let Some(killer) = self.backend.find_kill(until) {
            self.be_killed(killer, supervisor);
        }
    }

    /// Records how the run ended while the lock is still held. The release records it again, in case this fails.
    pub fn record_end(&mut self, end: Option<&RunEnd>) {
        self.ended = end.map(|end| (end.clone(), Moment::now()));
        self.prepare();
        if let (Some(recorder), Some(end)) = (&self.recorder, end)
            && let Some(session) = self.backend.session()
        {
            let _ = recorder.record_end(end, session);
        }
    }

    /// Records how the run ended, or removes the record of one that was never started, and releases the lock. Returns the keeper's last
    /// message.
    pub fn release(&mut self, end: Option<&RunEnd>, supervisor: &mut Supervisor) -> FromKeeper {
        let begun = Moment::now();
        let counts = match (&self.recorder, end) {
            (Some(recorder), Some(end)) => recorder.tables.counts(end),
            _ => false,
        };
        // A killer does not wait for a record, which no server may take for long. But one that keeps the job from being run again comes
        // before the slot is free.
        let is_early = !counts && self.backend.known_killer().is_some();
        let is_acked = !is_early || self.ack_kill(None, supervisor);
        self.prepare();
        let record = || match (&self.recorder, end.cloned()) {
            (Some(recorder), Some(mut end)) => {
                end.ended_ago += begun.elapsed();
                recorder.end(&end)
            }
            (Some(recorder), None) => vec![recorder.withdrawal()],
            (None, _) => Vec::new(),
        };
        // Stop early enough to release the lock, too, before the supervisor stops waiting.
        let patience = if counts {
            self.spec.ttl * 7 / 8
        } else {
            Duration::ZERO
        };
        if let Some(session) = self.backend.session()
            && counts
        {
            let _ = session.answer_within(Lease::answer_limit(self.spec.ttl));
        }
        let Release {
            also_done,
            was_held,
        } = self.backend.release(&record, patience);
        supervisor.say(FromKeeper::Recorded(also_done));
        let cause = match was_held {
            Ok(was_held) => {
                let last = if was_held {
                    FromKeeper::Released
                } else {
                    FromKeeper::Lost("the server says that it was not held".to_owned())
                };
                let last = self.keep_output(last, supervisor);
                if let Some(recorder) = &self.recorder {
                    recorder.prune_now_and_then(&mut *self.backend);
                }
                return last;
            }
            Err(cause) => cause,
        };
        // A killer may have ended the session, and may wait for this end, or no server could be reached to tell it before. The supervisor
        // ends this process where that takes too long.
        let may_wait = !is_acked || matches!(self.state, HoldState::Held(_) | HoldState::Lost);
        if may_wait && self.backend.known_killer().is_none() {
            self.find_kill(None, supervisor);
        }
        self.ack_kill(None, supervisor);
        let last = cause.map_or(FromKeeper::Released, |cause| FromKeeper::Lost(cut(&cause)));
        self.keep_output(last, supervisor)
    }
}

/// Who kills the holder of a row whose command has not begun, and cannot for this fault. The release of the row tells the killer that there
/// is no command, so none may start after it. `None`: nobody, or no server has said so within this patience.
fn killer_of_row(backend: &mut dyn Backend, fault: &Fault, patience: Duration) -> Option<Client> {
    if !backend.outlives_session() || matches!(fault, Fault::Final(_)) {
        return None;
    }
    if matches!(fault, Fault::Gone(_)) {
        backend.drop_held();
    }
    let begun = Moment::now();
    loop {
        match backend.renew(None) {
            Renewal::Killed(killer) => return Some(*killer),
            Renewal::Unanswered(_) if begun.elapsed() < patience => sleep(backend.pause()),
            _ => return None,
        }
    }
}

//! The keeper's lock: held, lost, abandoned, or killed. Here is decided whether a lost lock is reacquired, and by when its command must
//! be gone; the supervisor ends the command.

use std::time::Duration;

use super::Task;
use super::message::FromKeeper;
use super::recorder::Recorder;
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::db::{Client, Fault};
use crate::history::{Outcome, RunEnd};
use crate::isolated::link::{Link, cut};
use crate::lock::{Backend, Grant, Holders, LONGEST_TTL, Lease, LockSpec, OnLockLost, Refusal};

/// How far a lock is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
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
pub struct Lock<'a> {
    /// How it is kept.
    pub backend: Box<dyn Backend>,
    /// What records the run; `None`: nothing does.
    pub recorder: Option<Recorder<'a>>,
    /// What was asked for.
    pub spec: &'a LockSpec,
    kill_after: Duration,
    /// How far it is ours.
    pub state: State,
    /// By when the command must be gone unless the lock is reacquired.
    pub over: Moment,
}

impl<'a> Lock<'a> {
    /// The lock of a task, so far as `state` says.
    pub fn new(
        task: &Task<'a>,
        backend: Box<dyn Backend>,
        recorder: Option<Recorder<'a>>,
        state: State,
    ) -> Self {
        Self {
            backend,
            recorder,
            spec: task.lock,
            kill_after: task.kill_after,
            state,
            // The supervisor knows, and lives.
            over: Moment::now() + LONGEST_TTL,
        }
    }

    /// When a renewal is due; `None` where there is nothing to renew.
    pub fn renewal_due(&self) -> Option<Moment> {
        match self.state {
            State::Held(lease) => Some(lease.next_renewal()),
            _ => None,
        }
    }

    /// By when the command must be gone; `None` where it may run on.
    pub fn command_deadline(&self) -> Option<Moment> {
        let must_end = match self.state {
            State::Killed => true,
            // Nobody says that such a lock is lost: its time is over.
            State::Held(lease) if self.backend.outlives_session() => {
                let ends = self.spec.on_lost != OnLockLost::Ignore;
                return ends.then(|| lease.over());
            }
            State::Acquiring | State::Held(_) => false,
            State::Lost | State::Abandoned => self.spec.on_lost != OnLockLost::Ignore,
        };
        must_end.then_some(self.over)
    }

    /// The command is to end at once, by the supervisor.
    pub fn shorten_deadline(&mut self) {
        self.over = self.over.min(Moment::now() + self.kill_after);
    }

    /// Notes a loss, and tells the supervisor.
    pub fn lose(&mut self, cause: &str, link: &Link) {
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

    /// Does not reacquire it for a command that runs; the command is to end.
    pub fn abandon(&mut self, why: Refusal, link: &Link) {
        self.state = State::Abandoned;
        self.shorten_deadline();
        let why = match why {
            Refusal::Failed(failure) => Refusal::Failed(Failure {
                line: cut(&failure.line),
                ..failure
            }),
            taken @ Refusal::Taken(_) => taken,
        };
        let _ = link.send(&FromKeeper::Abandoned(why));
    }

    /// The lock is granted: records that, and finds out whether the run is due. `Err` holds the keeper's failure, or nothing where
    /// another attempt may succeed.
    pub fn begin(&mut self, grant: Grant, link: &Link) -> Result<bool, Option<Failure>> {
        let Some(recorder) = &mut self.recorder else {
            return Ok(true);
        };
        let begun = match self.backend.session() {
            Some(session) => recorder.begin(grant, session),
            None => Err(Fault::Gone("the session is gone".to_owned())),
        };
        match begun {
            Ok(Ok(tick)) => {
                if let Some(tick) = tick {
                    let _ = link.send(&FromKeeper::Tick(tick.to_string()));
                }
                Ok(true)
            }
            Ok(Err(already)) => {
                let why = format!("{} {already}; not run", self.spec.name);
                let _ = self.backend.release(&|| recorder.skip(&why));
                self.backend.drop_held();
                let _ = link.send(&FromKeeper::AlreadyRan(*already));
                Ok(false)
            }
            Err(fault) => {
                // What a session has recorded by itself the next grant mends.
                let has_row = self.backend.outlives_session();
                let record = || has_row.then(|| recorder.withdrawal()).into_iter().collect();
                let _ = self.backend.release(&record);
                self.backend.drop_held();
                match fault {
                    Fault::Final(failure) => Err(Some(failure)),
                    fault => {
                        let why = format!("cannot look into the history: {fault}");
                        link.send_if_heard(&FromKeeper::Note(Level::Info, cut(&why)));
                        Err(None)
                    }
                }
            }
        }
    }

    /// Records a run that is not to run because others hold the lock. The server gets no more than the `limit` for each answer.
    ///
    /// # Errors
    /// The tables cannot be used.
    pub fn record_skip(&mut self, holders: &Holders, limit: Duration) -> Result<(), Failure> {
        let (Some(recorder), Some(session)) = (&mut self.recorder, self.backend.session()) else {
            return Ok(());
        };
        let line = format!("{} is {holders}; not run", self.spec.name);
        let done = session
            .answer_within(limit)
            .map_err(|error| Fault::Gone(error.to_string()))
            .and_then(|()| recorder.record_skip(&line, Outcome::Skipped, session));
        match done {
            Err(Fault::Final(failure)) => return Err(failure),
            Err(fault) => {
                session.tell(Level::Warning, &format!("cannot record the skip: {fault}"));
            }
            Ok(()) => recorder.prune_now_and_then(&mut *self.backend),
        }
        Ok(())
    }

    /// The supervisor has died, and the command is gone.
    pub fn release_for_the_dead(&mut self) {
        let record = self.recorder.as_ref().map(Recorder::end_of_the_dead);
        self.backend
            .release_for_the_dead(&record.unwrap_or_default());
    }

    /// Notes that this client ends the holder.
    pub fn be_killed(&mut self, killer: Client, link: &Link) {
        self.state = State::Killed;
        let _ = link.send(&FromKeeper::Killed(Box::new(killer)));
    }

    /// The command is gone: whoever ends its holder learns so.
    pub fn ack_kill(&mut self, link: &Link) {
        for _ in 0..2 {
            if self.state != State::Killed {
                return;
            }
            // Once: who ends the next holder of the slot is not to be told of this one's end.
            self.state = State::Abandoned;
            if self.backend.ack_kill() {
                return;
            }
            // That session is lost by now: on another, if the killer is still there.
            self.find_kill(link);
        }
    }

    /// Whether the lock was lost to somebody who waits for the command's end.
    fn find_kill(&mut self, link: &Link) {
        if let Some(killer) = self.backend.find_kill() {
            self.be_killed(killer, link);
        }
    }

    /// Records how the run ended while the lock is held on; its release records it again, should this fail.
    pub fn record_end(&mut self, end: Option<&RunEnd>) {
        if let (Some(recorder), Some(end)) = (&self.recorder, end)
            && let Some(session) = self.backend.session()
        {
            let _ = recorder.record_end(end, session);
        }
    }

    /// Records how the run ended, or forgets one that was not started, and gives the lock back; the keeper's last message.
    pub fn release(&mut self, end: Option<&RunEnd>, link: &Link) -> FromKeeper {
        let begun = Moment::now();
        let record = || match (&self.recorder, end.cloned()) {
            (Some(recorder), Some(mut end)) => {
                end.ended_ago += begun.elapsed();
                recorder.end(&end)
            }
            (Some(recorder), None) => vec![recorder.withdrawal()],
            (None, _) => Vec::new(),
        };
        let cause = match self.backend.release(&record) {
            Ok(was_held) => {
                if let Some(recorder) = &self.recorder {
                    recorder.prune_now_and_then(&mut *self.backend);
                }
                if was_held {
                    return FromKeeper::Released;
                }
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

//! While the keeper requests the lock: what is reported, how long the request may take, and what follows.

use nix::sys::signal::Signal;

use super::super::job::TableUse;
use super::super::keeper::{self, Work};
use super::super::message::{Answer, FromKeeper, ToKeeper};
use super::super::task::Task;
use super::lock_state::LockState;
use super::phase::{Acquiring, Conclusion, Phase};
use super::{LAST_CHANCE, Supervisor};
use crate::base::children::End;
use crate::base::clock::Moment;
use crate::base::exit::{Ending, Failure, Reason};
use crate::base::text::shown;
use crate::cron::AlreadyRan;
use crate::lock::rows::CLAIM_LIMIT;
use crate::lock::{Grant, Holders, LockSpec, Wait};
use crate::supervise::{Received, RunOutcome};

/// The result of the request for the lock.
pub enum Acquisition {
    /// It is held.
    Acquired(Grant),
    /// It was not acquired in time: these hold it.
    Taken(Holders),
    /// It was released again: the run is not due.
    AlreadyRan(AlreadyRan),
    /// No server could be reached in time.
    Unreachable(Failure),
    /// A signal ended the wait.
    Interrupted(Signal),
}

/// Set when the request for the lock is decided.
type Decision = Option<anyhow::Result<Acquisition>>;

impl Supervisor<'_> {
    /// Goes on with the request, unless it is decided.
    fn decide(&mut self, acquiring: Acquiring, decision: Decision) -> Phase {
        match decision {
            Some(decision) => self.end_acquiring(decision),
            None => Phase::Acquiring(acquiring),
        }
    }

    /// The keeper has died, and no command runs yet. If somebody killed the keeper, another one asks for the lock, but not for ever.
    pub(super) fn on_keeper_gone_acquiring(&mut self, acquiring: Acquiring) -> Phase {
        let peer = &mut self.runner.peer;
        let was_killed =
            peer.end() == End::Ended(Ending::Signal(libc::SIGKILL)) && acquiring.grant.is_none();
        let end = peer.how_it_ended();
        if was_killed && peer.restarts.on_death() {
            let log = self.runner.log;
            log.info(format_args!("{end}; another one goes on"));
            return Phase::Acquiring(acquiring);
        }
        let again = if was_killed { ", again and again," } else { "" };
        let name = &self.job.lock.name;
        let besides = if self.keeper.claims {
            format!("; if {name} was granted, it is free when the TTL is over")
        } else {
            String::new()
        };
        let last_note = &self.runner.last_note;
        let line = format!("{end}{again} while this was under way: {last_note}{besides}");
        self.end_acquiring(Err(Failure::new(Reason::Internal, line).into()))
    }

    /// Starts another keeper in the place of a dead one. It asks for the lock for the rest of the wait.
    pub(super) fn ask_again(&mut self, acquiring: Acquiring) -> Phase {
        let wait = match self.job.lock.wait {
            Wait::For(wait) => Wait::For(wait.saturating_sub(acquiring.begun.elapsed())),
            Wait::Forever => Wait::Forever,
        };
        let lock = LockSpec {
            wait,
            ..self.job.lock.clone()
        };
        let task = Task {
            lock: &lock,
            ..self.job.task(
                self.run_id,
                self.fallback.names_holders,
                self.runner.log.shown,
            )
        };
        // The one before may have been granted the lock.
        let may_hold = self.keeper.claims;
        let work = Work::AcquireAgain(task, self.record.requested, may_hold);
        match keeper::fork_off(work, self.runner.board) {
            Ok(keeper) => {
                self.runner.peer.replace(keeper);
                Phase::Acquiring(acquiring)
            }
            Err(failure) => self.end_acquiring(Err(failure.into())),
        }
    }

    /// The request is decided: starts the command, or ends the run. Kills the keeper unless it holds the lock.
    pub(super) fn end_acquiring(&mut self, decision: anyhow::Result<Acquisition>) -> Phase {
        self.record.end_wait();
        self.runner.peer.restarts.cancel();
        let is_acquired = matches!(decision, Ok(Acquisition::Acquired(_)));
        let is_to_release = self.keeper_is_to_release() && !is_acquired;
        if !is_acquired && !is_to_release {
            self.runner.peer.end();
            // Signals are handled before messages, so the name of the server may still be unread.
            while let Some(message) = self.runner.peer.left_behind() {
                if matches!(message, FromKeeper::Reached(_)) {
                    self.record_message(&message);
                }
            }
        }
        match self.after_acquiring(decision) {
            Phase::Done(Some(conclusion)) if is_to_release => {
                // A killer waits for an answer, as after a command.
                let limit = if self.killed {
                    self.job.release_within
                } else {
                    LAST_CHANCE
                };
                self.begin_release(limit, conclusion)
            }
            phase => phase,
        }
    }

    /// Whether the keeper may hold the lock, or holds one that would outlive it, or is to tell a killer that there is no command. Then it
    /// must not be killed before it has released the lock.
    fn keeper_is_to_release(&self) -> bool {
        let has_it = self.lock.is_held() && self.is_durable();
        let is_needed = has_it || self.killed;
        self.keeper_claims() || is_needed && !self.runner.peer.is_closed()
    }

    fn after_acquiring(&mut self, decision: anyhow::Result<Acquisition>) -> Phase {
        match decision {
            Ok(Acquisition::Acquired(grant)) => self.start_command(Some(grant)),
            Ok(Acquisition::Taken(holder)) => Phase::done(Ok(Conclusion::Taken(holder))),
            Ok(Acquisition::AlreadyRan(already)) => {
                Phase::done(Ok(Conclusion::AlreadyRan(already)))
            }
            Ok(Acquisition::Unreachable(failure)) if self.fallback.run_if_unreachable => {
                self.run_without_lock(&failure)
            }
            Ok(Acquisition::Unreachable(failure)) => Phase::done(Err(failure.into())),
            Ok(Acquisition::Interrupted(signal)) => {
                self.record.outcome = RunOutcome::Interrupted;
                Phase::done(Ok(Conclusion::Interrupted(signal)))
            }
            Err(error) => Phase::done(Err(error)),
        }
    }

    fn run_without_lock(&mut self, failure: &Failure) -> Phase {
        let once = self
            .job
            .tables
            .as_ref()
            .and_then(|use_of| use_of.once.as_ref());
        let besides = once.map_or("", |_| ", and a success is not recorded");
        let line = format!("{failure}; running without the lock{besides}");
        self.runner.log.error(&line);
        self.record.message = Some(line);
        self.keeper.is_dismissed = true;
        self.runner.peer.send(ToKeeper::Release(None));
        self.schedule_withdrawal();
        self.start_command(None)
    }

    pub(super) fn on_message_acquiring(
        &mut self,
        mut acquiring: Acquiring,
        message: FromKeeper,
    ) -> Phase {
        let decision = self.on_answer(&mut acquiring, message);
        self.decide(acquiring, decision)
    }

    fn on_answer(&mut self, acquiring: &mut Acquiring, message: FromKeeper) -> Decision {
        match message {
            FromKeeper::Held(grant, _) => {
                self.lock.update(&message);
                acquiring.grant = Some(grant);
                return self.prove_lease(acquiring);
            }
            FromKeeper::Confirmed(_) => {
                self.lock.update(&message);
                return self.prove_lease(acquiring);
            }
            FromKeeper::Taken(holder) => return Some(Ok(Acquisition::Taken(holder))),
            FromKeeper::AlreadyRan(already) => return Some(Ok(Acquisition::AlreadyRan(already))),
            FromKeeper::Failed(failure) => return Some(Err(failure.into())),
            FromKeeper::Waiting(holders) => self.begin_wait(acquiring, &holders),
            FromKeeper::Note(level, text) => self.runner.note(level, text),
            FromKeeper::AreYouThere => {
                self.runner.peer.send(ToKeeper::Here);
            }
            FromKeeper::Claiming(true) => {
                acquiring.claimed = Some(Moment::now());
                self.runner.peer.send(ToKeeper::Here);
            }
            FromKeeper::Answered(answer) => {
                if matches!(answer, Answer::Taken(_)) {
                    self.wait_longer(acquiring);
                }
                acquiring.answer = Some(answer);
            }
            FromKeeper::Killed(who) => {
                self.killed = true;
                let line = format!("{} was ended by {who}", self.job.lock.name);
                return Some(Err(Failure::new(Reason::LockLost, line).into()));
            }
            FromKeeper::OnlyReadOnly(server) => acquiring.only_read_only = server,
            FromKeeper::RowLocked(is_locked) => acquiring.row_is_locked = is_locked,
            message => self.lock.update(&message),
        }
        None
    }

    /// Accepts a lock whose lease is fresh. If dblock was stopped just now, or the machine slept, a renewal must prove the lease first.
    fn prove_lease(&mut self, acquiring: &mut Acquiring) -> Decision {
        let (Some(grant), LockState::Held(lease)) = (acquiring.grant, self.lock) else {
            return None;
        };
        if lease.proved.elapsed() > lease.ttl / 2 {
            self.runner.peer.send(ToKeeper::Check);
            acquiring.deadline = Some(Moment::now() + lease.grace());
            return None;
        }
        let (name, span) = (&self.job.lock.name, shown(acquiring.begun.elapsed()));
        let Grant {
            slot,
            connection_id,
            ..
        } = grant;
        self.runner.log.info(format_args!(
            "acquired {name} (slot {slot}) after {span}, on connection {connection_id}"
        ));
        Some(Ok(Acquisition::Acquired(grant)))
    }

    fn begin_wait(&mut self, acquiring: &mut Acquiring, holders: &Holders) {
        let name = &self.job.lock.name;
        let log = self.runner.log;
        log.info(format_args!("{name} is {holders}; waiting"));
        self.runner.last_note = format!("{name} was last {holders}");
        acquiring.answer = None;
        self.wait_longer(acquiring);
        acquiring.waiting = true;
    }

    /// Others hold the lock, and it may be waited for. Only once, as the keeper continues the same wait on a new session. The keeper ends
    /// the wait itself, to the millisecond; this deadline is for a server that stops answering.
    fn wait_longer(&self, acquiring: &mut Acquiring) {
        if !acquiring.waiting {
            let limit = self.job.connection.connect_timeout;
            acquiring.deadline = match self.job.lock.wait {
                Wait::For(wait) => Some(acquiring.begun + wait + limit),
                Wait::Forever => None,
            };
        }
    }

    pub(super) fn on_signal_acquiring(
        &mut self,
        mut acquiring: Acquiring,
        received: Received,
    ) -> Phase {
        if self.runner.poller.signals.act_on(received.signal) {
            return self.end_acquiring(Ok(Acquisition::Interrupted(received.signal)));
        }
        // While dblock was stopped, so was its keeper. Give the keeper time to connect, or to report its own timeout.
        if acquiring.grant.is_none() && received.signal == Signal::SIGCONT {
            let at_least = Moment::now() + self.job.connection.connect_timeout;
            acquiring.deadline = acquiring.deadline.map(|deadline| deadline.max(at_least));
        }
        Phase::Acquiring(acquiring)
    }

    /// The deadline has passed. A command does not run without the lock as long as the server may say that the row is only locked.
    pub(super) fn on_deadline_acquiring(&mut self, mut acquiring: Acquiring) -> Phase {
        let decision = self.too_late(&acquiring);
        let would_run =
            matches!(decision, Ok(Acquisition::Unreachable(_))) && self.fallback.run_if_unreachable;
        let claimed = acquiring.claimed.filter(|_| self.keeper_claims());
        // A wait on a socket may take an eighth longer.
        let answered = claimed.map(|claimed| claimed + CLAIM_LIMIT * 6 / 5);
        let may_put_off = would_run && !acquiring.is_put_off;
        if may_put_off && answered.is_some() && !self.runner.has_passed(answered) {
            (acquiring.deadline, acquiring.is_put_off) = (answered, true);
            return Phase::Acquiring(acquiring);
        }
        self.end_acquiring(decision)
    }

    /// What to conclude when the deadline has passed.
    fn too_late(&self, acquiring: &Acquiring) -> anyhow::Result<Acquisition> {
        let last_note = &self.runner.last_note;
        if acquiring.grant.is_some() {
            let line = format!(
                "{} was lost before the command was started",
                self.job.lock.name
            );
            return Err(Failure::new(Reason::LockLost, line).into());
        }
        let name = &self.job.lock.name;
        match &acquiring.answer {
            Some(Answer::Taken(holders)) => {
                if self.job.tables.is_some() {
                    self.runner
                        .log
                        .warning("cannot record the skip: no answer in time");
                }
                return Ok(Acquisition::Taken(holders.clone()));
            }
            // Do not run without the lock here: every other host may get as far as this, and all would run.
            Some(Answer::Granted) => {
                let line = format!(
                    "{name} was granted, but its history could not be asked in time: {last_note}"
                );
                return Err(Failure::new(Reason::Unreachable, line).into());
            }
            // Nor here, for the same reason.
            None if acquiring.row_is_locked => {
                let line = format!(
                    "another session keeps the row of {name} locked, and did not unlock it in time"
                );
                return Err(Failure::new(Reason::Unreachable, line).into());
            }
            None => {}
        }
        // Nor here: the last that the server has said is that others hold it.
        if acquiring.waiting {
            let line = format!("the server did not answer when the wait was over: {last_note}");
            return Err(Failure::new(Reason::Unreachable, line).into());
        }
        if let Some(read_only) = &acquiring.only_read_only {
            let is_row = self.job.tables.as_ref().is_some_and(TableUse::is_row);
            let besides = if is_row {
                ""
            } else {
                ", or use --allow-unfit-server"
            };
            let line = format!("{read_only}{besides}");
            return Err(Failure::new(Reason::Configuration, line).into());
        }
        let limit = self.job.connection.connect_timeout;
        let failure = Failure::unreachable(limit, last_note);
        Ok(Acquisition::Unreachable(failure))
    }
}

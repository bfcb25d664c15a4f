//! The process that cron sees. It waits for the lock, runs the command, keeps every deadline, and never waits for a server. It has one
//! event loop, and is in one phase at a time.

mod acquiring;
mod child;
mod command;
mod environment;
mod event;
mod grace;
mod hold_at_least;
mod inherited;
mod job;
mod keeper_link;
mod leash;
mod lock_state;
mod output;
mod outputs;
mod phase;
mod plan;
mod poller;
mod record;
mod releasing;
mod replacing;
mod runner;
mod running;
mod shutdown;
mod signals;
mod started;
mod terminating;
mod termination;

use std::time::Duration;

use nix::sys::signal::Signal;

pub use child::{Child, Surroundings, check_program};
pub use command::Command;
pub use environment::{Change, change, of_grant};
pub use event::is_over;
pub use inherited::{restore_limit_and_dispositions, was_closed};
pub use job::{Job, program_of};
pub use output::{Kept, Outlet, Output, Round, Sink, Tail, pipe};
pub use phase::Conclusion;
pub use plan::{Plan, RunnerOf};
pub use poller::Poller;
pub use record::{LockEvent, LockEventKind, RunOutcome, RunRecord, Summary};
pub use runner::Runner;
pub use signals::{Received, Signals};
pub use started::{Cause, Started};

use crate::base::children::{reap, reap_orphans};
use crate::base::exit::Failure;
use crate::base::log::Log;
use crate::keeper::message::FromKeeper;
use crate::keeper::{self, Work};
use crate::lock::Grant;
use event::Event;
use keeper_link::KeeperLink;
use lock_state::LockState;
use phase::Phase;

/// How much longer dblock waits for the server's answer after a signal has asked dblock to end.
const LAST_CHANCE: Duration = Duration::from_secs(1);

/// Supervises one keeper and one command. It changes nothing in its process that another supervisor in the same process tree could
/// notice: the command's environment is made in the command's process.
pub struct Supervisor<'a> {
    job: &'a Job,
    /// The run id, which all sessions of this dblock share.
    run_id: &'a str,
    record: &'a mut RunRecord,
    log: Log,
    poller: Poller,
    keeper: KeeperLink,
    /// The pid of the ended command, until the keeper knows of its end: the keeper must not kill another process that gets the pid.
    zombie: Option<i32>,
    lock: LockState,
    /// The latest grant of the lock that the command was started for; `None` without a lock.
    grant: Option<Grant>,
    /// Whether to run the command without the lock if no server can be reached.
    run_if_unreachable: bool,
    /// Whether a signal has asked the command to end, or dblock after the command's end.
    asked_to_end: bool,
    /// Whether somebody kills this holder, and waits for the command's end.
    killed: bool,
}

impl<'a> Supervisor<'a> {
    /// Takes over the signals, and forks the keeper. `names_holders`: whether to find out who holds the lock when it is taken.
    ///
    /// # Errors
    /// [`crate::base::exit::Reason::OsRefused`].
    pub fn new(
        job: &'a Job,
        run_id: &'a str,
        record: &'a mut RunRecord,
        log: Log,
        signals: Signals,
        names_holders: bool,
        run_if_unreachable: bool,
    ) -> Result<Self, Failure> {
        let task = job.task(run_id, names_holders, log.shown);
        let mut keeper = KeeperLink::new(keeper::fork_off(Work::Acquire(task))?);
        keeper.names_holders = names_holders;
        Ok(Self {
            job,
            run_id,
            record,
            log,
            poller: Poller::new(signals)?,
            keeper,
            zombie: None,
            lock: LockState::None,
            grant: None,
            run_if_unreachable,
            asked_to_end: false,
            killed: false,
        })
    }

    /// Waits for the lock, runs the command, and releases the lock. Afterwards the keeper is gone.
    ///
    /// # Errors
    /// The keeper's failure, or the command could not be started, or was ended because the lock was lost.
    pub fn supervise(mut self) -> anyhow::Result<Conclusion> {
        let mut phase = self.begin_acquiring();
        loop {
            phase = self.advance(phase);
            phase = self.replace_due_keeper(phase);
            self.reap_command();
            if let Phase::Done(conclusion) = phase {
                if let Ok(Conclusion::Interrupted(signal)) = conclusion {
                    self.record_interruption(signal);
                }
                return conclusion;
            }
            let deadline = self.deadline(&phase);
            phase = match self.next_event(deadline) {
                Ok(event) => self.on_event(phase, event),
                Err(error) => self.fail(phase, error),
            };
        }
    }

    /// Records that a signal has ended the wait for the lock, unless no server was reached before.
    fn record_interruption(&self, signal: Signal) {
        if self.record.server.is_some() {
            let task = self.job.task(self.run_id, false, self.log.shown);
            let line = format!("{signal} ended the wait");
            keeper::record_interruption(&task, &line, self.record.requested, self.log);
        }
    }

    /// Advances as far as the clock and the command's state require, without waiting for an event.
    fn advance(&mut self, mut phase: Phase) -> Phase {
        loop {
            phase = match phase {
                Phase::Running(mut running) => match self.check_running(&mut running) {
                    Some(cause) => self.end_running(running, cause),
                    None => return Phase::Running(running),
                },
                Phase::Terminating(mut terminating) => {
                    if !terminating.command.is_over() {
                        return Phase::Terminating(terminating);
                    }
                    self.end_terminating(terminating)
                }
                Phase::Holding(holding) if is_over(Some(holding.until)) => {
                    self.begin_release(None, self.job.release_within, holding.conclusion)
                }
                Phase::Releasing(mut releasing) => {
                    if !self.check_releasing(&mut releasing) {
                        return Phase::Releasing(releasing);
                    }
                    self.keeper.end();
                    Phase::Done(releasing.conclusion)
                }
                phase => return phase,
            };
        }
    }

    fn on_event(&mut self, phase: Phase, event: Event) -> Phase {
        match phase {
            Phase::Acquiring(acquiring) => self.on_event_acquiring(acquiring, event),
            Phase::Running(running) => self.on_event_running(running, event),
            Phase::Terminating(terminating) => self.on_event_terminating(terminating, event),
            Phase::Holding(holding) => self.on_event_holding(holding, event),
            Phase::Releasing(releasing) => self.on_event_releasing(releasing, event),
            Phase::Done(_) => phase,
        }
    }

    /// Updates the lock's state from a message of the keeper.
    fn update(&mut self, message: &FromKeeper) {
        self.lock.update(message);
        if let (FromKeeper::Held(grant, _), Some(_)) = (message, self.grant) {
            self.grant = Some(*grant);
        }
        self.killed |= matches!(message, FromKeeper::Killed(_));
        self.note_keeper_works(message);
    }

    /// Whether the lock outlives its session and its keeper.
    fn is_durable(&self) -> bool {
        let grant = self.grant.or(self.record.grant);
        grant.is_some_and(|grant| grant.fence.is_some())
    }

    /// Reaps the ended command once the keeper knows of its end, or is gone.
    fn reap_command(&mut self) {
        if self.keeper.has_sent_all() {
            self.zombie.take().map(reap);
        }
    }

    /// Reaps orphans, which dblock inherits as process 1 of a container.
    fn reap_orphans(&mut self, command: Option<&Child>) {
        let own = [
            self.keeper.pid(),
            command.map(|command| command.processes.pid).or(self.zombie),
        ];
        reap_orphans(&own);
    }
}

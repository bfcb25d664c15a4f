//! The process that cron sees. It waits for the lock, runs the command, keeps every deadline, and never waits for a server. It is in one
//! phase at a time.

mod acquiring;
mod holding;
mod lock_state;
mod phase;
mod releasing;
mod replacing;
mod running;

use std::mem::{discriminant, replace};
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::job::Job;
use super::keeper::{self, Work};
use super::message::{FromKeeper, ToKeeper};
use crate::base::clock::{Moment, is_over};
use crate::base::exit::Failure;
use crate::base::log::Log;
use crate::history::KeptOutput;
use crate::keeper::Board;
use crate::lock::Grant;
use crate::supervise::{
    Cause, LockEventKind, Output, OutputRound, Plan, Poller, Received, RunRecord, Runner, RunnerOf,
    Signals, Started,
};
use lock_state::LockState;
pub use phase::Conclusion;
use phase::Phase;

/// How much longer dblock waits for the server's answer after a signal has asked dblock to end.
const LAST_CHANCE: Duration = Duration::from_secs(1);

/// What follows if the lock is not acquired.
#[derive(Debug, Clone, Copy)]
pub struct Fallback {
    /// Whether to find out who holds the lock when it is taken.
    pub names_holders: bool,
    /// Whether to run the command without the lock if no server can be reached.
    pub run_if_unreachable: bool,
}

/// Waits for the lock, runs the command, and releases the lock. Takes over the signals. All sessions of this dblock share the `run_id`.
/// Afterwards the keeper is gone.
///
/// # Errors
/// The keeper's failure, or the command could not be started, or was ended because the lock was lost.
pub fn supervise(
    job: &Job,
    run_id: &str,
    record: &mut RunRecord,
    log: Log,
    signals: Signals,
    fallback: Fallback,
) -> anyhow::Result<Conclusion> {
    let poller = Poller::new(signals)?;
    let board = Board::new(1)?;
    let work = Work::Acquire(job.task(run_id, fallback.names_holders, log.shown));
    let keeper = keeper::fork_off(work, board)?;
    let supervisor = Supervisor {
        job,
        run_id,
        record,
        runner: Runner::new(log, poller, board, "the keeper", keeper),
        phase: Phase::acquire(job),
        keeper: KeeperState::default(),
        lock: LockState::None,
        grant: None,
        fallback,
        asked_to_end: false,
        killed: false,
        output: OutputState::default(),
    };
    supervisor.run()
}

/// Supervises one keeper and one command.
struct Supervisor<'a> {
    job: &'a Job,
    run_id: &'a str,
    record: &'a mut RunRecord,
    /// Its command, and its keeper.
    runner: RunnerOf<Self>,
    phase: Phase,
    keeper: KeeperState,
    lock: LockState,
    /// The latest grant of the lock that the command was started for; `None` without a lock.
    grant: Option<Grant>,
    fallback: Fallback,
    /// Whether a signal has asked the command to end, or dblock after the command's end.
    asked_to_end: bool,
    /// Whether somebody kills this holder, and waits for the command's end.
    killed: bool,
    /// The command's output.
    output: OutputState,
}

/// The command's output, when it has ended.
#[derive(Default)]
struct OutputState {
    /// What is to be kept of it; `None`: nothing.
    kept: Option<KeptOutput>,
    /// Until when it may be passed on; `None`: for as long as that takes.
    until: Option<Moment>,
}

/// What the keeper may have done without having reported it.
#[derive(Default)]
struct KeeperState {
    /// Whether it, or one that has died, may hold the lock without having reported that.
    claims: bool,
    /// Whether the command runs without the lock. Then the keeper only releases what it may be granted.
    is_dismissed: bool,
    /// Whether a keeper that has died was told to release the lock. The server may have carried that out.
    may_be_released: bool,
}

impl Plan for Supervisor<'_> {
    type Purpose = ();
    type Rest = ();
    type Sent = ToKeeper;
    type Received = FromKeeper;
    type Conclusion = Conclusion;

    fn runner(&mut self) -> &mut RunnerOf<Self> {
        &mut self.runner
    }

    fn advance(&mut self) -> Option<anyhow::Result<Conclusion>> {
        loop {
            let before = discriminant(&self.phase);
            self.step(|this, phase| match phase {
                Phase::Acquiring(acquiring) if this.runner.has_passed(acquiring.deadline) => {
                    this.on_deadline_acquiring(acquiring)
                }
                Phase::Running(running) => {
                    this.check_command();
                    Phase::Running(running)
                }
                Phase::Holding(holding)
                    if holding.shares && this.runner.outputs.are_passed_on() =>
                {
                    this.let_go(holding)
                }
                Phase::Holding(holding) if is_over(Some(holding.until)) => {
                    this.begin_release(this.job.release_within, holding.conclusion)
                }
                Phase::Releasing(releasing) => this.check_releasing(releasing),
                phase => phase,
            });
            if let Phase::Done(conclusion) = &mut self.phase {
                self.runner.peer.restarts.cancel();
                let is_passed_on =
                    self.runner.outputs.are_passed_on() || is_over(self.output.until);
                return is_passed_on.then(|| conclusion.take()).flatten();
            }
            if discriminant(&self.phase) == before {
                return None;
            }
        }
    }

    fn deadline(&mut self) -> Option<Moment> {
        match &self.phase {
            Phase::Acquiring(acquiring) => acquiring.deadline,
            // Once the command is ending, the lease needs no further check.
            Phase::Running(_) if self.runner.are_all_ending() => None,
            Phase::Running(_) => {
                let over = self.lease_over();
                over.map(|over| self.runner.grace.deadline(over))
            }
            Phase::Holding(holding) => Some(holding.until),
            Phase::Releasing(releasing) => Some(releasing.deadline),
            Phase::Done(_) => self.output.until,
        }
    }

    fn on_signal(&mut self, received: Received) {
        self.step(|this, phase| match phase {
            Phase::Acquiring(acquiring) => this.on_signal_acquiring(acquiring, received),
            Phase::Running(running) => {
                this.on_signal_running(received);
                Phase::Running(running)
            }
            Phase::Holding(holding) => this.on_signal_holding(holding, received),
            Phase::Releasing(releasing) => this.on_signal_releasing(releasing, received),
            Phase::Done(_) => {
                if this.runner.poller.signals.act_on(received.signal) {
                    this.hurry_output();
                }
                phase
            }
        });
    }

    fn on_message(&mut self, message: FromKeeper, descriptor: Option<OwnedFd>) {
        let Some(message) = self.note(message, descriptor) else {
            return;
        };
        self.step(|this, phase| match phase {
            Phase::Acquiring(acquiring) => this.on_message_acquiring(acquiring, message),
            Phase::Running(running) => {
                this.on_message_running(message);
                Phase::Running(running)
            }
            Phase::Holding(holding) => this.on_message_holding(holding, &message),
            Phase::Releasing(releasing) => this.on_message_releasing(releasing, &message),
            Phase::Done(_) => phase,
        });
    }

    fn on_peer_gone(&mut self, _end: &str) {
        self.step(|this, phase| match phase {
            Phase::Acquiring(acquiring) => this.on_keeper_gone_acquiring(acquiring),
            Phase::Running(running) => {
                this.on_keeper_gone_running();
                Phase::Running(running)
            }
            Phase::Holding(holding) => {
                this.on_keeper_gone_holding();
                Phase::Holding(holding)
            }
            Phase::Releasing(_) | Phase::Done(_) => phase,
        });
    }

    fn replace_peer(&mut self) -> Result<(), Failure> {
        let mut replaced = Ok(());
        self.step(|this, phase| match phase {
            Phase::Acquiring(acquiring) => this.ask_again(acquiring),
            Phase::Releasing(mut releasing) => {
                replaced = this.start_releasing_keeper(&mut releasing);
                Phase::Releasing(releasing)
            }
            Phase::Holding(holding) => {
                replaced = this.replace_keeper();
                let end = this.run_end(&holding.conclusion);
                this.runner.peer.send(ToKeeper::Hold(end));
                Phase::Holding(holding)
            }
            phase => {
                replaced = this.replace_keeper();
                phase
            }
        });
        replaced
    }

    fn on_over(&mut self, mut command: Started<()>, round: OutputRound) {
        let outputs = &mut self.runner.outputs;
        command.output.finish(&mut outputs.outlets, round);
        self.output.kept = command.output.take_kept();
        outputs.linger(std::mem::replace(&mut command.output, Output::none()), ());
        if self.asked_to_end || command.running.cause().is_some() {
            self.hurry_output();
        }
        self.step(|this, phase| match phase {
            Phase::Running(running) => {
                let cause = command.running.cause();
                if cause == Some(Cause::LeaseOver) {
                    this.give_up_lock();
                }
                this.finish_command(command.running, running.hold_until, Ok(cause))
            }
            phase => phase,
        });
    }

    fn on_system_error(&mut self, failure: Failure) -> Option<anyhow::Result<Conclusion>> {
        let command = self.runner.commands.pop();
        self.step(|this, phase| match (phase, command) {
            (Phase::Running(running), Some(command)) => {
                this.finish_command(command.running, running.hold_until, Err(failure))
            }
            (Phase::Acquiring(_), _) => this.end_acquiring(Err(failure.into())),
            // The command has ended, and dblock ends as it did. A lock that is held after that stays held: messages and signals are heard
            // all the same. The lock may outlive its keeper, so the keeper must not be killed before it has released the lock.
            (phase @ (Phase::Holding(_) | Phase::Releasing(_)), _) => phase,
            (phase @ Phase::Done(Some(_)), _) => {
                this.runner.log.warning(&failure);
                phase
            }
            _ => Phase::Done(Some(Err(failure.into()))),
        });
        match &mut self.phase {
            Phase::Done(conclusion) => conclusion.take(),
            _ => None,
        }
    }
}

impl Supervisor<'_> {
    /// Changes the phase.
    fn step(&mut self, next: impl FnOnce(&mut Self, Phase) -> Phase) {
        let phase = replace(&mut self.phase, Phase::Done(None));
        self.phase = next(self, phase);
    }

    /// Whoever reads the output is not waited for any longer: dblock is to end, or was to end the command.
    fn hurry_output(&mut self) {
        let until = Moment::now() + LAST_CHANCE;
        self.output.until = Some(self.output.until.map_or(until, |before| before.min(until)));
    }

    /// Notes what the keeper reports. `None`: it does not concern the run.
    fn note(&mut self, message: FromKeeper, descriptor: Option<OwnedFd>) -> Option<FromKeeper> {
        let keeper = &mut self.keeper;
        match message {
            FromKeeper::Held(..) => {
                // A command that runs without the lock does not keep it alive.
                self.runner.peer.session = descriptor.filter(|_| !keeper.is_dismissed);
                keeper.claims = keeper.is_dismissed;
            }
            FromKeeper::Lost(_) => {
                self.runner.peer.session = None;
                keeper.claims = false;
            }
            FromKeeper::Released => keeper.claims = false,
            FromKeeper::Claiming(may_be_held) => keeper.claims = may_be_held,
            _ => {}
        }
        if keeper.is_dismissed {
            return None;
        }
        self.record_message(&message);
        Some(message)
    }

    /// Records what the keeper reports, for the history and the report.
    fn record_message(&mut self, message: &FromKeeper) {
        let record = &mut *self.record;
        match message {
            FromKeeper::Reached(server) => record.server = Some(server.clone()),
            FromKeeper::Held(grant, _) => record.hold(*grant),
            FromKeeper::Lost(cause) => record.lose(cause),
            FromKeeper::Abandoned(why) => record.add(LockEventKind::Abandoned, &why.to_string()),
            FromKeeper::Tick(tick) => record.tick = Some(tick.clone()),
            FromKeeper::Killed(who) => record.add(LockEventKind::Killed, &format!("by {who}")),
            _ => {}
        }
    }

    /// A message from the keeper that has already arrived.
    fn pending_message(&mut self) -> Option<FromKeeper> {
        while self.runner.peer.is_readable() {
            if let Some((message, descriptor)) = self.runner.peer.receive()
                && let Some(message) = self.note(message, descriptor)
            {
                return Some(message);
            }
        }
        None
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

    /// Whether the keeper may hold the lock without having reported that. Then it must not be killed before it has released the lock.
    fn keeper_claims(&self) -> bool {
        self.keeper.claims && !self.runner.peer.is_closed()
    }

    /// Whether the lock outlives its session and its keeper.
    fn is_durable(&self) -> bool {
        let grant = self.grant.or(self.record.grant);
        grant.is_some_and(|grant| grant.fence.is_some())
    }
}

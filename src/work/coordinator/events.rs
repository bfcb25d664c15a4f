//! What follows from a signal, from a message of the claimer, and from its end.

use super::super::Until;
use super::super::claimer::{self, Resumed};
use super::super::command::{JobCommand, Jobs};
use super::super::message::{FromClaimer, ToClaimer};
use super::{ClaimerState, Coordinator};
use crate::base::clock::{Moment, is_over};
use crate::base::exit::{Ending, Failure};
use crate::base::progress::ProgressLine;
use crate::base::text::counted;
use crate::lock::Lease;
use crate::supervise::{Cause, OutputRound, Plan, Received, RunnerOf};
use nix::sys::signal::Signal;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// How long after an empty turn the next one follows while commands run.
pub(super) const NEXT_TURN: Duration = Duration::from_secs(1);

/// How long the last output of a worker that is stopped may wait for room.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

impl Plan for Coordinator<'_> {
    type Purpose = Jobs;
    type Rest = ();
    type Sent = ToClaimer;
    type Received = FromClaimer;
    type Conclusion = Ending;

    fn runner(&mut self) -> &mut RunnerOf<Self> {
        &mut self.runner
    }

    fn advance(&mut self) -> Option<anyhow::Result<Ending>> {
        if self.ending.conclusion.is_none() {
            self.check_deadlines();
            self.start_commands();
            self.show_progress();
            self.ending.conclusion = self.take_turn();
            // Who stops a worker does not want to wait for a slow reader.
            let until = Moment::now() + LAST_OUTPUT;
            self.ending.output_until = (self.spec.until == Until::Stopped).then_some(until);
        }
        let is_passed_on = self.runner.outputs.are_passed_on() || is_over(self.ending.output_until);
        let conclusion = &mut self.ending.conclusion;
        is_passed_on.then(|| conclusion.take()).flatten()
    }

    fn deadline(&mut self) -> Option<Moment> {
        match self.ending.conclusion {
            Some(_) => self.ending.output_until,
            None => self.next_deadline(),
        }
    }

    fn on_signal(&mut self, received: Received) {
        let signal = received.signal;
        if signal == Signal::SIGCHLD {
            return;
        }
        if self.runner.poller.signals.asks_to_end(signal) {
            if self.ending.conclusion.is_some() {
                self.ending.output_until = Some(Moment::now());
                return;
            }
            let again = self.runner.shutdown.has_begun();
            if self.runner.shutdown.ends_commands() {
                self.runner.kill_ending();
            }
            if again {
                self.runner.asides.end();
                return self.stop(Duration::ZERO, Ok(Ending::Code(0)));
            }
            self.runner.say_end(signal, "jobs", self.spec.grace);
            return self.stop(self.spec.grace, Ok(Ending::Code(0)));
        }
        for command in &self.runner.commands {
            let child = &command.running.child;
            if received.is_for(child.processes) {
                child.signal(signal as i32);
            }
        }
        if signal == Signal::SIGTSTP {
            ProgressLine::clear();
            self.runner.poller.signals.stop();
        }
    }

    fn on_message(&mut self, message: FromClaimer, descriptor: Option<OwnedFd>) {
        match message {
            FromClaimer::Note(level, text) => self.runner.note(level, text),
            FromClaimer::Fault(fault) => self.fault = fault,
            FromClaimer::Rescued(rescued) => self.on_rescued(&rescued),
            FromClaimer::Session => {
                self.runner.peer.session = descriptor;
                self.fault = None;
            }
            FromClaimer::Registered(queue, number, lease) => {
                self.runner.begun = None;
                self.registered = Some((*queue, number));
                self.lease = Some(lease);
                self.turns.claimer = ClaimerState::Ready;
            }
            FromClaimer::Confirmed(sent) => {
                if let Some(lease) = &mut self.lease {
                    lease.proved = lease.proved.max(sent);
                }
                // A late answer may confirm a lease that is over again by now. Log only one that counts.
                let kill_after = self.spec.kill_after;
                let good = |lease: Lease| !is_over(Some(lease.end_command(kill_after)));
                if self.lease.is_none_or(good) && std::mem::take(&mut self.runner.is_silent) {
                    let again = if self.server_answers() {
                        "the lease is renewed again"
                    } else {
                        "the server answers again"
                    };
                    self.runner.log.warning(again);
                }
                self.only_read_only = None;
            }
            FromClaimer::Claimed(claimed) => {
                if let Some(file) = descriptor {
                    self.claims.take_in(claimed, File::from(file));
                }
            }
            FromClaimer::Left(due) => self.note_due(due),
            FromClaimer::Gone(claims) => self.drop_claims(&claims),
            FromClaimer::TurnEnded { nothing_due } => {
                self.claims.note_recorded();
                self.runner.peer.restarts.on_success();
                self.turns.claimer = ClaimerState::Ready;
                self.turns.nothing_due = nothing_due;
                self.turns.next_at = Moment::now() + NEXT_TURN;
                // The claimer's next step gets a time limit of its own.
                self.ending.step_since = None;
                if self.runner.shutdown.has_begun() {
                    // These were claimed while the worker was asked to end.
                    self.claims.return_waiting();
                }
            }
            FromClaimer::OnlyReadOnly(line) => self.only_read_only = line,
            FromClaimer::Lost(why) => self.lose(&why),
            FromClaimer::QueueDeleted => {
                // With the queue deleted nobody else can claim the jobs, so no lease is needed.
                self.lease = None;
                self.ending.failure_grace = self.spec.grace;
                let running = self.runner.may_run_on(self.spec.grace);
                self.runner
                    .log
                    .info(format_args!("the queue was deleted{running}"));
            }
            FromClaimer::Stuck(failure) => self.stop(self.spec.grace, Err(failure.into())),
            FromClaimer::Failed(failure) => {
                self.stop(self.ending.failure_grace, Err(failure.into()));
            }
            FromClaimer::Deregistered => {
                self.runner.peer.end();
            }
        }
    }

    /// The claimer has ended. Another one follows, unless this one has failed for good or was leaving.
    fn on_peer_gone(&mut self, end: &str) {
        let is_leaving = self.turns.claimer == ClaimerState::Deregistering
            || self.runner.shutdown.has_begun() && self.registered.is_none();
        let is_expected = is_leaving && !self.claims.has_unrecorded();
        // What it has not committed is undone at once.
        self.runner.peer.session = None;
        if self.runner.shutdown.has_failed() || is_expected {
            return;
        }
        let log = self.runner.log;
        if let Err(failure) = self.runner.peer.restarts.replace(end, log) {
            return self.stop(Duration::ZERO, Err(failure.into()));
        }
        self.turns.claimer = ClaimerState::Ready;
    }

    fn replace_peer(&mut self) -> Result<(), Failure> {
        let resumed = self.registered.as_ref().map(|(queue, worker)| Resumed {
            queue: queue.clone(),
            worker: *worker,
            lease: self.lease,
            known: self.claims.known(),
        });
        let (board, shown) = (self.runner.board, self.runner.log.shown);
        let forked = claimer::fork_off(self.spec, &self.facts, board, shown, resumed)?;
        self.runner.peer.replace(forked);
        self.runner.peer.restarts.end_fault();
        self.turns.claimer = ClaimerState::Ready;
        self.claims.repeat();
        Ok(())
    }

    fn on_over(&mut self, command: JobCommand, round: OutputRound) {
        self.end_command(command, round);
    }
}

impl Coordinator<'_> {
    /// The worker is lost: ends all commands, since others have the jobs.
    pub(super) fn lose(&mut self, why: &str) {
        self.claims.clear();
        self.registered = None;
        self.lease = None;
        self.turns.claimer = ClaimerState::Ready;
        self.turns.nothing_due = false;
        for command in &mut self.runner.commands {
            command.tasks.clear();
            command.running.end_now(Cause::LeaseOver);
        }
        // Only now: a file system can keep this process in a write for ever.
        let running = counted(self.runner.commands.len(), "command");
        self.runner
            .log
            .error(format_args!("the worker was lost: {why}; ending {running}"));
    }

    /// The server has lost these claims, and others may have the jobs. Ends their commands, and drops their outcomes.
    fn drop_claims(&mut self, claims: &[(u64, u64)]) {
        let is_of = self.claims.remove(claims);
        let mut lost = Vec::new();
        for command in &mut self.runner.commands {
            if command.tasks.iter().any(&is_of) {
                lost.push(command.jobs());
                command.running.end_now(Cause::LeaseOver);
                command.tasks.retain(|task| !is_of(task));
            }
        }
        for jobs in lost {
            self.runner.log.error(format_args!(
                "the server has lost that job {jobs} is this worker's; ending its command"
            ));
        }
    }
}

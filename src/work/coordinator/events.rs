//! The coordinator's events: signals, messages of its claimer, stderr of commands, and timers.

use super::super::claimer::{self, Resumed};
use super::super::command::{Cause, Task};
use super::super::message::FromClaimer;
use super::jobs::OpenUnit;
use super::{ClaimerState, Coordinator};
use crate::base::clock::Moment;
use crate::base::exit::Ending;
use crate::base::log::Level;
use crate::base::text::{counted, shown};
use crate::lock::Lease;
use crate::queue::{Ended, JobEnd, Unit};
use crate::supervise::{Output, Received, Round, is_over};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// How long after an empty turn the next one follows while commands run.
pub(super) const NEXT_TURN: Duration = Duration::from_secs(1);

impl Coordinator<'_> {
    /// Waits until something happens, and handles it.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        self.alarm.set(self.deadline())?;
        let readable = |descriptor| PollFd::new(descriptor, PollFlags::POLLIN);
        let mut descriptors: Vec<PollFd> =
            vec![readable(self.signals.as_fd()), readable(self.alarm.as_fd())];
        descriptors.extend(self.claimer.wanted());
        let first_output = descriptors.len();
        let outputs = self.commands.iter().map(|command| &command.output);
        let outputs = outputs.chain(&self.lingering);
        descriptors.extend(outputs.flat_map(|output| output.wanted([true; 2])));
        match poll(&mut descriptors, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |at: usize| descriptors.get(at).is_some_and(|fd| fd.any() == Some(true));
        let says = (first_output..descriptors.len()).any(is_ready);
        if says {
            let (round, outlets) = (Round::begin(), &mut self.outlets);
            round.give_turns(&mut self.commands, |command| {
                command.output.pass_on(outlets, round);
            });
            round.give_turns(&mut self.lingering, |output| output.pass_on(outlets, round));
            self.lingering.retain(Output::is_open);
        }
        while let Some(received) = self.signals.next()? {
            self.on_signal(received);
        }
        self.on_claimer();
        self.claimer.send_rest();
        Ok(())
    }

    pub(super) fn on_signal(&mut self, received: Received) {
        let signal = received.signal;
        if signal == Signal::SIGCHLD {
            return;
        }
        if self.signals.asks_to_end(signal) {
            let again = self.shutdown.has_begun();
            if self.shutdown.ends_commands() {
                for command in &mut self.commands {
                    command.running.kill_now();
                }
            }
            let grace = if again {
                Duration::ZERO
            } else {
                self.spec.grace
            };
            if !again {
                let running = counted(self.commands.len(), "command");
                self.log.info(format_args!(
                    "{signal}: taking no more jobs; {running} may run on for {}",
                    shown(grace)
                ));
            }
            return self.stop(grace, Ok(Ending::Code(0)));
        }
        for command in &self.commands {
            let child = &command.running.child;
            if received.is_for(child.processes) {
                child.signal(signal as i32);
            }
        }
        if signal == Signal::SIGTSTP {
            self.signals.stop();
        }
    }

    pub(super) fn on_claimer(&mut self) {
        while self.claimer.is_readable() {
            match self.claimer.receive() {
                Some((message, descriptor)) => self.on_message(message, descriptor),
                None => return self.on_claimer_gone(),
            }
        }
    }

    pub(super) fn on_message(&mut self, message: FromClaimer, descriptor: Option<OwnedFd>) {
        match message {
            FromClaimer::Note(level, text) => {
                self.log.say(level, &text);
                if level == Level::Info {
                    self.last_note = text;
                }
            }
            FromClaimer::Fault(fault) => self.fault = fault,
            FromClaimer::Session => {
                self.claimer.session = descriptor;
                self.fault = None;
            }
            FromClaimer::Registered(queue, number, lease) => {
                self.begun = None;
                self.registered = Some((*queue, number));
                self.lease = Some(lease);
                self.claimer_state = ClaimerState::Ready;
            }
            FromClaimer::Confirmed(sent) => {
                if let Some(lease) = &mut self.lease {
                    lease.proved = sent;
                }
                // A late answer may confirm a lease that is over again by now. Log only one that counts.
                let kill_after = self.spec.kill_after;
                let good = |lease: Lease| !is_over(Some(lease.end_command(kill_after)));
                if self.is_silent && self.lease.is_none_or(good) {
                    self.is_silent = false;
                    let again = if self.server_answers() {
                        "the lease is renewed again"
                    } else {
                        "the server answers again"
                    };
                    self.log.warning(again);
                }
                self.only_read_only = None;
            }
            FromClaimer::Claimed(claimed) => {
                if let Some(file) = descriptor {
                    self.take_in(claimed, File::from(file));
                }
            }
            FromClaimer::Gone(claims) => self.drop_claims(&claims),
            FromClaimer::TurnOver { nothing_due } => {
                self.handed.clear();
                self.claimer.restarts.on_success();
                self.claimer_state = ClaimerState::Ready;
                self.nothing_due = nothing_due;
                self.turn_at = Moment::now() + NEXT_TURN;
                // The claimer's next step gets a time limit of its own.
                self.shutdown_step_since = None;
                if self.shutdown.has_begun() {
                    // These were claimed while the worker was asked to end.
                    for task in std::mem::take(&mut self.buffer) {
                        self.note_outcome(&task, JobEnd::Returned);
                    }
                }
            }
            FromClaimer::OnlyReadOnly(line) => self.only_read_only = line,
            FromClaimer::Lost(why) => self.lose(&why),
            FromClaimer::QueueDeleted => {
                // With the queue deleted nobody else can claim the jobs, so no lease is needed.
                self.lease = None;
                self.failure_grace = self.spec.grace;
                let running = counted(self.commands.len(), "command");
                self.log.info(format_args!(
                    "the queue was deleted; {running} may run on for {}",
                    shown(self.spec.grace)
                ));
            }
            FromClaimer::Stuck(failure) => self.stop(self.spec.grace, Err(failure.into())),
            FromClaimer::Failed(failure) => self.stop(self.failure_grace, Err(failure.into())),
            FromClaimer::Deregistered => {
                self.claimer.end();
            }
        }
    }

    /// The worker is lost: ends all commands, since others have the jobs.
    pub(super) fn lose(&mut self, why: &str) {
        let running = counted(self.commands.len(), "command");
        self.log
            .error(format_args!("the worker was lost: {why}; ending {running}"));
        self.units.clear();
        self.buffer.clear();
        self.ended.clear();
        self.handed.clear();
        self.registered = None;
        self.lease = None;
        self.claimer_state = ClaimerState::Ready;
        self.nothing_due = false;
        for command in &mut self.commands {
            command.tasks.clear();
            command.running.end(Cause::LeaseOver, Duration::ZERO);
        }
    }

    /// The server has lost these claims, and others may have the jobs. Ends their commands, and drops their outcomes.
    fn drop_claims(&mut self, claims: &[(u64, u64)]) {
        let is_gone = |unit: &Unit| claims.contains(&(unit.job, unit.fence));
        let gone = self.units.extract_if(|_, open| is_gone(&open.unit));
        let gone: HashMap<u64, OpenUnit> = gone.collect();
        self.buffer.retain(|task| !gone.contains_key(&task.unit));
        // If the job is claimed again, the claim may have the same fence.
        self.ended.retain(|ended| !is_gone(&ended.unit));
        for command in &mut self.commands {
            let is_of = |task: &Task| gone.contains_key(&task.unit);
            if command.tasks.iter().any(is_of) {
                self.log.error(format_args!(
                    "the server has lost that job {} is this worker's; ending its command",
                    command.jobs()
                ));
                command.running.end(Cause::LeaseOver, Duration::ZERO);
                command.tasks.retain(|task| !is_of(task));
            }
        }
    }

    /// The claimer has ended. Another one follows, unless this one has failed for good or was leaving.
    pub(super) fn on_claimer_gone(&mut self) {
        let is_leaving = self.claimer_state == ClaimerState::Deregistering
            || self.shutdown.has_begun() && self.registered.is_none();
        let is_expected = is_leaving && self.unrecorded() == 0;
        self.claimer.end();
        if self.shutdown.has_failed() || is_expected {
            return;
        }
        let end = self.claimer.how_it_ended();
        if let Err(failure) = self.claimer.restarts.replace(&end, self.log) {
            return self.stop(Duration::ZERO, Err(failure.into()));
        }
        self.claimer_state = ClaimerState::Ready;
    }

    /// Starts another claimer, once the pause after the last one's death is over.
    pub(super) fn restart_claimer(&mut self) {
        if !self.claimer.restarts.take_due() {
            return;
        }
        let resumed = self.registered.as_ref().map(|(queue, worker)| {
            let unsent = self.ended.iter().chain(&self.handed);
            let open = self.units.values().map(|open| &open.unit);
            let known = open
                .chain(unsent.map(|ended| &ended.unit))
                .map(|unit| (unit.job, unit.fence));
            Resumed {
                queue: queue.clone(),
                worker: *worker,
                lease: self.lease,
                known: known.collect(),
            }
        });
        let shown = self.log.shown;
        match claimer::fork_off(self.spec, &self.facts, self.board, shown, resumed) {
            Ok(claimer) => self.claimer.replace(claimer),
            Err(failure) => return self.stop(Duration::ZERO, Err(failure.into())),
        }
        self.claimer_state = ClaimerState::Ready;
        let handed = std::mem::take(&mut self.handed);
        let again = self.units.values().flat_map(OpenUnit::outcomes_to_repeat);
        let again: Vec<Ended> = again.chain(handed).collect();
        self.ended.splice(0..0, again);
    }
}

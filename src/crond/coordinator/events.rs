//! What follows from a signal, from a message of the scheduler, and from its silence.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::super::command::{Tick, TickCommand};
use super::super::mail::Mail;
use super::super::message::{FromScheduler, ToScheduler};
use super::super::scheduler::{self, Kept, Publishes, Resumed};
use super::{Coordinator, LATE, LONGEST_HANG, NO_LIMIT, PAUSE};
use crate::base::clock::Moment;
use crate::base::exit::{Ending, Failure};
use crate::base::text::{counted, shown};
use crate::supervise::{Output, OutputRound, Plan, Received, RunnerOf};

impl Plan for Coordinator<'_> {
    type Purpose = Tick;
    type Rest = (String, Option<Mail>);
    type Sent = ToScheduler;
    type Received = FromScheduler;
    type Conclusion = Ending;

    fn runner(&mut self) -> &mut RunnerOf<Self> {
        &mut self.runner
    }

    fn advance(&mut self) -> Option<anyhow::Result<Ending>> {
        let conclusion = self.check_deadlines();
        if conclusion.is_some() {
            self.manager.tell("STOPPING=1");
            let beside = &mut self.runner.asides.outputs;
            self.runner.outputs.end(beside);
        }
        conclusion
    }

    fn deadline(&mut self) -> Option<Moment> {
        let leases = self.leases_deadline();
        let alive = self.manager.live();
        let is_there = self.runner.peer.is_there();
        let hangs = is_there.then(|| self.runner.peer.heard_at + LONGEST_HANG + PAUSE);
        let (server, leave) = (self.server_deadline(), self.leave_deadline());
        let all = [leases, alive, hangs, server, leave];
        all.into_iter().flatten().min()
    }

    fn on_signal(&mut self, received: Received) {
        match received.signal {
            Signal::SIGHUP if !self.runner.shutdown.has_begun() => {
                // Otherwise the manager is notified when the daemon is ready.
                let is_ready = self.runner.begun.is_none();
                if is_ready {
                    self.manager.tell("RELOADING=1");
                }
                self.reload();
                if is_ready {
                    self.manager.tell("READY=1");
                }
            }
            Signal::SIGTSTP => self.runner.poller.signals.stop(),
            signal
                if signal != Signal::SIGHUP && self.runner.poller.signals.asks_to_end(signal) =>
            {
                let mut grace = self.spec.grace;
                if std::mem::replace(&mut self.was_asked, true) {
                    grace = Duration::ZERO;
                    self.is_hurried = true;
                    self.runner.kill_ending();
                } else {
                    self.manager.tell("STOPPING=1");
                    self.runner.say_end(signal, "ticks", grace);
                }
                self.stop(grace, Ok(Ending::Code(0)));
            }
            _ => {}
        }
    }

    fn on_message(&mut self, message: FromScheduler, descriptor: Option<OwnedFd>) {
        match message {
            FromScheduler::Seeking(only_read_only) => {
                self.only_read_only = only_read_only;
                // The refusal from before the server was gone may be over, so its time starts again.
                self.runner.peer.restarts.date_fault_anew();
            }
            FromScheduler::Note(level, text) => self.runner.note(level, text),
            FromScheduler::Published => self.publishes = Publishes::Nothing,
            FromScheduler::Ready => self.on_ready(),
            FromScheduler::Answered => {
                self.on_answer();
                self.runner.peer.send(ToScheduler::Alive);
            }
            FromScheduler::Working => self.on_answer(),
            // One that was left behind has none.
            FromScheduler::Session => {
                if descriptor.is_some() {
                    self.runner.peer.session = descriptor;
                }
            }
            FromScheduler::Start(attempt, grant, lease) => self.start(attempt, grant, lease),
            FromScheduler::Confirmed(run, sent) => self.on_confirmed(&run, sent),
            FromScheduler::Lost(run, cause, is_killed) => {
                self.end_for_lock(&run, |command| command.lose(&cause, is_killed));
            }
            FromScheduler::Killed(run, who) => {
                self.end_for_lock(&run, |command| command.be_killed(&who));
            }
            FromScheduler::Died(attempt, will_retry) => self.on_died(&attempt, will_retry),
            FromScheduler::Recorded(run) => self.on_recorded(&run),
            FromScheduler::Failed(failure) => self.on_failure(failure),
            FromScheduler::Left => {
                self.runner.peer.end();
            }
        }
    }

    /// Another scheduler takes over, unless this one reported that none can.
    fn on_peer_gone(&mut self, end: &str) {
        let needs_none = self.leaves_since.is_some() && (self.ended.is_empty() || self.is_hurried);
        if self.runner.shutdown.has_failed() || needs_none {
            return;
        }
        let log = self.runner.log;
        if let Err(failure) = self.runner.peer.restarts.replace(end, log) {
            self.stop(NO_LIMIT, Err(failure.into()));
        }
    }

    fn replace_peer(&mut self) -> Result<(), Failure> {
        let running = self.runner.commands.iter().map(|command| Kept {
            job: Rc::clone(&command.job),
            attempt: command.attempt.clone(),
            grant: command.grant,
            lease: command.lease,
            started: Some(command.running.started),
            ended: None,
        });
        let resumed = Resumed {
            publishes: self.publishes,
            kept: running.chain(self.ended.values().cloned()).collect(),
            outputs: self.outputs.clone(),
            is_stopped: self.runner.shutdown.has_begun(),
        };
        let (board, shown) = (self.runner.board, self.runner.log.shown);
        let (spec, facts) = (self.spec, &self.facts);
        let forked = scheduler::fork_off(spec, &self.jobs, facts, board, shown, resumed)?;
        self.runner.peer.replace(forked);
        if self.leaves_since.is_some() {
            self.runner.peer.send(ToScheduler::Leave);
        }
        Ok(())
    }

    fn on_over(&mut self, command: TickCommand, _round: OutputRound) {
        self.end_command(command);
    }

    fn on_output_over(&mut self, output: Output, rest: Self::Rest) {
        self.send_mail(output, rest);
    }
}

impl Coordinator<'_> {
    fn on_answer(&mut self) {
        self.answered = Some(Moment::now());
        if std::mem::take(&mut self.runner.is_silent) {
            self.runner.log.warning("the server answers again");
        }
    }

    fn on_ready(&mut self) {
        self.runner.begun = None;
        self.answered = Some(Moment::now());
        if self.runner.peer.restarts.end_fault() {
            self.runner.log.warning("ticks are taken again");
        }
        let count = counted(self.jobs.len(), "job");
        self.runner.log.info(format_args!("ready: {count}"));
        self.manager.tell("READY=1");
    }

    /// No scheduler can work. If one could before, that may be over soon, and commands run on meanwhile.
    fn on_failure(&mut self, failure: Failure) {
        if self.runner.begun.is_some() {
            return self.stop(NO_LIMIT, Err(failure.into()));
        }
        if self.runner.peer.restarts.note_fault(&failure) && !self.runner.shutdown.has_begun() {
            self.runner.log.error(format_args!(
                "{failure}; no ticks are taken until that is over"
            ));
        }
        self.runner.last_note = failure.line;
    }

    /// Replaces a silent scheduler.
    pub(super) fn check_scheduler(&mut self) {
        let silent_for = self.runner.peer.heard_at.elapsed();
        if !self.runner.peer.is_there() || silent_for <= LONGEST_HANG {
            return;
        }
        if silent_for > LONGEST_HANG + LATE {
            // This process was stopped, or the machine slept, and maybe the scheduler, too.
            self.runner.peer.heard_at = Moment::now();
        }
        // It may have sent something that was not read.
        let _ = self.receive();
        if self.runner.peer.is_there() && self.runner.peer.heard_at.elapsed() > LONGEST_HANG {
            self.read_last_messages();
            self.on_peer_gone(&format!(
                "the scheduler has hung for {}",
                shown(LONGEST_HANG)
            ));
        }
    }
}

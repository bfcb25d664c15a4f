//! The main process of a daemon: reads the file, runs the commands of attempts, passes their output on, and reports how they ended. It
//! never waits for a server.

mod attempts;
mod events;
mod leaving;

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use nix::unistd::getpid;

use super::Spec;
use super::mail;
use super::message::ToScheduler;
use super::notify::Manager;
use super::scheduler::{self, Kept, Publishes, Resumed};
use crate::base::clock::{Moment, is_over};
use crate::base::descriptors;
use crate::base::exit::{Ending, Failure, Reason};
use crate::base::log::Log;
use crate::base::text::{counted, shown};
use crate::base::user::local_user;
use crate::cron::{DaemonFacts, Job, load};
use crate::history::PendingOutputs;
use crate::isolated::restarts::LastingFault;
use crate::keeper::Board;
use crate::lock::{new_id, own_host};
use crate::supervise::{Plan, Poller, Runner, RunnerOf};

/// The pause before a failed step is retried.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a server may refuse a daemon that has worked, or lack the tables, before the daemon gives up: a password is changed, or a
/// backup is restored. The second limit is for a daemon with unrecorded ends of commands.
const LONGEST_FAULT: Duration = Duration::from_secs(60);
const LONGEST_FAULT_WITH_ENDS: Duration = Duration::from_secs(3600);

/// The grace when commands may run as long as their own locks and timeouts allow.
const NO_LIMIT: Duration = Duration::MAX;

/// A server that is silent for this long is reported.
const SILENCE: Duration = Duration::from_secs(30);

/// A scheduler that sends nothing for this long hangs: it was stopped, or a name is resolved for ever. Trying all servers of a list takes
/// less.
const LONGEST_HANG: Duration = Duration::from_secs(120);

/// If the coordinator looks this much later than planned, it was stopped for a while.
const LATE: Duration = Duration::from_secs(5);

/// Descriptors for each command: its leash, its output, its mail and that of the one before. And for everything else.
const DESCRIPTORS: u64 = 6;
const OWN_DESCRIPTORS: u64 = 300;

/// Runs a daemon to its end, and returns how dblock ends.
///
/// # Errors
/// Why it cannot continue.
pub fn run(spec: &Spec, log: Log) -> anyhow::Result<Ending> {
    let jobs: Vec<Rc<Job>> = match load(&spec.file) {
        Ok(crontab) => crontab.jobs.into_iter().map(Rc::new).collect(),
        Err(lines) => {
            for line in lines {
                log.error(line);
            }
            return Ok(Ending::Code(Reason::Configuration.code()));
        }
    };
    let poller = Poller::for_many()?;
    let collected = poller.signals.collect_all();
    collected.map_err(|error| Failure::refused("collect signals", &error))?;
    let facts = DaemonFacts {
        id: new_id()?,
        host: own_host(),
        pid: getpid().as_raw(),
        user: local_user(),
        slots: descriptors::allow(spec.slots, [DESCRIPTORS, OWN_DESCRIPTORS], log),
    };
    let board = Board::new(facts.slots)?;
    let resumed = Resumed::nothing();
    let scheduler = scheduler::fork_off(spec, &jobs, &facts, board, log.shown, resumed)?;
    let coordinator = Coordinator {
        spec,
        facts,
        runner: Runner::new(log, poller, board, "the scheduler", scheduler),
        jobs,
        publishes: Publishes::IfChanged,
        ended: HashMap::new(),
        outputs: PendingOutputs::new(),
        manager: Manager::of_process(),
        was_asked: false,
        is_hurried: false,
        leaves_since: None,
        left: None,
        answered: None,
        only_read_only: None,
    };
    coordinator.warn_of_mails();
    coordinator.run()
}

struct Coordinator<'a> {
    spec: &'a Spec,
    facts: DaemonFacts,
    /// Its commands, and its scheduler.
    runner: RunnerOf<Self>,
    /// The jobs of the file, in order.
    jobs: Vec<Rc<Job>>,
    /// Whether to put them in force.
    publishes: Publishes,
    /// Ends of attempts, by run id, that may not be recorded yet.
    ended: HashMap<String, Kept>,
    /// What is to be kept of their outputs.
    outputs: PendingOutputs<String>,
    manager: Manager,
    /// Whether a signal has asked the daemon to end, and whether a second one has.
    was_asked: bool,
    is_hurried: bool,
    /// Since when only the scheduler still has to finish.
    leaves_since: Option<Moment>,
    /// When the scheduler had finished.
    left: Option<Moment>,
    /// When the server last answered; `None`: it has not answered yet.
    answered: Option<Moment>,
    /// The line about one server, if the latest round found only read-only ones.
    only_read_only: Option<String>,
}

impl Coordinator<'_> {
    /// Reads the file again. A file with errors changes nothing.
    fn reload(&mut self) {
        let file = self.spec.file.display();
        match load(&self.spec.file) {
            Err(lines) => {
                for line in lines {
                    self.runner.log.error(line);
                }
                self.runner.log.error(format_args!(
                    "{file} is wrong; what was read before stays in force"
                ));
            }
            Ok(crontab) => {
                // Ticks that the scheduler has already taken start with the old file.
                self.read_last_messages();
                self.jobs = crontab.jobs.into_iter().map(Rc::new).collect();
                let count = counted(self.jobs.len(), "job");
                self.runner
                    .log
                    .warning(format_args!("read {file} again: {count}"));
                self.warn_of_mails();
                self.publishes = Publishes::All;
                self.runner.peer.restarts.start_now();
                self.replace_due_peer();
            }
        }
    }

    /// Says where the output of jobs goes that is to be mailed and cannot be.
    fn warn_of_mails(&self) {
        if mail::lacks_sendmail(self.jobs.iter().map(Rc::as_ref)) {
            let line = "MAILTO is set, and this host has no sendmail: output goes to stdout and stderr instead; DBLOCK_SENDMAIL names a sendmail";
            self.runner.log.warning(line);
        }
    }

    /// Takes no more ticks, and notes dblock's exit.
    fn stop(&mut self, grace: Duration, conclusion: anyhow::Result<Ending>) {
        self.runner.shutdown.begin(grace, conclusion);
        self.runner.peer.send(ToScheduler::Stop);
    }

    /// Does what is due by the clock. Returns how dblock ends, if it does.
    fn check_deadlines(&mut self) -> Option<anyhow::Result<Ending>> {
        self.check_commands();
        self.manager.live();
        self.check_scheduler();
        self.check_server();
        if self.runner.shutdown.has_begun() && self.runner.commands.is_empty() {
            self.leave()
        } else {
            None
        }
    }

    /// When the search for a server began; `None`: one has answered since.
    fn seeks_since(&self) -> Option<Moment> {
        self.runner.begun.filter(|_| self.answered.is_none())
    }

    /// Gives up if no server was ever reached, or if none can be used any more and nothing runs. Reports a server that falls silent.
    fn check_server(&mut self) {
        if self.runner.shutdown.has_begun() {
            return;
        }
        let limit = self.spec.connection.connect_timeout;
        if let Some(begun) = self.seeks_since() {
            if self.runner.has_passed(Some(begun + limit)) {
                let failure = if let Some(line) = &self.only_read_only {
                    Failure::new(Reason::Configuration, line)
                } else {
                    Failure::unreachable(limit, &self.runner.last_note)
                };
                self.stop(NO_LIMIT, Err(failure.into()));
            }
            return;
        }
        if let Some(LastingFault { since, failure }) = self.runner.peer.restarts.fault() {
            if self.runner.commands.is_empty() && is_over(Some(*since + self.longest_fault())) {
                let failure = failure.clone();
                self.stop(NO_LIMIT, Err(failure.into()));
            }
            return;
        }
        let Some(silent_for) = self.answered.map(Moment::elapsed) else {
            return;
        };
        if !self.runner.is_silent && silent_for > SILENCE + LATE {
            // This process was stopped, or the machine slept, so it could not receive answers.
            self.answered = Some(Moment::now());
            return;
        }
        if silent_for > SILENCE && !std::mem::replace(&mut self.runner.is_silent, true) {
            self.runner.log.warning(format_args!(
                "no server has answered for {}: {}; trying again",
                shown(silent_for),
                self.runner.last_note
            ));
        }
    }

    /// How long no server may be usable. Only this daemon knows of unrecorded ends: if it gave up, their ticks would run again.
    fn longest_fault(&self) -> Duration {
        if self.ended.is_empty() {
            LONGEST_FAULT
        } else {
            LONGEST_FAULT_WITH_ENDS
        }
    }

    /// When [`Self::check_server`] must run next.
    fn server_deadline(&self) -> Option<Moment> {
        if self.runner.shutdown.has_begun() {
            None
        } else if let Some(begun) = self.seeks_since() {
            Some(begun + self.spec.connection.connect_timeout)
        } else if let Some(fault) = self.runner.peer.restarts.fault() {
            let since = self.runner.commands.is_empty().then_some(fault.since);
            since.map(|since| since + self.longest_fault())
        } else {
            let answered = self.answered.filter(|_| !self.runner.is_silent);
            answered.map(|answered| answered + SILENCE + PAUSE)
        }
    }
}

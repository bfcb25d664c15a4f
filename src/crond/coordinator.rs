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
use super::command::{TickCommand, Written};
use super::mail::Sending;
use super::message::{Attempt, Ended, FromScheduler, ToScheduler};
use super::notify::Manager;
use super::scheduler::{self, Kept, Publishes, Resumed};
use crate::base::clock::{Alarm, Moment};
use crate::base::descriptors;
use crate::base::exit::{Ending, Failure, Reason};
use crate::base::log::Log;
use crate::base::text::{counted, shown};
use crate::base::user::local_user;
use crate::cron::{DaemonFacts, Job, load};
use crate::isolated::peer::Peer;
use crate::isolated::restarts::LastingFault;
use crate::lock::{Grant, new_id, own_host};
use crate::supervise::{Board, Outlet, Shutdown, Signals, is_over, signals_and_alarm};

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
    let (signals, alarm) = signals_and_alarm()?;
    let collected = signals.collect_all();
    collected.map_err(|error| Failure::refused("collect signals", &error))?;
    let facts = DaemonFacts {
        id: new_id()?,
        host: own_host(),
        pid: getpid().as_raw(),
        user: local_user(),
        slots: descriptors::allow(spec.slots, [DESCRIPTORS, OWN_DESCRIPTORS], log),
    };
    let board =
        Board::new(facts.slots).map_err(|error| Failure::refused("share memory", &error))?;
    let resumed = Resumed::nothing();
    let scheduler = scheduler::fork_off(spec, &jobs, &facts, board, log.shown, resumed)?;
    let coordinator = Coordinator {
        spec,
        facts,
        log,
        signals,
        alarm,
        board,
        jobs,
        publishes: Publishes::IfChanged,
        scheduler: Peer::new("the scheduler", scheduler),
        running: Vec::new(),
        grace: None,
        ended: HashMap::new(),
        lingering: Vec::new(),
        outlets: Outlet::both(),
        mails: Vec::new(),
        manager: Manager::of_process(),
        was_asked: false,
        is_hurried: false,
        shutdown: Shutdown::default(),
        leaves_since: None,
        left: None,
        begun: Some(Moment::now()),
        answered: None,
        is_silent: false,
        last_note: "connecting".to_owned(),
    };
    coordinator.run()
}

struct Coordinator<'a> {
    spec: &'a Spec,
    facts: DaemonFacts,
    log: Log,
    signals: Signals,
    alarm: Alarm,
    /// The running commands, for the scheduler.
    board: Board,
    /// The jobs of the file, in order.
    jobs: Vec<Rc<Job>>,
    /// Whether to put them in force.
    publishes: Publishes,
    scheduler: Peer<ToScheduler, FromScheduler>,
    running: Vec<TickCommand>,
    /// After a pause of this process leases may look over although they are not. Until then a renewal may still arrive.
    grace: Option<Moment>,
    /// Ends of attempts, by run id, that may not be recorded yet.
    ended: HashMap<String, Unrecorded>,
    /// The output of attempts that are over, but have left processes that may still write.
    lingering: Vec<Written>,
    /// dblock's stdout and stderr, where they write.
    outlets: [Outlet; 2],
    /// Processes that send mail.
    mails: Vec<Sending>,
    manager: Manager,
    /// Whether a signal has asked the daemon to end, and whether a second one has.
    was_asked: bool,
    is_hurried: bool,
    /// Once it has begun, no more ticks are taken.
    shutdown: Shutdown,
    /// Since when only the scheduler still has to finish.
    leaves_since: Option<Moment>,
    /// When the scheduler had finished.
    left: Option<Moment>,
    /// When the daemon began to put its file in force; `None`: that is done.
    begun: Option<Moment>,
    /// When the server last answered; `None`: it has not answered yet.
    answered: Option<Moment>,
    is_silent: bool,
    last_note: String,
}

/// An attempt whose end may not be recorded yet.
struct Unrecorded {
    job: Rc<Job>,
    attempt: Attempt,
    grant: Grant,
    ended: Ended,
}

impl Coordinator<'_> {
    fn run(mut self) -> anyhow::Result<Ending> {
        loop {
            self.reap();
            self.restart_scheduler();
            if let Some(conclusion) = self.check_deadlines() {
                self.manager.tell("STOPPING=1");
                self.end_output();
                return conclusion;
            }
            if let Err(error) = self.wait() {
                for command in &self.running {
                    command.running.child.signal(libc::SIGKILL);
                }
                self.scheduler.end();
                return Err(error.into());
            }
        }
    }

    /// Starts a scheduler for the jobs of the file.
    fn fork_scheduler(&mut self) -> Result<(), Failure> {
        let running = self.running.iter().map(|command| Kept {
            job: Rc::clone(&command.job),
            attempt: command.attempt.clone(),
            grant: command.grant,
            lease: command.lease,
            ended: None,
        });
        let ended = self.ended.values().map(|one| Kept {
            job: Rc::clone(&one.job),
            attempt: one.attempt.clone(),
            grant: one.grant,
            lease: None,
            ended: Some(one.ended.clone()),
        });
        let resumed = Resumed {
            publishes: self.publishes,
            kept: running.chain(ended).collect(),
            is_stopped: self.shutdown.has_begun(),
        };
        let (spec, facts, shown) = (self.spec, &self.facts, self.log.shown);
        let forked = scheduler::fork_off(spec, &self.jobs, facts, self.board, shown, resumed)?;
        self.scheduler.replace(forked);
        if self.leaves_since.is_some() {
            self.scheduler.send(ToScheduler::Leave);
        }
        Ok(())
    }

    /// Starts another scheduler if one has ended and the restart is due.
    fn restart_scheduler(&mut self) {
        if self.scheduler.restarts.take_due()
            && let Err(failure) = self.fork_scheduler()
        {
            self.stop(NO_LIMIT, Err(failure.into()));
        }
    }

    /// Reads the file again. A file with errors changes nothing.
    fn reload(&mut self) {
        let file = self.spec.file.display();
        match load(&self.spec.file) {
            Err(lines) => {
                for line in lines {
                    self.log.error(line);
                }
                self.log.error(format_args!(
                    "{file} is wrong; what was read before stays in force"
                ));
            }
            Ok(crontab) => {
                // Ticks that the scheduler has already taken start with the old file.
                self.read_last_messages();
                self.jobs = crontab.jobs.into_iter().map(Rc::new).collect();
                let count = counted(self.jobs.len(), "job");
                self.log.warning(format_args!("read {file} again: {count}"));
                self.publishes = Publishes::All;
                if let Err(failure) = self.fork_scheduler() {
                    self.stop(NO_LIMIT, Err(failure.into()));
                }
            }
        }
    }

    /// Takes no more ticks, and notes dblock's exit.
    fn stop(&mut self, grace: Duration, conclusion: anyhow::Result<Ending>) {
        self.shutdown.begin(grace, conclusion);
        self.scheduler.send(ToScheduler::Stop);
    }

    /// Does what is due by the clock. Returns how dblock ends, if it does.
    fn check_deadlines(&mut self) -> Option<anyhow::Result<Ending>> {
        self.check_commands();
        self.check_mails();
        self.manager.live();
        self.check_scheduler();
        self.check_server();
        if self.shutdown.has_begun() && self.running.is_empty() {
            self.leave()
        } else {
            None
        }
    }

    /// When the search for a server began; `None`: one has answered since.
    fn seeks_since(&self) -> Option<Moment> {
        self.begun.filter(|_| self.answered.is_none())
    }

    /// Gives up if no server was ever reached, or if none can be used any more and nothing runs. Reports a server that falls silent.
    fn check_server(&mut self) {
        if self.shutdown.has_begun() {
            return;
        }
        let limit = self.spec.connection.connect_timeout;
        if let Some(begun) = self.seeks_since() {
            if is_over(Some(begun + limit)) {
                let line = format!(
                    "no server could be reached within {}: {}",
                    shown(limit),
                    self.last_note
                );
                let failure = Failure::new(Reason::Unreachable, line);
                self.stop(NO_LIMIT, Err(failure.into()));
            }
            return;
        }
        if let Some(LastingFault { since, failure }) = self.scheduler.restarts.fault() {
            if self.running.is_empty() && is_over(Some(*since + self.longest_fault())) {
                let failure = failure.clone();
                self.stop(NO_LIMIT, Err(failure.into()));
            }
            return;
        }
        let Some(silent_for) = self.answered.map(Moment::elapsed) else {
            return;
        };
        if !self.is_silent && silent_for > SILENCE + LATE {
            // This process was stopped, or the machine slept, so it could not receive answers.
            self.answered = Some(Moment::now());
            return;
        }
        if silent_for > SILENCE && !std::mem::replace(&mut self.is_silent, true) {
            self.log.warning(format_args!(
                "no server has answered for {}: {}; trying again",
                shown(silent_for),
                self.last_note
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
        if self.shutdown.has_begun() {
            None
        } else if let Some(begun) = self.seeks_since() {
            Some(begun + self.spec.connection.connect_timeout)
        } else if let Some(fault) = self.scheduler.restarts.fault() {
            let since = self.running.is_empty().then_some(fault.since);
            since.map(|since| since + self.longest_fault())
        } else {
            let answered = self.answered.filter(|_| !self.is_silent);
            answered.map(|answered| answered + SILENCE + PAUSE)
        }
    }

    /// When something must be done, unless an event comes first.
    fn deadline(&mut self) -> Option<Moment> {
        let commands = self.commands_deadline();
        let mails = self.mails.iter().filter_map(Sending::deadline).min();
        let alive = self.manager.live();
        [
            commands,
            mails,
            alive,
            self.scheduler
                .is_there()
                .then(|| self.scheduler.heard_at + LONGEST_HANG + PAUSE),
            self.scheduler.restarts.next(),
            self.server_deadline(),
            self.leave_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

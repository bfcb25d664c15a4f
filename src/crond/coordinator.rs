//! The process of a daemon that a user sees: it reads the file, starts attempts, passes on what they write, and says how they ended. It
//! never waits for a server.

mod attempts;
mod events;
mod leaving;

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getpid};

use attempts::Running;

use super::Spec;
use super::mail::Sending;
use super::message::{Ended, ToScheduler};
use super::notify::Manager;
use super::output::Outlet;
use super::scheduler::{self, Publishes, Resumed};
use crate::base::clock::{Alarm, Moment};
use crate::base::descriptors;
use crate::base::exit::{Ending, Failure, Reason};
use crate::base::log::Log;
use crate::base::text::{counted, in_words, shown};
use crate::base::user::local_user;
use crate::cron::{DaemonFacts, Job, load};
use crate::isolated::link::Link;
use crate::isolated::process::end_within;
use crate::lock::{own_host, random_id};
use crate::supervise::{Signals, is_over};

/// How long the coordinator waits for the end of a scheduler that it has killed.
const END_LIMIT: Duration = Duration::from_millis(200);

/// So many schedulers may die one after the other before the daemon gives up, each of them within this time of its start.
const MOST_DEATHS: u32 = 5;
const SHORT_LIFE: Duration = Duration::from_secs(1);

/// Before a scheduler that died is replaced by another, and before something that did not work is tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// The same after a scheduler that could do nothing: a part of the time that this lasts already, within these bounds.
const PART_OF_FAULT: u32 = 4;
const FAULT_PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// A server that refuses a daemon which has worked, or has no tables, may do so for this long: a password is changed, a backup is restored.
/// Longer where it has not heard how a command has ended.
const LONGEST_FAULT: Duration = Duration::from_secs(60);
const LONGEST_FAULT_WITH_ENDS: Duration = Duration::from_secs(3600);

/// Commands may go on for as long as their own locks and timeouts allow.
const NO_LIMIT: Duration = Duration::MAX;

/// A server that is silent for so long is worth a line.
const SILENCE: Duration = Duration::from_secs(30);

/// A scheduler that says nothing for so long hangs: it is stopped, or a name is looked up for ever. To try all servers of a list takes less.
const LONGEST_HANG: Duration = Duration::from_secs(120);

/// A coordinator that looks so much later than it wanted to did not go on for a while.
const LATE: Duration = Duration::from_secs(5);

/// Descriptors for a command: its link, what it writes, and its mail and that of one before; and for the rest.
const DESCRIPTORS: u64 = 5;
const OWN_DESCRIPTORS: u64 = 300;

/// Runs a daemon to its end, and returns how dblock is to end.
///
/// # Errors
/// What kept it from going on.
pub fn run(spec: &Spec, log: Log) -> anyhow::Result<Ending> {
    let jobs = match load(&spec.file) {
        Ok(crontab) => crontab.jobs.into_iter().map(Rc::new).collect(),
        Err(lines) => {
            for line in lines {
                log.error(line);
            }
            return Ok(Ending::Code(Reason::Configuration.code()));
        }
    };
    let refused = |what: &str, error: &std::io::Error| {
        let line = format!("cannot {what}: {}", in_words(error));
        Failure::new(Reason::OsRefused, line)
    };
    let signals = Signals::collect().map_err(|error| refused("collect signals", &error))?;
    signals
        .collect_all()
        .map_err(|error| refused("collect signals", &error))?;
    // A limit on the size of files (`ulimit -f`) is to be an error. The commands have the mask that was inherited.
    let limit = SigSet::from_iter([Signal::SIGXFSZ]).thread_block();
    limit.map_err(|error| refused("collect signals", &error.into()))?;
    let alarm = Alarm::new().map_err(|error| refused("make a timer", &error))?;
    let facts = DaemonFacts {
        id: random_id()?,
        host: own_host(),
        pid: getpid().as_raw(),
        user: local_user(),
        slots: descriptors::allow(spec.slots, [DESCRIPTORS, OWN_DESCRIPTORS], log),
    };
    let mut coordinator = Coordinator {
        spec,
        facts,
        log,
        signals,
        alarm,
        jobs,
        publishes: Publishes::IfChanged,
        scheduler: None,
        scheduler_since: Moment::now(),
        restart_at: None,
        outbox: VecDeque::new(),
        running: Vec::new(),
        ended: HashMap::new(),
        lingering: Vec::new(),
        outlets: Outlet::both(),
        mails: Vec::new(),
        manager: Manager::of_process(),
        was_asked: false,
        is_hurried: false,
        ending: None,
        leaves_since: None,
        left: None,
        begun: Some(Moment::now()),
        answered: None,
        heard: Moment::now(),
        is_silent: false,
        deaths: 0,
        fault: None,
        last_note: "connecting".to_owned(),
        conclusion: None,
    };
    coordinator.fork_scheduler()?;
    coordinator.run()
}

struct Coordinator<'a> {
    spec: &'a Spec,
    facts: DaemonFacts,
    log: Log,
    signals: Signals,
    alarm: Alarm,
    /// The jobs of the file, in its order.
    jobs: Vec<Rc<Job>>,
    /// Whether they are to be put in force.
    publishes: Publishes,
    /// The scheduler's process, until it is reaped, and the link to it.
    scheduler: Option<(Pid, Link)>,
    /// When that was started, and when another one is started in the place of one that has ended.
    scheduler_since: Moment,
    restart_at: Option<Moment>,
    /// What it has no room for yet: nobody here waits for it.
    outbox: VecDeque<ToScheduler>,
    running: Vec<Running>,
    /// Ends of attempts, by their runs, of which the server may not know.
    ended: HashMap<String, Ended>,
    /// Attempts that are over, and of whose command something is left that may write.
    lingering: Vec<Running>,
    /// Where they write.
    outlets: [Outlet; 2],
    /// Processes that send mail.
    mails: Vec<Sending>,
    manager: Manager,
    /// Whether a signal has asked it to end, and whether a second one has.
    was_asked: bool,
    is_hurried: bool,
    /// Until when commands may go on; `None`: it is not asked to end.
    ending: Option<Moment>,
    /// Since when only the scheduler has something to do.
    leaves_since: Option<Moment>,
    /// When that was done.
    left: Option<Moment>,
    /// When it began to put its file in force; `None`: that was done.
    begun: Option<Moment>,
    /// When the server answered last; `None`: it has not yet.
    answered: Option<Moment>,
    /// When the scheduler said something last, or was started.
    heard: Moment,
    is_silent: bool,
    /// How many schedulers have died one after the other, each soon after its start.
    deaths: u32,
    /// Since when none can do anything, and why.
    fault: Option<(Moment, Failure)>,
    last_note: String,
    conclusion: Option<anyhow::Result<Ending>>,
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
                for running in &self.running {
                    running.signal(libc::SIGKILL);
                }
                self.end_scheduler();
                return Err(error.into());
            }
        }
    }

    /// Starts a scheduler for the jobs of the file.
    fn fork_scheduler(&mut self) -> Result<(), Failure> {
        let running = self.running.iter().map(|one| one.start.run.clone());
        let resumed = Resumed {
            publishes: self.publishes,
            running: running.collect(),
            ended: self.ended.values().cloned().collect(),
            is_stopped: self.ending.is_some(),
        };
        let (spec, facts, shown) = (self.spec, &self.facts, self.log.shown);
        self.restart_at = None;
        self.outbox.clear();
        let forked = scheduler::fork_off(spec, &self.jobs, facts, shown, resumed)?;
        self.scheduler = Some(forked);
        (self.scheduler_since, self.heard) = (Moment::now(), Moment::now());
        if self.leaves_since.is_some() {
            self.send(ToScheduler::Leave);
        }
        Ok(())
    }

    /// Starts another scheduler where one has ended a moment ago.
    fn restart_scheduler(&mut self) {
        if is_over(self.restart_at)
            && let Err(failure) = self.fork_scheduler()
        {
            self.stop(NO_LIMIT, Err(failure.into()));
        }
    }

    /// Ends the scheduler's process.
    fn end_scheduler(&mut self) {
        self.outbox.clear();
        if let Some((pid, _)) = self.scheduler.take() {
            end_within(pid, END_LIMIT);
        }
    }

    /// Tells the scheduler something, as soon as it has room for that.
    fn send(&mut self, message: ToScheduler) {
        self.outbox.push_back(message);
        self.send_rest();
    }

    fn send_rest(&mut self) {
        let Some((_, link)) = &self.scheduler else {
            return self.outbox.clear();
        };
        while let Some(message) = self.outbox.front() {
            match link.try_send(message, None) {
                Ok(true) => self.outbox.pop_front(),
                Ok(false) => return,
                // It has ended, and the next one is told all of it.
                Err(_) => return self.outbox.clear(),
            };
        }
    }

    /// Reads the file again. One with errors changes nothing.
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
                // What it has taken already is started as the file had it then.
                self.hear_last_words();
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

    /// Takes no more ticks. How dblock ends, unless that is known already; what has failed is not hidden by what went well.
    fn stop(&mut self, grace: Duration, conclusion: anyhow::Result<Ending>) {
        let until = Moment::now() + grace;
        self.ending = Some(self.ending.map_or(until, |before| before.min(until)));
        if !matches!(self.conclusion, Some(Err(_)))
            && (conclusion.is_err() || self.conclusion.is_none())
        {
            self.conclusion = Some(conclusion);
        }
        self.send(ToScheduler::Stop);
    }

    /// Does what is due by the clock; how dblock ends, if it does.
    fn check_deadlines(&mut self) -> Option<anyhow::Result<Ending>> {
        if self.ending.is_some_and(|until| is_over(Some(until))) {
            for running in &mut self.running {
                running.stop();
            }
        }
        for running in &mut self.running {
            running.kill_if_due();
        }
        self.check_mails();
        self.manager.live();
        self.check_scheduler();
        self.check_server();
        if self.ending.is_some() && self.running.is_empty() {
            self.leave()
        } else {
            None
        }
    }

    /// When it began to seek a server; `None`: one has answered since.
    fn seeks_since(&self) -> Option<Moment> {
        self.begun.filter(|_| self.answered.is_none())
    }

    /// Gives up where no server was ever reached, or where none is of use any more and nothing runs; says when one falls silent.
    fn check_server(&mut self) {
        if self.ending.is_some() {
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
        if let Some((since, failure)) = &self.fault {
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
            // This process was stopped, or the machine slept: it has listened to nobody.
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

    /// How long a server may be of no use. Only this daemon knows how commands have ended of which none has taken note: their ticks would
    /// run again.
    fn longest_fault(&self) -> Duration {
        if self.ended.is_empty() {
            LONGEST_FAULT
        } else {
            LONGEST_FAULT_WITH_ENDS
        }
    }

    /// When [`Self::check_server`] has something to do.
    fn server_deadline(&self) -> Option<Moment> {
        if self.ending.is_some() {
            None
        } else if let Some(begun) = self.seeks_since() {
            Some(begun + self.spec.connection.connect_timeout)
        } else if let Some((since, _)) = &self.fault {
            let since = self.running.is_empty().then_some(*since);
            since.map(|since| since + self.longest_fault())
        } else {
            let answered = self.answered.filter(|_| !self.is_silent);
            answered.map(|answered| answered + SILENCE + PAUSE)
        }
    }

    /// When something is to be done unless something happens before.
    fn deadline(&mut self) -> Option<Moment> {
        let stop = self
            .ending
            .filter(|_| self.running.iter().any(|one| one.stopped.is_none()));
        let kills = self.running.iter().filter_map(Running::kill_at).min();
        let mails = self.mails.iter().filter_map(Sending::deadline).min();
        let alive = self.manager.live();
        [
            stop,
            kills,
            mails,
            alive,
            self.scheduler
                .is_some()
                .then(|| self.heard + LONGEST_HANG + PAUSE),
            self.restart_at,
            self.server_deadline(),
            self.leave_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

//! The process of a worker that a user sees: it starts commands for the jobs that its claimer has claimed, watches over them, and says
//! what became of each. It never waits for a server.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::socket::{Shutdown, shutdown};
use nix::unistd::{Pid, getpid};

use super::ahead::Pace;
use super::claimer::{self, Resumed};
use super::command::{Cause, Command, Task, Unstarted, failed};
use super::message::{Claimed, FromClaimer, ToClaimer};
use super::payload::Payload;
use super::{Spec, Until};
use crate::base::clock::{Alarm, Moment};
use crate::base::exit::{CONFLICT, Ending, Failure, Reason};
use crate::base::log::{Level, Log};
use crate::base::text::{in_words, shown};
use crate::base::user::local_user;
use crate::isolated::link::Link;
use crate::isolated::process::end;
use crate::lock::{Lease, own_host, run_id_lock};
use crate::queue::{Ended, JobEnd, Queue, Unit, WorkerFacts};
use crate::supervise::{Received, Signals, is_over, reap_orphan, stop};

/// From a turn in which nothing was due to the next, while commands run.
const LOOK: Duration = Duration::from_secs(1);

/// How long a worker that has nothing any more waits for the server to know that it is gone.
const LEAVE: Duration = Duration::from_millis(800);

/// Before a claimer that died is replaced by another.
const PAUSE: Duration = Duration::from_millis(100);

/// So many claimers may die one after the other before the worker gives up.
const MOST_DEATHS: u32 = 5;

/// A lease that is found over so long after its time: this process was stopped, or the machine slept.
const OVERSLEPT: Duration = Duration::from_millis(500);

/// Descriptors that a command needs here, and those of dblock's own.
const DESCRIPTORS: u64 = 6;
const OWN_DESCRIPTORS: u64 = 64;

/// Bytes of a message at most that tells what has ended.
const LONGEST_MESSAGE: usize = 12 * 1024;

/// Runs a worker to its end, and returns how dblock is to end.
///
/// # Errors
/// What kept it from going on.
pub fn work(spec: &Spec, log: Log) -> anyhow::Result<Ending> {
    let signals = Signals::collect().map_err(|error| refused("collect signals", &error))?;
    let alarm = Alarm::new().map_err(|error| refused("make a timer", &error))?;
    allow_descriptors(spec.jobs);
    let facts = WorkerFacts {
        run: run_id_lock()?.trim_start_matches('#').to_owned(),
        host: own_host(),
        pid: getpid().as_raw(),
        user: local_user(),
        program: spec.program(),
        slots: spec.jobs,
    };
    let claimer = claimer::fork_off(spec, &facts, log.shown, None)?;
    let coordinator = Coordinator {
        spec,
        facts,
        log,
        signals,
        alarm,
        claimer: Some(claimer),
        session: None,
        registered: None,
        lease: None,
        grace: None,
        buffer: VecDeque::new(),
        units: HashMap::new(),
        commands: Vec::new(),
        lingering: Vec::new(),
        ended: Vec::new(),
        handed: Vec::new(),
        counts: (0, 0),
        turn: Turning::Ready,
        look_at: Moment::START,
        nothing_due: false,
        pace: Pace::default(),
        mode: Mode::Working,
        leaves_since: None,
        begun: Some(Moment::now()),
        is_silent: false,
        deaths: 0,
        last_note: "connecting".to_owned(),
        started_any: false,
        conclusion: None,
    };
    coordinator.run()
}

fn refused(what: &str, error: &io::Error) -> Failure {
    let line = format!("cannot {what}: {}", in_words(error));
    Failure::new(Reason::OsRefused, line)
}

/// As many descriptors as that many commands need, where the system allows it.
fn allow_descriptors(commands: u32) {
    let wanted = u64::from(commands) * DESCRIPTORS + OWN_DESCRIPTORS;
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < wanted
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard);
    }
}

/// Whether the claimer is ready for a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turning {
    Ready,
    /// It takes one; whether it waits until something is due.
    UnderWay(bool),
    /// It takes leave.
    Leaving,
}

/// Whether commands are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Working,
    /// No more; those that run may go on until then.
    Ending(Moment),
}

/// What was claimed as a whole.
struct Open {
    unit: Unit,
    /// How many jobs it has, and how many of them have ended.
    jobs: u32,
    ended: u32,
    /// Those that are not simply done, or where the rest is given back, all that have ended.
    others: Vec<(u64, JobEnd)>,
    done: Vec<u64>,
    /// Whether a job of it was given back.
    is_given_back: bool,
}

struct Coordinator<'a> {
    spec: &'a Spec,
    facts: WorkerFacts,
    log: Log,
    signals: Signals,
    alarm: Alarm,
    /// Its process, until it is reaped, and the link to it.
    claimer: Option<(Pid, Link)>,
    /// A copy of the claimer's session, to interrupt what is asked on it.
    session: Option<OwnedFd>,
    /// The queue, and the worker's number.
    registered: Option<(Queue, u64)>,
    lease: Option<Lease>,
    /// Until when a lease that was found over on waking may turn out not to be.
    grace: Option<Moment>,
    /// Jobs that are to be started.
    buffer: VecDeque<Task>,
    units: HashMap<u64, Open>,
    commands: Vec<Command>,
    /// What commands that have ended left open, for processes that they have left behind.
    lingering: Vec<File>,
    /// What is to be handed in.
    ended: Vec<Ended>,
    /// What is being handed in.
    handed: Vec<Ended>,
    /// How many jobs are done and how many attempts have failed since the last turn.
    counts: (u64, u64),
    turn: Turning,
    /// When to take a turn although nothing was due.
    look_at: Moment,
    nothing_due: bool,
    pace: Pace,
    mode: Mode,
    /// Since when only the claimer has something to do; `None`: something runs, or more is to be run.
    leaves_since: Option<Moment>,
    /// When it began to seek a server; `None`: it was registered since.
    begun: Option<Moment>,
    /// Whether it was said that no server answers.
    is_silent: bool,
    /// How many claimers have died since the last turn was over.
    deaths: u32,
    /// What was under way last, for the error when no server is reached.
    last_note: String,
    started_any: bool,
    /// How dblock ends, once that is known.
    conclusion: Option<anyhow::Result<Ending>>,
}

impl Coordinator<'_> {
    fn run(mut self) -> anyhow::Result<Ending> {
        loop {
            self.reap();
            self.check_deadlines();
            self.start_commands();
            if let Some(conclusion) = self.take_turn() {
                self.end_claimer();
                return conclusion;
            }
            if let Err(error) = self.wait() {
                for command in &self.commands {
                    command.child.processes.signal(libc::SIGKILL);
                }
                self.end_claimer();
                return Err(error.into());
            }
        }
    }

    /// Stops to start commands. How dblock ends, unless that is known already.
    fn stop(&mut self, grace: Duration, conclusion: anyhow::Result<Ending>) {
        let until = Moment::now() + grace;
        self.mode = match self.mode {
            Mode::Working => Mode::Ending(until),
            Mode::Ending(before) => Mode::Ending(before.min(until)),
        };
        self.conclusion.get_or_insert(conclusion);
        for task in std::mem::take(&mut self.buffer) {
            self.note_outcome(&task, JobEnd::GivenBack);
        }
        // An idle worker waits for the server.
        if self.turn == Turning::UnderWay(true)
            && let Some(session) = &self.session
        {
            self.send(&ToClaimer::Stop);
            let _ = shutdown(session.as_raw_fd(), Shutdown::Both);
        }
    }

    /// Hands in what became of a job.
    fn note_outcome(&mut self, task: &Task, outcome: JobEnd) {
        let Some(open) = self.units.get_mut(&task.unit) else {
            return;
        };
        open.ended += 1;
        match &outcome {
            JobEnd::Done => self.counts.0 += 1,
            JobEnd::Retry(..) | JobEnd::Dead(_) => self.counts.1 += 1,
            JobEnd::Later(_) | JobEnd::GivenBack => {}
        }
        let is_single = open.unit.block == 0;
        if is_single {
            let ended = Ended {
                unit: open.unit.clone(),
                outcome,
                others: Vec::new(),
            };
            self.units.remove(&task.unit);
            self.ended.push(ended);
            return;
        }
        match outcome {
            JobEnd::Done => open.done.push(task.id),
            JobEnd::GivenBack => open.is_given_back = true,
            outcome => open.others.push((task.id, outcome)),
        }
        if open.ended == open.jobs
            && let Some(mut open) = self.units.remove(&task.unit)
        {
            let mut outcome = JobEnd::Done;
            if open.is_given_back {
                outcome = JobEnd::GivenBack;
                let done = open.done.into_iter().map(|job| (job, JobEnd::Done));
                open.others.extend(done);
            }
            self.ended.push(Ended {
                unit: open.unit,
                outcome,
                others: open.others,
            });
        }
    }

    /// What has ended, and whose group is gone where it was ended.
    fn reap(&mut self) {
        let mut at = 0;
        while at < self.commands.len() {
            if !self.commands[at].is_over() {
                at += 1;
                continue;
            }
            let mut command = self.commands.swap_remove(at);
            let is_stopping = self.mode != Mode::Working;
            let took = command.started.elapsed();
            let was_lost = matches!(command.termination, Some((Cause::LeaseOver, _)));
            // Where the worker is lost, others have the jobs.
            let mut ending = None;
            if let Some((queue, _)) = self.registered.clone() {
                let (outcomes, ended) = command.outcome(self.spec, &queue, is_stopping);
                ending = Some(ended);
                for (task, outcome) in outcomes {
                    self.say_outcome(&task, &outcome, took);
                    self.note_outcome(&task, outcome);
                }
            }
            self.pace.note(took);
            if self.spec.until == Until::Once {
                let conclusion = match ending {
                    Some(ending) if !was_lost => Ok(ending),
                    _ => Err(Failure::new(Reason::LockLost, "the lease was lost").into()),
                };
                self.stop(self.spec.grace, conclusion);
            }
            self.lingering.extend(command.stderr.take());
            command.child.reap();
        }
        let own: Vec<Option<i32>> = self
            .commands
            .iter()
            .map(|command| Some(command.child.processes.pid))
            .chain([self.claimer.as_ref().map(|(pid, _)| pid.as_raw())])
            .collect();
        while reap_orphan(&own) {}
    }

    fn say_outcome(&self, task: &Task, outcome: &JobEnd, took: Duration) {
        let (id, span) = (task.id, shown(took));
        let first_line = |error: &str| error.lines().next().unwrap_or_default().to_owned();
        match outcome {
            JobEnd::Done => self.log.info(format_args!("job {id} is done after {span}")),
            JobEnd::Later(delay) => self.log.info(format_args!(
                "job {id} wants to be started again; in {}",
                shown(*delay)
            )),
            JobEnd::GivenBack => self.log.info(format_args!("job {id} is given back")),
            JobEnd::Retry(delay, error) => self.log.info(format_args!(
                "job {id} failed, attempt {}: {}; again in {}",
                task.attempt,
                first_line(error),
                shown(*delay)
            )),
            JobEnd::Dead(error) => self.log.warning(format_args!(
                "job {id} is dead, attempt {}: {}",
                task.attempt,
                first_line(error)
            )),
        }
    }

    /// Ends what must end by now.
    fn check_deadlines(&mut self) {
        let kill_after = self.spec.kill_after;
        for command in &mut self.commands {
            if command.termination.is_none() && is_over(command.time_over) {
                let jobs: Vec<_> = command
                    .tasks
                    .iter()
                    .map(|task| task.id.to_string())
                    .collect();
                self.log.info(format_args!(
                    "job {} has run for {}; ending it",
                    jobs.join(" "),
                    shown(self.spec.timeout.unwrap_or_default())
                ));
                command.end(Cause::TimedOut, kill_after);
            }
        }
        if let Mode::Ending(until) = self.mode
            && is_over(Some(until))
        {
            for command in &mut self.commands {
                command.end(Cause::Stopped, kill_after);
            }
        }
        self.check_lease();
        self.check_leave();
        if is_over(self.reach_by()) {
            let line = format!(
                "no server could be reached within {}: {}",
                shown(self.spec.connection.connect_timeout),
                self.last_note
            );
            let failure = Failure::new(Reason::Unreachable, line);
            self.stop(Duration::ZERO, Err(failure.into()));
        }
    }

    /// By when a server is to be reached; `None`: one was, and is sought for as long as it takes, or nothing more is wanted.
    fn reach_by(&self) -> Option<Moment> {
        if self.mode != Mode::Working || self.claimer.is_none() {
            return None;
        }
        // One that is to end by itself does not wait for ever.
        let lease = self.lease.filter(|_| self.spec.until != Until::Stopped);
        let since = self.begun.or(lease.map(Lease::over))?;
        Some(since + self.spec.connection.connect_timeout)
    }

    /// How many jobs and blocks have ended of which the server may not know.
    fn unrecorded(&self) -> usize {
        self.ended.len() + self.handed.len()
    }

    /// How long the claimer of a worker that ends may take for the rest.
    fn leave_limit(&self) -> Duration {
        // A turn may be claiming what nobody else knows of.
        if self.unrecorded() > 0 || self.turn == Turning::UnderWay(false) {
            self.spec.connection.connect_timeout
        } else {
            LEAVE
        }
    }

    /// A worker that ends does not wait for a server for ever.
    fn check_leave(&mut self) {
        if self.mode == Mode::Working || !self.commands.is_empty() || self.claimer.is_none() {
            return;
        }
        let since = *self.leaves_since.get_or_insert_with(Moment::now);
        let (limit, unrecorded) = (self.leave_limit(), self.unrecorded());
        if !is_over(Some(since + limit)) {
            return;
        }
        if unrecorded > 0 && !matches!(self.conclusion, Some(Err(_))) {
            let line = format!(
                "no server could be reached within {}, and how {unrecorded} jobs have ended is not recorded: {}",
                shown(limit),
                self.last_note
            );
            self.conclusion = Some(Err(Failure::new(Reason::Unreachable, line).into()));
        }
        self.end_claimer();
    }

    fn check_lease(&mut self) {
        let Some(lease) = self.lease else { return };
        let over = lease.end_command(self.spec.kill_after);
        if !is_over(Some(over)) {
            self.grace = None;
            return;
        }
        if self.commands.is_empty() {
            self.say_silence(lease);
            return;
        }
        if over.elapsed() > OVERSLEPT && self.grace.is_none() {
            self.grace = Some(Moment::now() + lease.grace());
        }
        if self.grace.is_some_and(|grace| grace > Moment::now()) {
            return;
        }
        let kill_after = lease
            .kill_after(self.spec.kill_after)
            .min(lease.over().since(Moment::now()));
        let mut any = false;
        for command in &mut self.commands {
            any |= command.termination.is_none();
            command.end(Cause::LeaseOver, kill_after);
        }
        if any {
            self.is_silent = true;
            self.log.error(format_args!(
                "the server has not answered for {}; ending the commands, whose jobs will be others'",
                shown(lease.proved.elapsed())
            ));
        }
    }

    /// Says once that no server answers, while nothing runs.
    fn say_silence(&mut self, lease: Lease) {
        if !std::mem::replace(&mut self.is_silent, true) {
            self.log.warning(format_args!(
                "no server has answered for {}: {}; trying again",
                shown(lease.proved.elapsed()),
                self.last_note
            ));
        }
    }

    /// Whether the lease is good for another command.
    fn may_start(&self) -> bool {
        let good = |lease: Lease| !is_over(Some(lease.end_command(self.spec.kill_after)));
        self.mode == Mode::Working
            && self.lease.is_some_and(good)
            && !(self.spec.until == Until::Once && self.started_any)
    }

    fn start_commands(&mut self) {
        let most = self.spec.jobs_of_command() as usize;
        while self.commands.len() < self.spec.jobs as usize
            && !self.buffer.is_empty()
            && (self.buffer.len() >= most || self.nothing_due)
            && self.may_start()
        {
            let count = most.min(self.buffer.len());
            let tasks: Vec<Task> = self.buffer.drain(..count).collect();
            match Command::start(self.spec, tasks.clone(), &self.signals) {
                Ok(command) => {
                    self.started_any = true;
                    self.commands.push(command);
                }
                Err(Unstarted::Job(why)) => {
                    let Some((queue, _)) = self.registered.clone() else {
                        return;
                    };
                    for task in tasks {
                        let outcome = failed(&task, &queue, &why, "", true);
                        self.say_outcome(&task, &outcome, Duration::ZERO);
                        self.note_outcome(&task, outcome);
                    }
                }
                Err(Unstarted::Worker(failure)) => {
                    for task in tasks {
                        self.note_outcome(&task, JobEnd::GivenBack);
                    }
                    self.stop(self.spec.grace, Err(failure.into()));
                }
            }
        }
    }

    /// How many more jobs are wanted.
    fn want(&self) -> u32 {
        if self.mode != Mode::Working || self.spec.until == Until::Once && self.started_any {
            return 0;
        }
        let jobs = self.spec.jobs_of_command();
        let slots = if self.spec.until == Until::Once {
            1
        } else {
            self.spec.jobs
        };
        let ahead = if self.spec.until == Until::Once {
            0
        } else {
            self.pace.ahead(slots, jobs)
        };
        let running: usize = self
            .commands
            .iter()
            .map(|command| command.tasks.len())
            .sum();
        let in_hand = u32::try_from(self.buffer.len() + running).unwrap_or(u32::MAX);
        let want = slots
            .saturating_mul(jobs)
            .saturating_add(ahead)
            .saturating_sub(in_hand);
        // Not one by one where many are claimed ahead.
        let is_hungry =
            self.commands.len() < self.spec.jobs as usize && self.buffer.len() < jobs as usize;
        if is_hungry || want >= ahead / 2 {
            want
        } else {
            0
        }
    }

    fn is_idle(&self) -> bool {
        self.commands.is_empty() && self.buffer.is_empty() && self.ended.is_empty()
    }

    /// Has the claimer take a turn if there is need for one; how dblock ends when all is over.
    fn take_turn(&mut self) -> Option<anyhow::Result<Ending>> {
        if self.claimer.is_none() {
            if !self.commands.is_empty() {
                return None;
            }
            return self.conclusion.take();
        }
        if self.turn == Turning::Leaving {
            return None;
        }
        let is_ending = self.mode != Mode::Working;
        if is_ending && self.registered.is_none() {
            return self
                .commands
                .is_empty()
                .then(|| self.conclusion.take())
                .flatten();
        }
        if self.turn != Turning::Ready || self.registered.is_none() {
            return None;
        }
        if is_ending && self.commands.is_empty() {
            self.send_ended();
            let counts = std::mem::take(&mut self.counts);
            self.send(&ToClaimer::Leave { counts });
            self.turn = Turning::Leaving;
            return None;
        }
        let want = self.want();
        let is_idle = self.is_idle();
        let looks = want > 0 && (is_idle || is_over(Some(self.look_at)) || !self.nothing_due);
        if self.ended.is_empty() && !looks {
            return None;
        }
        if is_idle && self.nothing_due && self.spec.until != Until::Stopped {
            let code = if self.spec.until == Until::Once {
                CONFLICT
            } else {
                0
            };
            self.stop(Duration::ZERO, Ok(Ending::Code(code)));
            return self.take_turn();
        }
        let waits = is_idle && self.nothing_due;
        self.send_ended();
        let counts = std::mem::take(&mut self.counts);
        self.send(&ToClaimer::Turn {
            want,
            waits,
            counts,
        });
        self.turn = Turning::UnderWay(waits);
        None
    }

    /// Sends what has ended, in messages that are short enough.
    fn send_ended(&mut self) {
        let ended = std::mem::take(&mut self.ended);
        let mut message: Vec<Ended> = Vec::new();
        let mut size = 0;
        for one in &ended {
            let mut others = one.others.as_slice();
            loop {
                let weight = |(_, outcome): &(u64, JobEnd)| 64 + 6 * error_of(outcome).len();
                let mut room = LONGEST_MESSAGE;
                let count = others
                    .iter()
                    .take_while(|other| {
                        room = room.saturating_sub(weight(other));
                        room > 0
                    })
                    .count()
                    .max(1)
                    .min(others.len());
                let (now, rest) = others.split_at(count);
                let own =
                    300 + 6 * error_of(&one.outcome).len() + now.iter().map(weight).sum::<usize>();
                if size + own > LONGEST_MESSAGE && !message.is_empty() {
                    self.send(&ToClaimer::Ended(std::mem::take(&mut message)));
                    size = 0;
                }
                size += own;
                message.push(Ended {
                    unit: one.unit.clone(),
                    outcome: one.outcome.clone(),
                    others: now.to_vec(),
                });
                others = rest;
                if others.is_empty() {
                    break;
                }
            }
        }
        if !message.is_empty() {
            self.send(&ToClaimer::Ended(message));
        }
        self.handed = ended;
    }

    fn send(&self, message: &ToClaimer) {
        if let Some((_, link)) = &self.claimer {
            let _ = link.send(message);
        }
    }

    /// Waits until something happens, and takes notice of it.
    fn wait(&mut self) -> io::Result<()> {
        self.alarm.set(self.deadline())?;
        let readable = |descriptor| PollFd::new(descriptor, PollFlags::POLLIN);
        let mut descriptors: Vec<PollFd> =
            vec![readable(self.signals.as_fd()), readable(self.alarm.as_fd())];
        let claimer = self.claimer.as_ref().map(|(_, link)| link.as_fd());
        descriptors.extend(claimer.map(readable));
        let first_stderr = descriptors.len();
        let all = self
            .commands
            .iter()
            .filter_map(|command| command.stderr.as_ref())
            .chain(&self.lingering);
        descriptors.extend(all.map(|file| readable(file.as_fd())));
        match poll(&mut descriptors, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |at: usize| descriptors.get(at).is_some_and(|fd| fd.any() == Some(true));
        let claimer_says = claimer.is_some() && is_ready(2);
        let says = (first_stderr..descriptors.len()).any(is_ready);
        if says {
            for command in &mut self.commands {
                command.pass_on_stderr();
            }
            self.lingering.retain_mut(|file| !is_at_end(file));
        }
        while let Some(received) = self.signals.next()? {
            self.on_signal(received);
        }
        if claimer_says {
            self.on_claimer();
        }
        Ok(())
    }

    fn deadline(&self) -> Option<Moment> {
        let commands = self.commands.iter().filter_map(Command::deadline).min();
        let lease = self.lease.filter(|_| !self.commands.is_empty());
        let lease = lease.map(|lease| {
            let over = lease.end_command(self.spec.kill_after);
            self.grace.unwrap_or(over)
        });
        // One whose commands are being ended already is not looked at again and again.
        let lease = lease.filter(|_| {
            self.commands
                .iter()
                .any(|command| command.termination.is_none())
        });
        let stop = match self.mode {
            Mode::Ending(until)
                if self
                    .commands
                    .iter()
                    .any(|command| command.termination.is_none()) =>
            {
                Some(until)
            }
            _ => None,
        };
        let connect = self.reach_by();
        let hand_in = self.leaves_since.filter(|_| self.claimer.is_some());
        let hand_in = hand_in.map(|since| since + self.leave_limit());
        let silence = self
            .lease
            .filter(|_| self.commands.is_empty() && !self.is_silent);
        let silence = silence.map(|lease| lease.end_command(self.spec.kill_after));
        let look = match self.turn {
            Turning::Ready if self.want() > 0 && self.registered.is_some() => Some(self.look_at),
            _ => None,
        };
        [commands, lease, stop, connect, hand_in, silence, look]
            .into_iter()
            .flatten()
            .min()
    }

    fn on_signal(&mut self, received: Received) {
        let Received {
            signal,
            from_terminal,
        } = received;
        if signal == Signal::SIGCHLD {
            return;
        }
        if self.signals.asks_to_end(signal) {
            let again = self.mode != Mode::Working;
            if matches!(self.mode, Mode::Ending(until) if is_over(Some(until))) {
                for command in &mut self.commands {
                    if let Some((_, termination)) = &mut command.termination {
                        termination.hurry();
                    }
                }
            }
            let grace = if again {
                Duration::ZERO
            } else {
                self.spec.grace
            };
            if !again {
                let running = self.commands.len();
                self.log.info(format_args!(
                    "{signal}: taking no more jobs; {running} commands may run on for {}",
                    shown(grace)
                ));
            }
            return self.stop(grace, Ok(Ending::Code(0)));
        }
        if signal == Signal::SIGCONT || !from_terminal {
            for command in &self.commands {
                if !from_terminal || command.child.processes.own_group {
                    command.child.processes.signal(signal as i32);
                }
            }
        }
        if signal == Signal::SIGTSTP {
            stop();
        }
    }

    fn on_claimer(&mut self) {
        loop {
            let Some((_, link)) = &self.claimer else {
                return;
            };
            match link.receive::<FromClaimer>() {
                Ok(Some((message, descriptor))) => self.on_message(message, descriptor),
                Ok(None) | Err(_) => return self.on_claimer_gone(),
            }
            let Some((_, link)) = &self.claimer else {
                return;
            };
            if !link.is_readable() {
                return;
            }
        }
    }

    fn on_message(&mut self, message: FromClaimer, descriptor: Option<OwnedFd>) {
        match message {
            FromClaimer::Note(level, text) => {
                self.log.say(level, &text);
                if level == Level::Info {
                    self.last_note = text;
                }
            }
            FromClaimer::Session => self.session = descriptor,
            FromClaimer::Registered(queue, number, lease) => {
                self.begun = None;
                self.registered = Some((*queue, number));
                self.lease = Some(lease);
                self.turn = Turning::Ready;
            }
            FromClaimer::Confirmed(sent) => {
                if let Some(lease) = &mut self.lease {
                    lease.proved = sent;
                }
                if std::mem::take(&mut self.is_silent) {
                    self.log.warning("the server answers again");
                }
            }
            FromClaimer::Claimed(claimed) => {
                if let Some(file) = descriptor {
                    self.take_in(claimed, File::from(file));
                }
            }
            FromClaimer::TurnOver { nothing_due } => {
                self.handed.clear();
                self.deaths = 0;
                self.turn = Turning::Ready;
                self.nothing_due = nothing_due;
                self.look_at = Moment::now() + LOOK;
                if self.mode != Mode::Working {
                    // What was claimed while the worker was asked to end.
                    for task in std::mem::take(&mut self.buffer) {
                        self.note_outcome(&task, JobEnd::GivenBack);
                    }
                }
            }
            FromClaimer::Lost(why) => self.lose(&why),
            FromClaimer::Failed(failure) => self.stop(Duration::ZERO, Err(failure.into())),
            FromClaimer::Left => {
                self.end_claimer();
            }
        }
    }

    fn take_in(&mut self, claimed: Vec<Claimed>, file: File) {
        let file = Rc::new(file);
        for Claimed { unit, of, jobs } in claimed {
            for job in &jobs {
                self.buffer.push_back(Task {
                    unit: unit.job,
                    id: job.id,
                    attempt: unit.attempt,
                    fence: unit.fence,
                    payload: Payload {
                        file: Rc::clone(&file),
                        offset: job.offset,
                        length: job.length,
                    },
                });
            }
            self.units.entry(unit.job).or_insert_with(|| Open {
                unit,
                jobs: of,
                ended: 0,
                others: Vec::new(),
                done: Vec::new(),
                is_given_back: false,
            });
        }
    }

    /// Others have the jobs.
    fn lose(&mut self, why: &str) {
        let running = self.commands.len();
        self.log.error(format_args!(
            "the worker was lost: {why}; ending {running} commands"
        ));
        self.units.clear();
        self.buffer.clear();
        self.ended.clear();
        self.handed.clear();
        self.registered = None;
        self.lease = None;
        self.turn = Turning::Ready;
        self.nothing_due = false;
        for command in &mut self.commands {
            command.tasks.clear();
            command.end(Cause::LeaseOver, Duration::ZERO);
        }
    }

    /// The claimer has ended: another one goes on, unless it said that none can.
    fn on_claimer_gone(&mut self) {
        let is_expected = self.turn == Turning::Leaving
            || self.mode != Mode::Working && self.registered.is_none();
        let how = self.end_claimer();
        if self.conclusion.as_ref().is_some_and(Result::is_err) || is_expected {
            return;
        }
        self.deaths += 1;
        if self.deaths > MOST_DEATHS {
            let failure = Failure::new(
                Reason::Internal,
                format!("the claimer {how}, again and again"),
            );
            return self.stop(Duration::ZERO, Err(failure.into()));
        }
        self.log
            .info(format_args!("the claimer {how}; another one goes on"));
        std::thread::sleep(PAUSE);
        let resumed = self.registered.as_ref().map(|(queue, worker)| {
            let unsent = self.ended.iter().chain(&self.handed);
            let known = self
                .units
                .keys()
                .copied()
                .chain(unsent.map(|ended| ended.unit.job));
            Resumed {
                queue: queue.clone(),
                worker: *worker,
                known: known.collect(),
            }
        });
        let handed = std::mem::take(&mut self.handed);
        self.ended.splice(0..0, handed);
        match claimer::fork_off(self.spec, &self.facts, self.log.shown, resumed) {
            Ok(claimer) => {
                self.claimer = Some(claimer);
                self.turn = Turning::Ready;
            }
            Err(failure) => self.stop(Duration::ZERO, Err(failure.into())),
        }
    }

    /// Ends the claimer's process; how it ended.
    fn end_claimer(&mut self) -> String {
        self.session = None;
        match self.claimer.take() {
            Some((pid, _)) => end(pid),
            None => "is gone".to_owned(),
        }
    }
}

fn error_of(outcome: &JobEnd) -> &str {
    match outcome {
        JobEnd::Retry(_, error) | JobEnd::Dead(error) => error,
        _ => "",
    }
}

/// Passes on what a process says that a command has left behind; whether there is no more.
fn is_at_end(file: &mut File) -> bool {
    let mut bytes = [0; 8192];
    loop {
        match file.read(&mut bytes) {
            Ok(0) => return true,
            Ok(length) => {
                let stderr = io::stderr();
                let stderr: BorrowedFd = stderr.as_fd();
                let _ = crate::base::log::write_at_once(stderr, &bytes[..length]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        }
    }
}

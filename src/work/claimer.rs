//! The process with a worker's session. It registers the worker, claims jobs, renews the lease on all of them, and records the outcomes. It
//! knows nothing of commands, but kills them if the coordinator cannot. If it loses the session, it connects again, and no job is lost.

mod exchange;
mod idle;
mod lease;
mod payloads;
mod pruning;

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::thread::sleep;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::unistd::{Pid, getppid};

use pruning::{EarlyPrune, Pruning};

use super::message::{FromClaimer, ToClaimer, Trouble};
use super::{SESSION_LIMIT, Spec};
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::base::log::{Level, Listener};
use crate::base::processes::Processes;
use crate::base::text::in_words;
use crate::db::{Connector, Fault, Session, command, may_pass};
use crate::isolated::link::{Link, Next, cut, next};
use crate::isolated::process::{detach, die_with, fork_isolated, harden};
use crate::lock::{Introduction, Lease};
use crate::queue::{self, Ended, Marks, Opened, Queue, WorkerFacts, wake_lock};
use crate::schema::Tables;
use crate::supervise::Board;

/// The interval between looks for delayed jobs and dead workers, and between records of the counts.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How long an idle worker waits for the head's place at most.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Pause after a server has refused the account. It may count refusals.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// Refusals further apart than this do not count as one.
const REFUSALS_APART: Duration = Duration::from_secs(5);

/// Most messages that are read before they are acted on.
const MOST_PENDING: usize = 64;

/// Bounds of the pause between attempts.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);

const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// Sleeps, and returns the next pause.
fn sleep_longer(pause: Duration) -> Duration {
    sleep(pause);
    (2 * pause).min(LONGEST_PAUSE)
}

/// Forks the claimer. Returns its process and the link to it. With `resumed`, it takes over a worker from a claimer that has died.
///
/// # Errors
/// [`Reason::OsRefused`].
pub fn fork_off(
    spec: &Spec,
    facts: &WorkerFacts,
    board: Board,
    shown: Level,
    resumed: Option<Resumed>,
) -> Result<(Pid, Link), Failure> {
    fork_isolated(
        |link, parent| claim(spec, facts, board, shown, resumed, &link, parent),
        FromClaimer::Failed,
    )
}

/// What a claimer that died has left behind.
#[derive(Debug, Clone)]
pub struct Resumed {
    /// The queue.
    pub queue: Queue,
    /// The worker's number.
    pub worker: u64,
    /// The lease, as the coordinator knows it.
    pub lease: Option<Lease>,
    /// The claims that the coordinator knows, each by its first job and its fence. All other claims are returned.
    pub known: Vec<(u64, u64)>,
}

fn claim(
    spec: &Spec,
    facts: &WorkerFacts,
    board: Board,
    shown: Level,
    resumed: Option<Resumed>,
    link: &Rc<Link>,
    parent: Pid,
) -> Result<(), Failure> {
    harden(parent)?;
    let notes = Rc::clone(link);
    let listener: Listener = Rc::new(move |level, text| {
        if level < Level::Statement || shown == Level::Statement {
            notes.send_if_heard(&FromClaimer::Note(level, cut(text)));
        }
    });
    let attributes =
        Introduction::of_command("dblock queue work", parent, SESSION_LIMIT).attributes();
    let connector = Connector::new(&spec.connection, attributes, SESSION_LIMIT, listener)?;
    detach(link, c"dblock-claimer")?;
    let tables = Tables::new(&spec.connection.database);
    let lock = wake_lock(tables.database(), &spec.queue);
    let is_resumed = resumed.is_some();
    let mut claimer = Claimer {
        spec,
        facts,
        board,
        coordinator: Coordinator {
            process: Processes {
                pid: parent.as_raw(),
                own_group: false,
            },
            is_outlived: false,
            until: None,
        },
        link,
        pending: VecDeque::new(),
        connector,
        tables,
        lock,
        session: None,
        capped: None,
        fault: None,
        opened: None,
        worker: resumed.map(|resumed| Worker {
            number: resumed.worker,
            queue: resumed.queue,
            turn: None,
            lease: None,
            held_until: resumed.lease.map_or(Moment::START, Lease::over),
            known: Some(resumed.known),
        }),
        ended: Vec::new(),
        counts: (0, 0),
        counted: Moment::now(),
        fruitless_pause: SHORTEST_PAUSE,
        no_room: LONGEST_PAUSE,
        refusals: Refusals {
            latest: None,
            has_worked: is_resumed,
        },
        has_more: false,
        shard: 0,
        head: Head::No,
        timeout: Timeout::OfLease,
        looked: Moment::START,
        marks: Marks::default(),
        pruning: Pruning::new(EarlyPrune::of(spec.until)),
        has_said_paused: false,
        is_stuck: false,
    };
    if claimer.board.has(|_| true) {
        claimer.outlive();
    }
    claimer.run()
}

/// A registered worker.
struct Worker {
    number: u64,
    queue: Queue,
    /// The number of the last turn; `None`: unknown until the worker's row is read.
    turn: Option<u64>,
    /// `None`: must be renewed before anything else.
    lease: Option<Lease>,
    /// When its commands must have ended if no further renewal is confirmed.
    held_until: Moment,
    /// After a takeover: the claims that the coordinator knows. `None`: there is nothing to compare.
    known: Option<Vec<(u64, u64)>>,
}

struct Claimer<'a> {
    spec: &'a Spec,
    facts: &'a WorkerFacts,
    /// The running commands.
    board: Board,
    coordinator: Coordinator,
    link: &'a Link,
    /// Messages that were read, but not acted on yet.
    pending: VecDeque<Next<ToClaimer>>,
    connector: Connector,
    tables: Tables,
    /// The named lock that the head of the idle workers holds.
    lock: String,
    session: Option<Session>,
    /// The session's answer limit, if it was shortened because the lease may end first.
    capped: Option<Duration>,
    /// Why nothing was recorded, as the coordinator knows it.
    fault: Option<Trouble>,
    /// What the session's server can do.
    opened: Option<Opened>,
    worker: Option<Worker>,
    ended: Vec<Ended>,
    /// Jobs done and attempts failed since the counts were last recorded.
    counts: (u64, u64),
    counted: Moment,
    /// Whether more may be due in the shard of the last turn.
    has_more: bool,
    /// The next pause after a look that found something due, but nothing could be claimed: others have it locked.
    fruitless_pause: Duration,
    /// The next pause when the server has no room.
    no_room: Duration,
    refusals: Refusals,
    shard: u16,
    /// Whether this worker is the head of the idle workers.
    head: Head,
    /// How long the server keeps the session without a statement.
    timeout: Timeout,
    /// When it last looked for delayed jobs and dead workers.
    looked: Moment,
    /// Where claims start in the index.
    marks: Marks,
    /// The deletion of old jobs.
    pruning: Pruning,
    /// Whether a worker that ends by itself has logged that its queue is paused.
    has_said_paused: bool,
    /// Whether there was no room for payloads. Then nothing more is claimed.
    is_stuck: bool,
}

/// The process that ends the commands.
struct Coordinator {
    process: Processes,
    /// Whether this process outlives it, as long as commands run.
    is_outlived: bool,
    /// After its death, when its commands are gone: until when the server may be told.
    until: Option<Moment>,
}

/// What is known of refusals that may pass.
struct Refusals {
    latest: Option<Refused>,
    /// Whether any turn of this worker was carried out. Before that a refusal is not one that passes: a privilege is missing, say.
    has_worked: bool,
}

/// Refusals that may pass, one soon after the other.
#[derive(Debug, Clone, Copy)]
struct Refused {
    /// When they began, or the last turn that was carried out since.
    since: Moment,
    /// When the pause after the last one was over.
    last: Moment,
}

/// Whether this worker is the head of the idle workers, which is the next to be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Head {
    /// It is not.
    No,
    /// Its session holds the head's lock.
    Holds,
    /// The server has no named locks: each worker looks for itself.
    WithoutLock,
    /// It may hold the lock; the answer is not known.
    Unknown,
}

/// How long the server keeps a session without a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timeout {
    /// As long as the lease lasts.
    OfLease,
    /// Either of the two: the answer to the statement that sets it is not known.
    Unknown,
    /// Short, as for an idle worker.
    Short,
}

/// Why a turn failed.
enum Stop {
    /// The lease was over, and others have the jobs.
    Lost,
    /// The server has lost turns that it had confirmed. The next claimer continues with the claims that the coordinator knows.
    Forgotten,
    /// There is no room for the payloads of what was claimed.
    NoPayloads(Failure),
    /// The claimer cannot go on.
    Failed(Failure),
}

impl Claimer<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        loop {
            let leased = self.ensure_lease();
            if leased.is_err() {
                if !self.goes_on(leased)? {
                    return Ok(());
                }
                continue;
            }
            let number = self.worker.as_ref().map_or(0, |worker| worker.number);
            let turned = match self.next() {
                Next::Message(message) if !message.is_for(number) => Ok(()),
                Next::Message(ToClaimer::Ended(_, ended)) => {
                    self.take_in(ended);
                    Ok(())
                }
                Next::Message(ToClaimer::Turn {
                    want,
                    waits,
                    is_last,
                    counts,
                    ..
                }) => {
                    self.count(counts);
                    self.take_turn(want, waits, is_last)
                }
                Next::Message(ToClaimer::Stop) => Ok(()),
                Next::Message(ToClaimer::Deregister { counts, .. }) => {
                    self.count(counts);
                    let turned = self.deregister();
                    if turned.is_ok() {
                        // The coordinator ends this process at once, so close the session first.
                        self.session = None;
                        self.say(&FromClaimer::Deregistered);
                    }
                    return self.goes_on(turned).map(|_| ());
                }
                Next::Gone => {
                    self.outlive_coordinator();
                    return Ok(());
                }
                Next::Late => self.renew(),
            };
            if !self.goes_on(turned)? {
                return Ok(());
            }
        }
    }

    /// From here on commands may run. If the coordinator dies, this process must hold their jobs until they are gone.
    fn outlive(&mut self) {
        if !std::mem::replace(&mut self.coordinator.is_outlived, true) {
            let _ = prctl::set_pdeathsig(None);
        }
    }

    /// No command runs: the kernel ends this process with the coordinator.
    fn die_with_coordinator(&mut self) -> Result<(), Stop> {
        if std::mem::take(&mut self.coordinator.is_outlived) {
            die_with(Pid::from_raw(self.coordinator.process.pid)).map_err(Stop::Failed)?;
        }
        Ok(())
    }

    fn is_orphan(&self) -> bool {
        getppid().as_raw() != self.coordinator.process.pid
    }

    /// Ends this process if the coordinator has died, once nothing runs.
    fn check_coordinator(&self) -> Result<(), Stop> {
        let is_over = match self.coordinator.until {
            Some(until) => until <= Moment::now(),
            None => self.coordinator.is_outlived && self.is_orphan() && !self.board.kill_all(),
        };
        if is_over {
            let line = "the supervisor is gone";
            return Err(Stop::Failed(Failure::new(Reason::OsRefused, line)));
        }
        Ok(())
    }

    /// The coordinator has died: kills its commands, and renews the lease until they are gone. A command of another user may not be killed,
    /// and nobody else gets its job while it runs. Then the others get all of its jobs.
    fn outlive_coordinator(&mut self) {
        let mut pause = SHORTEST_PAUSE;
        // A dying process closes its descriptors first.
        while !self.is_orphan() || self.board.kill_all() {
            pause = sleep_longer(pause);
            if self.keep_lease().is_err() {
                return;
            }
        }
        // If the server cannot be told, the others find out when the lease is over.
        self.coordinator.until = Some(Moment::now() + LONGEST_WAIT);
        let _ = self.deregister();
    }

    /// Whether this claimer goes on after a turn.
    fn goes_on(&mut self, turned: Result<(), Stop>) -> Result<bool, Failure> {
        match turned {
            Ok(()) => {}
            Err(Stop::Lost) => self.lose(),
            Err(Stop::Forgotten) => {
                let line = "the server has lost what it had confirmed".to_owned();
                self.say(&FromClaimer::Note(Level::Warning, line));
                return Ok(false);
            }
            Err(Stop::Failed(failure) | Stop::NoPayloads(failure)) => return Err(failure),
        }
        Ok(true)
    }

    /// The next message. `Late`: a renewal is due, or the server has ended the session.
    fn next(&mut self) -> Next<ToClaimer> {
        if let Some(next) = self.pending.pop_front() {
            return next;
        }
        let due = self.renewal_due();
        while let Some(session) = &self.session {
            let left = due.map_or(LONGEST_WAIT, |due| due.since(Moment::now()));
            let millis = u16::try_from(left.as_micros().div_ceil(1000)).unwrap_or(u16::MAX);
            let readable = |descriptor| PollFd::new(descriptor, PollFlags::POLLIN);
            let mut descriptors = [readable(self.link.as_fd()), readable(session.as_fd())];
            let ready = poll(&mut descriptors, PollTimeout::from(millis));
            let [says, has_ended] = descriptors.map(|descriptor| descriptor.any() == Some(true));
            if says || due.is_some_and(|due| due <= Moment::now()) {
                break;
            }
            if ready.is_ok() && has_ended {
                let line = format!("{session} has ended the session");
                session.tell(Level::Info, &line);
                self.session = None;
                self.say_fault(&line);
                return Next::Late;
            }
        }
        next(self.link, due)
    }

    /// Whether there is a message to act on.
    fn has_message(&self) -> bool {
        !self.pending.is_empty() || self.link.is_readable()
    }

    /// Whether the worker is to end, so that something that can be left undone must not delay that.
    fn is_to_end(&mut self) -> bool {
        while self.pending.len() < MOST_PENDING && self.link.is_readable() {
            let next = next(self.link, Some(Moment::now()));
            let is_gone = matches!(next, Next::Gone);
            self.pending.push_back(next);
            if is_gone {
                break;
            }
        }
        let mut pending = self.pending.iter();
        pending.any(|next| match next {
            Next::Message(message) => message.is_about_the_end(),
            Next::Gone => true,
            Next::Late => false,
        })
    }

    fn count(&mut self, (done, failed): (u64, u64)) {
        self.counts.0 += done;
        self.counts.1 += failed;
        self.pruning.count(done);
    }

    fn say(&self, message: &FromClaimer) {
        let _ = self.link.send(message);
    }

    /// Sends a message. While the link is full it renews the lease, so that a worker with a stopped coordinator keeps its jobs.
    fn send_in_time(
        &mut self,
        message: &FromClaimer,
        descriptor: Option<BorrowedFd>,
    ) -> Result<(), Stop> {
        let mut has_waited = false;
        // If the coordinator is gone, receiving the next message shows that.
        while !self.link.try_send(message, descriptor).unwrap_or(true) {
            has_waited = true;
            let due = self.renewal_due();
            let left = due.map_or(LONGEST_WAIT, |due| due.since(Moment::now()));
            self.link.await_room(left.max(SHORTEST_PAUSE));
            // There may be room in the link, and none in the system.
            sleep(SHORTEST_PAUSE);
            self.keep_lease()?;
        }
        if has_waited {
            self.resend();
        }
        Ok(())
    }

    /// Sends again what the full link may have dropped.
    fn resend(&mut self) {
        if let Some(lease) = self.worker.as_ref().and_then(|worker| worker.lease) {
            self.link
                .send_if_heard(&FromClaimer::Confirmed(lease.proved));
        }
        if let Some(session) = &self.session {
            let _ = self
                .link
                .try_send(&FromClaimer::Session, Some(session.as_fd()));
        }
    }

    /// Tells the coordinator why there is no session, unless it knows.
    fn say_fault(&mut self, line: &str) {
        self.set_fault(Some(Trouble {
            line: cut(line),
            answers: false,
        }));
    }

    /// Tells the coordinator why nothing is recorded, or that recording works again, unless it knows.
    fn set_fault(&mut self, fault: Option<Trouble>) {
        if self.fault != fault {
            self.link.send_if_heard(&FromClaimer::Fault(fault.clone()));
            self.fault = fault;
        }
    }

    /// Adds outcomes to those that the next turn records.
    fn take_in(&mut self, ended: Vec<Ended>) {
        for mut one in ended {
            match self.ended.last_mut() {
                Some(last) if last.unit == one.unit => {
                    // The block may have ended since its first message.
                    last.outcome = one.outcome;
                    last.others.append(&mut one.others);
                }
                _ => self.ended.push(one),
            }
        }
    }

    /// The session, or a new one. It retries without limit: the coordinator sets the limits.
    fn session(&mut self) -> Result<&mut Session, Stop> {
        let session = match self.session.take() {
            Some(session) => session,
            None => self.connect()?,
        };
        Ok(self.session.insert(session))
    }

    fn connect(&mut self) -> Result<Session, Stop> {
        (self.head, self.timeout) = (Head::No, Timeout::OfLease);
        let begun = Moment::now();
        self.marks.forget();
        loop {
            self.end_commands_of_the_stopped();
            self.check_coordinator()?;
            let (tables, name) = (&self.tables, &self.spec.queue);
            let limit = self.limit_by_lease(self.answer_limit());
            self.capped = Some(limit);
            let opened = self.connector.connect_within(limit, |session| {
                session
                    .answer_within(limit)
                    .map_err(|error| Fault::Gone(in_words(&error)))?;
                queue::open_for_work(tables, name, session)
            });
            match opened {
                Ok((session, opened)) => {
                    // If the link is full, this is sent later.
                    let _ = self
                        .link
                        .try_send(&FromClaimer::Session, Some(session.as_fd()));
                    self.fault = None;
                    self.opened = Some(opened);
                    return Ok(session);
                }
                // A server that is still starting may not know the account yet. That must not end commands before the lease does.
                Err(Fault::Final(failure))
                    if may_pass(&failure)
                        && let Some(worker) = &self.worker
                        && begun.elapsed() < worker.queue.ttl =>
                {
                    self.say_fault(&failure.line);
                    sleep(self.limit_by_lease(REFUSED_PAUSE));
                }
                Err(Fault::Final(failure)) => return Err(Stop::Failed(failure)),
                Err(fault) => {
                    self.report_read_only(&fault);
                    if let Some(last) = self.connector.passed_over().pop() {
                        self.say_fault(&last.line);
                    }
                    sleep(self.limit_by_lease(self.connector.pause()));
                }
            }
        }
    }

    /// How long to wait for an answer, with time for an idle worker's wait.
    fn answer_limit(&self) -> Duration {
        self.connector.attempt_limit() + LONGEST_WAIT
    }

    /// Shortens a limit to the moment when the running commands must have ended, since the coordinator may be stopped by then.
    fn limit_by_lease(&self, limit: Duration) -> Duration {
        let held_until = self.worker.as_ref().map(|worker| worker.held_until);
        let left = held_until.map(|until| until.since(Moment::now()));
        match left.filter(|left| !left.is_zero() && self.board.has(|_| true)) {
            Some(left) => limit.min(left.max(SHORTEST_PAUSE)),
            None => limit,
        }
    }

    /// Kills the commands whose jobs others may have, if the coordinator is stopped. A running coordinator ends them itself, and may reap
    /// them at any moment.
    fn end_commands_of_the_stopped(&self) {
        let held = |worker: &&Worker| worker.held_until > Moment::now();
        let held = self.worker.as_ref().filter(held);
        let held = held.map(|worker| worker.number);
        let is_over = |worker| Some(worker) != held;
        if self.board.has(is_over) && self.coordinator.process.is_stopped() {
            self.board.kill(is_over);
        }
    }

    /// Limits the session's wait for the next answer to the remaining lease.
    fn cap_answer(&mut self) -> Result<(), Stop> {
        let limit = self.answer_limit();
        let capped = self.limit_by_lease(limit);
        if capped == limit && self.capped.is_none() {
            return Ok(());
        }
        // If this fails, the session has ended, and the statement reports it.
        let _ = self.session()?.answer_within(capped);
        self.capped = (capped < limit).then_some(capped);
        Ok(())
    }

    /// Tells the coordinator whether a round of all servers came to nothing because they are read-only.
    fn report_read_only(&self, fault: &Fault) {
        let read_only = match fault {
            Fault::ReadOnly(line) => Some(cut(line)),
            _ => None,
        };
        self.link
            .send_if_heard(&FromClaimer::OnlyReadOnly(read_only));
    }

    /// Runs a statement on the session. `None`: its effect is unknown, or it was rolled back. A lost session is dropped.
    fn ask<T>(
        &mut self,
        ask: impl FnOnce(&mut Session) -> Result<T, Fault>,
    ) -> Result<Option<T>, Stop> {
        self.end_commands_of_the_stopped();
        self.check_coordinator()?;
        let tables = self.tables.clone();
        self.session()?;
        self.cap_answer()?;
        let session = self.session()?;
        let fault = match ask(session) {
            Ok(answer) => return Ok(Some(answer)),
            Err(fault) => tables.explain(fault),
        };
        let rolls_back = command("queue roll back", "ROLLBACK");
        match fault {
            Fault::Final(failure) => self.endure(failure).map(|()| None),
            Fault::NoRoom(cause) if session.run(&rolls_back).is_ok() => {
                let line = format!("{session} has no room: {cause}");
                session.tell(Level::Info, &format!("{line}; trying again"));
                self.set_fault(Some(Trouble {
                    line: cut(&line),
                    answers: true,
                }));
                self.wait_for_room();
                Ok(None)
            }
            fault @ (Fault::Conflict(_) | Fault::Interrupted(_))
                if session.run(&rolls_back).is_ok() =>
            {
                if matches!(fault, Fault::Conflict(_)) {
                    session.tell(Level::Info, &format!("{fault}; trying again"));
                }
                Ok(None)
            }
            fault => {
                let line = format!("lost the session with {session}: {fault}");
                self.drop_session(&line);
                Ok(None)
            }
        }
    }

    /// After a refusal that may pass, drops the session, and waits before another try. A proxy may have passed an error of one of its
    /// servers on, which must not end commands before the lease does.
    fn endure(&mut self, failure: Failure) -> Result<(), Stop> {
        let ttl = self.worker.as_ref().map(|worker| worker.queue.ttl);
        let now = Moment::now();
        let refused = self
            .refusals
            .latest
            .filter(|refused| now.since(refused.last) < REFUSALS_APART);
        let since = refused.map_or(now, |refused| refused.since);
        let passes = may_pass(&failure) && self.refusals.has_worked;
        if !passes || ttl.is_none_or(|ttl| now.since(since) >= ttl) {
            return Err(Stop::Failed(failure));
        }
        if refused.is_none() {
            let line = cut(&format!("{failure}; trying again"));
            self.link
                .send_if_heard(&FromClaimer::Note(Level::Warning, line));
        }
        self.drop_session(&failure.line);
        sleep(self.limit_by_lease(REFUSED_PAUSE));
        let last = Moment::now();
        self.refusals.latest = Some(Refused { since, last });
        Ok(())
    }

    /// Notes that a turn was carried out: refusals of other statements have not ended the work.
    fn note_no_refusal(&mut self) {
        self.refusals.has_worked = true;
        if let Some(refused) = &mut self.refusals.latest {
            refused.since = Moment::now();
        }
    }

    /// Drops a session that is of no more use, and says why.
    fn drop_session(&mut self, line: &str) {
        if let Some(session) = self.session.take() {
            session.tell(Level::Info, line);
            self.connector.try_last(&session);
        }
        self.say_fault(line);
    }

    /// Waits longer each time, but not beyond the next renewal.
    fn wait_for_room(&mut self) {
        let due = self.renewal_due().map(|due| due.since(Moment::now()));
        let left = due.map_or(LONGEST_WAIT, |left| left.max(LONGEST_PAUSE));
        sleep(self.no_room.min(left));
        self.no_room = (2 * self.no_room).min(LONGEST_WAIT);
    }

    /// Repeats a statement until it is answered, and renews the lease meanwhile. Only for statements that may run twice.
    fn ask_until_answered<T>(
        &mut self,
        mut ask: impl FnMut(&mut Session) -> Result<T, Fault>,
    ) -> Result<T, Stop> {
        let mut pause = SHORTEST_PAUSE;
        loop {
            self.keep_lease()?;
            if let Some(answer) = self.ask(&mut ask)? {
                return Ok(answer);
            }
            pause = sleep_longer(pause);
        }
    }

    fn worker(&mut self) -> Result<&mut Worker, Stop> {
        self.worker.as_mut().ok_or(Stop::Lost)
    }

    /// Records the last outcomes and counts, and deregisters the worker.
    fn deregister(&mut self) -> Result<(), Stop> {
        if !self.ended.is_empty() || self.counts != (0, 0) {
            self.counted = Moment::START;
            match self.carry_out(None) {
                Ok(over) => {
                    self.ended.clear();
                    self.check_queue(over.standing.has_queue)?;
                }
                // Deregistering hands its remaining jobs to others at once.
                Err(Stop::Forgotten) => {}
                Err(stop) => return Err(stop),
            }
        }
        let worker = self.worker()?.number;
        let deregister = queue::deregister(&self.tables, worker);
        let mut was_tried = false;
        let deregistered = self.ask_until_answered(|session| {
            was_tried = true;
            session.run(&deregister)
        });
        match deregistered {
            // An earlier attempt deregistered it, and its answer was lost.
            Err(Stop::Lost) if was_tried => Ok(()),
            other => other,
        }
    }
}

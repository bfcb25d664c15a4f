//! The process that has a worker's session: it registers the worker, claims jobs, renews the lease of all of them, and hands in what
//! has ended. It knows no command. A session that is lost loses no job: it connects again, and goes on.

mod exchange;
mod idle;
mod lease;
mod payloads;

use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::thread::sleep;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Pid;

use idle::EarlyPrune;

use super::message::{FromClaimer, ToClaimer, Trouble};
use super::{SESSION_LIMIT, Spec};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::{Level, Listener};
use crate::base::text::in_words;
use crate::db::{Connector, Fault, Plain, Session};
use crate::isolated::link::{Link, Next, cut, next};
use crate::isolated::process::{detach, fork_isolated, harden};
use crate::lock::{Introduction, Lease};
use crate::queue::{self, Ended, Opened, Queue, WorkerFacts, wake_lock};
use crate::schema::Tables;

/// Before a worker that has jobs claims again while there was nothing, and from one look at other workers to the next.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How long an idle worker waits behind others at most.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// From one attempt to the next.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);

const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// Waits so long; how long to wait the next time.
fn sleep_longer(pause: Duration) -> Duration {
    sleep(pause);
    (2 * pause).min(LONGEST_PAUSE)
}

/// Forks the claimer: its process, and the link to it. One that takes over for another goes on with its worker.
///
/// # Errors
/// [`Reason::OsRefused`].
pub fn fork_off(
    spec: &Spec,
    facts: &WorkerFacts,
    shown: Level,
    resumed: Option<Resumed>,
) -> Result<(Pid, Link), Failure> {
    fork_isolated(
        |link, parent| claim(spec, facts, shown, resumed, &link, parent),
        FromClaimer::Failed,
    )
}

/// What a claimer has left that died.
#[derive(Debug, Clone)]
pub struct Resumed {
    /// The queue.
    pub queue: Queue,
    /// The worker's number.
    pub worker: u64,
    /// What the coordinator knows that it has, each by its first job and its fence. What else there is goes back.
    pub known: Vec<(u64, u64)>,
}

fn claim(
    spec: &Spec,
    facts: &WorkerFacts,
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
    let mut claimer = Claimer {
        spec,
        facts,
        link,
        connector,
        tables,
        lock,
        session: None,
        fault: None,
        opened: None,
        worker: resumed.map(|resumed| Worker {
            number: resumed.worker,
            queue: resumed.queue,
            turn: None,
            lease: None,
            known: Some(resumed.known),
        }),
        ended: Vec::new(),
        counts: (0, 0),
        counted: Moment::now(),
        fruitless_pause: SHORTEST_PAUSE,
        no_room: LONGEST_PAUSE,
        has_more: false,
        shard: 0,
        head: Head::No,
        timeout: Timeout::OfLease,
        looked: Moment::START,
        pruned: Moment::now(),
        early_prune: EarlyPrune::of(spec.until),
        has_said_paused: false,
        is_stuck: false,
    };
    claimer.run()
}

/// A registered worker.
struct Worker {
    number: u64,
    queue: Queue,
    /// The number of the last turn; `None`: it is to be asked.
    turn: Option<u64>,
    /// `None`: it is to be renewed before anything else.
    lease: Option<Lease>,
    /// What another claimer has left of which the coordinator knows; `None`: all that there is.
    known: Option<Vec<(u64, u64)>>,
}

struct Claimer<'a> {
    spec: &'a Spec,
    facts: &'a WorkerFacts,
    link: &'a Link,
    connector: Connector,
    tables: Tables,
    /// The named lock of the idle worker that is woken next.
    lock: String,
    session: Option<Session>,
    /// Why nothing was recorded, as the coordinator knows it.
    fault: Option<Trouble>,
    /// What the session's server can do.
    opened: Option<Opened>,
    worker: Option<Worker>,
    ended: Vec<Ended>,
    /// How many jobs are done and have failed since it was recorded last.
    counts: (u64, u64),
    counted: Moment,
    /// Whether more may be due in the shard that was turned to last.
    has_more: bool,
    /// How long to wait after the next look that said there is something, while nothing is claimed: others have it locked.
    fruitless_pause: Duration,
    /// How long to wait the next time that the server has no room.
    no_room: Duration,
    shard: u16,
    /// Whether this is the idle worker that is woken next.
    head: Head,
    /// How long the server keeps the session without a statement.
    timeout: Timeout,
    /// When it was last looked for delayed jobs and dead workers.
    looked: Moment,
    /// When what is too old was last deleted.
    pruned: Moment,
    /// Whether that is to be done sooner, by a worker that may end soon.
    early_prune: EarlyPrune,
    /// Whether a worker that is to end by itself has said that its queue is paused.
    has_said_paused: bool,
    /// Whether there was no room for payloads: nothing more is claimed.
    is_stuck: bool,
}

/// Whether a worker is the idle one that is woken next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Head {
    /// It is not.
    No,
    /// Its session holds the lock that says so.
    Holds,
    /// There are no such locks: each looks for itself.
    WithoutLock,
    /// It may hold the lock: the answer is not known.
    Unknown,
}

/// How long the server keeps a session without a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timeout {
    /// As long as the lease lasts.
    OfLease,
    /// That, or briefly: the answer of the statement that was to set it is not known.
    Unknown,
    /// Briefly, as an idle worker's.
    Short,
}

/// Why a turn comes to nothing.
enum Stop {
    /// The worker's lease was over, and others have its jobs.
    Lost,
    /// The server has lost what it had confirmed: another claimer goes on with what the coordinator knows that the worker has.
    Forgotten,
    /// There is no room for the payloads of what was claimed.
    NoPayloads(Failure),
    /// The claimer cannot go on.
    Failed(Failure),
}

type Turned<T> = Result<T, Stop>;

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
                    counts,
                    ..
                }) => {
                    self.count(counts);
                    self.take_turn(want, waits)
                }
                Next::Message(ToClaimer::Stop) => Ok(()),
                Next::Message(ToClaimer::Deregister { counts, .. }) => {
                    self.count(counts);
                    let turned = self.deregister();
                    if turned.is_ok() {
                        // The coordinator ends this process at once: the server has the good-bye by then.
                        self.session = None;
                        self.say(&FromClaimer::Deregistered);
                    }
                    return self.goes_on(turned).map(|_| ());
                }
                Next::Gone => return Ok(()),
                Next::Late => self.renew(),
            };
            if !self.goes_on(turned)? {
                return Ok(());
            }
        }
    }

    /// Whether this claimer goes on after a turn.
    fn goes_on(&mut self, turned: Turned<()>) -> Result<bool, Failure> {
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

    /// The next message, or that a renewal is due: it is at once when the server has ended the session.
    fn next(&mut self) -> Next<ToClaimer> {
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

    fn count(&mut self, (done, failed): (u64, u64)) {
        self.counts.0 += done;
        self.counts.1 += failed;
    }

    fn say(&self, message: &FromClaimer) {
        let _ = self.link.send(message);
    }

    /// Says something, and renews the lease as long as there is no room for it on the link: a coordinator that is stopped keeps its jobs.
    fn send_in_time(
        &mut self,
        message: &FromClaimer,
        descriptor: Option<BorrowedFd>,
    ) -> Turned<()> {
        let mut has_waited = false;
        // Where the coordinator is gone, the next message says so.
        while !self.link.try_send(message, descriptor).unwrap_or(true) {
            has_waited = true;
            let due = self.renewal_due();
            let left = due.map_or(LONGEST_WAIT, |due| due.since(Moment::now()));
            self.link.await_room(left.max(SHORTEST_PAUSE));
            self.keep_lease()?;
        }
        if has_waited {
            self.repeat_unheard();
        }
        Ok(())
    }

    /// Says again what there may have been no room for.
    fn repeat_unheard(&mut self) {
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

    /// Says why there is no session, unless the coordinator knows it.
    fn say_fault(&mut self, line: &str) {
        self.set_fault(Some(Trouble {
            line: cut(line),
            answers: false,
        }));
    }

    /// Says why nothing is recorded, or that something was, unless the coordinator knows it.
    fn set_fault(&mut self, fault: Option<Trouble>) {
        if self.fault != fault {
            self.link.send_if_heard(&FromClaimer::Fault(fault.clone()));
            self.fault = fault;
        }
    }

    /// Adds what has ended to what is to be handed in.
    fn take_in(&mut self, ended: Vec<Ended>) {
        for mut one in ended {
            match self.ended.last_mut() {
                Some(last) if last.unit == one.unit => {
                    // A block that was still running may have ended since.
                    last.outcome = one.outcome;
                    last.others.append(&mut one.others);
                }
                _ => self.ended.push(one),
            }
        }
    }

    /// A session, if need be a new one. The attempts go on without end: it is the coordinator that sets a limit.
    fn session(&mut self) -> Turned<&mut Session> {
        let session = match self.session.take() {
            Some(session) => session,
            None => self.connect()?,
        };
        Ok(self.session.insert(session))
    }

    fn connect(&mut self) -> Turned<Session> {
        (self.head, self.timeout) = (Head::No, Timeout::OfLease);
        loop {
            let (tables, name) = (&self.tables, &self.spec.queue);
            let opened = self.connector.connect(|session| {
                // An idle worker's answer takes its time.
                let limit = self.connector.attempt_limit() + LONGEST_WAIT;
                session
                    .answer_within(limit)
                    .map_err(|error| Fault::Gone(in_words(&error)))?;
                queue::open_for_work(tables, name, session)
            });
            match opened {
                Ok((session, opened)) => {
                    // Where there is no room for it, it is said when there is.
                    let _ = self
                        .link
                        .try_send(&FromClaimer::Session, Some(session.as_fd()));
                    self.fault = None;
                    self.opened = Some(opened);
                    return Ok(session);
                }
                Err(Fault::Final(failure)) => return Err(Stop::Failed(failure)),
                Err(fault) => {
                    self.report_read_only(&fault);
                    if let Some(last) = self.connector.passed_over().pop() {
                        self.say_fault(&last.line);
                    }
                    sleep(self.connector.pause());
                }
            }
        }
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

    /// Carries out a statement on a session; one that is lost is replaced, and the fault returned, for what it did is unknown.
    fn ask<T>(&mut self, ask: impl FnOnce(&mut Session) -> Result<T, Fault>) -> Turned<Option<T>> {
        let tables = self.tables.clone();
        let session = self.session()?;
        let fault = match ask(session) {
            Ok(answer) => return Ok(Some(answer)),
            Err(fault) => tables.explain(fault),
        };
        let rolls_back = Plain("/* dblock queue roll back */ ROLLBACK".to_owned());
        match fault {
            Fault::Final(failure) => Err(Stop::Failed(failure)),
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
            Fault::Conflict(_) | Fault::Interrupted(_) if session.run(&rolls_back).is_ok() => {
                Ok(None)
            }
            fault => {
                let line = format!("lost the session with {session}: {fault}");
                session.tell(Level::Info, &line);
                if let Some(session) = self.session.take() {
                    self.connector.try_last(&session);
                }
                self.say_fault(&line);
                Ok(None)
            }
        }
    }

    /// Waits longer each time, but not beyond the next renewal.
    fn wait_for_room(&mut self) {
        let due = self.renewal_due().map(|due| due.since(Moment::now()));
        let left = due.map_or(LONGEST_WAIT, |left| left.max(LONGEST_PAUSE));
        sleep(self.no_room.min(left));
        self.no_room = (2 * self.no_room).min(LONGEST_WAIT);
    }

    /// Asks as often as it takes. Only for what may be carried out twice. The lease is renewed meanwhile.
    fn ask_until_answered<T>(
        &mut self,
        mut ask: impl FnMut(&mut Session) -> Result<T, Fault>,
    ) -> Turned<T> {
        let mut pause = SHORTEST_PAUSE;
        loop {
            self.keep_lease()?;
            if let Some(answer) = self.ask(&mut ask)? {
                return Ok(answer);
            }
            pause = sleep_longer(pause);
        }
    }

    fn worker(&mut self) -> Turned<&mut Worker> {
        self.worker.as_mut().ok_or(Stop::Lost)
    }

    /// Hands in what has ended and the counts, and deregisters the worker.
    fn deregister(&mut self) -> Turned<()> {
        if !self.ended.is_empty() || self.counts != (0, 0) {
            self.counted = Moment::START;
            match self.carry_out(None) {
                Ok(over) => {
                    self.ended.clear();
                    self.check_queue(over.standing.has_queue)?;
                }
                // What it has by that is others' at once.
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
            // Its answer was lost: it is not there any more because it was carried out.
            Err(Stop::Lost) if was_tried => Ok(()),
            other => other,
        }
    }
}

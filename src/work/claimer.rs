//! The process that has a worker's session: it registers the worker, claims jobs, renews the lease of all of them, and hands in what
//! has ended. It knows no command. A session that is lost loses no job: it connects again, and goes on.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::thread::sleep;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Pid;

use super::message::{Claimed, FromClaimer, Job, ToClaimer};
use super::payload;
use super::{SESSION_LIMIT, Spec, Until};
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::base::log::{Level, Listener};
use crate::base::text::in_words;
use crate::db::{Connector, Fault, Plain, Session};
use crate::isolated::link::{Link, Next, cut, next};
use crate::isolated::process::{detach, fork_isolated, harden};
use crate::lock::{Introduction, Lease};
use crate::queue::{
    self, AskCandidates, AskRunning, AskShards, AskTurn, AwaitHead, Claim, Ended, Exchange,
    FindRegistration, Idle, JobEnd, LookOrSleep, Opened, Queue, ReadBlock, ReadPart, Register,
    Renew, Step, Turn, TurnOver, Unit, Verdict, Want, WorkerFacts, wake_lock,
};
use crate::schema::Tables;

/// Before a worker that has jobs claims again while there was nothing, and from one look at other workers to the next.
const LOOK: Duration = Duration::from_secs(1);

/// From one deletion of what is too old to the next, and how long it takes at most.
const PRUNE: Duration = Duration::from_secs(10);
const LONGEST_PRUNE: Duration = Duration::from_millis(200);

/// How long an idle worker waits behind others at most.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Units and jobs of one message at most: a packet has 32 KB.
const UNITS: usize = 80;
const JOBS: usize = 300;

/// Jobs of a block that are read at once.
const READ: usize = 500;

/// Where jobs that others are about to claim cannot be skipped: so many times as many candidates as are wanted.
const CANDIDATES: u32 = 4;

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
    /// What the coordinator knows that it has, each by its first job. What else there is goes back.
    pub known: Vec<u64>,
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
        shard: 0,
        is_head: false,
        awaits_head: false,
        has_named_locks: true,
        looked: Moment::START,
        pruned: Moment::now(),
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
    known: Option<Vec<u64>>,
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
    /// What the session's server can do.
    opened: Option<Opened>,
    worker: Option<Worker>,
    ended: Vec<Ended>,
    /// How many jobs are done and have failed since it was recorded last.
    counts: (u64, u64),
    counted: Moment,
    shard: u16,
    /// Whether the session holds the lock of the idle worker that is woken next.
    is_head: bool,
    /// Whether the session has asked for that lock, and is not kept for long by the server.
    awaits_head: bool,
    /// Whether the server has such locks, as far as is known.
    has_named_locks: bool,
    /// When it was last looked for delayed jobs and dead workers.
    looked: Moment,
    /// When what is too old was last deleted.
    pruned: Moment,
}

/// Why a turn comes to nothing.
enum Stop {
    /// The worker's lease was over, and others have its jobs.
    Lost,
    /// The claimer cannot go on.
    Failed(Failure),
}

type Turned<T> = Result<T, Stop>;

impl Claimer<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        loop {
            if let Err(stop) = self.ensure_lease() {
                match stop {
                    Stop::Failed(failure) => return Err(failure),
                    Stop::Lost => {
                        self.lose();
                        continue;
                    }
                }
            }
            match self.next() {
                Next::Message(ToClaimer::Ended(ended)) => self.take_in(ended),
                Next::Message(ToClaimer::Turn {
                    want,
                    waits,
                    counts,
                }) => {
                    self.count(counts);
                    match self.take_turn(want, waits) {
                        Ok(()) => {}
                        Err(Stop::Lost) => self.lose(),
                        Err(Stop::Failed(failure)) => return Err(failure),
                    }
                }
                Next::Message(ToClaimer::Stop) => {}
                Next::Message(ToClaimer::Leave { counts }) => {
                    self.count(counts);
                    self.leave();
                    let _ = self.link.send(&FromClaimer::Left);
                    return Ok(());
                }
                Next::Gone => return Ok(()),
                Next::Late => match self.renew() {
                    Ok(()) => {}
                    Err(Stop::Lost) => self.lose(),
                    Err(Stop::Failed(failure)) => return Err(failure),
                },
            }
        }
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
                session.tell(Level::Info, &format!("{session} has ended the session"));
                self.session = None;
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

    fn renewal_due(&self) -> Option<Moment> {
        let lease = self.worker.as_ref().and_then(|worker| worker.lease)?;
        Some(lease.next_renewal())
    }

    /// Adds what has ended to what is to be handed in.
    fn take_in(&mut self, ended: Vec<Ended>) {
        for mut one in ended {
            match self.ended.last_mut() {
                Some(last) if last.unit == one.unit => last.others.append(&mut one.others),
                _ => self.ended.push(one),
            }
        }
    }

    fn lose(&mut self) {
        self.worker = None;
        self.ended.clear();
        self.say(&FromClaimer::Lost(
            "its lease was over, and its jobs are others'".to_owned(),
        ));
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
        (self.is_head, self.awaits_head) = (false, false);
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
                    let _ = self.link.send_with(&FromClaimer::Session, session.as_fd());
                    self.opened = Some(opened);
                    return Ok(session);
                }
                Err(Fault::Final(failure)) => return Err(Stop::Failed(failure)),
                Err(_) => sleep(self.connector.pause()),
            }
        }
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
            Fault::Conflict(_) | Fault::Interrupted(_) if session.run(&rolls_back).is_ok() => {
                Ok(None)
            }
            fault => {
                session.tell(
                    Level::Info,
                    &format!("lost the session with {session}: {fault}"),
                );
                if let Some(session) = self.session.take() {
                    self.connector.try_last(&session);
                }
                Ok(None)
            }
        }
    }

    /// Asks as often as it takes. Only for what may be carried out twice.
    fn insist<T>(&mut self, mut ask: impl FnMut(&mut Session) -> Result<T, Fault>) -> Turned<T> {
        let mut pause = Duration::from_millis(2);
        loop {
            if let Some(answer) = self.ask(&mut ask)? {
                return Ok(answer);
            }
            sleep(pause);
            pause = (2 * pause).min(Duration::from_millis(200));
        }
    }

    /// Registers the worker, or renews the lease of one that has gone on for another claimer.
    fn ensure_lease(&mut self) -> Turned<()> {
        if self.worker.is_none() {
            self.session()?;
            let Some(opened) = self.opened.clone() else {
                return Err(Stop::Lost);
            };
            let (tables, facts, queue) = (self.tables.clone(), self.facts, opened.queue);
            let sent = Moment::now();
            let register = Register {
                tables: &tables,
                queue: &queue,
                facts,
            };
            let mut number = self.ask(|session| session.run_batch(&register))?;
            if number.is_none() {
                let find = FindRegistration(register);
                number = self.insist(|session| session.run(&find))?;
            }
            let Some(number) = number else {
                return Ok(());
            };
            let lease = Lease {
                ttl: queue.ttl,
                proved: sent,
            };
            self.shard = chance_below(queue.shards);
            self.say(&FromClaimer::Registered(
                Box::new(queue.clone()),
                number,
                lease,
            ));
            self.worker = Some(Worker {
                number,
                queue,
                turn: Some(0),
                lease: Some(lease),
                known: None,
            });
        }
        if self
            .worker
            .as_ref()
            .is_some_and(|worker| worker.lease.is_none())
        {
            self.renew()?;
        }
        if let Some(known) = self.worker()?.known.take() {
            self.give_back_unknown(&known)?;
        }
        Ok(())
    }

    /// What a claimer that died has claimed without having said so goes back.
    fn give_back_unknown(&mut self, known: &[u64]) -> Turned<()> {
        let tables = self.tables.clone();
        let ask = AskRunning {
            tables: &tables,
            worker: self.worker()?.number,
        };
        let units = self.insist(|session| session.run(&ask))?;
        let unknown = units.into_iter().filter(|unit| !known.contains(&unit.job));
        self.ended.extend(unknown.map(|unit| Ended {
            unit,
            outcome: JobEnd::GivenBack,
            others: Vec::new(),
        }));
        if !self.ended.is_empty() {
            self.exchange_in(0, 0)?;
        }
        Ok(())
    }

    fn worker(&mut self) -> Turned<&mut Worker> {
        self.worker.as_mut().ok_or(Stop::Lost)
    }

    fn confirm(&mut self, sent: Moment) {
        if let Some(worker) = &mut self.worker {
            worker.lease = Some(Lease {
                ttl: worker.queue.ttl,
                proved: sent,
            });
            self.link.send_if_heard(&FromClaimer::Confirmed(sent));
        }
    }

    fn renew(&mut self) -> Turned<()> {
        let worker = self.worker()?;
        let (number, takes_over) = (worker.number, worker.lease.is_none());
        let tables = self.tables.clone();
        let renew = Renew {
            tables: &tables,
            worker: number,
            takes_over,
        };
        loop {
            let sent = Moment::now();
            let Some(standing) = self.ask(|session| session.run_batch(&renew))? else {
                continue;
            };
            if standing.turn.is_none() {
                return Err(Stop::Lost);
            }
            self.worker()?.turn = standing.turn;
            self.confirm(sent);
            return self.check_queue(standing.has_queue);
        }
    }

    fn check_queue(&mut self, is_there: bool) -> Turned<()> {
        if is_there {
            return Ok(());
        }
        // The worker's row is the last that is left of it.
        let number = self.worker()?.number;
        let vanish = queue::vanish(&self.tables, number);
        let _ = self.ask(|session| vanish.iter().try_for_each(|delete| session.run(delete)));
        let line = format!("the queue {} was deleted", self.spec.queue);
        Err(Stop::Failed(Failure::new(Reason::Configuration, line)))
    }

    /// Hands in what has ended, and claims what is due; where it `waits`, until there is something.
    fn take_turn(&mut self, want: u32, waits: bool) -> Turned<()> {
        if !waits && self.looked.elapsed() > LOOK {
            self.look()?;
        }
        let mut had = self.exchange(want)?;
        // A worker that ends when nothing is due does not end on the word of a glance at what nobody else was claiming.
        if !waits && had == 0 && want > 0 && self.spec.until != Until::Stopped && self.look()? {
            sleep(Duration::from_millis(2));
            self.say(&FromClaimer::TurnOver { nothing_due: false });
            return Ok(());
        }
        while waits && had == 0 {
            if self.link.is_readable() {
                break;
            }
            if self.await_work()? {
                had = self.exchange(want)?;
            }
        }
        self.say(&FromClaimer::TurnOver {
            nothing_due: had < want,
        });
        Ok(())
    }

    /// Looks after delayed jobs and dead workers; whether there may be something to claim.
    fn look(&mut self) -> Turned<bool> {
        self.looked = Moment::now();
        let (tables, queue) = (self.tables.clone(), self.worker()?.queue.clone());
        let look = LookOrSleep {
            tables: &tables,
            queue: &queue,
            limit: Duration::ZERO,
        };
        let Some(idle) = self.ask(|session| session.run(&look))? else {
            return Ok(true);
        };
        self.act_on(idle)?;
        Ok(idle.is_due || idle.is_delayed_due && !idle.is_paused || idle.has_dead)
    }

    fn act_on(&mut self, idle: Idle) -> Turned<()> {
        self.check_queue(idle.has_queue)?;
        let (tables, queue) = (self.tables.clone(), self.worker()?.queue.clone());
        if idle.has_dead
            && let Some(dead) = self.ask(|session| queue::rescue(&tables, &queue, session))?
            && dead > 0
        {
            let line = format!("gave back what {dead} dead workers had");
            self.say(&FromClaimer::Note(Level::Info, line));
        }
        if idle.is_delayed_due {
            let skips = self
                .opened
                .as_ref()
                .is_some_and(|opened| opened.skips_locked);
            self.ask(|session| queue::promote(&tables, &queue, skips, session))?;
        }
        if self.pruned.elapsed() > PRUNE {
            self.pruned = Moment::now();
            let mut prune = || self.ask(|session| queue::prune(&tables, &queue, session));
            let begun = Moment::now();
            while prune()? == Some(true) && begun.elapsed() < LONGEST_PRUNE {}
        }
        Ok(())
    }

    /// Waits until there may be something to claim, or a moment; whether there may be.
    fn await_work(&mut self) -> Turned<bool> {
        let (tables, queue) = (self.tables.clone(), self.worker()?.queue.clone());
        let due = self.renewal_due().unwrap_or_else(Moment::now);
        let left = due.since(Moment::now());
        if left.is_zero() {
            self.renew()?;
            return Ok(false);
        }
        if !self.is_head {
            let lock = self.lock.clone();
            let head = AwaitHead {
                lock: &lock,
                limit: left.min(LONGEST_WAIT).as_secs().max(1),
            };
            self.awaits_head = true;
            let waited = self.ask(|session| match session.run_batch(&head) {
                // Each looks for itself, where there are no such locks.
                Err(Fault::NoNamedLocks(_)) => Ok(None),
                waited => waited.map(Some),
            })?;
            self.has_named_locks = waited != Some(None);
            self.is_head = waited.is_some_and(|waited| waited != Some(false));
            if self.session.is_none() || !self.is_head {
                // It is the head that looks: who waits behind it asks for nothing else.
                return Ok(false);
            }
        }
        let look = LookOrSleep {
            tables: &tables,
            queue: &queue,
            limit: LOOK.min(left),
        };
        let look = |session: &mut Session| match session.run(&look) {
            // Nothing is under way that would be to be rolled back.
            Err(Fault::Interrupted(_)) => Ok(None),
            idle => idle.map(Some),
        };
        let Some(idle) = self.ask(look)?.flatten() else {
            // It was woken, or the session is lost.
            return Ok(self.session.is_some());
        };
        self.act_on(idle)?;
        Ok(idle.is_due || idle.is_delayed_due && !idle.is_paused || idle.has_dead)
    }

    /// One turn, or where several shards have jobs some more, until so many are claimed as are wanted. How many were.
    fn exchange(&mut self, want: u32) -> Turned<u32> {
        let shard = self.shard;
        let mut had = self.exchange_in(want, shard)?;
        let shards = self.worker()?.queue.shards;
        self.shard = (shard + 1) % shards;
        if had >= want || shards == 1 {
            return Ok(had);
        }
        let (tables, queue) = (self.tables.clone(), self.worker()?.queue.clone());
        let ask = AskShards {
            tables: &tables,
            queue: &queue,
        };
        let mut shards = self.ask(|session| session.run(&ask))?.unwrap_or_default();
        let offset = usize::from(shard) % shards.len().max(1);
        shards.rotate_left(offset);
        for shard in shards {
            if had >= want {
                break;
            }
            had += self.exchange_in(want - had, shard)?;
        }
        Ok(had)
    }

    fn exchange_in(&mut self, want: u32, shard: u16) -> Turned<u32> {
        let want = self.what_to_want(want, shard)?;
        if want.is_none() && self.ended.is_empty() {
            return Ok(0);
        }
        let over = self.carry_out(want.as_ref())?;
        self.ended.clear();
        let had = self.pass_on(&over)?;
        self.check_queue(over.standing.has_queue)?;
        Ok(had)
    }

    fn what_to_want(&mut self, want: u32, shard: u16) -> Turned<Option<Want>> {
        if want == 0 {
            return Ok(None);
        }
        let queue = self.worker()?.queue.clone();
        let limit = match queue.claim {
            Claim::Rows => want,
            Claim::Blocks => 1,
        };
        // What the server can do is known with the session.
        self.session()?;
        if self
            .opened
            .as_ref()
            .is_some_and(|opened| opened.skips_locked)
        {
            return Ok(Some(Want {
                limit,
                shard,
                among: None,
            }));
        }
        let tables = self.tables.clone();
        let ask = AskCandidates {
            tables: &tables,
            queue: &queue,
            shard,
            limit: limit.saturating_mul(CANDIDATES),
        };
        let mut among = self.ask(|session| session.run(&ask))?.unwrap_or_default();
        while among.len() > limit as usize {
            let at = usize::from(chance_below(u16::try_from(among.len()).unwrap_or(u16::MAX)));
            among.swap_remove(at);
        }
        let is_any = !among.is_empty();
        Ok(is_any.then_some(Want {
            limit,
            shard,
            among: Some(among),
        }))
    }

    /// Carries out a turn once, however often it must be asked what became of it.
    fn carry_out(&mut self, want: Option<&Want>) -> Turned<TurnOver> {
        let (tables, ended) = (self.tables.clone(), std::mem::take(&mut self.ended));
        let worker = self.worker()?;
        let (number, queue, last) = (worker.number, worker.queue.clone(), worker.turn);
        let last = last.unwrap_or_default();
        let lock = self.lock.clone();
        let counts = if self.counted.elapsed() > LOOK {
            self.counts
        } else {
            (0, 0)
        };
        let mut exchange = Exchange::after(last);
        let mut pause = Duration::from_millis(2);
        // Where an answer was lost the lease counts from the first time: what is only looked up renews nothing.
        let sent = Moment::now();
        let outcome = loop {
            let turn = Turn {
                tables: &tables,
                queue: &queue,
                worker: number,
                number: exchange.number(),
                ended: &ended,
                counts,
                want: want.cloned(),
                awakes: self.awaits_head,
                release: (self.awaits_head && self.has_named_locks).then_some(&*lock),
            };
            let asked = self.ask(|session| match exchange.step() {
                Step::CarryOut => session.run_batch(&turn),
                Step::LookUp => session.run_batch(&AskTurn(&turn)),
            });
            match asked {
                Ok(Some(over)) => match exchange.on_answer(over.standing.turn) {
                    Verdict::Done => break Ok(over),
                    Verdict::Lost => break Err(Stop::Lost),
                    Verdict::Again => {}
                },
                Ok(None) => exchange.on_silence(),
                Err(stop) => break Err(stop),
            }
            sleep(pause);
            pause = (2 * pause).min(Duration::from_millis(200));
        };
        self.ended = ended;
        if outcome.is_ok() {
            // Where the answer was lost, it may hold the lock still: the next turn releases it.
            if exchange.step() == Step::CarryOut {
                (self.is_head, self.awaits_head) = (false, false);
            }
            self.worker()?.turn = Some(exchange.number());
            self.confirm(sent);
            if counts != (0, 0) {
                self.counts = (self.counts.0 - counts.0, self.counts.1 - counts.1);
                self.counted = Moment::now();
            }
        }
        outcome
    }

    /// Reads the payloads of what was claimed, and passes all of it on. How many jobs it is.
    fn pass_on(&mut self, over: &TurnOver) -> Turned<u32> {
        let mut had = 0;
        let mut pending: Vec<Claimed> = Vec::new();
        let mut file = payloads()?;
        let mut at = 0;
        for (unit, parts, payload) in &over.claimed {
            if unit.block == 0 {
                let length = self.write_payload(&mut file, unit.job, *parts, payload.as_deref())?;
                let job = Job {
                    id: unit.job,
                    offset: at,
                    length,
                };
                at += length;
                pending.push(Claimed {
                    unit: unit.clone(),
                    of: 1,
                    jobs: vec![job],
                });
                had += 1;
            } else {
                had += self.pass_on_block(unit)?;
            }
            if pending.len() >= UNITS {
                self.send_claimed(std::mem::take(&mut pending), &file);
                file = payloads()?;
                at = 0;
            }
        }
        if !pending.is_empty() {
            self.send_claimed(pending, &file);
        }
        Ok(had)
    }

    fn send_claimed(&self, claimed: Vec<Claimed>, file: &File) {
        let _ = self
            .link
            .send_with(&FromClaimer::Claimed(claimed), file.as_fd());
    }

    /// Bytes that it has.
    fn write_payload(
        &mut self,
        file: &mut File,
        job: u64,
        parts: u32,
        payload: Option<&[u8]>,
    ) -> Turned<u64> {
        let mut length = 0;
        let mut write = |bytes: &[u8]| {
            length += bytes.len() as u64;
            file.write_all(bytes).map_err(|error| refused(&error))
        };
        write(payload.unwrap_or_default())?;
        let tables = self.tables.clone();
        for part in 0..parts {
            let read = ReadPart {
                tables: &tables,
                job,
                part,
            };
            let bytes = self.insist(|session| session.run(&read))?;
            write(&bytes.unwrap_or_default())?;
        }
        Ok(length)
    }

    fn pass_on_block(&mut self, unit: &Unit) -> Turned<u32> {
        let tables = self.tables.clone();
        let mut jobs = Vec::new();
        let mut file = payloads()?;
        let mut at = 0;
        let mut in_parts = false;
        let mut from = unit.job;
        loop {
            let read = ReadBlock {
                tables: &tables,
                jobs: (from, unit.last_job),
                block: unit.block,
                limit: READ,
            };
            let found = self.insist(|session| session.run(&read))?;
            for job in &found {
                in_parts |= job.parts > 0;
                let length =
                    self.write_payload(&mut file, job.id, job.parts, job.payload.as_deref())?;
                jobs.push(Job {
                    id: job.id,
                    offset: at,
                    length,
                });
                at += length;
            }
            match found.last() {
                Some(last) if found.len() == READ && last.id < unit.last_job => from = last.id + 1,
                _ => break,
            }
        }
        // Whoever goes on after this process has to ask, but here it is known.
        let unit = &Unit {
            has_parts: in_parts,
            ..unit.clone()
        };
        let of = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
        if jobs.is_empty() {
            // All of them were canceled.
            self.ended.push(Ended {
                unit: unit.clone(),
                outcome: JobEnd::Done,
                others: Vec::new(),
            });
        }
        for chunk in jobs.chunks(JOBS) {
            let claimed = Claimed {
                unit: unit.clone(),
                of,
                jobs: chunk.to_vec(),
            };
            self.send_claimed(vec![claimed], &file);
        }
        Ok(of)
    }

    /// Hands in what has ended, and takes leave.
    fn leave(&mut self) {
        if !self.ended.is_empty() {
            self.counted = Moment::START;
            if self.exchange_in(0, 0).is_err() {
                return;
            }
        }
        let Some(worker) = &self.worker else { return };
        let leave = queue::leave(&self.tables, worker.number);
        let _ = self.insist(|session| session.run(&leave));
    }
}

fn payloads() -> Turned<File> {
    payload::file().map_err(|error| refused(&error))
}

fn refused(error: &std::io::Error) -> Stop {
    let line = format!("cannot keep a payload: {}", in_words(error));
    Stop::Failed(Failure::new(Reason::OsRefused, line))
}

/// A number from 0 to below this, by chance.
fn chance_below(limit: u16) -> u16 {
    let chance = getrandom::u32().unwrap_or_default();
    u16::try_from(chance % u32::from(limit.max(1))).unwrap_or_default()
}
